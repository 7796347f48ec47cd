/* Databases are attached one after the other to the new one, which has no name until it is whole.
 * Runs and studies get new numbers; tables whose first column is run_id or study_id follow them,
 * whatever else they hold. An outcome is taken before a failure of the same point. */
#include "experiments/results/results.h"
#include <inttypes.h>
#include <sys/stat.h>

/* ---- One database into the new one ---- */

/* Which numbers the runs, sweeps and studies of the source get. A configuration that has ended in
 * both is the run that is there. */
static const char make_maps[] =
    "CREATE TEMP TABLE run_map (old INTEGER PRIMARY KEY, new INTEGER, fresh INTEGER NOT NULL);"
    "INSERT INTO run_map SELECT id, there, there IS NULL FROM (SELECT id, (SELECT min(m.id) "
    "  FROM main.run m WHERE m.config_digest = s.config_digest AND CASE s.status "
    "  WHEN 'stopped' THEN m.status = 'stopped' AND m.digest = s.digest "
    "  ELSE m.status IN ('done', 'stalled') END) AS there FROM source.run s);"
    "UPDATE run_map SET new = (SELECT coalesce(max(id), 0) FROM main.run) + (SELECT count(*) FROM "
    "  run_map o WHERE o.fresh AND o.old <= run_map.old) WHERE fresh;"
    "INSERT INTO main.sweep SELECT NULL, digest, name, config, version, epoch, points, created_at "
    "  FROM source.sweep WHERE true ON CONFLICT (digest) DO NOTHING;"
    "CREATE TEMP TABLE sweep_map AS SELECT s.id AS old, m.id AS new "
    "  FROM source.sweep s JOIN main.sweep m USING (digest);"
    "CREATE TEMP TABLE study_map AS SELECT id AS old, (SELECT coalesce(max(id), 0) FROM main.study)"
    "  + row_number() OVER (ORDER BY id) AS new, 1 AS fresh FROM source.study s WHERE NOT EXISTS "
    "  (SELECT * FROM main.study m WHERE m.config = s.config AND m.created_at = s.created_at);";

/* A statement per table of rows about runs and studies; what a program with fewer figures left out
 * is NULL. */
static const char copy_rows[] =
    "WITH tables AS (SELECT name, (SELECT name FROM pragma_table_info(m.name) WHERE cid = 0) AS "
    "  key FROM main.sqlite_master m WHERE type = 'table'), "
    "owners AS (SELECT 'run' AS owner UNION SELECT 'study') "
    "SELECT 'INSERT INTO main.\"' || name || '\" SELECT new, ' || (SELECT group_concat(value, ', "
    "') FROM (SELECT iif(name IN (SELECT name FROM pragma_table_info(tables.name, 'source')), "
    "  't.\"' || name || '\"', 'NULL') AS value FROM pragma_table_info(tables.name, 'main') "
    "  WHERE cid > 0 ORDER BY cid)) || ' FROM source.\"' || name || '\" t JOIN ' || owner || '_map "
    "ON old = t.' || key || ' WHERE fresh' "
    "FROM tables JOIN owners ON name = owner OR key = owner || '_id'";

static const char copy_sweeps[] =
    "INSERT OR IGNORE INTO main.shard SELECT new, shard, shards FROM source.shard "
    "  JOIN sweep_map ON old = sweep_id;"
    "INSERT OR IGNORE INTO main.axis SELECT new, axis, name FROM source.axis "
    "  JOIN sweep_map ON old = sweep_id;"
    "INSERT INTO main.point SELECT s.new, point, r.new FROM source.point p "
    "  JOIN sweep_map s ON s.old = p.sweep_id JOIN run_map r ON r.old = p.run_id WHERE true "
    "  ON CONFLICT DO UPDATE SET run_id = excluded.run_id "
    "  WHERE (SELECT status FROM main.run WHERE id = point.run_id) = 'failed';"
    "INSERT OR IGNORE INTO main.point_value SELECT new, point, axis, value "
    "  FROM source.point_value JOIN sweep_map ON old = sweep_id;"
    "DELETE FROM main.run WHERE status = 'failed' AND id NOT IN (SELECT run_id FROM main.point);"
    "DROP TABLE run_map; DROP TABLE sweep_map; DROP TABLE study_map;";

