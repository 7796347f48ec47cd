/* See expert_balance.h. */
#include "sim/core/expert_balance.h"
#include <assert.h>
#include <string.h>

static int32_t *placement(int32_t *all, const ExpertBalance *self, int32_t layer) {
  return all + (int64_t)layer * self->spec->shape.n_slots;
}

static int64_t n_loads(const ExpertBalance *self) {
  return (int64_t)self->spec->load.n_layers * self->spec->load.n_experts;
}

/* The mean over the layers. */
static int64_t present_imbalance(const ExpertBalance *self) {
  const ExpertLoadSpec *load = &self->spec->load;
  int64_t sum = 0;
  for (int32_t layer = 0; layer < load->n_layers; layer++)
    sum += eplb_imbalance(&self->eplb, self->load.loads + (int64_t)layer * load->n_experts,
                          placement(self->expert_of, self, layer));
  return sum / load->n_layers;
}

static void weigh(ExpertBalance *self) {
  self->imbalance = present_imbalance(self);
}

/* Places on all GPUs from those on GPUs that there are, one after the other. */
static void spread(const ExpertBalance *self, const int32_t *packed, int32_t *ret_expert_of) {
  const EplbShape *shape = &self->spec->shape;
  const int32_t each = shape->n_slots / shape->n_gpus;
  for (int32_t i = 0; i < shape->n_slots; i++)
    ret_expert_of[i] = self->gone[i / each] ? -1 : *packed++;
}

static void place_first(ExpertBalance *self) {
  eplb_begin(&self->spec->shape, self->packed);
  for (int32_t layer = 0; layer < self->spec->load.n_layers; layer++)
    spread(self, self->packed, placement(self->expert_of, self, layer));
  weigh(self);
}

void expert_balance_init(ExpertBalance *self, const ExpertSpec *spec, uint64_t seed,
                         const char *stream, Arena *arena) {
  const int64_t n_slots = (int64_t)spec->load.n_layers * spec->shape.n_slots;
  *self = (ExpertBalance){.spec = spec, .arrives_at = TICK_MAX, .interval = spec->first_step};
  expert_load_init(&self->load, &spec->load, seed, stream, arena);
  eplb_init(&self->eplb, spec->shape, arena);
  self->expert_of = ARENA_ARRAY(arena, int32_t, n_slots);
  self->next_of = ARENA_ARRAY(arena, int32_t, n_slots);
  self->seen = ARENA_ARRAY(arena, int64_t, n_loads(self));
  self->sent = ARENA_ARRAY(arena, int64_t, 2 * spec->shape.n_gpus);
  self->received = ARENA_ARRAY(arena, int64_t, 2 * spec->shape.n_gpus);
  self->gone = ARENA_ARRAY(arena, bool, spec->shape.n_gpus);
  self->packed = ARENA_ARRAY(arena, int32_t, spec->shape.n_slots);
  place_first(self);
}

void expert_balance_restart(ExpertBalance *self) {
  self->arrives_at = TICK_MAX;
  self->interval = self->spec->first_step;
  self->n_forwards = self->tokens = 0;
  memset(self->seen, 0, (size_t)n_loads(self) * sizeof *self->seen);
  place_first(self);
}

/* --- what is seen of loads */

/* Tokens since the loads last changed enter the window. */
static void look(ExpertBalance *self) {
  const int64_t n = n_loads(self);
  for (int64_t i = 0; i < n && self->tokens > 0; i++)
    self->seen[i] += self->load.loads[i] * self->tokens >> 10;
  self->tokens = 0;
}

static void drift_until(ExpertBalance *self, Tick now) {
  if (self->load.next_drift > now) return;
  look(self);
  while (self->load.next_drift <= now)
    expert_load_drift(&self->load);
  weigh(self);
}

/* --- rearrangements */

static bool has(const int32_t *slots, int32_t n, int32_t expert) {
  for (int32_t i = 0; i < n; i++)
    if (slots[i] == expert) return true;
  return false;
}

