/* See plan_rate.h. */
#include "experiments/commands/plan_rate.h"
#include <math.h>
#include <string.h>

/* GPUs that the first search has at least; designs that are kept, and how near to the best. */
enum { FEW_GPUS = 8, KEPT_MAX = 3 };
static const double KEPT_SHARE = 0.9;

int rate_search(const RateSearch *self, const Question *question, Plan *plan, Study *study) {
  static const char name[] = "(the study)";
  if (plan_make(plan, question, self->arena, self->diag) ||
      plan_set_keys(plan, self->arena, self->diag))
    return -1;
  Node *root = yaml_parse(name, plan->text, strlen(plan->text), self->arena, self->diag);
  if (!root || study_open(study, name, root, NULL, self->jobs, self->memory, question->cache,
                          self->arena, self->diag))
    return -1;
  return study_search(study, NULL, false, false);
}

/* The prefill instances to try of a design whose best ratio is known of fewer GPUs. */
static PlanOnly only_of(const DesignOutcome *outcome, double scale) {
  const int64_t *counts = outcome->answers[0].counts;
  PlanOnly only = {.name = outcome->design->name};
  if (outcome->design->n_counts < 2) return only;
  only.low = (int64_t)fmax(1, floor(scale * ((double)counts[0] - 0.5)));
  only.high = (int64_t)ceil(scale * ((double)counts[0] + 0.5));
  return only;
}

static void keep_best(const RateSearch *self, const Study *study, double scale,
                      Question *narrowed) {
  const Provision *provision = &study->provision;
  const int *order = plan_order(provision, study->outcomes, self->arena);
  PlanOnly *only = ARENA_ARRAY(self->arena, PlanOnly, KEPT_MAX);
  const double best = study->outcomes[study->best].answers[0].rate;
  for (int i = 0; i < provision->n_designs && narrowed->n_only < KEPT_MAX; i++) {
    const DesignOutcome *outcome = &study->outcomes[order[i]];
    if (outcome->answers[0].found && outcome->answers[0].rate >= KEPT_SHARE * best)
      only[narrowed->n_only++] = only_of(outcome, scale);
  }
  narrowed->only = only;
  narrowed->likely_rate = scale * best;
}

int rate_narrow(const RateSearch *self, const Question *asked, Question *ret_narrowed) {
  Plan plan;
  Study study = {0};
  Question few = *asked;
  *ret_narrowed = *asked;
  if (plan_make(&plan, asked, self->arena, self->diag)) return -1;
  const int64_t least = 2 * parallelism_gpus(plan.shapes[0]); // the smallest one
  few.gpus = least > FEW_GPUS ? least : FEW_GPUS;
  if (few.gpus > asked->gpus) few.gpus = asked->gpus;
  few.seeds = 1;
  const int status = rate_search(self, &few, &plan, &study);
  if (status == 0 && study.best >= 0)
    keep_best(self, &study, (double)asked->gpus / (double)few.gpus, ret_narrowed);
  study_close(&study);
  return status;
}

int rate_next(const RateSearch *self, const Question *narrowed, const Study *study,
              MoreGpus *ret_more) {
  const DesignOutcome *outcome = &study->outcomes[study->best];
  const Design *design = outcome->design;
  const Answer *answer = &outcome->answers[0];
  const int64_t *counts = answer->counts;
  Plan plan;
  Study more = {0};
  Question question = *narrowed;
  double least = INFINITY;
  for (int i = 0; i < design->n_counts; i++)
    least = fmin(least, design->each[i].gpus);
  *ret_more = (MoreGpus){.gpus = (int64_t)least};
  question.gpus = (int64_t)(answer->fleet.takes.gpus + least);

  question.seeds = 1;
  question.n_only = 1;
  question.only = &(PlanOnly){design->name, design->n_counts < 2 ? 0 : counts[0],
                              design->n_counts < 2 ? 0 : counts[0] + 1};
  const int status = rate_search(self, &question, &plan, &more);
  if (status == 0 && more.best >= 0) ret_more->rate = more.outcomes[more.best].answers[0].rate;
  study_close(&more);
  return status;
}

/* ---- Growth ---- */

/* The highest rate of the answer's cluster. */
static int find_held(const RateSearch *self, const Question *asked, const Study *study,
                     Growth *growth) {
  const DesignOutcome *outcome = &study->outcomes[study->best];
  const int64_t first = outcome->answers[0].counts[0];
  const bool split = outcome->design->n_counts > 1;
  const PlanOnly only = {outcome->design->name, split ? first : 0, split ? first : 0};
  Question question = *asked;
  Plan plan;
  Study held = {0};
  question.gpus = (int64_t)outcome->answers[0].fleet.takes.gpus;
  question.likely_rate = asked->rate;
  question.rate = 0;
  question.max_gpus = 0;
  question.seeds = 1;
  question.only = &only;
  question.n_only = 1;
  const int status = rate_search(self, &question, &plan, &held);
  // Its steps are finer than what was asked, which it holds.
  if (status == 0 && held.best >= 0)
    growth->held = fmax(asked->rate, held.outcomes[held.best].answers[0].rate);
  study_close(&held);
  return status;
}

/* What the load takes at the end, of all designs. */
static int find_then(const RateSearch *self, const Question *asked, Growth *growth) {
  Question question = *asked;
  Plan plan;
  Study then = {0};
  question.rate = growth->rate;
  question.seeds = 1;
  const int status = rate_search(self, &question, &plan, &then);
  growth->then = "more than any design gives";
  if (status == 0 && then.best >= 0)
    growth->then = plan_named_takes(&then.outcomes[then.best], self->arena);
  study_close(&then);
  return status;
}

int rate_growth(const RateSearch *self, const Question *asked, const Study *study, Growth *growth) {
  if (find_held(self, asked, study, growth)) return -1;
  growth->months = log(growth->held / asked->rate) / log1p(growth->share);
  if (growth->until == 0) return 0;
  growth->rate = asked->rate * pow(1 + growth->share, growth->until);
  return find_then(self, asked, growth);
}
