/* Which tables, and which of their rows, a setup needs. */
#include "perfmodel/compose/layers.h"
#include <string.h>

/* As the tables call a format of products and of the KV cache; NULL: they have none. */
static const char *dtype_name(int dtype) {
  static const char *const names[DTYPE_COUNT] = {
      [DTYPE_BF16] = "bfloat16", [DTYPE_FP8] = "fp8",      [DTYPE_FP8_BLOCK] = "fp8_block",
      [DTYPE_NVFP4] = "nvfp4",   [DTYPE_INT8] = "int8_wo", [DTYPE_INT4] = "int4_wo",
  };
  return names[dtype];
}

static int no_format(const Layers *self, const char *what, int dtype, Diag *diag) {
  return diag_error(diag, place_of_file(self->folder), "no table has %s in '%s'", what,
                    dtype_names[dtype]);
}

/* Reads a table of another folder, where it has the rows: no diagnostics. */
static bool read_beside(KernelFound *found, const KernelQuery *query, const char *folder,
                        Arena *arena) {
  Diag unknown;
  diag_init(&unknown);
  const bool good = kernel_read(found, query, folder, arena, &unknown) == 0;
  diag_done(&unknown);
  return good;
}

/* ---- Tables of others ---- */

/* "0.24.0" of a folder "…/vllm-0.24.0"; "" where its name has none. */
static const char *version_of(const char *folder, Arena *arena) {
  const char *dash = strchr(kernel_folder_name(folder, arena), '-');
  return dash ? dash + 1 : "";
}

/* From the folders of an engine beside this one: that of the wanted version or the next later, else
 * the last before it. Whether there is any. */
static bool read_version(Layers *self, KernelFound *ret_found, const KernelQuery *query,
                         const char *engine, const char *wanted) {
  const char *const *beside = kernel_folders_beside(self->folder, engine, query->name, self->arena);
  const char *best = "";
  bool any = false;
  for (; *beside; beside++) {
    KernelFound found;
    const char *version = version_of(*beside, self->arena);
    const bool is_after = wanted && version_compare(version, wanted) >= 0;
    const bool was_after = wanted && version_compare(best, wanted) >= 0;
    const bool is_better =
        is_after == was_after ? (version_compare(version, best) < 0) == is_after : is_after;
    if ((any && !is_better) || !read_beside(&found, query, *beside, self->arena)) continue;
    *ret_found = found;
    best = version;
    any = true;
  }
  return any;
}

/* How far times of one table are from those of another, on average of products of 16 and of fewer
 * bits on H100, H200 and B200 (README.md, "What is borrowed"). */
static const double OTHER_VERSION = 0.05, OTHER_ENGINE = 0.15, OTHER_PRODUCTS = 0.25,
                    OTHER_FORMAT = 0.10;

/* "vllm-0.24.0" of "…/vllm-0.24.0/gemm.csv.gz". */
static const char *source_of(const Layers *self, const KernelFound *found) {
  const char *slash = strrchr(found->path, '/');
  return kernel_folder_name(arena_copy(self->arena, found->path, (size_t)(slash - found->path)),
                            self->arena);
}

void layers_note_borrowed(Layers *self, KernelFound *found, const char *what, double error) {
  const char *from = !found        ? kernel_folder_name(self->folder, self->arena)
                     : found->path ? source_of(self, found)
                                   : "a roofline";
  ARENA_RESERVE(self->arena, self->borrowed, self->borrowed_capacity, self->n_borrowed + 1);
  self->borrowed[self->n_borrowed++] = (Borrowed){found, what, from, error};
}

/* The error of a table of another engine. For products of 16 bits all call cuBLAS, for those of
 * fewer each has kernels of its own. */
static double other_engine(const KernelQuery *query) {
  if (strcmp(query->name, "gemm") != 0) return OTHER_ENGINE;
  const bool is_16bit = strcmp(query->filters[0].texts[0], dtype_name(DTYPE_BF16)) == 0;
  return is_16bit ? OTHER_VERSION : OTHER_PRODUCTS;
}

/* From another version of the engine, else from another engine, the first in the list of rules. */
static bool borrow(Layers *self, KernelFound *found, const KernelQuery *query, const char *what) {
  const char *own = self->setup.engine;
  double error = OTHER_VERSION;
  bool any = read_version(self, found, query, own, self->setup.engine_version);
  for (int i = 0; !any && engine_rules_names[i]; i++) {
    error = other_engine(query);
    any = strcmp(engine_rules_names[i], own) != 0 &&
          read_version(self, found, query, engine_rules_names[i], NULL);
  }
  if (any) layers_note_borrowed(self, found, what, error);
  return any;
}

