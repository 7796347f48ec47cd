/* What a study has found out: values of answers, their spread over the seeds, why there is none. */
#include "experiments/base/student.h"
#include "experiments/provision/replicate.h"
#include <math.h>

double provision_value(const Provision *self, const Answer *answer) {
  return self->objective == OBJECTIVE_THROUGHPUT
             ? answer->rate
             : takes_value(&answer->fleet.takes, self->objective);
}

/* The same cluster. Rates differ from seed to seed, which their range tells. */
static bool same_answer(const Answer *a, const Answer *b) {
  return a->found == b->found && a->counts[0] == b->counts[0] && a->counts[1] == b->counts[1] &&
         a->choice == b->choice;
}

void outcome_fill_spread(const Provision *self, DesignOutcome *outcome) {
  Moments moments = {0};
  outcome->low = INFINITY;
  outcome->high = -INFINITY;
  for (int s = 0; s < provision_seeds(self, outcome); s++) {
    const Answer *answer = &outcome->answers[s];
    bool is_new = true, repeated = false;
    for (int k = 0; k < s; k++) {
      is_new &= !same_answer(answer, &outcome->answers[k]);
      repeated |=
          answer->run.outcomes != 0 && answer->run.outcomes == outcome->answers[k].run.outcomes;
    }
    outcome->n_distinct += is_new;
    if (!answer->found) continue;
    const double value = provision_value(self, answer);
    outcome->n_found++;
    moments_add(&moments, value, repeated);
    outcome->low = fmin(outcome->low, value);
    outcome->high = fmax(outcome->high, value);
  }
  const bool any = outcome->n_found > 0;
  outcome->mean = any ? moments.mean : NAN; // of equal values that value
  outcome->half_width = moments_half_width(&moments);
  outcome->n_different = (int)moments_different(&moments);
  if (!any) outcome->low = outcome->high = NAN;
}

/* Of a search whose least cluster takes more than a budget; NULL: it was not that. */
static const char *explain_budget(const Provision *self, const Replicate *replicate, Arena *arena) {
  const Probe *least = &replicate->result.answer;
  const ProbeRun *run = replicate_find(replicate, least);
  const Takes takes = design_takes(replicate->design, least->counts);
  if (!run || run->verdict != PROBE_HOLDS || !provision_exceeds(self, &takes)) return NULL;
  if (self->max_gpus > 0 && takes.gpus > self->max_gpus)
    return arena_printf(arena, "what meets the limits takes %.0f GPUs of at most %.0f", takes.gpus,
                        self->max_gpus);
  if (self->budget_of == OBJECTIVE_GPUS)
    return arena_printf(arena, "what meets the limits takes %.0f GPUs of at most %.0f", takes.gpus,
                        self->budget);
  return arena_printf(arena, "what meets the limits takes %.6g %s, the budget is %.6g %s",
                      takes_value(&takes, self->budget_of), objective_units[self->budget_of],
                      self->budget, objective_units[self->budget_of]);
}

