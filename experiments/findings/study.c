/* See subject.h: a study, what it answers for each design, and on each seed. */
#include "experiments/findings/subject.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What a study may want. */
typedef struct Objective {
  const char *name, *question, *unit;
  bool more_is_better;
} Objective;

#define OBJECTIVE(of, asks, of_unit) .name = of, .question = asks, .unit = of_unit
static const Objective objectives[] = {
    {OBJECTIVE("throughput", "Which of these designs serves the most?", "requests/s"),
     .more_is_better = true},
    {OBJECTIVE("cost", "Which of these designs holds the load at the least cost?", "$/h")},
    {OBJECTIVE("power", "Which of these designs holds the load with the least power?", "kW")},
    {OBJECTIVE("machines", "Which of these designs holds the load with the fewest machines?",
               "machines")},
    {OBJECTIVE("instances", "Which of these designs holds the load with the fewest instances?",
               "instances")},
    {OBJECTIVE("gpus", "Which of these designs holds the load with the fewest GPUs?", "GPUs")},
};

static const Objective *objective_of(const Subject *self) {
  static const Objective unknown = {OBJECTIVE("", "Which of these designs is best?", "")};
  for (size_t i = 0; i < sizeof objectives / sizeof *objectives; i++)
    if (strcmp(objectives[i].name, self->objective) == 0) return &objectives[i];
  return &unknown;
}

/* A design: its answer on the first seed, and what the objective is over all seeds. */
typedef struct Design {
  const char *name, *cluster, *binds, *why_not, *runs;
  double value, low, high, low_model, high_model, mean, half_width, margin, rate, cost;
  int64_t holds;
  bool monotone;
} Design;

enum { DESIGNS_MOST = 64 };

/* The value of the objective on the first seed stands first: its answer is the design's. */
static const char designs_sql[] =
    "SELECT design.name, "
    "CASE (SELECT objective FROM study WHERE id = :id) WHEN 'cost' THEN cost_per_hour "
    "  WHEN 'power' THEN power_kw WHEN 'throughput' THEN rate_rps ELSE machines END AS value, "
    "low, high, mean, half_width, holds, monotone, why_not, binds, margin, rate_rps, "
    "cost_per_hour, choice, prefill_machines, decode_machines, mixed_machines, machines "
    "FROM design LEFT JOIN answer ON answer.study_id = design.study_id AND design = design.name "
    "  AND seed = (SELECT min(seed) FROM answer WHERE study_id = :id) "
    "WHERE design.study_id = :id "
    "ORDER BY value IS NULL, "
    "  iif((SELECT objective FROM study WHERE id = :id) = 'throughput', -value, value), "
    "  design.name";

/* "3 machines: 2 prefill, 1 decode" */
static const char *cluster_words(sqlite3_stmt *row, int from, Arena *arena) {
  static const char *const roles[] = {"prefill", "decode", "mixed"};
  const char *words = "", *choice = row_text(row, from - 1, arena);
  for (int i = 0; i < 3; i++) {
    const int64_t n = sqlite3_column_int64(row, from + i);
    if (n > 0)
      words = arena_printf(arena, "%s%s%" PRId64 " %s", words, *words ? ", " : "", n, roles[i]);
  }
  return *choice ? arena_printf(arena, "%s (%s)", choice, words) : words;
}

static size_t load_designs(const Subject *self, Design *designs) {
  Arena *arena = self->of->arena;
  size_t n = 0;
  CLEANUP_STATEMENT sqlite3_stmt *row = subject_ask(self, designs_sql);
  while (row && n < DESIGNS_MOST && sqlite3_step(row) == SQLITE_ROW)
    designs[n++] = (Design){.name = row_text(row, 0, arena),
                            .value = row_real(row, 1),
                            .low = row_real(row, 2),
                            .high = row_real(row, 3),
                            .mean = row_real(row, 4),
                            .half_width = row_real(row, 5),
                            .holds = sqlite3_column_int64(row, 6),
                            .monotone = sqlite3_column_int(row, 7),
                            .why_not = row_text(row, 8, arena),
                            .binds = row_text(row, 9, arena),
                            .margin = row_real(row, 10),
                            .rate = row_real(row, 11),
                            .cost = row_real(row, 12),
                            .cluster = cluster_words(row, 14, arena)};
  return n;
}

