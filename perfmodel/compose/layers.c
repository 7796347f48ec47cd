/* One product is looked up by what a GPU holds of its matrix. */
#include "perfmodel/compose/layers.h"
#include <math.h>

static const double LAUNCH_US = 3;        // of a kernel beside the products
static const double MEMORY_REACHED = 0.8; // of the bandwidth, by it

int64_t layers_heads(const Layers *self) {
  return self->llm.num_attention_heads / self->setup.tensor_parallel_size;
}

int64_t layers_kv_heads(const Layers *self) {
  const int64_t share = self->llm.num_key_value_heads / self->setup.tensor_parallel_size;
  return share > 0 ? share : 1;
}

int64_t layers_expert_gpus(const Layers *self) {
  return self->setup.tensor_parallel_size * degree_of(self->setup.attention_data_parallel_size);
}

int64_t layers_expert_shares(const Layers *self) {
  return layers_expert_gpus(self) / self->setup.expert_parallel_size;
}

int64_t layers_expert_nodes(const Layers *self) {
  return degree_of(self->setup.nnodes);
}

int64_t layers_tensor_nodes(const Layers *self) {
  const int64_t on_each = layers_expert_gpus(self) / layers_expert_nodes(self);
  const int64_t gpus = self->setup.tensor_parallel_size;
  return gpus > on_each ? gpus / on_each : 1;
}

bool layers_exchange(const Layers *self) {
  return self->engine->exchanges && self->setup.attention_data_parallel_size > 1 &&
         layers_expert_shares(self) == 1 &&
         layers_expert_gpus(self) > self->llm.num_experts_per_tok;
}

/* ---- Kernels ---- */

/* A matrix wider or deeper than a table's is taken as several of equal size. */
static double table_product_us(const KernelFound *found, double m, double n, double k) {
  const KernelSlice all = kernel_table_all(&found->table);
  const double widest = (double)kernel_slice_last(all);
  const double pieces = ceil(n / widest), parts = ceil(k / widest);
  return pieces * parts * kernel_slice_eval(all, (double[]){n / pieces, k / parts, m});
}

double layers_product_us(const Layers *self, int dtype, double m, double n, double k) {
  const LayerProducts *products = &self->products[dtype];
  double least = INFINITY;
  for (int i = 0; i < products->n; i++)
    least = fmin(least, table_product_us(&products->found[i], m, n, k));
  return least;
}

static double memory_us(const Layers *self, double bytes) {
  return 1e6 * bytes / (MEMORY_REACHED * (double)self->hardware.hbm_bandwidth);
}

double layers_kernel_us(const Layers *self, double bytes) {
  return LAUNCH_US + memory_us(self, bytes);
}

double layers_curve_us(const KernelFound *found, double key) {
  const KernelSlice all = kernel_table_all(&found->table);
  return all.n > 0 ? kernel_slice_eval(all, &key) : 0;
}

static double all_reduce_us(const Layers *self, double numbers) {
  const int64_t gpus = self->setup.tensor_parallel_size;
  const int size = gpus <= 2 ? 0 : gpus <= 4 ? 1 : 2;
  const double limit = self->engine->custom_bytes[size];
  if (limit > 0 && numbers * (double)self->llm.dtype_bytes > limit)
    return layers_curve_us(&self->nccl, numbers);
  return layers_curve_us(&self->all_reduce, numbers);
}

/* What runs beside the products of a part, by the rules of the engine. */
static double kernels_us(const Layers *self, LayerPart part, int dtype, double tokens) {
  const Llm *llm = &self->llm;
  const int64_t gpus = self->setup.tensor_parallel_size;
  const SmallKernelRun run = {engine_rules_kernels(self->engine),
                              part,
                              self->hardware.sm,
                              gpus,
                              dtype,
                              llm->qk_norm,
                              llm->attention_gate,
                              layers_moves_inside(self)};
  const double query = (double)(layers_heads(self) * llm->head_dim);
  const double kv = (double)(layers_kv_heads(self) * llm->head_dim);
  const double value = llm_linear_values(llm, gpus);
  const double inter = (double)llm->intermediate_size / (double)gpus;
  double us = 0;
  for (int i = 0; small_kernel_at(i); i++) {
    const SmallKernel *kernel = small_kernel_at(i);
    if (!small_kernel_runs(kernel, &run) || (self->linear.path && !kernel->qk_norm)) continue;
    const double bytes = kernel->hidden * (double)llm->hidden_size + kernel->query * query +
                         kernel->kv * kv + kernel->inter * inter + kernel->value * value +
                         kernel->experts * (double)llm->num_experts;
    us += (kernel->fused ? 0 : LAUNCH_US) + memory_us(self, tokens * bytes);
  }
  return us;
}

