/* The run: set-up, the loop with its one switch, and the summing up. See engine.h for the parts. */
#include "sim/engine.h"
#include "sim/audit.h"
#include <assert.h>
#include <string.h>

enum { PROGRESS_EVENTS = 1 << 16 };

static void init_machines(Engine *self) {
  const SimConfig *config = self->config;
  for (uint32_t p = 0; p < config->n_pools; p++)
    self->n_machines += config->pools[p].count;
  self->machines = ARENA_ARRAY(self->arena, Machine, self->n_machines);
  int64_t *capacities = ARENA_ARRAY(self->arena, int64_t, self->n_machines);
  self->smallest_room = INT64_MAX;
  MachineIx ix = 0;
  for (uint32_t p = 0; p < config->n_pools; p++) {
    const PoolSpec *pool = &config->pools[p];
    const int64_t room = pool->kv_blocks * pool->block_size;
    if (room < self->smallest_room) self->smallest_room = room;
    Histogram *batch_tokens = ARENA_NEW(self->arena, Histogram);
    histogram_init(batch_tokens, self->arena);
    for (uint32_t i = 0; i < pool->count; i++, ix++) {
      self->machines[ix] = (Machine){.pool = pool,
                                     .ix = ix,
                                     .role = pool->role,
                                     .home = pool->role,
                                     .prefill_queue = REQUEST_QUEUE_EMPTY,
                                     .decode_queue = REQUEST_QUEUE_EMPTY,
                                     .blocked = REQUEST_QUEUE_EMPTY,
                                     .inbound = REQUEST_QUEUE_EMPTY,
                                     .free_blocks = pool->kv_blocks,
                                     .batch_tokens = batch_tokens};
      batch_init(&self->machines[ix].batch, pool->block_size, self->arena);
      const int64_t network = config->network_bandwidth;
      capacities[ix] = network > 0 && network < pool->nic_bandwidth ? network : pool->nic_bandwidth;
    }
  }
  links_init(&self->links, capacities, self->n_machines, self->arena);
  cluster_init(&self->view, self->machines, self->n_machines, self->arena);
}

static void init_policies(Engine *self) {
  const SimConfig *config = self->config;
  for (int kind = 0; kind < POLICY_KINDS; kind++) {
    const PolicyChoice *choice = &config->policies[kind];
    self->states[kind] = arena_alloc(self->arena, choice->policy->state_size);
    if (choice->state) memcpy(self->states[kind], choice->state, choice->policy->state_size);
  }
  self->router = (const Router *)config->policies[POLICY_ROUTER].policy;
  self->pool = (const PoolPolicy *)config->policies[POLICY_POOL].policy;
  self->batcher = (const Batcher *)config->policies[POLICY_BATCHER].policy;
  self->transfer = (const TransferPolicy *)config->policies[POLICY_TRANSFER].policy;
  self->kvtier = (const KvTier *)config->policies[POLICY_KVTIER].policy;
  self->view.roles_move = self->pool->moves_roles;
  if (self->router->start)
    self->router->start(self->states[POLICY_ROUTER], &self->view, config->seed, self->arena);
  self->batcher_states = ARENA_ARRAY(self->arena, void *, self->n_machines);
  for (uint32_t m = 0; m < self->n_machines; m++) {
    self->batcher_states[m] = arena_alloc(self->arena, self->batcher->machine_state_size);
    const MachineView view = engine_view(self, &self->machines[m]);
    if (self->batcher->start)
      self->batcher->start(self->states[POLICY_BATCHER], self->batcher_states[m], &view,
                           self->arena);
  }
}

void engine_init(Engine *self, const SimConfig *config, Arena *arena, Diag *diag) {
  *self = (Engine){.config = config, .arena = arena, .diag = diag};
  self->step = config->step || config->executor;
  self->plan.arena = arena;
  self->transfers.first_free = TRANSFER_NONE;
  agenda_init(&self->agenda, config->tie_seed, arena);
  request_table_init(&self->requests, arena);
  init_machines(self);
  agenda_reserve(&self->agenda, EVENT_ARRIVAL, 1);
  agenda_reserve(&self->agenda, EVENT_ITERATION, self->n_machines);
  metrics_init(&self->metrics, config->slo_reference, arena);
  self->metrics.good_limits = config->good_limits;
  self->metrics.window = config->window;
  eventlog_init(&self->log, config->event_log);
  init_policies(self);
  engine_pull(self);
}

static void handle(Engine *self) {
  switch ((EventKind)self->event.kind) {
  case EVENT_ARRIVAL:
    engine_handle_arrival(self);
    break;
  case EVENT_ITERATION:
    engine_handle_iteration(self, &self->machines[self->event.target]);
    break;
  case EVENT_TRANSFER:
    engine_handle_transfer(self, self->event.target);
    break;
  case EVENT_KINDS:
    assert(false);
  }
}

