/* Routers that know what is cached, each held against a small calculation of its own on loads and
 * prompts made here: the bound of prefix_affinity, the scores of llm_d, the costs of dynamo_kv. On
 * one machine they change nothing. */
#include "base/rng.h"
#include "sim/policies.h"
#include "sim/router/router.h"
#include "tests/unit/sim_testing.h"
#include <math.h>

enum { MACHINES = 6, PROMPTS = 600, BLOCK = 64 };

static Stage stage;
static RequestMemory memory[PROMPTS];
static Rng rng;

static void begin(void) {
  setup();
  memset(memory, 0, sizeof memory);
  rng_init(&rng, 1, "router tests");
}

TestSuite(router_prefix, .init = begin, .fini = teardown);

/* A router at work on the stage. */
typedef struct Subject {
  const Router *router;
  void *state;
} Subject;

static Subject start(const char *name, const char *options) {
  const Subject subject = {(const Router *)policy_find(POLICY_ROUTER, name),
                           policy_state(POLICY_ROUTER, name, options, &arena)};
  stage.view.memory = memory;
  if (subject.router->reports)
    stage.view.reports = reports_new(subject.router->reports(subject.state),
                                     subject.router->needs_caches, &stage.view, &arena);
  subject.router->start(subject.state, &stage.view, 1, &arena);
  return subject;
}

static Placement route(const Subject *subject, RequestIx ix) {
  if (stage.view.reports) reports_see(stage.view.reports);
  return subject->router->pick(subject->state, &stage.view, ix);
}

static int64_t draw(int64_t n) {
  return (int64_t)rng_below(&rng, (uint64_t)n);
}

/* A prompt whose first `shared` tokens are those of all of a family. */
static RequestIx prompt_of(uint64_t family, int32_t shared, int32_t tokens) {
  const RequestIx ix = stage_request(&stage, tokens, 10);
  const TraceSegment segments[] = {{.id = 1000 + family, .end = shared}};
  const TraceRow row = {.prompt_tokens = tokens, .segments = segments, .n_segments = 1};
  content_set(&memory[ix].content, &row, stage.requests.slots[ix].id, &arena);
  return ix;
}

/* --- prefix_affinity */

Test(router_prefix, affinity_gives_a_beginning_one_machine_and_most_machines_some) {
  stage_init(&stage, "MMMMMM", 100, 16, &arena);
  const Subject subject = start("prefix_affinity", "{prefix_tokens: 100, load_factor: 1000}");
  InstanceIx of[30];
  int taken[MACHINES] = {0};
  for (uint64_t family = 0; family < COUNT(of); family++) {
    of[family] = route(&subject, prompt_of(family, 100, 500)).prefill;
    taken[of[family]]++;
    const Placement again = route(&subject, prompt_of(family, 100 + (int32_t)family, 200));
    cr_expect_eq(again.prefill, of[family]);
    cr_expect_eq(again.decode, of[family]);
  }
  for (InstanceIx m = 0; m < MACHINES; m++)
    cr_expect_gt(taken[m], 0, "machine %u", m);
  const InstanceIx gone = of[0];
  cluster_withdraw(&stage.view, gone, ROLE_MIXED);
  for (uint64_t family = 0; family < COUNT(of); family++) {
    const InstanceIx now = route(&subject, prompt_of(family, 100, 500)).prefill;
    cr_expect_neq(now, gone);
    if (of[family] != gone) cr_expect_eq(now, of[family], "others stay where they are");
  }
}

Test(router_prefix, affinity_keeps_loads_within_the_bound) {
  stage_init(&stage, "MMMMMM", 100, 16, &arena);
  const Subject subject = start("prefix_affinity", "{load_factor: 1.25}");
  int64_t loads[MACHINES] = {0}, total = 0;
  for (int i = 0; i < 400; i++) { // most of one family, and some finish
    const uint64_t family = draw(4) ? 0 : (uint64_t)draw(50);
    const InstanceIx m = route(&subject, prompt_of(family, 300, 400)).prefill;
    loads[m]++;
    total++;
    column_add(stage.view.columns.n_assigned, m, 1);
    cr_assert_leq(loads[m], (int64_t)ceil(1.25 * (double)total / MACHINES), "request %d", i);
    const InstanceIx done = (InstanceIx)draw(MACHINES);
    if (draw(3) || loads[done] == 0) continue;
    loads[done]--;
    total--;
    column_add(stage.view.columns.n_assigned, done, -1);
  }
}

