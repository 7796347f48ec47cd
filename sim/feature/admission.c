/* Who may come in: classes of requests with a limit on how many are in flight, and tenants with
 * limits of their own, among whom those who wait are served fairly. RULES.md has the rules.
 *
 * A request is *in flight* from when it is admitted until it has left for good; one that is lost
 * with an instance stays so. Components of a class and a tenant share a *lane*, a queue in order of
 * arrival (REQUEST_HELD). Whenever somebody leaves, or a tenant's bucket is no longer empty, the
 * lanes that may are admitted from: by the class's priority, then the tenant with the least service
 * so far over its weight (Sheng et al., Fairness in Serving Large Language Models, OSDI 2024,
 * Algorithm 2), then the first to have arrived. */
#include "sim/core/counting.h"
#include "sim/core/front.h"
#include "sim/core/lifecycle.h"
#include "sim/feature/early_rejection.h"
#include "sim/feature/features.h"
#include <assert.h>
#include <math.h>

/* Of tokens in service, as the paper weighs them (§5: w_p and w_q). */
enum { PROMPT_WORTH = 1, OUTPUT_WORTH = 2 };

typedef struct ClassState {
  const ClassSpec *spec;
  int64_t n_in_flight, n_held;
} ClassState;

typedef struct TenantState {
  const TenantSpec *spec;
  int64_t n_in_flight, n_held;
  Tick paid_until; // what it was served is paid for by then: it may go on from then on
  double counter;  // virtual: service over weight, lifted when it comes back
  Total service;   // what it was really served
} TenantState;

/* Components of the same class and tenant. */
typedef struct Lane {
  ClassState *class;
  TenantState *tenant;
  RequestQueue queue;
} Lane;

typedef struct Admission {
  ClassState *classes;
  TenantState *tenants;
  Lane *lanes;
  Lane **of; // [n_components]
  uint32_t n_lanes;
  int64_t n_held;
  const TenantState *last; // of those held the last to go
} Admission;

static Admission *admission_of(const Simulation *self) {
  return self->feature_states[FEATURE_admission];
}

static Lane *lane_of(const Simulation *self, const Request *request) {
  return admission_of(self)->of[request->component];
}

static Lane *find_lane(Admission *self, ClassState *class, TenantState *tenant) {
  for (uint32_t i = 0; i < self->n_lanes; i++)
    if (self->lanes[i].class == class && self->lanes[i].tenant == tenant) return &self->lanes[i];
  Lane *lane = &self->lanes[self->n_lanes++];
  *lane = (Lane){.class = class, .tenant = tenant, .queue = REQUEST_QUEUE_EMPTY};
  return lane;
}

static bool is_used(const Simulation *self) {
  return self->config->n_classes > 0 || self->config->early_rejection.ttft > 0;
}

static void start(Simulation *self) {
  const SimConfig *config = self->config;
  if (config->n_classes == 0) return;
  assert(config->n_components > 0 && config->n_tenants > 0);
  Arena *arena = self->arena;
  Admission *admission = admission_of(self);
  *admission = (Admission){.classes = ARENA_ARRAY(arena, ClassState, config->n_classes),
                           .tenants = ARENA_ARRAY(arena, TenantState, config->n_tenants),
                           .lanes = ARENA_ARRAY(arena, Lane, config->n_components),
                           .of = ARENA_ARRAY(arena, Lane *, config->n_components)};
  for (uint32_t i = 0; i < config->n_classes; i++)
    admission->classes[i].spec = &config->classes[i];
  for (uint32_t i = 0; i < config->n_tenants; i++)
    admission->tenants[i].spec = &config->tenants[i];
  for (uint32_t i = 0; i < config->n_components; i++) {
    const ComponentSpec *component = &config->components[i];
    admission->of[i] = find_lane(admission, &admission->classes[component->class],
                                 &admission->tenants[component->tenant]);
  }
  agenda_reserve(&self->agenda, EVENT_ADMISSION, 1);
}

/* --- limits */

static bool has_room(int64_t n, int64_t most) {
  return most == 0 || n < most;
}

static bool may_enter(const Simulation *self, const Lane *lane) {
  return has_room(lane->class->n_in_flight, lane->class->spec->max_in_flight) &&
         has_room(lane->tenant->n_in_flight, lane->tenant->spec->max_in_flight) &&
         lane->tenant->paid_until <= self->now;
}

