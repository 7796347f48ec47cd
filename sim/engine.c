/* The run: set-up, the loop with its one switch, and the summing up. See engine.h for the parts. */
#include "sim/engine.h"
#include "sim/audit.h"
#include <assert.h>
#include <string.h>

enum { PROGRESS_EVENTS = 1 << 16 };

/* Bytes/s in each direction of the link that KV takes between machines. */
static int64_t link_capacity(const SimConfig *config, const PoolSpec *pool) {
  const int64_t link =
      config->network_path == NETWORK_NVLINK ? pool->nvlink_bandwidth : pool->nic_bandwidth;
  const int64_t network = config->network_bandwidth;
  return network > 0 && network < link ? network : link;
}

/* As Column.refresh of kv_blocks. */
static void catch_up(void *engine, MachineIx machine) {
  engine_catch_up(engine, &((Engine *)engine)->machines[machine]);
}

static void init_machines(Engine *self) {
  const SimConfig *config = self->config;
  for (uint32_t p = 0; p < config->n_pools; p++)
    self->n_machines += config->pools[p].count;
  self->machines = ARENA_ARRAY(self->arena, Machine, self->n_machines);
  int64_t *capacities = ARENA_ARRAY(self->arena, int64_t, self->n_machines);
  MachineIx ix = 0;
  for (uint32_t p = 0; p < config->n_pools; p++) {
    const PoolSpec *pool = &config->pools[p];
    Histogram *batch_tokens = ARENA_NEW(self->arena, Histogram);
    histogram_init(batch_tokens, self->arena);
    const int64_t stages = pool->pipeline_stages;
    Pipeline *pipeline = NULL;
    for (uint32_t i = 0; i < pool->count; i++, ix++) {
      if (stages > 1 && i % stages == 0) {
        pipeline = ARENA_NEW(self->arena, Pipeline);
        pipeline_init(pipeline, stages, self->arena);
      }
      self->machines[ix] = (Machine){.pool = pool,
                                     .ix = ix,
                                     .role = pool->role,
                                     .home = pool->role,
                                     .prefill_queue = REQUEST_QUEUE_EMPTY,
                                     .decode_queue = REQUEST_QUEUE_EMPTY,
                                     .blocked = REQUEST_QUEUE_EMPTY,
                                     .swapped = REQUEST_QUEUE_EMPTY,
                                     .inbound = REQUEST_QUEUE_EMPTY,
                                     .pipeline = pipeline,
                                     .free_cpu_blocks = pool->cpu_kv_blocks,
                                     .batch_tokens = batch_tokens};
      batch_init(&self->machines[ix].batch, pool->block_size, self->arena);
      capacities[ix] = link_capacity(config, pool);
    }
  }
  links_init(&self->links, capacities, self->n_machines, self->arena);
  cluster_init(&self->view, self->machines, self->n_machines, self->arena);
  self->view.kv_blocks->refresh = catch_up;
  self->view.kv_blocks->context = self;
}

static void *copy_state(const PolicyChoice *choice, Arena *arena) {
  void *state = arena_alloc(arena, choice->policy->state_size);
  if (choice->state) memcpy(state, choice->state, choice->policy->state_size);
  return state;
}

static void init_machine_policies(Engine *self) {
  const SimConfig *config = self->config;
  self->smallest_room = INT64_MAX;
  for (uint32_t m = 0; m < self->n_machines; m++) {
    Machine *machine = &self->machines[m];
    const PolicyChoice batcher = sim_pool_policy(config, machine->pool, POLICY_BATCHER);
    const PolicyChoice kvtier = sim_pool_policy(config, machine->pool, POLICY_KVTIER);
    machine->batcher = (const Batcher *)batcher.policy;
    machine->batcher_options = copy_state(&batcher, self->arena);
    machine->batcher_state = arena_alloc(self->arena, machine->batcher->machine_state_size);
    machine->kvtier = (const KvTier *)kvtier.policy;
    machine->kvtier_options = copy_state(&kvtier, self->arena);
    engine_start_tier(self, machine);
    if (machine_room(machine) < self->smallest_room) self->smallest_room = machine_room(machine);
    const MachineView view = engine_view(self, machine);
    if (machine->batcher->start)
      machine->batcher->start(machine->batcher_options, machine->batcher_state, &view, self->arena);
  }
}

