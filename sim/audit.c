/* See audit.h. */
#include "sim/audit.h"
#include "sim/books/parts.h"
#include "sim/core/lifecycle.h"
#include "sim/core/memory.h"
#include "sim/core/scheduler.h"
#include <assert.h>
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
static uint64_t check_queue(const Simulation *self, Machine *machine, const RequestQueue *queue) {
  check_links(self, queue);
  const Request *slots = self->requests.slots;
  for (RequestIx ix = queue->first; ix != REQUEST_NONE; ix = slots[ix].next)
    assert(life_queue(machine, slots[ix].state) == queue);
  return (uint64_t)queue->count;
}

/* Those of the batch whose clients have given up leave with an iteration in progress. */
static void check_leaving(const Simulation *self, const Machine *machine) {
  int32_t n = 0;
  if (machine->scheduler) {
    for (RequestIx ix = machine->running.first; ix != REQUEST_NONE;
         ix = self->requests.slots[ix].next)
      n += request_leaves(&self->requests.slots[ix]);
    assert(machine->scheduler->n_leaving == n && (n == 0 || machine->activity != ACTIVITY_IDLE));
    return;
  }
  check_links(self, &machine->leaving);
  for (size_t i = 0; i < machine->batch.n_seqs; i++)
    n += request_leaves(&self->requests.slots[machine->batch.entries[i].request]);
  assert(machine->leaving.count == n && (n == 0 || machine->activity != ACTIVITY_IDLE));
}

/* What its state says of a request alone; whether it is in a queue by it. */
static bool check_request(const Request *request) {
  const RequestStateRow *row = &request_states[request->state];
  assert(request->state != REQUEST_NOWHERE && request->state != REQUEST_PREFILLED);
  assert(!request_leaves(request) || row->leaves != LEAVES_AT_ONCE);
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
  for (uint32_t m = 0; m < self->n_machines; m++) {
    Machine *machine = &self->machines[m];
    n_queued -= check_queue(self, machine, &machine->prefill_queue);
    n_queued -= check_queue(self, machine, &machine->decode_queue);
    n_queued -= check_queue(self, machine, &machine->blocked);
    n_queued -= check_queue(self, machine, &machine->swapped);
    n_queued -= check_queue(self, machine, &machine->running);
    if (!machine->scheduler) n_runs -= machine->batch.n_seqs;
    for (size_t i = 0; i < machine->n_chunks; i++) {
      const Request *request = &self->requests.slots[machine->chunks[i]];
      const bool last =
          request->prefilled_tokens + request->chunk_tokens == request_prefill_tokens(request);
      assert(request->state == (last ? REQUEST_ENDS_PREFILL : REQUEST_PREFILLS));
    }
    n_chunks -= machine->n_chunks;
    check_links(self, &machine->inbound);
    check_leaving(self, machine);
  }
  for (uint32_t g = 0; g < self->n_groups; g++) {
    const Group *group = &self->groups[g];
    n_queued -= check_queue(self, &self->machines[group->first[0]], &group->stored);
  }
  assert(n_queued == 0 && n_runs == 0 && n_chunks == 0);
  const Metrics *metrics = &self->metrics;
  const Metrics *warm_up = &self->warm_up_metrics;
  assert(metrics->asked.requests + warm_up->asked.requests == self->n_arrived);
  assert(self->n_arrived ==
         metrics_ended(metrics) + metrics_ended(warm_up) + self->requests.n_live - self->n_copies);
}

/* Whether the batch of the machine where it is has it. */
static bool in_batch(const Request *request) {
  const bool scheduled = request->state == REQUEST_COMPUTES || request->state == REQUEST_GENERATES;
  return request->state == REQUEST_RUNS || (scheduled && request->scheduled == SCHEDULED_BATCH);
}

static int64_t held_by(const Request *request, const Machine *machine) {
  if (!in_batch(request) || machine->batcher->reserves_output) return request->kv_blocks;
  return machine_held_blocks(machine, batch_context(&machine->batch, request));
}

