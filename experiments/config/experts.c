/* `pools.NAME.expert_load` and `pools.NAME.eplb_config`: how tokens spread over experts, and EPLB.
 */
#include "base/csv.h"
#include "experiments/config/config.h"
#include <errno.h>
#include <math.h>

typedef struct LoadKeys {
  double exponent;
  const char *file;
  Tick drift_interval;
  double drift_share;
} LoadKeys;

#define LOAD(field, kind, ...) OPTION_OF(LoadKeys, field, OPTION_##kind, __VA_ARGS__)

const OptionSpec config_expert_load_options[] = {
    LOAD(exponent, REAL, .fallback = "0", .max = 3,
         .help = "Exponent s of a power law: in each layer the expert of rank r gets tokens in "
                 "proportion to r^-s, with ranks at random; 0 is equal loads."),
    LOAD(file, STRING,
         .help = "CSV file of loads with the columns layer, expert and tokens, numbered from 0. "
                 "Layers are repeated where it has fewer than the model. It excludes exponent.",
         .absent = "the power law"),
    LOAD(drift_interval, TICKS, .min = 0.1, .max = 9e6,
         .help = "Interval after which drift_share of the experts of each layer, drawn at random, "
                 "exchange their loads.",
         .absent = "loads stay as they are"),
    LOAD(drift_share, REAL, .fallback = "0.1", .max = 1,
         .help = "Share of the experts of a layer whose loads change at each drift_interval."),
    {0}};

typedef struct EplbKeys {
  int64_t num_redundant_experts, step_interval, window_size, first_step, num_expert_groups;
  bool use_async;
  Tick rearrange_time;
} EplbKeys;

#define EPLB(field, kind, ...) OPTION_OF(EplbKeys, field, OPTION_##kind, __VA_ARGS__)
#define MOST_STEPS             1e9

const OptionSpec config_eplb_options[] = {
    EPLB(num_redundant_experts, INT, .fallback = "0", .max = 4096,
         .help = "Number of second copies of experts in each layer (vLLM "
                 "eplb_config.num_redundant_experts, SGLang --ep-num-redundant-experts). With the "
                 "experts they must be a multiple of expert_parallel_size."),
    EPLB(step_interval, INT, .fallback = "3000", .max = MOST_STEPS,
         .help = "Number of steps between two rearrangements (vLLM eplb_config.step_interval, "
                 "SGLang --eplb-rebalance-num-iterations); 0: experts stay where they are."),
    EPLB(window_size, INT, .fallback = "1000", .min = 1, .max = MOST_STEPS,
         .help = "Number of steps before a rearrangement whose loads it is made by (vLLM "
                 "eplb_config.window_size)."),
    EPLB(first_step, INT, .min = 1, .max = MOST_STEPS,
         .help = "Number of steps before the first rearrangement. vLLM has a quarter of "
                 "step_interval.",
         .absent = "step_interval"),
    EPLB(num_expert_groups, INT, .fallback = "1", .min = 1, .max = 4096,
         .help = "Number of groups of experts (DeepSeek-V3: 8). Where the number of machines "
                 "divides it, each group stays on one machine, and copies of experts too."),
    EPLB(use_async, BOOL, .fallback = "false",
         .help = "Move weights beside steps, which go on with the old placement until all are "
                 "there (vLLM eplb_config.use_async); else steps wait."),
    EPLB(rearrange_time, TICKS, .fallback = "0 s", .max = 3600,
         .help = "Time of the host in each rearrangement, beside the moving of weights."),
    {0}};

/* A row of the file. */
typedef struct LoadRow {
  int64_t layer, expert;
  double tokens;
} LoadRow;

static const CsvColumn columns[] = {CSV_FIELD(LoadRow, layer, CSV_INT, CSV_NOT_NEGATIVE),
                                    CSV_FIELD(LoadRow, expert, CSV_INT, CSV_NOT_NEGATIVE),
                                    CSV_FIELD(LoadRow, tokens, CSV_REAL, CSV_NOT_NEGATIVE),
                                    {0}};

typedef struct Table {
  ExpertLoadSpec *spec;
  double *loads; // [n_layers · n_experts], NAN where no row was
} Table;

