/* Where the time of requests went, of one stored run: the parts that their rows have
 * (sim/books/parts.h). A run that was stored without them is simulated again, into a database of
 * its own. */
#ifndef EXPERIMENTS_WHY_WHY_H
#define EXPERIMENTS_WHY_WHY_H
#include "experiments/base/writer.h"
#include "experiments/replay/replay.h"
#include "experiments/results/results.h"

/* What requests are compared by. */
typedef enum WhyMeasure { WHY_E2E, WHY_TTFT, WHY_TPOT, WHY_MEASURES } WhyMeasure;
extern const char *const why_measures[]; // "e2e", …, NULL-terminated

typedef struct Why {
  Results results;    // that has the rows
  int64_t run;        // in it
  const char *source; // for messages, not plain
  Replay replay;      // where it was simulated again
  bool again;
  Arena *arena;
  Diag *diag;
} Why;

/* Opens the database at `path` and finds the run, NULL: the newest. `memory` is what simulating it
 * again may take. -1 with entries. */
int why_open(Why *self, const char *path, const char *run, size_t memory, Arena *arena, Diag *diag);
void why_close(Why *self);

/* One request, named by its number: its parts, and a sentence. */
int why_request(Why *self, const char *request, OutputFormat format, FILE *out);
/* The `n` requests with the largest measure. */
int why_slowest(Why *self, int64_t n, WhyMeasure by, OutputFormat format, FILE *out);
/* Bands of percentiles up to `percentile`, in (0, 100), and above it. */
int why_bands(Why *self, double percentile, WhyMeasure by, OutputFormat format, FILE *out);
#endif
