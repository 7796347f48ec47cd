/* The `pools:` block: machines with a model on them. */
#include "experiments/config/config.h"
#include "perfmodel/datafile.h"
#include "sim/batcher/batcher.h"
#include "sim/kvtier/kvtier.h"
#include "sim/policies.h"
#include "sim/pool/pool.h"
#include <math.h>
#include <string.h>

static const char *const role_choices[] = {"prefill", "decode", "mixed", NULL}; // as Role

static const char *const power_choices[] = {"auto", "operators", "batch", "phase",
                                            NULL}; // as PowerSource

#define POOL(field, kind, ...) OPTION_OF(PoolConfig, field, kind, __VA_ARGS__)
#define SPEC(field, kind, ...) OPTION_AT(PoolConfig, #field, spec.field, kind, __VA_ARGS__)
#define KV(field, kind, ...)   OPTION_AT(PoolConfig, #field, kv.field, kind, __VA_ARGS__)

const OptionSpec config_pool_options[] = {
    SPEC(role, OPTION_CHOICE, .fallback = "mixed", .choices = role_choices,
         .help = "Role of the instances."),
    POOL(model, OPTION_STRING, .help = "Name of the model, one of models.",
         .absent = "the only model"),
    POOL(machine, OPTION_STRING, .listed = "machines", .required = true,
         .help = "Machine type whose GPUs the instances run on, or the path of its .yaml file.",
         .also = "gpu hardware"),
    POOL(count, OPTION_INT, .fallback = "1", .max = 1e6,
         .help = "Number of instances. With data_parallel_size each of them is that many replicas "
                 "of the model.",
         .also = "replicas machines instances num_machines"),
    POOL(tensor_parallel_size, OPTION_INT, .min = 1, .max = 1024,
         .help = "Number of GPUs that share each layer (tensor parallelism).",
         .absent = "GPUs of the instance's machines divided by the other degrees",
         .also = "tp tp_size tensor_parallel"),
    POOL(pipeline_parallel_size, OPTION_INT, .fallback = "1", .min = 1, .max = 1024,
         .help = "Number of stages that the layers are divided into (pipeline parallelism).",
         .also = "pp pp_size pipeline_parallel"),
    POOL(attention_data_parallel_size, OPTION_INT, .fallback = "1", .min = 1, .max = 1024,
         .help = "Number of groups of tensor_parallel_size GPUs, each of which does attention for "
                 "its own requests (data-parallel attention)."),
    POOL(expert_parallel_size, OPTION_INT, .fallback = "1", .min = 1, .max = 1024,
         .help = "Number of shares into which whole experts are divided over the GPUs of all "
                 "groups (expert parallelism).",
         .also = "ep ep_size expert_parallel"),
    POOL(nnodes, OPTION_INT, .fallback = "1", .min = 1, .max = 1024,
         .help = "Number of machines that each instance lies on, its GPUs evenly (vLLM and SGLang "
                 "--nnodes). GPUs on different machines communicate over their NICs.",
         .also = "nodes machines_per_instance"),
    POOL(enable_eplb, OPTION_BOOL, .fallback = "false",
         .help = "Whether experts over several machines have equal loads, as with vLLM's and "
                 "SGLang's --enable-eplb; else loads are by a power law."),
    POOL(attention_ffn, OPTION_NODE,
         .help = "Attention and FFNs on GPUs of their own: {ffn_gpus: 8, micro_batches: 3}. The "
                 "GPUs of the other degrees then have attention and the KV.",
         .absent = "all GPUs have both"),
    OPTION_AT(PoolConfig, "two_batch_overlap", spec.two_batches, OPTION_BOOL, .fallback = "false",
              .help = "Cut the batch of each step in two, so that one half computes while tokens "
                      "of the other are exchanged (SGLang --enable-two-batch-overlap, vLLM "
                      "--enable-dbo). It needs attention ranks with schedulers of their own."),
    POOL(expert_load, OPTION_NODE,
         .help = "Loads of the experts, and how they change. With enable_eplb experts are "
                 "rearranged by them as eplb_config says; else they stay where they are.",
         .absent = "constant loads as enable_eplb has them, and rearrangements take no time"),
    POOL(eplb_config, OPTION_NODE,
         .help = "Redundant experts and rearrangements (EPLB). It needs enable_eplb and "
                 "expert_load.",
         .absent = "the defaults of its keys"),
    POOL(
        data_parallel_size, OPTION_INT, .fallback = "1", .min = 1, .max = 1024,
        .help =
            "Number of replicas of the model in each instance. A request is served by one of them.",
        .also = "dp dp_size"),
    KV(block_size, OPTION_INT, .fallback = "16", .min = 1, .max = 65536, .tries = "16 32 64 128",
       .help = "Number of tokens in a block of KV memory (vLLM --block-size). An engine sets its "
               "own default."),
    KV(gpu_memory_utilization, OPTION_REAL, .fallback = "0.9", .min = 0.01, .max = 1,
       .help = "Share of the GPU's memory that the engine uses (vLLM --gpu-memory-utilization, "
               "SGLang --mem-fraction-static); with TensorRT-LLM the share of what weights and "
               "activations leave (free_gpu_memory_fraction). An engine sets its own default."),
    KV(activation_bytes, OPTION_BYTES, .fallback = "1 GiB", .max = 1e15,
       .help = "Memory of each GPU that is reserved for activations."),
    KV(kv_cache_memory_bytes, OPTION_BYTES, .min = 1, .max = 1e15,
       .help = "KV memory of each GPU (vLLM --kv-cache-memory-bytes). It excludes "
               "num_gpu_blocks_override.",
       .absent = "what the GPU memory leaves"),
    KV(num_gpu_blocks_override, OPTION_INT, .min = 1, .max = 1e12,
       .help = "Number of blocks of KV memory (vLLM --num-gpu-blocks-override).",
       .absent = "what the GPU memory leaves"),
    SPEC(kv_layer_sync, OPTION_TICKS, .fallback = "0 s", .max = 1,
         .help =
             "Time that each layer of a prefill takes longer while its KV is sent layer by layer."),
    SPEC(nic_bandwidth, OPTION_BANDWIDTH, .min = 1, .max = 1e18,
         .help = "NIC bandwidth of an instance in each direction; of each stage and attention rank "
                 "of each replica where there are several.",
         .absent = "by its share of the machine's GPUs"),
    POOL(cpu_memory, OPTION_BYTES, .max = 1e18,
         .help = "CPU memory for the KV of an instance; of each stage and attention rank of each "
                 "replica where there are several.",
         .absent = "by its share of the machine's GPUs"),
    POOL(host_link, OPTION_NODE, .help = "Link between GPU and CPU memory.",
         .absent = "the defaults of its keys"),
    POOL(faults, OPTION_NODE, .help = "Failures of GPUs, machines, links and stores.",
         .absent = "nothing fails"),
    POOL(pauses, OPTION_NODE,
         .help = "Times at which the engine is paused: [{at: 60 s, for: 5 s, mode: all}, …]. It "
                 "needs batcher vllm.",
         .absent = "none"),
    POOL(start_up, OPTION_NODE, .help = "Duration of the start of an instance, by phase.",
         .absent = "starts take no time"),
    POOL(spares, OPTION_INT, .fallback = "0", .max = 1e6,
         .help = "Number of instances, in addition to count, that are off until one fails."),
    POOL(scaling, OPTION_NODE, .help = "Autoscaling of the pool.",
         .absent = "count instances at all times"),
    OPTION_AT(PoolConfig, "lora", lora_node, OPTION_NODE, .help = "Memory for LoRA adapters.",
              .absent = "none"),
    POOL(power, OPTION_CHOICE, .fallback = "auto", .choices = power_choices,
         .help =
             "Source of the power of iterations: the watts of kernels where those were measured "
             "(operators), a GPU's power by the batch (batch), or the machine type's constants "
             "for prefill and decode (phase). auto is phase where the machine type has them and "
             "no cap is set, else operators, else batch."),
    POOL(gpu_power_cap, OPTION_NODE,
         .help =
             "Limit on the power of each GPU, such as '400 W', or a share of the GPU's own such "
             "as 0.6, at least 0.28. Iterations that would draw more take longer.",
         .absent = "the GPU's own limit"),
    POOL(perfmodel, OPTION_NODE, .help = "Performance model of the pool, as at the top level.",
         .absent = "that of the top level"),
    OPTION_AT(PoolConfig, "engine", engine_node, OPTION_NODE, .listed = "engines",
              .help = "Serving engine of the pool, as at the top level but without request_time.",
              .absent = "that of the top level"),
    POOL(batcher, OPTION_NODE, .help = "Batcher of the pool, as in policies.",
         .absent = "that of policies"),
    POOL(kvtier, OPTION_NODE, .help = "KV tier of the pool, as in policies.",
         .absent = "that of policies"),
    {0}};