static int add_row(Table *self, const LoadRow *row, Place at, Diag *diag) {
  ExpertLoadSpec *spec = self->spec;
  if (row->layer >= spec->n_layers || row->expert >= spec->n_experts)
    return diag_error(diag, at, "the model has %d layers of %d experts, numbered from 0",
                      spec->n_layers, spec->n_experts);
  double *load = &self->loads[row->layer * spec->n_experts + row->expert];
  if (!isnan(*load)) return diag_error(diag, at, "this expert has a load already");
  if (row->tokens > 1e15) return diag_error(diag, at, "a load must be at most 1e15");
  *load = row->tokens;
  if (row->layer >= spec->n_measured) spec->n_measured = (int32_t)row->layer + 1;
  return 0;
}

/* Each layer up to the last one that has rows has all of its experts, and a load. */
static int check_table(const Table *self, const char *path, Diag *diag) {
  const ExpertLoadSpec *spec = self->spec;
  if (spec->n_measured == 0) return diag_error(diag, place_of_file(path), "the file has no loads");
  for (int32_t layer = 0; layer < spec->n_measured; layer++) {
    double sum = 0;
    for (int32_t e = 0; e < spec->n_experts; e++)
      sum += self->loads[(int64_t)layer * spec->n_experts + e];
    if (!(sum > 0))
      return diag_error(diag, place_of_file(path),
                        "layer %d must have a load for each of %d experts, not all of them 0",
                        layer, spec->n_experts);
  }
  return 0;
}

static int read_loads(ExpertLoadSpec *spec, const char *path, Arena *arena, Diag *diag) {
  const int64_t n = (int64_t)spec->n_layers * spec->n_experts;
  Table table = {spec, ARENA_ARRAY(arena, double, n)};
  for (int64_t i = 0; i < n; i++)
    table.loads[i] = NAN;
  Csv csv;
  LoadRow row;
  if (csv_open(&csv, path, arena, diag) || csv_header(&csv, columns, true, diag)) return -1;
  for (int status; (status = csv_next(&csv, &row, diag)) != 0;)
    if (status < 0 || add_row(&table, &row, csv_place(&csv, NULL), diag)) return -1;
  spec->measured = table.loads;
  return check_table(&table, path, diag);
}

static int bind_load(const Config *self, ExpertLoadSpec *spec, const Node *node, Arena *arena,
                     Diag *diag) {
  LoadKeys keys = {0};
  if (option_bind(config_expert_load_options, node, NULL, node->at, &keys, diag)) return -1;
  if (keys.file && node_find(node, "exponent"))
    return diag_error(diag, config_place(node, "file"), "'file' and 'exponent' exclude each other");
  spec->exponent = keys.exponent;
  spec->drift_interval = keys.drift_interval;
  spec->n_drifting = (int32_t)lround(keys.drift_share * (double)spec->n_experts);
  return keys.file ? read_loads(spec, config_data_name(self, keys.file, arena), arena, diag) : 0;
}

/* Its GPUs must hold as many of them each. */
static int bind_eplb(ExpertSpec *spec, const PoolConfig *pool, const Node *node, Diag *diag) {
  EplbKeys keys = {0};
  const Node *eplb = pool->eplb_config;
  const EplbShape *shape = &spec->shape;
  if (pool->enable_eplb && option_bind(config_eplb_options, eplb, NULL, node->at, &keys, diag))
    return -1;
  const int64_t n_slots = shape->n_experts + keys.num_redundant_experts;
  if (n_slots % shape->n_gpus != 0 || n_slots > (int64_t)shape->n_experts * shape->n_gpus) {
    diag_error(diag, eplb ? config_place(eplb, "num_redundant_experts") : node->at,
               "%lld experts in a layer, copies included, cannot lie evenly on %d GPUs",
               (long long)n_slots, shape->n_gpus);
    const int64_t least = (shape->n_experts + shape->n_gpus - 1) / shape->n_gpus * shape->n_gpus;
    return diag_hint(diag, "eplb_config: {num_redundant_experts: %lld} makes them %lld",
                     (long long)(least - shape->n_experts), (long long)least);
  }
  if (eplb && shape->n_experts % keys.num_expert_groups != 0)
    return diag_error(diag, config_place(eplb, "num_expert_groups"),
                      "%lld groups do not divide the %d experts", (long long)keys.num_expert_groups,
                      shape->n_experts);
  spec->shape.n_slots = (int32_t)n_slots;
  spec->shape.n_groups = eplb ? (int32_t)keys.num_expert_groups : 1;
  spec->step_interval = keys.step_interval;
  spec->window_size = keys.window_size;
  spec->first_step = keys.first_step > 0 ? keys.first_step : keys.step_interval;
  spec->use_async = keys.use_async;
  spec->rearrange_time = keys.rearrange_time;
  return 0;
}