/* Of a replicate without an answer: the most machines at the lowest rate, and what failed there. */
static const char *explain(const Provision *self, const Replicate *replicate, Arena *arena) {
  const char *budget = explain_budget(self, replicate, arena);
  if (budget) return budget;
  const Probe *easiest = NULL;
  for (int i = 0; i < replicate->result.n_steps; i++) {
    const Probe *probe = &replicate->result.steps[i].probe;
    const int64_t machines = probe->counts[0] + probe->counts[1];
    const int64_t most = easiest ? easiest->counts[0] + easiest->counts[1] : 0;
    if (!easiest || probe->rate < easiest->rate ||
        (probe->rate == easiest->rate && machines > most))
      easiest = probe;
  }
  if (!easiest)
    return arena_printf(arena, "no instance counts fit within %g %s", self->budget,
                        objective_units[self->budget_of]);
  const ProbeRun *run = replicate_find(replicate, easiest);
  const SloOutcome *worst = probe_run_binding(run);
  double share = 0;
  const char *rejected = probe_run_rejections(run, &share, arena);
  if (rejected && share >= 1 - worst->spec->quantile)
    return arena_printf(arena, "%s: no count holds '%s'", rejected, worst->spec->name);
  const Design *design = replicate->design;
  const char *counts = "";
  for (int i = 0; i < design->n_counts; i++)
    counts = arena_printf(arena, "%s%s%s=%lld", counts, i ? " " : " with ", design->counts[i].key,
                          (long long)easiest->counts[i]);
  const double rate = (1 + self->headroom) * provision_probe_rate(self, easiest);
  const char *at = rate > 0 ? arena_printf(arena, " at %.6g requests/s", rate) : "";
  const char *lost = probe_limit_lost(worst, arena_printf(arena, "%s%s", counts, at), arena);
  return rejected ? arena_printf(arena, "%s; %s", rejected, lost) : lost;
}

/* Of one whose search was not ended. */
static const char *explain_given_up(const Provision *self, const Replicate *replicate,
                                    Arena *arena) {
  const Takes takes = design_takes(replicate->design, replicate->result.least.counts);
  return arena_printf(arena, "not searched to the end: it takes at least %.6g %s and %.0f GPU%s",
                      takes_value(&takes, self->objective), objective_units[self->objective],
                      takes.gpus, takes.gpus > 1 ? "s" : "");
}

/* Simulations without a search: all counts, or all clusters at all rates up to the first that none
 * of them holds and the one that the search began with. */
static double grid_of(const Replicate *replicate) {
  const SearchSpace *space = &replicate->space;
  if (space->n_clusters > 0) {
    const SearchResult *result = &replicate->result;
    int64_t last = result->found ? result->answer.rate + 1 : space->rate_low;
    if (last < space->start.rate) last = space->start.rate;
    if (last > space->rate_high) last = space->rate_high;
    return (double)space->n_clusters * (double)(last - space->rate_low + 1);
  }
  double n = 1;
  for (int i = 0; i < space->n_counts; i++)
    n *= (double)(space->high[i] - space->low[i] + 1);
  return n;
}

static void count_runs(DesignOutcome *outcome, const Replicate *replicate) {
  for (int i = 0; i < replicate->result.n_steps; i++) {
    const Probe *probe = &replicate->result.steps[i].probe;
    const ProbeRun *run = replicate_run(replicate, probe, 0); // with times moved it may be inferred
    for (int d = 1; run && (run->asked || d == 1); run = replicate_run(replicate, probe, d++)) {
      outcome->n_simulations++;
      outcome->n_stopped += run->stopped;
      outcome->n_reused += run->reused;
      outcome->events += run->events;
      outcome->saved_events += run->saved_events;
    }
  }
}

void outcome_fill(const Provision *study, const Design *design, const Replicate *replicates,
                  DesignOutcome *outcome, Arena *arena) {
  Answer *answers = ARENA_ARRAY(arena, Answer, study->n_seeds);
  *outcome = (DesignOutcome){.design = design,
                             .answers = answers,
                             .first_seed_alone = replicates[0].first_seed_alone,
                             .monotone = true,
                             .low_model = NAN,
                             .high_model = NAN};
  for (int s = 0; s < provision_seeds(study, outcome); s++) {
    answers[s] = replicate_answer(study, &replicates[s]);
    outcome->monotone &= replicates[s].result.monotone;
    outcome->n_grid += grid_of(&replicates[s]);
    count_runs(outcome, &replicates[s]);
    if (!answers[0].found) continue;
    const ProbeRun *same = replicate_find(&replicates[s], &replicates[0].result.answer);
    outcome->n_holds += same && same->verdict == PROBE_HOLDS;
  }
  outcome_fill_spread(study, outcome);
  if (!answers[0].found)
    outcome->why_not = replicates[0].given_up ? explain_given_up(study, &replicates[0], arena)
                                              : explain(study, &replicates[0], arena);
}

