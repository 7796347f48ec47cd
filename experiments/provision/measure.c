/* See measure.h. This thread alone loads runs and takes what they gave; the others only
 * simulate. */
#include "experiments/provision/measure.h"
#include "experiments/campaign/campaign.h"
#include "experiments/provision/probe.h"
#include "experiments/results/results.h"
#include <math.h>
#include <stdlib.h>

/* A run under way. */
typedef struct Slot {
  ProbeRun run;
  DesignOutcome *outcome;
  Measurement *measurement; // to fill
  int move;                 // of one with times moved: which, in place of a measurement
} Slot;

typedef struct Measuring {
  const Provision *provision;
  const ProvisionOptions *options;
  DesignOutcome *outcomes;
  int design, seed; // what comes next
  int64_t choice;
  int move;
  int64_t n_done, n_in_flight;
  int64_t last_before; // run in the database: later ones are this study's
  Arena *arena;
  Diag *diag;
} Measuring;

/* Fits Campaign.idle. */
static void show_progress(void *context) {
  const Measuring *self = context;
  const ProvisionProgress progress = {.done = self->n_done,
                                      .in_flight = self->n_in_flight,
                                      .n_designs = self->provision->n_designs,
                                      .n_settled = self->design};
  if (self->options->on_progress) self->options->on_progress(self->options->context, &progress);
}

static int take_figures(Measuring *self, Slot *slot) {
  ProbeRun *run = &slot->run;
  self->n_done++;
  show_progress(self);
  if (!run->failed) probe_run_take(run, self->arena);
  if (!run->failed) return 0;
  diag_append(self->diag, &run->trial.diag);
  return -1;
}

static int take(Measuring *self, Slot *slot) {
  ProbeRun *run = &slot->run;
  DesignOutcome *outcome = slot->outcome;
  if (take_figures(self, slot)) return -1;
  *slot->measurement = probe_run_measurement(run, self->arena);
  outcome->n_simulations++;
  outcome->n_reused += run->reused;
  outcome->events += run->events;
  return self->options->results && !run->reused
             ? probe_run_store(run, self->options->results, self->diag)
             : 0;
}

/* Begins the run of a choice, or takes it from the database. */
static int begin(Measuring *self, Slot *slot) {
  Results *results = self->options->results;
  probe_run_load(&slot->run, self->provision, slot->outcome->design, self->seed, 0, NULL);
  const int found =
      results && !slot->run.failed
          ? probe_run_find(&slot->run, results, self->last_before, self->arena, self->diag)
          : 0;
  if (found == 0 && !slot->run.failed) {
    self->n_in_flight++;
    return 1;
  }
  const int status = found < 0 ? -1 : take(self, slot);
  probe_run_release(&slot->run);
  return status;
}

/* Moves on to the next choice, seed or design. */
static void move_on(Measuring *self) {
  if (++self->choice < self->provision->designs[self->design].choices.n_points) return;
  self->choice = 0;
  if (++self->seed < self->provision->n_seeds) return;
  self->seed = 0;
  self->design++;
}

static int next_choice(void *context, void *run) {
  Measuring *self = context;
  Slot *slot = run;
  int begun = 0;
  for (; begun == 0 && self->design < self->provision->n_designs; move_on(self)) {
    DesignOutcome *outcome = &self->outcomes[self->design];
    const int64_t choice = self->choice;
    Measurement *to = (Measurement *)outcome_measurement(outcome, self->seed, choice);
    if (to->why_not) continue;
    *slot = (Slot){.run = {.probe = {{choice, 0}, 0}}, .outcome = outcome, .measurement = to};
    begun = begin(self, slot);
  }
  return begun;
}

static void make_choice(void *slot) {
  probe_run_simulate(&((Slot *)slot)->run);
}

static int take_choice(void *context, void *slot) {
  Measuring *self = context;
  self->n_in_flight--;
  return take(self, slot);
}

static void release_choice(void *slot) {
  probe_run_release(&((Slot *)slot)->run);
}

