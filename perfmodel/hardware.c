/* Machine types and the KV memory that a model leaves on them. */
#include "perfmodel/hardware.h"
#include "base/hash.h"
#include "perfmodel/datafile.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACT(field, kind, ...) OPTION_OF(Hardware, field, kind, __VA_ARGS__)
#define ROW(field, kind, ...)  FACT(field, kind, .required = true, __VA_ARGS__)
#define UNBOUNDED              .min = 1, .max = 1e18
#define SHARE                  .min = 0.01, .max = 1

/* Default shares. flops: published products of 1024 tokens reach 0.82 to 0.86 (A100, H100, H200),
 * less where power is short. hbm: mem_bw_empirical_scaling of aiconfigurator's systems. nvlink:
 * published all-reduces of 32 MiB over 8 GPUs reach 0.55 to 0.69. pcie: assumed. */
const char *const hardware_sold_names[] = {"gpu", "whole", NULL};

/* What a price is; a machine file has the same keys. */
#define PRICE                                                                                      \
  FACT(cost_per_hour, OPTION_MONEY, .max = 1e6, .help = "Price of the machine.",                   \
       .absent = "not known"),                                                                     \
      FACT(gpu_cost_per_hour, OPTION_MONEY, .max = 1e6,                                            \
           .help = "Price of one GPU. It replaces the price of the machine.",                      \
           .absent = "its share of the machine's price"),                                          \
      FACT(price_date, OPTION_STRING, .help = "Date of the price: 2026, 2026-03 or 2026-03-17.",   \
           .absent = "not said"),                                                                  \
      FACT(price_source, OPTION_STRING, .help = "Source of the price.", .absent = "not said")

const OptionSpec hardware_price_options[] = {PRICE, {0}};

