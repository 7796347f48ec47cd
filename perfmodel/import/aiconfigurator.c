/* NVIDIA AIConfigurator's tables of one system and one version of an engine, a folder
 * ENGINE-VERSION with gemm.csv.gz, context_attention.csv.gz, …: operators of many shapes, of which
 * the layers of one model in one setup are composed (aic_layers.h).
 *
 * Linear rows are at every number of tokens that products were measured at, attention rows at every
 * batch of the tables for the heads of one GPU. With attention data parallelism D a row is of D
 * groups that do the same; fewer sequences than groups take the time of one each. */
#include "base/sort.h"
#include "perfmodel/import/aic_layers.h"
#include "perfmodel/import/import.h"
#include <limits.h>
#include <string.h>

enum {
  MAX_TOKENS = 1 << 24, // of a row, so that its area fits
  MIN_PROMPT = 8,       // shorter ones ran in kernels of decodes, or one by one
  MIN_CONTEXT = 2,      // of a decode: the new token and one before
};

typedef struct Composing {
  const ImportInput *input;
  Profile *profile;
  AicLayers layers;
  int64_t beyond_memory;
} Composing;

/* ---- The setup ---- */

/* "vllm-0.24.0", what the user said or the name of the folder; an engine alone has the version of
 * its folder. */
static void name_engine(Composing *self) {
  Arena *arena = self->profile->arena;
  PerfSetup *setup = &self->layers.setup;
  const char *folder = aic_folder_name(self->input->path, arena);
  const char *name = self->input->engine ? self->input->engine : folder;
  const char *dash = strchr(name, '-');
  setup->engine = dash ? arena_copy(arena, name, (size_t)(dash - name)) : name;
  const size_t length = strlen(setup->engine);
  if (dash)
    setup->engine_version = dash + 1;
  else if (strncmp(folder, setup->engine, length) == 0 && folder[length] == '-')
    setup->engine_version = folder + length + 1;
}

static int find_engine(Composing *self, Diag *diag) {
  const PerfSetup *setup = &self->layers.setup;
  self->layers.engine =
      aic_engine_find(setup->engine, setup->engine_version, self->layers.hardware.sm,
                      llm_moe_layers(&self->layers.llm) > 0);
  if (self->layers.engine) return 0;
  diag_error(diag, place_of_file(self->input->engine ? "--engine" : self->input->path),
             "unknown engine '%s'", setup->engine);
  diag_hint_near(diag, setup->engine, aic_engine_names);
  return -1;
}

/* A format that was asked for; −1: none was. */
static int find_format(const char *name, const char *option, int *ret_dtype, Diag *diag) {
  *ret_dtype = -1;
  if (!name) return 0;
  for (int i = 0; dtype_names[i]; i++)
    if (strcmp(dtype_names[i], name) == 0) *ret_dtype = i;
  if (*ret_dtype >= 0) return 0;
  diag_error(diag, place_of_file(option), "unknown format '%s'", name);
  diag_hint_near(diag, name, dtype_names);
  return -1;
}

static int find_model(Composing *self, Diag *diag) {
  const ImportInput *input = self->input;
  LlmFormats formats = {.attention_dtype = -1, .expert_dtype = -1};
  if (find_format(input->quantization, "--quantization", &formats.weight_dtype, diag) |
      find_format(input->kv_cache_dtype, "--kv-cache-dtype", &formats.kv_cache_dtype, diag))
    return -1;
  Llm *llm = &self->layers.llm;
  if (llm_load_as(llm, input->model, &formats, input->data_dir, place_of_file("--model"),
                  self->profile->arena, diag))
    return -1;
  // NVFP4 checkpoints of such models leave attention in 16 bits (hf_quant_config.json's excludes)
  if (llm->weight_dtype == DTYPE_NVFP4 && llm_moe_layers(llm) > 0)
    llm->attention_dtype = DTYPE_BF16;
  self->layers.setup.model = llm->name;
  self->layers.setup.weight_dtype = llm_quantization(llm);
  self->layers.setup.kv_cache_dtype = llm->kv_cache_dtype;
  return 0;
}