/* A table of a folder, of those of `kernels` that come first in it; false where it has none. */
static bool read_preferred(Layers *self, KernelFound *found, const KernelQuery *query,
                           const char *folder, const char *const *kernels) {
  KernelQuery preferred = *query;
  KernelFilter *filter = preferred.filters;
  while (filter->column)
    filter++;
  *filter = (KernelFilter){"kernel_source", .may_miss = true};
  memcpy(filter->texts, kernels, sizeof filter->texts);
  return kernels[0] && read_beside(found, &preferred, folder, self->arena);
}

int layers_read_nearest(Layers *self, KernelFound *found, const KernelQuery *query,
                        const char *what, Diag *diag) {
  Diag lacking;
  diag_init(&lacking);
  int error = kernel_read(found, query, self->folder, self->arena, &lacking);
  if (error && borrow(self, found, query, what)) error = 0;
  if (error) diag_append(diag, &lacking);
  diag_done(&lacking);
  return error;
}

/* ---- Products ---- */

static int read_products(Layers *self, int dtype, Diag *diag) {
  LayerProducts *products = &self->products[dtype];
  if (products->n > 0) return 0;
  if (!dtype_name(dtype)) return no_format(self, "products", dtype, diag);
  const KernelQuery query = {
      .name = "gemm", .filters = {{"gemm_dtype", {dtype_name(dtype)}}}, .keys = {"n", "k", "m"}};
  if (self->engine->fastest & 1u << dtype) {
    products->n = read_beside(&products->found[0], &query, self->folder, self->arena);
    const char *const *beside = kernel_folders_beside(self->folder, NULL, query.name, self->arena);
    for (; *beside && products->n < LAYER_SOURCES; beside++)
      products->n += read_beside(&products->found[products->n], &query, *beside, self->arena);
  }
  const char *what = arena_printf(self->arena, "products in %s", dtype_names[dtype]);
  if (products->n == 0) {
    if (layers_read_nearest(self, &products->found[0], &query, what, diag)) return -1;
    products->n = 1;
  }
  for (int i = 0; i < products->n; i++)
    kernel_table_level(&products->found[i].table);
  return 0;
}

/* ---- Attention ---- */

/* Another format of the KV cache was measured. */
static void note_format(Layers *self, const char *wanted) {
  KernelFound *found[] = {&self->prefill, &self->decode};
  static const char *const names[] = {"prompts", "decodes"};
  for (int i = 0; i < 2; i++) {
    if (!found[i]->texts[0] || strcmp(found[i]->texts[0], wanted) == 0) continue;
    const bool narrow = strcmp(found[i]->texts[0], dtype_name(DTYPE_FP8)) == 0;
    self->setup.kv_cache_dtype = narrow ? DTYPE_FP8 : DTYPE_BF16;
    layers_note_borrowed(self, found[i],
                         arena_printf(self->arena, "attention of %s with a KV cache in %s",
                                      names[i], dtype_names[self->setup.kv_cache_dtype]),
                         OTHER_FORMAT);
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
  if (!read_beside(found, &narrower, self->folder, self->arena))
    return borrow(self, found, &narrower, what);
  layers_note_borrowed(self, found, what, OTHER_ENGINE);
  return true;
}

/* Of the kernels that the engine prefers, if its folder has any, else the fastest. */
static int read_heads(Layers *self, KernelFound *found, const KernelQuery *query, const char *what,
                      Diag *diag) {
  if (read_preferred(self, found, query, self->folder, self->engine->attention_kernels)) return 0;
  Diag lacking;
  diag_init(&lacking);
  int error = layers_read_nearest(self, found, query, what, &lacking);
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
  if (sliding.layers == 0 || !read_beside(&self->window_decode, &window, self->folder, self->arena))
    return;
  window.name = "context_attention";
  window.keys[1] = "step";
  window.keys[2] = "isl";
  if (!read_beside(&self->window_prefill, &window, self->folder, self->arena))
    self->window_decode = (KernelFound){.path = NULL};
}

static int read_attention(Layers *self, Diag *diag) {
  const char *kv = dtype_name(self->setup.kv_cache_dtype);
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
  int error = read_heads(self, &self->prefill, &query, "attention of prompts", diag);
  query.name = "generation_attention";
  query.keys[1] = "step";
  query.keys[2] = NULL;
  error |= read_heads(self, &self->decode, &query, "attention of decodes", diag);
  if (!error) note_format(self, kv);
  if (!error) read_windows(self, &query);
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
      error |= layers_read_nearest(self, found[decodes][shared], &query, names[decodes], diag);
      if (decodes) kernel_table_level(&found[decodes][shared]->table);
    }
  return error;
}

