/* Whole runs of a few requests, to the tick. Pinned: the times of a request alone, cut runs,
 * transfers, eviction, preemption and role moves as worked out by hand from the plain model (an
 * iteration lasts 10 ms + 1 ms per token + 10 us per token of decode context); totals, energy and
 * cost; what is rejected and what stops a run; that a run can be repeated. Larger clusters are the
 * swarm's and the golden timelines'. */
#include "tests/unit/scene_testing.h"

TestSuite(simulation, .init = setup_scene, .fini = teardown);

/* --- one machine */

/* 90 tokens in 100 ms, then steps over 91 and 92 tokens: 11.91 and 11.92 ms. */
static const TraceRow alone[] = {{.at = 0, .prompt_tokens = 90, .output_tokens = 3}};

Test(simulation, a_request_alone_takes_what_the_model_says) {
  run(alone, 1);
  const RequestRecord *record = &scene.records[0];
  expect_at(record->prefill_began_at, 0, "prefill");
  expect_at(record->first_token_at, 100000, "the first token");
  expect_at(record->decode_began_at, 100000, "decode");
  expect_at(record->last_token_at, 123830, "the last token");
  const Metrics *metrics = &scene.result.metrics;
  cr_expect_eq(metrics->tbt.total, 2u);
  expect_at(metrics->tbt.min, 11910, "the shorter gap");
  expect_at(metrics->tbt.max, 11920, "the longer gap");
  const InstanceTotals *totals = &scene.result.totals;
  expect_at(totals->prefill_ticks, 100000, "prefill time");
  expect_at(totals->decode_ticks, 23830, "decode time");
  expect_at(scene.result.span, 123830, "the end");
  cr_expect(totals->prefill_iterations == 1 && totals->decode_iterations == 2);
  cr_expect(totals->prefill_tokens == 90 && totals->decode_tokens == 2);
}

Test(simulation, one_output_token_is_made_by_prefill) {
  const TraceRow rows[] = {row(0, 90, 1)};
  for (int split = 0; split < 2; split++) {
    if (split) scene_split(&scene, 1, 1);
    if (split) scene_choose(&scene, POLICY_TRANSFER, "layerwise", NULL);
    run(rows, 1);
    expect_at(scene.records[0].first_token_at, 100000, "the first token");
    expect_at(scene.records[0].last_token_at, 100000, "the last token");
    cr_expect_eq(scene.records[0].decode_began_at, -1);
    cr_expect_eq(scene.result.metrics.transfers, 0u);
  }
}

/* The first request decodes from 100 ms, its iterations end at 111.91, 123.83 and 135.76 ms. */
Test(simulation, a_prompt_joins_at_the_next_iteration_boundary) {
  static const struct {
    const char *what;
    Tick arrives, begins; // us
  } cases[] = {
      {"inside the third iteration", 130000, 135760},
      {"in its last tick but for one", 135760, 135760},
      {"as the second ends", 123830, 123830},
      {"as the first begins", 100000, 100000},
      {"during prefill", 30000, 100000},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const TraceRow rows[] = {row(0, 90, 100), row(cases[i].arrives * US, 40, 2)};
    run(rows, 2);
    const RequestRecord *second = &scene.records[1];
    expect_at(second->prefill_began_at, cases[i].begins, cases[i].what);
    expect_at(second->first_token_at, cases[i].begins + 50000, cases[i].what);
    cr_expect_lt(second->last_token_at, scene.records[0].last_token_at);
  }
}

Test(simulation, decodes_stand_still_while_prompts_run_alone) {
  const TraceRow rows[] = {row(0, 90, 100), row(130 * MS, 40, 2)};
  run(rows, 2);
  // then both: 94 + 41 tokens of context
  expect_at(scene.records[1].last_token_at, 135760 + 50000 + 13350, "the second request");
  expect_at(scene.result.metrics.tbt.max, 63350, "the gap of the first request");
}

