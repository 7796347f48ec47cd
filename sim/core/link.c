/* See link.h. Bytes and ticks are converted through doubles: the products stay below 2^53 relative
 * precision, IEEE operations give the same bits everywhere, and a flow is off by at most one byte
 * per change of its rate. */
#include "sim/core/link.h"
#include "base/heap.h"
#include "base/units.h"
#include <assert.h>

/* A link to fill: in the order in which it was touched, then in a heap. The key is its share and,
 * of equal ones, which comes first; it may be less than what it would be now, never more. */
typedef struct TouchedLink {
  Wide key;
  uint32_t nic;    // 2 * instance + side, or
  uint32_t shared; // where `nic` is SHARED
} TouchedLink;

#define SHARED UINT32_MAX

void links_init(Links *self, const int64_t *capacities, uint32_t n_instances, Arena *arena) {
  *self = (Links){.arena = arena, .n_instances = n_instances};
  for (int side = 0; side < NIC_SIDES; side++) {
    self->nics[side] = ARENA_ARRAY(arena, Nic, n_instances);
    for (uint32_t m = 0; m < n_instances; m++)
      self->nics[side][m] = (Nic){.nominal = capacities[m],
                                  .capacity = capacities[m],
                                  .first = FLOW_NONE,
                                  .last = FLOW_NONE};
  }
}

void links_set_uplinks(Links *self, const Uplinks *uplinks) {
  if (uplinks->n == 0) return;
  self->uplinks = uplinks;
  self->shared = ARENA_ARRAY(self->arena, SharedLink, 2 * (size_t)uplinks->n);
  for (uint32_t i = 0; i < 2 * uplinks->n; i++)
    self->shared[i].capacity = (double)uplinks->bandwidth[i / 2];
  size_t most = 0;
  for (uint32_t m = 0; m < uplinks->n_instances; m++)
    if (uplinks->first[m + 1] - uplinks->first[m] > most)
      most = uplinks->first[m + 1] - uplinks->first[m];
  self->crossings = ARENA_ARRAY(self->arena, Crossing, 2 * most);
  links_reserve(self, self->n_flows);
}

void links_reserve(Links *self, uint32_t n_flows) {
  if (n_flows > self->n_flows) self->n_flows = n_flows;
  ARENA_RESERVE(self->arena, self->flows, self->flows_capacity, n_flows);
  ARENA_RESERVE(self->arena, self->changed, self->changed_capacity, n_flows);
  const size_t n_shared = self->uplinks ? 2 * (size_t)self->uplinks->n : 0;
  ARENA_RESERVE(self->arena, self->touched, self->touched_capacity, 2 * (size_t)n_flows + n_shared);
}

static Nic *nic_of(const Links *self, const Flow *flow, NicSide side) {
  return &self->nics[side][flow->ends[side]];
}

static void join_nics(Links *self, FlowIx ix) {
  Flow *flow = &self->flows[ix];
  for (int side = 0; side < NIC_SIDES; side++) {
    Nic *nic = nic_of(self, flow, (NicSide)side);
    const FlowIx last = nic->last;
    flow->next[side] = FLOW_NONE;
    flow->previous[side] = last;
    *(last == FLOW_NONE ? &nic->first : &self->flows[last].next[side]) = nic->last = ix;
    nic->n_flows++;
  }
}

static void leave_nics(Links *self, const Flow *flow) {
  for (int side = 0; side < NIC_SIDES; side++) {
    Nic *nic = nic_of(self, flow, (NicSide)side);
    const FlowIx next = flow->next[side], previous = flow->previous[side];
    *(previous == FLOW_NONE ? &nic->first : &self->flows[previous].next[side]) = next;
    *(next == FLOW_NONE ? &nic->last : &self->flows[next].previous[side]) = previous;
    nic->n_flows--;
  }
}

