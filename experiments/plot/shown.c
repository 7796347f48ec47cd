/* See shown.h. */
#include "experiments/plot/shown.h"
#include "base/sort.h"
#include "experiments/compare/compare.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What varies between the runs, but for seeds. */
typedef struct Key {
  const char *name, *shown; // `shown` is the end of it that no other key has
  const char **values;      // [runs]; "": it has none
  const char **sorted;      // [n_sorted] the different ones, numbers by size
  int n_sorted;
  bool numeric, folded;
  const char *unit; // of numbers
} Key;

typedef struct Runs {
  int64_t *ids; // [n]
  size_t n;
  Key *keys; // [n_keys]
  size_t n_keys;
} Runs;

/* ---- Which runs ---- */

/* Of equal configurations the newest; unless they were named, of the newest run's epoch, beside
 * which there may be measured ones. */
static int load_runs(Runs *self, Results *results, const char *ids, bool named, Arena *arena,
                     Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement = results_query(
      results,
      "WITH chosen AS (SELECT * FROM run WHERE id IN (SELECT value FROM json_each(?1))) "
      "SELECT max(id) FROM chosen WHERE ?2 OR epoch = '" RESULTS_MEASURED "' OR "
      "epochs_agree(epoch, (SELECT epoch FROM chosen ORDER BY id DESC LIMIT 1)) "
      "GROUP BY config_digest, epoch ORDER BY 1",
      VALUES(value_text(ids), value_whole(named)), diag);
  size_t capacity = 0;
  int status;
  while ((status = results_next(results, statement, diag)) > 0) {
    ARENA_RESERVE(arena, self->ids, capacity, self->n + 1);
    self->ids[self->n++] = sqlite3_column_int64(statement, 0);
  }
  return status;
}

static bool is_seed(const char *key) {
  const char *dot = strrchr(key, '.');
  const char *last = dot ? dot + 1 : key;
  return strcmp(last, "seed") == 0 || strcmp(last, "tie_seed") == 0;
}

static Key *find_key(Runs *self, const char *name, size_t *capacity, Arena *arena) {
  for (size_t i = 0; i < self->n_keys; i++)
    if (strcmp(self->keys[i].name, name) == 0) return &self->keys[i];
  ARENA_RESERVE(arena, self->keys, *capacity, self->n_keys + 1);
  Key *key = &self->keys[self->n_keys++];
  *key = (Key){.name = arena_copy(arena, name, strlen(name)),
               .values = ARENA_ARRAY(arena, const char *, self->n)};
  for (size_t i = 0; i < self->n; i++)
    key->values[i] = "";
  return key;
}

#define NEWEST_POINT                                                                               \
  "(SELECT run_id, max(sweep_id) AS sweep_id FROM point "                                          \
  "WHERE run_id IN (SELECT value FROM json_each(?1)) GROUP BY run_id)"

/* Where all are points of sweeps their axes, else the keys of which they have several values. Runs
 * whose pools have not the same names are told apart by what their pools are, not by each key. */
