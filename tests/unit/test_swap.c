/* Swapping to CPU memory, to the tick, from the plain model (10 ms + 1 ms per token + 10 us per
 * token of decode context) and ten blocks of 16 tokens, each of 16 MB: 16 ms to CPU memory, 8 ms
 * back. Pinned: who goes and when, that the machine stands still meanwhile, who waits for those
 * that are gone, and what becomes of a victim without room in CPU memory. Who is the victim is in
 * test_kvtier, who may return in test_batcher. */
#include "tests/unit/scene_testing.h"

TestSuite(swap, .init = setup_scene, .fini = teardown);

static void choose_swap(PoolSpec *pool, int64_t cpu_kv_blocks) {
  scene_choose(&scene, POLICY_KVTIER, "swap", NULL);
  pool->kv_blocks = 10;
  pool->cpu_kv_blocks = cpu_kv_blocks;
  pool->kv_block_bytes = 16000000;
  pool->host_link.options =
      (HostLinkOptions){.to_gpu = 2000000000, .to_cpu = 1000000000, .efficiency = 1};
}

/* Two requests of 60 tokens: the first is there at 130 ms, then 20 steps of two over 122, 124 …
 * tokens until both need a sixth block. Five are 80 ms away; then the first goes on alone, 19 steps
 * over 81, 82 … tokens. */
static const Tick swapped_out = 130000 + 20 * 12000 + 10 * (20 * 122 + 2 * 190);
static const Tick alone = 19 * 11000 + 10 * (19 * 81 + 171);
static const Tick returns = swapped_out + 80000 + alone;

Test(swap, the_last_to_arrive_waits_in_cpu_memory_when_memory_runs_out) {
  choose_swap(&scene.pools[0], 5);
  const TraceRow rows[] = {row(0, 60, 40), row(0, 60, 40)};
  run(rows, 2);
  const RequestRecord *first = &scene.records[0], *second = &scene.records[1];
  cr_expect(first->swaps == 0 && second->swaps == 1 && second->recomputes == 0);
  expect_at(first->last_token_at, returns, "the first request's last token");
  // 40 ms back, then as many steps of one
  expect_at(second->last_token_at, returns + 40000 + alone, "that of the second");
  expect_at(scene.result.metrics.tbt.max, returns + 40000 + 11810 - swapped_out,
            "the gap of the second request");
  const InstanceTotals *totals = &scene.result.totals;
  cr_expect(totals->swaps_out == 1 && totals->swaps_in == 1);
  cr_expect_eq(scene.result.metrics.preemptions, 1u);
  cr_expect_eq(totals->swapped_in_bytes + totals->swapped_out_bytes, 2 * 5 * 16000000);
  expect_at(totals->stall_ticks, 120000, "both copies");
  expect_at(totals->prefill_ticks + totals->decode_ticks, second->last_token_at / US,
            "stalls are part of the iterations");
  cr_expect_eq(totals->prefill_tokens, 120, "nothing is prefilled again");
}

/* The 10 tokens would fit beside the first request, and beside the second as it returns. */
Test(swap, prompts_wait_for_those_that_were_swapped_out) {
  choose_swap(&scene.pools[0], 5);
  const TraceRow rows[] = {row(0, 60, 40), row(0, 60, 40), row(410 * MS, 10, 1)};
  run(rows, 3);
  expect_at(scene.records[2].prefill_began_at, returns + 40000 + 11810, "the third request");
  expect_at(scene.records[0].last_token_at, returns, "the first, which it has not touched");
}

Test(swap, prompts_wait_with_mixed_batching_too) {
  scene_choose(&scene, POLICY_BATCHER, "mixed", NULL);
  choose_swap(&scene.pools[0], 5);
  const TraceRow rows[] = {row(0, 60, 40), row(0, 60, 40), row(410 * MS, 10, 1)};
  run(rows, 3);
  expect_at(scene.records[0].last_token_at, returns, "the first");
  expect_at(scene.records[2].prefill_began_at, returns + 40000 + 11810, "the third");
  // 10 + 1 tokens over 82 of context
  expect_at(scene.records[2].last_token_at, returns + 40000 + 11810 + 21820, "its token");
}

Test(swap, without_cpu_memory_for_it_a_victim_is_prefilled_again) {
  const TraceRow rows[] = {row(0, 60, 40), row(0, 60, 40), row(380 * MS, 90, 1)};
  scene.pools[0].kv_blocks = 10;
  run(rows, 3);
  const uint64_t digest = scene.result.digest;
  static const struct {
    int64_t cpu_kv_blocks;
    bool swaps;
  } cases[] = {{0, false}, {4, false}, {5, true}, {100, true}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    choose_swap(&scene.pools[0], cases[i].cpu_kv_blocks);
    run(rows, 3);
    cr_expect_eq(scene.result.totals.swaps_out, cases[i].swaps);
    cr_expect_eq(scene.result.metrics.recomputes, !cases[i].swaps);
    cr_expect_eq(scene.result.digest == digest, !cases[i].swaps, "%lld blocks",
                 (long long)cases[i].cpu_kv_blocks);
  }
}

