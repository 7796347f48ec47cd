/* LoRA adapters: when they come, who waits for room, who goes. */
#include "tests/unit/scene_testing.h"
#include <criterion/criterion.h>

TestSuite(adapters, .init = setup_scene, .fini = teardown);

static const AdapterSet sets[] = {{.name = "one", .count = 1, .bytes = 1000000},
                                  {.name = "two", .count = 1, .bytes = 1000000}};
static const ComponentSpec components[] = {
    {.name = "plain"}, {.name = "first", .adapters = 1}, {.name = "second", .adapters = 2}};

/* A machine whose host link takes 1 ms for an adapter, its disk 4. */
static void one_machine(int64_t max_loras, int64_t max_cpu_loras) {
  scene_choose(&scene, POLICY_BATCHER, "vllm", "async_scheduling: false");
  scene.pools[0].host_link.options =
      (HostLinkOptions){.to_gpu = 1000000000, .to_cpu = 1000000000, .efficiency = 1};
  scene.pools[0].adapters = (AdapterRoom){max_loras, max_cpu_loras, 250000000};
  scene.config.adapters = sets;
  scene.config.n_adapters = 2;
  scene.config.components = components;
  scene.config.n_components = 3;
}

static TraceRow asks(Tick at, int component) {
  TraceRow asked = row(at, 100, 1);
  asked.component = (uint16_t)component;
  return asked;
}

/* The prefill of 100 tokens takes 10 ms of the engine and 100 ms. */
Test(adapters, come_before_the_first_step_that_needs_them) {
  const TraceRow rows[] = {asks(0, 0), asks(1000 * MS, 1), asks(2000 * MS, 1)};
  one_machine(1, 1);
  run(rows, 3);
  const Tick alone = scene.records[0].first_token_at;
  cr_assert_gt(alone, 0);
  expect_at(scene.records[1].first_token_at, 1005000 + alone / US,
            "from the disk and over the link");
  expect_at(scene.records[2].first_token_at, 2000000 + alone / US, "there already");
  cr_expect_eq(scene.result.totals.adapter_loads, 1);
  cr_expect_eq((Tick)scene.result.totals.adapter_stall_ticks, 5 * MS);
}

/* The second would be one too many: it waits, and the plain one behind it does not. */
Test(adapters, one_too_many_is_passed_over) {
  const TraceRow rows[] = {asks(0, 1), asks(0, 2), asks(0, 0)};
  one_machine(1, 2);
  run(rows, 3);
  const RequestRecord *records = scene.records;
  cr_expect_eq(records[2].first_token_at, records[0].first_token_at);
  cr_expect_gt(records[1].first_token_at, records[0].first_token_at);
  cr_expect_eq(scene.result.totals.adapter_loads, 2);
  one_machine(2, 2);
  run(rows, 3);
  cr_expect_eq(records[1].first_token_at, records[0].first_token_at);
}

/* With one place each use of the other is a load; from CPU memory if that has room for both. */
Test(adapters, go_for_others) {
  const TraceRow rows[] = {asks(0, 1), asks(1000 * MS, 2), asks(2000 * MS, 1)};
  for (int64_t room = 1; room <= 2; room++) {
    one_machine(1, room);
    run(rows, 3);
    cr_expect_eq(scene.result.totals.adapter_loads, 3);
    cr_expect_eq(scene.result.totals.adapter_fetches, room == 1 ? 3 : 2);
    cr_expect_eq((Tick)scene.result.totals.adapter_stall_ticks, room == 1 ? 15 * MS : 11 * MS);
  }
}

/* The first has all of the memory. The second waits for its adapter's place, and is tried when that
 * is free and the memory is not: in the step after the last token, if that is decided before it is
 * made and the end is known. An end by EOS is not, so the first takes part in that step, too. */
Test(adapters, one_that_overruns_keeps_its_place) {
  static const struct {
    const char *options;
    int32_t max_tokens;
    int64_t waits;
  } cases[] = {
      {"{async_scheduling: false, enable_prefix_caching: false}", 30, 0},
      {"{async_scheduling: true, enable_prefix_caching: false}", 20, 1},
      {"{async_scheduling: true, enable_prefix_caching: false}", 30, 0},
  };
  for (size_t i = 0; i < 2 * COUNT(cases); i++) {
    TraceRow rows[] = {asks(0, 1), asks(0, 2)};
    rows[0].output_tokens = 20;
    rows[0].max_tokens = cases[i / 2].max_tokens;
    one_machine(1, 2);
    scene.pools[0].kv_blocks = 8;
    scene.config.step = i % 2;
    scene_choose(&scene, POLICY_BATCHER, "vllm", cases[i / 2].options);
    cr_assert_eq(scene_run(&scene, rows, COUNT(rows)), 0);
    cr_expect_eq(scene.result.totals.kv_waits, cases[i / 2].waits, "case %zu", i / 2);
  }
}
