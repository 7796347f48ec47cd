/* See side.h. */
#include "experiments/compare/side.h"
#include "base/hash.h"
#include "base/key_map.h"
#include "base/sort.h"
#include <inttypes.h>
#include <string.h>

#define WITHIN " IN (SELECT value FROM json_each(?1))"

/* The first column of a query for ?1, NULL-terminated; NULL with an entry. */
static const char *const *ask_names(Results *results, const char *sql, const char *text,
                                    Arena *arena, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      results_query(results, sql, VALUES(value_text(text)), diag);
  const char **names = NULL;
  size_t n = 0, capacity = 0;
  int status;
  ARENA_RESERVE(arena, names, capacity, 1);
  while ((status = results_next(results, statement, diag)) > 0) {
    ARENA_RESERVE(arena, names, capacity, n + 2);
    names[n++] = results_text(statement, 0, arena);
  }
  return status < 0 ? NULL : names;
}

/* ---- Which runs ---- */

static const char *list_ids(const SideRun *runs, size_t n, Arena *arena) {
  enum { LONGEST = sizeof "-9223372036854775808," };
  char *text = arena_alloc(arena, n * LONGEST + sizeof "[]"), *end = stpcpy(text, "[");
  for (size_t i = 0; i < n; i++)
    end += snprintf(end, LONGEST, i > 0 ? ",%" PRId64 : "%" PRId64, runs[i].id);
  stpcpy(end, "]");
  return text;
}

/* Leaves the runs that `condition` holds of, "?2" and "?3" being its texts; all when `ids` is NULL.
 * Returns how many, -1 with an entry. */
static int64_t select_runs(Side *self, const char *condition, const char *one, const char *other,
                           Arena *arena, Diag *diag) {
  const char *sql = arena_printf(
      arena,
      "SELECT id, seed, digest, epoch = '" RESULTS_MEASURED "', is_stale(epoch) FROM run WHERE "
      "(?1 IS NULL OR id IN (SELECT value FROM json_each(?1))) AND id > 0 AND "
      "status IN ('done', 'stalled') AND (%s) ORDER BY id",
      condition);
  CLEANUP_STATEMENT sqlite3_stmt *statement = results_query(
      self->results, sql, VALUES(value_text(self->ids), value_text(one), value_text(other)), diag);
  SideRun *runs = NULL;
  size_t n = 0, capacity = 0;
  int64_t measured = 0, stale = 0;
  int status;
  while ((status = results_next(self->results, statement, diag)) > 0) {
    ARENA_RESERVE(arena, runs, capacity, n + 1);
    const char *digest = results_text(statement, 2, arena);
    runs[n++] = (SideRun){.id = sqlite3_column_int64(statement, 0),
                          .seed = sqlite3_column_int64(statement, 1),
                          .outcomes = hash_bytes(digest, strlen(digest))};
    measured += sqlite3_column_int(statement, 3);
    stale += sqlite3_column_int(statement, 4);
  }
  if (status < 0 || n == 0) return status;
  self->runs = runs;
  self->n_runs = n;
  self->ids = list_ids(runs, n, arena);
  self->measured = measured == (int64_t)n;
  self->stale = stale;
  return (int64_t)n;
}

/* ---- KEY=VALUE ---- */

#define ALL_KEYS "SELECT key AS name FROM param UNION SELECT name FROM axis"

/* The key that is meant: "router" is "policies.router" where no other key ends so. */
static const char *find_key(Side *self, const char *word, Arena *arena, Diag *diag) {
  const char *const *exact =
      ask_names(self->results, "SELECT name FROM (" ALL_KEYS ") WHERE name = ?", word, arena, diag);
  if (!exact) return NULL;
  if (exact[0]) return exact[0];
  const char *const *ends = ask_names(self->results,
                                      "SELECT name FROM (" ALL_KEYS ") WHERE "
                                      "substr(name, -length(?1) - 1) = '.' || ?1",
                                      word, arena, diag);
  if (!ends) return NULL;
  if (ends[0] && !ends[1]) return ends[0];
  diag_error(diag, place_of_file(self->results->path),
             ends[0] ? "several keys end with '%s'" : "no run has a key or an axis '%s'", word);
  const char *const *keys = ends[0] ? ends : ask_names(self->results, ALL_KEYS, word, arena, diag);
  if (keys) diag_hint_near(diag, word, keys);
  return NULL;
}

#define OF_POINT                                                                                   \
  "id IN (SELECT run_id FROM point JOIN point_value USING (sweep_id, point) "                      \
  "JOIN axis USING (sweep_id, axis) WHERE "

