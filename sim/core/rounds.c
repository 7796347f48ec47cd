/* SGLang's scheduler, round by round. See rounds.h. */
#include "sim/core/rounds.h"
#include "base/heap.h"
#include "sim/core/counting.h"
#include "sim/core/hicache.h"
#include "sim/core/lifecycle.h"
#include "sim/core/memory.h"
#include "sim/core/step_listing.h"
#include <assert.h>

enum {
  RATIO_STEPS = 600,     // of decodes alone in which new_token_ratio falls to its least
  PREFILL_COUNTS = 1000, // a round with prefill, among those after which arrivals are taken in
};
static const double INIT_RATIO = 0.7, MIN_RATIO_FACTOR = 0.14;
/* On schedule_conservativeness, with attention ranks. */
static const double RANKS_FACTOR = 0.3;

static double lowered(const Rounds *rounds, double ratio) {
  const double less = ratio - rounds->decay;
  return less < rounds->min_ratio ? rounds->min_ratio : less;
}

/* What its ratio falls through while nobody is retracted, which may be thousands of decodes at
 * once: of the instance before, if that falls alike. */
static void list_ratios(Simulation *self, const Instance *instance, Rounds *rounds) {
  const Scheduler *scheduler = instance->ix > 0 ? instance[-1].scheduler : NULL;
  const Rounds *before = scheduler ? scheduler->rounds : NULL;
  if (before && before->init_ratio == rounds->init_ratio) {
    rounds->ratios = before->ratios;
    rounds->n_ratios = before->n_ratios;
    return;
  }
  double *ratios = ARENA_ARRAY(self->arena, double, RATIO_STEPS + 2);
  double ratio = ratios[0] = rounds->init_ratio;
  int64_t n = 1;
  for (; ratio > rounds->min_ratio; n++) {
    assert(n < RATIO_STEPS + 2);
    ratio = ratios[n] = lowered(rounds, ratio);
  }
  rounds->ratios = ratios;
  rounds->n_ratios = n;
}

static void start(Simulation *self, Instance *instance) {
  Rounds *rounds = instance->scheduler->rounds = ARENA_NEW(self->arena, Rounds);
  rounds->options = instance->batcher_options;
  const double factor = pool_ranks(instance->pool) > 1 ? RANKS_FACTOR : 1;
  const double init = INIT_RATIO * factor * rounds->options->schedule_conservativeness;
  rounds->init_ratio = init < 1 ? init : 1;
  rounds->min_ratio = rounds->init_ratio * MIN_RATIO_FACTOR;
  rounds->decay = (rounds->init_ratio - rounds->min_ratio) / RATIO_STEPS;
  rounds->ratio = rounds->init_ratio;
  list_ratios(self, instance, rounds);
  rounds->chunked = REQUEST_NONE;
}

/* --- who runs */

bool rounds_in_flight(const Instance *instance, const Request *request) {
  const Step *current = instance->scheduler->current;
  return instance->lag > 0 && current &&
         (request->joined_step == current->number || step_has_row(current, request));
}

int64_t rounds_made(const Instance *instance, const Request *request) {
  const bool scheduled = request->state == REQUEST_COMPUTES || request->state == REQUEST_GENERATES;
  if (!scheduled || request->scheduled != SCHEDULED_BATCH) return request->generated_tokens;
  return batch_context(&instance->batch, request) - request->prompt_tokens -
         rounds_in_flight(instance, request);
}

/* Those of the batch whose last token a step in progress makes: with one iteration left. Equal keys
 * are connected in the heap, from its root on. */
