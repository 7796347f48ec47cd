/* What a run has to say: the figures of sim/books/metrics.def under their names, once, for the
 * terminal, JSON, CSV, the database and claims. */
#ifndef EXPERIMENTS_REPORT_REPORT_H
#define EXPERIMENTS_REPORT_REPORT_H
#include "experiments/base/writer.h"
#include "experiments/config/config.h"

enum { REPORT_STATISTICS = 6 };
extern const char *const report_statistics[REPORT_STATISTICS]; // mean, p50, …
/* Of half of the 95% range of each; NULL where there is none. */
extern const char *const report_half_widths[REPORT_STATISTICS];

typedef enum Level {
  LEVEL_LATENCY, // of the run, each a Distribution; so are those of pools
  LEVEL_RUN,
  LEVEL_EXTRAPOLATED,
  LEVEL_MACHINE, // and sums over machines: of a pool, of the run
  LEVEL_POOL,
  LEVEL_POOL_SPREAD,
  LEVEL_COMPONENT,
  LEVEL_COMPONENT_SPREAD,
  LEVEL_GROUP,
  LEVEL_REQUEST, // columns of the table `request`
  LEVELS,
} Level;

/* A figure as it is told. */
typedef struct Figure {
  Level level;
  const char *name, *unit, *meaning;
} Figure;

/* Level after level, in each in the order of metrics.def; ended by one without a name. */
extern const Figure report_figures[];

/* The values of a level: doubles, in the order of its figures. */
typedef struct RunFigures {
#define RUN_FIGURE(name, unit, value, meaning) double name;
#include "sim/books/metrics.def"
} RunFigures;

typedef struct ExtrapolatedFigures {
#define EXTRAPOLATED_FIGURE(name, unit, value, meaning) double name;
#include "sim/books/metrics.def"
} ExtrapolatedFigures;

typedef struct MachineFigures {
#define INSTANCE_FIGURE(name, unit, value, meaning) double name;
#include "sim/books/metrics.def"
} MachineFigures;

typedef struct PoolFigures {
#define POOL_FIGURE(name, unit, value, meaning) double name;
#include "sim/books/metrics.def"
} PoolFigures;

typedef struct ComponentFigures {
#define COMPONENT_FIGURE(name, unit, value, meaning) double name;
#include "sim/books/metrics.def"
} ComponentFigures;

typedef struct GroupFigures {
#define GROUP_FIGURE(name, unit, value, meaning) double name;
#include "sim/books/metrics.def"
} GroupFigures;

/* What was observed of one quantity. */
typedef struct Distribution {
  const char *name, *unit, *meaning;
  const Histogram *histogram;
  double values[REPORT_STATISTICS];      // NAN when nothing was observed
  double half_widths[REPORT_STATISTICS]; // NAN when not known
} Distribution;

/* Of values in a histogram that stand for `scale` times themselves. */
Distribution distribution_make(const char *name, const char *unit, double scale,
                               const char *meaning, const Histogram *histogram);

typedef struct PoolReport {
  const PoolSpec *pool;
  const char *scope; // pool.NAME
  PoolFigures figures;
  MachineFigures machines;
#define POOL_HISTOGRAM(field, unit, scale, meaning) Distribution field;
#include "sim/books/metrics.def"
} PoolReport;

typedef struct ComponentReport {
  const ComponentSpec *component;
  const char *scope; // component.NAME
  ComponentFigures figures;
#define COMPONENT_HISTOGRAM(field, unit, scale, meaning) Distribution field;
#include "sim/books/metrics.def"
} ComponentReport;

/* Of all replicas of a group together; times are seconds of replicas. */
typedef struct GroupReport {
  const GroupSpec *group;
  const char *scope; // group.NAME
  GroupTotals totals;
  GroupFigures figures;
} GroupReport;

/* Of the figures asked for, limits or else mean, p50, p90 and p99 of TTFT, TPOT and E2E, the one
 * whose 95% range is widest. */
typedef struct LeastKnown {
  const char *name; // ttft.p99; NULL: there are none
  double share;     // half of it over the figure; NAN: not known
} LeastKnown;

/* Why a run has as many requests as it has. */
typedef enum LengthEnd {
  LENGTH_GIVEN, // its configuration says how many
  LENGTH_REACHED,
  LENGTH_WORKLOAD, // there are no more
  LENGTH_MOST,
  LENGTH_SATURATED,
  LENGTH_LOST, // a limit is missed, beyond doubt
} LengthEnd;

