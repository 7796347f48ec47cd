/* See attention_ranks.h. */
#include "sim/core/attention_ranks.h"
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

int64_t ranks_budget(const Instance *instance) {
  const SchedulerLimits *limits = &instance->scheduler->limits;
  const int64_t ranks = instance->pool->attention_ranks;
  if (ranks <= 1 || limits->whole_prompts) return INT64_MAX;
  return (limits->max_num_batched_tokens + ranks - 1) / ranks;
}

void ranks_spread_step(Ranks *self, const Instance *instance, Step *step, Arena *arena) {
  ranks_begin(self, instance->pool->attention_ranks, ranks_budget(instance), arena);
  for (size_t i = 0; i < step->n_items; i++) {
    const ScheduledItem *item = &step->items[i];
    if (item->kind != STEP_CHUNK) continue;
    const int64_t past = item->done - item->tokens;
    ranks_add(self, item->tokens, item->tokens * (2 * past + item->tokens));
  }
  step->busiest = ranks_busiest(self);
}
