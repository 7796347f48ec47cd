/* See findings.h. */
#include "experiments/findings/findings.h"
#include "base/text.h"
#include "experiments/findings/subject.h"
#include "experiments/plot/plot.h"
#include <inttypes.h>
#include <string.h>

/* Of each kind, the newest. */
enum { SUBJECTS_MOST = 8 };

void subject_section(const Subject *self, const char *part, const char *heading) {
  page_section(&self->of->page, arena_printf(self->of->arena, "%s-%s", self->word, part), heading);
}

/* ---- One run ---- */

int put_run(const Subject *self, int64_t run) {
  Subject one = *self;
  one.runs = arena_printf(self->of->arena, "[%" PRId64 "]", run);
  one.n_runs = 1;
#define OF_RUN "IN (SELECT value FROM json_each(:runs))"
  return put_query(
             &one,
             "SELECT name AS \"limit\", iif(unit = 's', value, NULL) AS \"value [s]\", "
             "iif(unit = 's', NULL, value) AS value, "
             "iif(unit = 's', \"limit\", NULL) AS \"at most [s]\", "
             "iif(unit = 's', NULL, \"limit\") AS \"threshold\", "
             "margin AS \"margin [%]\", CASE WHEN unmeasured IS NOT NULL THEN "
             "'not measured: ' || unmeasured WHEN met THEN 'met' ELSE 'missed' END AS verdict, "
             "iif(met, 'good', 'bad') AS class FROM slo WHERE run_id " OF_RUN
             " ORDER BY margin IS NOT NULL, margin",
             "Limits", 40) ||
                 put_query(
                     &one,
                     "SELECT iif(length(name) < 7, upper(substr(name, 1, length(name) - 2)), "
                     "replace(substr(name, 1, length(name) - 2), '_', ' ')) AS latency, "
                     "max(value) FILTER (WHERE statistic = 'mean') AS \"mean [s]\", "
                     "max(value) FILTER (WHERE statistic = 'p50') AS \"p50 [s]\", "
                     "max(value) FILTER (WHERE statistic = 'p90') AS \"p90 [s]\", "
                     "max(value) FILTER (WHERE statistic = 'p99') AS \"p99 [s]\", "
                     "max(value) FILTER (WHERE statistic = 'p99_half_width') AS \"p99 ± [s]\", "
                     "max(value) FILTER (WHERE statistic = 'max') AS \"max [s]\" "
                     "FROM metric WHERE run_id " OF_RUN " AND scope = 'run' AND unit = 's' "
                     "GROUP BY name HAVING max(value) IS NOT NULL "
                     "AND count(*) FILTER (WHERE statistic = 'p50') > 0 "
                     "ORDER BY instr('ttft_s tpot_s tbt_s e2e_s', name) = 0, "
                     "instr('ttft_s tpot_s tbt_s e2e_s', name), name",
                     "Latencies", 40) ||
                 put_query(
                     &one,
                     "SELECT name AS pool, role, machine, count, utilization AS \"busy [%]\", "
                     "kv_blocks AS \"KV blocks per instance\", energy_kwh AS \"energy [kWh]\" "
                     "FROM pool WHERE run_id " OF_RUN " ORDER BY pool.pool",
                     "Pools", 40) ||
                 put_query(
                     &one,
                     "SELECT name AS figure, value, unit FROM metric WHERE run_id " OF_RUN
                     " AND scope = 'run' AND statistic = 'value' AND value <> 0 ORDER BY name",
                     "Other figures", 0)
             ? -1
             : 0;
}

/* ---- Subjects ---- */

static const char *const subject_queries[] = {
    [SUBJECT_STUDY] =
        "SELECT id, name, config, version, is_stale(epoch), seeds, objective, "
        "(SELECT json_group_array(id) FROM (SELECT id FROM run WHERE run.name = study.name "
        "  AND epochs_agree(run.epoch, study.epoch) AND status <> 'failed' ORDER BY id)) "
        "FROM study ORDER BY id DESC",
    [SUBJECT_SWEEP] = "SELECT id, name, config, version, is_stale(epoch), 1, '', "
                      "(SELECT json_group_array(run_id) FROM (SELECT DISTINCT run_id FROM point "
                      "  WHERE sweep_id = sweep.id ORDER BY run_id)) "
                      "FROM sweep ORDER BY id DESC",
    [SUBJECT_RUNS] =
        "SELECT 0, iif(min(name) = max(name), min(name), NULL), "
        "iif(count(*) = 1, min(config), NULL), max(version), max(is_stale(epoch)), 1, '', "
        "json_group_array(id) FROM (SELECT * FROM run "
        "  WHERE id NOT IN (SELECT run_id FROM point) "
        "    AND name NOT IN (SELECT name FROM study) ORDER BY id DESC LIMIT 500) "
        "HAVING count(*) > 0",
};

