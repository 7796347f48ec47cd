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

/* By instance, in arrays of their own, so that the costs of all are found several at a time. Whole
 * numbers, most of them as the costs need them. */
typedef struct Books {
  double *prefill_tokens, *n_requests;
  double *n_blocks;    // different ones of active prompts
  int32_t *n_partial;  // of those, last ones that are not full
  int32_t *block_size; // of its engine
} Books;

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
  Books books;         // [n_instances]
  bool alike;          // all instances have blocks of one size
  ActiveBlocks active; // full ones of prompts
  Booked *booked;
  size_t booked_capacity;
  PromptKeys keys; // of the request in hand
  double *costs;   // [n_instances] of the request in hand, of those in a list
} State;

static void start(void *state, const ClusterView *view, uint64_t seed, Arena *arena) {
  State *self = state;
  rng_init(&self->rng, seed, "router");
  self->arena = self->keys.arena = arena;
  const uint32_t n = view->n_instances;
  self->books = (Books){.prefill_tokens = ARENA_ARRAY(arena, double, n),
                        .n_requests = ARENA_ARRAY(arena, double, n),
                        .n_blocks = ARENA_ARRAY(arena, double, n),
                        .n_partial = ARENA_ARRAY(arena, int32_t, n),
                        .block_size = ARENA_ARRAY(arena, int32_t, n)};
  active_blocks_init(&self->active, n, arena);
  self->costs = ARENA_ARRAY(arena, double, n);
  self->alike = true;
  for (InstanceIx m = 0; m < n; m++) {
    self->books.block_size[m] = (int32_t)view->instances[m].pool->block_size;
    self->alike &= self->books.block_size[m] == self->books.block_size[0];
  }
}

/* --- cost */

/* The request in hand, in blocks of one size. */
typedef struct Need {
  int32_t block_size;
  double tokens_per_block, blocks; // the same, and all blocks
  const int32_t *n_active;         // [n_instances] full ones that are among those of active prompts
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
  const double *all = self->books.prefill_tokens;
  double least = all[list->items[0]];
  for (uint32_t i = 1; i < list->count; i++) {
    const double tokens = all[list->items[i]];
    least = tokens < least ? tokens : least;
  }
  return least;
}

/* What the costs of a request are made of, beside the books; without a term it is 0 for all. */
typedef struct Terms {
  double tokens, tokens_per_block, blocks;
  double credit, scale, weight;
  const int32_t *cached, *n_active; // [n_instances]; NULL: no such term
} Terms;

static double prefill_cost(const Terms *terms, double active, double credit, double cached) {
  const double raw = (active + terms->tokens) / terms->tokens_per_block;
  const double left = raw - credit * cached;
  return terms->scale * (left > 0 ? left : 0);
}

/* Different blocks of active prompts on an instance, with this one. */
static double decode_cost(const Terms *terms, double n_blocks, double n_active) {
  return n_blocks + terms->blocks - n_active;
}

/* Of all instances, which have blocks of one size: the compiler takes several at a time, so nothing
 * in these loops hangs on anything but the instance. */
static void find_costs_of_all(State *self, const Terms *terms, uint32_t n) {
  const Terms of = *terms;
  const double *restrict prefill_tokens = self->books.prefill_tokens;
  const double *restrict n_requests = self->books.n_requests;
  const double *restrict n_blocks = self->books.n_blocks;
  const int32_t *restrict cached = of.cached, *restrict n_active = of.n_active;
  double *restrict costs = self->costs;
  for (uint32_t m = 0; m < n; m++)
    costs[m] = of.weight * n_requests[m];
  if (cached)
    for (uint32_t m = 0; m < n; m++)
      costs[m] += prefill_cost(&of, prefill_tokens[m], of.credit, (double)cached[m]);
  if (n_active)
    for (uint32_t m = 0; m < n; m++)
      costs[m] += decode_cost(&of, n_blocks[m], (double)n_active[m]);
}

/* The same one by one, with blocks of any size and a credit that decays. */
static void find_costs_of_each(State *self, const RoleList *list, Terms terms, bool decodes) {
  const Books *books = &self->books;
  const double least = terms.cached ? least_prefill_tokens(self, list) : 0;
  Need need = {0};
  for (uint32_t i = 0, n = list->count; i < n; i++) {
    const InstanceIx m = list->items[i];
    if (books->block_size[m] != need.block_size)
      need = need_of(self, (int64_t)terms.tokens, books->block_size[m]);
    terms.tokens_per_block = need.tokens_per_block;
    terms.blocks = need.blocks;
    double cost = terms.weight * books->n_requests[m];
    if (terms.cached) {
      const double active = books->prefill_tokens[m];
      double credit = terms.credit;
      if (self->overlap_score_credit_decay > 0) credit *= decay_of(self, active, least, &need);
      cost += prefill_cost(&terms, active, credit, (double)terms.cached[m]);
    }
    if (decodes) cost += decode_cost(&terms, books->n_blocks[m], (double)need.n_active[m]);
    self->costs[m] = cost;
  }
}

