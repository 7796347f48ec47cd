/* A machine type: its GPUs, memory, links, power and price, each fact with its source in the data
 * file (perfmodel/machines/NAME.yaml), and the memory left on it for KV cache.
 *
 * A power or price of 0 is unknown: its file leaves the key out, and figures made of it are 0 too.
 * The efficiencies are shares of a peak that the roofline models count on; their defaults, for
 * machines without measurements, are in hardware.c. */
#ifndef PERFMODEL_HARDWARE_H
#define PERFMODEL_HARDWARE_H
#include "base/units.h"
#include "perfmodel/kv_layout.h"
#include "perfmodel/setup.h"

/* What one can buy or rent of a machine: any number of its GPUs, or all of it. */
typedef enum Sold { SOLD_BY_GPU, SOLD_WHOLE } Sold;
extern const char *const hardware_sold_names[]; // NULL-terminated

typedef struct Hardware {
  const char *name; // dgx-h100
  const char *gpu;  // h100-80gb: key of measured profiles
  int64_t sm;       // compute capability: 90 is 9.0; of AMD its gfx number; 0: a CPU
  int64_t num_gpus;
  int64_t gpu_memory_bytes; // HBM of one GPU
  double dense_bf16_flops;  // of one GPU, per second; fp16 where there is no bf16
  double dense_fp8_flops;   // likewise; 0: its tensor cores have none
  double dense_fp4_flops;   // likewise
  double fp32_flops;        // without tensor cores
  double flops_efficiency;  // share of it that large matrix products reach
  int64_t hbm_bandwidth;    // bytes/s of one GPU
  double hbm_efficiency;    // share of it that reading weights reaches
  int64_t nvlink_bandwidth; // bytes/s per direction of one GPU; 0: none
  double nvlink_efficiency; // share of it that a ring all-reduce reaches
  int64_t pcie_bandwidth;   // bytes/s per direction of one GPU; on a superchip its link to the CPU
  double pcie_efficiency;   // as for NVLink
  /* bytes/s of one GPU's link to CPU memory; pcie_bandwidth where a file does not say */
  int64_t host_to_gpu_bandwidth, gpu_to_host_bandwidth;
  Tick all_reduce_latency; // of the smallest all-reduce over the machine's GPUs; 0: unknown
  int64_t cpu_memory_bytes;
  int64_t nic_bandwidth; // bytes/s in each direction, all NICs of the machine
  double nic_slowdown;   // what goes from machine to machine takes so many times as long, as links
                         // behind the NICs are slower; 0: they are not
  Tick kv_transfer_overhead; // what stays visible of a layer-wise KV transfer beyond the last layer
  double gpu_tdp;            // W, one GPU
  double idle_power, prefill_power, decode_power; // W, whole machine, while it does that
  double provisioned_power;                       // W, for sizing
  int sold;                                       // Sold
  double cost_per_hour, gpu_cost_per_hour;        // $, of the machine and of one GPU
  const char *price_date, *price_source;          // of the price; NULL: not said
  uint64_t digest; // of the name and the file's content, whatever other price it is given
} Hardware;

/* How GPUs share a model: tensor × attention × pipeline of them hold it once, data times. In
 * attention the groups of `tensor` GPUs have requests of their own (vLLM's data_parallel_size with
 * experts in parallel, SGLang's --enable-dp-attention, TensorRT-LLM's enable_attention_dp); experts
 * are spread over all of tensor × attention, `expert` ways by whole experts and the rest within
 * each. The GPUs lie evenly on `nodes` machines (vLLM's and SGLang's --nnodes), those of a tensor
 * group together, then groups, stages and replicas one after the other. With `ffn` GPUs more, these
 * have the MLPs and experts, and the others have attention and all else (attention_ffn.h). 0 is 1
 * of attention, expert and nodes. */
typedef struct Parallelism {
  int64_t tensor, pipeline, data; // degrees
  int64_t attention, expert;
  int64_t nodes;
  int64_t ffn, micro_batches; // GPUs of a replica; that a batch is divided into. 0: none
} Parallelism;

static inline int64_t parallelism_gpus(Parallelism self) {
  return (self.tensor * self.pipeline * degree_of(self.attention) + self.ffn) * self.data;
}

/* Machines that `gpus` of them, one after the other, lie on. */
static inline int64_t parallelism_nodes_of(Parallelism self, int64_t gpus) {
  const int64_t on_each = parallelism_gpus(self) / degree_of(self.nodes);
  return gpus > on_each ? gpus / on_each : 1;
}

extern const OptionSpec hardware_options[], hardware_price_options[]; // keys of a machine file

