/* What machines report to routers: when it is known, what waits, what caches hold as of then. */
#include "sim/core/reports.h"
#include "tests/unit/sim_testing.h"

TestSuite(reports, .init = setup, .fini = teardown);

static Stage stage;

/* At `interval` and `delay` ms, of three machines of which the middle one keeps a cache. */
static Reports *begin(Tick interval, Tick delay) {
  stage_init(&stage, "MMM", 100, 16, &arena);
  stage.machines[1].cache = ARENA_NEW(&arena, PrefixCache);
  prefix_cache_init(stage.machines[1].cache, 100, &arena);
  const ReportOptions options = {interval * MS, delay * MS};
  return reports_new(&options, true, &stage.view, &arena);
}

static const Content *content_of(uint64_t id) {
  Content *content = ARENA_NEW(&arena, Content);
  content_set(content, &(TraceRow){.prompt_tokens = 1}, id, &arena);
  return content;
}

/* Caches the first `n` blocks of a prompt. */
static void fill(const Content *content, int64_t n) {
  HeldBlocks *held = ARENA_NEW(&arena, HeldBlocks);
  prefix_cache_take(stage.machines[1].cache, held, n);
  prefix_cache_register(stage.machines[1].cache, held, content, 16, 16 * n);
  prefix_cache_release(stage.machines[1].cache, held);
}

static int64_t match(const Reports *reports, InstanceIx m, const Content *content) {
  PromptKeys keys = {.arena = &arena};
  prompt_keys_begin(&keys, content);
  return reports_match(reports, m, &keys, 50);
}

static void make_at(Reports *reports, Tick at) {
  stage.view.now = at * MS;
  reports_make(reports);
}

static void see_at(Reports *reports, Tick at) {
  stage.view.now = at * MS;
  reports_see(reports);
}

Test(reports, without_an_interval_all_is_seen_as_it_is) {
  Reports *reports = begin(0, 0);
  const Content *content = content_of(1);
  fill(content, 3);
  stage_prefill(&stage, 1, 100);
  stage.machines[2].free_blocks = 40;
  see_at(reports, 7);
  cr_expect_eq(match(reports, 1, content), 3);
  cr_expect_eq(match(reports, 0, content), 0, "it keeps no cache");
  cr_expect_eq(reports_load(reports, 1).n_waiting, 1);
  cr_expect_eq(reports_load(reports, 2).used_blocks, 60);
  cr_expect_eq(reports_load(reports, 2).kv_blocks, 100);
}

Test(reports, the_last_one_made_before_the_delay_is_known) {
  Reports *reports = begin(10, 25);
  const Content *a = content_of(1), *b = content_of(2);
  make_at(reports, 0);
  fill(a, 2);
  stage_prefill(&stage, 0, 100);
  make_at(reports, 10);
  fill(b, 100); // there is no room for the two
  stage_prefill(&stage, 0, 100);
  make_at(reports, 20);
  see_at(reports, 34);
  cr_expect_eq(reports_load(reports, 0).n_waiting, 0);
  cr_expect_eq(match(reports, 1, a), 0);
  see_at(reports, 35);
  cr_expect_eq(reports_load(reports, 0).n_waiting, 1);
  cr_expect_eq(match(reports, 1, a), 2);
  cr_expect_eq(match(reports, 1, b), 0);
  make_at(reports, 40); // 30 was left out
  see_at(reports, 44);
  cr_expect_eq(match(reports, 1, a), 2);
  see_at(reports, 45);
  cr_expect_eq(reports_load(reports, 0).n_waiting, 2);
  cr_expect_eq(match(reports, 1, a), 0);
  cr_expect_eq(match(reports, 1, b), 50);
}

Test(reports, a_cache_that_is_warm_is_told_of) {
  stage_init(&stage, "MM", 100, 16, &arena);
  stage.machines[1].cache = ARENA_NEW(&arena, PrefixCache);
  prefix_cache_init(stage.machines[1].cache, 100, &arena);
  stage.machines[1].cache->names_all = true;
  const Content *content = content_of(1);
  fill(content, 4);
  const ReportOptions options = {10 * MS, 0};
  const Reports *reports = reports_new(&options, true, &stage.view, &arena);
  cr_expect_eq(match(reports, 1, content), 4);
}

