/* Conversations. Pinned: the arithmetic of turns, by hand, and what their segments say; that they
 * wait for the answer and for whoever thinks; where sessions end; that what is said does not hang
 * on how it is served; clients with a session each; the figures of sessions; draws of think times
 * and of priorities. */
#include "tests/unit/scene_testing.h"
#include "traces/closed_loop.h"
#include "traces/priorities.h"
#include "traces/sessions.h"
#include <math.h>

enum { MANY = 60 };

TestSuite(sessions, .init = setup_scene, .fini = teardown);

static LengthDistribution constant(double tokens) {
  return (LengthDistribution){.kind = LENGTH_CONSTANT, .mean = tokens};
}

/* Three turns: 90 + 30 new tokens each, answers of 3. */
static SessionsConfig three_turns(Tick think) {
  return (SessionsConfig){.turns = constant(3),
                          .prompt = constant(30),
                          .output = constant(3),
                          .think_time = {.kind = THINK_CONSTANT, .mean = think}};
}

static TraceSource *open_sessions(const SessionsConfig *config, SessionsSetting setting,
                                  const TraceRow *rows, int n) {
  array_trace_init(&scene.trace, rows, n);
  if (!setting.starts) setting.starts = &scene.trace.source;
  return sessions_open(config, &setting, &arena);
}

static TraceRow next_row(TraceSource *source) {
  TraceRow row;
  cr_assert_eq(trace_next(source, &row, &diag), 1);
  return row;
}

static void answer(TraceSource *source, const TraceRow *row, Tick at, bool good) {
  source->ended(source, &(TraceEnd){.at = at, .served = true, .good = good, .ticket = row->ticket});
}

static void expect_none(TraceSource *source) {
  TraceRow row;
  cr_expect_eq(trace_next(source, &row, &diag), 0);
}

Test(sessions, a_turn_begins_with_everything_before) {
  const SessionsConfig config = three_turns(5 * MS);
  const TraceSegment shared[] = {{.id = 77, .end = 40}, {.id = 78, .end = INT32_MAX}};
  TraceRow start = row(10 * MS, 90, 3);
  start.segments = shared;
  start.n_segments = 2;
  TraceSource *source = open_sessions(&config, (SessionsSetting){.seed = 1}, &start, 1);
  uint64_t stream = 0;
  for (int turn = 0; turn < 3; turn++) {
    const TraceRow now = next_row(source);
    cr_expect(now.session == 1 && now.turn == turn && now.ends_session == (turn == 2));
    cr_expect_eq(now.prompt_tokens, 90 + turn * (3 + 30));
    cr_expect_eq(now.output_tokens, 3);
    cr_expect_eq(now.at, (10 + 105 * turn) * MS);
    cr_expect_eq(now.session_began_at, 10 * MS);
    cr_expect_eq(now.session_good, turn < 2, "the second turn was late");
    cr_assert_eq(now.n_segments, 3);
    cr_expect(now.segments[0].id == 77 && now.segments[0].end == 40);
    cr_expect(now.segments[1].id == 78 && now.segments[1].end == 90);
    cr_expect_eq(now.segments[2].end, INT32_MAX);
    if (turn > 0) cr_expect_eq(now.segments[2].id, stream);
    stream = now.segments[2].id;
    expect_none(source);
    answer(source, &now, now.at + 100 * MS, turn == 0);
  }
  expect_none(source);
}

/* An answer may come in a row's way that the engine has pulled: it gets that back. */
Test(sessions, an_earlier_turn_goes_before_a_row_that_is_put_back) {
  const SessionsConfig config = three_turns(0);
  const TraceRow starts[] = {row(0, 90, 3), row(500 * MS, 90, 3)};
  TraceSource *source = open_sessions(&config, (SessionsSetting){.seed = 1}, starts, 2);
  const TraceRow first = next_row(source), pulled = next_row(source);
  cr_expect(pulled.session == 2 && pulled.at == 500 * MS);
  answer(source, &first, 100 * MS, true);
  source->put_back(source, &pulled);
  const TraceRow second = next_row(source);
  cr_expect(second.session == 1 && second.turn == 1 && second.at == 100 * MS + 1);
  source->put_back(source, &second);
  const TraceRow again = next_row(source), last = next_row(source);
  cr_expect(again.session == 1 && again.turn == 1 && again.at == second.at);
  cr_expect(last.session == 2 && last.turn == 0 && last.ticket == pulled.ticket);
  cr_expect_neq(again.segments[0].id, last.segments[0].id);
}

