/* Attention ranks that decide together. Pinned: what a step of all ranks takes, that one rank is an
 * instance without ranks, when prompts wait for prompts on other ranks, whom a request goes to, and
 * what of its time is told of as spent for other ranks. */
#include "sim/core/rank_spread.h"
#include "tests/unit/scene_testing.h"

TestSuite(rank_rounds, .init = setup_scene, .fini = teardown);

static const char *const batchers[] = {"sglang", "vllm"};
static const char *const at_once[] = {"{enable_overlap_schedule: false}",
                                      "{rank_scheduling: together, async_scheduling: false}"};
static const char *const ahead[] = {"{enable_overlap_schedule: true}",
                                    "{rank_scheduling: together, async_scheduling: true}"};

static void give_ranks(uint32_t n, const char *batcher, const char *options) {
  scene.pools[0].ranks = n;
  scene.pools[0].count = n;
  scene_choose(&scene, POLICY_BATCHER, batcher, options);
}

/* Prefill of 10 and of 20 tokens takes 20 and 30 ms, so both have their first token at 30; then the
 * second has the longer context: 21 and 22 tokens, 11.21 and 11.22 ms. */
Test(rank_rounds, a_step_takes_as_long_as_its_longest_batch) {
  const TraceRow rows[] = {row(0, 10, 3), row(0, 20, 3)};
  for (size_t i = 0; i < 2 * COUNT(batchers); i++) {
    give_ranks(2, batchers[i / 2], (i % 2 ? ahead : at_once)[i / 2]);
    run(rows, COUNT(rows));
    for (size_t r = 0; r < COUNT(rows); r++) {
      cr_expect_eq(scene.records[r].prefill_instance, r);
      expect_at(scene.records[r].first_token_at, 30000, batchers[i / 2]);
      expect_at(scene.records[r].last_token_at, 52430, batchers[i / 2]);
    }
  }
}

/* One on each of R ranks: each takes what it would take alone. */
Test(rank_rounds, ranks_with_one_request_each_are_in_closed_form) {
  TraceRow rows[8];
  for (size_t i = 0; i < COUNT(rows); i++)
    rows[i] = row(0, 50, 11);
  for (size_t i = 0; i < 2 * COUNT(batchers); i++) {
    give_ranks(COUNT(rows), batchers[i / 2], (i % 2 ? ahead : at_once)[i / 2]);
    run(rows, COUNT(rows));
    Tick last_us = 60000;
    for (Tick token = 1; token < 11; token++)
      last_us += 11000 + 10 * (50 + token);
    for (size_t r = 0; r < COUNT(rows); r++) {
      expect_at(scene.records[r].first_token_at, 60000, batchers[i / 2]);
      expect_at(scene.records[r].last_token_at, last_us, batchers[i / 2]);
    }
  }
}

/* A decode goes on in the step in which another rank prefills, and takes as long as that. */
Test(rank_rounds, a_rank_decodes_while_another_prefills) {
  const TraceRow rows[] = {row(0, 10, 4), row(25 * MS, 40, 1)};
  for (size_t i = 0; i < COUNT(batchers); i++) {
    give_ranks(2, batchers[i], at_once[i]);
    run(rows, COUNT(rows));
    expect_at(scene.records[1].prefill_began_at, 20000 + 11110, batchers[i]);
    expect_at(scene.records[1].first_token_at, 20000 + 11110 + 50000, batchers[i]);
    expect_at(scene.records[0].last_token_at, 20000 + 11110 + 50000 + 11130, batchers[i]);
  }
}

/* A dummy batch is one token long: 11.01 ms, less than any other; and a rank with one looks for
 * requests when all do. */
Test(rank_rounds, ranks_without_work_come_along) {
  const TraceRow rows[] = {row(0, 10, 5), row(5 * MS, 10, 1)};
  for (size_t i = 0; i < COUNT(batchers); i++) {
    give_ranks(4, batchers[i], at_once[i]);
    run(rows, COUNT(rows));
    expect_at(scene.records[1].first_token_at, 40000, batchers[i]);
    expect_at(scene.records[0].last_token_at, 40000 + 11120 + 11130 + 11140, batchers[i]);
  }
}

Test(rank_rounds, one_rank_is_an_instance_without_ranks) {
  const TraceRow rows[] = {row(0, 100, 20), row(3 * MS, 50, 9), row(40 * MS, 200, 30)};
  for (size_t i = 0; i < COUNT(batchers); i++) {
    uint64_t digests[2];
    for (uint32_t n = 0; n < 2; n++) {
      give_ranks(1, batchers[i], ahead[i]);
      scene.pools[0].ranks = n;
      run(rows, COUNT(rows));
      digests[n] = scene.result.digest;
    }
    cr_expect_eq(digests[0], digests[1], "%s", batchers[i]);
  }
}

/* Both ranks decode from 20 ms on, in steps of 11.11, 11.12, 11.13 ms, … A third request comes at
 * 25 ms. It waits for the fourth round since prompts last joined, or for a fourth request, of 35
 * ms, on the other rank; and then one round more for more of them. */