/* Tokens are paid for at the tenant's rate; what it did not use of the last `burst` is lost. */
static void pay(const Simulation *self, TenantState *tenant, int64_t tokens) {
  const TenantSpec *spec = tenant->spec;
  if (spec->token_ticks == 0) return;
  const Tick earliest = self->now - spec->burst;
  if (tenant->paid_until < earliest) tenant->paid_until = earliest;
  const Tick most = TICK_MAX - tenant->paid_until;
  tenant->paid_until += tokens > most / spec->token_ticks ? most : tokens * spec->token_ticks;
}

static void serve(const Simulation *self, TenantState *tenant, int64_t tokens, int worth) {
  pay(self, tenant, tokens);
  tenant->counter += (double)(tokens * worth) / tenant->spec->weight;
  tenant->service += tokens * worth;
}

/* --- entering and leaving */

static void enter(Simulation *self, Lane *lane, Request *request) {
  request->admitted = true;
  lane->class->n_in_flight++;
  lane->tenant->n_in_flight++;
  admission_of(self)->last = lane->tenant;
  serve(self, lane->tenant, request->prompt_tokens, PROMPT_WORTH);
}

/* One that had nobody waiting is no better off than those who wait, or than the last of them to go
 * (Algorithm 2, lines 7 to 13). */
static void lift(const Admission *self, TenantState *tenant) {
  double floor = INFINITY;
  for (uint32_t i = 0; self->n_held > 0 && i < self->n_lanes; i++)
    if (self->lanes[i].queue.count > 0) floor = fmin(floor, self->lanes[i].tenant->counter);
  if (self->n_held == 0) floor = self->last ? self->last->counter : 0;
  tenant->counter = fmax(tenant->counter, floor);
}

static void hold(Simulation *self, Lane *lane, RequestIx ix) {
  life_held(self, ix);
  request_queue_push(&lane->queue, self->requests.slots, ix);
  lane->class->n_held++;
  lane->tenant->n_held++;
  admission_of(self)->n_held++;
  sim_books(self, &self->requests.slots[ix])->held++;
}

static void leave_lane(Simulation *self, Lane *lane, RequestIx ix) {
  request_queue_remove(&lane->queue, self->requests.slots, ix);
  lane->class->n_held--;
  lane->tenant->n_held--;
  admission_of(self)->n_held--;
}

static void leave_front(Simulation *self, RequestIx ix) {
  if (self->requests.slots[ix].state == REQUEST_HELD)
    leave_lane(self, lane_of(self, &self->requests.slots[ix]), ix);
}

/* Fewer where its class serves more than it may by cutting them. */
static int32_t limit_output(Simulation *self, const TraceRow *row, int32_t max_tokens) {
  if (self->config->n_classes == 0) return max_tokens;
  const Lane *lane = admission_of(self)->of[row->component];
  const ClassSpec *spec = lane->class->spec;
  const bool cut = spec->action == ADMISSION_DEGRADE && max_tokens > spec->output_tokens &&
                   !may_enter(self, lane);
  return cut ? spec->output_tokens : max_tokens;
}

/* When somebody who is held may be admitted: after all else of that tick. */
static void set_timer(Simulation *self, Tick at) {
  const Event *event = agenda_find(&self->agenda, EVENT_ADMISSION, 0);
  if (!event || at < event->at) agenda_set_last(&self->agenda, EVENT_ADMISSION, 0, at);
}

static bool admit(Simulation *self, RequestIx ix) {
  if (early_rejection_refuses(self, ix)) {
    life_rejected(self, ix, REJECTED_ADMISSION);
    return false;
  }
  if (self->config->n_classes == 0) return true;
  Request *request = &self->requests.slots[ix];
  Lane *lane = lane_of(self, request);
  const ClassSpec *spec = lane->class->spec;
  const bool free = lane->queue.count == 0 && may_enter(self, lane);
  if (lane->tenant->n_held == 0) lift(admission_of(self), lane->tenant);
  if (free || spec->action == ADMISSION_DEGRADE) {
    enter(self, lane, request);
    return true;
  }
  const bool full = spec->max_queue >= 0 && lane->class->n_held >= spec->max_queue;
  if (spec->action == ADMISSION_REJECT || full) {
    life_rejected(self, ix, REJECTED_ADMISSION);
    return false;
  }
  hold(self, lane, ix);
  if (lane->tenant->paid_until > self->now) set_timer(self, lane->tenant->paid_until);
  return false;
}