static void find_ends(Simulation *self, Instance *instance) {
  Rounds *rounds = rounds_of(instance);
  const Batch *batch = &instance->batch;
  rounds->n_ends = 0;
  if (batch->tail == 0 || batch->n_seqs == 0 || batch_until_finish(batch) > batch->tail) return;
  const int64_t finish = batch->entries[0].finish;
  ARENA_RESERVE(self->arena, rounds->ends, rounds->ends_capacity, batch->n_seqs);
  rounds->ends[rounds->n_ends++] = 0;
  for (size_t i = 0; i < rounds->n_ends; i++) {
    const size_t child = HEAP_CHILDREN * (size_t)rounds->ends[i] + 1;
    for (size_t j = child; j < child + HEAP_CHILDREN && j < batch->n_seqs; j++)
      if (batch->entries[j].finish == finish) rounds->ends[rounds->n_ends++] = (RequestIx)j;
  }
  for (size_t i = 0; i < rounds->n_ends; i++)
    rounds->ends[i] = batch->entries[rounds->ends[i]].request;
}

ScheduledItem *rounds_item_of(Step *step, RequestIx ix) {
  for (size_t i = 0; i < step->n_items; i++)
    if (step->items[i].request == ix && step->items[i].kind != STEP_JOINS) return &step->items[i];
  return NULL;
}

/* The step in progress tells of the ends when it is over, in the order in which it was decided. */
static void tell_ends(Simulation *self, Instance *instance) {
  const Rounds *rounds = rounds_of(instance);
  Step *current = instance->scheduler->current;
  for (size_t i = 0; i < rounds->n_ends; i++) {
    const RequestIx ix = rounds->ends[i];
    const Request *request = &self->requests.slots[ix];
    if (request->joined_step == current->number) continue; // it has an item
    scheduler_add_item(self, current, ix, STEP_LEAVES)->done = request->output_tokens;
  }
}

static bool is_in_batch(const Request *request) {
  return (request->state == REQUEST_COMPUTES || request->state == REQUEST_GENERATES) &&
         request->scheduled == SCHEDULED_BATCH;
}

/* One whose last token is in progress leaves the batch; `idly` it takes part in the step once more,
 * for nothing. */
static void end_sequence(Simulation *self, Instance *instance, Step *step, RequestIx ix,
                         bool idly) {
  Scheduler *scheduler = instance->scheduler;
  Request *request = &self->requests.slots[ix];
  const int64_t context = batch_context(&instance->batch, request);
  batch_remove(&instance->batch, self->requests.slots, ix, context);
  scheduler->version++;
  request->kv_blocks = (int32_t)instance_held_blocks(instance, context);
  request->scheduled = SCHEDULED_ENDS;
  rounds_item_of(scheduler->current, ix)->kv_tokens = idly;
  rounds_forget_joined(rounds_of(instance), ix);
  if (!idly) return;
  step->n_thrown[sim_counts(self, request)]++;
}

/* Those who end by max_tokens are known to, and decode no more; whether there are any. */
static bool end_known(Simulation *self, Instance *instance, Step *step) {
  Rounds *rounds = rounds_of(instance);
  size_t n = 0;
  for (size_t i = 0; i < rounds->n_ends; i++) {
    const RequestIx ix = rounds->ends[i];
    const Request *request = &self->requests.slots[ix];
    if (!is_in_batch(request)) continue;
    if (request_stops(request))
      rounds->ends[n++] = ix;
    else
      end_sequence(self, instance, step, ix, false);
  }
  const bool any = n < rounds->n_ends;
  rounds->n_ends = n;
  return any;
}

/* All others of them, who take part in a step with the batch; where a step is decided as it begins,
 * those whose last token it makes. */
static void end_others(Simulation *self, Instance *instance, Step *step) {
  Rounds *rounds = rounds_of(instance);
  const size_t n_items = step->n_items;
  if (instance->batch.tail == 0) scheduler_end_sequences(self, instance, step);
  rounds->left |= step->n_items > n_items;
  for (size_t i = 0; i < rounds->n_ends; i++)
    if (is_in_batch(&self->requests.slots[rounds->ends[i]]))
      end_sequence(self, instance, step, rounds->ends[i], step->n_regular > 0);
  rounds->left |= rounds->n_ends > 0;
}

/* --- a round begins */

