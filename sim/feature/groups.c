/* Groups of GPUs that change their shape: see group.h. */
#include "sim/feature/groups.h"
#include "sim/core/copying.h"
#include "sim/core/decode_run.h"
#include "sim/core/lifecycle.h"
#include "sim/core/limits.h"
#include "sim/core/marks.h"
#include "sim/core/memory.h"
#include "sim/core/waking.h"
#include "sim/feature/features.h"
#include "sim/feature/patience.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>

static Instance *instances_of(const Simulation *self, const Group *group, GroupShape shape) {
  return &self->instances[group->first[shape]];
}

const char *group_activity_name(GroupActivity activity) {
  static const char *const names[GROUP_ACTIVITIES] = {"prefill", "decode", "reshard", "drain",
                                                      "stall"};
  return names[activity];
}

/* --- from the beginning */

/* Tokens of KV that the store of each group that serves the model has room for. */
static int64_t smallest_store(const Simulation *self, uint32_t model) {
  int64_t smallest = INT64_MAX;
  for (uint32_t g = 0; g < self->config->n_groups; g++) {
    const GroupSpec *spec = &self->config->groups[g];
    const PoolSpec *pool = &self->config->pools[spec->pools[SHAPE_DECODE]];
    if (pool->model != model) continue;
    const int64_t room = spec->store_blocks * pool->block_size;
    if (room < smallest) smallest = room;
  }
  return smallest;
}

static InstanceIx first_of_pool(const SimConfig *config, uint32_t pool) {
  InstanceIx first = 0;
  for (uint32_t p = 0; p < pool; p++)
    first += config->pools[p].count;
  return first;
}

static void init_group(Simulation *self, Group *group, const GroupSpec *spec, uint32_t i) {
  *group = (Group){.spec = spec,
                   .ix = (GroupIx)(group - self->groups),
                   .free_blocks = spec->store_blocks,
                   .block_size = self->config->pools[spec->pools[SHAPE_DECODE]].block_size,
                   .pinned = {.size = spec->pinned_bytes, .bandwidth = spec->shared_bandwidth},
                   .stored = REQUEST_QUEUE_EMPTY};
  for (int shape = 0; shape < SHAPES; shape++) {
    const PoolSpec *pool = &self->config->pools[spec->pools[shape]];
    const uint32_t n = pool_replica_lanes(pool);
    group->first[shape] = first_of_pool(self->config, spec->pools[shape]) + i * n;
    group->n_instances[shape] = n;
    for (uint32_t m = 0; m < n; m++) {
      Instance *instance = &self->instances[group->first[shape] + m];
      instance->group = group;
      instance->copies = self->instances[group->first[SHAPE_PREFILL]].copies;
      if (shape == SHAPE_DECODE) instance->availability = INSTANCE_AWAY;
    }
  }
}

/* Each in the shape that prefills. */
static void start(Simulation *self) {
  const SimConfig *config = self->config;
  for (uint32_t g = 0; g < config->n_groups; g++) {
    const PoolSpec *pool = &config->pools[config->groups[g].pools[0]];
    self->n_groups += pool->count / pool_replica_lanes(pool);
  }
  self->groups = ARENA_ARRAY(self->arena, Group, self->n_groups);
  self->marked_groups = ARENA_ARRAY(self->arena, GroupIx, self->n_groups);
  Group *group = self->groups;
  for (uint32_t g = 0; g < config->n_groups; g++) {
    const PoolSpec *pool = &config->pools[config->groups[g].pools[0]];
    for (uint32_t i = 0; i < pool->count / pool_replica_lanes(pool); i++)
      init_group(self, group++, &config->groups[g], i);
  }
  for (uint32_t d = 0; d < self->n_deployments; d++) {
    Deployment *deployment = &self->deployments[d];
    const int64_t room = deployment->smallest_store = smallest_store(self, d);
    if (room < deployment->smallest_room) deployment->smallest_room = room;
  }
  agenda_reserve(&self->agenda, EVENT_COPY, self->n_groups);
  agenda_reserve(&self->agenda, EVENT_TURN, self->n_groups);
}

/* --- books */

static void book(Simulation *self, Group *group) {
  group->totals.ticks[group_activity(group)] += self->now - group->since;
  group->since = self->now;
}

static void book_all(Simulation *self) {
  for (uint32_t g = 0; g < self->n_groups; g++)
    book(self, &self->groups[g]);
}

