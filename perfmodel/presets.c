/* Presets: four times each. */
#include "perfmodel/presets.h"
#include "perfmodel/datafile.h"

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

int preset_load(EnginePreset *self, const char *path, Arena *arena, Diag *diag) {
  const Node *root = yaml_load(path, arena, diag);
  EnginePreset preset = {.name = datafile_stem(path, arena)};
  if (!root || option_bind(preset_options, root, NULL, root->at, &preset, diag)) return -1;
  *self = preset;
  return 0;
}
