/* Which tables, and which of their rows, a setup needs. */
#include "perfmodel/compose/collectives.h"
#include "perfmodel/compose/kernel_write.h"
#include "perfmodel/compose/nearest.h"
#include "perfmodel/compose/wide.h"
#include <math.h>
#include <string.h>

static int no_format(const Layers *self, const char *what, int dtype, Diag *diag) {
  return diag_error(diag, place_of_file(self->folder), "no table has %s in '%s'", what,
                    dtype_names[dtype]);
}
/* ---- Products ---- */

/* Kernels of Tandem are no engine's. */
static bool is_of_engines(const char *folder, Arena *arena) {
  return strncmp(kernel_folder_name(folder, arena), KERNELS_TANDEM "-", sizeof KERNELS_TANDEM) != 0;
}

static int read_products(Layers *self, int dtype, Diag *diag) {
  LayerProducts *products = &self->products[dtype];
  if (products->n > 0) return 0;
  if (!kernel_dtype_name(dtype)) return no_format(self, "products", dtype, diag);
  const KernelQuery query = {.name = "gemm",
                             .filters = {{"gemm_dtype", {kernel_dtype_name(dtype)}}},
                             .keys = {"n", "k", "m"}};
  if (self->engine->fastest & 1u << dtype) {
    products->n = nearest_read_beside(self, &products->found[0], &query, self->folder);
    const char *const *beside = kernel_folders_beside(self->folder, NULL, query.name, self->arena);
    for (; *beside && products->n < LAYER_SOURCES; beside++)
      products->n += is_of_engines(*beside, self->arena) &&
                     nearest_read_beside(self, &products->found[products->n], &query, *beside);
  }
  const char *what = arena_printf(self->arena, "products in %s", dtype_names[dtype]);
  if (products->n == 0) {
    if (nearest_read(self, &products->found[0], &query, what, diag)) return -1;
    products->n = 1;
  }
  for (int i = 0; i < products->n; i++)
    kernel_table_level(&products->found[i].table);
  return 0;
}

/* ---- Layers as a whole ---- */

/* From the engine's own folder, else from another version of it. */
static bool read_whole(Layers *self, KernelFound *found, const KernelQuery *query,
                       const char *what) {
  if (nearest_read_beside(self, found, query, self->folder)) return true;
  if (!nearest_read_version(self, found, query, self->setup.engine, self->setup.engine_version))
    return false;
  nearest_note(self, found, what, NULL, OTHER_VERSION);
  return true;
}

/* All of a dense layer but attention, where the engine measured such layers. */
static void read_linear(Layers *self) {
  const Llm *llm = &self->llm;
  const char *format = kernel_dtype_name(llm->weight_dtype);
  if (!self->engine->whole_layers || !format || llm_moe_layers(llm) > 0 || llm_latent(llm) ||
      llm->num_linear_layers > 0 || llm->attention_gate ||
      llm->attention_dtype != llm->weight_dtype)
    return;
  const KernelQuery query = {.name = "linear",
                             .filters = {{"gemm_dtype", {format}},
                                         {"hidden_size", .number = llm->hidden_size},
                                         {"num_heads", .number = layers_heads(self)},
                                         {"num_key_value_heads", .number = layers_kv_heads(self)},
                                         {"head_dim", .number = llm->head_dim},
                                         {"inter_size", .number = llm->intermediate_size /
                                                                  self->setup.tensor_parallel_size},
                                         {"gated", .number = llm->gated_mlp}},
                             .keys = {"num_tokens"}};
  read_whole(self, &self->linear, &query, "layers");
}

static void read_head(Layers *self) {
  const KernelQuery query = {
      .name = "head",
      .filters = {{"gemm_dtype", {kernel_dtype_name(DTYPE_BF16)}},
                  {"hidden_size", .number = self->llm.hidden_size},
                  {"vocab_size",
                   .number = self->llm.vocab_size / self->setup.tensor_parallel_size}},
      .keys = {"num_tokens"}};
  if (self->engine->whole_layers) read_whole(self, &self->head, &query, "the head");
}

