/* See likely.h. */
#include "experiments/provision/likely.h"
#include "experiments/provision/probe.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Prompts are taken to be prefilled in batches of so many tokens. */
static const double BATCH = 8192;

/* Means of what comes. */
typedef struct Load {
  double rate; // requests/s
  double prompt, output;
} Load;

/* False: it is not known before it is simulated, or prompts have contents that caches keep. */
static bool read_load(Trial *trial, Load *ret_load) {
  const WorkloadConfig *workload = &trial->config.workload;
  if (!early_end_may(trial) || workload->trace || workload->n_components > 0) return false;
  TraceSource *source =
      workload_open(workload, trial->config.sim.seed, &trial->arena, &trial->diag);
  if (!source) return false;
  TraceRow row = {.at = 0};
  double n = 0, prompts = 0, outputs = 0;
  Tick first = 0;
  while (trace_next(source, &row, &trial->diag) > 0) {
    if (n == 0) first = row.at;
    n++;
    prompts += row.prompt_tokens;
    outputs += row.output_tokens;
  }
  trace_close(source);
  *ret_load = (Load){n / tick_seconds(row.at - first), prompts / n, outputs / n};
  return n > 1 && row.at > first;
}

/* Seconds of a whole instance that a request takes in batches as large as there can be. */
static double seconds_of(const PoolSpec *pool, const Load *load) {
  const PerfModel *times = pool->perfmodel;
  const BatchShape prompts = {.prefill_tokens = (int64_t)BATCH,
                              .prefill_area2 = (int64_t)(BATCH * load->prompt),
                              .logit_seqs = (int64_t)ceil(BATCH / load->prompt)};
  const double context = load->prompt + load->output / 2;
  const double room = (double)pool->kv_blocks * (double)pool->block_size / context;
  const int64_t n = (int64_t)fmax(1, fmin(room, (double)times->max_decode_seqs));
  double seconds = 0;
  if (pool->role != ROLE_DECODE)
    seconds += tick_seconds(perfmodel_iteration(times, &prompts, NULL)) * load->prompt / BATCH;
  if (pool->role != ROLE_PREFILL)
    seconds += tick_seconds(perfmodel_decode_step(times, n, (int64_t)((double)n * context))) *
               load->output / (double)n;
  return seconds;
}

/* Whether an instance has one scheduler and one set of batches, which its model is of. */
static bool is_whole(const PoolSpec *pool) {
  return pool->pipeline_stages <= 1 && pool->attention_ranks <= 1 && pool->ranks <= 1;
}

static const PoolSpec *pool_of(const SimConfig *sim, const char *key, Arena *arena) {
  for (uint32_t i = 0; i < sim->n_pools; i++)
    if (strcmp(key, arena_printf(arena, "pools.%s.count", sim->pools[i].name)) == 0)
      return &sim->pools[i];
  return NULL;
}

void likely_counts(const Provision *study, const Design *design, int64_t counts[COUNTS_MAX]) {
  ProbeRun run = {.verdict = PROBE_UNKNOWN};
  Load load;
  for (int i = 0; i < design->n_counts; i++)
    counts[i] = run.probe.counts[i] = design->counts[i].low;
  if (design->n_counts == 0 || study->objective == OBJECTIVE_THROUGHPUT) return;
  probe_run_load(&run, study, design, 0, 0, NULL);
  Trial *trial = &run.trial;
  const bool known = !run.failed && read_load(trial, &load);
  for (int i = 0; i < design->n_counts && known; i++) {
    const CountRange *range = &design->counts[i];
    const PoolSpec *pool = pool_of(&trial->config.sim, range->key, &trial->arena);
    if (!pool || !is_whole(pool)) continue;
    const double least = floor(load.rate * seconds_of(pool, &load));
    if (least > (double)range->low) counts[i] = (int64_t)fmin(least, (double)range->high);
  }
  probe_run_release(&run);
}
