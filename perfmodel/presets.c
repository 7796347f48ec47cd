/* Engine presets: four times each, from a file. */
#include "perfmodel/presets.h"
#include "perfmodel/datafile.h"

#define TIME(field, ...)                                                                           \
  {                                                                                                \
    .key = #field, .type = OPTION_TICKS, .offset = offsetof(EnginePreset, field),                  \
    .fallback = "0 s", .max = 10, __VA_ARGS__                                                      \
  }

const OptionSpec preset_options[] = {
    TIME(per_iteration, .help = "Host time added to each iteration."),
    TIME(per_layer, .help = "Host time added for each layer of an iteration."),
    TIME(kernels_per_layer, .help = "Time added for each layer beyond the roofline of its kernels. "
                                    "Measured kernels include it."),
    TIME(per_sequence, .help = "Host time added for each sequence that needs logits."),
    {0}};

int preset_load(EnginePreset *self, const char *name, const char *data_dir, Place at, Arena *arena,
                Diag *diag) {
  const char *path = datafile_resolve(data_dir, "presets", "preset", name, at, arena, diag);
  if (!path) return -1;
  const Node *root = yaml_load(path, arena, diag);
  EnginePreset preset = {.name = datafile_stem(path, arena)};
  if (!root || option_bind(preset_options, root, NULL, root->at, &preset, diag)) return -1;
  *self = preset;
  return 0;
}
