/* Instances that run the steps of a scheduler: these begin and end (scheduler.h, loop.h). */
#include "sim/books/parts.h"
#include "sim/core/connector.h"
#include "sim/core/counting.h"
#include "sim/core/decode_run.h"
#include "sim/core/encoder.h"
#include "sim/core/flight_plan.h"
#include "sim/core/flights.h"
#include "sim/core/hicache.h"
#include "sim/core/lifecycle.h"
#include "sim/core/lockstep.h"
#include "sim/core/loop.h"
#include "sim/core/marks.h"
#include "sim/core/memory.h"
#include "sim/core/moving.h"
#include "sim/core/placement.h"
#include "sim/core/prefill_run.h"
#include "sim/core/rank_rounds.h"
#include "sim/core/scheduling.h"
#include "sim/core/step_listing.h"
#include <assert.h>

void scheduler_limit_drafts(Instance *instance) {
  Scheduler *scheduler = instance->scheduler;
  const int64_t room = instance_room(instance);
  scheduler->max_slots = scheduler->max_model_len < room ? scheduler->max_model_len : room;
}

/* Acceptance by component; one for all where there are none. */
static const double **component_rates(const Simulation *self, const Instance *instance) {
  const SimConfig *config = self->config;
  const Speculation *speculation = &instance->scheduler->limits.speculation;
  const uint32_t n = config->n_components > 0 ? config->n_components : 1;
  const double **rates = ARENA_ARRAY(self->arena, const double *, n);
  for (uint32_t i = 0; i < n; i++) {
    const ComponentSpec *component = config->n_components > 0 ? &config->components[i] : NULL;
    const bool classed = component && config->n_classes > 0;
    rates[i] = speculation_rates(speculation, component ? component->name : NULL,
                                 classed ? config->classes[component->class].name : NULL);
    assert(rates[i] || sim_model_of(config, (uint16_t)i) != instance->pool->model);
  }
  return rates;
}

void scheduler_start(Simulation *self, Instance *instance, size_t n_places) {
  Scheduler *scheduler = instance->scheduler = ARENA_NEW(self->arena, Scheduler);
  scheduler->steps = ARENA_ARRAY(self->arena, Step, n_places);
  scheduler->n_places = n_places;
  scheduler->limits = instance->batcher->schedules(instance->batcher_options);
  scheduler->version = 1;
  scheduler->by_items = scheduler->limits.speculation.num_speculative_tokens > 0;
  if (scheduler->by_items) scheduler->rates = component_rates(self, instance);
  const int64_t context = sim_model(self->config, instance->pool->model)->max_model_len;
  scheduler->max_model_len = context > 0 ? context : INT64_MAX;
  scheduler->prefilled_step = -scheduler->limits.prefill_interval;
  scheduler->next = &scheduler->steps[0];
  instance->lag = scheduler->limits.lag;
  const SchedulerRules *rules = scheduler->limits.rules;
  instance->batch.tail = rules->tails ? instance->lag : 0;
  if (scheduler->limits.encoder_tokens > 0) encoding_start(self, instance);
  if (rules->start) rules->start(self, instance);
}

static void start(Simulation *self, Instance *instance) {
  scheduler_start(self, instance, 2);
}

/* --- beginning */

/* Decides the step after the one that begins; the other place is free. */
static void decide_next(Simulation *self, Instance *instance) {
  Scheduler *scheduler = instance->scheduler;
  scheduler->limits.rules->decide(self, instance, scheduler->next);
  scheduler->has_next = !step_is_empty(scheduler->next);
}

bool scheduler_gives_way(Simulation *self, Instance *instance) {
  if (instance->decode_queue.count < 2 || instance->running.count + instance->n_outgoing > 0)
    return false;
  life_gave_way(self, instance, instance->decode_queue.last);
  return true;
}

/* The decided step becomes the present one, or one is decided now; false when there is nothing to
 * do. Whoever had to give way may be all there is, so a decision may follow at once. */