/* Of what is not in the tables of layers. */
static int read_all_products(Layers *self, Diag *diag) {
  const Llm *llm = &self->llm;
  int error = 0;
  read_linear(self);
  read_head(self);
  if (!self->head.path || llm_moe_layers(llm) > 0)
    error |= read_products(self, DTYPE_BF16, diag); // the head, routers
  if (self->linear.path) return error;
  error |= read_products(self, llm->attention_dtype, diag);
  if (llm_dense_layers(llm) > 0 || llm->shared_expert_intermediate_size > 0)
    error |= read_products(self, llm->weight_dtype, diag);
  return error;
}

/* ---- Attention ---- */

/* Another format of the KV cache was measured. */
static void note_format(Layers *self, const char *wanted) {
  KernelFound *found[] = {&self->prefill, &self->decode};
  static const char *const names[] = {"prompts", "decodes"};
  for (int i = 0; i < 2; i++) {
    if (!found[i]->texts[0] || strcmp(found[i]->texts[0], wanted) == 0) continue;
    const bool narrow = strcmp(found[i]->texts[0], kernel_dtype_name(DTYPE_FP8)) == 0;
    self->setup.kv_cache_dtype = narrow ? DTYPE_FP8 : DTYPE_BF16;
    nearest_note(self, found[i],
                 arena_printf(self->arena, "attention of %s with a KV cache in %s", names[i],
                              dtype_names[self->setup.kv_cache_dtype]),
                 NULL, OTHER_FORMAT);
  }
}

/* Of heads of 256 twice as many of half the width: as much to read, and to compute. */
static bool read_narrower(Layers *self, KernelFound *found, const KernelQuery *query,
                          const char *what) {
  KernelQuery narrower = *query;
  int64_t width = 0;
  if (self->llm.head_dim != 256) return false;
  for (KernelFilter *filter = narrower.filters; filter->column; filter++) {
    if (strcmp(filter->column, "head_dim") == 0) width = filter->number /= 2;
    if (strncmp(filter->column, "num_", 4) == 0) filter->number *= 2;
  }
  what = arena_printf(self->arena, "%s with heads of %lld", what, (long long)width);
  if (!nearest_read_beside(self, found, &narrower, self->folder))
    return nearest_borrow(self, found, &narrower, what);
  nearest_note(self, found, what, NULL, OTHER_ENGINE);
  return true;
}

/* Of the kernels that the engine prefers, if its folder has any, else the fastest. */
static int read_heads(Layers *self, KernelFound *found, const KernelQuery *query, const char *what,
                      Diag *diag) {
  if (nearest_read_preferred(self, found, query, self->folder, self->engine->attention_kernels))
    return 0;
  Diag lacking;
  diag_init(&lacking);
  int error = nearest_read(self, found, query, what, &lacking);
  if (error && read_narrower(self, found, query, what)) error = 0;
  if (error) diag_append(diag, &lacking);
  diag_done(&lacking);
  return error;
}

/* Attention of layers with a sliding window, where the engine's folder has it: `query` is that of
 * decodes. */
static void read_windows(Layers *self, const KernelQuery *query) {
  const LlmAttention sliding = llm_sliding_attention(&self->llm);
  KernelQuery window = *query;
  KernelFilter *filter = window.filters;
  while (strcmp(filter->column, "window_size") != 0)
    filter++;
  *filter = (KernelFilter){"window_size", .number = sliding.window};
  if (sliding.layers == 0 ||
      !nearest_read_beside(self, &self->window_decode, &window, self->folder))
    return;
  window.name = "context_attention";
  window.keys[1] = "step";
  window.keys[2] = "isl";
  if (!nearest_read_beside(self, &self->window_prefill, &window, self->folder))
    self->window_decode = (KernelFound){.path = NULL};
}