static int64_t select_setting(Side *self, const char *setting, Arena *arena, Diag *diag) {
  const char *equals = strchr(setting, '=');
  const char *key =
      find_key(self, arena_copy(arena, setting, (size_t)(equals - setting)), arena, diag);
  const char *value = equals + 1;
  if (!key) return -1;
  const int64_t n = select_runs(self,
                                "id IN (SELECT run_id FROM param WHERE key = ?2 AND value = ?3) "
                                "OR " OF_POINT "axis.name = ?2 AND point_value.value = ?3)",
                                key, value, arena, diag);
  if (n != 0) return n;
  diag_error(diag, place_of_file(self->results->path), "no completed run has %s = '%s'", key,
             value);
  const char *const *values =
      ask_names(self->results,
                "SELECT DISTINCT value FROM param WHERE key = ?1 UNION SELECT DISTINCT value "
                "FROM point_value JOIN axis USING (sweep_id, axis) WHERE axis.name = ?1",
                key, arena, diag);
  if (values) diag_hint_near(diag, value, values);
  return -1;
}

/* ---- Names ---- */

/* What a name may be of, the first that there is. */
static const char *const ways[] = {
    "name = ?2",
    "substr(name, -length(?2) - 1) = '/' || ?2",
    "name = ?2 || '.yaml' OR substr(name, -length(?2) - 6) = '/' || ?2 || '.yaml'",
    OF_POINT "point_value.value = ?2)",
    "config_digest IN (SELECT config_digest FROM answer WHERE design = ?2)",
};
enum { WAY_OF_DESIGN = sizeof ways / sizeof *ways - 1 };

static int64_t select_name(Side *self, const char *name, Arena *arena, Diag *diag) {
  for (int i = 0; i <= WAY_OF_DESIGN; i++) {
    const int64_t n = select_runs(self, ways[i], name, NULL, arena, diag);
    self->answers = i == WAY_OF_DESIGN;
    if (n != 0) return n;
  }
  diag_error(diag, place_of_file(self->results->path),
             "there is no run, configuration or design '%s'", name);
  const char *const *names = ask_names(self->results,
                                       "SELECT DISTINCT name FROM run UNION SELECT DISTINCT value "
                                       "FROM point_value UNION SELECT DISTINCT design FROM answer "
                                       "WHERE config_digest IS NOT NULL",
                                       NULL, arena, diag);
  if (names && names[0]) diag_hint_near(diag, name, names);
  return -1;
}

static int64_t select_number(Side *self, const char *number, Arena *arena, Diag *diag) {
  int64_t run = 0;
  if (results_find_run(self->results, number, &run, diag)) return -1;
  const int64_t n = select_runs(self, "id = CAST(?2 AS INTEGER)", number, NULL, arena, diag);
  return n != 0 ? n
                : diag_error(diag, place_of_file(self->results->path), "run %s did not complete",
                             number);
}

int side_find(Side *self, const char *name, const char *const *where, Arena *arena, Diag *diag) {
  const bool is_number = name && *name && name[strspn(name, "0123456789")] == '\0';
  const int64_t n = !name               ? select_runs(self, "1", NULL, NULL, arena, diag)
                    : is_number         ? select_number(self, name, arena, diag)
                    : strchr(name, '=') ? select_setting(self, name, arena, diag)
                                        : select_name(self, name, arena, diag);
  if (n == 0)
    diag_error(diag, place_of_file(self->results->path), "the database has no completed run");
  if (n <= 0) return -1;
  for (; where && *where; where++)
    if (select_setting(self, *where, arena, diag) < 0) return -1;
  return 0;
}

const char *compare_find_runs(Results *results, const char *const *names, const char *const *where,
                              Arena *arena, Diag *diag) {
  const char *all = NULL;
  for (size_t i = 0; i == 0 || (names && names[i]); i++) {
    Side side = {.results = results};
    if (side_find(&side, names ? names[i] : NULL, where, arena, diag)) return NULL;
    all = all ? arena_printf(arena, "%.*s,%s", (int)strlen(all) - 1, all, side.ids + 1) : side.ids;
  }
  return all;
}

/* ---- Their configurations ---- */

int side_load_params(Side *self, Arena *arena, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement = results_query(
      self->results,
      "SELECT key, min(value), count(DISTINCT value), count(*) FROM "
      "(SELECT key, value FROM param WHERE run_id" WITHIN " UNION ALL "
      "SELECT '" SIDE_PROGRAM "', version || ' ' || \"commit\" FROM run WHERE id" WITHIN
      ") GROUP BY key ORDER BY key",
      VALUES(value_text(self->ids)), diag);
  size_t capacity = 0;
  int status;
  self->params = NULL;
  self->n_params = 0;
  while ((status = results_next(self->results, statement, diag)) > 0) {
    ARENA_RESERVE(arena, self->params, capacity, self->n_params + 1);
    const int64_t n_values = sqlite3_column_int64(statement, 2);
    const bool everywhere = sqlite3_column_int64(statement, 3) == (int64_t)self->n_runs;
    self->params[self->n_params++] =
        (Param){results_text(statement, 0, arena), results_text(statement, 1, arena), n_values,
                n_values > 1 || !everywhere};
  }
  return status;
}

