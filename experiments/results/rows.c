/* From the figures of a run to rows. A row is an array of values bound in order to a prepared
 * INSERT; its first value is always the run. */
#include "experiments/results/rows.h"
#include "experiments/base/version.h"
#include "experiments/results/results.h"
#include <math.h>

/* A time in seconds, NULL when it was never reached. */
static Value time_at(Tick at) {
  return value_real(at < 0 ? NAN : tick_seconds(at));
}

static Value machine_at(MachineIx machine) {
  return machine == MACHINE_NONE ? value_real(NAN) : value_whole(machine);
}

static int insert(Results *self, sqlite3_stmt *statement, const Value *values, int n, Diag *diag) {
  return sqlite3_bind_int64(statement, 1, self->run_id) == SQLITE_OK
             ? results_step(self, statement, 2, values, n, diag)
             : results_error(self, "write", diag);
}

#define INSERT(self, statement, diag, ...) insert((self), (statement), VALUES(__VA_ARGS__), (diag))

int rows_add_request(Results *self, const RequestRecord *record, Diag *diag) {
  static const char sql[] = "INSERT INTO request VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
  if (!self->request) self->request = results_prepare(self, sql, diag);
  if (!self->request) return -1;
  return INSERT(self, self->request, diag, value_count(record->id),
                value_whole(record->prompt_tokens), value_whole(record->output_tokens),
                machine_at(record->prefill_machine), machine_at(record->decode_machine),
                time_at(record->arrived_at), time_at(record->prefill_began_at),
                time_at(record->first_token_at), time_at(record->decode_began_at),
                time_at(record->last_token_at), time_at(record->computing_ticks),
                value_whole(record->preemptions), value_whole(record->evictions),
                value_whole(record->swaps), value_whole(record->rejected != REJECTED_NOT));
}

/* Recursion is as deep as the configuration, which the reader bounds. */
static int add_params(Results *self, sqlite3_stmt *statement, const char *prefix, const Node *node,
                      Arena *arena, Diag *diag) {
  if (node->kind == NODE_SCALAR)
    return INSERT(self, statement, diag, value_text(prefix), value_text(node->text));
  int index = 0;
  for (const Node *child = node->first; child; child = child->next, index++) {
    const char *dot = *prefix ? "." : "";
    const char *key = child->key ? arena_printf(arena, "%s%s%s", prefix, dot, child->key)
                                 : arena_printf(arena, "%s%s%d", prefix, dot, index);
    if (add_params(self, statement, key, child, arena, diag)) return -1;
  }
  return 0;
}

static int add_config(Results *self, const Config *config, Arena *arena, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      results_prepare(self, "INSERT INTO param VALUES (?,?,?)", diag);
  return statement ? add_params(self, statement, "", config->root, arena, diag) : -1;
}

static int add_pools(Results *self, const Report *report, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      results_prepare(self, "INSERT INTO pool VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", diag);
  if (!statement) return -1;
  for (uint32_t i = 0; i < report->result->n_pools; i++) {
    const PoolSpec *pool = report->pools[i].pool;
    const Scalar *scalars = report->pools[i].scalars;
    if (INSERT(self, statement, diag, value_whole(i), value_text(pool->name),
               value_text(role_name(pool->role)), value_text(pool->machine),
               value_whole(pool_machines(pool)),
               value_whole(report->config->pools[i].tensor_parallel_size),
               value_whole(pool->block_size), value_whole(pool->kv_blocks),
               value_whole(pool->cpu_kv_blocks), value_real(scalars[0].value),
               value_real(scalars[1].value)))
      return -1;
  }
  return 0;
}

static int add_machines(Results *self, const Report *report, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      results_prepare(self, "INSERT INTO machine VALUES (?,?,?,?,?,?,?,?,?,?)", diag);
  if (!statement) return -1;
  const SimResult *result = report->result;
  uint32_t machine = 0;
  for (uint32_t pool = 0; pool < result->n_pools; pool++)
    for (uint32_t i = 0; i < report->pools[pool].pool->count; i++, machine++) {
      const MachineTotals *totals = &result->machines[machine];
      if (INSERT(self, statement, diag, value_whole(machine), value_whole(pool),
                 time_at((Tick)totals->prefill_ticks), time_at((Tick)totals->decode_ticks),
                 value_whole(totals->prefill_iterations), value_whole(totals->decode_iterations),
                 value_whole(totals->prefill_tokens), value_whole(totals->decode_tokens),
                 value_count(report_extrapolated(totals))))
        return -1;
    }
  return 0;
}

typedef struct MetricRows {
  Results *results;
  sqlite3_stmt *statement;
  Diag *diag;
  int status;
} MetricRows;

static void add_metric(void *context, const char *scope, const char *name, const char *statistic,
                       double value, const char *unit) {
  MetricRows *rows = context;
  if (rows->status) return;
  rows->status =
      INSERT(rows->results, rows->statement, rows->diag, value_text(scope), value_text(name),
             value_text(statistic), value_real(value), value_text(unit));
}

