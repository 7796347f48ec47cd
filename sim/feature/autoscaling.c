/* See autoscaling.h. */
#include "sim/feature/autoscaling.h"
#include "base/sort.h"
#include "sim/core/draining.h"
#include "sim/core/marks.h"
#include "sim/core/roles.h"
#include "sim/feature/features.h"
#include "sim/feature/outages.h"
#include "sim/policies.h"
#include "sim/scaling/scaler.h"
#include <assert.h>

typedef struct Recommendation {
  Tick at;
  uint32_t machines;
} Recommendation;

/* A pool that is scaled. */
typedef struct Fleet {
  const PoolSpec *spec;
  uint32_t pool;              // among those of its model
  uint32_t lanes, n_machines; // lanes of a machine; machines at most
  InstanceIx first;
  Tick changed_at;         // -1: never
  Recommendation *history; // a ring, as long as the windows
  uint32_t n_history, most_history;
} Fleet;

/* A machine that may go. */
typedef struct Candidate {
  InstanceIx first;
  int64_t load;
  uint64_t since; // when it joined, or will
} Candidate;

typedef struct Scaling {
  uint32_t model;
  void *state; // of the scaler
  ScalingView view;
  PoolLoad *loads;      // [view.n_pools] of the model
  InstanceIx *firsts;   // [view.n_pools]
  double *wanted;       // [view.n_pools]
  EngineLoad **engines; // [view.n_pools] that loads have; NULL: they are not read
  Fleet *fleets;
  uint32_t n_fleets;
  Candidate *candidates; // reused
  size_t candidates_capacity;
} Scaling;

typedef struct Autoscaling {
  const Scaler *scaler;
  Scaling **of; // [n_deployments]
} Autoscaling;

static Autoscaling *autoscaling(const Simulation *self) {
  return self->feature_states[FEATURE_autoscaling];
}

static Scaling *scaling_of(const Simulation *self, const Request *request) {
  return autoscaling(self)->of[request->model];
}

/* --- a machine of all its lanes */

static bool is_pending(const Simulation *self, EventKind kind, InstanceIx m) {
  return agenda_find(&self->agenda, kind, m) != NULL;
}

static bool is_empty(const Simulation *self, const Instance *machine) {
  return column_at(self->columns.n_assigned, machine->ix) == 0;
}

/* It is on or starts, and is not told to go; whether it has failed is known once that is detected.
 */
static bool counts(const Instance *lanes, uint32_t n) {
  bool any = false;
  for (uint32_t i = 0; i < n; i++)
    any |= lanes[i].listed || lanes[i].availability == INSTANCE_BOOTS;
  return any && !lanes[0].stops;
}

static bool starts(const Simulation *self, const Instance *lanes, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (lanes[i].availability != INSTANCE_BOOTS || lanes[i].listed || !is_empty(self, &lanes[i]) ||
        is_pending(self, EVENT_DETECTION, lanes[i].ix))
      return false;
  return true;
}

/* Whether one that was told to go drains still and nothing else wants it away. */
static bool may_stay(const Instance *lanes, uint32_t n) {
  bool drains = false;
  for (uint32_t i = 0; i < n; i++) {
    drains |= lanes[i].availability == INSTANCE_DRAINS;
    if (lanes[i].n_faults + lanes[i].n_drains > 0) return false;
  }
  return drains && lanes[0].stops;
}

static bool is_off(const Instance *lanes, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (lanes[i].availability != INSTANCE_OFF) return false;
  return true;
}

static bool may_start(const Simulation *self, const Instance *lanes, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (lanes[i].availability != INSTANCE_OFF || lanes[i].n_faults + lanes[i].n_drains > 0 ||
        is_pending(self, EVENT_DETECTION, lanes[i].ix))
      return false;
  return true;
}

void autoscaling_turn_off(Simulation *self, Instance *machine) {
  assert(machine->stops && is_empty(self, machine));
  if (machine->availability >= INSTANCE_DOWN) outages_end(self, machine);
  machine->availability = INSTANCE_OFF;
  tell_goes_away(self, machine);
  machine->starts_since = -1;
  machine->off_since = self->now;
  sim_deployment_of(self, machine)->knows_roomiest = false;
  if (!is_pending(self, EVENT_DETECTION, machine->ix)) outages_lose_memory(self, machine);
  sim_log(self, OUTCOME_OFF, NULL, machine->ix, 0, 0);
}

