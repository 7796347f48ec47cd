/* Groups of GPUs that change their shape: see group.h. */
#include "sim/engine.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>

static Machine *machines_of(const Engine *self, const Group *group, Shape shape) {
  return &self->machines[group->first[shape]];
}

/* Tokens whose KV a request that is prefilled has: the newest one's is not computed yet. */
static int64_t kv_tokens(const Request *request) {
  return (int64_t)request->prompt_tokens + request->generated_tokens - 1;
}

const char *group_activity_name(GroupActivity activity) {
  static const char *const names[GROUP_ACTIVITIES] = {"prefill", "decode", "reshard", "drain",
                                                      "stall"};
  return names[activity];
}

/* --- books */

void engine_book_group(Engine *self, Group *group) {
  group->totals.ticks[group_activity(group)] += self->now - group->since;
  group->since = self->now;
}

void engine_end_groups(Engine *self) {
  for (uint32_t g = 0; g < self->n_groups; g++)
    engine_book_group(self, &self->groups[g]);
  if (self->timeline) engine_look(self, self->now + 1);
}

static void enter(Engine *self, Group *group, Shape shape, GroupState state) {
  engine_book_group(self, group);
  group->shape = shape;
  group->state = state;
  engine_log(self, OUTCOME_SHAPE, NULL, group->first[shape], shape, state);
}

static void take_store(Group *group, int64_t blocks) {
  group->free_blocks -= blocks;
  const int64_t held = group->spec->store_blocks - group->free_blocks;
  assert(group->free_blocks >= 0 && held >= 0);
  if (held > group->totals.most_stored_blocks) group->totals.most_stored_blocks = held;
}

static void book_store(Group *group, Request *request, int64_t tokens) {
  request->store_blocks = (int32_t)group_blocks(group, tokens);
  take_store(group, request->store_blocks);
}

/* Blocks that beginning to prefill a request takes of the store: nobody knows yet whether it will
 * end with its first token. */
static int64_t store_blocks(const Group *group, const Request *request) {
  return request->store_blocks > 0 ? 0 : group_blocks(group, request->prompt_tokens);
}

void engine_book_store(const Machine *machine, Request *request) {
  if (machine->group && store_blocks(machine->group, request) > 0)
    book_store(machine->group, request, request->prompt_tokens);
}

void engine_leave_store(const Machine *machine, Request *request) {
  if (!machine->group || request->store_blocks == 0) return;
  take_store(machine->group, -request->store_blocks);
  request->store_blocks = 0;
  machine->group->gave_back = true;
}

void engine_fit_store(Engine *self, const Machine *machine) {
  int64_t left = machine->group->free_blocks;
  for (size_t i = 0; i < self->plan.n_prefills; i++) {
    const Request *request = &self->requests.slots[self->plan.prefills[i].request];
    left -= store_blocks(machine->group, request);
    if (left >= 0) continue;
    self->plan.n_prefills = i;
    if (i == 0) self->plan.padding_tokens = self->plan.padding_area2 = 0;
    return;
  }
}

static void begin_all(Engine *self, Group *group) {
  Machine *machines = machines_of(self, group, group->shape);
  for (uint32_t i = 0; i < group->n_machines[group->shape]; i++)
    engine_begin(self, &machines[i]);
}

/* At least a tick from now, so that the end comes after what began it. */
static void set_timer(Engine *self, EventKind kind, uint32_t target, Tick ticks) {
  if (engine_passes_the_end(self, (double)ticks)) return;
  agenda_set(&self->agenda, kind, target, self->now + (ticks > 0 ? ticks : 1));
}

/* --- copies, one at a time in each direction */

static const LinkDirection link_direction[] = {[COPY_OUT] = LINK_TO_CPU, [COPY_IN] = LINK_TO_GPU};

static void begin_copy(Engine *self, Group *group, CopyDirection direction) {
  const Request *request = &self->requests.slots[group->copies[direction].first];
  const int64_t bytes =
      kv_tokens(request) * self->machines[group->first[0]].pool->kv_bytes_per_token;
  const double share = group->spec->copy_share[direction];
  const int64_t on_link = share > 0 ? llround((double)bytes * share) : bytes;
  const Tick ticks =
      host_link_ticks(&group->spec->link, link_direction[direction], on_link, self->now);
  group->totals.copied_bytes[direction] += bytes;
  set_timer(self, EVENT_COPY, COPY_DIRECTIONS * group->ix + direction, ticks);
}

