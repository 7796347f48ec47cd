/* From a paper that was read to its figures: all runs of all claims on one pool of threads, then
 * the studies, then the expressions. */
#include "experiments/campaign/campaign.h"
#include "experiments/claims/claims.h"
#include "experiments/provision/provision.h"
#include <math.h>
#include <string.h>

/* ---- Sources ---- */

/* A source whose input is not here has no figures; anything else that is wrong is an error. */
static int take_failure(SourceOutcome *outcome, Trial *trial, Diag *diag) {
  const int code = diag_exit_code(&trial->diag);
  if (code == 0) return 0;
  if (code == 4) {
    outcome->gap = trial_reason(trial);
    return 0;
  }
  diag_append(diag, &trial->diag);
  return -1;
}

/* The first trial has the configuration's own seed, the others those that follow it. */
static int load_source(Paper *paper, ClaimSource *source, ClaimColumn column, Arena *arena,
                       Diag *diag) {
  SourceOutcome *outcome = &source->outcomes[column];
  ConfigChanges changes = {.seed = -1, .tie_seed = -1};
  Setting *settings;
  if (claim_settings(paper, source, column, &settings, &changes.n_settings, arena, diag)) return -1;
  changes.settings = settings;
  outcome->trials = ARENA_ARRAY(arena, Trial *, source->n_trials);
  for (int i = 0; i < source->n_trials; i++) {
    Trial *trial = outcome->trials[i] = ARENA_NEW(arena, Trial);
    trial_init(trial);
    if (trial_load(trial, &paper->columns[column].base, &changes))
      return take_failure(outcome, trial, diag);
    const int64_t seed = (int64_t)outcome->trials[0]->config.sim.seed;
    if ((int64_t)trial->config.sim.seed != seed + i)
      return diag_error(diag, source->node->at, "'%s' sets 'seed', so its claim can have one only",
                        source->name);
    changes.seed = seed + i + 1;
  }
  return 0;
}

/* Calls `visit` with every source that is to be made, in every column it is wanted in. */
typedef int (*SourceVisit)(void *context, ClaimSource *source, ClaimColumn column);

static int each_source(Claim *claims, int n_claims, SourceVisit visit, void *context) {
  int status = 0;
  for (int i = 0; i < n_claims; i++)
    for (int s = 0; s < claims[i].n_sources; s++) {
      ClaimSource *source = &claims[i].sources[s];
      for (int c = 0; c < CLAIM_COLUMNS; c++)
        if (source->outcomes[c].wanted && !source->twin && status == 0)
          status = visit(context, source, (ClaimColumn)c);
    }
  return status;
}

typedef struct Evaluation {
  Paper *paper;
  Trial **trials; // [n_trials], of all runs
  size_t n_trials, capacity, n_begun;
  int jobs, n_done;
  void (*on_progress)(int done, int all);
  Arena *arena;
  Diag *diag;
} Evaluation;

static int load(void *context, ClaimSource *source, ClaimColumn column) {
  Evaluation *self = context;
  const SourceOutcome *outcome = &source->outcomes[column];
  if (source->kind == SOURCE_STUDY) return 0;
  if (load_source(self->paper, source, column, self->arena, self->diag)) return -1;
  if (source->kind != SOURCE_RUN || outcome->gap) return 0;
  ARENA_RESERVE(self->arena, self->trials, self->capacity,
                self->n_trials + (size_t)source->n_trials);
  for (int i = 0; i < source->n_trials; i++)
    self->trials[self->n_trials++] = outcome->trials[i];
  return 0;
}

static int next_trial(void *context, void *slot) {
  Evaluation *self = context;
  if (self->n_begun == self->n_trials) return 0;
  *(Trial **)slot = self->trials[self->n_begun++];
  return 1;
}

static void make_trial(void *slot) {
  trial_run(*(Trial **)slot); // what goes wrong is in its diag
}

static int take_trial(void *context, void *slot) {
  Evaluation *self = context;
  (void)slot;
  self->n_done++;
  if (self->on_progress) self->on_progress(self->n_done, (int)self->n_trials);
  return 0;
}

static int check(void *context, ClaimSource *source, ClaimColumn column) {
  Evaluation *self = context;
  SourceOutcome *outcome = &source->outcomes[column];
  int status = 0;
  for (int i = 0; source->kind == SOURCE_RUN && !outcome->gap && i < source->n_trials; i++)
    status |= take_failure(outcome, outcome->trials[i], self->diag);
  return status;
}

static int run_all(Evaluation *self, Claim *claims, int n_claims) {
  const Campaign campaign = {.jobs = self->jobs,
                             .ahead = 2,
                             .run_size = sizeof(Trial *),
                             .next = next_trial,
                             .make = make_trial,
                             .take = take_trial,
                             .context = self};
  return campaign_run(&campaign, self->arena, self->diag) ||
                 each_source(claims, n_claims, check, self)
             ? -1
             : 0;
}