static int add_metrics(Results *self, const Report *report, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      results_prepare(self, "INSERT INTO metric VALUES (?,?,?,?,?,?)", diag);
  if (!statement) return -1;
  MetricRows rows = {self, statement, diag, 0};
  report_visit(report, add_metric, &rows);
  return rows.status;
}

/* Eight buckets become one: 3% wide, enough to draw, and an eighth of the rows. */
static int add_histogram(Results *self, sqlite3_stmt *statement, const Distribution *latency,
                         Diag *diag) {
  enum { TOGETHER = 8 };
  for (int i = 0; i < HISTOGRAM_BUCKETS; i += TOGETHER) {
    uint64_t sum = 0;
    for (int k = 0; k < TOGETHER; k++)
      sum += histogram_count(latency->histogram, i + k);
    if (sum == 0) continue;
    const double low = tick_seconds(histogram_bucket_start(i));
    const double width = tick_seconds(histogram_bucket_width(i)) * TOGETHER;
    if (INSERT(self, statement, diag, value_text(latency->name), value_real(low),
               value_real(low + width), value_count(sum)))
      return -1;
  }
  return 0;
}

static int add_histograms(Results *self, const Report *report, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      results_prepare(self, "INSERT INTO histogram VALUES (?,?,?,?,?)", diag);
  if (!statement) return -1;
  for (int i = 0; i < REPORT_LATENCIES; i++)
    if (add_histogram(self, statement, &report->latencies[i], diag)) return -1;
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
  if (!result->timeline) return 0;
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      results_prepare(self, "INSERT INTO timeline VALUES (?,?,?,?,?,?,?,?,?,?,?)", diag);
  if (!statement) return -1;
  for (size_t i = 0; i < result->timeline->n_rows; i++) {
    const TimelineRow *row = &result->timeline->rows[i];
    if (INSERT(self, statement, diag, value_count(i),
               value_text(result->groups[row->group].spec->name),
               value_whole(replica_of(result, row->group)), time_at(row->at),
               value_text(row->shape == SHAPE_PREFILL ? "prefill" : "decode"),
               value_text(group_activity_name(row->activity)), value_whole(row->gpu_blocks),
               value_whole(row->store_blocks), value_whole(row->n_prompts),
               value_whole(row->n_decoding)))
      return -1;
  }
  return 0;
}

static int add_slo(Results *self, const Report *report, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      results_prepare(self, "INSERT INTO slo VALUES (?,?,?,?,?,?,?)", diag);
  if (!statement) return -1;
  for (int i = 0; i < report->config->slo->n_specs; i++) {
    const SloOutcome *outcome = &report->outcomes[i];
    if (INSERT(self, statement, diag, value_text(outcome->spec->name), value_real(outcome->value),
               value_real(outcome->spec->limit), value_text(slo_unit(outcome->spec)),
               value_real(outcome->margin), value_whole(outcome->met)))
      return -1;
  }
  return 0;
}

/* How a run ended; all zero, with a reason, when it failed. */
typedef struct Ending {
  const char *digest, *status, *reason;
  double wall_s, cpu_s;
  uint64_t events;
  int64_t iterations;
} Ending;

static int add_run(Results *self, const Config *config, uint64_t config_digest,
                   const Ending *ending, Arena *arena, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      results_prepare(self,
                      "INSERT INTO run VALUES (?,?,?,?,?,?,?,outcome_epoch(),?,?,?,?,"
                      "strftime('%Y-%m-%dT%H:%M:%SZ','now'),"
                      "?,?,?,?)",
                      diag);
  if (!statement) return -1;
  return INSERT(self, statement, diag, value_text(config->path), value_text(config->text),
                value_text(results_hex(config_digest, arena)), value_text(ending->digest),
                value_text(tandem_version), value_text(tandem_commit),
                value_count(config->sim.seed), value_count(config->sim.tie_seed),
                value_text(ending->status), value_text(ending->reason), value_real(ending->wall_s),
                value_real(ending->cpu_s), value_count(ending->events),
                value_whole(ending->iterations));
}

static const char *status_of(const SimResult *result) {
  return result->stopped ? "stopped" : result->unfinished > 0 ? "stalled" : "done";
}

int rows_add_run(Results *self, const Report *report, uint64_t config_digest, Arena *arena,
                 Diag *diag) {
  if (add_config(self, report->config, arena, diag) || add_pools(self, report, diag) ||
      add_machines(self, report, diag) || add_metrics(self, report, diag) ||
      add_histograms(self, report, diag) || add_timeline(self, report->result, diag) ||
      add_slo(self, report, diag))
    return -1;
  const Ending ending = {.digest = results_hex(report->result->digest, arena),
                         .status = status_of(report->result),
                         .wall_s = report_value(report, "wall_s"),
                         .cpu_s = report_value(report, "cpu_s"),
                         .events = report->result->events,
                         .iterations = (int64_t)report_value(report, "iterations")};
  return add_run(self, report->config, config_digest, &ending, arena, diag);
}

int rows_add_failure(Results *self, const Config *config, uint64_t config_digest,
                     const char *reason, Arena *arena, Diag *diag) {
  const Ending ending = {.status = "failed", .reason = reason};
  if (add_config(self, config, arena, diag)) return -1;
  return add_run(self, config, config_digest, &ending, arena, diag);
}
