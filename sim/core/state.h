/* All of a run's state. What it is made of has headers of its own; what happens to it is in the
 * parts that README.md lists. */
#ifndef SIM_CORE_STATE_H
#define SIM_CORE_STATE_H
#include "sim/batcher/batcher.h"
#include "sim/core/agenda.h"
#include "sim/core/attention_ranks.h"
#include "sim/core/feature.h"
#include "sim/core/link.h"
#include "sim/core/transfer.h"
#include "sim/dispatcher/dispatcher.h"
#include "sim/kvtier/kvtier.h"
#include "sim/pool/pool.h"
#include "sim/predictor/predictor.h"
#include "sim/router/router.h"
#include "sim/sim.h"

/* What of an instance's iterations goes to the parts of requests in its batch (parts.h), and of the
 * iteration with prefill in progress. */
typedef struct BatchTimes {
  Tick host;  // of the engine, in iterations of decodes
  Tick other; // that prefills added to those, or had for themselves
  Tick stall;
  Tick idle;  // in iterations that a failure broke off, too
  Tick ranks; // waiting for the batches of other attention ranks
} BatchTimes;

typedef struct InstanceParts {
  BatchTimes times; // so far, but for stall and idle
  Tick work, host;  // of the iteration: without copies; of that, the engine's
  Tick ranks;       // of it, what other attention ranks took longer
  Tick decodes;     // of it, what its decodes alone would have taken
  Tick decode_host; // of those, the engine's
} InstanceParts;

typedef struct RequestParts {
  TimeParts booked;
  Tick since;      // all before is
  Tick wire;       // of KV on the move, as it would take over links of its own
  Tick reshards;   // of its group until `since`
  Cause cause;     // of the time since
  bool decodes;    // unless it is in the batch since then,
  int64_t tokens;  // as one with so many tokens made
  BatchTimes then; // and the instance's times as it joined
} RequestParts;

/* A model and all that serves it: instances as policies see them, what those who decide for it
 * keep, and who waits in front. Instances are of one from the beginning, requests from their
 * arrival. */
struct Deployment {
  const ModelSpec *spec;
  ClusterView view; // for policies by sim_cluster, which brings it up to now
  void *router_state, *predictor_state, *dispatcher_state, *pool_state;
  RequestQueue front;     // in order of arrival there (front.h)
  int64_t smallest_room;  // tokens of KV that fit on every instance
  InstanceIx roomiest[2]; // by phase, see deployment_roomiest
  int64_t smallest_store; // tokens of KV that fit in the store of every group
  int64_t longest_input;  // tokens that each of its encoders can encode; INT64_MAX: it has none
  bool knows_roomiest;    // until a home changes, or who takes requests
  bool wakes;             // requests in front make a scaler start instances that are off
};

struct Simulation {
  const SimConfig *config;
  Arena *arena;
  Diag *diag;
  bool failed;  // a callback or the trace did; the loop stops
  bool stopped; // on_request wants no more
  bool step;    // every iteration on its own
  bool keeps_parts;

  Tick now;
  Event event;      // being handled
  uint64_t reached; // the highest order among the events of this tick so far
  Agenda agenda;
  uint64_t n_events;
  size_t n_retries;  // pending events that only ask for room again
  size_t n_refusals; // of those, since anything else happened

  RequestTable requests;
  bool keeps_content;    // some instance has a prefix cache, or the router knows content
  RequestMemory *memory; // [requests.n_slots] then
  size_t memory_capacity;
  struct RequestInputs *inputs; // of requests that have some (encoder.h)
  size_t inputs_capacity;
  RequestParts *parts; // [requests.n_slots] where they are kept
  size_t parts_capacity;
  Delivered *delivered; // [requests.n_slots], of those with resumed_tokens or remakes_first
  size_t delivered_capacity;
  CutRequest *cuts; // [requests.n_slots], of those with a cut
  size_t cuts_capacity;
  InstanceParts *instance_parts; // [n_instances] likewise
  uint32_t n_down;               // instances that are out (instance_is_out)
  uint64_t n_copies;             // slots in use beside those of requests
  Instance *instances;
  uint32_t n_instances;
  Group *groups;
  uint32_t n_groups;
  Links links;
  TransferTable transfers;
  struct KvStore **kv_stores; // tiers under prefix caches (offloading.h)
  size_t n_kv_stores, kv_stores_capacity;
  Deployment *deployments; // [n_deployments] by model
  uint32_t n_deployments;
  ClusterColumns columns;
  BatchPlan plan;           // reused
  Ranks ranks;              // of an iteration's chunks; reused
  BatchSequence *sequences; // of an iteration for an executor; reused
  size_t n_sequences, sequences_capacity;

