/* See starting.h. */
#include "sim/core/starting.h"

static Tick later(Tick at, Tick ticks) {
  return ticks < TICK_MAX - at ? at + ticks : TICK_MAX;
}

/* Rounded up to whole ticks. */
static Tick load_ticks(int64_t bytes, int64_t bandwidth) {
  const Total ticks = ((Total)bytes * TICKS_PER_SECOND + bandwidth - 1) / bandwidth;
  return ticks < TICK_MAX ? (Tick)ticks : TICK_MAX;
}

static Tick loaded_at(const StartUp *self, int64_t bytes, int64_t nic, Tick from,
                      Tick *store_free_at) {
  if (self->bandwidth == 0) return from;
  const bool has_own = self->weights_from == WEIGHTS_DISK;
  const int64_t least = has_own || self->bandwidth < nic ? self->bandwidth : nic;
  if (self->weights_from != WEIGHTS_STORE) return later(from, load_ticks(bytes, least));
  const Tick begin = *store_free_at > from ? *store_free_at : from;
  *store_free_at = later(begin, load_ticks(bytes, self->bandwidth));
  return later(begin, load_ticks(bytes, least));
}

Tick start_up_end(const StartUp *self, int64_t bytes, int64_t nic, Tick from, Tick *store_free_at) {
  const Tick begin = later(later(from, self->boot), self->image);
  const Tick loaded = loaded_at(self, bytes, nic, begin, store_free_at);
  const Tick end = later(later(loaded, self->capture), self->warm_up);
  return end > from ? end : later(from, 1);
}

Tick start_up_alone(const StartUp *self, int64_t bytes, int64_t nic) {
  Tick store_free_at = 0;
  return start_up_end(self, bytes, nic, 0, &store_free_at);
}