static int check_versions(Results *out, const char *path, Arena *arena, Diag *diag) {
  static const char sql[] =
      "SELECT s.version || ''', others of version ''' || m.version FROM "
      "(SELECT version FROM source.run UNION SELECT version FROM source.sweep) s JOIN "
      "(SELECT version FROM main.run UNION SELECT version FROM main.sweep UNION "
      " SELECT version FROM source.run) m ON s.version <> m.version LIMIT 1";
  const char *versions = NULL;
  const int differ = results_ask_text(out, sql, NULL, 0, &versions, arena, diag);
  if (differ != 1) return differ;
  diag_error(diag, place_of_file(path), "'%s' has runs of version '%s'", path, versions);
  return diag_hint(diag, "runs of different versions cannot be compared");
}

static int check_outcomes(Results *out, const char *path, Arena *arena, Diag *diag) {
  static const char same_config[] =
      "SELECT s.name || ''', configuration ' || s.config_digest FROM source.run s "
      "JOIN main.run m USING (config_digest) WHERE s.status IN ('done', 'stalled') "
      "AND m.status IN ('done', 'stalled') AND s.digest <> m.digest LIMIT 1";
  static const char same_point[] =
      "SELECT sweep.name || ''', point ' || p.point FROM source.point p "
      "JOIN source.sweep ON sweep.id = p.sweep_id JOIN source.run s ON s.id = p.run_id "
      "JOIN main.sweep t ON t.digest = sweep.digest "
      "JOIN main.point q ON q.sweep_id = t.id AND q.point = p.point "
      "JOIN main.run m ON m.id = q.run_id WHERE s.status <> 'failed' AND m.status <> 'failed' "
      "AND s.config_digest <> m.config_digest LIMIT 1";
  const char *what = NULL;
  int differ = results_ask_text(out, same_config, NULL, 0, &what, arena, diag);
  if (differ == 1)
    diag_error(diag, place_of_file(path), "'%s' has another outcome of '%s", path, what);
  if (differ == 0) {
    differ = results_ask_text(out, same_point, NULL, 0, &what, arena, diag);
    if (differ == 1)
      diag_error(diag, place_of_file(path), "'%s' was made with other data files: '%s", path, what);
  }
  return differ ? -1 : 0;
}

/* Runs the statements that a query gives. */
static int execute_all(Results *out, const char *query, Arena *arena, Diag *diag) {
  const char *const *texts = results_texts(out, query, arena, diag);
  for (const char *const *text = texts; text && *text; text++)
    if (results_execute(out, *text, "write", diag)) return -1;
  return texts ? 0 : -1;
}

static int copy_attached(Results *out, const char *path, Arena *arena, Diag *diag) {
  if (results_execute(out, "BEGIN; PRAGMA defer_foreign_keys = ON", "write", diag) ||
      check_versions(out, path, arena, diag) || check_outcomes(out, path, arena, diag) ||
      results_execute(out, make_maps, "write", diag) || execute_all(out, copy_rows, arena, diag) ||
      results_execute(out, copy_sweeps, "write", diag))
    return -1;
  return results_execute(out, "COMMIT", "write", diag);
}

static struct timespec written_at(const char *path) {
  struct stat status;
  return stat(path, &status) ? (struct timespec){0} : status.st_mtim;
}

