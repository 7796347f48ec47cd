/* Which tables, and which of their rows, a setup needs. */
#include "perfmodel/import/aic_layers.h"
#include <string.h>

/* As the tables call a format of products and of the KV cache; NULL: they have none. */
static const char *dtype_name(int dtype) {
  static const char *const names[DTYPE_COUNT] = {
      [DTYPE_BF16] = "bfloat16", [DTYPE_FP8] = "fp8",      [DTYPE_FP8_BLOCK] = "fp8_block",
      [DTYPE_NVFP4] = "nvfp4",   [DTYPE_INT8] = "int8_wo", [DTYPE_INT4] = "int4_wo",
  };
  return names[dtype];
}

static int no_format(const AicLayers *self, const char *what, int dtype, Diag *diag) {
  return diag_error(diag, place_of_file(self->folder), "no table has %s in '%s'", what,
                    dtype_names[dtype]);
}

/* Reads a table of another folder, where it has the rows: no diagnostics. */
static bool read_beside(AicFound *found, const AicQuery *query, const char *folder, Arena *arena) {
  Diag unknown;
  diag_init(&unknown);
  const bool good = aic_read(found, query, folder, arena, &unknown) == 0;
  diag_done(&unknown);
  return good;
}

/* ---- Products ---- */

static int read_products(AicLayers *self, int dtype, Diag *diag) {
  AicProducts *products = &self->products[dtype];
  if (products->n > 0) return 0;
  if (!dtype_name(dtype)) return no_format(self, "products", dtype, diag);
  const AicQuery query = {
      .name = "gemm", .filters = {{"gemm_dtype", {dtype_name(dtype)}}}, .keys = {"n", "k", "m"}};
  if (aic_read(&products->found[0], &query, self->folder, self->arena, diag)) return -1;
  products->n = 1;
  if (self->engine->fastest & 1u << dtype)
    for (const char *const *beside = aic_beside(self->folder, NULL, "gemm", self->arena);
         *beside && products->n < AIC_SOURCES; beside++)
      products->n += read_beside(&products->found[products->n], &query, *beside, self->arena);
  for (int i = 0; i < products->n; i++)
    aic_table_level(&products->found[i].table);
  return 0;
}

/* ---- Attention ---- */

static int read_attention(AicLayers *self, Diag *diag) {
  const char *kv = dtype_name(self->setup.kv_cache_dtype);
  if (!kv) return no_format(self, "a KV cache", self->setup.kv_cache_dtype, diag);
  AicQuery query = {.name = "context_attention",
                    .filters = {{"kv_cache_dtype", {kv}},
                                {"attn_dtype", {kv, "bfloat16"}, .may_miss = true},
                                {"head_dim", .number = self->llm.head_dim},
                                {"num_heads", .number = aic_heads(self)},
                                {"num_key_value_heads", .number = aic_kv_heads(self)},
                                {"window_size", .number = 0, .may_miss = true},
                                {"beam_width", .number = 1, .may_miss = true}},
                    .keys = {"batch_size", "isl", "step"}};
  if (self->engine->attention_kernels[0]) {
    query.filters[7] = (AicFilter){"kernel_source", .may_miss = true};
    memcpy(query.filters[7].texts, self->engine->attention_kernels, sizeof query.filters[7].texts);
  }
  int error = aic_read(&self->prefill, &query, self->folder, self->arena, diag);
  query.name = "generation_attention";
  query.keys[1] = "step";
  query.keys[2] = NULL;
  error |= aic_read(&self->decode, &query, self->folder, self->arena, diag);
  return error;
}