static int load_keys(Runs *self, Results *results, const char *ids, Arena *arena, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement = results_query(
      results,
      "WITH newest AS " NEWEST_POINT ", chosen AS (SELECT value AS id FROM json_each(?1)), "
      "total AS (SELECT count(*) AS n FROM chosen), "
      "swept AS (SELECT (SELECT count(*) FROM newest) = (SELECT n FROM total) AS yes), "
      "varied AS (SELECT key, count(*) AS n FROM param WHERE run_id IN chosen GROUP BY key "
      "HAVING count(DISTINCT value) > 1 OR count(*) < (SELECT n FROM total)), "
      "mixed AS (SELECT count(*) > 0 AS yes FROM varied WHERE key LIKE 'pools.%' "
      "AND n < (SELECT n FROM total)), "
      "one AS (SELECT count(DISTINCT tensor_parallel_size) < 2 AS tp FROM pool "
      "WHERE run_id IN chosen), "
      "pools AS (SELECT run_id, machine || iif((SELECT tp FROM one), '', ' TP' || "
      "tensor_parallel_size) || iif(role = 'mixed', '', ' ' || role) AS kind, count FROM pool "
      "WHERE run_id IN chosen AND (SELECT yes FROM mixed) ORDER BY run_id, pool) "
      "SELECT run_id, axis.name, point_value.value, axis.axis AS place FROM newest "
      "JOIN point USING (run_id, sweep_id) JOIN point_value USING (sweep_id, point) "
      "JOIN axis USING (sweep_id, axis) WHERE (SELECT yes FROM swept) "
      "UNION ALL SELECT run_id, key, value, 2 FROM param JOIN varied USING (key) "
      "WHERE run_id IN chosen AND NOT (SELECT yes FROM swept) "
      "AND NOT (key LIKE 'pools.%' AND (SELECT yes FROM mixed)) "
      "UNION ALL SELECT run_id, 'design', group_concat(kind, ' + '), 0 FROM pools "
      "WHERE NOT (SELECT yes FROM swept) GROUP BY run_id "
      "UNION ALL SELECT run_id, 'machines', group_concat(count, ' + '), 1 FROM pools "
      "WHERE NOT (SELECT yes FROM swept) GROUP BY run_id ORDER BY place, 2, 1",
      VALUES(value_text(ids)), diag);
  size_t capacity = 0;
  int status;
  while ((status = results_next(results, statement, diag)) > 0) {
    const int64_t id = sqlite3_column_int64(statement, 0);
    const int64_t *at = bsearch(&id, self->ids, self->n, sizeof *self->ids, compare_ints);
    const char *name = results_text(statement, 1, arena);
    if (at && !is_seed(name))
      find_key(self, name, &capacity, arena)->values[at - self->ids] =
          results_text(statement, 2, arena);
  }
  return status;
}

/* ---- Values that are numbers ---- */

static int compare_values(const void *a, const void *b) {
  const char *one = *(const char *const *)a, *other = *(const char *const *)b;
  char *end_one = NULL, *end_other = NULL;
  const double x = strtod(one, &end_one), y = strtod(other, &end_other);
  if (end_one != one && end_other != other && x != y) return x < y ? -1 : 1;
  return strcmp(one, other);
}

/* What stands behind a number: "" or a unit; NULL: it is none. */
static const char *unit_of(const char *value) {
  char *end = NULL;
  if (!isfinite(strtod(value, &end)) || end == value) return NULL;
  while (*end == ' ')
    end++;
  return strpbrk(end, "0123456789,") ? NULL : end;
}

static void sort_key(Key *self, size_t n_runs, Arena *arena) {
  const char **values = ARENA_ARRAY(arena, const char *, n_runs);
  memcpy(values, self->values, n_runs * sizeof *values);
  qsort(values, n_runs, sizeof *values, compare_values);
  self->sorted = values;
  self->unit = unit_of(values[0]);
  self->numeric = self->unit != NULL;
  for (size_t i = 0; i < n_runs; i++) {
    const char *unit = unit_of(values[i]);
    self->numeric &= unit && strcmp(unit, self->unit ? self->unit : "") == 0;
    if (self->n_sorted > 0 && strcmp(values[self->n_sorted - 1], values[i]) == 0) continue;
    values[self->n_sorted++] = values[i];
  }
}

static bool ends_alike(const char *name, const char *end) {
  const size_t n = strlen(name), n_end = strlen(end);
  return n > n_end && name[n - n_end - 1] == '.' && strcmp(name + n - n_end, end) == 0;
}

/* The shortest end of its name, at a dot, that is of no other. */
static const char *short_name(const Runs *runs, const Key *key) {
  const char *end = key->name + strlen(key->name);
  for (;;) {
    while (end > key->name && end[-1] != '.')
      end--;
    size_t alike = 0;
    for (size_t i = 0; i < runs->n_keys; i++)
      alike += strcmp(runs->keys[i].name, end) == 0 || ends_alike(runs->keys[i].name, end);
    if (end == key->name || alike < 2) return end;
    end--;
  }
}