/* The GPU that sends an expert to another: of the same machine if any, of these the one that has
 * sent the least, the first of equals. */
static int32_t sender_of(const ExpertBalance *self, const int32_t *from, int32_t expert,
                         int32_t node) {
  const EplbShape *shape = &self->spec->shape;
  const int32_t each = shape->n_slots / shape->n_gpus, on_node = shape->n_gpus / shape->n_nodes;
  int32_t best = -1;
  bool best_near = false;
  int64_t least = 0;
  for (int32_t i = 0; i < shape->n_slots; i++) {
    if (from[i] != expert) continue;
    const int32_t gpu = i / each;
    const bool near = gpu / on_node == node;
    const int64_t sent = self->sent[2 * gpu + !near];
    if (best >= 0 && (near < best_near || (near == best_near && sent >= least))) continue;
    best = gpu;
    best_near = near;
    least = sent;
  }
  return best;
}

static Tick link_ticks(const ExpertSpec *spec, int64_t n, int64_t rate) {
  return n > 0 ? tick_from_seconds((double)n * (double)spec->expert_bytes / (double)rate) : 0;
}

Tick expert_balance_move(ExpertBalance *self, const int32_t *from, const int32_t *to,
                         int64_t *ret_moved, int64_t *ret_loaded) {
  const EplbShape *shape = &self->spec->shape;
  const int32_t each = shape->n_slots / shape->n_gpus, on_node = shape->n_gpus / shape->n_nodes;
  memset(self->sent, 0, (size_t)(2 * shape->n_gpus) * sizeof *self->sent);
  memset(self->received, 0, (size_t)(2 * shape->n_gpus) * sizeof *self->received);
  *ret_moved = *ret_loaded = 0;
  for (int32_t i = 0; i < shape->n_slots; i++) {
    const int32_t gpu = i / each, first = gpu * each;
    if (to[i] < 0 || has(from + first, each, to[i]) || has(to + first, i - first, to[i])) continue;
    const int32_t sender = sender_of(self, from, to[i], gpu / on_node);
    if (sender < 0) {
      ++*ret_loaded;
      continue;
    }
    const bool far = sender / on_node != gpu / on_node;
    self->sent[2 * sender + far]++;
    self->received[2 * gpu + far]++;
    ++*ret_moved;
  }
  int64_t most[2] = {0, 0};
  for (int32_t i = 0; i < 2 * shape->n_gpus; i++) {
    if (self->sent[i] > most[i % 2]) most[i % 2] = self->sent[i];
    if (self->received[i] > most[i % 2]) most[i % 2] = self->received[i];
  }
  const Tick near = link_ticks(self->spec, most[0], self->spec->node_rate);
  const Tick wide = link_ticks(self->spec, most[1], self->spec->wide_rate);
  return near > wide ? near : wide;
}

/* On the GPUs that there are. Where some are not, it does not mind machines or groups of experts.
 */
static void place(ExpertBalance *self, const int64_t *loads, int32_t *ret_expert_of) {
  if (self->n_gone == 0) {
    eplb_place(&self->eplb, loads, ret_expert_of);
    return;
  }
  const EplbShape *shape = &self->spec->shape;
  const int32_t n_gpus = shape->n_gpus - self->n_gone;
  self->eplb.shape = (EplbShape){.n_experts = shape->n_experts,
                                 .n_slots = shape->n_slots / shape->n_gpus * n_gpus,
                                 .n_gpus = n_gpus,
                                 .n_nodes = 1,
                                 .n_groups = 1};
  eplb_place(&self->eplb, loads, self->packed);
  self->eplb.shape = *shape;
  spread(self, self->packed, ret_expert_of);
}

