/* Attention alone: what is left of a layer without its products. */
#include "perfmodel/compose/layers.h"
#include <math.h>

/* ---- Latent ---- */

/* Queries, and keys with values, moved once. */
static double moved_us(const Layers *self, double tokens) {
  const Llm *llm = &self->llm;
  const double query =
      (double)(layers_heads(self) * (llm->qk_nope_head_dim + llm->qk_rope_head_dim));
  const double cached = (double)(llm->kv_lora_rank + llm->qk_rope_head_dim);
  return layers_kernel_us(self, 2 * tokens * (query + cached) * (double)llm->dtype_bytes);
}

/* New tokens of a module, and the keys that each of them sees in the mean. */
typedef struct ModuleWork {
  double tokens, seen;
} ModuleWork;

static ModuleWork module_work(const Llm *llm, double batch, double past, double isl) {
  const double seen = past + isl / 2;
  return (ModuleWork){batch * isl,
                      llm->index_topk > 0 ? fmin(seen, (double)llm->index_topk) : seen};
}

/* The kernels beside the products, and scores and sums at the peak of the GPU. */
static double least_us(const Layers *self, ModuleWork work) {
  const Llm *llm = &self->llm;
  const double width = (double)(llm->qk_nope_head_dim + llm->qk_rope_head_dim + llm->v_head_dim);
  const double operations = 2 * work.tokens * work.seen * (double)layers_heads(self) * width;
  return 2 * moved_us(self, work.tokens) + 1e6 * operations / self->hardware.dense_bf16_flops;
}

/* A module without its products, with an index or without. Modules that wait for launches take as
 * long as many tokens' products alone, so that what is left says nothing: it takes the least. */
static double module_us(const Layers *self, const KernelFound *found, const double *keys,
                        ModuleWork work, bool index) {
  const double us = kernel_slice_eval(kernel_table_all(&found->table), keys);
  return fmax(least_us(self, work), us - layers_latent_products_us(self, work.tokens) -
                                        (index ? layers_index_products_us(self, work.tokens) : 0));
}

/* Of all layers: those with an index of their own, and those that share one. */
static double modules_us(const Layers *self, const KernelFound *own, const KernelFound *shared,
                         const double *keys, ModuleWork work) {
  const Llm *llm = &self->llm;
  const int64_t layers = llm_full_attention(llm).layers;
  const bool sparse = llm->index_topk > 0;
  const int64_t with = sparse && llm->num_index_layers < layers ? llm->num_index_layers : layers;
  double us = (double)with * module_us(self, own, keys, work, sparse);
  if (with < layers) us += (double)(layers - with) * module_us(self, shared, keys, work, false);
  return us;
}

static double latent_prefill_us(const Layers *self, double batch, double past, double isl) {
  const Llm *llm = &self->llm;
  const KernelTable *table = &self->prefill.table;
  const double tokens = batch * isl, rank = (double)llm->kv_lora_rank;
  const double keys[] = {batch, table->n_keys > 2 ? past : isl, isl};
  if (self->modules)
    return modules_us(self, &self->prefill, &self->shared_prefill, keys,
                      module_work(llm, batch, past, isl));
  const double keys_values =
      (double)(layers_heads(self) * (llm->qk_nope_head_dim + llm->v_head_dim));
  return (double)llm_full_attention(llm).layers *
         (kernel_slice_eval(kernel_table_all(table), keys) + 2 * moved_us(self, tokens) +
          layers_product_us(self, llm->attention_dtype, tokens, keys_values, rank));
}

static double latent_decode_us(const Layers *self, double batch, double step) {
  const double keys[] = {batch, step};
  if (self->modules)
    return modules_us(self, &self->decode, &self->shared_decode, keys,
                      module_work(&self->llm, batch, step, 1));
  return (double)llm_full_attention(&self->llm).layers *
         (kernel_slice_eval(kernel_table_all(&self->decode.table), keys) +
          layers_curve_us(&self->absorb, batch) + layers_curve_us(&self->expand, batch) +
          2 * moved_us(self, batch));
}

/* ---- Plain ---- */

/* A prompt that sees `window` tokens does the work of one of this length that sees all. */
static double equal_length(double isl, double window) {
  return isl <= window ? isl : sqrt(window * (2 * isl - window));
}

bool layers_single_prompts(const Layers *self) {
  return !llm_latent(&self->llm) && kernel_slice_last(kernel_table_all(&self->prefill.table)) == 1;
}

static double plain_prefill_us(const Layers *self, const double *keys) {
  const KernelSlice all = kernel_table_all(&self->prefill.table);
  if (keys[0] > 1 && layers_single_prompts(self))
    return fmin(keys[0] * plain_prefill_us(self, (double[]){1, keys[1], keys[2]}),
                plain_prefill_us(self, (double[]){1, keys[1], keys[0] * keys[2]}));
  const LlmAttention full = llm_full_attention(&self->llm);
  const LlmAttention sliding = llm_sliding_attention(&self->llm);
  double us = (double)full.layers * kernel_slice_eval(all, keys);
  if (sliding.layers > 0 && self->window_prefill.path)
    return us + (double)sliding.layers *
                    kernel_slice_eval(kernel_table_all(&self->window_prefill.table), keys);
  if (sliding.layers > 0) {
    const double window = (double)sliding.window;
    const double seen[] = {keys[0], fmin(keys[1], window), equal_length(keys[2], window)};
    us += (double)sliding.layers * kernel_slice_eval(all, seen);
  }
  return us;
}

double layers_prefill_us(const Layers *self, int64_t batch, int64_t isl, int64_t past) {
  const double keys[] = {(double)batch, (double)past, (double)isl};
  return layers_linear_prefill_us(self, batch, isl) +
         (llm_latent(&self->llm) ? latent_prefill_us(self, keys[0], keys[1], keys[2])
          : layers_sparse_modules(&self->llm)
              ? layers_sparse_prefill_us(self, keys[0], keys[1], keys[2])
              : plain_prefill_us(self, keys));
}

/* Modules of latent attention were timed with the new token in the context, others and kernels with
 * those before it. */
static int64_t new_tokens(const Layers *self) {
  return self->modules && llm_latent(&self->llm) ? 0 : 1;
}

int64_t layers_context_of(const Layers *self, int64_t step) {
  return step + new_tokens(self);
}

static double plain_decode_us(const Layers *self, const double *keys) {
  const KernelSlice all = kernel_table_all(&self->decode.table);
  const LlmAttention full = llm_full_attention(&self->llm);
  const LlmAttention sliding = llm_sliding_attention(&self->llm);
  double us = (double)full.layers * kernel_slice_eval(all, keys);
  if (sliding.layers > 0 && self->window_decode.path)
    return us + (double)sliding.layers *
                    kernel_slice_eval(kernel_table_all(&self->window_decode.table), keys);
  if (sliding.layers > 0) {
    const double seen[] = {keys[0], fmin(keys[1], (double)sliding.window - 1)};
    us += (double)sliding.layers * kernel_slice_eval(all, seen);
  }
  return us;
}

double layers_decode_us(const Layers *self, int64_t batch, int64_t context) {
  const double keys[] = {(double)batch, (double)(context - new_tokens(self))};
  return layers_linear_decode_us(self, batch) +
         (llm_latent(&self->llm)              ? latent_decode_us(self, keys[0], keys[1])
          : layers_sparse_modules(&self->llm) ? layers_sparse_decode_us(self, keys[0], keys[1])
                                              : plain_decode_us(self, keys));
}