static bool take_step(Simulation *self, Instance *instance) {
  Scheduler *scheduler = instance->scheduler;
  Step *step = scheduler->next;
  bool again = !scheduler->has_next;
  while (again) {
    again = scheduler->limits.rules->decide(self, instance, step);
    if (!step_is_empty(step)) break;
    sim_tell_step(self, instance, step, self->now);
    again = again || scheduler_gives_way(self, instance);
  }
  scheduler->has_next = false;
  if (step_is_empty(step)) return false;
  scheduler->current = step;
  scheduler->next = &scheduler->steps[step == &scheduler->steps[0]];
  return true;
}

void scheduler_tell_of_beginnings(Simulation *self, Instance *instance, const Step *step) {
  for (size_t i = 0; i < step->n_items; i++) {
    const ScheduledItem *item = &step->items[i];
    if (item->request == REQUEST_NONE) continue;
    Request *request = &self->requests.slots[item->request];
    const bool decodes = item->kind == STEP_DECODE && !item->lost;
    if (decodes || item->kind == STEP_JOINS) life_decode_began(self, instance, request);
    if (item->kind != STEP_CHUNK) continue;
    life_prefill_began(self, instance, request);
    if (item->last && request_moves_from(request, instance->ix))
      sim_offer_layers(self, item->request);
  }
}

/* Whether it changes nothing but the tokens of the batch. */
static bool is_regular(const Step *step) {
  for (size_t i = 0; i < step->n_items; i++)
    if (step->items[i].kind != STEP_JOINS) return false;
  return true;
}

/* Whether the steps after it are of the same batch alone, as far as is known. */
static bool repeats(const Scheduler *scheduler, int lag) {
  const Step *step = scheduler->current, *next = scheduler->next;
  const bool same = !scheduler->waits && is_regular(step) && step->version == scheduler->version &&
                    !step->preempted;
  return same && (lag == 0 || (scheduler->has_next && next->n_items == 0 && next->free_at == 0 &&
                               next->version == scheduler->version && !next->preempted));
}

/* Whether it is of the batch alone. */
static bool is_plain(const Step *step) {
  return step->shape.prefill_tokens == 0 && step->shape.decode_seqs == step->n_regular;
}

/* Decodes by themselves whose requests were retracted before the step began. */
static int64_t lost_decodes(const Step *step) {
  int64_t n = 0;
  for (size_t i = 0; i < step->n_items; i++)
    n += step->items[i].lost && step->items[i].kind == STEP_DECODE;
  return n;
}

/* What the drafter takes behind it, of a step that makes tokens. */
static Tick drafter_ticks(const Instance *instance, const Step *step) {
  const Speculation *speculation = &instance->scheduler->limits.speculation;
  if (step->shape.logit_seqs == 0 || speculation->num_speculative_tokens == 0) return 0;
  const DrafterPasses passes = speculation->passes;
  if (passes.all + passes.one == 0) return speculation->drafter_time;
  const int64_t ranks = pool_ranks(instance->pool), n_layers = instance->pool->num_hidden_layers;
  BatchShape all = step->shape; // all ranks have as much
  all.decode_seqs *= ranks;
  all.context_tokens *= ranks;
  all.logit_seqs *= ranks;
  return perfmodel_drafter(instance->perfmodel, &all, ranks * step->n_drafts, passes, n_layers);
}

Tick scheduler_beside_ticks(const Instance *instance, const Step *step) {
  return drafter_ticks(instance, step) + step->n_encoded * instance->scheduler->limits.encoder_time;
}

static void begin_parts(Simulation *self, const Instance *instance, const Step *step) {
  for (size_t i = 0; i < step->n_items; i++)
    if (step->items[i].request != REQUEST_NONE && step->items[i].kind == STEP_DECODE &&
        !step->items[i].lost)
      parts_joined(self, instance, step->items[i].request);
}

