/* See plan_sides.h. */
#include "experiments/commands/plan_sides.h"
#include "experiments/base/cells.h"
#include "experiments/base/interrupt.h"
#include "experiments/commands/plan_rate.h"
#include "experiments/plot/plot.h"
#include "sim/core/speculation.h"
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The answer to one of the questions. */
typedef struct Side {
  int number;
  const char *gpu, *engine, *weights; // as they were resolved, or else asked
  bool rated;                         // by its highest rate
  bool emits;                         // what its energy emits is known
  const char *prefill;                // likewise; NULL: not asked
  int64_t drafts;                     // -1: not asked
  const char *offload;                // NULL: not asked
  const char *design;                 // NULL: there is no answer
  const char *rests_on;               // or why there is none
  const Answer *answer;
  Front front; // empty: no figure is drawn
} Side;

const char *const *sides_list(const char *text, Arena *arena) {
  size_t n = 0;
  for (const char *at = text; at && *at; at++)
    n += *at == ',';
  const char **items = ARENA_ARRAY(arena, const char *, n + 3);
  for (size_t i = 0; text; i++) {
    const size_t length = strcspn(text, ",");
    items[i] = arena_copy(arena, text, length);
    text = text[length] ? text + length + 1 : NULL;
  }
  return items;
}

static int count(const char *const *list) {
  int n = 0;
  while (list[n])
    n++;
  return n > 0 ? n : 1;
}

/* "3" or "0..4", up to a comma or the end; NULL: it is neither. */
static const char *read_range(const char *text, int64_t *ret_low, int64_t *ret_high) {
  char *end = NULL;
  const bool digit = isdigit((unsigned char)*text);
  *ret_low = *ret_high = strtoll(text, &end, 10);
  if (digit && strncmp(end, "..", 2) == 0 && isdigit((unsigned char)end[2]))
    *ret_high = strtoll(end + 2, &end, 10);
  const bool ends = *end == '\0' || (*end == ',' && end[1]);
  return digit && ends && *ret_low <= *ret_high && *ret_high <= SPECULATIVE_TOKENS_MAX ? end : NULL;
}

int sides_drafts(Sides *self, const char *text, Arena *arena, Diag *diag) {
  int64_t *drafts = ARENA_ARRAY(arena, int64_t, SIDES_MAX + 1);
  self->drafts = text ? drafts : NULL;
  for (const char *at = text; at && self->n_drafts <= SIDES_MAX;) {
    int64_t low, high;
    const char *end = read_range(at, &low, &high);
    if (!end) {
      diag_error(diag, place_of_file("--speculative"),
                 "'%s' is not a list of numbers of drafts from 0 to %d", text,
                 (int)SPECULATIVE_TOKENS_MAX);
      return diag_hint(diag, "for example 3, 0..4 or 0,1,3");
    }
    for (; low <= high && self->n_drafts <= SIDES_MAX; low++)
      drafts[self->n_drafts++] = low;
    at = *end ? end + 1 : NULL;
  }
  return 0;
}

static int count_drafts(const Sides *self) {
  return self->n_drafts > 0 ? self->n_drafts : 1;
}

int sides_count(const Sides *self) {
  return count(self->gpus) * count(self->prefill_gpus) * count(self->engines) *
         count(self->weights) * count_drafts(self) * count(self->offloads);
}

int sides_question(const Sides *self, int i, Question *ret_question, Diag *diag) {
  const int n_weights = count(self->weights), n_engines = count(self->engines);
  *ret_question = *self->question;
  ret_question->offload = self->offloads[i % count(self->offloads)];
  i /= count(self->offloads);
  ret_question->drafts = self->drafts ? self->drafts[i % self->n_drafts] : -1;
  i /= count_drafts(self);
  const char *weights = self->weights[i % n_weights];
  ret_question->engine = self->engines[i / n_weights % n_engines];
  i /= n_weights * n_engines;
  ret_question->prefill_gpu = self->prefill_gpus[i % count(self->prefill_gpus)];
  ret_question->gpu = self->gpus[i / count(self->prefill_gpus)];
  ret_question->weights = -1;
  for (int d = 0; weights && d < DTYPE_COUNT; d++)
    if (strcmp(dtype_names[d], weights) == 0) ret_question->weights = d;
  if (!weights || ret_question->weights >= 0) return 0;
  diag_error(diag, place_of_file("--weights"), "unknown number format '%s'", weights);
  return diag_hint_near(diag, weights, dtype_names);
}

