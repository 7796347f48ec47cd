/* NVIDIA Dynamo's KV router (lib/kv-router): the instance of the least cost, in blocks of b tokens,
 *
 *   prefill_load_scale · max(raw − credit, 0) + decode blocks
 *                                             + decode_active_request_weight · active requests
 *   raw     (active prefill tokens + prompt) / b
 *   credit  overlap_score_credit · decay · blocks of the prompt in the instance's prefix cache
 *   decay   1 / (1 + overlap_score_credit_decay · (active − least active prefill tokens) / b
 *                                                                        / blocks of the request)
 *
 * of equals one at random. With a temperature T > 0 one is drawn by the softmax of
 * −cost / ((max − min) · T). Caches are as last reported; the index of events that Dynamo keeps is
 * nearly exact, so there is no interval as a rule. Loads are the router's own books. A prompt's
 * tokens that were not cached count as active until its first token. Decode blocks are the
 * different blocks of all active prompts and those of this request; outputs do not count. Caches in
 * CPU memory and on disk, which Dynamo credits at 0.75 and 0.25, are not modelled.
 *
 * Where phases run apart, an instance that prefills has no decode blocks and requests are active
 * there until their first token; one that decodes is chosen without the prefill term and any
 * credit, as Dynamo does. Names and defaults are Dynamo's. */
#include "base/rng.h"
#include "sim/router/router.h"

typedef struct InstanceBooks {
  int64_t prefill_tokens, n_requests;
  KeyMap blocks;     // full ones of prompts, and how many requests have each
  int64_t n_partial; // last blocks of prompts, not full
} InstanceBooks;

/* Where a request counts, by slot; INSTANCE_NONE: nowhere. */
typedef struct Booked {
  InstanceIx prefill, decode; // the same: there for both phases
  int64_t prefill_tokens;
} Booked;

typedef struct State {
  double overlap_score_credit, overlap_score_credit_decay, prefill_load_scale,
      decode_active_request_weight, temperature;
  ReportOptions reports;
  Rng rng;
  Arena *arena;
  InstanceBooks *books; // [n_instances]
  Booked *booked;
  size_t booked_capacity;
  PromptKeys keys; // of the request in hand
  double *costs;   // [n_instances] by place in the list
} State;

static void start(void *state, const ClusterView *view, uint64_t seed, Arena *arena) {
  State *self = state;
  rng_init(&self->rng, seed, "router");
  self->arena = self->keys.arena = arena;
  self->books = ARENA_ARRAY(arena, InstanceBooks, view->n_instances);
  self->costs = ARENA_ARRAY(arena, double, view->n_instances);
}

/* --- cost */

static int64_t block_size_of(const ClusterView *view, InstanceIx m) {
  return view->instances[m].pool->block_size;
}

/* Different blocks of active prompts there, with this one. */
static int64_t decode_blocks(State *self, const ClusterView *view, InstanceIx m, int64_t prompt) {
  const InstanceBooks *books = &self->books[m];
  const int64_t block_size = block_size_of(view, m), full = prompt / block_size;
  int64_t n_active = 0;
  while (n_active < full &&
         key_map_find(&books->blocks, prompt_key(&self->keys, block_size, n_active)))
    n_active++;
  return (int64_t)books->blocks.n_keys + books->n_partial + full - n_active +
         (prompt % block_size > 0);
}

static double prefill_blocks(State *self, const ClusterView *view, InstanceIx m, int64_t prompt,
                             int64_t least_tokens) {
  const int64_t block_size = block_size_of(view, m);
  const double active = (double)self->books[m].prefill_tokens;
  const double blocks = (double)((prompt + block_size - 1) / block_size);
  const double excess = (active - (double)least_tokens) / (double)block_size / blocks;
  const double decay = 1 / (1 + self->overlap_score_credit_decay * excess);
  const double raw = (active + (double)prompt) / (double)block_size;
  const int64_t cached = reports_match(view->reports, m, &self->keys, prompt / block_size);
  const double left = raw - self->overlap_score_credit * decay * (double)cached;
  return left > 0 ? left : 0;
}

