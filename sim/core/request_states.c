/* See request_states.h. */
#include "sim/core/request_states.h"
#include <stddef.h>

#define GPU       (1 << KV_GPU)
#define CPU       (1 << KV_CPU)
#define STORE     (1 << KV_STORE)
#define OF(queue) offsetof(Instance, queue)

#define KEPT                                                                                       \
  { CAUSES, CAUSES }
#define CAUSE(always)                                                                              \
  { CAUSE_##always, CAUSE_##always }

const RequestStateRow request_states[REQUEST_STATES] = {
    [REQUEST_FREE] = {-1},
    [REQUEST_NOWHERE] = {-1, .kv_places = STORE, .causes = KEPT},
    [REQUEST_WAITS_PREFILL] = {OF(prefill_queue), GPU | STORE, .prefills = 1, .present = 1,
                               .causes = {CAUSE_prefill_queue, CAUSE_preempted}},
    [REQUEST_PREFILLS] = {OF(prefill_queue), GPU | STORE, .prefills = 1, .present = 1,
                          .leaves = LEAVES_WITH_CHUNK, .causes = KEPT},
    [REQUEST_ENDS_PREFILL] = {-1, GPU | STORE, .prefills = 1, .present = 1,
                              .leaves = LEAVES_WITH_CHUNK, .causes = KEPT},
    [REQUEST_PREFILLED] = {-1, GPU | STORE, .present = 1, .causes = KEPT},
    [REQUEST_MOVES] = {-1, GPU | STORE, .outgoing = 1, .leaves = LEAVES_WITH_KV,
                       .causes = CAUSE(memory_wait)},
    [REQUEST_WAITS_DECODE] = {OF(decode_queue), GPU, .present = 1, .causes = CAUSE(decode_queue)},
    [REQUEST_RUNS] = {-1, GPU, .present = 1, .leaves = LEAVES_WITH_ITERATION, .causes = KEPT},
    [REQUEST_BLOCKED] = {OF(blocked), GPU, .present = 1, .causes = CAUSE(preempted)},
    [REQUEST_SWAPPED] = {OF(swapped), CPU, .present = 1, .causes = CAUSE(swapped)},
    [REQUEST_STORED] = {offsetof(Group, stored), STORE, .in_group = true, .causes = CAUSE(store)},
    [REQUEST_FETCHED] = {-1, GPU | STORE, .leaves = LEAVES_WITH_KV, .causes = CAUSE(store)},
    [REQUEST_COMPUTES] = {OF(running), GPU, .prefills = 1, .present = 1,
                          .leaves = LEAVES_WITH_ITERATION, .causes = KEPT},
    [REQUEST_GENERATES] = {OF(running), GPU, .present = 1, .leaves = LEAVES_WITH_ITERATION,
                           .causes = KEPT},
    [REQUEST_RESTORES] = {-1, .leaves = LEAVES_WITH_KV, .causes = CAUSE(restore)},
    [REQUEST_AWAITS] = {-1, .causes = CAUSE(outage)},
    [REQUEST_HELD] = {-1, .causes = CAUSE(admission)},
};

InstanceIx life_instance(const Simulation *self, const Request *request) {
  if (request->first_token_at < 0) return request->prefill_instance;
  if (request->state != REQUEST_MOVES) return request->decode_instance;
  const bool grouped = self->instances[request->prefill_instance].group;
  return grouped && request->decode_instance != INSTANCE_NONE ? request->decode_instance
                                                              : request->prefill_instance;
}