/* ---- Layers ---- */

/* Into the factors of queries and of keys with values, queries out of theirs, and the output:
 * DeepSeek-V2 (2405.04434, 2.1), the keys' own factor absorbed. */
double layers_latent_products_us(const Layers *self, double tokens) {
  const Llm *llm = &self->llm;
  const int dtype = llm->attention_dtype;
  const double h = (double)llm->hidden_size, heads = (double)layers_heads(self);
  const double cached = (double)(llm->kv_lora_rank + llm->qk_rope_head_dim);
  const double query = heads * (double)(llm->qk_nope_head_dim + llm->qk_rope_head_dim);
  const double value = heads * (double)llm->v_head_dim, rank = (double)llm->q_lora_rank;
  const double out = layers_product_us(self, dtype, tokens, h, value);
  if (llm->q_lora_rank == 0) return out + layers_product_us(self, dtype, tokens, cached + query, h);
  return out + layers_product_us(self, dtype, tokens, rank + cached, h) +
         layers_product_us(self, dtype, tokens, query, rank);
}

/* DeepSeek-V3.2 (2512.02556, 2.1): queries, and a key with a weight for each head, whole on each
 * GPU. */
double layers_index_products_us(const Layers *self, double tokens) {
  const Llm *llm = &self->llm;
  const int dtype = llm->attention_dtype;
  const double heads = (double)llm->index_n_heads, dim = (double)llm->index_head_dim;
  return layers_product_us(self, dtype, tokens, heads * dim, (double)llm->q_lora_rank) +
         layers_product_us(self, dtype, tokens, dim + heads, (double)llm->hidden_size);
}

static double plain_products_us(const Layers *self, double tokens) {
  const Llm *llm = &self->llm;
  const int dtype = llm->attention_dtype;
  const double d = (double)llm->head_dim, h = (double)llm->hidden_size;
  const double q = (double)layers_heads(self) * d, kv = (double)layers_kv_heads(self) * d;
  return layers_product_us(self, dtype, tokens, (llm->attention_gate ? 2 : 1) * q + 2 * kv, h) +
         layers_product_us(self, dtype, tokens, h, q);
}

/* Sums of squares of queries and keys, in 32 bits, where a norm is over the heads of all GPUs. */
static double wide_norm_us(const Layers *self, double tokens) {
  static const double NUMBERS = 2 * 2; // 16-bit ones, which the table counts
  return self->llm.wide_qk_norm ? all_reduce_us(self, NUMBERS * tokens) : 0;
}

/* Layers of which all but attention was measured at once, each with its part of the embedding. */
static double whole_us(const Layers *self, double tokens) {
  const double hidden = tokens * (double)self->llm.hidden_size;
  return (double)self->llm.num_hidden_layers *
         (layers_curve_us(&self->linear, tokens) + wide_norm_us(self, tokens) +
          kernels_us(self, PART_ATTENTION, self->llm.attention_dtype, tokens) +
          2 * all_reduce_us(self, hidden));
}

static double attention_us(const Layers *self, double tokens) {
  const Llm *llm = &self->llm;
  return wide_norm_us(self, tokens) +
         kernels_us(self, PART_ATTENTION, llm->attention_dtype, tokens) +
         (llm_latent(llm)              ? layers_latent_products_us(self, tokens)
          : layers_sparse_modules(llm) ? layers_sparse_products_us(self, tokens, false)
                                       : plain_products_us(self, tokens)) +
         all_reduce_us(self, tokens * (double)llm->hidden_size);
}