/* Before anything is measured: only what cannot be had is known. */
static void begin_outcome(const Measuring *self, const Design *design, DesignOutcome *outcome) {
  const int64_t n = design->choices.n_points, n_all = n * self->provision->n_seeds;
  Measurement *measurements = ARENA_ARRAY(self->arena, Measurement, n_all);
  for (int64_t i = 0; i < n_all; i++)
    measurements[i] = (Measurement){.throughput_rps = NAN,
                                    .run = {.output_tokens_per_s = NAN,
                                            .tokens_per_s = NAN,
                                            .extrapolated = NAN,
                                            .far = NAN,
                                            .perfmodel_error = NAN},
                                    .why_not = design->fits[i % n].why_not};
  *outcome = (DesignOutcome){.design = design,
                             .monotone = true,
                             .n_grid = (double)n_all,
                             .measurements = measurements,
                             .low_model = NAN,
                             .high_model = NAN};
}

static int measure_all(Measuring *self) {
  const Campaign campaign = {.jobs = self->options->jobs,
                             .ahead = 4,
                             .run_size = sizeof(Slot),
                             .next = next_choice,
                             .make = make_choice,
                             .take = take_choice,
                             .release = release_choice,
                             .idle = show_progress,
                             .context = self,
                             .results = self->options->results};
  for (int d = 0; d < self->provision->n_designs; d++)
    begin_outcome(self, &self->provision->designs[d], &self->outcomes[d]);
  return campaign_run(&campaign, self->arena, self->diag);
}

/* ---- What follows ---- */

static Answer answer_on(const DesignOutcome *outcome, int seed) {
  const Design *design = outcome->design;
  Answer answer = {.margin = NAN};
  for (int64_t i = 0; i < design->choices.n_points; i++) {
    const Measurement *one = outcome_measurement(outcome, seed, i);
    if (one->why_not || (answer.found && one->throughput_rps <= answer.rate)) continue;
    answer = (Answer){.found = true,
                      .choice = i,
                      .rate = one->throughput_rps,
                      .run = one->run,
                      .fleet = design->fits[i].fleet,
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

/* ---- The best with times moved ---- */

static int next_moved(void *context, void *run) {
  Measuring *self = context;
  Slot *slot = run;
  for (; self->design < self->provision->n_designs; self->design++, self->move = 0) {
    DesignOutcome *outcome = &self->outcomes[self->design];
    const Answer *answer = &outcome->answers[0];
    if (self->move == MOVES || !answer_moves(answer)) continue;
    *slot = (Slot){
        .run = {.probe = {{answer->choice, 0}, 0}}, .outcome = outcome, .move = self->move++};
    probe_run_load(&slot->run, self->provision, outcome->design, 0, config_moves[slot->move], NULL);
    if (!slot->run.failed) {
      self->n_in_flight++;
      return 1;
    }
    diag_append(self->diag, &slot->run.trial.diag);
    probe_run_release(&slot->run);
    return -1;
  }
  return 0;
}

static int take_moved(void *context, void *run) {
  Measuring *self = context;
  Slot *slot = run;
  DesignOutcome *outcome = slot->outcome;
  self->n_in_flight--;
  if (take_figures(self, slot)) return -1;
  const Measurement one = probe_run_measurement(&slot->run, self->arena);
  outcome->moved[slot->move] = (Answer){.found = !one.why_not, .rate = one.throughput_rps};
  outcome->n_moved_simulations++;
  outcome->moved_events += slot->run.events;
  return 0;
}

static int measure_moved(Measuring *self) {
  const Campaign campaign = {.jobs = self->options->jobs,
                             .ahead = 1,
                             .run_size = sizeof(Slot),
                             .next = next_moved,
                             .make = make_choice,
                             .take = take_moved,
                             .release = release_choice,
                             .idle = show_progress,
                             .context = self};
  self->design = self->move = 0;
  if (campaign_run(&campaign, self->arena, self->diag)) return -1;
  for (int d = 0; d < self->provision->n_designs; d++)
    outcome_fill_range(self->provision, &self->outcomes[d]);
  return 0;
}

/* ---- All of it ---- */

int provision_measure(const Provision *self, const ProvisionOptions *options, int64_t last_before,
                      DesignOutcome **ret_outcomes, Arena *arena, Diag *diag) {
  Measuring measuring = {.provision = self,
                         .options = options,
                         .last_before = last_before,
                         .arena = arena,
                         .diag = diag};
  measuring.outcomes = ARENA_ARRAY(arena, DesignOutcome, self->n_designs);
  if (measure_all(&measuring)) return -1;
  for (int d = 0; d < self->n_designs; d++)
    conclude(&measuring, &measuring.outcomes[d]);
  if (options->range && measure_moved(&measuring)) return -1;
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