/* References of a machine's cache against what requests hold of it. */
static void check_cache(const Simulation *self, const Machine *machine) {
  if (!machine->cache) return;
  int64_t n_references = 0;
  for (size_t i = 0; i < self->requests.n_slots; i++) {
    const Request *request = &self->requests.slots[i];
    if (request->state == REQUEST_FREE) continue;
    const RequestMemory *memory = &self->memory[i];
    if (life_machine(self, request) == machine->ix) {
      assert(memory->held.n == held_by(request, machine));
      n_references += memory->held.n;
    }
    if (request->decode_machine == machine->ix) n_references += memory->arriving.n;
  }
  assert(machine->cache->n_free == machine->free_blocks);
  prefix_cache_audit(machine->cache, n_references);
}

/* A shrink goes on for as long as it has to take every block that is free; and the tier's own
 * books. */
static void check_tier(const Machine *machine) {
  const int64_t missing = machine->kv_blocks - machine->wanted_blocks - machine->withheld_blocks;
  assert(missing > 0 || machine->withheld_blocks == 0);
  assert(missing == 0 || (missing > 0 && machine->free_blocks == 0));
  const KvTier *tier = machine->kvtier;
  if (!machine->moves_kv) return;
  const int64_t cpu = tier->cpu_blocks(machine->kvtier_options, machine->kvtier_state, machine);
  assert(0 <= cpu && cpu <= machine->kv_blocks);
}

static void check_memory(const Simulation *self) {
  for (uint32_t m = 0; m < self->n_machines; m++) {
    const Machine *machine = &self->machines[m];
    int64_t held = 0;
    for (size_t i = 0; i < self->requests.n_slots; i++) {
      const Request *request = &self->requests.slots[i];
      if (request->state == REQUEST_FREE) continue;
      if (life_machine(self, request) == m) held += held_by(request, machine);
      if (request->transfer == TRANSFER_NONE) continue;
      const Transfer *transfer = &self->transfers.slots[request->transfer];
      if (transfer->to == m && transfer->stage != TRANSFER_WAITS)
        held += machine_prompt_blocks(machine, request);
    }
    check_cache(self, machine);
    const int64_t taken = machine->kv_blocks - machine->free_blocks - machine->withheld_blocks;
    assert(machine->cache ? taken <= held : taken == held); // blocks of a cache are shared
    assert(machine->kv_blocks >= machine->least_blocks && machine->withheld_blocks >= 0);
    assert(self->columns.kv_blocks->of[m] == taken + machine->promised_blocks);
    check_tier(machine);
    assert(sim_free_blocks(self, machine) >= 0);
  }
}

/* What policies read of a machine, and what the core counts on it, against the requests and the
 * rows of their states. */
static void check_machine(const Simulation *self, MachineIx m) {
  const Machine *machine = &self->machines[m];
  const ClusterView *view = &sim_deployment_of(self, machine)->view;
  int64_t n_assigned = 0, n_present = 0, n_decodes = 0, n_heavy = 0, pending = 0;
  int64_t n_prefills = 0, n_outgoing = 0, n_started = 0;
  for (size_t i = 0; i < self->requests.n_slots; i++) {
    const Request *request = &self->requests.slots[i];
    if (request->state == REQUEST_FREE) continue;
    const RequestStateRow *row = &request_states[request->state];
    const bool decodes = request->decode_machine == m;
    n_decodes += decodes;
    n_heavy += decodes && view_heavy(view, request);
    n_assigned += decodes || (request->prefill_machine == m && request->first_token_at < 0);
    pending += decodes;
    if (life_machine(self, request) != m) continue;
    n_present += row->present;
    n_prefills += row->prefills;
    n_outgoing += row->outgoing;
    n_started += row->prefills && row->queue == offsetof(Machine, prefill_queue) &&
                 request->prefilled_tokens > 0;
    pending += row->prefills ? request_prefill_tokens(request) - request->prefilled_tokens : 0;
  }
  assert(view->columns.pending_tokens->of[m] == pending && view->columns.n_heavy->of[m] == n_heavy);
  assert(view->columns.n_assigned->of[m] == n_assigned &&
         view->columns.n_present->of[m] == n_present);
  assert(machine->n_decodes == n_decodes && machine->n_prefills == n_prefills);
  assert(machine->n_outgoing == n_outgoing && machine->n_started == n_started);
}