Test(simulation, decodes_go_on_in_a_mixed_iteration) {
  scene_choose(&scene, POLICY_BATCHER, "mixed", NULL);
  const TraceRow rows[] = {row(0, 90, 100), row(130 * MS, 40, 2)};
  run(rows, 2);
  // 40 + 1 tokens, 94 of context; then 95 + 41 of context
  expect_at(scene.records[1].first_token_at, 135760 + 51940, "the second request's first token");
  expect_at(scene.records[1].last_token_at, 135760 + 51940 + 13360, "its last");
  expect_at(scene.result.metrics.tbt.max, 51940, "the gap of the first request");
}

Test(simulation, a_decode_left_out_too_often_goes_on) {
  scene_choose(&scene, POLICY_BATCHER, "splitwise",
               "{max_num_batched_tokens: 20, max_preemptions: 1}");
  const TraceRow rows[] = {row(0, 10, 50), row(25 * MS, 30, 2), row(25 * MS, 30, 2)};
  run(rows, 3);
  // 20 ms, a step of 11.11 ms; the second prompt alone; the third with the decode of the first
  expect_at(scene.records[1].first_token_at, 31110 + 40000, "the second request");
  expect_at(scene.records[2].first_token_at, 31110 + 40000 + 41120, "the third request");
  cr_expect_eq(scene.records[0].preemptions, 1);
  cr_expect_eq(scene.result.metrics.preemptions, 1u);
}

/* Two requests of 60 tokens on ten blocks of 16: to compute the 81st token each, both need a sixth
 * block. The second gives way and its 81 tokens are prefilled when the first has gone, ahead of a
 * third request that has not run. */
Test(simulation, the_last_to_arrive_is_prefilled_again_when_memory_runs_out) {
  scene.pools[0].kv_blocks = 10;
  const TraceRow rows[] = {row(0, 60, 40), row(0, 60, 40), row(380 * MS, 90, 1)};
  run(rows, 3);
  const RequestRecord *first = &scene.records[0], *second = &scene.records[1];
  expect_at(first->first_token_at, 130000, "the first token");
  expect_at(second->first_token_at, 130000, "and that of the second, once");
  cr_expect(first->recomputes == 0 && second->recomputes == 1);
  cr_expect_eq(scene.result.metrics.recomputes, 1u);
  cr_expect_eq(scene.result.totals.prefill_tokens, 60 + 60 + 81 + 90);
  // 20 steps of two over 122, 124 … tokens, 19 of one over 81, 82 … tokens
  const Tick evicted = 130000 + 20 * 12000 + 10 * (20 * 122 + 2 * 190);
  const Tick gone = evicted + 19 * 11000 + 10 * (19 * 81 + 171);
  expect_at(first->last_token_at, gone, "the first request's last token");
  // 81 tokens, which make one more; then 18 steps over 82, 83 … tokens
  const Tick again = gone + 91000, over = again + 18 * 11000 + 10 * (18 * 82 + 153);
  expect_at(scene.result.metrics.tbt.max, again - evicted, "the gap of the second request");
  expect_at(second->last_token_at, over, "its last token");
  expect_at(scene.records[2].prefill_began_at, over, "the third request");
}

/* --- two pools: a token of KV takes 1 ms */

