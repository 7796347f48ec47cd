/* See features.h. */
#include "sim/feature/features.h"
#include <assert.h>

static const Feature *const features[FEATURES] = {
#define FEATURE(name) &feature_##name,
#include "sim/feature/features.def"
#undef FEATURE
};

static void listen(Hooks *hooks, const Feature *feature, Arena *arena) {
#define HOOK(name, parameters, arguments)                                                          \
  if (feature->name) {                                                                             \
    if (!hooks->name) hooks->name = ARENA_ARRAY(arena, name##_hook *, FEATURES);                   \
    hooks->name[hooks->n_##name++] = feature->name;                                                \
  }
#define ASK(type, name, otherwise, parameters, arguments)                                          \
  if (feature->name) {                                                                             \
    assert(!hooks->name);                                                                          \
    hooks->name = feature->name;                                                                   \
  }
#include "sim/core/hooks.def"
}

static void add(Simulation *self, uint32_t i) {
  const Feature *feature = features[i];
  self->feature_states[i] =
      arena_alloc(self->arena, feature->state_size > 0 ? feature->state_size : 1);
  listen(&self->hooks, feature, self->arena);
  for (int kind = 0; kind < EVENT_KINDS; kind++) {
    assert(!feature->handlers[kind] || !self->handlers[kind]);
    if (feature->handlers[kind]) self->handlers[kind] = feature->handlers[kind];
  }
}

void features_prepare(Simulation *self) {
  self->feature_states = ARENA_ARRAY(self->arena, void *, FEATURES);
  for (uint32_t i = 0; i < FEATURES; i++)
    if (!features[i]->is_used || features[i]->is_used(self)) add(self, i);
  for (uint32_t i = 0; i < FEATURES; i++)
    if (self->feature_states[i] && features[i]->prepare) features[i]->prepare(self);
}

void features_start(Simulation *self) {
  for (uint32_t i = 0; i < FEATURES; i++)
    if (self->feature_states[i] && features[i]->start) features[i]->start(self);
}
