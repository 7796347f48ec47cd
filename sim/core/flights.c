/* See flights.h. */
#include "sim/core/flights.h"
#include "sim/core/decode_run.h"
#include "sim/core/flight_plan.h"
#include "sim/core/lifecycle.h"
#include "sim/core/loop.h"
#include "sim/core/marks.h"
#include "sim/core/prefill_run.h"
#include "sim/core/scheduling.h"
#include "sim/core/step_listing.h"

void flights_start(Simulation *self, Instance *instance) {
  const int64_t n = instance->pipeline->n_stages;
  const size_t most = (size_t)n + (instance->batcher->schedules(instance->batcher_options).lag > 0);
  scheduler_start(self, instance, most);
  Scheduler *scheduler = instance->scheduler;
  for (size_t i = 0; i < most; i++)
    scheduler->steps[i].stages = ARENA_ARRAY(self->arena, Tick, 2 * n);
  scheduler->by_items = true; // when a request may be in another step is known as its own ends
  scheduler->flights = ARENA_NEW(self->arena, Flights);
  *scheduler->flights = (Flights){.most = most,
                                  .n_stages = n,
                                  .sampled_at = ARENA_ARRAY(self->arena, Tick, n),
                                  .polled_at = -1};
  flight_plan_init(&scheduler->flights->plan, n, most, self->arena);
}

/* The oldest with tokens; NULL: none has. */
static Step *oldest(const Scheduler *self) {
  for (size_t i = 0; i < self->flights->n; i++)
    if (!step_is_empty(flights_step(self, i))) return flights_step(self, i);
  return NULL;
}

/* Whether the engine has anything to decide: requests that ended are to be told of, too. */
static bool is_anybody_here(const Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  return instance->running.count + instance->prefill_queue.count + instance->decode_queue.count >
             0 ||
         scheduler->untold || scheduler->n_pauses > 0;
}

Tick flights_ticks(const Simulation *self, const Instance *instance,
                   Extrapolation *ret_extrapolation) {
  const Step *step = instance->scheduler->current;
  *ret_extrapolation = step->extrapolation;
  return step->end > self->now ? step->end - self->now : 0;
}

void flights_take_out(const Scheduler *self, RequestIx ix, Request *request) {
  request->decided_step = 0;
  for (size_t i = self->flights->n; i-- > 0;) {
    const Step *step = flights_step(self, i);
    for (size_t k = 0; k < step->n_items; k++)
      if (step->items[k].request == ix && request->decided_step == 0)
        request->decided_step = step->number;
  }
}

/* --- rounds */

/* Sends a step into the stages. */
static void take_off(Simulation *self, Instance *instance, Step *step) {
  Scheduler *scheduler = instance->scheduler;
  Step *present = scheduler->current;
  scheduler->current = step;
  instance->busiest = step->busiest;
  step->extrapolation = EXTRAPOLATION_NONE;
  const Tick ticks =
      sim_pass_pipeline(self, instance, &step->shape, step->stages, &step->extrapolation);
  self->failed |= ticks < 0;
  step->end = self->now + (ticks < 0 ? 1 : ticks);
  scheduler->current = present;
  scheduler_tell_of_beginnings(self, instance, step);
}

/* Decides a step; whether it has tokens. */
static bool decide(Simulation *self, Instance *instance) {
  Scheduler *scheduler = instance->scheduler;
  Flights *flights = scheduler->flights;
  Step *step = scheduler->next = flights_step(scheduler, flights->n);
  scheduler->limits.rules->decide(self, instance, step);
  scheduler->untold = false;
  step->n_in_flight = (int64_t)++flights->n;
  Tick *sampled_at = &flights->sampled_at[step->number % (uint32_t)flights->n_stages];
  pipeline_await(instance->pipeline, *sampled_at);
  *sampled_at = 0;
  if (step_is_empty(step)) return false;
  flights->n_vain = 0;
  take_off(self, instance, step);
  if (step->shape.logit_seqs > 0) *sampled_at = step->end;
  return true;
}

/* The output of the oldest step is taken, or it has none. */
static void drop_oldest(Flights *flights, const Step *step, size_t n_places) {
  flights->landed = step->number;
  flights->first = (flights->first + 1) % n_places;
  flights->n--;
}

/* The oldest with tokens is what the instance computes. */
static void begin_oldest(Simulation *self, Instance *instance) {
  Scheduler *scheduler = instance->scheduler;
  if (scheduler->current) return;
  scheduler->current = oldest(scheduler);
  sim_book_idleness(self, instance, !scheduler->current);
  if (scheduler->current) scheduler_begin_step(self, instance);
}

/* In a regular round the event is the one that has come, which has only moved. */
static void set_event(Simulation *self, const Instance *instance, Tick at, bool regular) {
  if (regular)
    agenda_move(&self->agenda, EVENT_ITERATION, instance->ix, at, self->event.seq);
  else
    agenda_set(&self->agenda, EVENT_ITERATION, instance->ix, at);
}

/* After a round in vain. Where nothing is in flight and those that follow will find nothing either,
 * they are not gone through. */
static void sleep(Simulation *self, Instance *instance) {
  Flights *flights = instance->scheduler->flights;
  const bool idle = instance->activity == ACTIVITY_IDLE; // else a step for nobody ends first
  if (idle && scheduler_gives_way(self, instance)) flights->n_vain = 0;
  if (flights->n_vain++ > flights->most && !instance->scheduler->current) {
    flights->polled_at = self->now;
    return;
  }
  flights->sleeps = true;
  const Tick until = self->now + instance->scheduler->limits.idle_sleep;
  set_event(self, instance, until, flights->repeats > 0);
}

