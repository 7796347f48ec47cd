/* CPU memory under SGLang's radix tree. Pinned: that a naive tree, which looks at all of its nodes,
 * finds the same for each prompt, with each way to write; that a memory large enough finds what an
 * infinite cache does, and one that nobody needs changes nothing; how long steps wait for loads,
 * layer by layer, and for pages that are written back; that what is being written stays; how long a
 * prompt waits for what comes from storage; that KV that comes in from another instance brings what
 * is written back forward. Locks and bytes on links are audited in every run. What is refused is in
 * tests/cli/offload.sh. */
#include "base/rng.h"
#include "tests/unit/scene_testing.h"

TestSuite(hicache, .init = setup_scene, .fini = teardown);

enum { PAGE = 16, CONVERSATIONS = 6, FORKS = 3 };

static void choose_as(const char *options) {
  scene.pools[0].block_size = PAGE;
  scene_choose(&scene, POLICY_BATCHER, "sglang", arena_printf(&arena, "{%s}", options));
}

static void choose(const char *options) {
  choose_as(arena_printf(&arena, "enable_overlap_schedule: false%s%s", options ? ", " : "",
                         options ? options : ""));
}

/* Links that take next to no time; pages of 16 bytes. */
static void choose_fast(int64_t gpu, int64_t host, const char *store) {
  scene.pools[0].kv_blocks = gpu;
  scene.pools[0].kv_block_bytes = 16;
  scene.pools[0].host_link.options =
      (HostLinkOptions){.to_gpu = 1000000000000000, .to_cpu = 1000000000000000, .efficiency = 1};
  choose(host == 0 ? NULL
                   : arena_printf(&arena,
                                  "kv_connector: {name: hicache, load_back_threshold: 17, tiers: "
                                  "[{name: cpu, capacity: %lld B, store: %s}]}",
                                  (long long)(16 * host), store));
}

/* --- prompts that begin alike */

static TraceSegment segments[SCENE_REQUESTS][3];

/* All begin with the same 40 tokens; of each conversation some go on otherwise behind 100. None
 * ends with a page. */
static void draw_rows(TraceRow *rows, uint64_t seed, Tick gap) {
  Rng rng;
  rng_init(&rng, seed, "hicache");
  for (int i = 0; i < SCENE_REQUESTS; i++) {
    const uint64_t conversation = rng_below(&rng, CONVERSATIONS);
    const uint64_t fork = rng_below(&rng, FORKS);
    const int32_t pages = (int32_t)rng_below(&rng, 14);
    const int32_t rest = 1 + (int32_t)rng_below(&rng, PAGE - 1);
    segments[i][0] = (TraceSegment){1, 40};
    segments[i][1] = (TraceSegment){2 + conversation, 100};
    segments[i][2] = (TraceSegment){100 + FORKS * conversation + fork, INT32_MAX};
    rows[i] = row(gap * i, PAGE * pages + rest, 1);
    rows[i].segments = segments[i];
    rows[i].n_segments = 3;
  }
}

static uint64_t id_at(const TraceSegment *of, int32_t token) {
  return token < 40 ? of[0].id : token < 100 ? of[1].id : of[2].id;
}

/* --- a naive tree */

enum { NODES = 512, PAGES = 16 };

typedef struct Naive {
  struct {
    int parent, from, n; // pages
    uint64_t ids[PAGES]; // of the last token of each
    long time;
    bool live, gpu, host, locked;
    int hits;
  } nodes[NODES];
  int n_nodes;
  int64_t gpu, host, gpu_used, host_used; // pages
  int write_hits;
  long clock;
} Naive;

static int naive_child(const Naive *self, int parent, uint64_t id) {
  for (int i = 1; i < self->n_nodes; i++)
    if (self->nodes[i].live && self->nodes[i].parent == parent && self->nodes[i].ids[0] == id)
      return i;
  return 0;
}

