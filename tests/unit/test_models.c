/* Several models on one fleet: each is served as if it were alone. */
#include "base/rng.h"
#include "tests/unit/scene_testing.h"
#include <criterion/criterion.h>
#include <string.h>

TestSuite(models, .init = setup_scene, .fini = teardown);

enum { ROWS = 60 };

static TraceRow rows[ROWS], alone[ROWS];
static RequestRecord of_one[2][ROWS];

/* Of both models by turns that do not follow a pattern, close enough together to queue. */
static void make_rows(void) {
  Rng rng;
  rng_init(&rng, 7, "models");
  Tick at = 0;
  for (int i = 0; i < ROWS; i++) {
    at += (Tick)rng_below(&rng, 60 * MS);
    rows[i] = row(at, 1 + (int32_t)rng_below(&rng, 400), 1 + (int32_t)rng_below(&rng, 30));
    rows[i].component = (uint16_t)rng_below(&rng, 2);
  }
}

/* Two mixed machines of one model, a prefill and a decode machine of another. */
static void two_models(void) {
  static const ModelSpec models[2] = {{.name = "one"}, {.name = "other"}};
  static const ComponentSpec components[2] = {{.name = "one"}, {.name = "other", .model = 1}};
  scene_split(&scene, 1, 1);
  scene.pools[2] = scene.pools[1];
  scene.pools[1] = scene.pools[0];
  scene.pools[0].role = ROLE_MIXED;
  scene.pools[0].count = 2;
  scene.pools[1].model = scene.pools[2].model = 1;
  scene.config.n_pools = 3;
  scene.config.models = models;
  scene.config.n_models = 2;
  scene.config.components = components;
  scene.config.n_components = 2;
}

/* The pools and the rows of one of them, as the only ones. */
static int run_alone(int model) {
  two_models();
  if (model == 1) {
    scene.pools[0] = scene.pools[1];
    scene.pools[1] = scene.pools[2];
  }
  scene.pools[0].model = scene.pools[1].model = 0;
  scene.config.n_pools = model == 0 ? 1 : 2;
  scene.config.n_models = scene.config.n_components = 0;
  int n = 0;
  for (int i = 0; i < ROWS; i++)
    if (rows[i].component == model) alone[n++] = rows[i];
  run(alone, (size_t)n);
  memcpy(of_one[model], scene.records, sizeof of_one[model]);
  return n;
}

static void choose(const char *router, const char *batcher) {
  scene_choose(&scene, POLICY_ROUTER, router, NULL);
  scene_choose(&scene, POLICY_BATCHER, batcher, NULL);
}

Test(models, each_is_served_as_if_it_were_alone) {
  static const char *const routers[] = {"jsq", "round_robin", "token_jsq", "least_kv"};
  static const char *const batchers[] = {"continuous", "vllm", "sarathi", "mixed"};
  make_rows();
  for (int k = 0; k < 4; k++) {
    scene_init(&scene, &arena, &diag);
    choose(routers[k], batchers[k]);
    run_alone(0);
    run_alone(1);
    two_models();
    run(rows, ROWS);
    int n[2] = {0, 0};
    for (int i = 0; i < ROWS; i++) {
      const int model = rows[i].component;
      const RequestRecord *both = &scene.records[i], *one = &of_one[model][n[model]++];
      cr_expect(both->first_token_at == one->first_token_at &&
                    both->last_token_at == one->last_token_at,
                "%s, %s: request %d", routers[k], batchers[k], i);
      cr_expect_eq(both->prefill_instance >= 2, model == 1, "request %d is elsewhere", i);
    }
  }
}

Test(models, a_prompt_is_held_against_the_context_and_the_memory_of_its_own) {
  two_models();
  static const ModelSpec models[2] = {{.max_model_len = 100}, {.max_model_len = 0}};
  scene.config.models = models;
  scene.pools[1].kv_blocks = scene.pools[2].kv_blocks = 50; // of 16 tokens
  TraceRow three[] = {row(0, 120, 4), row(0, 120, 4), row(0, 900, 4)};
  three[1].component = three[2].component = 1;
  run(three, 3);
  cr_expect_eq(scene.records[0].rejected, REJECTED_CONTEXT);
  cr_expect_eq(scene.records[1].rejected, REJECTED_NOT);
  cr_expect_eq(scene.records[2].rejected, REJECTED_KV_MEMORY, "the other model has room");
  cr_expect_eq(scene.result.rooms[0].tokens[PHASE_DECODE], 16000);
  cr_expect_eq(scene.result.rooms[1].tokens[PHASE_DECODE], 800);
}
