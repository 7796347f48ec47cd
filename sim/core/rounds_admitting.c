/* Whom a round prefills: SGLang's PrefillAdder, and preemption by priority. See rounds.h. */
#include "sim/core/hicache.h"
#include "sim/core/hicache_storage.h"
#include "sim/core/lifecycle.h"
#include "sim/core/memory.h"
#include "sim/core/rounds.h"
#include "sim/core/step_listing.h"
#include <assert.h>
#include <stdlib.h>

enum { RESERVED_MOST = 4096 }; // output tokens of a request that are

typedef enum Verdict { GOES_ON, NO_MEMORY, OTHER } Verdict;

/* One of those who run, for admission without a cache: what it will make and what it holds. */
typedef struct Outlook {
  double left;
  int64_t held;
} Outlook;

typedef struct Admission {
  Simulation *simulation;
  Instance *instance;
  Rounds *rounds;
  Step *step;
  int64_t page;
  double total_offset, current_offset; // tokens that are charged
  int64_t input, chunk;                // tokens left; chunk INT64_MAX: no limit
  int64_t n_mixed;                     // of decodes in the step
  RequestIx cut;                       // whose prompt is
  Outlook *outlooks;
  size_t n_outlooks, outlooks_capacity;
  bool looks_out; // outlooks are there
} Admission;

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Of what each attention rank has so much of. */
static int64_t of_ranks(const Admission *self, int64_t n) {
  const int64_t ranks = self->instance->pool->attention_ranks;
  return ranks > 1 ? ranks * n : n;
}

static int64_t whole(const Admission *self, int64_t tokens) {
  return blocks_of(self->instance, tokens) * self->page;
}

/* --- what is reserved */

int64_t rounds_most_made(const Instance *instance, const Request *request) {
  const int64_t page = instance->pool->block_size;
  const int64_t room =
      (instance->kv_blocks - blocks_of(instance, request->prompt_tokens) - 1) * page;
  return least(request->max_tokens, room > 2 ? room - 1 : 1);
}

int64_t rounds_reserved(const Instance *instance, const Request *request, int64_t made) {
  const int64_t left = rounds_most_made(instance, request) - made;
  return left < 0 ? 0 : least(left, RESERVED_MOST);
}

static double ratio_of(const Rounds *rounds, const Request *request) {
  return request->ignores_eos ? 1 : rounds->ratio;
}

/* What one that runs has reserved. */
static double offset_of(const Admission *self, const Request *request) {
  const int64_t made = rounds_made(self->instance, request);
  return (double)rounds_reserved(self->instance, request, made) * ratio_of(self->rounds, request);
}

static double sum_offsets(const Admission *self) {
  const Request *slots = self->simulation->requests.slots;
  double sum = 0;
  for (RequestIx ix = self->instance->running.first; ix != REQUEST_NONE; ix = slots[ix].next)
    if (rounds_runs(&slots[ix])) sum += offset_of(self, &slots[ix]);
  return sum;
}

static double room(const Admission *self) {
  const Radix *radix = self->instance->radix;
  return (double)((radix ? radix_room(radix) : self->instance->free_blocks) * self->page);
}

static double total(const Admission *self) {
  return room(self) - self->total_offset;
}

static double current(const Admission *self) {
  return room(self) - self->current_offset;
}

static Verdict state_of(const Admission *self) {
  if (total(self) <= 0 || current(self) <= 0) return NO_MEMORY;
  return self->input <= 0 || self->chunk <= 0 ? OTHER : GOES_ON;
}

/* --- who is taken */

static void take(Admission *self, RequestIx ix, int64_t tokens, int64_t reserved) {
  Rounds *rounds = self->rounds;
  const int64_t pages = whole(self, tokens);
  ARENA_RESERVE(self->simulation->arena, rounds->admitted, rounds->admitted_capacity,
                rounds->n_admitted + 1);
  rounds->admitted[rounds->n_admitted++] = (Admitted){ix, tokens, -1};
  self->total_offset += (double)(pages + self->page + reserved);
  self->current_offset += (double)(pages + self->page);
  self->input -= pages;
  if (self->chunk < INT64_MAX) self->chunk -= pages;
}