/* Whether any of its children is there, or is on the GPUs. */
static bool naive_has_child(const Naive *self, int node, bool on_gpus) {
  for (int i = 1; i < self->n_nodes; i++)
    if (self->nodes[i].live && self->nodes[i].parent == node && (!on_gpus || self->nodes[i].gpu))
      return true;
  return false;
}

static uint64_t page_id(const TraceSegment *of, int page) {
  return id_at(of, PAGE * page + PAGE - 1);
}

/* Cuts a node behind its first pages, which become a node above it. */
static int naive_cut(Naive *self, int node, int pages) {
  const int top = self->n_nodes++;
  cr_assert_lt(top, NODES);
  self->nodes[top] = self->nodes[node];
  self->nodes[top].n = pages;
  self->nodes[node].parent = top;
  self->nodes[node].from += pages;
  self->nodes[node].n -= pages;
  memmove(self->nodes[node].ids, self->nodes[node].ids + pages,
          (size_t)self->nodes[node].n * sizeof(uint64_t));
  self->nodes[top].time = ++self->clock;
  self->nodes[node].time = ++self->clock;
  return top;
}

static void naive_touch(Naive *self, const int *path, int n) {
  for (int i = 0; i < n; i++)
    self->nodes[path[i]].time = ++self->clock;
}

/* The nodes of the first `pages` of a prompt that are there, each touched, the last one cut: before
 * that for a match, after it to enter the prompt. */
static int naive_walk(Naive *self, const TraceSegment *of, int pages, bool enters, int *ret_path) {
  int node = 0, n = 0;
  for (int at = 0; at < pages;) {
    const int child = naive_child(self, node, page_id(of, at));
    if (child == 0) break;
    int same = 0;
    while (same < self->nodes[child].n && at + same < pages &&
           self->nodes[child].ids[same] == page_id(of, at + same))
      same++;
    const bool part = same < self->nodes[child].n;
    if (part && enters) naive_touch(self, ret_path, n);
    node = part ? naive_cut(self, child, same) : child;
    ret_path[n++] = node;
    at += same;
    if (part && enters) return n;
    if (part) break;
  }
  naive_touch(self, ret_path, n);
  return n;
}

/* The one touched longest ago of those that may go. */
static int naive_oldest(const Naive *self, bool of_gpus) {
  int oldest = 0;
  for (int i = 1; i < self->n_nodes; i++) {
    const bool may = self->nodes[i].live && !self->nodes[i].locked &&
                     self->nodes[i].gpu == of_gpus && !naive_has_child(self, i, of_gpus);
    if (may && (oldest == 0 || self->nodes[i].time < self->nodes[oldest].time)) oldest = i;
  }
  return oldest;
}

static bool naive_write(Naive *self, int node) {
  const int parent = self->nodes[node].parent;
  if (self->write_hits > 0 && parent != 0 && !self->nodes[parent].host) return false;
  for (int oldest; self->host - self->host_used < self->nodes[node].n;) {
    if ((oldest = naive_oldest(self, false)) == 0) return false;
    self->nodes[oldest].live = false;
    self->host_used -= self->nodes[oldest].n;
  }
  self->host_used += self->nodes[node].n;
  return self->nodes[node].host = true;
}

static void naive_make_room(Naive *self, int64_t pages) {
  while (self->gpu - self->gpu_used < pages) {
    const int oldest = naive_oldest(self, true);
    if (oldest == 0) return;
    if (!self->nodes[oldest].host && self->write_hits == 0) naive_write(self, oldest);
    self->nodes[oldest].gpu = false;
    self->nodes[oldest].live = self->nodes[oldest].host;
    self->gpu_used -= self->nodes[oldest].n;
  }
}