Test(simulation, kv_moves_after_prefill_or_during_it) {
  static const struct {
    const char *what, *transfer, *options;
    int64_t nic, network;
    Tick decodes; // us
  } cases[] = {
      {"serialized: 90 ms and latency", "serialized", NULL, 1000000000, 0, 100000 + 90000 + 5000},
      {"a slow network", "serialized", NULL, 1000000000, 500000000, 100000 + 180000 + 5000},
      {"a fast network behind slow NICs", "serialized", NULL, 500000000, 1000000000,
       100000 + 180000 + 5000},
      {"layer-wise: a tenth of it, latency and 8 ms", "layerwise", NULL, 1000000000, 0,
       100000 + 9000 + 5000 + 8000},
      {"layer-wise, slow: 50 MB went during prefill", "layerwise", NULL, 500000000, 0,
       100000 + 80000 + 5000 + 8000},
      {"layer-wise, short", "layerwise", "{serialized_below: 91}", 1000000000, 0,
       100000 + 90000 + 5000},
      {"Splitwise: 90 ms are more than 8 ms", "splitwise", NULL, 1000000000, 0,
       100000 + 9000 + 5000 + 8000},
      {"a link of its own, no latency", "splitwise_sim", "{bandwidth: 2 GB/s}", 1000000000, 0,
       100000 + 45000},
  };
  scene_split(&scene, 1, 1);
  scene.config.network_latency = 5 * MS;
  scene.pools[0].kv_transfer_overhead = 8 * MS;
  for (size_t i = 0; i < COUNT(cases); i++) {
    scene.pools[0].nic_bandwidth = scene.pools[1].nic_bandwidth = cases[i].nic;
    scene.config.network_bandwidth = cases[i].network;
    scene_choose(&scene, POLICY_TRANSFER, cases[i].transfer, cases[i].options);
    run(alone, 1);
    const RequestRecord *record = &scene.records[0];
    cr_expect(record->prefill_instance == 0 && record->decode_instance == 1);
    expect_at(record->first_token_at, 100000, cases[i].what);
    expect_at(record->decode_began_at, cases[i].decodes, cases[i].what);
    expect_at(record->last_token_at, cases[i].decodes + 23830, cases[i].what);
    cr_expect_eq(scene.result.metrics.transfers, 1u);
    cr_expect_eq(scene.result.metrics.transferred_bytes, 90000000);
    const Metrics *metrics = &scene.result.metrics;
    expect_at(metrics->tbt.max, cases[i].decodes - 100000 + 11910, "the second gap");
    expect_at(metrics->second_token.max, cases[i].decodes - 100000 + 11910, "the second token");
    expect_at(metrics->kv_transfer.max, cases[i].decodes - 100000, "the transfer");
    cr_expect(metrics->second_token.total == 1 && metrics->kv_transfer.total == 1);
  }
}

/* 90 tokens for 100 ms on the first machine; one token for 23.83 ms on the other. */
Test(simulation, tokens_in_a_batch_are_weighted_by_time) {
  scene_split(&scene, 1, 1);
  run(alone, 1);
  const Histogram *prefill = scene.result.pools[0].batch_tokens;
  const Histogram *decode = scene.result.pools[1].batch_tokens;
  cr_expect(prefill->min == 90 && prefill->max == 90 && decode->min == 1 && decode->max == 1);
  cr_expect_eq(prefill->total, 100000u, "microseconds in prefill");
  cr_expect_eq(decode->total, 23830u, "microseconds in decode");
}

Test(simulation, transfers_into_one_machine_share_its_nic) {
  scene_split(&scene, 2, 1);
  const TraceRow rows[] = {row(0, 90, 3), row(0, 90, 3)};
  run(rows, 2);
  cr_expect_neq(scene.records[0].prefill_instance, scene.records[1].prefill_instance);
  // both at 1/2 GB/s; the machine begins with the one, whose first step the other waits for
  expect_at(scene.records[0].decode_began_at, 100000 + 180000, "decode of the first");
  expect_at(scene.records[1].decode_began_at, 100000 + 180000 + 11910, "of the second");
}

/* The KV of a request is six blocks; the first has seven when the second of the later cases is
 * prefilled. */
