/* Arrows from where a request was prefilled, by way of its KV's transfer, to where it is decoded;
 * they are drawn once they are there, so that each has its beginning and its end. */
#include "experiments/timeline/recorder.h"

enum { NANOSECOND = TICKS_PER_SECOND / 1000000000 };

static Arrow *find(const Arrows *self, uint64_t request) {
  const uint32_t *place = key_map_find(&self->of_request, request + 1);
  return place ? &self->items[*place - 1] : NULL;
}

void recorder_begin_arrow(Recorder *self, uint64_t request, InstanceIx from, Tick at) {
  Arrows *arrows = &self->arrows;
  uint32_t place = arrows->first_free;
  if (place > 0) {
    arrows->first_free = arrows->items[place - 1].next_free;
  } else {
    ARENA_RESERVE(self->arena, arrows->items, arrows->capacity, arrows->n + 1);
    place = (uint32_t)++arrows->n;
  }
  *key_map_put(&arrows->of_request, request + 1, self->arena) = place;
  arrows->items[place - 1] = (Arrow){.from = from, .from_at = at};
}

void recorder_bend_arrow(Recorder *self, uint64_t request, TrackId link, Tick at) {
  Arrow *arrow = find(&self->arrows, request);
  if (!arrow) return;
  arrow->link = link;
  arrow->link_at = at;
}

void recorder_drop_arrow(Recorder *self, uint64_t request) {
  Arrows *arrows = &self->arrows;
  const uint32_t *place = key_map_find(&arrows->of_request, request + 1);
  if (!place) return;
  arrows->items[*place - 1].next_free = arrows->first_free;
  arrows->first_free = *place;
  key_map_remove(&arrows->of_request, request + 1);
}

/* Its points lie within the slices that end, or begin, at its times. */
static void draw(Recorder *self, const Arrow *arrow, uint64_t request, InstanceIx to, Tick at) {
  MachineRow *from = &self->machines[arrow->from];
  const bool wanted = from->shown && self->machines[to].shown &&
                      arrow->from_at > self->options->from &&
                      recorder_draws(self, at, at + NANOSECOND);
  if (!wanted) return;
  self->counts.arrows++;
  const Tick join = self->options->join;
  if (join > 0 && from->arrow_at >= 0 && arrow->from_at < from->arrow_at + join) return;
  from->arrow_at = arrow->from_at;
  self->counts.arrows_drawn++;
  events_flow(&self->events, 's', from->track.id, request, arrow->from_at - NANOSECOND);
  if (arrow->link.tid > 0)
    events_flow(&self->events, 't', arrow->link, request, arrow->link_at - NANOSECOND);
  events_flow(&self->events, 'f', self->machines[to].track.id, request, at + NANOSECOND);
}

void recorder_end_arrow(Recorder *self, uint64_t request, InstanceIx to, Tick at) {
  const Arrow *arrow = find(&self->arrows, request);
  if (arrow && arrow->from != to) draw(self, arrow, request, to, at);
  recorder_drop_arrow(self, request);
}