/* --- llm_d */

/* What was sent to a machine, as families and blocks: nothing is forgotten here. */
static int64_t sent[MACHINES][PROMPTS];

static void draw_loads(void) {
  for (InstanceIx m = 0; m < stage.view.n_instances; m++) {
    stage.machines[m].free_blocks = draw(5) * 25;
    stage.machines[m].prefill_queue.count = (int32_t)draw(4);
  }
}

/* A prompt of a family has `shared` blocks of it and then its own. */
static double score(InstanceIx m, int64_t family, int64_t shared, int64_t blocks) {
  int64_t most = 0, least = 100;
  for (InstanceIx i = 0; i < stage.view.n_instances; i++) {
    const int64_t n = stage.machines[i].prefill_queue.count;
    most = n > most ? n : most;
    least = n < least ? n : least;
  }
  const double queue = most == least ? 1
                                     : (double)(most - stage.machines[m].prefill_queue.count) /
                                           (double)(most - least);
  const int64_t found = sent[m][family] < shared ? sent[m][family] : shared;
  return 2 * queue + 2 * (double)stage.machines[m].free_blocks / 100 +
         3 * (blocks > 0 ? (double)found / (double)blocks : 0);
}

Test(router_prefix, llm_d_takes_the_highest_of_its_scores) {
  memset(sent, 0, sizeof sent);
  stage_init(&stage, "MMMMMM", 100, 16, &arena);
  const Subject subject = start("llm_d", "{interval: 0 s}");
  int n_ties = 0;
  for (int i = 0; i < PROMPTS; i++) {
    draw_loads();
    const int64_t family = draw(8), blocks = draw(12), shared = blocks / 2;
    const RequestIx ix = prompt_of((uint64_t)family, (int32_t)(BLOCK * shared + 1),
                                   (int32_t)(BLOCK * blocks + 1 + draw(BLOCK - 1)));
    const InstanceIx m = route(&subject, ix).prefill;
    const double taken = score(m, family, shared, blocks);
    for (InstanceIx other = 0; other < MACHINES; other++) {
      const double theirs = score(other, family, shared, blocks);
      cr_assert_leq(theirs, taken + 1e-9, "request %d: %u has %g, %u has %g", i, other, theirs, m,
                    taken);
      n_ties += other != m && theirs > taken - 1e-9;
    }
    if (shared > sent[m][family]) sent[m][family] = shared;
  }
  cr_expect_gt(n_ties, 10, "of which one is drawn");
}

Test(router_prefix, llm_d_draws_among_equals_and_sees_its_last_report) {
  stage_init(&stage, "PPPDD", 100, 16, &arena);
  const Subject subject = start("llm_d", "{interval: 1 s, prefix_weight: 0}");
  reports_make(stage.view.reports);
  int prefills[5] = {0}, decodes[5] = {0};
  for (int i = 0; i < 300; i++) {
    stage.machines[0].prefill_queue.count = 9; // which it does not know
    stage.view.now = i * MS;
    const Placement placement = route(&subject, prompt_of(1, 200, 300));
    prefills[placement.prefill]++;
    decodes[placement.decode]++;
  }
  for (InstanceIx m = 0; m < 5; m++) // within five standard deviations
    cr_expect_leq(abs(m < 3 ? prefills[m] - 100 : decodes[m] - 150), 45, "machine %u", m);
  stage.view.now = TICKS_PER_SECOND;
  reports_make(stage.view.reports);
  for (int i = 0; i < 100; i++)
    cr_expect_neq(route(&subject, prompt_of(1, 200, 300)).prefill, 0u);
}

/* Of a request in each place on a machine, whether it waits. */
typedef enum Whereabouts { // in order of `waits`
  IN_LINE,
  BETWEEN_CHUNKS,
  IN_FIRST_CHUNK,
  IN_LAST_CHUNK,
  KV_ELSEWHERE,
  PREFILLED,
  LEFT_OUT,
  IN_CPU_MEMORY,
  IN_BATCH,
  PLACES,
} Whereabouts;

static const bool waits[PLACES] = {[IN_LINE] = true, [KV_ELSEWHERE] = true};

static void begin_chunk(Instance *machine, RequestIx ix, bool last) {
  stage.requests.slots[ix].state = last ? REQUEST_ENDS_PREFILL : REQUEST_PREFILLS;
  if (last) request_queue_remove(&machine->prefill_queue, stage.requests.slots, ix);
  ARENA_RESERVE(&arena, machine->chunks, machine->chunks_capacity, machine->n_chunks + 1);
  machine->chunks[machine->n_chunks++] = ix;
}

