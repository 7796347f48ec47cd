/* The `perfmodel:` key, of the run, a pool or the reference machine: where iteration times come
 * from. A name or path, {engine: …} for what was measured of one, or {name: roofline, preset: …}.
 */
#include "base/folder.h"
#include "base/hash.h"
#include "base/text.h"
#include "experiments/config/config.h"
#include "perfmodel/attention_ffn.h"
#include "perfmodel/datafile.h"
#include "perfmodel/finder.h"
#include "perfmodel/host_time.h"
#include "perfmodel/power.h"
#include "perfmodel/roofline.h"
#include "perfmodel/time_scale.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char FITTED[] = "fitted", ROOFLINE[] = "roofline";
static const char ENGINE_DEFAULT[] = "vllm"; // of a pool that names none

#define KEY(field, kind, ...) OPTION_OF(PerfModelInputs, field, kind, __VA_ARGS__)

const OptionSpec config_perfmodel_options[] = {
    KEY(name, OPTION_STRING, .fallback = "fitted",
        .help = "Name of the performance model: fitted (fitted to measurements of an engine), "
                "roofline, a measured set (splitwise-2023, splitwise-sim), or the path of a model "
                "file."),
    KEY(engine, OPTION_STRING,
        .help = "Engine that the times were measured on: vllm, trtllm, sglang, also with a version "
                "as in vllm-0.24. It applies to fitted.",
        .absent = "the engine of the pool, else vllm"),
    KEY(version, OPTION_STRING,
        .help = "Version of that engine; the nearest one that was measured is used.",
        .absent = "that of the pool's engine, else the newest"),
    KEY(weights, OPTION_CHOICE, .choices = dtype_names,
        .help = "Number format of the layers' weight matrices that the times were measured with.",
        .absent = "that of the model"),
    KEY(kv_cache, OPTION_CHOICE, .choices = dtype_names,
        .help = "Number format of the KV cache that the times were measured with.",
        .absent = "that of the model"),
    KEY(insist, OPTION_BOOL, .fallback = "false",
        .help = "Use the file even if it was made for another model, GPU, degree or number format. "
                "It applies to a path."),
    KEY(preset, OPTION_STRING,
        .help = "Host and kernel times that a roofline adds: ideal, graph-engine, eager-2023, or "
                "the path of a preset file.",
        .absent = "graph-engine"),
    KEY(all_reduce_scale, OPTION_REAL, .fallback = "1", .min = 1e-6, .max = 1e6,
        .help = "Factor on the bandwidth of all-reduces. It applies to roofline."),
    KEY(captured_batch_sizes, OPTION_NODE,
        .help = "Batch sizes to which batches of decodes are padded: a list or the name of an "
                "engine. It applies to roofline.",
        .absent = "none"),
    KEY(time_scale, OPTION_REAL, .fallback = "1", .min = TIME_SCALE_MIN, .max = TIME_SCALE_MAX,
        .help = "Factor on all times of the performance model. Host times of the engine stay."),
    {0}};

/* A preset by its name, or of a file. */
static const EnginePreset *load_preset(const Config *self, const char *written, Place at,
                                       Arena *arena, Diag *diag) {
  const EnginePreset *preset = written ? preset_find(written, NULL) : &preset_graph_engine;
  if (preset) return preset;
  EnginePreset *own = ARENA_NEW(arena, EnginePreset);
  if (datafile_is_path(written))
    return preset_load(own, config_data_name(self, written, arena), arena, diag) ? NULL : own;
  diag_error(diag, at, "unknown preset '%s'", written);
  diag_hint_near(diag, written, preset_names(&diag->arena));
  return NULL;
}

/* Keys that are for what was measured of an engine alone. */
static int check_unmeasured(const Node *node, const char *name, Diag *diag) {
  static const char *const keys[] = {"engine", "version", "weights", "kv_cache"};
  int status = 0;
  for (int i = 0; i < 4; i++)
    if (node_find(node, keys[i]))
      status =
          diag_error(diag, node_find(node, keys[i])->key_at,
                     "'%s' applies to '%s', which looks for iteration times by it, not to '%s'",
                     keys[i], FITTED, name);
  return status;
}