/* Whether arrivals are taken in. Where nothing runs rounds take no time, until they are. */
static bool looks(Rounds *rounds, const Instance *instance) {
  const int64_t interval = rounds->options->scheduler_recv_interval;
  if (interval <= 1) return true;
  rounds->n_unlooked += rounds->has_prefill ? PREFILL_COUNTS : 1;
  const bool idle = instance->running.count == 0;
  if (!idle && rounds->n_unlooked < interval) return false;
  rounds->n_unlooked = 0;
  return true;
}

/* KV that has come in is decoded from the next step without prefill on, if there are places. */
static void take_in_decodes(Simulation *self, Instance *instance) {
  const int64_t most = rounds_of(instance)->options->limits.max_num_seqs;
  while (instance->decode_queue.count > 0 && instance->running.count < most) {
    const RequestIx ix = instance->decode_queue.first;
    life_scheduled(self, instance, ix, 0);
    self->requests.slots[ix].admission = ++instance->n_admissions;
    scheduler_schedule_alone(self, instance, ix);
  }
}

static void begin_round(Simulation *self, Instance *instance) {
  Rounds *rounds = rounds_of(instance);
  if (looks(rounds, instance)) rounds_look(self, instance);
  if (rounds->chunked != REQUEST_NONE) {
    const Request *request = &self->requests.slots[rounds->chunked];
    const bool has_more = request->decided_step + 1 == instance->scheduler->number;
    if (has_more && instance->radix)
      sim_insert_radix(self, instance, rounds->chunked, request->prefilled_tokens, true);
  }
  if (instance->scheduler->hicache) hicache_hears(self, instance);
  if (rounds->left) rounds->full = false;
  rounds->left = false;
  take_in_decodes(self, instance);
  find_ends(self, instance);
  tell_ends(self, instance);
}

/* --- decodes */

/* Pages that the next tokens of those running take, not in the batch too. */
static int64_t next_pages(const Simulation *self, const Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  int64_t pages = instance->batch.n_seqs > 0 ? batch_next_growth(&instance->batch) : 0;
  for (size_t i = 0; i < scheduler->n_alone; i++) {
    const Request *request = &self->requests.slots[scheduler->alone[i]];
    const int64_t more = blocks_of(instance, request_tokens(request)) - request->kv_blocks;
    pages += more > 0 ? more : 0;
  }
  return pages;
}

bool rounds_fits(Simulation *self, Instance *instance) {
  const int64_t pages = next_pages(self, instance);
  rounds_make_room(instance, pages);
  return pages <= instance->free_blocks;
}

/* Those that have joined the batch since it last took part have their last token from before. */
static void add_joined(Simulation *self, Instance *instance, Step *step) {
  Rounds *rounds = rounds_of(instance);
  for (size_t i = 0; i < rounds->n_joined; i++) {
    const RequestIx ix = rounds->joined[i];
    const Request *request = &self->requests.slots[ix];
    bool ends = false;
    for (size_t j = 0; j < rounds->n_ends; j++)
      ends |= rounds->ends[j] == ix;
    if (ends) continue;
    scheduler_add_item(self, step, ix, STEP_JOINS);
    step->n_joins[sim_counts(self, request)]++;
  }
  rounds->n_joined = 0;
}

/* Those that come with their KV are in this step by themselves. */
static void add_alone(Simulation *self, Instance *instance, Step *step) {
  const Scheduler *scheduler = instance->scheduler;
  for (size_t i = 0; i < scheduler->n_alone; i++) {
    const RequestIx ix = scheduler->alone[i];
    const Request *request = &self->requests.slots[ix];
    const int64_t more = blocks_of(instance, request_tokens(request)) - request->kv_blocks;
    sim_hold_blocks(self, instance, ix, more > 0 ? more : 0);
    scheduler_add_item(self, step, ix, STEP_DECODE)->last = true;
  }
}

/* All who run decode in the step: their pages are there. SGLang makes room for a page for each. */
static void decode_all(Simulation *self, Instance *instance, Step *step) {
  rounds_make_room(instance, rounds_n_running(instance));
  add_alone(self, instance, step);
  add_joined(self, instance, step);
  if (instance->batch.n_seqs > 0) {
    const int64_t growth = batch_next_growth(&instance->batch);
    if (instance->radix) radix_take(instance->radix, growth);
    sim_take_blocks(self, instance, growth);
  }
  scheduler_add_batch(self, instance, step);
}

