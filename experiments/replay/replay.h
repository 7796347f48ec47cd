/* A stored run once more, so that it can be asked what the database does not keep: a run is a pure
 * function of its inputs, and the database has its whole configuration.
 *
 *     replay_load(&replay, "runs.db", "3", &arena, &diag)
 *     … replay.config.sim gets observers, which change no outcome, and a limit of memory …
 *     replay_run(&replay, &arena, &diag)                 replay.result, replay.report
 *
 * What is replayed is the run that was stored, or it is refused: where the program has other
 * outcomes, an input is gone or has changed, or the digest of the outcomes is another one. */
#ifndef EXPERIMENTS_REPLAY_REPLAY_H
#define EXPERIMENTS_REPLAY_REPLAY_H
#include "experiments/report/report.h"

typedef struct Replay {
  const char *source; // "runs.db: run 3", or the path of a configuration; for messages, not plain
  int64_t run;        // of the database; 0: a configuration, simulated for the first time
  const char *digest; // that its outcomes must have; NULL: any
  Config config;
  SimResult result; // by replay_run, like the next
  Report report;
} Replay;

/* Whether the file at `path` is an SQLite database rather than a configuration. */
bool replay_is_database(const char *path);
/* Loads the run with the number `run` of the database at `path`; NULL: its only run. -1 with
 * entries, also of relative paths that do not lead from here to what they did. */
int replay_load(Replay *self, const char *path, const char *run, Arena *arena, Diag *diag);
/* A configuration in its place, whatever its outcomes; as config_load. */
int replay_load_config(Replay *self, const char *path, const ConfigChanges *changes, Arena *arena,
                       Diag *diag);
/* Simulates and checks the outcomes; -1 with entries. */
int replay_run(Replay *self, Arena *arena, Diag *diag);
#endif
