/* See measure.h. This thread alone loads runs and takes what they gave; the others only
 * simulate. */
#include "experiments/provision/measure.h"
#include "experiments/base/workers.h"
#include "experiments/provision/probe.h"
#include "experiments/results/results.h"
#include <math.h>
#include <stdlib.h>

/* A run under way, in a slot that is used again after it was taken. */
typedef struct Slot {
  ProbeRun run; // first, since it is what threads know of a slot
  DesignOutcome *outcome;
  Measurement *measurement; // to fill
  struct Slot *next_free;
} Slot;

typedef struct Measuring {
  const Provision *provision;
  const ProvisionOptions *options;
  DesignOutcome *outcomes;
  Workers workers;
  Slot *free_slots;
  int64_t n_done;
  int64_t last_before; // run in the database: later ones are this study's
  Arena *arena;
  Diag *diag;
} Measuring;

static int take(Measuring *self, Slot *slot) {
  ProbeRun *run = &slot->run;
  DesignOutcome *outcome = slot->outcome;
  if (!run->failed) probe_run_take(run, self->arena);
  int status = 0;
  if (run->failed) {
    diag_append(self->diag, &run->trial.diag);
    status = -1;
  } else {
    *slot->measurement = probe_run_measurement(run, self->arena);
    outcome->n_simulations++;
    outcome->n_reused += run->reused;
    outcome->events += run->events;
    if (self->options->results && !run->reused)
      status = probe_run_store(run, self->options->results, self->diag);
  }
  probe_run_release(run);
  slot->next_free = self->free_slots;
  self->free_slots = slot;
  self->n_done++;
  if (self->options->on_progress)
    self->options->on_progress(self->options->context, self->n_done, self->workers.n_in_flight);
  return status;
}

/* Begins the run of a choice, or finds it in the database. */
static int begin(Measuring *self, DesignOutcome *outcome, int seed, int64_t choice,
                 Measurement *measurement) {
  while (!self->free_slots)
    if (take(self, workers_pop(&self->workers))) return -1;
  Slot *slot = self->free_slots;
  self->free_slots = slot->next_free;
  *slot = (Slot){.run = {.probe = {{choice, 0}, 0}, .measures = true},
                 .outcome = outcome,
                 .measurement = measurement};
  probe_run_load(&slot->run, self->provision, outcome->design, seed);
  const int found = self->options->results && !slot->run.failed
                        ? probe_run_find(&slot->run, self->options->results, self->last_before,
                                         self->arena, self->diag)
                        : 0;
  if (slot->run.failed || found > 0) return take(self, slot);
  if (found == 0) {
    workers_push(&self->workers, probe_run_simulate, &slot->run);
    return 0;
  }
  probe_run_release(&slot->run);
  return -1;
}

static int measure_design(Measuring *self, DesignOutcome *outcome) {
  const Design *design = outcome->design;
  const int64_t n = design->choices.n_points;
  Measurement *measurements = ARENA_ARRAY(self->arena, Measurement, n * self->provision->n_seeds);
  outcome->measurements = measurements;
  outcome->n_grid = (double)(n * self->provision->n_seeds);
  for (int seed = 0; seed < self->provision->n_seeds; seed++)
    for (int64_t choice = 0; choice < n; choice++) {
      Measurement *to = &measurements[seed * n + choice];
      *to = (Measurement){.throughput_rps = NAN,
                          .output_tokens_per_s = NAN,
                          .why_not = design->fits[choice].why_not};
      if (!to->why_not && begin(self, outcome, seed, choice, to)) return -1;
    }
  return 0;
}

static int measure_all(Measuring *self) {
  const Provision *study = self->provision;
  for (int d = 0; d < study->n_designs; d++) {
    self->outcomes[d] = (DesignOutcome){.design = &study->designs[d], .monotone = true};
    if (measure_design(self, &self->outcomes[d])) return -1;
  }
  for (Slot *slot; (slot = workers_pop(&self->workers));)
    if (take(self, slot)) return -1;
  return 0;
}

static void release_all(Measuring *self) {
  for (Slot *slot; (slot = workers_pop(&self->workers));)
    probe_run_release(&slot->run);
  workers_done(&self->workers);
}

/* ---- What follows ---- */