/* One in line; the others are between chunks, in a first one, prefilled and in the batch. */
Test(reports, what_waits_has_not_begun_to_run) {
  Reports *reports = begin(0, 0);
  Instance *machine = &stage.machines[0];
  const RequestIx first = stage_prefill(&stage, 0, 100), second = stage_prefill(&stage, 0, 100);
  stage_prefill(&stage, 0, 100);
  stage_decode(&stage, 0, REQUEST_WAITS_DECODE, 20, 5);
  stage_decode(&stage, 0, REQUEST_RUNS, 20, 5);
  stage.requests.slots[first].prefilled_tokens = 50; // between chunks
  machine->n_started = 1;
  RequestIx chunks[] = {second};
  stage.requests.slots[second].state = REQUEST_PREFILLS;
  machine->chunks = chunks;
  machine->n_chunks = 1;
  see_at(reports, 0);
  cr_expect_eq(reports_load(reports, 0).n_waiting, 1);
}

/* Each needs 16 ms; the report is made each ms where somebody may see it. */
Test(reports, are_left_out_while_nobody_would_see_them) {
  Scene scene;
  scene_init(&scene, &arena, &diag);
  const TraceRow rows[] = {row(0, 6, 1), row(1000000 * TICKS_PER_SECOND, 6, 1)};
  scene_choose(&scene, POLICY_ROUTER, "llm_d", "{interval: 1 ms, delay: 10 ms}");
  cr_assert_eq(scene_run(&scene, rows, COUNT(rows)), 0);
  cr_expect_lt(scene.result.events, 50u, "%llu", (unsigned long long)scene.result.events);
  cr_expect_eq(scene.result.span, rows[1].at + 16 * MS);
}

/* Twelve prompts of a second each wait on two machines when those report at 1 s. */
Test(reports, are_as_of_their_interval_in_a_run) {
  enum { EARLY = 12, LATE = 8 };
  Scene scene;
  scene_init(&scene, &arena, &diag);
  scene.pools[0].count = 2;
  TraceRow rows[EARLY + LATE];
  for (int i = 0; i < EARLY; i++)
    rows[i] = row((100 + 50 * i) * MS, 1000, 1);
  for (int i = 0; i < LATE; i++)
    rows[EARLY + i] = row((1100 + 100 * i) * MS, 1000, 1);
  scene_choose(&scene, POLICY_ROUTER, "llm_d", "{interval: 1 s, prefix_weight: 0, kv_weight: 0}");
  scene_run_both(&scene, rows, COUNT(rows));
  int on_second = 0;
  for (int i = 0; i < EARLY; i++)
    on_second += scene.records[i].prefill_instance == 1;
  cr_assert(0 < on_second && on_second < EARLY && on_second != EARLY / 2, "%d of them", on_second);
  for (int i = EARLY; i < EARLY + LATE; i++)
    cr_expect_eq(scene.records[i].prefill_instance, on_second < EARLY / 2, "request %d", i);
  scene_choose(&scene, POLICY_ROUTER, "llm_d",
               "{interval: 1 s, delay: 10 s, prefix_weight: 0, kv_weight: 0}");
  scene_run_both(&scene, rows, COUNT(rows));
  on_second = 0;
  for (int i = EARLY; i < EARLY + LATE; i++)
    on_second += scene.records[i].prefill_instance == 1;
  cr_expect(0 < on_second && on_second < LATE, "what is not known yet does not count");
}

/* --- columns, for routers that go by loads (Splitwise, §IV-A: "does not happen at every iteration
 * boundary") */

static int64_t seen(Reports *reports, InstanceIx m) {
  return column_at(reports_view(reports)->columns.pending_tokens, m);
}

