/* The names of figures of a configuration that is bound; record.c has those of a run.
 * experiments/papers/README.md lists them. */
#include "experiments/claims/claims.h"
#include "perfmodel/seesaw.h"
#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- Configurations ---- */

static const PoolSpec *first_pool(const Config *config) {
  return &config->sim.pools[0];
}

static double iteration_s(const Config *config, const BatchShape *batch) {
  return tick_seconds(perfmodel_iteration(first_pool(config)->perfmodel, batch, NULL));
}

/* prefill(tokens[, prompts]): prompts of equal length, `tokens` in all. */
static double prefill(const Config *config, const double *arguments, int n_arguments) {
  const double prompts = n_arguments > 1 ? arguments[1] : 1;
  const BatchShape batch = {.prefill_tokens = (int64_t)arguments[0],
                            .prefill_area2 = (int64_t)(arguments[0] * arguments[0] / prompts),
                            .logit_seqs = (int64_t)prompts};
  return iteration_s(config, &batch);
}

/* prefill_beside(tokens, others, other_tokens): one prompt in a batch with others. */
static double prefill_beside(const Config *config, const double *arguments, int n_arguments) {
  (void)n_arguments;
  const double tokens = arguments[0], others = arguments[1], other_tokens = arguments[2];
  const double area2 = tokens * tokens + others * other_tokens * other_tokens;
  const BatchShape batch = {.prefill_tokens = (int64_t)(tokens + others * other_tokens),
                            .prefill_area2 = (int64_t)area2,
                            .logit_seqs = (int64_t)others + 1};
  return iteration_s(config, &batch);
}

/* decode(sequences, context): of each. */
static double decode(const Config *config, const double *arguments, int n_arguments) {
  (void)n_arguments;
  const int64_t n = (int64_t)arguments[0];
  const BatchShape batch = {
      .decode_seqs = n, .context_tokens = (int64_t)(arguments[0] * arguments[1]), .logit_seqs = n};
  return iteration_s(config, &batch);
}

/* mixed(tokens, sequences, context): one prompt that ends here, and decodes. */
static double mixed(const Config *config, const double *arguments, int n_arguments) {
  (void)n_arguments;
  const int64_t n = (int64_t)arguments[1];
  const BatchShape batch = {.prefill_tokens = (int64_t)arguments[0],
                            .prefill_area2 = (int64_t)(arguments[0] * arguments[0]),
                            .decode_seqs = n,
                            .context_tokens = (int64_t)(arguments[1] * arguments[2]),
                            .logit_seqs = n + 1};
  return iteration_s(config, &batch);
}

/* seesaw_prefill(requests, tokens): equation 1 of Seesaw, seconds per request of one pass. */
static double prefill_per_request(const Config *config, const double *arguments, int n_arguments) {
  (void)n_arguments;
  const PoolConfig *pool = &config->pools[0];
  const SeesawTimes times = seesaw_prefill(&config->model, &pool->hardware,
                                           pool->tensor_parallel_size, arguments[0], arguments[1]);
  return seesaw_seconds_per_request(&times, config->model.num_hidden_layers, config_degrees(pool),
                                    arguments[0]);
}

/* seesaw_decode(requests, context) */
static double decode_per_request(const Config *config, const double *arguments, int n_arguments) {
  (void)n_arguments;
  const PoolConfig *pool = &config->pools[0];
  const SeesawTimes times = seesaw_decode(&config->model, &pool->hardware,
                                          pool->tensor_parallel_size, arguments[0], arguments[1]);
  return seesaw_seconds_per_request(&times, config->model.num_hidden_layers, config_degrees(pool),
                                    arguments[0]);
}

/* seesaw_max_batch(context): b_max of the memory that the pool may use. */
static double max_batch(const Config *config, const double *arguments, int n_arguments) {
  (void)n_arguments;
  const PoolConfig *pool = &config->pools[0];
  const double memory = pool->kv.gpu_memory_utilization * (double)pool->hardware.gpu_memory_bytes;
  return seesaw_max_batch(&config->model, memory, config_degrees(pool), arguments[0]);
}

