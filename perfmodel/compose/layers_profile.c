/* What layers take, as the rows and facts of a profile: see layers.h. */
#include "base/sort.h"
#include "perfmodel/compose/layers.h"
#include "perfmodel/fit_table.h"
#include <limits.h>
#include <string.h>

enum {
  MAX_TOKENS = 1 << 24, // of a row, so that its area fits
  MIN_PROMPT = 8,       // shorter ones ran in kernels of decodes, or one by one
  MIN_CONTEXT = 2,      // of a decode: the new token and one before
  // values of a key that are looked at; published tables have half as many
  MAX_SIZES = 256,
  MAX_BATCHES = 64,
  MAX_LENGTHS = 64,
  MAX_PASTS = 16,
};

typedef struct Composing {
  const Layers *layers;
  Profile *profile;
  int64_t beyond_memory;
} Composing;

/* ---- Rows ---- */

static void add_row(Composing *self, ProfileOp op, BatchShape batch, double us) {
  const PerfSetup *setup = &self->layers->setup;
  ProfileRow row = profile_row(setup->model, setup->gpu, (int32_t)setup->tensor_parallel_size);
  row.op = op;
  row.batch = batch;
  row.median_us = us;
  row.mode = "graph";
  profile_add(self->profile, &row);
}

/* The values of a key that any point has, ascending. Curves of thinned tables lack some that others
 * have; between their ends they are asked for all. Of
 * more than `most` every some. */
typedef struct KeyValues {
  int64_t *values;
  size_t n;
} KeyValues;

static KeyValues list_key(const Composing *self, const KernelTable *table, int key, size_t most) {
  KeyValues list = {ARENA_ARRAY(self->profile->arena, int64_t, table->n_points), table->n_points};
  for (size_t i = 0; i < table->n_points; i++)
    list.values[i] = table->points[i].key[key];
  list.n = sort_distinct(list.values, list.n);
  for (size_t i = 0; i < most && list.n > most; i++)
    list.values[i] = list.values[i * (list.n - 1) / (most - 1)];
  if (list.n > most) list.n = most;
  return list;
}

/* The sizes that products of a format were measured at, or the whole of which they are a part. */
static KeyValues list_sizes(const Composing *self, int dtype, const KernelFound *whole) {
  return whole->path ? list_key(self, &whole->table, 0, MAX_SIZES)
                     : list_key(self, &self->layers->products[dtype].found[0].table, 2, MAX_SIZES);
}

/* One token of each group takes as long where fewer groups have one. */
static void add_sizes(Composing *self, ProfileOp op, KeyValues sizes) {
  const int64_t most = self->layers->setup.attention_data_parallel_size;
  for (size_t i = 0; i < sizes.n; i++) {
    const int64_t tokens = sizes.values[i];
    if (tokens > MAX_TOKENS / most) continue;
    const bool is_head = op == PROFILE_HEAD;
    const double us = is_head ? layers_head_us(self->layers, tokens)
                              : layers_linear_us(self->layers, tokens * most);
    for (int64_t groups = most; groups >= 1; groups = tokens == 1 ? groups / 2 : 0)
      add_row(self, op,
              is_head ? (BatchShape){.logit_seqs = groups * tokens}
                      : (BatchShape){.prefill_tokens = groups * tokens},
              us);
  }
}

static void add_linear(Composing *self) {
  const Layers *layers = self->layers;
  const KeyValues linear = list_sizes(self, layers->llm.attention_dtype, &layers->linear);
  add_sizes(self, PROFILE_LINEAR, linear);
  add_sizes(self, PROFILE_HEAD,
            layers->head.path || layers->linear.path ? list_sizes(self, DTYPE_BF16, &layers->head)
                                                     : linear);
}

/* Whether one GPU can hold the KV of a row. */
static bool fits(Composing *self, double tokens) {
  const Llm *llm = &self->layers->llm;
  const int64_t heads = llm_cached_heads(llm), gpus = self->layers->setup.tensor_parallel_size;
  const int64_t shares = gpus < heads ? gpus : heads;
  const double bytes = tokens * (double)llm->kv_bytes_per_token / (double)shares;
  const bool good =
      bytes <= (double)self->layers->hardware.gpu_memory_bytes && tokens <= MAX_TOKENS;
  self->beyond_memory += !good;
  return good;
}