/* Whether another one may run. Who has made the last token still runs while nobody knows of it, as
 * SGLang's request holds its slot. */
static bool has_place(const Admission *self) {
  const int64_t n = rounds_n_running(self->instance) + (int64_t)self->rounds->n_admitted;
  return n < self->rounds->options->limits.max_num_seqs;
}

/* Tokens of the next chunk of a prompt for which there are pages. */
static int64_t fitting(const Admission *self, const Request *request, int64_t tokens) {
  const int64_t blocks = request->kv_blocks + self->instance->free_blocks;
  return least(tokens, blocks * self->page - request->prefilled_tokens);
}

/* The one between two chunks goes on first, whatever the budgets say; not if there are no pages. */
static bool go_on(Admission *self) {
  Rounds *rounds = self->rounds;
  const RequestIx ix = rounds->chunked;
  Request *request = &self->simulation->requests.slots[ix];
  const int64_t rest = request_prefill_tokens(request) - request->prefilled_tokens;
  const double left = total(self);
  int64_t limit = self->chunk;
  if (left >= 1 && left < (double)limit) limit = (int64_t)left;
  const int64_t wanted = least(rest, limit), tokens = fitting(self, request, wanted);
  if (tokens <= 0) return false;
  const bool cut = rest > tokens;
  take(self, ix, tokens, cut ? 0 : rounds_reserved(self->instance, request, 0));
  if (tokens < wanted) self->chunk = 0; // another one may not be cut beside it
  if (!cut) rounds->chunked = REQUEST_NONE;
  return true;
}

/* It joins those who run, what was found of it locked. */
static void admit(Admission *self, RequestIx ix, int64_t hits, int64_t tokens, int64_t reserved) {
  Simulation *simulation = self->simulation;
  Request *request = &simulation->requests.slots[ix];
  take(self, ix, tokens, reserved);
  const bool first = request->prefill_began_at < 0;
  life_scheduled(simulation, self->instance, ix, hits);
  request->admission = ++self->instance->n_admissions;
  request->scheduled = SCHEDULED_ENDS; // until it is known how it goes on
  self->rounds->admitted[self->rounds->n_admitted - 1].hits = first ? (int32_t)hits : -1;
}

/* Whether nobody is here whose end it could wait for: then nothing need be left. */
static bool is_alone(const Admission *self) {
  const Instance *instance = self->instance;
  return instance->running.count + instance->n_outgoing + instance->decode_queue.count == 0 &&
         instance->free_blocks == instance->kv_blocks;
}

/* --- without a cache, where all of max_tokens is made */

static Outlook outlook_of(const Admission *self, const Request *request) {
  const int64_t made = rounds_made(self->instance, request);
  return (Outlook){(double)rounds_most_made(self->instance, request) *
                           ratio_of(self->rounds, request) -
                       (double)made,
                   request->prompt_tokens + made};
}

static void insert_outlook(Admission *self, size_t at, Outlook outlook) {
  ARENA_RESERVE(self->simulation->arena, self->outlooks, self->outlooks_capacity,
                self->n_outlooks + 1);
  for (size_t i = self->n_outlooks++; i > at; i--)
    self->outlooks[i] = self->outlooks[i - 1];
  self->outlooks[at] = outlook;
}

static void sort_in(Admission *self, const Request *request) {
  const Outlook outlook = outlook_of(self, request);
  size_t at = self->n_outlooks;
  if (outlook.left <= 0) return;
  while (at > 0 && self->outlooks[at - 1].left > outlook.left)
    at--;
  insert_outlook(self, at, outlook);
}

/* All of them are looked at once; those who follow are put in one by one, one that is more than all
 * before the last, as SGLang does it. */
