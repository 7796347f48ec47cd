/* See subject.h: what was set, in words and whole, and how to do it again. */
#include "base/text.h"
#include "experiments/base/version.h"
#include "experiments/config/config.h"
#include "experiments/findings/subject.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

int subject_load_keys(Subject *self) {
  CLEANUP_STATEMENT sqlite3_stmt *rows = subject_ask(
      self, "SELECT key, min(value), count(DISTINCT value), count(*) = json_array_length(:runs) "
            "FROM param WHERE run_id IN (SELECT value FROM json_each(:runs)) "
            "GROUP BY key ORDER BY key");
  Arena *arena = self->of->arena;
  size_t capacity = 0;
  int status;
  while ((status = results_next(&self->of->results, rows, self->of->diag)) > 0) {
    ARENA_RESERVE(arena, self->keys, capacity, self->n_keys + 1);
    self->keys[self->n_keys++] = (Key){.key = results_text(rows, 0, arena),
                                       .value = results_text(rows, 1, arena),
                                       .n_values = sqlite3_column_int64(rows, 2),
                                       .everywhere = sqlite3_column_int(rows, 3)};
  }
  return status;
}

static bool is_common(const Key *key) {
  return key->n_values == 1 && key->everywhere;
}

/* The value that a key has in all runs; NULL: none, or several. */
static const char *subject_key(const Subject *self, const char *key) {
  for (size_t i = 0; i < self->n_keys; i++)
    if (is_common(&self->keys[i]) && strcmp(self->keys[i].key, key) == 0)
      return self->keys[i].value;
  return NULL;
}

/* ---- In words ---- */

/* The first of two keys that is there. */
static const char *either(const Subject *self, const char *key, const char *other) {
  const char *value = subject_key(self, key);
  return value ? value : subject_key(self, other);
}

/* "poisson, rate 24 /s": all that is said below a key. */
static const char *words_below(const Subject *self, const char *prefix) {
  Arena *arena = self->of->arena;
  const char *words = "";
  const size_t length = strlen(prefix);
  for (size_t i = 0; i < self->n_keys; i++) {
    const Key *key = &self->keys[i];
    if (!is_common(key) || strncmp(key->key, prefix, length) != 0) continue;
    const char *rest = key->key + length;
    if (*rest != '.' && *rest != '\0') continue;
    rest += *rest == '.';
    words = arena_printf(arena, "%s%s%s%s%s", words, *words ? ", " : "", rest, *rest ? " " : "",
                         key->value);
  }
  return words;
}

/* "llama3.1-70b (fp8)" */
static const char *model_words(const Subject *self) {
  const char *model = either(self, "model", "model.name");
  const char *quantization = subject_key(self, "model.quantization");
  if (!model) return "several models";
  return quantization ? arena_printf(self->of->arena, "%s (%s)", model, quantization) : model;
}

static const char *workload_words(const Subject *self) {
  Arena *arena = self->of->arena;
  const char *trace = either(self, "workload.trace", "workload.trace.file");
  const char *lengths = words_below(self, "workload.lengths");
  const char *arrivals = words_below(self, "workload.arrivals");
  const char *duration = subject_key(self, "workload.duration");
  const char *requests = subject_key(self, "workload.requests");
  const char *words = trace ? arena_printf(arena, "requests of the trace %s", trace) : "";
  if (*lengths) words = arena_printf(arena, "%s%slengths %s", words, *words ? ", " : "", lengths);
  if (*arrivals)
    words = arena_printf(arena, "%s%sarrivals %s", words, *words ? ", " : "", arrivals);
  if (requests) words = arena_printf(arena, "%s, %s requests", words, requests);
  if (duration) words = arena_printf(arena, "%s, for %s", words, duration);
  return words;
}

const char *subject_setup(const Subject *self) {
  const char *engine = either(self, "engine", "engine.name"), *workload = workload_words(self);
  return arena_printf(self->of->arena, "%s%s%s%s%s", model_words(self), engine ? " on " : "",
                      engine ? engine : "", *workload ? "; " : "", workload);
}

/* "ttft.p99 below 1.00 s", "goodput at least 95%" */
static const char *limit_words(sqlite3_stmt *row, Arena *arena) {
  const char *name = results_text(row, 0, arena), *unit = results_text(row, 2, arena);
  const bool share = strncmp(name, "goodput", strlen("goodput")) == 0;
  return arena_printf(arena, "%s %s %s", name, share ? "at least" : "below",
                      shown(results_real(row, 1), share ? "%" : unit, arena));
}

const char *subject_limits(const Subject *self) {
  Arena *arena = self->of->arena;
  const char *words = NULL;
  CLEANUP_STATEMENT sqlite3_stmt *rows =
      subject_ask(self, "SELECT DISTINCT name, \"limit\", unit FROM slo "
                        "WHERE run_id IN (SELECT value FROM json_each(:runs)) "
                        "ORDER BY name, \"limit\" LIMIT 24");
  while (rows && sqlite3_step(rows) == SQLITE_ROW)
    words = arena_printf(arena, "%s%s%s", words ? words : "", words ? ", " : "",
                         limit_words(rows, arena));
  return words;
}

/* ---- Whole ---- */