Tick scheduler_begin_step(Simulation *self, Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  const Step *step = scheduler->current;
  if (self->keeps_parts) begin_parts(self, instance, step);
  instance->padding.decode_seqs = step->n_thrown[0] + step->n_thrown[1] + lost_decodes(step);
  instance->padding.prefill_tokens = step->n_padding;
  instance->run.drafts = step->n_drafts;
  instance->run.beside = scheduler_beside_ticks(instance, step);
  const Tick waits = scheduler->hicache ? hicache_wait(self, instance, step) : 0;
  instance->run.beside += waits;
  if (step->shape.prefill_tokens > 0) {
    instance->busiest = step->busiest;
    return sim_begin_prefills(self, instance, &step->shape);
  }
  const bool alone = scheduler->rank || waits > 0;
  const bool same = !self->step && !alone && repeats(scheduler, instance->lag);
  const bool goes_on =
      !alone && !instance->kv_groups && is_plain(step) && step->version == scheduler->plain_version;
  sim_begin_steps(self, instance, &step->shape,
                  same ? scheduler->limits.rules->watch(self, instance) : 1, goes_on);
  instance->run.counted = step->n_counted;
  return series_sum(instance->run.series, 1);
}

static void begin(Simulation *self, Instance *instance) {
  Scheduler *scheduler = instance->scheduler;
  const bool any = scheduler->has_next || scheduler->n_pauses > 0 || instance->running.count > 0 ||
                   instance->prefill_queue.count + instance->decode_queue.count > 0;
  const bool sleeps = scheduler->connector && scheduler->connector->sleeps;
  const bool begins = instance_works(instance) && any && !sleeps && take_step(self, instance);
  sim_book_idleness(self, instance, !begins);
  if (!begins && scheduler->limits.rules->idles) scheduler->limits.rules->idles(self, instance);
  if (!begins && scheduler->connector && instance_works(instance)) connector_idles(self, instance);
  if (!begins) return;
  tell_step_begins(self, instance, scheduler->current);
  if (instance->lag > 0) decide_next(self, instance);
  scheduler_tell_of_beginnings(self, instance, scheduler->current);
  const Tick first = scheduler_begin_step(self, instance);
  sim_tell_step(self, instance, scheduler->current, self->now + first);
  if (instance->lag > 0 && !scheduler->has_next)
    sim_tell_step(self, instance, scheduler->next, self->now);
}

/* --- ending */

/* A run of more than one step: the `n`-th of them is the present one, and the batch knows of all
 * that are decided. */
static void end_run(Simulation *self, Instance *instance, int64_t n) {
  Scheduler *scheduler = instance->scheduler;
  const DecodeRun *run = &instance->run;
  sim_book_iterations(self, instance, n + instance->lag);
  scheduler->n_steps += n - 1;
  Step *newest = instance->lag > 0 ? scheduler->next : scheduler->current;
  newest->shape.context_tokens = run->context + run->seqs * (n - 1 + instance->lag);
  newest->n_seconds[0] = newest->n_seconds[1] = 0;
  scheduler_end_sequences(self, instance, newest);
  if (scheduler->limits.rules->repeated) scheduler->limits.rules->repeated(self, instance, n - 1);
}

static void sort_items(Step *step) {
  for (size_t i = 1; i < step->n_items; i++) {
    const ScheduledItem item = step->items[i];
    size_t j = i;
    for (; j > 0 && step->items[j - 1].admission > item.admission; j--)
      step->items[j] = step->items[j - 1];
    step->items[j] = item;
  }
}

/* Its last token is made; `kv_tokens` as in ScheduledItem. It may have been left out of the step
 * after that. */
static void finish(Simulation *self, Instance *instance, RequestIx ix, int32_t kv_tokens) {
  instance->scheduler->untold = true;
  const SchedulerRules *rules = instance->scheduler->limits.rules;
  const Request *request = &self->requests.slots[ix];
  if (request->state != REQUEST_WAITS_PREFILL && request->scheduled == SCHEDULED_ALONE)
    scheduler_forget_alone(instance->scheduler, ix);
  if (rules->finishes)
    rules->finishes(self, instance, ix,
                    (int64_t)request->prompt_tokens + request->output_tokens - 1 + kv_tokens);
  life_finished(self, instance, ix);
}

