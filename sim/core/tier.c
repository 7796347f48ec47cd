/* What a KV tier that moves KV does to an instance: its iterations take longer, and the blocks it
 * has change (kvtier.h).
 *
 * Growth adds free blocks at once. A shrink takes free blocks out of use, now and as they are given
 * back, until all that the tier wants to lose are withheld; then they go together, and a decode run
 * in progress ends with its iteration, so that the tier can plan anew. */
#include "sim/core/tier.h"
#include "sim/core/marks.h"
#include <assert.h>

void sim_start_tier(Simulation *self, Instance *instance) {
  const KvTier *tier = instance->kvtier;
  instance->kv_blocks = instance->least_blocks = instance->pool->kv_blocks;
  instance->moves_kv = kvtier_moves(tier);
  if (instance->moves_kv) {
    instance->kvtier_state = arena_alloc(self->arena, tier->instance_state_size);
    instance->kv_blocks = tier->start(instance->kvtier_options, instance->kvtier_state,
                                      instance->pool, &instance->least_blocks);
  }
  assert(0 < instance->least_blocks && instance->least_blocks <= instance->kv_blocks);
  instance->wanted_blocks = instance->free_blocks = instance->kv_blocks;
  instance->totals.max_kv_blocks = instance->kv_blocks;
}

/* --- time */

void sim_plan_tier(Simulation *self, Instance *instance, const BatchShape *shape) {
  DecodeRun *run = &instance->run;
  const TierLoad load = {
      .now = run->part_began_at,
      .kv_blocks = instance->kv_blocks,
      .done = run->done,
      .prefill_tokens = shape->prefill_tokens,
      .decode_seqs = shape->decode_seqs,
      .context_tokens = shape->context_tokens,
      .overhead = self->config->executor ? 0 : instance->perfmodel->overhead,
      .copies = instance->copies,
  };
  const TierSpan span = instance->kvtier->plan(instance->kvtier_options, instance->kvtier_state,
                                               &load, run->compute, run->part);
  assert(0 < span.count && span.count <= run->part);
  assert(span.series.first >= run->compute.first && span.series.step >= 0);
  run->series = span.series;
  for (int direction = 0; direction < LINK_DIRECTIONS; direction++)
    run->moves[direction] = span.moves[direction];
  run->part = run->most = span.count;
}

bool sim_advance_tier(Instance *instance, Tick ticks) {
  const DecodeRun *run = &instance->run;
  const TierWork work = {.compute = run->compute,
                         .count = run->part,
                         .ticks = ticks,
                         .tokens = run->part * run->tokens,
                         .kv_blocks = instance->kv_blocks};
  TierTraffic traffic = {0};
  const int64_t wanted =
      instance->kvtier->advance(instance->kvtier_options, instance->kvtier_state, &work, &traffic);
  assert(wanted >= instance->least_blocks);
  instance->totals.stall_ticks += work.ticks - series_sum(work.compute, work.count);
  instance->totals.swapped_in_bytes += traffic.in;
  instance->totals.swapped_out_bytes += traffic.out;
  const bool changed = wanted != instance->wanted_blocks;
  instance->wanted_blocks = wanted;
  return changed;
}

/* --- capacity */

void sim_book_capacity(const Simulation *self, Instance *instance) {
  InstanceTotals *totals = &instance->totals;
  totals->kv_block_seconds +=
      (double)instance->kv_blocks * tick_seconds(self->now - instance->kv_blocks_since);
  instance->kv_blocks_since = self->now;
  if (instance->kv_blocks > totals->max_kv_blocks) totals->max_kv_blocks = instance->kv_blocks;
  const KvTier *tier = instance->kvtier;
  const int64_t cpu = instance->moves_kv ? tier->cpu_blocks(instance->kvtier_options,
                                                            instance->kvtier_state, instance)
                                         : 0;
  if (cpu > totals->max_cpu_blocks) totals->max_cpu_blocks = cpu;
}

static void set_capacity(Simulation *self, Instance *instance, int64_t blocks) {
  sim_book_capacity(self, instance);
  sim_log(self, OUTCOME_EXPANSION, NULL, instance->ix, blocks, instance->kv_blocks);
  instance->totals.expansions += blocks > instance->kv_blocks;
  instance->totals.contractions += blocks < instance->kv_blocks;
  instance->kv_blocks = blocks;
}

void sim_withhold_blocks(Simulation *self, Instance *instance) {
  const int64_t missing = instance->kv_blocks - instance->wanted_blocks - instance->withheld_blocks;
  const int64_t taken = instance->free_blocks < missing ? instance->free_blocks : missing;
  instance->free_blocks -= taken;
  instance->withheld_blocks += taken;
  if (taken < missing) return;
  instance->withheld_blocks = 0;
  set_capacity(self, instance, instance->wanted_blocks);
  if (instance->activity == ACTIVITY_DECODE) sim_mark(self, instance, MARK_BEGIN);
}

void sim_fit_capacity(Simulation *self, Instance *instance) {
  assert(instance->activity == ACTIVITY_IDLE);
  instance->free_blocks += instance->withheld_blocks;
  instance->withheld_blocks = 0;
  if (instance->wanted_blocks > instance->kv_blocks) {
    instance->free_blocks += instance->wanted_blocks - instance->kv_blocks;
    set_capacity(self, instance, instance->wanted_blocks);
  } else if (instance->wanted_blocks < instance->kv_blocks) {
    sim_withhold_blocks(self, instance);
  }
}
