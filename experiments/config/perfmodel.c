/* The `perfmodel:` key, of the run, a pool or the reference machine: where iteration times come
 * from. A name or path, {engine: …} for what was measured of one, or {name: roofline, preset: …}.
 */
#include "base/folder.h"
#include "base/text.h"
#include "experiments/config/config.h"
#include "perfmodel/datafile.h"
#include "perfmodel/finder.h"
#include "perfmodel/host_time.h"
#include "perfmodel/roofline.h"
#include "perfmodel/time_scale.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char FITTED[] = "fitted", ROOFLINE[] = "roofline";
static const char ENGINE_DEFAULT[] = "vllm"; // of a pool that names none

typedef struct PerfModelKeys {
  const char *name, *preset;
  const char *engine, *version;
  int weights, kv_cache;
  double all_reduce_scale, time_scale;
  bool insist;
  const Node *captured_batch_sizes;
} PerfModelKeys;

#define KEY(field, kind, ...)                                                                      \
  { .key = #field, .type = kind, .offset = offsetof(PerfModelKeys, field), __VA_ARGS__ }

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

static const void *load_engine(const void *context, Arena *arena, Diag *diag) {
  const ConfigFact *fact = context;
  EnginePreset *preset = ARENA_NEW(arena, EnginePreset);
  return preset_load(preset, fact->name, fact->config->perfmodel_root, fact->at, arena, diag)
             ? NULL
             : preset;
}

static const EnginePreset *load_preset(const Config *self, const char *written, Place at,
                                       Arena *arena, Diag *diag) {
  const char *name = config_data_name(self, written ? written : "graph-engine", arena);
  const ConfigFact fact = {self, name, at};
  const char *key = arena_printf(arena, "preset %s", name);
  return config_cache_get(self->cache, key, load_engine, &fact, diag);
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
static int bind_version(PerfModelKeys *keys, const Node *node, Arena *arena, Diag *diag) {
  PerfSetup both;
  if (keys->version && !setup_is_version(keys->version)) {
    diag_error(diag, config_place(node, "version"), "'%s' is not a version", keys->version);
    diag_hint(diag, "write a number and what follows it, such as 0.24 or 1.3.0rc20");
    return -1;
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
  for (; sets[n]; n++)
    if (strcmp(sets[n], name) == 0) return 0;
  const char **names = ARENA_ARRAY(arena, const char *, n + 3);
  names[0] = FITTED;
  names[1] = ROOFLINE;
  memcpy(names + 2, sets, (size_t)n * sizeof *sets);
  diag_error(diag, at, "unknown performance model '%s'", name);
  diag_hint_choices(diag, name, names, "tandem list perfmodels");
  return -1;
}

int config_bind_perfmodel(const Config *self, const Node *node, PerfModelChoice *ret_choice,
                          Arena *arena, Diag *diag) {
  static const OptionSpec bare = {.key = "perfmodel", .type = OPTION_STRING};
  PerfModelKeys keys = {.name = FITTED, .all_reduce_scale = 1, .time_scale = 1};
  const bool map = node && node->kind == NODE_MAP;
  if (map && option_bind(config_perfmodel_options, node, NULL, node->at, &keys, diag)) return -1;
  if (node && !map && option_bind_one(&bare, node, &keys.name, diag)) return -1;
  if (map && bind_version(&keys, node, arena, diag)) return -1;
  PerfModelChoice choice = {.name = config_data_name(self, keys.name, arena),
                            .measured = {.engine = keys.engine,
                                         .engine_version = keys.version,
                                         .weight_dtype = keys.weights,
                                         .kv_cache_dtype = keys.kv_cache},
                            .insist = keys.insist,
                            .time_scale = keys.time_scale};
  if (keys.engine) choice.engine_at = config_place(node, "engine");
  const bool is_set = strcmp(keys.name, FITTED) != 0 && strcmp(keys.name, ROOFLINE) != 0 &&
                      !datafile_is_path(keys.name);
  if (is_set && check_set(self, keys.name, map ? config_place(node, "name") : node->at, diag))
    return -1;
  if (keys.insist && !datafile_is_path(keys.name))
    return diag_error(diag, config_place(node, "insist"),
                      "'insist' applies to the path of a file, not to '%s'", keys.name);
  if (map && strcmp(keys.name, FITTED) != 0 && check_unmeasured(node, keys.name, diag)) return -1;
  choice.other_weights = map && node_find(node, "weights");
  choice.other_kv_cache = map && node_find(node, "kv_cache");
  if (strcmp(keys.name, ROOFLINE) == 0) {
    const Place at = map ? config_place(node, "preset") : node->at;
    choice.engine = load_preset(self, keys.preset, at, arena, diag);
    if (!choice.engine) return -1;
    choice.all_reduce_scale = keys.all_reduce_scale;
    choice.captured = keys.captured_batch_sizes;
    CapturedSizes sizes; // bound again with the model, which outlives this configuration
    if (choice.captured && captured_bind(&sizes, choice.captured, arena, diag)) return -1;
  } else if (map && check_measured(node, keys.name, diag)) {
    return -1;
  }
  *ret_choice = choice;
  return 0;
}

/* A performance model to load: what it is made of. */
typedef struct PerfModelParts {
  const Config *config;
  const Llm *model;
  const PerfModelChoice *choice;
  const EngineChoice *engine;
  PerfSetup setup;
  const Hardware *hardware;
  Parallelism degrees;
  int64_t max_decode_seqs;
  Place at;
} PerfModelParts;

/* What 'fitted' looks for. Of an engine that the pool names, too, it is the version that is nearest
 * to the pool's. */
static PerfSetup wanted(const PerfModelParts *parts, Arena *arena) {
  const PerfModelChoice *choice = parts->choice;
  const Llm *model = parts->model;
  const ServingEngine *serving = serving_at(parts->engine->row);
  PerfSetup pool = {.engine = ENGINE_DEFAULT};
  if (serving) setup_parse_folder(&pool, serving->name, arena);
  PerfSetup setup = choice->measured;
  if (!setup.engine) setup.engine = pool.engine;
  if (!setup.engine_version && strcmp(setup.engine, pool.engine) == 0)
    setup.engine_version = pool.engine_version;
  setup.model = model->name;
  setup.gpu = parts->hardware->gpu;
  if (!choice->other_weights) setup.weight_dtype = (int)llm_quantization(model);
  if (!choice->other_kv_cache) setup.kv_cache_dtype = model->kv_cache_dtype;
  setup.tensor_parallel_size = parts->degrees.tensor;
  setup.attention_data_parallel_size = parts->degrees.attention;
  setup.expert_parallel_size = parts->degrees.expert;
  return setup;
}

/* An engine that is named must have times of something. */
static int check_engine(const PerfModelChoice *choice, const char *data_dir, Diag *diag) {
  const char *engine = choice->measured.engine;
  if (!engine) return 0;
  const char *const *engines = finder_engines(data_dir, &diag->arena);
  for (int i = 0; engines[i]; i++)
    if (strcmp(engines[i], engine) == 0) return 0;
  diag_error(diag, choice->engine_at, "there are no iteration times for an engine '%s'", engine);
  diag_hint_near(diag, engine, engines);
  return -1;
}

/* Whether a file is of the pool's model, by Tandem's name or a checkpoint's. */
static bool is_of_model(const char *there, const PerfModelParts *parts, Arena *arena) {
  const Llm *model = parts->model;
  const char *checkpoint = model->checkpoint ? model->checkpoint : model->name;
  const char *slash = strrchr(checkpoint, '/');
  const char *known = llm_name_of(there, parts->config->perfmodel_root, arena);
  return strcmp(there, model->name) == 0 || strcmp(there, checkpoint) == 0 ||
         (slash && strcmp(there, slash + 1) == 0) || (known && strcmp(known, model->name) == 0);
}

/* "tensor_parallel_size 2 for 8, GPU h100-80gb for h200-141gb": what a file is of for what is
 * asked; empty: it is of that. */
static const char *mismatch(const PerfModel *model, const PerfModelParts *parts, Arena *arena) {
  const PerfSetup *there = &model->setup, *asked = &parts->setup;
  const struct {
    const char *what;
    int64_t there, asked;
  } degrees[] = {
      {"tensor_parallel_size", there->tensor_parallel_size, asked->tensor_parallel_size},
      {"attention_data_parallel_size", there->attention_data_parallel_size,
       asked->attention_data_parallel_size},
      {"expert_parallel_size", there->expert_parallel_size, asked->expert_parallel_size}};
  const struct {
    const char *what, *there, *asked;
  } names[] = {{"model", is_of_model(there->model, parts, arena) ? asked->model : there->model,
                asked->model},
               {"GPU", there->gpu, asked->gpu},
               {"weights in", dtype_names[there->weight_dtype],
                dtype_names[model->says_weights ? asked->weight_dtype : there->weight_dtype]},
               {"KV cache in", dtype_names[there->kv_cache_dtype],
                dtype_names[model->says_kv_cache ? asked->kv_cache_dtype : there->kv_cache_dtype]}};
  const char *text = "";
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i].there, names[i].asked) != 0)
      text = arena_printf(arena, "%s%s%s %s for %s", text, *text ? ", " : "", names[i].what,
                          names[i].there, names[i].asked);
  for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++) {
    const int64_t has = degrees[i].there > 1 ? degrees[i].there : 1;
    const int64_t wants = degrees[i].asked > 1 ? degrees[i].asked : 1;
    if (has != wants)
      text = arena_printf(arena, "%s%s%s %" PRId64 " for %" PRId64, text, *text ? ", " : "",
                          degrees[i].what, has, wants);
  }
  return text;
}