static void look_out(Admission *self, const Request *request) {
  const Request *slots = self->simulation->requests.slots;
  const Outlook outlook = outlook_of(self, request);
  size_t at = 0;
  if (self->looks_out) {
    if (outlook.left <= 0) return;
    while (at + 1 < self->n_outlooks && self->outlooks[at].left < outlook.left)
      at++;
    insert_outlook(self, at, outlook);
    return;
  }
  self->looks_out = true;
  sort_in(self, request);
  for (RequestIx ix = self->instance->running.first; ix != REQUEST_NONE; ix = slots[ix].next)
    if (rounds_runs(&slots[ix])) sort_in(self, &slots[ix]);
  for (size_t i = 0; i < self->rounds->n_admitted; i++)
    sort_in(self, &slots[self->rounds->admitted[i].request]);
}

/* Whether all fit until each of them ends. */
static bool all_end(const Admission *self, int64_t need) {
  const double rest = current(self) - (double)need;
  double freed = 0;
  for (size_t i = 0; i < self->n_outlooks; i++) {
    const double n = (double)(self->n_outlooks - i);
    if (rest + freed - self->outlooks[i].left * n <= n) return false;
    freed += (double)self->outlooks[i].held;
  }
  return true;
}

static Verdict try_foreseen(Admission *self, RequestIx ix) {
  const Request *request = &self->simulation->requests.slots[ix];
  const int64_t tokens = request_prefill_tokens(request);
  const int64_t need = whole(self, tokens) + self->page;
  const bool fits = (double)need <= total(self) && (double)need <= current(self);
  const bool alone = is_alone(self);
  if (!fits && !alone) return NO_MEMORY;
  look_out(self, request);
  if (!all_end(self, need) && !alone) return NO_MEMORY;
  if (tokens <= self->chunk) {
    admit(self, ix, 0, tokens, rounds_reserved(self->instance, request, 0));
  } else {
    if (self->chunk <= 0 || self->cut != REQUEST_NONE) return OTHER; // one is cut at most
    admit(self, ix, 0, self->chunk, 0);
    self->cut = ix;
  }
  return state_of(self);
}

/* --- one that waits */

/* Whether its tokens behind its hits, which are locked, and those that are reserved for it fit. */
static bool has_memory(const Admission *self, RequestIx ix, int64_t hits) {
  const Request *request = &self->simulation->requests.slots[ix];
  const int64_t tokens = request_prefill_tokens(request) - hits;
  const int64_t left = rounds_reserved(self->instance, request, request->generated_tokens);
  return (double)(tokens + left + self->page) < total(self) || is_alone(self);
}

/* Whether a prompt that is not cut, of so many tokens, has to wait for those before it. */
static bool passes_input(const Admission *self, int64_t tokens) {
  return self->chunk == INT64_MAX && self->rounds->n_admitted > 0 &&
         whole(self, tokens) >= self->input;
}

/* What is in CPU memory of it comes to the GPUs, if it may join; tokens that are there then. */
static int64_t load(Admission *self, RequestIx ix, int64_t hits) {
  Instance *instance = self->instance;
  const int64_t tokens = request_prefill_tokens(&self->simulation->requests.slots[ix]);
  const RequestMemory *memory = &self->simulation->memory[ix];
  if (passes_input(self, tokens - instance->radix->tree.nodes[memory->matched].to)) return hits;
  return hicache_load(self->simulation, instance, ix);
}

/* The tokens of its next chunk behind its hits. */
static Verdict cut_to_budgets(Admission *self, RequestIx ix, int64_t hits, int64_t *ret_tokens) {
  const Request *request = &self->simulation->requests.slots[ix];
  int64_t tokens = request_prefill_tokens(request) - hits;
  const bool chunks = self->chunk < INT64_MAX;
  if (passes_input(self, tokens)) return OTHER;
  if (chunks && whole(self, tokens) > self->chunk) {
    tokens = (hits + self->chunk / self->page * self->page) / self->page * self->page - hits;
    if (tokens <= 0 || self->cut != REQUEST_NONE) return OTHER;
    self->cut = ix;
  }
  *ret_tokens = tokens;
  return GOES_ON;
}

