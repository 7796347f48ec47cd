/* See serving.h. */
#include "experiments/config/serving.h"
#include "experiments/config/config.h"
#include "sim/batcher/batcher.h"
#include "sim/kvtier/kvtier.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define VLLM_OPTIONS(async, reserve)                                                               \
  "async_scheduling: " async ", enable_prefix_caching: true, long_prefill_token_threshold: 0, "    \
  "policy: fcfs, scheduler_reserve_full_isl: " reserve
#define VLLM_V1(async, reserve) VLLM_OPTIONS(async, reserve) ", first_token: decode"
#define TRTLLM_OPTIONS                                                                             \
  "{" VLLM_OPTIONS("true", "true") ", enable_chunked_prefill: false, idle_sleep: 0 ms, "           \
                                   "capacity_scheduler_policy: guaranteed_no_evict, "              \
                                   "rank_scheduling: together}"

/* In 0.5.23 mem_fraction_static is as if its CUDA graphs of prefill were off: what they take (to
 * 1.5 GiB) hangs on the attention backend. */
static const ServingReserve sglang_reserve = {.base = 512,
                                              .per_batched_token = 1.5,
                                              .per_gpu = 1024.0 / 8,
                                              .least_tokens = 2048,
                                              .per_graph_seq = 2,
                                              .per_graph_seq_of_rank = {3, 4.5},
                                              .least = 10 * 1024,
                                              .least_above = 60 * 1024};

static const ServingEngine engines[] = {
#define ENGINE(name_, ...) {.name = name_, __VA_ARGS__},
#include "experiments/config/engines.def"
#undef ENGINE
};

const char *const serving_choices[] = {"none",
#define ENGINE(name_, ...) name_,
#include "experiments/config/engines.def"
#undef ENGINE
                                       NULL};

enum { N_ENGINES = sizeof engines / sizeof *engines };

#define TIME(field, kind, most, text)                                                              \
  OPTION_AT(EngineChoice, #field, said.field, kind, .max = most, .help = text,                     \
            .absent = "that of the release")

const OptionSpec config_engine_options[] = {
    OPTION_AT(EngineChoice, "name", row, OPTION_CHOICE, .choices = serving_choices,
              .help = "Name of the release.", .absent = "none", .listed = "engines"),
    TIME(iteration_time, OPTION_TICKS, 10, "Host time that is added to each iteration."),
    TIME(layer_time, OPTION_TICKS, 1,
         "Time that is added for each layer of an iteration: what the engine's kernels take beyond "
         "the measured ones."),
    TIME(sequence_time, OPTION_TICKS, 1,
         "Host time that is added for each sequence that needs logits."),
    TIME(eager_layer_time, OPTION_TICKS, 1,
         "Minimum time per layer of an iteration with prefill that runs outside a CUDA graph."),
    TIME(graph_tokens, OPTION_INT, 1e9,
         "Maximum number of tokens of an iteration with prefill that runs in a CUDA graph."),
    TIME(request_time, OPTION_TICKS, 3600,
         "Time from the arrival of a request until it is routed. It is a key of the top level's "
         "engine only."),
    {0}};

const OptionSpec *serving_next_time(const OptionSpec *row) {
  row = row ? row + 1 : config_engine_options;
  while (row->key && row->type != OPTION_TICKS)
    row++;
  return row->key ? row : NULL;
}

Tick serving_time(const HostTimes *times, const OptionSpec *row) {
  return *(const Tick *)((const char *)times + row->offset - offsetof(EngineChoice, said));
}

bool serving_says_times(const HostTimes *said) {
  return said->iteration_time != HOST_UNSAID || said->layer_time != HOST_UNSAID ||
         said->sequence_time != HOST_UNSAID || said->eager_layer_time != HOST_UNSAID;
}

Tick serving_request_time(const EngineChoice *choice) {
  const ServingEngine *engine = serving_at(choice->row);
  const HostRow *row = engine ? host_row_find(engine->name, NULL, NULL) : NULL;
  return host_times_filled(&choice->said, row).request_time;
}

