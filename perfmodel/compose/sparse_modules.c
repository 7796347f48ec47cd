/* Attention that reads a part of the context, where heads are plain: over compressed tokens, of
 * which an index picks some (DeepSeek-V4: CSA) or none (HCA), and over blocks that an index picks
 * (MiniMax-M3: MSA). Engines were timed with the whole module: products, index, attention. What is
 * left of it without the products, which go by the tokens of a batch, is a term of its own. */
#include "perfmodel/compose/nearest.h"
#include <math.h>
#include <string.h>

bool layers_sparse_modules(const Llm *llm) {
  return !llm_latent(llm) && (llm->kv_share > 0 || llm->index_topk > 0);
}

/* ---- Products ---- */

/* DeepSeek-V4: into the factor of queries with the one key, queries out of it, the output in two
 * factors, the first in groups of heads; and in 16 bits what tokens are compressed of, whole on
 * each GPU. */
static double compressed_products_us(const Layers *self, double tokens, bool index) {
  const Llm *llm = &self->llm;
  const int dtype = llm->attention_dtype;
  const double gpus = (double)self->setup.tensor_parallel_size;
  const double h = (double)llm->hidden_size, d = (double)llm->head_dim;
  const double rank = (double)llm->q_lora_rank, query = (double)layers_heads(self) * d;
  const double groups = fmax(1, (double)llm->o_groups / gpus);
  const double out = (double)llm->o_lora_rank;
  double us =
      layers_product_us(self, dtype, tokens, rank + d, h) +
      layers_product_us(self, dtype, tokens, query, rank) +
      layers_product_us(self, dtype, tokens, groups * out, query / groups) +
      layers_product_us(self, dtype, tokens, h, groups * out) +
      layers_product_us(self, DTYPE_BF16, tokens, llm_compressor_width(llm->head_dim, index), h);
  if (!index) return us;
  const double heads = (double)llm->index_n_heads;
  us += layers_product_us(self, dtype, tokens, heads * (double)llm->index_head_dim, rank);
  return us + layers_product_us(self, DTYPE_BF16, tokens,
                                heads + llm_compressor_width(llm->index_head_dim, true), h);
}

/* MiniMax-M3: queries, keys and values, with the index those of its heads and one key. */
static double block_products_us(const Layers *self, double tokens, bool index) {
  const Llm *llm = &self->llm;
  const int64_t gpus = self->setup.tensor_parallel_size;
  const double h = (double)llm->hidden_size, d = (double)llm->head_dim;
  const double q = (double)layers_heads(self) * d, kv = (double)layers_kv_heads(self) * d;
  const int64_t heads = llm->index_n_heads > gpus ? llm->index_n_heads / gpus : 1;
  const double more = index ? (double)((heads + 1) * llm->index_head_dim) : 0;
  return layers_product_us(self, llm->attention_dtype, tokens, q + 2 * kv + more, h) +
         layers_product_us(self, llm->attention_dtype, tokens, h, q);
}

double layers_sparse_products_us(const Layers *self, double tokens, bool index) {
  return self->llm.kv_share > 0 ? compressed_products_us(self, tokens, index)
                                : block_products_us(self, tokens, index);
}

/* ---- Attention ---- */

/* Tokens that each of the new ones reads in the mean. */
static double tokens_read(const Llm *llm, double past, double isl, bool index) {
  const double seen = past + isl / 2;
  if (llm->kv_share == 0) return fmin(seen, (double)llm->index_topk);
  const double window = fmin(seen, (double)llm->sliding_window);
  return index ? window + fmin(seen / 4, (double)llm->index_topk) : window;
}

/* What is left of a module takes its queries and keys, moved twice, and scores and sums at the peak
 * of the GPU. */