static Verdict try_matched(Admission *self, RequestIx ix, int64_t hits) {
  const Request *request = &self->simulation->requests.slots[ix];
  Radix *radix = self->instance->radix;
  const RadixIx matched =
      radix ? radix_on_gpus(radix, self->simulation->memory[ix].matched) : RADIX_ROOT;
  const int64_t room = radix ? radix_room(radix) : 0;
  int64_t tokens = 0;
  if (radix) radix_lock(radix, matched);
  Verdict verdict = has_memory(self, ix, hits) ? GOES_ON : NO_MEMORY;
  if (verdict == GOES_ON && radix && matched != self->simulation->memory[ix].matched)
    hits = load(self, ix, hits);
  if (verdict == GOES_ON) verdict = cut_to_budgets(self, ix, hits, &tokens);
  if (radix) radix_unlock(radix, matched);
  if (radix && radix_room(radix) != room) // loads have locked some
    sim_take_blocks(self->simulation, self->instance, room - radix_room(radix));
  if (verdict == NO_MEMORY) life_found_no_room(self->simulation, self->instance, ix);
  if (verdict != GOES_ON) return verdict;
  admit(self, ix, hits, tokens, self->cut == ix ? 0 : rounds_reserved(self->instance, request, 0));
  return state_of(self);
}

static Verdict try(Admission *self, RequestIx ix) {
  const Rounds *rounds = self->rounds;
  Radix *radix = self->instance->radix;
  const Request *request = &self->simulation->requests.slots[ix];
  RequestMemory *memory = radix ? &self->simulation->memory[ix] : NULL;
  const int64_t tokens = request_prefill_tokens(request),
                most = of_ranks(self, rounds->options->prefill_max_requests);
  const int64_t hits = radix ? rounds_match(self->instance, memory, tokens - 1) : 0;
  if (rounds->options->enable_priority_scheduling) {
    Tried *tried = rounds_tried(self->simulation, self->instance, ix);
    tried->tokens = (int32_t)tokens;
    tried->hits = (int32_t)hits;
  }
  if (most > 0 && (int64_t)rounds->n_admitted >= most) return OTHER;
  if (!radix && request->ignores_eos) return try_foreseen(self, ix);
  return try_matched(self, ix, hits);
}

/* --- preemption by priority */

/* Whether one that runs is worse than another: by priority, then who entered later. */
static bool is_worse(const Admission *self, RequestIx a_, RequestIx b_) {
  const Request *slots = self->simulation->requests.slots, *a = &slots[a_], *b = &slots[b_];
  if (a->priority != b->priority)
    return rounds_goes_before(self->rounds->options, b->priority, a->priority);
  return self->rounds->tried[a_].entry > self->rounds->tried[b_].entry;
}

/* The worst of those who run that is better than `than`; REQUEST_NONE: all are not. */
static RequestIx next_worst(const Admission *self, RequestIx than) {
  const Request *slots = self->simulation->requests.slots;
  RequestIx worst = REQUEST_NONE;
  for (RequestIx ix = self->instance->running.first; ix != REQUEST_NONE; ix = slots[ix].next)
    if (rounds_runs(&slots[ix]) && (than == REQUEST_NONE || is_worse(self, than, ix)) &&
        (worst == REQUEST_NONE || is_worse(self, ix, worst)))
      worst = ix;
  return worst;
}

static int64_t priority_gap(const RoundOptions *options, const Request *a, const Request *b) {
  const int64_t gap = (int64_t)a->priority - b->priority;
  return options->schedule_low_priority_values_first ? -gap : gap;
}

