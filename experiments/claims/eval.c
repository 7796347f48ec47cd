/* From a paper that was read to its figures: all runs of all claims on one pool of threads, then
 * the studies, then the expressions. */
#include "experiments/campaign/campaign.h"
#include "experiments/claims/claims.h"
#include "experiments/provision/provision.h"
#include <math.h>
#include <string.h>

/* ---- Sources ---- */

/* A source whose input is not here has no figures; anything else that is wrong is an error. */
static int take_failure(SourceOutcome *outcome, const Diag *failure, Arena *arena, Diag *diag) {
  const int code = diag_exit_code(failure);
  if (code == 0) return 0;
  if (code == 4) {
    const DiagEntry *entry = &failure->entries[0];
    outcome->gap = entry->at.path ? arena_printf(arena, "%s: %s", entry->at.path, entry->message)
                                  : arena_printf(arena, "%s", entry->message);
    return 0;
  }
  diag_append(diag, failure);
  return -1;
}

static Trial *trial_new(Arena *arena) {
  Trial *trial = ARENA_NEW(arena, Trial);
  trial_init(trial);
  return trial;
}

bool claim_is_of_column(const PaperColumn *column, const Config *config) {
  if (!column->machine) return true;
  for (uint32_t i = 0; config && i < config->sim.n_pools; i++)
    if (strcmp(config->pools[i].machine, column->machine) != 0) return false;
  return config != NULL;
}

/* Binds the source with the seed that is `ahead` of its first; 0: its own. */
static int load_trial(Trial *trial, Paper *paper, const ClaimSource *source, ClaimColumn column,
                      int ahead, Arena *arena, Diag *diag) {
  SourceOutcome *outcome = (SourceOutcome *)&source->outcomes[column];
  ConfigChanges changes = {.seed = ahead > 0 ? outcome->seed + ahead : -1, .tie_seed = -1};
  Setting *settings;
  if (claim_settings(paper, source, column, &settings, &changes.n_settings, arena, diag)) return -1;
  changes.settings = settings;
  const bool failed = trial_load(trial, &paper->columns[column].base, &changes) != 0;
  if (!claim_is_of_column(&paper->columns[column], failed ? NULL : &trial->config)) {
    outcome->wanted = false;
    return 0;
  }
  if (failed) return take_failure(outcome, &trial->diag, arena, diag);
  const int64_t seed = (int64_t)trial->config.sim.seed;
  if (ahead == 0) outcome->seed = seed;
  if (seed != outcome->seed + ahead)
    return diag_error(diag, source->node->at,
                      "'%s' sets 'seed', so its claim can have one seed only", source->name);
  return 0;
}

/* Once, when a figure of the configuration is asked for. */
static int bind_source(Paper *paper, ClaimSource *source, ClaimColumn column, Arena *arena,
                       Diag *diag) {
  SourceOutcome *outcome = &source->outcomes[column];
  if (outcome->bound) return 0;
  outcome->bound = trial_new(arena);
  return load_trial(outcome->bound, paper, source, column, 0, arena, diag);
}