static void end_prefill(Simulation *self, Instance *instance, const ScheduledItem *item) {
  const SchedulerRules *rules = instance->scheduler->limits.rules;
  if (item->kind == STEP_CHUNK && rules->prefilled)
    rules->prefilled(self, instance, item->request, item->done);
}

/* The last token that it makes here is made: it is finished, its KV leaves, or it turns out that it
 * is decoded here. */
static void end_here(Simulation *self, Instance *instance, const ScheduledItem *item) {
  const RequestIx ix = item->request;
  Request *request = &self->requests.slots[ix];
  const bool finishes = request->generated_tokens + 1 == request->output_tokens;
  if (!finishes) end_prefill(self, instance, item);
  if (!finishes && request->decode_instance == instance->ix) {
    life_generates(self, instance, ix);
    scheduler_schedule_alone(self, instance, ix);
    return;
  }
  life_prefilled(self, instance, ix);
  if (finishes) {
    if (instance->scheduler->connector) connector_leaves(self, instance, ix, true);
    finish(self, instance, ix, item->kv_tokens);
    return;
  }
  instance->scheduler->untold = true;
  request->decided_step = 0;
  sim_begin_transfer(self, ix);
}

/* It has left the batch with a token of the step. */
static void end_leaving(Simulation *self, Instance *instance, const ScheduledItem *item) {
  Request *request = &self->requests.slots[item->request];
  request->generated_tokens = item->done;
  request->last_token_at = self->now;
  request->computing_ticks += instance->decoded_ticks;
  if (self->keeps_parts) parts_left(self, instance, item->request, item->done);
  if (request->state == REQUEST_GENERATES)
    sim_register_blocks(self, instance, item->request, request_kv_tokens(request));
  if (item->done == request->output_tokens) finish(self, instance, item->request, item->kv_tokens);
}

static void end_parts(Simulation *self, const Instance *instance, const ScheduledItem *item,
                      bool runs) {
  const RequestIx ix = item->request;
  if (item->kind == STEP_DECODE) {
    parts_left(self, instance, ix, self->requests.slots[ix].generated_tokens + 1);
    return;
  }
  const int32_t tokens = item->tokens - item->drafts;
  parts_chunk_ended(self, instance, ix, tokens, item->done - tokens, item->last);
  if (!runs && (!item->last || item->lost)) parts_lost(self, ix);
}

/* The drafts of it that the step accepts, and those that its drafter has for the next one. */
static int32_t verify(const Simulation *self, const Instance *instance, const ScheduledItem *item,
                      int32_t *ret_proposed) {
  const Request *request = &self->requests.slots[item->request];
  const Speculation *speculation = &instance->scheduler->limits.speculation;
  const int32_t drafts = item->kind == STEP_DECODE ? item->drafts : 0;
  *ret_proposed = speculation->num_speculative_tokens;
  if (self->config->on_drafts)
    return self->config->on_drafts(self->config->on_drafts_context, request->id, item->drafts,
                                   ret_proposed);
  if (drafts == 0) return 0;
  return speculation_accepted(instance->scheduler->rates[request->component], self->config->seed,
                              request->id, request->generated_tokens, drafts);
}

/* It has ended, which the steps that are decided did not know. */
static void forget_next(Simulation *self, Scheduler *scheduler, RequestIx ix) {
  for (size_t i = 0; i < scheduler->n_places; i++)
    if (&scheduler->steps[i] != scheduler->ending && scheduler_scrub(&scheduler->steps[i], ix) > 0)
      scheduler->steps[i].n_thrown[sim_counts(self, &self->requests.slots[ix])]++;
}

/* Its tokens of the step, of one that is never in the batch: the drafts that were accepted, and one
 * more. */
