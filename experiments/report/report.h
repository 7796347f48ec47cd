/* What a run has to say: its figures under their names, once, for the terminal, JSON, CSV and the
 * database. */
#ifndef EXPERIMENTS_REPORT_REPORT_H
#define EXPERIMENTS_REPORT_REPORT_H
#include "experiments/base/writer.h"
#include "experiments/config/config.h"

enum {
  REPORT_STATISTICS = 6,
  REPORT_LATENCIES = 9,
  REPORT_SCALARS = 31,
  REPORT_POOL_SCALARS = 19,
  REPORT_GROUP_SCALARS = 13,
  REPORT_EXTRAPOLATED = 3,
};
extern const char *const report_statistics[REPORT_STATISTICS]; // mean, p50, …

typedef struct Scalar {
  const char *name, *unit;
  double value;
} Scalar;

/* What was observed of one quantity. Latencies: tbt_s is of gaps between tokens, tpot_s of
 * requests, and so are queue_token_s and compute_token_s, which have a request's time outside and
 * inside iterations over its output tokens. batch_tokens of a pool is weighted by time. */
typedef struct Distribution {
  const char *name, *unit;
  const Histogram *histogram;
  double scale;                     // of the histogram's values in one `unit`
  double values[REPORT_STATISTICS]; // NAN when nothing was observed
} Distribution;

typedef struct PoolReport {
  const PoolSpec *pool;
  const char *scope; // pool.NAME
  Scalar scalars[REPORT_POOL_SCALARS];
  Distribution batch_tokens;
} PoolReport;

/* Of all replicas of a group together; times are seconds of replicas. */
typedef struct GroupReport {
  const GroupSpec *group;
  const char *scope; // group.NAME
  Scalar scalars[REPORT_GROUP_SCALARS];
} GroupReport;

typedef struct Report {
  const Config *config;
  const SimResult *result;
  Scalar scalars[REPORT_SCALARS];
  Scalar extrapolated[REPORT_EXTRAPOLATED]; // outside the measured range of the performance models
  Distribution latencies[REPORT_LATENCIES];
  PoolReport *pools;    // [result->n_pools]
  GroupReport *groups;  // [config->sim.n_groups]
  SloOutcome *outcomes; // [config->slo->n_specs]
  int n_missed;         // of them
} Report;

/* The figures of a run; `config` and `result` must outlive them. */
void report_init(Report *self, const Config *config, const SimResult *result, double cpu_s,
                 double wall_s, Arena *arena);
/* The value of a scalar of the run by its name, which must exist. */
double report_value(const Report *self, const char *name);
/* Why requests were rejected for this reason, with the limit: what follows "12 requests". */
const char *report_rejection(const Report *self, Rejection why, Arena *arena);
/* Error when requests came and none was taken: then there is nothing to report. */
int report_check_served(const Report *self, Diag *diag);
/* Iterations outside the measured range of the performance model. */
uint64_t report_extrapolated(const MachineTotals *totals);
/* Calls `visit` with every figure; `scope` is run, extrapolated, pool.NAME or group.NAME,
 * `statistic` is value or one of report_statistics, and `value` may be NAN. */
typedef void (*ReportVisit)(void *context, const char *scope, const char *name,
                            const char *statistic, double value, const char *unit);
void report_visit(const Report *self, ReportVisit visit, void *context);
void report_print(const Report *self, OutputFormat format, FILE *out);

/* private: groups.c */

GroupReport report_group(const SimResult *result, const GroupSpec *group, Arena *arena);
void report_table_groups(const Report *self, FILE *out);
#endif
