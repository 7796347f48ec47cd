/* Private to experiments/plot: which runs of a database a figure is of, where each of them stands
 * (its series, its place along the axes), and which of their values it shows. */
#ifndef EXPERIMENTS_PLOT_SHOWN_H
#define EXPERIMENTS_PLOT_SHOWN_H
#include "experiments/plot/plot.h"
#include "experiments/results/results.h"

typedef struct ShownAxis {
  const char *key;          // NULL: the figure has no such axis
  const char *label;        // with its unit
  const char *const *words; // [n_words]: values, at 0, 1, …; NULL: they are numbers
  int n_words;
  bool numeric;
} ShownAxis;

/* What a figure can have. */
typedef struct ShownForm {
  int n_axes;         // 0, x, or x and y
  bool numeric;       // x must be numbers
  bool words;         // numbers stand beside each other as words do
  int max_series;     // above that, what varies most is held at one value, or, with `fold`,
  bool fold;          // left out of the names of series
  const char *prefer; // an axis to take for x when there is one
} ShownForm;

typedef struct ShownRun {
  int64_t id;
  const char *name; // by the keys that are left out of the names of series; "": there are none
} ShownRun;

typedef struct Shown {
  const char *ids; // of the runs, a list in JSON
  size_t n_runs;
  const char *places;  // JSON: [run, series, x, y] for each run
  ShownRun *runs;      // [n_runs]
  const char **series; // [n_series] names
  int n_series;
  ShownAxis x, y;
  const char *held; // "count = 4" of keys that are held, or ""
} Shown;

/* Fills all; -1 with entries, which say what the figure needs. */
int shown_find(Shown *self, Results *results, const PlotChoice *choice, const ShownForm *form,
               Arena *arena, Diag *diag);
/* All runs of the newest one's epoch, however they ended, without places: for shown_corner. */
int shown_find_all(Shown *self, Results *results, Arena *arena, Diag *diag);
/* What was run, in a few words: model, machines, workload, seeds, epoch; NULL with an entry. */
const char *shown_corner(const Shown *self, Results *results, Arena *arena, Diag *diag);

typedef struct ShownMetrics {
  const char *json;    // [panel, scope, name, statistic, objective] of each
  const char **labels; // [n]
  bool *is_share;      // [n] from 0 to 1
  int n;
} ShownMetrics;

/* The metrics that are asked for, or where none is those of the comma-separated `defaults` that
 * there are, "limits" being all that have an objective. -1 with entries. */
int shown_find_metrics(ShownMetrics *self, Results *results, const char *ids,
                       const char *const *asked, const char *defaults, Arena *arena, Diag *diag);

/* run.c: figures of one run over time, by name, NULL-terminated. */
extern const char *const plot_run_names[];
bool plot_is_of_run(const char *name);
int plot_run(const char *name, const char *database, const PlotChoice *choice,
             const PlotPlace *place, Arena *arena, Diag *diag);
bool plot_run_fits(const char *database, const PlotChoice *choice, Arena *arena);
/* query.c: an entry for an option that a figure does not have. */
int plot_refuse(const char *option, const char *name, Diag *diag);
#endif
