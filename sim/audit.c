/* See audit.h. */
#include "sim/audit.h"
#include "perfmodel/power.h"
#include "sim/books/parts.h"
#include "sim/core/connector.h"
#include "sim/core/encoder.h"
#include "sim/core/hicache.h"
#include "sim/core/lifecycle.h"
#include "sim/core/lockstep.h"
#include "sim/core/loop.h"
#include "sim/core/memory.h"
#include "sim/core/offloading.h"
#include <assert.h>
#include <math.h>
#include <stddef.h>

static void check_links(const Simulation *self, const RequestQueue *queue) {
  int32_t n = 0;
  RequestIx previous = REQUEST_NONE;
  for (RequestIx ix = queue->first; ix != REQUEST_NONE; ix = self->requests.slots[ix].next) {
    assert(self->requests.slots[ix].previous == previous);
    previous = ix;
    n++;
  }
  assert(queue->last == previous && queue->count == n);
}

/* Everybody in it belongs there by his state; how many they are. */
static uint64_t check_queue(const Simulation *self, Instance *instance, const RequestQueue *queue) {
  check_links(self, queue);
  const Request *slots = self->requests.slots;
  for (RequestIx ix = queue->first; ix != REQUEST_NONE; ix = slots[ix].next)
    assert(life_queue(instance, slots[ix].state) == queue);
  return (uint64_t)queue->count;
}

static int32_t count_leaving(const Simulation *self, const RequestQueue *queue) {
  int32_t n = 0;
  for (RequestIx ix = queue->first; ix != REQUEST_NONE; ix = self->requests.slots[ix].next)
    n += request_leaves(&self->requests.slots[ix]);
  return n;
}

/* Those that are computed and whose clients have given up leave with an iteration in progress; a
 * scheduler's, those that wait as well. */
static void check_leaving(const Simulation *self, const Instance *instance) {
  int32_t n = count_leaving(self, &instance->running);
  const int32_t n_waiting =
      count_leaving(self, &instance->decode_queue) +
      (instance->loop->decides_ahead ? count_leaving(self, &instance->prefill_queue) : 0);
  check_links(self, &instance->leaving);
  assert(instance->loop->decides_ahead || n_waiting == 0);
  n += n_waiting;
  for (size_t i = 0; i < instance->batch.n_seqs; i++) {
    const Request *request = &self->requests.slots[instance->batch.entries[i].request];
    n += request->state == REQUEST_RUNS && request_leaves(request);
  }
  assert(instance->loop->count_leaving(instance) == n &&
         (n == 0 || instance->activity != ACTIVITY_IDLE));
}

/* What its state says of a request alone; whether it is in a queue by it. */
static bool check_request(const Request *request) {
  const RequestStateRow *row = &request_states[request->state];
  assert(request->state != REQUEST_NOWHERE && request->state != REQUEST_PREFILLED);
  assert(!request_leaves(request) || row->leaves != LEAVES_AT_ONCE ||
         request->state == REQUEST_WAITS_PREFILL || request->state == REQUEST_WAITS_DECODE);
  assert((row->kv_places & 1 << KV_GPU) || request->kv_blocks == 0);
  assert((row->kv_places & 1 << KV_STORE) || request->store_blocks == 0);
  return row->queue >= 0;
}