static void lower_ratio(Rounds *rounds, int64_t n) {
  if (rounds->ratio_at < 0) {
    for (; n > 0 && rounds->ratio > rounds->min_ratio; n--)
      rounds->ratio = lowered(rounds, rounds->ratio);
    return;
  }
  const int64_t last = rounds->n_ratios - 1;
  rounds->ratio_at = n < last - rounds->ratio_at ? rounds->ratio_at + n : last;
  rounds->ratio = rounds->ratios[rounds->ratio_at];
}

/* A step of decodes alone; the requests that had to give way for it. */
static int64_t decode(Simulation *self, Instance *instance, Step *step) {
  Rounds *rounds = rounds_of(instance);
  const bool any_ended = end_known(self, instance, step);
  if (any_ended) rounds->full = false;
  if (rounds_n_running(instance) == 0) {
    rounds->full = false;
    return 0;
  }
  int64_t n_retracted = 0;
  if (rounds_fits(self, instance)) {
    lower_ratio(rounds, 1);
  } else {
    if (any_ended) return 0;
    n_retracted = rounds_retract(self, instance, step);
    rounds->full = false;
    if (rounds_n_running(instance) == 0 || !rounds_fits(self, instance)) return n_retracted;
  }
  decode_all(self, instance, step);
  return n_retracted;
}

/* With mixed chunks those who run decode beside the prompts, behind them from now on; if there are
 * no pages for all they stand still. */
static void mix(Simulation *self, Instance *instance, Step *step) {
  Rounds *rounds = rounds_of(instance);
  Request *slots = self->requests.slots;
  if (end_known(self, instance, step)) rounds->full = false;
  if (rounds_n_running(instance) == 0 || !rounds_fits(self, instance)) return;
  decode_all(self, instance, step);
  RequestIx ix = instance->running.first, next;
  const RequestIx last = instance->running.last;
  for (bool done = false; !done; ix = next) {
    done = ix == last;
    next = slots[ix].next;
    if (!rounds_runs(&slots[ix])) continue;
    if (rounds->options->enable_priority_scheduling)
      rounds_tried(self, instance, ix)->tokens =
          slots[ix].prompt_tokens + (int32_t)rounds_made(instance, &slots[ix]);
    rounds_put_last(self, instance, ix);
  }
}

/* --- the step */

void rounds_put_last(Simulation *self, Instance *instance, RequestIx ix) {
  request_queue_remove(&instance->running, self->requests.slots, ix);
  request_queue_push(&instance->running, self->requests.slots, ix);
  self->requests.slots[ix].admission = ++instance->n_admissions;
}

static void join(Simulation *self, Instance *instance, RequestIx ix) {
  Rounds *rounds = rounds_of(instance);
  scheduler_join_batch(self, instance, ix, self->requests.slots[ix].generated_tokens + 1);
  instance->scheduler->n_seconds[0] = instance->scheduler->n_seconds[1] = 0;
  ARENA_RESERVE(self->arena, rounds->joined, rounds->joined_capacity, rounds->n_joined + 1);
  rounds->joined[rounds->n_joined++] = ix;
}

/* Those whose prefill ends with the step are of those who run from the next round on, behind the
 * others; whose last token it makes only if that is known an iteration late. */
static void place_prefill(Simulation *self, Instance *instance, ScheduledItem *item) {
  Rounds *rounds = rounds_of(instance);
  Request *request = &self->requests.slots[item->request];
  const bool here = request->decode_instance == instance->ix;
  const bool ends = request->generated_tokens + 1 >= request->output_tokens;
  item->ends = !here || ends;
  if (here && ends && instance->lag > 0) item->ends = false; // as one of the batch
  if (item->ends)
    rounds->left = true;
  else
    join(self, instance, item->request);
}

