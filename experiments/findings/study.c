/* See subject.h: a study, what it answers for each design, and on each seed. */
#include "experiments/findings/subject.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What a study may want, and the column of `answer` that has it. */
typedef struct Objective {
  const char *name, *question, *unit, *column;
  const char *range_unit; // of the ranges over seeds
  bool more_is_better;
  bool by_power; // counts were searched by power, whose ranges these are
} Objective;

#define OBJECTIVE(of, asks, of_unit, of_column)                                                    \
  .name = of, .question = asks, .unit = of_unit, .column = of_column, .range_unit = of_unit
static const Objective objectives[] = {
    {OBJECTIVE("throughput", "Which design serves the highest rate?", "requests/s", "rate_rps"),
     .more_is_better = true},
    {OBJECTIVE("cost", "Which design serves the load at the lowest cost?", "$/h", "cost_per_hour")},
    {OBJECTIVE("power", "Which design serves the load with the lowest power?", "kW", "power_kw")},
    {OBJECTIVE("machines", "Which design serves the load with the fewest machines?", "machines",
               "machines")},
    {OBJECTIVE("instances", "Which design serves the load with the fewest instances?", "instances",
               "instances")},
    {OBJECTIVE("gpus", "Which design serves the load with the fewest GPUs?", "GPUs", "gpus")},
    {.name = "carbon",
     .question = "Which design serves the load with the least carbon?",
     .unit = "g of CO2 per million output tokens",
     .column = "carbon",
     .range_unit = "kW",
     .by_power = true},
};

static const Objective *objective_of(const Subject *self) {
  static const Objective unknown = {OBJECTIVE("", "Which design is best?", "", "")};
  for (size_t i = 0; i < sizeof objectives / sizeof *objectives; i++)
    if (strcmp(objectives[i].name, self->objective) == 0) return &objectives[i];
  return &unknown;
}

/* A design: its answer on the first seed, and what the objective is over all seeds. */
typedef struct Design {
  const char *name, *cluster, *binds, *why_not;
  double value, low, high, low_model, high_model, mean, half_width, margin, rate, cost, gpus;
  int64_t holds;
  bool monotone;
} Design;

enum { DESIGNS_MOST = 64 };

/* Columns are found by their names. */
static const char designs_sql[] =
    "SELECT design.name AS name, design.*, answer.*, (SELECT value FROM metric "
    "JOIN run ON run.id = metric.run_id WHERE run.config_digest = answer.config_digest "
    "AND metric.name = 'carbon_g_per_million_output_tokens' LIMIT 1) AS carbon "
    "FROM design LEFT JOIN answer "
    "ON answer.study_id = design.study_id AND answer.design = design.name "
    "AND answer.seed = (SELECT min(seed) FROM answer WHERE study_id = :id) "
    "WHERE design.study_id = :id ORDER BY design.name";

static int column_named(sqlite3_stmt *row, const char *name) {
  for (int i = 0; i < sqlite3_column_count(row); i++)
    if (strcmp(sqlite3_column_name(row, i), name) == 0) return i;
  return -1;
}

static double number_named(sqlite3_stmt *row, const char *name) {
  const int column = column_named(row, name);
  return column < 0 ? NAN : results_real(row, column);
}

static const char *text_named(sqlite3_stmt *row, const char *name, Arena *arena) {
  const int column = column_named(row, name);
  return column < 0 ? "" : results_text(row, column, arena);
}

/* "2 prefill, 1 decode" */
static const char *cluster_words(sqlite3_stmt *row, Arena *arena) {
  static const char *const roles[] = {"prefill", "decode", "mixed"};
  const char *words = "", *choice = text_named(row, "choice", arena);
  for (int i = 0; i < 3; i++) {
    const double machines = number_named(row, arena_printf(arena, "%s_machines", roles[i]));
    const double instances = number_named(row, arena_printf(arena, "%s_instances", roles[i]));
    const double n = isnan(instances) ? machines : instances;
    if (n > 0) words = arena_printf(arena, "%s%s%.0f %s", words, *words ? " + " : "", n, roles[i]);
  }
  const double gpus = number_named(row, "gpus");
  if (gpus > 0) words = arena_printf(arena, "%s, %.0f GPUs", words, gpus);
  return *choice ? arena_printf(arena, "%s (%s)", choice, words) : words;
}

static Design read_design(sqlite3_stmt *row, const Objective *objective, Arena *arena) {
  return (Design){.name = text_named(row, "name", arena),
                  .value = number_named(row, objective->column),
                  .low = number_named(row, "low"),
                  .high = number_named(row, "high"),
                  .low_model = number_named(row, "low_model"),
                  .high_model = number_named(row, "high_model"),
                  .mean = number_named(row, "mean"),
                  .half_width = number_named(row, "half_width"),
                  .holds = (int64_t)number_named(row, "holds"),
                  .monotone = number_named(row, "monotone") != 0,
                  .why_not = text_named(row, "why_not", arena),
                  .binds = text_named(row, "binds", arena),
                  .margin = number_named(row, "margin"),
                  .gpus = number_named(row, "gpus"),
                  .rate = number_named(row, "rate_rps"),
                  .cost = number_named(row, "cost_per_hour"),
                  .cluster = cluster_words(row, arena)};
}

