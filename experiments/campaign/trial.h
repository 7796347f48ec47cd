/* One configuration to its outcome, on any thread.
 *
 * Many trials start from one base: a file that is read once, changed in a copy for each trial, and
 * a cache of what trials load from data files. The base is not written to while trials run, but for
 * its cache, which has a lock. A trial owns its arena and its diagnostics; it is made and released
 * by one thread at a time.
 *
 *     trial_init(&trial);
 *     if (trial_load(&trial, &base, &changes) == 0) trial_run(&trial);
 *     … trial.report, or trial.diag …
 *     trial_done(&trial);
 *
 * To end a run early, set config.sim.on_request between load and run: when it returns 1 the run
 * ends there, and result.stopped says so. */
#ifndef EXPERIMENTS_CAMPAIGN_TRIAL_H
#define EXPERIMENTS_CAMPAIGN_TRIAL_H
#include "experiments/report/report.h"

typedef struct TrialBase {
  const char *path;
  Node *root;    // of the file, before the changes of a trial
  Cache cache;   // of models and machine types
  size_t memory; // that one trial may take; 0: no limit
} TrialBase;

/* Reads `path` and applies `changes` (NULL: none), which thus hold for every trial; keys that
 * belong to a study rather than to a configuration are taken off `root` by the caller (node_take).
 * `arena` must outlive the base and all trials, `self` must not move. */
int trial_base_init(TrialBase *self, const char *path, const ConfigChanges *changes, Arena *arena,
                    Diag *diag);
/* The same of a tree that is at hand, which is changed; `path` stands for it in messages. NULL,
 * with entries from whoever could not read it, is passed on. Models, machine types and what was
 * composed of kernels are kept in `lasting`, which outlives the base; NULL: in its own cache. */
int trial_base_init_tree(TrialBase *self, const char *path, Node *root,
                         const ConfigChanges *changes, Cache *lasting, Arena *arena, Diag *diag);
void trial_base_done(TrialBase *self);

typedef struct Trial {
  Arena arena;
  Diag diag; // why it failed; empty otherwise
  Config config;
  uint64_t config_digest; // set by trial_load
  SimResult result;
  Report report;
} Trial;

void trial_init(Trial *self);
void trial_done(Trial *self);
/* Binds the base with `changes` (NULL: none) and takes its digest. -1 with entries in self->diag;
 * then config.root and config.text are set all the same, and the digest is of the text alone. */
int trial_load(Trial *self, TrialBase *base, const ConfigChanges *changes);
/* Simulates; -1 with entries in self->diag, also when the user interrupts it. */
int trial_run(Trial *self);
/* What trial_run does, by `sim`, a copy of config->sim or that: opens the trace unless
 * it is open, simulates until the user interrupts it, closes it and sums up. `config` and
 * `ret_result` must outlive the report. */
int config_simulate(Config *config, SimConfig *sim, SimResult *ret_result, Report *ret_report,
                    Arena *arena, Diag *diag);
/* The first entry of self->diag as one line, "" when there is none. */
const char *trial_reason(Trial *self);
#endif
