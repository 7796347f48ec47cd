/* Private to experiments/findings: the runs of a sweep, or of neither sweep nor study, as cases.
 * Runs that differ in their seeds alone are one case, whose figures are means over them. */
#ifndef EXPERIMENTS_FINDINGS_CASES_H
#define EXPERIMENTS_FINDINGS_CASES_H
#include "experiments/base/student.h"
#include "experiments/findings/subject.h"

typedef struct CaseFigure {
  const char *name, *statistic, *head, *unit;
  const char *before, *after; // its value, in the sentence that answers; NULL: it is not there
  bool more_is_better;
} CaseFigure;

enum { CASE_FIGURES = 9, AXES_MOST = 6 };
extern const CaseFigure case_figures[CASE_FIGURES];

/* What varies between cases: an axis of the sweep, or a key; not a seed. */
typedef struct Axis {
  const char *name;
  const char **values; // [n_values], in the order of the points
  size_t n_values, capacity;
  bool is_number; // each of them begins with a digit
} Axis;

typedef struct Case {
  const char **values;        // [n_axes]
  const char *runs;           // ids, with commas between them
  size_t n_runs, n_different; // of those, that have outcomes of their own
  int64_t run;                // the first that ended by itself, or the first
  Moments figures[CASE_FIGURES];
  int n_done, n_slos, n_met; // runs that ended by themselves; limits in all of its runs
  double margin;             // the least, on any seed; -INFINITY: never served
  const char *binds;         // whose that is; NULL: none
  bool unmeasured;           // of that nothing was measured, on some seed
  double worth;              // what it is ranked by, the more the better
  size_t place;              // in the order of points
} Case;

typedef struct Cases {
  const Subject *of;
  Axis *axes; // [n_axes]
  size_t n_axes;
  Case *cases; // [n_cases], the best first
  size_t n_cases;
  size_t n_met;     // keep all their limits on every seed; they come first
  size_t n_limited; // have any
  size_t n_failed;
  size_t n_seeds;         // of the case that has most
  bool has[CASE_FIGURES]; // any case has it
  int ranked_by;          // a figure
} Cases;

/* At least one case; -1 with entries. */
int cases_load(Cases *self, const Subject *of);
/* The best in a figure, of those that keep all limits or of all; NULL: none has it. */
const Case *cases_best(const Cases *self, int figure, bool only_met);
/* Whether all its runs ended by themselves and kept all limits. */
bool case_keeps_all(const Case *self);
/* A key without the words that all such have: prefill.count, rate. */
const char *short_name(const char *key);
/* "prefill.count 2, rate 60 /s": where a case is on its axes but for `but`; -1: on all. */
const char *place_words(const Cases *self, const Case *one, int but);
/* "kept", "some missed", "failed" */
const char *case_verdict(const Case *self);
/* The least margin; "-" without limits. */
const char *case_margin(const Case *self, Arena *arena);
/* A margin, ">100x" where it says no more. */
const char *margin_words(double margin, Arena *arena);

/* Of a sweep over a rate: the largest at which each configuration keeps all limits; nothing of
 * others. In loads.c. */
void put_loads(const Cases *self);
#endif