Test(simulation, kv_waits_at_its_sender_for_room_at_the_receiver) {
  static const struct {
    const char *what;
    int64_t kv_blocks;
    Tick arrives;
    bool waits;
  } cases[] = {
      {"four are free", 10, 2 * MS, true},
      {"six, but not one for the first to grow into", 13, 162 * MS, true},
      {"seven", 14, 162 * MS, false},
  };
  scene_split(&scene, 2, 1);
  // 29 steps over 91, 92 … tokens
  const Tick gone = 190000 + 29 * 11000 + 10 * (29 * 91 + 406);
  for (size_t i = 0; i < COUNT(cases); i++) {
    scene.pools[1].kv_blocks = cases[i].kv_blocks;
    const TraceRow rows[] = {row(0, 90, 30), row(cases[i].arrives, 90, 30)};
    run(rows, 2);
    if (cases[i].waits) {
      cr_expect_eq(scene.result.metrics.recomputes, 0u);
      expect_at(scene.records[0].last_token_at, gone, cases[i].what);
      expect_at(scene.records[1].decode_began_at, gone + 90000, cases[i].what);
    } else {
      cr_expect_lt(scene.records[1].decode_began_at, 370 * MS, "%s", cases[i].what);
    }
  }
}

Test(simulation, kv_promised_to_a_machine_counts_there_before_it_arrives) {
  static const struct {
    const char *router;
    InstanceIx second; // decodes on
  } cases[] = {{"least_kv", 2}, {"splitwise_sim_kv_jsq", 1}};
  scene_split(&scene, 1, 2);
  for (size_t i = 0; i < COUNT(cases); i++) {
    scene_choose(&scene, POLICY_ROUTER, cases[i].router, NULL);
    const TraceRow rows[] = {row(0, 90, 30), row(1 * MS, 90, 30)};
    run(rows, 2);
    cr_expect_eq(scene.records[0].decode_instance, 1u, "%s", cases[i].router);
    cr_expect_eq(scene.records[1].decode_instance, cases[i].second, "%s", cases[i].router);
  }
}

/* --- roles */

/* The second prompt is past the limit of machine 0 and goes to the idle machine 2, which is mixed
 * for it; that is why the third follows it there and not to machine 1. */
Test(simulation, a_machine_plays_the_opposite_role_while_it_has_such_a_task) {
  scene_split(&scene, 1, 2);
  scene_choose(&scene, POLICY_ROUTER, "splitwise", "{prefill_queue_limit: 150}");
  scene_choose(&scene, POLICY_POOL, "splitwise_mixed", NULL);
  const TraceRow rows[] = {row(0, 90, 3), row(1 * MS, 70, 3), row(2 * MS, 61, 3),
                           row(500 * MS, 90, 3)};
  static const InstanceIx want[][2] = {{0, 1}, {2, 2}, {2, 1}, {0, 1}};
  run(rows, COUNT(rows));
  for (size_t i = 0; i < COUNT(rows); i++) {
    cr_expect_eq(scene.records[i].prefill_instance, want[i][0], "request %zu", i);
    cr_expect_eq(scene.records[i].decode_instance, want[i][1], "request %zu", i);
  }
  expect_at(scene.records[1].first_token_at, 81000, "the second request's first token");
  cr_expect_eq(scene.result.metrics.role_changes, 2u, "there and back");
  cr_expect_eq(scene.result.metrics.transfers, 3u, "the second stays where it is");
}

Test(simulation, a_machine_past_all_limits_serves_both_phases_in_its_role) {
  scene_split(&scene, 1, 1);
  scene_choose(&scene, POLICY_ROUTER, "splitwise",
               "{prefill_queue_limit: 150, decode_queue_limit: 1}");
  scene_choose(&scene, POLICY_POOL, "splitwise_mixed", NULL);
  const TraceRow rows[] = {row(0, 90, 3), row(1 * MS, 90, 3)};
  run(rows, 2);
  cr_expect(scene.records[1].prefill_instance == 1 && scene.records[1].decode_instance == 1);
  expect_at(scene.records[1].first_token_at, 101000, "the second request's first token");
  cr_expect_eq(scene.result.metrics.role_changes, 0u);
}

/* Neither prefill fits the limit nor decode the mixed machine, so that machine 0 is moved for the
 * decode; in vain, as there is none to move for the prefill. It is mixed until it is idle. */