static void settle_progress(Flow *flow, Tick now) {
  double moved = (double)flow->rate * tick_seconds(now - flow->updated_at);
  int64_t bytes = moved < (double)flow->bytes_left ? (int64_t)moved : flow->bytes_left;
  flow->bytes_left -= bytes;
  flow->updated_at = now;
}

static void set_rate(Links *self, FlowIx ix, int64_t rate, Tick now) {
  Flow *flow = &self->flows[ix];
  if (flow->rate == rate) return;
  settle_progress(flow, now);
  flow->rate = rate;
  self->changed[self->n_changed++] = ix;
}

static Nic *touched_nic(const Links *self, const TouchedLink *link) {
  return &self->nics[link->nic % NIC_SIDES][link->nic / NIC_SIDES];
}

static NicSide other_side(NicSide side) {
  return side == NIC_OUT ? NIC_IN : NIC_OUT;
}

/* Whether a NIC has one flow only, for which the NIC at its other end is always the tighter one.
 * Where that has others too, these have at least a byte per second each, if no NIC is down. */
static bool is_wider(const Links *self, const Nic *nic, NicSide side) {
  if (nic->n_flows != 1) return false;
  const Nic *other = nic_of(self, &self->flows[nic->first], other_side(side));
  if (nic->capacity != other->capacity) return nic->capacity > other->capacity;
  return other->n_flows > 1 ? !self->stalls : side == NIC_IN;
}

/* Puts a NIC on the list of those to fill if it can be a bottleneck. */
static inline void touch(Links *self, InstanceIx instance, NicSide side) {
  Nic *nic = &self->nics[side][instance];
  if (nic->touched || nic->n_flows == 0 || is_wider(self, nic, side)) return;
  nic->touched = true;
  nic->n_unsettled = nic->n_flows;
  nic->left = nic->capacity;
  self->touched[self->n_touched++] = (TouchedLink){.nic = NIC_SIDES * instance + (uint32_t)side};
}

static void touch_with_other(Links *self, InstanceIx instance, NicSide side) {
  const FlowIx first = self->nics[side][instance].first;
  if (first == FLOW_NONE) return;
  touch(self, instance, side);
  touch(self, self->flows[first].ends[other_side(side)], other_side(side));
}

/* All that a change of one going out and one coming in can reach: those, those of their flows, and
 * so on. */
static void touch_all(Links *self, InstanceIx out, InstanceIx in) {
  touch_with_other(self, out, NIC_OUT);
  touch_with_other(self, in, NIC_IN);
  for (size_t i = 0; i < self->n_touched; i++) {
    const NicSide side = (NicSide)(self->touched[i].nic % NIC_SIDES);
    const NicSide other = other_side(side);
    FlowIx ix = touched_nic(self, &self->touched[i])->first;
    for (; ix != FLOW_NONE; ix = self->flows[ix].next[side]) {
      Flow *flow = &self->flows[ix];
      self->n_unsettled += flow->settled;
      flow->settled = false;
      touch(self, flow->ends[other], other);
    }
  }
}

/* Lists the flows through each direction of an uplink, by their numbers. */
static void list_crossers(Links *self) {
  size_t n = 0;
  for (uint32_t i = 0; i < 2 * self->uplinks->n; i++) {
    SharedLink *link = &self->shared[i];
    link->crossers = self->crossers + n;
    n += (size_t)link->n_unsettled;
    link->n_unsettled = 0;
  }
  for (FlowIx ix = 0; ix < self->n_flows; ix++) {
    const Flow *flow = &self->flows[ix];
    for (size_t i = 0; flow->active && i < flow->n_crossings; i++) {
      SharedLink *link = &self->shared[flow->crossings[i].link];
      link->crossers[link->n_unsettled++] = ix;
    }
  }
}