/* Keys that are for rooflines alone. */
static int check_measured(const Node *node, const char *name, Diag *diag) {
  static const char *const keys[] = {"preset", "all_reduce_scale"};
  int status = 0;
  for (int i = 0; i < 2; i++)
    if (node_find(node, keys[i]))
      status = diag_error(
          diag, config_place(node, keys[i]),
          "'%s' applies to '%s': the times of '%s' include the engine and its all-reduces", keys[i],
          ROOFLINE, name);
  const Node *captured = node_find(node, "captured_batch_sizes");
  if (captured)
    status = diag_error(
        diag, captured->key_at,
        "'%s' applies to '%s' here: for '%s' it is a key of the file of the performance model",
        captured->key, ROOFLINE, name);
  return status;
}

/* "vllm-0.24" is an engine and its version. */
static int bind_version(PerfModelInputs *keys, const Node *node, Arena *arena, Diag *diag) {
  PerfSetup both;
  if (keys->version && !setup_is_version(keys->version)) {
    diag_error(diag, config_place(node, "version"), "'%s' is not a version", keys->version);
    return diag_hint(diag, "write a number and what follows it, such as 0.24 or 1.3.0rc20");
  }
  if (!keys->engine || !setup_parse_folder(&both, keys->engine, arena)) return 0;
  if (keys->version)
    return diag_error(diag, config_place(node, "engine"),
                      "'%s' includes a version: it and 'version' exclude each other", keys->engine);
  keys->engine = both.engine;
  keys->version = both.engine_version;
  return 0;
}

/* Whether there is a set of times of this name; an entry at `at` otherwise. */
static int check_set(const Config *self, const char *name, Place at, Diag *diag) {
  Arena *arena = &diag->arena;
  const char *const *sets =
      folder_names(arena_printf(arena, "%s/fitted", self->perfmodel_root), "*", arena);
  int n = 0;
  if (text_is_one(name, sets)) return 0;
  while (sets[n])
    n++;
  PerfSetup engine;
  if (setup_parse_folder(&engine, name, arena)) return 0; // which says how to name an engine
  const char *const *engines = finder_engines(self->perfmodel_root, arena);
  int n_engines = 0;
  while (engines[n_engines])
    n_engines++;
  const char **names = ARENA_ARRAY(arena, const char *, n + n_engines + 3);
  names[0] = FITTED;
  names[1] = ROOFLINE;
  memcpy(names + 2, engines, (size_t)n_engines * sizeof *engines);
  memcpy(names + 2 + n_engines, sets, (size_t)n * sizeof *sets);
  diag_error(diag, at, "unknown performance model '%s'", name);
  return diag_hint_choices(diag, name, names, "tandem list perfmodels");
}

/* Keys that belong together, once they are bound. */
static int check_keys(const Config *self, const Node *node, PerfModelInputs *keys, Arena *arena,
                      Diag *diag) {
  const bool map = node && node->kind == NODE_MAP, path = datafile_is_path(keys->name);
  const bool fitted = strcmp(keys->name, FITTED) == 0, roofline = strcmp(keys->name, ROOFLINE) == 0;
  if (!fitted && !roofline && !path &&
      check_set(self, keys->name, map ? config_place(node, "name") : node->at, diag))
    return -1;
  if (keys->insist && !path)
    return diag_error(diag, config_place(node, "insist"),
                      "'insist' applies to the path of a file, not to '%s'", keys->name);
  if (map && !fitted && check_unmeasured(node, keys->name, diag)) return -1;
  if (!roofline) return map ? check_measured(node, keys->name, diag) : 0;
  const Place at = map ? config_place(node, "preset") : node->at;
  keys->added = load_preset(self, keys->preset, at, arena, diag);
  CapturedSizes sizes; // bound again with the model, which outlives this configuration
  const Node *captured = keys->captured_batch_sizes;
  return keys->added && (!captured || !captured_bind(&sizes, captured, arena, diag)) ? 0 : -1;
}

