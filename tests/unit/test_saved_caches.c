/* What caches held, from run to run. Pinned: a trace cut in two runs finds as much as in one where
 * nothing is evicted, and a request's own tokens are not those of its namesake; which keys fit, and
 * in what order they go; what is refused, and where. */
#include "sim/books/saved_caches.h"
#include "tests/unit/sim_testing.h"

enum { ROWS = 40, FAMILIES = 5, SHARED = 64, PROMPT = 128 };

static Scene scene;

static void begin(void) {
  setup();
  scene_init(&scene, &arena, &diag);
  scene_choose(&scene, POLICY_BATCHER, "vllm", NULL);
}

TestSuite(saved_caches, .init = begin, .fini = teardown);

/* The file that the run before would have written. */
static const char *saved_text(void) {
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  cr_assert_eq(saved_caches_save(&scene.result, file, place_of_file("run"), &arena, &diag), 0);
  fclose(file);
  const char *copy = arena_copy(&arena, text, size);
  free(text);
  return copy;
}

static int load(SavedCaches *ret_saved, const char *text) {
  LineReader reader;
  line_reader_open_text(&reader, "file", text, strlen(text), &arena);
  return saved_caches_load(ret_saved, &reader, place_of_file("config"), &scene.config, &arena,
                           &diag);
}

static int64_t n_blocks(const SavedCache *cache) {
  int64_t n = 0;
  for (int64_t i = 0; i < cache->n; i++)
    n += cache->runs[i].n;
  return n;
}

static int64_t run_rows(TraceRow *rows, size_t first, size_t n) {
  const Tick start = rows[first].at;
  for (size_t i = first; i < first + n; i++)
    rows[i].at -= start;
  cr_assert_eq(scene_run(&scene, rows + first, n), 0);
  for (size_t i = first; i < first + n; i++)
    rows[i].at += start;
  return scene.result.totals.cached_tokens;
}

Test(saved_caches, two_halves_find_what_the_whole_does) {
  TraceSegment segments[ROWS];
  TraceRow rows[ROWS];
  for (int i = 0; i < ROWS; i++) {
    segments[i] = (TraceSegment){.id = 100 + (uint64_t)(i * i % FAMILIES), .end = SHARED};
    rows[i] = row(i * TICKS_PER_SECOND, PROMPT, 3);
    rows[i].segments = &segments[i];
    rows[i].n_segments = 1;
  }
  SavedCaches saved;
  const int64_t whole = run_rows(rows, 0, ROWS), cold = run_rows(rows, ROWS / 2, ROWS / 2);
  const int64_t first = run_rows(rows, 0, ROWS / 2);
  cr_assert_eq(load(&saved, saved_text()), 0);
  scene.config.saved_caches = &saved;
  const int64_t warm = run_rows(rows, ROWS / 2, ROWS / 2);
  cr_expect_gt(warm, cold);
  cr_expect_eq(first + warm, whole);
  SavedCaches again;
  cr_assert_eq(load(&again, saved_text()), 0);
  cr_expect_gt(n_blocks(&again.instances[0]), n_blocks(&saved.instances[0]));
  cr_expect_neq(again.salt, saved.salt);
}

/* A cache with these runs, in the order in which they were used. */
static PrefixCache cache_of(int64_t n, const SavedCache *saved) {
  PrefixCache cache;
  prefix_cache_init(&cache, n, &arena);
  prefix_cache_load(&cache, saved, 16);
  prefix_cache_audit(&cache, 0);
  return cache;
}

Test(saved_caches, the_most_recent_stay_and_the_least_go_first) {
  SavedRun runs[] = {{11, 0, 2}, {22, 5, 3}, {33, 0, 1}, {44, 2, 1}};
  PrefixCache cache = cache_of(4, &(SavedCache){.runs = runs, .n = 4});
  cr_expect(!prefix_cache_has(&cache, 11, 0) && !prefix_cache_has(&cache, 22, 7));
  cr_expect(prefix_cache_has(&cache, 22, 5) && prefix_cache_has(&cache, 22, 6));
  cr_expect(prefix_cache_has(&cache, 44, 2));
  HeldBlocks held = {0};
  prefix_cache_take(&cache, &held, 1);
  cr_expect(prefix_cache_has(&cache, 22, 5) && !prefix_cache_has(&cache, 22, 6));
  SavedCache saved;
  prefix_cache_save(&cache, &saved, &arena);
  cr_assert_eq(saved.n, 3);
  cr_expect(saved.runs[0].id == 22 && saved.runs[0].first == 5 && saved.runs[0].n == 1);
  cr_expect(saved.runs[1].id == 33 && saved.runs[2].id == 44 && saved.runs[2].first == 2);
}

Test(saved_caches, machines_are_found_by_pool_and_number) {
  SavedCaches saved;
  const char *name = scene.pools[0].name;
  const char *text = arena_printf(&arena,
                                  "tandem caches 2\nmachine 7 16 1 %s\n00000000000000aa 0 9\n"
                                  "machine 0 99 1 other pool\n00000000000000bb 1 1\n"
                                  "machine 0 16 2 %s\n0000000000000001 7 1\n"
                                  "0000000000000002 3 1\n",
                                  name, name);
  cr_assert_eq(load(&saved, text), 0);
  cr_assert_eq(saved.instances[0].n, 2);
  const SavedRun *runs = saved.instances[0].runs;
  cr_expect(runs[0].id == 1 && runs[0].first == 7 && runs[0].n == 1);
  cr_expect(runs[1].id == 2 && runs[1].first == 3);
}

Test(saved_caches, what_is_wrong_is_said_where_it_stands) {
  static const struct {
    const char *text, *message;
    int line;
  } cases[] = {
      {"caches\n", "begin with", 1},
      {"tandem caches 2\nmachine 0 16\n", "of the form 'machine INDEX BLOCK_SIZE RUNS POOL'", 2},
      {"tandem caches 2\nmachine 0 0 1 POOL\n", "of the form 'machine INDEX BLOCK_SIZE RUNS POOL'",
       2},
      {"tandem caches 2\nmachine 0 32 0 POOL\n", "blocks of 32 tokens", 2},
      {"tandem caches 2\nmachine 0 16 2 POOL\n00000000000000aa 0 1\n", "ends after 1 of the 2", 2},
      {"tandem caches 2\nmachine 0 16 1 POOL\naa 0 1\n", "16 hexadecimal digits", 3},
      {"tandem caches 2\nmachine 0 16 1 POOL\n0000000000000000 0 1\n", "16 hexadecimal digits", 3},
      {"tandem caches 2\nmachine 0 16 1 POOL\n00000000000000aa 0 0\n", "'ID FIRST BLOCKS'", 3},
      {"tandem caches 2\nmachine 0 16 1 POOL\n00000000000000aa -1 2\n", "'ID FIRST BLOCKS'", 3},
      {"tandem caches 2\nmachine 0 16 0 POOL\nmachine 0 16 0 POOL\n", "occurs twice", 3},
      {"tandem caches 2\nmachine 0 16 0 x\n", "'file' has no cache", 0},
  };
  scene.pools[0].name = "POOL";
  for (size_t i = 0; i < COUNT(cases); i++) {
    SavedCaches saved;
    cr_assert_eq(load(&saved, cases[i].text), -1, "case %zu", i);
    const DiagEntry *entry = &diag.entries[diag.n_entries - 1];
    cr_expect_eq(diag.n_entries, (int)i + 1);
    cr_expect_eq(entry->at.line, cases[i].line, "case %zu", i);
    cr_expect(strstr(entry->message, cases[i].message), "%s", entry->message);
  }
}
