/* Rows of sweep, shard, axis, point and point_value. */
#include "experiments/sweep/rows.h"
#include "base/hash.h"
#include "experiments/base/version.h"
#include "experiments/results/results.h"
#include <string.h>

static uint64_t fold_text(uint64_t hash, const char *text) {
  return hash_fold(hash, hash_bytes(text, strlen(text)));
}

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
  const uint64_t program = fold_text(fold_text(0, tandem_version), row->epoch);
  const uint64_t hash = fold_text(program, row->text);
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
