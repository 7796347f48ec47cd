/* One product is looked up by what a GPU holds of its matrix. */
#include "perfmodel/import/aic_layers.h"
#include <math.h>
#include <string.h>

static const AicEngine ENGINES[] = {
#define AIC_ENGINE(name_, ...) {.name = (name_), __VA_ARGS__},
#include "perfmodel/import/aic_engines.def"
#undef AIC_ENGINE
};

const char *const aic_engine_names[] = {
#define AIC_ENGINE(name_, ...) name_,
#include "perfmodel/import/aic_engines.def"
#undef AIC_ENGINE
    NULL};

const AicEngine *aic_engine_find(const char *name) {
  for (int i = 0; aic_engine_names[i]; i++)
    if (strcmp(ENGINES[i].name, name) == 0) return &ENGINES[i];
  return NULL;
}

const char *aic_dtype_name(int dtype) {
  static const char *const names[DTYPE_COUNT] = {
      [DTYPE_BF16] = "bfloat16",     [DTYPE_FP8] = "fp8",      [DTYPE_FP8_BLOCK] = "fp8_block",
      [DTYPE_NVFP4] = "nvfp4",       [DTYPE_INT8] = "int8_wo", [DTYPE_INT4] = "int4_wo",
      [DTYPE_MXFP4] = "w4a16_mxfp4",
  };
  return names[dtype];
}

/* ---- Tables ---- */

static int read_products(AicLayers *self, int dtype, Diag *diag) {
  AicFound *found = &self->products[dtype];
  if (found->path) return 0;
  if (!aic_dtype_name(dtype))
    return diag_error(diag, place_of_file(self->folder), "no table has products of '%s'",
                      dtype_names[dtype]);
  const AicQuery query = {.name = "gemm",
                          .filters = {{"gemm_dtype", {aic_dtype_name(dtype)}}},
                          .keys = {"n", "k", "m"}};
  return aic_read(found, &query, self->folder, self->arena, diag);
}

static int64_t heads(const AicLayers *self) {
  return self->llm.num_attention_heads / self->setup.tensor_parallel_size;
}

/* Fewer than GPUs are there several times. */
static int64_t kv_heads(const AicLayers *self) {
  const int64_t share = self->llm.num_key_value_heads / self->setup.tensor_parallel_size;
  return share > 0 ? share : 1;
}

static int read_attention(AicLayers *self, Diag *diag) {
  const char *kv = aic_dtype_name(self->setup.kv_cache_dtype);
  if (!kv)
    return diag_error(diag, place_of_file(self->folder), "no table has a KV cache of '%s'",
                      dtype_names[self->setup.kv_cache_dtype]);
  AicQuery query = {.name = "context_attention",
                    .filters = {{"kv_cache_dtype", {kv}},
                                {"attn_dtype", {kv, "bfloat16"}, .may_miss = true},
                                {"head_dim", .number = self->llm.head_dim},
                                {"num_heads", .number = heads(self)},
                                {"num_key_value_heads", .number = kv_heads(self)},
                                {"window_size", .number = 0, .may_miss = true},
                                {"beam_width", .number = 1, .may_miss = true}},
                    .keys = {"batch_size", "isl", "step"}};
  int error = aic_read(&self->prefill, &query, self->folder, self->arena, diag);
  query.name = "generation_attention";
  query.keys[1] = "step";
  query.keys[2] = NULL;
  error |= aic_read(&self->decode, &query, self->folder, self->arena, diag);
  return error;
}

static int read_all_reduce(AicLayers *self, Diag *diag) {
  const AicQuery query = {.name = "custom_allreduce",
                          .filters = {{"variant", {self->engine->all_reduce}, .may_miss = true},
                                      {"dtype", {"bfloat16", "half"}, .may_miss = true},
                                      {"num_gpus", .number = self->setup.tensor_parallel_size}},
                          .keys = {"message_size"}};
  if (self->setup.tensor_parallel_size == 1) return 0;
  return aic_read(&self->all_reduce, &query, self->folder, self->arena, diag);
}

int aic_layers_load(AicLayers *self, Diag *diag) {
  int error = read_products(self, self->llm.weight_dtype, diag);
  error |= read_products(self, self->llm.attention_dtype, diag);
  error |= read_products(self, DTYPE_BF16, diag);
  error |= read_attention(self, diag);
  error |= read_all_reduce(self, diag);
  return error;
}

/* ---- Kernels ---- */

