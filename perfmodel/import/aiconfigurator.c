/* NVIDIA AIConfigurator's tables of one system and one version of an engine, a folder
 * ENGINE-VERSION with gemm.csv.gz, context_attention.csv.gz, …: operators of many shapes, of which
 * the layers of one model in one setup are composed (aic_layers.h).
 *
 * Linear rows are at every number of tokens that products were measured at, attention rows at every
 * batch of the tables for the heads of one GPU. With attention data parallelism D a row is of D
 * groups that do the same; fewer sequences than groups take the time of one each. */
#include "perfmodel/import/aic_layers.h"
#include "perfmodel/import/aic_roofline.h"
#include "perfmodel/import/import.h"
#include "sim/base/sort.h"
#include <limits.h>
#include <string.h>

enum { MAX_TOKENS = 1 << 24 }; // of a row, so that its area fits

typedef struct Composing {
  const ImportInput *input;
  Profile *profile;
  AicLayers layers;
  int64_t beyond_memory;
} Composing;

/* ---- The setup ---- */

/* "vllm-0.24.0", the last part of the path or what the user said. */
static int find_engine(Composing *self, Diag *diag) {
  Arena *arena = self->profile->arena;
  PerfSetup *setup = &self->layers.setup;
  const char *path = self->input->path, *said = self->input->engine;
  size_t end = strlen(path);
  while (end > 1 && path[end - 1] == '/')
    end--;
  size_t begin = end;
  while (begin > 0 && path[begin - 1] != '/')
    begin--;
  const char *folder = arena_copy(arena, path + begin, end - begin);
  const char *name = said ? said : folder, *dash = strchr(name, '-');
  setup->engine = dash ? arena_copy(arena, name, (size_t)(dash - name)) : name;
  const size_t length = strlen(setup->engine);
  const char *version = dash ? dash : folder + length;
  if (dash || (strncmp(folder, setup->engine, length) == 0 && *version == '-'))
    setup->engine_version = version + 1;
  self->layers.engine = aic_engine_find(setup->engine);
  if (self->layers.engine) return 0;
  diag_error(diag, place_of_file(said ? "--engine" : path), "unknown engine '%s'", setup->engine);
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
             "'%s' has no tensor cores for '%s'", hardware->gpu, dtype_names[dtype]);
  diag_hint(diag,
            "possible are bf16%s, and int4 and int8 of the weights only, where tables have them",
            hardware->sm >= FP8_SINCE ? ", fp8" : "");
  return -1;
}

static int64_t degree(int64_t said) {
  return said > 0 ? said : 1;
}

static int find_setup(Composing *self, Diag *diag) {
  const ImportInput *input = self->input;
  AicLayers *layers = &self->layers;
  PerfSetup *setup = &layers->setup;
  int error = find_engine(self, diag);
  error |= hardware_load(&layers->hardware, input->machine, input->data_dir,
                         place_of_file("--machine"), self->profile->arena, diag);
  error |= find_model(self, diag);
  if (error) return -1;
  setup->gpu = input->gpu ? input->gpu : layers->hardware.gpu;
  setup->tensor_parallel_size = degree(input->tensor_parallel_size);
  setup->attention_data_parallel_size = degree(input->attention_data_parallel_size);
  setup->expert_parallel_size = degree(input->expert_parallel_size);
  const Parallelism degrees = {.tensor = setup->tensor_parallel_size,
                               .pipeline = 1,
                               .data = 1,
                               .attention = setup->attention_data_parallel_size,
                               .expert = setup->expert_parallel_size};
  return hardware_check_split(&layers->llm, &layers->hardware, degrees,
                              place_of_file("--tensor-parallel"), diag) |
         check_format(self, diag);
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
  const AicTable *table = &self->layers.products[self->layers.llm.attention_dtype].table;
  int64_t *tokens = ARENA_ARRAY(self->profile->arena, int64_t, table->n_points);
  for (size_t i = 0; i < table->n_points; i++)
    tokens[i] = table->points[i].key[2];
  *ret_tokens = tokens;
  return sort_distinct(tokens, table->n_points);
}

static void add_linear(Composing *self) {
  const int64_t groups = self->layers.setup.attention_data_parallel_size;
  int64_t *tokens = NULL;
  const size_t n = list_tokens(self, &tokens);
  for (size_t i = 0; i < n; i++) {
    if (tokens[i] == 0 || tokens[i] > MAX_TOKENS / groups) continue;
    const int64_t all = tokens[i] * groups;
    add_row(self, PROFILE_LINEAR, (BatchShape){.prefill_tokens = all},
            aic_linear_us(&self->layers, all));
    add_row(self, PROFILE_HEAD, (BatchShape){.logit_seqs = all},
            aic_head_us(&self->layers, tokens[i]));
  }
}

/* Whether one GPU can hold the KV of a row. */
static bool fits(Composing *self, double tokens) {
  const Llm *llm = &self->layers.llm;
  const int64_t shares = self->layers.setup.tensor_parallel_size < llm->num_key_value_heads
                             ? self->layers.setup.tensor_parallel_size
                             : llm->num_key_value_heads;
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
    if (batch == 0 || isl == 0 || !fits(self, (double)batch * (double)(isl + past))) continue;
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
    const int64_t batch = table->points[i].key[0], context = table->points[i].key[1] + 1;
    if (batch == 0 || !fits(self, (double)batch * (double)context)) continue;
    const double us = aic_decode_us(&self->layers, batch, context - 1);
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

static void set_assumptions(const Composing *self) {
  Profile *profile = self->profile;
  Arena *arena = profile->arena;
  const AicLayers *layers = &self->layers;
  profile_set_fact(profile, "all_reduce",
                   layers->setup.tensor_parallel_size == 1
                       ? "one GPU"
                       : arena_printf(arena, "two a layer, in linear: custom_allreduce, %s",
                                      layers->engine->all_reduce));
  profile_set_fact(profile, "assumption_kernels",
                   arena_printf(arena,
                                "norms, RoPE, activations%s and drawing are not measured: bytes "
                                "over 0.8 of the bandwidth and %g us each",
                                layers->engine->quantizes ? ", conversions" : "",
                                layers->engine->launch_us));
  profile_set_fact(profile, "assumption_products",
                   "linear between measured sizes; wider or deeper than the largest as several of "
                   "equal size; the head in bf16");
  profile_set_fact(profile, "assumption_prefill_attention",
                   arena_printf(arena, "computed in %s",
                                layers->prefill.texts[1] ? layers->prefill.texts[1]
                                                         : "what the table does not say"));
  if (self->layers.setup.attention_data_parallel_size > 1)
    profile_set_fact(profile, "assumption_attention_data_parallel",
                     "sequences are spread evenly; fewer than groups take the time of one");
  import_count_fact(profile, "rows_beyond_memory_left_out", self->beyond_memory);
}

static void set_checks(const Composing *self) {
  for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
    if (!self->layers.products[dtype].path) continue;
    const AicRoofline found = aic_roofline_products(&self->layers, dtype);
    Arena *arena = self->profile->arena;
    profile_set_fact(
        self->profile, arena_printf(arena, "check_products_%s", dtype_names[dtype]),
        arena_printf(arena,
                     "%zu rows; %zu faster than the peak of the tensor cores, %zu than reading the "
                     "weights (they stayed in the cache)",
                     found.rows, found.above_flops, found.above_memory));
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
    .help = "tables of NVIDIA AIConfigurator: the folder ENGINE-VERSION",
    .units = "microseconds; milliseconds where the column is 'latency'",
    .needs_model = true,
    .needs_setup = true,
    .read = read_tables,
};