/* Loads of experts are followed where each GPU has whole experts, and ranks step together. */
static int check_pool(const PoolConfig *pool, int64_t ranks, const Node *node, Diag *diag) {
  const Parallelism degrees = config_degrees(pool);
  if (pool->eplb_config && !pool->expert_load)
    return diag_error(diag, pool->eplb_config->key_at,
                      "'eplb_config' needs 'expert_load', the loads that it balances");
  if (pool->eplb_config && !pool->enable_eplb)
    return diag_error(diag, pool->eplb_config->key_at, "'eplb_config' needs 'enable_eplb: true'");
  if (ranks == 1 || degrees.expert != degrees.tensor * degrees.attention)
    return diag_error(diag, config_place(node, "expert_load"),
                      "'expert_load' applies to whole experts on each GPU and attention ranks that "
                      "have schedulers of their own, with 'attention_data_parallel_size', "
                      "'expert_parallel_size' and batcher 'vllm' or 'sglang'");
  return 0;
}

int config_bind_experts(const Config *self, PoolConfig *pool, const Llm *model, int64_t ranks,
                        const Node *node, Arena *arena, Diag *diag) {
  if (pool->spec.two_batches && ranks == 1)
    return diag_error(diag, config_place(node, "two_batch_overlap"),
                      "'two_batch_overlap' needs attention ranks with schedulers of their own: "
                      "'attention_data_parallel_size' and batcher 'vllm' or 'sglang'");
  if (!pool->expert_load && !pool->eplb_config) return 0;
  if (check_pool(pool, ranks, node, diag)) return -1;
  const Hardware *hardware = &pool->hardware;
  const Parallelism degrees = config_degrees(pool);
  const int64_t gpus = degrees.tensor * degrees.attention;
  const int64_t layers = llm_moe_layers(model);
  if (layers == 0 || hardware_check_split(model, hardware, degrees, node->at, diag))
    return layers > 0 ? -1
                      : diag_error(diag, config_place(node, "expert_load"),
                                   "model '%s' has no experts", model->name);
  ExpertSpec *spec = ARENA_NEW(arena, ExpertSpec);
  spec->load.n_layers = (int32_t)layers;
  spec->load.n_experts = spec->shape.n_experts = (int32_t)model->num_experts;
  spec->shape.n_gpus = (int32_t)gpus;
  spec->shape.n_nodes = (int32_t)parallelism_nodes_of(degrees, gpus);
  spec->expert_bytes =
      llround((double)llm_part_parameters(model, LLM_EXPERTS) * llm_part_bytes(model, LLM_EXPERTS) /
              (double)(layers * model->num_experts));
  spec->node_rate = llround(hardware_link_rate(hardware));
  spec->wide_rate = llround(hardware_nic_rate(hardware));
  if (bind_load(self, &spec->load, pool->expert_load, arena, diag) ||
      bind_eplb(spec, pool, node, diag))
    return -1;
  pool->kv.redundant_experts = spec->shape.n_slots - spec->shape.n_experts;
  pool->spec.experts = spec;
  return 0;
}

int config_check_experts(const PoolConfig *pool, const Node *node, Diag *diag) {
  const PerfModel *model = pool->spec.perfmodel;
  if (pool->spec.two_batches && model->communication.n_segments == 0)
    return diag_error(diag, config_place(node, "two_batch_overlap"),
                      "the iteration times of pool '%s' do not tell communication apart",
                      pool->spec.name);
  if (!pool->spec.experts || model->experts.n_segments > 0) return 0;
  diag_error(diag, config_place(node, "expert_load"),
             "the iteration times of pool '%s' do not tell by what loads of experts they are",
             pool->spec.name);
  return diag_hint(diag, "times of DeepSeek-V3 and R1 over several machines do, and those of "
                         "'perfmodel: roofline'");
}
