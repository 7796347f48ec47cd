/* What calib/backends/vllm_steps.py would write of an engine whose iteration times are known: those
 * of the model of a configuration, which has one machine, times SCALE and some noise.
 *
 *     made_steps CONFIG SEED SCALE NOISE > steps.jsonl
 */
#include "base/rng.h"
#include "experiments/base/version.h"
#include "experiments/campaign/trial.h"
#include <stdlib.h>

typedef struct Engine {
  const Config *config;
  Rng rng;
  double scale, noise;
} Engine;

static Tick run_iteration(void *context, const ExecutorBatch *batch, Diag *diag) {
  Engine *self = context;
  (void)diag;
  const double known =
      tick_seconds(perfmodel_iteration(self->config->sim.pools[0].perfmodel, &batch->shape, NULL));
  const double seconds = known * self->scale * (1 + self->noise * rng_normal(&self->rng));
  printf("{\"prefill\": [");
  for (int32_t i = 0; i < batch->n_prefills; i++)
    printf("%s[%d, %d]", i > 0 ? ", " : "", (int)batch->sequences[i].new_tokens,
           (int)batch->sequences[i].past_tokens);
  printf("], \"decode_seqs\": %lld, \"context_tokens\": %lld, \"drafted\": 0, \"us\": %.3f, "
         "\"sampled\": %lld}\n",
         (long long)batch->shape.decode_seqs, (long long)batch->shape.context_tokens, 1e6 * seconds,
         (long long)batch->shape.logit_seqs);
  return tick_from_seconds(seconds);
}

static long long us(Tick at) {
  return (long long)(at / (TICKS_PER_SECOND / 1000000));
}

static int end_request(void *context, const RequestRecord *record, const Metrics *so_far,
                       Diag *diag) {
  (void)context, (void)so_far, (void)diag;
  if (record->rejected) return 0;
  printf("{\"prompt_tokens\": %d, \"cached_tokens\": %d, \"output_tokens\": %d, \"arrived_us\": "
         "%lld, \"first_token_us\": %lld, \"last_token_us\": %lld}\n",
         (int)record->prompt_tokens, (int)record->cached_tokens, (int)record->output_tokens,
         us(record->arrived_at), us(record->first_token_at), us(record->last_token_at));
  return 0;
}

int main(int argc, char **argv) {
  Arena arena;
  Diag diag;
  Config config;
  SimResult result;
  Report report;
  arena_init(&arena);
  diag_init(&diag);
  if (argc != 5) return 2;
  const ConfigChanges changes = {.seed = strtoll(argv[2], NULL, 10), .tie_seed = -1};
  Engine engine = {
      .config = &config, .scale = strtod(argv[3], NULL), .noise = strtod(argv[4], NULL)};
  const Executor executor = {.context = &engine, .iteration = run_iteration};
  rng_init(&engine.rng, 1, "noise");
  int status = config_load(&config, argv[1], &changes, &arena, &diag);
  if (status == 0) {
    const PoolConfig *pool = &config.pools[0];
    config.sim.executor = &executor;
    config.sim.on_request = end_request;
    printf("{\"engine\": \"vllm\", \"engine_version\": \"0.33.0\", \"model\": \"%s\", \"gpu\": "
           "\"%s\", \"dtype\": \"bfloat16\", \"cache_dtype\": \"auto\", \"tensor_parallel_size\": "
           "%lld}\n",
           config.model.name, pool->hardware.gpu, (long long)pool->tensor_parallel_size);
    status = config_simulate(&config, &config.sim, &result, &report, &arena, &diag);
  }
  diag_print(&diag, stderr);
  diag_done(&diag);
  arena_done(&arena);
  return status ? 1 : 0;
}
