/* A stored run is had again with the same outcomes, or it is said why not. */
#include "experiments/replay/replay.h"
#include "experiments/results/results.h"
#include "tests/unit/testing.h"

static const char *config_path, *trace_path, *db_path;

static void write_trace(int prompt_tokens) {
  write_file(trace_path, arena_printf(&arena,
                                      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                      "2023-11-16 18:15:46.0000000,%d,44\n"
                                      "2023-11-16 18:15:46.5000000,396,109\n"
                                      "2023-11-16 18:15:47.0000000,879,55\n",
                                      prompt_tokens));
}

/* Runs the configuration and stores it. */
static void store(void) {
  Replay ran;
  Results results;
  uint64_t digest = 0;
  int status = replay_load_config(&ran, config_path, NULL, &arena, &diag) ||
               replay_run(&ran, &arena, &diag) || config_digest(&ran.config, &digest, &diag) ||
               results_open(&results, db_path, getenv("TANDEM_DATA"), &arena, &diag) ||
               results_add_run(&results, &ran.report, digest, &arena, &diag);
  diag_print(&diag, stderr);
  cr_assert_eq(status, 0);
  results_close(&results);
}

static void begin(void) {
  setup_folder();
  config_path = in_folder("small.yaml");
  trace_path = in_folder("trace.csv");
  db_path = in_folder("runs.db");
  write_file(config_path, "model: llama2-70b\n"
                          "workload: {trace: trace.csv}\n"
                          "pools:\n"
                          "  front: {role: prefill, machine: dgx-h100, count: 2}\n"
                          "  back: {role: decode, machine: dgx-a100}\n");
  write_trace(374);
  store();
}

TestSuite(replay, .init = begin, .fini = teardown_folder);

static void change(const char *sql) {
  sqlite3 *db = NULL;
  cr_assert_eq(sqlite3_open(db_path, &db), SQLITE_OK);
  cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
  sqlite3_close(db);
}

/* It is refused with this message, and maybe only once it has run. */
static void refuses(const char *run, const char *message) {
  Replay replay;
  cr_assert(replay_load(&replay, db_path, run, &arena, &diag) < 0 ||
            replay_run(&replay, &arena, &diag) < 0);
  cr_assert_gt(diag.n_entries, 0);
  cr_expect(strstr(diag.entries[0].message, message), "'%s', not '%s'", diag.entries[0].message,
            message);
}

Test(replay, a_run_is_what_it_was) {
  Replay replay;
  unlink(config_path); // the database has it
  cr_assert_eq(replay_load(&replay, db_path, NULL, &arena, &diag), 0);
  cr_expect_eq(replay.run, 1);
  cr_assert_eq(replay_run(&replay, &arena, &diag), 0);
  cr_expect_eq(replay.result.metrics.completed, 3);
  cr_expect_str_eq(replay.digest, results_hex(replay.result.digest, &arena));
}

Test(replay, databases_are_told_from_configurations) {
  cr_expect(replay_is_database(db_path));
  cr_expect_not(replay_is_database(config_path));
  cr_expect_not(replay_is_database(folder));
  cr_expect_not(replay_is_database(in_folder("nothing")));
}

Test(replay, of_several_runs_one_is_named) {
  write_trace(375);
  store();
  Replay replay;
  cr_assert_eq(replay_load(&replay, db_path, "2", &arena, &diag), 0);
  refuses(NULL, "has 2 runs: name one");
}

Test(replay, no_other_run_is_named) {
  refuses("2", "has no run 2");
  cr_expect(strstr(diag.entries[0].hint, "from 1 to 1"));
}

Test(replay, a_name_is_no_number) {
  refuses("1x", "by its number, not '1x'");
}

Test(replay, a_changed_trace_is_noticed) {
  write_trace(375);
  refuses("1", "a trace or data file");
}

Test(replay, a_missing_trace_is_noticed) {
  unlink(trace_path);
  refuses("1", "trace.csv");
}

Test(replay, other_outcomes_are_refused) {
  change("UPDATE run SET epoch = '00'");
  refuses("1", "another version of the program, with other outcomes, made the run");
}

Test(replay, another_digest_is_refused) {
  change("UPDATE run SET digest = '00'");
  refuses("1", "had digest 00");
}

Test(replay, a_run_that_failed_says_why) {
  change("UPDATE run SET status = 'failed', reason = 'no memory'");
  refuses("1", "the run failed: no memory");
}

Test(replay, a_run_that_was_ended_early_is_refused) {
  change("UPDATE run SET status = 'stopped'");
  refuses("1", "study, so it cannot be replayed");
}
