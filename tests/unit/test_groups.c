/* Groups of GPUs that change their shape: what each rule of the schedule and each option does, that
 * the books add up, and that a timeline shows what happened and changes nothing. A whole cycle by
 * hand is in tests/golden/shapes.c. */
#include "sim/pool/pool.h"
#include "tests/unit/scene_testing.h"
#include <stdio.h>

static GroupSpec group;

/* A prefill and a decode machine of 1000 blocks of one token that are the same GPUs. A token of KV
 * is 1 MB and takes 1 ms either way; turning takes 50 ms; a prompt is prefilled by itself. */
static void begin(void) {
  setup_scene();
  scene_split(&scene, 1, 1);
  scene.pools[0].block_size = scene.pools[1].block_size = 1;
  group = (GroupSpec){.name = "gpus",
                      .pools = {0, 1},
                      .store_blocks = 250,
                      .turn_bytes = {50000000, 50000000},
                      .overlaps = true};
  for (int i = 0; i < 2; i++)
    scene.pools[i].host_link.options = (HostLinkOptions){1000000000, 1000000000, .efficiency = 1};
  scene.config.groups = &group;
  scene.config.n_groups = 1;
  scene_choose(&scene, POLICY_POOL, "seesaw", NULL);
  scene_choose(&scene, POLICY_BATCHER, "continuous", "{max_num_batched_tokens: 100}");
}

TestSuite(groups, .init = begin, .fini = teardown);

/* Runs, and checks that all of the time is in the books and that what went out came in again. */
static const Group *run_group(const TraceRow *rows, size_t n_rows) {
  cr_assert_eq(scene_run(&scene, rows, n_rows), 0);
  cr_assert_eq(scene.result.unfinished, 0);
  const Group *ran = &scene.result.groups[0];
  Tick sum = 0;
  for (int i = 0; i < GROUP_ACTIVITIES; i++)
    sum += ran->totals.ticks[i];
  cr_expect_eq(sum, scene.result.span);
  cr_expect_eq(ran->totals.ticks[GROUP_RESHARDS], ran->totals.turns * 50 * MS);
  cr_expect_eq(ran->totals.copied_bytes[COPY_OUT], ran->totals.copied_bytes[COPY_IN]);
  cr_expect_eq(ran->free_blocks, group.store_blocks);
  return ran;
}

static const TraceRow six[] = {
    {.prompt_tokens = 100, .output_tokens = 5}, {.prompt_tokens = 100, .output_tokens = 5},
    {.prompt_tokens = 100, .output_tokens = 5}, {.prompt_tokens = 100, .output_tokens = 5},
    {.prompt_tokens = 100, .output_tokens = 5}, {.prompt_tokens = 100, .output_tokens = 5}};

/* Each takes 100 of the 250 blocks: three times two of them, five turns. */
Test(groups, a_store_that_is_full_ends_prefill) {
  scene_choose(&scene, POLICY_POOL, "seesaw", "{finish: true}");
  const Group *ran = run_group(six, COUNT(six));
  cr_expect_eq(ran->totals.turns, 5);
  cr_expect_eq(ran->totals.most_stored_blocks, 200);
  cr_expect_eq(ran->totals.copied_bytes[COPY_OUT], INT64_C(600000000));
  group.store_blocks = 600;
  cr_expect_eq(run_group(six, COUNT(six))->totals.turns, 1);
}

/* Without `finish` a sequence that still decodes goes back to the store, so that more is copied. */
Test(groups, sequences_on_the_gpus_are_drained_or_finish) {
  const Group *ran = run_group(six, COUNT(six));
  cr_expect_gt(ran->totals.copied_bytes[COPY_OUT], INT64_C(600000000));
  cr_expect_gt(ran->totals.turns, 5);
  cr_expect_gt(ran->totals.ticks[GROUP_DRAINS], 0);
  cr_expect_eq(scene.result.metrics.recomputes, 0);
}

/* Two sequences of 100 blocks and more leave 50 of 250 at most: the prompt of 60 that waits has to
 * wait until one of them ends, though the store is empty. */
Test(groups, decode_is_left_only_when_all_of_its_kv_fits_beside_the_next_prompt) {
  const TraceRow rows[] = {row(0, 100, 5), row(0, 100, 40), row(0, 60, 5)};
  run_group(rows, COUNT(rows));
  cr_expect_gt(scene.records[2].prefill_began_at, scene.records[0].last_token_at);
  cr_expect_lt(scene.records[2].prefill_began_at, scene.records[1].last_token_at);
}