/* What is entered of a prompt that has ended; its pages are the caller's. */
static void naive_enter(Naive *self, const TraceSegment *of, int pages) {
  int path[PAGES], n = naive_walk(self, of, pages, true, path), at = 0;
  bool hit[PAGES + 1];
  for (int i = 0; i < n; i++) {
    hit[i] = self->nodes[path[i]].gpu;
    if (!hit[i]) self->gpu_used += self->nodes[path[i]].n;
    self->nodes[path[i]].gpu = true;
    at += self->nodes[path[i]].n;
  }
  if (at < pages) {
    const int leaf = self->n_nodes++;
    cr_assert_lt(leaf, NODES);
    self->nodes[leaf].parent = n > 0 ? path[n - 1] : 0;
    self->nodes[leaf].from = at;
    self->nodes[leaf].n = pages - at;
    for (int i = at; i < pages; i++)
      self->nodes[leaf].ids[i - at] = page_id(of, i);
    self->nodes[leaf].time = ++self->clock;
    self->nodes[leaf].live = self->nodes[leaf].gpu = true;
    self->gpu_used += pages - at;
    hit[n] = true;
    path[n++] = leaf;
  }
  for (int i = 0; i < n && self->write_hits > 0; i++)
    if (hit[i] && ++self->nodes[path[i]].hits >= self->write_hits && !self->nodes[path[i]].host)
      naive_write(self, path[i]);
}

/* A prompt by itself; tokens of it that are found, those in CPU memory if they are at least 17. */
static int32_t naive_serve(Naive *self, const TraceSegment *of, int32_t tokens) {
  const int pages = tokens / PAGE;
  int path[PAGES], gpu = 0, all = 0;
  const int n = naive_walk(self, of, pages, false, path);
  for (int i = 0; i < n; i++) {
    all += self->nodes[path[i]].n;
    if (self->nodes[path[i]].gpu) gpu = all;
    self->nodes[path[i]].locked = true;
  }
  if (all - gpu >= 2) {
    naive_make_room(self, all - gpu);
    for (int i = 0; i < n; i++)
      self->nodes[path[i]].gpu = true;
    self->gpu_used += all - gpu;
    gpu = all;
  }
  for (int i = 0; i < n; i++)
    self->nodes[path[i]].locked = self->nodes[path[i]].gpu;
  naive_make_room(self, (tokens - PAGE * gpu + PAGE + PAGE - 1) / PAGE);
  for (int i = 0; i < n; i++)
    self->nodes[path[i]].locked = false;
  naive_enter(self, of, pages);
  return PAGE * gpu;
}

static const char *const stores[] = {"on_eviction", "write_through", "write_through_selective"};

/* One prompt at a time, so that no write is under way when the next one comes. */
Test(hicache, a_naive_tree_finds_the_same) {
  TraceRow rows[SCENE_REQUESTS];
  int64_t found[3] = {0}, loaded[3] = {0};
  Naive *naive = ARENA_NEW(&arena, Naive);
  for (int hits = 0; hits < 3; hits++)
    for (uint64_t seed = 0; seed < 20; seed++) {
      const int64_t gpu = 17 + 2 * (int64_t)(seed % 5), host = 4 + 3 * (int64_t)seed;
      draw_rows(rows, seed, TICKS_PER_SECOND);
      choose_fast(gpu, host, stores[hits]);
      run(rows, SCENE_REQUESTS);
      *naive = (Naive){.n_nodes = 1, .gpu = gpu, .host = host, .write_hits = hits};
      for (int i = 0; i < SCENE_REQUESTS; i++) {
        const int32_t want = naive_serve(naive, segments[i], rows[i].prompt_tokens);
        cr_assert_eq(scene.records[i].cached_tokens, want, "%s, seed %d, request %d: %d, not %d",
                     stores[hits], (int)seed, i, scene.records[i].cached_tokens, want);
        found[hits] += want;
      }
      loaded[hits] += scene.result.totals.tier_hit_tokens[KV_STORE_CPU];
    }
  for (int hits = 0; hits < 3; hits++)
    cr_expect(found[hits] > loaded[hits] && loaded[hits] > 1000);
}

static void keep_found(int32_t *ret_found) {
  for (int i = 0; i < SCENE_REQUESTS; i++)
    ret_found[i] = scene.records[i].cached_tokens;
}