Test(reports, columns_are_those_of_the_last_known_report) {
  Reports *reports = begin(10, 25);
  Column *pending = stage.view.columns.pending_tokens;
  reports_tell_columns(reports, false);
  make_at(reports, 0);
  column_add(pending, 1, 70);
  cr_expect_eq(seen(reports, 1), 0);
  make_at(reports, 10);
  column_add(pending, 1, -30);
  see_at(reports, 34);
  cr_expect_eq(seen(reports, 1), 0);
  see_at(reports, 35);
  cr_expect_eq(seen(reports, 1), 70);
  cr_expect_eq(column_at(pending, 1), 40);
  cr_expect_eq(column_least(reports_view(reports)->columns.pending_tokens, &stage.view.by_role[2]),
               0u);
}

/* 100 tokens go to machine 1 after the report of 10 was made, and 5 of them have ended by 20. */
Test(reports, what_was_sent_counts_until_a_report_has_it) {
  for (int leaves = 0; leaves < 2; leaves++) {
    Reports *reports = begin(10, 15);
    Column *pending = stage.view.columns.pending_tokens;
    reports_tell_columns(reports, leaves);
    make_at(reports, 0);
    make_at(reports, 10);
    int64_t before[REPORTED];
    reports_figures(reports, 1, before);
    column_add(pending, 1, 100);
    reports_sent(reports, 1, before);
    cr_expect_eq(seen(reports, 1), leaves ? 0 : 100);
    column_add(pending, 1, -5);
    make_at(reports, 20);
    see_at(reports, 25); // knows of 10
    cr_expect_eq(seen(reports, 1), leaves ? 0 : 100, "it was on its way when the report was made");
    see_at(reports, 35);
    cr_expect_eq(seen(reports, 1), 95);
  }
}

/* How many of the rows are prefilled on machine 1. */
static int on_second(Scene *scene, const TraceRow *rows, size_t n) {
  scene_run_both(scene, rows, n);
  int count = 0;
  for (size_t i = 0; i < n; i++)
    count += scene->records[i].prefill_instance == 1;
  return count;
}

/* Eight prompts of a second each, the last when the first two have ended. */
Test(reports, routers_that_go_by_loads_go_by_the_last_report) {
  Scene scene;
  scene_init(&scene, &arena, &diag);
  scene.pools[0].count = 2;
  TraceRow rows[8];
  for (int i = 0; i < 8; i++)
    rows[i] = row((100 + 10 * i + (i == 7 ? 1100 : 0)) * MS, 1000, 1);
  scene_choose(&scene, POLICY_ROUTER, "token_jsq", "{ties: first}");
  cr_expect_eq(on_second(&scene, rows, 8), 4);
  scene.config.report_interval = 10 * TICKS_PER_SECOND;
  cr_expect_eq(on_second(&scene, rows, 8), 4, "it counts what it sends");
  scene.config.report_leaves_sent = true;
  cr_expect_eq(on_second(&scene, rows, 8), 0, "it knows of an idle cluster alone");
  scene.config.report_interval = 50 * MS; // 100 to 140 ms know of nothing; the others of five
  cr_expect_eq(on_second(&scene, rows, 8), 3);
  scene.config.report_delay = 60 * MS; // the report of 100 ms is known at 160
  cr_expect_eq(on_second(&scene, rows, 8), 1);
}

/* The same pools, limits and traffic as Splitwise's, a report each second. */
Test(reports, splitwise_moves_machines_by_what_was_reported) {
  Scene scene;
  scene_init(&scene, &arena, &diag);
  scene_split(&scene, 2, 1);
  scene_choose(&scene, POLICY_ROUTER, "splitwise", "{prefill_queue_limit: 1500, ties: first}");
  scene_choose(&scene, POLICY_POOL, "splitwise_mixed", NULL);
  TraceRow rows[4];
  for (int i = 0; i < 4; i++)
    rows[i] = row((100 + 10 * i) * MS, 1000, 2);
  scene_run_both(&scene, rows, 4);
  cr_expect_gt(scene.result.metrics.role_changes, 0u, "the third prompt is above the limit");
  scene.config.report_interval = 10 * TICKS_PER_SECOND;
  scene.config.report_leaves_sent = true;
  scene_run_both(&scene, rows, 4);
  cr_expect_eq(scene.result.metrics.role_changes, 0u, "the limit is never seen to be passed");
}