/* Finds what is wrong with it before anything is run; with the second seed as with all others. */
static int check_source(Paper *paper, ClaimSource *source, ClaimColumn column, Arena *arena,
                        Diag *diag) {
  int status = 0;
  for (int ahead = 0; ahead < 2 && ahead < source->n_runs && status == 0; ahead++) {
    Trial trial;
    trial_init(&trial);
    status = load_trial(&trial, paper, source, column, ahead, arena, diag);
    trial_done(&trial);
  }
  return status;
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

/* The runs of a source, one for each seed. */
typedef struct Runs {
  ClaimSource *source;
  ClaimColumn column;
} Runs;

typedef struct Evaluation {
  Paper *paper;
  Runs *sources; // [n_sources] that are simulated
  size_t n_sources, capacity, source;
  int n_runs, n_begun, n_done; // n_begun of self->sources[source]
  int jobs;
  void (*on_progress)(int done, int all);
  Arena *arena;
  Diag *diag;
} Evaluation;

/* A run in a slot. */
typedef struct Run {
  Trial trial;
  Runs *of;
  int seed;
} Run;

static int load(void *context, ClaimSource *source, ClaimColumn column) {
  Evaluation *self = context;
  const SourceOutcome *outcome = &source->outcomes[column];
  if (source->kind == SOURCE_MODEL)
    return bind_source(self->paper, source, column, self->arena, self->diag);
  if (source->kind != SOURCE_RUN) return 0;
  if (check_source(self->paper, source, column, self->arena, self->diag)) return -1;
  if (outcome->gap || !outcome->wanted) return 0;
  ARENA_RESERVE(self->arena, self->sources, self->capacity, self->n_sources + 1);
  self->sources[self->n_sources++] = (Runs){source, column};
  source->outcomes[column].runs = ARENA_ARRAY(self->arena, RunRecord *, source->n_runs);
  self->n_runs += source->n_runs;
  return 0;
}

static int next_run(void *context, void *slot) {
  Evaluation *self = context;
  Run *run = slot;
  if (self->source == self->n_sources) return 0;
  *run = (Run){.of = &self->sources[self->source], .seed = self->n_begun};
  trial_init(&run->trial);
  if (load_trial(&run->trial, self->paper, run->of->source, run->of->column, run->seed, self->arena,
                 self->diag)) {
    trial_done(&run->trial);
    return -1;
  }
  if (++self->n_begun == run->of->source->n_runs) {
    self->source++;
    self->n_begun = 0;
  }
  return 1;
}

static void make_run(void *slot) {
  Trial *trial = &((Run *)slot)->trial;
  run_record_listen(trial);
  trial_run(trial); // what goes wrong is in its diag
}

static int take_run(void *context, void *slot) {
  Evaluation *self = context;
  Run *run = slot;
  SourceOutcome *outcome = &run->of->source->outcomes[run->of->column];
  if (run->trial.diag.n_entries > 0)
    return take_failure(outcome, &run->trial.diag, self->arena, self->diag);
  outcome->runs[run->seed] = run_record_make(&run->trial, self->arena);
  self->n_done++;
  if (self->on_progress) self->on_progress(self->n_done, self->n_runs);
  return 0;
}

static void release_run(void *slot) {
  trial_done(&((Run *)slot)->trial);
}

static int run_all(Evaluation *self) {
  const Campaign campaign = {.jobs = self->jobs,
                             .ahead = 2,
                             .run_size = sizeof(Run),
                             .next = next_run,
                             .make = make_run,
                             .take = take_run,
                             .release = release_run,
                             .context = self};
  return campaign_run(&campaign, self->arena, self->diag);
}

static int run_study(void *context, ClaimSource *source, ClaimColumn column) {
  Evaluation *self = context;
  if (source->kind != SOURCE_STUDY) return 0;
  Diag failure;
  diag_init(&failure);
  claim_run_study(self->paper, source, column, self->jobs, self->arena, &failure);
  const bool optional = self->paper->columns[column].machine != NULL;
  SourceOutcome *outcome = &source->outcomes[column];
  if (optional && failure.n_entries > 0) outcome->wanted = false;
  const int status = outcome->wanted ? take_failure(outcome, &failure, self->arena, self->diag) : 0;
  diag_done(&failure);
  return status;
}

/* ---- Figures ---- */

typedef struct FigureScope {
  Paper *paper;
  const Claim *claim;
  ClaimColumn column;
  int replicate;   // the seed that runs are of
  const char *gap; // of a source that was asked for
  Arena *arena;
} FigureScope;

/* fill(budget, taken, each): machines that a budget leaves room for. */
static bool find_fill(const char *name, const double *arguments, int n_arguments,
                      double *ret_value) {
  if (strcmp(name, "fill") != 0 || n_arguments != 3) return false;
  const double sum = arguments[0] + arguments[1] + arguments[2]; // NAN when one of them is
  *ret_value = isnan(sum) ? NAN : (double)provision_fill(arguments[0], arguments[1], arguments[2]);
  return true;
}

/* Of a run or study what was kept of it; else of the configuration. */
static int find_source_figure(FigureScope *scope, ClaimSource *source, const char *name,
                              const double *arguments, int n_arguments, Place at, double *ret_value,
                              Diag *diag) {
  const SourceOutcome *outcome = &source->outcomes[scope->column];
  const bool is_study = source->kind == SOURCE_STUDY;
  if (source->kind != SOURCE_MODEL &&
      run_record_figure(outcome->runs[is_study ? 0 : scope->replicate], name, arguments,
                        n_arguments, ret_value))
    return 0;
  if (is_study && scope->paper->columns[scope->column].machine) {
    *ret_value = NAN; // of a design that is on other machines
    return 0;
  }
  if (is_study)
    return diag_error(diag, at, "the study has no figure '%s'; a figure is DESIGN.rate or the like",
                      name);
  if (bind_source(scope->paper, source, scope->column, scope->arena, diag)) return -1;
  return claim_model_figure(outcome->bound, name, arguments, n_arguments, at, ret_value, diag);
}

/* The first word of a name is the source's. */
static int find_figure(void *context, const char *name, const double *arguments, int n_arguments,
                       Place at, double *ret_value, Diag *diag) {
  FigureScope *scope = context;
  const size_t length = strcspn(name, ".");
  if (find_fill(name, arguments, n_arguments, ret_value)) return 0;
  ClaimSource *source = claim_find_source(scope->claim, name, length);
  if (!source || name[length] == '\0')
    return diag_error(diag, at, "'%s' is not a figure of a source", name);
  if (source->twin) source = source->twin;
  const SourceOutcome *outcome = &source->outcomes[scope->column];
  if (!outcome->wanted || outcome->gap) {
    if (outcome->gap) scope->gap = outcome->gap;
    *ret_value = NAN;
    return 0;
  }
  return find_source_figure(scope, source, name + length + 1, arguments, n_arguments, at, ret_value,
                            diag);
}

/* A value that is NAN though nothing was missing, such as that of a study without an answer, lies
 * within no range. */
static Verdict judge(const ClaimFigure *figure, double value) {
  if (isnan(value) && figure->gap) return VERDICT_INPUT_MISSING;
  if (isnan(figure->low)) return VERDICT_REPORTED;
  // 2.15 + 0.2 is not 2.35 in binary
  const double rounding = figure->open ? -1e-9 : 1e-9;
  const bool within =
      (isinf(figure->low) || value >= figure->low - rounding * fabs(figure->low)) &&
      (isinf(figure->high) || value <= figure->high + rounding * fabs(figure->high));
  return within ? VERDICT_WITHIN : VERDICT_OUTSIDE;
}

/* The mean over the claim's seeds. */
static int eval_column(const Evaluation *self, const Claim *claim, ClaimFigure *figure,
                       ClaimColumn column) {
  FigureScope context = {
      .paper = self->paper, .claim = claim, .column = column, .arena = self->arena};
  const ExpressionScope scope = {find_figure, &context};
  double sum = 0;
  for (int i = 0; i < claim->n_seeds; i++) {
    double value;
    context.replicate = i;
    if (expression_eval(&figure->value, &scope, &value, self->diag)) return -1;
    sum += value;
  }
  figure->values[column] = sum / claim->n_seeds;
  if (context.gap && !figure->gap) figure->gap = context.gap;
  return 0;
}

static int eval_figure(const Evaluation *self, const Claim *claim, ClaimFigure *figure) {
  double first = NAN;
  for (int c = 0; c < CLAIM_COLUMNS; c++) {
    figure->values[c] = NAN;
    if (!self->paper->columns[c].present) continue;
    if (eval_column(self, claim, figure, (ClaimColumn)c)) return -1; // once is enough
    if (isnan(first)) first = figure->values[c];
  }
  figure->verdict = judge(figure, first);
  for (int c = 0; c < CLAIM_COLUMNS; c++) {
    const bool only_other = isnan(figure->values[c]) && !isnan(first);
    figure->by[c] = only_other ? VERDICTS : judge(figure, figure->values[c]);
  }
  return 0;
}

/* Makes what these claims need and evaluates their figures. */
static int eval_claims(Evaluation *self, Claim *claims, int n_claims) {
  if (each_source(claims, n_claims, load, self) || run_all(self) ||
      each_source(claims, n_claims, run_study, self))
    return -1;
  int status = 0;
  for (int i = 0; i < n_claims; i++)
    for (int f = 0; f < claims[i].n_figures; f++)
      if (claims[i].figures[f].value.text)
        status |= eval_figure(self, &claims[i], &claims[i].figures[f]);
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