/* Room for all that there is: 40 tokens, and 18 ends of at most 223. A page or less that is left in
 * CPU memory alone is computed, so there may be one less. */
Test(hicache, a_memory_for_all_finds_what_an_infinite_cache_does) {
  TraceRow rows[SCENE_REQUESTS];
  int32_t infinite[SCENE_REQUESTS], with[SCENE_REQUESTS];
  for (uint64_t seed = 0; seed < 6; seed++) {
    draw_rows(rows, seed, TICKS_PER_SECOND);
    choose_fast(1000, 0, NULL);
    run(rows, SCENE_REQUESTS);
    keep_found(infinite);
    choose_fast(17, 1000, stores[seed % 2]);
    run(rows, SCENE_REQUESTS);
    keep_found(with);
    cr_expect_gt(scene.result.totals.evictions, 100);
    for (int i = 0; i < SCENE_REQUESTS; i++)
      cr_expect(infinite[i] == with[i] || infinite[i] - PAGE == with[i], "%d, not %d", with[i],
                infinite[i]);
  }
}

/* Many at once, with writes that take long. */
Test(hicache, a_memory_that_nobody_needs_changes_nothing) {
  TraceRow rows[SCENE_REQUESTS];
  draw_rows(rows, 1, 10 * MS);
  choose_fast(1000, 0, NULL);
  run(rows, SCENE_REQUESTS);
  const uint64_t alone = scene.result.digest;
  for (int hits = 0; hits < 3; hits++) {
    choose_fast(1000, 1000, stores[hits]);
    scene.pools[0].host_link.options.to_cpu = 1000;
    run(rows, SCENE_REQUESTS);
    cr_expect_eq(scene.result.digest, alone);
    cr_expect((scene.result.totals.tier_written_bytes[KV_STORE_CPU] > 0) == (hits > 0));
    cr_expect_eq(scene.result.totals.kv_loads, 0);
  }
}

/* --- times */

static const TraceSegment contents[] = {{1, INT32_MAX}, {2, INT32_MAX}, {3, INT32_MAX}};

/* Pages of 16 MB, of which there are `pages`; links of 1 GB/s. A prompt of 40 tokens has two that
 * are full, one of 40 others comes behind it, then the first again, 8 tokens of which are new. */
static void run_three(int64_t pages, Tick second, Tick third, const char *store) {
  TraceRow rows[] = {row(0, 40, 1), row(second, 40, 1), row(third, 40, 1)};
  for (int i = 0; i < 3; i++) {
    rows[i].segments = &contents[i % 2];
    rows[i].n_segments = 1;
  }
  scene.pools[0].kv_blocks = pages;
  scene.pools[0].kv_block_bytes = 16000000;
  scene.pools[0].host_link.options =
      (HostLinkOptions){.to_gpu = 1000000000, .to_cpu = 1000000000, .efficiency = 1};
  choose(arena_printf(&arena,
                      "kv_connector: {name: hicache, tiers: [{name: cpu, capacity: 1 GB, "
                      "store: %s}]}",
                      store));
  run(rows, 3);
}

static Tick first_token(int i) {
  return scene.records[i].first_token_at - scene.records[i].arrived_at;
}

/* Eight tokens take 18 ms and two pages 32 ms. Of L layers the last begins when all is loaded and
 * takes an Lth of the step's time. */
Test(hicache, layers_wait_for_their_loads) {
  for (uint32_t layers = 1; layers <= 4; layers++) {
    scene.pools[0].num_hidden_layers = layers;
    run_three(4, 500 * MS, 1000 * MS, "write_through");
    cr_expect_eq(scene.records[2].cached_tokens, 32);
    expect_at(first_token(2), 32000 + 18000 / (Tick)layers, "layers");
    const InstanceTotals *totals = &scene.result.totals;
    cr_expect(totals->tier_read_bytes[KV_STORE_CPU] == 32000000);
    cr_expect(totals->tier_written_bytes[KV_STORE_CPU] == 64000000);
    cr_expect(totals->kv_load_ticks == 32 * MS);
    cr_expect_eq(totals->kv_loads, 1);
  }
}