void autoscaling_start(Simulation *self, Instance *lanes, uint32_t n, Tick end) {
  for (uint32_t i = 0; i < n; i++) {
    Instance *lane = &lanes[i];
    if (lane->availability != INSTANCE_OFF) continue;
    outages_book_off(self, lane);
    lane->off_since = -1;
    lane->starts_since = self->now;
    lane->availability = INSTANCE_BOOTS;
    self->n_down++;
    sim_deployment_of(self, lane)->knows_roomiest = false;
    outages_set_boot(self, lane, end);
    sim_log(self, OUTCOME_START, NULL, lane->ix, 0, 0);
  }
}

/* Those of its lanes that are off. */
static void start_lanes(Simulation *self, Instance *lanes, uint32_t n) {
  uint32_t n_off = 0;
  for (uint32_t i = 0; i < n; i++)
    n_off += lanes[i].availability == INSTANCE_OFF;
  if (n_off == 0) return;
  autoscaling_start(self, lanes, n, outages_start_end(self, lanes->pool, n_off, self->now));
}

static void stay_or_start(Simulation *self, Instance *lanes, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    lanes[i].stops = false;
    if (lanes[i].availability != INSTANCE_DRAINS) continue;
    sim_stop_draining(self, &lanes[i]);
    sim_log(self, OUTCOME_UP, NULL, lanes[i].ix, 0, 0);
  }
  start_lanes(self, lanes, n);
}

/* A lane that is down, or starts with requests to come, goes when it is back (outages.c). */
static void stop(Simulation *self, Instance *lanes, uint32_t n) {
  const bool all_start = starts(self, lanes, n);
  for (uint32_t i = 0; i < n; i++) {
    Instance *lane = &lanes[i];
    lane->stops = true;
    sim_deployment_of(self, lane)->knows_roomiest = false; // it takes requests no more, down or not
    lane->totals.scale_downs++;
    sim_log(self, OUTCOME_STOP, NULL, lane->ix, 0, 0);
    if (all_start)
      autoscaling_turn_off(self, lane);
    else if (lane->availability == INSTANCE_UP)
      sim_drain(self, lane, DRAIN_STOP);
  }
}

/* --- more and fewer */

static Instance *lanes_at(const Simulation *self, const Fleet *fleet, uint32_t i) {
  return &self->instances[fleet->first + i * fleet->lanes];
}

/* Those that drain stay before others are started; the first numbers first. */
static uint32_t grow(Simulation *self, const Fleet *fleet, uint32_t more) {
  uint32_t n = 0;
  for (int drain = 1; drain >= 0; drain--)
    for (uint32_t i = 0; i < fleet->n_machines && n < more; i++) {
      Instance *lanes = lanes_at(self, fleet, i);
      if (drain ? !may_stay(lanes, fleet->lanes) : !may_start(self, lanes, fleet->lanes)) continue;
      stay_or_start(self, lanes, fleet->lanes);
      n++;
    }
  return n;
}

/* Those that start first, then the least loaded; of equals the last to have joined. */
static int by_load(const void *a, const void *b) {
  const Candidate *one = a, *other = b;
  if (one->load != other->load) return one->load < other->load ? -1 : 1;
  if (one->since != other->since) return one->since > other->since ? -1 : 1;
  return (one->first < other->first) - (one->first > other->first);
}

static Candidate candidate_of(const Simulation *self, const Instance *lanes, uint32_t n) {
  Candidate candidate = {.first = lanes->ix, .since = self->columns.all->joined[lanes->ix]};
  if (starts(self, lanes, n)) {
    candidate.load = -1;
    candidate.since = (uint64_t)agenda_find(&self->agenda, EVENT_BOOT, lanes->ix)->at;
    return candidate;
  }
  for (uint32_t i = 0; i < n; i++)
    candidate.load += column_at(self->columns.n_assigned, lanes[i].ix);
  return candidate;
}

