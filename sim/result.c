/* The summing up of a run that is over. */
#include "sim/books/energy.h"
#include "sim/core/loop.h"
#include "sim/core/placement.h"
#include "sim/core/tier.h"
#include "sim/run.h"

/* Of the run as far as it is counted. */
static Tick span_of(const Simulation *self) {
  return self->now - self->counted_from;
}

static void sum_instance(Simulation *self, Instance *instance) {
  sim_book_capacity(self, instance);
  instance_totals_subtract(&instance->totals, &instance->before);
}

static void sum_pool(const Simulation *self, PoolResult *result, InstanceIx first,
                     bool second_shape) {
  const PoolSpec *pool = result->pool;
  Total busiest = 0;
  for (uint32_t i = 0; i < pool->count; i++) {
    const InstanceTotals *totals = &self->instances[first + i].totals;
    instance_totals_add(&result->totals, totals);
    if (instance_busy_ticks(totals) > busiest) busiest = instance_busy_ticks(totals);
  }
  result->batch_tokens = self->instances[first].batch_tokens;
  const double blocks = (double)pool->kv_blocks * pool->count;
  result->max_expansion = (double)result->totals.max_kv_blocks / blocks;
  result->mean_expansion =
      span_of(self) > 0 ? result->totals.kv_block_seconds / (blocks * tick_seconds(span_of(self)))
                        : 1;
  const double span =
      tick_seconds(span_of(self)) * pool->count - total_seconds(result->totals.off_ticks);
  const double prefill = total_seconds(result->totals.prefill_ticks);
  const double decode = total_seconds(result->totals.decode_ticks);
  result->utilization = span > 0 ? (prefill + decode) / span : 0;
  result->imbalance = busiest > 0 ? total_seconds(busiest) * pool->count / (prefill + decode) : 1;
  result->energy_j = energy_of_pool(pool, &result->totals, span_of(self), second_shape);
}

/* What the largest request that can be served may need. */
static void sum_room(const Simulation *self, uint32_t model, ModelRoom *room) {
  for (Phase phase = PHASE_PREFILL; phase <= PHASE_DECODE; phase++) {
    const InstanceIx most = deployment_roomiest(&self->deployments[model], phase);
    if (most == INSTANCE_NONE) continue; // all of them flip
    room->roomiest[phase] = self->instances[most].pool;
    room->tokens[phase] = instance_room(&self->instances[most]);
  }
  room->store_tokens = self->deployments[model].smallest_store;
}

void sim_sum_up(Simulation *self, SimResult *result) {
  for (InstanceIx m = 0; m < self->n_instances; m++) {
    Instance *instance = &self->instances[m];
    if (instance->loop->catch_up) instance->loop->catch_up(self, instance);
  }
  tell_books_close(self);
  *result = (SimResult){.metrics = self->metrics,
                        .n_pools = self->config->n_pools,
                        .n_instances = self->n_instances,
                        .groups = self->groups,
                        .n_groups = self->n_groups,
                        .n_models = self->n_deployments,
                        .rooms = ARENA_ARRAY(self->arena, ModelRoom, self->n_deployments),
                        .n_components = self->config->n_components,
                        .components = self->components,
                        .n_tenants = self->config->n_tenants,
                        .tenants = ARENA_ARRAY(self->arena, TenantResult, self->config->n_tenants),
                        .pools = ARENA_ARRAY(self->arena, PoolResult, self->config->n_pools),
                        .instances = ARENA_ARRAY(self->arena, InstanceTotals, self->n_instances),
                        .caches = ARENA_ARRAY(self->arena, const PrefixCache *, self->n_instances),
                        .batches = self->batches,
                        .digest = self->log.digest,
                        .events = self->n_events,
                        .stopped = self->stopped,
                        .left_out = self->warm_up_metrics.asked.requests,
                        .end = self->now,
                        .counted_from = self->counted_from,
                        .unfinished = self->requests.n_live - self->n_copies,
                        .span = span_of(self)};
  for (uint32_t d = 0; d < self->n_deployments; d++)
    sum_room(self, d, &result->rooms[d]);
  for (InstanceIx m = 0; m < self->n_instances; m++)
    sum_instance(self, &self->instances[m]);
  InstanceIx first = 0;
  for (uint32_t p = 0; p < result->n_pools; p++) {
    PoolResult *pool = &result->pools[p];
    pool->pool = &self->config->pools[p];
    sum_pool(self, pool, first, sim_is_second_shape(self->config, p));
    instance_totals_add(&result->totals, &pool->totals);
    result->energy_j += pool->energy_j;
    first += pool->pool->count;
  }
  for (uint32_t m = 0; m < self->n_instances; m++) {
    result->instances[m] = self->instances[m].totals;
    result->caches[m] = self->instances[m].cache;
  }
  tell_sums_up(self, result);
}