bool engine_step(Engine *self) {
  if (self->failed || self->stopped) return false;
  /* When all that is pending asks for room again and has been refused since anything else
   * happened, nobody will ever make any. */
  const size_t pending = self->agenda.n_events;
  if (pending == self->n_retries && self->n_refusals >= pending) return engine_break_deadlock(self);
  agenda_pop(&self->agenda, &self->event);
  const Tick previous = self->now;
  self->now = self->view.now = self->event.at;
  self->n_events++;
  const size_t refusals = self->n_refusals;
  handle(self);
  if (self->n_refusals == refusals) self->n_refusals = 0;
  if (self->config->audit && !self->failed) audit_check(self, previous);
  return true;
}

static void loop(Engine *self) {
  const SimConfig *config = self->config;
  while (engine_step(self))
    if (config->on_progress && self->n_events % PROGRESS_EVENTS == 0)
      config->on_progress(config->on_progress_context,
                          self->metrics.completed + self->metrics.rejected, self->now);
}

static void add_totals(MachineTotals *sum, const MachineTotals *part) {
  sum->prefill_ticks += part->prefill_ticks;
  sum->decode_ticks += part->decode_ticks;
  sum->prefill_iterations += part->prefill_iterations;
  sum->decode_iterations += part->decode_iterations;
  sum->prefill_tokens += part->prefill_tokens;
  sum->decode_tokens += part->decode_tokens;
  for (int i = 0; i <= EXTRAPOLATION_FAR; i++) {
    sum->extrapolated_iterations[i] += part->extrapolated_iterations[i];
    sum->extrapolated_ticks[i] += part->extrapolated_ticks[i];
  }
}

/* Energy is power in each activity times the time in it; the rest of the span is idle. */
static void sum_pool(const Engine *self, PoolResult *result, MachineIx first) {
  const PoolSpec *pool = result->pool;
  for (uint32_t i = 0; i < pool->count; i++)
    add_totals(&result->totals, &self->machines[first + i].totals);
  result->batch_tokens = self->machines[first].batch_tokens;
  const double span = tick_seconds(self->now) * pool->count;
  const double prefill = tick_seconds(result->totals.prefill_ticks);
  const double decode = tick_seconds(result->totals.decode_ticks);
  result->utilization = span > 0 ? (prefill + decode) / span : 0;
  result->energy_j = prefill * pool->prefill_power + decode * pool->decode_power +
                     (span - prefill - decode) * pool->idle_power;
}

static void sum_up(const Engine *self, SimResult *result) {
  *result = (SimResult){.metrics = self->metrics,
                        .n_pools = self->config->n_pools,
                        .n_machines = self->n_machines,
                        .pools = ARENA_ARRAY(self->arena, PoolResult, self->config->n_pools),
                        .machines = ARENA_ARRAY(self->arena, MachineTotals, self->n_machines),
                        .digest = self->log.digest,
                        .events = self->n_events,
                        .stopped = self->stopped,
                        .unfinished = self->requests.n_live,
                        .span = self->now};
  MachineIx first = 0;
  for (uint32_t p = 0; p < result->n_pools; p++) {
    PoolResult *pool = &result->pools[p];
    pool->pool = &self->config->pools[p];
    sum_pool(self, pool, first);
    add_totals(&result->totals, &pool->totals);
    result->energy_j += pool->energy_j;
    result->cost_usd +=
        pool->pool->cost_per_hour * pool->pool->count * tick_seconds(self->now) / 3600;
    first += pool->pool->count;
  }
  for (uint32_t m = 0; m < self->n_machines; m++)
    result->machines[m] = self->machines[m].totals;
}

const char *sim_conflict(const PolicyChoice policies[POLICY_KINDS]) {
  const Batcher *batcher = (const Batcher *)policies[POLICY_BATCHER].policy;
  const KvTier *kvtier = (const KvTier *)policies[POLICY_KVTIER].policy;
  if (batcher->owns_queues && kvtier->pick)
    return "the batcher keeps queues of its own, which a tier that evicts would upset";
  if (!batcher->reserves_output && !kvtier->pick)
    return "the batcher lets sequences grow, so the tier must have somebody give way";
  return NULL;
}

int sim_run(const SimConfig *config, SimResult *ret_result, Arena *arena, Diag *diag) {
  assert(!sim_conflict(config->policies));
  Engine *engine = ARENA_NEW(arena, Engine);
  engine_init(engine, config, arena, diag);
  loop(engine);
  if (engine->failed) return -1;
  sum_up(engine, ret_result);
  return 0;
}