static int put_pools(const Subject *self) {
  return put_query(
      self,
      "SELECT DISTINCT pool.name AS pool, role, machine, tensor_parallel_size AS \"TP\", "
      "perfmodel AS \"iteration times\", "
      "iif(figure.value IS NULL, NULL, iif(figure.value, 'measured', 'roofline')) AS \"kind\", "
      "error.value AS \"held-out error [%]\", "
      "block_size * kv_blocks AS \"KV tokens per instance\" "
      "FROM pool LEFT JOIN metric AS figure ON figure.run_id = pool.run_id "
      "  AND figure.scope = 'pool.' || pool.name AND figure.name = 'perfmodel_measured' "
      "LEFT JOIN metric AS error ON error.run_id = pool.run_id "
      "  AND error.scope = 'pool.' || pool.name AND error.name = 'perfmodel_error' "
      "WHERE pool.run_id IN (SELECT value FROM json_each(:runs)) ORDER BY pool.pool, machine",
      "Pools", 12);
}

/* What a machine type costs now, of those in `perfmodel/machines`: a name, never a path. */
static void put_price(const Subject *self, const char *machine) {
  Telling *of = self->of;
  Hardware type;
  Diag unsaid;
  diag_init(&unsaid);
  const char *root = arena_printf(of->arena, "%s/perfmodel", config_data_root());
  if (!strchr(machine, '/') &&
      hardware_load(&type, machine, root, place_of_file(NULL), of->arena, &unsaid) == 0 &&
      type.gpu_cost_per_hour > 0)
    page_element(&of->page, "li", NULL, "Price of %s: $%.2f per GPU-hour%s%s%s%s", machine,
                 type.gpu_cost_per_hour, type.price_source ? ", " : "",
                 type.price_source ? type.price_source : "", type.price_date ? ", " : "",
                 type.price_date ? type.price_date : "");
  diag_done(&unsaid);
}

/* Unless the configuration has prices of its own. */
static void put_prices(const Subject *self) {
  if (*words_below(self, "prices") || *words_below(self, "provision.prices")) return;
  CLEANUP_STATEMENT sqlite3_stmt *rows =
      subject_ask(self, "SELECT DISTINCT machine FROM pool "
                        "WHERE run_id IN (SELECT value FROM json_each(:runs)) ORDER BY 1 LIMIT 12");
  while (rows && sqlite3_step(rows) == SQLITE_ROW)
    put_price(self, results_text(rows, 0, self->of->arena));
}

static void put_keys(const Subject *self) {
  static const PageColumn columns[] = {{.head = "key", .is_text = true},
                                       {.head = "value", .is_text = true}};
  Page *page = &self->of->page;
  page_details(page, "All %zu keys that were set", self->n_keys);
  page_table(page, columns, 2, NULL);
  for (size_t i = 0; i < self->n_keys && i < ROWS_MOST; i++) {
    const Key *key = &self->keys[i];
    page_row(page, NULL);
    page_cell(page, true, "%s", key->key);
    if (key->n_values == 1)
      page_cell(page, true, "%s%s", key->value, key->everywhere ? "" : " (not in all runs)");
    else
      page_cell(page, true, "%" PRId64 " values", key->n_values);
    page_row_end(page);
  }
  page_table_end(page);
  page_details_end(page);
}

int put_assumed(const Subject *self) {
  static const struct {
    const char *head, *key;
  } parts[] = {{"Arrivals", "workload.arrivals"},
               {"Lengths", "workload.lengths"},
               {"Trace", "workload.trace"},
               {"Policies", "policies"},
               {"Network", "network"},
               {"Prices", "prices"},
               {"Iteration times", "perfmodel"},
               {"Warm-up", "warm"}};
  Page *page = &self->of->page;
  subject_section(self, "assumed", "Assumptions");
  page_element(page, "p", NULL, "%s.", subject_setup(self));
  page_raw(page, "<ul>\n");
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    const char *words = words_below(self, parts[i].key);
    if (*words) page_element(page, "li", NULL, "%s: %s", parts[i].head, words);
  }
  put_prices(self);
  page_element(page, "li", NULL, "All other keys have their defaults: tandem list options.");
  page_raw(page, "</ul>\n");
  if (put_pools(self)) return -1;
  put_keys(self);
  page_section_end(page);
  return 0;
}

/* ---- How to do it again ---- */

static const char *const verbs[] = {
    [SUBJECT_STUDY] = "provision", [SUBJECT_SWEEP] = "sweep", [SUBJECT_RUNS] = "run"};

static int put_digests(const Subject *self) {
  return put_query(self,
                   "SELECT id AS run, name AS configuration, seed, digest AS \"outcome digest\", "
                   "config_digest AS \"configuration digest\", version, \"commit\" "
                   "FROM run WHERE id IN (SELECT value FROM json_each(:runs)) ORDER BY id",
                   "Seeds and digests", self->n_runs > 8 ? 0 : 8);
}

int put_repeat(const Subject *self) {
  Page *page = &self->of->page;
  const char *name = self->name ? self->name : "CONFIG.yaml", *base = strrchr(name, '/');
  const char *path = text_shown(self->of->results.path, self->of->arena);
  if (strcmp(name, "(the study)") == 0) name = "study.yaml"; // of a plan that kept no file
  subject_section(self, "repeat", "Reproduction");
  page_element(
      page, "p", NULL,
      "Save the configuration below as %s, beside the files that it names; Tandem %s gives "
      "the same figures to the last digit, on any machine.",
      base ? base + 1 : name, self->version ? self->version : tandem_version);
  page_element(page, "pre", NULL, "tandem %s %s --output again.db", verbs[self->kind],
               base ? base + 1 : name);
  page_element(page, "p", NULL, "Other queries of this database:");
  page_element(page, "pre", NULL,
               "tandem query %s summary\ntandem why %s\ntandem report %s -o report.html", path,
               path, path);
  if (self->config) {
    page_details(page, "The configuration");
    page_element(page, "pre", NULL, "%s", self->config);
    page_details_end(page);
  }
  if (put_digests(self)) return -1;
  page_section_end(page);
  return 0;
}