static void put(InstanceIx m, Whereabouts place) {
  static const RequestState states[PLACES] = {[PREFILLED] = REQUEST_WAITS_DECODE,
                                              [LEFT_OUT] = REQUEST_BLOCKED,
                                              [IN_CPU_MEMORY] = REQUEST_SWAPPED,
                                              [IN_BATCH] = REQUEST_RUNS};
  Instance *machine = &stage.machines[m];
  if (place >= PREFILLED) {
    stage_decode(&stage, m, states[place], 20, 5);
  } else if (place == KV_ELSEWHERE) {
    request_queue_push(&machine->inbound, stage.requests.slots, stage_request(&stage, 20, 5));
  } else {
    const RequestIx ix = stage_prefill(&stage, m, 20);
    if (place == BETWEEN_CHUNKS) {
      stage.requests.slots[ix].prefilled_tokens = 10;
      machine->n_started++;
    }
    if (place >= IN_FIRST_CHUNK) begin_chunk(machine, ix, place == IN_LAST_CHUNK);
  }
}

Test(router_prefix, llm_d_counts_as_waiting_who_has_no_kv_yet) {
  for (int round = 0; round < 300; round++) {
    stage_init(&stage, "MMMMMM", 10000, 16, &arena);
    const Subject subject = start("llm_d", "{interval: 0 s, kv_weight: 0, prefix_weight: 0}");
    int64_t n_waiting[MACHINES] = {0}, least = INT64_MAX;
    for (InstanceIx m = 0; m < MACHINES; m++) {
      for (int64_t n = draw(12); n > 0; n--) {
        const Whereabouts place = (Whereabouts)draw(PLACES);
        put(m, place);
        n_waiting[m] += waits[place];
      }
      if (n_waiting[m] < least) least = n_waiting[m];
    }
    const InstanceIx m = route(&subject, prompt_of(1, 200, 300)).prefill;
    cr_assert_eq(n_waiting[m], least, "round %d: %u has %lld, another %lld", round, m,
                 (long long)n_waiting[m], (long long)least);
  }
}

/* --- dynamo_kv */

/* A request as the calculation knows it; blocks of 16 tokens. */
typedef struct Live {
  RequestIx ix;
  InstanceIx machine;
  int64_t family, shared, full, partial; // blocks: those of its family, all whole ones, a last one
  int64_t uncached;                      // tokens, until its first token
} Live;

static Live live[PROMPTS];
static int n_live;
static int64_t cached[MACHINES][8]; // first blocks of each family

static void fill_cache(InstanceIx m, uint64_t family, int64_t n) {
  HeldBlocks *held = ARENA_NEW(&arena, HeldBlocks);
  PrefixCache *cache = stage.machines[m].cache;
  prefix_cache_take(cache, held, n);
  prefix_cache_register(cache, held, &memory[prompt_of(family, 10000, 10000)].content, 16, 16 * n);
  prefix_cache_release(cache, held);
}

static void begin_caches(const char *roles) {
  stage_init(&stage, roles, 100000, 16, &arena);
  for (InstanceIx m = 0; m < stage.view.n_instances; m++) {
    stage.machines[m].cache = ARENA_NEW(&arena, PrefixCache);
    prefix_cache_init(stage.machines[m].cache, 100000, &arena);
  }
}

static int64_t active_tokens(InstanceIx m) {
  int64_t tokens = 0;
  for (int i = 0; i < n_live; i++)
    if (live[i].machine == m) tokens += live[i].uncached;
  return tokens;
}

typedef struct Weights {
  double credit, decay, scale, request;
} Weights;

static Weights weights;

