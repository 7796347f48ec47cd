/* The outcomes of a run, each with its tick: what the digest is of, and what --event-log writes.
 *
 * The digest is the sum of one hash per outcome, so it depends on what happened when, not on the
 * order in which equal times were handled or on internal steps. The log is CSV, one line per
 * outcome: time_s,event,request,instance,a,b with the meaning of a and b by event:
 *
 *   arrival        prompt tokens, output tokens       transfer_begin  to instance, tokens
 *   placement      decode instance, 1: by checkpoint   transfer_end    to instance, tokens
 *   rejection      prompt tokens, output tokens       decode_begin    -
 *   prefill_begin  tokens                             preemption      tokens of prefill lost
 *   first_token    -                                  recompute       tokens made so far
 *   last_token     -                                  role            from role, to role
 *   dispatch       decode instance                     flip            from role, to (begins)
 *   swap_out       tokens made so far, blocks         swap_in         the same
 *   expansion      KV blocks, KV blocks before
 *   copy_out       tokens, tick in which it ends      copy_in         the same (when queued)
 *   shape          shape and state of a group, from here on
 *   cancelled      Cancellation, output tokens that its client has
 *   failure        -                                  detection       -
 *   repair         -                                  up              -
 *   drain          -                                  away            - (it has drained)
 *   slow           millionths of its time (begins; 1,000,000: ends)
 *   link           the same of its NIC (0: it is down)
 *   store          1: the store of a group fails, 0: it is back
 *   lost           times it was before, output tokens that its client has
 *   checkpoint     bytes (its KV is in the checkpoint store)
 *   hedge          - (it is sent there as well)
 *   redundant      - (a copy leaves: the other was first, or is what is left) */
#ifndef SIM_BOOKS_EVENTLOG_H
#define SIM_BOOKS_EVENTLOG_H
#include "base/hash.h"
#include "base/units.h"
#include <stdio.h>

typedef enum Outcome {
  OUTCOME_ARRIVAL,
  OUTCOME_PLACEMENT,
  OUTCOME_REJECTION,
  OUTCOME_PREFILL_BEGIN,
  OUTCOME_FIRST_TOKEN,
  OUTCOME_TRANSFER_BEGIN,
  OUTCOME_TRANSFER_END,
  OUTCOME_DECODE_BEGIN,
  OUTCOME_PREEMPTION,
  OUTCOME_RECOMPUTE,
  OUTCOME_LAST_TOKEN,
  OUTCOME_ROLE,
  OUTCOME_DISPATCH,
  OUTCOME_FLIP,
  OUTCOME_SWAP_OUT,
  OUTCOME_SWAP_IN,
  OUTCOME_EXPANSION,
  OUTCOME_COPY_OUT,
  OUTCOME_COPY_IN,
  OUTCOME_SHAPE,
  OUTCOME_CANCELLED,
  OUTCOME_FAILURE,
  OUTCOME_DETECTION,
  OUTCOME_REPAIR,
  OUTCOME_UP,
  OUTCOME_LOST,
  OUTCOME_DRAIN,
  OUTCOME_AWAY,
  OUTCOME_SLOW,
  OUTCOME_START,
  OUTCOME_STOP,
  OUTCOME_OFF,
  OUTCOME_LINK,
  OUTCOME_STORE,
  OUTCOME_CHECKPOINT,
  OUTCOME_HEDGE,
  OUTCOME_REDUNDANT,
  OUTCOME_REARRANGEMENT,
  OUTCOMES,
} Outcome;

/* Who is told of each outcome; arguments as in eventlog_add. */
typedef void OutcomeListener(void *context, Tick at, Outcome outcome, uint64_t request,
                             uint32_t instance, int64_t a, int64_t b);

typedef struct EventLog {
  FILE *out;                 // NULL: no CSV
  OutcomeListener *listener; // NULL: nobody is told
  void *context;             // of the listener
  uint64_t digest;
} EventLog;

#define LOG_NOBODY UINT64_MAX

/* `out` may be NULL; it stays the caller's, who also checks it for write errors. */
void eventlog_init(EventLog *self, FILE *out);
/* Writes one line and tells the listener; private: eventlog_add. */
void eventlog_tell(const EventLog *self, Tick at, Outcome outcome, uint64_t request,
                   uint32_t instance, int64_t a, int64_t b);

/* Books an outcome; `request` is its id, or LOG_NOBODY for an instance's own. */
static inline void eventlog_add(EventLog *self, Tick at, Outcome outcome, uint64_t request,
                                uint32_t instance, int64_t a, int64_t b) {
  uint64_t what = (uint64_t)outcome << 56 ^ (uint64_t)a << 28 ^ (uint64_t)b;
  self->digest += hash_mix(hash_mix((uint64_t)at + UINT64_C(0x9e3779b97f4a7c15) * request) ^
                           (what + UINT64_C(0xd1342543de82ef95) * instance));
  if (self->out || self->listener) eventlog_tell(self, at, outcome, request, instance, a, b);
}
#endif