static int check_unchanged(const Results *source, struct timespec before, Diag *diag) {
  const struct timespec now = written_at(source->path);
  if (!source->unchanging || (now.tv_sec == before.tv_sec && now.tv_nsec == before.tv_nsec))
    return 0;
  diag_error(diag, place_of_file(source->path), "'%s' was written to during the merge",
             source->path);
  return diag_hint(diag, "merge again");
}

static int add_database(Results *out, const char *path, Arena *arena, Diag *diag) {
  Results opened;
  const struct timespec before = written_at(path);
  if (results_check_unlocked(path, arena, diag) || results_open_source(&opened, path, arena, diag))
    return -1;
  const Results source = opened;
  results_close(&opened);
  out->source = path;
  if (results_change(out, "ATTACH ? AS source", VALUES(value_text(source.uri)), diag)) return -1;
  int status = copy_attached(out, path, arena, diag);
  if (status) sqlite3_exec(out->db, "ROLLBACK", NULL, NULL, NULL);
  if (status == 0) status = check_unchanged(&source, before, diag);
  sqlite3_exec(out->db, "DETACH source", NULL, NULL, NULL);
  out->source = NULL;
  return status;
}

/* ---- What is missing ---- */

/* A row per shard that lacks points; one per sweep when it was split in several ways. */
static const char missing_points[] =
    "WITH split AS (SELECT sweep_id, CASE WHEN min(shards) = max(shards) THEN max(shards) ELSE 1 "
    "  END AS shards FROM shard GROUP BY sweep_id), "
    "part AS (SELECT sweep.id, sweep.name, epoch, sweep.points, shards, 1 AS shard FROM sweep "
    "  JOIN split ON split.sweep_id = sweep.id UNION ALL "
    "  SELECT id, name, epoch, points, shards, shard + 1 FROM part WHERE shard < shards), "
    "held AS (SELECT part.*, (points - shard + shards) / shards AS wanted, (SELECT count(*) "
    "  FROM point WHERE sweep_id = part.id AND point % shards = shard - 1) AS had FROM part) "
    "SELECT 'sweep ''' || name || '''' || CASE WHEN (SELECT count(DISTINCT epoch) FROM sweep) > 1 "
    "  THEN ' of outcome epoch ' || substr(epoch, 5, 8) ELSE '' END || ' lacks ' || CASE WHEN "
    "shards = 1 THEN (wanted - had) || "
    "  ' of its ' || wanted || ' points' WHEN had = 0 THEN 'shard ' || shard || '/' || shards "
    "  ELSE (wanted - had) || ' of the ' || wanted || ' points of shard ' || shard || '/' || "
    "  shards END FROM held WHERE had < wanted ORDER BY id, shard";

static int find_missing(Merge *self, Results *out, Arena *arena, Diag *diag) {
  self->missing = results_texts(out, missing_points, arena, diag);
  if (!self->missing) return -1;
  if (self->partial || !*self->missing) return 0;
  for (const char *const *missing = self->missing; *missing; missing++)
    diag_error(diag, place_of_file(self->out), "%s", *missing);
  return diag_hint(diag, "submit the missing runs again, or merge the others with '--partial'");
}

static int fill(Merge *self, Results *out, Arena *arena, Diag *diag) {
  for (int i = 0; i < self->n_paths; i++)
    if (add_database(out, self->paths[i], arena, diag)) return -1;
  if (find_missing(self, out, arena, diag)) return -1;
  return results_count_runs(out, &self->runs, &self->stale, diag);
}

int merge_databases(Merge *self, Arena *arena, Diag *diag) {
  UnnamedFile unnamed;
  Results out;
  if (results_check_path(self->out, diag) || unnamed_open(&unnamed, self->out, arena, diag))
    return -1;
  int status = results_open_unnamed(&out, &unnamed, config_data_root(), arena, diag);
  if (status == 0) {
    status = fill(self, &out, arena, diag);
    results_close(&out);
  }
  if (status == 0) status = unnamed_publish(&unnamed, diag);
  unnamed_close(&unnamed);
  return status;
}
