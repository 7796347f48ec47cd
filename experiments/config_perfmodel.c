/* The `perfmodel:` key, of the run, a pool or the reference machine: where iteration times come
 * from. A name or path, or {name: …, preset: …}. */
#include "experiments/config.h"
#include "perfmodel/datafile.h"
#include "perfmodel/roofline.h"
#include <string.h>

static const char ROOFLINE[] = "roofline";

typedef struct PerfModelKeys {
  const char *name, *preset;
} PerfModelKeys;

#define KEY(field, ...)                                                                            \
  { .key = #field, .type = OPTION_STRING, .offset = offsetof(PerfModelKeys, field), __VA_ARGS__ }

const OptionSpec config_perfmodel_options[] = {
    KEY(name, .fallback = "fitted",
        .help = "a set: fitted, splitwise-sim or roofline; or the path of a model file"),
    KEY(preset,
        .help = "engine of a roofline: ideal, graph-engine (if absent), eager-2023, a path"),
    {0}};

static const EnginePreset *load_preset(const Config *self, const char *written, Place at,
                                       Arena *arena, Diag *diag) {
  EnginePreset *preset = ARENA_NEW(arena, EnginePreset);
  const char *name = config_data_name(self, written ? written : "graph-engine", arena);
  return preset_load(preset, name, self->perfmodel_root, at, arena, diag) ? NULL : preset;
}

int config_bind_perfmodel(const Config *self, const Node *node, PerfModelChoice *ret_choice,
                          Arena *arena, Diag *diag) {
  static const OptionSpec bare = {.key = "perfmodel", .type = OPTION_STRING};
  PerfModelKeys keys = {.name = "fitted"};
  const bool map = node && node->kind == NODE_MAP;
  if (map && option_bind(config_perfmodel_options, node, NULL, node->at, &keys, diag)) return -1;
  if (node && !map && option_bind_one(&bare, node, &keys.name, diag)) return -1;
  PerfModelChoice choice = {.name = config_data_name(self, keys.name, arena)};
  if (strcmp(keys.name, ROOFLINE) == 0) {
    const Place at = map ? config_place(node, "preset") : node->at;
    choice.engine = load_preset(self, keys.preset, at, arena, diag);
    if (!choice.engine) return -1;
  } else if (keys.preset) {
    return diag_error(diag, config_place(node, "preset"),
                      "'preset' is for '%s': the times of '%s' have their engine in them", ROOFLINE,
                      keys.name);
  }
  *ret_choice = choice;
  return 0;
}

const PerfModel *config_load_perfmodel(const Config *self, const PerfModelChoice *choice,
                                       const Hardware *hardware, int64_t tensor_parallel_size,
                                       int64_t max_decode_seqs, Place at, Arena *arena,
                                       Diag *diag) {
  PerfModel *perfmodel = ARENA_NEW(arena, PerfModel);
  if (!choice->engine)
    return perfmodel_load_for(perfmodel, choice->name, self->model.name, hardware->gpu,
                              tensor_parallel_size, max_decode_seqs, self->perfmodel_root, at,
                              arena, diag)
               ? NULL
               : perfmodel;
  if (hardware_check_split(&self->model, hardware, tensor_parallel_size, at, diag)) return NULL;
  Roofline roofline;
  roofline_init(&roofline, &self->model, hardware, tensor_parallel_size, 1, choice->engine, arena);
  roofline_compile(&roofline, perfmodel, max_decode_seqs, arena);
  return perfmodel;
}
