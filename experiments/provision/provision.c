/* Running a study: one search for each design and seed, all of them fed by the same threads.
 *
 * This thread alone steps the searches and takes what simulations found; the others only simulate.
 * When threads have nothing to do they are given what a search would ask next if what it waits for
 * came out one way or the other. Those runs count, and are kept, only if the search does ask. */
#include "experiments/campaign/campaign.h"
#include "experiments/provision/best.h"
#include "experiments/provision/measure.h"
#include "experiments/results/results.h"
#include <assert.h>
#include <math.h>
#include <string.h>

enum { GUESSES_MAX = 4 }; // verdicts that are guessed one after the other

typedef struct Study {
  const Provision *provision;
  const ProvisionOptions *options;
  Replicate *replicates; // [n_designs * n_places], those of a design together
  int n_replicates, n_places;
  BestSearch best;
  int n_in_flight;
  int64_t n_done;
  int64_t last_before; // run in the database: later ones are this study's
  Arena *arena;
  Diag *diag;
} Study;

/* ---- What is known to a search ---- */

/* An oracle that knows the runs that have ended, or of those the ones that were asked for, and some
 * guesses. */
typedef struct Knowledge {
  const Replicate *replicate;
  bool asked_alone;
  Probe guessed[GUESSES_MAX];
  ProbeVerdict guesses[GUESSES_MAX];
  int n_guesses;
} Knowledge;

/* Of the answer's cluster with times moved all limits are asked for. */
static bool is_answer(const Replicate *replicate, const Probe *probe) {
  const Replicate *first = replicate - replicate->place;
  return replicate->direction != 0 && probe_equal(probe, &first->result.answer);
}

/* What times as they are say of moved ones: what holds still does when they are shorter, and what
 * fails when they are longer. */
static ProbeVerdict infer(const Replicate *self, const Probe *probe) {
  const SearchResult *first = &(self - self->place)->result;
  const ProbeVerdict verdict = self->direction < 0 ? PROBE_HOLDS : PROBE_FAILS;
  if (self->direction == 0 || is_answer(self, probe)) return PROBE_UNKNOWN;
  return search_implies(first, probe, verdict) ? verdict : PROBE_UNKNOWN;
}

static ProbeVerdict recall(void *context, const Probe *probe) {
  const Knowledge *self = context;
  for (int i = 0; i < self->n_guesses; i++)
    if (probe_equal(&self->guessed[i], probe)) return self->guesses[i];
  const ProbeRun *run = replicate_run(self->replicate, probe, 0);
  if (!run) return infer(self->replicate, probe);
  for (int d = 1; run; run = replicate_run(self->replicate, probe, d++)) {
    if (self->asked_alone && !run->asked) return PROBE_UNKNOWN;
    if (run->verdict != PROBE_HOLDS || d == run->n_domains) return run->verdict;
  }
  return PROBE_UNKNOWN;
}

/* The first of the runs of a probe that has not begun, or not been asked for. */
static int next_domain(const Replicate *self, const Probe *probe, bool asked) {
  const ProbeRun *run = replicate_run(self, probe, 0);
  int d = 0;
  while (run && (run->asked || !asked) && d + 1 < run->n_domains)
    run = replicate_run(self, probe, ++d);
  return d;
}

static void search(const Study *self, Knowledge *knowledge, SearchResult *ret_result,
                   Arena *arena) {
  const SearchSpace *space = &knowledge->replicate->space;
  if (self->provision->objective == OBJECTIVE_THROUGHPUT && !knowledge->replicate->alone)
    search_largest_rate(space, recall, knowledge, ret_result, arena);
  else
    search_least(space, recall, knowledge, ret_result, arena);
  if (!ret_result->done || !ret_result->found || space->n_clusters > 0) return;
  const Takes takes = design_takes(knowledge->replicate->design, ret_result->answer.counts);
  if (provision_exceeds(self->provision, &takes)) ret_result->found = false;
}

/* ---- Running ---- */

/* Begins a probe of a replicate unless it has begun: 1 and the run when it is one for a thread.
 * What the database knows has ended at once, and what fails is of no concern until the search asks
 * for it. */