static void put_question(const Subject *self, const Objective *objective, const Design *designs,
                         size_t n) {
  Page *page = &self->of->page;
  const char *limits = subject_limits(self), *names = "";
  for (size_t i = 0; i < n; i++)
    names = arena_printf(page->arena, "%s%s%s", names, i ? ", " : "", designs[i].name);
  subject_section(self, "question", "The question");
  page_element(page, "p", NULL, "%s", objective->question);
  page_raw(page, "<ul>\n");
  page_element(page, "li", NULL, "Designs: %s", names);
  page_element(page, "li", NULL, "Load: %s", subject_setup(self));
  page_element(page, "li", NULL, "Limits to keep: %s", limits ? limits : "none");
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
  subject_section(self, "answer", "The answer");
  if (n == 0 || isnan(best->value)) {
    page_element(page, "p", "answer", "None: %s.",
                 n > 0 && *best->why_not ? best->why_not : "no design keeps all limits");
  } else {
    const bool is_rate = objective->more_is_better;
    page_element(
        page, "p", "answer", "%s: %s. It takes %s%s%s, and keeps all limits%s%s%s.", best->name,
        value_words(best, objective, arena), best->cluster,
        is_rate || isnan(best->rate) ? "" : " for ",
        is_rate || isnan(best->rate) ? "" : shown(best->rate, "requests/s", arena),
        *best->binds ? ", " : "", best->binds,
        *best->binds ? arena_printf(arena, " with %s left", shown(best->margin, "%", arena)) : "");
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

static int put_sureness(const Subject *self, const Objective *objective, const Design *designs,
                        size_t n) {
  Arena *arena = self->of->arena;
  const Design *best = &designs[0];
  const bool known = n > 0 && !isnan(best->value);
  const char *lines[7] = {NULL};
  if (known && self->n_seeds > 1) {
    lines[0] = "Seeds";
    lines[1] = arena_printf(
        arena, "%s on %" PRId64 " seeds; the answer of the first holds on %" PRId64 " of them",
        range_words(best->low, best->high, objective->unit, arena), self->n_seeds, best->holds);
  } else if (known) {
    lines[0] = "Seeds";
    lines[1] = "one seed: what another draw of the requests gives is not known (provision.seeds: 5 "
               "tells)";
  }
  if (known && n > 1 && !isnan(designs[1].value)) {
    const bool apart =
        objective->more_is_better ? best->low > designs[1].high : best->high < designs[1].low;
    lines[2] = "Runner-up";
    lines[3] = arena_printf(arena, "%s: %s; %s", designs[1].name,
                            range_words(designs[1].low, designs[1].high, objective->unit, arena),
                            apart ? "worse on every seed" : "their ranges overlap");
  }
  if (known && !best->monotone) {
    const int at = lines[2] ? 4 : 2;
    lines[at] = "Not monotone";
    lines[at + 1] = "a smaller cluster or a higher rate held where more machines or a lower one "
                    "failed";
  }
  return put_certainty(self, &(Certainty){.runs = self->runs,
                                          .margin = known ? best->margin : NAN,
                                          .binds = known && *best->binds ? best->binds : NULL,
                                          .lines = lines});
}

static int put_tables(const Subject *self, const Objective *objective, const Design *designs,
                      size_t n) {
  static const PageColumn columns[] = {
      {.head = "design", .is_text = true},
      {.head = "takes", .is_text = true},
      {.head = "objective"},
      {.head = "over seeds"},
      {.head = "mean"},
      {.head = "±", .title = "of the mean, 95%"},
      {.head = "holds on", .title = "seeds whose requests the first one's answer holds"},
      {.head = "cost per hour"},
      {.head = "requests/s"},
      {.head = "binds", .is_text = true},
      {.head = "margin", .title = "share of that limit that is left"},
      {.head = "why not", .is_text = true}};
  Page *page = &self->of->page;
  Arena *arena = page->arena;
  subject_section(self, "tables", "Tables");
  page_table(page, columns, sizeof columns / sizeof *columns, "Designs, the best first");
  for (size_t i = 0; i < n; i++) {
    const Design *one = &designs[i];
    page_row(page, i == 0 && !isnan(one->value) ? "best" : NULL);
    page_cell(page, true, "%s", one->name);
    page_cell(page, true, "%s", *one->cluster ? one->cluster : "-");
    page_cell(page, false, "%s", value_words(one, objective, arena));
    page_cell(page, false, "%s", range_words(one->low, one->high, objective->unit, arena));
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
  if (put_query(
          self,
          "SELECT design, seed, prefill_machines AS prefill, decode_machines AS decode, "
          "mixed_machines AS mixed, machines, cost_per_hour AS \"cost per hour [$]\", "
          "power_kw AS \"power [kW]\", rate_rps AS \"requests/s\", "
          "output_tokens_per_s AS \"output tokens/s\", binds, margin AS \"margin [%]\", choice "
          "FROM answer WHERE study_id = :id ORDER BY design, seed",
          "The answer on each seed", 0) ||
      put_query(self,
                "SELECT design, seed, label AS choice, throughput_rps AS \"requests/s\", "
                "output_tokens_per_s AS \"output tokens/s\", why_not AS \"why not\" "
                "FROM choice WHERE study_id = :id ORDER BY throughput_rps IS NULL, "
                "throughput_rps DESC, design, seed",
                "Choices, the fastest first", 20))
    return -1;
  page_section_end(page);
  return 0;
}

int tell_study(const Subject *self) {
  Design *designs = ARENA_ARRAY(self->of->arena, Design, DESIGNS_MOST);
  const Objective *objective = objective_of(self);
  const size_t n = load_designs(self, designs);
  put_question(self, objective, designs, n);
  put_answer(self, objective, designs, n);
  return put_sureness(self, objective, designs, n) || put_tables(self, objective, designs, n) ? -1
                                                                                              : 0;
}
