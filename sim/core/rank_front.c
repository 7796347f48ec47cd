/* See rank_front.h. */
#include "sim/core/rank_front.h"
#include <string.h>

#define MILLISECOND (TICKS_PER_SECOND / 1000)

enum { QUIET_MS = 50, CHANGED_MS = 100, UNCHANGED_MS = 5000 };

/* Weight of those that wait where KV memory is more than half full. */
#define CROWDED_WEIGHT 6.0
#define CROWDED_USE    0.5

/* Nobody has told anything since `now`. */
static void arm(RankFront *self, Tick now) {
  const int64_t quiet = self->keeps_before ? 0 : QUIET_MS;
  const int64_t since = now / MILLISECOND - self->published_at / MILLISECOND;
  const int64_t more = (self->changed ? CHANGED_MS : UNCHANGED_MS) - since;
  self->due = now + MILLISECOND * (more > quiet ? more : quiet);
}

static void publish(RankFront *self) {
  const RankCounts *counts = self->keeps_before ? self->before : self->told;
  memcpy(self->seen, counts, self->n * sizeof *counts);
  if (!self->keeps_before) self->changed = false;
  self->keeps_before = false;
  self->seen_wave = self->present_wave;
  self->published_at = self->due;
  arm(self, self->due);
}

/* All that is published before now. */
static void advance(RankFront *self, Tick now) {
  while (self->due < now)
    publish(self);
}

/* The same as of a request that comes now: publications of its time go before it. */
static void advance_to(RankFront *self, Tick now) {
  while (self->due <= now)
    publish(self);
}

static void reset(RankFront *self, Tick now) {
  memset(self->told, 0, self->n * sizeof *self->told);
  memset(self->seen, 0, self->n * sizeof *self->seen);
  self->keeps_before = self->changed = self->runs = false;
  self->wave = self->counter = -1;
  self->present_wave = self->seen_wave = 0;
  arm(self, now);
}

void rank_front_init(RankFront *self, uint32_t n, Arena *arena) {
  *self = (RankFront){.n = n,
                      .told = ARENA_ARRAY(arena, RankCounts, n),
                      .before = ARENA_ARRAY(arena, RankCounts, n),
                      .seen = ARENA_ARRAY(arena, RankCounts, n),
                      .published_at = -UNCHANGED_MS * MILLISECOND};
  reset(self, 0);
}

static double score(const RankCounts *seen, int64_t own) {
  const int64_t here = seen->waiting + seen->running;
  const double most = (double)(own > here ? own : here);
  const double beyond = seen->kv_use > CROWDED_USE ? seen->kv_use - CROWDED_USE : 0;
  return most + (double)seen->waiting * CROWDED_WEIGHT * beyond;
}

uint32_t rank_front_pick(RankFront *self, Tick now, const int64_t *own, const bool *may) {
  advance_to(self, now);
  uint32_t best = self->n;
  double least = 0;
  for (uint32_t i = 0; i < self->n; i++) {
    const uint32_t rank = (self->start + i) % self->n;
    if (!may[rank]) continue;
    const double here = score(&self->seen[rank], own[rank]);
    if (best < self->n && here >= least) continue;
    best = rank;
    least = here;
  }
  self->seen[best].waiting++;
  self->start = (self->start + 1) % self->n;
  return best;
}

void rank_front_send(RankFront *self, Tick now, uint32_t rank) {
  advance_to(self, now);
  self->seen[rank].waiting++;
}

void rank_front_tell(RankFront *self, Tick now, uint32_t rank, int64_t wave, int64_t counter,
                     RankCounts counts) {
  advance(self, now);
  if (wave > self->wave || (wave == self->wave && counter > self->counter)) {
    if (self->changed) memcpy(self->before, self->told, self->n * sizeof *self->told);
    self->keeps_before |= self->changed;
    self->wave = wave;
    self->counter = counter;
  }
  self->told[rank] = counts;
  self->changed = true;
  arm(self, now);
}

void rank_front_end_wave(RankFront *self, Tick now, int64_t wave) {
  advance(self, now);
  if (self->present_wave <= wave) {
    self->present_wave = self->seen_wave = wave + 1;
    self->runs = false;
  }
  arm(self, now);
}

bool rank_front_begin_wave(RankFront *self, Tick now, int64_t wave) {
  advance(self, now);
  const bool begins = wave > self->present_wave || (wave == self->present_wave && !self->runs);
  if (begins) {
    self->present_wave = self->seen_wave = wave;
    self->runs = true;
  }
  arm(self, now);
  return begins;
}

void rank_front_forget(RankFront *self, Tick now) {
  reset(self, now);
}