Test(simulation, a_machine_that_was_moved_in_vain_is_mixed_all_the_same) {
  scene_split(&scene, 1, 1);
  scene.pools[1].role = ROLE_MIXED;
  scene.pools[1].kv_blocks = 20;
  scene_choose(&scene, POLICY_ROUTER, "splitwise_sim_mixed_pool", "{prefill_queue_limit: 40}");
  scene_choose(&scene, POLICY_POOL, "splitwise_sim", NULL);
  const TraceRow rows[] = {row(0, 90, 3), row(1 * MS, 90, 3), row(2 * MS, 50, 3),
                           row(3 * MS, 90, 3)};
  static const InstanceIx want[][2] = {{0, 1}, {0, 1}, {1, 1}, {1, 1}};
  run(rows, COUNT(rows));
  for (size_t i = 0; i < COUNT(rows); i++) {
    cr_expect_eq(scene.records[i].prefill_instance, want[i][0], "request %zu", i);
    cr_expect_eq(scene.records[i].decode_instance, want[i][1], "request %zu", i);
  }
  cr_expect_eq(scene.result.metrics.role_changes, 2u, "there and back");
}

/* --- what a run adds up */

Test(simulation, energy_is_of_busy_and_idle_machines) {
  PoolSpec *pool = &scene.pools[0];
  pool->count = 2;
  pool->idle_power = 100;
  pool->prefill_power = 1000;
  pool->decode_power = 500;
  run(alone, 1);
  const PoolResult *result = &scene.result.pools[0];
  cr_expect_float_eq(result->energy_j, 0.1 * 1000 + 0.02383 * 500 + 0.12383 * 100, 1e-9);
  cr_expect_float_eq(scene.result.energy_j, result->energy_j, 1e-12);
  cr_expect_float_eq(result->utilization, 0.5, 1e-12);
  expect_at(scene.result.instances[0].prefill_ticks, 100000, "machine 0");
  expect_at(scene.result.instances[1].prefill_ticks, 0, "machine 1");
}

/* 64 machines that prefill for two days and decode for two: 256 days, more than a Tick or, in
 * ticks, a counter of a histogram holds. */
Test(simulation, machines_may_be_busy_for_longer_together_than_a_tick_holds) {
  enum { N = SCENE_REQUESTS };
  const Tick day = 86400 * TICKS_PER_SECOND;
  PerfModel model = *scene.pools[0].perfmodel;
  model.linear = model.head = (Pwl){0};
  model.overhead = 2 * day;
  perfmodel_compile(&model, &(CurveTable){0}, 4, &arena);
  PoolSpec *pool = &scene.pools[0];
  pool->perfmodel = &model;
  pool->count = N;
  pool->idle_power = 100;
  pool->prefill_power = 1000;
  pool->decode_power = 500;
  TraceRow rows[N];
  for (int i = 0; i < N; i++)
    rows[i] = row(0, 90, 2);
  run(rows, N);
  const PoolResult *result = &scene.result.pools[0];
  cr_expect_eq(result->totals.prefill_ticks, (Total)2 * N * day);
  cr_expect_eq(result->totals.decode_ticks, (Total)2 * N * day);
  cr_expect_eq(result->batch_tokens->total, UINT64_C(4) * N * 86400 * 1000000);
  cr_expect_float_eq(result->utilization, 1, 1e-12);
  cr_expect_float_eq(result->energy_j, 2 * 86400.0 * N * (1000 + 500), 1);
}

/* The plain model is measured up to 1000 tokens and 10,000 tokens of context. */
Test(simulation, iterations_outside_the_measurements_are_counted) {
  static const struct {
    int32_t prompt, output;
    int64_t iterations[3]; // none, near, far
  } cases[] = {
      {90, 3, {3, 0, 0}},   {1000, 3, {3, 0, 0}}, {1500, 3, {2, 1, 0}},
      {3000, 3, {2, 0, 1}}, {9998, 5, {2, 2, 1}}, // contexts 9999 … 10002
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const TraceRow rows[] = {row(0, cases[i].prompt, cases[i].output)};
    run(rows, 1); // the results are those of --step
    for (int step = 1; step >= 0; step--) {
      scene.config.step = step;
      cr_assert_eq(scene_run(&scene, rows, 1), 0);
      const InstanceTotals *totals = &scene.result.totals;
      Tick ticks = 0;
      for (int e = 0; e < 3; e++) {
        cr_expect_eq(totals->extrapolated_iterations[e], cases[i].iterations[e], "case %zu", i);
        ticks += totals->extrapolated_ticks[e];
      }
      cr_expect_eq(ticks, totals->prefill_ticks + totals->decode_ticks);
    }
  }
}