/* As provision_is_better. */
static bool is_before(const Design *one, const Design *other, const Objective *objective) {
  if (isnan(one->value) || isnan(other->value)) return !isnan(one->value) && isnan(other->value);
  const double fewer = other->gpus - one->gpus;
  if (one->value == other->value)
    return fewer > 0 || fewer < 0 ? fewer > 0 : one->margin > other->margin;
  return objective->more_is_better ? one->value > other->value : one->value < other->value;
}

/* The best first; returns how many. */
static size_t load_designs(const Subject *self, const Objective *objective, Design *designs) {
  size_t n = 0;
  CLEANUP_STATEMENT sqlite3_stmt *row = subject_ask(self, designs_sql);
  while (row && n < DESIGNS_MOST && sqlite3_step(row) == SQLITE_ROW) {
    const Design design = read_design(row, objective, self->of->arena);
    size_t at = n++;
    for (; at > 0 && is_before(&design, &designs[at - 1], objective); at--)
      designs[at] = designs[at - 1];
    designs[at] = design;
  }
  return n;
}

static void put_question(const Subject *self, const Objective *objective, const Design *designs,
                         size_t n) {
  Page *page = &self->of->page;
  const char *limits = subject_limits(self), *names = "";
  for (size_t i = 0; i < n; i++)
    names = arena_printf(page->arena, "%s%s%s", names, i ? ", " : "", designs[i].name);
  subject_section(self, "question", "Question");
  page_element(page, "p", NULL, "%s", objective->question);
  page_raw(page, "<ul>\n");
  page_element(page, "li", NULL, "Designs: %s", names);
  page_element(page, "li", NULL, "Setup: %s", subject_setup(self));
  page_element(page, "li", NULL, "SLO limits: %s", limits ? limits : "none");
  page_raw(page, "</ul>\n");
  page_section_end(page);
}

static const char *value_words(const Design *self, const Objective *objective, Arena *arena) {
  return shown(self->value, objective->unit, arena);
}

static void put_answer(const Subject *self, const Objective *objective, const Design *designs,
                       size_t n) {
  Page *page = &self->of->page;
  Arena *arena = page->arena;
  const Design *best = &designs[0];
  subject_section(self, "answer", "Answer");
  if (n == 0 || isnan(best->value)) {
    page_element(page, "p", "answer", "None: %s.",
                 n > 0 && *best->why_not ? best->why_not : "no design meets all limits");
  } else {
    const bool is_rate = objective->more_is_better;
    page_element(page, "p", "answer", "%s: %s. It needs %s%s%s and meets all limits%s.", best->name,
                 value_words(best, objective, arena), best->cluster,
                 is_rate || isnan(best->rate) ? "" : " for ",
                 is_rate || isnan(best->rate) ? "" : shown(best->rate, "requests/s", arena),
                 *best->binds ? arena_printf(arena, ", with a margin of %s on %s",
                                             shown(best->margin, "%", arena), best->binds)
                              : "");
    for (size_t i = 1; i < n && i < 2 && !isnan(designs[i].value); i++)
      page_element(page, "p", NULL, "The runner-up is %s: %s, with %s.", designs[i].name,
                   value_words(&designs[i], objective, arena), designs[i].cluster);
  }
  page_section_end(page);
}

/* "111 to 114 $/h" */
static const char *range_words(double low, double high, const char *unit, Arena *arena) {
  if (isnan(low)) return "-";
  return low == high
             ? shown(low, unit, arena)
             : arena_printf(arena, "%s to %s", shown(low, "", arena), shown(high, unit, arena));
}

/* The runs of a design's answers on all seeds; where they are not there, all of the study. */
static const char *runs_of(const Subject *self, const Design *design) {
  CLEANUP_STATEMENT sqlite3_stmt *row =
      subject_ask(self, "SELECT json_group_array(run.id) FROM answer JOIN run "
                        "ON run.config_digest = answer.config_digest AND run.status = 'done' "
                        "WHERE study_id = :id AND design = :design HAVING count(*) > 0");
  if (!row) return self->runs;
  sqlite3_bind_text(row, sqlite3_bind_parameter_index(row, ":design"), design->name, -1,
                    SQLITE_STATIC);
  return sqlite3_step(row) == SQLITE_ROW ? results_text(row, 0, self->of->arena) : self->runs;
}

