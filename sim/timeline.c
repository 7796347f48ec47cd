/* Looking at groups: see timeline.h. */
#include "sim/memory.h"
#include "sim/shaping.h"
#include <assert.h>

/* Copies that have ended though the group has not had an event since. */
static void leave_out_ended(const Engine *self, const Group *group, TimelineRow *row) {
  for (int direction = 0; direction < COPY_DIRECTIONS; direction++) {
    const KvCopies *copies = &group->copies[direction];
    for (size_t i = copies->first; i < copies->last && copies->items[i].end <= self->now; i++) {
      const Request *request = &self->requests.slots[copies->items[i].request];
      if (direction == COPY_IN) {
        row->store_blocks -= request->store_blocks;
      } else {
        row->gpu_blocks -= request->kv_blocks;
        row->n_decoding -= request->decode_machine != MACHINE_NONE;
      }
    }
  }
}

static TimelineRow row_of(const Engine *self, const Group *group) {
  TimelineRow row = {.at = self->now,
                     .group = group->ix,
                     .shape = group->shape,
                     .activity = group_activity(group),
                     .store_blocks = group->spec->store_blocks - group->free_blocks};
  for (uint32_t i = 0; i < group->n_machines[group->shape]; i++) {
    const Machine *machine = &self->machines[group->first[group->shape] + i];
    row.gpu_blocks += machine->pool->kv_blocks - engine_free_blocks(self, machine);
  }
  for (uint32_t i = 0; i < group->n_machines[SHAPE_PREFILL]; i++)
    row.n_prompts += self->machines[group->first[SHAPE_PREFILL] + i].n_prefills;
  for (uint32_t i = 0; i < group->n_machines[SHAPE_DECODE]; i++)
    row.n_decoding += self->machines[group->first[SHAPE_DECODE] + i].n_decodes;
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
static void look(const Engine *self, const Group *group, bool sampled) {
  Timeline *timeline = self->timeline;
  const size_t next = timeline->next[group->ix];
  const TimelineRow *last = next > 0 ? &timeline->rows[next - 1] : NULL;
  const bool same = last && same_activity(last, group);
  if (same && !sampled) return;
  const TimelineRow row = row_of(self, group);
  if (same && same_memory(last, &row)) return;
  ARENA_RESERVE(self->arena, timeline->rows, timeline->capacity, timeline->n_rows + 1);
  timeline->rows[timeline->n_rows++] = row;
  timeline->next[group->ix] = timeline->n_rows;
}

/* Whether anything goes on between events: decode runs, and copies that nobody waits for. */
static bool goes_on(const Engine *self) {
  for (uint32_t g = 0; g < self->n_groups; g++)
    if (group_copies(&self->groups[g])) return true;
  for (uint32_t m = 0; m < self->n_machines; m++)
    if (self->machines[m].activity == ACTIVITY_DECODE) return true;
  return false;
}

void engine_init_timeline(Engine *self) {
  self->timeline = ARENA_NEW(self->arena, Timeline);
  *self->timeline = (Timeline){.interval = self->config->timeline_interval,
                               .next = ARENA_ARRAY(self->arena, size_t, self->n_groups)};
}

/* Samples between two events are of a copy of the engine whose clock stands there, all that ends by
 * then ended. */
void engine_look(const Engine *self, Tick until) {
  const Tick interval = self->timeline->interval;
  Engine moment = *self;
  moment.reached = UINT64_MAX;
  while (moment.now < until) {
    const Tick past = moment.now % interval;
    for (uint32_t g = 0; g < self->n_groups; g++)
      look(&moment, &self->groups[g], past == 0);
    if (interval - past >= until - moment.now || (past == 0 && !goes_on(self))) return;
    moment.now += interval - past;
  }
}