/* Whether a file that was named by its path may stand for the pool. */
static int check_file(PerfModel *self, const PerfModelParts *parts, Arena *arena, Diag *diag) {
  const char *name = parts->choice->name, *other = mismatch(self, parts, arena);
  const bool unsaid = !self->says_weights || !self->says_kv_cache;
  if (*other && !parts->choice->insist) {
    diag_error(diag, parts->at, "the times of '%s' belong to another setup: %s", name, other);
    diag_hint(diag, "'perfmodel: {name: %s, insist: true}' uses them nevertheless", name);
    return -1;
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

static int load_measured(PerfModel *self, const PerfModelParts *parts, Arena *arena, Diag *diag) {
  const PerfSetup *setup = &parts->setup;
  const char *data_dir = parts->config->perfmodel_root;
  if (check_engine(parts->choice, data_dir, diag)) return -1;
  if (strcmp(parts->choice->name, FITTED) == 0)
    return perfmodel_load_nearest(self, setup, !parts->choice->measured.engine,
                                  parts->max_decode_seqs, data_dir, parts->at, arena, diag);
  if (perfmodel_load_for(self, parts->choice->name, setup->model, setup->gpu,
                         setup->tensor_parallel_size, parts->max_decode_seqs, data_dir, parts->at,
                         arena, diag))
    return -1;
  return datafile_is_path(parts->choice->name) ? check_file(self, parts, arena, diag) : 0;
}

static double spread_share(const void *context, double tokens) {
  return roofline_spread_share(context, tokens);
}

/* Measured times of attention data parallelism are of ranks that are equally busy. What of `linear`
 * is spread over all of them, whoever's the tokens, is told apart by the share that it has on a
 * roofline. */
static void spread_linear(PerfModel *self, const PerfModelParts *parts, Arena *arena) {
  static const EnginePreset ideal = {.name = "ideal"};
  if (self->ranks <= 1 || self->form != PERF_COMPOSED) return;
  Roofline roofline;
  roofline_init(&roofline, parts->model, parts->hardware, parts->degrees, &ideal, arena);
  perfmodel_spread(self, spread_share, &roofline, arena);
}

static int make_roofline(PerfModel *self, const PerfModelParts *parts, Arena *arena, Diag *diag) {
  const PerfModelChoice *choice = parts->choice;
  const Llm *model = parts->model;
  const Parallelism degrees = parts->degrees;
  if (hardware_check_split(model, parts->hardware, degrees, parts->at, diag)) return -1;
  Roofline roofline;
  roofline_init(&roofline, model, parts->hardware, degrees, choice->engine, arena);
  roofline_scale_all_reduces(&roofline, choice->all_reduce_scale);
  if (choice->captured && captured_bind(&roofline.captured, choice->captured, arena, diag))
    return -1;
  roofline_compile(&roofline, self, parts->max_decode_seqs, arena);
  return 0;
}

/* Whole iterations, as the sets have them and logs of an engine, and rooflines with a preset have
 * their host in them. */
static int add_host(PerfModel *self, const PerfModelParts *parts, Arena *arena, Diag *diag) {
  const EngineTimes *times = &parts->engine->times;
  const HostTime host = {.per_iteration = times->iteration_time,
                         .per_sequence = times->sequence_time,
                         .eager = times->eager_layer_time * parts->model->num_hidden_layers,
                         .graph_tokens = times->graph_tokens};
  if (host.per_iteration + host.per_sequence + host.eager == 0) return 0;
  const bool kernels_alone = self->setup.engine && !self->host_inside;
  if (!kernels_alone && !parts->engine->says_times) return 0;
  if (self->form != PERF_COMPOSED)
    return diag_error(diag, parts->at,
                      "iteration times of the form 'splitwise-sim' include the host time");
  perfmodel_add_host(self, &host, arena);
  return 0;
}

const double config_moves[MOVES] = {-1, 1};

/* Of all that the model says, before its host is added. */
static void scale_times(PerfModel *self, const PerfModelChoice *choice, Arena *arena) {
  const double error = isnan(self->held_out_error) ? 0 : self->held_out_error;
  const double scale = choice->time_scale * (1 + choice->error_shift * error);
  perfmodel_scale(self, fmin(fmax(scale, TIME_SCALE_MIN), TIME_SCALE_MAX), arena);
}

static const void *load_perfmodel(const void *context, Arena *arena, Diag *diag) {
  const PerfModelParts *parts = context;
  PerfModel *perfmodel = ARENA_NEW(arena, PerfModel);
  const int status = parts->choice->engine ? make_roofline(perfmodel, parts, arena, diag)
                                           : load_measured(perfmodel, parts, arena, diag);
  if (status) return NULL;
  if (!parts->choice->engine) spread_linear(perfmodel, parts, arena);
  scale_times(perfmodel, parts->choice, arena);
  return add_host(perfmodel, parts, arena, diag) ? NULL : perfmodel;
}

static const char PERFMODEL_KEY[] = "perfmodel ";

const PerfModel *config_load_perfmodel(const Config *self, const Llm *model,
                                       const PerfModelChoice *choice, const EngineChoice *engine,
                                       const Hardware *hardware, Parallelism degrees,
                                       int64_t max_decode_seqs, Place at, Arena *arena,
                                       Diag *diag) {
  PerfModelParts parts = {.config = self,
                          .model = model,
                          .choice = choice,
                          .engine = engine,
                          .hardware = hardware,
                          .degrees = degrees,
                          .max_decode_seqs = max_decode_seqs,
                          .at = at};
  parts.setup = wanted(&parts, arena);
  const PerfSetup *setup = &parts.setup;
  // A name that came out of a file stands for the file: each was loaded with its own.
  const EngineTimes *times = &engine->times;
  const char *key = arena_printf(
      arena,
      "%s%s%s of %s %s %s times %.17g %.17g engine %p all_reduce %.17g model %p machine "
      "%p pp %" PRId64 " seqs %" PRId64 " captured %s host %" PRId64 " %" PRId64 " %" PRId64
      " %" PRId64 " %d",
      PERFMODEL_KEY, choice->insist ? "insisted on " : "", choice->name, setup_name(setup, arena),
      setup->engine, setup->engine_version ? setup->engine_version : "any", choice->time_scale,
      choice->error_shift, (const void *)choice->engine, choice->all_reduce_scale,
      (const void *)model->name, (const void *)hardware->name, degrees.pipeline, max_decode_seqs,
      choice->captured ? node_text(choice->captured, arena) : "none", times->iteration_time,
      times->sequence_time, times->eager_layer_time, times->graph_tokens, engine->says_times);
  return config_cache_get(self->cache, key, load_perfmodel, &parts, diag);
}

void config_note_perfmodels(ConfigCache *cache, FILE *out) {
  Arena arena;
  arena_init(&arena);
  const void *const *models = config_cache_all(cache, PERFMODEL_KEY, &arena);
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
