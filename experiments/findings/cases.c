/* See cases.h. */
#include "experiments/findings/cases.h"
#include "base/hash.h"
#include "base/key_map.h"
#include "base/sort.h"
#include <math.h>
#include <string.h>

#define FIGURE(of, which, heading, of_unit)                                                        \
  .name = of, .statistic = which, .head = heading, .unit = of_unit
const CaseFigure case_figures[CASE_FIGURES] = {
    {FIGURE("ttft_s", "p50", "TTFT p50", "s")},
    {FIGURE("ttft_s", "p99", "TTFT p99", "s"), .before = "TTFT p99 ", .after = ""},
    {FIGURE("tpot_s", "p99", "TPOT p99", "s"), .before = "TPOT p99 ", .after = ""},
    {FIGURE("e2e_s", "p99", "E2E p99", "s")},
    {FIGURE("throughput_rps", "value", "requests/s", ""), .before = "",
     .after = " requests/s served", .more_is_better = true},
    {FIGURE("output_tokens_per_s", "value", "output tokens/s", ""), .more_is_better = true},
    {FIGURE("gpus", "value", "GPUs", ""), .before = "", .after = " GPUs"},
    {FIGURE("cost_per_hour", "value", "cost per hour", "$"), .before = "", .after = " an hour"},
    {FIGURE("cost_per_million_output_tokens", "value", "cost per million output tokens", "$"),
     .before = "", .after = " per million output tokens"},
};

/* What the first of those that keep all limits is chosen by, where it is known. */
static const int ranks[] = {8, 7, 4};

/* A run of the subject, and the case that it belongs to. */
typedef struct Member {
  int64_t run;
  const char *place; // its values on the axes, joined
  size_t index, one; // in the order of points; its case
  bool repeated;     // another of its case has the same outcomes
} Member;

typedef struct Members {
  Member *all; // [n], by run once they are grouped
  size_t n, capacity;
  const char ***columns; // [axis][index]
} Members;

/* ---- Axes ---- */

static bool is_seed(const char *key) {
  return strcmp(key, "seed") == 0 || strcmp(key, "tie_seed") == 0 ||
         strcmp(key, "workload.seed") == 0;
}

/* A column of values, one for each run, of the statement's first column. */
static const char **load_column(const Cases *self, const char *sql, const char *key, int64_t axis,
                                size_t n) {
  Arena *arena = self->of->of->arena;
  CLEANUP_STATEMENT sqlite3_stmt *rows = subject_ask(self->of, sql);
  if (!rows) return NULL;
  const int at_key = sqlite3_bind_parameter_index(rows, ":key");
  const int at_axis = sqlite3_bind_parameter_index(rows, ":axis");
  if (at_key) sqlite3_bind_text(rows, at_key, key, -1, SQLITE_STATIC);
  if (at_axis) sqlite3_bind_int64(rows, at_axis, axis);
  const char **column = ARENA_ARRAY(arena, const char *, n + 1);
  size_t i = 0;
  while (i < n && sqlite3_step(rows) == SQLITE_ROW)
    column[i++] = results_text(rows, 0, arena);
  while (i < n)
    column[i++] = "";
  return column;
}

static void add_axis(Cases *self, Members *members, const char *name, const char **column) {
  Arena *arena = self->of->of->arena;
  Axis *axis = &self->axes[self->n_axes];
  *axis = (Axis){.name = name, .is_number = true};
  members->columns[self->n_axes++] = column;
  for (size_t i = 0; i < members->n; i++) {
    size_t k = 0;
    while (k < axis->n_values && strcmp(axis->values[k], column[i]) != 0)
      k++;
    if (k < axis->n_values) continue;
    ARENA_RESERVE(arena, axis->values, axis->capacity, k + 1);
    axis->values[axis->n_values++] = column[i];
    axis->is_number &= *column[i] >= '0' && *column[i] <= '9';
  }
}