static double quantile(const LengthDistribution *of, double q) {
  if (of->kind == LENGTH_TABLE && of->n_quantiles == 0) return NAN; // of a trace or a mix
  LengthSampler sampler;
  length_sampler_init(&sampler, of);
  return length_at(&sampler, q);
}

static double prompt_quantile(const Config *config, const double *arguments, int n_arguments) {
  (void)n_arguments;
  return quantile(&config->workload.prompt, arguments[0]);
}

static double output_quantile(const Config *config, const double *arguments, int n_arguments) {
  (void)n_arguments;
  return quantile(&config->workload.output, arguments[0]);
}

#define POOL_FACT(fact, expression)                                                                \
  static double fact(const Config *config, const double *arguments, int n_arguments) {             \
    (void)arguments, (void)n_arguments;                                                            \
    const PoolSpec *pool = first_pool(config);                                                     \
    return (double)(expression);                                                                   \
  }
POOL_FACT(kv_bytes_per_token, pool->kv_bytes_per_token)
POOL_FACT(kv_capacity_tokens, pool->kv_blocks * pool->block_size)
POOL_FACT(nic_bandwidth, pool->nic_bandwidth)
POOL_FACT(kv_transfer_overhead, tick_seconds(pool->kv_transfer_overhead))
POOL_FACT(cost_per_hour, pool->cost_per_hour)
POOL_FACT(idle_power, pool->idle_power)
POOL_FACT(prefill_power, pool->prefill_power)
POOL_FACT(decode_power, pool->decode_power)
POOL_FACT(provisioned_power, pool->provisioned_power)

static const ModelFigure model_figures[] = {
    {"prefill", 1, 2, prefill},
    {"prefill_beside", 3, 3, prefill_beside},
    {"decode", 2, 2, decode},
    {"mixed", 3, 3, mixed},
    {"seesaw_prefill", 2, 2, prefill_per_request},
    {"seesaw_decode", 2, 2, decode_per_request},
    {"seesaw_max_batch", 1, 1, max_batch},
    {"prompt_quantile", 1, 1, prompt_quantile},
    {"output_quantile", 1, 1, output_quantile},
    {"kv_bytes_per_token", 0, 0, kv_bytes_per_token},
    {"kv_capacity_tokens", 0, 0, kv_capacity_tokens},
    {"nic_bandwidth", 0, 0, nic_bandwidth},
    {"kv_transfer_overhead", 0, 0, kv_transfer_overhead},
    {"cost_per_hour", 0, 0, cost_per_hour},
    {"idle_power", 0, 0, idle_power},
    {"prefill_power", 0, 0, prefill_power},
    {"decode_power", 0, 0, decode_power},
    {"provisioned_power", 0, 0, provisioned_power},
    {0},
};

enum { NAMES_MAX = 64 };

/* The figure with this name; NULL: there is none, and all names are added to `names`. */
static const ModelFigure *find_model_figure(const ModelFigure *list, const char *name,
                                            const char **names, int *n_names) {
  for (; list->name; list++) {
    if (strcmp(list->name, name) == 0) return list;
    assert(*n_names < NAMES_MAX - 1);
    names[(*n_names)++] = list->name;
  }
  return NULL;
}

int claim_model_figure(const Trial *trial, const char *name, const double *arguments,
                       int n_arguments, Place at, double *ret_value, Diag *diag) {
  const char *names[NAMES_MAX] = {0};
  int n_names = 0;
  const ModelFigure *figure = find_model_figure(model_figures, name, names, &n_names);
  if (!figure) figure = find_model_figure(claim_swap_figures, name, names, &n_names);
  if (!figure) {
    diag_error(diag, at, "unknown figure '%s'", name);
    diag_hint_near(diag, name, names);
    return -1;
  }
  if (n_arguments < figure->min_arguments || n_arguments > figure->max_arguments)
    return diag_error(diag, at, "'%s' takes %d to %d arguments, not %d", name,
                      figure->min_arguments, figure->max_arguments, n_arguments);
  *ret_value = figure->eval(&trial->config, arguments, n_arguments);
  return 0;
}