/* One that came with its KV is of the batch from now on. */
static void place_decode(Simulation *self, Instance *instance, ScheduledItem *item) {
  const Request *request = &self->requests.slots[item->request];
  scheduler_forget_alone(instance->scheduler, item->request);
  self->requests.slots[item->request].scheduled = SCHEDULED_ENDS;
  if (request->generated_tokens + 1 < request->output_tokens || instance->lag > 0)
    join(self, instance, item->request);
}

static void place_items(Simulation *self, Instance *instance, Step *step) {
  Rounds *rounds = rounds_of(instance);
  const bool alone = rounds_n_running(instance) == 0;
  for (size_t i = 0; i < step->n_items; i++) {
    ScheduledItem *item = &step->items[i];
    scheduler_add_shape(self, step, item);
    if (item->kind == STEP_DECODE) place_decode(self, instance, item);
    if (item->kind != STEP_CHUNK) continue;
    if (item->last)
      place_prefill(self, instance, item);
    else
      step->shape.logit_seqs++; // SGLang has logits of each prompt, whole or not
  }
  if (rounds->has_prefill && (alone || step->n_regular > 0 || rounds->chunked != REQUEST_NONE))
    rounds->left = true; // the prefill's requests are as a batch of their own, which nobody left
  step->shape.logit_seqs += step->n_regular;
  if (instance->pool->attention_ranks > 1)
    ranks_spread_step(&self->ranks, instance, self->requests.slots, step, self->arena);
}

/* --- the rules */

/* Whether a round that finds nothing is followed by another at once, though it would only count. */
static bool may_poll(const Simulation *self, const Instance *instance) {
  const Rounds *rounds = rounds_of(instance);
  if (rounds_first_waiting(self, instance) != REQUEST_NONE) return true;
  const bool sleeps = self->config->idle_rounds_sleep && !rounds->had_step &&
                      agenda_find(&self->agenda, EVENT_ARRIVAL, 0) != NULL;
  return rounds->chunked != REQUEST_NONE && !sleeps;
}

static void list_waiting(Simulation *self, const Instance *instance, StepListing *listing) {
  listing->n_waiting = 0;
  for (RequestIx ix = rounds_first_waiting(self, instance); ix != REQUEST_NONE;
       ix = rounds_next_waiting(self, ix)) {
    ARENA_RESERVE(self->arena, listing->waiting, listing->waiting_capacity,
                  (size_t)listing->n_waiting + 1);
    listing->waiting[listing->n_waiting++] = self->requests.slots[ix].id;
  }
}

/* As sim_list_step, before those that leave the batch with it have. */
static void list_round(Simulation *self, const Instance *instance, Step *step) {
  StepListing *listing = step->listing;
  const Rounds *rounds = rounds_of(instance);
  const Request *slots = self->requests.slots;
  if (!listing) return;
  sim_list_step(self, instance, step);
  listing->n_running = 0;
  for (RequestIx ix = instance->running.first; ix != REQUEST_NONE; ix = slots[ix].next)
    if (rounds_runs(&slots[ix]) && !(rounds->has_prefill && step->n_regular > 0))
      listing->running[listing->n_running++] = slots[ix].id;
  list_waiting(self, instance, listing);
  listing->chunked = rounds->chunked == REQUEST_NONE ? -1 : (int64_t)slots[rounds->chunked].id;
  listing->evictable_blocks = instance->radix ? instance->radix->n_evictable : 0;
  listing->new_token_ratio = rounds->ratio;
  listing->full = rounds->full;
}