Test(simulation, the_log_tells_a_request_from_arrival_to_last_token) {
  char *text = NULL;
  size_t size = 0;
  scene_split(&scene, 1, 1);
  scene.config.event_log = open_memstream(&text, &size);
  cr_assert_not_null(scene.config.event_log);
  cr_assert_eq(scene_run(&scene, alone, 1), 0);
  fclose(scene.config.event_log);
  cr_expect_str_eq(text, "time_s,event,request,machine,a,b\n"
                         "0.000000000000,arrival,0,,90,3\n"
                         "0.000000000000,placement,0,0,1,0\n"
                         "0.000000000000,prefill_begin,0,0,90,0\n"
                         "0.100000000000,first_token,0,0,0,0\n"
                         "0.100000000000,transfer_begin,0,0,1,90\n"
                         "0.190000000000,transfer_end,0,0,1,90\n"
                         "0.190000000000,decode_begin,0,1,0,0\n"
                         "0.213830000000,last_token,0,1,0,0\n");
  free(text);
}

/* --- what cannot be served, and what stops a run */

Test(simulation, a_request_that_no_machine_can_hold_is_rejected_and_counted) {
  // 16,000 tokens of KV in all
  const TraceRow rows[] = {row(0, 15000, 2000), row(0, 15000, 1001), row(MS, 16001, 1),
                           row(2 * MS, 90, 3)};
  run(rows, COUNT(rows));
  static const bool want[] = {true, false, true, false};
  for (size_t i = 0; i < COUNT(rows); i++) {
    cr_expect_eq(scene.records[i].rejected, want[i] ? REJECTED_KV_MEMORY : REJECTED_NOT,
                 "request %zu", i);
    cr_expect_eq(scene.records[i].prefill_instance == INSTANCE_NONE, want[i], "request %zu", i);
    cr_expect_eq(scene.records[i].last_token_at < 0, want[i], "request %zu", i);
  }
  cr_expect_eq(scene.result.metrics.rejected, 2u);
  cr_expect_eq(scene.result.metrics.rejected_for[REJECTED_KV_MEMORY], 2u);
  cr_expect_eq(scene.result.rooms[0].tokens[PHASE_DECODE], 16000);
  cr_expect_eq(scene.result.metrics.completed, 2u);
  cr_expect_eq(scene.result.metrics.ttft.total, 2u);
}

Test(simulation, a_request_too_large_for_the_machine_picked_goes_to_the_roomiest) {
  scene.pools[1] = scene.pools[0];
  scene.pools[1].kv_blocks = 10;
  scene.config.n_pools = 2;
  const TraceRow rows[] = {row(0, 90, 50), row(MS, 90, 50), row(2 * MS, 90, 2),
                           row(3 * MS, 200, 10)};
  static const InstanceIx want[] = {0, 1, 0, 0}; // by the fewest requests, but for the last
  run(rows, COUNT(rows));
  for (size_t i = 0; i < COUNT(rows); i++)
    cr_expect_eq(scene.records[i].prefill_instance, want[i], "request %zu", i);
}

Test(simulation, what_no_machine_can_hold_is_counted_of_a_file_as_of_draws) {
  TraceRow rows[] = {row(0, 90, 3), row(MS, 16001, 1), row(2 * MS, 90, 16000)};
  for (size_t i = 0; i < COUNT(rows); i++)
    rows[i].place = (Place){.path = "trace.csv", .line = 7, .column = 3, .width = 5};
  run(rows, COUNT(rows));
  cr_expect_eq(scene.result.metrics.rejected_for[REJECTED_KV_MEMORY], 2u);
  cr_expect_eq(scene.result.metrics.completed, 1u);
}

