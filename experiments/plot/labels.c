/* The metrics of a figure, and what is said of what was run. */
#include "base/text.h"
#include "experiments/plot/shown.h"
#include <ctype.h>
#include <string.h>

/* ---- MetricList ---- */

typedef struct Metric {
  const char *scope, *name, *statistic, *unit; // scope "slo": an objective's value
  const char *full;                            // ttft_s.p99, pool.decode.busy_s, slo.goodput
} Metric;

typedef struct MetricList {
  Metric *items; // [n]
  size_t n, capacity;
} MetricList;

/* The name of the objective that would limit it: ttft.p99. */
static const char *objective_of(const Metric *metric, Arena *arena) {
  const size_t length = strlen(metric->name);
  const bool is_time = length > 2 && strcmp(metric->name + length - 2, "_s") == 0;
  if (strcmp(metric->scope, "slo") == 0) return metric->name;
  if (strncmp(metric->name, "slowdown_", 9) == 0)
    return arena_printf(arena, "slowdown.%s.%s", metric->name + 9, metric->statistic);
  return arena_printf(arena, "%.*s.%s", (int)(is_time ? length - 2 : length), metric->name,
                      metric->statistic);
}

static int load_metrics(MetricList *self, Results *results, const char *ids, Arena *arena,
                        Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement = results_query(
      results,
      "SELECT DISTINCT scope, name, statistic, unit FROM metric WHERE statistic NOT LIKE "
      "'%half_width' AND run_id IN (SELECT value FROM json_each(?1)) UNION ALL "
      "SELECT DISTINCT 'slo', name, 'value', unit FROM slo "
      "WHERE run_id IN (SELECT value FROM json_each(?1)) ORDER BY 1, 2, 3",
      VALUES(value_text(ids)), diag);
  int status;
  while ((status = results_next(results, statement, diag)) > 0) {
    Metric metric = {.scope = results_text(statement, 0, arena),
                     .name = results_text(statement, 1, arena),
                     .statistic = results_text(statement, 2, arena),
                     .unit = results_text(statement, 3, arena)};
    const bool of_run = strcmp(metric.scope, "run") == 0;
    const bool is_value = strcmp(metric.statistic, "value") == 0;
    metric.full = arena_printf(arena, "%s%s%s%s%s", of_run ? "" : metric.scope, of_run ? "" : ".",
                               metric.name, is_value ? "" : ".", is_value ? "" : metric.statistic);
    ARENA_RESERVE(arena, self->items, self->capacity, self->n + 1);
    self->items[self->n++] = metric;
  }
  return status;
}

/* Its name, also without the unit, ttft.p99, or without the pool. */
static bool is_called(const Metric *metric, const char *asked, Arena *arena) {
  const bool of_run = strcmp(metric->scope, "run") == 0;
  const char *end = metric->full + strlen(metric->full) - strlen(asked);
  if (end > metric->full && end[-1] == '.' && strcmp(end, asked) == 0) return true;
  return strcmp(metric->full, asked) == 0 ||
         (of_run && strcmp(objective_of(metric, arena), asked) == 0) ||
         (of_run && strcmp(metric->statistic, "value") == 0 &&
          strcmp(arena_printf(arena, "%s.value", asked), objective_of(metric, arena)) == 0);
}

/* Without a statistic it is the 99th percentile. */
static const Metric *find_metric(const MetricList *self, const char *asked, Arena *arena) {
  for (size_t i = 0; i < self->n; i++)
    if (is_called(&self->items[i], asked, arena)) return &self->items[i];
  const char *tail = arena_printf(arena, "%s.p99", asked);
  for (size_t i = 0; i < self->n; i++)
    if (is_called(&self->items[i], tail, arena)) return &self->items[i];
  return NULL;
}

/* ---- Labels ---- */

static const char *word_of(const char *word, size_t length, Arena *arena) {
  static const char *const capitals[] = {"ttft", "tbt", "tpot", "e2e", "kv", "cpu", "slo"};
  for (size_t i = 0; i < sizeof capitals / sizeof *capitals; i++) {
    if (strlen(capitals[i]) != length || strncmp(capitals[i], word, length) != 0) continue;
    char *text = arena_copy(arena, word, length);
    for (char *c = text; *c; c++)
      *c = (char)toupper((unsigned char)*c);
    return text;
  }
  return arena_copy(arena, word, length);
}