/* Each request is where its state says, and nobody else is there. */
static void check_requests(const Simulation *self) {
  uint64_t n_queued = 0, n_runs = 0, n_chunks = 0;
  for (size_t i = 0; i < self->requests.n_slots; i++) {
    const Request *request = &self->requests.slots[i];
    if (request->state == REQUEST_FREE) continue;
    n_queued += check_request(request);
    n_runs += request->state == REQUEST_RUNS;
    n_chunks += request->state == REQUEST_PREFILLS || request->state == REQUEST_ENDS_PREFILL;
  }
  for (uint32_t m = 0; m < self->n_instances; m++) {
    Instance *instance = &self->instances[m];
    n_queued -= check_queue(self, instance, &instance->prefill_queue);
    n_queued -= check_queue(self, instance, &instance->decode_queue);
    n_queued -= check_queue(self, instance, &instance->blocked);
    n_queued -= check_queue(self, instance, &instance->swapped);
    n_queued -= check_queue(self, instance, &instance->running);
    if (!instance->loop->decides_ahead) n_runs -= instance->batch.n_seqs;
    for (size_t i = 0; i < instance->n_chunks; i++) {
      const Request *request = &self->requests.slots[instance->chunks[i]];
      const bool last =
          request->prefilled_tokens + request->chunk_tokens == request_prefill_tokens(request);
      assert(request->state == (last ? REQUEST_ENDS_PREFILL : REQUEST_PREFILLS));
    }
    n_chunks -= instance->n_chunks;
    check_links(self, &instance->inbound);
    check_leaving(self, instance);
  }
  for (uint32_t g = 0; g < self->n_groups; g++) {
    const Group *group = &self->groups[g];
    n_queued -= check_queue(self, &self->instances[group->first[0]], &group->stored);
  }
  assert(n_queued == 0 && n_runs == 0 && n_chunks == 0);
  const Metrics *metrics = &self->metrics;
  const Metrics *warm_up = &self->warm_up_metrics;
  assert(metrics->asked.requests + warm_up->asked.requests == self->n_arrived);
  assert(self->n_arrived ==
         metrics_ended(metrics) + metrics_ended(warm_up) + self->requests.n_live - self->n_copies);
}

/* Whether the batch of the instance where it is has it. */
static bool in_batch(const Request *request) {
  const bool scheduled = request->state == REQUEST_COMPUTES || request->state == REQUEST_GENERATES;
  return request->state == REQUEST_RUNS || (scheduled && request->scheduled == SCHEDULED_BATCH);
}

static int64_t held_by(const Request *request, const Instance *instance) {
  if (!in_batch(request) || instance->batcher->reserves_output || instance->kv_groups)
    return request->kv_blocks;
  return instance_held_blocks(instance, batch_context(&instance->batch, request));
}

/* Locks of an instance's radix tree against what requests have of it, and its pages against theirs
 * and those that are on their way here. */
static void check_radix(const Simulation *self, const Instance *instance) {
  const Radix *radix = instance->radix;
  Arena arena;
  arena_init(&arena);
  const HiCache *hicache = instance->scheduler ? instance->scheduler->hicache : NULL;
  const size_t n_jobs = hicache ? hicache->n_jobs : 0;
  const RadixHold **holds =
      ARENA_ARRAY(&arena, const RadixHold *, self->requests.n_slots + n_jobs + 1);
  size_t n = 0;
  int64_t pages = radix->n_free + radix->n_owned;
  for (size_t i = 0; i < self->requests.n_slots; i++) {
    const Request *request = &self->requests.slots[i];
    if (request->state == REQUEST_FREE) continue;
    if (life_instance(self, request) == instance->ix) {
      holds[n++] = &self->memory[i].radix;
      pages += held_by(request, instance) - self->memory[i].radix.owned_pages;
    }
    if (request->transfer == TRANSFER_NONE) continue;
    const Transfer *transfer = &self->transfers.slots[request->transfer];
    if (transfer->to == instance->ix && transfer->stage != TRANSFER_WAITS)
      pages += instance_prompt_blocks(instance, request);
  }
  RadixHold *of_jobs = ARENA_ARRAY(&arena, RadixHold, n_jobs + 1);
  for (size_t i = 0; i < n_jobs; i++) {
    const RadixNode *node = &radix->tree.nodes[hicache->jobs[i].node];
    of_jobs[i] = (RadixHold){hicache->jobs[i].node, (int32_t)(node->to / radix->tree.page)};
    holds[n++] = &of_jobs[i];
  }
  radix_audit(radix, holds, n);
  if (hicache) hicache_audit(instance);
  assert(pages == radix->n_pages && radix_room(radix) == instance->free_blocks);
  arena_done(&arena);
}

