/* Blocks of active prompts, kept by segment: held against a count of the keys of all blocks. */
#include "base/rng.h"
#include "sim/router/active_blocks.h"
#include "tests/unit/testing.h"

TestSuite(active_blocks, .init = setup, .fini = teardown);

enum { INSTANCES = 4, PROMPTS = 60, SEGMENTS = 4 };

typedef struct Prompt {
  Content content;
  int64_t block_size, n; // blocks
  InstanceIx instance;
  bool active;
} Prompt;

static Prompt prompts[PROMPTS];

/* Texts that begin alike and part, some of them within what others have as one segment. */
static void draw_prompt(Prompt *prompt, Rng *rng) {
  TraceSegment segments[SEGMENTS];
  int32_t end = 0;
  uint64_t id = 1;
  for (int k = 0; k < SEGMENTS; k++) {
    id = id * 1000003 + rng_below(rng, 2);
    end += 1 + (int32_t)(id % 37);
    segments[k] = (TraceSegment){id, end};
  }
  TraceRow row = {.segments = segments, .n_segments = (int32_t)rng_below(rng, SEGMENTS + 1)};
  if (row.n_segments > 0 && rng_below(rng, 3) == 0) segments[row.n_segments - 1].end = INT32_MAX;
  content_set(&prompt->content, &row, rng_below(rng, 1000), &arena);
  prompt->instance = (InstanceIx)rng_below(rng, INSTANCES);
  prompt->block_size = prompt->instance == 0 ? 16 : 1;
  prompt->n = (int64_t)rng_below(rng, 200) / prompt->block_size;
}

static uint64_t key_of(const Prompt *prompt, int64_t i) {
  return content_key(&prompt->content, (i + 1) * prompt->block_size);
}

/* How many active prompts of an instance, of the first `n`, have a block. */
static int n_with(InstanceIx instance, int n, const Prompt *of, int64_t i) {
  int n_found = 0;
  for (int p = 0; p < n; p++)
    n_found += prompts[p].active && prompts[p].instance == instance && i < prompts[p].n &&
               prompts[p].block_size == of->block_size && key_of(&prompts[p], i) == key_of(of, i);
  return n_found;
}

static int64_t n_different(InstanceIx instance) {
  int64_t n = 0;
  for (int p = 0; p < PROMPTS; p++)
    for (int64_t i = 0; i < prompts[p].n; i++)
      n += prompts[p].active && prompts[p].instance == instance &&
           n_with(instance, p, &prompts[p], i) == 0;
  return n;
}

static void expect_runs(ActiveBlocks *active, const Prompt *prompt) {
  const int32_t *runs =
      active_blocks_match(active, &prompt->content, prompt->block_size, prompt->n);
  for (InstanceIx m = 0; m < INSTANCES; m++) {
    int64_t run = 0;
    if ((m == 0) != (prompt->block_size == 16)) continue;
    while (run < prompt->n && n_with(m, PROMPTS, prompt, run) > 0)
      run++;
    cr_assert_eq(runs[m], run, "%d on %u, not %d", (int)run, m, (int)runs[m]);
  }
}

Test(active_blocks, count_and_runs_are_those_of_all_blocks) {
  ActiveBlocks active;
  Rng rng;
  rng_init(&rng, 1, "active blocks");
  active_blocks_init(&active, INSTANCES, &arena);
  memset(prompts, 0, sizeof prompts);
  for (int round = 0; round < 600; round++) {
    Prompt *prompt = &prompts[rng_below(&rng, PROMPTS)];
    if (!prompt->active) draw_prompt(prompt, &rng);
    if (!prompt->active) expect_runs(&active, prompt);
    (prompt->active ? active_blocks_remove : active_blocks_add)(
        &active, prompt->instance, &prompt->content, prompt->block_size, prompt->n);
    prompt->active = !prompt->active;
    cr_assert_eq(active.n_blocks[prompt->instance], n_different(prompt->instance));
  }
  for (int p = 0; p < PROMPTS; p++)
    if (prompts[p].active)
      active_blocks_remove(&active, prompts[p].instance, &prompts[p].content, prompts[p].block_size,
                           prompts[p].n);
  cr_expect_eq(active.of.names.n_keys + active.of.segments.n_keys, 0);
}
