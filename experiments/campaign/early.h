/* A trial that is ended when it can no longer meet a limit. That changes no verdict: it is ended
 * only when the requests that are left could not save it (slo_find_lost). */
#ifndef EXPERIMENTS_CAMPAIGN_EARLY_H
#define EXPERIMENTS_CAMPAIGN_EARLY_H
#include "experiments/campaign/trial.h"

/* What a workload asks for, in all and by component, as of metrics_histogram. */
typedef struct Demands {
  Demand *of;
  Demand *beyond_of; // of that, prompts beyond the context of their model
  int64_t context;   // the least that one is beyond
} Demands;

/* What a trial will be asked for; zeroed before. It must not move while the trial runs. */
typedef struct EarlyEnd {
  Trial *trial;
  /* Where trials that are asked for the same find their demands; NULL: in the trial's arena. */
  Cache *cache;
  const char *key;
  const Demands *demands; // NULL: not counted
  uint64_t next_look;
} EarlyEnd;

/* Whether a loaded trial may be ended so: its length is given, and none of its requests waits for
 * an answer. */
bool early_end_may(const Trial *trial);
/* Reads the workload through for what it asks for. -1 with entries in trial->diag. */
int early_end_count(EarlyEnd *self, Trial *trial);
/* Counts, and has the trial end (result.stopped) as soon as a limit is lost; its limits are then
 * that one alone: of a few of the requests nothing can be said about the others. -1 likewise. */
int early_end_set(EarlyEnd *self, Trial *trial);
#endif
