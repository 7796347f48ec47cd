/* The database: what a run writes into each table, and that the schema is the one the program
 * expects. What happens when writing fails is shown by tests/cli/results.sh. */
#include "base/folder.h"
#include "experiments/results/results.h"
#include "tests/unit/testing.h"
#include <math.h>

static Results results;

static void begin(void) {
  setup_folder();
  path = in_folder("runs.db");
  cr_assert_eq(results_open(&results, path, getenv("TANDEM_DATA"), &arena, &diag), 0);
}

static void end(void) {
  results_close(&results);
  teardown_folder();
}

TestSuite(results, .init = begin, .fini = end);

/* The single value of a query. */
static double ask(const char *sql) {
  sqlite3_stmt *statement = NULL;
  cr_assert_eq(sqlite3_prepare_v2(results.db, sql, -1, &statement, NULL), SQLITE_OK, "%s: %s", sql,
               sqlite3_errmsg(results.db));
  cr_assert_eq(sqlite3_step(statement), SQLITE_ROW, "%s", sql);
  double value = sqlite3_column_double(statement, 0);
  cr_assert_eq(sqlite3_step(statement), SQLITE_DONE, "%s", sql);
  sqlite3_finalize(statement);
  return value;
}

/* The same of the query 'summary'. */
static double ask_summary(const char *what) {
  const char *file =
      arena_printf(&arena, "%s/experiments/queries/summary.sql", getenv("TANDEM_DATA"));
  const char *sql = folder_text(file, &arena, &diag);
  cr_assert_not_null(sql);
  const int length = (int)strcspn(sql, ";");
  return ask(arena_printf(&arena, "SELECT %s FROM (%.*s)", what, length, sql));
}

/* A small cluster that has run: three machines in two pools. */
typedef struct Ran {
  Config config;
  SimResult result;
  Report report;
} Ran;

static int store_request(void *context, const RequestRecord *record, const Metrics *so_far,
                         Diag *to) {
  (void)so_far;
  (void)context;
  return results_add_request(&results, record, to);
}

static void run_text(Ran *ran, const char *text, bool requests) {
  const char *yaml = in_folder("small.yaml");
  write_file(yaml, text);
  int status = config_load(&ran->config, yaml, NULL, &arena, &diag) ||
               config_open_trace(&ran->config, &arena, &diag);
  unlink(yaml);
  if (requests) ran->config.sim.on_request = store_request;
  if (status == 0) status = sim_run(&ran->config.sim, &ran->result, &arena, &diag);
  diag_print(&diag, stderr);
  cr_assert_eq(status, 0);
  trace_close(ran->config.sim.trace);
  report_init(&ran->report, &ran->config, &ran->result, 1.5, 2.5, &arena);
}

static void run_small(Ran *ran, bool requests) {
  static const char text[] = "model: llama2-70b\n"
                             "workload: {lengths: {prompt: {constant: 300}, output: {constant: 9}},"
                             " arrivals: {process: fixed, rate: 5 /s}, requests: 25}\n"
                             "pools:\n"
                             "  front: {role: prefill, machine: dgx-h100, count: 2}\n"
                             "  back: {role: decode, machine: dgx-a100}\n"
                             "slo: splitwise\n";
  run_text(ran, text, requests);
}

Test(results, the_schema_is_of_the_version_the_program_knows) {
  cr_expect_eq(ask("PRAGMA user_version"), RESULTS_SCHEMA_VERSION);
  results_close(&results);
  cr_expect_eq(results_open(&results, path, "nowhere", &arena, &diag), 0, "opened again");
}

