/* A run once more, with its iteration times moved down and up by the errors of their models: what
 * its figures would be if those were off by as much as they are on iterations held out. The run
 * itself is another, which is over. */
#ifndef EXPERIMENTS_CAMPAIGN_MOVED_H
#define EXPERIMENTS_CAMPAIGN_MOVED_H
#include "experiments/campaign/trial.h"

typedef struct MovedRuns {
  TrialBase base;
  Trial trials[MOVES]; // by config_moves
} MovedRuns;

/* Runs both, on two threads where there are some, within `memory` each (0: no limit), and sets
 * report->moved: the run that `config` and `report` are of, whose models' error is known. -1 with
 * entries in `diag`. moved_runs_done releases them, also after a failure, and after another one
 * that was never begun and is zeroed. */
int moved_runs_make(MovedRuns *self, const Config *config, size_t memory, Report *report,
                    Arena *arena, Diag *diag);
void moved_runs_done(MovedRuns *self);
#endif