const OptionSpec hardware_options[] = {
    ROW(gpu, OPTION_STRING, .help = "Name of the GPU in measured profiles, such as h100-80gb."),
    ROW(sm, OPTION_INT, .max = 1000,
        .help = "Compute capability of the GPU, 90 for 9.0. For AMD it is the number of the gfx "
                "target, for a CPU 0."),
    ROW(num_gpus, OPTION_INT, .min = 1, .max = 1024, .help = "Number of GPUs in the machine."),
    ROW(gpu_memory_bytes, OPTION_BYTES, .min = 1, .max = 1e15, .help = "Memory (HBM) of one GPU."),
    ROW(dense_bf16_flops, OPTION_REAL, UNBOUNDED,
        .help =
            "Peak FLOP/s of one GPU in BF16 without sparsity, or in FP16 where there is no BF16."),
    FACT(dense_fp8_flops, OPTION_REAL, UNBOUNDED,
         .help = "Peak FLOP/s of one GPU in FP8 without sparsity.", .absent = "no FP8"),
    FACT(fp32_flops, OPTION_REAL, UNBOUNDED,
         .help = "Peak FLOP/s of one GPU in FP32 without tensor cores.",
         .absent = "1/16 of dense_bf16_flops"),
    FACT(dense_fp4_flops, OPTION_REAL, UNBOUNDED,
         .help = "Peak FLOP/s of one GPU in FP4 without sparsity.", .absent = "no FP4"),
    FACT(flops_efficiency, OPTION_REAL, SHARE, .fallback = "0.8",
         .help = "Share of the peak FLOP/s that large matrix products reach."),
    ROW(hbm_bandwidth, OPTION_BANDWIDTH, UNBOUNDED, .help = "Peak memory bandwidth of one GPU."),
    FACT(hbm_efficiency, OPTION_REAL, SHARE, .fallback = "0.8",
         .help = "Share of the memory bandwidth that reading weights reaches."),
    ROW(nvlink_bandwidth, OPTION_BANDWIDTH, .max = 1e15,
        .help = "NVLink bandwidth of one GPU per direction. 0 B/s means none."),
    FACT(nvlink_efficiency, OPTION_REAL, SHARE, .fallback = "0.6",
         .help = "Share of the NVLink bandwidth that an all-reduce reaches."),
    ROW(pcie_bandwidth, OPTION_BANDWIDTH, .min = 1, .max = 1e15,
        .help = "PCIe bandwidth of one GPU per direction."),
    FACT(pcie_efficiency, OPTION_REAL, SHARE, .fallback = "0.6",
         .help = "Share of the PCIe bandwidth that an all-reduce reaches."),
    FACT(host_to_gpu_bandwidth, OPTION_BANDWIDTH, UNBOUNDED,
         .help = "Bandwidth from CPU memory to one GPU.", .absent = "pcie_bandwidth"),
    FACT(gpu_to_host_bandwidth, OPTION_BANDWIDTH, UNBOUNDED,
         .help = "Bandwidth from one GPU to CPU memory.", .absent = "pcie_bandwidth"),
    FACT(all_reduce_latency, OPTION_TICKS, .fallback = "0 s", .max = 1,
         .help = "Time of the smallest all-reduce over the machine's GPUs."),
    ROW(cpu_memory_bytes, OPTION_BYTES, .max = 1e18, .help = "CPU memory of the machine."),
    ROW(nic_bandwidth, OPTION_BANDWIDTH, UNBOUNDED,
        .help = "Bandwidth of all NICs of the machine together, in each direction."),
    FACT(kv_transfer_overhead, OPTION_TICKS, .fallback = "0 s", .max = 60,
         .help = "Visible time of a layer-wise KV transfer beyond that of the last layer."),
    FACT(gpu_tdp, OPTION_POWER, .max = 1e6, .help = "Power limit (TDP) of one GPU.",
         .absent = "not known"),
    FACT(idle_power, OPTION_POWER, .max = 1e6, .help = "Power of the machine while idle.",
         .absent = "not known"),
    FACT(prefill_power, OPTION_POWER, .max = 1e6,
         .help = "Power of the machine in prefill and mixed iterations.", .absent = "not known"),
    FACT(decode_power, OPTION_POWER, .max = 1e6,
         .help = "Power of the machine in decode iterations.", .absent = "not known"),
    FACT(provisioned_power, OPTION_POWER, .max = 1e6,
         .help = "Power of the machine that counts when a cluster is sized.",
         .absent = "not known"),
    FACT(sold, OPTION_CHOICE, .fallback = "gpu", .choices = hardware_sold_names,
         .help = "Unit of sale: single GPUs (gpu) or the whole machine (whole)."),
    PRICE,
    {0}};

/* YYYY, YYYY-MM or YYYY-MM-DD. */
static bool is_date(const char *text) {
  static const char form[] = "dddd-dd-dd";
  const size_t length = strlen(text);
  if (length != 4 && length != 7 && length != 10) return false;
  for (size_t i = 0; i < length; i++)
    if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != form[i]) return false;
  const long month = length > 4 ? strtol(&text[5], NULL, 10) : 1;
  const long day = length > 7 ? strtol(&text[8], NULL, 10) : 1;
  return 1 <= month && month <= 12 && 1 <= day && day <= 31;
}

/* One price, of the machine or of a GPU, and what is said of it. */
static int check_price(Hardware *self, const Node *root, Diag *diag) {
  const Node *of_machine = node_find(root, "cost_per_hour");
  const Node *of_gpu = node_find(root, "gpu_cost_per_hour"), *date = node_find(root, "price_date");
  const Node *source = node_find(root, "price_source"), *said = date ? date : source;
  int status = 0;
  if (of_machine && of_gpu)
    status = diag_error(diag, of_gpu->key_at,
                        "'cost_per_hour' and 'gpu_cost_per_hour' exclude each other");
  if (said && !of_machine && !of_gpu) {
    status = diag_error(diag, said->key_at, "'%s' needs a price beside it", said->key);
    diag_hint(diag, "set 'cost_per_hour' of the machine or 'gpu_cost_per_hour'");
  }
  if (date && self->price_date && !is_date(self->price_date))
    status = diag_error(diag, date->at,
                        "'price_date' must be a date such as 2026-03-17, 2026-03 or 2026, not '%s'",
                        self->price_date);
  if (of_gpu)
    self->cost_per_hour = self->gpu_cost_per_hour * (double)self->num_gpus;
  else
    self->gpu_cost_per_hour = self->cost_per_hour / (double)self->num_gpus;
  return status;
}