/* Every block of every group against what requests hold there, and those that are on their way. */
static void check_groups(const Simulation *self, const Instance *instance) {
  const KvGroups *groups = instance->kv_groups;
  Arena arena;
  arena_init(&arena);
  int64_t *held = ARENA_ARRAY(&arena, int64_t, groups->n_groups), n_references = 0;
  for (size_t i = 0; i < self->requests.n_slots; i++) {
    const Request *request = &self->requests.slots[i];
    if (request->state == REQUEST_FREE) continue;
    const RequestMemory *memory = &self->memory[i];
    if (life_instance(self, request) == instance->ix) {
      kv_groups_audit_holds(groups, &memory->in_groups, held);
      assert(memory->in_groups.n_blocks == request->kv_blocks);
    }
    if (request->decode_instance == instance->ix)
      kv_groups_audit_holds(groups, &memory->arriving_in_groups, held);
  }
  for (int32_t g = 0; g < groups->n_groups; g++) {
    assert(groups->groups[g].n_held == held[g]);
    n_references += held[g];
  }
  assert(groups->pool->n_free == instance->free_blocks);
  prefix_cache_audit(groups->pool, n_references);
  arena_done(&arena);
}

/* Blocks of no request that its connector keeps. */
static int64_t connector_kept_by(const Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  if (scheduler && scheduler->hicache) return hicache_kept(instance);
  if (!scheduler || !scheduler->connector) return 0;
  return connector_kept(scheduler->connector);
}

/* References of an instance's cache against what requests hold of it. */
static void check_cache(const Simulation *self, const Instance *instance) {
  if (instance->radix) check_radix(self, instance);
  if (instance->kv_groups) check_groups(self, instance);
  if (!instance->cache || instance->kv_groups) return;
  int64_t n_references = 0;
  for (size_t i = 0; i < self->requests.n_slots; i++) {
    const Request *request = &self->requests.slots[i];
    if (request->state == REQUEST_FREE) continue;
    const RequestMemory *memory = &self->memory[i];
    if (life_instance(self, request) == instance->ix) {
      assert(memory->held.n == held_by(request, instance));
      n_references += memory->held.n;
    }
    if (request->decode_instance == instance->ix) n_references += memory->arriving.n;
  }
  n_references += connector_kept_by(instance);
  assert(instance->cache->n_free == instance->free_blocks);
  prefix_cache_audit(instance->cache, n_references);
}

/* What its encoder's cache has against what requests here refer to. */
static void check_encoder(const Simulation *self, const Instance *instance) {
  int64_t n_references = 0;
  if (!instance->scheduler || !instance->scheduler->encoder) return;
  for (size_t i = 0; i < self->requests.n_slots; i++) {
    const Request *request = &self->requests.slots[i];
    if (request->state != REQUEST_FREE && life_instance(self, request) == instance->ix)
      n_references += encoding_references(self, (RequestIx)i);
  }
  encoder_audit(instance->scheduler->encoder, n_references);
}

/* A shrink goes on for as long as it has to take every block that is free; and the tier's own
 * books. */
static void check_tier(const Instance *instance) {
  const int64_t missing = instance->kv_blocks - instance->wanted_blocks - instance->withheld_blocks;
  assert(missing > 0 || instance->withheld_blocks == 0);
  assert(missing == 0 || (missing > 0 && instance->free_blocks == 0));
  const KvTier *tier = instance->kvtier;
  if (!instance->moves_kv) return;
  const int64_t cpu = tier->cpu_blocks(instance->kvtier_options, instance->kvtier_state, instance);
  assert(0 <= cpu && cpu <= instance->kv_blocks);
}

static void check_memory(const Simulation *self) {
  offloading_audit(self);
  for (uint32_t m = 0; m < self->n_instances; m++) {
    const Instance *instance = &self->instances[m];
    int64_t held = connector_kept_by(instance);
    for (size_t i = 0; i < self->requests.n_slots; i++) {
      const Request *request = &self->requests.slots[i];
      if (request->state == REQUEST_FREE) continue;
      if (life_instance(self, request) == m) held += held_by(request, instance);
      if (request->transfer == TRANSFER_NONE) continue;
      const Transfer *transfer = &self->transfers.slots[request->transfer];
      if (transfer->to == m && transfer->stage != TRANSFER_WAITS)
        held += instance->kv_groups ? self->memory[i].arriving_in_groups.n_blocks
                                    : instance_prompt_blocks(instance, request);
    }
    check_cache(self, instance);
    check_encoder(self, instance);
    const int64_t taken = instance->kv_blocks - instance->free_blocks - instance->withheld_blocks;
    assert(instance->cache || instance->radix || instance->kv_groups
               ? taken <= held
               : taken == held); // blocks of a cache are shared
    assert(instance->kv_blocks >= instance->least_blocks && instance->withheld_blocks >= 0);
    assert(self->columns.kv_blocks->of[m] == taken + instance->promised_blocks);
    check_tier(instance);
    // what layers in groups give back and take is known when it is booked
    assert((instance->kv_groups ? instance->free_blocks : sim_free_blocks(self, instance)) >= 0);
  }
}