/* Before an instance of it is counted as busy, or no more. */
static void change_idleness(Simulation *self, Instance *instance, bool idle) {
  if (!instance->group) return;
  book(self, instance->group);
  instance->group->n_busy += idle ? -1u : 1u;
}

static void sum_up(Simulation *self, SimResult *result) {
  (void)result;
  for (uint32_t g = 0; g < self->n_groups; g++)
    group_totals_subtract(&self->groups[g].totals, &self->groups[g].before);
}

static void enter(Simulation *self, Group *group, GroupShape shape, GroupState state) {
  book(self, group);
  group->shape = shape;
  group->state = state;
  sim_log(self, OUTCOME_SHAPE, NULL, group->first[shape], shape, state);
}

/* Cuts the plan for a group's instance before the first prompt that its store cannot take; what is
 * left keeps the padding of the whole. */
static void fit_store(Simulation *self, const Instance *instance) {
  if (instance->group->shape != SHAPE_PREFILL) return;
  int64_t left = group_free_blocks(instance->group);
  for (size_t i = 0; i < self->plan.n_prefills; i++) {
    const Request *request = &self->requests.slots[self->plan.prefills[i].request];
    left -= life_store_blocks(instance->group, request);
    if (left >= 0) continue;
    self->plan.n_prefills = i;
    if (i == 0) self->plan.padding.prefill_tokens = self->plan.padding.prefill_area2 = 0;
    return;
  }
}

/* --- copies */

/* A copy out of the GPUs is about to be queued: from when on it can begin. */
static Tick room_at(Simulation *self, Group *group, CopyDirection direction, int64_t bytes) {
  return direction == COPY_OUT ? pinned_room_at(&group->pinned, bytes, self->now) : self->now;
}

/* It ends at `end`, and is copied on to the store. */
static void pass_on(Simulation *self, Group *group, RequestIx ix, int64_t bytes, Tick end) {
  PinnedMemory *pinned = &group->pinned;
  if (pinned->bandwidth == 0) return;
  const Tick begin = end > pinned->free_at ? end : pinned->free_at;
  if (sim_passes_the_end(self, (double)(begin - self->now) + pinned_ticks(pinned, bytes))) return;
  pinned_pass_on(pinned, ix, bytes, end, self->arena);
}

/* When the first of what is stored can be read. */
static Tick readable_at(const Simulation *self, const Group *group) {
  return group->pinned.bandwidth > 0 ? group->pinned.readable_at[group->stored.first] : self->now;
}

static void push_copy(Simulation *self, Group *group, CopyDirection direction, RequestIx ix,
                      Instance *instance) {
  static const LinkDirection directions[] = {[COPY_OUT] = LINK_TO_CPU, [COPY_IN] = LINK_TO_GPU};
  const Request *request = &self->requests.slots[ix];
  const int64_t tokens = request_kv_tokens(request);
  const int64_t bytes = pool_kv_bytes(instance->pool, tokens);
  const double share = group->spec->copy_share[direction];
  const int64_t on_link = share > 0 ? llround((double)bytes * share) : bytes;
  const Tick from = room_at(self, group, direction, bytes);
  const Tick end = sim_copy(self, instance, directions[direction], on_link, from);
  if (direction == COPY_OUT) pass_on(self, group, ix, bytes, end);
  KvCopies *copies = &group->copies[direction];
  if (2 * copies->first >= copies->last) { // the places of those that have ended
    copies->last -= copies->first;
    for (size_t i = 0; i < copies->last; i++)
      copies->items[i] = copies->items[copies->first + i];
    copies->first = 0;
  }
  ARENA_RESERVE(self->arena, copies->items, copies->capacity, copies->last + 1);
  copies->items[copies->last++] = (KvCopy){ix, end};
  group->totals.copied_bytes[direction] += bytes;
  sim_log(self, direction == COPY_OUT ? OUTCOME_COPY_OUT : OUTCOME_COPY_IN, request, instance->ix,
          tokens, end);
}

/* A request on its way out is still on the instance that has decoded it, if one has. */
static Instance *source_of(const Simulation *self, const Request *request) {
  const InstanceIx decode = request->decode_instance;
  return &self->instances[decode == INSTANCE_NONE ? request->prefill_instance : decode];
}

/* A prefill on a group's instance has ended: its KV is copied out. */
static void copy_out(Simulation *self, RequestIx ix) {
  Instance *from = source_of(self, &self->requests.slots[ix]);
  life_left(self, from, ix);
  push_copy(self, from->group, COPY_OUT, ix, from);
}