/* [m, k] x [k, n]. A matrix wider or deeper than the table's is taken as several of equal size. */
static double product_us(const AicLayers *self, int dtype, double m, double n, double k) {
  const AicSlice all = aic_table_all(&self->products[dtype].table);
  const double widest = (double)aic_slice_last(all);
  const double pieces = ceil(n / widest), parts = ceil(k / widest);
  return pieces * parts * aic_slice_eval(all, (double[]){n / pieces, k / parts, m});
}

/* One that is bound by memory. */
static double kernel_us(const AicLayers *self, double bytes) {
  static const double REACHED = 0.8; // of the bandwidth: AIConfigurator, systems/*.yaml
  return self->engine->launch_us + 1e6 * bytes / (REACHED * (double)self->hardware.hbm_bandwidth);
}

/* To the format of the weights: reads 16 bits, writes what their products take. */
static double quantize_us(const AicLayers *self, int dtype, double numbers) {
  const Dtype compute = dtype_compute((Dtype)dtype);
  if (!self->engine->quantizes || compute == DTYPE_BF16) return 0;
  return kernel_us(self, numbers * (2 + dtype_bytes(compute)));
}

/* A product of a 16-bit input. */
static double layer_us(const AicLayers *self, int dtype, double m, double n, double k) {
  return quantize_us(self, dtype, m * k) + product_us(self, dtype, m, n, k);
}

static double all_reduce_us(const AicLayers *self, double numbers) {
  const AicSlice all = aic_table_all(&self->all_reduce.table);
  return all.n > 0 ? aic_slice_eval(all, &numbers) : 0;
}

/* ---- Layers ---- */

/* Adds to the residual and normalises: both are read and written. */
static double norm_us(const AicLayers *self, double tokens) {
  return kernel_us(self, 4 * tokens * (double)(self->llm.hidden_size * self->llm.dtype_bytes));
}

static double attention_us(const AicLayers *self, double tokens) {
  const Llm *llm = &self->llm;
  const double d = (double)llm->head_dim, h = (double)llm->hidden_size;
  const double q = (double)heads(self) * d, kv = (double)kv_heads(self) * d;
  const double bytes = (double)llm->dtype_bytes * tokens;
  double us = norm_us(self, tokens);
  us += layer_us(self, llm->attention_dtype, tokens, q + 2 * kv, h);
  if (llm->qk_norm) us += kernel_us(self, 2 * (q + kv) * bytes);
  us += kernel_us(self, 2 * (q + 2 * kv) * bytes); // RoPE, and K and V into the cache
  us += layer_us(self, llm->attention_dtype, tokens, h, q);
  return us + all_reduce_us(self, tokens * h);
}

static double mlp_us(const AicLayers *self, double tokens) {
  const Llm *llm = &self->llm;
  const double h = (double)llm->hidden_size;
  const double f = (double)llm->intermediate_size / (double)self->setup.tensor_parallel_size;
  const int inputs = llm->gated_mlp ? 2 : 1;
  double us = norm_us(self, tokens);
  us += layer_us(self, llm->weight_dtype, tokens, inputs * f, h);
  us += kernel_us(self, (inputs + 1) * f * (double)llm->dtype_bytes * tokens); // activation
  us += layer_us(self, llm->weight_dtype, tokens, h, f);
  return us + all_reduce_us(self, tokens * h);
}

double aic_linear_us(const AicLayers *self, int64_t tokens) {
  const double n = (double)tokens, row = (double)(self->llm.hidden_size * self->llm.dtype_bytes);
  return (double)self->llm.num_hidden_layers * (attention_us(self, n) + mlp_us(self, n)) +
         kernel_us(self, 2 * n * row); // embedding
}

double aic_head_us(const AicLayers *self, int64_t seqs) {
  static const double LOGIT_BYTES = 4;
  const double n = (double)seqs, h = (double)self->llm.hidden_size;
  const double words = (double)self->llm.vocab_size / (double)self->setup.tensor_parallel_size;
  return norm_us(self, n) + product_us(self, DTYPE_BF16, n, words, h) +
         kernel_us(self, LOGIT_BYTES * n * words);
}

double aic_prefill_us(const AicLayers *self, int64_t batch, int64_t isl, int64_t step) {
  const double keys[] = {(double)batch, (double)isl, (double)step};
  return (double)self->llm.num_hidden_layers *
         aic_slice_eval(aic_table_all(&self->prefill.table), keys);
}

double aic_decode_us(const AicLayers *self, int64_t batch, int64_t step) {
  const double keys[] = {(double)batch, (double)step};
  return (double)self->llm.num_hidden_layers *
         aic_slice_eval(aic_table_all(&self->decode.table), keys);
}
