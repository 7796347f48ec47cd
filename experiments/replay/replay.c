/* See replay.h. */
#include "experiments/replay/replay.h"
#include "base/cleanup.h"
#include "experiments/base/epoch.h"
#include "experiments/base/version.h"
#include "experiments/campaign/campaign.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool replay_is_database(const char *path) {
  static const char magic[] = "SQLite format 3"; // and a NUL
  char head[sizeof magic];
  CLEANUP_FILE FILE *file = fopen(path, "rb");
  return file && fread(head, 1, sizeof head, file) == sizeof head &&
         memcmp(head, magic, sizeof head) == 0;
}

/* What a row of `run` says that matters here. */
typedef struct Stored {
  const char *name, *config, *config_digest, *digest, *version, *status, *reason, *epoch;
} Stored;

/* ---- Finding the run ---- */

static int find_run(Results *results, const char *run, int64_t *ret_run, Diag *diag) {
  int64_t n = 0;
  if (run) return results_find_run(results, run, ret_run, diag);
  if (results_ask(results, "SELECT count(*) FROM run", NULL, 0, &n, diag) < 0) return -1;
  if (n == 1)
    return results_ask(results, "SELECT id FROM run", NULL, 0, ret_run, diag) < 0 ? -1 : 0;
  diag_error(diag, place_of_file(NULL), "'%s' has %lld runs: name one", results->path,
             (long long)n);
  results_hint_runs(results, diag);
  return -1;
}

/* "" of NULL, which a database from elsewhere may have where the schema has none. */
static const char *text_of(sqlite3_stmt *statement, int column, Arena *arena) {
  const char *text = (const char *)sqlite3_column_text(statement, column);
  return text ? arena_copy(arena, text, strlen(text)) : "";
}

static int read_run(Results *results, int64_t run, Stored *ret_stored, Arena *arena, Diag *diag) {
  static const char sql[] = "SELECT name, config, config_digest, digest, version, status, reason, "
                            "epoch FROM run WHERE id = ?";
  CLEANUP_STATEMENT sqlite3_stmt *statement = results_prepare(results, sql, diag);
  if (!statement) return -1;
  sqlite3_bind_int64(statement, 1, run);
  const int status = sqlite3_step(statement);
  if (status == SQLITE_DONE) {
    diag_error(diag, place_of_file(NULL), "'%s' has no run %lld", results->path, (long long)run);
    results_hint_runs(results, diag);
    return -1;
  }
  if (status != SQLITE_ROW) return results_error(results, "read", diag);
  const char **const fields[] = {
      &ret_stored->name,    &ret_stored->config, &ret_stored->config_digest, &ret_stored->digest,
      &ret_stored->version, &ret_stored->status, &ret_stored->reason,        &ret_stored->epoch};
  for (int i = 0; i < 8; i++)
    *fields[i] = text_of(statement, i, arena);
  return 0;
}

static int find(const char *path, const char *run, int64_t *ret_run, Stored *ret_stored,
                Arena *arena, Diag *diag) {
  Results results;
  if (results_open_reader(&results, path, arena, diag)) return -1;
  const int status = find_run(&results, run, ret_run, diag) ||
                     read_run(&results, *ret_run, ret_stored, arena, diag);
  results_close(&results);
  return status ? -1 : 0;
}

/* ---- Whether this program can have it again ---- */

static int check_stored(const Replay *self, const Stored *stored, Diag *diag) {
  const Place at = place_of_file(self->source);
  if (strcmp(stored->status, "failed") == 0)
    return diag_error(diag, at, "the run failed: %s", stored->reason);
  if (strcmp(stored->status, "stopped") == 0) {
    diag_error(diag, at, "the run was ended early by a study, so it cannot be replayed");
    return diag_hint(diag, "'tandem run' simulates its configuration completely");
  }
  const bool measured = strcmp(stored->epoch, RESULTS_MEASURED) == 0;
  if (!measured && !epoch_is_stale(stored->epoch) && strcmp(stored->version, tandem_version) == 0)
    return 0;
  diag_error(
      diag, at,
      "another version of the program, with other outcomes, made the run: version %s, epoch %s",
      stored->version, stored->epoch);
  return diag_hint(
      diag, "simulate the configuration with this program, or replay the run with that version");
}

static int check_inputs(const Replay *self, const Stored *stored, Arena *arena, Diag *diag) {
  uint64_t digest = 0;
  if (config_digest(&self->config, &digest, diag)) return -1;
  if (strcmp(stored->config_digest, results_hex(digest, arena)) == 0) return 0;
  diag_error(diag, place_of_file(self->source),
             "a trace or data file of the run has changed since, or 'validate' measured it");
  return diag_hint(diag, "simulate the configuration again, or restore the file");
}

int replay_load(Replay *self, const char *path, const char *run, Arena *arena, Diag *diag) {
  Stored stored = {0};
  *self = (Replay){.source = path};
  if (find(path, run, &self->run, &stored, arena, diag)) return -1;
  self->source = arena_printf(arena, "%s: run %lld", path, (long long)self->run);
  self->digest = stored.digest;
  if (check_stored(self, &stored, diag)) return -1;
  Node *root = yaml_parse(self->source, stored.config, strlen(stored.config), arena, diag);
  if (!root) return -1;
  if (config_bind(&self->config, stored.name, root, NULL, NULL, arena, diag) == 0)
    return check_inputs(self, &stored, arena, diag);
  if (access(stored.name, F_OK) != 0)
    diag_hint(diag, "paths are tried from the current folder and beside '%s', which does not exist",
              stored.name);
  return -1;
}

int replay_load_config(Replay *self, const char *path, const ConfigChanges *changes, Arena *arena,
                       Diag *diag) {
  *self = (Replay){.source = path};
  return config_load(&self->config, path, changes, arena, diag);
}

int replay_run(Replay *self, Arena *arena, Diag *diag) {
  if (config_simulate(&self->config, &self->config.sim, &self->result, &self->report, arena, diag))
    return -1;
  const char *digest = results_hex(self->result.digest, arena);
  if (!self->digest || strcmp(self->digest, digest) == 0) return 0;
  diag_error(diag, place_of_file(self->source), "the outcomes had digest %s, and now have %s",
             self->digest, digest);
  return diag_hint(diag,
                   "another build of the program made the run: simulate the configuration again");
}