Parallelism config_degrees(const PoolConfig *pool) {
  return (Parallelism){.tensor = pool->tensor_parallel_size,
                       .pipeline = pool->pipeline_parallel_size,
                       .data = pool->data_parallel_size,
                       .attention = pool->attention_data_parallel_size,
                       .expert = pool->expert_parallel_size,
                       .nodes = pool->nnodes,
                       .ffn = pool->sides.ffn_gpus,
                       .micro_batches = pool->sides.micro_batches};
}

/* Of one stage of one replica. */
static int64_t stage_gpus(const PoolConfig *pool) {
  return pool->tensor_parallel_size * pool->attention_data_parallel_size;
}

static const Batcher *batcher_of(const Config *self, const PoolConfig *pool) {
  return (const Batcher *)sim_pool_policy(&self->sim, &pool->spec, POLICY_BATCHER).policy;
}

/* Instances that share the stages of a replica: batches of a pipeline are in flight by one
 * scheduler, or each has an instance of its own. */
static int64_t lanes_of(const Config *self, const PoolConfig *pool) {
  return batcher_of(self, pool)->fills_pipelines ? 1 : pool->pipeline_parallel_size;
}

/* Attention ranks of a replica that have schedulers of their own; 1: there is one for all. */
static int64_t ranks_of(const Config *self, const PoolConfig *pool) {
  const void *options = sim_pool_policy(&self->sim, &pool->spec, POLICY_BATCHER).state;
  const Batcher *batcher = batcher_of(self, pool);
  if (!options || !batcher->has_ranks || !batcher->has_ranks(options)) return 1;
  if (pool->sides.ffn_gpus > 0) return 1; // one decides for all of a batch
  return pool->pipeline_parallel_size > 1 ? 1 : pool->attention_data_parallel_size;
}

