/* See plan_batch.h. A study of each question measures one instance of each design with two numbers
 * of requests. What the second one adds is the time of a request while the instance is full; the
 * first one's has the beginning and the end, when it is not. So N requests on k instances take
 *
 *     t(n1) + (N / k - n1) (t(n2) - t(n1)) / (n2 - n1)
 *
 * and k is the least number that meets the deadline, or more that cost no more. */
#include "experiments/commands/plan_batch.h"
#include "experiments/base/cells.h"
#include "experiments/base/interrupt.h"
#include "experiments/provision/provision.h"
#include <math.h>
#include <string.h>

/* A design on one kind of GPU. */
typedef struct BatchRow {
  const char *machine, *engine, *weights, *design;
  const char *why_not;           // NULL: it is an answer
  double instances, gpus, hours; // NAN: not known
  double low_hours, high_hours;  // with times moved by their error; NAN: that is unknown
  double dollars, tokens_per_s, error;
} BatchRow;

typedef struct BatchRows {
  BatchRow *items;
  size_t n, capacity;
  bool best_alone; // of each question
} BatchRows;

/* ---- Time ---- */

BatchTimes batch_times(const DesignOutcome *outcome) {
  const Design *design = outcome->design;
  BatchTimes times = {.lots = design->lots, .n_lots = design->n_lots};
  for (int64_t c = 0; c < design->choices.n_points; c++) {
    const Measurement *one = &outcome->measurements[c]; // of the first seed
    double requests = 0;
    if (design->fits[c].why_not) times.why_not = design->fits[c].why_not;
    if (one->why_not) times.why_not = one->why_not;
    if (times.why_not || !choice_number(design, c, "workload.requests", &requests)) continue;
    const int at = times.n[0] > 0;
    times.n[at] = requests;
    times.s[at] = requests / one->throughput_rps;
    times.output = one->run.output_tokens_per_s / one->throughput_rps;
  }
  return times;
}

double batch_seconds(const BatchTimes *self, double requests) {
  const double each = (self->s[1] - self->s[0]) / (self->n[1] - self->n[0]);
  return fmax(self->s[0] + (requests - self->n[0]) * each, fmin(requests / self->n[0], 1) * each);
}

double batch_instances(const BatchTimes *self, double requests, double deadline_s) {
  double most = 1, least = 1;
  if (deadline_s == 0) return 1;
  while (batch_seconds(self, ceil(requests / most)) > deadline_s) {
    least = most + 1;
    most *= 2;
    if (most > 2 * requests) return 0;
  }
  while (least < most) {
    const double middle = floor((least + most) / 2);
    if (batch_seconds(self, ceil(requests / middle)) > deadline_s)
      least = middle + 1;
    else
      most = middle;
  }
  return most;
}

/* ---- Rows ---- */

Takes batch_takes(const BatchTimes *times, double instances, Arena *arena) {
  Lot *lots = ARENA_ARRAY(arena, Lot, times->n_lots);
  for (int i = 0; i < times->n_lots; i++) {
    lots[i] = times->lots[i];
    lots[i].count *= instances;
  }
  return lots_take(lots, times->n_lots, NULL);
}

/* Those that cost no more: of machines that are sold whole as many as fit. */
static double fill_machines(const BatchTimes *times, double instances, Arena *arena) {
  const double cost = batch_takes(times, instances, arena).cost_per_hour;
  while (batch_takes(times, instances + 1, arena).cost_per_hour <= cost)
    instances++;
  return instances;
}

static void fill(BatchRow *row, const DesignOutcome *outcome, const Question *asked, Arena *arena) {
  const BatchTimes times = batch_times(outcome);
  const double requests = (double)asked->batch;
  row->why_not = times.why_not;
  if (!row->why_not && !(times.s[1] > times.s[0])) row->why_not = "it is never full";
  if (row->why_not) return;
  row->instances = batch_instances(&times, requests, asked->deadline_s);
  if (row->instances == 0) row->why_not = "no number of instances meets the deadline";
  if (row->why_not) return;
  row->instances = fill_machines(&times, row->instances, arena);
  const Takes takes = batch_takes(&times, row->instances, arena);
  const double value = outcome->answers[0].rate;
  row->gpus = takes.gpus;
  row->hours = batch_seconds(&times, ceil(requests / row->instances)) / 3600;
  row->low_hours = outcome->ranged ? row->hours * value / outcome->high_model : NAN;
  row->high_hours = outcome->ranged ? row->hours * value / outcome->low_model : NAN;
  row->dollars = row->hours * takes.cost_per_hour;
  row->tokens_per_s = requests * times.output / (3600 * row->hours);
  row->error = outcome->answers[0].run.perfmodel_error;
}

static double rank_of(const BatchRow *row) {
  return row->why_not ? INFINITY : isnan(row->dollars) ? 1e300 : row->dollars;
}

static bool goes_before(const BatchRow *a, const BatchRow *b) {
  const double left = rank_of(a), right = rank_of(b);
  return left != right ? left < right : !a->why_not && a->gpus < b->gpus;
}

static BatchRow *add(BatchRows *self, BatchRow row, Arena *arena) {
  ARENA_RESERVE(arena, self->items, self->capacity, self->n + 1);
  size_t at = self->n++;
  for (; at > 0 && goes_before(&row, &self->items[at - 1]); at--)
    self->items[at] = self->items[at - 1];
  self->items[at] = row;
  return &self->items[at];
}