int hardware_bind_price(Hardware *self, const Node *map, Diag *diag) {
  self->cost_per_hour = self->gpu_cost_per_hour = 0;
  self->price_date = self->price_source = NULL;
  if (option_bind(hardware_price_options, map, NULL, map->at, self, diag) |
      check_price(self, map, diag))
    return -1;
  if (self->cost_per_hour > 0) return 0;
  return diag_error(diag, map->at,
                    "a price needs 'cost_per_hour' of the machine or 'gpu_cost_per_hour'");
}

int hardware_load(Hardware *self, const char *name, const char *data_dir, Place at, Arena *arena,
                  Diag *diag) {
  const char *path = datafile_resolve(data_dir, "machines", "machine", name, at, arena, diag);
  if (!path) return -1;
  const Node *root = yaml_load(path, arena, diag);
  Hardware hardware = {.name = datafile_stem(path, arena)};
  if (!root || (option_bind(hardware_options, root, NULL, root->at, &hardware, diag) |
                check_price(&hardware, root, diag)))
    return -1;
  if (hardware.host_to_gpu_bandwidth == 0) hardware.host_to_gpu_bandwidth = hardware.pcie_bandwidth;
  if (hardware.gpu_to_host_bandwidth == 0) hardware.gpu_to_host_bandwidth = hardware.pcie_bandwidth;
  if (hardware.fp32_flops == 0) hardware.fp32_flops = hardware.dense_bf16_flops / 16;
  hardware.digest = hash_text(node_digest(root), hardware.name);
  *self = hardware;
  return 0;
}

double hardware_compute_rate(const Hardware *self) {
  return self->dense_bf16_flops * self->flops_efficiency;
}

static double product_flops(const Hardware *self, Dtype weights) {
  const double plain = self->dense_bf16_flops;
  switch (dtype_compute(weights)) {
  case DTYPE_FP8:
    return self->dense_fp8_flops > 0 ? self->dense_fp8_flops : plain;
  case DTYPE_INT8:
    return self->sm >= 75 ? 2 * plain : plain;
  case DTYPE_NVFP4:
  case DTYPE_MXFP4:
    return self->dense_fp4_flops > 0 ? self->dense_fp4_flops : plain;
  default:
    return plain;
  }
}

double hardware_product_rate(const Hardware *self, Dtype weights) {
  return product_flops(self, weights) * self->flops_efficiency;
}

double hardware_memory_rate(const Hardware *self) {
  return (double)self->hbm_bandwidth * self->hbm_efficiency;
}

double hardware_link_rate(const Hardware *self) {
  return self->nvlink_bandwidth > 0 ? (double)self->nvlink_bandwidth * self->nvlink_efficiency
                                    : (double)self->pcie_bandwidth * self->pcie_efficiency;
}

double hardware_nic_rate(const Hardware *self) {
  static const double REACHED = 0.8;
  const double rate = REACHED * (double)self->nic_bandwidth / (double)self->num_gpus;
  return self->nic_slowdown > 0 ? rate / self->nic_slowdown : rate;
}

double hardware_ring_rate(const Hardware *self, int64_t nodes) {
  const double within = hardware_link_rate(self);
  return nodes > 1 ? fmin(within, (double)self->num_gpus * hardware_nic_rate(self)) : within;
}

double hardware_exchange_rate(const Hardware *self, int64_t nodes) {
  const double within = 1 / (double)nodes, link = hardware_link_rate(self);
  return nodes > 1 ? 1 / (within / link + (1 - within) / hardware_nic_rate(self)) : link;
}