/* Sparse attention of so many tokens takes as long with one context as with several that are as
 * long together; up to index_topk of them an engine has the kernels of whole prompts. */
static bool stands_for_itself(const Composing *self, int64_t batch, int64_t past) {
  const int64_t topk = self->layers->llm.index_topk;
  return topk == 0 || past == 0 || (batch == 1 && past >= topk);
}

/* A row for as many prompts in each group, and where that is one, for fewer groups as well. */
static void add_prompts(Composing *self, int64_t batch, int64_t isl, int64_t past) {
  const int64_t most = self->layers->setup.attention_data_parallel_size;
  if (isl < MIN_PROMPT || !fits(self, (double)batch * (double)(isl + past))) return;
  if (!stands_for_itself(self, batch, past)) return;
  const double us = layers_prefill_us(self->layers, batch, isl, past);
  for (int64_t groups = most; groups >= 1; groups = batch == 1 ? groups / 2 : 0) {
    const int64_t tokens = groups * batch * isl;
    if (tokens > MAX_TOKENS) continue;
    add_row(self, PROFILE_PREFILL_ATTENTION,
            (BatchShape){.prefill_tokens = tokens, .prefill_area2 = tokens * (isl + 2 * past)}, us);
  }
}

/* Of each batch and past, the latter of tables that have it, as long prompts as it has. */
static void add_prefill(Composing *self) {
  const KernelTable *table = &self->layers->prefill.table;
  const int last = table->n_keys - 1;
  static int64_t powers[] = {1, 2, 4, 8, 16};
  const bool single = layers_single_prompts(self->layers);
  const KeyValues batches = single ? (KeyValues){powers, sizeof powers / sizeof *powers}
                                   : list_key(self, table, 0, MAX_BATCHES);
  const KeyValues lengths = list_key(self, table, last, MAX_LENGTHS);
  const KeyValues pasts =
      last > 1 ? list_key(self, table, 1, MAX_PASTS) : (KeyValues){&(int64_t){0}, 1};
  for (size_t b = 0; b < batches.n; b++)
    for (size_t p = 0; p < (single && batches.values[b] > 1 ? 1 : pasts.n); p++) {
      const int64_t batch = batches.values[b];
      KernelSlice slice = kernel_slice_at(kernel_table_all(table), single ? 1 : batch);
      if (last > 1) slice = kernel_slice_at(slice, pasts.values[p]);
      for (size_t i = 0; i < lengths.n && lengths.values[i] <= kernel_slice_last(slice); i++)
        add_prompts(self, batch, lengths.values[i], pasts.values[p]);
    }
}

static void add_decodes(Composing *self, int64_t batch, int64_t context) {
  const int64_t most = self->layers->setup.attention_data_parallel_size;
  if (context < MIN_CONTEXT || !fits(self, (double)batch * (double)context)) return;
  const double us = layers_decode_us(self->layers, batch, context);
  for (int64_t groups = most; groups >= 1; groups = batch == 1 ? groups / 2 : 0)
    add_row(self, PROFILE_DECODE_ATTENTION,
            (BatchShape){.decode_seqs = groups * batch, .context_tokens = groups * batch * context},
            us);
}

static void add_decode(Composing *self) {
  const KernelTable *table = &self->layers->decode.table;
  const KeyValues batches = list_key(self, table, 0, MAX_BATCHES);
  const KeyValues steps = list_key(self, table, 1, MAX_LENGTHS);
  for (size_t b = 0; b < batches.n; b++) {
    const KernelSlice slice = kernel_slice_at(kernel_table_all(table), batches.values[b]);
    for (size_t i = 0; i < steps.n && steps.values[i] <= kernel_slice_last(slice); i++)
      add_decodes(self, batches.values[b], layers_context_of(self->layers, steps.values[i]));
  }
}

/* ---- Facts ---- */