static int load_sweep_axes(Cases *self, Members *members) {
  static const char values[] = "SELECT value FROM point JOIN point_value USING (sweep_id, point) "
                               "WHERE sweep_id = :id AND axis = :axis ORDER BY point";
  Arena *arena = self->of->of->arena;
  CLEANUP_STATEMENT sqlite3_stmt *rows =
      subject_ask(self->of, "SELECT axis, name FROM axis WHERE sweep_id = :id ORDER BY axis");
  if (!rows) return -1;
  while (sqlite3_step(rows) == SQLITE_ROW && self->n_axes < AXES_MOST) {
    const char *name = results_text(rows, 1, arena);
    if (is_seed(name)) continue;
    const char **column =
        load_column(self, values, NULL, sqlite3_column_int64(rows, 0), members->n);
    if (!column) return -1;
    add_axis(self, members, name, column);
  }
  return 0;
}

/* Of runs of no sweep: their names, where they have several, and the keys that vary. */
static int load_key_axes(Cases *self, Members *members) {
  const Subject *of = self->of;
  const char **names = load_column(self,
                                   "SELECT run.name FROM json_each(:runs) AS one JOIN run ON "
                                   "run.id = one.value ORDER BY one.key",
                                   NULL, 0, members->n);
  if (!names) return -1;
  if (!of->name) add_axis(self, members, "configuration", names);
  for (size_t i = 0; i < of->n_keys && self->n_axes < AXES_MOST; i++) {
    const Key *key = &of->keys[i];
    if (key->n_values < 2 || is_seed(key->key)) continue;
    const char **column =
        load_column(self,
                    "SELECT param.value FROM json_each(:runs) AS one LEFT JOIN param "
                    "ON run_id = one.value AND param.key = :key ORDER BY one.key",
                    key->key, 0, members->n);
    if (!column) return -1;
    add_axis(self, members, key->key, column);
  }
  return 0;
}

/* ---- Cases ---- */

static int by_place(const void *a, const void *b) {
  const Member *one = a, *other = b;
  const int order = strcmp(one->place, other->place);
  return order ? order : (one->index > other->index) - (one->index < other->index);
}

static int by_run(const void *a, const void *b) {
  const Member *one = a, *other = b;
  return (one->run > other->run) - (one->run < other->run);
}

static int load_members(const Cases *self, Members *members) {
  Arena *arena = self->of->of->arena;
  CLEANUP_STATEMENT sqlite3_stmt *rows =
      subject_ask(self->of, self->of->kind == SUBJECT_SWEEP
                                ? "SELECT run_id FROM point WHERE sweep_id = :id ORDER BY point"
                                : "SELECT value FROM json_each(:runs) ORDER BY key");
  if (!rows) return -1;
  while (sqlite3_step(rows) == SQLITE_ROW) {
    ARENA_RESERVE(arena, members->all, members->capacity, members->n + 1);
    members->all[members->n] = (Member){.run = sqlite3_column_int64(rows, 0), .index = members->n};
    members->n++;
  }
  members->columns = ARENA_ARRAY(arena, const char **, AXES_MOST + 1);
  return 0;
}

static void begin_case(Cases *self, const Members *members, size_t index) {
  Arena *arena = self->of->of->arena;
  Case *one = &self->cases[self->n_cases++];
  *one = (Case){.margin = INFINITY, .runs = "", .run = -1};
  one->values = ARENA_ARRAY(arena, const char *, self->n_axes + 1);
  for (size_t a = 0; a < self->n_axes; a++)
    one->values[a] = members->columns[a][index];
}

static void group(Cases *self, Members *members) {
  Arena *arena = self->of->of->arena;
  for (size_t i = 0; i < members->n; i++) {
    members->all[i].place = "";
    for (size_t a = 0; a < self->n_axes; a++)
      members->all[i].place =
          arena_printf(arena, "%s%s\n", members->all[i].place, members->columns[a][i]);
  }
  sort_items(members->all, members->n, sizeof *members->all, by_place);
  self->cases = ARENA_ARRAY(arena, Case, members->n + 1);
  for (size_t i = 0; i < members->n; i++) {
    Member *member = &members->all[i];
    if (i == 0 || strcmp(member->place, member[-1].place) != 0)
      begin_case(self, members, member->index);
    Case *one = &self->cases[self->n_cases - 1];
    one->runs =
        arena_printf(arena, "%s%s%lld", one->runs, *one->runs ? "," : "", (long long)member->run);
    one->n_runs++;
    if (one->run < 0) one->run = member->run;
    if (one->n_runs > self->n_seeds) self->n_seeds = one->n_runs;
    member->one = self->n_cases - 1;
  }
  sort_items(members->all, members->n, sizeof *members->all, by_run);
}