static void end_keys(Runs *self, Arena *arena) {
  for (size_t i = 0; i < self->n_keys; i++)
    sort_key(&self->keys[i], self->n, arena);
  for (size_t i = 0; i < self->n_keys; i++)
    self->keys[i].shown = short_name(self, &self->keys[i]);
}

/* ---- Axes ---- */

static int unknown_axis(const Runs *runs, const char *option, const char *name, Arena *arena,
                        Diag *diag) {
  const char **names = ARENA_ARRAY(arena, const char *, runs->n_keys + 1);
  for (size_t i = 0; i < runs->n_keys; i++)
    names[i] = runs->keys[i].name;
  diag_error(diag, place_of_file(option), "'%s' does not vary between the runs", name);
  if (names[0]) diag_hint_near(diag, name, names);
  return -1;
}

/* By its name or the end of it; NULL: none. */
static Key *find_axis(const Runs *runs, const char *name) {
  for (size_t i = 0; i < runs->n_keys; i++)
    if (strcmp(runs->keys[i].name, name) == 0) return &runs->keys[i];
  for (size_t i = 0; i < runs->n_keys; i++)
    if (ends_alike(runs->keys[i].name, name)) return &runs->keys[i];
  return NULL;
}

/* One that nobody asked for: `prefer`, numbers, or, unless those are wanted, any. */
static Key *take_axis(const Runs *runs, const ShownForm *form, const Key *taken) {
  Key *preferred = form->prefer ? find_axis(runs, form->prefer) : NULL;
  if (preferred && preferred != taken && preferred->numeric) return preferred;
  for (size_t i = 0; i < runs->n_keys; i++)
    if (&runs->keys[i] != taken && runs->keys[i].numeric && runs->keys[i].n_sorted > 1)
      return &runs->keys[i];
  for (size_t i = 0; i < runs->n_keys && !form->numeric; i++)
    if (&runs->keys[i] != taken && runs->keys[i].n_sorted > 1) return &runs->keys[i];
  return NULL;
}

static int pick_axis(const Runs *runs, const ShownForm *form, const char *option, const char *name,
                     const Key *taken, const Key **ret_key, Arena *arena, Diag *diag) {
  const Key *key = name ? find_axis(runs, name) : take_axis(runs, form, taken);
  if (!key && name) return unknown_axis(runs, option, name, arena, diag);
  if (!key || key == taken) {
    diag_error(diag, place_of_file(option), "the figure needs %s between the runs%s",
               form->numeric ? "a number that varies" : "something that varies",
               taken ? ", beside the other axis" : "");
    diag_hint(diag, "for example, a sweep over workload.arrivals.rate or pools.NAME.count");
    return -1;
  }
  if (form->numeric && !key->numeric) {
    diag_error(diag, place_of_file(option), "the values of '%s' are not numbers of one unit",
               key->name);
    diag_hint(diag, "'bars' and 'heat' accept words, too");
    return -1;
  }
  *ret_key = key;
  return 0;
}

static const char *const *axis_words(const Key *key, Arena *arena) {
  const char **words = ARENA_ARRAY(arena, const char *, key->n_sorted);
  for (int i = 0; i < key->n_sorted; i++)
    words[i] = *key->sorted[i] ? key->sorted[i] : "default";
  return words;
}

static ShownAxis axis_of(const Key *key, bool words, Arena *arena) {
  static const char rate[] = "arrivals.rate";
  if (!key) return (ShownAxis){0};
  const char *unit = key->unit ? key->unit : "";
  const char *label = ends_alike(key->name, rate) ? "arrival rate, requests/s"
                      : key->numeric && *unit     ? arena_printf(arena, "%s, %s", key->shown, unit)
                                                  : key->shown;
  return (ShownAxis){.key = key->name,
                     .label = label,
                     .words = words || !key->numeric ? axis_words(key, arena) : NULL,
                     .n_words = key->n_sorted,
                     .numeric = key->numeric};
}

/* ---- Series ---- */

typedef struct RunPlace {
  size_t run;
  const char *order, *series; // equal ones have equal order, which sorts as the values do
} RunPlace;

static int value_number(const Key *key, const char *value) {
  const char *const *at =
      bsearch(&value, key->sorted, (size_t)key->n_sorted, sizeof *key->sorted, compare_values);
  return (int)(at - key->sorted);
}

