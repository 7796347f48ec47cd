/* A line on stderr that says how far a long run is. */
#ifndef EXPERIMENTS_BASE_PROGRESS_H
#define EXPERIMENTS_BASE_PROGRESS_H
#include "traces/workload.h"

typedef struct Progress {
  const WorkloadConfig *workload;
  bool shown; // the line is on the terminal
  double began_s, shown_s;
} Progress;

/* Seconds of a clock that only goes forward. */
double clock_monotonic(void);
/* The same, where a clock has a context; that is not looked at. */
double clock_read_monotonic(void *context);
/* Seconds of CPU that this thread has used. */
double clock_cpu(void);

void progress_init(Progress *self, const WorkloadConfig *workload);
/* Fits SimConfig.on_progress: shows the line when stderr is a terminal and a second has passed. */
void progress_update(void *progress, uint64_t finished, Tick now);
/* Takes the line off again. */
void progress_done(Progress *self);

/* Whether to say how far a study is: on a terminal in place of the line before, at once and then
 * all the time; elsewhere each half minute, a line of its own. Begins what is said, which
 * progress_said ends. */
bool progress_begins(double began_s, double *shown_s);
void progress_said(void);

/* The same for a study of many runs. */
typedef struct Tally {
  int64_t points;              // in all
  int64_t found, done, failed; // of those: there before, simulated, could not be
  bool shown;
  double began_s, shown_s;
} Tally;

void tally_init(Tally *self, int64_t points);
/* Points that are done with. */
static inline int64_t tally_ended(const Tally *self) {
  return self->found + self->done + self->failed;
}
/* Points per second simulated so far, failed ones too. */
double tally_rate(const Tally *self);
/* Shows the line when stderr is a terminal and it is time. */
void tally_show(Tally *self);
/* Takes the line off again. */
void tally_done(Tally *self);
#endif