/* ---- One answer ---- */

/* "roofline", or whose kernels were measured, and what of them is borrowed: "vllm-0.24.0, version
 * 0.24.0 for 0.33". */
static const char *times_of_pool(const PerfModel *times, Arena *arena) {
  if (!times->measured) return "roofline";
  if (!times->taken)
    return arena_printf(arena, "%s-%s", times->setup.engine, times->setup.engine_version);
  return arena_printf(arena, "%.*s%s", (int)strcspn(times->taken, "/,"), times->taken,
                      times->taken + strcspn(times->taken, ","));
}

/* Of the first pool; of the other as well where prefill has another GPU. */
static const char *times_of(const Plan *plan, const Config *config, Arena *arena) {
  const char *first = times_of_pool(config->sim.pools[0].perfmodel, arena);
  if (!plan->prefill || config->sim.n_pools < 2) return first;
  const char *second = times_of_pool(config->sim.pools[1].perfmodel, arena);
  return strcmp(first, second) == 0 ? first : arena_printf(arena, "%s; %s", first, second);
}

/* Beside the times the acceptance of drafts that nobody gave, "..., 2.94 tokens a step assumed",
 * and what emissions do not count. */
static const char *rests_on(const Plan *plan, const Config *config, Arena *arena) {
  const char *text = times_of(plan, config, arena);
  if (plan->has_acceptance)
    text =
        arena_printf(arena, "%s, %.2f tokens a step %s", text, acceptance_middle(&plan->acceptance),
                     plan->acceptance.own ? "as measured on coding prompts" : "assumed");
  const bool lacks = plan->question->carbon && plan_lacks_machine_power(config);
  return lacks ? arena_printf(arena, "%s; emissions of the GPUs alone", text) : text;
}

static int take_answer(Side *self, const Plan *plan, Study *study, Arena *arena) {
  Config *config = ARENA_NEW(arena, Config);
  if (study_bind_answer(study, 0, NULL, config)) return -1;
  self->design = study->provision.designs[study->best].name;
  self->answer = &study->outcomes[study->best].answers[0];
  self->rests_on = rests_on(plan, config, arena);
  return 0;
}

static int search_side(Side *self, const Sides *of, const Plan *plan, Study *study, Arena *arena,
                       Diag *diag) {
  Node *root = yaml_parse("(the study)", plan->text, strlen(plan->text), arena, diag);
  if (!root ||
      study_open(study, "(the study)", root, NULL, of->jobs, of->memory, plan->question->cache,
                 arena, diag) ||
      study_search(study, of->output, false, true))
    return -1;
  if (study->best >= 0 && of->figure &&
      front_make(&self->front, &study->provision, study->outcomes, INT_MAX, false, study->jobs,
                 arena, diag))
    return -1;
  if (study->best >= 0) return take_answer(self, plan, study, arena);
  self->rests_on = study->outcomes[0].why_not;
  return 0;
}

/* What is wrong with one question is its answer; only an interrupt ends all of them. */
static int answer_side(Cli *cli, const Sides *of, Side *self) {
  Question question;
  Plan plan;
  Study study = {0};
  Diag *diag = ARENA_NEW(cli->arena, Diag); // what an answer points to is in its arena
  if (sides_question(of, self->number, &question, cli->diag)) return -1;
  diag_init(diag);
  const RateSearch how = {of->jobs, of->memory, cli->arena, diag};
  const Question whole = question;
  int status = whole.gpus > 0 ? rate_narrow(&how, &whole, &question) : 0;
  if (status == 0) status = plan_make(&plan, &question, cli->arena, diag);
  self->rated = question.gpus > 0;
  self->emits = question.carbon != NULL;
  self->drafts = question.drafts;
  self->offload = question.offload;
  self->gpu = status ? question.gpu : plan.machine;
  self->prefill = status == 0 && plan.prefill ? plan.prefill->machine : question.prefill_gpu;
  self->engine = status ? question.engine : plan.engine;
  self->weights = question.weights >= 0 ? dtype_names[question.weights]
                  : status              ? NULL
                                        : dtype_names[llm_quantization(&plan.model)];
  if (status == 0) status = plan_set_keys(&plan, cli->arena, diag);
  if (status == 0) status = search_side(self, of, &plan, &study, cli->arena, diag);
  study_close(&study);
  if (status && !self->rests_on)
    self->rests_on =
        arena_copy(cli->arena, diag->entries[0].message, strlen(diag->entries[0].message));
  if (interrupt_signal) diag_append(cli->diag, diag);
  diag_done(diag);
  return interrupt_signal ? -1 : 0;
}