/* ---- One question ---- */

static int search(BatchRows *rows, const Sides *of, const Plan *plan, BatchRow row, Study *study,
                  Arena *arena, Diag *diag) {
  static const char name[] = "(the study)";
  Node *root = yaml_parse(name, plan->text, strlen(plan->text), arena, diag);
  if (!root ||
      study_open(study, name, root, NULL, of->jobs, of->memory, plan->question->cache, arena,
                 diag) ||
      study_search(study, of->output, false, true))
    return -1;
  BatchRows own = {0};
  for (int d = 0; d < study->provision.n_designs; d++) {
    row.design = study->provision.designs[d].name;
    row.why_not = NULL;
    fill(&row, &study->outcomes[d], plan->question, arena);
    add(&own, row, arena);
  }
  for (size_t i = 0; i < (rows->best_alone ? 1 : own.n); i++)
    add(rows, own.items[i], arena);
  return 0;
}

static int answer_one(Cli *cli, const Sides *of, int i, BatchRows *rows) {
  Question question;
  Plan plan;
  Study study = {0};
  Diag *diag = ARENA_NEW(cli->arena, Diag); // what an answer points to is in its arena
  if (sides_question(of, i, &question, cli->diag)) return -1;
  diag_init(diag);
  BatchRow row = {.machine = question.gpu, .engine = question.engine};
  int status =
      plan_make(&plan, &question, cli->arena, diag) || plan_set_keys(&plan, cli->arena, diag);
  if (status == 0) {
    row.machine = plan.machine;
    row.engine = plan.engine;
    row.weights = dtype_names[llm_quantization(&plan.model)];
    status = search(rows, of, &plan, row, &study, cli->arena, diag);
  }
  study_close(&study);
  if (status && sides_count(of) == 1)
    diag_append(cli->diag, diag);
  else if (status) {
    const char *why = diag->entries[0].message;
    row.why_not = arena_copy(cli->arena, why, strlen(why));
    add(rows, row, cli->arena);
  }
  diag_done(diag);
  return interrupt_signal || cli->diag->n_entries > 0 ? -1 : 0;
}

/* ---- The table ---- */

static void put(Rows *out, const BatchRow *row, const Question *asked, int width, Arena *arena) {
  const double none = row->why_not ? NAN : 0;
  const double tokens = row->tokens_per_s * row->hours * 3600 / 1e6;
  const int hidden = CELL_IN_CSV | CELL_IN_JSON;
  const char *range = row->why_not || isnan(row->low_hours)
                          ? NULL
                          : arena_printf(arena, "%.3g..%.3g", row->low_hours, row->high_hours);
  rows_put(
      out,
      (Cell[]){{CELL_OF_TEXT("machine", row->machine), COLUMN("machine", -9)},
               {CELL_OF_TEXT("engine", row->engine), COLUMN("engine", -11)},
               {CELL_OF_TEXT("weights", row->weights), COLUMN("weights", -9)},
               {CELL_OF_TEXT("design", row->design), COLUMN("design", -width)},
               {CELL_OF_NUMBER("requests", (double)asked->batch), .only = hidden},
               {CELL_OF_NUMBER("instances", row->instances + none), COLUMN("instances", 9)},
               {CELL_OF_NUMBER("gpus", row->gpus + none), COLUMN("GPUs", 6)},
               {CELL_OF_NUMBER("hours", row->hours + none), COLUMN("hours", 7), .show = "%.3g"},
               {CELL_OF_NUMBER("low_hours", row->low_hours + none), .only = hidden},
               {CELL_OF_NUMBER("high_hours", row->high_hours + none), .only = hidden},
               {CELL_OF_TEXT(NULL, range), COLUMN("   range", 12)},
               {CELL_OF_NUMBER("cost_usd", row->dollars + none), COLUMN("$", 8), .show = "%.4g"},
               {CELL_OF_NUMBER("cost_per_million_output_tokens", row->dollars / tokens + none),
                COLUMN("$/M", 7), .show = "%.3g"},
               {CELL_OF_NUMBER("output_tokens_per_s", row->tokens_per_s + none),
                COLUMN("tokens/s", 9), .show = "%.4g"},
               {CELL_OF_NUMBER("perfmodel_error", row->error + none),
                COLUMN_PERCENT("error", 6, "%.1f")},
               {CELL_OF_TEXT("why_not", row->why_not), .only = hidden},
               {CELL_OF_TEXT(NULL, row->why_not ? row->why_not : ""), COLUMN("", -1)},
               {0}});
}

int batch_answer(Cli *cli, const Sides *sides) {
  const int n = sides_count(sides);
  BatchRows rows = {.best_alone = n > 1};
  Rows out = {sides->format, stdout, "", .gap = "\n ", .end = "\n]\n"};
  int width = 6;
  for (int i = 0; i < n; i++)
    if (answer_one(cli, sides, i, &rows)) return EXIT_INPUT;
  for (size_t i = 0; i < rows.n; i++)
    if (rows.items[i].design && (int)strlen(rows.items[i].design) > width)
      width = (int)strlen(rows.items[i].design);
  for (size_t i = 0; i < rows.n; i++)
    put(&out, &rows.items[i], sides->question, width, cli->arena);
  rows_end(&out);
  return rows.n > 0 && !rows.items[0].why_not ? EXIT_DONE : EXIT_INPUT;
}
