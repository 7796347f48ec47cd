/* Serving engines as rows (engines.def): the batcher, KV memory and defaults of a release at once.
 * Whatever a configuration says beside an engine overrides it. Some defaults hang on the machine:
 * they are known once a pool's hardware is, so each pool binds a batcher of its own, and sim/ sees
 * numbers alone. */
#ifndef EXPERIMENTS_CONFIG_SERVING_H
#define EXPERIMENTS_CONFIG_SERVING_H
#include "base/option.h"
#include "perfmodel/hardware.h"
#include "perfmodel/presets.h"
#include "sim/policy.h"

/* What an iteration may hold on some GPUs. */
typedef struct ServingLimits {
  double gpu_memory_gib; // on GPUs with at least so much memory
  const char *but_not;   // and without this in their name; NULL: all of them
  int64_t max_num_batched_tokens, max_num_seqs;
} ServingLimits;

enum { SERVING_LIMITS_MAX = 3 };

/* What the host of an engine takes; 0: nothing. */
typedef struct EngineTimes {
  Tick iteration_time, sequence_time; // of each iteration, and of each sequence with logits in it
  Tick eager_layer_time; // at least, of a layer of an iteration with prefill that is in no graph
  int64_t graph_tokens;  // of an iteration with prefill that is in one, at most
  Tick request_time;     // until the scheduler has a request: server, tokenizer
} EngineTimes;

typedef struct ServingEngine {
  const char *name, *help;
  const char *source;  // of its defaults
  const char *batcher; // its name
  const char *options; // of the batcher beside the limits, a map in flow form; NULL: its defaults
  double gpu_memory_utilization;
  bool of_free; // it is of what weights and activations leave (KvOptions)
  int64_t block_size;
  ServingLimits
      limits[SERVING_LIMITS_MAX];   // the first that suits; the last one here suits all GPUs
  bool whole_prompts;               // max_num_batched_tokens is at least the model's context
  bool is_the_batcher;              // the batcher without an engine has these limits too
  bool swaps;                       // its tier may move KV to CPU memory
  const char *captured_batch_sizes; // the word for them (perfmodel/captured.h); NULL: none
  EngineTimes times;                // of its host beside measured times of its kernels
  EnginePreset preset;              // the same beside a roofline, by a name; NULL: none
} ServingEngine;

/* The value of a key `engine`: a name, or a map of it and times. */
typedef struct EngineChoice {
  int row; // as for serving_at
  EngineTimes times;
  bool says_times; // itself: then they are of whatever gives the times of iterations
} EngineChoice;

extern const OptionSpec config_engine_options[];
/* Its next row that is a time, NULL at the end, the first after NULL; what `times` have there. */
const OptionSpec *serving_next_time(const OptionSpec *row);
Tick serving_time(const EngineTimes *times, const OptionSpec *row);
/* `choice` is as it is without the node, which may be NULL. */
int serving_bind(EngineChoice *choice, const Node *node, Diag *diag);

/* For OPTION_CHOICE: "none", then the engines in order, NULL-terminated. */
extern const char *const serving_choices[];
/* The engine of a choice; NULL for none, and past the last. */
const ServingEngine *serving_at(int choice);
/* The preset of this name, NULL if there is none, and the engine that has it, NULL if none has. */
const EnginePreset *serving_preset(const char *name, const ServingEngine **ret_engine);
const char *const *serving_presets(Arena *arena); // all names, NULL-terminated
/* What holds on this GPU; NULL: on the one with the most. */
const ServingLimits *serving_limits(const ServingEngine *self, const Hardware *hardware);

/* A batcher as it is written, to be completed. */
typedef struct ServingUse {
  const ServingEngine *engine; // NULL: none
  const Hardware *hardware;    // NULL: not known yet; limits are then the largest
  int64_t max_model_len;       // 0: none
  Place at;                    // where the engine is named
} ServingUse;

/* The batcher as written, with what its giver has and it lacks, in `ret`. `ret_given` is what was
 * added, "key value, …", empty if nothing; NULL when that does not matter. */
int serving_bind_batcher(const ServingUse *use, const Node *written, PolicyChoice *ret,
                         const char **ret_given, Arena *arena, Diag *diag);
#endif