static uint32_t shrink(Simulation *self, Scaling *scaling, const Fleet *fleet, uint32_t fewer) {
  size_t n = 0;
  for (uint32_t i = 0; i < fleet->n_machines; i++) {
    const Instance *lanes = lanes_at(self, fleet, i);
    if (!counts(lanes, fleet->lanes)) continue;
    ARENA_RESERVE(self->arena, scaling->candidates, scaling->candidates_capacity, n + 1);
    scaling->candidates[n++] = candidate_of(self, lanes, fleet->lanes);
  }
  sort_items(scaling->candidates, n, sizeof *scaling->candidates, by_load);
  for (uint32_t i = 0; i < fewer; i++)
    stop(self, &self->instances[scaling->candidates[i].first], fleet->lanes);
  return fewer;
}

/* Kubernetes' windows: no more than the least that was wanted within the one, no fewer than the
 * most within the other. */
static uint32_t stabilized(const Fleet *fleet, Tick now, uint32_t present, uint32_t wanted) {
  const PoolScaling *options = &fleet->spec->scaling;
  uint32_t least = wanted, most = wanted;
  for (uint32_t i = 1; i <= fleet->n_history; i++) {
    const uint32_t at = fleet->n_history - i;
    if (i > fleet->most_history) break;
    const Recommendation *past = &fleet->history[at % fleet->most_history];
    if (now - past->at < options->up_window && past->machines < least) least = past->machines;
    if (now - past->at < options->down_window && past->machines > most) most = past->machines;
  }
  return present < least ? least : present > most ? most : present;
}

static uint32_t bounded(const PoolScaling *options, double wanted) {
  if (!(wanted > options->min)) return options->min;
  return wanted < options->max ? (uint32_t)wanted : options->max;
}

static void scale(Simulation *self, Scaling *scaling, Fleet *fleet) {
  const PoolScaling *options = &fleet->spec->scaling;
  const uint32_t present = scaling->loads[fleet->pool].n_machines;
  const uint32_t wanted = bounded(options, scaling->wanted[fleet->pool]);
  fleet->history[fleet->n_history++ % fleet->most_history] = (Recommendation){self->now, wanted};
  uint32_t next = stabilized(fleet, self->now, present, wanted);
  if (fleet->changed_at >= 0 && self->now - fleet->changed_at < options->cool_down) return;
  const Scaler *scaler = autoscaling(self)->scaler;
  if (scaler->limit)
    next = scaler->limit(scaling->state, &scaling->view, fleet->pool, wanted, next);
  uint32_t n = 0;
  if (next > present) n = grow(self, fleet, next - present);
  if (next < present) n = shrink(self, scaling, fleet, present - next);
  if (n > 0) fleet->changed_at = self->now;
}

/* Whether one that is off may be started, or may be once what holds it down ends. */
static bool has_off(const Simulation *self, const Fleet *fleet) {
  const uint32_t *n_pending = self->agenda.n_pending;
  const bool changes = n_pending[EVENT_FAULT] + n_pending[EVENT_DETECTION] > 0;
  for (uint32_t i = 0; i < fleet->n_machines; i++) {
    const Instance *lanes = lanes_at(self, fleet, i);
    if (may_start(self, lanes, fleet->lanes) || (changes && is_off(lanes, fleet->lanes)))
      return true;
  }
  return false;
}

/* Whether requests in front of a model will have a machine started that is off. */
static bool wakes(const Simulation *self) {
  const Autoscaling *all = autoscaling(self);
  for (uint32_t d = 0; d < self->n_deployments; d++) {
    const Deployment *deployment = &self->deployments[d];
    const Scaling *scaling = all->of[d];
    if (!deployment->wakes || deployment->front.count == 0 ||
        !all->scaler->wakes(scaling->state, deployment->front.count))
      continue;
    for (uint32_t i = 0; i < scaling->n_fleets; i++)
      if (scaling->fleets[i].spec->scaling.min == 0 && has_off(self, &scaling->fleets[i]))
        return true;
  }
  return false;
}

/* --- what the scaler sees */

static void book_arrival(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  ScalingView *view = &scaling_of(self, request)->view;
  view->arrivals++;
  view->prompt_tokens += request->prompt_tokens;
}

/* Not of one that resumes, which has had it. */
static void book_first_token(Simulation *self, const Instance *machine, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  if (request->resumed_tokens > 0) return;
  Scaling *scaling = scaling_of(self, request);
  const Tick ttft = request->first_token_at - request->arrived_at;
  scaling->view.first_tokens++;
  scaling->view.ttft_ticks += ttft;
  PoolLoad *load = scaling->loads;
  while (load->spec != machine->pool)
    load++;
  load->first_tokens++;
  load->ttft_ticks += ttft;
}