static int read_attention(Layers *self, KernelFound *prefill, KernelFound *decode, Diag *diag) {
  const char *kv = kernel_dtype_name(self->setup.kv_cache_dtype);
  if (!kv) return no_format(self, "a KV cache", self->setup.kv_cache_dtype, diag);
  KernelQuery query = {.name = "context_attention",
                       .filters = {{"kv_cache_dtype", {kv, "bfloat16", "fp8"}},
                                   {"attn_dtype", {kv, "bfloat16", "fp8"}, .may_miss = true},
                                   {"head_dim", .number = self->llm.head_dim},
                                   {"num_heads", .number = layers_heads(self)},
                                   {"num_key_value_heads", .number = layers_kv_heads(self)},
                                   {"window_size", .number = 0, .may_miss = true},
                                   {"beam_width", .number = 1, .may_miss = true}},
                       .keys = {"batch_size", "step", "isl"}};
  int error = read_heads(self, prefill, &query, "attention of prompts", diag);
  query.name = "generation_attention";
  query.keys[1] = "step";
  query.keys[2] = NULL;
  error |= read_heads(self, decode, &query, "attention of decodes", diag);
  if (!error) note_format(self, kv);
  if (!error) read_windows(self, &query);
  return error;
}

/* Layers of blocks stand beside some that see all. */
static int read_modules(Layers *self, Diag *diag) {
  const Llm *llm = &self->llm;
  const char *kv = kernel_dtype_name(self->setup.kv_cache_dtype);
  const char *products = kernel_dtype_name(llm->attention_dtype);
  if (!kv) return no_format(self, "a KV cache", self->setup.kv_cache_dtype, diag);
  if (!products) return no_format(self, "products", llm->attention_dtype, diag);
  int error = layers_read_sparse_modules(self, kv, products, diag);
  if (!error && llm->kv_share == 0 && llm->num_index_layers < llm->num_attention_layers)
    error = read_attention(self, &self->shared_prefill, &self->shared_decode, diag);
  else if (!error)
    note_format(self, kv);
  return error;
}

