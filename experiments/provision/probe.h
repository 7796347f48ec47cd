/* One simulation of a study, and what is remembered of it.
 *
 * A run that can no longer meet a limit is ended there. That changes no verdict: it is ended only
 * when the requests that are left could not save it (slo_find_lost). */
#ifndef EXPERIMENTS_PROVISION_PROBE_H
#define EXPERIMENTS_PROVISION_PROBE_H
#include "experiments/provision/provision.h"

/* What is kept of a run's report. */
enum {
#define PROBE_FIGURE(scope, name) FIGURE_##name,
#include "experiments/provision/figures.def"
  PROBE_FIGURES
};
typedef struct ProbeFigure {
  const char *scope, *name; // as in the database
} ProbeFigure;
extern const ProbeFigure probe_figures[PROBE_FIGURES];

typedef struct ProbeRun {
  Probe probe;
  int domain;           // which of those that must be survived is down, the worst ones alone
  int n_domains;        // of those; 1 where nothing is: so many runs are needed
  ProbeVerdict verdict; // PROBE_UNKNOWN until it has ended
  bool asked;           // the search wanted it; others were run on a guess
  bool failed;          // could not be bound or simulated; trial.diag has why
  bool stopped;
  bool reused; // found in the database
  bool kept;   // there, once it is asked for; never with moved times, which no configuration says
  double events, saved_events;
  SloOutcome *slos; // [n_slos], in the arena of the study
  int n_slos;
  double figures[PROBE_FIGURES]; // by probe_figures
  uint64_t outcomes;             // its digest
  RunServed served;
  bool measured; // as in RunKept
  Trial trial;
  bool has_trial; // loaded and not released
  /* While it runs, and of one that was found too: */
  bool early_stop;
  EarlyEnd end; // what it was asked for
} ProbeRun;

/* Binds it, on the caller's thread, with times moved as in ConfigChanges (`apart` NULL: not);
 * sets `failed` when it cannot be. */
void probe_run_load(ProbeRun *self, const Provision *study, const Design *design, int seed,
                    double error_shift, const TermShifts *apart);
/* Simulates; a job of Workers, `self` a ProbeRun. */
void probe_run_simulate(void *self);
/* Of one that was found in the database: what of its workload is beyond a context. -1 with entries
 * in trial.diag. */
int probe_run_recount(ProbeRun *self);
/* Takes the outcome, or sets `failed`. */
void probe_run_take(ProbeRun *self, Arena *arena);
/* Lets go of the trial. */
void probe_run_release(ProbeRun *self);
RunKept probe_run_kept(const ProbeRun *self);
/* How many requests it turned away, and why, of how many: "561 of 12,031 prompts exceed the context
 * of 40,960"; NULL: none. `ret_share` is what share they are. */
const char *probe_run_rejections(const ProbeRun *self, double *ret_share, Arena *arena);
/* How full its KV memory was. */
KvPressure probe_run_pressure(const ProbeRun *self);
/* The first that was not measured, else the one with the least margin; NULL when there are none. */
const SloOutcome *probe_run_binding(const ProbeRun *self);
/* "'ttft.p99', limit 2 s, is missed" and `where`, or is not measured there, and why. */
const char *probe_limit_lost(const SloOutcome *slo, const char *where, Arena *arena);

/* Of a run of an offline study that was taken. One that leaves requests out or misses a limit has a
 * throughput, but is no answer. */
Measurement probe_run_measurement(const ProbeRun *self, Arena *arena);

/* private: rows.c */

/* Looks a loaded run up among those with ids up to `last`: 1 and the outcome when it is in the
 * database, 0 when not. One that was ended early will do if this one may be. */
int probe_run_find(ProbeRun *self, Results *results, int64_t last, Arena *arena, Diag *diag);
/* Adds a run that was simulated, unless an equal one has been added meanwhile. */
int probe_run_store(ProbeRun *self, Results *results, Diag *diag);
#endif