static bool decide(Simulation *self, Instance *instance, Step *step) {
  Rounds *rounds = rounds_of(instance);
  const RoundOptions *options = rounds->options;
  scheduler_begin_decision(self, instance, step);
  begin_round(self, instance);
  const bool rests =
      rounds->rests > 0 && rounds_n_running(instance) >= options->prefill_decode_interval_min_bs;
  rounds->rests = rests ? rounds->rests - 1 : 0;
  rounds->n_preempted = 0;
  rounds->has_prefill = !rests && rounds_admit(self, instance, step);
  int64_t n_retracted = (int64_t)rounds->n_preempted;
  if (rounds->has_prefill) {
    rounds->rests = options->prefill_decode_interval;
    if (options->enable_mixed_chunk) mix(self, instance, step);
  } else if (rounds_n_running(instance) > 0) {
    n_retracted += decode(self, instance, step);
  } else {
    n_retracted += rounds_free_place(self, instance, step);
  }
  list_round(self, instance, step);
  end_others(self, instance, step);
  place_items(self, instance, step);
  if (instance->scheduler->hicache) hicache_decided(self, instance, step);
  step->preempted = n_retracted > 0;
  const bool again = step->preempted || (rests && may_poll(self, instance));
  rounds->had_step = !step_is_empty(step);
  return again;
}

static void repeated(Simulation *self, Instance *instance, int64_t n) {
  (void)self;
  Rounds *rounds = rounds_of(instance);
  const Step *current = instance->scheduler->current;
  lower_ratio(rounds, n);
  if (n > 0) rounds->left = false;
  for (size_t i = 0; i < current->n_items && instance->lag == 0; i++)
    rounds->left |= current->items[i].kind == STEP_LEAVES;
  rounds->n_unlooked = (rounds->n_unlooked + n) % rounds->options->scheduler_recv_interval;
  rounds->rests = rounds->rests > n ? rounds->rests - n : 0;
}

static int64_t watch(const Simulation *self, const Instance *instance) {
  const Rounds *rounds = rounds_of(instance);
  const int64_t interval = rounds->options->scheduler_recv_interval;
  const RequestIx last = instance->prefill_queue.last;
  const bool waits = rounds_first_waiting(self, instance) != REQUEST_NONE;
  int64_t most = INT64_MAX;
  if (instance->decode_queue.count > 0 || rounds->chunked != REQUEST_NONE) return 1;
  if (waits && (!rounds->full || rounds_may_preempt(rounds->options))) most = rounds->rests + 1;
  if (last != REQUEST_NONE && !self->requests.slots[last].known &&
      interval - rounds->n_unlooked < most)
    most = interval - rounds->n_unlooked;
  if (instance->scheduler->hicache) most = hicache_watch(instance, most);
  return most > 1 ? most : 1;
}

static void insert(Simulation *self, Instance *instance, RequestIx ix, int64_t tokens) {
  if (!instance->radix) return;
  sim_insert_radix(self, instance, ix, tokens, false);
  if (instance->scheduler->hicache) hicache_writes(self, instance);
}

static void idles(Simulation *self, Instance *instance) {
  if (instance->scheduler->hicache) hicache_idles(self, instance);
  Rounds *rounds = rounds_of(instance);
  if (instance->running.count + instance->prefill_queue.count + instance->decode_queue.count > 0)
    return;
  rounds->ratio = rounds->init_ratio;
  rounds->ratio_at = 0;
  rounds->rests = rounds->n_unlooked = 0;
  rounds->has_prefill = rounds->had_step = false;
}

bool rounds_wake(const InstanceView *view, Wake why) {
  const Instance *instance = view->instance;
  const Rounds *rounds = rounds_of(instance);
  if (instance->activity == ACTIVITY_IDLE || why == WAKE_DECODE) return true;
  const bool looks_always = rounds->options->scheduler_recv_interval <= 1;
  const HiCache *hicache = instance->scheduler->hicache;
  if (hicache && hicache->storage && why == WAKE_PREFILL) return true; // it may be looked up
  if (rounds->full && looks_always && !rounds_may_preempt(rounds->options)) return false;
  return why == WAKE_PREFILL || instance->prefill_queue.count + instance->decode_queue.count > 0;
}

const SchedulerRules scheduler_rules_sglang = {
    .alternates = true,
    .tails = true,
    .start = start,
    .decide = decide,
    .repeated = repeated,
    .watch = watch,
    .finishes = insert,
    .prefilled = insert,
    .idles = idles,
    .withdraw = rounds_withdraw,
    .forget = rounds_forget,
};