int serving_bind(EngineChoice *choice, const Node *node, Diag *diag) {
  const OptionSpec bare = {.key = "engine", .type = OPTION_CHOICE, .choices = serving_choices};
  const Node *name = node && node->kind == NODE_MAP ? node_find(node, "name") : node;
  int row = 0;
  if (name) {
    if (option_bind_one(&bare, name, &row, diag)) return -1;
    *choice = (EngineChoice){row, host_unsaid};
  }
  if (!node || node == name) return 0;
  return option_bind(config_engine_options, node, NULL, node->at, choice, diag);
}

const ServingEngine *serving_at(int choice) {
  return choice > 0 && choice <= N_ENGINES ? &engines[choice - 1] : NULL;
}

const ServingLimits *serving_limits(const ServingEngine *self, const Hardware *hardware) {
  const ServingLimits *limits = self->limits;
  const double gib = hardware ? (double)hardware->gpu_memory_bytes / 1073741824.0 : 0;
  while (hardware && (gib < limits->gpu_memory_gib ||
                      (limits->but_not && strstr(hardware->gpu, limits->but_not))))
    limits++;
  return limits;
}

static double kept_for_graphs(const ServingReserve *self, const ServingSite *site, int64_t seqs) {
  const double n = (double)(seqs < site->max_num_seqs ? seqs : site->max_num_seqs);
  const int64_t ranks = degree_of(site->degrees.attention);
  if (site->role == ROLE_PREFILL) return 0;
  const double of_ranks = ranks > 1 ? self->per_graph_seq_of_rank[n > 300] * (double)ranks : 0;
  return n * (self->per_graph_seq + of_ranks);
}

double serving_memory(const ServingEngine *self, const ServingSite *site) {
  const ServingReserve *reserve = self->reserve;
  if (!reserve) return self->gpu_memory_utilization;
  const Parallelism degrees = site->degrees;
  const int64_t gpus = degrees.tensor * degree_of(degrees.attention);
  const double memory = (double)(site->hardware->gpu_memory_bytes >> 20);
  const bool counts = site->role != ROLE_DECODE;
  const int64_t tokens = counts && site->max_num_batched_tokens > reserve->least_tokens
                             ? site->max_num_batched_tokens
                             : reserve->least_tokens;
  double kept = reserve->base + reserve->per_batched_token * (double)tokens +
                reserve->per_gpu * (double)(gpus * degrees.pipeline);
  const int64_t seqs = serving_limits(self, site->hardware)->graph_seqs[gpus >= 4];
  kept += kept_for_graphs(reserve, site, seqs);
  if (memory > reserve->least_above && kept < reserve->least) kept = reserve->least;
  return round(1000 * (memory - kept) / memory) / 1000;
}

/* ---- What an engine adds to a batcher ---- */

/* A map that grows, and what it has been given. */
typedef struct Filling {
  const ServingUse *use;
  Node *map;
  const char *given;
  Arena *arena;
  Diag *diag;
} Filling;

static void say(Filling *self, const char *key, const char *value) {
  self->given =
      arena_printf(self->arena, "%s%s%s %s", self->given, *self->given ? ", " : "", key, value);
}

static void give(Filling *self, const char *key, const Node *value) {
  if (node_find(self->map, key)) return;
  node_set(self->map, key, self->use->at, value, self->arena, self->diag);
  say(self, strcmp(key, "name") == 0 ? "batcher" : key, node_text(value, self->arena));
}