static double least_us(const Layers *self, double tokens, double read) {
  const Llm *llm = &self->llm;
  const double d = (double)llm->head_dim, heads = (double)layers_heads(self);
  const double moved = 2 * tokens * (heads + (double)layers_kv_heads(self)) * d;
  return 2 * layers_kernel_us(self, moved * (double)llm->dtype_bytes) +
         1e6 * 4 * tokens * read * heads * d / self->hardware.dense_bf16_flops;
}

static double module_us(const Layers *self, const KernelFound *found, const double *keys,
                        double tokens, double read, bool index) {
  const double us = kernel_slice_eval(kernel_table_all(&found->table), keys);
  return fmax(least_us(self, tokens, read), us - layers_sparse_products_us(self, tokens, index));
}

/* Of all layers: those with an index; of compressed tokens modules without one, of blocks layers
 * that see all. */
static double layers_us(const Layers *self, const KernelFound *own, const KernelFound *other,
                        const double *keys, double past, double isl) {
  const Llm *llm = &self->llm;
  const double tokens = keys[0] * isl, with = (double)llm->num_index_layers;
  const double without = (double)llm->num_attention_layers - with;
  double us = with * module_us(self, own, keys, tokens, tokens_read(llm, past, isl, true), true);
  if (without <= 0) return us;
  if (llm->kv_share == 0)
    return us + without * kernel_slice_eval(kernel_table_all(&other->table), keys);
  return us +
         without * module_us(self, other, keys, tokens, tokens_read(llm, past, isl, false), false);
}

double layers_sparse_prefill_us(const Layers *self, double batch, double past, double isl) {
  return layers_us(self, &self->prefill, &self->shared_prefill, (double[]){batch, past, isl}, past,
                   isl);
}

double layers_sparse_decode_us(const Layers *self, double batch, double step) {
  return layers_us(self, &self->decode, &self->shared_decode, (double[]){batch, step}, step, 1);
}

/* ---- Tables ---- */

/* Checkpoints whose modules were measured, by their shape. */
static const struct {
  const char *names[3]; // of engines
  int64_t hidden, rank, heads, out_rank, topk;
} COMPRESSED[] = {
    {{"sgl-project/DeepSeek-V4-Flash-FP8"}, 4096, 1024, 64, 1024, 512},
    {{"sgl-project/DeepSeek-V4-Pro-FP8", "deepseek-ai/DeepSeek-V4-Pro"},
     7168,
     1536,
     128,
     1024,
     1024},
};

static const char *const *compressed_names(const Llm *llm) {
  for (size_t i = 0; i < sizeof COMPRESSED / sizeof *COMPRESSED; i++)
    if (llm->hidden_size == COMPRESSED[i].hidden && llm->q_lora_rank == COMPRESSED[i].rank &&
        llm->num_attention_heads == COMPRESSED[i].heads &&
        llm->o_lora_rank == COMPRESSED[i].out_rank && llm->index_topk == COMPRESSED[i].topk &&
        llm->head_dim == 512 && llm->sliding_window == 128)
      return COMPRESSED[i].names;
  return NULL;
}

/* MiniMax-M3: 16 query heads for a key-value head and for a head of the index, 16 blocks of 128. */
static bool is_blocks(const Llm *llm) {
  return llm->kv_share == 0 && llm->hidden_size == 6144 && llm->head_dim == 128 &&
         llm->num_attention_heads == 64 && llm->num_key_value_heads == 4 &&
         llm->index_n_heads == 4 && llm->index_head_dim == 128 && llm->index_topk == 16 * 128;
}

static KernelQuery query_of(const Layers *self, const char *name, const char *kv,
                            const char *products, bool decodes) {
  KernelQuery query = {.name = name,
                       .filters = {{"kv_cache_dtype", {kv, "bfloat16", "fp8"}},
                                   {"gemm_type", {products, "fp8_block", "bfloat16"}},
                                   {"num_heads", .number = layers_heads(self)}},
                       .keys = {"batch_size", "step", decodes ? NULL : "isl"}};
  const char *const *models = compressed_names(&self->llm);
  if (self->llm.kv_share > 0) {
    query.filters[3] = (KernelFilter){.column = "model"};
    memcpy(query.filters[3].texts, models, sizeof COMPRESSED[0].names);
  }
  return query;
}

