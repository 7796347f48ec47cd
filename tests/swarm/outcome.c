/* See outcome.h. Structs are hashed byte by byte, as compare.c compares them; sums of histograms,
 * whose last bits hang on the order of addition, are left out. */
#include "tests/swarm/outcome.h"
#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

static uint64_t fold(uint64_t hash, const void *bytes, size_t size) {
  return hash_fold(hash, hash_bytes(bytes, size));
}

static uint64_t fold_metrics(uint64_t hash, const Metrics *metrics) {
  Metrics rest = *metrics;
  for (int i = 0; i < METRICS_HISTOGRAMS; i++)
    hash = fold(hash, rest.histograms[i].counts, rest.histograms[i].n_counts * sizeof(uint64_t));
  memset(rest.histograms, 0, sizeof rest.histograms);
  return fold(hash, &rest, offsetof(Metrics, last_arrival_at)); // the digest has all arrivals
}

/* All of them but the last field: where their time went is no outcome. */
static uint64_t fold_records(uint64_t hash, const RequestRecord *records, int n) {
  const size_t size = offsetof(RequestRecord, parts);
  char *bytes = malloc((size_t)n * size);
  for (int i = 0; i < n; i++)
    memcpy(bytes + (size_t)i * size, &records[i], size);
  hash = fold(hash, bytes, (size_t)n * size);
  free(bytes);
  return hash;
}

/* What few clusters have stands last in the books; where it is nothing it is left out, so that it
 * moves no outcome of the others. */
static uint64_t fold_totals(uint64_t hash, const InstanceTotals *totals, size_t n) {
  const size_t size = offsetof(InstanceTotals, milliwatt_ticks), rest = sizeof *totals - size;
  const InstanceTotals nothing = {0};
  char *bytes = calloc(n, size);
  for (size_t i = 0; i < n; i++)
    memcpy(bytes + i * size, &totals[i], size);
  hash = fold(hash, bytes, n * size);
  free(bytes);
  for (size_t i = 0; i < n; i++)
    if (memcmp(&totals[i].milliwatt_ticks, &nothing.milliwatt_ticks, rest) != 0)
      hash = fold(hash, &totals[i].milliwatt_ticks, rest);
  return hash;
}

uint64_t outcome_of(const SimResult *result, const RequestRecord *records, int n_records) {
  const uint64_t hash = fold_metrics(result->digest, &result->metrics);
  return fold_totals(fold_records(hash, records, n_records), result->instances,
                     result->n_instances);
}