static int refuse(void *context, const RequestRecord *record, const Metrics *so_far,
                  Diag *ret_diag) {
  (void)so_far;
  (void)record;
  ++*(int *)context;
  return diag_environment(ret_diag, (Place){0}, "the disk is full");
}

Test(simulation, a_callback_that_fails_stops_the_run_and_is_not_called_again) {
  static const struct {
    const char *what;
    Tick second; // arrives at
  } cases[] = {{"long after the first", 1000 * MS}, {"to end with the first", 1 * MS}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    int calls = 0;
    scene.config.on_request = refuse;
    scene.config.on_request_context = &calls;
    const TraceRow rows[] = {row(0, 90, 3), row(cases[i].second, 90, 3)};
    cr_expect_lt(scene_run(&scene, rows, COUNT(rows)), 0);
    cr_expect_eq(calls, 1, "%s: %d calls", cases[i].what, calls);
    cr_expect_eq(diag.n_entries, (int)i + 1);
  }
}

static int stop_at_two(void *context, const RequestRecord *record, const Metrics *so_far,
                       Diag *ret_diag) {
  (void)record, (void)so_far, (void)ret_diag;
  return ++*(int *)context == 2;
}

Test(simulation, a_callback_can_end_the_run_with_what_there_is) {
  int calls = 0;
  scene.config.on_request = stop_at_two;
  scene.config.on_request_context = &calls;
  const TraceRow rows[] = {row(0, 90, 3), row(1000 * MS, 90, 3), row(2000 * MS, 90, 3)};
  cr_expect_eq(scene_run(&scene, rows, COUNT(rows)), 0);
  cr_expect(scene.result.stopped);
  cr_expect_eq(calls, 2);
  cr_expect_eq(scene.result.metrics.completed, 2u);
  cr_expect_lt(scene.result.span, 2000 * MS);
  cr_expect_eq(diag.n_entries, 0);
}

static int fail(TraceSource *source, TraceRow *ret_row, Diag *ret_diag) {
  (void)source, (void)ret_row;
  return diag_error(ret_diag, place_of_file("trace.csv"), "a bad row");
}

Test(simulation, a_trace_that_fails_stops_the_run) {
  TraceSource source = {.next = fail, .status = 1};
  scene.config.trace = &source;
  SimResult result;
  cr_expect_lt(sim_run(&scene.config, &result, &arena, &diag), 0);
  cr_expect_eq(diag.n_entries, 1);
}

Test(simulation, no_requests_give_an_empty_run) {
  run(alone, 0);
  cr_expect(scene.result.span == 0 && scene.result.metrics.completed == 0);
  cr_expect(scene.result.energy_j == 0 && scene.result.pools[0].utilization == 0);
}

/* --- repeating a run */

static uint64_t digest_of_busy(uint64_t seed, const char *router) {
  enum { N = SCENE_REQUESTS };
  TraceRow rows[N];
  for (int i = 0; i < N; i++)
    rows[i] = row(i * 20 * MS, 30 + i * 37 % 100, 1 + i * 11 % 40);
  scene.config.seed = seed;
  scene_choose(&scene, POLICY_ROUTER, router, NULL);
  run(rows, N);
  return scene.result.digest;
}

Test(simulation, the_same_run_has_the_same_digest) {
  scene_split(&scene, 3, 2);
  const uint64_t random = digest_of_busy(1, "random"), jsq = digest_of_busy(1, "jsq");
  cr_expect_eq(digest_of_busy(1, "random"), random);
  cr_expect_eq(digest_of_busy(2, "jsq"), jsq, "nothing is drawn");
  cr_expect_neq(digest_of_busy(2, "random"), random);
  cr_expect_neq(jsq, random);
  scene.config.audit = false;
  cr_expect_eq(digest_of_busy(1, "jsq"), jsq, "the audit only reads");
}
