/* See link.h. Bytes and ticks are converted through doubles: the products stay below 2^53 relative
 * precision, IEEE operations give the same bits everywhere, and a flow is off by at most one byte
 * per change of its rate. */
#include "sim/core/link.h"
#include <assert.h>

typedef struct TouchedNic {
  Nic *nic;
  NicSide side;
} TouchedNic;

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
}

void links_reserve(Links *self, uint32_t n_flows) {
  if (n_flows > self->n_flows) self->n_flows = n_flows;
  ARENA_RESERVE(self->arena, self->flows, self->flows_capacity, n_flows);
  ARENA_RESERVE(self->arena, self->changed, self->changed_capacity, n_flows);
  ARENA_RESERVE(self->arena, self->touched, self->touched_capacity, 2 * (size_t)n_flows);
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

/* Puts a NIC on the list of those to fill. */
static void touch(Links *self, Nic *nic, NicSide side) {
  if (nic->touched || nic->n_flows == 0) return;
  nic->touched = true;
  nic->n_unsettled = nic->n_flows;
  nic->left = nic->capacity;
  self->touched[self->n_touched++] = (TouchedNic){nic, side};
}

/* All that a change of one going out and one coming in can reach: those, those of their flows, and
 * so on. */
static void touch_all(Links *self, Nic *out, Nic *in) {
  self->n_touched = 0;
  touch(self, out, NIC_OUT);
  touch(self, in, NIC_IN);
  for (size_t i = 0; i < self->n_touched; i++) {
    const NicSide side = self->touched[i].side, other = side == NIC_OUT ? NIC_IN : NIC_OUT;
    FlowIx ix = self->touched[i].nic->first;
    for (; ix != FLOW_NONE; ix = self->flows[ix].next[side]) {
      self->flows[ix].settled = false;
      touch(self, nic_of(self, &self->flows[ix], other), other);
    }
  }
}

/* Of NICs that have the same share the one with the oldest flow comes first, and of those of one
 * flow that out of it. */
static bool is_older(const Links *self, const TouchedNic *a, const TouchedNic *b) {
  const uint64_t x = self->flows[a->nic->first].number, y = self->flows[b->nic->first].number;
  return x != y ? x < y : a->side < b->side;
}

/* The touched NIC with the smallest share for each of its unsettled flows; NULL when all are
 * settled. */
static const TouchedNic *tightest(const Links *self, int64_t *ret_share) {
  const TouchedNic *best = NULL;
  for (size_t i = 0; i < self->n_touched; i++) {
    const TouchedNic *touched = &self->touched[i];
    if (touched->nic->n_unsettled == 0) continue;
    const int64_t share = touched->nic->left / touched->nic->n_unsettled;
    if (best && (share > *ret_share || (share == *ret_share && is_older(self, best, touched))))
      continue;
    best = touched;
    *ret_share = share;
  }
  return best;
}

static void settle(Links *self, FlowIx ix, int64_t share, Tick now) {
  Flow *flow = &self->flows[ix];
  flow->settled = true;
  for (size_t i = 0; i < flow->n_crossings; i++) {
    SharedLink *link = &self->shared[flow->crossings[i].link];
    link->left -= flow->crossings[i].part * (double)share;
    link->parts -= flow->crossings[i].part;
    link->n_unsettled--;
  }
  for (int side = 0; side < NIC_SIDES; side++) {
    Nic *nic = nic_of(self, flow, (NicSide)side);
    nic->left -= share;
    nic->n_unsettled--;
  }
  set_rate(self, ix, share, now);
}

/* All flows, their NICs and uplinks. */
static void touch_everything(Links *self) {
  self->n_touched = 0;
  for (uint32_t i = 0; i < 2 * self->uplinks->n; i++) {
    SharedLink *link = &self->shared[i];
    *link = (SharedLink){.capacity = link->capacity, .left = link->capacity};
  }
  for (FlowIx ix = 0; ix < self->n_flows; ix++) {
    Flow *flow = &self->flows[ix];
    if (!flow->active) continue;
    flow->settled = false;
    touch(self, nic_of(self, flow, NIC_OUT), NIC_OUT);
    touch(self, nic_of(self, flow, NIC_IN), NIC_IN);
    for (size_t i = 0; i < flow->n_crossings; i++) {
      SharedLink *link = &self->shared[flow->crossings[i].link];
      link->parts += flow->crossings[i].part;
      link->n_unsettled++;
    }
  }
}

/* The first direction of an uplink with a share smaller than any other's and than `*share`, which
 * that becomes; `n`: there is none. */
static uint32_t tightest_shared(const Links *self, int64_t *share, uint32_t n) {
  uint32_t best = n;
  for (uint32_t i = 0; i < n; i++) {
    const SharedLink *link = &self->shared[i];
    if (link->n_unsettled == 0) continue;
    const double each = link->left > 0 ? link->left / link->parts : 0;
    if (each >= (double)*share) continue;
    *share = (int64_t)each;
    best = i;
  }
  return best;
}

static void settle_crossing(Links *self, uint32_t link, int64_t share, Tick now) {
  for (FlowIx ix = 0; ix < self->n_flows; ix++) {
    Flow *flow = &self->flows[ix];
    bool crosses = false;
    for (size_t i = 0; flow->active && !flow->settled && i < flow->n_crossings; i++)
      crosses |= flow->crossings[i].link == link;
    if (crosses) settle(self, ix, share > 1 ? share : 1, now);
  }
}

/* Progressive filling over what a change of two NICs can reach, or over everything where there are
 * uplinks; a share is at least one byte per second where the NIC is not down. Of equal links, NICs
 * go first. */
static void fill(Links *self, Nic *out, Nic *in, Tick now) {
  const uint32_t n_shared = self->uplinks ? 2 * self->uplinks->n : 0;
  if (n_shared > 0)
    touch_everything(self);
  else
    touch_all(self, out, in);
  int64_t share = 0;
  const TouchedNic *touched;
  while ((touched = tightest(self, &share))) {
    const uint32_t shared = tightest_shared(self, &share, n_shared);
    if (shared < n_shared) {
      settle_crossing(self, shared, share, now);
      continue;
    }
    const int64_t least = touched->nic->capacity > 0;
    FlowIx ix = touched->nic->first;
    for (; ix != FLOW_NONE; ix = self->flows[ix].next[touched->side])
      if (!self->flows[ix].settled) settle(self, ix, share > least ? share : least, now);
  }
  for (size_t i = 0; i < self->n_touched; i++)
    self->touched[i].nic->touched = false;
}

void links_begin(Links *self, FlowIx ix, InstanceIx from, InstanceIx to, int64_t bytes, Tick now) {
  assert(bytes > 0 && from != to && ix < self->flows_capacity);
  Flow *flow = &self->flows[ix];
  assert(!flow->active);
  *flow = (Flow){.ends = {from, to},
                 .active = true,
                 .number = self->n_begun++,
                 .bytes_left = bytes,
                 .updated_at = now,
                 .crossings = flow->crossings,
                 .crossings_capacity = flow->crossings_capacity};
  if (self->uplinks) {
    const size_t most = uplinks_most_crossings(self->uplinks, from, to);
    ARENA_RESERVE(self->arena, flow->crossings, flow->crossings_capacity, most);
    flow->n_crossings = uplinks_cross(self->uplinks, from, to, flow->crossings);
  }
  join_nics(self, ix);
  Nic *out = nic_of(self, flow, NIC_OUT), *in = nic_of(self, flow, NIC_IN);
  self->n_changed = 0;
  if (out->n_flows == 1 && in->n_flows == 1 && !self->uplinks)
    set_rate(self, ix, out->capacity < in->capacity ? out->capacity : in->capacity, now);
  else
    fill(self, out, in, now);
}

void links_set_capacity(Links *self, InstanceIx instance, int64_t capacity, Tick now) {
  Nic *out = &self->nics[NIC_OUT][instance], *in = &self->nics[NIC_IN][instance];
  out->capacity = in->capacity = capacity;
  self->n_changed = 0;
  fill(self, out, in, now);
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
  self->n_changed = 0;
  fill(self, nic_of(self, flow, NIC_OUT), nic_of(self, flow, NIC_IN), now);
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
