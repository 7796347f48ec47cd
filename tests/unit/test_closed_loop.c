/* Clients that wait for answers. Pinned: a closed loop is an open trace in which each request that
 * finds all clients busy arrives a tick after one of them is free, to the digest, for every batcher
 * on several shapes of cluster; ramp, request rate, end of sending; the times when nothing waits,
 * by hand. The swarm does the same with random clusters. */
#include "sim/policies.h"
#include "tests/unit/scene_testing.h"
#include "traces/closed_loop.h"
#include <inttypes.h>

enum { N = 40 };

TestSuite(closed_loop, .init = setup_scene, .fini = teardown);

/* When each request ended, in order, and when it was sent, by id. */
typedef struct Ends {
  Tick at[N], sent_at[N];
  int n;
} Ends;

static int keep_end(void *context, const RequestRecord *record, const Metrics *so_far, Diag *d) {
  (void)so_far, (void)d;
  Ends *ends = context;
  cr_assert_lt(ends->n, N);
  ends->at[ends->n++] = record->last_token_at;
  ends->sent_at[record->id] = record->arrived_at;
  return 0;
}

/* Lengths of all kinds, at `gap`. */
static void fill(TraceRow rows[N], Tick gap) {
  for (int i = 0; i < N; i++)
    rows[i] = row(i * gap, 1 + i * 37 % 90, 1 + i * 29 % 60);
}

static Ends run_source(TraceSource *source, bool step) {
  Ends ends = {.n = 0};
  scene.config.trace = source;
  scene.config.step = step;
  scene.config.on_request = keep_end;
  scene.config.on_request_context = &ends;
  cr_assert_eq(sim_run(&scene.config, &scene.result, &arena, &diag), 0);
  return ends;
}

static Ends run_loop(const ClosedLoopConfig *config, const TraceRow *rows, int n, bool step) {
  array_trace_init(&scene.trace, rows, n);
  return run_source(closed_loop_open(config, &scene.trace.source, &arena), step);
}

/* Request i is sent when it is due and the (i - clients)-th to end has ended. */
static void expect_open_twin(const ClosedLoopConfig *config, const char *what) {
  TraceRow rows[N], twin[N];
  fill(rows, 40 * MS);
  for (int step = 0; step < 2; step++) {
    const Ends ends = run_loop(config, rows, N, step);
    const uint64_t digest = scene.result.digest;
    cr_assert_eq(ends.n, N, "%s: %d of %d requests", what, ends.n, N);
    for (int i = 0; i < N; i++) {
      const int64_t k = i - config->clients;
      const Tick idle = k < 0 ? config->ramp * i / config->clients : ends.at[k] + 1;
      twin[i] = rows[i];
      twin[i].at = config->timed && rows[i].at > idle ? rows[i].at : idle;
    }
    array_trace_init(&scene.trace, twin, N);
    run_source(&scene.trace.source, step);
    cr_expect_eq(scene.result.digest, digest, "%s%s: not the open trace", what,
                 step ? ", stepped" : "");
  }
}

static void expect_twins(const char *what) {
  static const ClosedLoopConfig loops[] = {
      {.clients = 1}, {.clients = 7}, {.clients = N + 5}, {.clients = 7, .timed = true}};
  const char *batcher = scene.config.policies[POLICY_BATCHER].policy->name;
  for (size_t i = 0; i < COUNT(loops); i++)
    expect_open_twin(&loops[i], arena_printf(&arena, "%s, %s, loop %zu", what, batcher, i));
}

Test(closed_loop, is_the_open_trace_of_its_ends) {
  const Policy *const *batchers = policy_list(POLICY_BATCHER);
  for (; *batchers; batchers++) {
    const SimConfig *config = &scene.config;
    if (sim_conflict(config->policies[POLICY_POOL].policy, *batchers,
                     config->policies[POLICY_KVTIER].policy))
      continue;
    scene_init(&scene, &arena, &diag);
    scene_choose(&scene, POLICY_BATCHER, (*batchers)->name, NULL);
    expect_twins("one machine");
    scene.pools[0].count = 3;
    expect_twins("three machines");
    scene.pools[0].kv_blocks = 12;
    expect_twins("three small machines");
    scene.pools[0].kv_blocks = 1000;
    scene_split(&scene, 2, 1);
    expect_twins("split");
  }
}

/* 90 tokens in 100 ms, then steps of 11.91 and 11.92 ms. */
Test(closed_loop, a_client_sends_when_it_is_answered) {
  const TraceRow rows[] = {row(7, 90, 3), row(7, 90, 3), row(9, 90, 3)};
  const Ends ends = run_loop(&(ClosedLoopConfig){.clients = 1}, rows, 3, false);
  for (int i = 0; i < 3; i++)
    cr_expect_eq(ends.at[i], (i + 1) * 123830 * US + i);
}

Test(closed_loop, clients_begin_spread_over_the_ramp) {
  const TraceRow rows[] = {row(0, 490, 1), row(0, 490, 1), row(0, 490, 1), row(0, 490, 1)};
  const ClosedLoopConfig config = {.clients = 3, .ramp = 900 * MS};
  const Ends ends = run_loop(&config, rows, 4, false);
  // the first client is back before the last has begun
  const Tick want[] = {0, 300 * MS, 500 * MS + 1, 600 * MS};
  for (int i = 0; i < 4; i++)
    cr_expect_eq(ends.sent_at[i], want[i], "request %d at %" PRId64, i, ends.sent_at[i]);
}

Test(closed_loop, nothing_is_sent_once_the_time_is_over) {
  TraceRow rows[N];
  for (int i = 0; i < N; i++)
    rows[i] = row(0, 90, 1);
  const ClosedLoopConfig config = {.clients = 2, .until = 450 * MS, .ramp = 800 * MS};
  const Ends ends = run_loop(&config, rows, N, false);
  // 0, 100, 200, 300 ms; then both
  cr_expect_eq(ends.n, 6);
  cr_expect_eq(scene.result.unfinished, 0u);
  cr_expect_lt(scene.result.span, 700 * MS);
}

/* A machine that holds none of them: each is turned away, and tried no more often than clients can
 * ask. */
Test(closed_loop, who_is_turned_away_comes_back_after_a_round_trip) {
  TraceRow rows[N];
  for (int i = 0; i < N; i++)
    rows[i] = row(0, 20000, 1);
  run_loop(&(ClosedLoopConfig){.clients = 4}, rows, N, false);
  cr_expect_eq(scene.result.metrics.rejected, (uint64_t)N);
  cr_expect_eq(scene.result.span, (N / 4 - 1) * CLOSED_LOOP_REFUSED);
}
