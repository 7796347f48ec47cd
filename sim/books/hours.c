/* See hours.h. */
#include "sim/books/hours.h"

static HourCount *hour_of(Hours *self, Tick at) {
  while (at >= (Tick)self->n * HOUR) {
    ARENA_RESERVE(self->arena, self->of, self->capacity, self->n + 1);
    self->of[self->n++] = (HourCount){0};
  }
  return &self->of[at / HOUR];
}

void hours_arrive(Hours *self, Tick at) {
  hour_of(self, at)->asked++;
}

void hours_spend(Hours *self, HourAway why, Tick from, Tick to, uint32_t lanes) {
  while (from < to) {
    const Tick next = (from / HOUR + 1) * HOUR, end = next < to ? next : to;
    hour_of(self, from)->away[why] += (end - from) / lanes;
    from = end;
  }
}

uint64_t hours_asked(const Hours *self) {
  uint64_t n = 0;
  for (size_t i = 0; i < self->n; i++)
    n += self->of[i].asked > 0;
  return n;
}

uint64_t hours_missed(const Hours *self, double share) {
  uint64_t n = 0;
  for (size_t i = 0; i < self->n; i++)
    n += (double)self->of[i].good < share * (double)self->of[i].asked;
  return n;
}