static const char *const words[] = {
    [SUBJECT_STUDY] = "study", [SUBJECT_SWEEP] = "sweep", [SUBJECT_RUNS] = "runs"};

/* Adds those of a kind; the number of all that there are in *ret_all. */
static int load_subjects(Telling *self, SubjectKind kind, Subject *subjects, size_t *n,
                         size_t *ret_all) {
  Arena *arena = self->arena;
  CLEANUP_STATEMENT sqlite3_stmt *row =
      results_prepare(&self->results, subject_queries[kind], self->diag);
  if (!row) return -1;
  size_t n_kind = 0;
  while (sqlite3_step(row) == SQLITE_ROW) {
    ++*ret_all;
    if (n_kind++ >= SUBJECTS_MOST) continue;
    const int64_t id = sqlite3_column_int64(row, 0);
    Subject *subject = &subjects[(*n)++];
    *subject = (Subject){.of = self,
                         .kind = kind,
                         .id = id,
                         .word = arena_printf(arena, "%s-%" PRId64, words[kind], id),
                         .version = results_text(row, 3, arena),
                         .stale = sqlite3_column_int(row, 4),
                         .n_seeds = sqlite3_column_int64(row, 5),
                         .objective = results_text(row, 6, arena),
                         .runs = results_text(row, 7, arena)};
    if (sqlite3_column_type(row, 1) != SQLITE_NULL) subject->name = results_text(row, 1, arena);
    if (sqlite3_column_type(row, 2) != SQLITE_NULL) subject->config = results_text(row, 2, arena);
    const double n_runs = subject_number(subject, "SELECT json_array_length(:runs)");
    subject->n_runs = n_runs > 0 ? (int64_t)n_runs : 0;
    if (subject_load_keys(subject)) return -1;
  }
  return 0;
}

/* The only value of a key; NULL: there are several, or none. */
static const char *only_value(const Subject *self, const char *name) {
  for (size_t i = 0; i < self->n_keys; i++)
    if (strcmp(self->keys[i].key, name) == 0)
      return self->keys[i].n_values == 1 ? self->keys[i].value : NULL;
  return NULL;
}

/* What its runs were made for, as a question. */
static const char *title_of(const Subject *self) {
  Arena *arena = self->of->arena;
  const char *model = only_value(self, "model"), *rate = only_value(self, "workload.arrivals.rate");
  if (!model) model = only_value(self, "model.name");
  if (self->kind == SUBJECT_STUDY && rate && model)
    return study_question(
        self, arena_printf(arena, "%.*s requests/s of %s", (int)strcspn(rate, " /"), rate, model));
  if (self->kind == SUBJECT_STUDY)
    return study_question(self, model ? arena_printf(arena, "the load of %s", model) : "the load");
  if (self->n_runs == 1)
    return arena_printf(arena, "Which latency do users%s%s see, and what does it cost?",
                        model ? " of " : "", model ? model : "");
  return arena_printf(arena, "Which configuration%s%s is best?", model ? " of " : "",
                      model ? model : "");
}

/* "wide.yaml: a sweep, 500 runs" */
static const char *source_of(const Subject *self) {
  const char *slash = self->name ? strrchr(self->name, '/') : NULL;
  const char *name = slash ? slash + 1 : self->name;
  if (name && strcmp(name, "(the study)") == 0) name = "tandem plan";
  return arena_printf(self->of->arena, "%s: %s%" PRId64 " run%s", name ? name : "Runs",
                      self->kind == SUBJECT_STUDY   ? "a study, "
                      : self->kind == SUBJECT_SWEEP ? "a sweep, "
                                                    : "",
                      self->n_runs, self->n_runs == 1 ? "" : "s");
}

