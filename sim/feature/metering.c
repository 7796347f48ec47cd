/* The energy of each hour of simulated time, where the run asks for it: what instances have drawn
 * up to the end of an hour, less what they had up to the one before. Iterations in progress count
 * as far as they have come, so that it does not matter how a run is cut. */
#include "sim/books/energy.h"
#include "sim/books/hours.h"
#include "sim/core/decode_run.h"
#include "sim/core/loop.h"
#include "sim/feature/features.h"

typedef struct Metering {
  double *joules; // [n] by hour
  size_t n, capacity;
  double sum;
  Tick counted_from; // what they are of; the warm-up before is not
} Metering;

static Metering *metering(const Simulation *self) {
  return self->feature_states[FEATURE_metering];
}

/* What an instance has done in all that is counted, up to now. */
static InstanceTotals totals_now(const Simulation *self, const Instance *instance) {
  InstanceTotals totals = instance->totals;
  instance_totals_subtract(&totals, &instance->before);
  sim_meter_run(instance, self->now, &totals);
  const Tick down = instance->down_since, from = self->counted_from;
  if (down >= 0) totals.down_ticks += self->now - (down > from ? down : from);
  if (instance->off_since >= 0) totals.off_ticks += self->now - instance->off_since;
  return totals;
}

static double joules_now(Simulation *self) {
  const SimConfig *config = self->config;
  double sum = 0;
  InstanceIx m = 0;
  for (uint32_t p = 0; p < config->n_pools; p++) {
    InstanceTotals totals = {0};
    for (uint32_t i = 0; i < config->pools[p].count; i++) {
      Instance *instance = &self->instances[m++];
      if (instance->loop->catch_up) instance->loop->catch_up(self, instance);
      const InstanceTotals one = totals_now(self, instance);
      instance_totals_add(&totals, &one);
    }
    sum += energy_of_pool(&config->pools[p], &totals, self->now - self->counted_from,
                          sim_is_second_shape(config, p));
  }
  return sum;
}

/* All up to `joules` was drawn in the hour that ends, or has begun. */
static void add(Simulation *self, size_t hour, double joules) {
  Metering *all = metering(self);
  if (all->counted_from != self->counted_from) { // what was before does not count
    for (size_t i = 0; i < all->n; i++)
      all->joules[i] = 0;
    all->sum = 0;
    all->counted_from = self->counted_from;
  }
  ARENA_RESERVE(self->arena, all->joules, all->capacity, hour + 1);
  while (all->n <= hour)
    all->joules[all->n++] = 0;
  all->joules[hour] += joules - all->sum;
  all->sum = joules;
}

static void set_next(Simulation *self) {
  if (HOUR <= TICK_MAX - self->now) agenda_set_last(&self->agenda, EVENT_HOUR, 0, self->now + HOUR);
}

static void handle(Simulation *self, uint32_t target) {
  (void)target;
  add(self, (size_t)(self->now / HOUR) - 1, joules_now(self));
  set_next(self);
}

static bool is_used(const Simulation *self) {
  return self->config->meters_hours;
}

static void start(Simulation *self) {
  agenda_reserve(&self->agenda, EVENT_HOUR, 1);
  set_next(self);
}

static void sum_up(Simulation *self, SimResult *result) {
  add(self, (size_t)(self->now / HOUR), result->energy_j);
  result->hour_joules = metering(self)->joules;
  result->n_hour_joules = metering(self)->n;
}

const Feature feature_metering = {
    .state_size = sizeof(Metering),
    .is_used = is_used,
    .start = start,
    .handlers = {[EVENT_HOUR] = handle},
    .sums_up = sum_up,
};
