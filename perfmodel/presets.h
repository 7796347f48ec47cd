/* What a serving engine adds to its kernels' time (perfmodel/presets/NAME.yaml, with the evidence),
 * for the roofline models. Fitted models have their engine in the data. */
#ifndef PERFMODEL_PRESETS_H
#define PERFMODEL_PRESETS_H
#include "base/option.h"
#include "base/units.h"

typedef struct EnginePreset {
  const char *name;       // ideal, graph-engine, eager-2023, or the stem of a user's file
  Tick per_iteration;     // whatever the model
  Tick per_layer;         // for each layer of the iteration
  Tick kernels_per_layer; // what its kernels take beyond their roofline: measured ones have it
  Tick per_sequence;      // for each sequence that needs logits
} EnginePreset;

extern const OptionSpec preset_options[]; // keys of its file

/* `name` is a preset of `data_dir`/presets/ or the path of a .yaml file. */
int preset_load(EnginePreset *self, const char *name, const char *data_dir, Place at, Arena *arena,
                Diag *diag);
#endif