/* The GPUs hold one request at a time, so that one stays in the store while another decodes; the
 * third comes meanwhile. */
Test(groups, a_schedule_says_who_waits) {
  static const char *const schedules[] = {"{schedule: prefill_prioritizing}",
                                          "{schedule: transition_minimizing}",
                                          "{schedule: decode_prioritizing}"};
  const TraceRow rows[] = {row(0, 100, 60), row(0, 100, 60), row(1000 * MS, 20, 3)};
  Tick waits[3];
  int64_t turns[3];
  scene.pools[1].kv_blocks = 180;
  group.store_blocks = 500;
  for (int i = 0; i < 3; i++) {
    scene_choose(&scene, POLICY_POOL, "seesaw", schedules[i]);
    turns[i] = run_group(rows, COUNT(rows))->totals.turns;
    waits[i] = scene.records[2].prefill_began_at;
    const bool waits_for_first = waits[i] > scene.records[0].last_token_at;
    const bool waits_for_both = waits[i] > scene.records[1].last_token_at;
    cr_expect_eq(waits_for_first, i >= 1, "%s", schedules[i]);
    cr_expect_eq(waits_for_both, i == 2, "%s", schedules[i]);
  }
  cr_expect_lt(waits[0], waits[1]);
  cr_expect_lt(waits[1], waits[2]);
  cr_expect_eq(turns[2], 3);
}

/* A batch is full when it fills the GPUs, 200 of 180 blocks: the third prompt is not prefilled. */
Test(groups, a_decode_prioritizing_batch_is_as_large_as_the_gpus_hold) {
  scene.pools[1].kv_blocks = 180;
  group.store_blocks = 500;
  scene_choose(&scene, POLICY_POOL, "seesaw", "{schedule: decode_prioritizing}");
  run_group(six, COUNT(six));
  cr_expect_gt(scene.records[2].prefill_began_at, scene.records[1].last_token_at);
  scene_choose(&scene, POLICY_POOL, "seesaw", NULL);
  run_group(six, COUNT(six));
  cr_expect_lt(scene.records[2].prefill_began_at, scene.records[0].last_token_at);
}

Test(groups, copies_overlap_with_iterations_or_hold_them_up) {
  const TraceRow rows[] = {row(0, 100, 2), row(0, 100, 2)};
  run_group(rows, COUNT(rows));
  cr_expect_eq(scene.records[1].prefill_began_at, scene.records[0].first_token_at);
  group.overlaps = false;
  const Group *ran = run_group(rows, COUNT(rows));
  cr_expect_eq(scene.records[1].prefill_began_at, scene.records[0].first_token_at + 100 * MS);
  cr_expect_geq(ran->totals.ticks[GROUP_STALLS], 100 * MS);
}

/* With two lanes the one whose copy is not the last has to be begun anew as well. */
Test(groups, all_lanes_go_on_when_the_copies_that_held_them_up_have_ended) {
  const TraceRow rows[] = {row(0, 100, 2), row(0, 60, 2), row(0, 50, 2), row(0, 50, 2)};
  scene.pools[0].count = 2;
  scene.pools[0].pipeline_stages = 2;
  scene_choose(&scene, POLICY_ROUTER, "round_robin", NULL);
  group.overlaps = false;
  group.store_blocks = 500;
  run_group(rows, COUNT(rows));
  for (size_t i = 0; i < COUNT(rows); i++)
    cr_expect_eq(scene.records[i].prefill_instance, i % 2);
  cr_expect_eq(scene.records[2].prefill_began_at, scene.records[3].prefill_began_at);
}

/* Nobody knows of a prompt that it will end with its first token: it has a place in the store until
 * then, so that the other lane has to wait for it. */
Test(groups, a_request_of_one_token_has_a_place_in_the_store_until_it_ends) {
  const TraceRow rows[] = {row(0, 240, 1), row(0, 240, 1)};
  scene.pools[0].count = 2;
  scene.pools[0].pipeline_stages = 2;
  scene_choose(&scene, POLICY_ROUTER, "round_robin", NULL);
  const Group *ran = run_group(rows, COUNT(rows));
  cr_expect_eq(ran->totals.turns, 0);
  cr_expect_eq(ran->totals.most_stored_blocks, 240);
  cr_expect_eq(ran->totals.copied_bytes[COPY_OUT], 0);
  cr_expect_eq(scene.records[1].prefill_began_at, scene.records[0].first_token_at);
}