static void init_policies(Engine *self) {
  const SimConfig *config = self->config;
  const Policy *policies[POLICY_KINDS];
  for (int kind = 0; kind < POLICY_KINDS; kind++) {
    const PolicyChoice choice = sim_policy(config, (PolicyKind)kind);
    policies[kind] = choice.policy;
    self->states[kind] = copy_state(&choice, self->arena);
  }
  self->router = (const Router *)policies[POLICY_ROUTER];
  self->predictor = (const Predictor *)policies[POLICY_PREDICTOR];
  self->dispatcher = (const Dispatcher *)policies[POLICY_DISPATCHER];
  self->pool = (const PoolPolicy *)policies[POLICY_POOL];
  self->transfer = (const TransferPolicy *)policies[POLICY_TRANSFER];
  self->view.roles_move = self->pool->moves_roles;
  self->view.heavy_above = config->heavy_above;
  init_machine_policies(self);
  if (self->router->start)
    self->router->start(self->states[POLICY_ROUTER], &self->view, config->seed, self->arena);
  if (self->dispatcher->start)
    self->dispatcher->start(self->states[POLICY_DISPATCHER], &self->view, config->seed,
                            self->arena);
  if (self->pool->start) self->pool->start(self->states[POLICY_POOL], &self->view, self->arena);
  engine_start_monitor(self);
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
  agenda_reserve(&self->agenda, EVENT_FLIP, self->n_machines);
  agenda_reserve(&self->agenda, EVENT_MONITOR, 1);
  self->woken = ARENA_ARRAY(self->arena, MachineIx, self->n_machines);
  self->flipping = ARENA_ARRAY(self->arena, MachineIx, self->n_machines);
  metrics_init(&self->metrics, config->slo_reference, arena);
  self->metrics.good_limits = config->good_limits;
  self->metrics.window = config->window;
  eventlog_init(&self->log, config->event_log);
  init_policies(self);
  engine_init_groups(self);
  if (config->timeline_interval > 0) engine_init_timeline(self);
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
  case EVENT_FLIP:
    engine_handle_flip(self, &self->machines[self->event.target]);
    break;
  case EVENT_MONITOR:
    engine_handle_monitor(self);
    break;
  case EVENT_COPY:
    engine_handle_copy(self, self->event.target);
    break;
  case EVENT_TURN:
    engine_handle_turn(self, &self->groups[self->event.target]);
    break;
  case EVENT_KINDS:
    assert(false);
  }
}

bool engine_passes_the_end(Engine *self, double ticks) {
  if (ticks < 0.999 * (double)(TICK_MAX - self->now)) return false;
  if (!self->failed)
    diag_error(self->diag, place_of_file(NULL), "the run passes 106 days of simulated time");
  self->failed = true;
  return true;
}

/* As a figure of people, "21 GiB". */
static const char *bytes_text(double bytes, char text[32]) {
  units_format(text, 32, DIM_BYTES, bytes);
  return text;
}

/* Requests in flight are what grows, as long as more arrive than are served, so the whole of a
 * trace takes in proportion. */
static void tell_of_memory(Engine *self, double needed) {
  char limit[32], now[32], all[32];
  bytes_text((double)self->config->memory_limit, limit);
  const double arrived = (double)self->metrics.asked.requests;
  const double expected = self->config->expected_requests;
  const double whole = expected > arrived && arrived > 0 ? needed / arrived * expected : needed;
  diag_environment(self->diag, place_of_file(NULL),
                   "the run needs more memory than the %s it may take: %s for %llu requests in "
                   "flight after %.6g s, about %s for the whole workload",
                   limit, bytes_text(needed, now), (unsigned long long)self->requests.n_live,
                   tick_seconds(self->now), bytes_text(whole, all));
  diag_hint(self->diag, "requests that arrive faster than the cluster serves them wait in memory; "
                        "'--memory' sets what a run may take");
}

bool engine_has_memory(Engine *self, size_t growth) {
  const size_t limit = self->config->memory_limit;
  if (limit == 0 || (growth < limit && self->arena->bytes <= limit - growth)) return true;
  if (!self->failed) tell_of_memory(self, (double)self->arena->bytes + (double)growth);
  self->failed = true;
  return false;
}

/* What was handled may have changed these groups. */
static void shape_groups(Engine *self) {
  const Event *event = &self->event;
  Group *only = event->kind == EVENT_ITERATION ? self->machines[event->target].group
                : event->kind == EVENT_COPY    ? &self->groups[event->target / COPY_DIRECTIONS]
                : event->kind == EVENT_TURN    ? &self->groups[event->target]
                                               : NULL;
  if (only) engine_shape(self, only);
  for (uint32_t g = 0; event->kind == EVENT_ARRIVAL && g < self->n_groups; g++) {
    Group *group = &self->groups[g];
    if (group->touched) engine_shape(self, group);
    group->touched = false;
  }
}