Test(rank_rounds, prompts_wait_for_one_on_each_rank) {
  const TraceRow rows[] = {row(0, 10, 30), row(0, 10, 30), row(25 * MS, 10, 2),
                           row(35 * MS, 10, 2)};
#define WAITS "{rank_scheduling: together, async_scheduling: false, attention_dp_timeout_iters: "
  static const struct {
    const char *options;
    size_t n;
    Tick began_us;
  } cases[] = {{WAITS "0}", 3, 31110},
               {WAITS "4}", 3, 20000 + 11110 + 11120 + 11130},
               {WAITS "4}", 4, 20000 + 11110 + 11120},
               {WAITS "4, attention_dp_batching_wait_iters: 1}", 4, 20000 + 11110 + 11120 + 11130}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    give_ranks(2, "vllm", cases[i].options);
    run(rows, cases[i].n);
    for (size_t r = 2; r < cases[i].n; r++)
      expect_at(scene.records[r].prefill_began_at, cases[i].began_us, cases[i].options);
  }
}

/* Prompts of 40, 10, 10 and 10 tokens on two ranks: in turn; the fewest tokens among ranks that
 * have not half of all; the fewest requests; the least KV memory in blocks of 16 tokens. */
Test(rank_rounds, requests_go_to_ranks_by_what_these_have) {
  const TraceRow rows[] = {row(0, 40, 9), row(MS, 10, 2), row(2 * MS, 10, 9), row(95 * MS, 10, 2)};
  static const struct {
    const char *batcher, *options;
    InstanceIx ranks[4];
  } cases[] = {{"sglang", "{load_balance_method: round_robin}", {0, 1, 0, 1}},
               {"sglang", "{load_balance_method: auto}", {0, 1, 0, 1}},
               {"sglang", "{load_balance_method: total_requests}", {0, 1, 0, 1}},
               {"sglang", "{load_balance_method: total_tokens}", {0, 1, 1, 1}},
               {"vllm", "{rank_scheduling: together}", {0, 1, 1, 0}}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    give_ranks(2, cases[i].batcher, cases[i].options);
    run(rows, COUNT(rows));
    for (size_t r = 0; r < COUNT(rows); r++)
      cr_expect_eq(scene.records[r].prefill_instance, cases[i].ranks[r], "%s: %zu",
                   cases[i].options, r);
  }
}

/* Rooms are the requests', whatever else is going on, and all ranks are drawn. */
Test(rank_rounds, rooms_are_drawn_for_each_request) {
  TraceRow rows[32];
  InstanceIx first[32];
  uint32_t n[4] = {0};
  for (int times = 0; times < 2; times++) {
    for (size_t i = 0; i < COUNT(rows); i++)
      rows[i] = row((Tick)i * (times ? MS : 50 * MS), 10, 2);
    give_ranks(4, "sglang", "{load_balance_method: follow_bootstrap_room}");
    run(rows, COUNT(rows));
    for (size_t r = 0; r < COUNT(rows); r++) {
      if (times == 0) n[first[r] = scene.records[r].prefill_instance]++;
      cr_expect_eq(scene.records[r].prefill_instance, first[r]);
    }
  }
  for (uint32_t i = 0; i < 4; i++)
    cr_expect_gt(n[i], 1);
}

/* So another seed gives another outcome, of ranks that prefill for others by default. */
Test(rank_rounds, who_meets_in_rooms_hangs_on_the_seed) {
  give_ranks(4, "sglang", "{load_balance_method: follow_bootstrap_room}");
  cr_expect(sim_draws(&scene.config));
  give_ranks(4, "sglang", "{load_balance_method: auto}");
  cr_expect_not(sim_draws(&scene.config));
  scene.pools[0].role = ROLE_PREFILL;
  cr_expect(sim_draws(&scene.config));
  give_ranks(1, "sglang", "{load_balance_method: auto}");
  cr_expect_not(sim_draws(&scene.config));
  give_ranks(4, "sglang", "{load_balance_method: round_robin}");
  cr_expect_not(sim_draws(&scene.config));
}

/* Of 30 ms that both prefills take, that of 10 tokens would take 20; and of decodes of 11.21 and
 * 11.22 ms 0.1 ms each. */
Test(rank_rounds, time_for_other_ranks_is_told) {
  const TraceRow rows[] = {row(0, 10, 3), row(0, 20, 3)};
  for (size_t i = 0; i < COUNT(batchers); i++) {
    give_ranks(2, batchers[i], at_once[i]);
    run(rows, COUNT(rows));
    expect_at(scene.parts[0].of[CAUSE_prefill_ranks], 10000, batchers[i]);
    expect_at(scene.parts[0].of[CAUSE_decode_ranks], 200, batchers[i]);
    expect_at(scene.parts[1].of[CAUSE_prefill_ranks], 0, batchers[i]);
    expect_at(scene.parts[1].of[CAUSE_decode_ranks], 0, batchers[i]);
  }
}

/* Held from 31.11 ms, the first round after it comes, to 53.36 ms, of which 6.11 ms before that are
 * the queue's. */
Test(rank_rounds, time_in_which_prompts_are_held_is_told) {
  const TraceRow rows[] = {row(0, 10, 30), row(0, 10, 30), row(25 * MS, 10, 2)};
  give_ranks(2, "vllm", WAITS "4}");
  run(rows, COUNT(rows));
  expect_at(scene.parts[2].of[CAUSE_prefill_queue], 6110, "queue");
  expect_at(scene.parts[2].of[CAUSE_rank_wait], 11120 + 11130, "wait");
}
