/* Schedulers are paused, and resumed, at times that the configuration gives (core/pausing.c). */
#include "sim/core/scheduling.h"
#include "sim/feature/features.h"

typedef struct Pausing {
  uint32_t next; // of SimConfig.pauses
} Pausing;

static bool is_used(const Simulation *self) {
  return self->config->n_pauses > 0;
}

/* It comes before the ends of steps of its tick, which are followed by decisions. */
static void set_timer(Simulation *self) {
  const SimConfig *config = self->config;
  const Pausing *all = self->feature_states[FEATURE_pausing];
  if (all->next < config->n_pauses)
    agenda_set_early(&self->agenda, EVENT_PAUSE, 0, config->pauses[all->next].at);
}

static void start(Simulation *self) {
  agenda_reserve(&self->agenda, EVENT_PAUSE, 1);
  set_timer(self);
}

static void handle(Simulation *self, uint32_t target) {
  (void)target;
  const SimConfig *config = self->config;
  Pausing *all = self->feature_states[FEATURE_pausing];
  for (; all->next < config->n_pauses && config->pauses[all->next].at == self->now; all->next++) {
    const PauseSpec *pause = &config->pauses[all->next];
    for (InstanceIx m = 0; m < self->n_instances; m++)
      if (self->instances[m].pool == &config->pools[pause->pool])
        scheduler_pause(self, &self->instances[m], pause);
  }
  set_timer(self);
}

const Feature feature_pausing = {
    .state_size = sizeof(Pausing),
    .is_used = is_used,
    .start = start,
    .handlers = {[EVENT_PAUSE] = handle},
};