/* Broadcasts and flips neither make room nor bring work. */
static bool is_control(EventKind kind) {
  return kind == EVENT_MONITOR || kind == EVENT_FLIP;
}

static size_t n_controls(const Engine *self) {
  return (agenda_find(&self->agenda, EVENT_MONITOR, 0) != NULL) + self->n_turning;
}

/* When all that is pending asks for room again and has been refused since anything else happened,
 * nobody will ever make any; and when nothing is pending the run is over. */
static bool is_stuck(const Engine *self) {
  if (self->agenda.n_events > self->n_retries + self->n_turning + 1) return false; // mostly
  const size_t pending = self->agenda.n_events - n_controls(self);
  return pending == self->n_retries && self->n_refusals >= pending;
}

bool engine_step(Engine *self) {
  if (self->failed || self->stopped) return false;
  if (is_stuck(self)) return engine_break_deadlock(self);
  if (self->timeline && agenda_first_at(&self->agenda) > self->now)
    engine_look(self, agenda_first_at(&self->agenda));
  agenda_pop(&self->agenda, &self->event);
  const Tick previous = self->now;
  self->now = self->view.now = self->event.at;
  self->n_events++;
  const size_t refusals = self->n_refusals;
  handle(self);
  if (self->n_turning < self->n_flipping) engine_turn(self);
  if (self->n_groups > 0) shape_groups(self);
  if (self->n_refusals > 0 && self->n_refusals == refusals &&
      !is_control((EventKind)self->event.kind))
    self->n_refusals = 0;
  if (self->config->audit && !self->failed) audit_check(self, previous);
  return engine_has_memory(self, 0);
}

static bool is_interrupted(Engine *self) {
  const volatile sig_atomic_t *interrupted = self->config->interrupted;
  if (!interrupted || *interrupted == 0) return false;
  if (!self->failed) diag_interrupted(self->diag);
  self->failed = true;
  return true;
}

static void loop(Engine *self) {
  const SimConfig *config = self->config;
  while (!is_interrupted(self) && engine_step(self))
    if (config->on_progress && self->n_events % PROGRESS_EVENTS == 0)
      config->on_progress(config->on_progress_context,
                          self->metrics.completed + self->metrics.rejected, self->now);
}

/* Energy is power in each activity times the time in it; the rest of the span is idle. */
static void sum_pool(const Engine *self, PoolResult *result, MachineIx first, bool second_shape) {
  const PoolSpec *pool = result->pool;
  for (uint32_t i = 0; i < pool->count; i++)
    machine_totals_add(&result->totals, &self->machines[first + i].totals);
  result->batch_tokens = self->machines[first].batch_tokens;
  const double blocks = (double)pool->kv_blocks * pool->count;
  result->max_expansion = (double)result->totals.max_kv_blocks / blocks;
  result->mean_expansion =
      self->now > 0 ? result->totals.kv_block_seconds / (blocks * tick_seconds(self->now)) : 1;
  const double span = tick_seconds(self->now) * pool->count;
  const double prefill = total_seconds(result->totals.prefill_ticks);
  const double decode = total_seconds(result->totals.decode_ticks);
  result->utilization = span > 0 ? (prefill + decode) / span : 0;
  result->energy_j = prefill * pool->prefill_power + decode * pool->decode_power +
                     ((second_shape ? 0 : span) - prefill - decode) * pool->idle_power;
}

/* What the largest request that can be served may need. */
static void sum_room(const Engine *self, SimResult *result) {
  for (Phase phase = PHASE_PREFILL; phase <= PHASE_DECODE; phase++) {
    const MachineIx most = engine_roomiest(self, phase);
    if (most == MACHINE_NONE) continue; // all of them flip
    result->roomiest[phase] = self->machines[most].pool;
    result->room_tokens[phase] = machine_room(&self->machines[most]);
  }
  result->store_tokens = engine_smallest_store(self);
}