static int begin_run(Study *self, Replicate *replicate, const Probe *probe, int domain,
                     ProbeRun **ret_run) {
  if (replicate_run(replicate, probe, domain)) return 0;
  Results *results = replicate->direction == 0 ? self->options->results : NULL;
  ProbeRun *run = ARENA_NEW(self->arena, ProbeRun);
  *run = (ProbeRun){.probe = *probe,
                    .domain = domain,
                    .early_stop = !self->options->no_early_stop && !is_answer(replicate, probe),
                    .kept = results != NULL};
  ARENA_RESERVE(self->arena, replicate->runs, replicate->capacity, replicate->n_runs + 1);
  replicate->runs[replicate->n_runs++] = run;
  TermShifts apart = replicate->moved.part;
  for (int g = 0; g < TERM_MOVES; g++)
    apart.by[g] *= replicate->direction;
  probe_run_load(run, self->provision, replicate->design, replicate->seed, 0, &apart);
  if (run->failed) return 0;
  const int found =
      results ? probe_run_find(run, results, self->last_before, self->arena, self->diag) : 0;
  if (found < 0) return -1;
  if (found > 0) {
    if (probe_run_recount(run)) return diag_append(self->diag, &run->trial.diag), -1;
    probe_run_take(run, self->arena);
    return 0;
  }
  self->n_in_flight++;
  *ret_run = run;
  return 1;
}

/* The search wants this run, which has ended: it counts, and is kept. */
static int keep_run(Study *self, ProbeRun *run) {
  run->asked = true;
  self->n_done++;
  const int status =
      run->kept && !run->reused ? probe_run_store(run, self->options->results, self->diag) : 0;
  probe_run_release(run);
  return status;
}

/* The errors of the times of an answer, by group of terms. */
static void find_errors(const Study *self, const Replicate *first, double error[TERM_MOVES]) {
  ProbeRun run = {.probe = first->result.answer};
  probe_run_load(&run, self->provision, first->design, first->seed, 0, NULL);
  const SimConfig *sim = &run.trial.config.sim;
  for (uint32_t i = 0; !run.failed && i < sim->n_pools; i++)
    for (TermMove g = 0; g < TERM_MOVES; g++)
      error[g] = fmax(error[g], term_errors_moved(&sim->pools[i].perfmodel->errors, g));
  probe_run_release(&run);
}

/* Of a replicate with moved times: what it moves. False: that is not known yet. */
static bool prepare_moved(const Study *self, Replicate *replicate) {
  Replicate *first = replicate - replicate->place;
  Replicate *screens = first + self->provision->n_seeds;
  double *error = screens[0].moved.error;
  if (replicate == screens) find_errors(self, first, error);
  if (replicate->alone) {
    const int group = (int)(replicate - screens);
    replicate->moved.part.by[group] = 1;
    replicate->result.done = !(error[group] > 0);
    replicate_begin_alone(replicate, &first->result.answer);
    return true;
  }
  for (int g = 0; g < TERM_SCREENS; g++)
    if (!screens[g].result.done) return false;
  replicate->moved = replicate_moved(first, screens, error);
  return true;
}

/* Replicates of further seeds, and with moved times, begin where the first one ended. */
static void prepare(Study *self, Replicate *replicate) {
  const Replicate *first = replicate - replicate->place;
  if (replicate->ready || (replicate->place > 0 && (!first->result.done || self->best.n_open > 0)))
    return;
  Answer likely = {0};
  const bool has_likely = replicate->place > 0 && first->result.found;
  if (has_likely) likely = replicate_answer(self->provision, first);
  const bool left_out = replicate->place > 0 && first->first_seed_alone;
  if (left_out || (replicate->direction != 0 && !answer_moves(&likely))) {
    replicate->ready = replicate->result.done = true;
    return;
  }
  if (replicate->direction != 0 && !prepare_moved(self, replicate)) return;
  replicate->ready = true;
  if (replicate->alone) return;
  replicate_begin(self->provision, replicate, has_likely ? &likely : NULL, self->arena);
}

