/* See expert_load.h. */
#include "sim/core/expert_load.h"

/* Of n experts the first `n_drawn` of Expert_load.order are drawn at random. */
static void draw(ExpertLoad *self, int32_t n_drawn) {
  const int32_t n = self->spec->n_experts;
  for (int32_t i = 0; i < n; i++)
    self->order[i] = i;
  for (int32_t i = 0; i < n_drawn; i++) {
    const int32_t k = i + (int32_t)rng_below(&self->rng, (uint64_t)(n - i));
    const int32_t expert = self->order[k];
    self->order[k] = self->order[i];
    self->order[i] = expert;
  }
}

static double weight_of(const ExpertLoadSpec *spec, int32_t layer, int32_t i) {
  if (spec->measured)
    return spec->measured[(int64_t)(layer % spec->n_measured) * spec->n_experts + i];
  return portable_exp(-spec->exponent * portable_log((double)(i + 1)));
}

/* Its i-th load is that of the expert `order` says. */
static void fill(ExpertLoad *self, int32_t layer) {
  const ExpertLoadSpec *spec = self->spec;
  double sum = 0;
  for (int32_t i = 0; i < spec->n_experts; i++)
    sum += weight_of(spec, layer, i);
  for (int32_t i = 0; i < spec->n_experts; i++) {
    const int32_t expert = spec->measured ? i : self->order[i];
    self->loads[(int64_t)layer * spec->n_experts + expert] =
        (int64_t)(weight_of(spec, layer, i) / sum * EXPERT_LOAD_ALL);
  }
}

void expert_load_init(ExpertLoad *self, const ExpertLoadSpec *spec, uint64_t seed,
                      const char *stream, Arena *arena) {
  const int64_t n = (int64_t)spec->n_layers * spec->n_experts;
  *self = (ExpertLoad){.spec = spec,
                       .next_drift = spec->drift_interval > 0 ? spec->drift_interval : TICK_MAX,
                       .loads = ARENA_ARRAY(arena, int64_t, n),
                       .order = ARENA_ARRAY(arena, int32_t, spec->n_experts)};
  rng_init(&self->rng, seed, stream);
  for (int32_t layer = 0; layer < spec->n_layers; layer++) {
    draw(self, spec->n_experts);
    fill(self, layer);
  }
}

void expert_load_drift(ExpertLoad *self) {
  const ExpertLoadSpec *spec = self->spec;
  self->next_drift += spec->drift_interval;
  for (int32_t layer = 0; layer < spec->n_layers && spec->n_drifting > 1; layer++) {
    int64_t *loads = self->loads + (int64_t)layer * spec->n_experts;
    draw(self, spec->n_drifting);
    const int64_t first = loads[self->order[0]];
    for (int32_t i = 0; i + 1 < spec->n_drifting; i++)
      loads[self->order[i]] = loads[self->order[i + 1]];
    loads[self->order[spec->n_drifting - 1]] = first;
  }
}
