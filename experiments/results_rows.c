/* From the figures of a run to rows. A row is an array of values bound in order to a prepared
 * INSERT; its first value is always the run. */
#include "experiments/results_rows.h"
#include <inttypes.h>
#include <math.h>

typedef enum ValueKind { VALUE_INT, VALUE_REAL, VALUE_TEXT } ValueKind;

typedef struct Value {
  ValueKind kind;
  int64_t whole;
  double real; // NAN or infinite: NULL
  const char *text;
} Value;

static Value whole(int64_t value) {
  return (Value){.kind = VALUE_INT, .whole = value};
}

static Value count(uint64_t value) {
  return whole((int64_t)value);
}

static Value real(double value) {
  return (Value){.kind = VALUE_REAL, .real = value};
}

static Value text(const char *value) {
  return (Value){.kind = VALUE_TEXT, .text = value};
}

/* A time in seconds, NULL when it was never reached. */
static Value time_at(Tick at) {
  return real(at < 0 ? NAN : tick_seconds(at));
}

static Value machine_at(MachineIx machine) {
  return machine == MACHINE_NONE ? real(NAN) : whole(machine);
}

static int bind_value(sqlite3_stmt *statement, int column, const Value *value) {
  switch (value->kind) {
  case VALUE_INT:
    return sqlite3_bind_int64(statement, column, value->whole);
  case VALUE_TEXT:
    return sqlite3_bind_text(statement, column, value->text, -1, SQLITE_STATIC);
  case VALUE_REAL:
    break;
  }
  return isfinite(value->real) ? sqlite3_bind_double(statement, column, value->real)
                               : sqlite3_bind_null(statement, column);
}

static int insert(Results *self, sqlite3_stmt *statement, const Value *values, int n, Diag *diag) {
  int status = sqlite3_bind_int64(statement, 1, self->run_id);
  for (int i = 0; i < n && status == SQLITE_OK; i++)
    status = bind_value(statement, i + 2, &values[i]);
  if (status == SQLITE_OK) status = sqlite3_step(statement);
  sqlite3_reset(statement);
  return status == SQLITE_DONE ? 0 : results_error(self, "write", diag);
}

#define INSERT(self, statement, diag, ...)                                                         \
  insert((self), (statement), (const Value[]){__VA_ARGS__},                                        \
         (int)(sizeof((const Value[]){__VA_ARGS__}) / sizeof(Value)), (diag))

static sqlite3_stmt *prepare(Results *self, const char *sql, Diag *diag) {
  sqlite3_stmt *statement = NULL;
  if (sqlite3_prepare_v2(self->db, sql, -1, &statement, NULL) == SQLITE_OK) return statement;
  results_error(self, "write", diag);
  return NULL;
}

static void finalize(sqlite3_stmt **statement) {
  sqlite3_finalize(*statement);
}
#define CLEANUP_STATEMENT __attribute__((cleanup(finalize)))

int rows_add_request(Results *self, const RequestRecord *record, Diag *diag) {
  static const char sql[] = "INSERT INTO request VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
  if (!self->request) self->request = prepare(self, sql, diag);
  if (!self->request) return -1;
  return INSERT(self, self->request, diag, count(record->id), whole(record->prompt_tokens),
                whole(record->output_tokens), machine_at(record->prefill_machine),
                machine_at(record->decode_machine), time_at(record->arrived_at),
                time_at(record->prefill_began_at), time_at(record->first_token_at),
                time_at(record->decode_began_at), time_at(record->last_token_at),
                whole(record->preemptions), whole(record->evictions), whole(record->rejected));
}

/* Recursion is as deep as the configuration, which the reader bounds. */
static int add_params(Results *self, sqlite3_stmt *statement, const char *prefix, const Node *node,
                      Arena *arena, Diag *diag) {
  if (node->kind == NODE_SCALAR)
    return INSERT(self, statement, diag, text(prefix), text(node->text));
  int index = 0;
  for (const Node *child = node->first; child; child = child->next, index++) {
    const char *dot = *prefix ? "." : "";
    const char *key = child->key ? arena_printf(arena, "%s%s%s", prefix, dot, child->key)
                                 : arena_printf(arena, "%s%s%d", prefix, dot, index);
    if (add_params(self, statement, key, child, arena, diag)) return -1;
  }
  return 0;
}

static int add_config(Results *self, const Report *report, Arena *arena, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      prepare(self, "INSERT INTO param VALUES (?,?,?)", diag);
  return statement ? add_params(self, statement, "", report->config->root, arena, diag) : -1;
}

