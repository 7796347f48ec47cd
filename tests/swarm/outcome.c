/* See outcome.h. */
#include "tests/swarm/outcome.h"
#include "sim/base/hash.h"

static uint64_t fold_words(uint64_t hash, const uint64_t *words, size_t n) {
  return hash_fold(hash, hash_bytes(words, n * sizeof *words));
}

static uint64_t fold_record(uint64_t hash, const RequestRecord *record) {
  const uint64_t words[] = {(uint64_t)record->prefill_machine,  (uint64_t)record->decode_machine,
                            (uint64_t)record->prefill_began_at, (uint64_t)record->first_token_at,
                            (uint64_t)record->decode_began_at,  (uint64_t)record->last_token_at,
                            (uint64_t)record->computing_ticks,  (uint64_t)record->preemptions,
                            (uint64_t)record->evictions,        (uint64_t)record->swaps,
                            (uint64_t)record->rejected};
  return fold_words(hash, words, sizeof words / sizeof *words);
}

static uint64_t fold_metrics(uint64_t hash, const Metrics *metrics) {
  const Histogram *const histograms[] = {&metrics->ttft,          &metrics->tbt,
                                         &metrics->tpot,          &metrics->e2e,
                                         &metrics->queue,         &metrics->second_token,
                                         &metrics->kv_transfer,   &metrics->computing_per_token,
                                         &metrics->slowdown_ttft, &metrics->queueing_per_token,
                                         &metrics->slowdown_tbt,  &metrics->slowdown_e2e};
  for (size_t i = 0; i < sizeof histograms / sizeof *histograms; i++)
    hash = fold_words(hash, histograms[i]->counts, histograms[i]->n_counts);
  const uint64_t words[] = {metrics->completed,
                            metrics->rejected,
                            metrics->cut_outputs,
                            metrics->good,
                            metrics->in_window,
                            metrics->prompt_tokens,
                            metrics->output_tokens,
                            metrics->preemptions,
                            metrics->evictions,
                            metrics->transfers,
                            metrics->role_changes,
                            (uint64_t)metrics->dropped_tokens,
                            metrics->dispatches,
                            metrics->predicted_right,
                            metrics->flips,
                            (uint64_t)metrics->flip_ticks,
                            (uint64_t)metrics->transferred_bytes,
                            (uint64_t)metrics->last_finish_at};
  return fold_words(hash, words, sizeof words / sizeof *words);
}

/* All fields of the totals are 64 bits wide, so there are no gaps in them. */
uint64_t outcome_of(const SimResult *result, const RequestRecord *records, int n_records) {
  uint64_t hash = fold_metrics(result->digest, &result->metrics);
  for (int i = 0; i < n_records; i++)
    hash = fold_record(hash, &records[i]);
  return hash_fold(hash,
                   hash_bytes(result->machines, result->n_machines * sizeof *result->machines));
}
