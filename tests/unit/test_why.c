/* Databases that cannot say where time went: of a program that knew no parts, which is simulated
 * again, and of one whose outcomes nobody can have again. */
#include "experiments/why/why.h"
#include "tests/unit/testing.h"

static const char *db_path;

static int add_request(void *context, const RequestRecord *record, const Metrics *so_far, Diag *d) {
  (void)so_far;
  return results_add_request(context, record, d);
}

/* A run with its requests and their parts. */
static void begin(void) {
  setup_folder();
  db_path = in_folder("runs.db");
  const char *config_path = in_folder("small.yaml");
  write_file(config_path, "model: llama2-70b\n"
                          "workload:\n"
                          "  lengths: {prompt: {constant: 900}, output: {constant: 9}}\n"
                          "  arrivals: {process: fixed, rate: 20 /s}\n"
                          "  requests: 12\n"
                          "pools:\n"
                          "  front: {role: prefill, machine: dgx-h100}\n"
                          "  back: {role: decode, machine: dgx-a100}\n");
  Replay ran;
  Results results;
  uint64_t digest = 0;
  cr_assert_eq(replay_load_config(&ran, config_path, NULL, &arena, &diag), 0);
  cr_assert_eq(results_open(&results, db_path, getenv("TANDEM_DATA"), &arena, &diag), 0);
  ran.config.sim.keeps_parts = true;
  ran.config.sim.on_request = add_request;
  ran.config.sim.on_request_context = &results;
  cr_assert_eq(replay_run(&ran, &arena, &diag), 0);
  cr_assert_eq(config_digest(&ran.config, &digest, &diag), 0);
  cr_assert_eq(results_add_run(&results, &ran.report, digest, &arena, &diag), 0);
  results_close(&results);
}

TestSuite(why, .init = begin, .fini = teardown_folder);

static void change(const char *sql) {
  sqlite3 *db = NULL;
  cr_assert_eq(sqlite3_open(db_path, &db), SQLITE_OK);
  cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
  sqlite3_close(db);
}

/* What is said of the last request. */
static const char *ask(bool again) {
  Why why;
  FILE *out = tmpfile();
  char *text = arena_alloc(&arena, 1 << 14);
  cr_assert_eq(why_open(&why, db_path, NULL, 0, &arena, &diag), 0);
  cr_expect_eq(why.again, again);
  cr_assert_eq(why_request(&why, "11", OUTPUT_TABLE, out), 0);
  why_close(&why);
  rewind(out);
  text[fread(text, 1, (1 << 14) - 1, out)] = '\0';
  fclose(out);
  return text;
}

Test(why, a_database_without_parts_is_asked_as_one_with_them) {
  const char *said = ask(false);
  cr_expect(strstr(said, "request 11"));
  change("ALTER TABLE request DROP COLUMN swapped_s");
  cr_expect_str_eq(ask(true), said);
  change("DELETE FROM request");
  cr_expect_str_eq(ask(true), said);
}

Test(why, it_is_said_how_parts_are_kept_where_they_cannot_be_had) {
  Why why;
  change("UPDATE request SET front_s = NULL");
  change("UPDATE run SET epoch = 'another'");
  cr_expect_lt(why_open(&why, db_path, "1", 0, &arena, &diag), 0);
  why_close(&why);
  cr_assert_eq(diag.n_entries, 2);
  cr_expect(strstr(diag.entries[0].message, "with other outcomes"));
  cr_expect(strstr(diag.entries[1].hint, "--requests"));
}