const PerfModelInputs config_fitted = {.name = FITTED,
                                       .weights = LLM_UNSAID,
                                       .kv_cache = LLM_UNSAID,
                                       .all_reduce_scale = 1,
                                       .time_scale = 1};

int config_bind_perfmodel(const Config *self, const Node *node, PerfModelInputs *ret, Arena *arena,
                          Diag *diag) {
  static const OptionSpec bare = {.key = "perfmodel", .type = OPTION_STRING};
  PerfModelInputs keys = config_fitted;
  const bool map = node && node->kind == NODE_MAP;
  if (map && option_bind(config_perfmodel_options, node, NULL, node->at, &keys, diag)) return -1;
  if (node && !map && option_bind_one(&bare, node, &keys.name, diag)) return -1;
  const bool named = strcmp(keys.name, FITTED) != 0 && strcmp(keys.name, ROOFLINE) != 0;
  if (!map && named && text_is_one(keys.name, finder_engines(self->perfmodel_root, arena))) {
    keys.engine = keys.name; // alone it says of whose tables the times are
    keys.name = FITTED;
    keys.engine_at = node->at;
  }
  if (map && bind_version(&keys, node, arena, diag)) return -1;
  if (check_keys(self, node, &keys, arena, diag)) return -1;
  if (map && keys.engine) keys.engine_at = config_place(node, "engine");
  keys.name = config_data_name(self, keys.name, arena);
  *ret = keys;
  return 0;
}

/* A performance model to load. */
typedef struct PerfModelLoad {
  const PerfModelInputs *of;
  PerfSetup setup; // that is looked for
  Place at;
  Cache *cache;
  const PerfModel *plain; // as it was loaded, without its host
} PerfModelLoad;

/* What 'fitted' looks for. Of an engine that the pool names, too, it is the version that is nearest
 * to the pool's. */
static PerfSetup wanted(const PerfModelInputs *of, Arena *arena) {
  PerfSetup pool = {.engine = ENGINE_DEFAULT};
  if (of->serving) setup_parse_folder(&pool, of->serving, arena);
  PerfSetup setup = {
      .model = of->model->name,
      .gpu = of->hardware->gpu,
      .engine = of->engine ? of->engine : pool.engine,
      .engine_version = of->version,
      .weight_dtype = of->weights == LLM_UNSAID ? (int)llm_quantization(of->model) : of->weights,
      .kv_cache_dtype = of->kv_cache == LLM_UNSAID ? of->model->kv_cache_dtype : of->kv_cache,
      .tensor_parallel_size = of->degrees.tensor,
      .attention_data_parallel_size = of->degrees.attention,
      .expert_parallel_size = of->degrees.expert,
      .nnodes =
          parallelism_nodes_of(of->degrees, of->degrees.tensor * degree_of(of->degrees.attention)),
      .balanced = of->enable_eplb};
  if (!setup.engine_version && strcmp(setup.engine, pool.engine) == 0)
    setup.engine_version = pool.engine_version;
  return setup;
}

/* An engine that is named must have times of something. */
static int check_engine(const PerfModelLoad *load, Diag *diag) {
  const char *engine = load->of->engine;
  if (!engine) return 0;
  const char *const *engines = finder_engines(load->of->root, &diag->arena);
  if (text_is_one(engine, engines)) return 0;
  diag_error(diag, load->of->engine_at, "there are no iteration times for an engine '%s'", engine);
  return diag_hint_near(diag, engine, engines);
}

/* Whether a file is of the pool's model, by Tandem's name or a checkpoint's. */
static bool is_of_model(const char *there, const PerfModelInputs *of, Arena *arena) {
  const Llm *model = of->model;
  const char *checkpoint = model->checkpoint ? model->checkpoint : model->name;
  const char *slash = strrchr(checkpoint, '/');
  const char *known = llm_name_of(there, of->root, arena);
  return strcmp(there, model->name) == 0 || strcmp(there, checkpoint) == 0 ||
         (slash && strcmp(there, slash + 1) == 0) || (known && strcmp(known, model->name) == 0);
}

