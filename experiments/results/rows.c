/* From the figures of a run to rows: values in the order of their table's columns, of which the
 * first is the run. */
#include "experiments/base/epoch.h"
#include "experiments/base/version.h"
#include "experiments/results/results.h"
#include <math.h>
#include <string.h>

#define ADD(self, diag, table, ...)                                                                \
  results_insert((self), (table), VALUES(value_whole((self)->run_id), __VA_ARGS__), (diag))

/* ---- Tables whose columns are figures of metrics.def ---- */

static const char machine_columns[] = "machine (run_id, machine, pool"
#define INSTANCE_FIGURE(name, unit, value, meaning) ", " #name
#include "sim/books/metrics.def"
                                      ")";

static const char request_columns[] = "request (run_id, rejected"
#define REQUEST_FIELD(type, field, column, kind, meaning) ", " #column
#define REQUEST_FIGURE(name, unit, value, meaning)        ", " #name
#include "sim/books/metrics.def"
                                      ")";

#define VALUE_COUNT(count)     value_whole((int64_t)(count))
#define VALUE_MACHINE(machine) value_real((machine) == INSTANCE_NONE ? NAN : (double)(machine))
#define VALUE_TIME(at)         value_real((at) < 0 ? NAN : tick_seconds(at))

int results_add_request(Results *self, const RequestRecord *record, Diag *diag) {
  if (results_begin_run(self, diag)) return -1;
  const TimeParts *parts = record->parts;
  const Value values[] = {
      value_whole(self->run_id),
      value_whole(record->rejected != REJECTED_NOT),
#define REQUEST_FIELD(type, field, column, kind, meaning) VALUE_##kind(record->field),
#define REQUEST_FIGURE(name, unit, value, meaning)        value_real(parts ? value : NAN),
#include "sim/books/metrics.def"
  };
  return results_insert(self, request_columns, values, sizeof values / sizeof *values, diag);
}

static int add_machine(Results *self, uint32_t machine, uint32_t pool, const InstanceTotals *totals,
                       Diag *diag) {
  const MachineFigures figures = report_machine(totals);
  const Value values[] = {
      value_whole(self->run_id),
      value_whole(machine),
      value_whole(pool),
#define INSTANCE_FIGURE(name, unit, value, meaning) value_real(figures.name),
#include "sim/books/metrics.def"
  };
  return results_insert(self, machine_columns, values, sizeof values / sizeof *values, diag);
}

static int add_machines(Results *self, const Report *report, Diag *diag) {
  uint32_t machine = 0;
  for (uint32_t pool = 0; pool < report->result->n_pools; pool++)
    for (uint32_t i = 0; i < report->pools[pool].pool->count; i++, machine++)
      if (add_machine(self, machine, pool, &report->result->instances[machine], diag)) return -1;
  return 0;
}

/* ---- The others ---- */

/* Recursion is as deep as the configuration, which the reader bounds. */
static int add_params(Results *self, const char *prefix, const Node *node, Arena *arena,
                      Diag *diag) {
  if (node->kind == NODE_SCALAR)
    return ADD(self, diag, "param", value_text(prefix), value_text(node->text));
  int index = 0;
  for (const Node *child = node->first; child; child = child->next, index++) {
    const char *dot = *prefix ? "." : "";
    const char *key = child->key ? arena_printf(arena, "%s%s%s", prefix, dot, child->key)
                                 : arena_printf(arena, "%s%s%d", prefix, dot, index);
    if (add_params(self, key, child, arena, diag)) return -1;
  }
  return 0;
}

static int add_pools(Results *self, const Report *report, Diag *diag) {
  for (uint32_t i = 0; i < report->result->n_pools; i++) {
    const PoolSpec *pool = report->pools[i].pool;
    const PoolFigures *figures = &report->pools[i].figures;
    if (ADD(self, diag, "pool", value_whole(i), value_text(pool->name),
            value_text(role_name(pool->role)), value_text(pool->machine),
            value_whole(pool_machines(pool)),
            value_whole(report->config->pools[i].tensor_parallel_size),
            value_text(pool->perfmodel->name), value_whole(pool->block_size),
            value_whole(pool->kv_blocks), value_whole(pool->cpu_kv_blocks),
            value_real(figures->utilization), value_real(figures->energy_kwh)))
      return -1;
  }
  return 0;
}

typedef struct MetricRows {
  Results *results;
  Diag *diag;
  int status;
} MetricRows;

static void add_metric(void *context, const char *scope, const char *name, const char *statistic,
                       double value, const char *unit) {
  MetricRows *rows = context;
  if (rows->status) return;
  rows->status = ADD(rows->results, rows->diag, "metric", value_text(scope), value_text(name),
                     value_text(statistic), value_real(value), value_text(unit));
}

static int add_metrics(Results *self, const Report *report, Diag *diag) {
  MetricRows rows = {self, diag, 0};
  report_visit(report, add_metric, &rows);
  return rows.status;
}