/* All flows, their NICs and uplinks. */
static void touch_everything(Links *self) {
  for (uint32_t i = 0; i < 2 * self->uplinks->n; i++) {
    SharedLink *link = &self->shared[i];
    *link = (SharedLink){.capacity = link->capacity, .left = link->capacity};
  }
  for (FlowIx ix = 0; ix < self->n_flows; ix++) {
    Flow *flow = &self->flows[ix];
    if (!flow->active) continue;
    flow->settled = false;
    self->n_unsettled++;
    touch(self, flow->ends[NIC_OUT], NIC_OUT);
    touch(self, flow->ends[NIC_IN], NIC_IN);
    for (size_t i = 0; i < flow->n_crossings; i++) {
      SharedLink *link = &self->shared[flow->crossings[i].link];
      link->parts += flow->crossings[i].part;
      link->n_unsettled++;
    }
  }
  list_crossers(self);
  for (uint32_t i = 0; i < 2 * self->uplinks->n; i++) {
    self->shared[i].n_crossers = self->shared[i].n_unsettled;
    if (self->shared[i].n_crossers > 0)
      self->touched[self->n_touched++] = (TouchedLink){.nic = SHARED, .shared = i};
  }
}

/* --- the links to fill, by their shares */

static Wide heap_key(const TouchedLink *item) {
  return item->key;
}

static void heap_moved(Links *self, size_t index, const TouchedLink *item) {
  *(item->nic == SHARED ? &self->shared[item->shared].place : &touched_nic(self, item)->place) =
      (uint32_t)index;
}

HEAP_STEPS(Links, TouchedLink)

static int64_t nic_share(const Nic *nic) {
  return nic->n_unsettled == 1 ? nic->left : nic->left / nic->n_unsettled;
}

static int64_t shared_share(const SharedLink *link) {
  static const double most = 1e18;
  const double each = link->left > 0 ? link->left / link->parts : 0;
  return (int64_t)(each < most ? each : most);
}

/* Of links that have the same share NICs come before uplinks, and these by their numbers; of NICs
 * the one with the oldest flow is the first, and of those of one flow that out of it. */
static Wide key_of(const Links *self, const TouchedLink *link) {
  if (link->nic == SHARED)
    return wide_of(shared_share(&self->shared[link->shared]), UINT64_C(1) << 63 | link->shared);
  const Nic *nic = touched_nic(self, link);
  return wide_of(nic_share(nic), self->flows[nic->first].number << 1 | link->nic % NIC_SIDES);
}

/* A NIC all of whose flows are settled need not be filled any more. */
static bool is_filled(const Links *self, const TouchedLink *link) {
  if (link->nic == SHARED) return self->shared[link->shared].n_unsettled == 0;
  Nic *nic = touched_nic(self, link);
  if (nic->n_unsettled == 0) nic->touched = false;
  return nic->n_unsettled == 0;
}

/* The link to fill first, before they are in a heap: often one limits all flows. */
static TouchedLink first_tightest(const Links *self) {
  assert(self->n_touched > 0);
  TouchedLink ret = self->touched[0];
  ret.key = key_of(self, &ret);
  for (size_t i = 1; i < self->n_touched; i++) {
    const Wide key = key_of(self, &self->touched[i]);
    if (key < ret.key) {
      ret = self->touched[i];
      ret.key = key;
    }
  }
  return ret;
}

/* Makes a heap of those that are not filled. */
static void order(Links *self) {
  size_t n = 0;
  for (size_t i = 0; i < self->n_touched; i++) {
    TouchedLink link = self->touched[i];
    if (is_filled(self, &link)) continue;
    link.key = key_of(self, &link);
    heap_moved(self, n, &link);
    self->touched[n++] = link;
  }
  for (size_t i = (n + HEAP_CHILDREN - 2) / HEAP_CHILDREN; i-- > 0;) {
    const TouchedLink link = self->touched[i];
    heap_sink(self, self->touched, n, i, &link);
  }
  self->n_touched = n;
  self->ordered = true;
}

/* The touched link with the smallest share for each of its unsettled flows; some flow is
 * unsettled. */