double hardware_stage_rate(const Hardware *self, Parallelism degrees) {
  const int64_t stage = degrees.tensor * degree_of(degrees.attention);
  const double links = (double)degrees.pipeline - 1;
  if (links < 1) return hardware_link_rate(self);
  const int64_t nodes = parallelism_nodes_of(degrees, stage * degrees.pipeline);
  const double crossing = fmin(links, (double)nodes - 1);
  const double within = (links - crossing) / hardware_link_rate(self);
  return links / (crossing > 0 ? within + crossing / hardware_nic_rate(self) : within);
}

double hardware_machines_of(const Hardware *self, Parallelism degrees) {
  const int64_t nodes = degree_of(degrees.nodes);
  return (double)nodes / (double)(self->num_gpus * nodes / parallelism_gpus(degrees));
}

static int64_t replica_gpus(Parallelism degrees) {
  return degrees.tensor * degrees.pipeline * degree_of(degrees.attention);
}

static bool splits(int64_t a, int64_t b) {
  return a % b == 0 || b % a == 0;
}

static bool heads_divide(const Llm *llm, int64_t tensor_parallel_size) {
  return llm->num_attention_heads % tensor_parallel_size == 0 &&
         splits(llm_cached_heads(llm), tensor_parallel_size) &&
         llm->linear_num_value_heads % tensor_parallel_size == 0 &&
         splits(llm->linear_num_key_heads, tensor_parallel_size);
}

/* Of the GPUs' memory, by weights that are elsewhere. */
static int64_t freed_bytes(const Llm *llm, const KvOptions *options) {
  return (int64_t)(options->weights_on_cpu * (double)llm->weight_bytes);
}

int64_t hardware_experts_held(const Llm *llm, int64_t expert_parallel_size) {
  return (llm->num_experts + expert_parallel_size - 1) / expert_parallel_size;
}

static double part_all_bytes(const Llm *llm, LlmPart part) {
  return (double)llm_part_parameters(llm, part) * llm_part_bytes(llm, part);
}

/* Of each of the GPUs that have the FFNs alone: whole experts, and slices of all else. */
static int64_t ffn_weights(const Llm *llm, int64_t gpus) {
  const double held = llm->num_experts > 0
                          ? (double)hardware_experts_held(llm, gpus) / (double)llm->num_experts
                          : 0;
  const double sliced = part_all_bytes(llm, LLM_MLP) + part_all_bytes(llm, LLM_SHARED_EXPERTS);
  return (int64_t)(part_all_bytes(llm, LLM_EXPERTS) * held + sliced / (double)gpus);
}

/* Of all GPUs of a replica that hold KV: each attention group has all but the experts, and each
 * share of these takes what the largest does; or the FFNs are on other GPUs. */
static int64_t replica_weights(const Llm *llm, Parallelism degrees, int64_t redundant) {
  if (degrees.ffn > 0)
    return degree_of(degrees.attention) *
           (llm->weight_bytes -
            (int64_t)(part_all_bytes(llm, LLM_MLP) + part_all_bytes(llm, LLM_SHARED_EXPERTS) +
                      part_all_bytes(llm, LLM_EXPERTS)));
  const int64_t groups = degree_of(degrees.attention), shares = degree_of(degrees.expert);
  const int64_t held =
      redundant > 0 ? llm->num_experts + redundant : hardware_experts_held(llm, shares) * shares;
  const double experts = part_all_bytes(llm, LLM_EXPERTS);
  const int64_t room = held > llm->num_experts
                           ? (int64_t)(experts * (double)held / (double)llm->num_experts)
                           : (int64_t)experts;
  return groups * (llm->weight_bytes - (int64_t)experts) + room;
}

/* Of layers with a window, over the GPUs that hold a sequence: of a token if they kept all of them,
 * and of a sequence. */
typedef struct WindowBytes {
  int64_t token, sequence;
} WindowBytes;

