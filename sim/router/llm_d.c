/* llm-d's inference scheduler (the endpoint picker of the Gateway API's inference extension): of
 * all instances the one with the highest
 *
 *   queue_weight · (max − q) / (max − min)   q requests that wait; 1 where all are equal
 *   + kv_weight · (1 − share of KV memory in use)
 *   + prefix_weight · blocks of the prompt that it is thought to have / all of them
 *
 * and of equals one at random. q and the share are as of the last report. Who has what is a guess:
 * the whole blocks of the first max_prefix_tokens of each prompt count as cached where it was sent,
 * the last lru_capacity of them, whether the instance keeps a cache or not. An instance that
 * decodes only is chosen in the same way, its prompts counted for it where it keeps one. Shorter
 * prompts than a block have none. Defaults are the published ones: weights 2, 2 and 3, metrics
 * scraped each 50 ms, blocks of 64 tokens at least, 131,072 tokens, 31,250 blocks. */
#include "base/rng.h"
#include "sim/router/prefix_lru.h"
#include "sim/router/router.h"

/* What the scores of a list's instances were last found from, as far as no prompt counts. */
typedef struct Found {
  uint64_t n_reports, n_moves; // 0 reports: never
  Phase phase;
} Found;

typedef struct State {
  double queue_weight, kv_weight, prefix_weight;
  int64_t block_size, max_prefix_tokens, lru_capacity;
  ReportOptions reports;
  Rng rng;
  Holders holders; // of what was sent
  PrefixLru *sent; // [n_instances]
  PromptKeys keys; // of the request being placed
  int64_t n_blocks;
  Found found[ROLES]; // by list
  double *loads;      // [n_instances] what a score has for the queue and KV memory
  int32_t *counts;    // [n_instances] all bits where a prompt's prefix counts, else none
  double *scores;     // [n_instances] of the request in hand
  uint32_t *best;     // [n_instances] places in the list of those with the highest score
} State;

static void start(void *state, const ClusterView *view, uint64_t seed, Arena *arena) {
  State *self = state;
  rng_init(&self->rng, seed, "router");
  self->sent = ARENA_ARRAY(arena, PrefixLru, view->n_instances);
  holders_init(&self->holders, view->n_instances, arena);
  for (InstanceIx m = 0; m < view->n_instances; m++)
    self->sent[m] = (PrefixLru){
        .capacity = (uint32_t)self->lru_capacity, .holders = &self->holders, .instance = m};
  self->loads = ARENA_ARRAY(arena, double, view->n_instances);
  self->counts = ARENA_ARRAY(arena, int32_t, view->n_instances);
  self->scores = ARENA_ARRAY(arena, double, view->n_instances);
  self->best = ARENA_ARRAY(arena, uint32_t, view->n_instances);
  self->keys.arena = arena;
}

static bool counts_prefix(const ClusterView *view, InstanceIx m, Phase phase) {
  return phase == PHASE_PREFILL || view->instances[m].cache;
}

typedef struct Range {
  int64_t least, most;
} Range;

static Range queues_of(const ClusterView *view, const RoleList *list) {
  Range range = {INT64_MAX, INT64_MIN};
  for (uint32_t i = 0; i < list->count; i++) {
    const int64_t n = reports_load(view->reports, list->items[i]).n_waiting;
    if (n < range.least) range.least = n;
    if (n > range.most) range.most = n;
  }
  return range;
}

static double score_load(const State *self, InstanceReport report, Range queues) {
  const double spread = (double)(queues.most - queues.least);
  const double queue = spread > 0 ? (double)(queues.most - report.n_waiting) / spread : 1;
  const double kv = 1 - (double)report.used_blocks / (double)report.kv_blocks;
  return self->queue_weight * queue + self->kv_weight * kv;
}

/* Anew only where another report is known, or somebody has come or gone. */
static void score_loads(State *self, const ClusterView *view, const RoleList *list, Phase phase) {
  const Found found = {reports_n_known(view->reports), view->columns.all->n_joined, phase};
  Found *last = &self->found[list - view->by_role];
  if (found.n_reports > 0 && last->n_reports == found.n_reports && last->n_moves == found.n_moves &&
      last->phase == phase)
    return;
  *last = found;
  const Range queues = queues_of(view, list);
  for (uint32_t i = 0; i < list->count; i++) {
    const InstanceIx m = list->items[i];
    self->loads[m] = score_load(self, reports_load(view->reports, m), queues);
    self->counts[m] = counts_prefix(view, m, phase) ? -1 : 0;
  }
}