/* `name` is a machine of `data_dir`/machines/ or the path of a .yaml file. */
int hardware_load(Hardware *self, const char *name, const char *data_dir, Place at, Arena *arena,
                  Diag *diag);

/* Another price, from a map of cost_per_hour or gpu_cost_per_hour, price_date, price_source. */
int hardware_bind_price(Hardware *self, const Node *map, Diag *diag);

/* Rates that one GPU reaches, per second: peaks times efficiencies. The link is that to the other
 * GPUs, NVLink where there is any, per direction. */
double hardware_compute_rate(const Hardware *self); // of bf16
/* Of products with weights in this format: integers of 8 bits at twice the rate of bf16 from
 * compute capability 7.5 on (datasheets of T4 to H200); floats of 4 bits, where the GPU has none,
 * as bf16 by kernels that only read them so. */
double hardware_product_rate(const Hardware *self, Dtype weights);
double hardware_memory_rate(const Hardware *self);
double hardware_link_rate(const Hardware *self);
/* Bytes per second of one GPU, when all of a machine send over its NICs at once: 0.8 of their peak,
 * an assumption, which no table is behind. */
double hardware_nic_rate(const Hardware *self);
/* Bytes per second that cross the slowest link of a ring over GPUs of so many machines, all NICs of
 * each carrying a part; that each GPU sends to all others evenly, over its own NIC where these lie
 * on another machine; and from each GPU of a pipeline stage to its like in the next one, likewise,
 * in the mean over all stages. */
double hardware_ring_rate(const Hardware *self, int64_t nodes);
double hardware_exchange_rate(const Hardware *self, int64_t nodes);
double hardware_stage_rate(const Hardware *self, Parallelism degrees);
/* Machines that an instance takes, a part of one where several fit on it. */
double hardware_machines_of(const Hardware *self, Parallelism degrees);

/* Error at `at` when the degrees take more GPUs than there are on the instance's machines or cannot
 * lie on them evenly, the tensor degree does not divide the heads or the pipeline degree the
 * layers, experts cannot be spread so, or the weights are in a format whose products the GPU does
 * not have. */
int hardware_check_split(const Llm *llm, const Hardware *hardware, Parallelism degrees, Place at,
                         Diag *diag);
/* Experts of the largest share, where the shares do not divide them. */
int64_t hardware_experts_held(const Llm *llm, int64_t expert_parallel_size);

typedef struct KvCapacity {
  int64_t block_bytes; // one block of `block_size` tokens, over all GPUs that hold it
  int64_t blocks;      // what fits in a replica, in all its attention groups
} KvCapacity;

typedef struct KvOptions {
  int64_t block_size;              // tokens, 16
  double gpu_memory_utilization;   // 0.9
  int64_t activation_bytes;        // reserve per GPU for activations and workspace
  int64_t num_gpu_blocks_override; // 0: computed
  int64_t kv_cache_memory_bytes;   // of one GPU, whatever the utilization; 0: computed
  double weights_on_cpu;           // share of the weights that is not on the GPUs
  int64_t max_num_seqs;            // at a time, of which windows are kept; 0: unknown
  bool of_free;              // the utilization is of the memory that weights and activations leave
  const KvLayout *layout;    // of an engine with groups of layers; NULL: without
  int64_t redundant_experts; // second copies in each layer (EPLB)
} KvOptions;

/* floor((utilization·HBM·g − weights − activations·g) / block_bytes), with of_free
 * floor(utilization·(HBM·g − weights − activations·g) / block_bytes), of the g = tensor × attention
 * × pipeline GPUs of one replica, with the weights that are on them: experts once, the rest in each
 * attention group. KV heads are split over the tensor degree and copied once there are fewer of
 * them; latent KV is one head. Layers with a sliding window have kv_bytes_per_sequence of
 * max_num_seqs sequences set aside, or are counted as if they saw all tokens, whichever leaves room
 * for more tokens. States of linear attention are set aside for max_num_seqs sequences, up to 0.47
 * of the memory beside the weights. With a layout all layers take from one pool of its blocks, and
 * nothing is set aside. An option that says it outright is of GPUs with all of the weights: what
 * others leave is added. Error at `at` when hardware_check_split has one, when the weights do not
 * fit, saying which tensor_parallel_size of the machine would, or when kv_cache_memory_bytes is
 * less than a block or more than all of the GPUs' memory has room for. With FFNs on GPUs of their
 * own the others have no MLPs and experts, and there is an error if these do not fit. */
int kv_capacity(const Llm *llm, const Hardware *hardware, Parallelism degrees,
                const KvOptions *options, Place at, KvCapacity *ret_capacity, Diag *diag);
#endif