/* Of one instance: those with attention and KV, and all. */
static int64_t kv_gpus(const Config *self, const PoolConfig *pool) {
  return stage_gpus(pool) * pool->pipeline_parallel_size / lanes_of(self, pool) /
         ranks_of(self, pool);
}

static int64_t instance_gpus(const Config *self, const PoolConfig *pool) {
  return kv_gpus(self, pool) + pool->sides.ffn_gpus;
}

static double kv_share_of(const Config *self, const PoolConfig *pool, const Hardware *hardware) {
  return (double)kv_gpus(self, pool) / (double)hardware->num_gpus;
}

/* CPU memory for KV: as written, or the instance's share. */
static int fit_cpu_memory(const Config *self, PoolConfig *pool, const Node *node,
                          const Hardware *hardware, const KvCapacity *capacity, Diag *diag) {
  if (!node_find(node, "cpu_memory")) {
    pool->cpu_memory =
        llround(kv_share_of(self, pool, hardware) * (double)hardware->cpu_memory_bytes);
    return 0;
  }
  char given[32], limit[32];
  units_format(given, sizeof given, DIM_BYTES, (double)pool->cpu_memory);
  const int64_t there_is = pool->nnodes * hardware->cpu_memory_bytes;
  if (pool->cpu_memory > there_is) {
    units_format(limit, sizeof limit, DIM_BYTES, (double)there_is);
    return diag_error(diag, config_place(node, "cpu_memory"),
                      "a cpu_memory of %s exceeds the %s of machine '%s'", given, limit,
                      hardware->name);
  }
  if (pool->cpu_memory > 0 && pool->cpu_memory < capacity->block_bytes) {
    units_format(limit, sizeof limit, DIM_BYTES, (double)capacity->block_bytes);
    return diag_error(diag, config_place(node, "cpu_memory"),
                      "a cpu_memory of %s is less than one block of KV, %s", given, limit);
  }
  return 0;
}