/* That of the run in a row's first column; NULL: none. */
static Member *member_of(const Members *members, sqlite3_stmt *row) {
  const Member key = {.run = sqlite3_column_int64(row, 0)};
  return find_item(&key, members->all, members->n, sizeof key, by_run);
}

static Case *case_of(const Cases *self, const Members *members, sqlite3_stmt *row) {
  const Member *found = member_of(members, row);
  return found ? &self->cases[found->one] : NULL;
}

/* ---- What they gave ---- */

static int load_figures(Cases *self, const Members *members) {
  CLEANUP_STATEMENT sqlite3_stmt *rows = subject_ask(
      self->of, "SELECT run_id, name, statistic, value FROM metric WHERE scope = 'run' "
                "AND run_id IN (SELECT value FROM json_each(:runs)) AND value IS NOT NULL "
                "AND statistic IN ('value', 'p50', 'p99')");
  if (!rows) return -1;
  while (sqlite3_step(rows) == SQLITE_ROW) {
    const char *name = (const char *)sqlite3_column_text(rows, 1);
    const char *statistic = (const char *)sqlite3_column_text(rows, 2);
    for (int f = 0; f < CASE_FIGURES; f++) {
      if (strcmp(name, case_figures[f].name) || strcmp(statistic, case_figures[f].statistic))
        continue;
      const Member *member = member_of(members, rows);
      if (member)
        moments_add(&self->cases[member->one].figures[f], results_real(rows, 3), member->repeated);
      self->has[f] = true;
    }
  }
  return 0;
}

static int load_status(Cases *self, const Members *members) {
  CLEANUP_STATEMENT sqlite3_stmt *rows =
      subject_ask(self->of, "SELECT id, status IN ('done', 'stalled'), digest FROM run "
                            "WHERE id IN (SELECT value FROM json_each(:runs)) ORDER BY id");
  KeyMap seen = {0};
  if (!rows) return -1;
  while (sqlite3_step(rows) == SQLITE_ROW) {
    Member *member = member_of(members, rows);
    if (!member || !sqlite3_column_int(rows, 1)) continue;
    Case *one = &self->cases[member->one];
    const char *digest = results_text(rows, 2, self->of->of->arena);
    const uint64_t outcomes = hash_fold(member->one, hash_bytes(digest, strlen(digest)));
    uint32_t *times = key_map_put(&seen, outcomes | 1, self->of->of->arena);
    member->repeated = (*times)++ > 0;
    one->n_different += !member->repeated;
    if (one->n_done++ == 0) one->run = sqlite3_column_int64(rows, 0);
  }
  return 0;
}

static int load_limits(Cases *self, const Members *members) {
  Arena *arena = self->of->of->arena;
  CLEANUP_STATEMENT sqlite3_stmt *rows =
      subject_ask(self->of, "SELECT run_id, name, margin, met, unmeasured FROM slo "
                            "WHERE run_id IN (SELECT value FROM json_each(:runs))");
  if (!rows) return -1;
  while (sqlite3_step(rows) == SQLITE_ROW) {
    Case *one = case_of(self, members, rows);
    if (!one) continue;
    const double known = results_real(rows, 2), margin = isnan(known) ? -INFINITY : known;
    one->n_slos++;
    one->n_met += sqlite3_column_int(rows, 3) != 0;
    const bool unmeasured = sqlite3_column_type(rows, 4) != SQLITE_NULL;
    if (one->unmeasured || (!unmeasured && margin >= one->margin)) continue;
    one->unmeasured = unmeasured;
    one->margin = margin;
    one->binds = results_text(rows, 1, arena);
  }
  return 0;
}

/* ---- Which is best ---- */