static void push_copy(Engine *self, Group *group, CopyDirection direction, RequestIx ix) {
  RequestQueue *copies = &group->copies[direction];
  request_queue_push(copies, self->requests.slots, ix);
  if (copies->count == 1) begin_copy(self, group, direction);
}

/* A request on its way out is still on the machine that has decoded it, if one has. */
static Machine *source_of(const Engine *self, const Request *request) {
  const MachineIx decode = request->decode_machine;
  return &self->machines[decode == MACHINE_NONE ? request->prefill_machine : decode];
}

void engine_copy_out(Engine *self, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  Machine *from = source_of(self, request);
  request->state = REQUEST_MOVES;
  from->n_outgoing++;
  column_add(self->view.n_present, from->ix, -1);
  push_copy(self, from->group, COPY_OUT, ix);
}

static void unassign_decode(Engine *self, Request *request, Machine *machine) {
  machine->n_decodes--;
  column_add(self->view.n_heavy, machine->ix, -view_heavy(&self->view, request));
  column_add(self->view.pending_tokens, machine->ix, -1);
  column_add(self->view.n_assigned, machine->ix, -1);
  request->decode_machine = MACHINE_NONE;
}

static void end_copy_out(Engine *self, Group *group, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  Machine *from = source_of(self, request);
  engine_take_blocks(self, from, -request->kv_blocks);
  request->kv_blocks = 0;
  from->n_outgoing--;
  if (request->decode_machine != MACHINE_NONE) unassign_decode(self, request, from);
  request->state = REQUEST_STORED;
  request_queue_push(&group->stored, self->requests.slots, ix);
  engine_log(self, OUTCOME_COPY_OUT, request, from->ix, kv_tokens(request), 0);
  engine_wake(self, from, WAKE_RELEASE, ix);
}

static void end_copy_in(Engine *self, Group *group, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  Machine *to = &self->machines[request->decode_machine];
  take_store(group, -request->store_blocks);
  request->store_blocks = 0;
  request->state = REQUEST_WAITS_DECODE;
  request_queue_push(&to->decode_queue, self->requests.slots, ix);
  column_add(self->view.n_present, to->ix, 1);
  engine_log(self, OUTCOME_COPY_IN, request, to->ix, kv_tokens(request), 0);
  engine_wake(self, to, WAKE_DECODE, ix);
}

void engine_handle_copy(Engine *self, uint32_t target) {
  Group *group = &self->groups[target / COPY_DIRECTIONS];
  const CopyDirection direction = (CopyDirection)(target % COPY_DIRECTIONS);
  RequestQueue *copies = &group->copies[direction];
  const RequestIx ix = copies->first;
  request_queue_remove(copies, self->requests.slots, ix);
  if (copies->count > 0) begin_copy(self, group, direction);
  if (direction == COPY_OUT)
    end_copy_out(self, group, ix);
  else
    end_copy_in(self, group, ix);
  if (!group->spec->overlaps && !group_copies(group)) begin_all(self, group);
}

/* --- fetching */

/* Of the machines that decode, the first of those with the fewest decodes that have room for the
 * request beside what runs; NULL if none has. */
static Machine *find_room(const Engine *self, const Group *group, const Request *request) {
  Machine *machines = machines_of(self, group, SHAPE_DECODE), *best = NULL;
  for (uint32_t i = 0; i < group->n_machines[SHAPE_DECODE]; i++) {
    Machine *machine = &machines[i];
    if (best && machine->n_decodes >= best->n_decodes) continue;
    const int64_t blocks = machine_held_blocks(machine, kv_tokens(request) + 1);
    if (engine_has_room(self, machine, blocks)) best = machine;
  }
  return best;
}

/* Begins to copy in what the store has, in order, as far as there is room. */
static void fetch(Engine *self, Group *group) {
  while (group->stored.count > 0) {
    const RequestIx ix = group->stored.first;
    Request *request = &self->requests.slots[ix];
    Machine *machine = find_room(self, group, request);
    if (!machine) return;
    request_queue_remove(&group->stored, self->requests.slots, ix);
    engine_assign_decode(self, request, machine);
    engine_promise_blocks(self, machine, -machine_prompt_blocks(machine, request));
    request->kv_blocks = (int32_t)machine_held_blocks(machine, kv_tokens(request) + 1);
    engine_take_blocks(self, machine, request->kv_blocks);
    request->state = REQUEST_FETCHED;
    push_copy(self, group, COPY_IN, ix);
  }
}

/* --- changing the shape */

/* Blocks of the store that are free once all of the KV on machines that decode is in it, with what
 * the iterations under way add; what is being copied in counts twice. */