/* The share of the machine type that one instance is, or one lane of a pipeline, or one rank. */
static void fill_spec(const Config *self, PoolConfig *pool, const Llm *model,
                      const Hardware *hardware, const KvCapacity *capacity) {
  PoolSpec *spec = &pool->spec;
  const double share = (double)instance_gpus(self, pool) / (double)hardware->num_gpus;
  const double kv_share = kv_share_of(self, pool, hardware);
  const int64_t pipeline_lanes = lanes_of(self, pool), own_ranks = ranks_of(self, pool);
  const int64_t lanes = pipeline_lanes * own_ranks * pool->data_parallel_size;
  spec->machine = hardware->name;
  const int64_t machines = spec->scaling.max > 0 ? spec->scaling.max : pool->count;
  spec->count = (uint32_t)(machines * lanes);
  spec->lanes = (uint32_t)lanes;
  spec->per_machine = (uint32_t)(hardware->num_gpus / instance_gpus(self, pool));
  spec->pipeline_stages = pool->pipeline_parallel_size;
  spec->pipeline_lanes = pipeline_lanes;
  const int64_t ranks = pool->attention_data_parallel_size;
  spec->ranks = own_ranks;
  spec->attention_ranks = ranks / own_ranks;
  spec->kv_blocks = capacity->blocks / pipeline_lanes / ranks * spec->attention_ranks;
  spec->layout = pool->kv.layout;
  spec->block_size = spec->layout ? spec->layout->block_size : pool->kv.block_size;
  spec->cpu_kv_blocks = pool->cpu_memory / capacity->block_bytes;
  spec->kv_block_bytes = capacity->block_bytes;
  spec->kv_bytes_per_token = model->kv_bytes_per_token;
  spec->window = model->kv_bytes_per_sequence > 0 ? model->sliding_window : 0;
  spec->window_bytes_per_token = spec->window > 0 ? model->kv_bytes_per_sequence / spec->window : 0;
  spec->state_bytes = model->state_bytes_per_sequence;
  spec->weight_bytes = model->weight_bytes;
  spec->num_hidden_layers = self->models[spec->model].num_hidden_layers;
  spec->num_nextn_predict_layers = model->num_nextn_predict_layers;
  if (spec->nic_bandwidth == 0)
    spec->nic_bandwidth = llround(kv_share * (double)hardware->nic_bandwidth);
  spec->nvlink_bandwidth = kv_gpus(self, pool) * hardware->nvlink_bandwidth;
  spec->kv_transfer_overhead = hardware->kv_transfer_overhead;
  config_fill_power(pool, share, hardware);
  spec->cost_per_hour = share * hardware->cost_per_hour;
}

static int64_t scaled(int64_t limit, int64_t times, int64_t most) {
  return limit < most / times ? limit * times : most;
}

/* The same with `times` the sequences and tokens that an iteration may have. */
static PolicyChoice scale_batcher(PolicyChoice batcher, int64_t times, Arena *arena) {
  const BatchLimits own = batcher_limits(&batcher);
  return batcher_limited(
      batcher,
      (BatchLimits){.max_num_batched_tokens =
                        scaled(own.max_num_batched_tokens, times, BATCH_TOKENS_MAX),
                    .max_num_seqs = scaled(own.max_num_seqs, times, BATCH_SEQS_MAX)},
      arena);
}

/* Error at `at` when the pool's batcher and tier cannot work together. */
static int check_policies(const Config *self, const PoolSpec *pool, Place at, Diag *diag) {
  const Policy *batcher = sim_pool_policy(&self->sim, pool, POLICY_BATCHER).policy;
  const Policy *kvtier = sim_pool_policy(&self->sim, pool, POLICY_KVTIER).policy;
  const Policy *roles = sim_policy(&self->sim, POLICY_POOL).policy;
  const char *conflict = sim_conflict(roles, batcher, kvtier);
  const Batcher *batches = (const Batcher *)batcher;
  const void *options = sim_pool_policy(&self->sim, pool, POLICY_BATCHER).state;
  const bool counts = kvtier_moves((const KvTier *)kvtier) || ((const PoolPolicy *)roles)->shape;
  if (!conflict && counts && options && batches->caches && batches->caches(options))
    conflict = "a prefix cache needs KV memory of one size; set 'enable_prefix_caching: false'";
  if (!conflict) return 0;
  return diag_error(diag, at,
                    "pool policy '%s', batcher '%s' and kvtier '%s' cannot be combined: %s",
                    roles->name, batcher->name, kvtier->name, conflict);
}

/* Error when its batcher's options do not suit its instances. `own` is the value of its own
 * batcher, NULL if it has that of the run. */