/* Of all instances, with so many blocks of the prompt: the compiler takes several at a time. */
static void score_all(State *self, const int32_t *restrict has, uint32_t n) {
  const double *restrict loads = self->loads;
  const int32_t *restrict counts = self->counts;
  double *restrict scores = self->scores;
  const double weight = self->prefix_weight;
  const double blocks = self->n_blocks > 0 ? (double)self->n_blocks : 1; // which has none of 0
  for (uint32_t m = 0; m < n; m++)
    scores[m] = loads[m] + weight * ((double)(has[m] & counts[m]) / blocks);
}

static InstanceIx choose(void *state, const ClusterView *view, const RoleList *list, Phase phase) {
  State *self = state;
  score_loads(self, view, list, phase);
  score_all(self, holders_match(&self->holders, &self->keys, self->block_size, self->n_blocks),
            view->n_instances);
  double highest = -1;
  uint32_t n_best = 0;
  for (uint32_t i = 0, n = list->count; i < n; i++) {
    const double score = self->scores[list->items[i]];
    if (score < highest) continue;
    if (score > highest) n_best = 0;
    highest = score;
    self->best[n_best++] = i;
  }
  const uint64_t drawn = n_best > 1 ? rng_below(&self->rng, n_best) : 0;
  const InstanceIx m = list->items[self->best[drawn]];
  if (counts_prefix(view, m, phase))
    prefix_lru_add(&self->sent[m], &self->keys, self->block_size, self->n_blocks);
  return m;
}

static Placement pick(void *state, const ClusterView *view, RequestIx ix) {
  State *self = state;
  const int64_t prompt = view->requests[ix].prompt_tokens;
  const int64_t most = self->max_prefix_tokens;
  self->n_blocks = (prompt < most ? prompt : most) / self->block_size;
  prompt_keys_begin(&self->keys, &view->memory[ix].content);
  return router_place(view, choose, self);
}

static const ReportOptions *reports(const void *state) {
  return &((const State *)state)->reports;
}

static int check(void *state, const Node *map, Place owner, Arena *arena, Diag *diag) {
  (void)arena;
  return reports_check(reports(state), "delay", map, owner, diag);
}

static const OptionSpec options[] = {
    {"queue_weight", OPTION_REAL, offsetof(State, queue_weight), "2", .min = 0, .max = 1e6,
     .help = "Weight of the score for short queues."},
    {"kv_weight", OPTION_REAL, offsetof(State, kv_weight), "2", .min = 0, .max = 1e6,
     .help = "Weight of the score for free KV memory."},
    {"prefix_weight", OPTION_REAL, offsetof(State, prefix_weight), "3", .min = 0, .max = 1e6,
     .help = "Weight of the score for prompt blocks in the prefix cache."},
    {"block_size", OPTION_INT, offsetof(State, block_size), "64", .min = 64, .max = 1e6,
     .help = "Number of tokens in one block of the router's prefix index."},
    {"max_prefix_tokens", OPTION_INT, offsetof(State, max_prefix_tokens), "131072", .min = 64,
     .max = 1e7, .help = "Maximum number of tokens of a prompt that the router looks up."},
    {"lru_capacity", OPTION_INT, offsetof(State, lru_capacity), "31250", .min = 1, .max = 1e8,
     .help = "Number of blocks that the router remembers per instance."},
    REPORT_OPTIONS(State, reports, "50 ms"),
    {0},
};

const Router router_llm_d = {
    .policy = {.name = "llm_d",
               .help = "Sends each request to the instance with the highest weighted score for "
                       "queue, KV memory and prefix (llm-d).",
               .draws = policy_always_draws,
               .state_size = sizeof(State),
               .options = options,
               .check = check},
    .knows_content = true,
    .reports = reports,
    .start = start,
    .pick = pick,
};
