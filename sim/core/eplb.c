/* See eplb.h. */
#include "sim/core/eplb.h"
#include <assert.h>
#include <stdbool.h>
#include <string.h>

void eplb_init(Eplb *self, EplbShape shape, Arena *arena) {
  const size_t n = (size_t)shape.n_slots;
  assert(shape.n_slots >= shape.n_experts && shape.n_slots % shape.n_gpus == 0 &&
         shape.n_gpus % shape.n_nodes == 0);
  *self = (Eplb){.shape = shape,
                 .order = ARENA_ARRAY(arena, int32_t, n),
                 .pack_of = ARENA_ARRAY(arena, int32_t, n),
                 .count = ARENA_ARRAY(arena, int32_t, n),
                 .merged = ARENA_ARRAY(arena, int32_t, n),
                 .loads = ARENA_ARRAY(arena, int64_t, n),
                 .sums = ARENA_ARRAY(arena, int64_t, n),
                 .experts = ARENA_ARRAY(arena, int32_t, n),
                 .items = ARENA_ARRAY(arena, int32_t, n),
                 .copies = ARENA_ARRAY(arena, int32_t, n)};
}

void eplb_begin(const EplbShape *shape, int32_t *ret_expert_of) {
  for (int32_t i = 0; i < shape->n_slots; i++)
    ret_expert_of[i] = i % shape->n_experts;
}

/* Numbers of items by falling load, of equals in order: a merge sort from the bottom up. */
static void sort_by_load(Eplb *self, const int64_t *loads, int32_t n) {
  int32_t *from = self->order, *to = self->merged;
  for (int32_t i = 0; i < n; i++)
    from[i] = i;
  for (int32_t width = 1; width < n; width *= 2) {
    for (int32_t first = 0; first < n; first += 2 * width) {
      const int32_t middle = first + width < n ? first + width : n;
      const int32_t end = first + 2 * width < n ? first + 2 * width : n;
      int32_t a = first, b = middle;
      for (int32_t k = first; k < end; k++)
        to[k] =
            b == end || (a < middle && loads[from[a]] >= loads[from[b]]) ? from[a++] : from[b++];
    }
    int32_t *last = from;
    from = to;
    to = last;
  }
  if (from != self->order) memcpy(self->order, from, (size_t)n * sizeof *from);
}

/* Packs n items of `loads` into n_packs of n / n_packs each: Eplb.pack_of. */
static void pack(Eplb *self, const int64_t *loads, int32_t n, int32_t n_packs) {
  const int32_t room = n / n_packs;
  sort_by_load(self, loads, n);
  memset(self->sums, 0, (size_t)n_packs * sizeof *self->sums);
  memset(self->count, 0, (size_t)n_packs * sizeof *self->count);
  for (int32_t k = 0; k < n; k++) {
    const int32_t item = self->order[k];
    int32_t best = -1;
    for (int32_t p = 0; p < n_packs; p++)
      if (self->count[p] < room && (best < 0 || self->sums[p] < self->sums[best])) best = p;
    self->pack_of[item] = best;
    self->count[best]++;
    self->sums[best] += loads[item];
  }
}

/* Which of n experts each of n_slots places has, each in one and then the further copies in the
 * order in which they are made, and how many there are of each: Eplb.items, Eplb.copies. */
static void replicate(Eplb *self, const int32_t *experts, int32_t n, const int64_t *loads,
                      int32_t n_slots) {
  for (int32_t i = 0; i < n; i++) {
    self->copies[i] = 1;
    self->items[i] = i;
  }
  for (int32_t made = n; made < n_slots; made++) {
    int32_t most = 0;
    for (int32_t i = 1; i < n; i++)
      if (loads[experts[i]] * self->copies[most] > loads[experts[most]] * self->copies[i]) most = i;
    self->copies[most]++;
    self->items[made] = most;
  }
}

/* Places n experts, in `experts`, on n_gpus from `expert_of` on. */
static void place(Eplb *self, const int32_t *experts, int32_t n, const int64_t *loads,
                  int32_t n_gpus, int32_t *expert_of) {
  const int32_t each = self->shape.n_slots / self->shape.n_gpus, n_slots = n_gpus * each;
  replicate(self, experts, n, loads, n_slots);
  for (int32_t k = 0; k < n_slots; k++)
    self->loads[k] = loads[experts[self->items[k]]] / self->copies[self->items[k]];
  pack(self, self->loads, n_slots, n_gpus);
  memset(self->count, 0, (size_t)n_gpus * sizeof *self->count);
  for (int32_t k = 0; k < n_slots; k++) {
    const int32_t item = self->order[k], gpu = self->pack_of[item];
    expert_of[gpu * each + self->count[gpu]++] = experts[self->items[item]];
  }
}

/* Packs groups of experts on machines; the experts of machine m begin at m·E/N, heavy groups
 * first. */
static void place_groups(Eplb *self, const int64_t *loads) {
  const EplbShape *shape = &self->shape;
  const int32_t n = shape->n_experts, n_groups = shape->n_groups, size = n / n_groups;
  for (int32_t g = 0; g < n_groups; g++)
    self->loads[g] = 0;
  for (int32_t e = 0; e < n; e++)
    self->loads[e / size] += loads[e];
  pack(self, self->loads, n_groups, shape->n_nodes);
  int32_t placed = 0;
  for (int32_t node = 0; node < shape->n_nodes; node++)
    for (int32_t k = 0; k < n_groups; k++)
      for (int32_t i = 0; self->pack_of[self->order[k]] == node && i < size; i++)
        self->experts[placed++] = self->order[k] * size + i;
}

void eplb_place(Eplb *self, const int64_t *loads, int32_t *ret_expert_of) {
  const EplbShape *shape = &self->shape;
  const bool groups = shape->n_groups % shape->n_nodes == 0 && shape->n_nodes > 1;
  const int32_t n_parts = groups ? shape->n_nodes : 1;
  const int32_t n = shape->n_experts / n_parts, gpus = shape->n_gpus / n_parts;
  if (groups)
    place_groups(self, loads);
  else
    for (int32_t e = 0; e < n; e++)
      self->experts[e] = e;
  for (int32_t part = 0; part < n_parts; part++)
    place(self, self->experts + part * n, n, loads, gpus,
          ret_expert_of + part * (shape->n_slots / n_parts));
}

int64_t eplb_imbalance(const Eplb *self, const int64_t *loads, const int32_t *expert_of) {
  const EplbShape *shape = &self->shape;
  const int32_t each = shape->n_slots / shape->n_gpus;
  int64_t all = 0, most = 0;
  memset(self->copies, 0, (size_t)shape->n_experts * sizeof *self->copies);
  for (int32_t i = 0; i < shape->n_slots; i++)
    if (expert_of[i] >= 0) self->copies[expert_of[i]]++;
  for (int32_t e = 0; e < shape->n_experts; e++)
    all += loads[e];
  for (int32_t gpu = 0; gpu < shape->n_gpus; gpu++) {
    int64_t sum = 0;
    for (int32_t i = gpu * each; i < (gpu + 1) * each; i++)
      if (expert_of[i] >= 0) sum += loads[expert_of[i]] * EPLB_ONE / self->copies[expert_of[i]];
    if (sum > most) most = sum;
  }
  return all > 0 ? most / all * shape->n_gpus + most % all * shape->n_gpus / all : EPLB_ONE;
}