/* What the router says is the least. */
static double cost(InstanceIx m, const Live *request, int64_t prompt) {
  int64_t least = INT64_MAX, of_family[8] = {0}, decode = 0, n = 0;
  for (InstanceIx i = 0; i < MACHINES; i++)
    least = active_tokens(i) < least ? active_tokens(i) : least;
  for (int i = 0; i < n_live; i++) {
    if (live[i].machine != m) continue;
    n++;
    decode += live[i].full - live[i].shared + live[i].partial;
    if (live[i].shared > of_family[live[i].family]) of_family[live[i].family] = live[i].shared;
  }
  decode += request->full - request->shared + request->partial;
  if (request->shared > of_family[request->family]) of_family[request->family] = request->shared;
  for (int f = 0; f < 8; f++)
    decode += of_family[f];
  const int64_t known = cached[m][request->family];
  const double hits = (double)(known < request->shared ? known : request->shared);
  const double blocks = (double)(request->full + request->partial);
  const double excess = (double)(active_tokens(m) - least) / 16 / blocks;
  const double credit = weights.credit / (1 + weights.decay * excess);
  const double left = (double)(active_tokens(m) + prompt) / 16 - credit * hits;
  return weights.scale * (left > 0 ? left : 0) + (double)decode + weights.request * (double)n;
}

static void tell(const Subject *subject, RequestIx ix, Observation what) {
  const Request *request = &stage.requests.slots[ix];
  subject->router->observe(subject->state, &stage.view, ix, what, request->prefill_instance);
}

static void place(const Subject *subject, RequestIx ix, Placement placement) {
  stage.requests.slots[ix].prefill_instance = placement.prefill;
  stage.requests.slots[ix].decode_instance = placement.decode;
  tell(subject, ix, OBSERVED_PLACED);
}

/* Some request gets its first token, or its last. */
static void go_on(const Subject *subject) {
  const int i = (int)draw(n_live);
  const bool finishes = live[i].uncached == 0;
  tell(subject, live[i].ix, finishes ? OBSERVED_FINISHED : OBSERVED_PREFILLED);
  live[i].uncached = 0;
  if (finishes) live[i] = live[--n_live];
}

static Subject begin_dynamo(const char *options) {
  begin_caches("MMMMMM");
  memset(cached, 0, sizeof cached);
  n_live = 0;
  for (InstanceIx m = 0; m < MACHINES; m++)
    for (uint64_t family = 0; family < 8; family++)
      if (draw(2)) fill_cache(m, family, cached[m][family] = 1 + draw(60));
  return start("dynamo_kv", options);
}

static Live draw_live(int32_t most) {
  const int32_t prompt = 1 + (int32_t)draw(most), shared = 1 + (int32_t)draw(prompt);
  Live request = {
      .family = draw(8), .shared = shared / 16, .full = prompt / 16, .partial = prompt % 16 > 0};
  request.ix = prompt_of((uint64_t)request.family, shared, prompt);
  return request;
}

/* Whether it found blocks there; some others go on. */
static bool serve(const Subject *subject, Live request, Placement placement) {
  const int64_t known = cached[placement.prefill][request.family];
  const int64_t hits = known < request.shared ? known : request.shared;
  request.machine = placement.prefill;
  request.uncached = stage.requests.slots[request.ix].prompt_tokens - 16 * hits;
  place(subject, request.ix, placement);
  live[n_live++] = request;
  while (n_live > 20 || (n_live > 0 && draw(3)))
    go_on(subject);
  return hits > 0;
}

Test(router_prefix, dynamo_takes_the_least_of_its_costs) {
  const Subject subject = begin_dynamo("{overlap_score_credit: 0.5, overlap_score_credit_decay: 2, "
                                       "prefill_load_scale: 1.5, decode_active_request_weight: 3}");
  weights = (Weights){0.5, 2, 1.5, 3};
  int n_cached = 0;
  for (int i = 0; i < 300; i++) {
    const Live request = draw_live(1000);
    const int64_t prompt = stage.requests.slots[request.ix].prompt_tokens;
    const Placement placement = route(&subject, request.ix);
    const double taken = cost(placement.prefill, &request, prompt);
    for (InstanceIx m = 0; m < MACHINES; m++)
      cr_assert_geq(cost(m, &request, prompt), taken - 1e-9, "request %d: %u, not %u", i, m,
                    placement.prefill);
    n_cached += serve(&subject, request, placement);
  }
  cr_expect_gt(n_cached, 100);
}

/* One after the other in the order of their list; each that is as little as the least so far takes
 * its place at odds that leave all of them alike. */
static InstanceIx first_to_last(const Live *request, Rng *drawn, int *n_draws) {
  const int64_t prompt = stage.requests.slots[request->ix].prompt_tokens;
  InstanceIx best = 0;
  uint32_t n_equal = 1;
  double least = cost(0, request, prompt);
  for (InstanceIx m = 1; m < MACHINES; m++) {
    const double theirs = cost(m, request, prompt);
    if (theirs > least) continue;
    n_equal = theirs < least ? 1 : n_equal + 1;
    least = theirs;
    *n_draws += n_equal > 1;
    if (n_equal == 1 || rng_below(drawn, n_equal) == 0) best = m;
  }
  return best;
}