/* What policies read of an instance, and what the core counts on it, against the requests and the
 * rows of their states. */
static void check_instance(const Simulation *self, InstanceIx m) {
  const Instance *instance = &self->instances[m];
  const ClusterView *view = &sim_deployment_of(self, instance)->view;
  int64_t n_assigned = 0, n_present = 0, n_decodes = 0, n_heavy = 0, pending = 0;
  int64_t n_prefills = 0, n_outgoing = 0, n_started = 0;
  for (size_t i = 0; i < self->requests.n_slots; i++) {
    const Request *request = &self->requests.slots[i];
    if (request->state == REQUEST_FREE) continue;
    const RequestStateRow *row = &request_states[request->state];
    const bool decodes = request->decode_instance == m;
    n_decodes += decodes;
    n_heavy += decodes && view_heavy(view, request);
    n_assigned += decodes || (request->prefill_instance == m && request->first_token_at < 0);
    pending += decodes;
    if (life_instance(self, request) != m) continue;
    n_present += row->present;
    n_prefills += row->prefills;
    n_outgoing += row->outgoing;
    n_started += row->prefills && row->queue == offsetof(Instance, prefill_queue) &&
                 request->prefilled_tokens > 0;
    pending += row->prefills ? request_prefill_tokens(request) - request->prefilled_tokens : 0;
  }
  assert(view->columns.pending_tokens->of[m] == pending && view->columns.n_heavy->of[m] == n_heavy);
  assert(view->columns.n_assigned->of[m] == n_assigned &&
         view->columns.n_present->of[m] == n_present);
  assert(instance->n_decodes == n_decodes && instance->n_prefills == n_prefills);
  assert(instance->n_outgoing == n_outgoing && instance->n_started == n_started);
}

static void check_instances(const Simulation *self) {
  for (InstanceIx m = 0; m < self->n_instances; m++)
    check_instance(self, m);
}

/* Of a list, by a scan. */
static InstanceIx least_of(const Column *column, ColumnOrder order, const RoleList *list) {
  const Columns *all = column->columns;
  const bool by_turn = order == COLUMN_BY_TURN || order == COLUMN_BY_SPEED_AND_TURN;
  const uint64_t *since = by_turn ? all->turns : all->joined;
  InstanceIx least = INSTANCE_NONE;
  int64_t little = 0;
  for (uint32_t i = 0; i < list->count; i++) {
    const InstanceIx m = list->items[i];
    const int64_t figure = column->of[m] * (order < COLUMN_BY_SPEED ? 1 : all->slowness[m]);
    if (least != INSTANCE_NONE &&
        (figure > little || (figure == little && since[m] > since[least])))
      continue;
    least = m;
    little = figure;
  }
  return least;
}

/* What the trees of columns name against scans; of figures as last brought up to date. */
static void check_least(const Simulation *self) {
  const Columns *all = self->columns.all;
  for (Column *column = all->first; column; column = column->next) {
    column_settle(column);
    for (ColumnOrder order = 0; order < COLUMN_ORDERS; order++)
      for (ListIx l = 0; l < all->n_lists; l++) {
        const RoleList *list = &self->deployments[l / ROLES].view.by_role[l % ROLES];
        assert(list->ix == l);
        if (column->trees[order][l])
          assert(column_root(column, order, l) == least_of(column, order, list));
      }
  }
}

/* What is remembered of who has the most room. */
static void check_roomiest(const Simulation *self, const Deployment *deployment) {
  for (int phase = PHASE_PREFILL; phase <= PHASE_DECODE && deployment->knows_roomiest; phase++) {
    const InstanceIx most = deployment->roomiest[phase];
    for (uint32_t i = 0; i < deployment->view.n_members; i++) {
      const InstanceIx m = deployment->view.members[i];
      const Instance *instance = &self->instances[m];
      if (!instance_takes_requests(instance) || !role_covers(instance->home, (Phase)phase)) {
        assert(m != most);
        continue;
      }
      const int64_t more = instance_room(instance) - instance_room(&self->instances[most]);
      assert(m < most ? more < 0 : more <= 0);
    }
  }
}