static void end_copy_out(Simulation *self, RequestIx ix) {
  Instance *from = source_of(self, &self->requests.slots[ix]);
  life_stored(self, from, ix);
  sim_wake(self, from, WAKE_RELEASE, ix);
}

static void end_copy_in(Simulation *self, RequestIx ix) {
  Instance *to = &self->instances[self->requests.slots[ix].decode_instance];
  life_arrived(self, ix);
  sim_wake(self, to, WAKE_DECODE, ix);
}

/* When the copy of a request of a group, which is under way, ends. */
static Tick copy_end(const Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  const Group *group = self->instances[request->prefill_instance].group;
  const KvCopies *copies = &group->copies[request->state == REQUEST_MOVES ? COPY_OUT : COPY_IN];
  size_t i = copies->first;
  while (copies->items[i].request != ix)
    i++;
  return copies->items[i].end;
}

/* One that is in a copy leaves as that ends, which is looked at then. */
static void leave_copy(Simulation *self, RequestIx ix) {
  patience_drop(self, ix); // of one that is lost
  patience_look_again(self, ix, copy_end(self, ix));
}

/* The copies of a group that have ended by now: who waited for them goes on. Whether any has. */
static bool end_copies(Simulation *self, Group *group) {
  bool ended = false;
  for (int direction = 0; direction < COPY_DIRECTIONS; direction++) {
    KvCopies *copies = &group->copies[direction];
    while (copies->first < copies->last && copies->items[copies->first].end <= self->now) {
      const RequestIx ix = copies->items[copies->first++].request;
      if (request_leaves(&self->requests.slots[ix]))
        life_left_early(self, ix, 0);
      else if (direction == COPY_OUT)
        end_copy_out(self, ix);
      else
        end_copy_in(self, ix);
      ended = true;
    }
  }
  if (!ended) return false;
  if (!group->spec->overlaps && !group_copies(group)) sim_mark_idle(self, group);
  sim_mark_group(self, group);
  return true;
}

/* Before an event its group learns which copies have ended, and so they come before all else of
 * their tick. That may bring about others before the event. False when none has. */
static bool end_copies_before(Simulation *self) {
  const Event *event = agenda_first(&self->agenda);
  Group *only = event->kind == EVENT_ITERATION ? self->instances[event->target].group
                : event->kind == EVENT_COPY || event->kind == EVENT_TURN
                    ? &self->groups[event->target]
                    : NULL;
  self->now = event->at;
  self->event = (Event){0}; // nothing of this tick has ended yet
  self->reached = 0;
  bool ended = only && end_copies(self, only);
  for (uint32_t g = 0; !only && g < self->n_groups; g++)
    ended |= end_copies(self, &self->groups[g]);
  return ended;
}

/* --- fetching */

/* Of the instances that decode, the first of those with the fewest decodes that have room for the
 * request beside what runs; NULL if none has. */
static Instance *find_room(const Simulation *self, const Group *group, const Request *request) {
  Instance *instances = instances_of(self, group, SHAPE_DECODE), *best = NULL;
  for (uint32_t i = 0; i < group->n_instances[SHAPE_DECODE]; i++) {
    Instance *instance = &instances[i];
    if (best && instance->n_decodes >= best->n_decodes) continue;
    const int64_t blocks = instance_held_blocks(instance, request_tokens(request));
    if (sim_has_room(self, instance, blocks)) best = instance;
  }
  return best;
}

/* Begins to copy in what the store has, in order, as far as there is room. */
static void fetch(Simulation *self, Group *group) {
  while (group->stored.count > 0) {
    const RequestIx ix = group->stored.first;
    if (readable_at(self, group) > self->now) return;
    Instance *instance = find_room(self, group, &self->requests.slots[ix]);
    if (!instance) return;
    life_fetched(self, instance, ix);
    push_copy(self, group, COPY_IN, ix, instance);
  }
}

/* --- changing the shape */

/* Blocks of the store that are free once all of the KV on instances that decode is in it, with what
 * the iterations under way add; what is being copied in counts twice. */
static int64_t room_after_leaving(const Simulation *self, const Group *group) {
  int64_t room = group_free_blocks(group);
  const Instance *instances = instances_of(self, group, SHAPE_DECODE);
  for (uint32_t i = 0; i < group->n_instances[SHAPE_DECODE]; i++)
    room -= instances[i].pool->kv_blocks - sim_free_blocks(self, &instances[i]);
  return room;
}