/* ---- With times moved ---- */

bool answer_moves(const Answer *self) {
  return self->found && self->run.perfmodel_error > 0;
}

void outcome_fill_range(const Provision *self, DesignOutcome *outcome) {
  outcome->ranged = answer_moves(&outcome->answers[0]);
  outcome->low_model = outcome->ranged ? outcome->low : NAN;
  outcome->high_model = outcome->ranged ? outcome->high : NAN;
  const double none = self->objective == OBJECTIVE_THROUGHPUT ? 0 : INFINITY;
  for (int i = 0; i < MOVES && outcome->ranged; i++) {
    const Answer *answer = &outcome->moved[i];
    const double value = answer->found ? provision_value(self, answer) : none;
    outcome->low_model = fmin(outcome->low_model, value);
    outcome->high_model = fmax(outcome->high_model, value);
  }
}

static void count_moved(DesignOutcome *outcome, const Replicate *moved) {
  DesignOutcome work = {0};
  count_runs(&work, moved);
  outcome->n_moved_simulations += work.n_simulations;
  outcome->moved_events += work.events;
}

void outcome_fill_moved(const Provision *study, const Replicate *moved, DesignOutcome *outcome) {
  Answer *answer = (Answer *)&outcome->answers[0];
  const Probe *cluster = &(moved - moved->place)->result.answer;
  const Replicate *screens = moved - TERM_SCREENS;
  if (outcome->first_seed_alone) return;
  for (int g = 0; g < TERM_SCREENS && answer_moves(answer); g++)
    count_moved(outcome, &screens[g]);
  outcome->moved_by = moved->moved;
  for (int i = 0; i < MOVES && answer_moves(answer); i++) {
    count_moved(outcome, &moved[i]);
    outcome->moved[i] = replicate_answer(study, &moved[i]);
    const ProbeRun *run = replicate_find(&moved[i], cluster);
    answer->moved_slos[i] = run->slos;
    answer->moved_kv[i] = probe_run_pressure(run);
  }
  outcome_fill_range(study, outcome);
}

/* ---- Which design ---- */

bool provision_is_better(const Provision *self, const Answer *answer, const Answer *other) {
  const double sign = self->objective == OBJECTIVE_THROUGHPUT ? 1 : -1;
  const double grams = self->by_carbon ? answer->run.carbon - other->run.carbon : 0;
  if (grams < 0 || grams > 0) return grams < 0; // known of both
  const double more = sign * (provision_value(self, answer) - provision_value(self, other));
  const double gpus = answer->fleet.takes.gpus - other->fleet.takes.gpus;
  if (more != 0) return more > 0;
  return gpus != 0 ? gpus < 0 : answer->margin > other->margin;
}

static int best_on_seed(const Provision *self, const DesignOutcome *outcomes, int seed) {
  int best = -1;
  for (int d = 0; d < self->n_designs; d++) {
    const Answer *answer = &outcomes[d].answers[seed];
    if (!answer->found) continue;
    if (best < 0 || provision_is_better(self, answer, &outcomes[best].answers[seed])) best = d;
  }
  return best;
}

int provision_best(const Provision *self, const DesignOutcome *outcomes, bool *ret_flips) {
  const int best = best_on_seed(self, outcomes, 0);
  *ret_flips = false;
  for (int s = 1; s < self->n_seeds; s++)
    *ret_flips |= best_on_seed(self, outcomes, s) != best;
  return best;
}

bool provision_rivals(const Provision *self, const DesignOutcome *outcomes, int best, int other) {
  const DesignOutcome *ours = &outcomes[best], *theirs = &outcomes[other];
  if (other == best || !ours->ranged || !theirs->ranged) return false;
  return self->objective == OBJECTIVE_THROUGHPUT ? theirs->high_model >= ours->low_model
                                                 : theirs->low_model <= ours->high_model;
}