/* "TTFT p99, s"; what the name says of the unit goes to the unit. */
static const char *label_of(const Metric *metric, Arena *arena) {
  static const struct {
    const char *end, *unit;
  } ends[] = {{"tokens_per_s", "tokens/s"},
              {"_rps", "requests/s"},
              {"_s", "s"},
              {"_kwh", "kWh"},
              {"_usd", "$"},
              {"_kw", "kW"},
              {"_bytes", "bytes"}};
  const bool is_value = strcmp(metric->statistic, "value") == 0;
  const char *name = metric->name, *unit = metric->unit, *text = "";
  size_t length = strlen(name);
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    const size_t n = strlen(ends[i].end);
    if (length <= n || strcmp(name + length - n, ends[i].end) != 0) continue;
    unit = ends[i].unit;
    length -= n;
    break;
  }
  for (size_t at = 0; at < length;) {
    const size_t n = strcspn(name + at, "_."), word = at + n > length ? length - at : n;
    if (word > 0)
      text = arena_printf(arena, "%s%s%s", text, *text ? " " : "", word_of(name + at, word, arena));
    at += word + 1;
  }
  const bool scoped = strcmp(metric->scope, "run") != 0 && strcmp(metric->scope, "slo") != 0;
  return arena_printf(arena, "%s%s%s%s%s%s%s", scoped ? metric->scope : "", scoped ? ": " : "",
                      text, is_value ? "" : " ", is_value ? "" : metric->statistic,
                      *unit ? ", " : "", unit);
}

/* ---- Which ---- */

/* As a string of JSON; what would need an escape is a blank, as in no name of ours. */
static const char *quoted(const char *text, Arena *arena) {
  char *copy = arena_copy(arena, text, strlen(text));
  for (char *c = copy; *c; c++)
    if ((unsigned char)*c < ' ' || *c == '"' || *c == '\\') *c = ' ';
  return arena_printf(arena, "\"%s\"", copy);
}

/* Whether it is from 0 to 1. */
static bool is_share(const Metric *metric) {
  return strcmp(metric->name, "goodput") == 0 || strcmp(metric->name, "utilization") == 0 ||
         text_ends_with(metric->name, "_share");
}

static void add(ShownMetrics *self, const Metric *metric, Arena *arena) {
  self->json =
      arena_printf(arena, "%s%s[%d,%s,%s,%s,%s]", self->json, self->n > 0 ? "," : "", self->n + 1,
                   quoted(metric->scope, arena), quoted(metric->name, arena),
                   quoted(metric->statistic, arena), quoted(objective_of(metric, arena), arena));
  self->is_share[self->n] = is_share(metric);
  self->labels[self->n++] = label_of(metric, arena);
}

enum { METRICS_MAX = 12 };

static int unknown_metric(const MetricList *metrics, const char *asked, Arena *arena, Diag *diag) {
  const char **names = ARENA_ARRAY(arena, const char *, metrics->n + 1);
  for (size_t i = 0; i < metrics->n; i++)
    names[i] = metrics->items[i].full;
  diag_error(diag, place_of_file("--metric"), "the runs have no figure '%s'", asked);
  diag_hint_choices(diag, asked, names, "tandem list figures");
  return -1;
}

/* Of defaults what there is; the limits, when there are any, are all. */
static void take_defaults(ShownMetrics *self, const MetricList *metrics, const char *defaults,
                          Arena *arena) {
  for (size_t length; *defaults && self->n < METRICS_MAX; defaults += length) {
    defaults += strspn(defaults, ", ");
    length = strcspn(defaults, ", ");
    const char *asked = arena_copy(arena, defaults, length);
    const bool limits = strcmp(asked, "limits") == 0;
    const Metric *metric = limits ? NULL : find_metric(metrics, asked, arena);
    if (metric) add(self, metric, arena);
    for (size_t i = 0; limits && i < metrics->n && self->n < METRICS_MAX; i++)
      if (strcmp(metrics->items[i].scope, "slo") == 0) add(self, &metrics->items[i], arena);
    if (limits && self->n > 0) return;
  }
}