static TouchedLink tightest(Links *self) {
  for (;;) {
    TouchedLink link = self->touched[0];
    if (is_filled(self, &link)) {
      assert(self->n_touched > 1);
      link = self->touched[--self->n_touched];
    } else {
      const Wide key = key_of(self, &link);
      if (key == link.key) return link;
      link.key = key;
    }
    heap_sink(self, self->touched, self->n_touched, 0, &link);
  }
}

/* Its share may have become less: by rounding, or where a flow's rate was made more than that. */
static void lessen(Links *self, uint32_t place) {
  if (!self->ordered) return;
  TouchedLink link = self->touched[place];
  const Wide key = key_of(self, &link);
  if (key >= link.key) return;
  link.key = key;
  heap_rise(self, self->touched, place, &link);
}

static void settle_crossings(Links *self, const Flow *flow, int64_t share) {
  for (size_t i = 0; i < flow->n_crossings; i++) {
    SharedLink *link = &self->shared[flow->crossings[i].link];
    link->left -= flow->crossings[i].part * (double)share;
    link->parts -= flow->crossings[i].part;
    if (--link->n_unsettled > 0) lessen(self, link->place);
  }
}

static void settle(Links *self, FlowIx ix, int64_t share, Tick now) {
  Flow *flow = &self->flows[ix];
  flow->settled = true;
  self->n_unsettled--;
  if (flow->n_crossings > 0) settle_crossings(self, flow, share);
  for (int side = 0; side < NIC_SIDES; side++) {
    Nic *nic = nic_of(self, flow, (NicSide)side);
    if (!nic->touched) continue;
    nic->left -= share;
    if (--nic->n_unsettled > 0 && share <= 1) lessen(self, nic->place);
  }
  set_rate(self, ix, share, now);
}

static void settle_crossers(Links *self, const SharedLink *link, int64_t share, Tick now) {
  for (int32_t i = 0; i < link->n_crossers; i++)
    if (!self->flows[link->crossers[i]].settled)
      settle(self, link->crossers[i], share > 1 ? share : 1, now);
}

static void settle_nic(Links *self, const Nic *nic, NicSide side, int64_t share, Tick now) {
  const int64_t least = nic->capacity > 0;
  for (FlowIx ix = nic->first; ix != FLOW_NONE; ix = self->flows[ix].next[side])
    if (!self->flows[ix].settled) settle(self, ix, share > least ? share : least, now);
}

static void settle_link(Links *self, const TouchedLink *link, Tick now) {
  const int64_t share = (int64_t)(link->key >> 64);
  if (link->nic == SHARED)
    settle_crossers(self, &self->shared[link->shared], share, now);
  else
    settle_nic(self, touched_nic(self, link), (NicSide)(link->nic % NIC_SIDES), share, now);
}

/* Progressive filling over what a change of the NICs of two instances can reach, or over everything
 * where there are uplinks; a share is at least one byte per second where the NIC is not down. */
static void fill(Links *self, InstanceIx out, InstanceIx in, Tick now) {
  self->n_touched = 0;
  self->n_unsettled = 0;
  if (self->uplinks)
    touch_everything(self);
  else
    touch_all(self, out, in);
  self->ordered = false;
  while (self->n_unsettled > 0) {
    const TouchedLink link = self->ordered ? tightest(self) : first_tightest(self);
    settle_link(self, &link, now);
    if (self->n_unsettled > 0 && !self->ordered) order(self);
  }
  for (size_t i = 0; i < self->n_touched; i++)
    if (self->touched[i].nic != SHARED) touched_nic(self, &self->touched[i])->touched = false;
}