static int64_t room_after_leaving(const Engine *self, const Group *group) {
  int64_t room = group->free_blocks;
  const Machine *machines = machines_of(self, group, SHAPE_DECODE);
  for (uint32_t i = 0; i < group->n_machines[SHAPE_DECODE]; i++)
    room -= machines[i].pool->kv_blocks - engine_free_blocks(self, &machines[i]);
  return room;
}

static bool takes_prompt(const Engine *self, const Group *group) {
  const int64_t room = room_after_leaving(self, group);
  const Machine *machines = machines_of(self, group, SHAPE_PREFILL);
  bool waiting = false;
  for (uint32_t i = 0; i < group->n_machines[SHAPE_PREFILL]; i++) {
    const RequestIx ix = machines[i].prefill_queue.first;
    if (ix == REQUEST_NONE) continue;
    const Request *request = &self->requests.slots[ix];
    waiting = true;
    if (store_blocks(group, request) <= room) return true;
  }
  return !waiting && room >= 0;
}

static GroupView view_of(const Engine *self, const Group *group) {
  GroupView view = {.shape = group->shape,
                    .takes_prompt = takes_prompt(self, group),
                    .room_blocks = room_after_leaving(self, group),
                    .n_stored = group->stored.count + group->copies[COPY_OUT].count +
                                group->copies[COPY_IN].count,
                    .stored_blocks = group->spec->store_blocks - group->free_blocks,
                    .store_blocks = group->spec->store_blocks};
  const Machine *prefill = machines_of(self, group, SHAPE_PREFILL);
  for (uint32_t i = 0; i < group->n_machines[SHAPE_PREFILL]; i++)
    view.n_prompts += prefill[i].n_prefills;
  const Machine *decode = machines_of(self, group, SHAPE_DECODE);
  for (uint32_t i = 0; i < group->n_machines[SHAPE_DECODE]; i++) {
    view.n_decoding += decode[i].n_decodes;
    view.gpu_blocks += decode[i].pool->kv_blocks;
  }
  return view;
}

static void leave(Engine *self, Group *group) {
  enter(self, group, group->shape, GROUP_LEAVES);
  Machine *machines = machines_of(self, group, group->shape);
  for (uint32_t i = 0; i < group->n_machines[group->shape]; i++) {
    machines[i].closed = true;
    if (machines[i].activity == ACTIVITY_DECODE) engine_cut_run(self, &machines[i]);
  }
}

static void add_leaver(Engine *self, Group *group, size_t *n, Machine *machine, RequestIx ix) {
  ARENA_RESERVE(self->arena, group->leavers, group->leavers_capacity, *n + 1);
  group->leavers[(*n)++] = (Leaver){self->requests.slots[ix].id, ix, machine->ix};
}

/* Those with KV of a prefill that has ended on an idle machine. */
static void add_leavers(Engine *self, Group *group, size_t *n, Machine *machine) {
  const Request *slots = self->requests.slots;
  for (RequestIx ix = machine->blocked.first; ix != REQUEST_NONE; ix = slots[ix].next)
    add_leaver(self, group, n, machine, ix);
  for (RequestIx ix = machine->decode_queue.first; ix != REQUEST_NONE; ix = slots[ix].next)
    add_leaver(self, group, n, machine, ix);
  for (size_t i = 0; i < machine->batch.n_seqs; i++)
    add_leaver(self, group, n, machine, machine->batch.entries[i].request);
}

static int by_arrival(const void *a, const void *b) {
  const uint64_t x = ((const Leaver *)a)->id, y = ((const Leaver *)b)->id;
  return (x > y) - (x < y);
}

/* All KV of prompts prefilled in part is dropped; that of decodes goes to the store, in order of
 * arrival, which has room for it as the group has left. */
static void drain(Engine *self, Group *group) {
  Request *slots = self->requests.slots;
  Machine *machines = machines_of(self, group, group->shape);
  size_t n = 0;
  for (uint32_t i = 0; i < group->n_machines[group->shape]; i++) {
    Machine *machine = &machines[i];
    for (RequestIx ix = machine->prefill_queue.first; machine->n_started > 0; ix = slots[ix].next)
      if (slots[ix].prefilled_tokens > 0) engine_drop_chunks(self, machine, ix);
    add_leavers(self, group, &n, machine);
  }
  if (n > 1) qsort(group->leavers, n, sizeof *group->leavers, by_arrival);
  for (size_t i = 0; i < n; i++) {
    const RequestIx ix = group->leavers[i].request;
    engine_suspend(self, &self->machines[group->leavers[i].machine], ix);
    book_store(group, &slots[ix], kv_tokens(&slots[ix]));
    engine_copy_out(self, ix);
  }
}