static void book_end(Simulation *self, RequestIx ix, const RequestRecord *record) {
  if (record->rejected || record->cancelled) return;
  ScalingView *view = &scaling_of(self, &self->requests.slots[ix])->view;
  view->completed++;
  view->output_tokens += record->output_tokens;
  view->e2e_ticks += record->last_token_at - record->arrived_at;
  view->between_ticks += record->last_token_at - record->first_token_at;
}

static int64_t n_waiting(const Instance *lane) {
  return lane->prefill_queue.count + lane->decode_queue.count + lane->inbound.count;
}

static EngineLoad engine_load(const Simulation *self, const Instance *lane) {
  const int64_t n_decodes = lane->n_decodes;
  return (EngineLoad){
      .prefill_tokens = column_at(self->columns.pending_tokens, lane->ix) - n_decodes,
      .kv_tokens = column_at(self->columns.kv_blocks, lane->ix) * lane->pool->block_size,
      .n_decodes = n_decodes,
      .n_waiting = n_waiting(lane)};
}

static void look_at(const Simulation *self, PoolLoad *load, const Instance *lanes, uint32_t n,
                    bool reads_kv, EngineLoad *engines) {
  if (!counts(lanes, n)) return;
  load->n_machines++;
  load->n_starting += !lanes[0].listed && lanes[0].availability == INSTANCE_BOOTS;
  for (uint32_t i = 0; engines && i < n; i++)
    if (lanes[i].listed) engines[load->n_engines++] = engine_load(self, &lanes[i]);
  for (uint32_t i = 0; i < n; i++) {
    const Instance *lane = &lanes[i];
    load->n_assigned += column_at(self->columns.n_assigned, lane->ix);
    load->n_waiting += n_waiting(lane);
    if (!reads_kv) continue;
    load->kv_machines +=
        (double)column_at(self->columns.kv_blocks, lane->ix) / ((double)load->spec->kv_blocks * n);
  }
}

static void look(const Simulation *self, Scaling *scaling) {
  const Scaler *scaler = autoscaling(self)->scaler;
  const bool reads_kv = scaler->reads_kv && scaler->reads_kv(scaling->state);
  for (uint32_t p = 0; p < scaling->view.n_pools; p++) {
    PoolLoad *load = &scaling->loads[p];
    load->n_machines = load->n_starting = load->n_engines = 0;
    load->n_assigned = load->n_waiting = 0;
    load->kv_machines = 0;
    const uint32_t lanes = pool_lanes(load->spec);
    for (uint32_t i = 0; i < load->spec->count; i += lanes)
      look_at(self, load, &self->instances[scaling->firsts[p] + i], lanes, reads_kv,
              scaling->engines[p]);
    scaling->wanted[p] = load->n_machines;
  }
  scaling->view.now = self->now;
  scaling->view.n_front = self->deployments[scaling->model].front.count;
}

/* What is counted from one time to the next begins again. */
static void forget(Scaling *self) {
  const ScalingView view = self->view;
  self->view = (ScalingView){.now = view.now,
                             .interval = view.interval,
                             .pools = view.pools,
                             .n_pools = view.n_pools,
                             .max_model_len = view.max_model_len};
  for (uint32_t p = 0; p < view.n_pools; p++) {
    self->loads[p].first_tokens = 0;
    self->loads[p].ttft_ticks = 0;
  }
}

/* --- when */

/* After all else of its tick; there is none past the end of simulated time. */
static void set_next(Simulation *self) {
  const Tick interval = self->config->scaling_interval;
  if (interval <= TICK_MAX - self->now)
    agenda_set_last(&self->agenda, EVENT_SCALING, 0, self->now + interval);
}

static void handle(Simulation *self, uint32_t target) {
  (void)target;
  for (uint32_t d = 0; d < self->n_deployments; d++) {
    Scaling *scaling = autoscaling(self)->of[d];
    look(self, scaling);
    autoscaling(self)->scaler->plan(scaling->state, &scaling->view, scaling->wanted);
    for (uint32_t i = 0; i < scaling->n_fleets; i++)
      scale(self, scaling, &scaling->fleets[i]);
    forget(scaling);
  }
  set_next(self);
}

