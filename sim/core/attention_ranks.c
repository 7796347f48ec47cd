/* See attention_ranks.h. */
#include "sim/core/attention_ranks.h"
#include "sim/core/instance.h"
#include "sim/core/request.h"
#include "sim/core/scheduler.h"
#include <string.h>

void ranks_begin(Ranks *self, int64_t n, int64_t most, Arena *arena) {
  ARENA_RESERVE(arena, self->loads, self->capacity, (size_t)n);
  memset(self->loads, 0, (size_t)n * sizeof *self->loads);
  self->n = n;
  self->most = most;
}

static RankShare *least_busy(const Ranks *self) {
  RankShare *least = self->loads;
  for (int64_t i = 1; i < self->n; i++)
    if (self->loads[i].prefill_tokens < least->prefill_tokens) least = &self->loads[i];
  return least;
}

void ranks_add(Ranks *self, int64_t tokens, int64_t area2) {
  while (tokens > 0) {
    RankShare *rank = least_busy(self);
    const int64_t room = self->most - rank->prefill_tokens;
    const bool all = tokens <= room || room <= 0;
    const int64_t part = all ? tokens : room;
    const int64_t area = all ? area2 : (int64_t)((Wide)area2 * part / tokens);
    rank->prefill_tokens += part;
    rank->prefill_area2 += area;
    tokens -= part;
    area2 -= area;
  }
}

RankShare ranks_busiest(const Ranks *self) {
  RankShare most = {0};
  for (int64_t i = 0; i < self->n; i++) {
    const RankShare *load = &self->loads[i];
    if (load->prefill_tokens > most.prefill_tokens) most.prefill_tokens = load->prefill_tokens;
    if (load->prefill_area2 > most.prefill_area2) most.prefill_area2 = load->prefill_area2;
  }
  return most;
}

bool ranks_hold_requests(const Instance *instance) {
  return instance->scheduler->limits.whole_prompts && instance->pool->attention_ranks > 1;
}

int64_t ranks_tokens(const Instance *instance) {
  const int64_t tokens = instance->scheduler->limits.max_tokens;
  return ranks_hold_requests(instance) ? instance->pool->attention_ranks * tokens : tokens;
}

int64_t ranks_budget(const Instance *instance) {
  const int64_t ranks = instance->pool->attention_ranks;
  return ranks <= 1 ? INT64_MAX : (ranks_tokens(instance) + ranks - 1) / ranks;
}

/* Of one that has a rank. */
static int64_t rank_of(const Ranks *self, const Request *request) {
  return (request->rank - 1) % self->n; // it may have been on another instance before
}

static int64_t rank_with_fewest(const Ranks *self) {
  int64_t fewest = 0;
  for (int64_t i = 1; i < self->n && i < UINT8_MAX; i++)
    if (self->counts[i].all < self->counts[fewest].all) fewest = i;
  return fewest;
}

void ranks_place(Ranks *self, const Instance *instance, Request *slots, Arena *arena) {
  const int64_t n = instance->pool->attention_ranks;
  ranks_begin(self, n, ranks_budget(instance), arena);
  ARENA_RESERVE(arena, self->counts, self->counts_capacity, (size_t)n);
  memset(self->counts, 0, (size_t)n * sizeof *self->counts);
  for (RequestIx ix = instance->running.first; ix != REQUEST_NONE; ix = slots[ix].next) {
    if (slots[ix].rank == 0) continue; // its KV came from elsewhere
    RankCount *count = &self->counts[rank_of(self, &slots[ix])];
    count->all++;
    count->decodes += slots[ix].decode_instance == instance->ix;
  }
  const int64_t each = 1 + instance->scheduler->limits.speculation.num_speculative_tokens;
  for (int64_t i = 0; i < n; i++)
    self->loads[i].prefill_tokens = each * self->counts[i].decodes;
  for (RequestIx ix = instance->prefill_queue.first; ix != REQUEST_NONE; ix = slots[ix].next) {
    if (slots[ix].rank == 0) slots[ix].rank = (uint8_t)(1 + rank_with_fewest(self));
    RankCount *count = &self->counts[rank_of(self, &slots[ix])];
    count->all++;
    count->waiting++;
  }
}

int64_t ranks_clock(const Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  return scheduler->by_items ? scheduler->n_steps : instance->batch.iterations;
}

bool ranks_wait(const Ranks *self, const Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  const int64_t iters = scheduler->limits.rank_wait_iters;
  bool all_decode = true, all_wait = true;
  for (int64_t i = 0; i < self->n; i++) {
    all_decode &= self->counts[i].decodes > 0;
    all_wait &= self->counts[i].waiting > 0;
  }
  return iters > 0 && all_decode && !all_wait &&
         (ranks_clock(instance) - scheduler->let_in_at) % iters != 0;
}

int64_t ranks_room(const Ranks *self, const Request *request) {
  return self->most - self->loads[rank_of(self, request)].prefill_tokens;
}

void ranks_take(Ranks *self, const Request *request, int64_t tokens) {
  self->loads[rank_of(self, request)].prefill_tokens += tokens;
}

void ranks_spread_step(Ranks *self, const Instance *instance, const Request *slots, Step *step,
                       Arena *arena) {
  ranks_begin(self, instance->pool->attention_ranks, ranks_budget(instance), arena);
  const bool held = ranks_hold_requests(instance);
  for (size_t i = 0; i < step->n_items; i++) {
    const ScheduledItem *item = &step->items[i];
    if (item->kind != STEP_CHUNK) continue;
    const int64_t past = item->done - item->tokens;
    const int64_t area2 = item->tokens * (2 * past + item->tokens);
    if (!held) {
      ranks_add(self, item->tokens, area2);
      continue;
    }
    RankShare *load = &self->loads[rank_of(self, &slots[item->request])];
    load->prefill_tokens += item->tokens;
    load->prefill_area2 += area2;
  }
  step->busiest = ranks_busiest(self);
}