static void find_costs(State *self, const ClusterView *view, const RoleList *list, Phase phase,
                       int64_t prompt) {
  const bool apart = view->by_role[ROLE_PREFILL].count > 0 || view->by_role[ROLE_DECODE].count > 0;
  const bool prefills = phase == PHASE_PREFILL, decodes = phase == PHASE_DECODE || !apart;
  Terms terms = {.tokens = (double)prompt,
                 .credit = self->overlap_score_credit,
                 .scale = self->prefill_load_scale,
                 .weight = self->decode_active_request_weight,
                 .cached = prefills ? reports_match_all(view->reports, &self->keys, prompt) : NULL};
  if (!self->alike || (prefills && self->overlap_score_credit_decay > 0)) {
    find_costs_of_each(self, list, terms, decodes);
    return;
  }
  const Need need = need_of(self, prompt, self->books.block_size[0]);
  terms.tokens_per_block = need.tokens_per_block;
  terms.blocks = need.blocks;
  if (decodes) terms.n_active = need.n_active;
  find_costs_of_all(self, &terms, view->n_instances);
}

/* --- choice */

/* One of the least cost, each of them equally likely. */
static InstanceIx pick_least(State *self, const RoleList *list) {
  const double *costs = self->costs;
  const InstanceIx *items = list->items;
  double least = costs[items[0]];
  uint32_t best = 0, n_equal = 1;
  for (uint32_t i = 1, n = list->count; i < n; i++) {
    const double cost = costs[items[i]];
    if (cost > least) continue;
    n_equal = cost < least ? 1 : n_equal + 1;
    least = cost;
    if (n_equal == 1 || rng_below(&self->rng, n_equal) == 0) best = i;
  }
  return items[best];
}

static InstanceIx draw_softmax(State *self, const RoleList *list) {
  enum { NOTHING = -600 }; // of an exponent
  double *costs = self->costs;
  const InstanceIx *items = list->items;
  const uint32_t n = list->count;
  double least = costs[items[0]], most = least, sum = 0;
  for (uint32_t i = 1; i < n; i++) {
    const double cost = costs[items[i]];
    if (cost < least) least = cost;
    if (cost > most) most = cost;
  }
  for (uint32_t i = 0; i < n; i++) {
    const double x =
        most > least ? (least - costs[items[i]]) / ((most - least) * self->temperature) : 0;
    costs[items[i]] = x > NOTHING ? portable_exp(x) : 0;
    sum += costs[items[i]];
  }
  double drawn = rng_uniform(&self->rng) * sum;
  uint32_t i = 0;
  while (i + 1 < n && drawn >= costs[items[i]])
    drawn -= costs[items[i++]];
  return items[i];
}

typedef struct Choice {
  State *state;
  int64_t prompt;
} Choice;

static InstanceIx choose(void *choice, const ClusterView *view, const RoleList *list, Phase phase) {
  State *self = ((Choice *)choice)->state;
  find_costs(self, view, list, phase, ((Choice *)choice)->prompt);
  if (list->count == 1) return list->items[0];
  return self->temperature > 0 ? draw_softmax(self, list) : pick_least(self, list);
}

static Placement pick(void *state, const ClusterView *view, RequestIx ix) {
  State *self = state;
  prompt_keys_begin(&self->keys, &view->memory[ix].content);
  return router_place(view, choose, &(Choice){self, view->requests[ix].prompt_tokens});
}

/* --- books */

static void book_blocks(State *self, const ClusterView *view, RequestIx ix, InstanceIx m, int add) {
  Books *books = &self->books;
  const int64_t prompt = view->requests[ix].prompt_tokens, block_size = books->block_size[m];
  (add > 0 ? active_blocks_add : active_blocks_remove)(&self->active, m, &view->memory[ix].content,
                                                       block_size, prompt / block_size);
  books->n_partial[m] += prompt % block_size > 0 ? add : 0;
  books->n_blocks[m] = (double)(self->active.n_blocks[m] + books->n_partial[m]);
}

static void place(State *self, const ClusterView *view, RequestIx ix) {
  const Request *request = &view->requests[ix];
  const InstanceIx prefill = request->prefill_instance, decode = request->decode_instance;
  const int64_t block_size = self->books.block_size[prefill], prompt = request->prompt_tokens;
  const int64_t cached = reports_match(view->reports, prefill, &self->keys, prompt / block_size);
  ARENA_RESERVE(self->arena, self->booked, self->booked_capacity, (size_t)ix + 1);
  Booked *booked = &self->booked[ix];
  *booked = (Booked){prefill, decode, prompt - cached * block_size};
  self->books.prefill_tokens[prefill] += (double)booked->prefill_tokens;
  self->books.n_requests[prefill]++;
  if (decode == INSTANCE_NONE) return;
  if (decode != prefill) self->books.n_requests[decode]++;
  book_blocks(self, view, ix, decode, 1);
}

/* Only the first time: one whose KV was dropped is prefilled again. */
static void end_prefill(State *self, Booked *booked) {
  if (booked->prefill == INSTANCE_NONE) return;
  self->books.prefill_tokens[booked->prefill] -= (double)booked->prefill_tokens;
  if (booked->prefill != booked->decode) self->books.n_requests[booked->prefill]--;
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
  self->books.n_requests[booked->decode]--;
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