  const Router *router;
  const Predictor *predictor;
  const Dispatcher *dispatcher;
  const PoolPolicy *pool_policy;
  const TransferPolicy *transfer;
  void *transfer_state;

  TraceRow next_row;  // the pending arrival
  bool gathers;       // which is at this very tick: idle instances wait for it
  bool source_told;   // of an end, to which it may answer with an earlier one
  InstanceIx *marked; // to be settled, in order (marks.h)
  uint32_t n_marked;
  size_t marked_capacity;
  GroupIx *marked_groups; // [n_groups] the same
  uint32_t n_marked_groups;
  uint64_t n_arrived;     // requests so far
  uint64_t first_counted; // requests from this one on are; UINT64_MAX before the first arrives
  Tick warmed_up_at;      // the last one before it arrived; -1: none
  Tick counted_from;      // it arrived; 0 before
  Metrics metrics;
  ComponentMetrics *components; // of those that are counted: [config->n_components + n_classes]
  Metrics warm_up_metrics;      // of requests and times that are not counted
  Batches *batches;             // NULL: none are kept
  EventLog log;
  IterationSpan *watched; // [n_instances] those in progress; NULL: nobody watches

  EventHandler *handlers[EVENT_KINDS];
  void **feature_states; // by feature (feature/features.def); NULL: this run does not have it
  Hooks hooks;
};

#define HOOK(name, parameters, arguments)                                                          \
  static inline void tell_##name parameters {                                                      \
    for (uint32_t i = 0; i < self->hooks.n_##name; i++)                                            \
      self->hooks.name[i] arguments;                                                               \
  }
#define ASK(type, name, otherwise, parameters, arguments)                                          \
  static inline type ask_##name parameters {                                                       \
    return self->hooks.name ? self->hooks.name arguments : (otherwise);                            \
  }
#include "sim/core/hooks.def"

/* What a policy sees of an instance between iterations; in one, after sim_catch_up. */
static inline InstanceView sim_view(const Simulation *self, const Instance *instance) {
  return (InstanceView){.now = self->now,
                        .instance = instance,
                        .requests = self->requests.slots,
                        .memory = self->memory};
}

static inline Deployment *sim_deployment(const Simulation *self, const Request *request) {
  return &self->deployments[request->model];
}
static inline Deployment *sim_deployment_of(const Simulation *self, const Instance *instance) {
  return &self->deployments[instance->pool->model];
}

/* What its policies see, now. */
static inline const ClusterView *sim_cluster(const Simulation *self, Deployment *deployment) {
  ClusterView *view = &deployment->view;
  view->now = self->now;
  view->requests = self->requests.slots;
  view->memory = self->memory;
  return view;
}

static inline void sim_tell_router(Simulation *self, RequestIx request, Observation what,
                                   InstanceIx instance) {
  if (!self->router->observe) return;
  Deployment *deployment = sim_deployment(self, &self->requests.slots[request]);
  self->router->observe(deployment->router_state, sim_cluster(self, deployment), request, what,
                        instance);
}

/* An instance was away since then, for the hours of those who ask for them. */
static inline void sim_book_away(Simulation *self, const Instance *instance, HourAway why,
                                 Tick since) {
  if (self->metrics.good_limits.share > 0)
    hours_spend(&self->metrics.hours, why, since, self->now, pool_lanes(instance->pool));
}

/* Books of the class of a component; NULL: there are no classes. */
static inline ComponentMetrics *sim_class_books(const Simulation *self, uint16_t component) {
  const SimConfig *config = self->config;
  if (config->n_classes == 0) return NULL;
  return &self->components[config->n_components + config->components[component].class];
}

/* What makes it a good one; NULL: what makes all of them. */
static inline const GoodputLimits *sim_request_limits(const Simulation *self,
                                                      const Request *request) {
  return self->config->n_components > 0 ? &self->components[request->component].good_limits : NULL;
}

/* Of a request that is counted. */
static inline void sim_book_component_end(Simulation *self, const RequestRecord *record,
                                          bool good) {
  if (self->config->n_components == 0) return;
  ComponentMetrics *class = sim_class_books(self, record->component);
  component_metrics_end(&self->components[record->component], record, good);
  if (class) component_metrics_end(class, record, good);
}

static inline void sim_log(Simulation *self, Outcome outcome, const Request *request,
                           InstanceIx instance, int64_t a, int64_t b) {
  eventlog_add(&self->log, self->now, outcome, request ? request->id : LOG_NOBODY, instance, a, b);
}
#endif
