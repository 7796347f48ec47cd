/* Serving engines as rows (engines.def): the batcher, KV memory and defaults of a release at once.
 * Whatever a configuration says beside an engine overrides it. Some defaults hang on the machine:
 * they are known once a pool's hardware is, so each pool binds a batcher of its own, and sim/ sees
 * numbers alone. */
#ifndef EXPERIMENTS_CONFIG_SERVING_H
#define EXPERIMENTS_CONFIG_SERVING_H
#include "base/option.h"
#include "perfmodel/hardware.h"
#include "perfmodel/host_time.h"
#include "sim/core/instance.h"
#include "sim/policy.h"

/* What an iteration may hold on some GPUs. */
typedef struct ServingLimits {
  double gpu_memory_gib; // on GPUs with at least so much memory
  const char *but_not;   // and without this in their name; NULL: all of them
  int64_t max_num_batched_tokens, max_num_seqs;
  int64_t graph_seqs[2]; // of its largest CUDA graph, on fewer than 4 GPUs and on more
} ServingLimits;

enum { SERVING_LIMITS_MAX = 5 };

/* What an engine keeps free of weights and KV on a GPU, in MiB. */
typedef struct ServingReserve {
  double base, per_batched_token, per_gpu;
  int64_t least_tokens; // batched tokens that count at least; on decode pools these alone
  double per_graph_seq; // not on prefill pools
  double per_graph_seq_of_rank[2]; // of several attention ranks: up to 300 sequences, beyond
  double least, least_above;       // on GPUs with more memory than that
} ServingReserve;

typedef struct ServingEngine {
  const char *name, *help;
  const char *source;  // of its defaults
  const char *batcher; // its name
  const char *options; // of the batcher beside the limits, a map in flow form; NULL: its defaults
  double gpu_memory_utilization; // 0: what `reserve` leaves
  const ServingReserve *reserve;
  bool of_free; // it is of what weights and activations leave (KvOptions)
  int64_t block_size;
  ServingLimits
      limits[SERVING_LIMITS_MAX];   // the first that suits; the last one here suits all GPUs
  bool whole_prompts;               // max_num_batched_tokens is at least the model's context
  bool divides_tokens;              // attention ranks share max_num_batched_tokens of `limits`
  bool is_the_batcher;              // the batcher without an engine has these limits too
  bool swaps;                       // its tier may move KV to CPU memory
  const char *captured_batch_sizes; // the word for them (perfmodel/captured.h); NULL: none
} ServingEngine;

/* The value of a key `engine`: a name, or a map of it and times. */
typedef struct EngineChoice {
  int row;        // as for serving_at
  HostTimes said; // HOST_UNSAID: as the table of host times has it
} EngineChoice;

extern const OptionSpec config_engine_options[];
/* Its next row that is a time, NULL at the end, the first after NULL; what `times` have there. */
const OptionSpec *serving_next_time(const OptionSpec *row);
Tick serving_time(const HostTimes *times, const OptionSpec *row);
/* Whether the configuration gives times of iterations: they are then added to any. */
bool serving_says_times(const HostTimes *said);
/* Until a request reaches the router. */
Tick serving_request_time(const EngineChoice *choice);
/* `choice` is as it is without the node, which may be NULL. */
int serving_bind(EngineChoice *choice, const Node *node, Diag *diag);

/* For OPTION_CHOICE: "none", then the engines in order, NULL-terminated. */
extern const char *const serving_choices[];
/* The engine of a choice; NULL for none, and past the last. */
const ServingEngine *serving_at(int choice);
/* What holds on this GPU; NULL: on the one with the most. */
const ServingLimits *serving_limits(const ServingEngine *self, const Hardware *hardware);

/* An instance whose memory is divided. */
typedef struct ServingSite {
  const Hardware *hardware;
  Parallelism degrees;
  Role role;
  int64_t max_num_batched_tokens, max_num_seqs;
} ServingSite;

/* The engine's gpu_memory_utilization there. */
double serving_memory(const ServingEngine *self, const ServingSite *site);

/* A batcher as it is written, to be completed. */
typedef struct ServingUse {
  const ServingEngine *engine; // NULL: none
  const Hardware *hardware;    // NULL: not known yet; limits are then the largest
  int64_t max_model_len;       // 0: none
  int64_t ranks;               // that do attention; 0: not known yet, or 1
  Place at;                    // where the engine is named
} ServingUse;

/* The batcher as written, with what its giver has and it lacks, in `ret`. `ret_given` is what was
 * added, "key value, …", empty if nothing; NULL when that does not matter. */
int serving_bind_batcher(const ServingUse *use, const Node *written, PolicyChoice *ret,
                         const char **ret_given, Arena *arena, Diag *diag);
#endif