/* Of engines that ran the whole of latent attention, else of its parts. */
static int read_latent(Layers *self, Diag *diag) {
  const char *kv = dtype_name(self->setup.kv_cache_dtype);
  const char *products = dtype_name(self->llm.attention_dtype);
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
  int error = layers_read_nearest(self, &self->prefill, &query, "attention of prompts", diag);
  query.name = self->modules ? "mla_generation_module" : "generation_mla";
  query.keys[1] = "step";
  error |= layers_read_nearest(self, &self->decode, &query, "attention of decodes", diag);
  kernel_table_level(&self->decode.table);
  if (!error) note_format(self, kv);
  if (self->modules) return error;
  KernelQuery bmm = {.name = "mla_bmm",
                     .filters = {{"op_name", {"mla_gen_pre"}},
                                 {"bmm_dtype", {"bfloat16"}, .may_miss = true},
                                 {"num_heads", .number = layers_heads(self)}},
                     .keys = {"num_tokens"}};
  error |= kernel_read(&self->absorb, &bmm, self->folder, self->arena, diag);
  bmm.filters[0].texts[0] = "mla_gen_post";
  return error | kernel_read(&self->expand, &bmm, self->folder, self->arena, diag);
}

/* ---- Collectives ---- */

static int read_nccl(Layers *self, KernelFound *found, const char *op, int64_t gpus, Diag *diag) {
  const KernelQuery query = {.name = "nccl",
                             .filters = {{"op_name", {op}},
                                         {"dtype", {"half", "bfloat16"}, .may_miss = true},
                                         {"nccl_dtype", {"half", "bfloat16"}, .may_miss = true},
                                         {"num_gpus", .number = gpus}},
                             .keys = {"message_size"}};
  if (read_version(self, found, &query, "nccl", NULL)) return 0; // the newest that has it
  return kernel_read(found, &query, self->folder, self->arena, diag);
}

static const char ALL_REDUCES[] = "all-reduces";

/* The engine's own kernel: of the table of its version or of the next one after it; where that has
 * not so many GPUs, another engine's, or NCCL's. */
static int read_all_reduce(Layers *self, Diag *diag) {
  const EngineRules *engine = self->engine;
  const int64_t gpus = self->setup.tensor_parallel_size;
  KernelQuery query = {
      .name = "custom_allreduce",
      .filters = {{"variant", {engine->all_reduce, "nccl"}, .may_miss = true},
                  {"backend", {engine->all_reduce, "nccl"}, .may_miss = true}, // in the wheel
                  {"dtype", {"bfloat16", "half"}, .may_miss = true},
                  {"allreduce_dtype", {"bfloat16", "half"}, .may_miss = true},
                  {"num_gpus", .number = gpus}},
      .keys = {"message_size"}};
  if (gpus == 1) return 0;
  const char *of = engine->all_reduce_of ? engine->all_reduce_of : engine->name;
  const char *version = engine->all_reduce_of ? NULL : self->setup.engine_version;
  Diag lacking;
  diag_init(&lacking);
  int error = 0;
  const bool is_own = !engine->all_reduce_of && version &&
                      strcmp(version_of(self->folder, self->arena), version) == 0 &&
                      kernel_folder_has(self->folder, query.name, self->arena);
  if (is_own || !read_version(self, &self->all_reduce, &query, of, version))
    error = kernel_read(&self->all_reduce, &query, self->folder, self->arena, &lacking);
  static const char *const graphs[] = {"vllm_graph", "sglang_graph", "trtllm"};
  memcpy(query.filters[0].texts, graphs, sizeof graphs);
  memcpy(query.filters[1].texts, graphs, sizeof graphs);
  if (error && borrow(self, &self->all_reduce, &query, ALL_REDUCES)) error = 0;
  if (error && read_nccl(self, &self->all_reduce, "all_reduce", gpus, &lacking) == 0) {
    layers_note_borrowed(self, &self->all_reduce, ALL_REDUCES, OTHER_ENGINE);
    error = 0;
  }
  if (error) diag_append(diag, &lacking);
  diag_done(&lacking);
  if (engine->custom_bytes[0] > 0) error |= read_nccl(self, &self->nccl, "all_reduce", gpus, diag);
  return error;
}

/* ---- Experts ---- */

/* Kernels of routed experts by format of their weights, the one that engines run first. */
static const char *const EXPERTS[DTYPE_COUNT][KERNEL_CHOICES] = {
    [DTYPE_BF16] = {"bfloat16"},
    [DTYPE_FP8] = {"fp8"},
    [DTYPE_FP8_BLOCK] = {"fp8_block"},
    [DTYPE_NVFP4] = {"nvfp4"},
    [DTYPE_MXFP4] = {"w4a8_mxfp4_mxfp8", "w4a16_mxfp4"},
    [DTYPE_INT4] = {"int4_wo"},
};

