/* Looking at groups, see timeline.h, and at instances for who watches them. */
#include "sim/core/loop.h"
#include "sim/core/memory.h"
#include "sim/feature/features.h"
#include <assert.h>

static Timeline *timeline_of(const Simulation *self) {
  return self->feature_states[FEATURE_timeline];
}

/* Copies that have ended though the group has not had an event since. */
static void leave_out_ended(const Simulation *self, const Group *group, TimelineRow *row) {
  for (int direction = 0; direction < COPY_DIRECTIONS; direction++) {
    const KvCopies *copies = &group->copies[direction];
    for (size_t i = copies->first; i < copies->last && copies->items[i].end <= self->now; i++) {
      const Request *request = &self->requests.slots[copies->items[i].request];
      if (direction == COPY_IN) {
        row->store_blocks -= request->store_blocks;
      } else {
        row->gpu_blocks -= request->kv_blocks;
        row->n_decoding -= request->decode_instance != INSTANCE_NONE;
      }
    }
  }
}

static TimelineRow row_of(const Simulation *self, const Group *group) {
  TimelineRow row = {.at = self->now,
                     .group = group->ix,
                     .shape = group->shape,
                     .activity = group_activity(group),
                     .store_blocks = group->spec->store_blocks - group->free_blocks};
  for (uint32_t i = 0; i < group->n_instances[group->shape]; i++) {
    const Instance *instance = &self->instances[group->first[group->shape] + i];
    row.gpu_blocks += instance->pool->kv_blocks - sim_free_blocks(self, instance);
  }
  for (uint32_t i = 0; i < group->n_instances[SHAPE_PREFILL]; i++)
    row.n_prompts += self->instances[group->first[SHAPE_PREFILL] + i].n_prefills;
  for (uint32_t i = 0; i < group->n_instances[SHAPE_DECODE]; i++)
    row.n_decoding += self->instances[group->first[SHAPE_DECODE] + i].n_decodes;
  leave_out_ended(self, group, &row);
  return row;
}

static bool same_activity(const TimelineRow *row, const Group *group) {
  return row->shape == group->shape && row->activity == group_activity(group);
}

static bool same_memory(const TimelineRow *a, const TimelineRow *b) {
  return a->gpu_blocks == b->gpu_blocks && a->store_blocks == b->store_blocks &&
         a->n_prompts == b->n_prompts && a->n_decoding == b->n_decoding;
}

/* `sampled`: a row is due for what lies in memory too. */
static void look(const Simulation *self, const Group *group, bool sampled) {
  Timeline *timeline = timeline_of(self);
  const SimObserver *observer = self->config->observer;
  TimelineRow *newest = &timeline->newest[group->ix];
  const bool same = newest->at >= 0 && same_activity(newest, group);
  if (same && !sampled) return;
  const TimelineRow row = row_of(self, group);
  if (same && same_memory(newest, &row)) return;
  *newest = row;
  if (observer && observer->on_group) observer->on_group(observer->context, &row);
  if (timeline->interval == 0) return;
  ARENA_RESERVE(self->arena, timeline->rows, timeline->capacity, timeline->n_rows + 1);
  timeline->rows[timeline->n_rows++] = row;
}

static InstanceSample sample_of(const Simulation *self, const Instance *instance) {
  const int64_t n_queued = instance->prefill_queue.count + instance->decode_queue.count +
                           instance->blocked.count + instance->swapped.count;
  InstanceSample sample = {.at = self->now,
                           .instance = instance->ix,
                           .prefills = instance->activity == ACTIVITY_PREFILL,
                           .decodes = instance->activity == ACTIVITY_DECODE,
                           .n_waiting = n_queued + instance->inbound.count,
                           .n_running = instance->loop->count_running(instance),
                           .kv_blocks = instance->kv_blocks,
                           .totals = &instance->totals};
  sample.used_blocks =
      instance->kv_blocks - instance->withheld_blocks - sim_free_blocks(self, instance);
  if (instance->cache) sample.cached_blocks = instance->cache->n_keys;
  if (instance->radix) sample.cached_blocks = instance->radix->n_owned;
  for (size_t i = 0; i < instance->n_chunks; i++) // those of which more is to come keep their place
    sample.n_waiting -= self->requests.slots[instance->chunks[i]].state == REQUEST_PREFILLS;
  return sample;
}