/* Of the best designs alone, whether this one is still the most promising after what was found. */
static bool is_first(Study *self, const Replicate *replicate) {
  if (self->best.n_open == 0) return true;
  best_update(&self->best);
  return self->best.n_open > 0 && self->best.open[0].first == replicate;
}

/* Takes a search one run further: 1 and the run that it needs, where that is one for a thread; else
 * 0, and whether it went on, which it does not where it waits or is done. */
static int step(Study *self, Replicate *replicate, ProbeRun **ret_run, bool *ret_went_on) {
  SearchResult *result = &replicate->result;
  Knowledge knowledge = {.replicate = replicate, .asked_alone = true};
  prepare(self, replicate);
  *ret_went_on = replicate->ready && !result->done;
  if (!*ret_went_on) return 0;
  search(self, &knowledge, result, self->arena);
  if (result->done || !is_first(self, replicate)) return 0;
  const int domain = next_domain(replicate, &result->needs, true);
  const int begun = begin_run(self, replicate, &result->needs, domain, ret_run);
  if (begun != 0) return begun;
  ProbeRun *needed = replicate_run(replicate, &result->needs, domain);
  if (needed->failed) return diag_append(self->diag, &needed->trial.diag), -1;
  *ret_went_on = needed->verdict != PROBE_UNKNOWN;
  return *ret_went_on ? keep_run(self, needed) : 0;
}

/* Takes a search as far as it goes: 1 and the run that it needs next, 0 when it waits for one or is
 * done. */
static int advance(Study *self, Replicate *replicate, ProbeRun **ret_run) {
  bool goes_on = true;
  int begun = 0;
  while (begun == 0 && goes_on)
    begun = step(self, replicate, ret_run, &goes_on);
  return begun;
}

/* The same of the most promising design, then of the next. */
static int advance_best(Study *self, ProbeRun **ret_run) {
  bool goes_on = true;
  int begun = 0;
  while (begun == 0 && goes_on && self->best.n_open > 0) {
    begun = step(self, self->best.open[0].first, ret_run, &goes_on);
    best_update(&self->best);
  }
  return begun;
}

/* Begins what a search would need after guessing `depth` verdicts as the bits of `guess` say. */
static int begin_guess(Study *self, Replicate *replicate, int depth, int guess,
                       ProbeRun **ret_run) {
  Arena scratch;
  arena_init(&scratch);
  Knowledge knowledge = {.replicate = replicate};
  SearchResult result;
  search(self, &knowledge, &result, &scratch);
  while (!result.done && knowledge.n_guesses < depth) {
    const int i = knowledge.n_guesses++;
    knowledge.guessed[i] = result.needs;
    knowledge.guesses[i] = guess >> i & 1 ? PROBE_HOLDS : PROBE_FAILS;
    search(self, &knowledge, &result, &scratch);
  }
  const int domain = result.done ? 0 : next_domain(replicate, &result.needs, false);
  const int status = result.done ? 0 : begin_run(self, replicate, &result.needs, domain, ret_run);
  arena_done(&scratch);
  return status;
}

/* What may be needed soon, for an idle thread. */
static int speculate(Study *self, ProbeRun **ret_run) {
  for (int i = 0; i < self->best.n_open; i++) {
    prepare(self, self->best.open[i].first);
    const int begun = begin_guess(self, self->best.open[i].first, 0, 0, ret_run);
    if (begun != 0) return begun;
  }
  for (int depth = 1; depth <= GUESSES_MAX; depth++)
    for (int guess = 0; guess < 1 << depth; guess++)
      for (int i = 0; i < self->n_replicates; i++) {
        Replicate *replicate = &self->replicates[i];
        if (!replicate->ready || replicate->result.done) continue;
        const int begun = begin_guess(self, replicate, depth, guess, ret_run);
        if (begun != 0) return begun;
      }
  return 0;
}

/* Fits Campaign.idle. */
static void show_progress(void *context) {
  const Study *self = context;
  ProvisionProgress progress = {.done = self->n_done,
                                .in_flight = self->n_in_flight,
                                .n_designs = self->provision->n_designs};
  if (!self->options->on_progress) return;
  for (int i = 0; i < self->n_replicates; i += self->n_places) {
    const Replicate *first = &self->replicates[i];
    progress.n_settled += first->result.done;
    if (!first->result.done || !first->result.found) continue;
    const Answer answer = replicate_answer(self->provision, first);
    if (progress.best && !provision_is_better(self->provision, &answer, &progress.answer)) continue;
    progress.best = first->design;
    progress.answer = answer;
  }
  self->options->on_progress(self->options->context, &progress);
}