static void order_preempted(const Admission *self, size_t from) {
  const Rounds *rounds = self->rounds;
  const Simulation *simulation = self->simulation;
  const size_t n = rounds->n_preempted - from;
  if (!simulation->config->on_set || n < 2) return;
  uint64_t *ids = ARENA_ARRAY(simulation->arena, uint64_t, n);
  for (size_t i = 0; i < n; i++)
    ids[i] = simulation->requests.slots[rounds->preempted[from + i]].id;
  simulation->config->on_set(simulation->config->on_step_context, ids, n);
  for (size_t i = 0; i < n; i++)
    for (size_t j = from + i; j < rounds->n_preempted; j++) {
      const RequestIx ix = rounds->preempted[j];
      if (simulation->requests.slots[ix].id != ids[i]) continue;
      rounds->preempted[j] = rounds->preempted[from + i];
      rounds->preempted[from + i] = ix;
    }
}

/* Those of `preempted` from one on give way, in the order in which they run. */
static void give_way(Admission *self, size_t from) {
  Simulation *simulation = self->simulation;
  Rounds *rounds = self->rounds;
  const Request *slots = simulation->requests.slots;
  int64_t n = rounds_n_running(self->instance);
  RequestIx next;
  for (RequestIx ix = self->instance->running.first; ix != REQUEST_NONE; ix = next) {
    next = slots[ix].next;
    bool gives_way = false;
    for (size_t i = from; i < rounds->n_preempted; i++)
      gives_way |= rounds->preempted[i] == ix;
    if (!gives_way) continue;
    self->total_offset -= offset_of(self, &slots[ix]);
    rounds_retract_one(simulation, self->instance, ix, --n);
  }
}

/* Whether enough of those who run give way to it. */
static bool preempt(Admission *self, RequestIx ix) {
  Rounds *rounds = self->rounds;
  const Request *slots = self->simulation->requests.slots, *request = &slots[ix];
  const size_t from = rounds->n_preempted;
  const Tried *tried = rounds_tried(self->simulation, self->instance, ix);
  double missing =
      (double)(tried->tokens - tried->hits + rounds_reserved(self->instance, request, 0)) -
      total(self);
  for (RequestIx worst = next_worst(self, REQUEST_NONE); worst != REQUEST_NONE;
       worst = next_worst(self, worst)) {
    if (priority_gap(rounds->options, request, &slots[worst]) <=
        rounds->options->priority_scheduling_preemption_threshold)
      break;
    ARENA_RESERVE(self->simulation->arena, rounds->preempted, rounds->preempted_capacity,
                  rounds->n_preempted + 1);
    rounds->preempted[rounds->n_preempted++] = worst;
    missing -= offset_of(self, &slots[worst]);
    if (missing <= 0) break;
  }
  if (rounds->n_preempted == from || missing > 0) {
    rounds->n_preempted = from;
    return false;
  }
  give_way(self, from);
  order_preempted(self, from);
  return true;
}

/* --- all who wait */

static void try_waiting(Admission *self) {
  Rounds *rounds = self->rounds;
  Simulation *simulation = self->simulation;
  const bool preempts = rounds_may_preempt(rounds->options);
  const HiCache *hicache = self->instance->scheduler->hicache;
  int64_t n = 0; // who has just been preempted is not tried
  RequestIx ix = rounds_first_waiting(simulation, self->instance), next;
  for (RequestIx i = ix; i != REQUEST_NONE && preempts; i = rounds_next_waiting(simulation, i))
    n++;
  for (; ix != REQUEST_NONE; ix = next) {
    next = rounds_next_waiting(simulation, ix);
    if (preempts && n-- == 0) return;
    if (state_of(self) == OTHER) return;
    if (!has_place(self)) rounds->full = true;
    if (rounds->full && (!preempts || !preempt(self, ix))) return;
    if (hicache && !hicache_has_fetched(simulation, self->instance, ix)) continue;
    const Verdict verdict = try(self, ix);
    if (verdict == NO_MEMORY)
      rounds->full = rounds->n_admitted > 0 || rounds_n_running(self->instance) > 0;
    if (verdict != GOES_ON) return;
  }
}