/* An instance is in the list of its role, once, if it takes requests. */
static void check_roles(const Simulation *self) {
  const ClusterColumns *columns = &self->columns;
  uint32_t n_listed = 0, n_taking = 0;
  for (uint32_t d = 0; d < self->n_deployments; d++)
    for (int role = 0; role < ROLES; role++)
      n_listed += self->deployments[d].view.by_role[role].count;
  for (InstanceIx m = 0; m < self->n_instances; m++) {
    const Instance *instance = &self->instances[m];
    const RoleList *list = &sim_deployment_of(self, instance)->view.by_role[instance->role];
    uint32_t n_times = 0;
    for (uint32_t i = 0; i < list->count; i++)
      n_times += list->items[i] == m;
    n_taking += n_times;
    assert(n_times == instance->listed);
    if (instance->availability != INSTANCE_OFF) continue;
    assert(instance->stops && !instance->listed && instance->activity == ACTIVITY_IDLE);
    assert(columns->n_assigned->of[m] == 0 && instance->off_since >= 0);
  }
  assert(n_listed == n_taking);
}

/* Time is idle or booked, but for an iteration or run in progress. */
static void check_idleness(const Simulation *self) {
  for (InstanceIx m = 0; m < self->n_instances; m++) {
    const Instance *instance = &self->instances[m];
    assert((instance->activity == ACTIVITY_IDLE) == (instance->idle_since >= 0));
    if (instance->activity != ACTIVITY_IDLE) {
      assert(instance->availability < INSTANCE_OFF);
      continue;
    }
    const Tick busy = instance->totals.prefill_ticks + instance->totals.decode_ticks;
    assert(instance->idle_ticks + self->now - instance->idle_since + busy == self->now);
  }
}

/* The KV of those in `swapped` is in CPU memory and nowhere else, and no iteration ends before what
 * it waits for is across. */
static void check_cpu_memory(const Simulation *self) {
  const Request *slots = self->requests.slots;
  for (uint32_t m = 0; m < self->n_instances; m++) {
    const Instance *instance = &self->instances[m];
    int64_t held = 0;
    for (RequestIx ix = instance->swapped.first; ix != REQUEST_NONE; ix = slots[ix].next) {
      const Request *request = &slots[ix];
      assert(request->decode_instance == m && request->transfer == TRANSFER_NONE);
      assert(request->previous == REQUEST_NONE || slots[request->previous].id < request->id);
      held += instance_held_blocks(instance, request_tokens(request));
    }
    assert(instance->free_cpu_blocks >= 0);
    assert(instance->free_cpu_blocks + held == instance->pool->cpu_kv_blocks);
    assert(held == 0 || instance->kvtier->swaps);
    const Event *end = agenda_find(&self->agenda, EVENT_ITERATION, m);
    const bool copies = instance->copied_at > 0; // an empty step of a pipeline may end as it begins
    assert(!end || !copies || end->at > instance->copied_at || instance->activity == ACTIVITY_IDLE);
  }
}

static void check_ranks(const Simulation *self) {
  for (InstanceIx m = 0; m < self->n_instances; m += pool_replica_lanes(self->instances[m].pool))
    if (self->instances[m].lockstep) lockstep_audit(self, &self->instances[m]);
}

static void check_batches(const Simulation *self) {
  for (uint32_t m = 0; m < self->n_instances; m++) {
    const Batch *batch = &self->instances[m].batch;
    int64_t context = 0;
    for (size_t i = 0; i < batch->n_seqs; i++) {
      const Request *request = &self->requests.slots[batch->entries[i].request];
      assert(in_batch(request) && request->batch_index == i);
      const int64_t remaining = batch_remaining(batch, request);
      assert(remaining >= 0 && remaining < request->max_tokens + batch->tail);
      assert(remaining > 0 || self->instances[m].run.booked > 0);
      context += batch_context(batch, request);
    }
    int64_t takers = 0;
    for (int64_t r = 0; r < batch->block_size; r++)
      takers += batch->takers[r];
    assert(context == batch->context_tokens && takers == (int64_t)batch->n_seqs);
  }
}