/* With what its tenant was served of it. */
static void end(Simulation *self, RequestIx ix, const RequestRecord *record) {
  const Request *request = &self->requests.slots[ix];
  if (!request->admitted) return;
  Lane *lane = lane_of(self, request);
  lane->class->n_in_flight--;
  lane->tenant->n_in_flight--;
  serve(self, lane->tenant, record->generated_tokens, OUTPUT_WORTH);
  if (admission_of(self)->n_held > 0) set_timer(self, self->now);
}

/* --- those who are held */

static bool goes_before(const Simulation *self, const Lane *a, const Lane *b) {
  const Request *slots = self->requests.slots;
  if (a->class->spec->priority != b->class->spec->priority)
    return a->class->spec->priority < b->class->spec->priority;
  if (a->tenant->counter != b->tenant->counter) return a->tenant->counter < b->tenant->counter;
  return slots[a->queue.first].id < slots[b->queue.first].id;
}

/* NULL: none may. */
static Lane *next_lane(const Simulation *self) {
  const Admission *admission = admission_of(self);
  Lane *best = NULL;
  for (uint32_t i = 0; i < admission->n_lanes; i++) {
    Lane *lane = &admission->lanes[i];
    if (lane->queue.count > 0 && may_enter(self, lane) && (!best || goes_before(self, lane, best)))
      best = lane;
  }
  return best;
}

static void handle(Simulation *self, uint32_t target) {
  (void)target;
  const Admission *admission = admission_of(self);
  for (Lane *lane; admission->n_held > 0 && (lane = next_lane(self));) {
    const RequestIx ix = lane->queue.first;
    leave_lane(self, lane, ix);
    enter(self, lane, &self->requests.slots[ix]);
    front_take(self, ix);
  }
  for (uint32_t i = 0; i < admission->n_lanes; i++) {
    const Lane *lane = &admission->lanes[i];
    if (lane->queue.count > 0 && lane->tenant->paid_until > self->now)
      set_timer(self, lane->tenant->paid_until);
  }
}

/* --- what came of it */

static void sum_up(Simulation *self, SimResult *result) {
  for (uint32_t i = 0; i < self->config->n_tenants; i++) {
    const TenantState *tenant = &admission_of(self)->tenants[i];
    result->tenants[i] = (TenantResult){.spec = tenant->spec, .service = tenant->service};
  }
}

/* Those in flight and held are those that are counted. */
static void check(const Simulation *self) {
  const Admission *admission = admission_of(self);
  if (self->config->n_classes == 0) return;
  int64_t n_held = 0, n_in_flight = 0;
  for (size_t i = 0; i < self->requests.n_slots; i++) {
    const Request *request = &self->requests.slots[i];
    if (request->state == REQUEST_FREE) continue;
    const bool beside = request->is_copy || request->redundant; // of one that is
    assert(request->admitted == (request->state != REQUEST_HELD && !beside));
    n_held += !request->admitted && !beside;
    n_in_flight += request->admitted;
  }
  for (uint32_t i = 0; i < self->config->n_classes; i++) {
    const ClassState *class = &admission->classes[i];
    const ClassSpec *spec = class->spec;
    assert(class->n_held == 0 || spec->action == ADMISSION_QUEUE);
    assert(spec->max_in_flight == 0 || spec->action == ADMISSION_DEGRADE ||
           class->n_in_flight <= spec->max_in_flight);
    n_held -= class->n_held;
    n_in_flight -= class->n_in_flight;
  }
  assert(n_held == 0 && n_in_flight == 0);
  assert(admission->n_held == 0 || !next_lane(self) ||
         agenda_find(&self->agenda, EVENT_ADMISSION, 0));
}

const Feature feature_admission = {
    .state_size = sizeof(Admission),
    .is_used = is_used,
    .start = start,
    .handlers = {[EVENT_ADMISSION] = handle},
    .limits_output = limit_output,
    .admits = admit,
    .left_front = leave_front,
    .ended = end,
    .sums_up = sum_up,
    .audits = check,
};