void links_begin(Links *self, FlowIx ix, InstanceIx from, InstanceIx to, int64_t bytes, Tick now) {
  assert(bytes > 0 && from != to && ix < self->flows_capacity);
  Flow *flow = &self->flows[ix];
  assert(!flow->active);
  *flow = (Flow){.ends = {from, to},
                 .active = true,
                 .settled = true,
                 .number = self->n_begun++,
                 .bytes_left = bytes,
                 .updated_at = now,
                 .crossings = flow->crossings,
                 .crossings_capacity = flow->crossings_capacity};
  if (self->uplinks) {
    const size_t most = uplinks_most_crossings(self->uplinks, from, to);
    ARENA_RESERVE(self->arena, flow->crossings, flow->crossings_capacity, most);
    flow->n_crossings = uplinks_cross(self->uplinks, from, to, flow->crossings);
    self->n_crossings += flow->n_crossings;
    ARENA_RESERVE(self->arena, self->crossers, self->crossers_capacity, self->n_crossings);
  }
  join_nics(self, ix);
  const Nic *out = nic_of(self, flow, NIC_OUT), *in = nic_of(self, flow, NIC_IN);
  self->n_changed = 0;
  self->stalls |= out->capacity == 0 || in->capacity == 0;
  if (out->n_flows == 1 && in->n_flows == 1 && !self->uplinks)
    set_rate(self, ix, out->capacity < in->capacity ? out->capacity : in->capacity, now);
  else
    fill(self, from, to, now);
}

void links_set_capacity(Links *self, InstanceIx instance, int64_t capacity, Tick now) {
  self->nics[NIC_OUT][instance].capacity = self->nics[NIC_IN][instance].capacity = capacity;
  self->n_changed = 0;
  self->stalls |= capacity == 0;
  fill(self, instance, instance, now);
}

void links_add(Links *self, FlowIx ix, int64_t bytes, Tick now) {
  Flow *flow = &self->flows[ix];
  assert(flow->active && bytes > 0);
  settle_progress(flow, now);
  flow->bytes_left += bytes;
  self->changed[0] = ix;
  self->n_changed = 1;
}

int64_t links_end(Links *self, FlowIx ix, Tick now) {
  Flow *flow = &self->flows[ix];
  assert(flow->active);
  settle_progress(flow, now);
  flow->active = false;
  leave_nics(self, flow);
  self->n_crossings -= flow->n_crossings;
  self->n_changed = 0;
  fill(self, flow->ends[NIC_OUT], flow->ends[NIC_IN], now);
  return flow->bytes_left;
}

int64_t links_alone_rate(const Links *self, InstanceIx from, InstanceIx to) {
  const int64_t out = self->nics[NIC_OUT][from].nominal, in = self->nics[NIC_IN][to].nominal;
  const int64_t nics = out < in ? out : in;
  if (!self->uplinks) return nics;
  double least = (double)nics;
  const size_t n = uplinks_cross(self->uplinks, from, to, self->crossings);
  for (size_t i = 0; i < n; i++) {
    const Crossing *crossing = &self->crossings[i];
    const double rate = self->shared[crossing->link].capacity / crossing->part;
    if (rate < least) least = rate;
  }
  return least < 1 ? 1 : (int64_t)least;
}

Tick links_alone_ticks(const Links *self, InstanceIx from, InstanceIx to, int64_t bytes) {
  return tick_from_seconds((double)bytes / (double)links_alone_rate(self, from, to));
}

int64_t links_left_bytes(const Links *self, FlowIx ix, Tick now) {
  Flow flow = self->flows[ix];
  settle_progress(&flow, now);
  return flow.bytes_left;
}

double links_left_ticks(const Links *self, FlowIx ix) {
  const Flow *flow = &self->flows[ix];
  assert(flow->active && flow->rate > 0);
  return (double)flow->bytes_left / (double)flow->rate * (double)TICKS_PER_SECOND;
}

Tick links_finish(const Links *self, FlowIx ix) {
  const Flow *flow = &self->flows[ix];
  assert(flow->active && flow->rate > 0);
  return flow->updated_at + tick_from_seconds((double)flow->bytes_left / (double)flow->rate);
}
