/* NVIDIA Dynamo's KV router (lib/kv-router): the instance of the least cost, in blocks of b tokens,
 * which are the blocks or pages of the engine, as its workers tell Dynamo,
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
#include "sim/router/active_blocks.h"
#include "sim/router/router.h"

/* Whole numbers, most of them as the costs need them. */
typedef struct InstanceBooks {
  double prefill_tokens, n_requests;
  double n_blocks;   // different ones of active prompts
  int32_t n_partial; // of those, last ones that are not full
  int32_t block_size;
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
  ActiveBlocks active;  // full ones of prompts
  Booked *booked;
  size_t booked_capacity;
  PromptKeys keys; // of the request in hand
  double *costs;   // of the request in hand on each instance of a list, by place
} State;

static void start(void *state, const ClusterView *view, uint64_t seed, Arena *arena) {
  State *self = state;
  rng_init(&self->rng, seed, "router");
  self->arena = self->keys.arena = arena;
  self->books = ARENA_ARRAY(arena, InstanceBooks, view->n_instances);
  active_blocks_init(&self->active, view->n_instances, arena);
  self->costs = ARENA_ARRAY(arena, double, view->n_instances);
  for (InstanceIx m = 0; m < view->n_instances; m++)
    self->books[m].block_size = (int32_t)view->instances[m].pool->block_size;
}

/* --- cost */

/* The request in hand, in blocks of one size. */
typedef struct Need {
  int32_t block_size;
  double tokens_per_block, blocks; // the same, and all blocks
  const int64_t *n_active;         // [n_instances] full ones that are among those of active prompts
} Need;

static Need need_of(State *self, int64_t prompt, int32_t block_size) {
  const int64_t full = prompt / block_size;
  return (Need){.block_size = block_size,
                .tokens_per_block = block_size,
                .blocks = (double)(full + (prompt % block_size > 0)),
                .n_active =
                    active_blocks_match(&self->active, self->keys.content, block_size, full)};
}

/* How much of the credit is left where so many prefill tokens are active, of which the least loaded
 * has `least`. */
static double decay_of(const State *self, double active, double least, const Need *need) {
  const double excess = (active - least) / need->tokens_per_block / need->blocks;
  return 1 / (1 + self->overlap_score_credit_decay * excess);
}

static double least_prefill_tokens(const State *self, const RoleList *list) {
  double least = self->books[list->items[0]].prefill_tokens;
  for (uint32_t i = 1; i < list->count; i++) {
    const double tokens = self->books[list->items[i]].prefill_tokens;
    least = tokens < least ? tokens : least;
  }
  return least;
}

/* All instances are gone through for each request, so what is the same for all is read once. */
static void find_costs(State *self, const ClusterView *view, const RoleList *list, Phase phase,
                       int64_t prompt) {
  const bool apart = view->by_role[ROLE_PREFILL].count > 0 || view->by_role[ROLE_DECODE].count > 0;
  const bool prefills = phase == PHASE_PREFILL, decodes = phase == PHASE_DECODE || !apart;
  const bool decays = prefills && self->overlap_score_credit_decay > 0;
  const double least = decays ? least_prefill_tokens(self, list) : 0;
  const double scale = self->prefill_load_scale, weight = self->decode_active_request_weight;
  const double most_credit = self->overlap_score_credit, tokens = (double)prompt;
  const int64_t *cached = prefills ? reports_match_all(view->reports, &self->keys, prompt) : NULL;
  const InstanceIx *items = list->items;
  double *costs = self->costs;
  Need need = {0};
  for (uint32_t i = 0, n = list->count; i < n; i++) {
    const InstanceIx m = items[i];
    const InstanceBooks *books = &self->books[m];
    if (books->block_size != need.block_size) need = need_of(self, prompt, books->block_size);
    double cost = weight * books->n_requests;
    if (prefills) {
      double credit = most_credit;
      if (decays) credit *= decay_of(self, books->prefill_tokens, least, &need);
      const double raw = (books->prefill_tokens + tokens) / need.tokens_per_block;
      const double left = raw - credit * (double)cached[m];
      cost += scale * (left > 0 ? left : 0);
    }
    if (decodes) // different blocks of active prompts there, with this one
      cost += books->n_blocks + need.blocks - (double)need.n_active[m];
    costs[i] = cost;
  }
}

/* --- choice */

/* The place of a least cost, each of them equally likely. */
static uint32_t pick_least(State *self, uint32_t n) {
  const double *costs = self->costs;
  double least = costs[0];
  uint32_t best = 0, n_equal = 1;
  for (uint32_t i = 1; i < n; i++) {
    if (costs[i] > least) continue;
    n_equal = costs[i] < least ? 1 : n_equal + 1;
    least = costs[i];
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
  find_costs(self, view, list, phase, ((Choice *)choice)->prompt);
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
  const int64_t prompt = view->requests[ix].prompt_tokens, block_size = books->block_size;
  (add > 0 ? active_blocks_add : active_blocks_remove)(&self->active, m, &view->memory[ix].content,
                                                       block_size, prompt / block_size);
  books->n_partial += prompt % block_size > 0 ? add : 0;
  books->n_blocks = (double)(self->active.n_blocks[m] + books->n_partial);
}

static void place(State *self, const ClusterView *view, RequestIx ix) {
  const Request *request = &view->requests[ix];
  const InstanceIx prefill = request->prefill_instance, decode = request->decode_instance;
  const int64_t block_size = self->books[prefill].block_size, prompt = request->prompt_tokens;
  const int64_t cached = reports_match(view->reports, prefill, &self->keys, prompt / block_size);
  ARENA_RESERVE(self->arena, self->booked, self->booked_capacity, (size_t)ix + 1);
  Booked *booked = &self->booked[ix];
  *booked = (Booked){prefill, decode, prompt - cached * block_size};
  self->books[prefill].prefill_tokens += (double)booked->prefill_tokens;
  self->books[prefill].n_requests++;
  if (decode == INSTANCE_NONE) return;
  if (decode != prefill) self->books[decode].n_requests++;
  book_blocks(self, view, ix, decode, 1);
}

/* Only the first time: one whose KV was dropped is prefilled again. */
static void end_prefill(State *self, Booked *booked) {
  if (booked->prefill == INSTANCE_NONE) return;
  self->books[booked->prefill].prefill_tokens -= (double)booked->prefill_tokens;
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
  book_blocks(self, view, ix, booked->decode, -1);
}

static const ReportOptions *reports(const void *state) {
  return &((const State *)state)->reports;
}

static int check(void *state, const Node *map, Place owner, Arena *arena, Diag *diag) {
  (void)arena;
  return reports_check(reports(state), "delay", map, owner, diag);
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