static int check_batcher(const Config *self, const PoolSpec *pool, const Node *own, Arena *arena,
                         Diag *diag) {
  const PolicyChoice choice = sim_pool_policy(&self->sim, pool, POLICY_BATCHER);
  const Batcher *batcher = (const Batcher *)choice.policy;
  const char *key = NULL;
  if (!batcher->refuse || !choice.state) return 0; // wrong options have been named already
  const char *wrong = batcher->refuse(choice.state, pool, arena, &key);
  if (!wrong) return 0;
  const Node *policies = node_find(self->root, "policies");
  const Node *node = own ? own : policies ? node_find(policies, "batcher") : NULL;
  return diag_error(diag, node ? config_place(node, key) : self->root->at, "%s", wrong);
}

/* The pool's own batcher and tier, and whether those it has work together. */
static int bind_pool_policies(const Config *self, const Node *node, PoolConfig *pool, Arena *arena,
                              Diag *diag) {
  PoolSpec *spec = &pool->spec;
  int status = config_bind_pool_engine(self, node, pool, arena, diag);
  const int64_t groups = pool->attention_data_parallel_size;
  if (groups > ranks_of(self, pool) && !status)
    spec->batcher = scale_batcher(sim_pool_policy(&self->sim, spec, POLICY_BATCHER), groups, arena);
  if (pool->kvtier)
    status |= config_bind_policy(&spec->kvtier, POLICY_KVTIER, pool->kvtier, arena, diag);
  if (status || config_check_pool_engine(self, node, pool, diag)) return -1;
  const char *key = pool->batcher ? "batcher" : pool->kvtier ? "kvtier" : "engine";
  return check_policies(self, spec, config_place(node, key), diag);
}

/* The batches of a pipeline, as many as it has lanes, share its KV memory. */
static int check_lanes(const Config *self, const PoolConfig *pool, const Node *node,
                       const KvCapacity *capacity, Diag *diag) {
  const int64_t lanes = lanes_of(self, pool), ranks = pool->attention_data_parallel_size;
  if (capacity->blocks >= lanes && capacity->blocks < lanes * ranks)
    return diag_error(diag, config_place(node, "attention_data_parallel_size"),
                      "%lld blocks of KV memory are not enough for %lld attention ranks",
                      (long long)capacity->blocks, (long long)ranks);
  if (capacity->blocks >= lanes) return 0;
  return diag_error(diag, config_place(node, "pipeline_parallel_size"),
                    "%lld blocks of KV memory are not enough for the %lld batches in the pipeline",
                    (long long)capacity->blocks, (long long)lanes);
}

/* Ranks with schedulers of their own have one role, and no adapters. */
static int check_ranks(const Config *self, const PoolConfig *pool, const Node *node, Diag *diag) {
  const Policy *roles = sim_policy(&self->sim, POLICY_POOL).policy;
  const bool moves = roles != policy_list(POLICY_POOL)[0];
  if (ranks_of(self, pool) == 1 || !(pool->lora_node || moves)) return 0;
  if (pool->lora_node)
    diag_error(diag, pool->lora_node->key_at,
               "'lora' cannot be used with attention ranks that have schedulers of their own");
  else
    diag_error(diag, config_place(node, "attention_data_parallel_size"),
               "pool policy '%s' cannot be used with attention ranks that have schedulers of their "
               "own",
               roles->name);
  diag_hint(diag, "set 'rank_scheduling: shared' of batcher '%s'",
            sim_pool_policy(&self->sim, &pool->spec, POLICY_BATCHER).policy->name);
  return -1;
}

/* Two ways to say what the KV memory is are one too many. */
static int check_kv_keys(const Node *node, Diag *diag) {
  const Node *bytes = node_find(node, "kv_cache_memory_bytes");
  if (!bytes || !node_find(node, "num_gpu_blocks_override")) return 0;
  return diag_error(diag, bytes->key_at,
                    "'kv_cache_memory_bytes' and 'num_gpu_blocks_override' exclude each other");
}

/* A decoding sequence holds at least one block, of those that the GPUs hold unless the tier has
 * more. */