/* The first prompt is there at 50 ms and its pages are written at 82: of four pages two are locked
 * until then. The second one needs three, and a page. */
Test(hicache, what_is_written_stays) {
  run_three(4, 60 * MS, 1000 * MS, "write_through");
  expect_at(first_token(1), 82000 + 50000 - 60000, "second");
  run_three(6, 60 * MS, 1000 * MS, "write_through");
  expect_at(first_token(1), 50000, "second");
}

/* The second prompt takes the pages of the first when they are written back, at 532 ms; they are
 * loaded when those of the second are, both ways at once. */
Test(hicache, a_step_waits_for_pages_that_are_written_back) {
  scene.pools[0].num_hidden_layers = 1;
  run_three(4, 500 * MS, 1000 * MS, "on_eviction");
  expect_at(first_token(1), 32000 + 50000, "second");
  expect_at(first_token(2), 32000 + 18000, "third");
  cr_expect(scene.result.totals.tier_written_bytes[KV_STORE_CPU] == 64000000);
}

/* --- storage */

/* Three prompts of 40 tokens with other contents, 500 ms apart, then the first again. The GPUs and
 * CPU memory have four pages each, so that it is in storage alone by then, whose links carry
 * 1 GB/s. */
static void run_four(const char *options) {
  TraceRow rows[4];
  for (int i = 0; i < 4; i++) {
    rows[i] = row(500 * MS * i, 40, 1);
    rows[i].segments = &contents[i % 3];
    rows[i].n_segments = 1;
  }
  scene.pools[0].kv_blocks = 4;
  scene.pools[0].kv_block_bytes = 16000000;
  scene.pools[0].num_hidden_layers = 1;
  scene.pools[0].host_link.options =
      (HostLinkOptions){.to_gpu = 1000000000, .to_cpu = 1000000000, .efficiency = 1};
  choose(arena_printf(&arena,
                      "kv_connector: {name: hicache, %s, tiers: [{name: cpu, capacity: 64 MB}, "
                      "{name: ssd, capacity: 1 GB, read_bandwidth: 1 GB/s, write_bandwidth: 1 "
                      "GB/s}]}",
                      options));
  run(rows, 4);
}

/* It takes 32 ms to come to CPU memory, 32 to the GPUs, and 18 to compute 8 tokens, or 50 to
 * compute all of it. Pages come in batches of 128. */
Test(hicache, a_prompt_waits_for_storage_as_the_policy_says) {
  static const struct {
    const char *options;
    int64_t takes_ms;
    bool found, fetched;
  } cases[] = {
      {"prefetch_policy: wait_complete, prefetch_threshold: 32", 32 + 32 + 18, true, true},
      {"prefetch_policy: wait_complete, prefetch_threshold: 33", 50, false, false},
      {"prefetch_policy: best_effort, prefetch_threshold: 32", 50, false, true},
      {"prefetch_policy: timeout, prefetch_threshold: 32, prefetch_timeout_base: 10 ms, "
       "prefetch_timeout_per_ki_token: 0 s",
       10 + 50, false, true},
      {"prefetch_policy: timeout, prefetch_threshold: 32, prefetch_timeout_base: 10 ms, "
       "prefetch_timeout_per_ki_token: 1 s",
       32 + 32 + 18, true, true},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    run_four(cases[i].options);
    const InstanceTotals *totals = &scene.result.totals;
    expect_at(first_token(3), 1000 * cases[i].takes_ms, cases[i].options);
    cr_expect_eq(scene.records[3].cached_tokens, cases[i].found ? 32 : 0);
    cr_expect_eq(totals->tier_hit_tokens[KV_STORE_SSD], cases[i].found ? 32 : 0);
    cr_expect_eq(totals->tier_hit_tokens[KV_STORE_CPU], 0);
    cr_expect((int64_t)totals->tier_read_bytes[KV_STORE_SSD] == (cases[i].fetched ? 32000000 : 0));
    cr_expect((int64_t)totals->tier_written_bytes[KV_STORE_SSD] >= 64000000);
  }
}