static int run_study(void *context, ClaimSource *source, ClaimColumn column) {
  Evaluation *self = context;
  if (source->kind != SOURCE_STUDY) return 0;
  return claim_run_study(self->paper, source, column, self->jobs, self->arena, self->diag);
}

/* ---- Figures ---- */

typedef struct FigureScope {
  const Claim *claim;
  ClaimColumn column;
  int replicate;   // the seed that runs are of
  const char *gap; // of a source that was asked for
} FigureScope;

/* fill(budget, taken, each): machines that a budget leaves room for. */
static bool find_fill(const char *name, const double *arguments, int n_arguments,
                      double *ret_value) {
  if (strcmp(name, "fill") != 0 || n_arguments != 3) return false;
  const double sum = arguments[0] + arguments[1] + arguments[2]; // NAN when one of them is
  *ret_value = isnan(sum) ? NAN : (double)provision_fill(arguments[0], arguments[1], arguments[2]);
  return true;
}

/* The first word of a name is the source's. */
static int find_figure(void *context, const char *name, const double *arguments, int n_arguments,
                       Place at, double *ret_value, Diag *diag) {
  FigureScope *scope = context;
  const size_t length = strcspn(name, ".");
  if (find_fill(name, arguments, n_arguments, ret_value)) return 0;
  const ClaimSource *source = claim_find_source(scope->claim, name, length);
  if (!source || name[length] == '\0')
    return diag_error(diag, at, "'%s' names no figure of a source", name);
  const SourceOutcome *outcome = &(source->twin ? source->twin : source)->outcomes[scope->column];
  if (!outcome->wanted || outcome->gap) {
    if (outcome->gap) scope->gap = outcome->gap;
    *ret_value = NAN;
    return 0;
  }
  const char *rest = name + length + 1;
  switch (source->kind) {
  case SOURCE_RUN:
    return claim_run_figure(outcome->trials[scope->replicate], rest, arguments, n_arguments, at,
                            ret_value, diag);
  case SOURCE_MODEL:
    return claim_model_figure(outcome->trials[0], rest, arguments, n_arguments, at, ret_value,
                              diag);
  case SOURCE_STUDY:
    return claim_study_figure(outcome->study, rest, n_arguments, at, ret_value, diag);
  case SOURCE_KINDS:
    break;
  }
  return -1;
}

/* A value that is NAN though nothing was missing, such as that of a study without an answer, lies
 * within no range. */
static Verdict judge(const ClaimFigure *figure, double value) {
  if (isnan(value) && figure->gap) return VERDICT_INPUT_MISSING;
  if (isnan(figure->low)) return VERDICT_REPORTED;
  // 2.15 + 0.2 is not 2.35 in binary
  const double slack = 1e-9 * fmax(fabs(figure->low), fabs(figure->high));
  const bool within = value >= figure->low - slack && value <= figure->high + slack;
  return within ? VERDICT_WITHIN : VERDICT_OUTSIDE;
}

/* The mean over the claim's seeds. */
static int eval_column(const Claim *claim, ClaimFigure *figure, ClaimColumn column, Diag *diag) {
  FigureScope context = {.claim = claim, .column = column};
  const ExpressionScope scope = {find_figure, &context};
  double sum = 0;
  for (int i = 0; i < claim->n_seeds; i++) {
    double value;
    context.replicate = i;
    if (expression_eval(figure->value, &scope, &value, diag)) return -1;
    sum += value;
  }
  figure->values[column] = sum / claim->n_seeds;
  if (context.gap && !figure->gap) figure->gap = context.gap;
  return 0;
}

static int eval_figure(const Paper *paper, const Claim *claim, ClaimFigure *figure, Diag *diag) {
  double judged = NAN;
  for (int c = 0; c < CLAIM_COLUMNS; c++) {
    figure->values[c] = NAN;
    if (!paper->columns[c].present) continue;
    if (eval_column(claim, figure, (ClaimColumn)c, diag)) return -1; // once is enough
    if (isnan(judged)) judged = figure->values[c];
  }
  figure->verdict = judge(figure, judged);
  return 0;
}

/* Makes what these claims need and evaluates their figures. */
static int eval_claims(Evaluation *self, Claim *claims, int n_claims) {
  if (each_source(claims, n_claims, load, self) || run_all(self, claims, n_claims) ||
      each_source(claims, n_claims, run_study, self))
    return -1;
  int status = 0;
  for (int i = 0; i < n_claims; i++)
    for (int f = 0; f < claims[i].n_figures; f++)
      if (claims[i].figures[f].value)
        status |= eval_figure(self->paper, &claims[i], &claims[i].figures[f], self->diag);
  return status;
}

int paper_eval(Paper *self, int jobs, bool sensitivity, void (*on_progress)(int done, int all),
               Arena *arena, Diag *diag) {
  Evaluation evaluation = {
      .paper = self, .jobs = jobs, .on_progress = on_progress, .arena = arena, .diag = diag};
  if (eval_claims(&evaluation, self->claims, self->n_claims)) return -1;
  if (!sensitivity) return 0;
  paper_points(self, arena, diag);
  return eval_claims(&evaluation, self->points, self->n_points);
}