static void set_setup_facts(const Composing *self) {
  const PerfSetup *setup = &self->layers->setup;
  const EngineRules *rules = self->layers->engine;
  Profile *profile = self->profile;
  profile_set_fact(profile, "engine", setup->engine);
  if (setup->engine_version) profile_set_fact(profile, "engine_version", setup->engine_version);
  profile_set_fact(profile, "weight_dtype", dtype_names[setup->weight_dtype]);
  profile_set_fact(profile, "kv_cache_dtype", dtype_names[setup->kv_cache_dtype]);
  profile_count_fact(profile, "tensor_parallel_size", setup->tensor_parallel_size);
  profile_count_fact(profile, "attention_data_parallel_size", setup->attention_data_parallel_size);
  profile_count_fact(profile, "expert_parallel_size", setup->expert_parallel_size);
  profile_set_fact(profile, "licence", rules->whole_layers ? "GPL-3.0-or-later" : "Apache-2.0");
  profile_set_fact(profile, "attribution",
                   rules->whole_layers
                       ? "Tandem's own kernels, tandem calibrate"
                       : "NVIDIA AIConfigurator (ai-dynamo/aiconfigurator), measured by NVIDIA");
  profile_set_fact(profile, "engine_preset", "ideal");
  profile_set_fact(profile, "grid", rules->whole_layers ? fit_grid_few : "each point once");
}

/* "norm, RoPE, …": the kernels of a part, each once. */
static const char *list_kernels(const Composing *self) {
  Arena *arena = self->profile->arena;
  const Layers *layers = self->layers;
  const Llm *llm = &layers->llm;
  const int dtypes[] = {llm->attention_dtype, llm->weight_dtype, llm->weight_dtype,
                        llm->expert_dtype, llm->attention_dtype};
  const char *text = layers->linear.path ? "" : "embedding, drawing";
  for (int i = 0; small_kernel_at(i); i++) {
    const SmallKernel *kernel = small_kernel_at(i);
    const SmallKernelRun run = {engine_rules_kernels(layers->engine),
                                kernel->part,
                                layers->hardware.sm,
                                layers->setup.tensor_parallel_size,
                                dtypes[kernel->part],
                                llm->qk_norm,
                                llm->attention_gate,
                                layers_moves_inside(layers)};
    if (kernel->part == PART_LINEAR && llm->num_linear_layers == 0) continue;
    if (small_kernel_runs(kernel, &run) && (!layers->linear.path || kernel->qk_norm) &&
        !strstr(text, kernel->name))
      text = arena_printf(arena, "%s%s%s", text, *text ? ", " : "", kernel->name);
  }
  return *text ? text : "none";
}

/* Tables of other folders that times are of. */
static const char *list_folders(const KernelFound *found, int n, Arena *arena) {
  const char *text = "";
  for (int i = 0; i < n; i++) {
    const char *slash = strrchr(found[i].path, '/');
    const char *folder = arena_copy(arena, found[i].path, (size_t)(slash - found[i].path));
    text =
        arena_printf(arena, "%s%s%s", text, i > 0 ? ", " : "", kernel_folder_name(folder, arena));
  }
  return text;
}

/* Of an all-reduce: the text of the first of its columns that is there. */
static const char *variant_of(const KernelFound *found) {
  return found->texts[0] ? found->texts[0] : found->texts[1] ? found->texts[1] : "one kernel";
}

static void set_sources(const Composing *self) {
  Profile *profile = self->profile;
  Arena *arena = profile->arena;
  const Layers *layers = self->layers;
  for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
    if (layers->products[dtype].n > 1)
      profile_set_fact(profile, arena_printf(arena, "assumption_products_%s", dtype_names[dtype]),
                       arena_printf(arena, "the fastest of %s",
                                    list_folders(layers->products[dtype].found,
                                                 layers->products[dtype].n, arena)));
  profile_set_fact(profile, "all_reduce",
                   layers->all_reduce.path
                       ? arena_printf(arena, "two a layer, in linear: custom_allreduce of %s, %s%s",
                                      list_folders(&layers->all_reduce, 1, arena),
                                      variant_of(&layers->all_reduce),
                                      layers->nccl.path ? ", large ones by NCCL" : "")
                       : "one GPU");
  if (layers->experts.path)
    profile_set_fact(
        profile, "assumption_experts",
        arena_printf(arena, "%s of %s, tokens over experts by %s%s%s", layers->experts.texts[0],
                     list_folders(&layers->experts, 1, arena), layers->experts.texts[7],
                     layers->split.path ? "; shared ones by the gain of " : "",
                     layers->split.path ? layers->split.texts[0] : ""));
}