/* Formats that the GPU cannot compute in. */
static int check_format(const Composing *self, Diag *diag) {
  enum { FP8_SINCE = 89, FP4_SINCE = 100 }; // compute capability
  const Hardware *hardware = &self->layers.hardware;
  const int dtype = self->layers.setup.weight_dtype;
  const Dtype compute = dtype_compute((Dtype)dtype);
  const int64_t since = compute == DTYPE_FP8 ? FP8_SINCE : compute == DTYPE_NVFP4 ? FP4_SINCE : 0;
  if (hardware->sm >= since) return 0;
  diag_error(diag, place_of_file(self->input->quantization ? "--quantization" : "--model"),
             "GPU '%s' has no tensor cores for '%s'", hardware->gpu, dtype_names[dtype]);
  diag_hint(diag,
            "choose bf16%s, or int4 or int8 for the weights alone, where the tables have them",
            hardware->sm >= FP8_SINCE ? ", fp8" : "");
  return -1;
}

static int find_degrees(Composing *self, Diag *diag) {
  const ImportInput *input = self->input;
  PerfSetup *setup = &self->layers.setup;
  setup->tensor_parallel_size = degree_of(input->tensor_parallel_size);
  setup->attention_data_parallel_size = degree_of(input->attention_data_parallel_size);
  setup->expert_parallel_size = degree_of(input->expert_parallel_size);
  const Parallelism degrees = {.tensor = setup->tensor_parallel_size,
                               .pipeline = 1,
                               .data = 1,
                               .attention = setup->attention_data_parallel_size,
                               .expert = setup->expert_parallel_size};
  return hardware_check_split(&self->layers.llm, &self->layers.hardware, degrees,
                              place_of_file("--tensor-parallel"), diag);
}

static int find_setup(Composing *self, Diag *diag) {
  const ImportInput *input = self->input;
  AicLayers *layers = &self->layers;
  name_engine(self);
  int error = hardware_load(&layers->hardware, input->machine, input->data_dir,
                            place_of_file("--machine"), self->profile->arena, diag);
  error |= find_model(self, diag);
  if (error || find_engine(self, diag)) return -1;
  layers->setup.gpu = input->gpu ? input->gpu : layers->hardware.gpu;
  return find_degrees(self, diag) | check_format(self, diag);
}

/* ---- Rows ---- */

static void add_row(Composing *self, ProfileOp op, BatchShape batch, double us) {
  const PerfSetup *setup = &self->layers.setup;
  ProfileRow row = import_row(setup->model, setup->gpu, setup->tensor_parallel_size, op, batch, us);
  row.mode = "graph";
  profile_add(self->profile, &row);
}

/* The numbers of tokens that products were measured at, ascending. */
static size_t list_tokens(const Composing *self, int64_t **ret_tokens) {
  const AicTable *table = &self->layers.products[self->layers.llm.attention_dtype].found[0].table;
  int64_t *tokens = ARENA_ARRAY(self->profile->arena, int64_t, table->n_points);
  for (size_t i = 0; i < table->n_points; i++)
    tokens[i] = table->points[i].key[2];
  *ret_tokens = tokens;
  return sort_distinct(tokens, table->n_points);
}

/* One token of each group takes as long where fewer groups have one. */
static void add_linear(Composing *self) {
  const int64_t most = self->layers.setup.attention_data_parallel_size;
  int64_t *tokens = NULL;
  const size_t n = list_tokens(self, &tokens);
  for (size_t i = 0; i < n; i++) {
    if (tokens[i] > MAX_TOKENS / most) continue;
    const double us = aic_linear_us(&self->layers, tokens[i] * most);
    const double head_us = aic_head_us(&self->layers, tokens[i]);
    for (int64_t groups = most; groups >= 1; groups = tokens[i] == 1 ? groups / 2 : 0) {
      add_row(self, PROFILE_LINEAR, (BatchShape){.prefill_tokens = groups * tokens[i]}, us);
      add_row(self, PROFILE_HEAD, (BatchShape){.logit_seqs = groups * tokens[i]}, head_us);
    }
  }
}

