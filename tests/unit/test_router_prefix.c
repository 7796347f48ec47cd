/* Routers that know what is cached, each held against a small calculation of its own on loads and
 * prompts made here: the bound of prefix_affinity, the scores of llm_d. On one machine they change
 * nothing. */
#include "sim/base/rng.h"
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
  MachineIx of[30];
  int taken[MACHINES] = {0};
  for (uint64_t family = 0; family < COUNT(of); family++) {
    of[family] = route(&subject, prompt_of(family, 100, 500)).prefill;
    taken[of[family]]++;
    const Placement again = route(&subject, prompt_of(family, 100 + (int32_t)family, 200));
    cr_expect_eq(again.prefill, of[family]);
    cr_expect_eq(again.decode, of[family]);
  }
  for (MachineIx m = 0; m < MACHINES; m++)
    cr_expect_gt(taken[m], 0, "machine %u", m);
  const MachineIx gone = of[0];
  cluster_withdraw(&stage.view, gone, ROLE_MIXED);
  for (uint64_t family = 0; family < COUNT(of); family++) {
    const MachineIx now = route(&subject, prompt_of(family, 100, 500)).prefill;
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
    const MachineIx m = route(&subject, prompt_of(family, 300, 400)).prefill;
    loads[m]++;
    total++;
    column_add(stage.view.n_assigned, m, 1);
    cr_assert_leq(loads[m], (int64_t)ceil(1.25 * (double)total / MACHINES), "request %d", i);
    const MachineIx done = (MachineIx)draw(MACHINES);
    if (draw(3) || loads[done] == 0) continue;
    loads[done]--;
    total--;
    column_add(stage.view.n_assigned, done, -1);
  }
}

/* --- llm_d */

/* What was sent to a machine, as families and blocks: nothing is forgotten here. */
static int64_t sent[MACHINES][PROMPTS];

static void draw_loads(void) {
  for (MachineIx m = 0; m < stage.view.n_machines; m++) {
    stage.machines[m].free_blocks = draw(5) * 25;
    stage.machines[m].prefill_queue.count = (int32_t)draw(4);
  }
}

/* A prompt of a family has `shared` blocks of it and then its own. */
static double score(MachineIx m, int64_t family, int64_t shared, int64_t blocks) {
  int64_t most = 0, least = 100;
  for (MachineIx i = 0; i < stage.view.n_machines; i++) {
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
    const MachineIx m = route(&subject, ix).prefill;
    const double taken = score(m, family, shared, blocks);
    for (MachineIx other = 0; other < MACHINES; other++) {
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
  for (MachineIx m = 0; m < 5; m++) // within five standard deviations
    cr_expect_leq(abs(m < 3 ? prefills[m] - 100 : decodes[m] - 150), 45, "machine %u", m);
  stage.view.now = TICKS_PER_SECOND;
  reports_make(stage.view.reports);
  for (int i = 0; i < 100; i++)
    cr_expect_neq(route(&subject, prompt_of(1, 200, 300)).prefill, 0u);
}

/* --- in runs */

static const char *const knowing[] = {"prefix_affinity", "llm_d"};

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
