/* See rank_spread.h. */
#include "sim/core/rank_spread.h"
#include "base/hash.h"
#include "base/rng.h"

/* Of the ranks, what they have and whether they may take a request. */
static void look(const Simulation *self, const Instance *instance) {
  Lockstep *lockstep = instance->lockstep;
  for (uint32_t i = 0; i < lockstep->n; i++) {
    const Instance *rank = &lockstep->first[i];
    lockstep->own[i] = column_at(self->columns.n_assigned, rank->ix);
    lockstep->may[i] = rank == instance || (rank->listed && rank->role == instance->role);
  }
}

/* The first from `rank` on that may take it. */
static uint32_t first_from(const Lockstep *self, uint32_t rank) {
  while (!self->may[rank])
    rank = (rank + 1) % self->n;
  return rank;
}

static uint32_t in_turn(Lockstep *self) {
  const uint32_t rank = first_from(self, self->turn);
  self->turn = (rank + 1) % self->n;
  return rank;
}

/* Rooms in which a prefill and a decode instance meet are drawn by the router before them; both go
 * by the same. */
static uint32_t by_room(const Simulation *self, const Lockstep *lockstep, RequestIx ix) {
  Rng rng;
  const uint64_t id = self->requests.slots[ix].id;
  rng_init(&rng, hash_fold(self->config->seed, id), "bootstrap_room");
  return first_from(lockstep, (uint32_t)((rng_u64(&rng) >> 1) % lockstep->n));
}

/* The rank with the least of a figure, of equals with the fewest requests, the first of those. */
static uint32_t least_of(const Lockstep *self, const int64_t *figures) {
  uint32_t best = self->n;
  for (uint32_t i = 0; i < self->n; i++) {
    if (!self->may[i]) continue;
    const bool less = best == self->n || figures[i] < figures[best] ||
                      (figures[i] == figures[best] && self->own[i] < self->own[best]);
    if (less) best = i;
  }
  return best;
}

static uint32_t by_tokens(const Simulation *self, Lockstep *lockstep) {
  for (uint32_t i = 0; i < lockstep->n; i++)
    lockstep->figures[i] = column_at(self->columns.kv_blocks, lockstep->first[i].ix);
  return least_of(lockstep, lockstep->figures);
}

static int64_t prompt_tokens(const Simulation *self, const RequestQueue *queue) {
  int64_t tokens = 0;
  const Request *slots = self->requests.slots;
  for (RequestIx ix = queue->first; ix != REQUEST_NONE; ix = slots[ix].next)
    tokens += slots[ix].prompt_tokens;
  return tokens;
}

/* The fewest tokens of prompts, of ranks that have not their share of all requests yet. */
static uint32_t balanced(const Simulation *self, Lockstep *lockstep) {
  // of an instance whose failure is not known yet all may be gone
  const int64_t n = lockstep->n_alive > 0 ? lockstep->n_alive : lockstep->n;
  int64_t all = 1, most = 0;
  for (uint32_t i = 0; i < lockstep->n; i++) {
    all += lockstep->own[i];
    if (lockstep->own[i] > most) most = lockstep->own[i];
  }
  const int64_t share = (all + n - 1) / n > most ? (all + n - 1) / n : most;
  bool any = false;
  for (uint32_t i = 0; i < lockstep->n; i++)
    any |= lockstep->may[i] && lockstep->own[i] < share;
  for (uint32_t i = 0; i < lockstep->n; i++) {
    const Instance *rank = &lockstep->first[i];
    lockstep->may[i] &= !any || lockstep->own[i] < share;
    lockstep->figures[i] = prompt_tokens(self, &rank->running) +
                           prompt_tokens(self, &rank->prefill_queue) +
                           prompt_tokens(self, &rank->decode_queue);
  }
  return least_of(lockstep, lockstep->figures);
}

/* As SGLang's `auto` has it: an instance that only prefills goes by rooms. */
static RankSpread spread_of(const Instance *instance) {
  const RankSpread spread = instance->scheduler->limits.rank_spread;
  if (spread != RANKS_AUTO) return spread;
  return instance->role == ROLE_PREFILL ? RANKS_BY_ROOM : RANKS_IN_TURN;
}

InstanceIx rank_spread_pick(Simulation *self, const Instance *instance, RequestIx ix) {
  Lockstep *lockstep = instance->lockstep;
  uint32_t rank = 0;
  look(self, instance);
  switch (spread_of(instance)) {
  case RANKS_BY_FRONT:
    rank = rank_front_pick(&lockstep->front, self->now, lockstep->own, lockstep->may);
    break;
  case RANKS_AUTO:
  case RANKS_IN_TURN:
    rank = in_turn(lockstep);
    break;
  case RANKS_BY_ROOM:
    rank = by_room(self, lockstep, ix);
    break;
  case RANKS_BY_REQUESTS:
    rank = least_of(lockstep, lockstep->own);
    break;
  case RANKS_BY_TOKENS:
    rank = by_tokens(self, lockstep);
    break;
  case RANKS_BALANCED:
    rank = balanced(self, lockstep);
    break;
  }
  return lockstep->first->ix + rank;
}

void rank_spread_send(const Simulation *self, const Instance *instance) {
  Lockstep *lockstep = instance->lockstep;
  if (spread_of(instance) != RANKS_BY_FRONT) return;
  rank_front_send(&lockstep->front, self->now, (uint32_t)(instance - lockstep->first));
}
