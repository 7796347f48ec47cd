/* The `perfmodel:` key, of the run, a pool or the reference machine: where iteration times come
 * from. A name or path, or {name: …, preset: …}. */
#include "experiments/config/config.h"
#include "perfmodel/datafile.h"
#include "perfmodel/roofline.h"
#include <inttypes.h>
#include <string.h>

static const char ROOFLINE[] = "roofline";

typedef struct PerfModelKeys {
  const char *name, *preset;
  double all_reduce_scale;
  const Node *captured_batch_sizes;
} PerfModelKeys;

#define KEY(field, kind, ...)                                                                      \
  { .key = #field, .type = kind, .offset = offsetof(PerfModelKeys, field), __VA_ARGS__ }

const OptionSpec config_perfmodel_options[] = {
    KEY(name, OPTION_STRING, .fallback = "fitted",
        .help = "a set: fitted, splitwise-sim or roofline; or the path of a model file"),
    KEY(preset, OPTION_STRING,
        .help = "engine of a roofline: ideal, graph-engine (if absent), eager-2023, a path"),
    KEY(all_reduce_scale, OPTION_REAL, .fallback = "1", .min = 1e-6, .max = 1e6,
        .help = "of a roofline: what the bandwidth of all-reduces is multiplied by"),
    KEY(captured_batch_sizes, OPTION_NODE,
        .help = "of a roofline: what decodes alone are padded to, a list or the word of an engine"),
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

/* Keys that are for rooflines alone. */
static int check_measured(const Node *node, const char *name, Diag *diag) {
  static const char *const keys[] = {"preset", "all_reduce_scale"};
  int status = 0;
  for (int i = 0; i < 2; i++)
    if (node_find(node, keys[i]))
      status = diag_error(diag, config_place(node, keys[i]),
                          "'%s' is for '%s': the times of '%s' have their engine and its "
                          "all-reduces in them",
                          keys[i], ROOFLINE, name);
  const Node *captured = node_find(node, "captured_batch_sizes");
  if (captured)
    status = diag_error(diag, captured->key_at,
                        "'%s' is for '%s' here: of '%s' it is a key of the model's own file",
                        captured->key, ROOFLINE, name);
  return status;
}

int config_bind_perfmodel(const Config *self, const Node *node, PerfModelChoice *ret_choice,
                          Arena *arena, Diag *diag) {
  static const OptionSpec bare = {.key = "perfmodel", .type = OPTION_STRING};
  PerfModelKeys keys = {.name = "fitted", .all_reduce_scale = 1};
  const bool map = node && node->kind == NODE_MAP;
  if (map && option_bind(config_perfmodel_options, node, NULL, node->at, &keys, diag)) return -1;
  if (node && !map && option_bind_one(&bare, node, &keys.name, diag)) return -1;
  PerfModelChoice choice = {.name = config_data_name(self, keys.name, arena)};
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
  const PerfModelChoice *choice;
  const Hardware *hardware;
  Parallelism degrees;
  int64_t max_decode_seqs;
  Place at;
} PerfModelParts;

static const void *load_perfmodel(const void *context, Arena *arena, Diag *diag) {
  const PerfModelParts *parts = context;
  const Config *config = parts->config;
  const Hardware *hardware = parts->hardware;
  const EnginePreset *engine = parts->choice->engine;
  const int64_t tp = parts->degrees.tensor;
  PerfModel *perfmodel = ARENA_NEW(arena, PerfModel);
  if (!engine)
    return perfmodel_load_for(perfmodel, parts->choice->name, config->model.name, hardware->gpu, tp,
                              parts->max_decode_seqs, config->perfmodel_root, parts->at, arena,
                              diag)
               ? NULL
               : perfmodel;
  if (hardware_check_split(&config->model, hardware, parts->degrees, parts->at, diag)) return NULL;
  Roofline roofline;
  roofline_init(&roofline, &config->model, hardware, parts->degrees, engine, arena);
  roofline_scale_all_reduces(&roofline, parts->choice->all_reduce_scale);
  const Node *captured = parts->choice->captured;
  if (captured && captured_bind(&roofline.captured, captured, arena, diag)) return NULL;
  roofline_compile(&roofline, perfmodel, parts->max_decode_seqs, arena);
  return perfmodel;
}

const PerfModel *config_load_perfmodel(const Config *self, const PerfModelChoice *choice,
                                       const Hardware *hardware, Parallelism degrees,
                                       int64_t max_decode_seqs, Place at, Arena *arena,
                                       Diag *diag) {
  const PerfModelParts parts = {self, choice, hardware, degrees, max_decode_seqs, at};
  // A name that came out of a file stands for the file: each was loaded with its own.
  const char *key =
      arena_printf(arena,
                   "perfmodel %s engine %p all_reduce %.17g model %p machine %p tp %" PRId64
                   " pp %" PRId64 " seqs %" PRId64 " captured %s",
                   choice->name, (const void *)choice->engine, choice->all_reduce_scale,
                   (const void *)self->model.name, (const void *)hardware->name, degrees.tensor,
                   degrees.pipeline, max_decode_seqs,
                   choice->captured ? node_text(choice->captured, arena) : "none");
  return config_cache_get(self->cache, key, load_perfmodel, &parts, diag);
}