Test(results, a_run_has_its_rows_in_every_table) {
  static const struct {
    const char *sql;
    double value;
  } rows[] = {
      {"SELECT count(*) FROM run", 1},
      {"SELECT status = 'done' AND seed = 1 AND tie_seed = 0 FROM run", 1},
      {"SELECT wall_s FROM run", 2.5},
      {"SELECT cpu_s FROM run", 1.5},
      {"SELECT config_digest = '00000000000000ab' FROM run", 1},
      {"SELECT length(digest) FROM run", 16},
      {"SELECT count(*) FROM param WHERE value = 'dgx-h100'", 1},
      {"SELECT value FROM param WHERE key = 'pools.front.count'", 2},
      {"SELECT count(*) FROM pool", 2},
      {"SELECT count FROM pool WHERE name = 'front' AND pool = 0 AND role = 'prefill'", 2},
      {"SELECT count(*) FROM machine", 3},
      {"SELECT sum(prefill_tokens) FROM machine WHERE pool = 0", 25 * 300},
      {"SELECT sum(decode_tokens) FROM machine WHERE pool = 1", 25 * 8},
      {"SELECT value FROM metric WHERE scope = 'run' AND name = 'completed'", 25},
      {"SELECT count(*) FROM metric WHERE name = 'ttft_s'", 6},
      {"SELECT count(*) FROM metric WHERE scope = 'pool.back'",
       (sizeof(PoolFigures) + sizeof(MachineFigures)) / sizeof(double) + REPORT_STATISTICS},
      {"SELECT sum(count) FROM histogram WHERE name = 'ttft_s'", 25},
      {"SELECT sum(count) FROM histogram WHERE name = 'tbt_s'", 25 * 8},
      {"SELECT min(high > low) FROM histogram", 1},
      {"SELECT count(*) FROM slo WHERE value > 0", 9},
      {"SELECT count(*) FROM request", 0},
  };
  Ran ran;
  run_small(&ran, false);
  cr_assert_eq(results_add_run(&results, &ran.report, 0xab, &arena, &diag), 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    cr_expect_eq(ask(rows[i].sql), rows[i].value, "%s gives %g", rows[i].sql, ask(rows[i].sql));
  cr_expect_eq(ask_summary("completed"), 25);
  cr_expect_eq(ask_summary("slo_met LIKE '%/9'"), 1);
}

/* Every figure of machines and requests is a column, and a database of a program that knew fewer
 * gets those that it lacks, with nothing in the rows that are there. */
Test(results, a_database_without_a_figure_gets_its_column) {
  Ran ran;
  for (const Figure *figure = report_figures; figure->name; figure++) {
    const char *table = figure->level == LEVEL_MACHINE ? "machine" : "request";
    if (figure->level != LEVEL_MACHINE && figure->level != LEVEL_REQUEST) continue;
    cr_expect_eq(ask(arena_printf(&arena,
                                  "SELECT count(*) FROM pragma_table_info('%s') WHERE name"
                                  " = '%s'",
                                  table, figure->name)),
                 1, "%s in %s", figure->name, table);
  }
  run_small(&ran, true);
  cr_assert_eq(results_add_run(&results, &ran.report, 0, &arena, &diag), 0);
  cr_assert_eq(results_execute(&results,
                               "ALTER TABLE machine DROP COLUMN busy_s;"
                               "ALTER TABLE request DROP COLUMN computing_s",
                               "change", &diag),
               0);
  results_close(&results);
  cr_assert_eq(results_open(&results, path, getenv("TANDEM_DATA"), &arena, &diag), 0);
  run_small(&ran, true);
  cr_assert_eq(results_add_run(&results, &ran.report, 0, &arena, &diag), 0);
  cr_expect_eq(ask("SELECT count(*) FROM machine WHERE (busy_s IS NULL) = (run_id = 1)"), 6);
  cr_expect_eq(ask("SELECT count(*) FROM request WHERE (computing_s IS NULL) = (run_id = 1)"), 50);
  cr_expect_eq(ask("SELECT min(abs(prefill_s + decode_s + mixed_s - busy_s) < 1e-9) FROM machine"
                   " WHERE run_id = 2"),
               1);
}

/* Machines, pools and the run have the same figures, which add up. */
Test(results, figures_of_machines_add_up) {
  Ran ran;
  run_small(&ran, false);
  cr_assert_eq(results_add_run(&results, &ran.report, 0, &arena, &diag), 0);
  int n_met = 0;
  for (const Figure *figure = report_figures; figure->name; figure++) {
    if (figure->level != LEVEL_MACHINE) continue;
    const char *name = figure->name;
    const double machines = ask(arena_printf(&arena, "SELECT sum(%s) FROM machine", name));
    const char *value = "SELECT sum(value) FROM metric WHERE name = '%s' AND scope %s 'run'";
    cr_expect_float_eq(ask(arena_printf(&arena, value, name, "=")), machines, 1e-9, "%s", name);
    cr_expect_float_eq(ask(arena_printf(&arena, value, name, "<>")), machines, 1e-9, "%s", name);
    n_met += machines > 0;
  }
  cr_expect_geq(n_met, 8);
}

/* GPUs that change their shape, with a store for two prompts of 300 tokens at a time. */
static void run_group(Ran *ran) {
  static const char text[] =
      "model: codellama-34b\n"
      "workload: {lengths: {prompt: {constant: 300}, output: {constant: 9}},"
      " arrivals: {process: at_once}, requests: 8}\n"
      "pools:\n"
      "  front: {role: prefill, machine: a10-x8, tensor_parallel_size: 1,"
      " pipeline_parallel_size: 4, data_parallel_size: 2}\n"
      "  back: {role: decode, machine: a10-x8, tensor_parallel_size: 4, data_parallel_size: 2}\n"
      "groups:\n"
      "  gpus: {prefill: front, decode: back, cpu_memory: 120 MiB}\n"
      "timeline: {interval: 10 ms}\n"
      "policies: {pool: {name: seesaw, finish: true}, batcher: continuous}\n"
      "perfmodel: {name: roofline}\n";
  run_text(ran, text, false);
}

Test(results, groups_have_figures_and_a_timeline) {
  static const struct {
    const char *sql;
    double value;
  } rows[] = {
      {"SELECT count(*) FROM metric WHERE scope = 'group.gpus'",
       sizeof(GroupFigures) / sizeof(double)},
      {"SELECT value FROM metric WHERE name = 'replicas'", 2},
      {"SELECT value FROM metric WHERE name = 'turns'", 6},
      {"SELECT value FROM metric WHERE name = 'copied_out_bytes'", 8 * 300 * 196608.0},
      {"SELECT value FROM metric WHERE name = 'copied_in_bytes'", 8 * 300 * 196608.0},
      {"SELECT value FROM metric WHERE name = 'most_stored_blocks'", 2 * 19},
      {"SELECT value FROM metric WHERE name = 'store_blocks'", 40},
      {"SELECT count(*) FROM timeline WHERE \"group\" <> 'gpus'", 0},
      {"SELECT count(DISTINCT replica) FROM timeline", 2},
      {"SELECT count(*) FROM timeline WHERE at_s = 0 AND activity = 'prefill'", 2},
      {"SELECT count(*) FROM timeline WHERE activity = 'reshard' AND gpu_blocks > 0", 0},
      {"SELECT count(*) > 6 FROM timeline WHERE activity = 'decode' AND gpu_blocks > 0", 1},
      {"SELECT max(store_blocks) FROM timeline", 2 * 19},
      {"SELECT abs((SELECT sum(value) FROM metric WHERE scope = 'group.gpus' AND unit = 's') -"
       " 2 * (SELECT value FROM metric WHERE name = 'duration_s')) < 1e-6",
       1},
      {"SELECT abs((SELECT sum(value) FROM metric WHERE scope = 'pool.back' AND name IN"
       " ('prefill_s', 'decode_s', 'mixed_s')) - (SELECT value FROM metric WHERE scope ="
       " 'pool.back' AND name = 'busy_s')) < 1e-6",
       1},
  };
  Ran ran;
  run_group(&ran);
  cr_assert_eq(results_add_run(&results, &ran.report, 0, &arena, &diag), 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    cr_expect_eq(ask(rows[i].sql), rows[i].value, "%s gives %g", rows[i].sql, ask(rows[i].sql));
}

/* The extremes of the histogram hold the extremes of the metric. */
Test(results, histograms_and_metrics_are_in_the_same_unit) {
  Ran ran;
  run_small(&ran, false);
  int n_observed = 0; // all but the time of sessions
  for (int i = 0; i < ran.report.n_latencies; i++)
    n_observed += ran.report.latencies[i].histogram->total > 0;
  cr_expect_eq(n_observed, ran.report.n_latencies - 1);
  cr_assert_eq(results_add_run(&results, &ran.report, 0, &arena, &diag), 0);
  cr_expect_eq(ask("SELECT count(*) FROM metric JOIN (SELECT name, max(low) AS low, max(high) AS"
                   " high FROM histogram GROUP BY name) USING (name) WHERE statistic = 'max' AND"
                   " scope = 'run' AND value >= low AND value < high"),
               n_observed);
}

Test(results, requests_are_stored_with_the_run_or_not_at_all) {
  Ran ran;
  run_small(&ran, true);
  cr_expect_eq(ask("SELECT count(*) FROM request"), 25);
  results_close(&results); // without results_add_run
  cr_assert_eq(results_open(&results, path, getenv("TANDEM_SOURCE_DIR"), &arena, &diag), 0);
  cr_expect_eq(ask("SELECT count(*) FROM request"), 0);

  run_small(&ran, true);
  cr_assert_eq(results_add_run(&results, &ran.report, 0, &arena, &diag), 0);
  cr_expect_eq(ask("SELECT count(*) FROM request JOIN run ON run.id = run_id"), 25);
  cr_expect_eq(ask("SELECT count(*) FROM request WHERE prompt_tokens = 300 AND output_tokens = 9"
                   " AND prefill_machine IN (0, 1) AND decode_machine = 2 AND NOT rejected"),
               25);
  cr_expect_eq(ask("SELECT count(*) FROM request WHERE arrived_s <= prefill_began_s AND"
                   " prefill_began_s < first_token_s AND first_token_s <= decode_began_s AND"
                   " decode_began_s < last_token_s"),
               25);
}

Test(results, runs_are_counted_up) {
  Ran ran;
  for (int i = 1; i <= 3; i++) {
    run_small(&ran, false);
    cr_assert_eq(results_add_run(&results, &ran.report, 0, &arena, &diag), 0);
    cr_expect_eq(ask("SELECT max(id) FROM run"), i);
  }
  cr_expect_eq(ask_summary("count(*)"), 3);
}

/* What another connection sees. */
static double ask_elsewhere(const char *sql) {
  const Results mine = results;
  cr_assert_eq(results_open_reader(&results, path, &arena, &diag), 0);
  const double value = ask(sql);
  results_close(&results);
  results = mine;
  return value;
}

Test(results, runs_share_a_transaction_for_as_long_as_it_may_last) {
  static const char count[] = "SELECT count(*) FROM run";
  Ran ran;
  run_small(&ran, false);
  cr_expect(isinf(results_due(&results)));
  results_batch(&results, 3600);
  for (int i = 1; i <= 2; i++)
    cr_assert_eq(results_add_run(&results, &ran.report, 0, &arena, &diag), 0);
  cr_expect(results_due(&results) > 0 && results_due(&results) <= 3600);
  cr_expect_eq(ask(count), 2);
  cr_expect_eq(ask_elsewhere(count), 0);
  cr_assert_eq(results_flush(&results, &diag), 0);
  cr_expect_eq(ask_elsewhere(count), 2);
  cr_expect(isinf(results_due(&results)));
  cr_assert_eq(results_add_run(&results, &ran.report, 0, &arena, &diag), 0);
  results_batch(&results, 0); // the third one's is due
  cr_assert_eq(results_add_run(&results, &ran.report, 0, &arena, &diag), 0);
  cr_expect_eq(ask_elsewhere(count), 4);
}

Test(results, what_was_not_flushed_is_undone) {
  Ran ran;
  run_small(&ran, false);
  results_batch(&results, 3600);
  cr_assert_eq(results_add_run(&results, &ran.report, 0, &arena, &diag), 0);
  results_close(&results);
  cr_assert_eq(results_open(&results, path, getenv("TANDEM_SOURCE_DIR"), &arena, &diag), 0);
  cr_expect_eq(ask("SELECT count(*) FROM run") + ask("SELECT count(*) FROM metric"), 0);
}

Test(results, a_run_that_failed_has_its_configuration_and_a_reason) {
  Ran ran;
  run_small(&ran, false);
  cr_assert_eq(results_add_failure(&results, &ran.config, 0xcd, "no room", &arena, &diag), 0);
  cr_expect_eq(ask("SELECT status = 'failed' AND reason = 'no room' AND digest IS NULL FROM run"),
               1);
  cr_expect_eq(ask("SELECT value FROM param WHERE key = 'pools.front.count'"), 2);
  cr_expect_eq(ask("SELECT count(*) FROM metric"), 0);
  cr_expect_eq(ask_summary("sum(status = 'failed')"), 1);
}

Test(results, only_runs_that_ended_by_themselves_are_finished) {
  static const uint64_t added[] = {0xffffffffffffffff, 5, 0x8000000000000000};
  Ran ran;
  run_small(&ran, false);
  for (int i = 0; i < 3; i++)
    cr_assert_eq(results_add_run(&results, &ran.report, added[i], &arena, &diag), 0);
  cr_assert_eq(results_add_failure(&results, &ran.config, 6, "no room", &arena, &diag), 0);
  ran.result.stopped = true;
  cr_assert_eq(results_add_run(&results, &ran.report, 7, &arena, &diag), 0);
  cr_expect_eq(ask("SELECT count(*) FROM run WHERE status = 'stopped'"), 1);
  DigestSet set;
  cr_assert_eq(results_finished(&results, &set, &arena, &diag), 0);
  cr_expect_eq(set.n, 3);
  for (int i = 0; i < 3; i++)
    cr_expect(digest_set_has(&set, added[i]));
  cr_expect(!digest_set_has(&set, 6) && !digest_set_has(&set, 7));
}

static int count_files(void) {
  int n = 0;
  DIR *listing = opendir(folder);
  while (readdir(listing))
    n++;
  closedir(listing);
  return n;
}

Test(results, one_without_a_name_is_nowhere_until_it_is_published) {
  Ran ran;
  UnnamedFile unnamed;
  const char *published = in_folder("published.db");
  run_small(&ran, false);
  results_close(&results);
  const int n_files = count_files();
  cr_assert_eq(unnamed_open(&unnamed, published, &arena, &diag), 0);
  cr_expect_eq(count_files(), n_files);
  cr_assert_eq(results_open_unnamed(&results, &unnamed, getenv("TANDEM_DATA"), &arena, &diag), 0);
  cr_assert_eq(results_add_run(&results, &ran.report, 0, &arena, &diag), 0);
  cr_expect_eq(count_files(), n_files);
  results_close(&results);
  cr_assert_eq(unnamed_publish(&unnamed, &diag), 0);
  unnamed_close(&unnamed);
  cr_expect_eq(count_files(), n_files + 1);
  cr_assert_eq(results_open_reader(&results, published, &arena, &diag), 0);
  cr_expect_eq(ask("SELECT count(*) FROM run"), 1);
}

Test(results, a_reader_cannot_write) {
  Results reader;
  cr_assert_eq(results_open_reader(&reader, path, &arena, &diag), 0);
  cr_expect_neq(sqlite3_exec(reader.db, "DELETE FROM run", NULL, NULL, NULL), SQLITE_OK);
  results_close(&reader);
}