/* Prompts of 90, 123 and 156 tokens; the third would leave no room in 156. */
Test(sessions, a_session_ends_where_the_context_does) {
  static const struct {
    int64_t context;
    int turns;
    int32_t output; // of the last
  } cases[] = {{0, 3, 3}, {157, 3, 1}, {156, 2, 3}, {124, 2, 1}, {123, 1, 3}, {92, 1, 2}};
  const SessionsConfig config = three_turns(0);
  const TraceRow start = row(0, 90, 3);
  for (size_t i = 0; i < COUNT(cases); i++) {
    const SessionsSetting setting = {.context = cases[i].context};
    TraceSource *source = open_sessions(&config, setting, &start, 1);
    TraceRow now = next_row(source);
    while (!now.ends_session) {
      answer(source, &now, now.at + MS, true);
      now = next_row(source);
    }
    cr_expect(now.turn + 1 == cases[i].turns && now.output_tokens == cases[i].output,
              "context %d: %d turns, the last of %d", (int)cases[i].context, now.turn + 1,
              now.output_tokens);
    answer(source, &now, now.at + MS, true);
    expect_none(source);
  }
}

Test(sessions, a_turn_that_is_not_served_is_the_last) {
  const SessionsConfig config = three_turns(0);
  const TraceRow start = row(0, 90, 3);
  TraceSource *source = open_sessions(&config, (SessionsSetting){.seed = 1}, &start, 1);
  const TraceRow now = next_row(source);
  source->ended(source, &(TraceEnd){.at = MS, .ticket = now.ticket});
  expect_none(source);
}

/* What was said, by session and turn: prompts, answers and pauses. */
typedef struct Said {
  int32_t prompt[MANY][16], output[MANY][16];
  int n_requests;
} Said;

static int keep_said(void *context, const RequestRecord *record, const Metrics *so_far, Diag *d) {
  (void)so_far, (void)d;
  Said *said = context;
  cr_assert(1 <= record->session && record->session <= MANY && record->turn < 16);
  said->prompt[record->session - 1][record->turn] = record->prompt_tokens;
  said->output[record->session - 1][record->turn] = record->output_tokens;
  said->n_requests++;
  return 0;
}

static Said run_many(int64_t clients, const SessionsConfig *config, bool step) {
  TraceRow *starts = ARENA_ARRAY(&arena, TraceRow, MANY);
  for (int i = 0; i < MANY; i++)
    starts[i] = row(i * 50 * MS, 1 + i % 17, 1 + i % 5);
  array_trace_init(&scene.trace, starts, MANY);
  ClosedLoopConfig *loop = ARENA_NEW(&arena, ClosedLoopConfig);
  *loop = (ClosedLoopConfig){.clients = clients};
  SessionsSetting setting = {.starts = &scene.trace.source, .seed = 5};
  if (clients > 0) setting.starts = closed_loop_open(loop, setting.starts, &arena);
  Said said = {.n_requests = 0};
  scene.config.trace = sessions_open(config, &setting, &arena);
  scene.config.on_request = keep_said;
  scene.config.on_request_context = &said;
  scene.config.step = step;
  cr_assert_eq(sim_run(&scene.config, &scene.result, &arena, &diag), 0);
  return said;
}