static void check_machines(const Simulation *self) {
  for (MachineIx m = 0; m < self->n_machines; m++)
    check_machine(self, m);
}

/* Of a list, by a scan. */
static MachineIx least_of(const Column *column, const uint64_t *since, const RoleList *list) {
  MachineIx least = MACHINE_NONE;
  for (uint32_t i = 0; i < list->count; i++) {
    const MachineIx m = list->items[i];
    if (least == MACHINE_NONE || column->of[m] < column->of[least] ||
        (column->of[m] == column->of[least] && since[m] < since[least]))
      least = m;
  }
  return least;
}

/* What the trees of columns name against scans; of figures as last brought up to date. */
static void check_least(const Simulation *self) {
  const Columns *all = self->columns.all;
  const uint64_t *const since[] = {[COLUMN_BY_LIST] = all->joined, [COLUMN_BY_TURN] = all->turns};
  for (Column *column = all->first; column; column = column->next) {
    column_settle(column);
    for (ColumnOrder order = 0; order < COLUMN_ORDERS; order++)
      for (ListIx l = 0; l < all->n_lists; l++) {
        const RoleList *list = &self->deployments[l / ROLES].view.by_role[l % ROLES];
        assert(list->ix == l);
        if (column->trees[order][l])
          assert(column_root(column, order, l) == least_of(column, since[order], list));
      }
  }
}

/* What is remembered of who has the most room. */
static void check_roomiest(const Simulation *self, const Deployment *deployment) {
  for (int phase = PHASE_PREFILL; phase <= PHASE_DECODE && deployment->knows_roomiest; phase++) {
    const MachineIx most = deployment->roomiest[phase];
    for (uint32_t i = 0; i < deployment->view.n_members; i++) {
      const MachineIx m = deployment->view.members[i];
      const Machine *machine = &self->machines[m];
      if (!machine_takes_requests(machine) || !role_covers(machine->home, (Phase)phase)) {
        assert(m != most);
        continue;
      }
      const int64_t more = machine_room(machine) - machine_room(&self->machines[most]);
      assert(m < most ? more < 0 : more <= 0);
    }
  }
}

/* A machine is in the list of its role, once, if it takes requests. */
static void check_roles(const Simulation *self) {
  const ClusterColumns *columns = &self->columns;
  uint32_t n_listed = 0, n_taking = 0;
  for (uint32_t d = 0; d < self->n_deployments; d++)
    for (int role = 0; role < ROLES; role++)
      n_listed += self->deployments[d].view.by_role[role].count;
  for (MachineIx m = 0; m < self->n_machines; m++) {
    const Machine *machine = &self->machines[m];
    const RoleList *list = &sim_deployment_of(self, machine)->view.by_role[machine->role];
    uint32_t n_times = 0;
    for (uint32_t i = 0; i < list->count; i++)
      n_times += list->items[i] == m;
    n_taking += n_times;
    assert(n_times == machine->listed);
    if (machine->availability != MACHINE_OFF) continue;
    assert(machine->stops && !machine->listed && machine->activity == ACTIVITY_IDLE);
    assert(columns->n_assigned->of[m] == 0 && machine->off_since >= 0);
  }
  assert(n_listed == n_taking);
}