static bool takes_prompt(const Simulation *self, const Group *group) {
  const int64_t room = room_after_leaving(self, group);
  const Instance *instances = instances_of(self, group, SHAPE_PREFILL);
  bool waiting = false;
  for (uint32_t i = 0; i < group->n_instances[SHAPE_PREFILL]; i++) {
    const RequestIx ix = instances[i].prefill_queue.first;
    if (ix == REQUEST_NONE) continue;
    const Request *request = &self->requests.slots[ix];
    waiting = true;
    if (life_store_blocks(group, request) <= room) return true;
  }
  return !waiting && room >= 0;
}

static GroupView view_of(const Simulation *self, const Group *group) {
  GroupView view = {.shape = group->shape,
                    .takes_prompt = takes_prompt(self, group),
                    .room_blocks = room_after_leaving(self, group),
                    .n_stored = group->stored.count + group_copying(group, COPY_OUT) +
                                group_copying(group, COPY_IN),
                    .stored_blocks = group->spec->store_blocks - group->free_blocks,
                    .store_blocks = group->spec->store_blocks};
  const Instance *prefill = instances_of(self, group, SHAPE_PREFILL);
  for (uint32_t i = 0; i < group->n_instances[SHAPE_PREFILL]; i++)
    view.n_prompts += prefill[i].n_prefills;
  const Instance *decode = instances_of(self, group, SHAPE_DECODE);
  for (uint32_t i = 0; i < group->n_instances[SHAPE_DECODE]; i++) {
    view.n_decoding += decode[i].n_decodes;
    view.gpu_blocks += decode[i].pool->kv_blocks;
  }
  return view;
}

static void leave(Simulation *self, Group *group) {
  enter(self, group, group->shape, GROUP_LEAVES);
  Instance *instances = instances_of(self, group, group->shape);
  for (uint32_t i = 0; i < group->n_instances[group->shape]; i++) {
    instances[i].availability = INSTANCE_AWAY;
    if (instances[i].activity == ACTIVITY_DECODE) sim_cut_run(self, &instances[i]);
  }
}

static void add_leaver(Simulation *self, Group *group, size_t *n, Instance *instance,
                       RequestIx ix) {
  ARENA_RESERVE(self->arena, group->leavers, group->leavers_capacity, *n + 1);
  group->leavers[(*n)++] = (Leaver){self->requests.slots[ix].id, ix, instance->ix};
}

/* Those with KV of a prefill that has ended on an idle instance. */
static void add_leavers(Simulation *self, Group *group, size_t *n, Instance *instance) {
  const Request *slots = self->requests.slots;
  for (RequestIx ix = instance->blocked.first; ix != REQUEST_NONE; ix = slots[ix].next)
    add_leaver(self, group, n, instance, ix);
  for (RequestIx ix = instance->decode_queue.first; ix != REQUEST_NONE; ix = slots[ix].next)
    add_leaver(self, group, n, instance, ix);
  for (size_t i = 0; i < instance->batch.n_seqs; i++)
    add_leaver(self, group, n, instance, instance->batch.entries[i].request);
}

static int by_arrival(const void *a, const void *b) {
  const uint64_t x = ((const Leaver *)a)->id, y = ((const Leaver *)b)->id;
  return (x > y) - (x < y);
}

/* All KV of prompts prefilled in part is dropped; that of decodes goes to the store, in order of
 * arrival, which has room for it as the group has left. */
static void drain(Simulation *self, Group *group) {
  Request *slots = self->requests.slots;
  Instance *instances = instances_of(self, group, group->shape);
  size_t n = 0;
  for (uint32_t i = 0; i < group->n_instances[group->shape]; i++) {
    Instance *instance = &instances[i];
    for (RequestIx ix = instance->prefill_queue.first; instance->n_started > 0; ix = slots[ix].next)
      if (slots[ix].prefilled_tokens > 0) life_chunks_dropped(self, instance, ix);
    add_leavers(self, group, &n, instance);
  }
  if (n > 1) qsort(group->leavers, n, sizeof *group->leavers, by_arrival);
  for (size_t i = 0; i < n; i++) {
    const RequestIx ix = group->leavers[i].request;
    copy_out(self, ix);
    life_store_booked(group, &slots[ix], request_kv_tokens(&slots[ix]));
  }
}