/* Goes on leaving: machines come to rest, what is on its way in arrives and all goes out. */
static void go_on_leaving(Engine *self, Group *group) {
  if (group->n_busy > 0 || group->copies[COPY_IN].count > 0) return;
  drain(self, group);
  if (group->copies[COPY_OUT].count > 0) return;
  const Shape to = group->shape == SHAPE_PREFILL ? SHAPE_DECODE : SHAPE_PREFILL;
  enter(self, group, to, GROUP_TURNS);
  group->totals.turns++;
  const int64_t bytes = group->spec->turn_bytes[to];
  const HostLink *link = &group->spec->link;
  set_timer(self, EVENT_TURN, group->ix,
            bytes > 0 ? host_link_ticks(link, LINK_TO_GPU, bytes, self->now) : 0);
}

void engine_handle_turn(Engine *self, Group *group) {
  enter(self, group, group->shape, GROUP_RUNS);
  Machine *machines = machines_of(self, group, group->shape);
  for (uint32_t i = 0; i < group->n_machines[group->shape]; i++)
    machines[i].closed = false;
  begin_all(self, group);
}

void engine_shape(Engine *self, Group *group) {
  const bool gave_back = group->gave_back;
  group->gave_back = false;
  if (group->state == GROUP_RUNS) {
    if (gave_back) begin_all(self, group);
    if (group->shape == SHAPE_DECODE) fetch(self, group);
    const GroupView view = view_of(self, group);
    if (self->pool->shape(self->states[POLICY_POOL], &view) != group->shape) {
      assert(view.takes_prompt || group->shape == SHAPE_PREFILL);
      leave(self, group);
    }
  }
  if (group->state == GROUP_LEAVES) go_on_leaving(self, group);
}

/* --- set-up */

static MachineIx first_of_pool(const SimConfig *config, uint32_t pool) {
  MachineIx first = 0;
  for (uint32_t p = 0; p < pool; p++)
    first += config->pools[p].count;
  return first;
}

static uint32_t machines_per_group(const PoolSpec *pool) {
  return pool->pipeline_stages > 1 ? (uint32_t)pool->pipeline_stages : 1;
}

static void init_group(Engine *self, Group *group, const GroupSpec *spec, uint32_t i) {
  *group = (Group){.spec = spec,
                   .ix = (GroupIx)(group - self->groups),
                   .free_blocks = spec->store_blocks,
                   .block_size = self->config->pools[spec->pools[SHAPE_DECODE]].block_size,
                   .stored = REQUEST_QUEUE_EMPTY,
                   .copies = {REQUEST_QUEUE_EMPTY, REQUEST_QUEUE_EMPTY}};
  for (int shape = 0; shape < SHAPES; shape++) {
    const PoolSpec *pool = &self->config->pools[spec->pools[shape]];
    const uint32_t n = machines_per_group(pool);
    group->first[shape] = first_of_pool(self->config, spec->pools[shape]) + i * n;
    group->n_machines[shape] = n;
    for (uint32_t m = 0; m < n; m++) {
      Machine *machine = &self->machines[group->first[shape] + m];
      machine->group = group;
      machine->closed = shape == SHAPE_DECODE;
    }
  }
}

int64_t engine_smallest_store(const Engine *self) {
  int64_t smallest = INT64_MAX;
  for (uint32_t g = 0; g < self->n_groups; g++) {
    const int64_t room = self->groups[g].spec->store_blocks * self->groups[g].block_size;
    if (room < smallest) smallest = room;
  }
  return smallest;
}

void engine_init_groups(Engine *self) {
  const SimConfig *config = self->config;
  for (uint32_t g = 0; g < config->n_groups; g++) {
    const PoolSpec *pool = &config->pools[config->groups[g].pools[0]];
    self->n_groups += pool->count / machines_per_group(pool);
  }
  self->groups = ARENA_ARRAY(self->arena, Group, self->n_groups);
  Group *group = self->groups;
  for (uint32_t g = 0; g < config->n_groups; g++) {
    const PoolSpec *pool = &config->pools[config->groups[g].pools[0]];
    for (uint32_t i = 0; i < pool->count / machines_per_group(pool); i++)
      init_group(self, group++, &config->groups[g], i);
  }
  const int64_t room = engine_smallest_store(self);
  if (room < self->smallest_room) self->smallest_room = room;
  agenda_reserve(&self->agenda, EVENT_COPY, COPY_DIRECTIONS * self->n_groups);
  agenda_reserve(&self->agenda, EVENT_TURN, self->n_groups);
}