/* --- many at once */

/* Prompts that come while others run and copies are under way, with each way to write and to wait:
 * the audit has the locks, the pages and the bytes after every event, and each run is the same step
 * by step. */
Test(hicache, books_agree_with_many_at_once) {
  static const char *const policies[] = {"best_effort", "wait_complete", "timeout"};
  TraceRow rows[SCENE_REQUESTS];
  Total loads = 0, fetched = 0;
  for (uint64_t seed = 0; seed < 36; seed++) {
    draw_rows(rows, seed, (Tick)(5 + 10 * (seed % 4)) * MS);
    for (int i = 0; i < SCENE_REQUESTS; i++)
      rows[i].output_tokens = 1 + (int32_t)((seed + 7 * (uint64_t)i) % 25);
    scene.pools[0].kv_blocks = 20 + (int64_t)(seed % 5) * 8;
    scene.pools[0].kv_block_bytes = 16;
    scene.pools[0].host_link.options =
        (HostLinkOptions){.to_gpu = 20000, .to_cpu = 10000, .efficiency = 1};
    choose_as(
        arena_printf(&arena,
                     "enable_overlap_schedule: %s, max_num_batched_tokens: %d, kv_connector: "
                     "{name: hicache, prefetch_policy: %s, prefetch_threshold: 16, "
                     "prefetch_timeout_base: 5 ms, tiers: [{name: cpu, capacity: %d B, store: "
                     "%s}, {name: ssd, capacity: 4000 B, read_bandwidth: 5 kB/s, policy: lfu}]}",
                     seed % 2 ? "true" : "false", seed % 3 ? 64 : 512, policies[seed % 3],
                     16 * (int)(30 + 3 * (seed % 11)), stores[seed / 3 % 3]));
    run(rows, SCENE_REQUESTS);
    cr_expect_eq(scene.result.metrics.completed, SCENE_REQUESTS);
    loads += scene.result.totals.kv_loads;
    fetched += scene.result.totals.tier_hit_tokens[KV_STORE_SSD];
  }
  cr_expect(loads > 300 && fetched > 0, "%lld loads, %lld tokens", (long long)loads,
            (long long)fetched);
}

/* What comes in over a link takes room of an instance that decodes, so that what it evicts is
 * written back earlier than it foresaw: each run is the same step by step. */
Test(hicache, what_comes_in_brings_what_is_written_back_forward) {
  TraceRow rows[SCENE_REQUESTS];
  uint64_t transfers = 0;
  Tick loads = 0;
  for (uint64_t seed = 0; seed < 36; seed++) {
    teardown();
    setup_scene();
    draw_rows(rows, seed, (Tick)(5 + 10 * (seed % 4)) * MS);
    for (int i = 0; i < SCENE_REQUESTS; i++)
      rows[i].output_tokens = 1 + (int32_t)((seed + 7 * (uint64_t)i) % 90);
    scene_split(&scene, 1, 1);
    for (int p = 0; p < 2; p++) {
      scene.pools[p].block_size = PAGE;
      scene.pools[p].kv_blocks = 40 + (int64_t)(seed % 5) * 8;
      scene.pools[p].kv_block_bytes = 16;
      scene.pools[p].host_link.options =
          (HostLinkOptions){.to_gpu = 20000, .to_cpu = 1000, .efficiency = 1};
    }
    choose("max_num_batched_tokens: 512, kv_connector: {name: hicache, tiers: [{name: cpu, "
           "capacity: 8000 B, store: on_eviction}]}");
    run(rows, SCENE_REQUESTS);
    transfers += scene.result.metrics.transfers;
    loads += scene.result.totals.kv_load_ticks;
  }
  cr_expect(transfers > 300 && loads > 0);
}