static void end_drafts(Simulation *self, Instance *instance, const ScheduledItem *item, bool runs) {
  Request *request = &self->requests.slots[item->request];
  int32_t proposed, n = 1 + verify(self, instance, item, &proposed);
  if (n > request->output_tokens - request->generated_tokens)
    n = request->output_tokens - request->generated_tokens;
  if (item->kind == STEP_DECODE) instance->totals.draft_tokens += item->drafts;
  instance->totals.accepted_tokens += n - 1;
  instance->totals.decode_tokens += n - 1;
  for (int32_t i = 0; i < n; i++)
    life_generates(self, instance, item->request);
  if (runs) sim_register_blocks(self, instance, item->request, request_kv_tokens(request));
  if (request->generated_tokens == request->output_tokens) {
    if (!runs && n > 1) life_ends_preempted(self, item->request);
    if (instance->scheduler->connector) connector_leaves(self, instance, item->request, true);
    forget_next(self, instance->scheduler, item->request);
    finish(self, instance, item->request, 0);
    return;
  }
  if (!runs) return;
  if (instance->lag > 0)
    request->ahead -= (int16_t)(1 + item->drafts);
  else
    request->drafts = (int16_t)proposed;
  life_decode_began(self, instance, request);
  if (self->keeps_parts && instance->scheduler->flights)
    parts_wait(self, item->request, CAUSE_decode_batch);
}

/* A chunk of it, or a decode by itself, is over. It may have been preempted meanwhile. */
static void end_item(Simulation *self, Instance *instance, const ScheduledItem *item) {
  Request *request = &self->requests.slots[item->request];
  const bool runs = request->state != REQUEST_WAITS_PREFILL;
  if (item->lost && item->kind == STEP_DECODE) return;
  const Tick ticks = self->now - instance->run.began_at;
  request->computing_ticks += ticks;
  if (request->computing_ticks == 0) request->computing_ticks = 1; // over before it was the oldest
  if (self->keeps_parts) end_parts(self, instance, item, runs);
  if (item->kind == STEP_CHUNK) sim_dispatch(self, item->request);
  if (item->kind == STEP_CHUNK)
    encoding_leave(self, instance, item->request, request->prefilled_tokens);
  if (item->encoded > 0) sim_books(self, request)->encoder_tokens += item->encoded;
  if (!item->last || item->lost) return;
  if (runs && item->ends && item->kind == STEP_CHUNK) {
    end_here(self, instance, item);
    return;
  }
  if (instance->scheduler->by_items) {
    end_drafts(self, instance, item, runs);
    return;
  }
  life_generates(self, instance, item->request);
  if (request->generated_tokens == request->output_tokens) {
    finish(self, instance, item->request, item->kv_tokens);
    return;
  }
  if (!runs) return;
  end_prefill(self, instance, item);
  if (request->scheduled != SCHEDULED_ALONE) {
    request->computing_ticks -= instance->decoded_ticks;
    if (self->keeps_parts) parts_joined(self, instance, item->request);
  }
  if (!instance->scheduler->limits.rules->alternates) life_decode_began(self, instance, request);
}

/* The chunk of one that has given up is over, too. */
static void end_lost_chunk(Simulation *self, const Instance *instance, RequestIx ix) {
  const Step *step = instance->scheduler->current;
  for (size_t i = 0; i < step->n_items; i++)
    if (step->items[i].request == ix && step->items[i].kind == STEP_CHUNK)
      end_parts(self, instance, &step->items[i], true);
}

/* Their tokens of the step are for nobody. */
static void end_given_up(Simulation *self, Instance *instance) {
  Scheduler *scheduler = instance->scheduler;
  for (size_t i = 0; i < scheduler->n_leaving; i++) {
    const RequestIx ix = scheduler->leaving[i];
    if (self->keeps_parts && instance_works(instance)) end_lost_chunk(self, instance, ix);
    sim_abandon_transfer(self, ix, false);
    life_left_early(self, ix, 0);
  }
  scheduler->n_leaving = 0;
}