/* Models whose sparse attention was measured, by their shape. */
static const char *sparse_architecture(const Llm *llm) {
  static const struct {
    const char *name;
    int64_t hidden, rank, nope, value, heads;
  } shapes[] = {{"DeepseekV32ForCausalLM", 7168, 1536, 128, 128, 64},
                {"GlmMoeDsaForCausalLM", 6144, 2048, 192, 256, 32}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    if (llm->hidden_size == shapes[i].hidden && llm->q_lora_rank == shapes[i].rank &&
        llm->qk_nope_head_dim == shapes[i].nope && llm->v_head_dim == shapes[i].value &&
        llm->index_n_heads == shapes[i].heads)
      return shapes[i].name;
  return NULL;
}

static int no_sparse(const Layers *self, Diag *diag) {
  return diag_error(diag, place_of_file(self->folder),
                    "no table has sparse attention of the shape of model '%s'", self->llm.name);
}

/* Tables of latent attention: of the whole with its products, or of its parts. */
static KernelQuery query_latent(const Layers *self, const char *name, const char *kv,
                                const char *products) {
  KernelQuery query = {.name = name,
                       .filters = {{"kv_cache_dtype", {kv, "bfloat16", "fp8"}, .may_miss = true},
                                   {"gemm_type", {products, "bfloat16"}, .may_miss = true},
                                   {"num_heads", .number = layers_heads(self)}},
                       .keys = {"batch_size", "isl"}};
  return query;
}

/* Sparse attention with its index, or with that of a layer before it. */
static int read_sparse(Layers *self, const char *kv, const char *products, Diag *diag) {
  const Llm *llm = &self->llm;
  const char *architecture = sparse_architecture(llm);
  if (!architecture) return no_sparse(self, diag);
  static const char *const ops[2][2] = {
      {"dsa_context_module", "dsa_context_module_skip_indexer"},
      {"dsa_generation_module", "dsa_generation_module_skip_indexer"}};
  KernelFound *found[2][2] = {{&self->prefill, &self->shared_prefill},
                              {&self->decode, &self->shared_decode}};
  static const char *const names[] = {"attention of prompts", "attention of decodes"};
  int error = 0;
  self->modules = true;
  for (int decodes = 0; decodes < 2; decodes++)
    for (int shared = 0; shared <= (llm->num_index_layers < llm->num_attention_layers); shared++) {
      KernelQuery query = query_latent(self, ops[decodes][0], kv, products);
      query.filters[3] = (KernelFilter){.column = "architecture", .texts = {architecture}};
      query.filters[4] = (KernelFilter){.column = "op_name", .texts = {ops[decodes][shared]}};
      query.keys[1] = "step";
      query.keys[2] = decodes ? NULL : "isl";
      error |= nearest_read(self, found[decodes][shared], &query, names[decodes], diag);
      if (decodes) kernel_table_level(&found[decodes][shared]->table);
    }
  return error;
}

/* Of engines that ran the whole of latent attention, else of its parts. */
static int read_latent(Layers *self, Diag *diag) {
  const char *kv = kernel_dtype_name(self->setup.kv_cache_dtype);
  const char *products = kernel_dtype_name(self->llm.attention_dtype);
  if (!kv) return no_format(self, "a KV cache", self->setup.kv_cache_dtype, diag);
  if (!products) return no_format(self, "products", self->llm.attention_dtype, diag);
  if (self->llm.index_topk > 0) {
    if (read_sparse(self, kv, products, diag)) return -1;
    note_format(self, kv);
    return 0;
  }
  self->modules = kernel_folder_has(self->folder, "mla_generation_module", self->arena);
  KernelQuery query =
      query_latent(self, self->modules ? "mla_context_module" : "context_mla", kv, products);
  int error = nearest_read(self, &self->prefill, &query, "attention of prompts", diag);
  query.name = self->modules ? "mla_generation_module" : "generation_mla";
  query.keys[1] = "step";
  error |= nearest_read(self, &self->decode, &query, "attention of decodes", diag);
  kernel_table_level(&self->decode.table);
  if (!error) note_format(self, kv);
  if (self->modules) return error;
  KernelQuery bmm = {.name = "mla_bmm",
                     .filters = {{"op_name", {"mla_gen_pre"}},
                                 {"bmm_dtype", {"bfloat16"}, .may_miss = true},
                                 {"num_heads", .number = layers_heads(self)}},
                     .keys = {"num_tokens"}};
  error |= kernel_read(&self->absorb, &bmm, self->folder, self->cache, self->arena, diag);
  bmm.filters[0].texts[0] = "mla_gen_post";
  return error | kernel_read(&self->expand, &bmm, self->folder, self->cache, self->arena, diag);
}

/* ---- Experts ---- */

void layers_mix(KernelFound *self, const KernelFound *other, double share) {
  for (size_t i = 0; i < self->table.n_points; i++) {
    KernelPoint *point = &self->table.points[i];
    const double us = layers_curve_us(other, (double)point->key[0]);
    point->us = us + share * (point->us - us);
  }
}

/* Kernels of routed experts by format of their weights, the one that engines run first. */
static const char *const EXPERTS[DTYPE_COUNT][KERNEL_CHOICES] = {
    [DTYPE_BF16] = {"bfloat16"},
    [DTYPE_FP8] = {"fp8"},
    [DTYPE_FP8_BLOCK] = {"fp8_block"},
    [DTYPE_NVFP4] = {"nvfp4"},
    [DTYPE_MXFP4] = {"w4a8_mxfp4_mxfp8", "w4a16_mxfp4"},
    [DTYPE_INT4] = {"int4_wo"},
};

/* `shares` GPUs share an expert, of which there are `parallel` parts. */
static KernelQuery query_experts(const Layers *self, int64_t shares, int64_t parallel) {
  const Llm *llm = &self->llm;
  KernelQuery query = {
      .name = "moe",
      .filters = {{"moe_dtype"},
                  {"hidden_size", .number = llm->hidden_size},
                  {"inter_size", .number = llm->moe_intermediate_size},
                  {"topk", .number = llm->num_experts_per_tok},
                  {"num_experts", .number = llm->num_experts},
                  {"moe_tp_size", .number = shares},
                  {"moe_ep_size", .number = parallel},
                  {"distribution", {"power_law_1.01", "power_law_1.2", "balanced"}}},
      .keys = {"num_tokens"}};
  memcpy(query.filters[0].texts, EXPERTS[llm->expert_dtype], sizeof query.filters[0].texts);
  return query;
}

/* From the first of all folders, this one's own first, that has both of the queries. */
static bool read_both(Layers *self, const KernelQuery *split, const KernelQuery *whole) {
  const char *const *beside = kernel_folders_beside(self->folder, NULL, "moe", self->arena);
  for (const char *folder = self->folder; folder; folder = *beside++)
    if (nearest_read_beside(self, &self->split, split, folder) &&
        nearest_read_beside(self, &self->whole, whole, folder))
      return true;
  self->split = self->whole = (KernelFound){.path = NULL};
  return false;
}

/* DeepGEMM, which TensorRT-LLM's table has: what engines run of whole experts in blocks of 8 bits
 * where each GPU has tokens of its own (InferenceX's scripts: MOE_BACKEND with DP_ATTENTION). */
static bool read_grouped(Layers *self, const KernelQuery *query) {
  static const char *const kernels[KERNEL_CHOICES] = {"deepgemm"};
  if (!self->engine->exchanges || self->setup.attention_data_parallel_size == 1 ||
      layers_expert_shares(self) > 1 || self->llm.expert_dtype != DTYPE_FP8_BLOCK)
    return false;
  const char *const *beside = kernel_folders_beside(self->folder, "trtllm", "moe", self->arena);
  for (const char *folder = self->folder; folder; folder = *beside++)
    if (nearest_read_preferred(self, &self->experts, query, folder, kernels)) return true;
  return false;
}

/* Of the kernels that the engine prefers, if the folder has any, else of all. */
static bool read_experts_of(Layers *self, const KernelQuery *query, const char *folder) {
  if (read_grouped(self, query)) return true;
  return nearest_read_preferred(self, &self->experts, query, folder,
                                self->engine->experts_kernels) ||
         nearest_read_beside(self, &self->experts, query, folder);
}

/* Where the parts do not divide the experts: between the powers of two on both sides, by the
 * experts of the largest part. */
static bool read_between(Layers *self, const char *folder) {
  const int64_t parallel = self->setup.expert_parallel_size, shares = layers_expert_shares(self);
  int64_t low = 1;
  while (low * 2 < parallel)
    low *= 2;
  const KernelQuery fewer = query_experts(self, shares, low),
                    more = query_experts(self, shares, 2 * low);
  if (self->llm.num_experts % parallel == 0 || !read_experts_of(self, &more, folder)) return false;
  const KernelFound least = self->experts;
  if (!read_experts_of(self, &fewer, folder)) return false;
  const double held = (double)hardware_experts_held(&self->llm, parallel);
  const double share = held * (double)(2 * low) / (double)self->llm.num_experts - 1;
  layers_mix(&self->experts, &least, share);
  nearest_note(self, &self->experts,
               arena_printf(self->arena, "experts in %lld and %lld parts", (long long)low,
                            (long long)(2 * low)),
               NULL, OTHER_SHARES);
  return true;
}

/* MXFP4 of a shape that nobody measured on this GPU: experts of 8 bits in blocks. */
static bool read_wider(Layers *self, const KernelQuery *query) {
  KernelQuery wider = *query;
  Diag lacking;
  if (self->llm.expert_dtype != DTYPE_MXFP4) return false;
  diag_init(&lacking);
  memcpy(wider.filters[0].texts, EXPERTS[DTYPE_FP8_BLOCK], sizeof wider.filters[0].texts);
  const bool good = nearest_read(self, &self->experts, &wider, "experts", &lacking) == 0;
  diag_done(&lacking);
  if (good)
    nearest_note(self, &self->experts, "experts in fp8_block for mxfp4", NULL, OTHER_WEIGHTS);
  return good;
}

static int read_routed(Layers *self, Diag *diag) {
  const Llm *llm = &self->llm;
  const int64_t shares = layers_expert_shares(self);
  const char *folder = self->folder;
  if (!EXPERTS[llm->expert_dtype][0]) return no_format(self, "experts", llm->expert_dtype, diag);
  if (self->engine->experts_of && self->engine->experts_formats & 1u << llm->expert_dtype)
    for (const char *const *beside =
             kernel_folders_beside(folder, self->engine->experts_of, "moe", self->arena);
         *beside; beside++)
      folder = *beside;
  const int64_t parallel = self->setup.expert_parallel_size;
  const KernelQuery split = query_experts(self, shares, parallel),
                    whole = query_experts(self, 1, parallel);
  if (read_experts_of(self, &split, folder) || read_between(self, folder)) return 0;
  if (shares > 1 && llm->expert_dtype == DTYPE_MXFP4 && read_experts_of(self, &whole, folder) &&
      read_both(self, &split, &whole))
    return 0;
  Diag lacking;
  diag_init(&lacking);
  int error = nearest_read(self, &self->experts, &split, "experts", &lacking);
  if (error && read_wider(self, &split)) error = 0;
  if (error) diag_append(diag, &lacking);
  diag_done(&lacking);
  return error;
}

static int read_experts(Layers *self, Diag *diag) {
  if (llm_moe_layers(&self->llm) == 0) return 0;
  int error = 0;
  if (wide_is_used(self)) error = wide_read(self, diag);
  if (wide_has_experts(self)) return error;
  error |= read_routed(self, diag);
  if (self->setup.attention_data_parallel_size == 1 || wide_is_used(self)) return error;
  if (layers_exchange(self)) return error | layers_read_exchange(self, diag);
  const int64_t gpus = layers_expert_gpus(self) / layers_expert_nodes(self);
  error |= layers_read_nccl(self, &self->gather, "all_gather", gpus, diag);
  error |= layers_read_nccl(self, &self->scatter, "reduce_scatter", gpus, diag);
  return error;
}

/* ---- The setup ---- */

static int find_rules(Layers *self, Diag *diag) {
  const PerfSetup *setup = &self->setup;
  self->engine = engine_rules_find(setup->engine, setup->engine_version, self->hardware.sm,
                                   llm_moe_layers(&self->llm) > 0);
  if (self->engine) return 0;
  diag_error(diag, self->at, "unknown engine '%s'", setup->engine);
  diag_hint_near(diag, setup->engine, engine_rules_names);
  return -1;
}

/* Formats that the GPU cannot compute in. */
static int check_format(const Layers *self, Diag *diag) {
  const Hardware *hardware = &self->hardware;
  const int dtype = self->setup.weight_dtype;
  const Dtype compute = dtype_compute((Dtype)dtype);
  if (!(compute == DTYPE_FP8 && hardware->dense_fp8_flops == 0) &&
      !(compute == DTYPE_NVFP4 && hardware->dense_fp4_flops == 0))
    return 0;
  diag_error(diag, self->at, "GPU '%s' has no tensor cores for '%s'", hardware->gpu,
             dtype_names[dtype]);
  diag_hint(diag,
            "choose bf16%s, or int4 or int8 for the weights alone, where the tables have them",
            hardware->dense_fp8_flops > 0 ? ", fp8" : "");
  return -1;
}

int layers_check_degrees(Layers *self, Place at, Diag *diag) {
  PerfSetup *setup = &self->setup;
  setup->tensor_parallel_size = degree_of(setup->tensor_parallel_size);
  setup->attention_data_parallel_size = degree_of(setup->attention_data_parallel_size);
  setup->expert_parallel_size = degree_of(setup->expert_parallel_size);
  setup->nnodes = degree_of(setup->nnodes);
  const Parallelism degrees = {.tensor = setup->tensor_parallel_size,
                               .pipeline = 1,
                               .data = 1,
                               .attention = setup->attention_data_parallel_size,
                               .expert = setup->expert_parallel_size,
                               .nodes = setup->nnodes};
  return hardware_check_split(&self->llm, &self->hardware, degrees, at, diag);
}

int layers_load(Layers *self, Diag *diag) {
  if (find_rules(self, diag) | check_format(self, diag)) return -1;
  const char *folder = kernel_folder_name(self->folder, self->arena), *own = self->setup.engine;
  if (strncmp(folder, own, strlen(own)) != 0)
    nearest_note(self, NULL, arena_printf(self->arena, "tables for %s", own), NULL, OTHER_ENGINE);
  // NVFP4 checkpoints with experts leave attention in 16 bits (hf_quant_config.json's excludes)
  if (self->llm.weight_dtype == DTYPE_NVFP4 && llm_moe_layers(&self->llm) > 0)
    self->llm.attention_dtype = DTYPE_BF16;
  int error = read_all_products(self, diag);
  error |= llm_latent(&self->llm) ? read_latent(self, diag)
           : layers_sparse_modules(&self->llm)
               ? read_modules(self, diag)
               : read_attention(self, &self->prefill, &self->decode, diag);
  layers_read_linear_attention(self);
  error |= layers_read_all_reduce(self, diag);
  error |= read_experts(self, diag);
  if (!error) wide_choose(self);
  return error;
}