static int64_t max_decode_seqs(const Config *self, const PoolSpec *spec, int64_t ranks,
                               const KvCapacity *capacity) {
  const PolicyChoice batcher = sim_pool_policy(&self->sim, spec, POLICY_BATCHER);
  const KvTier *tier = (const KvTier *)sim_pool_policy(&self->sim, spec, POLICY_KVTIER).policy;
  const int64_t most = ranks * config_max_decode_seqs(&batcher);
  return most > capacity->blocks && !kvtier_moves(tier) ? capacity->blocks : most;
}

/* By the tier of a pool whose policies are bound. */
static double weights_on_cpu(const Config *self, const PoolSpec *spec) {
  const PolicyChoice choice = sim_pool_policy(&self->sim, spec, POLICY_KVTIER);
  const KvTier *tier = (const KvTier *)choice.policy;
  return tier->weights_on_cpu && choice.state ? tier->weights_on_cpu(choice.state) : 0;
}

/* Requests come to all pools through the same servers. */
static int bind_engine(PoolConfig *pool, Diag *diag) {
  const Node *time = node_find(pool->engine_node, "request_time");
  if (time)
    return diag_error(
        diag, time->key_at,
        "'request_time' belongs in the 'engine' of the whole configuration, not in that of a pool");
  return serving_bind(&pool->engine, pool->engine_node, diag);
}

static int check_tier(const Config *self, const Node *node, const PoolSpec *pool, Diag *diag) {
  const PolicyChoice choice = sim_pool_policy(&self->sim, pool, POLICY_KVTIER);
  const KvTier *tier = (const KvTier *)choice.policy;
  if (!tier->check || !choice.state) return 0; // without one its error is told
  if (kvtier_moves(tier) && pool->pipeline_stages > 1)
    return diag_error(diag, config_place(node, "pipeline_parallel_size"),
                      "kvtier '%s' does not support pipelines", choice.policy->name);
  const Node *policies = node_find(self->root, "policies");
  const Node *owner = pool->kvtier.policy || !policies ? node : policies;
  return tier->check(choice.state, pool, config_place(owner, "kvtier"), diag);
}

static bool was_set(Place at) {
  return at.path && strcmp(at.path, "--set") == 0;
}

/* What its times hang on that was set last, if it was on the command line; else its own
 * `perfmodel`, or the machine. */
static Place times_place(const Config *self, const Node *node, const PerfModelInputs *choice,
                         Place machine_at) {
  static const char *const keys[] = {"perfmodel", "tensor_parallel_size", "engine", "model"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const Node *own = node_find(node, keys[i]), *of_run = node_find(self->root, keys[i]);
    if (own && was_set(own->at)) return own->at;
    if (of_run && was_set(of_run->at)) return of_run->at;
  }
  if (node_find(node, "perfmodel")) return config_place(node, "perfmodel");
  return datafile_is_path(choice->name) ? config_place(self->root, "perfmodel") : machine_at;
}

const Speculation *config_speculation(const PolicyChoice *batcher) {
  const Batcher *drafts = (const Batcher *)batcher->policy;
  return batcher->state && drafts->speculation ? drafts->speculation(batcher->state) : NULL;
}

/* Times with equal loads were measured of whole experts over machines alone. */
static int check_eplb(const PoolConfig *pool, const Node *node, Diag *diag) {
  const Parallelism degrees = config_degrees(pool);
  if (pool->expert_load) return 0; // which has checks of its own
  if (!pool->enable_eplb || (parallelism_nodes_of(degrees, stage_gpus(pool)) > 1 &&
                             degrees.attention > 1 && degrees.expert == stage_gpus(pool)))
    return 0;
  return diag_error(diag, config_place(node, "enable_eplb"),
                    "'enable_eplb' applies to whole experts over several machines, with 'nnodes', "
                    "'attention_data_parallel_size' and 'expert_parallel_size'");
}

/* What the other degrees leave of the GPUs of an instance's machines. */
static int64_t tensor_left(const PoolConfig *pool) {
  const int64_t others =
      pool->pipeline_parallel_size * pool->data_parallel_size * pool->attention_data_parallel_size;
  const int64_t all = pool->hardware.num_gpus * pool->nnodes;
  const int64_t left = all - pool->sides.ffn_gpus * pool->data_parallel_size;
  return left > others ? left / others : 1;
}

static int bind_ranks(const Config *self, PoolConfig *pool, const Llm *model, const Node *node,
                      Arena *arena, Diag *diag) {
  if (check_ranks(self, pool, node, diag) || check_eplb(pool, node, diag)) return -1;
  return config_bind_experts(self, pool, model, ranks_of(self, pool), node, arena, diag);
}