/* --- the step */

void rounds_make_room(Instance *instance, int64_t pages) {
  Radix *radix = instance->radix;
  if (!radix || radix->n_free >= pages) return;
  const int64_t evicted = radix->n_evicted;
  radix_make_room(radix, pages);
  instance->totals.evictions += radix->n_evicted - evicted;
}

/* It takes the pages of its chunk. */
static void compute(Admission *self, const Admitted *admitted) {
  Simulation *simulation = self->simulation;
  Instance *instance = self->instance;
  Request *request = &simulation->requests.slots[admitted->request];
  const int64_t end = request->prefilled_tokens + admitted->tokens;
  sim_hold_blocks(simulation, instance, admitted->request,
                  blocks_of(instance, end) - request->kv_blocks);
  ScheduledItem *item = scheduler_add_item(simulation, self->step, admitted->request, STEP_CHUNK);
  item->tokens = (int32_t)admitted->tokens;
  item->hit_tokens = admitted->hits;
  life_chunk_decided(simulation, instance, admitted->request, item->tokens);
  item->done = request->prefilled_tokens;
  item->last = item->done == request_prefill_tokens(request);
  request->decided_step = instance->scheduler->number;
}

static void compute_all(Admission *self) {
  const Rounds *rounds = self->rounds;
  const size_t n = rounds->n_admitted;
  int64_t tokens = 0;
  for (size_t i = 0; i < n; i++)
    tokens += rounds->admitted[i].tokens;
  if (self->page > 1) tokens += (int64_t)n * self->page;
  rounds_make_room(self->instance, blocks_of(self->instance, tokens));
  for (size_t i = 0; i < n; i++)
    compute(self, &rounds->admitted[i]);
}

static void enqueue_preempted(Admission *self) {
  Rounds *rounds = self->rounds;
  for (size_t i = 0; i < rounds->n_preempted; i++) {
    rounds_enqueue(self->simulation, self->instance, rounds->preempted[i]);
    sim_list_preempted(self->simulation, self->step, rounds->preempted[i]);
  }
}

bool rounds_admit(Simulation *simulation, Instance *instance, Step *step) {
  Rounds *rounds = rounds_of(instance);
  const RoundOptions *options = rounds->options;
  const int64_t n_running = rounds_n_running(instance);
  const bool preempts = rounds_may_preempt(options), chunks = rounds->chunked != REQUEST_NONE;
  Admission self = {.simulation = simulation,
                    .instance = instance,
                    .rounds = rounds,
                    .step = step,
                    .page = instance->pool->block_size,
                    .cut = REQUEST_NONE};
  rounds->n_admitted = rounds->n_preempted = 0;
  if (preempts || n_running == 0) rounds->full = false;
  const bool waits = rounds_first_waiting(simulation, instance) != REQUEST_NONE;
  if ((rounds->full || !waits) && !chunks) return false;
  if (!has_place(&self) && !chunks && !preempts) {
    rounds->full = true;
    return false;
  }
  rounds_sort(simulation, instance);
  if (options->enable_mixed_chunk) self.n_mixed = n_running;
  self.input = of_ranks(&self, options->max_prefill_tokens) - self.n_mixed;
  self.chunk = options->enable_chunked_prefill
                   ? whole(&self, options->limits.max_num_batched_tokens) - self.n_mixed
                   : INT64_MAX;
  self.total_offset = self.current_offset = (double)self.n_mixed;
  self.total_offset += sum_offsets(&self);
  if (chunks && !go_on(&self)) return false;
  try_waiting(&self);
  enqueue_preempted(&self);
  assert(self.cut == REQUEST_NONE || rounds->chunked == REQUEST_NONE);
  if (self.cut != REQUEST_NONE) rounds->chunked = self.cut;
  if (rounds->n_admitted == 0) return false;
  compute_all(&self);
  return true;
}