/* 16 more milliseconds' worth for a copy out, 8 back; half of the link is taken until the copy out
 * has ended. */
Test(swap, copies_share_the_link_and_cost_more_than_their_bytes) {
  choose_swap(&scene.pools[0], 5);
  BackgroundTraffic traffic = {.from = 0, .to = (swapped_out + 192000) * US, .share = 0.5};
  HostLink *link = &scene.pools[0].host_link;
  link->options.half_size = 16000000;
  link->background = &traffic;
  link->n_background = 1;
  const TraceRow rows[] = {row(0, 60, 40), row(0, 60, 40)};
  run(rows, 2);
  expect_at(scene.result.totals.stall_ticks, 2 * (80000 + 16000) + 40000 + 8000, "both copies");
  expect_at(scene.records[0].last_token_at, returns + 80000 + 2 * 16000, "the first");
}

/* The oldest of three is never swapped; the others go in turn, the newest first, and return in
 * order of arrival. 12 blocks of 16 hold all at 64 tokens, two at 96, one at 112 and more. */
Test(swap, those_swapped_out_return_in_order_of_arrival) {
  choose_swap(&scene.pools[0], 100);
  scene.pools[0].kv_blocks = 12;
  const TraceRow rows[] = {row(0, 60, 70), row(0, 60, 70), row(0, 60, 70)};
  run(rows, 3);
  const RequestRecord *records = scene.records;
  cr_expect_eq(scene.result.totals.swaps_out, 2);
  for (int i = 0; i < 3; i++)
    cr_expect_eq(records[i].swaps, i > 0);
  cr_expect_lt(records[0].last_token_at, records[1].last_token_at);
  cr_expect_lt(records[1].last_token_at, records[2].last_token_at);
}

/* 4 blocks. All are prefilled at 63 ms; the second needs another block then, so that the third goes
 * for 16 ms. Two steps of two over 48 and 50 tokens later the second is done. 2 blocks are free, of
 * which the first takes one in its next step: the third would need one beside that and the margin,
 * and waits for 10 steps over 33, 34 … tokens. */
Test(swap, who_returns_fits_beside_what_the_running_take) {
  static const Tick second = 79000 + 2 * 12000 + 10 * 98, first = second + 10 * 11000 + 10 * 375;
  static const char *const batchers[] = {"continuous", "mixed", "sarathi"};
  choose_swap(&scene.pools[0], 100);
  scene.pools[0].kv_blocks = 4;
  for (size_t b = 0; b < COUNT(batchers); b++) {
    scene_choose(&scene, POLICY_BATCHER, batchers[b], NULL);
    const TraceRow rows[] = {row(0, 30, 13), row(0, 16, 3), row(0, 7, 8)};
    run(rows, 3);
    expect_at(scene.records[1].last_token_at, second, batchers[b]);
    expect_at(scene.records[0].last_token_at, first, batchers[b]);
    expect_at(scene.records[2].last_token_at, first + 8000 + 7 * 11000 + 10 * 77, batchers[b]);
    cr_expect(scene.records[2].swaps == 1 && scene.result.totals.swaps_out == 1);
  }
}

/* Both are prefilled by 130 ms and at the decode machine by 250; the second joins the first at
 * 261.61, over 62 and 61 tokens. 19 steps later the first needs a sixth block, and the second goes
 * to CPU memory for as long as the first has 19 tokens to make. Meanwhile a third, prefilled by
 * 530 ms, would have room there and waits. */
Test(swap, kv_from_elsewhere_waits_for_those_that_were_swapped_out) {
  scene_split(&scene, 1, 1);
  choose_swap(&scene.pools[1], 5);
  const TraceRow rows[] = {row(0, 60, 40), row(0, 60, 40), row(510 * MS, 10, 2)};
  run(rows, 3);
  const Tick out = 261610 + 19 * 12000 + 10 * (19 * 123 + 2 * 171);
  const Tick back = out + 80000 + alone;
  expect_at(scene.records[0].last_token_at, back, "the first");
  expect_at(scene.result.metrics.kv_transfer.max, back + 40000 + 11800 + 10000 - 530000,
            "the third's KV, once the second runs");
  cr_expect_eq(scene.result.totals.swaps_out, 1);
}
