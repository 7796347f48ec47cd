/* What an engine's host and its kernels take beside the operators of a roofline. Two are of no
 * engine and stand here; those of engines are in the table of host times (host_times.def), and any
 * other is a file. Fitted models have what they were measured of. */
#ifndef PERFMODEL_PRESETS_H
#define PERFMODEL_PRESETS_H
#include "base/option.h"
#include "base/units.h"

typedef struct EnginePreset {
  const char *name;       // or the stem of its file
  Tick per_iteration;     // whatever the model
  Tick per_layer;         // for each layer of the iteration
  Tick kernels_per_layer; // what its kernels take beyond their roofline: measured ones have it
  Tick per_sequence;      // for each sequence that needs logits
} EnginePreset;

/* Floors of norms, activations and attention: README.md, "Summed kernels against measured engines".
 */
#define PRESET_KERNELS_PER_LAYER (45 * (TICKS_PER_SECOND / 1000000))

/* Nothing: below every engine's time. */
extern const EnginePreset preset_ideal;
/* The floors of kernels, and no host: an engine that replays its layers as graphs. */
extern const EnginePreset preset_graph_engine;

extern const OptionSpec preset_options[]; // keys of a file

/* The preset of this name, NULL if there is none, and in `ret_engine` (may be NULL) the engine that
 * it is of, NULL if it is of none. */
const EnginePreset *preset_find(const char *name, const char **ret_engine);
const char *const *preset_names(Arena *arena); // NULL-terminated

int preset_load(EnginePreset *self, const char *path, Arena *arena, Diag *diag);
#endif