static void add_fleet(const Simulation *self, Scaling *scaling, uint32_t pool) {
  const PoolSpec *spec = scaling->loads[pool].spec;
  const PoolScaling *options = &spec->scaling;
  assert(options->min <= options->start && options->start <= options->max &&
         pool_machines(spec) == options->max);
  const Tick window =
      options->up_window > options->down_window ? options->up_window : options->down_window;
  const uint32_t most = (uint32_t)(window / self->config->scaling_interval) + 1;
  scaling->fleets[scaling->n_fleets++] =
      (Fleet){.spec = spec,
              .pool = pool,
              .lanes = pool_lanes(spec),
              .n_machines = options->max,
              .first = scaling->firsts[pool],
              .changed_at = -1,
              .history = ARENA_ARRAY(self->arena, Recommendation, most),
              .most_history = most};
}

static Scaling *scaling_new(const Simulation *self, uint32_t model, void *state) {
  const SimConfig *config = self->config;
  Arena *arena = self->arena;
  Scaling *scaling = ARENA_NEW(arena, Scaling);
  *scaling = (Scaling){.model = model,
                       .state = state,
                       .loads = ARENA_ARRAY(arena, PoolLoad, config->n_pools),
                       .firsts = ARENA_ARRAY(arena, InstanceIx, config->n_pools),
                       .wanted = ARENA_ARRAY(arena, double, config->n_pools),
                       .engines = ARENA_ARRAY(arena, EngineLoad *, config->n_pools),
                       .fleets = ARENA_ARRAY(arena, Fleet, config->n_pools)};
  scaling->view = (ScalingView){.interval = config->scaling_interval,
                                .max_model_len = sim_model(config, model)->max_model_len,
                                .pools = scaling->loads};
  InstanceIx first = 0;
  for (uint32_t p = 0; p < config->n_pools; first += config->pools[p].count, p++) {
    const PoolSpec *spec = &config->pools[p];
    if (spec->model != model) continue;
    const uint32_t i = scaling->view.n_pools++;
    scaling->loads[i].spec = spec;
    scaling->firsts[i] = first;
    if (autoscaling(self)->scaler->reads_engines)
      scaling->loads[i].engines = scaling->engines[i] = ARENA_ARRAY(arena, EngineLoad, spec->count);
    if (spec->scaling.max > 0) add_fleet(self, scaling, i);
  }
  const Scaler *scaler = autoscaling(self)->scaler;
  if (scaler->wakes)
    for (uint32_t i = 0; i < scaling->n_fleets; i++)
      self->deployments[model].wakes |= scaling->fleets[i].spec->scaling.min == 0;
  if (scaler->start) scaler->start(state, &scaling->view, arena);
  return scaling;
}

static const Scaler *scaler_of(const Simulation *self) {
  return (const Scaler *)sim_policy(self->config, POLICY_SCALER).policy;
}

static bool is_used(const Simulation *self) {
  return scaler_of(self)->plan != NULL;
}

static void start(Simulation *self) {
  const PolicyChoice choice = sim_policy(self->config, POLICY_SCALER);
  Autoscaling *all = autoscaling(self);
  assert(self->config->scaling_interval > 0 && self->n_groups == 0);
  all->scaler = scaler_of(self);
  all->of = ARENA_ARRAY(self->arena, Scaling *, self->n_deployments);
  for (uint32_t d = 0; d < self->n_deployments; d++)
    all->of[d] = scaling_new(self, d, policy_state_copy(&choice, self->arena));
  outages_of(self)->wakes = wakes;
  agenda_reserve(&self->agenda, EVENT_SCALING, 1);
  set_next(self);
}

/* A machine that has drained since it is not wanted. */
static void see_drained(Simulation *self, Instance *machine) {
  if (machine->drains_for == DRAIN_STOP) autoscaling_turn_off(self, machine);
}

const Feature feature_autoscaling = {
    .state_size = sizeof(Autoscaling),
    .is_used = is_used,
    .start = start,
    .handlers = {[EVENT_SCALING] = handle},
    .arrived = book_arrival,
    .first_token = book_first_token,
    .ended = book_end,
    .drained = see_drained,
};
