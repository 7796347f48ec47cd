/* Groups of layers over one pool of blocks. Pinned, by examples worked by hand: what one request
 * takes and gives back in groups of each kind, what admission counts of a window, where hits end
 * and where junctions are, what is registered at each retention interval, where chunks end for a
 * state, that states after drafts move along, and how many tokens a request has room for; and that
 * after random operations all blocks come back. Not pinned: names' values. */
#include "base/rng.h"
#include "sim/core/kv_groups.h"
#include "tests/unit/testing.h"

TestSuite(kv_groups, .init = setup, .fini = teardown);

enum { BLOCKS = 200 };

static PrefixCache pool;
static KvGroups groups;

static void start(const KvGroupSpec *specs, int32_t n, KvGroupOptions options) {
  const KvLayout layout = {.groups = specs, .n_groups = n};
  prefix_cache_init(&pool, BLOCKS, &arena);
  if (options.max_model_len == 0) options.max_model_len = 1000;
  kv_groups_init(&groups, &layout, &options, &pool, &arena);
}

static Content content_of(uint64_t id) {
  Content content = {0};
  const TraceSegment segment = {id, INT32_MAX};
  content_set(&content, &(TraceRow){.segments = &segment, .n_segments = 1}, 0, &arena);
  return content;
}

/* Tokens from `computed` to `done` of a prompt, as a step has them that nothing runs beside. */
static void step(GroupHolds *holds, const Content *content, int64_t prompt, int64_t computed,
                 int64_t done) {
  const KvReach reach = {computed, done, done};
  const int64_t n_free = pool.n_free;
  kv_groups_decide(&groups);
  if (!holds->known) {
    kv_groups_match(&groups, content, prompt, 0);
    kv_groups_hit(&groups, holds, 0);
  }
  kv_groups_slide(&groups, holds, computed);
  const int64_t given = pool.n_free - n_free,
                needed = kv_groups_need(&groups, holds, &reach, false);
  kv_groups_take(&groups, holds, &reach);
  cr_expect_eq(n_free + given - pool.n_free, needed > 0 ? needed : 0);
  kv_groups_register(&groups, holds, content, prompt, done > prompt ? done : prompt, done);
}

static int64_t held(int32_t g) {
  return groups.groups[g].n_held;
}

/* Blocks of 4: full attention, and a window of 6. */
static const KvGroupSpec WINDOWED[] = {{KV_WINDOW, 4, 6}, {KV_FULL, 4, 0}};

Test(kv_groups, a_window_gives_back_what_falls_out_of_it) {
  start(WINDOWED, 2, (KvGroupOptions){.max_in_flight = 10});
  GroupHolds holds = {0};
  const Content content = content_of(1);
  step(&holds, &content, 40, 0, 10);
  cr_expect_eq(held(0), 3); // ⌈10 / 4⌉
  cr_expect_eq(held(1), 3);
  /* Of 10 sure tokens the last 5 are seen: 5 are out, which is 1 whole block. */
  step(&holds, &content, 40, 10, 20);
  cr_expect_eq(held(0), 4);
  cr_expect_eq(held(1), 5);
  /* Of 20 sure tokens 15 are out: 3 blocks. */
  step(&holds, &content, 40, 20, 21);
  cr_expect_eq(held(0), 3);
  cr_expect_eq(held(1), 6);
  cr_expect_eq(BLOCKS - pool.n_free, 9);
  kv_groups_release(&groups, &holds);
  cr_expect_eq(pool.n_free, BLOCKS);
  prefix_cache_audit(&pool, 0);
}

Test(kv_groups, admission_counts_a_window_and_what_is_in_flight) {
  start(WINDOWED, 2, (KvGroupOptions){.max_in_flight = 10});
  const GroupHolds none = {0};
  const Content content = content_of(1);
  kv_groups_match(&groups, &content, 100, 99);
  const KvReach reach = {0, 10, 100};
  /* ⌈(5 + 10) / 4⌉ + 1 = 5 of the window, 25 of full attention. */
  cr_expect_eq(kv_groups_need(&groups, &none, &reach, true), 30);
  cr_expect_eq(kv_groups_need(&groups, &none, &reach, false), 50);
  cr_expect_eq(kv_groups_most(&groups, 100), 30);
  cr_expect_eq(kv_groups_most(&groups, 8), 4);
  cr_expect_eq(kv_groups_room(&groups, 30), 100);
  cr_expect_eq(kv_groups_room(&groups, 29), 96);
}