Test(sessions, say_the_same_however_they_are_served) {
  const SessionsConfig config = {
      .turns = {.kind = LENGTH_UNIFORM, .low = 1, .high = 9},
      .prompt = {.kind = LENGTH_EXPONENTIAL, .mean = 20, .high = 100},
      .output = {.kind = LENGTH_EXPONENTIAL, .mean = 10, .high = 50},
      .think_time = {.kind = THINK_EXPONENTIAL, .mean = 300 * MS},
  };
  const Said open = run_many(0, &config, false);
  cr_expect_gt(open.n_requests, 3 * MANY);
  const SimResult first = scene.result;
  cr_expect_eq(first.metrics.asked.sessions, (uint64_t)MANY);
  cr_expect_eq(first.metrics.sessions_completed, (uint64_t)MANY);
  cr_expect_eq(first.metrics.sessions_good, (uint64_t)MANY, "nothing is limited");
  cr_expect_eq(first.metrics.session.total, (uint64_t)MANY);
  run_many(0, &config, true);
  cr_expect_eq(scene.result.digest, first.digest, "stepped is not coalesced");
  scene.pools[0].count = 3;
  Said other = run_many(0, &config, false);
  cr_expect_neq(scene.result.digest, first.digest);
  cr_expect_eq(memcmp(&open, &other, sizeof open), 0, "on three machines");
  other = run_many(4, &config, false);
  cr_expect_eq(memcmp(&open, &other, sizeof open), 0, "by four clients");
  cr_expect_eq(scene.result.metrics.sessions_completed, (uint64_t)MANY);
}

/* 90 tokens in 100 ms and two steps of 11.91 and 11.92 ms, think for 10 ms; then 123 tokens. */
Test(sessions, their_time_is_from_the_first_arrival_to_the_last_answer) {
  SessionsConfig config = three_turns(10 * MS);
  config.turns = constant(2);
  const TraceRow starts[] = {row(0, 90, 3), row(0, 90, 3)};
  const ClosedLoopConfig loop = {.clients = 1};
  array_trace_init(&scene.trace, starts, 2);
  const SessionsSetting setting = {.starts = closed_loop_open(&loop, &scene.trace.source, &arena)};
  scene.config.trace = sessions_open(&config, &setting, &arena);
  scene.config.good_limits.ttft = 120 * MS;
  cr_assert_eq(sim_run(&scene.config, &scene.result, &arena, &diag), 0);
  const Metrics *metrics = &scene.result.metrics;
  expect_at(metrics->session.min, 123830 + 10000 + 133000 + 12240 + 12250, "a session");
  cr_expect_eq(metrics->session.max, metrics->session.min);
  expect_at(scene.records[2].arrived_at - 1, metrics->session.min / US, "the client's next");
  cr_expect_eq(metrics->good, 2u, "second turns take 133 ms");
  cr_expect_eq(metrics->sessions_good, 0u);
}

Test(sessions, think_times_have_the_means_asked_for) {
  static const ThinkTime cases[] = {
      {.kind = THINK_EXPONENTIAL, .mean = 3 * TICKS_PER_SECOND},
      {.kind = THINK_LOGNORMAL, .mean = 3 * TICKS_PER_SECOND, .sigma = 0.7},
      {.kind = THINK_CONSTANT, .mean = 3 * TICKS_PER_SECOND},
  };
  enum { N = 20000 };
  for (size_t i = 0; i < COUNT(cases); i++) {
    double sum = 0;
    for (int k = 0; k < N; k++)
      sum += tick_seconds(think_time_at(&cases[i], (k + 0.5) / N));
    cr_expect_float_eq(sum / N, 3, 0.01, "case %zu: %g", i, sum / N);
  }
  const ThinkTime clamped = {.kind = THINK_EXPONENTIAL, .mean = MS, .min = 2 * MS, .max = 3 * MS};
  cr_expect_eq(think_time_at(&clamped, 0), 2 * MS);
  cr_expect_eq(think_time_at(&clamped, 1), 3 * MS);
}

Test(sessions, priorities_have_their_shares) {
  const PriorityShare values[] = {{-1, 1}, {0, 2}, {7, 1}};
  const PrioritiesConfig config = {values, 3};
  enum { N = 4000 };
  TraceRow *rows = ARENA_ARRAY(&arena, TraceRow, N);
  for (int i = 0; i < N; i++)
    rows[i] = row(i, 1, 1);
  array_trace_init(&scene.trace, rows, N);
  TraceSource *source = priorities_open(&config, &scene.trace.source, 3, &arena);
  int counts[3] = {0};
  for (int i = 0; i < N; i++) {
    const int32_t priority = next_row(source).priority;
    cr_assert(priority == -1 || priority == 0 || priority == 7);
    counts[priority < 0 ? 0 : priority > 0 ? 2 : 1]++;
  }
  for (int i = 0; i < 3; i++) // five standard errors
    cr_expect_float_eq(counts[i], N * values[i].share / 4, 5 * sqrt(N / 4.0));
  expect_none(source);
}