/* Goes on leaving: instances come to rest, what is on its way in arrives and all goes out. */
static void go_on_leaving(Simulation *self, Group *group) {
  if (group->n_busy > 0 || group_copying(group, COPY_IN) > 0) return;
  drain(self, group);
  if (group_copying(group, COPY_OUT) > 0) return;
  const GroupShape to = group->shape == SHAPE_PREFILL ? SHAPE_DECODE : SHAPE_PREFILL;
  enter(self, group, to, GROUP_TURNS);
  group->totals.turns++;
  const int64_t bytes = group->spec->turn_bytes[to];
  Instance *instance = instances_of(self, group, to);
  const Tick end = bytes > 0 ? sim_copy(self, instance, LINK_TO_GPU, bytes, self->now) : self->now;
  agenda_set(&self->agenda, EVENT_TURN, group->ix, end > self->now ? end : self->now + 1);
}

static void run(Simulation *self, Group *group, GroupShape shape) {
  enter(self, group, shape, GROUP_RUNS);
  Instance *instances = instances_of(self, group, shape);
  for (uint32_t i = 0; i < group->n_instances[shape]; i++)
    instances[i].availability = INSTANCE_UP;
  sim_mark_idle(self, group);
}

/* It has ended before its event; or what is stored can be read. */
static void handle_copy(Simulation *self, uint32_t target) {
  Group *group = &self->groups[target];
  if (group->pinned.bandwidth > 0) sim_mark_group(self, group);
}

static void handle_turn(Simulation *self, uint32_t target) {
  Group *group = &self->groups[target];
  run(self, group, group->shape);
}

void groups_stop(Simulation *self, Group *group) {
  if (group->state == GROUP_FAILED) return;
  enter(self, group, group->shape, GROUP_FAILED);
  agenda_clear(&self->agenda, EVENT_TURN, group->ix);
  sim_mark_group(self, group);
}

void groups_drop_copies(Group *group) {
  for (int direction = 0; direction < COPY_DIRECTIONS; direction++)
    group->copies[direction].first = group->copies[direction].last = 0;
  pinned_drop(&group->pinned);
}

void groups_restart(Simulation *self, Group *group) {
  Instance *instances = instances_of(self, group, SHAPE_DECODE);
  for (uint32_t i = 0; i < group->n_instances[SHAPE_DECODE]; i++)
    instances[i].availability = INSTANCE_AWAY;
  run(self, group, SHAPE_PREFILL);
  sim_mark_group(self, group);
}

void groups_stay_in_decode(Simulation *self, Group *group) {
  if (group->state == GROUP_LEAVES && group->shape == SHAPE_DECODE) run(self, group, SHAPE_DECODE);
}

/* Whether an instance that decodes would have what comes in now join at its next iteration. */
static bool awaits_requests(const Simulation *self, const Group *group) {
  const Instance *instances = instances_of(self, group, group->shape);
  for (uint32_t i = 0; i < group->n_instances[group->shape]; i++)
    if (instances[i].activity == ACTIVITY_DECODE && !instances[i].run.ends_soon) return true;
  return false;
}

static GroupShape wanted_shape(const Simulation *self, const Group *group, const GroupView *view) {
  const Instance *instance = &self->instances[group->first[SHAPE_PREFILL]];
  return self->pool_policy->shape(sim_deployment_of(self, instance)->pool_state, view);
}

/* Whether the policy might leave decode before the last of what comes in is there, the store as
 * empty as can be. */
static bool may_leave_soon(const Simulation *self, const Group *group) {
  GroupView view = view_of(self, group);
  view.takes_prompt = true;
  view.room_blocks = view.store_blocks;
  view.stored_blocks = 0;
  return wanted_shape(self, group, &view) != group->shape;
}

/* The end of a copy for which somebody waits, in one direction; TICK_MAX: nobody does. */
static Tick next_awaited(const Simulation *self, const Group *group, CopyDirection direction) {
  const KvCopies *copies = &group->copies[direction];
  if (copies->first == copies->last || group->state == GROUP_FAILED) return TICK_MAX;
  bool first = false, last = true; // of the last: the group leaves, or has nothing stored any more
  if (group->state == GROUP_RUNS) {
    first = group->n_busy < group->n_instances[group->shape];
    last = direction == COPY_IN;
    if (last && !first) first = awaits_requests(self, group) || may_leave_soon(self, group);
  }
  if (!first && !last) return TICK_MAX;
  return copies->items[first ? copies->first : copies->last - 1].end;
}

