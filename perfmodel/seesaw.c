/* Seesaw's appendix A: table 3, the stage time, equation 1 and the largest batch. */
#include "perfmodel/seesaw.h"
#include <math.h>

/* One pass over `tokens` new tokens, with the attention of the phase. */
static SeesawTimes times_of(const Llm *llm, const Hardware *hardware, int64_t tp, double tokens,
                            double attention_bytes, double attention_flops) {
  const double memory = hardware_memory_rate(hardware);
  const double compute = hardware_compute_rate(hardware);
  const double link = hardware_link_rate(hardware);
  const double matrices = (double)llm_layer_matrices(llm), bytes = (double)llm->dtype_bytes;
  const double activations = (double)(llm->num_attention_heads * llm->head_dim) * bytes * tokens;
  const double ring = 2 * (double)(tp - 1) / (double)tp;
  return (SeesawTimes){
      .linear_memory = bytes * matrices / memory,
      .linear_compute = 2 * tokens * matrices / compute,
      .attention_memory = attention_bytes / memory,
      .attention_compute = attention_flops / compute,
      .network = 2 * activations * ring / link,
  };
}

SeesawTimes seesaw_prefill(const Llm *llm, const Hardware *hardware, int64_t tensor_parallel_size,
                           double batch, double length) {
  const double q = (double)(llm->num_attention_heads * llm->head_dim);
  const double kv = (double)(llm->num_key_value_heads * llm->head_dim);
  return times_of(llm, hardware, tensor_parallel_size, batch * length,
                  (double)llm->dtype_bytes * batch * length * (q + 2 * kv),
                  2 * batch * q * length * length);
}

SeesawTimes seesaw_decode(const Llm *llm, const Hardware *hardware, int64_t tensor_parallel_size,
                          double batch, double length) {
  const double q = (double)(llm->num_attention_heads * llm->head_dim);
  const double kv = (double)(llm->num_key_value_heads * llm->head_dim);
  return times_of(llm, hardware, tensor_parallel_size, batch,
                  2 * (double)llm->dtype_bytes * batch * length * kv, 4 * batch * q * length);
}

double seesaw_stage_seconds(const SeesawTimes *times, int64_t layers, Parallelism degrees) {
  const double tp = (double)degrees.tensor, pp = (double)degrees.pipeline;
  const double dp = (double)degrees.data, gpus = tp * pp * dp;
  return (double)layers / pp *
         (fmax(times->linear_memory / tp, times->linear_compute / gpus) +
          fmax(times->attention_memory, times->attention_compute) / gpus +
          times->network / (pp * dp));
}

double seesaw_seconds_per_request(const SeesawTimes *times, int64_t layers, Parallelism degrees,
                                  double batch) {
  return seesaw_stage_seconds(times, layers, degrees) * (double)degrees.pipeline / batch;
}

double seesaw_max_batch(const Llm *llm, double gpu_bytes, Parallelism degrees, double length) {
  const double layers = (double)llm->num_hidden_layers, bytes = (double)llm->dtype_bytes;
  const double weights = bytes * layers * (double)llm_layer_matrices(llm);
  const double kv = (double)(llm->num_key_value_heads * llm->head_dim);
  const double gpus = (double)(degrees.tensor * degrees.pipeline);
  return (double)degrees.data * (gpu_bytes * gpus - weights) / (2 * bytes * layers * kv * length);
}