bool scheduler_end_step(Simulation *self, Instance *instance) {
  Scheduler *scheduler = instance->scheduler;
  Step *step = scheduler->current;
  scheduler->plain_version = is_plain(step) && instance->run.beside == 0 ? step->version : 0;
  if (step->n_regular > 0) {
    instance->decoded_at = self->now;
    scheduler->ending_ticks = self->now - sim_newest_began_at(instance);
    instance->decoded_ticks += self->now - instance->run.began_at;
  }
  sort_items(step);
  const bool changes = !is_regular(step) || scheduler->n_leaving > 0 || instance->kv_groups;
  scheduler->ending = step;
  step->n_forfeits = 0; // it is computed
  end_given_up(self, instance);
  if (scheduler->connector) connector_hears(self, instance, step);
  scheduler->current = NULL;
  for (size_t i = 0; i < step->n_items; i++) {
    if (step->items[i].request == REQUEST_NONE || step->items[i].kind == STEP_JOINS) continue;
    if (step->items[i].kind == STEP_LEAVES)
      end_leaving(self, instance, &step->items[i]);
    else
      end_item(self, instance, &step->items[i]);
  }
  step->n_items = 0;
  scheduler->ending = NULL;
  scheduler->ending_ticks = 0;
  if (scheduler->connector) connector_ended(self, instance, step->number);
  return changes;
}

static bool end(Simulation *self, Instance *instance, bool prefills) {
  if (!prefills && instance->run.done > 1) end_run(self, instance, instance->run.done);
  return scheduler_end_step(self, instance);
}

/* The step stays the present one until its requests leave, of which it makes nothing
 * (scheduler_withdraw). */
void scheduler_break_off(Simulation *self, Instance *instance) {
  const DecodeRun *run = &instance->run;
  if (run->done > 0) end_run(self, instance, run->done + 1);
  if (instance->scheduler->current->n_regular > 0) {
    if (run->done > 0) instance->decoded_at = run->part_began_at;
    instance->scheduler->ending_ticks =
        self->now - (run->done > 0 ? run->part_began_at : run->began_at);
    instance->decoded_ticks += self->now - run->began_at;
  }
  for (size_t i = 0; i < instance->scheduler->n_places; i++)
    step_take_back_forfeits(&instance->scheduler->steps[i]);
  end_given_up(self, instance);
}

/* --- who leaves early */

static void leave(Simulation *self, Instance *instance, RequestIx ix) {
  if (instance->activity == ACTIVITY_IDLE) {
    sim_abandon_transfer(self, ix, false);
    life_left_early(self, ix, 0);
    return;
  }
  Scheduler *scheduler = instance->scheduler;
  ARENA_RESERVE(self->arena, scheduler->leaving, scheduler->leaving_capacity,
                scheduler->n_leaving + 1);
  scheduler->leaving[scheduler->n_leaving++] = ix;
  sim_mark(self, instance, MARK_BEGIN);
}

static int64_t count_leaving(const Instance *instance) {
  return (int64_t)instance->scheduler->n_leaving;
}

/* --- what is recorded */

static int64_t count_prompts(const Instance *instance) {
  const Step *step = instance->scheduler->current;
  int64_t n = 0;
  for (size_t i = 0; i < step->n_items; i++)
    n += step->items[i].kind == STEP_CHUNK;
  return n;
}

static int64_t count_running(const Instance *instance) {
  return instance->running.count;
}

/* One that has joined the batch has its last token from before that. */
static void book_joined(Simulation *self, const Request *request, Tick end_at) {
  Metrics *metrics = sim_books(self, request);
  const Tick ticks = end_at - request->last_token_at;
  histogram_add(&metrics->tbt, ticks, 1);
  if (request_has_one_token(request)) histogram_add(&metrics->second_token, ticks, 1);
}

/* The token that each of the batch has made in the present step of a scheduler, or in the first of
 * a run, which took `ticks`. Where it goes on with what was before, as parts of a run book it. */