/* The spec is filled when all of it is in order. */
static int bind_pool(Config *self, const Node *node, PoolConfig *pool, Arena *arena, Diag *diag) {
  pool->engine = self->engine;
  int status = option_bind(config_pool_options, node, NULL, node->at, pool, diag);
  PoolSpec *spec = &pool->spec;
  spec->name = node->key;
  status |= bind_engine(pool, diag);
  status |= config_bind_sides(pool, diag);
  status |= config_bind_pool_scaling(self, pool, node, diag);
  if (node->kind != NODE_MAP || !pool->machine) return -1;
  Hardware hardware;
  Place machine_at = config_place(node, "machine");
  if (config_load_hardware(self, &hardware, pool->machine, machine_at, arena, diag)) return -1;
  pool->hardware = hardware;
  if (self->sim.network_path == NETWORK_NVLINK && hardware.nvlink_bandwidth == 0)
    status =
        diag_error(diag, machine_at,
                   "machine '%s' has no NVLink, which 'path' of the network needs", hardware.name);
  if (config_find_model(self, config_place(node, "model"), "a pool", pool->model, &spec->model,
                        diag))
    return -1;
  const Llm *model = &self->models[spec->model];
  if (status || !model->name) return -1;
  if (pool->tensor_parallel_size == 0) pool->tensor_parallel_size = tensor_left(pool);
  const Parallelism degrees = config_degrees(pool);
  if (bind_pool_policies(self, node, pool, arena, diag)) return -1;
  pool->kv.weights_on_cpu = weights_on_cpu(self, spec);
  const PolicyChoice batcher = sim_pool_policy(&self->sim, spec, POLICY_BATCHER);
  const Speculation *speculation = config_speculation(&batcher);
  const Llm held = speculation && speculation->mtp ? llm_with_mtp(model) : *model;
  pool->kv.max_num_seqs = ranks_of(self, pool) * config_max_decode_seqs(&batcher);
  if (batcher.policy && ((const Batcher *)batcher.policy)->groups_layers && degrees.pipeline == 1)
    pool->kv.layout = kv_layout_of(&held, degrees.tensor, pool->kv.block_size, arena);
  double cap = 0;
  if (config_bind_power(pool, &hardware, node, &cap, diag) ||
      bind_ranks(self, pool, model, node, arena, diag))
    return -1;
  if (pool->lora_node && config_bind_lora(self, pool, pool->lora_node, diag)) return -1;
  KvCapacity capacity;
  if (check_kv_keys(node, diag) ||
      kv_capacity(&held, &hardware, degrees, &pool->kv, config_place(node, "tensor_parallel_size"),
                  &capacity, diag) ||
      check_lanes(self, pool, node, &capacity, diag) ||
      fit_cpu_memory(self, pool, node, &hardware, &capacity, diag))
    return -1;
  PerfModelInputs choice = self->perfmodel;
  if (pool->perfmodel && config_bind_perfmodel(self, pool->perfmodel, &choice, arena, diag))
    return -1;
  if (!choice.name) return -1;
  choice.error_shift = self->error_shift;
  choice.apart = self->apart;
  choice.model = model;
  choice.hardware = &hardware;
  choice.degrees = degrees;
  choice.enable_eplb = pool->enable_eplb || pool->expert_load; // others follow from equal loads
  choice.power = pool->power;
  choice.power_cap = cap;
  choice.output_error = speculation ? speculation->error : 0;
  choice.max_decode_seqs = max_decode_seqs(self, spec, ranks_of(self, pool), &capacity);
  pool->times = choice;
  pool->times_at = times_place(self, node, &choice, machine_at);
  spec->perfmodel = config_load_perfmodel(self, choice, &pool->engine, pool->times_at, arena, diag);
  if (!spec->perfmodel || config_check_experts(pool, node, diag)) return -1;
  config_give_host_times(pool, arena);
  fill_spec(self, pool, &held, &hardware, &capacity);
  if (config_bind_host(pool, node, arena, diag) ||
      check_batcher(self, spec, pool->batcher ? pool->batcher : node_find(node, "engine"), arena,
                    diag))
    return -1;
  return config_fill_sleep(self, node, pool, diag) | check_tier(self, node, spec, diag);
}