static void set_assumptions(const Composing *self) {
  Profile *profile = self->profile;
  Arena *arena = profile->arena;
  const Layers *layers = self->layers;
  set_sources(self);
  if (layers->llm.attention_dtype != layers->llm.weight_dtype)
    profile_set_fact(profile, "assumption_attention_dtype",
                     dtype_names[layers->llm.attention_dtype]);
  profile_set_fact(profile, "assumption_kernels",
                   arena_printf(arena, "not measured, 3 us and bytes over 0.8 of the bandwidth: %s",
                                list_kernels(self)));
  if (layers->llm.fp32_router)
    profile_set_fact(profile, "assumption_router",
                     "in 32 bits at 0.65 of the peak without tensor cores, 10 us at least");
  profile_set_fact(profile, "assumption_products",
                   "linear between measured sizes; wider or deeper than the largest as several of "
                   "equal size; slower than 1.3 of a larger one as that one; the head in bf16");
  if (layers->prefill.texts[1])
    profile_set_fact(profile, "assumption_prefill_attention",
                     arena_printf(arena, "computed in %s", layers->prefill.texts[1]));
  if (llm_sliding_attention(&layers->llm).layers > 0 && !layers->window_decode.path)
    profile_set_fact(profile, "assumption_windows",
                     "prompts as those of the same area, decodes as those of so long a context");
  if (layers->setup.attention_data_parallel_size > 1)
    profile_set_fact(profile, "assumption_attention_data_parallel",
                     "sequences are spread evenly; fewer than groups take the time of one");
  profile_count_fact(profile, "rows_beyond_memory_left_out", self->beyond_memory);
}

/* 0: the GPU has none for it. */
static double peak_flops(const Hardware *hardware, int dtype) {
  switch (dtype_compute((Dtype)dtype)) {
  case DTYPE_FP8:
  case DTYPE_INT8:
    return hardware->dense_fp8_flops;
  case DTYPE_NVFP4:
  case DTYPE_MXFP4:
    return hardware->dense_fp4_flops;
  default:
    return hardware->dense_bf16_flops;
  }
}

/* Whether products can be: their times against the peaks of the GPU that they are said to be of. */
static void set_checks(const Composing *self) {
  static const double TOLERANCE = 0.98; // peaks are rounded, clocks boost
  const Hardware *hardware = &self->layers->hardware;
  Arena *arena = self->profile->arena;
  for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
    if (self->layers->products[dtype].n == 0) continue;
    const KernelTable *table = &self->layers->products[dtype].found[0].table;
    const double flops = peak_flops(hardware, dtype), bytes = (double)hardware->hbm_bandwidth;
    size_t above_flops = 0, above_memory = 0;
    for (size_t i = 0; i < table->n_points; i++) {
      const KernelPoint *point = &table->points[i];
      const double n = (double)point->key[0], k = (double)point->key[1], m = (double)point->key[2];
      const double seconds = 1e-6 * point->us / TOLERANCE;
      above_flops += flops > 0 && 2 * m * n * k > flops * seconds;
      above_memory += n * k * dtype_bytes((Dtype)dtype) > bytes * seconds;
    }
    profile_set_fact(
        self->profile, arena_printf(arena, "check_products_%s", dtype_names[dtype]),
        arena_printf(arena,
                     "%zu rows; %zu faster than the peak of the tensor cores, %zu than reading the "
                     "weights (they stayed in the cache)",
                     table->n_points, above_flops, above_memory));
  }
}

void layers_profile(const Layers *layers, Profile *profile) {
  Composing self = {.layers = layers, .profile = profile};
  set_setup_facts(&self);
  add_linear(&self);
  add_prefill(&self);
  add_decode(&self);
  set_assumptions(&self);
  set_checks(&self);
}