Test(kv_groups, a_hit_ends_where_the_window_was_kept) {
  start(WINDOWED, 2, (KvGroupOptions){.caches = true, .max_in_flight = 100});
  GroupHolds first = {0};
  const Content content = content_of(1);
  step(&first, &content, 22, 0, 22);
  kv_groups_release(&groups, &first);
  /* Kept of the window: the ⌈5 / 4⌉ = 2 blocks that end at 21 rounded down, 20. */
  cr_expect_eq(kv_groups_match(&groups, &content, 22, 21), 20);
  cr_expect_eq(groups.junction, 0);
  cr_expect_eq(groups.found[0].n, 5);
  cr_expect_eq(groups.found[0].n_null, 3);
  /* One that shares 19 tokens finds 4 blocks of full attention, no window and so nothing. */
  cr_expect_eq(kv_groups_match(&groups, &content, 19, 18), 0);
  cr_expect_eq(groups.junction, 16);
  GroupHolds second = {0};
  kv_groups_hit(&groups, &second, 0);
  step(&second, &content, 40, 0, 40);
  kv_groups_release(&groups, &second);
  /* It has kept the window at its junction, and at its own end, 36. */
  cr_expect_eq(kv_groups_match(&groups, &content, 19, 18), 16);
  cr_expect_eq(kv_groups_match(&groups, &content, 40, 39), 36);
  prefix_cache_audit(&pool, 0);
}

/* Blocks of the window that are found after a prompt of 40 tokens, of 10. */
static int64_t kept_of_window(int64_t retention) {
  start(WINDOWED, 2,
        (KvGroupOptions){.caches = true, .retention = retention, .max_in_flight = 100});
  GroupHolds holds = {0};
  const Content content = content_of(1);
  step(&holds, &content, 40, 0, 40);
  return pool.n_keys - 10;
}

Test(kv_groups, an_interval_keeps_more_of_a_window) {
  cr_expect_eq(kept_of_window(0), 2);  // 7, 8: they end at 36
  cr_expect_eq(kept_of_window(20), 5); // and 3, 4, 9: with 8 the last two of each 5
  cr_expect_eq(kept_of_window(8), 10); // two of each two
  cr_expect_eq(kept_of_window(KV_KEEPS_ALL), 10);
}

/* Blocks of 8: a state and full attention. */
static const KvGroupSpec STATEFUL[] = {{KV_STATE, 8, 0}, {KV_FULL, 8, 0}};

Test(kv_groups, a_state_has_a_block_and_the_one_it_is_made_of) {
  start(STATEFUL, 2, (KvGroupOptions){.caches = true, .max_chunk = 16});
  GroupHolds holds = {0};
  const Content content = content_of(1);
  cr_expect_eq(kv_groups_chunk(&groups, 30, 30, 0, 16, 0), 16);
  step(&holds, &content, 30, 0, 16);
  cr_expect_eq(held(0), 1); // tokens 0 to 7 have a null block
  cr_expect_eq(held(1), 2);
  /* The last multiple of 8 before the last token is 24. */
  cr_expect_eq(kv_groups_chunk(&groups, 30, 30, 16, 14, 0), 8);
  step(&holds, &content, 30, 16, 24);
  cr_expect_eq(held(0), 2); // the new one, made of the old
  cr_expect_eq(kv_groups_chunk(&groups, 30, 30, 24, 6, 0), 6);
  step(&holds, &content, 30, 24, 30);
  cr_expect_eq(held(0), 2);
  step(&holds, &content, 30, 30, 31);
  cr_expect_eq(held(0), 1);
  step(&holds, &content, 30, 31, 33);
  cr_expect_eq(held(0), 2);
  cr_expect_eq(held(1), 5);
  /* What it registered in a decision is not hit in that. */
  cr_expect_eq(kv_groups_match(&groups, &content, 30, 29), 24);
  cr_expect_eq(kv_groups_match_is_fresh(&groups, &content), false);
  GroupHolds other = {0};
  const Content fresh = content_of(2);
  step(&other, &fresh, 10, 0, 8);
  cr_expect_eq(kv_groups_match(&groups, &fresh, 10, 9), 8);
  cr_expect_eq(kv_groups_match_is_fresh(&groups, &fresh), true);
  kv_groups_decide(&groups);
  cr_expect_eq(kv_groups_match_is_fresh(&groups, &fresh), false);
}

