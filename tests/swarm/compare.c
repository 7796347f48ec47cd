/* See compare.h. */
#include "tests/swarm/compare.h"
#include <math.h>
#include <string.h>

static bool same_sum(double a, double b, double off) {
  return fabs(a - b) <= off + 1e-12 * (fabs(a) + fabs(b));
}

/* Values of a series are added in fractions of a tick, others in whole ones. */
bool same_histogram(const Histogram *a, const Histogram *b) {
  const double off = (double)a->total;
  return histogram_same_counts(a, b) && same_sum(a->sum, b->sum, off) &&
         same_sum(a->sum_squares, b->sum_squares, 2 * off * ((double)a->max + 1));
}

bool same_metrics(const Metrics *a, const Metrics *b) {
  Metrics one = *a, other = *b;
  for (int i = 0; i < METRICS_HISTOGRAMS; i++) {
    // gaps, and the first of a request, come with the part of a run that they are in, and that may
    // end behind others; all else is added to in one order
    const bool in_parts =
        metrics_histograms[i].asked == ASKED_gaps || &one.histograms[i] == &one.second_token;
    if (!same_histogram(&one.histograms[i], &other.histograms[i]) ||
        (!in_parts && one.histograms[i].sum != other.histograms[i].sum))
      return false;
  }
  memset(one.histograms, 0, sizeof one.histograms);
  memset(other.histograms, 0, sizeof other.histograms);
  one.components = other.components = NULL; // those of its own run, which check_books looks at
  return memcmp(&one, &other, sizeof one) == 0;
}

bool same_totals(const InstanceTotals *a, const InstanceTotals *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

bool same_record(const RequestRecord *a, const RequestRecord *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

/* For how long so many of its instances were up. */
static bool same_uptime(const PoolResult *a, const PoolResult *b) {
  if (!a->up_ticks || !b->up_ticks) return a->up_ticks == b->up_ticks;
  const size_t n = pool_machines(a->pool) + 1;
  return memcmp(a->up_ticks, b->up_ticks, n * sizeof *a->up_ticks) == 0;
}

bool same_pool(const PoolResult *a, const PoolResult *b) {
  PoolResult one = *a, other = *b;
  if (!same_uptime(a, b)) return false;
  one.up_ticks = other.up_ticks = NULL;
#define POOL_HISTOGRAM(field, unit, scale, meaning)                                                \
  if (!same_histogram(a->field, b->field)) return false;                                           \
  one.field = other.field = NULL;
#include "sim/books/metrics.def"
  return memcmp(&one, &other, sizeof one) == 0;
}

bool same_group(const Group *a, const Group *b) {
  return a->shape == b->shape && a->state == b->state &&
         memcmp(&a->totals, &b->totals, sizeof a->totals) == 0;
}

bool same_row(const TimelineRow *a, const TimelineRow *b) {
  return a->at == b->at && a->group == b->group && a->shape == b->shape &&
         a->activity == b->activity && a->gpu_blocks == b->gpu_blocks &&
         a->store_blocks == b->store_blocks && a->n_prompts == b->n_prompts &&
         a->n_decoding == b->n_decoding;
}

static bool same_timeline(const Timeline *a, const Timeline *b) {
  bool same = a->n_rows == b->n_rows;
  for (size_t i = 0; same && i < a->n_rows; i++)
    same = same_row(&a->rows[i], &b->rows[i]);
  return same;
}

/* The next of the free blocks of a cache to go, `n` blocks of the run having gone; 0: none. */
static uint64_t next_free(const PrefixCache *self, BlockIx *run, int32_t *n) {
  if (*run != BLOCK_NONE && *n == self->runs.items[*run].n) {
    *run = self->runs.items[*run].next;
    *n = 0;
  }
  if (*run == BLOCK_NONE) return 0;
  const CacheRun *at = &self->runs.items[*run];
  return content_key_of(at->id, at->first + at->n - (*n)++ + 1);
}

/* What is left in them, in the order in which it would go; neighbours may be cut otherwise. */
static bool same_cache(const PrefixCache *a, const PrefixCache *b) {
  if (!a || !b) return a == b;
  BlockIx i = a->oldest, j = b->oldest;
  int32_t n_a = 0, n_b = 0;
  for (;;) {
    const uint64_t next = next_free(a, &i, &n_a);
    if (next != next_free(b, &j, &n_b)) return false;
    if (next == 0) return a->n_keys == b->n_keys && a->n_evictions == b->n_evictions;
  }
}

/* An iteration that an hour cuts is cut alike, but for the rounding of its mean. */
static bool same_hours(const SimResult *a, const SimResult *b) {
  bool same = a->n_hour_joules == b->n_hour_joules;
  for (size_t h = 0; same && h < a->n_hour_joules; h++)
    same = fabs(a->hour_joules[h] - b->hour_joules[h]) <= 1e-9 * (1 + a->energy_j);
  return same;
}

static bool same_run(const SimResult *a, const SimResult *b) {
  return same_totals(&a->totals, &b->totals) && a->n_models == b->n_models &&
         memcmp(a->rooms, b->rooms, a->n_models * sizeof *a->rooms) == 0 &&
         a->stopped == b->stopped && a->unfinished == b->unfinished && a->energy_j == b->energy_j &&
         same_hours(a, b);
}

const char *compare_results(const SimResult *a, const SimResult *b) {
  if (a->digest != b->digest) return "the digest differs";
  if (a->n_pools != b->n_pools || a->n_instances != b->n_instances || a->n_groups != b->n_groups)
    return "the cluster differs";
  if (!same_metrics(&a->metrics, &b->metrics)) return "the metrics differ";
  for (uint32_t i = 0; i < a->n_instances; i++)
    if (!same_totals(&a->instances[i], &b->instances[i])) return "the totals of a machine differ";
  for (uint32_t i = 0; a->caches && i < a->n_instances; i++)
    if (!same_cache(a->caches[i], b->caches[i])) return "what a cache has left differs";
  for (uint32_t i = 0; i < a->n_pools; i++)
    if (!same_pool(&a->pools[i], &b->pools[i])) return "the figures of a pool differ";
  for (uint32_t i = 0; i < a->n_groups; i++)
    if (!same_group(&a->groups[i], &b->groups[i])) return "the books of a group differ";
  if (a->timeline && b->timeline && !same_timeline(a->timeline, b->timeline))
    return "the timelines differ";
  if (a->span != b->span || a->end != b->end) return "the span differs";
  return same_run(a, b) ? NULL : "the figures of the run differ";
}