typedef struct Report {
  const Config *config;
  const SimResult *result;
  RunFigures run;
  MachineFigures machines;
  ExtrapolatedFigures extrapolated;
  Distribution latencies[METRICS_HISTOGRAMS]; // [n_latencies], those that have a column
  int n_latencies;
  PoolReport *pools;           // [result->n_pools]
  ComponentReport *components; // [result->n_components]
  GroupReport *groups;         // [config->sim.n_groups]
  SloOutcome *outcomes;        // [config->slo->n_specs]
  int n_missed, n_unmeasured;  // of them; the others are met
  FoundStart start;            // with SimResult.batches; else none
  bool saturated;
  bool lost; // a limit is missed beyond doubt, where the configuration asks only for that
  LeastKnown least_known;
  LengthEnd length_end; // set by config_simulate
  /* Asked for: the reports of the same run with iteration times moved (config_moves); NULL where
   * how far off they are is unknown. */
  bool ranged;
  const struct Report *moved[MOVES];
} Report;

/* The figures of a run; `config` and `result` must outlive them. */
void report_init(Report *self, const Config *config, const SimResult *result, double cpu_s,
                 double wall_s, Arena *arena);
MachineFigures report_machine(const InstanceTotals *totals);
/* The value of a figure of level run by its name, which must exist. */
double report_value(const Report *self, const char *name);
/* The same of a latency of the run, "ttft_s", and one of report_statistics. */
double report_latency(const Report *self, const char *name, const char *statistic);
/* Why requests were rejected for this reason, with the limit: what follows "12 requests". */
const char *report_rejection(const Report *self, Rejection why, Arena *arena);
static inline bool report_met(const Report *self) {
  return self->n_missed + self->n_unmeasured == 0;
}
/* Error when requests came and none was taken: then the report says only that. */
int report_check_served(const Report *self, Diag *diag);
/* Iterations outside the measured range of the performance model. */
uint64_t report_extrapolated(const InstanceTotals *totals);
/* Calls `visit` with every figure; `scope` is run, extrapolated, pool.NAME, component.NAME or
 * group.NAME,
 * `statistic` is value or one of report_statistics, and `value` may be NAN. */
typedef void (*ReportVisit)(void *context, const char *scope, const char *name,
                            const char *statistic, double value, const char *unit);
void report_visit(const Report *self, ReportVisit visit, void *context);
/* Lines on where iteration times come from: one for each performance model in use. */
void report_print_times(const Report *self, FILE *out);
/* Lines on how long it was, what was left out of it, and whether there is anything that lasts. */
void report_print_steadiness(const Report *self, FILE *out);

/* What is known of the iteration times of many runs together. */
typedef struct TimesKnown {
  bool known;               // of some runs the error is, and then at most
  double error;             // this, a share
  bool unknown;             // of some that are measured it is not
  bool computed;            // some are of a roofline
  double extrapolated, far; // the largest shares of a run's time
} TimesKnown;

/* Adds what a run says of itself: the figures of its scope `extrapolated`. */
void times_add(TimesKnown *self, const ExtrapolatedFigures *figures);
void times_merge(TimesKnown *self, const TimesKnown *other);
/* "measured, held-out error up to 5.6%; some from a roofline, not measured, with unknown error";
 * "" of no runs. */
const char *times_text(const TimesKnown *self, Arena *arena);
/* "up to 12.5% of the time of RUN (far: 1.0%) is outside the measured range, where the error is not
 * known"; NULL where nothing is. */
const char *times_extrapolated_text(const TimesKnown *self, const char *run, Arena *arena);

/* What reports with other times are called, in the order of `moved`. */
extern const char *const report_moves[MOVES];
void report_print(const Report *self, OutputFormat format, FILE *out);
void report_print_json(const Report *self, FILE *out);
void report_print_csv(const Report *self, FILE *out);
/* As `vllm bench serve` tells it: its block, and the JSON of --save-result on a line. */
void report_print_vllm(const Report *self, FILE *out);
void report_print_vllm_json(const Report *self, FILE *out);

/* private: steadiness.c */

/* All that is known from the batches of the run but for ranges of latencies. */
void report_add_steadiness(Report *self);
#endif