static double linear_attention_us(const Layers *self, double tokens) {
  const Llm *llm = &self->llm;
  return kernels_us(self, PART_LINEAR, llm->attention_dtype, tokens) +
         layers_linear_products_us(self, tokens) +
         all_reduce_us(self, tokens * (double)llm->hidden_size);
}

/* The products of an MLP, `width` of it on this GPU. */
static double mlp_products_us(const Layers *self, double tokens, double width) {
  const Llm *llm = &self->llm;
  const double h = (double)llm->hidden_size;
  const int inputs = llm->gated_mlp ? 2 : 1;
  return layers_product_us(self, llm->weight_dtype, tokens, inputs * width, h) +
         layers_product_us(self, llm->weight_dtype, tokens, h, width);
}

static double dense_us(const Layers *self, double tokens) {
  const Llm *llm = &self->llm;
  const double width = (double)llm->intermediate_size / (double)self->setup.tensor_parallel_size;
  return kernels_us(self, PART_FFN, llm->weight_dtype, tokens) +
         kernels_us(self, PART_MLP, llm->weight_dtype, tokens) +
         mlp_products_us(self, tokens, width) +
         all_reduce_us(self, tokens * (double)llm->hidden_size);
}

/* One more routed expert beside those of the table: of few tokens by the weights that are read, of
 * many by the products. */
static double fused_share(const Llm *llm, double tokens) {
  const double experts = (double)llm->num_experts, topk = (double)llm->num_experts_per_tok;
  return 1 + 1 / (tokens > experts ? topk : fmin(experts, tokens * topk));
}

static double shared_us(const Layers *self, double tokens) {
  const Llm *llm = &self->llm;
  if (llm->shared_expert_intermediate_size == 0) return 0;
  const double width =
      (double)llm->shared_expert_intermediate_size / (double)self->setup.tensor_parallel_size;
  return mlp_products_us(self, tokens, width) +
         layers_kernel_us(self, 3 * tokens * width * (double)llm->dtype_bytes);
}

/* Where only whole experts were measured with this kernel, another's say what sharing them gains:
 * what it is faster by with whole ones is shared, too. */
static double routed_us(const Layers *self, double tokens) {
  const double us = layers_curve_us(&self->experts, tokens);
  if (!self->split.path) return us;
  const double gain = layers_curve_us(&self->whole, tokens) - us;
  return fmax(LAUNCH_US,
              layers_curve_us(&self->split, tokens) - gain / (double)layers_expert_shares(self));
}

/* Whether shared experts are in the kernel of the routed ones: not where these alone are MXFP4. */
static bool is_fused(const Layers *self) {
  if (self->llm.expert_dtype == DTYPE_MXFP4 && self->llm.weight_dtype != DTYPE_MXFP4) return false;
  return self->engine->shared_fused && self->setup.expert_parallel_size == 1 &&
         self->setup.attention_data_parallel_size == 1 &&
         self->llm.shared_expert_intermediate_size > 0;
}

/* The choice of experts. In 32 bits it runs without tensor cores, behind a conversion: no table has
 * it, so it is taken to reach 0.65 of the peak, and 10 us at least. */
static double router_us(const Layers *self, double tokens) {
  static const double REACHED = 0.65, LEAST_US = 10, CONVERTED = 2 + 4; // bytes read and written
  const Llm *llm = &self->llm;
  const double h = (double)llm->hidden_size, experts = (double)llm->num_experts;
  if (!llm->fp32_router) return layers_product_us(self, DTYPE_BF16, tokens, experts, h);
  const double products = 1e6 * 2 * tokens * h * experts / (REACHED * self->hardware.fp32_flops);
  return layers_kernel_us(self, CONVERTED * tokens * h) + LEAST_US +
         fmax(products, memory_us(self, 4 * (h * experts + tokens * (h + experts))));
}

/* Each token to the GPUs of its experts alone, and back. */
static double exchange_us(const Layers *self, double tokens, bool narrow) {
  const double numbers = tokens * (double)(self->llm.num_experts_per_tok * self->llm.hidden_size);
  if (self->prepare.path)
    return layers_curve_us(&self->prepare, tokens) + layers_curve_us(&self->dispatch, tokens) +
           layers_curve_us(&self->combine, tokens);
  return layers_curve_us(&self->dispatch, numbers * (narrow ? 0.5 : 1)) +
         layers_curve_us(&self->combine, numbers);
}

