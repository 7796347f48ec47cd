/* Instances that break, are maintained or slow down, and come back.
 *
 * A source of faults is over instances that fail together: a replica, of which one GPU takes the
 * whole; a rank of one that goes on without it (PoolSpec.shrinks); a machine as it is bought; or a
 * failure domain, such as a rack or a power feed, which
 * takes instances of several pools. It alternates between a time in which all is well and one in
 * which it is not, drawn from its own stream or as a schedule has them; what its instances do then
 * is its kind. An instance is down while any of its sources says so.
 *
 *   up ──► down ──────► boots ──► up       a fault, its repair, the start of the engine
 *            └► detected                   the router learns of it, and what was there is lost
 *
 * Fail-stop: the iteration in which a fault strikes is broken off and makes nothing. Until the
 * fault is detected the router goes on placing requests there, where they wait, and KV on its way
 * from it or to it stands still; then the instance leaves its lists, and all that was there begins
 * anew in front (front.h), with what it held in KV memory and CPU memory gone. Who was to be
 * decoded there, and whose KV is still where it is prefilled, gets another instance for that
 * (sim_other_decode), to which all of it moves, and begins anew only if there is none, or as
 * many have failed as it may be tried again. One that is back before that is detected as it starts.
 * Where no instance is up for a phase, requests wait in front.
 *
 * Drain (draining.h): the router, which is told at once, places nothing more there but what only
 * that instance has room for; it finishes what it has and what is on its way there, and is then
 * away until the time is over and its engine has started. One that has not finished by then goes
 * on.
 *
 * Slow, a straggler: iterations that begin in that time take `factor` times as long, the engine's
 * host included; of several sources the largest factor counts. Links and copies are as fast as
 * ever, and nobody is told. In the parts of a request's time it is in prefill_batch and
 * decode_batch. With another clock (SimConfig.executor) it has no effect.
 *
 * Link: the NICs of the instances move KV at the `factor`th part of their rate, or none at all; of
 * several sources the worst counts. KV on its way then waits, with its room at the receiver, and
 * goes on where it was; nobody is told. Transfers with a link of their own (splitwise_sim) are as
 * fast as ever, and so is what requests and tokens take to and from the router.
 *
 * Groups (group.h) fail as one: one GPU takes the instances of both shapes, whichever pool the
 * source is of, also while it turns. What was on the GPUs, in the store and on its way between them
 * is lost as the failure is detected. It starts as its prefill pool does, in that shape. Sources of
 * kind drain and link are not of groups.
 *
 * Store: that of each group of the instances loses what it holds and is out of use, while the GPUs
 * go on. The group knows at once. Whoever has a place in it is lost: in the store at once, else
 * with the chunk that it is in or as its copy would end. Until it is repaired no prompt begins, and
 * what is on the GPUs is decoded there: a group that leaves decode goes on with that instead.
 *
 * Nothing of it keeps a run alive in which no request is left. */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H
#include "base/rng.h"
#include "base/units.h"
#include <stdbool.h>

typedef enum LifetimeKind {
  LIFETIME_CONSTANT,
  LIFETIME_EXPONENTIAL,
  LIFETIME_WEIBULL,   // scale · (−ln U)^(1/shape)
  LIFETIME_LOGNORMAL, // `shape` is sigma of the logarithm
  LIFETIMES,
} LifetimeKind;

typedef struct Lifetime {
  LifetimeKind kind;
  double mean;  // seconds
  double shape; // > 0, of weibull and lognormal
} Lifetime;

/* Draws one, at least a tick and at most TICK_MAX. */
Tick lifetime_draw(const Lifetime *self, Rng *rng);

typedef struct FaultSpan {
  Tick from, until; // from < until, one after the other
} FaultSpan;

typedef enum FaultKind {
  FAULT_FAIL,
  FAULT_DRAIN, // maintenance
  FAULT_SLOW,  // a straggler
  FAULT_LINK,  // of their NICs
  FAULT_STORE, // of their groups' stores
  FAULT_KINDS,
} FaultKind;

/* Instances of one pool, one after another, as the cluster numbers them. */
typedef struct FaultPart {
  uint32_t first, n_instances;
} FaultPart;

typedef struct FaultSource {
  FaultKind kind;
  double factor;               // of slow: 1 to SLOWDOWN_MAX (perfmodel/time_scale.h); of link:
                               // at least 1, or 0: down
  uint32_t first, n_instances; // of one pool, numbered as the cluster has them
  const FaultPart *others;     // [n_others] of a domain: the rest of what it takes
  uint32_t n_others;
  Lifetime up, down;      // without a schedule
  const FaultSpan *spans; // a schedule
  size_t n_spans;         // 0: times are drawn
} FaultSource;

/* The parts of a source, of which it has 1 + n_others. */
static inline FaultPart fault_part(const FaultSource *self, uint32_t i) {
  return i == 0 ? (FaultPart){self->first, self->n_instances} : self->others[i - 1];
}

typedef struct RetryOptions {
  int64_t limit;     // times that a request is tried again
  Tick backoff;      // before the first of them
  Tick most_backoff; // 0: no limit
  bool resume;       // what its client has is not made again, but read as part of the prompt
} RetryOptions;

/* Requests that wait are sent to another instance as well (hedging.c). */
typedef struct HedgeOptions {
  Tick after;   // since they were placed; 0: none are
  double share; // at most, of the requests that have arrived
} HedgeOptions;

/* A store for the KV of prompts (checkpoint.c). */
typedef struct CheckpointOptions {
  int64_t bandwidth; // bytes/s in and out; 0: there is none
  int64_t capacity;  // bytes; 0: any number
} CheckpointOptions;
#endif