bool case_keeps_all(const Case *self) {
  return self->n_slos > 0 && self->n_met == self->n_slos && self->n_done == (int)self->n_runs;
}

/* 0 best. */
static int class_of(const Case *self) {
  return self->n_done == 0 ? 2 : self->n_slos > 0 && !case_keeps_all(self) ? 1 : 0;
}

static bool is_better(const Case *one, const Case *other, int figure) {
  const Moments *a = &one->figures[figure], *b = &other->figures[figure];
  if (a->n == 0 || b->n == 0) return a->n > b->n;
  return case_figures[figure].more_is_better ? a->mean > b->mean : a->mean < b->mean;
}

/* The best first; equal ones stay in order. */
static int by_rank(const void *a, const void *b) {
  const Case *one = a, *other = b;
  const int class = class_of(one);
  if (class != class_of(other)) return class - class_of(other);
  if (class == 1 && one->margin != other->margin) return one->margin > other->margin ? -1 : 1;
  if (one->worth != other->worth) return one->worth > other->worth ? -1 : 1;
  return (one->place > other->place) - (one->place < other->place);
}

const Case *cases_best(const Cases *self, int figure, bool only_met) {
  const Case *best = NULL;
  for (size_t i = 0; i < self->n_cases; i++) {
    const Case *one = &self->cases[i];
    if (one->figures[figure].n == 0 || (only_met && !case_keeps_all(one))) continue;
    if (!best || is_better(one, best, figure)) best = one;
  }
  return best;
}

const char *short_name(const char *key) {
  static const char *const prefixes[] = {"pools.", "workload.arrivals.", "workload.", "policies."};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
    if (strncmp(key, prefixes[i], strlen(prefixes[i])) == 0) return key + strlen(prefixes[i]);
  return key;
}

const char *place_words(const Cases *self, const Case *one, int but) {
  Arena *arena = self->of->of->arena;
  const char *words = "";
  for (int i = 0; i < (int)self->n_axes; i++)
    if (i != but)
      words = arena_printf(arena, "%s%s%s %s", words, *words ? ", " : "",
                           short_name(self->axes[i].name), one->values[i]);
  return words;
}

const char *case_verdict(const Case *self) {
  if (self->n_done == 0) return "failed";
  if (self->n_slos == 0) return "-";
  return case_keeps_all(self) ? "met" : self->n_met ? "some missed" : "all missed";
}

const char *case_margin(const Case *self, Arena *arena) {
  return self->n_slos == 0  ? "-"
         : self->unmeasured ? "not measured"
                            : margin_words(self->margin, arena);
}

const char *margin_words(double margin, Arena *arena) {
  if (fabs(margin) > 100) return margin < 0 ? "below -100x" : ">100x";
  return shown(margin, "%", arena);
}

int cases_load(Cases *self, const Subject *of) {
  Arena *arena = of->of->arena;
  Members members = {0};
  *self = (Cases){.of = of, .axes = ARENA_ARRAY(arena, Axis, AXES_MOST + 1)};
  if (load_members(self, &members) ||
      (of->kind == SUBJECT_SWEEP ? load_sweep_axes(self, &members) : load_key_axes(self, &members)))
    return -1;
  group(self, &members);
  if (load_status(self, &members) || load_figures(self, &members) || load_limits(self, &members))
    return -1;
  for (size_t i = sizeof ranks / sizeof *ranks; i-- > 0;)
    if (self->has[ranks[i]]) self->ranked_by = ranks[i];
  for (size_t i = 0; i < self->n_cases; i++) {
    Case *one = &self->cases[i];
    const Moments *ranked = &one->figures[self->ranked_by];
    const bool more_is_better = case_figures[self->ranked_by].more_is_better;
    one->place = i;
    one->worth = ranked->n == 0 ? -INFINITY : more_is_better ? ranked->mean : -ranked->mean;
    self->n_met += case_keeps_all(one);
    self->n_limited += one->n_slos > 0;
    self->n_failed += one->n_done < (int)one->n_runs;
  }
  sort_items(self->cases, self->n_cases, sizeof *self->cases, by_rank);
  return 0;
}