/* Experts over machines of one layer, without what is sent. */
static double wide_experts_us(const Layers *self, WideMode mode, double tokens) {
  const double all = (double)self->setup.attention_data_parallel_size * tokens;
  const WideExperts *wide = &self->wide[mode];
  return wide->experts.path ? layers_curve_us(&wide->experts, all) : routed_us(self, all);
}

double layers_wide_us(const Layers *self, WideMode mode, double tokens) {
  const WideExperts *wide = &self->wide[mode];
  const double sent = wide->scale * tokens;
  return wide_experts_us(self, mode, tokens) + layers_curve_us(&wide->dispatch, sent) +
         layers_curve_us(&wide->combine, sent);
}

/* By which kernels, up to so many tokens of one GPU. */
static WideMode wide_mode(const Layers *self, double tokens) {
  return tokens <= (double)self->wide_decodes ? WIDE_DECODES : WIDE_PROMPTS;
}

double layers_routed_us(const Layers *self, int64_t tokens) {
  const double n = ceil((double)tokens / (double)self->setup.attention_data_parallel_size);
  return (double)llm_moe_layers(&self->llm) * wide_experts_us(self, wide_mode(self, n), n);
}

/* `tokens` of each of the groups. Where groups have tokens of their own, hidden states are gathered
 * from all GPUs and the sums scattered back, or sent where they are needed; else they are added up
 * as in a dense layer. */
static double experts_us(const Layers *self, double tokens) {
  const Llm *llm = &self->llm;
  const double groups = (double)self->setup.attention_data_parallel_size;
  const double h = (double)llm->hidden_size, all = groups * tokens;
  const bool narrow =
      self->engine->gathers_8bit && dtype_compute((Dtype)llm->expert_dtype) != DTYPE_BF16;
  double us = kernels_us(self, PART_FFN, llm->expert_dtype, tokens) +
              kernels_us(self, PART_EXPERTS, llm->expert_dtype, tokens) + router_us(self, tokens);
  if (self->wide_decodes > 0)
    return us + layers_wide_us(self, wide_mode(self, tokens), tokens) + shared_us(self, tokens);
  us += routed_us(self, all) * (is_fused(self) ? fused_share(llm, all) : 1);
  if (!is_fused(self)) us += shared_us(self, tokens);
  if (groups == 1) return us + all_reduce_us(self, tokens * h);
  if (self->dispatch.path) return us + exchange_us(self, tokens, narrow);
  return us + layers_curve_us(&self->gather, all * h * (narrow ? 0.5 : 1)) +
         layers_curve_us(&self->scatter, all * h);
}

/* What an index adds to the products of a layer. */
static double index_us(const Layers *self, double tokens) {
  if (llm_latent(&self->llm)) return layers_index_products_us(self, tokens);
  return layers_sparse_products_us(self, tokens, true) -
         layers_sparse_products_us(self, tokens, false);
}

double layers_linear_us(const Layers *self, int64_t tokens) {
  const Llm *llm = &self->llm;
  const double n = ceil((double)tokens / (double)self->setup.attention_data_parallel_size);
  const double row = (double)(llm->hidden_size * llm->dtype_bytes);
  if (self->linear.path) return whole_us(self, n);
  double us = (double)llm->num_attention_layers * attention_us(self, n);
  if (llm->num_linear_layers > 0)
    us += (double)llm->num_linear_layers * linear_attention_us(self, n);
  if (llm->index_topk > 0) us += (double)llm->num_index_layers * index_us(self, n);
  if (llm->hc_mult > 0)
    us += (double)llm->num_hidden_layers *
          (layers_curve_us(&self->streams[0], n) + layers_curve_us(&self->streams[1], n));
  if (llm_dense_layers(llm) > 0) us += (double)llm_dense_layers(llm) * dense_us(self, n);
  if (llm_moe_layers(llm) > 0) us += (double)llm_moe_layers(llm) * experts_us(self, n);
  return us + layers_kernel_us(self, 2 * n * row); // embedding
}