int shown_find_metrics(ShownMetrics *self, Results *results, const char *ids,
                       const char *const *asked, const char *defaults, Arena *arena, Diag *diag) {
  MetricList metrics = {0};
  int status = 0;
  *self = (ShownMetrics){.json = "[",
                         .labels = ARENA_ARRAY(arena, const char *, METRICS_MAX),
                         .is_share = ARENA_ARRAY(arena, bool, METRICS_MAX)};
  if (load_metrics(&metrics, results, ids, arena, diag)) return -1;
  if (!asked) take_defaults(self, &metrics, defaults, arena);
  for (size_t i = 0; asked && asked[i]; i++) {
    const Metric *metric = find_metric(&metrics, asked[i], arena);
    if (!metric)
      status = unknown_metric(&metrics, asked[i], arena, diag);
    else if (self->n == METRICS_MAX)
      return diag_error(diag, place_of_file("--metric"), "at most %d metrics are supported",
                        METRICS_MAX);
    else
      add(self, metric, arena);
  }
  self->json = arena_printf(arena, "%s]", self->json);
  return status;
}

/* ---- What was run ---- */

const char *shown_corner(const Shown *self, Results *results, Arena *arena, Diag *diag) {
  // Values of a key that differ are counted, or named where they are two.
  static const char sql[] =
      "WITH chosen AS (SELECT value AS id FROM json_each(?1)), "
      "said AS (SELECT key, CASE count(DISTINCT value) WHEN 1 THEN min(value) "
      "WHEN 2 THEN min(value) || ' and ' || max(value) ELSE count(DISTINCT value) || ' ' || "
      "CASE key WHEN 'model' THEN 'models' WHEN 'workload.arrivals.rate' THEN 'rates' "
      "ELSE 'values' END END AS text FROM param WHERE run_id IN chosen GROUP BY key), "
      "machines AS (SELECT role, machine, min(count) AS low, max(count) AS high, "
      "min(tensor_parallel_size) AS tp, max(tensor_parallel_size) AS most FROM pool "
      "WHERE run_id IN chosen GROUP BY role, machine ORDER BY min(pool), 1, 2) "
      "SELECT group_concat(text, char(10)) FROM ("
      "SELECT text FROM said WHERE key IN ('model', 'model.name') UNION ALL "
      "SELECT * FROM (SELECT low || iif(high > low, ' to ' || high, '') || ' x ' || machine || "
      "iif(most > 1, ' TP' || tp || iif(most > tp, ' to ' || most, ''), '') || "
      "iif(role = 'mixed', '', ' ' || role) FROM machines LIMIT 4) UNION ALL "
      "SELECT text FROM said WHERE key IN ('workload.lengths', 'workload.trace', "
      "'workload.lengths.prompt.constant') UNION ALL "
      "SELECT iif(text GLOB '*/s' AND text NOT GLOB '* *', replace(text, '/s', ' /s'), text) "
      "FROM said WHERE key = 'workload.arrivals.rate' UNION ALL "
      "SELECT text || ' requests' FROM said WHERE key = 'workload.requests' UNION ALL "
      "SELECT text FROM said WHERE key = 'workload.duration' UNION ALL "
      "SELECT iif(n > 1, n || ' seeds', 'seed ' || one) FROM (SELECT count(DISTINCT seed || ' ' || "
      "coalesce((SELECT value FROM param WHERE run_id = run.id AND key = 'workload.seed'), '')) AS "
      "n, "
      "min(seed) AS one FROM run WHERE id IN chosen) UNION ALL "
      "SELECT CASE count(*) WHEN 1 THEN 'run ' || min(id) ELSE count(*) || ' runs' END "
      "FROM run WHERE id IN chosen UNION ALL "
      "SELECT 'epoch ' || group_concat(short, ' ') FROM "
      "(SELECT DISTINCT iif(length(epoch) < 24, epoch, substr(epoch, 5, 8)) AS short FROM run "
      "WHERE id IN chosen))";
  const char *text = "";
  if (results_ask_text(results, sql, VALUES(value_text(self->ids ? self->ids : "[]")), &text, arena,
                       diag) < 0)
    return NULL;
  return self->held && *self->held ? arena_printf(arena, "%s\nat %s", text, self->held) : text;
}