/* ---- The table ---- */

static double value_of(const Side *self, int objective) {
  static const Objective objectives[] = {OBJECTIVE_COST, OBJECTIVE_GPUS, OBJECTIVE_POWER,
                                         OBJECTIVE_POWER};
  if (self->rated) return self->design ? -self->answer->rate : INFINITY;
  if (objective == PLAN_CARBON && self->design && !isnan(self->answer->run.carbon))
    return self->answer->run.carbon;
  const double value = self->design ? takes_value(&self->answer->fleet.takes,
                                                  objectives[objective < 0 ? 0 : objective])
                                    : INFINITY;
  return isnan(value) ? 1e300 : value; // without a price, after those with one
}

/* Of equal ones that with fewer GPUs. */
static bool goes_before(const Side *a, const Side *b, int objective) {
  const double left = value_of(a, objective), right = value_of(b, objective);
  if (left != right || !a->design) return left < right;
  return a->answer->fleet.takes.gpus < b->answer->fleet.takes.gpus;
}

static void sort(Side *sides, int n, int objective) {
  for (int i = 1; i < n; i++)
    for (int k = i; k > 0 && goes_before(&sides[k], &sides[k - 1], objective); k--) {
      const Side swapped = sides[k];
      sides[k] = sides[k - 1];
      sides[k - 1] = swapped;
    }
}

/* As wide as the widest of a column's texts. */
static int width_of(const Side *sides, int n, const char *const *(*text)(const Side *)) {
  size_t width = 6;
  for (int i = 0; i < n; i++)
    if (*text(&sides[i]) && strlen(*text(&sides[i])) > width) width = strlen(*text(&sides[i]));
  return -(int)width;
}

static const char *const *gpu_of(const Side *side) {
  return &side->gpu;
}

static const char *const *design_of(const Side *side) {
  return &side->design;
}

static const char *const *prefill_of(const Side *side) {
  return &side->prefill;
}

enum { CELLS_BEFORE = 13, CELLS_AFTER = 4, LIMITS_MAX = 8 };

/* Of columns of texts. */
typedef struct Widths {
  int gpu, prefill, design;
} Widths;

