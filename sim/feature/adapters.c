/* See adapters.h. */
#include "sim/feature/adapters.h"
#include "base/rng.h"
#include "sim/core/limits.h"
#include "sim/core/moving.h"
#include "sim/core/scheduler.h"
#include "sim/core/state.h"
#include <assert.h>

/* --- who asks for which */

static void start_draw(AdapterDraw *self, const AdapterSet *set, uint32_t first, Arena *arena) {
  self->first = first;
  self->shares = ARENA_ARRAY(arena, double, set->count);
  double sum = 0;
  for (uint32_t i = 0; i < set->count; i++)
    self->shares[i] = sum += portable_exp(-set->zipf * portable_log((double)i + 1));
  for (uint32_t i = 0; i < set->count; i++)
    self->shares[i] /= sum;
}

void adapters_start(Engine *self) {
  const SimConfig *config = self->config;
  self->adapter_draws = ARENA_ARRAY(self->arena, AdapterDraw, config->n_adapters);
  uint32_t first = 1;
  for (uint32_t i = 0; i < config->n_adapters; i++) {
    start_draw(&self->adapter_draws[i], &config->adapters[i], first, self->arena);
    first += config->adapters[i].count;
  }
}

uint32_t adapters_draw(const Engine *self, const Request *request) {
  const SimConfig *config = self->config;
  const uint32_t set = config->components[request->component].adapters;
  if (set == 0) return 0;
  const AdapterDraw *draw = &self->adapter_draws[set - 1];
  Rng rng;
  rng_init(&rng, hash_fold(hash_mix(config->seed), request->id), "adapters");
  const double u = rng_uniform(&rng);
  uint32_t low = 0, high = config->adapters[set - 1].count - 1;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (u < draw->shares[middle])
      high = middle;
    else
      low = middle + 1;
  }
  return draw->first + low;
}

/* --- what a machine has */

void adapters_start_machine(Engine *self, Machine *machine) {
  const AdapterRoom *room = &machine->pool->adapters;
  if (room->max_loras == 0) return;
  AdapterCache *cache = machine->adapters = ARENA_NEW(self->arena, AdapterCache);
  cache->loaded = ARENA_ARRAY(self->arena, LoadedAdapter, (size_t)room->max_cpu_loras);
  cache->scheduled = ARENA_ARRAY(self->arena, uint32_t, (size_t)room->max_loras);
}

static LoadedAdapter *find(const AdapterCache *self, uint32_t adapter) {
  for (uint32_t i = 0; i < self->n_loaded; i++)
    if (self->loaded[i].adapter == adapter) return &self->loaded[i];
  return NULL;
}

bool adapters_has(const AdapterCache *self, uint32_t adapter) {
  const LoadedAdapter *loaded = find(self, adapter);
  return loaded && loaded->on_gpu;
}

void adapters_left(AdapterCache *self, const Request *request, Tick now) {
  LoadedAdapter *loaded = request->adapter > 0 ? find(self, request->adapter) : NULL;
  if (loaded) loaded->left_at = now; // else it was preempted before its step began
}

void adapters_forget(AdapterCache *self) {
  self->n_loaded = self->n_on_gpu = 0;
}

/* --- who is scheduled */

/* Whether it takes part in the decision, as far as is known: one whose last token here is decided
 * does not, but one whose prompt is being computed and that is decoded here does. */
static bool goes_on(const Machine *machine, const Request *request) {
  if (request->scheduled != SCHEDULED_ENDS || request->decode_machine == MACHINE_NONE) return true;
  return request->decode_machine == machine->ix && request->state != REQUEST_GENERATES &&
         request->generated_tokens + 1 < request->output_tokens;
}

static bool is_scheduled(const AdapterCache *self, uint32_t adapter) {
  for (int64_t i = 0; i < self->n_scheduled; i++)
    if (self->scheduled[i] == adapter) return true;
  return false;
}

void adapters_schedule(const Machine *machine, const Request *request) {
  AdapterCache *cache = machine->adapters;
  if (request->adapter == 0 || cache->n_scheduled < 0 || is_scheduled(cache, request->adapter))
    return;
  assert(cache->n_scheduled < machine->pool->adapters.max_loras);
  cache->scheduled[cache->n_scheduled++] = request->adapter;
}