/* Both have made a few tokens when the third's prompt comes. The first to arrive goes out first,
 * though it has more left to make, which nobody knows. */
Test(groups, what_goes_back_to_the_store_goes_in_order_of_arrival) {
  const TraceRow rows[] = {row(0, 50, 60), row(0, 50, 40), row(400 * MS, 20, 3)};
  char *text = NULL, order[8] = "";
  size_t size = 0, n = 0;
  scene.config.event_log = open_memstream(&text, &size);
  run_group(rows, COUNT(rows));
  fclose(scene.config.event_log);
  for (const char *at = text; (at = strstr(at, "copy_out,")) && n + 1 < sizeof order; n++)
    order[n] = *(at += strlen("copy_out,"));
  cr_expect_str_eq(order, "01012");
  free(text);
}

/* Prompts that had begun when the GPUs left hold places in the store until they are prefilled. */
Test(groups, decode_is_left_when_nothing_else_holds_the_store) {
  GroupView view = {.shape = SHAPE_DECODE,
                    .n_prompts = 2,
                    .takes_prompt = true,
                    .room_blocks = 11,
                    .stored_blocks = 55,
                    .store_blocks = 66};
  const PolicyChoice choice = choose_policy(POLICY_POOL, "seesaw", NULL, &arena);
  void *state = policy_state(POLICY_POOL, "seesaw", NULL, &arena);
  const PoolPolicy *pool = (const PoolPolicy *)choice.policy;
  cr_expect_eq(pool->shape(state, &view), SHAPE_PREFILL);
  view.n_decoding = 1;
  cr_expect_eq(pool->shape(state, &view), SHAPE_DECODE);
}

/* The same link as a tier's: a rate for each direction, h bytes more a copy, what others take. */
Test(groups, copies_and_turns_go_over_the_link_to_cpu_memory) {
  const TraceRow rows[] = {row(0, 100, 2)};
  run_group(rows, COUNT(rows));
  const Tick quick = scene.records[0].decode_began_at;
  scene.pools[1].host_link.options.to_gpu = 500000000; // 100 MB in 200 ms, 50 MB of weights in 100
  cr_assert_eq(scene_run(&scene, rows, COUNT(rows)), 0);
  cr_expect_eq(scene.records[0].decode_began_at, quick + 100 * MS + 50 * MS);
  scene.pools[0].host_link.options.half_size = 10000000; // out 10 ms, in and weights 20 each
  scene.pools[1].host_link.options.half_size = 10000000;
  cr_assert_eq(scene_run(&scene, rows, COUNT(rows)), 0);
  cr_expect_eq(scene.records[0].decode_began_at, quick + 150 * MS + 50 * MS);
  scene.pools[0].host_link.options.half_size = scene.pools[1].host_link.options.half_size = 0;
  group.copy_share[COPY_OUT] = 2;
  cr_assert_eq(scene_run(&scene, rows, COUNT(rows)), 0);
  cr_expect_eq(scene.records[0].decode_began_at, quick + 150 * MS + 100 * MS);
}

/* As many prompts as three stores hold, decoded by GPUs with memory for all of them: the store is
 * empty at once, and beside the KV on the GPUs it soon has room for a prompt, time after time. */
Test(groups, a_small_store_is_not_turned_for_prompt_by_prompt) {
  TraceRow rows[24];
  int64_t turns[2];
  for (size_t i = 0; i < COUNT(rows); i++)
    rows[i] = row(0, 30, 20 + 3 * (int32_t)i);
  for (int i = 0; i < 2; i++) {
    scene_choose(&scene, POLICY_POOL, "seesaw", i ? NULL : "{min_room: 0}");
    turns[i] = run_group(rows, COUNT(rows))->totals.turns;
  }
  cr_expect_lt(2 * turns[1], turns[0], "%lld of %lld", (long long)turns[1], (long long)turns[0]);
}