/* Short prompts, so that many cost the same. Costs are exact in blocks of 16 tokens. */
Test(router_prefix, dynamo_takes_whom_a_walk_through_all_takes) {
  const Subject subject = begin_dynamo(NULL);
  Rng drawn;
  rng_init(&drawn, 1, "router");
  weights = (Weights){1, 0, 1, 0};
  int n_draws = 0, n_cached = 0;
  for (int i = 0; i < 500; i++) {
    const Live request = draw_live(100);
    const InstanceIx wanted = first_to_last(&request, &drawn, &n_draws);
    const Placement placement = route(&subject, request.ix);
    cr_assert_eq(placement.prefill, wanted, "request %d: %u, not %u", i, placement.prefill, wanted);
    n_cached += serve(&subject, request, placement);
  }
  cr_expect_gt(n_draws, 100);
  cr_expect_gt(n_cached, 100);
}

Test(router_prefix, dynamo_draws_by_cost_at_a_temperature) {
  enum { N = 4000 };
  begin_caches("MMM");
  const Subject subject = start("dynamo_kv", "{temperature: 0.5}");
  const RequestIx ix = prompt_of(1, 160, 160);
  fill_cache(1, 1, 10);
  fill_cache(2, 1, 5);
  int drawn[3] = {0};
  for (int i = 0; i < N; i++)
    drawn[route(&subject, ix).prefill]++;
  const double sum = 1 + exp(-1) + exp(-2); // the costs are 20, 10 and 15 blocks
  for (int m = 0; m < 3; m++)
    cr_expect_leq(fabs(drawn[m] - N * exp(m == 0 ? -2 : m == 1 ? 0 : -1) / sum), 150, "%d", m);
}

Test(router_prefix, dynamo_has_books_of_each_phase_where_they_run_apart) {
  begin_caches("PPDD");
  const Subject subject = start("dynamo_kv", "{decode_active_request_weight: 1}");
  const RequestIx first = prompt_of(1, 1, 160), second = prompt_of(2, 1, 160);
  fill_cache(1, 3, 10);
  fill_cache(3, 3, 10);
  route(&subject, first);
  place(&subject, first, (Placement){.prefill = 0, .decode = 2}); // or any other
  const Placement other = route(&subject, second);
  cr_expect_eq(other.prefill, 1u);
  cr_expect_eq(other.decode, 3u);
  place(&subject, second, other);
  tell(&subject, first, OBSERVED_PREFILLED);
  cr_expect_eq(route(&subject, prompt_of(4, 1, 16)).prefill, 0u, "nothing is left to prefill");
  tell(&subject, first, OBSERVED_PREFILLED); // again, as its KV was dropped
  tell(&subject, second, OBSERVED_PREFILLED);
  tell(&subject, second, OBSERVED_FINISHED);
  const Placement third = route(&subject, prompt_of(3, 160, 160));
  cr_expect_eq(third.prefill, 1u, "it has it cached");
  cr_expect_eq(third.decode, 3u, "it has nothing to decode");
  tell(&subject, first, OBSERVED_FINISHED);
  int decodes = 0;
  for (int i = 0; i < 100; i++)
    decodes += route(&subject, prompt_of(3, 160, 160)).decode == 2;
  cr_expect_leq(abs(decodes - 50), 25, "what a decode machine has cached does not count");
}

/* --- in runs */

static const char *const knowing[] = {"prefix_affinity", "dynamo_kv", "llm_d"};

Test(router_prefix, one_machine_is_as_without_them) {
  static TraceSegment shared = {.id = 7, .end = 500};
  Scene scene;
  TraceRow rows[40];
  for (int i = 0; i < 40; i++) {
    rows[i] = row(i * 30 * MS, 300 + 7 * i, 1 + i % 9);
    rows[i].segments = &shared;
    rows[i].n_segments = 1;
  }
  scene_init(&scene, &arena, &diag);
  scene_choose(&scene, POLICY_ROUTER, "round_robin", NULL);
  scene_run_both(&scene, rows, COUNT(rows));
  const uint64_t digest = scene.result.digest;
  for (size_t i = 0; i < COUNT(knowing); i++) {
    scene_choose(&scene, POLICY_ROUTER, knowing[i], NULL);
    scene_run_both(&scene, rows, COUNT(rows));
    cr_expect_eq(scene.result.digest, digest, "%s", knowing[i]);
  }
}