/* Of engines that ran the whole of latent attention, else of its parts. */
static int read_latent(AicLayers *self, Diag *diag) {
  const char *kv = dtype_name(self->setup.kv_cache_dtype);
  const char *products = dtype_name(self->llm.attention_dtype);
  if (!kv) return no_format(self, "a KV cache", self->setup.kv_cache_dtype, diag);
  if (!products) return no_format(self, "products", self->llm.attention_dtype, diag);
  self->modules = aic_has(self->folder, "mla_generation_module", self->arena);
  AicQuery query = {.name = self->modules ? "mla_context_module" : "context_mla",
                    .filters = {{"kv_cache_dtype", {kv}, .may_miss = true},
                                {"gemm_type", {products, "bfloat16"}, .may_miss = true},
                                {"num_heads", .number = aic_heads(self)}},
                    .keys = {"batch_size", "isl"}};
  int error = aic_read(&self->prefill, &query, self->folder, self->arena, diag);
  query.name = self->modules ? "mla_generation_module" : "generation_mla";
  query.keys[1] = "step";
  error |= aic_read(&self->decode, &query, self->folder, self->arena, diag);
  aic_table_level(&self->decode.table);
  if (self->modules) return error;
  AicQuery bmm = {.name = "mla_bmm",
                  .filters = {{"op_name", {"mla_gen_pre"}},
                              {"bmm_dtype", {"bfloat16"}, .may_miss = true},
                              {"num_heads", .number = aic_heads(self)}},
                  .keys = {"num_tokens"}};
  error |= aic_read(&self->absorb, &bmm, self->folder, self->arena, diag);
  bmm.filters[0].texts[0] = "mla_gen_post";
  return error | aic_read(&self->expand, &bmm, self->folder, self->arena, diag);
}

/* ---- Collectives ---- */

static int read_nccl(AicLayers *self, AicFound *found, const char *op, int64_t gpus, Diag *diag) {
  const AicQuery query = {.name = "nccl",
                          .filters = {{"op_name", {op}},
                                      {"dtype", {"half", "bfloat16"}, .may_miss = true},
                                      {"nccl_dtype", {"half", "bfloat16"}, .may_miss = true},
                                      {"num_gpus", .number = gpus}},
                          .keys = {"message_size"}};
  const char *folder = self->folder; // or the newest version beside
  for (const char *const *beside = aic_beside(folder, "nccl", query.name, self->arena); *beside;
       beside++)
    folder = *beside;
  return aic_read(found, &query, folder, self->arena, diag);
}

/* "0.24.0" of a folder "…/vllm-0.24.0"; "" where its name has none. */
static const char *version_of(const char *folder, Arena *arena) {
  const char *dash = strchr(aic_folder_name(folder, arena), '-');
  return dash ? dash + 1 : "";
}

/* From the folders of an engine beside this one: that of the wanted version or the next later, else
 * the last before it. Whether there is any. */
static bool read_version(AicLayers *self, AicFound *ret_found, const AicQuery *query,
                         const char *engine, const char *wanted) {
  const char *const *beside = aic_beside(self->folder, engine, query->name, self->arena);
  const char *best = "";
  bool any = false;
  for (; *beside; beside++) {
    AicFound found;
    const char *version = version_of(*beside, self->arena);
    const bool is_after = wanted && aic_version_compare(version, wanted) >= 0;
    const bool was_after = wanted && aic_version_compare(best, wanted) >= 0;
    const bool is_better =
        is_after == was_after ? (aic_version_compare(version, best) < 0) == is_after : is_after;
    if ((any && !is_better) || !read_beside(&found, query, *beside, self->arena)) continue;
    *ret_found = found;
    best = version;
    any = true;
  }
  return any;
}

static int read_all_reduce(AicLayers *self, Diag *diag) {
  const AicEngine *engine = self->engine;
  const PerfSetup *setup = &self->setup;
  const AicQuery query = {
      .name = "custom_allreduce",
      .filters = {{"variant", {engine->all_reduce, "nccl"}, .may_miss = true},
                  {"backend", {engine->all_reduce, "nccl"}, .may_miss = true}, // in the wheel
                  {"dtype", {"bfloat16", "half"}, .may_miss = true},
                  {"allreduce_dtype", {"bfloat16", "half"}, .may_miss = true},
                  {"num_gpus", .number = setup->tensor_parallel_size}},
      .keys = {"message_size"}};
  if (setup->tensor_parallel_size == 1) return 0;
  int error = 0;
  const bool is_own = !engine->all_reduce_of && setup->engine_version &&
                      strcmp(version_of(self->folder, self->arena), setup->engine_version) == 0 &&
                      aic_has(self->folder, query.name, self->arena);
  if (is_own || !read_version(self, &self->all_reduce, &query,
                              engine->all_reduce_of ? engine->all_reduce_of : engine->name,
                              engine->all_reduce_of ? NULL : setup->engine_version))
    error = aic_read(&self->all_reduce, &query, self->folder, self->arena, diag);
  if (engine->custom_bytes[0] > 0)
    error |= read_nccl(self, &self->nccl, "all_reduce", setup->tensor_parallel_size, diag);
  return error;
}

/* ---- Experts ---- */

