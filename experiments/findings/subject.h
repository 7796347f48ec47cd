/* Private to experiments/findings: a study, a sweep or the runs of neither, and what its parts are
 * told with.
 *
 * A part asks the database with statements in which :runs is the list of the subject's runs, in
 * JSON, and :id the number of the study or sweep. */
#ifndef EXPERIMENTS_FINDINGS_SUBJECT_H
#define EXPERIMENTS_FINDINGS_SUBJECT_H
#include "experiments/page/page.h"
#include "experiments/results/results.h"

/* A key of the configurations of its runs. */
typedef struct Key {
  const char *key, *value; // the only value unless it varies
  int64_t n_values;
  bool everywhere; // all runs have it
} Key;

typedef struct Telling {
  Page page;
  Results results;
  Arena *arena;
  Diag *diag;
} Telling;

typedef enum SubjectKind { SUBJECT_STUDY, SUBJECT_SWEEP, SUBJECT_RUNS } SubjectKind;

typedef struct Subject {
  Telling *of;
  SubjectKind kind;
  int64_t id;                      // of the study or sweep
  const char *word;                // that its sections' ids begin with: sweep-1
  const char *name, *config;       // of the file, and its text; NULL: several
  const char *version, *objective; // objective: of a study
  int64_t n_seeds;                 // of a study
  bool stale;                      // or some of its runs
  bool alone;                      // on its page, so that all figures are its own
  const char *runs;                // ids, a list in JSON
  int64_t n_runs;
  Key *keys; // [n_keys], by name
  size_t n_keys;
} Subject;

/* ---- statements: rows.c ---- */

/* NULL with an entry. */
sqlite3_stmt *subject_ask(const Subject *self, const char *sql);
/* One value; NAN: none. An entry when the statement is refused. */
double subject_number(const Subject *self, const char *sql);
/* A number with a unit, with as many digits as one reads: "81.2 ms", "$114", "12.4%" (unit "%", of
 * a share), "1,234". "-" for NAN. */
const char *shown(double value, const char *unit, Arena *arena);
/* What a query gives as a table. A column's name is its heading, and may end with the unit of its
 * numbers in brackets, "TTFT p99 [s]", as for `shown`; one named "class" is the row's class and no
 * column, and ids and columns without any value are left out. Rows after the first `open` are
 * folded away, those after ROWS_MOST are only counted. Nothing at all without rows. */
enum { ROWS_MOST = 2000 };
int put_query(const Subject *self, const char *sql, const char *caption, size_t open);

/* ---- what was set: setup.c ---- */

int subject_load_keys(Subject *self);
/* "llama3.1-70b (fp8) on vllm-0.24, …": what does not vary, in words. */
const char *subject_setup(const Subject *self);
/* "TTFT p99 below 1.00 s"; NULL: there are no limits. */
const char *subject_limits(const Subject *self);
int put_assumed(const Subject *self);
int put_repeat(const Subject *self);

/* ---- how sure: certainty.c ---- */

/* Of the runs whose ids are `runs`, those of an answer, with the least `margin` that they leave,
 * NAN: not known. */
typedef struct Certainty {
  const char *runs;
  double margin;
  const char *binds;        // the limit with that margin; NULL: none
  const char *const *lines; // what the kind of subject knows beside, NULL-terminated: pairs of a
                            // heading and a text
} Certainty;
int put_certainty(const Subject *self, const Certainty *certainty);
/* The measured rows that are nearest to the first run of an answer, near.c; nothing where its times
 * do not say what they are of. */
void put_near(const Subject *answer);

/* ---- the kinds: study.c, points.c; figures.c ---- */

/* The sections up to the figures; headings are begun by subject_section. */
int tell_study(const Subject *self);
int tell_points(const Subject *self);
/* What the study asks for, with `load` in place of "the load": a sentence. */
const char *study_question(const Subject *self, const char *load);
/* The figures that have something to draw. Of a study first those that answer it, and later in an
 * appendix the others. */
typedef enum FigureSet { FIGURES_ALL, FIGURES_OF_ANSWER, FIGURES_APPENDIX } FigureSet;
void put_figures(Telling *self, FigureSet set);
void subject_section(const Subject *self, const char *part, const char *heading);
/* Details of one run: limits, latencies, pools. */
int put_run(const Subject *self, int64_t run);
#endif
