/* A line on stderr that says how far a long run is. */
#ifndef EXPERIMENTS_PROGRESS_H
#define EXPERIMENTS_PROGRESS_H
#include "traces/workload.h"

typedef struct Progress {
  const WorkloadConfig *workload;
  bool shown; // the line is on the terminal
  double began_s, shown_s;
} Progress;

/* Seconds of a clock that only goes forward. */
double clock_monotonic(void);
/* Seconds of CPU that the process has used. */
double clock_cpu(void);

void progress_init(Progress *self, const WorkloadConfig *workload);
/* Fits SimConfig.on_progress: shows the line when stderr is a terminal and a second has passed. */
void progress_update(void *progress, uint64_t finished, Tick now);
/* Takes the line off again. */
void progress_done(Progress *self);
#endif