Test(kv_groups, a_chunk_stops_at_the_junction) {
  start(STATEFUL, 2, (KvGroupOptions){.caches = true, .max_chunk = 64});
  cr_expect_eq(kv_groups_chunk(&groups, 60, 60, 0, 60, 0), 56);
  cr_expect_eq(kv_groups_chunk(&groups, 60, 60, 0, 60, 27), 24);
  cr_expect_eq(kv_groups_chunk(&groups, 60, 60, 24, 36, 27), 24 + 8); // past it: to 56
  cr_expect_eq(kv_groups_chunk(&groups, 60, 60, 3, 57, 0), 5);        // to the next multiple
  cr_expect_eq(kv_groups_chunk(&groups, 60, 60, 0, 5, 0), 0);         // a step could reach one
}

Test(kv_groups, states_after_drafts_move_along) {
  start(STATEFUL, 2, (KvGroupOptions){.caches = true, .max_chunk = 64, .drafts = 2, .lag = 1});
  GroupHolds holds = {0};
  const Content content = content_of(1);
  step(&holds, &content, 7, 0, 7);
  cr_expect_eq(held(0), 3); // one, and two for drafts
  const BlockIx last = holds.of[0].states[2];
  step(&holds, &content, 7, 7, 40);
  /* Block 4 is new; the two behind move to places 5 and 6. */
  cr_expect_eq(holds.of[0].held.n, 7);
  cr_expect_eq(holds.of[0].states[2] == BLOCK_NONE, true);
  cr_expect_eq(holds.of[0].states[5] == last || holds.of[0].states[4] == last, true);
  cr_expect_eq(held(0), 4);
  kv_groups_release(&groups, &holds);
  cr_expect_eq(pool.n_free, BLOCKS);
}

Test(kv_groups, a_state_without_cache_has_one_block) {
  start(STATEFUL, 2, (KvGroupOptions){.max_chunk = 64});
  GroupHolds holds = {0};
  const Content content = content_of(1);
  step(&holds, &content, 60, 0, 60);
  cr_expect_eq(held(0), 1);
  cr_expect_eq(held(1), 8);
  cr_expect_eq(kv_groups_room(&groups, 9), 64);
  cr_expect_eq(kv_groups_chunk(&groups, 60, 60, 0, 5, 0), 5);
}

Test(kv_groups, all_blocks_come_back) {
  enum { REQUESTS = 6, STEPS = 4000 };
  static const KvGroupSpec specs[] = {
      {KV_STATE, 12, 0}, {KV_WINDOW, 4, 9}, {KV_WINDOW, 4, 9}, {KV_FULL, 6, 0}};
  Rng rng;
  rng_init(&rng, 3, "kv_groups");
  start(specs, 4, (KvGroupOptions){.caches = true, .max_in_flight = 20, .max_chunk = 10, .lag = 1});
  GroupHolds holds[REQUESTS] = {0};
  int64_t computed[REQUESTS] = {0}, sure[REQUESTS] = {0};
  for (int i = 0; i < STEPS; i++) {
    const size_t r = rng_below(&rng, REQUESTS);
    const Content content = content_of(1 + r % 2);
    kv_groups_decide(&groups);
    if (!holds[r].known) {
      computed[r] = kv_groups_match(&groups, &content, 60, 59);
      cr_expect_eq(computed[r] % 12, 0);
      kv_groups_hit(&groups, &holds[r], computed[r]);
    }
    const int64_t done = computed[r] + 1 + (int64_t)rng_below(&rng, 10);
    kv_groups_slide(&groups, &holds[r], sure[r] < computed[r] ? sure[r] : computed[r]);
    const KvReach reach = {computed[r], done, done};
    const int64_t need = kv_groups_need(&groups, &holds[r], &reach, false);
    if (need > pool.n_free || done > 60 || rng_below(&rng, 20) == 0) {
      kv_groups_release(&groups, &holds[r]);
      computed[r] = sure[r] = 0;
    } else {
      kv_groups_take(&groups, &holds[r], &reach);
      kv_groups_register(&groups, &holds[r], &content, 60, 60, done);
      sure[r] = computed[r];
      computed[r] = done;
      for (int32_t g = 0; g < 4; g++) {
        int64_t n[4] = {0};
        kv_groups_audit_holds(&groups, &holds[r], n);
        cr_expect_eq(n[g] <= groups.groups[g].most, true);
      }
    }
    int64_t of[4] = {0}, n_references = 0;
    for (int k = 0; k < REQUESTS; k++)
      kv_groups_audit_holds(&groups, &holds[k], of);
    for (int32_t g = 0; g < 4; n_references += of[g++])
      cr_expect_eq(of[g], held(g));
    prefix_cache_audit(&pool, n_references);
  }
}