/* Time is idle or booked, but for an iteration or run in progress. */
static void check_idleness(const Simulation *self) {
  for (MachineIx m = 0; m < self->n_machines; m++) {
    const Machine *machine = &self->machines[m];
    assert((machine->activity == ACTIVITY_IDLE) == (machine->idle_since >= 0));
    if (machine->activity != ACTIVITY_IDLE) {
      assert(machine->availability < MACHINE_OFF);
      continue;
    }
    const Tick busy = machine->totals.prefill_ticks + machine->totals.decode_ticks;
    assert(machine->idle_ticks + self->now - machine->idle_since + busy == self->now);
  }
}

/* The KV of those in `swapped` is in CPU memory and nowhere else, and no iteration ends before what
 * it waits for is across. */
static void check_cpu_memory(const Simulation *self) {
  const Request *slots = self->requests.slots;
  for (uint32_t m = 0; m < self->n_machines; m++) {
    const Machine *machine = &self->machines[m];
    int64_t held = 0;
    for (RequestIx ix = machine->swapped.first; ix != REQUEST_NONE; ix = slots[ix].next) {
      const Request *request = &slots[ix];
      assert(request->decode_machine == m && request->transfer == TRANSFER_NONE);
      assert(request->previous == REQUEST_NONE || slots[request->previous].id < request->id);
      held += machine_held_blocks(machine, request_tokens(request));
    }
    assert(machine->free_cpu_blocks >= 0);
    assert(machine->free_cpu_blocks + held == machine->pool->cpu_kv_blocks);
    assert(held == 0 || machine->kvtier->swaps);
    const Event *end = agenda_find(&self->agenda, EVENT_ITERATION, m);
    assert(!end || end->at > machine->copied_at);
  }
}

static void check_batches(const Simulation *self) {
  for (uint32_t m = 0; m < self->n_machines; m++) {
    const Batch *batch = &self->machines[m].batch;
    int64_t context = 0;
    for (size_t i = 0; i < batch->n_seqs; i++) {
      const Request *request = &self->requests.slots[batch->entries[i].request];
      assert(in_batch(request) && request->batch_index == i);
      const int64_t remaining = batch_remaining(batch, request);
      assert(remaining >= 0 && remaining < request->output_tokens);
      assert(remaining > 0 || self->machines[m].run.booked > 0);
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

static void check_network(const Simulation *self) {
  const Links *links = &self->links;
  for (uint32_t m = 0; m < links->n_machines; m++) {
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

void audit_totals(const Simulation *self, const SimResult *result) {
  Total busy = 0;
  for (uint32_t p = 0; p < result->n_pools; p++) {
    const PoolResult *pool = &result->pools[p];
    const MachineTotals *totals = &pool->totals;
    const Total ticks = machine_busy_ticks(totals);
    const int64_t iterations = totals->prefill_iterations + totals->decode_iterations;
    const Total microseconds = (Total)pool->batch_tokens->total;
    const Total more = microseconds - ticks / (TICKS_PER_SECOND / 1000000);
    const Total away = totals->down_ticks + totals->off_ticks;
    assert(0 <= ticks && ticks + away <= (Total)result->span * pool->pool->count);
    assert(0 <= totals->mixed_ticks && totals->mixed_ticks <= totals->prefill_ticks);
    // a tier tells of an iteration when it ends, also of one that began before it was counted
    assert(0 <= totals->stall_ticks && (totals->stall_ticks <= ticks || self->counted_from > 0));
    // those that failures broke off are no iterations
    const int64_t most = iterations + result->totals.failures * pool->pool->count;
    assert(-most <= more && more <= most);
    busy += ticks;
  }
  assert(machine_busy_ticks(&result->totals) == busy);
}

void audit_check(const Simulation *self, Tick previous) {
  assert(self->now >= previous);
  check_requests(self);
  check_memory(self);
  check_cpu_memory(self);
  check_machines(self);
  check_least(self);
  for (uint32_t d = 0; d < self->n_deployments; d++)
    check_roomiest(self, &self->deployments[d]);
  check_roles(self);
  check_idleness(self);
  check_batches(self);
  check_network(self);
  tell_audits(self);
  parts_audit(self);
}
