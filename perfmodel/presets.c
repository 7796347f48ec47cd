/* Presets: four times each. */
#include "perfmodel/presets.h"
#include "perfmodel/datafile.h"
#include "perfmodel/host_time.h"
#include <string.h>

#define TIME(field, ...)                                                                           \
  OPTION_OF(EnginePreset, field, OPTION_TICKS, .fallback = "0 s", .max = 10, __VA_ARGS__)

const OptionSpec preset_options[] = {
    TIME(per_iteration, .help = "Host time added to each iteration."),
    TIME(per_layer, .help = "Host time added for each layer of an iteration."),
    TIME(kernels_per_layer, .help = "Time added for each layer beyond the roofline of its kernels. "
                                    "Measured kernels include it."),
    TIME(per_sequence, .help = "Host time added for each sequence that needs logits."),
    {0}};

const EnginePreset preset_ideal = {.name = "ideal"};
const EnginePreset preset_graph_engine = {.name = "graph-engine",
                                          .kernels_per_layer = PRESET_KERNELS_PER_LAYER};

/* The i-th: first those of no engine; NULL past the last. A row of host times may have none. */
static const EnginePreset *preset_at(int i, const char **ret_engine) {
  static const EnginePreset *const plain[] = {&preset_ideal, &preset_graph_engine};
  enum { N_PLAIN = sizeof plain / sizeof *plain };
  const HostRow *row = i < N_PLAIN ? NULL : host_row_at(i - N_PLAIN);
  *ret_engine = row ? row->engine : NULL;
  return i < N_PLAIN ? plain[i] : row ? &row->preset : NULL;
}

const EnginePreset *preset_find(const char *name, const char **ret_engine) {
  const EnginePreset *preset;
  const char *engine;
  for (int i = 0; (preset = preset_at(i, &engine)); i++)
    if (preset->name && strcmp(preset->name, name) == 0) break;
  if (ret_engine) *ret_engine = engine;
  return preset;
}

const char *const *preset_names(Arena *arena) {
  const EnginePreset *preset;
  const char *engine, **names = NULL;
  size_t n = 0, capacity = 0;
  for (int i = 0; (preset = preset_at(i, &engine)); i++) {
    ARENA_RESERVE(arena, names, capacity, n + 2);
    if (preset->name) names[n++] = preset->name;
  }
  names[n] = NULL;
  return names;
}

int preset_load(EnginePreset *self, const char *path, Arena *arena, Diag *diag) {
  const Node *root = yaml_load(path, arena, diag);
  EnginePreset preset = {.name = datafile_stem(path, arena)};
  if (!root || option_bind(preset_options, root, NULL, root->at, &preset, diag)) return -1;
  *self = preset;
  return 0;
}