Test(groups, a_prompt_larger_than_the_store_is_rejected) {
  const TraceRow rows[] = {row(0, 250, 2), row(0, 251, 2), row(0, 30, 2)};
  run_group(rows, COUNT(rows));
  cr_expect_eq(scene.result.metrics.completed, 2);
  cr_expect_eq(scene.result.metrics.rejected, 1);
  cr_expect_eq(scene.records[1].rejected, REJECTED_STORE);
  cr_expect_eq(scene.result.metrics.rejected_for[REJECTED_STORE], 1);
  cr_expect_eq(scene.result.rooms[0].store_tokens, 250);
}

/* Both directions at 1 B/s take years, and so does a turn. */
Test(groups, a_run_that_passes_the_end_of_time_fails) {
  const TraceRow rows[] = {row(0, 100, 3)};
  for (int i = 0; i < 4; i++) {
    const GroupSpec usual = group;
    const HostLink link = scene.pools[0].host_link;
    if (i == 0) scene.pools[0].host_link.options.to_cpu = 1;
    if (i == 1) scene.pools[1].host_link.options.to_gpu = 1;
    if (i >= 2) group.turn_bytes[SHAPE_DECODE] = i == 2 ? INT64_MAX : INT64_C(9220000000000000);
    cr_expect_eq(scene_run(&scene, rows, COUNT(rows)), -1, "case %d", i);
    cr_assert_eq(diag.n_entries, i + 1);
    cr_expect_str_eq(
        diag.entries[i].message,
        "the run is longer than 106 days of simulated time, the limit of the simulator");
    group = usual;
    scene.pools[0].host_link = scene.pools[1].host_link = link;
  }
}

/* --- timelines */

static const TraceRow arrivals[] = {{.at = 0, .prompt_tokens = 100, .output_tokens = 30},
                                    {.at = 0, .prompt_tokens = 60, .output_tokens = 9},
                                    {.at = 400 * MS, .prompt_tokens = 120, .output_tokens = 20},
                                    {.at = 9000 * MS, .prompt_tokens = 80, .output_tokens = 50}};

/* The spans between rows are the books of the group, and its rows are where they may be. */
static void check_timeline(const SimResult *result, Tick interval) {
  const Timeline *timeline = result->timeline;
  Tick ticks[GROUP_ACTIVITIES] = {0};
  cr_assert_not_null(timeline);
  cr_assert_eq(timeline->rows[0].at, 0);
  for (size_t i = 0; i < timeline->n_rows; i++) {
    const TimelineRow *at = &timeline->rows[i];
    const Tick until = i + 1 < timeline->n_rows ? at[1].at : result->span;
    cr_assert(i == 0 || at[0].at > at[-1].at);
    ticks[at->activity] += until - at->at;
    cr_expect(i == 0 || at->at % interval == 0 || at->activity != at[-1].activity ||
              at->shape != at[-1].shape);
    cr_expect(0 <= at->store_blocks && at->store_blocks <= group.store_blocks);
    cr_expect(0 <= at->gpu_blocks && at->gpu_blocks <= 1000);
  }
  cr_expect_eq(memcmp(ticks, result->groups[0].totals.ticks, sizeof ticks), 0);
}

Test(groups, a_timeline_shows_what_happened_and_changes_nothing) {
  run_group(arrivals, COUNT(arrivals));
  const uint64_t digest = scene.result.digest, events = scene.result.events;
  cr_expect_null(scene.result.timeline);
  static const Tick intervals[] = {TICKS_PER_SECOND / 1000, 7 * MS, 100 * TICKS_PER_SECOND};
  size_t n_rows[3];
  for (int i = 0; i < 3; i++) {
    scene.config.timeline_interval = intervals[i];
    run_group(arrivals, COUNT(arrivals));
    cr_expect_eq(scene.result.digest, digest);
    cr_expect_eq(scene.result.events, events);
    check_timeline(&scene.result, intervals[i]);
    n_rows[i] = scene.result.timeline->n_rows;
  }
  cr_expect_gt(n_rows[0], n_rows[1]);
  cr_expect_gt(n_rows[1], n_rows[2]);
}