static double cost_of(State *self, const ClusterView *view, InstanceIx m, Phase phase,
                      int64_t prompt, int64_t least_tokens) {
  const bool apart = view->by_role[ROLE_PREFILL].count > 0 || view->by_role[ROLE_DECODE].count > 0;
  double cost = self->decode_active_request_weight * (double)self->books[m].n_requests;
  if (phase == PHASE_PREFILL)
    cost += self->prefill_load_scale * prefill_blocks(self, view, m, prompt, least_tokens);
  if (phase == PHASE_DECODE || !apart) cost += (double)decode_blocks(self, view, m, prompt);
  return cost;
}

/* --- choice */

/* The place of a least cost, each of them equally likely. */
static uint32_t pick_least(State *self, uint32_t n) {
  uint32_t best = 0, n_equal = 1;
  for (uint32_t i = 1; i < n; i++) {
    if (self->costs[i] > self->costs[best]) continue;
    n_equal = self->costs[i] < self->costs[best] ? 1 : n_equal + 1;
    if (n_equal == 1 || rng_below(&self->rng, n_equal) == 0) best = i;
  }
  return best;
}

static uint32_t draw_softmax(State *self, uint32_t n) {
  enum { NOTHING = -600 }; // of an exponent
  double least = self->costs[0], most = least, sum = 0;
  for (uint32_t i = 1; i < n; i++) {
    if (self->costs[i] < least) least = self->costs[i];
    if (self->costs[i] > most) most = self->costs[i];
  }
  for (uint32_t i = 0; i < n; i++) {
    const double x =
        most > least ? (least - self->costs[i]) / ((most - least) * self->temperature) : 0;
    self->costs[i] = x > NOTHING ? portable_exp(x) : 0;
    sum += self->costs[i];
  }
  double drawn = rng_uniform(&self->rng) * sum;
  uint32_t i = 0;
  while (i + 1 < n && drawn >= self->costs[i])
    drawn -= self->costs[i++];
  return i;
}

typedef struct Choice {
  State *state;
  int64_t prompt;
} Choice;

static InstanceIx choose(void *choice, const ClusterView *view, const RoleList *list, Phase phase) {
  State *self = ((Choice *)choice)->state;
  int64_t least_tokens = INT64_MAX;
  for (uint32_t i = 0; i < list->count; i++) {
    const int64_t tokens = self->books[list->items[i]].prefill_tokens;
    if (tokens < least_tokens) least_tokens = tokens;
  }
  for (uint32_t i = 0; i < list->count; i++)
    self->costs[i] =
        cost_of(self, view, list->items[i], phase, ((Choice *)choice)->prompt, least_tokens);
  if (list->count == 1) return list->items[0];
  return list->items[self->temperature > 0 ? draw_softmax(self, list->count)
                                           : pick_least(self, list->count)];
}

static Placement pick(void *state, const ClusterView *view, RequestIx ix) {
  State *self = state;
  prompt_keys_begin(&self->keys, &view->memory[ix].content);
  return router_place(view, choose, &(Choice){self, view->requests[ix].prompt_tokens});
}

/* --- books */

static void book_blocks(State *self, const ClusterView *view, RequestIx ix, InstanceIx m, int add) {
  InstanceBooks *books = &self->books[m];
  const int64_t block_size = block_size_of(view, m), prompt = view->requests[ix].prompt_tokens;
  books->n_partial += prompt % block_size > 0 ? add : 0;
  for (int64_t i = 0; i < prompt / block_size; i++) {
    const uint64_t key = prompt_key(&self->keys, block_size, i);
    uint32_t *count = key_map_put(&books->blocks, key, self->arena);
    *count += (uint32_t)add;
    if (*count == 0) key_map_remove(&books->blocks, key);
  }
}