static WindowBytes window_bytes(const Llm *llm, int64_t tensor_parallel_size) {
  const LlmAttention sliding = llm_sliding_attention(llm);
  if (llm->kv_bytes_per_sequence == 0) return (WindowBytes){0, 0};
  const int64_t copies = kv_copies(sliding.kv_heads, tensor_parallel_size);
  const double layers = (double)sliding.layers * llm_layer_kv_bytes(llm, true);
  return (WindowBytes){(int64_t)layers * copies, llm->kv_bytes_per_sequence * copies};
}

/* What the states of max_num_seqs sequences take of the memory beside the weights: at most the
 * share that SGLang sets aside for them (mamba_full_memory_ratio 0.9). */
static int64_t state_bytes(const Llm *llm, const KvOptions *options, int64_t left) {
  static const double LARGEST = 0.9 / 1.9;
  const double all = (double)options->max_num_seqs * (double)llm->state_bytes_per_sequence;
  return left > 0 ? (int64_t)fmin(all, LARGEST * (double)left) : 0;
}

static KvCapacity capacity_of(const Llm *llm, const Hardware *hardware, Parallelism degrees,
                              const KvOptions *options) {
  const int64_t gpus = replica_gpus(degrees);
  const double share = options->gpu_memory_utilization;
  const double all_memory = (double)hardware->gpu_memory_bytes * (double)gpus;
  const int64_t taken = replica_weights(llm, degrees, options->redundant_experts) -
                        freed_bytes(llm, options) + options->activation_bytes * gpus;
  int64_t left = options->of_free ? (int64_t)(share * (all_memory - (double)taken))
                                  : (int64_t)(share * all_memory) - taken;
  if (options->layout) {
    const int64_t bytes = options->layout->block_bytes;
    return (KvCapacity){bytes, left > 0 ? left / bytes : 0};
  }
  left -= state_bytes(llm, options, left);
  const WindowBytes windows = window_bytes(llm, degrees.tensor);
  const int64_t token = llm->kv_bytes_per_token * kv_copies(llm_cached_heads(llm), degrees.tensor);
  const int64_t all_bytes = options->block_size * (token + windows.token);
  const KvCapacity all = {all_bytes, left > 0 ? left / all_bytes : 0};
  if (options->max_num_seqs == 0 || windows.sequence == 0) return all;
  const double kept = (double)options->max_num_seqs * (double)windows.sequence;
  const int64_t block_bytes = options->block_size * token;
  const KvCapacity apart = {block_bytes,
                            kept < (double)left ? (left - (int64_t)kept) / block_bytes : 0};
  return apart.blocks > all.blocks ? apart : all;
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

/* The fewest machines that leave room for KV, each with a stage of a pipeline; 0: none. */
static int64_t nodes_fitting(const Llm *llm, const Hardware *hardware, const KvOptions *options) {
  enum { NODES_MAX = 16 };
  const int64_t tp = hardware->num_gpus;
  if (hardware->nic_bandwidth == 0 || !heads_divide(llm, tp)) return 0;
  for (int64_t n = 2; n <= NODES_MAX; n++)
    if (llm->num_hidden_layers % n == 0 &&
        capacity_of(llm, hardware, (Parallelism){.tensor = tp, .pipeline = n, .data = 1}, options)
                .blocks > 0)
      return n;
  return 0;
}

static int report_too_big(const Llm *llm, const Hardware *hardware, Parallelism degrees,
                          const KvOptions *options, Place at, Diag *diag) {
  const int64_t gpus = replica_gpus(degrees);
  char others[128] = "";
  if (degrees.pipeline > 1)
    snprintf(others, sizeof others, " and pipeline_parallel_size %lld",
             (long long)degrees.pipeline);
  if (degree_of(degrees.attention) > 1)
    snprintf(others + strlen(others), sizeof others - strlen(others),
             " and attention_data_parallel_size %lld", (long long)degrees.attention);
  char weights[32], memory[32];
  units_format(weights, sizeof weights, DIM_BYTES,
               (double)(replica_weights(llm, degrees, options->redundant_experts) -
                        freed_bytes(llm, options)));
  units_format(memory, sizeof memory, DIM_BYTES, (double)hardware->gpu_memory_bytes);
  diag_error(diag, at,
             "model '%s' does not fit with tensor_parallel_size %lld%s: its %s of weights leave no "
             "KV memory on %lld x %s of machine '%s' at gpu_memory_utilization %g",
             llm->name, (long long)degrees.tensor, others, weights, (long long)gpus, memory,
             hardware->name, options->gpu_memory_utilization);
  if (options->gpu_memory_utilization <= 0)
    return diag_hint(diag, "the engine's default for so many groups keeps more than there is; set "
                           "gpu_memory_utilization, such as to 0.835");
  const int64_t fitting = smallest_fitting(llm, hardware, options);
  const int64_t nodes = nodes_fitting(llm, hardware, options);
  if (fitting > 0)
    diag_hint(diag, "tensor_parallel_size %lld fits", (long long)fitting);
  else if (nodes > 0)
    diag_hint(diag,
              "tensor_parallel_size %lld, pipeline_parallel_size %lld and nnodes %lld fit: %lld "
              "machines",
              (long long)hardware->num_gpus, (long long)nodes, (long long)nodes, (long long)nodes);
  else
    diag_hint(diag, "it does not fit on all %lld GPUs of the machine either",
              (long long)hardware->num_gpus);
  return -1;
}

/* "tensor_parallel_size 8 x pipeline_parallel_size 2 x data_parallel_size 1" */
static void name_degrees(char *ret_text, size_t size, Parallelism degrees) {
  int n = snprintf(ret_text, size, "tensor_parallel_size %lld", (long long)degrees.tensor);
  if (degrees.ffn > 0)
    n += snprintf(ret_text + n, size - (size_t)n, " and %lld ffn_gpus", (long long)degrees.ffn);
  if (replica_gpus(degrees) * degrees.data == degrees.tensor) return;
  if (degree_of(degrees.attention) > 1)
    n += snprintf(ret_text + n, size - (size_t)n, " x attention_data_parallel_size %lld",
                  (long long)degrees.attention);
  snprintf(ret_text + n, size - (size_t)n,
           " x pipeline_parallel_size %lld x data_parallel_size %lld", (long long)degrees.pipeline,
           (long long)degrees.data);
}

/* On one machine, or on several of which each has too few. */
static int report_too_few(const Hardware *hardware, Parallelism degrees, Place at, Diag *diag) {
  const int64_t gpus = parallelism_gpus(degrees), nodes = degree_of(degrees.nodes);
  char text[192], machines[32] = "";
  name_degrees(text, sizeof text, degrees);
  if (nodes > 1) snprintf(machines, sizeof machines, "%lld x ", (long long)nodes);
  diag_error(diag, at, "%s exceeds the %s%lld GPUs of machine '%s'", text, machines,
             (long long)hardware->num_gpus, hardware->name);
  const int64_t least = (gpus + hardware->num_gpus - 1) / hardware->num_gpus;
  if (hardware->nic_bandwidth > 0 && gpus % least == 0)
    diag_hint(diag, "'nnodes: %lld' places each instance on %lld machines", (long long)least,
              (long long)least);
  return -1;
}

/* Whether groups of GPUs fill machines, or machines groups. */
static int check_nodes(const Hardware *hardware, Parallelism degrees, Place at, Diag *diag) {
  const int64_t gpus = parallelism_gpus(degrees), nodes = degree_of(degrees.nodes);
  if (gpus > nodes * hardware->num_gpus) return report_too_few(hardware, degrees, at, diag);
  if (nodes == 1) return 0;
  if (hardware->nic_bandwidth == 0)
    return diag_error(diag, at, "nnodes is %lld, but machine '%s' has no nic_bandwidth",
                      (long long)nodes, hardware->name);
  const int64_t each = gpus / nodes, stage = degrees.tensor * degree_of(degrees.attention);
  if (gpus % nodes == 0 && each > 0 && splits(each, degrees.tensor) && splits(each, stage) &&
      splits(each, replica_gpus(degrees)))
    return 0;
  char text[192];
  name_degrees(text, sizeof text, degrees);
  return diag_error(diag, at, "the GPUs of %s do not fill %lld machines evenly", text,
                    (long long)nodes);
}

static int check_experts(const Llm *llm, Parallelism degrees, Place at, Diag *diag) {
  const long long expert = degree_of(degrees.expert);
  const long long gpus = degrees.tensor * degree_of(degrees.attention);
  if (llm->num_experts == 0)
    return expert == 1
               ? 0
               : diag_error(diag, at, "expert_parallel_size is %lld, but model '%s' has no experts",
                            expert, llm->name);
  if (gpus % expert != 0)
    return diag_error(diag, at,
                      "expert_parallel_size %lld does not divide the %lld GPUs that hold the "
                      "experts: tensor_parallel_size %lld x attention_data_parallel_size %lld",
                      expert, gpus, (long long)degrees.tensor,
                      (long long)degree_of(degrees.attention));
  if (expert > llm->num_experts)
    return diag_error(diag, at,
                      "expert_parallel_size %lld is more than the %lld experts of model '%s'",
                      expert, (long long)llm->num_experts, llm->name);
  if (llm->moe_intermediate_size % (gpus / expert) == 0) return 0;
  diag_error(
      diag, at,
      "the %lld GPUs of an expert do not divide the moe_intermediate_size %lld of model '%s'",
      gpus / expert, (long long)llm->moe_intermediate_size, llm->name);
  diag_hint(diag, "an expert_parallel_size of %lld gives each GPU whole experts", gpus);
  return -1;
}

/* FFNs on GPUs of their own: whole experts, in one stage. */
static int check_ffn(const Llm *llm, Parallelism degrees, Place at, Diag *diag) {
  if (degrees.ffn == 0) return 0;
  if (degrees.pipeline > 1)
    return diag_error(diag, at, "'attention_ffn' and pipelines exclude each other");
  if (degree_of(degrees.expert) > 1)
    return diag_error(diag, at,
                      "with 'attention_ffn' experts are spread over the ffn_gpus: omit "
                      "expert_parallel_size");
  if (llm->num_experts == 0 || degrees.ffn <= llm->num_experts) return 0;
  return diag_error(diag, at, "%lld ffn_gpus are more than the %lld experts of model '%s'",
                    (long long)degrees.ffn, (long long)llm->num_experts, llm->name);
}

/* Floats of 4 bits are read by kernels that compute in bf16, floats of 8 bits are not. */
static int check_formats(const Llm *llm, const Hardware *hardware, Place at, Diag *diag) {
  if (hardware->sm == 0 || hardware->dense_fp8_flops > 0) return 0;
  for (int part = 0; part < LLM_PARTS; part++) {
    const Dtype dtype = llm_part_dtype(llm, (LlmPart)part);
    if (dtype_compute(dtype) != DTYPE_FP8 || llm_part_parameters(llm, (LlmPart)part) == 0) continue;
    diag_error(
        diag, at,
        "model '%s' multiplies matrices in %s, which GPU '%s' of machine '%s' does not support",
        llm->name, dtype_names[dtype], hardware->gpu, hardware->name);
    diag_hint(diag, "it supports formats of the weights alone: quantization int4 (AWQ, GPTQ), "
                    "nvfp4 or mxfp4, or bf16");
    return -1;
  }
  return 0;
}

int hardware_check_split(const Llm *llm, const Hardware *hardware, Parallelism degrees, Place at,
                         Diag *diag) {
  if (check_nodes(hardware, degrees, at, diag)) return -1;
  if (!heads_divide(llm, degrees.tensor))
    return diag_error(diag, at,
                      "tensor_parallel_size %lld does not divide the heads of model '%s': %lld "
                      "attention heads, %lld key-value heads",
                      (long long)degrees.tensor, llm->name, (long long)llm->num_attention_heads,
                      (long long)llm->num_key_value_heads);
  if (llm->num_hidden_layers % degrees.pipeline != 0)
    return diag_error(diag, at,
                      "pipeline_parallel_size %lld does not divide the %lld layers of model '%s'",
                      (long long)degrees.pipeline, (long long)llm->num_hidden_layers, llm->name);
  if (check_ffn(llm, degrees, at, diag)) return -1;
  return check_experts(llm, degrees, at, diag) || check_formats(llm, hardware, at, diag) ? -1 : 0;
}

/* From all that fits to what kv_cache_memory_bytes of each GPU hold. */
static int limit_memory(KvCapacity *capacity, const Llm *llm, int64_t gpus, int64_t bytes, Place at,
                        Diag *diag) {
  const int64_t block = capacity->block_bytes / gpus, room = capacity->blocks * block;
  char wanted[32], limit[32];
  units_format(wanted, sizeof wanted, DIM_BYTES, (double)bytes);
  if (bytes < block) {
    units_format(limit, sizeof limit, DIM_BYTES, (double)block);
    return diag_error(diag, at,
                      "kv_cache_memory_bytes %s is less than one block of %s of model '%s'", wanted,
                      limit, llm->name);
  }
  if (bytes > room) {
    units_format(limit, sizeof limit, DIM_BYTES, (double)room);
    return diag_error(
        diag, at,
        "kv_cache_memory_bytes %s exceeds the %s that the weights of model '%s' leave free", wanted,
        limit, llm->name);
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

/* Whether the FFNs fit into the memory of their own GPUs. */
static int check_ffn_memory(const Llm *llm, const Hardware *hardware, Parallelism degrees,
                            const KvOptions *options, Place at, Diag *diag) {
  if (degrees.ffn == 0) return 0;
  const int64_t weights = ffn_weights(llm, degrees.ffn);
  const double share = options->of_free ? 1 : options->gpu_memory_utilization;
  const double room =
      share * (double)hardware->gpu_memory_bytes - (double)options->activation_bytes;
  if ((double)weights <= room) return 0;
  char wanted[32], limit[32];
  units_format(wanted, sizeof wanted, DIM_BYTES, (double)weights);
  units_format(limit, sizeof limit, DIM_BYTES, fmax(room, 0));
  return diag_error(diag, at,
                    "the FFNs of model '%s' take %s on each of %lld GPUs, of whose memory %s is "
                    "left for weights",
                    llm->name, wanted, (long long)degrees.ffn, limit);
}

int kv_capacity(const Llm *llm, const Hardware *hardware, Parallelism degrees,
                const KvOptions *options, Place at, KvCapacity *ret_capacity, Diag *diag) {
  assert(degrees.tensor >= 1 && degrees.pipeline >= 1 && options->block_size >= 1);
  if (hardware_check_split(llm, hardware, degrees, at, diag) ||
      check_ffn_memory(llm, hardware, degrees, options, at, diag))
    return -1;
  KvOptions used = *options;
  if (options->kv_cache_memory_bytes > 0) used.gpu_memory_utilization = 1;
  const KvCapacity fitting = capacity_of(llm, hardware, degrees, &used);
  KvCapacity capacity = fitting;
  if (capacity.blocks == 0) return report_too_big(llm, hardware, degrees, &used, at, diag);
  if (options->kv_cache_memory_bytes > 0 &&
      limit_memory(&capacity, llm, replica_gpus(degrees), options->kv_cache_memory_bytes, at, diag))
    return -1;
  if (options->num_gpu_blocks_override > 0) capacity.blocks = options->num_gpu_blocks_override;
  if (options->kv_cache_memory_bytes > 0 || options->num_gpu_blocks_override > 0)
    capacity.blocks = add_freed(capacity.blocks, &fitting, freed_bytes(llm, options));
  *ret_capacity = capacity;
  return 0;
}
