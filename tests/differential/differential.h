/* Recorded runs of SplitwiseSim: read, replayed, compared. */
#ifndef TESTS_DIFFERENTIAL_DIFFERENTIAL_H
#define TESTS_DIFFERENTIAL_DIFFERENTIAL_H
#include "sim/sim.h"

enum { SLOWDOWNS = 9 }; // P50, P90, P99 of TTFT, of TBT, of E2E

/* What became of a request: by the record, or by our replay. */
typedef struct Fate {
  int prefill_machine, decode_machine;
  double ttft, e2e; // seconds
  int output_tokens;
} Fate;

typedef struct Run {
  const char *name;
  const char *directory;
  const char *trace_path;
  const Node *overrides; // the list of "key=value"
  int n_requests;
  Tick *arrivals;            // [n_requests]
  Fate *recorded, *replayed; // [n_requests] by request id
  bool has_slowdowns;        // on record
  double recorded_slowdowns[SLOWDOWNS], replayed_slowdowns[SLOWDOWNS];
} Run;

typedef struct Comparison {
  int n_different, n_placements; // requests that differ at all; in a machine
  double worst_seconds;
  const char *worst_percentile;
  double worst_percentile_error, worst_slowdown_error; // relative
} Comparison;

int run_load(Run *self, const char *data_dir, const char *name, Arena *arena, Diag *diag);
int run_replay(Run *self, const char *model_dir, Arena *arena, Diag *diag);
void run_compare(const Run *self, Comparison *ret_comparison);
#endif