/* All instances as they are now. */
static void sample(const Simulation *self) {
  const SimObserver *observer = self->config->observer;
  for (InstanceIx m = 0; m < self->n_instances; m++) {
    const InstanceSample sample = sample_of(self, &self->instances[m]);
    observer->on_sample(observer->context, &sample);
  }
}

/* Whether anything goes on between events: decode runs, and copies that nobody waits for. */
static bool goes_on(const Simulation *self) {
  for (uint32_t g = 0; g < self->n_groups; g++)
    if (group_copies(&self->groups[g])) return true;
  for (uint32_t m = 0; m < self->n_instances; m++)
    if (self->instances[m].activity == ACTIVITY_DECODE) return true;
  return false;
}

/* Between samples that an observer wants; 0: none. */
static Tick watch_interval(const Simulation *self) {
  const SimObserver *observer = self->config->observer;
  return observer && observer->on_sample ? observer->interval : 0;
}

/* Where rows are kept, or somebody watches. */
static bool is_used(const Simulation *self) {
  const SimObserver *observer = self->config->observer;
  return self->config->timeline_interval > 0 || watch_interval(self) > 0 ||
         (observer && observer->on_group);
}

static void start(Simulation *self) {
  Timeline *timeline = timeline_of(self);
  *timeline = (Timeline){.interval = self->config->timeline_interval,
                         .newest = ARENA_ARRAY(self->arena, TimelineRow, self->n_groups)};
  for (uint32_t g = 0; g < self->n_groups; g++)
    timeline->newest[g].at = -1;
}

static bool is_due(Tick now, Tick interval) {
  return interval > 0 && now % interval == 0;
}

/* The first multiple after now. */
static Tick next_due(Tick now, Tick interval) {
  if (interval == 0 || interval > TICK_MAX - now) return TICK_MAX;
  return now - now % interval + interval;
}

/* The clock goes on to `until` > now: looks at groups and, for an observer, at instances as they
 * are now, and at the multiples of their intervals before `until`. Samples between two events are
 * of a copy of the simulation whose clock stands there, all that ends by then ended. */
static void look_until(const Simulation *self, Tick until) {
  const Tick kept = timeline_of(self)->interval, watched = watch_interval(self);
  const Tick first = is_due(self->now, watched) ? self->now : next_due(self->now, watched);
  if (self->n_groups == 0 && first >= until) return;
  bool seen[2] = {kept == 0, watched == 0}; // once, of what stands still
  Simulation moment = *self;
  moment.reached = UINT64_MAX;
  while (moment.now < until) {
    const bool due[2] = {is_due(moment.now, kept), is_due(moment.now, watched)};
    for (uint32_t g = 0; g < self->n_groups; g++)
      look(&moment, &self->groups[g], due[kept == 0]);
    if (due[1]) sample(&moment);
    for (int i = 0; i < 2; i++)
      seen[i] |= due[i];
    if (seen[0] && seen[1] && !goes_on(self)) return;
    const Tick next[2] = {next_due(moment.now, kept), next_due(moment.now, watched)};
    moment.now = next[0] < next[1] ? next[0] : next[1];
  }
}

static void look_before(Simulation *self, Tick next) {
  if (next > self->now) look_until(self, next);
}

static void end(Simulation *self) {
  look_until(self, self->now + 1);
}

static void sum_up(Simulation *self, SimResult *result) {
  if (self->config->timeline_interval > 0) result->timeline = timeline_of(self);
}

const Feature feature_timeline = {
    .state_size = sizeof(Timeline),
    .is_used = is_used,
    .start = start,
    .event_comes = look_before,
    .run_ends = end,
    .sums_up = sum_up,
};