static int64_t cached_tokens(Scene *scene, const char *router, const char *options,
                             const TraceRow *rows, size_t n) {
  scene_choose(scene, POLICY_ROUTER, router, options);
  scene_run_both(scene, rows, n);
  int64_t tokens = 0;
  for (size_t i = 0; i < n; i++)
    tokens += scene->records[i].cached_tokens;
  return tokens;
}

/* Six conversations in turn on four machines, each turn's prompt the one before and more. */
Test(router_prefix, prompts_go_where_their_beginnings_are) {
  enum { N = 60, SESSIONS = 6 };
  static const TraceSegment whole[SESSIONS] = {{1, INT32_MAX}, {2, INT32_MAX}, {3, INT32_MAX},
                                               {4, INT32_MAX}, {5, INT32_MAX}, {6, INT32_MAX}};
  Scene scene;
  TraceRow rows[N];
  for (int i = 0; i < N; i++) {
    rows[i] = row(i * 400 * MS, 400 + 60 * (i / SESSIONS), 20 + i % 5);
    rows[i].segments = &whole[i % SESSIONS];
    rows[i].n_segments = 1;
  }
  scene_init(&scene, &arena, &diag);
  scene.pools[0].count = 4;
  scene_choose(&scene, POLICY_BATCHER, "vllm", NULL);
  const int64_t by_turns = cached_tokens(&scene, "round_robin", NULL, rows, N);
  for (size_t i = 0; i < COUNT(knowing); i++)
    cr_expect_gt(cached_tokens(&scene, knowing[i], NULL, rows, N), by_turns, "%s", knowing[i]);
  const int64_t exact = cached_tokens(&scene, "dynamo_kv", NULL, rows, N);
  const int64_t told =
      cached_tokens(&scene, "dynamo_kv", "{interval: 70 ms, delay: 150 ms}", rows, N);
  cr_expect_gt(told, by_turns, "%lld of %lld", (long long)told, (long long)exact);
  cr_expect_lt(cached_tokens(&scene, "dynamo_kv", "{interval: 30 s}", rows, N), exact);
}

static void draw_turns(TraceRow *rows, int n, Tick gap, TraceSegment (*segments)[2],
                       int n_sessions) {
  for (int i = 0; i < n_sessions; i++) {
    segments[i][0] = (TraceSegment){1000 + (uint64_t)(i % 3), 100};
    segments[i][1] = (TraceSegment){2000 + (uint64_t)i, INT32_MAX};
  }
  for (int i = 0; i < n; i++) {
    rows[i] = row(i * gap + draw(gap), 90 + (int32_t)draw(60 + 4 * i), 20 + (int32_t)draw(150));
    rows[i].segments = segments[draw(n_sessions)];
    rows[i].n_segments = 2;
  }
}

/* Conversations, of which half have turns that overlap, on machines that evict: where copies of
 * requests may come beside the router, though none does, all caches are looked at for each
 * request. */
Test(router_prefix, caches_that_are_watched_are_as_if_all_were_looked_at) {
  enum { N = SCENE_REQUESTS, SESSIONS = 10, ROUNDS = 40 };
  Scene scene;
  TraceRow rows[N];
  TraceSegment segments[SESSIONS][2];
  scene_init(&scene, &arena, &diag);
  scene.pools[0].count = 5;
  scene_choose(&scene, POLICY_BATCHER, "vllm", NULL);
  scene_choose(&scene, POLICY_ROUTER, "dynamo_kv", NULL);
  int64_t evictions = 0;
  for (int round = 0; round < ROUNDS; round++) {
    draw_turns(rows, N, (round % 2 ? 60 : 400) * MS, segments, SESSIONS);
    scene.pools[0].kv_blocks = 40 + draw(100);
    scene.config.hedge = (HedgeOptions){0};
    scene_run_both(&scene, rows, N);
    const uint64_t digest = scene.result.digest;
    evictions += scene.result.totals.evictions;
    scene.config.hedge = (HedgeOptions){.after = 1000 * TICKS_PER_SECOND, .share = 1};
    scene_run_both(&scene, rows, N);
    cr_expect_eq(scene.result.digest, digest, "round %d", round);
  }
  cr_expect_gt(evictions, 1000);
}