/* Kernels of routed experts by format of their weights, the one that engines run first. */
static const char *const EXPERTS[DTYPE_COUNT][AIC_CHOICES] = {
    [DTYPE_BF16] = {"bfloat16"},
    [DTYPE_FP8] = {"fp8"},
    [DTYPE_FP8_BLOCK] = {"fp8_block"},
    [DTYPE_NVFP4] = {"nvfp4"},
    [DTYPE_MXFP4] = {"w4a8_mxfp4_mxfp8", "w4a16_mxfp4"},
    [DTYPE_INT4] = {"int4_wo"},
};

static AicQuery query_experts(const AicLayers *self, int64_t shares) {
  const Llm *llm = &self->llm;
  AicQuery query = {.name = "moe",
                    .filters = {{"moe_dtype"},
                                {"hidden_size", .number = llm->hidden_size},
                                {"inter_size", .number = llm->moe_intermediate_size},
                                {"topk", .number = llm->num_experts_per_tok},
                                {"num_experts", .number = llm->num_experts},
                                {"moe_tp_size", .number = shares},
                                {"moe_ep_size", .number = self->setup.expert_parallel_size},
                                {"distribution", {"power_law_1.01", "power_law_1.2", "balanced"}}},
                    .keys = {"num_tokens"}};
  memcpy(query.filters[0].texts, EXPERTS[llm->expert_dtype], sizeof query.filters[0].texts);
  return query;
}

/* Of the kernels that the engine prefers, if it has any there, else of all. */
static bool read_preferred(AicLayers *self, const AicQuery *query, const char *folder) {
  AicQuery preferred = *query;
  AicFilter *filter = preferred.filters;
  while (filter->column)
    filter++;
  filter->column = "kernel_source";
  memcpy(filter->texts, self->engine->experts_kernels, sizeof filter->texts);
  return (filter->texts[0] && read_beside(&self->experts, &preferred, folder, self->arena)) ||
         read_beside(&self->experts, query, folder, self->arena);
}

/* From the first of all folders, this one's own first, that has both of the queries. */
static bool read_both(AicLayers *self, const AicQuery *split, const AicQuery *whole) {
  const char *const *beside = aic_beside(self->folder, NULL, "moe", self->arena);
  for (const char *folder = self->folder; folder; folder = *beside++)
    if (read_beside(&self->split, split, folder, self->arena) &&
        read_beside(&self->whole, whole, folder, self->arena))
      return true;
  return false;
}

static int read_routed(AicLayers *self, Diag *diag) {
  const Llm *llm = &self->llm;
  const int64_t shares = aic_expert_shares(self);
  const char *folder = self->folder;
  if (!EXPERTS[llm->expert_dtype][0]) return no_format(self, "experts", llm->expert_dtype, diag);
  if (self->engine->experts_of && self->engine->experts_formats & 1u << llm->expert_dtype)
    for (const char *const *beside =
             aic_beside(folder, self->engine->experts_of, "moe", self->arena);
         *beside; beside++)
      folder = *beside;
  const AicQuery split = query_experts(self, shares), whole = query_experts(self, 1);
  if (read_preferred(self, &split, folder)) return 0;
  if (shares > 1 && llm->expert_dtype == DTYPE_MXFP4 && read_preferred(self, &whole, folder) &&
      read_both(self, &split, &whole))
    return 0;
  return aic_read(&self->experts, &split, folder, self->arena, diag);
}

static int read_experts(AicLayers *self, Diag *diag) {
  if (llm_moe_layers(&self->llm) == 0) return 0;
  int error = read_routed(self, diag);
  if (self->setup.attention_data_parallel_size == 1) return error;
  error |= read_nccl(self, &self->gather, "all_gather", aic_expert_gpus(self), diag);
  error |= read_nccl(self, &self->scatter, "reduce_scatter", aic_expert_gpus(self), diag);
  return error;
}

int aic_layers_load(AicLayers *self, Diag *diag) {
  int error = read_products(self, DTYPE_BF16, diag); // the head, routers
  error |= read_products(self, self->llm.attention_dtype, diag);
  if (llm_dense_layers(&self->llm) > 0 || self->llm.shared_expert_intermediate_size > 0)
    error |= read_products(self, self->llm.weight_dtype, diag);
  error |= llm_latent(&self->llm) ? read_latent(self, diag) : read_attention(self, diag);
  error |= read_all_reduce(self, diag);
  error |= read_experts(self, diag);
  return error;
}