/* A placement by what was seen, in next_of; how long it takes to get there, layer after layer. */
static Rearrangement rearrange(ExpertBalance *self) {
  const ExpertLoadSpec *load = &self->spec->load;
  Rearrangement all_layers = {.happens = true, .ticks = self->spec->rearrange_time};
  look(self);
  for (int32_t layer = 0; layer < load->n_layers; layer++) {
    int64_t *seen = self->seen + (int64_t)layer * load->n_experts, all = 0, moved, loaded;
    for (int32_t e = 0; e < load->n_experts; e++)
      all += seen[e];
    for (; all >= INT64_C(1) << 44; all >>= 1)
      for (int32_t e = 0; e < load->n_experts; e++)
        seen[e] >>= 1;
    int32_t *next = placement(self->next_of, self, layer);
    place(self, seen, next);
    all_layers.ticks +=
        expert_balance_move(self, placement(self->expert_of, self, layer), next, &moved, &loaded);
    all_layers.n_moved += moved;
    all_layers.n_loaded += loaded;
  }
  memset(self->seen, 0, (size_t)n_loads(self) * sizeof *self->seen);
  self->n_forwards = 0;
  self->interval = self->spec->step_interval;
  return all_layers;
}

static void take_place(ExpertBalance *self) {
  int32_t *old = self->expert_of;
  self->expert_of = self->next_of;
  self->next_of = old;
  self->arrives_at = TICK_MAX;
  weigh(self);
}

Rearrangement expert_balance_begin(ExpertBalance *self, Tick now) {
  drift_until(self, now);
  if (self->arrives_at <= now) take_place(self);
  if (self->spec->step_interval == 0 || self->n_forwards < self->interval ||
      self->arrives_at < TICK_MAX)
    return (Rearrangement){0};
  const Rearrangement made = rearrange(self);
  if (self->spec->use_async)
    self->arrives_at = now + made.ticks;
  else
    take_place(self);
  return made;
}

/* --- GPUs that fail */

void expert_balance_set_gone(ExpertBalance *self, int32_t first, int32_t n, bool gone) {
  const EplbShape *shape = &self->spec->shape;
  const int32_t each = shape->n_slots / shape->n_gpus;
  for (int32_t gpu = first; gpu < first + n; gpu++) {
    self->n_gone += gone - self->gone[gpu];
    self->gone[gpu] = gone;
    for (int32_t layer = 0; layer < self->spec->load.n_layers; layer++)
      for (int32_t i = gpu * each; i < (gpu + 1) * each; i++)
        placement(self->expert_of, self, layer)[i] = -1;
  }
}

bool expert_balance_fits(const ExpertSpec *spec, int64_t gpus) {
  return gpus * (spec->shape.n_slots / spec->shape.n_gpus) >= spec->shape.n_experts;
}

Rearrangement expert_balance_regroup(ExpertBalance *self) {
  const Rearrangement made = rearrange(self);
  take_place(self);
  return made;
}

/* --- times */

FineTick expert_balance_more(const ExpertBalance *self, const PerfModel *model, int64_t tokens) {
  const double factor = (double)self->imbalance / EPLB_ONE / model->busiest;
  const int64_t busiest = (int64_t)((double)tokens * factor + 0.5);
  return pwl_fine(&model->experts, busiest) - pwl_fine(&model->experts, tokens);
}

void expert_balance_count(ExpertBalance *self, int64_t tokens) {
  if (self->n_forwards >= self->interval - self->spec->window_size) self->tokens += tokens;
  if (self->tokens >= INT64_C(1) << 36) look(self);
  self->n_forwards++;
}

void expert_balance_audit(const ExpertBalance *self) {
  const EplbShape *shape = &self->spec->shape;
  if (!expert_balance_fits(self->spec, shape->n_gpus - self->n_gone)) return;
  for (int32_t layer = 0; layer < self->spec->load.n_layers; layer++) {
    const int32_t *expert_of = placement(self->expert_of, self, layer);
    for (int32_t i = 0; i < shape->n_slots; i++)
      assert((expert_of[i] < 0) == self->gone[i / (shape->n_slots / shape->n_gpus)]);
    for (int32_t e = 0; e < shape->n_experts; e++)
      assert(has(expert_of, shape->n_slots, e));
  }
  assert(self->imbalance == present_imbalance(self) && self->imbalance >= 0);
  assert(self->arrives_at == TICK_MAX || self->spec->use_async);
}