static void put_links(const Subject *self) {
  static const char *const parts[][2] = {{"question", "Question"},   {"answer", "Answer"},
                                         {"certainty", "Certainty"}, {"tables", "Tables"},
                                         {"assumed", "Assumptions"}, {"repeat", "Reproduction"}};
  FILE *out = self->of->page.out;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    fprintf(out, "<a href=\"#%s-%s\">%s</a>\n", self->word, parts[i][0], parts[i][1]);
    if (self->alone && self->kind == SUBJECT_STUDY && i == 1)
      fputs("<a href=\"#figures\">Figures</a>\n", out);
  }
}

static void put_nav(Telling *self, const Subject *subjects, size_t n) {
  Page *page = &self->page;
  page_raw(page, "<nav>\n");
  for (size_t i = 0; i < n; i++) {
    if (n > 1) {
      fprintf(page->out, "<div><a href=\"#%s\"><b>", subjects[i].word);
      page_say(page, "%s", source_of(&subjects[i]));
      page_raw(page, "</b></a>\n");
    }
    put_links(&subjects[i]);
    if (n > 1) page_raw(page, "</div>\n");
  }
  const bool is_study = n == 1 && subjects[0].kind == SUBJECT_STUDY;
  page_raw(page, is_study ? "<a href=\"#appendix\">Appendix</a>\n</nav>\n"
                          : "<a href=\"#figures\">Figures</a>\n</nav>\n");
}

static void put_head(Telling *self, const Subject *subjects, size_t n) {
  Page *page = &self->page;
  Subject all = {.of = self, .runs = "[]"};
  const double runs = subject_number(&all, "SELECT count(*) FROM run");
  CLEANUP_STATEMENT sqlite3_stmt *row =
      subject_ask(&all, "SELECT version, \"commit\", created_at FROM run ORDER BY id DESC LIMIT 1");
  page_element(page, "h1", NULL, "%s", n == 1 ? title_of(&subjects[0]) : "Simulations");
  if (n == 1) page_element(page, "p", "soft", "%s", source_of(&subjects[0]));
  if (row && sqlite3_step(row) == SQLITE_ROW)
    page_element(page, "p", "soft", "%s, %.0f run%s, the newest of %s by Tandem %s (%s)",
                 text_shown(self->results.path, self->arena), runs, runs == 1 ? "" : "s",
                 results_text(row, 2, self->arena), results_text(row, 0, self->arena),
                 results_text(row, 1, self->arena));
  put_nav(self, subjects, n);
}

static int tell(const Subject *self) {
  Page *page = &self->of->page;
  fprintf(page->out, "<article id=\"%s\">\n", self->word);
  if (!self->alone) page_element(page, "h1", "chapter", "%s", title_of(self));
  if (!self->alone) page_element(page, "p", "soft", "%s", source_of(self));
  if (self->kind == SUBJECT_STUDY ? tell_study(self) : tell_points(self)) return -1;
  if (self->alone && self->kind != SUBJECT_STUDY) put_figures(self->of, FIGURES_ALL);
  if (put_assumed(self) || put_repeat(self)) return -1;
  page_raw(page, "</article>\n");
  return 0;
}

static int tell_all(Telling *self) {
  Subject *subjects = ARENA_ARRAY(self->arena, Subject, (SUBJECT_RUNS + 1) * SUBJECTS_MOST);
  size_t n = 0, n_all = 0;
  for (int kind = 0; kind <= SUBJECT_RUNS; kind++)
    if (load_subjects(self, (SubjectKind)kind, subjects, &n, &n_all)) return -1;
  if (n == 0)
    return diag_error(self->diag, place_of_file(self->results.path), "'%s' holds no runs",
                      text_shown(self->results.path, self->arena));
  page_begin(&self->page, n == 1 ? title_of(&subjects[0]) : "Simulations", plot_css);
  subjects[0].alone = n == 1;
  put_head(self, subjects, n);
  if (n_all > n)
    page_element(&self->page, "p", "warn", "%zu older studies and sweeps are not shown.",
                 n_all - n);
  for (size_t i = 0; i < n; i++)
    if (tell(&subjects[i])) return -1;
  if (n > 1) put_figures(self, FIGURES_ALL);
  page_end(&self->page);
  return 0;
}

int findings_write(const char *path, FILE *out, Arena *arena, Diag *diag) {
  Telling self = {.page = {out, arena}, .arena = arena, .diag = diag};
  if (results_open_reader(&self.results, path, arena, diag)) return -1;
  const int status = tell_all(&self);
  results_close(&self.results);
  return status;
}