/* Writes the digits of `value`; returns where they end. */
static char *put_digits(char *to, uint64_t value) {
  char digits[20];
  int n = 0;
  do
    digits[n++] = (char)('0' + value % 10);
  while ((value /= 10) > 0);
  while (n > 0)
    *to++ = digits[--n];
  return to;
}

/* {"bucket": count, …}. Eight buckets become one: 3% wide, enough to draw, and an eighth of the
 * text. */
static const char *pack_histogram(const Histogram *histogram, Arena *arena) {
  enum { TOGETHER = 8, PAIR_MAX = 32 };
  const int n = (int)histogram->n_counts;
  char *text = arena_alloc(arena, (size_t)(n / TOGETHER + 1) * PAIR_MAX + 3), *end = text;
  *end++ = '{';
  for (int i = 0; i < n; i += TOGETHER) {
    uint64_t sum = 0;
    for (int k = 0; k < TOGETHER; k++)
      sum += histogram_count(histogram, i + k);
    if (sum == 0) continue;
    if (end[-1] != '{') *end++ = ',';
    *end++ = '"';
    end = put_digits(end, (uint64_t)i);
    *end++ = '"';
    *end++ = ':';
    end = put_digits(end, sum);
  }
  *end++ = '}';
  *end = '\0';
  return text;
}

static int add_histograms(Results *self, const Distribution *latencies, int n, Arena *arena,
                          Diag *diag) {
  for (int i = 0; i < n; i++) {
    const Distribution *latency = &latencies[i];
    if (latency->histogram->total > 0 && ADD(self, diag, "buckets", value_text(latency->name),
                                             value_text(pack_histogram(latency->histogram, arena))))
      return -1;
  }
  return 0;
}

/* A row's place among the replicas of its group, which lie together. */
static uint32_t replica_of(const SimResult *result, GroupIx ix) {
  uint32_t replica = 0;
  while (ix > replica && result->groups[ix - replica - 1].spec == result->groups[ix].spec)
    replica++;
  return replica;
}

static int add_timeline(Results *self, const SimResult *result, Diag *diag) {
  for (size_t i = 0; result->timeline && i < result->timeline->n_rows; i++) {
    const TimelineRow *row = &result->timeline->rows[i];
    if (ADD(self, diag, "timeline", VALUE_COUNT(i),
            value_text(result->groups[row->group].spec->name),
            value_whole(replica_of(result, row->group)), VALUE_TIME(row->at),
            value_text(row->shape == SHAPE_PREFILL ? "prefill" : "decode"),
            value_text(group_activity_name(row->activity)), value_whole(row->gpu_blocks),
            value_whole(row->store_blocks), value_whole(row->n_prompts),
            value_whole(row->n_decoding)))
      return -1;
  }
  return 0;
}

/* Machines as pools count them; the GPUs of a group's second shape are those of its first. */
static double count_instances(const Report *report) {
  double n = 0;
  for (uint32_t i = 0; i < report->result->n_pools; i++)
    if (!sim_is_second_shape(&report->config->sim, i)) n += pool_machines(report->pools[i].pool);
  return n;
}

static int add_hours(Results *self, const Report *report, Diag *diag) {
  const SimResult *result = report->result;
  const Hours *hours = &result->metrics.hours;
  const double instances = count_instances(report);
  for (size_t i = 0; i < hours->n; i++) {
    const HourCount *hour = &hours->of[i];
    const Tick left = result->end - (Tick)i * HOUR, length = left < HOUR ? left : HOUR;
    const double off = (double)hour->away[HOURS_OFF], down = (double)hour->away[HOURS_DOWN];
    if (length > 0 &&
        ADD(self, diag, "hour", VALUE_COUNT(i), VALUE_COUNT(hour->asked), VALUE_COUNT(hour->good),
            value_real(instances - off / (double)length), value_real(down / (double)length)))
      return -1;
  }
  return 0;
}

static int add_slo(Results *self, const Report *report, Diag *diag) {
  for (int i = 0; i < report->config->slo->n_specs; i++) {
    const SloOutcome *outcome = &report->outcomes[i];
    if (ADD(self, diag, "slo", value_text(outcome->spec->name), value_real(outcome->value),
            value_real(outcome->spec->limit), value_text(slo_unit(outcome->spec)),
            value_real(outcome->margin), value_whole(outcome->met),
            value_text(outcome->unmeasured)))
      return -1;
  }
  return 0;
}

/* What the row of a run says. */
typedef struct RunRow {
  const char *name, *config, *digest, *epoch, *status, *reason;
  uint64_t config_digest, seed, tie_seed, events;
  double wall_s, cpu_s;
  int64_t iterations;
} RunRow;