static void place(State *self, const ClusterView *view, RequestIx ix) {
  const Request *request = &view->requests[ix];
  const InstanceIx prefill = request->prefill_instance, decode = request->decode_instance;
  const int64_t block_size = block_size_of(view, prefill), prompt = request->prompt_tokens;
  const int64_t cached = reports_match(view->reports, prefill, &self->keys, prompt / block_size);
  ARENA_RESERVE(self->arena, self->booked, self->booked_capacity, (size_t)ix + 1);
  Booked *booked = &self->booked[ix];
  *booked = (Booked){prefill, decode, prompt - cached * block_size};
  self->books[prefill].prefill_tokens += booked->prefill_tokens;
  self->books[prefill].n_requests++;
  if (decode == INSTANCE_NONE) return;
  if (decode != prefill) self->books[decode].n_requests++;
  book_blocks(self, view, ix, decode, 1);
}

/* Only the first time: one whose KV was dropped is prefilled again. */
static void end_prefill(State *self, Booked *booked) {
  if (booked->prefill == INSTANCE_NONE) return;
  self->books[booked->prefill].prefill_tokens -= booked->prefill_tokens;
  if (booked->prefill != booked->decode) self->books[booked->prefill].n_requests--;
  booked->prefill = INSTANCE_NONE;
}

static void observe(void *state, const ClusterView *view, RequestIx ix, Observation what,
                    InstanceIx instance) {
  (void)instance;
  State *self = state;
  if (what == OBSERVED_PLACED) place(self, view, ix);
  if (what == OBSERVED_PLACED || what == OBSERVED_TRANSFERRED) return;
  Booked *booked = &self->booked[ix];
  end_prefill(self, booked);
  if (what == OBSERVED_PREFILLED || booked->decode == INSTANCE_NONE) return;
  self->books[booked->decode].n_requests--;
  prompt_keys_begin(&self->keys, &view->memory[ix].content);
  book_blocks(self, view, ix, booked->decode, -1);
}

static const ReportOptions *reports(const void *state) {
  return &((const State *)state)->reports;
}

static int check(void *state, const Node *map, Place owner, Arena *arena, Diag *diag) {
  (void)arena;
  return reports_check(reports(state), map, owner, diag);
}

static const OptionSpec options[] = {
    {"overlap_score_credit", OPTION_REAL, offsetof(State, overlap_score_credit), "1", .min = 0,
     .max = 1, .help = "Number of prefill blocks that a block in the prefix cache saves."},
    {"overlap_score_credit_decay", OPTION_REAL, offsetof(State, overlap_score_credit_decay), "0",
     .min = 0, .max = 1e6,
     .help = "Rate at which that credit decreases as an instance's prefill load exceeds the lowest "
             "one."},
    {"prefill_load_scale", OPTION_REAL, offsetof(State, prefill_load_scale), "1", .min = 0,
     .max = 1e6, .help = "Weight of a block to be prefilled relative to a decode block."},
    {"decode_active_request_weight", OPTION_REAL, offsetof(State, decode_active_request_weight),
     "0", .min = 0, .max = 1e6,
     .help = "Number of blocks that each active request adds to the cost."},
    {"temperature", OPTION_REAL, offsetof(State, temperature), "0", .min = 0, .max = 1e6,
     .help = "Temperature of the softmax from which the instance is drawn. With 0 the lowest cost "
             "wins."},
    REPORT_OPTIONS(State, reports, "0 s"),
    {0},
};

const Router router_dynamo_kv = {
    .policy = {.name = "dynamo_kv",
               .help = "Sends each request to the instance with the lowest cost in blocks to "
                       "prefill and to decode (NVIDIA Dynamo).",
               .draws = policy_always_draws,
               .state_size = sizeof(State),
               .options = options,
               .check = check},
    .knows_content = true,
    .needs_caches = true,
    .reports = reports,
    .start = start,
    .pick = pick,
    .observe = observe,
};