/* `limits` has the names and units of the columns of limits. */
static void put_side(Rows *rows, const Side *self, const Answer *limits, const Widths *widths) {
  static const Answer unknown;
  const Answer *answer = self->answer ? self->answer : &unknown;
  const Takes *takes = &answer->fleet.takes;
  const double none = self->answer ? 0 : NAN;
  const double million =
      takes_cost_per_million(takes, answer->run.unpaid, answer->run.output_tokens_per_s);
  Cell cells[CELLS_BEFORE + LIMITS_MAX + CELLS_AFTER + 1] = {
      {CELL_OF_TEXT("machine", self->gpu), COLUMN("machine", widths->gpu)},
      !self->prefill ? (Cell){.kind = CELL_WHOLE}
                     : (Cell){CELL_OF_TEXT("prefill_machine", self->prefill),
                              COLUMN("prefill", widths->prefill)},
      {CELL_OF_TEXT("engine", self->engine), COLUMN("engine", -11)},
      {CELL_OF_TEXT("weights", self->weights), COLUMN("weights", -9)},
      self->drafts < 0 ? (Cell){.kind = CELL_WHOLE} // nowhere
                       : (Cell){CELL_OF_WHOLE("drafts", self->drafts), COLUMN("drafts", 6)},
      !self->offload ? (Cell){.kind = CELL_WHOLE}
                     : (Cell){CELL_OF_TEXT("offload", self->offload), COLUMN("offload", -10)},
      {CELL_OF_TEXT("design", self->design), COLUMN("design", widths->design)},
      !self->rated ? (Cell){.kind = CELL_WHOLE}
                   : (Cell){CELL_OF_NUMBER("rate_rps", answer->rate + none), COLUMN("req/s", 8)},
      {CELL_OF_NUMBER("gpus", takes->gpus + none), COLUMN("GPUs", 5), .show = "%.0f"},
      {CELL_OF_NUMBER("cost_per_hour", takes->cost_per_hour + none), COLUMN("$/h", 8),
       .show = "%.4g"},
      {CELL_OF_NUMBER("cost_per_million_output_tokens", million + none), COLUMN("$/M", 7),
       .show = "%.3g"},
      {CELL_OF_NUMBER("power_kw", takes->power_kw + none), COLUMN("kW", 6), .show = "%.3g"},
      !self->emits
          ? (Cell){.kind = CELL_WHOLE}
          : (Cell){CELL_OF_NUMBER("carbon_g_per_million_output_tokens", answer->run.carbon + none),
                   COLUMN("gCO2/M", 7), .show = "%.4g"}};
  int n = CELLS_BEFORE;
  for (int i = 0; i < limits->n_slos && i < LIMITS_MAX; i++)
    cells[n++] = (Cell){
        CELL_OF_NUMBER(limits->slos[i].spec->name, self->answer ? answer->slos[i].value : NAN),
        COLUMN(limits->slos[i].spec->name, 9), .show = "%.4g"};
  cells[n++] = (Cell){CELL_OF_NUMBER("perfmodel_error", answer->run.perfmodel_error + none),
                      COLUMN_PERCENT("error", 6, "%.1f")};
  cells[n++] = (Cell){CELL_OF_TEXT("rests_on", self->answer ? self->rests_on : NULL),
                      .only = CELL_IN_CSV | CELL_IN_JSON};
  cells[n++] = (Cell){CELL_OF_TEXT("why_not", self->answer ? NULL : self->rests_on),
                      .only = CELL_IN_CSV | CELL_IN_JSON};
  cells[n++] = (Cell){CELL_OF_TEXT(NULL, self->rests_on), COLUMN("rests on, or why not", -20)};
  rows_put(rows, cells);
}

static void print_sides(const Side *sides, int n, OutputFormat format) {
  static const Answer no_limits;
  Rows rows = {format, stdout, "", .gap = "\n ", .end = "\n]\n"};
  const Answer *limits = sides[0].answer ? sides[0].answer : &no_limits;
  const Widths widths = {width_of(sides, n, gpu_of), width_of(sides, n, prefill_of),
                         width_of(sides, n, design_of)};
  for (int i = 0; i < n; i++)
    put_side(&rows, &sides[i], limits, &widths);
  rows_end(&rows);
}

/* All fronts in one figure. */
static int draw(Cli *cli, const Sides *self, const Side *sides, int n) {
  PlotFront *fronts = ARENA_ARRAY(cli->arena, PlotFront, n);
  const PlotPlace place = {.path = self->figure};
  const char *title = plan_title(self->question, NULL, cli->arena);
  int n_fronts = 0;
  for (int i = 0; i < n; i++) {
    const Side *side = &sides[i];
    const char *name = arena_printf(cli->arena, "%s %s", side->gpu, side->weights);
    if (count(self->engines) > 1) name = arena_printf(cli->arena, "%s %s", name, side->engine);
    if (side->front.n > 0) fronts[n_fronts++] = (PlotFront){&side->front, name};
  }
  return plot_fronts(fronts, n_fronts, title, &place, cli->arena, cli->diag);
}

int sides_answer(Cli *cli, const Sides *self) {
  const int n = sides_count(self), objective = self->question->objective;
  Side *sides = ARENA_ARRAY(cli->arena, Side, n);
  for (int i = 0; i < n; i++) {
    sides[i].number = i;
    if (answer_side(cli, self, &sides[i])) return EXIT_INPUT;
  }
  sort(sides, n, objective);
  print_sides(sides, n, self->format);
  if (self->figure && sides[0].design && draw(cli, self, sides, n)) return EXIT_INPUT;
  return sides[0].design ? EXIT_DONE : EXIT_INPUT;
}
