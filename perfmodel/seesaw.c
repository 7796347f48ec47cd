/* Seesaw's appendix A: table 3, the stage time, equation 1 and the largest batch. */
#include "perfmodel/seesaw.h"
#include <math.h>

/* Bytes of a mean layer's matrices, all of its experts among them. */
static double layer_bytes(const Llm *llm) {
  double sum = 0;
  for (int part = 0; part < LLM_PARTS; part++)
    sum += (double)llm_part_parameters(llm, (LlmPart)part) * llm_part_bytes(llm, (LlmPart)part);
  return sum / (double)llm->num_hidden_layers;
}

/* Parameters that a token is multiplied by in a mean layer, as many as would take as long in bf16.
 * */
static double layer_products(const Llm *llm, const Hardware *hardware) {
  const double reached =
      llm->num_experts > 0 ? (double)llm->num_experts_per_tok / (double)llm->num_experts : 1;
  double sum = 0;
  for (int part = 0; part < LLM_PARTS; part++)
    sum += (double)llm_part_parameters(llm, (LlmPart)part) * (part == LLM_EXPERTS ? reached : 1) *
           (hardware_compute_rate(hardware) /
            hardware_product_rate(hardware, llm_part_dtype(llm, (LlmPart)part)));
  return sum / (double)llm->num_hidden_layers;
}

/* One pass over `tokens` new tokens, with the attention of the phase. */
static SeesawTimes times_of(const Llm *llm, const Hardware *hardware, int64_t tp, double tokens,
                            double attention_bytes, double attention_flops) {
  const double memory = hardware_memory_rate(hardware);
  const double compute = hardware_compute_rate(hardware);
  const double link = hardware_link_rate(hardware);
  const double activations = (double)(llm->hidden_size * llm->dtype_bytes) * tokens;
  const double ring = 2 * (double)(tp - 1) / (double)tp;
  return (SeesawTimes){
      .linear_memory = layer_bytes(llm) / memory,
      .linear_compute = 2 * tokens * layer_products(llm, hardware) / compute,
      .attention_memory = attention_bytes / memory,
      .attention_compute = attention_flops / compute,
      .network = 2 * activations * ring / link,
  };
}

SeesawTimes seesaw_prefill(const Llm *llm, const Hardware *hardware, int64_t tensor_parallel_size,
                           double batch, double length) {
  const LlmAttention a = llm_full_attention(llm);
  const double products = (double)(a.query_heads * (a.qk_dim + a.v_dim));
  const double q = (double)(a.query_heads * a.qk_dim * llm->dtype_bytes);
  return times_of(llm, hardware, tensor_parallel_size, batch * length,
                  batch * length * (q + llm_layer_kv_bytes(llm, false)),
                  batch * products * length * length);
}

SeesawTimes seesaw_decode(const Llm *llm, const Hardware *hardware, int64_t tensor_parallel_size,
                          double batch, double length) {
  const LlmAttention a = llm_full_attention(llm);
  const double width = llm_latent(llm) ? (double)(2 * llm->kv_lora_rank + llm->qk_rope_head_dim)
                                       : (double)(a.qk_dim + a.v_dim);
  return times_of(llm, hardware, tensor_parallel_size, batch,
                  batch * length * llm_layer_kv_bytes(llm, false),
                  2 * batch * (double)a.query_heads * width * length);
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
  const double layers = (double)llm->num_hidden_layers, weights = layers * layer_bytes(llm);
  const double gpus = (double)(degrees.tensor * degrees.pipeline);
  return (double)degrees.data * (gpu_bytes * gpus - weights) /
         (layers * llm_layer_kv_bytes(llm, false) * length);
}
