/* What the database says of the iteration times behind the points of a sweep. */
#include "experiments/sweep/sweep.h"
#include <math.h>

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