static bool is_design(const Key *key) {
  return strcmp(key->name, "design") == 0 || strcmp(key->name, "machines") == 0 ||
         strstr(key->values[0], ", ");
}

/* Whether series are called by it, too, or, with `folded`, it was left out of what they are
 * called. */
static bool is_named(const Key *key, const Key *x, const Key *y, bool folded) {
  return key != x && key != y && key->n_sorted > 1 && key->folded == folded;
}

static bool is_left_by_some(const Key *key) {
  for (int i = 0; i < key->n_sorted; i++)
    if (!*key->sorted[i]) return true;
  return false;
}

/* "count=4", "jsq" where that says enough, "default count" of a run that leaves it to its
 * default. */
static const char *key_text(const Key *key, const char *value, bool alone, Arena *arena) {
  if (!*value) return arena_printf(arena, "default %s", key->shown);
  if (is_design(key) || (alone && !key->numeric && !is_left_by_some(key))) return value;
  return arena_printf(arena, "%s=%s", key->shown, value);
}

/* What all keys but the axes call a run: "jsq, count=4". */
static const char *run_text(const Runs *runs, size_t run, const Key *x, const Key *y, bool folded,
                            Arena *arena) {
  const char *text = "";
  size_t n_named = 0;
  for (size_t i = 0; i < runs->n_keys; i++)
    n_named += is_named(&runs->keys[i], x, y, folded);
  for (size_t i = 0; i < runs->n_keys; i++) {
    const Key *key = &runs->keys[i];
    if (is_named(key, x, y, folded))
      text = arena_printf(arena, "%s%s%s", text, *text ? ", " : "",
                          key_text(key, key->values[run], n_named == 1, arena));
  }
  return text;
}

static RunPlace place_run(const Runs *runs, size_t run, const Key *x, const Key *y, Arena *arena) {
  RunPlace place = {run, "", run_text(runs, run, x, y, false, arena)};
  for (size_t i = 0; i < runs->n_keys; i++)
    if (is_named(&runs->keys[i], x, y, false))
      place.order = arena_printf(arena, "%s%08d", place.order,
                                 value_number(&runs->keys[i], runs->keys[i].values[run]));
  return place;
}

static int compare_places(const void *a, const void *b) {
  const RunPlace *one = a, *other = b;
  const int order = strcmp(one->order, other->order);
  return order != 0 ? order : (one->run > other->run) - (one->run < other->run);
}

static RunPlace *place_runs(const Runs *runs, const Key *x, const Key *y, int *ret_series,
                            Arena *arena) {
  RunPlace *places = ARENA_ARRAY(arena, RunPlace, runs->n);
  for (size_t i = 0; i < runs->n; i++)
    places[i] = place_run(runs, i, x, y, arena);
  qsort(places, runs->n, sizeof *places, compare_places);
  *ret_series = 0;
  for (size_t i = 0; i < runs->n; i++)
    *ret_series += i == 0 || strcmp(places[i - 1].order, places[i].order) != 0;
  return places;
}

/* What series are named by that has the most values. */
static Key *most_varied(const Runs *runs, const Key *x, const Key *y) {
  Key *most = NULL;
  for (size_t i = 0; i < runs->n_keys; i++) {
    Key *key = &runs->keys[i];
    if (is_named(key, x, y, false) && (!most || key->n_sorted > most->n_sorted)) most = key;
  }
  return most;
}

/* Leaves the runs that have its middle value. */
static const char *hold_key(Runs *runs, Key *key, const char *held, Arena *arena) {
  const char *value = key->sorted[(key->n_sorted - 1) / 2];
  size_t kept = 0;
  for (size_t i = 0; i < runs->n; i++) {
    if (strcmp(key->values[i], value) != 0) continue;
    runs->ids[kept] = runs->ids[i];
    for (size_t k = 0; k < runs->n_keys; k++)
      runs->keys[k].values[kept] = runs->keys[k].values[i];
    kept++;
  }
  runs->n = kept;
  key->n_sorted = 1;
  key->sorted = &key->values[0];
  return arena_printf(arena, "%s%s%s=%s", held, *held ? ", " : "", key->shown,
                      *value ? value : "default");
}

