/* Rows of sweep, shard, axis, point and point_value, and what those of points say of times. */
#include "base/hash.h"
#include "experiments/base/version.h"
#include "experiments/sweep/sweep.h"
#include <math.h>

static int add_axes(Results *self, const SweepRow *row, Diag *diag) {
  for (int i = 0; i < row->sweep->n_axes; i++)
    if (results_insert(
            self, "axis",
            VALUES(value_whole(row->id), value_whole(i), value_text(row->sweep->axes[i].name)),
            diag))
      return -1;
  return 0;
}

static int find_or_add(Results *self, SweepRow *row, Arena *arena, Diag *diag) {
  const uint64_t program = hash_text(hash_text(0, tandem_version), row->epoch);
  const uint64_t hash = hash_text(program, row->text);
  const char *digest = results_hex(hash, arena);
  const int found = results_ask(self, "SELECT id FROM sweep WHERE digest = ?",
                                VALUES(value_text(digest)), &row->id, diag);
  if (found != 0) return found < 0 ? -1 : 0;
  if (results_change(self,
                     "INSERT INTO sweep VALUES (NULL,?,?,?,?,?,?,strftime('%Y-%m-%dT%H:%M:%SZ',"
                     "'now'))",
                     VALUES(value_text(digest), value_text(row->name), value_text(row->text),
                            value_text(tandem_version), value_text(row->epoch),
                            value_whole(row->sweep->n_points)),
                     diag))
    return -1;
  row->id = sqlite3_last_insert_rowid(self->db);
  return add_axes(self, row, diag);
}

int results_add_sweep(Results *self, SweepRow *row, Arena *arena, Diag *diag) {
  if (results_begin(self, diag)) return -1;
  int status = find_or_add(self, row, arena, diag);
  if (status == 0)
    status = results_change(
        self, "INSERT OR IGNORE INTO shard VALUES (?,?,?)",
        VALUES(value_whole(row->id), value_whole(row->shard), value_whole(row->n_shards)), diag);
  return results_end(self, status, diag);
}

static int set_point(Results *self, const SweepRow *row, int64_t point, int64_t run_id,
                     Diag *diag) {
  const Value sweep_value = value_whole(row->id), point_value = value_whole(point);
  // What failed before goes, with its point.
  if (results_change(self,
                     "DELETE FROM run WHERE status = 'failed' AND id IN "
                     "(SELECT run_id FROM point WHERE sweep_id = ? AND point = ?)",
                     VALUES(sweep_value, point_value), diag) ||
      results_change(self,
                     "INSERT INTO point VALUES (?,?,?) ON CONFLICT DO UPDATE SET "
                     "run_id = excluded.run_id WHERE run_id <> excluded.run_id",
                     VALUES(sweep_value, point_value, value_whole(run_id)), diag))
    return -1;
  for (int i = 0; i < row->sweep->n_axes; i++)
    if (results_change(self, "INSERT OR IGNORE INTO point_value VALUES (?,?,?,?)",
                       VALUES(sweep_value, point_value, value_whole(i),
                              value_text(sweep_choice(row->sweep, point, i)->label)),
                       diag))
      return -1;
  return 0;
}

int results_add_point(Results *self, const SweepRow *row, int64_t point, Diag *diag) {
  if (results_begin_run(self, diag)) return -1;
  return set_point(self, row, point, self->run_id, diag);
}

int results_link_point(Results *self, const SweepRow *row, int64_t point, uint64_t config_digest,
                       Arena *arena, Diag *diag) {
  int64_t run_id = 0;
  const int found =
      results_ask(self,
                  "SELECT id FROM run WHERE config_digest = ? AND status IN "
                  "('done', 'stalled') ORDER BY id LIMIT 1",
                  VALUES(value_text(results_hex(config_digest, arena))), &run_id, diag);
  if (found != 1) return found;
  if (results_begin(self, diag)) return -1;
  return results_end(self, set_point(self, row, point, run_id, diag) ? -1 : 1, diag);
}

static double column_or(sqlite3_stmt *statement, int column, double if_null) {
  return sqlite3_column_type(statement, column) == SQLITE_NULL
             ? if_null
             : sqlite3_column_double(statement, column);
}

int sweep_times(Results *results, int64_t sweep, SweepTimes *ret_times, Diag *diag) {
  static const char sql[] =
      "SELECT point, max(value) FILTER (WHERE name = 'time_share'), "
      "max(value) FILTER (WHERE name = 'far_time_share'), "
      "max(value) FILTER (WHERE name = 'perfmodel_error'), "
      "max(value) FILTER (WHERE name = 'perfmodel_measured') "
      "FROM point JOIN metric USING (run_id) WHERE sweep_id = ? AND scope = 'extrapolated' "
      "GROUP BY point ORDER BY point";
  *ret_times = (SweepTimes){.point = -1};
  CLEANUP_STATEMENT sqlite3_stmt *statement = results_prepare(results, sql, diag);
  if (!statement) return -1;
  sqlite3_bind_int64(statement, 1, sweep);
  int status;
  while ((status = sqlite3_step(statement)) == SQLITE_ROW) {
    const double most = ret_times->times.extrapolated;
    const ExtrapolatedFigures figures = {.time_share = column_or(statement, 1, 0),
                                         .far_time_share = column_or(statement, 2, 0),
                                         .perfmodel_error = column_or(statement, 3, NAN),
                                         .perfmodel_measured = column_or(statement, 4, 1)};
    times_add(&ret_times->times, &figures);
    if (ret_times->times.extrapolated > most) ret_times->point = sqlite3_column_int64(statement, 0);
  }
  return status == SQLITE_DONE ? 0 : results_error(results, "read", diag);
}