/* Blocks that a decode run takes while it goes on are seen at the tick. */
Test(groups, stepped_and_coalesced_runs_have_one_timeline) {
  scene.config.timeline_interval = MS;
  run_group(arrivals, COUNT(arrivals));
  const Timeline *coalesced = scene.result.timeline;
  scene.config.step = true;
  run_group(arrivals, COUNT(arrivals));
  const Timeline *stepped = scene.result.timeline;
  cr_assert_eq(coalesced->n_rows, stepped->n_rows);
  for (size_t i = 0; i < stepped->n_rows; i++) {
    const TimelineRow *a = &coalesced->rows[i], *b = &stepped->rows[i];
    cr_expect(a->at == b->at && a->activity == b->activity && a->gpu_blocks == b->gpu_blocks &&
                  a->store_blocks == b->store_blocks && a->n_prompts == b->n_prompts &&
                  a->n_decoding == b->n_decoding,
              "row %zu at %lld and %lld: %lld and %lld blocks", i, (long long)a->at,
              (long long)b->at, (long long)a->gpu_blocks, (long long)b->gpu_blocks);
  }
}

/* An iteration with prefill and decodes is mixed time; the rest of its kind is not. */
Test(groups, mixed_iterations_are_told_apart) {
  scene.config.n_groups = 0;
  scene.config.n_pools = 1;
  scene.pools[0].role = ROLE_MIXED;
  scene_choose(&scene, POLICY_POOL, "fixed", NULL);
  const TraceRow rows[] = {row(0, 50, 10), row(100 * MS, 20, 1)};
  scene_choose(&scene, POLICY_BATCHER, "continuous", NULL);
  cr_assert_eq(scene_run(&scene, rows, COUNT(rows)), 0);
  cr_expect_eq(scene.result.totals.mixed_ticks, 0);
  scene_choose(&scene, POLICY_BATCHER, "mixed", NULL);
  cr_assert_eq(scene_run(&scene, rows, COUNT(rows)), 0);
  /* The second comes in the fourth decode: 10 ms, 21 tokens, and a context of 50 + 5. */
  cr_expect_eq(scene.result.totals.mixed_ticks, 31 * MS + 550 * US);
  cr_expect_eq(scene.result.totals.prefill_ticks, 60 * MS + 31 * MS + 550 * US);
}

/* --- faults. A request of 90 tokens and 3 of output that comes at 10 ms is prefilled until 110,
 * copied out until 200, the GPUs turn until 250, it is copied in until 340 and has its tokens at
 * 351.91 and 363.83. */

static FaultSpan span;
static FaultSource source;

/* The only bad time, of pool `p`, ends at 400 ms; the engine takes 50 ms to start. */
static void fault(FaultKind kind, uint32_t p, int64_t from_ms) {
  span = (FaultSpan){from_ms * MS, 400 * MS};
  source = (FaultSource){.kind = kind, .first = p, .n_instances = 1, .spans = &span, .n_spans = 1};
  scene.config.faults = &source;
  scene.config.n_faults = 1;
  scene.config.retry = (RetryOptions){.limit = 3, .backoff = 25 * MS};
  scene.pools[0].start_up.boot = 50 * MS;
  const TraceRow rows[] = {row(10 * MS, 90, 3)};
  run(rows, 1);
}

/* Whenever and in whichever pool it fails, all begins anew in the first shape at 450 ms. */
Test(groups, a_group_that_fails_loses_all_and_starts_in_its_first_shape) {
  static const int64_t times[] = {50, 150, 220, 300, 350};
  for (size_t i = 0; i < COUNT(times); i++)
    for (uint32_t p = 0; p < 2; p++) {
      fault(FAULT_FAIL, p, times[i]);
      cr_expect_eq(scene.result.metrics.losses, 1, "at %lld ms", (long long)times[i]);
      expect_at(scene.records[0].first_token_at, 550000, "prefilled anew");
      expect_at(scene.records[0].last_token_at, 803830, "decoded anew");
    }
}

/* What has a place in the store is lost, and what is decoded is not. No prompt begins until 400 ms;
 * a group that has turned by then turns back first. */
Test(groups, a_store_that_fails_loses_what_it_holds_while_the_gpus_go_on) {
  static const struct {
    const char *what;
    int64_t at, losses; // ms
    Tick first, last;   // us
  } cases[] = {{"in prefill, lost as that ends", 50, 1, 500000, 753830},
               {"copied out, lost as that ends", 150, 1, 550000, 803830},
               {"stored", 220, 1, 550000, 803830},
               {"copied in, lost as that ends", 300, 1, 550000, 803830},
               {"decoded", 350, 0, 110000, 363830}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    fault(FAULT_STORE, 0, cases[i].at);
    cr_expect_eq((int64_t)scene.result.metrics.losses, cases[i].losses, "%s", cases[i].what);
    expect_at(scene.records[0].first_token_at, cases[i].first, cases[i].what);
    expect_at(scene.records[0].last_token_at, cases[i].last, cases[i].what);
  }
}

