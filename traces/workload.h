/* The `workload:` block of a configuration, and opening it as a source of requests.
 *
 * Two kinds. Replay: `trace: FILE` with `format` (auto by default), `columns` (names or numbers of
 * those of a table or of JSON keys, where no format has them so), `time` (how times are written),
 * `sort` (the file is held, and read in order of time), `start` and `duration` (crop,
 * in the trace's own time, before scaling; times then count from `start`), `rate` (rescale time so
 * that the mean rate of the crop is this) or `rate_scale` (multiply the rate), `loop` (how often
 * the crop is repeated, each pass following the last after one mean gap), `requests` (stop after so
 * many); or `windows`, starts of parts that are `window` long and are played one after the other.
 * Synthetic: `lengths` (a table of traces/lengths/ by name, the path of such a CSV, or a map
 * of distributions), `arrivals`, `correlation`, `max_model_len`, `seed`, `duration` or `requests`.
 * `duration` of a synthetic source is when arrivals end, not when the run ends; with `auto` nobody
 * knows yet (WorkloadConfig.automatic). Its requests share
 * tokens where `system_prompts` or `documents` are given (traces/sharing.h); those of a replay
 * where the trace names blocks (traces/json_rows.h): the same in every pass, so that the second
 * finds what the first left.
 *
 * Both may have `priorities`, and go through `closed_loop`, where clients wait for answers: the
 * times of a trace are not used then, and a synthetic source may do without `arrivals`. With
 * `sessions` a synthetic source is of their first turns; `requests` are those of all turns, and
 * clients have a session each.
 *
 * Or a mix of such blocks, `mix: [{name: code, lengths: …, arrivals: …}, …]`, each a component:
 * their rows in order of time, each with the index of its component. */
#ifndef TRACES_WORKLOAD_H
#define TRACES_WORKLOAD_H
#include "base/option.h"
#include "traces/arrivals.h"
#include "traces/closed_loop.h"
#include "traces/images.h"
#include "traces/layout.h"
#include "traces/lengths.h"
#include "traces/patience.h"
#include "traces/priorities.h"
#include "traces/sessions.h"
#include "traces/sharing.h"
#include "traces/trace.h"
#include <stdbool.h>

typedef struct WorkloadConfig {
  const char *trace;    // path, NULL when synthetic
  TraceReading reading; // of the trace
  Tick start;           // crop
  Tick duration;        // 0: to the end
  const Tick *windows;  // [n_windows] starts in the trace, in place of both; NULL: none
  int n_windows;
  Tick window;       // how long each lasts
  double rate;       // requests per second; 0: as the trace has it
  double rate_scale; // 1: as the trace has it
  int64_t loop;      // passes, at least 1
  int64_t requests;  // 0: no limit
  bool automatic;    // whoever opens it sets `requests`, as many as are needed
  ArrivalProcess arrivals;
  double cv;
  ArrivalPattern pattern; // of arrivals whose rate changes
  LengthDistribution prompt, output;
  double correlation;    // rank correlation of prompt and output in (-1, 1); 0: independent
  int64_t max_model_len; // prompt and output together are cut to this; 0: no limit
  int64_t max_tokens;    // of rows that have none; 0: the rest of the context
  bool ignore_eos;       // each ends by max_tokens, its output tokens
  int64_t seed;          // of arrivals and lengths; -1: the run's
  int64_t context;       // of the model that serves it, where sessions end, too; 0: none
  SharedTexts system_prompts, documents; // that prompts begin with
  ImagesConfig images;                   // behind those
  Place images_at;                       // where they stand, as priorities_at
  ClosedLoopConfig closed_loop;
  SessionsConfig sessions;
  PrioritiesConfig priorities;
  Place priorities_at; // where they stand, of a mix the first of them; path NULL: there are none
  PatienceConfig patience;
  const struct WorkloadComponent *components; // of a mix, which has little else of its own
  int n_components;                           // 0: no mix
  Place at;                                   // where the block stands
} WorkloadConfig;

/* A workload of its own within a mix, with streams of its own, named after it. */
typedef struct WorkloadComponent {
  const char *name;
  const Node *model, *adapters, *class, *tenant; // of its requests; NULL: not said
  WorkloadConfig of;
} WorkloadComponent;

/* Rows of the option tables, for help and reference pages. */
extern const OptionSpec workload_replay_options[];
extern const OptionSpec workload_column_options[]; // of TraceReading.columns
extern const OptionSpec workload_synthetic_options[];
extern const OptionSpec workload_mix_options[];
extern const OptionSpec workload_component_options[]; // of one, beside those of a workload

/* Binds the block. `data_dir` holds traces/lengths/; `config_dir` is tried for relative paths that
 * do not exist from the working directory. Everything lives in `arena`. */
int workload_bind(WorkloadConfig *self, const Node *node, const char *data_dir,
                  const char *config_dir, Arena *arena, Diag *diag);
/* Opens the source; NULL with entries in `diag`. `run_seed` is used when the block has no seed.
 * trace_close releases what the arena does not. Opening reads the file once when `rate` or `loop`
 * needs its span. The configuration must outlive the source. */
TraceSource *workload_open(const WorkloadConfig *self, uint64_t run_seed, Arena *arena, Diag *diag);

/* Whether requests wait for answers to others, and so are not known without them. */
bool workload_waits(const WorkloadConfig *self);
/* How many requests it will have, as far as that is known before they come; 0: not known. */
double workload_expected(const WorkloadConfig *self);

/* Whether `rate` could be another, as that of a trace can: of steps, ramps, states and a mix it is
 * what comes of them. */
bool workload_has_rate(const WorkloadConfig *self);
/* The shortest prompt that it may have. */
int32_t workload_least_prompt(const WorkloadConfig *self);

/* The kinds behind workload_open: traces/replay.c, traces/synthetic.c and traces/mix.c. */
TraceSource *replay_open(const WorkloadConfig *config, Arena *arena, Diag *diag);
TraceSource *synthetic_open(const WorkloadConfig *config, uint64_t seed, Arena *arena);
TraceSource *mix_open(const WorkloadConfig *config, uint64_t seed, Arena *arena, Diag *diag);
#endif