/* The oldest step ends at `at`, or later than that. Whether the present round was regular. */
static void await_oldest(Simulation *self, Instance *instance, Tick at, bool regular) {
  Flights *flights = instance->scheduler->flights;
  set_event(self, instance, at, regular);
  if (flights->repeats == 0) flights->repeats = flights_regular_rounds(self, instance);
  if (flights->repeats == 0) return;
  instance->marks &= (uint8_t)~MARK_REFIT; // of blocks that this round took and gave back
  if (self->step) return;
  const uint64_t seq = agenda_find(&self->agenda, EVENT_ITERATION, instance->ix)->seq;
  flights_plan(self, instance, flights->repeats, seq);
}

/* Goes on until the engine sleeps, or waits for the oldest step or for requests. */
static void go_on(Simulation *self, Instance *instance) {
  Scheduler *scheduler = instance->scheduler;
  Flights *flights = scheduler->flights;
  for (;;) {
    const bool asks = is_anybody_here(instance), regular = flights->repeats > 0;
    flights->repeats -= regular;
    flights->ran = asks && decide(self, instance);
    begin_oldest(self, instance);
    const bool wants_more = flights->ran || (asks && is_anybody_here(instance));
    if (flights->n < flights->most && wants_more) {
      if (flights->ran) continue;
      sleep(self, instance);
      return;
    }
    if (flights->n == 0) return;
    const Step *step = flights_step(scheduler, 0);
    if (!step_is_empty(step)) {
      await_oldest(self, instance, step->end > self->now ? step->end : self->now, regular);
      return;
    }
    sim_tell_step(self, instance, step, self->now);
    drop_oldest(flights, step, scheduler->n_places);
    if (flights->ran || !is_anybody_here(instance)) continue;
    sleep(self, instance);
    return;
  }
}

/* Rounds in vain that were not gone through have been, until now. */
static void poll(Simulation *self, Instance *instance) {
  Scheduler *scheduler = instance->scheduler;
  Flights *flights = scheduler->flights;
  if (!is_anybody_here(instance)) return;
  const Tick since = self->now - flights->polled_at, each = scheduler->limits.idle_sleep;
  const int64_t n = since > 0 && each > 0 ? (since + each - 1) / each : 1;
  for (int64_t i = 1; i < n && i <= flights->n_stages; i++)
    flights->sampled_at[(scheduler->number + (uint32_t)i) % (uint32_t)flights->n_stages] = 0;
  scheduler->number += (uint32_t)n - 1;
  flights->sleeps = true;
  const Tick at = each > 0 ? flights->polled_at + n * each : self->now;
  agenda_set(&self->agenda, EVENT_ITERATION, instance->ix, at);
  flights->polled_at = -1;
  flights->n_vain = 0;
}

/* --- the loop */

void flights_begin(Simulation *self, Instance *instance) {
  Flights *flights = instance->scheduler->flights;
  begin_oldest(self, instance);
  if (flights->sleeps || !instance_works(instance)) return;
  const bool tired = flights->tired;
  flights->tired = false;
  if (tired)
    sleep(self, instance);
  else if (flights->polled_at >= 0)
    poll(self, instance);
  else
    go_on(self, instance);
}

/* What it computes lasts at least until now. */
static void stretch(const Simulation *self, Instance *instance) {
  const Step *current = instance->scheduler->current;
  if (!current || instance->activity == ACTIVITY_IDLE || current->end >= self->now) return;
  if (instance->activity == ACTIVITY_PREFILL)
    sim_stretch_prefills(instance, self->now);
  else
    sim_stretch_run(self, instance);
}

void flights_catch_up(Simulation *self, Instance *instance) {
  if (!instance->scheduler || !instance->scheduler->flights) return;
  flights_cut(self, instance);
  stretch(self, instance);
}

/* The event after a plan has come: whether others are planned after that, the first of which is the
 * present round. */
static bool plans_on(Simulation *self, Instance *instance) {
  Flights *flights = instance->scheduler->flights;
  if (flights_plan_on(self, instance, self->event.seq)) return true;
  if (!flights_end_plan(self, instance)) return false;
  if (flights->repeats == 0) flights->repeats = flights_regular_rounds(self, instance);
  return flights->repeats > 0 && flights_plan(self, instance, flights->repeats, self->event.seq);
}

bool flights_go_on(Simulation *self, Instance *instance) {
  Flights *flights = instance->scheduler->flights;
  if (plans_on(self, instance)) return true;
  if (!flights->sleeps && instance->activity != ACTIVITY_IDLE) {
    stretch(self, instance);
    return false;
  }
  flights->sleeps = false;
  if (instance_works(instance)) go_on(self, instance);
  return true;
}

bool flights_end(Simulation *self, Instance *instance, bool prefills) {
  (void)prefills;
  Scheduler *scheduler = instance->scheduler;
  Flights *flights = scheduler->flights;
  const Step *step = scheduler->current;
  sim_tell_step(self, instance, step, step->end);
  const bool changes = scheduler_end_step(self, instance);
  drop_oldest(flights, step, scheduler->n_places);
  flights->tired = !flights->ran && is_anybody_here(instance);
  return changes;
}

void flights_forget(Simulation *self, Instance *instance) {
  Flights *flights = instance->scheduler->flights;
  scheduler_lose_memory(self, instance);
  for (int64_t i = 0; i < flights->n_stages; i++)
    flights->sampled_at[i] = 0;
  flights->first = flights->n = flights->n_vain = 0;
  flights->landed = instance->scheduler->number;
  flights->ran = flights->sleeps = flights->tired = false;
  instance->scheduler->untold = false;
  flights->polled_at = -1;
  flights->repeats = 0;
  flights->plan.n = 0;
}