static int check_phases(const Config *self, uint32_t model, const Node *node, Diag *diag) {
  static const char *const phases[] = {"prefill", "decode"}; // as Phase
  int status = 0;
  for (int phase = PHASE_PREFILL; phase <= PHASE_DECODE; phase++) {
    bool covered = false;
    for (uint32_t i = 0; i < self->sim.n_pools; i++)
      covered |=
          self->pools[i].spec.model == model && role_covers(self->pools[i].spec.role, (Phase)phase);
    if (covered) continue;
    const char *name = self->specs[model].name;
    status =
        name ? diag_error(diag, node->key_at, "no pool does %s of model '%s'", phases[phase], name)
             : diag_error(diag, node->key_at, "no pool does %s", phases[phase]);
    diag_hint(diag, "set 'role' of a pool to '%s' or 'mixed'", phases[phase]);
  }
  return status;
}

/* Machines and lanes are numbered in 32 bits, and policies look at all of them. */
static int check_machines(const Config *self, const Node *node, Diag *diag) {
  enum { MACHINES_MAX = 10000000 };
  int64_t machines = 0;
  uint32_t i = 0;
  for (const Node *child = node->first; child; child = child->next, i++) {
    machines += self->sim.pools[i].count;
    if (machines > MACHINES_MAX)
      return diag_error(diag, config_place(child, "count"),
                        "the pools up to '%s' have %lld instances or pipeline stages in all, at "
                        "most %d are supported",
                        child->key, (long long)machines, MACHINES_MAX);
  }
  return 0;
}

/* Whether the pool policy is asked to keep more machines than there are. */
static int check_excess(const Config *self, uint32_t model, Diag *diag) {
  int64_t n_split = 0;
  for (uint32_t i = 0; i < self->sim.n_pools; i++)
    if (self->pools[i].spec.model == model && self->pools[i].spec.role != ROLE_MIXED)
      n_split += self->pools[i].count;
  const PolicyChoice *choice = &self->sim.policies[POLICY_POOL];
  const PoolPolicy *policy = (const PoolPolicy *)choice->policy;
  if (!policy || !policy->excess || n_split == 0) return 0;
  if (!choice->state) return 0; // wrong options have been named already
  const char *key = policy->excess(choice->state, n_split);
  if (!key) return 0;
  const Node *written = node_find(node_find(self->root, "policies"), policy_kind_name(POLICY_POOL));
  return diag_error(diag, config_place(written, key),
                    "'%s' exceeds the instances that prefill or decode, %lld in all", key,
                    (long long)n_split);
}

/* Whether a pool is one that an assignment made, by a name that is in no file, without saying what
 * its machines are: an entry says what its name may have been meant to be. */
static bool is_misnamed(const Node *pools, const Node *pool, Diag *diag) {
  if (!was_set(pool->key_at) || pool->kind != NODE_MAP || node_find(pool, "machine")) return false;
  const char **names = ARENA_ARRAY(&diag->arena, const char *, pools->n_children + 1);
  int n = 0;
  for (const Node *other = pools->first; other; other = other->next)
    if (!was_set(other->key_at)) names[n++] = other->key;
  if (n == 0) return false;
  diag_error(diag, pool->key_at, "there is no pool '%s', and a new one needs a 'machine'",
             pool->key);
  diag_hint_near(diag, pool->key, names);
  return true;
}

int config_bind_pools(Config *self, const Node *node, Arena *arena, Diag *diag) {
  if (node->kind != NODE_MAP || node->n_children == 0)
    return diag_error(diag, node->at, "'pools' must be a map of names to pools, with at least one");
  self->pools = ARENA_ARRAY(arena, PoolConfig, node->n_children);
  PoolSpec *specs = ARENA_ARRAY(arena, PoolSpec, node->n_children);
  int status = 0;
  for (const Node *child = node->first; child; child = child->next) {
    const uint32_t i = self->sim.n_pools++;
    status |=
        is_misnamed(node, child, diag) ? -1 : bind_pool(self, child, &self->pools[i], arena, diag);
    specs[i] = self->pools[i].spec;
  }
  self->sim.pools = specs;
  if (status) return -1;
  for (uint32_t m = 0; m < self->n_models; m++)
    status |= check_phases(self, m, node, diag) | check_excess(self, m, diag);
  return status | check_machines(self, node, diag);
}