static void book_gaps(Simulation *self, const Instance *instance, Tick end_at) {
  const Scheduler *scheduler = instance->scheduler;
  const Step *step = scheduler->current;
  const Series series = instance->run.series;
  const Tick since = scheduler->limits.rules->alternates ? instance->decoded_at
                     : scheduler->rank                   ? scheduler->rank->ended_at
                                                         : instance->run.began_at;
  const Tick ticks = end_at - since;
  const bool goes_on = instance->run.goes_on;
  for (int counted = 0; counted < 2; counted++) {
    Metrics *metrics = counted ? &self->metrics : &self->warm_up_metrics;
    const int64_t n = (counted ? step->n_counted : step->n_regular - step->n_counted) -
                      step->n_thrown[counted] - step->n_joins[counted];
    if (goes_on && n > 0)
      histogram_add_series(&metrics->tbt, series_fine(series, 0), series_step(series), 1,
                           (uint64_t)n);
    else if (n > 0)
      histogram_add(&metrics->tbt, ticks, (uint64_t)n);
    if (step->n_seconds[counted] > 0)
      histogram_add(&metrics->second_token, ticks, (uint64_t)step->n_seconds[counted]);
  }
  for (size_t i = 0; i < step->n_items; i++)
    if (step->items[i].kind == STEP_JOINS && step->items[i].request != REQUEST_NONE)
      book_joined(self, &self->requests.slots[step->items[i].request], end_at);
}

static size_t list(Simulation *self, const Instance *instance, const BatchShape *shape,
                   int64_t done) {
  (void)shape, (void)done;
  const Step *step = instance->scheduler->current;
  const size_t n_prefills = step_sequences(step, true, NULL);
  self->n_sequences = n_prefills + step_sequences(step, false, NULL);
  ARENA_RESERVE(self->arena, self->sequences, self->sequences_capacity, self->n_sequences);
  step_sequences(step, true, self->sequences);
  step_sequences(step, false, self->sequences + n_prefills);
  return n_prefills;
}

static int32_t withdraw(Simulation *self, Instance *instance, RequestIx ix) {
  if (instance->lockstep) lockstep_drop(instance, ix);
  if (instance->scheduler->connector) connector_leaves(self, instance, ix, false);
  encoding_leave(self, instance, ix, INT64_MAX);
  scheduler_recall_prefill(self, instance, ix);
  scheduler_count_ahead(self, instance, ix);
  return instance->scheduler->limits.rules->withdraw(self, instance, ix);
}

static void withdrawn(Simulation *self, Instance *instance, int64_t *booked) {
  Scheduler *scheduler = instance->scheduler;
  for (size_t i = 0; i < scheduler->n_places; i++) {
    Step *step = &scheduler->steps[i];
    if (step->n_ahead == 0) continue;
    step_forfeits(self, step, booked, step->n_ahead);
    step->n_ahead = 0;
  }
}

void scheduler_lose_memory(Simulation *self, Instance *instance) {
  if (instance->scheduler->connector) connector_forget(self, instance);
  if (instance->scheduler->hicache) hicache_forget(self, instance);
  instance->scheduler->limits.rules->forget(instance);
}

/* What all have. */
#define DECIDED_STEPS                                                                              \
  .decides_ahead = true, .break_off = scheduler_break_off, .leave = leave, .withdraw = withdraw,   \
  .withdrawn = withdrawn, .count_leaving = count_leaving, .count_prompts = count_prompts,          \
  .count_running = count_running, .book_gaps = book_gaps, .list = list

const Loop loop_of_steps = {DECIDED_STEPS, .start = start, .begin = begin, .end = end,
                            .forget = scheduler_lose_memory};

const Loop loop_of_flights = {DECIDED_STEPS,
                              .start = flights_start,
                              .begin = flights_begin,
                              .goes_on = flights_go_on,
                              .end = flights_end,
                              .forget = flights_forget,
                              .ticks = flights_ticks,
                              .catch_up = flights_catch_up_plan,
                              .growth = flights_growth,
                              .cut = flights_cut};

#define STEPS_OF_RANKS                                                                             \
  DECIDED_STEPS, .start = lockstep_start, .fail = lockstep_fail, .end = lockstep_end,              \
                 .forget = lockstep_forget, .ticks = lockstep_ticks

const Loop loop_of_ranks = {STEPS_OF_RANKS, .hear = lockstep_hear, .begin = lockstep_begin,
                            .goes_on = lockstep_go_on};
const Loop loop_of_rank_rounds = {STEPS_OF_RANKS, .begin = rank_rounds_begin,
                                  .goes_on = rank_rounds_go_on};