/* A module with products of another format than the model's. */
static void note_products(Layers *self, KernelFound *found, const char *wanted, const char *what) {
  if (!found->texts[1] || strcmp(found->texts[1], wanted) == 0) return;
  nearest_note(self, found,
               arena_printf(self->arena, "%s with products in %s", what, found->texts[1]), NULL,
               OTHER_FORMAT);
}

static int read_modules(Layers *self, const char *kv, const char *products, Diag *diag) {
  static const char *const names[2][2] = {
      {"dsv4_csa_context_module", "dsv4_csa_generation_module"},
      {"dsv4_hca_context_module", "dsv4_hca_generation_module"}};
  static const char *const blocks[] = {"msa_context_module", "msa_generation_module"};
  static const char *const what[2][2] = {
      {"attention of prompts", "attention of decodes"},
      {"attention of prompts without an index", "attention of decodes without an index"}};
  KernelFound *found[2][2] = {{&self->prefill, &self->decode},
                              {&self->shared_prefill, &self->shared_decode}};
  const bool compressed = self->llm.kv_share > 0;
  int error = 0;
  for (int other = 0; other <= compressed; other++)
    for (int decodes = 0; decodes < 2; decodes++) {
      const KernelQuery query = query_of(self, compressed ? names[other][decodes] : blocks[decodes],
                                         kv, products, decodes);
      KernelFound *each = found[other][decodes];
      if (nearest_read(self, each, &query, what[other][decodes], diag)) {
        error = -1;
        continue;
      }
      note_products(self, each, products, what[other][decodes]);
      if (decodes) kernel_table_level(&each->table);
    }
  return error;
}

/* The share of layers whose attention was not measured, a window alone: they take the time of those
 * that compress most, and at most all of it too much. */
static void note_windows(Layers *self) {
  const Llm *llm = &self->llm;
  const int64_t layers = llm->num_hidden_layers - llm->num_compressed_layers;
  if (layers == 0) return;
  const double share = (double)layers / (double)(llm->num_hidden_layers - llm->num_index_layers);
  static const char *const what[] = {"prompts", "decodes"};
  KernelFound *found[] = {&self->shared_prefill, &self->shared_decode};
  for (int i = 0; i < 2; i++)
    nearest_note(self, found[i],
                 arena_printf(self->arena, "attention of %s in %lld layers with a window alone",
                              what[i], (long long)layers),
                 NULL, OTHER_LAYERS * share);
}

/* mHC: before and after attention and MLP of one layer. */
static int read_streams(Layers *self, Diag *diag) {
  static const char *const ops[] = {"pre", "post"};
  static const char *const names[] = {"streams before a layer", "streams after a layer"};
  int error = 0;
  for (int i = 0; i < 2 && self->llm.hc_mult > 0; i++) {
    const KernelQuery query = {.name = "mhc_module",
                               .filters = {{"op_name", {ops[i]}},
                                           {"hc_mult", .number = self->llm.hc_mult},
                                           {"hidden_size", .number = self->llm.hidden_size}},
                               .keys = {"num_tokens"}};
    error |= nearest_read(self, &self->streams[i], &query, names[i], diag);
  }
  return error;
}

int layers_read_sparse_modules(Layers *self, const char *kv, const char *products, Diag *diag) {
  const Llm *llm = &self->llm;
  if (llm->kv_share > 0 ? !compressed_names(llm) : !is_blocks(llm))
    return diag_error(diag, place_of_file(self->folder),
                      "no table has sparse attention of the shape of model '%s'", llm->name);
  self->modules = true;
  const int error = read_modules(self, kv, products, diag) | read_streams(self, diag);
  if (!error && llm->kv_share > 0) note_windows(self);
  return error;
}
