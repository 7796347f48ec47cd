/* Which rounds of a pipeline with one scheduler are regular. See flight_plan.h. */
#include "sim/core/flight_plan.h"
#include "sim/core/memory.h"

/* Where blocks may not suffice for longer, rounds are looked at one by one, so many of them. */
enum { TIGHT_ROUNDS = 64 };

/* Whether a decision may have anything but decodes, or something else than the end of steps comes
 * of one. */
static bool is_disturbed(const Simulation *self, const Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  const SchedulerLimits *limits = &scheduler->limits;
  const int64_t n_waiting = instance->prefill_queue.count + instance->decode_queue.count;
  const bool full = instance->running.count >= limits->max_num_seqs &&
                    limits->prefill_interval <= 1 && !limits->proposal.proposal;
  return (n_waiting > 0 && !full) || instance->inbound.count > 0 || scheduler->n_pauses > 0 ||
         scheduler->pause != PAUSE_NONE || scheduler->n_leaving > 0 || scheduler->untold ||
         instance->availability != INSTANCE_UP || instance->counted_from > self->now;
}

/* Whether steps of this instance are planned at all. */
static bool can_be_planned(const Simulation *self, const Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  return !self->config->executor && !self->config->on_step && !self->watched &&
         !self->pool_policy->review_role && !instance->group && !instance->kv_groups &&
         !instance->radix && !instance->moves_kv && !instance->adapters &&
         instance->pool->attention_ranks <= 1 && !scheduler->connector &&
         scheduler->limits.speculation.num_speculative_tokens == 0;
}

/* Its requests that are still there. */
static int64_t count_live(const Step *self) {
  int64_t n = 0;
  for (size_t i = 0; i < self->n_items; i++)
    n += self->items[i].request != REQUEST_NONE;
  return n;
}

/* Whether each of its requests goes on with a decode S steps later, unless that was its last. */
static bool is_to_be_followed(const Step *self, int64_t live) {
  for (size_t i = 0; i < self->n_items; i++)
    if (!self->items[i].last || self->items[i].lost) return false;
  return self->n_forfeits == 0 &&
         (live == (int64_t)self->n_items || step_decodes_alone(self, live));
}

/* Whether two have the same requests. */
static bool are_alike(const Step *a, const Step *b) {
  size_t i = 0, k = 0;
  for (;; i++, k++) {
    while (i < a->n_items && a->items[i].request == REQUEST_NONE)
      i++;
    while (k < b->n_items && b->items[k].request == REQUEST_NONE)
      k++;
    if (i == a->n_items || k == b->n_items) return i == a->n_items && k == b->n_items;
    if (a->items[i].request != b->items[k].request) return false;
  }
}

/* Regular rounds until a request of which step `next` is the next to end makes its last token, or
 * is left out, or the decision of that knows that it is the last. */
static int64_t rounds_of(const Instance *instance, const Request *request, size_t next) {
  const int64_t n_stages = instance->scheduler->flights->n_stages;
  const int64_t left = request->output_tokens - request->generated_tokens;
  const int64_t ends = (int64_t)next + (left - 1) * n_stages;
  if (instance->lag == 0) return ends - n_stages;
  return request_stops(request) ? ends : ends - 1;
}

/* Of the requests of a step, as rounds_of has it; 0: it is not as those that will follow. */
static int64_t rounds_of_step(const Simulation *self, const Instance *instance, const Step *step,
                              size_t next) {
  const Request *slots = self->requests.slots;
  int64_t rounds = INT64_MAX;
  Tick last_token_at = -1;
  for (size_t i = 0; i < step->n_items; i++) {
    const ScheduledItem *item = &step->items[i];
    if (item->request == REQUEST_NONE) continue;
    if (item->kind != STEP_DECODE || item->ends) return 0;
    const Request *request = &slots[item->request];
    if (last_token_at < 0) last_token_at = request->last_token_at;
    if (request->state != REQUEST_GENERATES || request->last_token_at != last_token_at ||
        request->decode_began_at < 0 || request_awaits_first(request) || request->drafts > 0)
      return 0;
    const int64_t most = rounds_of(instance, request, next);
    if (most < rounds) rounds = most;
  }
  return rounds > 0 ? rounds : 0;
}

/* Blocks that the `n`-th round from now takes. */
static int64_t blocks_of_round(const Simulation *self, const Instance *instance, size_t n) {
  const Flights *flights = instance->scheduler->flights;
  const size_t n_stages = flights_stages(instance), i = flights->most + n;
  const size_t newest = flights->most - n_stages + (i - (flights->most - n_stages)) % n_stages;
  const Step *step = flights_step(instance->scheduler, newest);
  const int64_t more = (int64_t)((i - newest) / n_stages);
  int64_t blocks = 0;
  for (size_t k = 0; k < step->n_items; k++) {
    if (step->items[k].request == REQUEST_NONE) continue;
    const Request *request = &self->requests.slots[step->items[k].request];
    const int64_t tokens = flights_decided_tokens(instance, request) + more;
    blocks += blocks_of(instance, tokens) - blocks_of(instance, tokens - 1);
  }
  return blocks;
}

/* Of so many rounds, those for which there are blocks. */
static int64_t fitting_rounds(const Simulation *self, const Instance *instance, int64_t rounds) {
  const int64_t each = rounds / instance->scheduler->flights->n_stages + 1;
  const int64_t blocks = batch_whole_blocks(&instance->batch, each) + 1;
  int64_t n = 0, free = instance->free_blocks;
  if (blocks <= free / instance->running.count) return rounds;
  for (; n < rounds && n < TIGHT_ROUNDS; n++) {
    free -= blocks_of_round(self, instance, (size_t)n);
    if (free < 0) break;
  }
  return n;
}

int64_t flights_regular_rounds(const Simulation *self, const Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  const Flights *flights = scheduler->flights;
  if (flights->n < flights->most || is_disturbed(self, instance) || !can_be_planned(self, instance))
    return 0;
  const size_t n_stages = flights_stages(instance);
  int64_t rounds = INT64_MAX, n_newest = 0, n_groups = 0, newest = -1; // that has tokens
  for (size_t i = 0; i < flights->most; i++) {
    const Step *step = flights_step(scheduler, i);
    const int64_t live = count_live(step);
    const bool decodes = step_decodes_alone(step, live);
    int64_t most = newest; // before what has prefill too is the oldest
    if (!is_to_be_followed(step, live)) return 0;
    if (decodes && i < n_stages)
      most = rounds_of_step(self, instance, step, i);
    else if (decodes)
      most = are_alike(flights_step(scheduler, 0), step) ? rounds : 0;
    if (most < rounds) rounds = most;
    if (rounds <= 0) return 0;
    if (!step_is_empty(step)) newest = (int64_t)i;
    if (i < flights->most - n_stages) continue;
    n_newest += live;
    n_groups += live > 0;
  }
  /* All that run are in the S newest steps, and so in none of the next but those; something else is
   * in flight as one of them ends. */
  if (n_newest != instance->running.count || n_newest != (int64_t)scheduler->n_alone ||
      n_groups <= (instance->lag == 0))
    return 0;
  return fitting_rounds(self, instance, rounds);
}