static KernelQuery query_experts(const Layers *self, int64_t shares) {
  const Llm *llm = &self->llm;
  KernelQuery query = {
      .name = "moe",
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

/* From the first of all folders, this one's own first, that has both of the queries. */
static bool read_both(Layers *self, const KernelQuery *split, const KernelQuery *whole) {
  const char *const *beside = kernel_folders_beside(self->folder, NULL, "moe", self->arena);
  for (const char *folder = self->folder; folder; folder = *beside++)
    if (read_beside(&self->split, split, folder, self->arena) &&
        read_beside(&self->whole, whole, folder, self->arena))
      return true;
  return false;
}

/* Of the kernels that the engine prefers, if the folder has any, else of all. */
static bool read_experts_of(Layers *self, const KernelQuery *query, const char *folder) {
  return read_preferred(self, &self->experts, query, folder, self->engine->experts_kernels) ||
         read_beside(&self->experts, query, folder, self->arena);
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
  const KernelQuery split = query_experts(self, shares), whole = query_experts(self, 1);
  if (read_experts_of(self, &split, folder)) return 0;
  if (shares > 1 && llm->expert_dtype == DTYPE_MXFP4 && read_experts_of(self, &whole, folder) &&
      read_both(self, &split, &whole))
    return 0;
  return layers_read_nearest(self, &self->experts, &split, "experts", diag);
}

static int read_experts(Layers *self, Diag *diag) {
  if (llm_moe_layers(&self->llm) == 0) return 0;
  int error = read_routed(self, diag);
  if (self->setup.attention_data_parallel_size == 1) return error;
  error |= read_nccl(self, &self->gather, "all_gather", layers_expert_gpus(self), diag);
  error |= read_nccl(self, &self->scatter, "reduce_scatter", layers_expert_gpus(self), diag);
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
  enum { FP8_SINCE = 89, FP4_SINCE = 100 }; // compute capability
  const Hardware *hardware = &self->hardware;
  const int dtype = self->setup.weight_dtype;
  const Dtype compute = dtype_compute((Dtype)dtype);
  const int64_t since = compute == DTYPE_FP8 ? FP8_SINCE : compute == DTYPE_NVFP4 ? FP4_SINCE : 0;
  if (hardware->sm >= since) return 0;
  diag_error(diag, self->at, "GPU '%s' has no tensor cores for '%s'", hardware->gpu,
             dtype_names[dtype]);
  diag_hint(diag,
            "choose bf16%s, or int4 or int8 for the weights alone, where the tables have them",
            hardware->sm >= FP8_SINCE ? ", fp8" : "");
  return -1;
}

int layers_check_degrees(Layers *self, Place at, Diag *diag) {
  PerfSetup *setup = &self->setup;
  setup->tensor_parallel_size = degree_of(setup->tensor_parallel_size);
  setup->attention_data_parallel_size = degree_of(setup->attention_data_parallel_size);
  setup->expert_parallel_size = degree_of(setup->expert_parallel_size);
  const Parallelism degrees = {.tensor = setup->tensor_parallel_size,
                               .pipeline = 1,
                               .data = 1,
                               .attention = setup->attention_data_parallel_size,
                               .expert = setup->expert_parallel_size};
  return hardware_check_split(&self->llm, &self->hardware, degrees, at, diag);
}

int layers_load(Layers *self, Diag *diag) {
  if (find_rules(self, diag) | check_format(self, diag)) return -1;
  const char *folder = kernel_folder_name(self->folder, self->arena), *own = self->setup.engine;
  if (strncmp(folder, own, strlen(own)) != 0)
    layers_note_borrowed(self, NULL, arena_printf(self->arena, "tables for %s", own), OTHER_ENGINE);
  // NVFP4 checkpoints with experts leave attention in 16 bits (hf_quant_config.json's excludes)
  if (self->llm.weight_dtype == DTYPE_NVFP4 && llm_moe_layers(&self->llm) > 0)
    self->llm.attention_dtype = DTYPE_BF16;
  int error = read_products(self, DTYPE_BF16, diag); // the head, routers
  error |= read_products(self, self->llm.attention_dtype, diag);
  if (llm_dense_layers(&self->llm) > 0 || self->llm.shared_expert_intermediate_size > 0)
    error |= read_products(self, self->llm.weight_dtype, diag);
  const bool sparse = self->llm.index_topk > 0 || self->llm.kv_share > 0;
  error |= llm_latent(&self->llm) ? read_latent(self, diag)
           : sparse               ? no_sparse(self, diag)
                                  : read_attention(self, diag);
  layers_read_linear(self);
  error |= read_all_reduce(self, diag);
  error |= read_experts(self, diag);
  return error;
}
