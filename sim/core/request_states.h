/* What holds of a request in each of its states: transitions (lifecycle.h) move it from row to row,
 * and the audit counts requests by the same rows. */
#ifndef SIM_CORE_REQUEST_STATES_H
#define SIM_CORE_REQUEST_STATES_H
#include "sim/core/state.h"

/* When a request whose client gives up leaves. */
typedef enum Leaving {
  LEAVES_AT_ONCE,
  LEAVES_WITH_CHUNK,     // as the iteration ends that its chunk is in
  LEAVES_WITH_ITERATION, // as the one ends that computes it; at once where none does
  LEAVES_WITH_KV,        // when that is across; at once where it waits for room
} Leaving;

typedef enum KvPlace { KV_NONE, KV_GPU, KV_CPU, KV_STORE, KV_PLACES } KvPlace;

/* What holds of a request in a state. It counts on the instance where it is, which is the one that
 * prefills it until its first token, that which decodes it afterwards, and while it moves the one
 * it leaves. */
typedef struct RequestStateRow {
  int16_t queue;     // that it is in: offset in Instance or Group; -1: none, or the transport's
  uint8_t kv_places; // bits by KvPlace: where it may hold KV
  bool in_group;     // that queue is its group's
  int8_t prefills;   // counts in n_prefills; what is left of its prefill in pending_tokens
  int8_t present;    // counts in n_present
  int8_t outgoing;   // counts in n_outgoing
  uint8_t leaves;    // Leaving
  uint8_t causes[2]; // Cause of its time there, before its first token and after; CAUSES: as before
} RequestStateRow;

extern const RequestStateRow request_states[REQUEST_STATES];

/* The instance where a request is; INSTANCE_NONE while it is in a store or in front. */
InstanceIx life_instance(const Simulation *self, const Request *request);
#endif