static Answer answer_on(const DesignOutcome *outcome, int seed) {
  const Design *design = outcome->design;
  Answer answer = {.tokens_per_s = NAN, .margin = NAN};
  for (int64_t i = 0; i < design->choices.n_points; i++) {
    const Measurement *one = outcome_measurement(outcome, seed, i);
    if (one->why_not || (answer.found && one->throughput_rps <= answer.rate)) continue;
    const Fleet *fleet = &design->fits[i].fleet;
    answer = (Answer){.found = true,
                      .choice = i,
                      .rate = one->throughput_rps,
                      .tokens_per_s = one->output_tokens_per_s,
                      .n_prefill = fleet->n_prefill,
                      .n_decode = fleet->n_decode,
                      .n_mixed = fleet->n_mixed,
                      .takes = fleet->takes,
                      .margin = NAN};
  }
  return answer;
}

/* The first choice that was simulated and failed says the most; else the first one. */
static const char *explain(const DesignOutcome *outcome, Arena *arena) {
  const Design *design = outcome->design;
  int64_t told = 0;
  for (int64_t i = design->choices.n_points - 1; i >= 0; i--)
    if (!design->fits[i].why_not) told = i;
  const char *label = design->fits[told].label;
  return arena_printf(arena, "%s%s%s", label, *label ? ": " : "",
                      outcome_measurement(outcome, 0, told)->why_not);
}

static void conclude(const Measuring *self, DesignOutcome *outcome) {
  const int n_seeds = self->provision->n_seeds;
  Answer *answers = ARENA_ARRAY(self->arena, Answer, n_seeds);
  outcome->answers = answers;
  for (int seed = 0; seed < n_seeds; seed++) {
    answers[seed] = answer_on(outcome, seed);
    outcome->n_holds +=
        answers[0].found && !outcome_measurement(outcome, seed, answers[0].choice)->why_not;
  }
  outcome_fill_spread(self->provision, outcome);
  if (!answers[0].found) outcome->why_not = explain(outcome, self->arena);
}

int provision_measure(const Provision *self, const ProvisionOptions *options,
                      DesignOutcome **ret_outcomes, Arena *arena, Diag *diag) {
  Measuring measuring = {.provision = self, .options = options, .arena = arena, .diag = diag};
  const int n_slots = 4 * options->jobs;
  measuring.outcomes = ARENA_ARRAY(arena, DesignOutcome, self->n_designs);
  if (options->results && results_ask(options->results, "SELECT coalesce(max(id), 0) FROM run",
                                      NULL, 0, &measuring.last_before, diag) < 0)
    return -1;
  Slot *slots = ARENA_ARRAY(arena, Slot, n_slots);
  for (int i = 0; i < n_slots; i++) {
    slots[i].next_free = measuring.free_slots;
    measuring.free_slots = &slots[i];
  }
  if (workers_init(&measuring.workers, options->jobs, n_slots, arena, diag)) return -1;
  const int status = measure_all(&measuring);
  release_all(&measuring);
  if (status) return -1;
  for (int d = 0; d < self->n_designs; d++)
    conclude(&measuring, &measuring.outcomes[d]);
  *ret_outcomes = measuring.outcomes;
  return 0;
}

typedef struct Ranked {
  int64_t choice;
  double throughput_rps;
} Ranked;

static int compare_ranked(const void *a, const void *b) {
  const Ranked *one = a, *other = b;
  if (one->throughput_rps != other->throughput_rps)
    return one->throughput_rps > other->throughput_rps ? -1 : 1;
  return (one->choice > other->choice) - (one->choice < other->choice);
}

const int64_t *outcome_rank(const DesignOutcome *outcome, int seed, int64_t *ret_n_ranked,
                            Arena *arena) {
  const int64_t n = outcome->design->choices.n_points;
  Ranked *ranked = ARENA_ARRAY(arena, Ranked, n);
  int64_t *order = ARENA_ARRAY(arena, int64_t, n), n_ranked = 0;
  for (int64_t i = 0; i < n; i++) {
    const Measurement *one = outcome_measurement(outcome, seed, i);
    if (!one->why_not) ranked[n_ranked++] = (Ranked){i, one->throughput_rps};
  }
  qsort(ranked, (size_t)n_ranked, sizeof *ranked, compare_ranked);
  for (int64_t i = 0; i < n_ranked; i++)
    order[i] = ranked[i].choice;
  for (int64_t i = 0, last = n_ranked; i < n; i++)
    if (outcome_measurement(outcome, seed, i)->why_not) order[last++] = i;
  *ret_n_ranked = n_ranked;
  return order;
}
