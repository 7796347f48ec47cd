/* What a KV tier that moves KV does to a machine: its iterations take longer, and the blocks it has
 * change (kvtier.h).
 *
 * Growth adds free blocks at once. A shrink takes free blocks out of use, now and as they are given
 * back, until all that the tier wants to lose are withheld; then they go together, and a decode run
 * in progress ends with its iteration, so that the tier can plan anew. */
#include "sim/core/tier.h"
#include "sim/core/marks.h"
#include <assert.h>

void sim_start_tier(Simulation *self, Machine *machine) {
  const KvTier *tier = machine->kvtier;
  machine->kv_blocks = machine->least_blocks = machine->pool->kv_blocks;
  machine->moves_kv = kvtier_moves(tier);
  if (machine->moves_kv) {
    machine->kvtier_state = arena_alloc(self->arena, tier->machine_state_size);
    machine->kv_blocks = tier->start(machine->kvtier_options, machine->kvtier_state, machine->pool,
                                     &machine->least_blocks);
  }
  assert(0 < machine->least_blocks && machine->least_blocks <= machine->kv_blocks);
  machine->wanted_blocks = machine->free_blocks = machine->kv_blocks;
  machine->totals.max_kv_blocks = machine->kv_blocks;
}

/* --- time */

void sim_plan_tier(Simulation *self, Machine *machine, const BatchShape *shape) {
  DecodeRun *run = &machine->run;
  const TierLoad load = {
      .now = run->part_began_at,
      .kv_blocks = machine->kv_blocks,
      .done = run->done,
      .prefill_tokens = shape->prefill_tokens,
      .decode_seqs = shape->decode_seqs,
      .context_tokens = shape->context_tokens,
      .overhead = self->config->executor ? 0 : machine->perfmodel->overhead,
      .copies = machine->copies,
  };
  const TierSpan span = machine->kvtier->plan(machine->kvtier_options, machine->kvtier_state, &load,
                                              run->compute, run->part);
  assert(0 < span.count && span.count <= run->part);
  assert(span.series.first >= run->compute.first && span.series.step >= 0);
  run->series = span.series;
  for (int direction = 0; direction < LINK_DIRECTIONS; direction++)
    run->moves[direction] = span.moves[direction];
  run->part = run->most = span.count;
}

bool sim_advance_tier(Machine *machine, Tick ticks) {
  const DecodeRun *run = &machine->run;
  const TierWork work = {.compute = run->compute,
                         .count = run->part,
                         .ticks = ticks,
                         .tokens = run->part * run->tokens,
                         .kv_blocks = machine->kv_blocks};
  TierTraffic traffic = {0};
  const int64_t wanted =
      machine->kvtier->advance(machine->kvtier_options, machine->kvtier_state, &work, &traffic);
  assert(wanted >= machine->least_blocks);
  machine->totals.stall_ticks += work.ticks - series_sum(work.compute, work.count);
  machine->totals.swapped_in_bytes += traffic.in;
  machine->totals.swapped_out_bytes += traffic.out;
  const bool changed = wanted != machine->wanted_blocks;
  machine->wanted_blocks = wanted;
  return changed;
}

/* --- capacity */

void sim_book_capacity(const Simulation *self, Machine *machine) {
  MachineTotals *totals = &machine->totals;
  totals->kv_block_seconds +=
      (double)machine->kv_blocks * tick_seconds(self->now - machine->kv_blocks_since);
  machine->kv_blocks_since = self->now;
  if (machine->kv_blocks > totals->max_kv_blocks) totals->max_kv_blocks = machine->kv_blocks;
  const KvTier *tier = machine->kvtier;
  const int64_t cpu =
      machine->moves_kv ? tier->cpu_blocks(machine->kvtier_options, machine->kvtier_state, machine)
                        : 0;
  if (cpu > totals->max_cpu_blocks) totals->max_cpu_blocks = cpu;
}

static void set_capacity(Simulation *self, Machine *machine, int64_t blocks) {
  sim_book_capacity(self, machine);
  sim_log(self, OUTCOME_EXPANSION, NULL, machine->ix, blocks, machine->kv_blocks);
  machine->totals.expansions += blocks > machine->kv_blocks;
  machine->totals.contractions += blocks < machine->kv_blocks;
  machine->kv_blocks = blocks;
}

void sim_withhold_blocks(Simulation *self, Machine *machine) {
  const int64_t missing = machine->kv_blocks - machine->wanted_blocks - machine->withheld_blocks;
  const int64_t taken = machine->free_blocks < missing ? machine->free_blocks : missing;
  machine->free_blocks -= taken;
  machine->withheld_blocks += taken;
  if (taken < missing) return;
  machine->withheld_blocks = 0;
  set_capacity(self, machine, machine->wanted_blocks);
  if (machine->activity == ACTIVITY_DECODE) sim_mark(self, machine, MARK_BEGIN);
}

void sim_fit_capacity(Simulation *self, Machine *machine) {
  assert(machine->activity == ACTIVITY_IDLE);
  machine->free_blocks += machine->withheld_blocks;
  machine->withheld_blocks = 0;
  if (machine->wanted_blocks > machine->kv_blocks) {
    machine->free_blocks += machine->wanted_blocks - machine->kv_blocks;
    set_capacity(self, machine, machine->wanted_blocks);
  } else if (machine->wanted_blocks < machine->kv_blocks) {
    sim_withhold_blocks(self, machine);
  }
}