/* Whether one GPU can hold the KV of a row. */
static bool fits(Composing *self, double tokens) {
  const Llm *llm = &self->layers.llm;
  const int64_t heads = llm_cached_heads(llm), gpus = self->layers.setup.tensor_parallel_size;
  const int64_t shares = gpus < heads ? gpus : heads;
  const double bytes = tokens * (double)llm->kv_bytes_per_token / (double)shares;
  const bool good = bytes <= (double)self->layers.hardware.gpu_memory_bytes && tokens <= MAX_TOKENS;
  self->beyond_memory += !good;
  return good;
}

/* A row for as many prompts in each group, and where that is one, for fewer groups as well. */
static void add_prefill(Composing *self) {
  const AicTable *table = &self->layers.prefill.table;
  const int64_t most = self->layers.setup.attention_data_parallel_size;
  for (size_t i = 0; i < table->n_points; i++) {
    const int64_t *key = table->points[i].key, batch = key[0], isl = key[1], past = key[2];
    if (isl < MIN_PROMPT || !fits(self, (double)batch * (double)(isl + past))) continue;
    const double us = aic_prefill_us(&self->layers, batch, isl, past);
    for (int64_t groups = most; groups >= 1; groups = batch == 1 ? groups / 2 : 0) {
      const int64_t tokens = groups * batch * isl;
      if (tokens > MAX_TOKENS) continue;
      add_row(self, PROFILE_PREFILL_ATTENTION,
              (BatchShape){.prefill_tokens = tokens, .prefill_area2 = tokens * (isl + 2 * past)},
              us);
    }
  }
}

static void add_decode(Composing *self) {
  const AicTable *table = &self->layers.decode.table;
  const int64_t most = self->layers.setup.attention_data_parallel_size;
  for (size_t i = 0; i < table->n_points; i++) {
    const int64_t batch = table->points[i].key[0];
    const int64_t context = aic_context_of(&self->layers, table->points[i].key[1]);
    if (context < MIN_CONTEXT || !fits(self, (double)batch * (double)context)) continue;
    const double us = aic_decode_us(&self->layers, batch, context);
    for (int64_t groups = most; groups >= 1; groups = batch == 1 ? groups / 2 : 0)
      add_row(
          self, PROFILE_DECODE_ATTENTION,
          (BatchShape){.decode_seqs = groups * batch, .context_tokens = groups * batch * context},
          us);
  }
}

/* ---- Facts ---- */

static void set_setup_facts(const Composing *self) {
  const PerfSetup *setup = &self->layers.setup;
  Profile *profile = self->profile;
  profile_set_fact(profile, "engine", setup->engine);
  if (setup->engine_version) profile_set_fact(profile, "engine_version", setup->engine_version);
  profile_set_fact(profile, "weight_dtype", dtype_names[setup->weight_dtype]);
  profile_set_fact(profile, "kv_cache_dtype", dtype_names[setup->kv_cache_dtype]);
  import_count_fact(profile, "tensor_parallel_size", setup->tensor_parallel_size);
  import_count_fact(profile, "attention_data_parallel_size", setup->attention_data_parallel_size);
  import_count_fact(profile, "expert_parallel_size", setup->expert_parallel_size);
  profile_set_fact(profile, "licence", "Apache-2.0");
  profile_set_fact(profile, "attribution",
                   "NVIDIA AIConfigurator (ai-dynamo/aiconfigurator), measured by NVIDIA");
  profile_set_fact(profile, "engine_preset", "ideal");
  profile_set_fact(profile, "grid", "each point once");
}

