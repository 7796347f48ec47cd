/* Machine types and the KV memory that a model leaves on them. */
#include "perfmodel/hardware.h"
#include "perfmodel/datafile.h"
#include <assert.h>
#include <stdio.h>

#define FACT(field, kind, ...)                                                                     \
  { .key = #field, .type = kind, .offset = offsetof(Hardware, field), __VA_ARGS__ }
#define ROW(field, kind, ...) FACT(field, kind, .required = true, __VA_ARGS__)
#define UNBOUNDED             .min = 1, .max = 1e18
#define SHARE                 .min = 0.01, .max = 1

/* Default shares. flops: published products of 1024 tokens reach 0.82 to 0.86 (A100, H100, H200),
 * less where power is short. hbm: mem_bw_empirical_scaling of aiconfigurator's systems. nvlink:
 * published all-reduces of 32 MiB over 8 GPUs reach 0.55 to 0.69. pcie: assumed. */
static const OptionSpec SPECS[] = {
    ROW(gpu, OPTION_STRING, .help = "key of measured profiles"),
    ROW(sm, OPTION_INT, .max = 1000,
        .help =
            "compute capability of a GPU, 90 for 9.0; AMD: the number of its gfx target; 0: a CPU"),
    ROW(num_gpus, OPTION_INT, .min = 1, .max = 1024, .help = "GPUs of the machine"),
    ROW(gpu_memory_bytes, OPTION_BYTES, .min = 1, .max = 1e15, .help = "HBM of one GPU"),
    ROW(dense_bf16_flops, OPTION_REAL, UNBOUNDED, .help = "peak of one GPU, per second"),
    FACT(dense_fp8_flops, OPTION_REAL, UNBOUNDED, .help = "peak with FP8; absent: no FP8"),
    FACT(dense_fp4_flops, OPTION_REAL, UNBOUNDED, .help = "peak with FP4; absent: no FP4"),
    FACT(flops_efficiency, OPTION_REAL, SHARE, .fallback = "0.8", .help = "of matrix products"),
    ROW(hbm_bandwidth, OPTION_BANDWIDTH, UNBOUNDED, .help = "peak of one GPU"),
    FACT(hbm_efficiency, OPTION_REAL, SHARE, .fallback = "0.8", .help = "of reading weights"),
    ROW(nvlink_bandwidth, OPTION_BANDWIDTH, .max = 1e15, .help = "per direction of one GPU"),
    FACT(nvlink_efficiency, OPTION_REAL, SHARE, .fallback = "0.6", .help = "of an all-reduce"),
    ROW(pcie_bandwidth, OPTION_BANDWIDTH, .min = 1, .max = 1e15,
        .help = "per direction of one GPU"),
    FACT(pcie_efficiency, OPTION_REAL, SHARE, .fallback = "0.6", .help = "of an all-reduce"),
    FACT(host_to_gpu_bandwidth, OPTION_BANDWIDTH, UNBOUNDED,
         .help = "from CPU memory to one GPU; absent: pcie_bandwidth"),
    FACT(gpu_to_host_bandwidth, OPTION_BANDWIDTH, UNBOUNDED,
         .help = "from one GPU to CPU memory; absent: pcie_bandwidth"),
    FACT(all_reduce_latency, OPTION_TICKS, .fallback = "0 s", .max = 1,
         .help = "the smallest all-reduce"),
    ROW(cpu_memory_bytes, OPTION_BYTES, .max = 1e18, .help = "memory of the host"),
    ROW(nic_bandwidth, OPTION_BANDWIDTH, UNBOUNDED, .help = "in each direction, all NICs"),
    FACT(kv_transfer_overhead, OPTION_TICKS, .fallback = "0 s", .max = 60,
         .help = "visible rest of a layer-wise KV transfer"),
    ROW(gpu_tdp, OPTION_POWER, .max = 1e6, .help = "limit of one GPU"),
    FACT(idle_power, OPTION_POWER, .max = 1e6, .help = "machine without work"),
    FACT(prefill_power, OPTION_POWER, .max = 1e6,
         .help = "machine in prefill and mixed iterations"),
    FACT(decode_power, OPTION_POWER, .max = 1e6, .help = "machine in decode iterations"),
    FACT(provisioned_power, OPTION_POWER, .max = 1e6, .help = "what sizing a cluster counts"),
    FACT(cost_per_hour, OPTION_MONEY, .max = 1e6, .help = "price of the machine"),
    {0}};

int hardware_load(Hardware *self, const char *name, const char *data_dir, Place at, Arena *arena,
                  Diag *diag) {
  const char *path = datafile_resolve(data_dir, "machines", "machine", name, at, arena, diag);
  if (!path) return -1;
  const Node *root = yaml_load(path, arena, diag);
  Hardware hardware = {.name = datafile_stem(path, arena)};
  if (!root || option_bind(SPECS, root, NULL, root->at, &hardware, diag)) return -1;
  if (hardware.host_to_gpu_bandwidth == 0) hardware.host_to_gpu_bandwidth = hardware.pcie_bandwidth;
  if (hardware.gpu_to_host_bandwidth == 0) hardware.gpu_to_host_bandwidth = hardware.pcie_bandwidth;
  *self = hardware;
  return 0;
}

double hardware_compute_rate(const Hardware *self) {
  return self->dense_bf16_flops * self->flops_efficiency;
}

double hardware_memory_rate(const Hardware *self) {
  return (double)self->hbm_bandwidth * self->hbm_efficiency;
}

double hardware_link_rate(const Hardware *self) {
  return self->nvlink_bandwidth > 0 ? (double)self->nvlink_bandwidth * self->nvlink_efficiency
                                    : (double)self->pcie_bandwidth * self->pcie_efficiency;
}

/* KV heads are split over the GPUs, and copied once there are fewer of them than GPUs. */
static int64_t kv_copies(const Llm *llm, int64_t tensor_parallel_size) {
  return tensor_parallel_size > llm->num_key_value_heads
             ? tensor_parallel_size / llm->num_key_value_heads
             : 1;
}

static bool splits(int64_t a, int64_t b) {
  return a % b == 0 || b % a == 0;
}

static bool heads_divide(const Llm *llm, int64_t tensor_parallel_size) {
  return llm->num_attention_heads % tensor_parallel_size == 0 &&
         splits(llm->num_key_value_heads, tensor_parallel_size);
}

/* Of the GPUs' memory, by weights that are elsewhere. */
static int64_t freed_bytes(const Llm *llm, const KvOptions *options) {
  return (int64_t)(options->weights_on_cpu * (double)llm->weight_bytes);
}

static KvCapacity capacity_of(const Llm *llm, const Hardware *hardware, Parallelism degrees,
                              const KvOptions *options) {
  const int64_t gpus = degrees.tensor * degrees.pipeline;
  double usable =
      options->gpu_memory_utilization * (double)hardware->gpu_memory_bytes * (double)gpus;
  const int64_t weights = llm->weight_bytes - freed_bytes(llm, options);
  int64_t left = (int64_t)usable - weights - options->activation_bytes * gpus;
  int64_t block_bytes =
      options->block_size * llm->kv_bytes_per_token * kv_copies(llm, degrees.tensor);
  return (KvCapacity){block_bytes, left > 0 ? left / block_bytes : 0};
}

/* The smallest division of the machine's GPUs that leaves room for KV; 0: none. */
static int64_t smallest_fitting(const Llm *llm, const Hardware *hardware,
                                const KvOptions *options) {
  for (int64_t tp = 1; tp <= hardware->num_gpus; tp++)
    if (hardware->num_gpus % tp == 0 && heads_divide(llm, tp) &&
        capacity_of(llm, hardware, (Parallelism){.tensor = tp, .pipeline = 1, .data = 1}, options)
                .blocks > 0)
      return tp;
  return 0;
}

static int report_too_big(const Llm *llm, const Hardware *hardware, Parallelism degrees,
                          const KvOptions *options, Place at, Diag *diag) {
  const int64_t gpus = degrees.tensor * degrees.pipeline;
  char pipeline[64] = "";
  if (degrees.pipeline > 1)
    snprintf(pipeline, sizeof pipeline, " and pipeline_parallel_size %lld",
             (long long)degrees.pipeline);
  char weights[32], memory[32];
  units_format(weights, sizeof weights, DIM_BYTES,
               (double)(llm->weight_bytes - freed_bytes(llm, options)));
  units_format(memory, sizeof memory, DIM_BYTES, (double)hardware->gpu_memory_bytes);
  diag_error(diag, at,
             "model '%s' does not fit with tensor_parallel_size %lld%s: its %s of weights leave no "
             "KV memory in %lld x %s of machine '%s' at gpu_memory_utilization %g",
             llm->name, (long long)degrees.tensor, pipeline, weights, (long long)gpus, memory,
             hardware->name, options->gpu_memory_utilization);
  int64_t fitting = smallest_fitting(llm, hardware, options);
  if (fitting > 0)
    diag_hint(diag, "tensor_parallel_size %lld fits", (long long)fitting);
  else
    diag_hint(diag, "it does not fit on all %lld GPUs of the machine either",
              (long long)hardware->num_gpus);
  return -1;
}

static int report_too_few(const Hardware *hardware, Parallelism degrees, Place at, Diag *diag) {
  if (degrees.pipeline == 1 && degrees.data == 1)
    return diag_error(diag, at, "tensor_parallel_size %lld exceeds the %lld GPUs of machine '%s'",
                      (long long)degrees.tensor, (long long)hardware->num_gpus, hardware->name);
  return diag_error(diag, at,
                    "tensor_parallel_size %lld x pipeline_parallel_size %lld x data_parallel_size "
                    "%lld exceeds the %lld GPUs of machine '%s'",
                    (long long)degrees.tensor, (long long)degrees.pipeline, (long long)degrees.data,
                    (long long)hardware->num_gpus, hardware->name);
}

int hardware_check_split(const Llm *llm, const Hardware *hardware, Parallelism degrees, Place at,
                         Diag *diag) {
  if (parallelism_gpus(degrees) > hardware->num_gpus)
    return report_too_few(hardware, degrees, at, diag);
  if (!heads_divide(llm, degrees.tensor))
    return diag_error(diag, at,
                      "tensor_parallel_size %lld does not divide the heads of model '%s': %lld "
                      "attention, %lld key-value",
                      (long long)degrees.tensor, llm->name, (long long)llm->num_attention_heads,
                      (long long)llm->num_key_value_heads);
  if (llm->num_hidden_layers % degrees.pipeline != 0)
    return diag_error(diag, at,
                      "pipeline_parallel_size %lld does not divide the %lld layers of model '%s'",
                      (long long)degrees.pipeline, (long long)llm->num_hidden_layers, llm->name);
  return 0;
}

/* From all that fits to what kv_cache_memory_bytes of each GPU hold. */
static int limit_memory(KvCapacity *capacity, const Llm *llm, int64_t gpus, int64_t bytes, Place at,
                        Diag *diag) {
  const int64_t block = capacity->block_bytes / gpus, room = capacity->blocks * block;
  char wanted[32], limit[32];
  units_format(wanted, sizeof wanted, DIM_BYTES, (double)bytes);
  if (bytes < block) {
    units_format(limit, sizeof limit, DIM_BYTES, (double)block);
    return diag_error(diag, at, "kv_cache_memory_bytes %s holds no block of %s of model '%s'",
                      wanted, limit, llm->name);
  }
  if (bytes > room) {
    units_format(limit, sizeof limit, DIM_BYTES, (double)room);
    return diag_error(diag, at, "kv_cache_memory_bytes %s exceeds the %s that model '%s' leaves",
                      wanted, limit, llm->name);
  }
  capacity->blocks = bytes / block;
  return 0;
}

/* `said` blocks and what weights that are elsewhere leave, as far as it fits. */
static int64_t add_freed(int64_t said, const KvCapacity *fitting, int64_t freed) {
  const int64_t most = said > fitting->blocks ? said : fitting->blocks;
  const int64_t all = said + freed / fitting->block_bytes;
  return all < most ? all : most;
}

int kv_capacity(const Llm *llm, const Hardware *hardware, Parallelism degrees,
                const KvOptions *options, Place at, KvCapacity *ret_capacity, Diag *diag) {
  assert(degrees.tensor >= 1 && degrees.pipeline >= 1 && options->block_size >= 1);
  if (hardware_check_split(llm, hardware, degrees, at, diag)) return -1;
  KvOptions used = *options;
  if (options->kv_cache_memory_bytes > 0) used.gpu_memory_utilization = 1;
  const KvCapacity fitting = capacity_of(llm, hardware, degrees, &used);
  KvCapacity capacity = fitting;
  if (capacity.blocks == 0) return report_too_big(llm, hardware, degrees, &used, at, diag);
  if (options->kv_cache_memory_bytes > 0 &&
      limit_memory(&capacity, llm, degrees.tensor * degrees.pipeline,
                   options->kv_cache_memory_bytes, at, diag))
    return -1;
  if (options->num_gpu_blocks_override > 0) capacity.blocks = options->num_gpu_blocks_override;
  if (options->kv_cache_memory_bytes > 0 || options->num_gpu_blocks_override > 0)
    capacity.blocks = add_freed(capacity.blocks, &fitting, freed_bytes(llm, options));
  *ret_capacity = capacity;
  return 0;
}