static void give_options(Filling *self, const ServingEngine *engine) {
  if (!engine->options) return;
  const Node *options =
      yaml_parse(engine->name, engine->options, strlen(engine->options), self->arena, self->diag);
  for (const Node *node = options->first; node; node = node->next)
    give(self, node->key, node);
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static void give_limit(Filling *self, const char *key, int64_t *limit, int64_t value) {
  if (node_find(self->map, key)) return;
  *limit = value;
  say(self, key, arena_printf(self->arena, "%" PRId64, value));
}

/* What is not written fits what is (vllm/engine/arg_utils.py): no more tokens than max_num_seqs
 * whole contexts, no more sequences than tokens, before ranks divide these. */
static void give_limits(Filling *self, const ServingEngine *engine, PolicyChoice *batcher) {
  const ServingLimits *usual = serving_limits(engine, self->use->hardware);
  const int64_t context = self->use->max_model_len;
  BatchLimits limits = batcher_limits(batcher);
  int64_t seqs = node_find(self->map, "max_num_seqs") ? limits.max_num_seqs : usual->max_num_seqs;
  int64_t tokens = usual->max_num_batched_tokens;
  if (engine->whole_prompts && tokens < context) tokens = context;
  if (context > 0) tokens = least(tokens, seqs * context);
  const bool divides = engine->divides_tokens && self->use->ranks > 1;
  const int64_t each = divides ? tokens / self->use->ranks : tokens;
  const bool is_given = !node_find(self->map, "max_num_batched_tokens");
  give_limit(self, "max_num_batched_tokens", &limits.max_num_batched_tokens, each > 1 ? each : 1);
  give_limit(self, "max_num_seqs", &limits.max_num_seqs,
             least(seqs, is_given ? tokens : limits.max_num_batched_tokens));
  *batcher = batcher_limited(*batcher, limits, self->arena);
}

static const char *written_name(const Node *written) {
  const Node *name = written && written->kind == NODE_MAP ? node_find(written, "name") : written;
  return name && name->kind == NODE_SCALAR ? name->text : NULL;
}

/* The row whose keys a batcher written so (NULL: nothing is) gets; NULL: it gets none. */
static const ServingEngine *giver_of(const ServingEngine *engine, const Node *written) {
  const char *name = written_name(written);
  if (engine && (!name || strcmp(name, engine->batcher) == 0)) return engine;
  for (int i = 0; name && i < N_ENGINES; i++)
    if (engines[i].is_the_batcher && strcmp(engines[i].batcher, name) == 0) return &engines[i];
  return NULL;
}

static Node *copy_as_map(const Node *written, Place at, Arena *arena) {
  if (written && written->kind == NODE_MAP) return node_copy(written, arena);
  Node *map = ARENA_NEW(arena, Node);
  *map = (Node){.kind = NODE_MAP, .at = written ? written->at : at};
  return map;
}

int serving_bind_batcher(const ServingUse *use, const Node *written, PolicyChoice *ret,
                         const char **ret_given, Arena *arena, Diag *diag) {
  const ServingEngine *giver = giver_of(use->engine, written);
  const bool bindable = !written || written->kind != NODE_LIST;
  Filling filling = {use, NULL, "", arena, diag};
  if (giver && bindable) {
    filling.map = copy_as_map(written, use->at, arena);
    if (written && written->kind == NODE_SCALAR)
      node_set(filling.map, "name", written->at, written, arena, diag);
    give(&filling, "name", &(Node){.kind = NODE_SCALAR, .text = giver->batcher, .at = use->at});
    if (giver == use->engine) give_options(&filling, giver);
  }
  const int status =
      config_bind_policy(ret, POLICY_BATCHER, filling.map ? filling.map : written, arena, diag);
  if (filling.map && !status) give_limits(&filling, giver, ret);
  if (ret_given) *ret_given = filling.given;
  return status;
}

/* ---- Pools ---- */

static const Node *run_batcher(const Config *self) {
  return node_find(node_find(self->root, "policies"), "batcher");
}

/* Whether it has the batcher of the run, which its own engine takes the place of. */
static bool has_run_batcher(const Node *node, const PoolConfig *pool) {
  return !pool->batcher && !(node_find(node, "engine") && serving_at(pool->engine.row));
}

static int give_batcher(const Config *self, const Node *node, PoolConfig *pool, Arena *arena,
                        Diag *diag) {
  const Node *own = node_find(node, "engine");
  const Node *named = own ? own : node_find(self->root, "engine");
  const ServingUse use = {.engine = serving_at(pool->engine.row),
                          .hardware = &pool->hardware,
                          .max_model_len = self->specs[pool->spec.model].max_model_len,
                          .ranks = pool->attention_data_parallel_size,
                          .at = named ? named->at : node->at};
  const bool of_run = has_run_batcher(node, pool);
  const Node *written = of_run ? run_batcher(self) : pool->batcher;
  pool->giver = giver_of(use.engine, written);
  pool->given = "";
  if (of_run && !pool->giver && !own) return 0;                       // it has that of the run
  if (of_run && !self->sim.policies[POLICY_BATCHER].state) return -1; // named already
  return serving_bind_batcher(&use, written, &pool->spec.batcher, &pool->given, arena, diag);
}

static void say_given(PoolConfig *pool, const char *text, Arena *arena) {
  pool->given = arena_printf(arena, "%s%s%s", pool->given, *pool->given ? ", " : "", text);
}

/* Times of a row (NULL: none) that the configuration does not say. */
static void say_times(PoolConfig *pool, const HostRow *host, Arena *arena) {
  for (const OptionSpec *row = NULL; host && (row = serving_next_time(row));) {
    char text[32];
    const Tick time = serving_time(&host->times, row);
    if (time == 0 || serving_time(&pool->engine.said, row) != HOST_UNSAID) continue;
    units_format(text, sizeof text, DIM_TIME, tick_seconds(time));
    say_given(pool, arena_printf(arena, "%s %s", row->key, text), arena);
  }
}

void config_give_host_times(PoolConfig *pool, Arena *arena) {
  const ServingEngine *engine = serving_at(pool->engine.row);
  const char *gpu = pool->hardware.gpu;
  if (!engine) return;
  say_times(pool, config_host_row(engine->name, &pool->engine.said, pool->spec.perfmodel, gpu),
            arena);
  say_times(pool, host_row_find(engine->name, NULL, gpu), arena);
}

/* Memory is kept for the tokens of all ranks where they divide them (SGLang's server_args.py does
 * so before it divides). */
static double memory_of(const Config *self, const Node *node, const PoolConfig *pool,
                        const ServingEngine *engine) {
  const PolicyChoice batcher = sim_pool_policy(&self->sim, &pool->spec, POLICY_BATCHER);
  const BatchLimits limits = batcher.state ? batcher_limits(&batcher) : (BatchLimits){0};
  const Node *written = has_run_batcher(node, pool) ? run_batcher(self) : pool->batcher;
  const bool divides = engine->divides_tokens && !node_find(written, "max_num_batched_tokens");
  const int64_t ranks = divides ? pool->attention_data_parallel_size : 1;
  const ServingSite site = {&pool->hardware, config_degrees(pool), pool->spec.role,
                            limits.max_num_batched_tokens * ranks, limits.max_num_seqs};
  return serving_memory(engine, &site);
}

static void give_memory(const Config *self, const Node *node, PoolConfig *pool, Arena *arena) {
  const ServingEngine *engine = serving_at(pool->engine.row);
  if (!engine) return;
  pool->giver = engine;
  pool->kv.of_free = engine->of_free;
  if (!node_find(node, "gpu_memory_utilization")) {
    const double share = pool->kv.gpu_memory_utilization = memory_of(self, node, pool, engine);
    say_given(pool, arena_printf(arena, "gpu_memory_utilization %g", share), arena);
  }
  if (!node_find(node, "block_size")) {
    pool->kv.block_size = engine->block_size;
    say_given(pool, arena_printf(arena, "block_size %" PRId64, engine->block_size), arena);
  }
}

int config_bind_pool_engine(const Config *self, const Node *node, PoolConfig *pool, Arena *arena,
                            Diag *diag) {
  const int status = give_batcher(self, node, pool, arena, diag);
  give_memory(self, node, pool, arena);
  return status;
}

/* "a, b": the engines that swap. */
static const char *swapping_engines(Arena *arena) {
  const char *names = "";
  for (int i = 0; i < N_ENGINES; i++)
    if (engines[i].swaps)
      names = arena_printf(arena, "%s%s%s", names, *names ? ", " : "", engines[i].name);
  return names;
}

int config_check_pool_engine(const Config *self, const Node *node, const PoolConfig *pool,
                             Diag *diag) {
  const ServingEngine *engine = serving_at(pool->engine.row);
  const Policy *batcher = sim_pool_policy(&self->sim, &pool->spec, POLICY_BATCHER).policy;
  const KvTier *tier =
      (const KvTier *)sim_pool_policy(&self->sim, &pool->spec, POLICY_KVTIER).policy;
  if (!engine || engine->swaps || strcmp(batcher->name, engine->batcher) != 0) return 0;
  if (!tier->swaps && !kvtier_moves(tier)) return 0;
  const Node *owner = pool->kvtier ? node : node_find(self->root, "policies");
  diag_error(
      diag, config_place(owner, "kvtier"),
      "engine '%s' cannot be used with kvtier '%s': it swaps nothing and recomputes what it evicts",
      engine->name, tier->policy.name);
  return diag_hint(diag, "set 'kvtier: recompute', or choose an engine that swaps: %s",
                   swapping_engines(&diag->arena));
}