static const char *degree_text(int64_t degree, Arena *arena) {
  return arena_printf(arena, "%" PRId64, degree > 1 ? degree : 1);
}

#define DEGREE(field)                                                                              \
  { #field, degree_text(there->field, arena), degree_text(asked->field, arena) }

/* "GPU h100-80gb for h200-141gb, tensor_parallel_size 2 for 8": what a file is of for what is
 * asked; empty: it is of that. */
static const char *mismatch(const PerfModel *model, const PerfModelLoad *load, Arena *arena) {
  const PerfSetup *there = &model->setup, *asked = &load->setup;
  const struct {
    const char *what, *there, *asked;
  } parts[] = {{"model", is_of_model(there->model, load->of, arena) ? asked->model : there->model,
                asked->model},
               {"GPU", there->gpu, asked->gpu},
               {"weights in", dtype_names[there->weight_dtype],
                dtype_names[model->says_weights ? asked->weight_dtype : there->weight_dtype]},
               {"KV cache in", dtype_names[there->kv_cache_dtype],
                dtype_names[model->says_kv_cache ? asked->kv_cache_dtype : there->kv_cache_dtype]},
               DEGREE(tensor_parallel_size),
               DEGREE(attention_data_parallel_size),
               DEGREE(expert_parallel_size),
               DEGREE(nnodes)};
  const char *text = "";
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (strcmp(parts[i].there, parts[i].asked) != 0)
      text = arena_printf(arena, "%s%s%s %s for %s", text, *text ? ", " : "", parts[i].what,
                          parts[i].there, parts[i].asked);
  return text;
}

/* Whether a file that was named by its path may stand for the pool. */
static int check_file(PerfModel *self, const PerfModelLoad *load, Arena *arena, Diag *diag) {
  const char *name = load->of->name, *other = mismatch(self, load, arena);
  const bool unsaid = !self->says_weights || !self->says_kv_cache;
  if (*other && !load->of->insist) {
    diag_error(diag, load->at, "the times of '%s' belong to another setup: %s", name, other);
    return diag_hint(diag, "'perfmodel: {name: %s, insist: true}' uses them nevertheless", name);
  }
  if (*other) self->taken = arena_printf(arena, "%s, %s", name, other);
  if (unsaid)
    self->taken =
        arena_printf(arena, "%s, whose file does not give the format of its %s: not checked",
                     self->taken ? self->taken : name,
                     self->says_weights    ? "KV cache"
                     : self->says_kv_cache ? "weights"
                                           : "weights and KV cache");
  return 0;
}

static int load_measured(PerfModel *self, const PerfModelLoad *load, Arena *arena, Diag *diag) {
  const PerfModelInputs *of = load->of;
  const PerfSetup *setup = &load->setup;
  if (of->degrees.ffn > 0) {
    diag_error(diag, load->at, "no iteration times were measured with 'attention_ffn'");
    return diag_hint(diag, "set 'perfmodel: roofline'");
  }
  if (check_engine(load, diag)) return -1;
  if (strcmp(of->name, FITTED) == 0)
    return perfmodel_load_nearest(self,
                                  &(ComposeInput){.setup = *setup,
                                                  .llm = of->model,
                                                  .hardware = of->hardware,
                                                  .data_dir = of->root,
                                                  .at = load->at,
                                                  .cache = load->cache},
                                  !of->engine, of->max_decode_seqs, arena, diag);
  if (perfmodel_load_for(self, of->name, setup->model, setup->gpu, setup->tensor_parallel_size,
                         of->max_decode_seqs, of->root, load->at, arena, diag))
    return -1;
  return datafile_is_path(of->name) ? check_file(self, load, arena, diag) : 0;
}

static double spread_share(const void *context, double tokens) {
  return roofline_spread_share(context, tokens);
}

/* Measured times of attention data parallelism are of ranks that are equally busy. What of `linear`
 * is spread over all of them, whoever's the tokens, is told apart by the share that it has on a
 * roofline. */
static void spread_linear(PerfModel *self, const PerfModelInputs *of, Arena *arena) {
  if (self->ranks <= 1 || self->form != PERF_COMPOSED) return;
  Roofline roofline;
  roofline_init(&roofline, of->model, of->hardware, of->degrees, &preset_ideal, arena);
  perfmodel_spread(self, spread_share, &roofline, arena);
}

/* Measured and composed times are of layers alone: what stages send to one another is that of a
 * roofline. */
static void add_send(PerfModel *self, const PerfModelInputs *of, Arena *arena) {
  if (of->degrees.pipeline == 1 || self->form != PERF_COMPOSED) return;
  self->send = fine_from_seconds(roofline_send(of->model, of->hardware, of->degrees));
  self->digest = hash_fold(self->digest, hash_bytes(&self->send, sizeof self->send));
  if (degree_of(of->degrees.nodes) > 1)
    self->taken = arena_printf(arena, "%s, sends between stages of the links' peaks",
                               self->taken ? self->taken : "");
}

/* Attention and FFNs on GPUs of their own. */
static int make_sides(PerfModel *self, const PerfModelLoad *load, Arena *arena, Diag *diag) {
  const PerfModelInputs *of = load->of;
  AttentionFfn sides;
  attention_ffn_init(&sides, of->model, of->hardware, of->degrees, of->added, arena);
  roofline_scale_all_reduces(&sides.attention, of->all_reduce_scale);
  roofline_scale_all_reduces(&sides.ffn, of->all_reduce_scale);
  if (of->captured_batch_sizes &&
      captured_bind(&sides.attention.captured, of->captured_batch_sizes, arena, diag))
    return -1;
  attention_ffn_compile(&sides, self, of->max_decode_seqs, arena);
  return 0;
}

static int make_roofline(PerfModel *self, const PerfModelLoad *load, Arena *arena, Diag *diag) {
  const PerfModelInputs *of = load->of;
  if (hardware_check_split(of->model, of->hardware, of->degrees, load->at, diag)) return -1;
  if (of->degrees.ffn > 0) return make_sides(self, load, arena, diag);
  Roofline roofline;
  roofline_init(&roofline, of->model, of->hardware, of->degrees, of->added, arena);
  roofline_scale_all_reduces(&roofline, of->all_reduce_scale);
  if (of->captured_batch_sizes &&
      captured_bind(&roofline.captured, of->captured_batch_sizes, arena, diag))
    return -1;
  roofline_compile(&roofline, self, of->max_decode_seqs, arena);
  return 0;
}

/* Times that the configuration gives are added to any iterations, with those of the release that it
 * leaves out; else whole iterations, as the sets have them and logs of an engine, and rooflines
 * have their host in them. */
const HostRow *config_host_row(const char *serving, const HostTimes *said, const PerfModel *model,
                               const char *gpu) {
  const char *kernels = model->kernels;
  if (!kernels && serving_says_times(said)) kernels = KERNELS_PUBLIC;
  return kernels ? host_row_find(serving, kernels, gpu) : NULL;
}

/* Kernels of another source, another GPU or release; or none, where kernels alone are no engine. */
static const char *note_host(const PerfModel *self, const HostRow *row, const char *serving,
                             const char *gpu, Arena *arena) {
  if (!self->kernels || !self->taken || !serving) return self->taken;
  if (!row && strcmp(self->kernels, KERNELS_TANDEM) == 0)
    return arena_printf(arena, "%s, without what %s adds to them: it was not fitted", self->taken,
                        serving);
  if (!row || (strcmp(row->kernels, self->kernels) == 0 && strcmp(row->engine, serving) == 0 &&
               (!row->gpu || strcmp(row->gpu, gpu) == 0)))
    return self->taken;
  return arena_printf(arena, "%s, host time of %s fitted on %s kernels%s%s", self->taken,
                      row->engine, row->kernels, row->gpu ? " of " : "", row->gpu ? row->gpu : "");
}

/* The times, moved as the terms are. */
static void move_host(HostTimes *times, const PerfModel *self, const PerfModelInputs *of) {
  const double factor = term_factor(&self->errors, &of->apart, PERF_HOST) *
                        term_factor(&self->errors, &of->apart, PERF_SUM);
  Tick *const moved[] = {&times->iteration_time, &times->layer_time, &times->sequence_time,
                         &times->eager_layer_time};
  for (size_t i = 0; factor != 1 && i < sizeof moved / sizeof *moved; i++)
    *moved[i] = llround(factor * (double)*moved[i]);
}

static int add_host(PerfModel *self, const PerfModelLoad *load, Arena *arena, Diag *diag) {
  const PerfModelInputs *of = load->of;
  const char *gpu = of->hardware->gpu;
  const HostRow *row = config_host_row(of->serving, &of->said, self, gpu);
  HostTimes times = host_times_filled(&of->said, row);
  self->taken = note_host(self, row, of->serving, gpu, arena);
  if (!self->kernels && !serving_says_times(&of->said)) return 0;
  if (times.iteration_time + times.layer_time + times.sequence_time + times.eager_layer_time == 0)
    return 0;
  if (self->form != PERF_COMPOSED)
    return diag_error(diag, load->at,
                      "iteration times of the form 'splitwise-sim' include the host time");
  self->errors.of[PERF_HOST] = HOST_TIME_ERROR;
  move_host(&times, self, of);
  perfmodel_add_host(self, &times, of->model->num_hidden_layers, arena);
  return 0;
}

const double config_moves[MOVES] = {-1, 1};

static double bounded(double scale) {
  return fmin(fmax(scale, TIME_SCALE_MIN), TIME_SCALE_MAX);
}

/* Of all that the model says, before its host is added. */
static void scale_times(PerfModel *self, const PerfModelInputs *of, Arena *arena) {
  const double error = isnan(self->held_out_error) ? 0 : self->held_out_error;
  const double scale = of->time_scale * (1 + of->error_shift * error) *
                       term_factor(&self->errors, &of->apart, PERF_SUM);
  double factors[PERF_TERMS];
  for (PerfTerm t = 0; t < PERF_TERMS; t++)
    factors[t] = bounded(term_factor(&self->errors, &of->apart, t));
  perfmodel_scale_terms(self, factors, arena);
  perfmodel_scale(self, bounded(scale), arena);
}

static const void *load_plain(const void *context, Arena *arena, Diag *diag) {
  const PerfModelLoad *load = context;
  const bool roofline = load->of->added;
  PerfModel *perfmodel = ARENA_NEW(arena, PerfModel);
  if (roofline ? make_roofline(perfmodel, load, arena, diag)
               : load_measured(perfmodel, load, arena, diag))
    return NULL;
  if (!roofline) spread_linear(perfmodel, load->of, arena);
  if (!roofline) add_send(perfmodel, load->of, arena);
  return perfmodel;
}

/* Twice as many tokens a step are times half as long. */
static void widen_error(PerfModel *self, double output_error) {
  self->errors.of[PERF_SUM] = hypot(self->errors.of[PERF_SUM], output_error);
  self->held_out_error = hypot(self->held_out_error, output_error); // NAN stays
}

/* Kernels whose watts were measured have left them in the model. */
static void give_power(PerfModel *self, const PerfModelInputs *of, Arena *arena) {
  const PowerModel *measured = self->power;
  const Hardware *hardware = of->hardware;
  self->power = NULL;
  if (of->power == POWER_PHASE || hardware->gpu_tdp == 0) return;
  PowerModel *power = ARENA_NEW(arena, PowerModel);
  if (measured && of->power != POWER_BATCH)
    *power = *measured;
  else
    power_by_batch(power, self, hardware->gpu_tdp, power_memory_watts(hardware));
  if (of->power_cap > 0) power_limit(power, of->power_cap);
  perfmodel_cap(self, power, arena);
}

static const void *load_perfmodel(const void *context, Arena *arena, Diag *diag) {
  const PerfModelLoad *load = context;
  PerfModel *perfmodel = ARENA_NEW(arena, PerfModel);
  *perfmodel = *load->plain;
  widen_error(perfmodel, load->of->output_error);
  scale_times(perfmodel, load->of, arena);
  give_power(perfmodel, load->of, arena);
  return add_host(perfmodel, load, arena, diag) ? NULL : perfmodel;
}

/* ---- Its key ---- */

/* Of a preset all but the name, and of fields of kind `words` all, are words of 64 bits. */
_Static_assert(sizeof(EnginePreset) == sizeof(char *) + 4 * sizeof(Tick) &&
                   sizeof(Parallelism) == 8 * sizeof(int64_t) &&
                   sizeof(HostTimes) == 6 * sizeof(int64_t) &&
                   sizeof(TermShifts) == TERM_MOVES * sizeof(double),
               "hashed as they stand, without a gap");

static uint64_t preset_digest(const EnginePreset *preset) {
  return preset ? hash_text(hash_bytes(&preset->per_iteration,
                                       sizeof *preset - offsetof(EnginePreset, per_iteration)),
                            preset->name)
                : 0;
}

#define DIGEST_text(field)   (field ? hash_text(1, field) : 0)
#define DIGEST_number(field) (uint64_t)(field)
#define DIGEST_real(field)   hash_bytes(&(field), sizeof(double))
#define DIGEST_words(field)  hash_bytes(&(field), sizeof(field))
#define DIGEST_tree(field)   node_digest(field)
#define DIGEST_loaded(field) (field)->digest
#define DIGEST_preset(field) preset_digest(field)

uint64_t perfmodel_inputs_digest(const PerfModelInputs *self) {
  uint64_t hash = 0;
#define INPUT(kind, type, name) hash = hash_fold(hash, DIGEST_##kind(self->name));
#include "experiments/config/perfmodel_inputs.def"
#undef INPUT
  return hash;
}

static const char PERFMODEL_KEY[] = "perfmodel ", PLAIN_KEY[] = "plain ";

/* The name comes first: notes are in the order of the keys. */
static const char *key_of(const char *kind, const PerfModelLoad *load, Arena *arena) {
  return arena_printf(arena, "%s%s of %s %016" PRIx64, kind, load->of->name,
                      setup_name(&load->setup, arena), perfmodel_inputs_digest(load->of));
}

const PerfModel *config_load_perfmodel(const Config *self, PerfModelInputs of,
                                       const EngineChoice *engine, Place at, Arena *arena,
                                       Diag *diag) {
  const ServingEngine *serving = serving_at(engine->row);
  of.root = self->perfmodel_root;
  of.serving = serving ? serving->name : NULL;
  of.said = engine->said;
  PerfModelInputs plain = of; // which models with times moved have in common
  plain.error_shift = 0;
  plain.apart = (TermShifts){{0}};
  PerfModelLoad load = {.of = &plain, .setup = wanted(&of, arena), .at = at, .cache = self->cache};
  load.plain = cache_get(self->cache, key_of(PLAIN_KEY, &load, arena), load_plain, &load, diag);
  if (!load.plain) return NULL;
  load.of = &of;
  return cache_get(self->cache, key_of(PERFMODEL_KEY, &load, arena), load_perfmodel, &load, diag);
}

void config_note_perfmodels(Cache *cache, FILE *out) {
  Arena arena;
  arena_init(&arena);
  const void *const *models = cache_all(cache, PERFMODEL_KEY, &arena);
  const char *last = "";
  for (; *models; models++) {
    const char *taken = ((const PerfModel *)*models)->taken;
    if (!taken || strcmp(taken, last) == 0) continue; // of as many sequences
    fprintf(out, "note: iteration times are those of %s\n", text_shown(taken, &arena));
    last = taken;
  }
  arena_done(&arena);
  config_note_models(cache, out);
}
