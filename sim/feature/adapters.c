/* LoRA adapters: weights beside those of a model, that come to an instance with the requests that
 * name them and go for others.
 *
 * An instance has room for so many in the memory of its GPUs and, those included, for so many in
 * CPU memory, as vLLM's max_loras and max_cpu_loras have it. A decision admits nobody whose adapter
 * would be one too many among those of requests that are scheduled: it is passed over (RULES.md,
 * "Adapters"). What is not on the GPUs is brought there before the step that needs it begins, in
 * place of the one whose last request left the instance's `running` first. */
#include "base/rng.h"
#include "sim/core/copying.h"
#include "sim/core/limits.h"
#include "sim/feature/features.h"
#include <assert.h>

/* Where those of a set begin among all, and how often each is asked for. */
typedef struct AdapterDraw {
  uint32_t first; // of all, from 1
  double *shares; // [count] of it and those before it, the last 1
} AdapterDraw;

typedef struct LoadedAdapter {
  uint32_t adapter;
  bool on_gpu;
  uint64_t needed; // AdapterCache.number of the last load that had to leave it
  Tick left_at;    // its last request left `running`, or it came
} LoadedAdapter;

/* What is in CPU memory, in no order, and which of it is on the GPUs. */
struct AdapterCache {
  LoadedAdapter *loaded; // [n_loaded], room for max_cpu_loras
  uint32_t n_loaded, n_on_gpu;
  uint64_t number;     // of loads so far
  uint32_t *scheduled; // [n_scheduled] adapters of the decision in progress; room for max_loras
  int64_t n_scheduled; // -1: not looked for yet
};

typedef struct Adapters {
  AdapterDraw *draws; // [config->n_adapters]
} Adapters;

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

static void start_draws(Simulation *self) {
  const SimConfig *config = self->config;
  Adapters *adapters = self->feature_states[FEATURE_adapters];
  adapters->draws = ARENA_ARRAY(self->arena, AdapterDraw, config->n_adapters);
  uint32_t first = 1;
  for (uint32_t i = 0; i < config->n_adapters; i++) {
    start_draw(&adapters->draws[i], &config->adapters[i], first, self->arena);
    first += config->adapters[i].count;
  }
}

