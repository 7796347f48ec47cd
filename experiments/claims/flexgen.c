/* FlexGen's search of its policy for the first pool of a configuration (sim/kvtier/
 * flexgen_policy.h), with times of its performance model and its machine's memory and link. There
 * is no disk. The GPU has what the pool has for weights and KV. */
#include "experiments/claims/claims.h"
#include "sim/kvtier/flexgen_policy.h"
#include "sim/kvtier/kvtier.h"
#include <math.h>

enum { MOST_SEQUENCES = 1024 };

typedef struct Times {
  const PoolSpec *pool;
  double prompt, context;
} Times;

static double layer_s(const PoolSpec *pool, const BatchShape *batch) {
  return tick_seconds(perfmodel_iteration(pool->perfmodel, batch, NULL)) /
         (double)pool->num_hidden_layers;
}

static double prefill_s(void *context, int64_t sequences) {
  const Times *self = context;
  const double n = (double)sequences;
  const BatchShape batch = {.prefill_tokens = (int64_t)(n * self->prompt),
                            .prefill_area2 = (int64_t)(n * self->prompt * self->prompt),
                            .logit_seqs = sequences};
  return layer_s(self->pool, &batch);
}

static double decode_s(void *context, int64_t sequences) {
  const Times *self = context;
  const BatchShape batch = {.decode_seqs = sequences,
                            .context_tokens = (int64_t)((double)sequences * self->context),
                            .logit_seqs = sequences};
  return layer_s(self->pool, &batch);
}

/* Of the GPUs: of what their KV has, a tier may have freed a part by moving weights. */
static double gpu_bytes(const Config *config, const PoolSpec *pool) {
  const PolicyChoice choice = sim_pool_policy(&config->sim, pool, POLICY_KVTIER);
  const KvTier *tier = (const KvTier *)choice.policy;
  const double freed = tier->weights_on_cpu ? tier->weights_on_cpu(choice.state) : 0;
  return (double)pool->kv_blocks * (double)pool->kv_block_bytes +
         (1 - freed) * (double)pool->weight_bytes;
}

double claim_flexgen(const Config *config, FlexGenFigure figure, double prompt, double output) {
  const PoolSpec *pool = &config->sim.pools[0];
  const double layers = (double)pool->num_hidden_layers;
  Times times = {pool, prompt, prompt + output / 2};
  const FlexGenInputs inputs = {
      .layers = layers,
      .weight_bytes = (double)pool->weight_bytes / layers,
      .kv_bytes = (double)pool->kv_bytes_per_token / layers,
      .activation_bytes = 2 * (double)config->model.hidden_size,
      .prompt = prompt,
      .output = output,
      .memory = {gpu_bytes(config, pool), (double)config->pools[0].hardware.cpu_memory_bytes, 0},
      .to_gpu = host_link_rate(&pool->host_link, NULL, LINK_TO_GPU, 0),
      .to_cpu = host_link_rate(&pool->host_link, NULL, LINK_TO_CPU, 0),
      .prefill_s = prefill_s,
      .decode_s = decode_s,
      .context = &times};
  FlexGenPolicy best;
  if (!(prompt >= 1 && output >= 2 && prompt + output <= 1e6)) return NAN;
  if (inputs.to_gpu <= 0 || inputs.to_cpu <= 0) return NAN;
  if (!flexgen_search(&inputs, MOST_SEQUENCES, &best)) return NAN;
  const double sequences = (double)(best.gpu_batch * best.n_gpu_batches);
  switch (figure) {
  case FLEXGEN_WEIGHTS_ON_CPU:
    return best.weights[FLEXGEN_CPU];
  case FLEXGEN_KV_ON_CPU:
    return best.kv[FLEXGEN_CPU];
  case FLEXGEN_ACTIVATIONS_ON_CPU:
    return best.activations[FLEXGEN_CPU];
  case FLEXGEN_SEQUENCES:
    return sequences;
  case FLEXGEN_TOKENS_PER_S:
    return sequences * output / best.seconds;
  }
  return NAN;
}