static int add_run(Results *self, const RunRow *row, Arena *arena, Diag *diag) {
  return results_change(
      self,
      "INSERT INTO run VALUES (?,?,?,?,?,?,?,?,?,?,?,?,"
      "strftime('%Y-%m-%dT%H:%M:%SZ','now'),?,?,?,?)",
      VALUES(value_whole(self->run_id), value_text(row->name), value_text(row->config),
             value_text(results_hex(row->config_digest, arena)), value_text(row->digest),
             value_text(tandem_version), value_text(tandem_commit), value_text(row->epoch),
             VALUE_COUNT(row->seed), VALUE_COUNT(row->tie_seed), value_text(row->status),
             value_text(row->reason), value_real(row->wall_s), value_real(row->cpu_s),
             VALUE_COUNT(row->events), value_whole(row->iterations)),
      diag);
}

/* Of a configuration, however it ended. */
static RunRow row_of(const Config *config, uint64_t config_digest) {
  return (RunRow){.name = config->path,
                  .config = config->text,
                  .config_digest = config_digest,
                  .seed = config->sim.seed,
                  .tie_seed = config->sim.tie_seed};
}

static const char *status_of(const SimResult *result) {
  return result->stopped ? "stopped" : result->unfinished > 0 ? "stalled" : "done";
}

static int end_run(Results *self, int status, Diag *diag) {
  self->run_id = 0;
  return results_end(self, status ? -1 : 0, diag);
}

static int add_all(Results *self, const Report *report, uint64_t config_digest, Arena *arena,
                   Diag *diag) {
  if (add_params(self, "", report->config->root, arena, diag) || add_pools(self, report, diag) ||
      add_machines(self, report, diag) || add_metrics(self, report, diag) ||
      add_histograms(self, report->latencies, report->n_latencies, arena, diag) ||
      add_timeline(self, report->result, diag) || add_hours(self, report, diag) ||
      add_slo(self, report, diag))
    return -1;
  RunRow row = row_of(report->config, config_digest);
  row.epoch = config_epoch(report->config, arena);
  row.digest = results_hex(report->result->digest, arena);
  row.status = status_of(report->result);
  row.wall_s = report->run.wall_s;
  row.cpu_s = report->run.cpu_s;
  row.events = report->result->events;
  row.iterations = (int64_t)report->machines.iterations;
  return add_run(self, &row, arena, diag);
}

int results_add_run(Results *self, const Report *report, uint64_t config_digest, Arena *arena,
                    Diag *diag) {
  const int status =
      results_begin_run(self, diag) || add_all(self, report, config_digest, arena, diag);
  return end_run(self, status, diag);
}

int results_keep_run(Results *self, const Report *report, uint64_t config_digest, bool stopped,
                     Arena *arena, Diag *diag) {
  int64_t id = 0;
  const int there = results_ask(
      self,
      "SELECT id FROM run WHERE config_digest = ? AND status <> 'failed' AND "
      "(status <> 'stopped' OR ?)",
      VALUES(value_text(results_hex(config_digest, arena)), value_whole(stopped)), &id, diag);
  if (there != 0) return there < 0 ? -1 : 0;
  return results_add_run(self, report, config_digest, arena, diag);
}

int results_add_failure(Results *self, const Config *config, uint64_t config_digest,
                        const char *reason, Arena *arena, Diag *diag) {
  RunRow row = row_of(config, config_digest);
  row.epoch = epoch_of(NULL, 0, arena);
  row.status = "failed";
  row.reason = reason;
  const int status = results_begin_run(self, diag) ||
                     add_params(self, "", config->root, arena, diag) ||
                     add_run(self, &row, arena, diag);
  return end_run(self, status, diag);
}

static int add_measured_figures(Results *self, const EngineRun *run, Diag *diag) {
  MetricRows rows = {self, diag, 0};
  for (int i = 0; i < run->n_figures; i++) {
    const EngineFigure *figure = &run->figures[i];
    add_metric(&rows, "run", figure->name, figure->statistic, figure->value, figure->unit);
  }
  for (int i = 0; i < run->n_latencies; i++)
    for (int k = 0; k < REPORT_STATISTICS; k++)
      add_metric(&rows, "run", run->latencies[i].name, report_statistics[k],
                 run->latencies[i].values[k], run->latencies[i].unit);
  return rows.status;
}

int results_add_measured(Results *self, const EngineRun *run, Arena *arena, Diag *diag) {
  const RunRow row = {.name = run->name,
                      .config = run->text,
                      .config_digest = run->digest,
                      .digest = results_hex(run->digest, arena),
                      .epoch = RESULTS_MEASURED,
                      .status = "done",
                      .wall_s = run->wall_s};
  const Node *root = yaml_parse(run->name, run->text, strlen(run->text), arena, diag);
  const int status = !root || results_begin_run(self, diag) ||
                     add_params(self, "", root, arena, diag) ||
                     add_measured_figures(self, run, diag) ||
                     add_histograms(self, run->latencies, run->n_latencies, arena, diag) ||
                     add_run(self, &row, arena, diag);
  return end_run(self, status, diag);
}
