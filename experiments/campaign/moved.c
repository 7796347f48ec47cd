/* See moved.h. */
#include "experiments/campaign/moved.h"
#include "experiments/base/workers.h"

static void make(void *trial) {
  trial_run(trial); // what goes wrong is in its diag
}

static int load(MovedRuns *self, const Config *config, size_t memory) {
  int status = 0;
  self->base = (TrialBase){.path = config->path, .root = (Node *)config->root, .memory = memory};
  cache_init(&self->base.cache);
  for (int i = 0; i < MOVES; i++) {
    const ConfigChanges changes = {.seed = -1, .tie_seed = -1, .error_shift = config_moves[i]};
    Trial *trial = &self->trials[i];
    trial_init(trial);
    status |= trial_load(trial, &self->base, &changes);
    trial->config.sim.keeps_batches = config->sim.keeps_batches;
  }
  return status;
}

/* Runs that `load` was content with. */
static int run(MovedRuns *self, Arena *arena, Diag *diag) {
  Workers workers;
  const int cpus = workers_cpus();
  if (workers_init(&workers, cpus < MOVES ? cpus : MOVES, MOVES, arena, diag)) return -1;
  for (int i = 0; i < MOVES; i++)
    workers_push(&workers, make, &self->trials[i]);
  while (workers_pop(&workers))
    continue;
  workers_done(&workers);
  return 0;
}

int moved_runs_make(MovedRuns *self, const Config *config, size_t memory, Report *report,
                    Arena *arena, Diag *diag) {
  if (load(self, config, memory) == 0 && run(self, arena, diag)) return -1;
  int status = 0;
  for (int i = 0; i < MOVES && status == 0; i++) {
    Trial *trial = &self->trials[i];
    if (trial->diag.n_entries > 0) {
      diag_append(diag, &trial->diag);
      status = -1;
    }
    report->moved[i] = &trial->report;
  }
  return status;
}

void moved_runs_done(MovedRuns *self) {
  if (!self->base.root) return;
  for (int i = 0; i < MOVES; i++)
    trial_done(&self->trials[i]);
  trial_base_done(&self->base);
}