/* "norm, RoPE, …": the kernels of a part, each once. */
static const char *list_kernels(const Composing *self) {
  Arena *arena = self->profile->arena;
  const AicLayers *layers = &self->layers;
  const Llm *llm = &layers->llm;
  const int dtypes[] = {llm->attention_dtype, llm->weight_dtype, llm->weight_dtype,
                        llm->expert_dtype};
  const char *text = "embedding, drawing";
  for (int i = 0; aic_kernel_at(i); i++) {
    const AicKernel *kernel = aic_kernel_at(i);
    const AicRun run = {
        layers->engine->name, kernel->part, layers->hardware.sm, layers->setup.tensor_parallel_size,
        dtypes[kernel->part], llm->qk_norm, llm_latent(llm)};
    if (aic_kernel_runs(kernel, &run) && !strstr(text, kernel->name))
      text = arena_printf(arena, "%s, %s", text, kernel->name);
  }
  return text;
}

/* Tables of other folders that times are of. */
static const char *list_folders(const AicFound *found, int n, Arena *arena) {
  const char *text = "";
  for (int i = 0; i < n; i++) {
    const char *slash = strrchr(found[i].path, '/');
    const char *folder = arena_copy(arena, found[i].path, (size_t)(slash - found[i].path));
    text = arena_printf(arena, "%s%s%s", text, i > 0 ? ", " : "", aic_folder_name(folder, arena));
  }
  return text;
}

/* Of an all-reduce: the text of the first of its columns that is there. */
static const char *variant_of(const AicFound *found) {
  return found->texts[0] ? found->texts[0] : found->texts[1] ? found->texts[1] : "one kernel";
}

static void set_sources(const Composing *self) {
  Profile *profile = self->profile;
  Arena *arena = profile->arena;
  const AicLayers *layers = &self->layers;
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
  const AicLayers *layers = &self->layers;
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
  if (llm_sliding_attention(&layers->llm).layers > 0)
    profile_set_fact(profile, "assumption_windows",
                     "prompts as those of the same area, decodes as those of so long a context");
  if (layers->setup.attention_data_parallel_size > 1)
    profile_set_fact(profile, "assumption_attention_data_parallel",
                     "sequences are spread evenly; fewer than groups take the time of one");
  import_count_fact(profile, "rows_beyond_memory_left_out", self->beyond_memory);
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
  const Hardware *hardware = &self->layers.hardware;
  Arena *arena = self->profile->arena;
  for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
    if (self->layers.products[dtype].n == 0) continue;
    const AicTable *table = &self->layers.products[dtype].found[0].table;
    const double flops = peak_flops(hardware, dtype), bytes = (double)hardware->hbm_bandwidth;
    size_t above_flops = 0, above_memory = 0;
    for (size_t i = 0; i < table->n_points; i++) {
      const AicPoint *point = &table->points[i];
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

/* "h100_sxm/vllm-0.24.0": the names of a system and of an engine there. */
static void set_source(const Composing *self) {
  const char *path = self->input->path, *begin = path + strlen(path);
  for (int slashes = 0; begin > path; begin--) {
    slashes += begin[-1] == '/' && begin[0] != '\0';
    if (slashes == 2) break;
  }
  profile_set_fact(self->profile, "source", begin);
}

static int read_tables(const ImportInput *input, Profile *profile, Diag *diag) {
  Composing *self = ARENA_NEW(profile->arena, Composing);
  self->input = input;
  self->profile = profile;
  self->layers.folder = input->path;
  self->layers.arena = profile->arena;
  if (find_setup(self, diag) || aic_layers_load(&self->layers, diag)) return -1;
  set_source(self);
  set_setup_facts(self);
  add_linear(self);
  add_prefill(self);
  add_decode(self);
  set_assumptions(self);
  set_checks(self);
  return 0;
}

const Importer import_aiconfigurator = {
    .name = "aiconfigurator",
    .help = "tables of AIConfigurator: a folder ENGINE-VERSION",
    .units = "microseconds; milliseconds where the column is 'latency'",
    .needs_model = true,
    .needs_setup = true,
    .read = read_tables,
};