bool adapters_pass_over(const Engine *self, const Machine *machine, const Step *step,
                        const Request *request) {
  AdapterCache *cache = machine->adapters;
  if (request->adapter == 0) return false;
  if (cache->n_scheduled < 0) {
    const Request *slots = self->requests.slots;
    cache->n_scheduled = 0;
    for (RequestIx ix = machine->running.first; ix != REQUEST_NONE; ix = slots[ix].next)
      if (goes_on(machine, &slots[ix])) adapters_schedule(machine, &slots[ix]);
    for (size_t i = 0; i < step->n_items; i++) // with their last token, too
      adapters_schedule(machine, &slots[step->items[i].request]);
  }
  return cache->n_scheduled == machine->pool->adapters.max_loras &&
         !is_scheduled(cache, request->adapter);
}

/* --- how they come */

static bool is_in_step(const ScheduledItem *item) {
  return item->request != REQUEST_NONE && item->kind != STEP_LEAVES;
}

static void mark(AdapterCache *cache, const Request *request) {
  LoadedAdapter *loaded = request->adapter > 0 ? find(cache, request->adapter) : NULL;
  if (loaded) loaded->needed = cache->number;
}

/* Those of the step stay, and of `running` those that go on. */
static void mark_needed(Engine *self, const Machine *machine, const Step *step) {
  AdapterCache *cache = machine->adapters;
  const Request *slots = self->requests.slots;
  cache->number++;
  for (RequestIx ix = machine->running.first; ix != REQUEST_NONE; ix = slots[ix].next)
    if (goes_on(machine, &slots[ix])) mark(cache, &slots[ix]);
  for (size_t i = 0; i < step->n_items; i++)
    if (is_in_step(&step->items[i])) mark(cache, &slots[step->items[i].request]);
}

/* Of those that may go, on the GPUs or anywhere, the one whose last request left first. */
static LoadedAdapter *pick_victim(const AdapterCache *self, bool on_gpu) {
  LoadedAdapter *victim = NULL;
  for (uint32_t i = 0; i < self->n_loaded; i++) {
    LoadedAdapter *loaded = &self->loaded[i];
    if (loaded->needed == self->number || (on_gpu && !loaded->on_gpu)) continue;
    if (!victim || loaded->left_at < victim->left_at) victim = loaded;
  }
  assert(victim);
  return victim;
}

/* A place in CPU memory for one that has none. */
static LoadedAdapter *take_place(AdapterCache *self, const AdapterRoom *room, uint32_t adapter) {
  LoadedAdapter *place;
  if (self->n_loaded < room->max_cpu_loras) {
    place = &self->loaded[self->n_loaded++];
  } else {
    place = pick_victim(self, false);
    self->n_on_gpu -= place->on_gpu;
  }
  *place = (LoadedAdapter){.adapter = adapter, .needed = self->number};
  return place;
}

static void load(Engine *self, Machine *machine, const Step *step, const Request *request) {
  AdapterCache *cache = machine->adapters;
  const AdapterRoom *room = &machine->pool->adapters;
  const SimConfig *config = self->config;
  const int64_t bytes = config->adapters[config->components[request->component].adapters - 1].bytes;
  Tick from = machine->copied_at > self->now ? machine->copied_at : self->now;
  mark_needed(self, machine, step);
  LoadedAdapter *loaded = find(cache, request->adapter);
  if (!loaded) {
    loaded = take_place(cache, room, request->adapter);
    const double ticks = (double)bytes / (double)room->load_bandwidth * (double)TICKS_PER_SECOND;
    if (!engine_passes_the_end(self, ticks + (double)(from - self->now))) from += (Tick)ticks;
    machine->totals.adapter_fetches++;
  }
  if (cache->n_on_gpu == room->max_loras) {
    pick_victim(cache, true)->on_gpu = false;
    cache->n_on_gpu--;
  }
  loaded->on_gpu = true;
  loaded->left_at = self->now;
  cache->n_on_gpu++;
  machine->copied_at = engine_copy(self, machine, LINK_TO_GPU, bytes, from);
  machine->totals.adapter_loads++;
  machine->totals.adapter_bytes += bytes;
}

void adapters_load(Engine *self, Machine *machine, const Step *step) {
  const int64_t before = machine->totals.adapter_loads;
  for (size_t i = 0; i < step->n_items; i++) {
    const ScheduledItem *item = &step->items[i];
    if (!is_in_step(item)) continue;
    const Request *request = &self->requests.slots[item->request];
    if (request->adapter > 0 && !adapters_has(machine->adapters, request->adapter))
      load(self, machine, step, request);
  }
  if (machine->totals.adapter_loads > before)
    machine->totals.adapter_stall_ticks += machine->copied_at - self->now;
}