/* The adapter that it asks for, by its number alone; 0: none. */
static uint32_t draw(const Simulation *self, const Request *request) {
  const SimConfig *config = self->config;
  const uint32_t set = config->components[request->component].adapters;
  if (set == 0) return 0;
  const Adapters *adapters = self->feature_states[FEATURE_adapters];
  const AdapterDraw *draw = &adapters->draws[set - 1];
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

static void draw_adapter(Simulation *self, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  request->adapter = draw(self, request);
}

/* --- what an instance has */

static void start_instance(Simulation *self, Instance *instance) {
  const AdapterRoom *room = &instance->pool->adapters;
  if (!instance->scheduler || room->max_loras == 0) return;
  AdapterCache *cache = instance->adapters = ARENA_NEW(self->arena, AdapterCache);
  cache->loaded = ARENA_ARRAY(self->arena, LoadedAdapter, (size_t)room->max_cpu_loras);
  cache->scheduled = ARENA_ARRAY(self->arena, uint32_t, (size_t)room->max_loras);
}

static void start(Simulation *self) {
  start_draws(self);
  for (InstanceIx m = 0; m < self->n_instances; m++)
    start_instance(self, &self->instances[m]);
}

static LoadedAdapter *find(const AdapterCache *self, uint32_t adapter) {
  for (uint32_t i = 0; i < self->n_loaded; i++)
    if (self->loaded[i].adapter == adapter) return &self->loaded[i];
  return NULL;
}

static bool is_on_gpu(const AdapterCache *self, uint32_t adapter) {
  const LoadedAdapter *loaded = find(self, adapter);
  return loaded && loaded->on_gpu;
}

static void leave_running(Simulation *self, Instance *instance, const Request *request) {
  if (!instance->adapters || request->adapter == 0) return;
  LoadedAdapter *loaded = find(instance->adapters, request->adapter);
  if (loaded) loaded->left_at = self->now; // else it was preempted before its step began
}

/* What is in the memory of an instance that fails is lost. */
static void forget(Simulation *self, Instance *instance) {
  (void)self;
  if (instance->adapters) instance->adapters->n_loaded = instance->adapters->n_on_gpu = 0;
}

/* --- who is scheduled */

/* Whether it takes part in the decision, as far as is known: one whose last token here is decided
 * does not, but one whose prompt is being computed and that is decoded here does. */
static bool goes_on(const Instance *instance, const Request *request) {
  if (request->scheduled != SCHEDULED_ENDS || request->decode_instance == INSTANCE_NONE)
    return true;
  return request->decode_instance == instance->ix && request->state != REQUEST_GENERATES &&
         request->generated_tokens + 1 < request->output_tokens;
}

static void begin_decision(Simulation *self, Instance *instance) {
  (void)self;
  if (instance->adapters) instance->adapters->n_scheduled = -1;
}

static bool is_scheduled(const AdapterCache *self, uint32_t adapter) {
  for (int64_t i = 0; i < self->n_scheduled; i++)
    if (self->scheduled[i] == adapter) return true;
  return false;
}

static void take_part(const Instance *instance, const Request *request) {
  AdapterCache *cache = instance->adapters;
  if (request->adapter == 0 || is_scheduled(cache, request->adapter)) return;
  assert(cache->n_scheduled < instance->pool->adapters.max_loras);
  cache->scheduled[cache->n_scheduled++] = request->adapter;
}

static void admit_to_step(Simulation *self, const Instance *instance, const Request *request) {
  (void)self;
  if (instance->adapters && instance->adapters->n_scheduled >= 0) take_part(instance, request);
}

/* Its last token ends in the step that runs, which nobody knows: it is in the one decided now. */
static bool overruns(const Simulation *self, const Instance *instance, const ScheduledItem *item) {
  if (item->request == REQUEST_NONE) return false;
  const Request *request = &self->requests.slots[item->request];
  return request->overruns && request->scheduled == SCHEDULED_ENDS &&
         request->decode_instance == instance->ix;
}

static bool passes_over(const Simulation *self, const Instance *instance, const Step *step,
                        const Request *request) {
  AdapterCache *cache = instance->adapters;
  if (!cache || request->adapter == 0) return false;
  if (cache->n_scheduled < 0) {
    const Request *slots = self->requests.slots;
    cache->n_scheduled = 0;
    for (RequestIx ix = instance->running.first; ix != REQUEST_NONE; ix = slots[ix].next)
      if (goes_on(instance, &slots[ix])) take_part(instance, &slots[ix]);
    for (size_t i = 0; i < step->n_items; i++) // with their last token, too
      take_part(instance, &slots[step->items[i].request]);
    const Step *current = instance->scheduler->current;
    for (size_t i = 0; current && i < current->n_items; i++)
      if (overruns(self, instance, &current->items[i]))
        take_part(instance, &slots[current->items[i].request]);
  }
  return cache->n_scheduled == instance->pool->adapters.max_loras &&
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
static void mark_needed(Simulation *self, const Instance *instance, const Step *step) {
  AdapterCache *cache = instance->adapters;
  const Request *slots = self->requests.slots;
  cache->number++;
  for (RequestIx ix = instance->running.first; ix != REQUEST_NONE; ix = slots[ix].next)
    if (goes_on(instance, &slots[ix])) mark(cache, &slots[ix]);
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

static void load(Simulation *self, Instance *instance, const Step *step, const Request *request) {
  AdapterCache *cache = instance->adapters;
  const AdapterRoom *room = &instance->pool->adapters;
  const SimConfig *config = self->config;
  const int64_t bytes = config->adapters[config->components[request->component].adapters - 1].bytes;
  Tick from = instance->copied_at > self->now ? instance->copied_at : self->now;
  mark_needed(self, instance, step);
  LoadedAdapter *loaded = find(cache, request->adapter);
  if (!loaded) {
    loaded = take_place(cache, room, request->adapter);
    const double ticks = (double)bytes / (double)room->load_bandwidth * (double)TICKS_PER_SECOND;
    if (!sim_passes_the_end(self, ticks + (double)(from - self->now))) from += (Tick)ticks;
    instance->totals.adapter_fetches++;
  }
  if (cache->n_on_gpu == room->max_loras) {
    pick_victim(cache, true)->on_gpu = false;
    cache->n_on_gpu--;
  }
  loaded->on_gpu = true;
  loaded->left_at = self->now;
  cache->n_on_gpu++;
  instance->copied_at = sim_copy(self, instance, LINK_TO_GPU, bytes, from);
  instance->totals.adapter_loads++;
  instance->totals.adapter_bytes += bytes;
}

/* Its adapters come to the GPUs, one after the other. */
static void begin_step(Simulation *self, Instance *instance, Step *step) {
  if (!instance->adapters) return;
  const int64_t before = instance->totals.adapter_loads;
  for (size_t i = 0; i < step->n_items; i++) {
    const ScheduledItem *item = &step->items[i];
    if (!is_in_step(item)) continue;
    const Request *request = &self->requests.slots[item->request];
    if (request->adapter > 0 && !is_on_gpu(instance->adapters, request->adapter))
      load(self, instance, step, request);
  }
  if (instance->totals.adapter_loads > before)
    instance->totals.adapter_stall_ticks += instance->copied_at - self->now;
}

/* --- audit */

/* What the step in progress needs is on the GPUs; places are counted. */
static void check_instance(const Simulation *self, const Instance *instance) {
  const AdapterCache *cache = instance->adapters;
  if (!cache) return;
  uint32_t n_on_gpu = 0;
  for (uint32_t i = 0; i < cache->n_loaded; i++) {
    n_on_gpu += cache->loaded[i].on_gpu;
    for (uint32_t j = 0; j < i; j++)
      assert(cache->loaded[i].adapter != cache->loaded[j].adapter);
  }
  assert(n_on_gpu == cache->n_on_gpu && n_on_gpu <= instance->pool->adapters.max_loras);
  assert(cache->n_loaded <= instance->pool->adapters.max_cpu_loras);
  const Step *step = instance->scheduler->current;
  for (size_t i = 0; step && instance_works(instance) && i < step->n_items; i++) {
    if (step->items[i].request == REQUEST_NONE || step->items[i].kind == STEP_LEAVES) continue;
    const Request *request = &self->requests.slots[step->items[i].request];
    assert(request->adapter == 0 || is_on_gpu(cache, request->adapter));
  }
}

static void check(const Simulation *self) {
  for (InstanceIx m = 0; m < self->n_instances; m++)
    check_instance(self, &self->instances[m]);
}

static bool is_used(const Simulation *self) {
  return self->config->n_adapters > 0;
}

const Feature feature_adapters = {
    .state_size = sizeof(Adapters),
    .is_used = is_used,
    .start = start,
    .arrived = draw_adapter,
    .decision_begins = begin_decision,
    .passes_over = passes_over,
    .admitted_to_step = admit_to_step,
    .step_begins = begin_step,
    .left_running = leave_running,
    .memory_lost = forget,
    .audits = check,
};
