/* Requests by the hour of simulated time in which they arrived, how many of them were good ones
 * (GoodputLimits), and how long instances were away in it: in which hours a service kept its word,
 * however well it did in the mean, and with how much. */
#ifndef SIM_BOOKS_HOURS_H
#define SIM_BOOKS_HOURS_H
#include "base/arena.h"
#include "base/units.h"

#define HOUR (3600 * TICKS_PER_SECOND)

/* Why instances are: not wanted; down, in maintenance or starting after that. */
typedef enum HourAway { HOURS_OFF, HOURS_DOWN, HOURS_AWAY } HourAway;

typedef struct HourCount {
  uint64_t asked, good;
  Tick away[HOURS_AWAY]; // of instances as they are bought, in instance-ticks
} HourCount;

typedef struct Hours {
  Arena *arena;
  HourCount *of; // [n] from time 0
  size_t n, capacity;
} Hours;

/* One arrives; they come in order of time. */
void hours_arrive(Hours *self, Tick at);
/* One that arrived then was good. */
static inline void hours_good(Hours *self, Tick arrived_at) {
  self->of[arrived_at / HOUR].good++;
}
/* One of the `lanes` of an instance was away from then to then. */
void hours_spend(Hours *self, HourAway why, Tick from, Tick to, uint32_t lanes);
/* Hours in which some arrived, and those of them in which less than `share` of these were good. */
uint64_t hours_asked(const Hours *self);
uint64_t hours_missed(const Hours *self, double share);
#endif