static bool is_held_up(const Links *links, const Flow *flow) {
  return links->nics[NIC_OUT][flow->ends[NIC_OUT]].capacity == 0 ||
         links->nics[NIC_IN][flow->ends[NIC_IN]].capacity == 0;
}

/* Parts of flows, each of which may have a byte per second more than its share. */
static void check_uplinks(const Links *links) {
  for (uint32_t i = 0; links->uplinks && i < 2 * links->uplinks->n; i++) {
    double load = 0, slack = 1;
    for (FlowIx ix = 0; ix < links->n_flows; ix++) {
      const Flow *flow = &links->flows[ix];
      for (size_t k = 0; flow->active && k < flow->n_crossings; k++) {
        if (flow->crossings[k].link != i) continue;
        load += flow->crossings[k].part * (double)flow->rate;
        slack++;
      }
    }
    assert(load <= links->shared[i].capacity * (1 + 1e-12) + slack);
  }
}

static void check_network(const Simulation *self) {
  const Links *links = &self->links;
  check_uplinks(links);
  for (uint32_t m = 0; m < links->n_instances; m++) {
    for (int side = 0; side < NIC_SIDES; side++) {
      const Nic *nic = &links->nics[side][m];
      int64_t rates = 0;
      int32_t n = 0;
      for (FlowIx ix = nic->first; ix != FLOW_NONE; ix = links->flows[ix].next[side], n++) {
        const Flow *flow = &links->flows[ix];
        assert(flow->active && flow->bytes_left >= 0 && flow->ends[side] == m);
        assert(is_held_up(links, flow) ? flow->rate == 0 : flow->rate > 0);
        rates += flow->rate;
      }
      assert(n == nic->n_flows && rates <= nic->capacity);
    }
  }
}

/* GPUs draw no less than idle ones and no more than their limit, but for the rounding of an
 * iteration to ticks. */
static void check_power(const PoolSpec *pool, const InstanceTotals *totals, Total busy) {
  const PowerModel *power = pool->perfmodel->power;
  const Total drawn = totals->milliwatt_ticks;
  assert(power || drawn == 0);
  if (!power) return;
  const Total most = (Total)(1e3 * fmax(power->cap, power->idle)) + 1;
  const Total least = (Total)(1e3 * fmin(power->idle, power->cap)) - 1;
  const Total rounding = most * (totals->prefill_iterations + totals->decode_iterations + 1);
  assert(drawn >= least * busy - rounding && drawn <= most * busy + rounding);
}

void audit_totals(const Simulation *self, const SimResult *result) {
  Total busy = 0;
  for (uint32_t p = 0; p < result->n_pools; p++) {
    const PoolResult *pool = &result->pools[p];
    const InstanceTotals *totals = &pool->totals;
    const Total ticks = instance_busy_ticks(totals);
    const int64_t iterations = totals->prefill_iterations + totals->decode_iterations;
    const Total microseconds = (Total)pool->batch_tokens->total;
    const Total more = microseconds - ticks / (TICKS_PER_SECOND / 1000000);
    const Total away = totals->down_ticks + totals->off_ticks;
    assert(0 <= ticks && ticks + away <= (Total)result->span * pool->pool->count);
    assert(0 <= totals->mixed_ticks && totals->mixed_ticks <= totals->prefill_ticks);
    check_power(pool->pool, totals, ticks);
    // a tier tells of an iteration when it ends, also of one that began before it was counted
    assert(0 <= totals->stall_ticks && (totals->stall_ticks <= ticks || self->counted_from > 0));
    // those that failures broke off are no iterations
    const int64_t most = iterations + result->totals.failures * pool->pool->count;
    assert(-most <= more && more <= most);
    busy += ticks;
  }
  assert(instance_busy_ticks(&result->totals) == busy);
}

void audit_check(const Simulation *self, Tick previous) {
  assert(self->now >= previous);
  check_requests(self);
  check_memory(self);
  check_cpu_memory(self);
  check_instances(self);
  check_least(self);
  for (uint32_t d = 0; d < self->n_deployments; d++)
    check_roomiest(self, &self->deployments[d]);
  check_roles(self);
  check_idleness(self);
  check_batches(self);
  check_ranks(self);
  check_network(self);
  tell_audits(self);
  parts_audit(self);
}