static int add_pools(Results *self, const Report *report, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      prepare(self, "INSERT INTO pool VALUES (?,?,?,?,?,?,?,?,?,?,?)", diag);
  if (!statement) return -1;
  for (uint32_t i = 0; i < report->result->n_pools; i++) {
    const PoolSpec *pool = report->pools[i].pool;
    const Scalar *scalars = report->pools[i].scalars;
    if (INSERT(self, statement, diag, whole(i), text(pool->name), text(role_name(pool->role)),
               text(pool->machine), whole(pool->count),
               whole(report->config->pools[i].tensor_parallel_size), whole(pool->block_size),
               whole(pool->kv_blocks), real(scalars[0].value), real(scalars[1].value)))
      return -1;
  }
  return 0;
}

static int add_machines(Results *self, const Report *report, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      prepare(self, "INSERT INTO machine VALUES (?,?,?,?,?,?,?,?,?,?)", diag);
  if (!statement) return -1;
  const SimResult *result = report->result;
  uint32_t machine = 0;
  for (uint32_t pool = 0; pool < result->n_pools; pool++)
    for (uint32_t i = 0; i < report->pools[pool].pool->count; i++, machine++) {
      const MachineTotals *totals = &result->machines[machine];
      if (INSERT(self, statement, diag, whole(machine), whole(pool), time_at(totals->prefill_ticks),
                 time_at(totals->decode_ticks), whole(totals->prefill_iterations),
                 whole(totals->decode_iterations), whole(totals->prefill_tokens),
                 whole(totals->decode_tokens), count(report_extrapolated(totals))))
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
  rows->status = INSERT(rows->results, rows->statement, rows->diag, text(scope), text(name),
                        text(statistic), real(value), text(unit));
}

static int add_metrics(Results *self, const Report *report, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      prepare(self, "INSERT INTO metric VALUES (?,?,?,?,?,?)", diag);
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
      sum += latency->histogram->counts[i + k];
    if (sum == 0) continue;
    const double low = tick_seconds(histogram_bucket_start(i));
    const double width = tick_seconds(histogram_bucket_width(i)) * TOGETHER;
    if (INSERT(self, statement, diag, text(latency->name), real(low), real(low + width),
               count(sum)))
      return -1;
  }
  return 0;
}

static int add_histograms(Results *self, const Report *report, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      prepare(self, "INSERT INTO histogram VALUES (?,?,?,?,?)", diag);
  if (!statement) return -1;
  for (int i = 0; i < REPORT_LATENCIES; i++)
    if (add_histogram(self, statement, &report->latencies[i], diag)) return -1;
  return 0;
}

static int add_slo(Results *self, const Report *report, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      prepare(self, "INSERT INTO slo VALUES (?,?,?,?,?)", diag);
  if (!statement) return -1;
  for (int i = 0; i < report->config->slo->n_specs; i++) {
    const SloOutcome *outcome = &report->outcomes[i];
    if (INSERT(self, statement, diag, text(outcome->spec->name), real(outcome->slowdown),
               real(outcome->spec->limit), whole(outcome->met)))
      return -1;
  }
  return 0;
}

static const char *hex(uint64_t digest, Arena *arena) {
  return arena_printf(arena, "%016" PRIx64, digest);
}

static int add_run(Results *self, const Report *report, uint64_t config_digest, Arena *arena,
                   Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      prepare(self,
              "INSERT INTO run VALUES (?,?,?,?,?,?,?,?,?,strftime('%Y-%m-%dT%H:%M:%SZ','now'),"
              "?,?,?,?)",
              diag);
  if (!statement) return -1;
  const Config *config = report->config;
  const SimResult *result = report->result;
  return INSERT(self, statement, diag, text(config->path), text(config->text),
                text(hex(config_digest, arena)), text(hex(result->digest, arena)),
                text(tandem_version), count(config->sim.seed), count(config->sim.tie_seed),
                text(result->unfinished > 0 ? "stalled" : "done"),
                real(report_value(report, "wall_s")), real(report_value(report, "cpu_s")),
                count(result->events), whole((int64_t)report_value(report, "iterations")));
}

int rows_add_run(Results *self, const Report *report, uint64_t config_digest, Arena *arena,
                 Diag *diag) {
  if (add_config(self, report, arena, diag) || add_pools(self, report, diag) ||
      add_machines(self, report, diag) || add_metrics(self, report, diag) ||
      add_histograms(self, report, diag) || add_slo(self, report, diag))
    return -1;
  return add_run(self, report, config_digest, arena, diag);
}
