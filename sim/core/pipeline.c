/* See pipeline.h. */
#include "sim/core/pipeline.h"

void pipeline_init(Pipeline *self, int64_t n_stages, Arena *arena) {
  *self = (Pipeline){.n_stages = n_stages, .free_at = ARENA_ARRAY(arena, Tick, n_stages)};
}

void pipeline_await(Pipeline *self, Tick at) {
  for (int64_t s = 0; s < self->n_stages - 1; s++)
    if (self->free_at[s] < at) self->free_at[s] = at;
}

Tick pipeline_pass(Pipeline *self, Tick now, Tick stage, Tick last, Tick send, Tick *ret_stages) {
  Tick at = now;
  for (int64_t s = 0; s < self->n_stages; s++) {
    if (at < self->free_at[s]) at = self->free_at[s];
    const bool is_last = s == self->n_stages - 1;
    self->free_at[s] = at + (is_last ? last : stage);
    if (ret_stages) {
      ret_stages[2 * s] = at;
      ret_stages[2 * s + 1] = self->free_at[s];
    }
    at = self->free_at[s] + (is_last ? 0 : send);
  }
  return at - now;
}

void pipeline_stop(Pipeline *self, Tick now) {
  for (int64_t s = 0; s < self->n_stages; s++)
    if (self->free_at[s] > now) self->free_at[s] = now;
}