/* Fits Campaign.next: what a search needs, or, while others run, might need. */
static int next_run(void *context, void *slot) {
  Study *self = context;
  int begun = advance_best(self, slot);
  for (int i = 0; i < self->n_replicates && begun == 0 && self->best.n_open == 0; i++)
    begun = advance(self, &self->replicates[i], slot);
  if (begun == 0 && self->n_in_flight > 0) begun = speculate(self, slot);
  show_progress(self);
  return begun;
}

static void make_run(void *slot) {
  probe_run_simulate(*(ProbeRun **)slot);
}

static int take_run(void *context, void *slot) {
  Study *self = context;
  ProbeRun *run = *(ProbeRun **)slot;
  self->n_in_flight--;
  probe_run_take(run, self->arena);
  if (!run->kept && !run->failed) probe_run_release(run);
  return 0;
}

static int run_searches(Study *self) {
  const Campaign campaign = {.jobs = self->options->jobs,
                             .ahead = 1,
                             .run_size = sizeof(ProbeRun *),
                             .next = next_run,
                             .make = make_run,
                             .take = take_run,
                             .idle = show_progress,
                             .context = self,
                             .results = self->options->results};
  const int status = campaign_run(&campaign, self->arena, self->diag);
  for (int i = 0; i < self->n_replicates; i++)
    for (size_t k = 0; k < self->replicates[i].n_runs; k++)
      probe_run_release(self->replicates[i].runs[k]);
  return status;
}

/* The i-th of those with times moved: up, but the first of those that search. */
static void move_replicate(Replicate *replicate, int i) {
  replicate->alone = i < TERM_SCREENS;
  replicate->direction = i == TERM_SCREENS ? -1 : 1;
}

/* For each design its seeds, then, for a range, the first one with times moved: one group of terms
 * alone, then all of them down and up. */
static void plan_replicates(Study *self) {
  const Provision *provision = self->provision;
  const int n_seeds = provision->n_seeds;
  self->n_places = n_seeds + (self->options->range ? TERM_SCREENS + MOVES : 0);
  self->n_replicates = provision->n_designs * self->n_places;
  self->replicates = ARENA_ARRAY(self->arena, Replicate, self->n_replicates);
  for (int i = 0; i < self->n_replicates; i++) {
    const int place = i % self->n_places;
    Replicate *replicate = &self->replicates[i];
    *replicate = (Replicate){.design = &provision->designs[i / self->n_places], .place = place};
    if (place < n_seeds)
      replicate->seed = place;
    else
      move_replicate(replicate, place - n_seeds);
  }
}

int provision_run(const Provision *self, const ProvisionOptions *options,
                  DesignOutcome **ret_outcomes, Arena *arena, Diag *diag) {
  Study study = {.provision = self, .options = options, .arena = arena, .diag = diag};
  if (options->results && results_ask(options->results, "SELECT coalesce(max(id), 0) FROM run",
                                      NULL, 0, &study.last_before, diag) < 0)
    return -1;
  if (self->offline)
    return provision_measure(self, options, study.last_before, ret_outcomes, arena, diag);
  plan_replicates(&study);
  best_init(&study.best, self, study.replicates, study.n_places, arena);
  if (run_searches(&study)) return -1;
  DesignOutcome *outcomes = ARENA_ARRAY(arena, DesignOutcome, self->n_designs);
  for (int d = 0; d < self->n_designs; d++) {
    const Replicate *replicates = &study.replicates[d * study.n_places];
    outcome_fill(self, &self->designs[d], replicates, &outcomes[d], arena);
    if (options->range)
      outcome_fill_moved(self, replicates + self->n_seeds + TERM_SCREENS, &outcomes[d]);
  }
  *ret_outcomes = outcomes;
  return 0;
}