/* A norm, the product, drawing, and the logits of all GPUs brought together: as an all-reduce. */
double layers_head_us(const Layers *self, int64_t seqs) {
  static const double LOGIT_BYTES = 6; // written, read and converted once
  const double n = (double)seqs, h = (double)self->llm.hidden_size;
  const double all = (double)self->llm.vocab_size;
  const double words = all / (double)self->setup.tensor_parallel_size;
  if (self->head.path) return layers_curve_us(&self->head, n) + all_reduce_us(self, n * all);
  return layers_kernel_us(self, 4 * n * h * (double)self->llm.dtype_bytes) +
         layers_product_us(self, DTYPE_BF16, n, words, h) +
         layers_kernel_us(self, LOGIT_BYTES * n * words) + all_reduce_us(self, n * all);
}

/* ---- Shares ---- */

/* Twice its time, and half of that, are exact, so a table is afterwards as it was. */
static void scale(KernelFound *found, double factor) {
  for (size_t i = 0; i < found->table.n_points; i++)
    found->table.points[i].us *= factor;
}

void layers_exchanges(Layers *self, KernelFound *ret_found[EXCHANGES + 1]) {
  WideExperts *wide = self->wide;
  KernelFound *const all[EXCHANGES] = {&self->all_reduce, &self->nccl,       &self->gather,
                                       &self->scatter,    &wide[0].dispatch, &wide[0].combine,
                                       &wide[1].dispatch, &wide[1].combine};
  int n = 0;
  for (int i = 0; i < EXCHANGES; i++)
    if (all[i]->table.n_points > 0) ret_found[n++] = all[i];
  ret_found[n] = NULL;
}

double layers_exchange_us(Layers *self, int64_t tokens) {
  KernelFound *exchanges[EXCHANGES + 1];
  layers_exchanges(self, exchanges);
  const double us = layers_linear_us(self, tokens);
  for (int i = 0; exchanges[i]; i++)
    scale(exchanges[i], 2);
  const double twice = layers_linear_us(self, tokens);
  for (int i = 0; exchanges[i]; i++)
    scale(exchanges[i], 0.5);
  return twice - us;
}

static void fill_linear(Layers *self, int64_t tokens, double us[PERF_TERMS]) {
  us[PERF_COMMUNICATION] = layers_exchange_us(self, tokens);
  us[PERF_LINEAR] = layers_linear_us(self, tokens) - us[PERF_COMMUNICATION];
}

LayerTimes layers_times(Layers *self) {
  enum { TOKENS = 2048, SEQS = 64, CONTEXT = 1024 };
  LayerTimes times = {0};
  fill_linear(self, TOKENS, times.us[LAYERS_PROMPT]);
  times.us[LAYERS_PROMPT][PERF_PREFILL_ATTENTION] = layers_prefill_us(self, 1, TOKENS, 0);
  times.us[LAYERS_PROMPT][PERF_HEAD] = layers_head_us(self, 1);
  fill_linear(self, SEQS, times.us[LAYERS_DECODES]);
  times.us[LAYERS_DECODES][PERF_DECODE_ATTENTION] = layers_decode_us(self, SEQS, CONTEXT);
  times.us[LAYERS_DECODES][PERF_HEAD] = layers_head_us(self, SEQS);
  return times;
}

LayerTimes layers_times_of(Layers *self, KernelFound *found) {
  const LayerTimes all = layers_times(self);
  if (!found) return all;
  scale(found, 2);
  LayerTimes part = layers_times(self);
  scale(found, 0.5);
  for (int b = 0; b < LAYER_BATCHES; b++)
    for (int t = 0; t < PERF_TERMS; t++)
      part.us[b][t] -= all.us[b][t];
  return part;
}

static double sum_of(const double us[PERF_TERMS]) {
  double sum = 0;
  for (int t = 0; t < PERF_TERMS; t++)
    sum += us[t];
  return sum;
}

double layers_share(const LayerTimes *part, const LayerTimes *all) {
  double most = 0;
  for (int b = 0; b < LAYER_BATCHES; b++)
    most = fmax(most, sum_of(part->us[b]) / sum_of(all->us[b]));
  return most;
}