/* --- copies in two stages (Seesaw §5.2) */

/* A prompt of 100 is out of the GPUs 100 ms after its first token, which is when they turn; on its
 * way to the store at 0.5 GB/s it is 200 ms more, of which 50 pass in the turn. */
Test(groups, what_is_in_pinned_memory_cannot_be_read_yet) {
  const TraceRow rows[] = {row(0, 100, 2)};
  run_group(rows, 1);
  const RequestRecord once = scene.records[0];
  group.shared_bandwidth = 500000000;
  const Group *ran = run_group(rows, 1);
  const RequestRecord twice = scene.records[0];
  cr_expect_eq(twice.first_token_at, once.first_token_at);
  cr_expect_eq(twice.last_token_at, once.last_token_at + 150 * MS);
  cr_expect_eq(ran->totals.ticks[GROUP_DRAINS], 100 * MS, "the GPUs are free with the first stage");
  group.shared_bandwidth = 2000000000; // 50 ms, which the turn hides
  run_group(rows, 1);
  cr_expect_eq(scene.records[0].last_token_at, once.last_token_at);
}

/* Two prompts, of which pinned memory holds one: the second leaves the GPUs once the first is in
 * the store, 100 + 200 ms after its first token, and they turn another 100 ms later. */
Test(groups, a_copy_out_waits_for_room_in_pinned_memory) {
  const TraceRow rows[] = {row(0, 100, 2), row(0, 100, 2)};
  group.store_blocks = 500;
  group.shared_bandwidth = 500000000;
  const Tick drained = run_group(rows, 2)->totals.ticks[GROUP_DRAINS];
  cr_expect_eq(drained, 100 * MS);
  group.pinned_bytes = 199000000;
  const Group *ran = run_group(rows, 2);
  const Tick apart = scene.records[1].first_token_at - scene.records[0].first_token_at;
  cr_assert(0 < apart && apart < 200 * MS);
  cr_expect_eq(ran->totals.ticks[GROUP_DRAINS], 400 * MS - apart);
  group.pinned_bytes = 200000000; // both
  cr_expect_eq(run_group(rows, 2)->totals.ticks[GROUP_DRAINS], drained);
  group.pinned_bytes = 50000000; // neither: one at a time
  cr_expect_eq(run_group(rows, 2)->totals.ticks[GROUP_DRAINS], 400 * MS - apart);
}

/* The copies by themselves: three of 10, 20 and 30 bytes at a byte a millisecond through 40. */
Test(groups, pinned_memory_passes_on_in_order) {
  PinnedMemory pinned = {.size = 40, .bandwidth = 1000};
  cr_expect_eq(pinned_room_at(&pinned, 10, 0), 0);
  cr_expect_eq(pinned_pass_on(&pinned, 3, 10, 5 * MS, &arena), 15 * MS);
  cr_expect_eq(pinned_room_at(&pinned, 20, 5 * MS), 5 * MS);
  cr_expect_eq(pinned_pass_on(&pinned, 1, 20, 8 * MS, &arena), 35 * MS);
  cr_expect_eq(pinned_room_at(&pinned, 20, 9 * MS), 15 * MS, "beside 20 of the second");
  cr_expect_eq(pinned_room_at(&pinned, 30, 9 * MS), 35 * MS);
  cr_expect_eq(pinned_room_at(&pinned, 50, 9 * MS), 35 * MS, "alone");
  cr_expect_eq(pinned_room_at(&pinned, 30, 36 * MS), 36 * MS);
  cr_expect_eq(pinned_pass_on(&pinned, 0, 30, 50 * MS, &arena), 80 * MS);
  cr_expect_eq(pinned.readable_at[3], 15 * MS);
  cr_expect_eq(pinned.readable_at[1], 35 * MS);
  pinned_drop(&pinned);
  cr_expect_eq(pinned_room_at(&pinned, 40, 51 * MS), 51 * MS);
}