static void sum_up(Engine *self, SimResult *result) {
  *result = (SimResult){.metrics = self->metrics,
                        .n_pools = self->config->n_pools,
                        .n_machines = self->n_machines,
                        .groups = self->groups,
                        .n_groups = self->n_groups,
                        .timeline = self->timeline,
                        .pools = ARENA_ARRAY(self->arena, PoolResult, self->config->n_pools),
                        .machines = ARENA_ARRAY(self->arena, MachineTotals, self->n_machines),
                        .digest = self->log.digest,
                        .events = self->n_events,
                        .stopped = self->stopped,
                        .unfinished = self->requests.n_live,
                        .span = self->now};
  sum_room(self, result);
  for (MachineIx m = 0; m < self->n_machines; m++)
    engine_book_capacity(self, &self->machines[m]);
  MachineIx first = 0;
  for (uint32_t p = 0; p < result->n_pools; p++) {
    PoolResult *pool = &result->pools[p];
    pool->pool = &self->config->pools[p];
    const bool second_shape = sim_is_second_shape(self->config, p);
    sum_pool(self, pool, first, second_shape);
    machine_totals_add(&result->totals, &pool->totals);
    result->energy_j += pool->energy_j;
    if (!second_shape)
      result->cost_usd +=
          pool->pool->cost_per_hour * pool->pool->count * tick_seconds(self->now) / 3600;
    first += pool->pool->count;
  }
  for (uint32_t m = 0; m < self->n_machines; m++)
    result->machines[m] = self->machines[m].totals;
}

const char *sim_conflict(const Policy *pool, const Policy *batcher, const Policy *kvtier) {
  const Batcher *batches = (const Batcher *)batcher;
  const KvTier *tier = (const KvTier *)kvtier;
  if (((const PoolPolicy *)pool)->shape && kvtier_moves(tier))
    return "the tier keeps KV in CPU memory of its own, where GPUs that change shape have their "
           "store";
  if (((const PoolPolicy *)pool)->shape && (batches->owns_queues || batches->reorders))
    return "the batcher takes prompts in an order of its own, not as the groups' store has room";
  if (batches->owns_queues && tier->pick)
    return "the batcher keeps queues of its own, which a tier that evicts would upset";
  if (!batches->reserves_output && !tier->pick)
    return "the batcher lets sequences grow, so the tier must have somebody give way";
  if (tier->swaps && !batches->returns_swapped)
    return "the batcher does not let requests return that the tier swapped out";
  return NULL;
}

PolicyChoice sim_policy(const SimConfig *config, PolicyKind kind) {
  const PolicyChoice *choice = &config->policies[kind];
  return choice->policy ? *choice : (PolicyChoice){policy_list(kind)[0], NULL};
}

PolicyChoice sim_pool_policy(const SimConfig *config, const PoolSpec *pool, PolicyKind kind) {
  const PolicyChoice *own = kind == POLICY_BATCHER ? &pool->batcher : &pool->kvtier;
  return own->policy ? *own : sim_policy(config, kind);
}

/* Machines are made before anything can be counted, and take the most of a cluster without
 * requests: themselves, and a number for each place in a block. */
static bool has_memory_for_machines(const SimConfig *config, const Arena *arena, Diag *diag) {
  double bytes = (double)arena->bytes, machines = 0;
  for (uint32_t p = 0; p < config->n_pools; p++) {
    const PoolSpec *pool = &config->pools[p];
    machines += pool->count;
    bytes += (double)pool->count *
             (double)(sizeof(Machine) + (size_t)pool->block_size * sizeof(int32_t));
  }
  if (config->memory_limit == 0 || bytes <= (double)config->memory_limit) return true;
  char limit[32], needed[32];
  diag_environment(diag, place_of_file(NULL),
                   "the run needs more memory than the %s it may take: %s for %.0f machines alone",
                   bytes_text((double)config->memory_limit, limit), bytes_text(bytes, needed),
                   machines);
  return false;
}

int sim_run(const SimConfig *config, SimResult *ret_result, Arena *arena, Diag *diag) {
  for (uint32_t p = 0; p < config->n_pools; p++)
    assert(!sim_conflict(sim_policy(config, POLICY_POOL).policy,
                         sim_pool_policy(config, &config->pools[p], POLICY_BATCHER).policy,
                         sim_pool_policy(config, &config->pools[p], POLICY_KVTIER).policy));
  if (!has_memory_for_machines(config, arena, diag)) return -1;
  Engine *engine = ARENA_NEW(arena, Engine);
  engine_init(engine, config, arena, diag);
  loop(engine);
  if (engine->failed) return -1;
  engine_end_groups(engine);
  sum_up(engine, ret_result);
  if (config->audit && !engine->stopped) audit_totals(engine, ret_result);
  return 0;
}