static int compare_keys(const void *a, const void *b) {
  const Param *one = a, *other = b;
  return strcmp(one->key, other->key);
}

const Param *side_param(const Side *self, const char *key) {
  const Param wanted = {.key = key};
  return find_item(&wanted, self->params, self->n_params, sizeof wanted, compare_keys);
}

const Param *side_varying(const Side *self) {
  for (size_t i = 0; !self->measured && !self->answers && i < self->n_params; i++)
    if (self->params[i].varies && strcmp(self->params[i].key, "seed") != 0 &&
        strcmp(self->params[i].key, SIDE_PROGRAM) != 0)
      return &self->params[i];
  return NULL;
}

/* ---- Pairs ---- */

static bool varies(const Side *self, const char *key) {
  const Param *param = self->answers ? NULL : side_param(self, key);
  return param && param->varies;
}

/* Folds the values of the keys that vary on either side, but for the seed, into each place. */
static int find_places(Side *self, const Side *other, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      results_query(self->results,
                    "SELECT run_id, key, value FROM param WHERE run_id" WITHIN
                    " AND key <> 'seed' ORDER BY run_id, key",
                    VALUES(value_text(self->ids)), diag);
  int status;
  SideRun *run = self->runs; // by their number, too
  // What was measured says of its configuration what its file does: nothing to tell runs apart by.
  for (size_t i = 0; self->measured && i < self->n_runs; i++)
    run[i].place = (uint64_t)run[i].id;
  if (self->measured) return 0;
  while ((status = results_next(self->results, statement, diag)) > 0) {
    const char *key = (const char *)sqlite3_column_text(statement, 1);
    const char *value = (const char *)sqlite3_column_text(statement, 2);
    if (!key || !value || (!varies(self, key) && !varies(other, key))) continue;
    while (run->id != sqlite3_column_int64(statement, 0))
      run++;
    run->place = hash_fold(run->place, hash_bytes(key, strlen(key)));
    run->place = hash_fold(run->place, hash_bytes(value, strlen(value)));
  }
  return status;
}

static int compare_likeness(const SideRun *a, const SideRun *b) {
  if (a->place != b->place) return a->place < b->place ? -1 : 1;
  return (a->seed > b->seed) - (a->seed < b->seed);
}

static int compare_runs(const void *a, const void *b) {
  const SideRun *one = a, *other = b;
  const int likeness = compare_likeness(one, other);
  return likeness ? likeness : (one->id > other->id) - (one->id < other->id);
}

/* Sorts runs, and leaves the newest of those that are alike. */
static size_t sort_runs(SideRun *runs, size_t n) {
  size_t kept = 0;
  sort_items(runs, n, sizeof *runs, compare_runs);
  for (size_t i = 0; i < n; i++) {
    if (kept > 0 && compare_likeness(&runs[kept - 1], &runs[i]) == 0) kept--;
    runs[kept++] = runs[i];
  }
  return kept;
}

static void leave(Side *self, SideRun *runs, size_t n, Arena *arena) {
  self->runs = runs;
  self->n_runs = n;
  self->ids = list_ids(runs, n, arena);
}

int64_t side_pair(Side *a, Side *b, Arena *arena, Diag *diag) {
  size_t n = 0, i = 0, k = 0;
  if (find_places(a, b, diag) || find_places(b, a, diag)) return -1;
  a->n_runs = sort_runs(a->runs, a->n_runs);
  b->n_runs = sort_runs(b->runs, b->n_runs);
  const size_t most = a->n_runs < b->n_runs ? a->n_runs : b->n_runs;
  SideRun *of_a = ARENA_ARRAY(arena, SideRun, most), *of_b = ARENA_ARRAY(arena, SideRun, most);
  while (i < a->n_runs && k < b->n_runs) {
    const int likeness = compare_likeness(&a->runs[i], &b->runs[k]);
    if (likeness == 0) {
      of_a[n] = a->runs[i];
      of_b[n++] = b->runs[k];
    }
    i += likeness <= 0;
    k += likeness >= 0;
  }
  if (n == 1 && most > 1 && !side_varying(a) && !side_varying(b)) n = 0;
  leave(a, n > 0 ? of_a : a->runs, n > 0 ? n : a->n_runs, arena);
  leave(b, n > 0 ? of_b : b->runs, n > 0 ? n : b->n_runs, arena);
  return (int64_t)n;
}

size_t side_find_repeated(Side *self, const Side *partner, Arena *arena) {
  KeyMap seen = {0};
  for (size_t i = 0; i < self->n_runs; i++) {
    SideRun *run = &self->runs[i];
    const uint64_t other = partner ? partner->runs[i].outcomes : 0;
    uint32_t *times = key_map_put(&seen, hash_fold(run->outcomes, other) | 1, arena);
    run->repeated = (*times)++ > 0;
  }
  return seen.n_keys;
}