static int put_sureness(const Subject *self, const Objective *objective, const Design *designs,
                        size_t n) {
  Arena *arena = self->of->arena;
  const Design *best = &designs[0];
  const bool known = n > 0 && !isnan(best->value);
  const char *lines[9] = {NULL};
  int at = 0;
  if (known && best->holds > 1 && isnan(best->half_width)) {
    lines[at++] = "Seeds";
    lines[at++] = arena_printf(arena,
                               "outcomes are equal on %" PRId64 " of %" PRId64 " seeds and count "
                               "as one observation: seeds change nothing",
                               best->holds, self->n_seeds);
  } else if (known && self->n_seeds > 1) {
    lines[at++] = "Seeds";
    lines[at++] = arena_printf(
        arena, "%s on %" PRId64 " seeds; the answer of the first meets all limits on %" PRId64,
        range_words(best->low, best->high, objective->range_unit, arena), self->n_seeds,
        best->holds);
  } else if (known) {
    lines[at++] = "Seeds";
    lines[at++] = "one seed: the variation over seeds is unknown (set provision.seeds: 5)";
  }
  if (known && n > 1 && !isnan(designs[1].value) && !objective->by_power) {
    const bool apart =
        objective->more_is_better ? best->low > designs[1].high : best->high < designs[1].low;
    lines[at++] = "Runner-up";
    lines[at++] =
        arena_printf(arena, "%s: %s; %s", designs[1].name,
                     range_words(designs[1].low, designs[1].high, objective->range_unit, arena),
                     apart ? "worse on every seed" : "their ranges overlap");
  }
  if (known && !isnan(best->low_model)) {
    lines[at++] = "Seeds and iteration times";
    lines[at++] =
        arena_printf(arena, "%s, with iteration times varied by the error of their models",
                     range_words(best->low_model, best->high_model, objective->range_unit, arena));
  }
  if (known && !best->monotone) {
    lines[at++] = "Not monotone";
    lines[at++] = "a smaller cluster or a higher rate passed where a larger cluster or a lower "
                  "rate failed";
  }
  return put_certainty(self, &(Certainty){.runs = known ? runs_of(self, best) : self->runs,
                                          .margin = known ? best->margin : NAN,
                                          .binds = known && *best->binds ? best->binds : NULL,
                                          .lines = lines});
}

static int put_tables(const Subject *self, const Objective *objective, const Design *designs,
                      size_t n) {
  static const PageColumn columns[] = {
      {.head = "design", .is_text = true},
      {.head = "cluster", .is_text = true},
      {.head = "objective"},
      {.head = "range over seeds"},
      {.head = "mean"},
      {.head = "±", .title = "95% interval of the mean"},
      {.head = "holds on", .title = "seeds on which the first seed's answer meets all limits"},
      {.head = "cost per hour"},
      {.head = "requests/s"},
      {.head = "binds", .is_text = true},
      {.head = "margin", .title = "share of that limit that is left"},
      {.head = "why not", .is_text = true}};
  Page *page = &self->of->page;
  Arena *arena = page->arena;
  subject_section(self, "tables", "Tables");
  page_table(page, columns, sizeof columns / sizeof *columns, "Designs, best first");
  for (size_t i = 0; i < n; i++) {
    const Design *one = &designs[i];
    page_row(page, i == 0 && !isnan(one->value) ? "best" : NULL);
    page_cell(page, true, "%s", one->name);
    page_cell(page, true, "%s", *one->cluster ? one->cluster : "-");
    page_cell(page, false, "%s", value_words(one, objective, arena));
    page_cell(page, false, "%s", range_words(one->low, one->high, objective->range_unit, arena));
    page_cell(page, false, "%s", shown(one->mean, "", arena));
    page_cell(page, false, "%s", shown(one->half_width, "", arena));
    page_cell(page, false, "%" PRId64 " of %" PRId64, one->holds, self->n_seeds);
    page_cell(page, false, "%s", shown(one->cost, "$", arena));
    page_cell(page, false, "%s", shown(one->rate, "", arena));
    page_cell(page, true, "%s", *one->binds ? one->binds : "-");
    page_cell(page, false, "%s", shown(one->margin, "%", arena));
    page_cell(page, true, "%s", *one->why_not ? one->why_not : "-");
    page_row_end(page);
  }
  page_table_end(page);
  if (put_query(self, "SELECT * FROM answer WHERE study_id = :id ORDER BY design, seed",
                "Answer per seed", 0) ||
      put_query(self,
                "SELECT design, seed, label AS choice, throughput_rps AS \"requests/s\", "
                "output_tokens_per_s AS \"output tokens/s\", why_not AS \"why not\" "
                "FROM choice WHERE study_id = :id ORDER BY throughput_rps IS NULL, "
                "throughput_rps DESC, design, seed",
                "Choices, fastest first", 20))
    return -1;
  page_section_end(page);
  return 0;
}

const char *study_question(const Subject *self, const char *load) {
  const char *question = objective_of(self)->question, *at = strstr(question, "the load");
  return at ? arena_printf(self->of->arena, "%.*s%s%s", (int)(at - question), question, load,
                           at + strlen("the load"))
            : question;
}

int tell_study(const Subject *self) {
  Design *designs = ARENA_ARRAY(self->of->arena, Design, DESIGNS_MOST);
  const Objective *objective = objective_of(self);
  const size_t n = load_designs(self, objective, designs);
  put_question(self, objective, designs, n);
  put_answer(self, objective, designs, n);
  if (self->alone) put_figures(self->of, FIGURES_OF_ANSWER);
  if (put_sureness(self, objective, designs, n) || put_tables(self, objective, designs, n))
    return -1;
  if (self->alone) put_figures(self->of, FIGURES_APPENDIX);
  return 0;
}