/* When the first of what is stored can be read that could not so far; TICK_MAX: nobody waits. */
static Tick next_readable(const Simulation *self, const Group *group) {
  if (group->state != GROUP_RUNS || group->shape != SHAPE_DECODE || group->stored.count == 0)
    return TICK_MAX;
  const Tick at = readable_at(self, group);
  return at > self->now ? at : TICK_MAX;
}

static void await_copies(Simulation *self, const Group *group) {
  const Tick ends[] = {next_awaited(self, group, COPY_OUT), next_awaited(self, group, COPY_IN),
                       next_readable(self, group)};
  Tick at = ends[0];
  for (int i = 1; i < 3; i++)
    if (ends[i] < at) at = ends[i];
  const Event *event = agenda_find(&self->agenda, EVENT_COPY, group->ix);
  if (at == TICK_MAX)
    agenda_clear(&self->agenda, EVENT_COPY, group->ix);
  else if (!event || event->at != at)
    agenda_set(&self->agenda, EVENT_COPY, group->ix, at);
}

/* Something changed on an instance of the group: copies in what there is room for, asks for its
 * shape, and goes on leaving the present one. */
static void settle(Simulation *self, Group *group) {
  if (group->state == GROUP_RUNS) {
    if (group->shape == SHAPE_DECODE) fetch(self, group);
    const GroupView view = view_of(self, group);
    if (wanted_shape(self, group, &view) != group->shape) {
      assert(view.takes_prompt || group->shape == SHAPE_PREFILL);
      leave(self, group);
    }
  }
  if (group->state == GROUP_LEAVES) go_on_leaving(self, group);
  await_copies(self, group);
}

/* --- audit */

/* Every request of a group has its KV in one place, and a place in the store from its prefill until
 * it is on the instance that decodes it; of two shapes one at most is at work. */
static void check(const Simulation *self) {
  for (uint32_t g = 0; g < self->n_groups; g++) {
    const Group *group = &self->groups[g];
    for (int direction = 0; direction < COPY_DIRECTIONS; direction++) {
      const KvCopies *copies = &group->copies[direction];
      for (size_t i = copies->first; i + 1 < copies->last; i++)
        assert(copies->items[i].end < copies->items[i + 1].end);
    }
    int64_t stored = 0;
    int32_t n_out = 0, n_in = 0;
    for (size_t i = 0; i < self->requests.n_slots; i++) {
      const Request *request = &self->requests.slots[i];
      if (request->state == REQUEST_FREE || request->prefill_instance == INSTANCE_NONE) continue;
      if (self->instances[request->prefill_instance].group != group) continue;
      stored += request->store_blocks;
      n_out += request->state == REQUEST_MOVES;
      n_in += request->state == REQUEST_FETCHED;
      assert(request->state != REQUEST_STORED || request->store_blocks > 0);
    }
    assert(group->free_blocks + stored == group->spec->store_blocks);
    assert(n_out == group_copying(group, COPY_OUT) && n_in == group_copying(group, COPY_IN));
    assert(group->n_store_faults == 0 || group->stored.count == 0);
    const bool failed = group->state == GROUP_FAILED;
    uint32_t n_busy = 0;
    for (int shape = 0; shape < SHAPES; shape++)
      for (uint32_t i = 0; i < group->n_instances[shape]; i++) {
        const Instance *instance = &self->instances[group->first[shape] + i];
        const bool up = group->shape == (GroupShape)shape && group->state == GROUP_RUNS;
        const bool leaves = group->shape == (GroupShape)shape && group->state == GROUP_LEAVES;
        assert(failed ? instance->availability >= INSTANCE_DOWN
                      : instance->availability == (up ? INSTANCE_UP : INSTANCE_AWAY));
        const bool works = up || leaves || (failed && instance->listed);
        assert(works || instance->activity == ACTIVITY_IDLE);
        if (!works) assert(instance->free_blocks == instance->pool->kv_blocks);
        n_busy += instance->activity != ACTIVITY_IDLE;
      }
    assert(n_busy == group->n_busy);
  }
}

static bool is_used(const Simulation *self) {
  return self->config->n_groups > 0;
}

const Feature feature_groups = {
    .is_used = is_used,
    .start = start,
    .handlers = {[EVENT_COPY] = handle_copy, [EVENT_TURN] = handle_turn},
    .ends_copies = end_copies_before,
    .books_close = book_all,
    .run_ends = book_all,
    .sums_up = sum_up,
    .idleness_changes = change_idleness,
    .group_plans = fit_store,
    .group_prefilled = copy_out,
    .group_copy_leaves = leave_copy,
    .group_settles = settle,
    .audits = check,
};