/* ---- As SQL wants it ---- */

static const char *list_ids(const Runs *runs, Arena *arena) {
  enum { LONGEST = sizeof "-9223372036854775808," };
  char *text = arena_alloc(arena, runs->n * LONGEST + sizeof "[]"), *end = stpcpy(text, "[");
  for (size_t i = 0; i < runs->n; i++)
    end += snprintf(end, LONGEST, i > 0 ? ",%lld" : "%lld", (long long)runs->ids[i]);
  stpcpy(end, "]");
  return text;
}

static double along(const Key *key, const ShownAxis *axis, size_t run) {
  if (!key) return 0;
  return !axis->words ? strtod(key->values[run], NULL) : value_number(key, key->values[run]);
}

static void list_places(Shown *self, const Runs *runs, const RunPlace *places, const Key *x,
                        const Key *y, Arena *arena) {
  enum {
    LONGEST = sizeof "[-9223372036854775808,2147483647,,]," + 2 * sizeof "-1.7976931348623157e+308"
  };
  char *text = arena_alloc(arena, runs->n * LONGEST + sizeof "[]"), *end = stpcpy(text, "[");
  self->series = ARENA_ARRAY(arena, const char *, self->n_series);
  self->runs = ARENA_ARRAY(arena, ShownRun, runs->n);
  int series = -1;
  for (size_t i = 0; i < runs->n; i++) {
    const RunPlace *place = &places[i];
    if (i == 0 || strcmp(places[i - 1].order, place->order) != 0)
      self->series[++series] = place->series;
    self->runs[i] =
        (ShownRun){runs->ids[place->run], run_text(runs, place->run, x, y, true, arena)};
    end += snprintf(end, LONGEST, "%s[%lld,%d,%.17g,%.17g]", i > 0 ? "," : "",
                    (long long)runs->ids[place->run], series, along(x, &self->x, place->run),
                    along(y, &self->y, place->run));
  }
  stpcpy(end, "]");
  self->places = text;
}

int shown_find(Shown *self, Results *results, const PlotChoice *choice, const ShownForm *form,
               Arena *arena, Diag *diag) {
  Runs runs = {0};
  const Key *x = NULL, *y = NULL;
  const char *ids = compare_find_runs(results, choice->runs, choice->where, arena, diag);
  if (!ids || load_runs(&runs, results, ids, choice->runs != NULL, arena, diag)) return -1;
  ids = list_ids(&runs, arena);
  if (load_keys(&runs, results, ids, arena, diag)) return -1;
  end_keys(&runs, arena);
  const char *name = choice->x ? choice->x : choice->axis;
  if (form->n_axes > 0 && pick_axis(&runs, form, "--axis", name, NULL, &x, arena, diag)) return -1;
  if (form->n_axes > 1 && pick_axis(&runs, form, "--y", choice->y, x, &y, arena, diag)) return -1;
  *self =
      (Shown){.x = axis_of(x, form->words, arena), .y = axis_of(y, form->words, arena), .held = ""};
  RunPlace *places = place_runs(&runs, x, y, &self->n_series, arena);
  while (self->n_series > form->max_series) {
    Key *most = most_varied(&runs, x, y);
    if (!form->fold) self->held = hold_key(&runs, most, self->held, arena);
    most->folded = true;
    places = place_runs(&runs, x, y, &self->n_series, arena);
  }
  self->n_runs = runs.n;
  self->ids = list_ids(&runs, arena);
  list_places(self, &runs, places, x, y, arena);
  return 0;
}

int shown_find_all(Shown *self, Results *results, Arena *arena, Diag *diag) {
  *self = (Shown){.held = ""};
  return results_ask_text(results,
                          "SELECT json_group_array(id) FROM run WHERE status <> 'failed' AND "
                          "epochs_agree(epoch, (SELECT epoch FROM run ORDER BY id DESC LIMIT 1))",
                          NULL, 0, &self->ids, arena, diag) < 0
             ? -1
             : 0;
}
