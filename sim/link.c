/* See link.h. Bytes and ticks are converted through doubles: the products stay below 2^53 relative
 * precision, IEEE operations give the same bits everywhere, and a flow is off by at most one byte
 * per change of its rate. */
#include "sim/link.h"
#include <assert.h>

void links_init(Links *self, const int64_t *capacities, uint32_t n_machines, Arena *arena) {
  *self = (Links){.arena = arena,
                  .n_machines = n_machines,
                  .out = ARENA_ARRAY(arena, Nic, n_machines),
                  .in = ARENA_ARRAY(arena, Nic, n_machines)};
  for (uint32_t m = 0; m < n_machines; m++) {
    self->out[m].capacity = self->in[m].capacity = capacities[m];
  }
}

void links_reserve(Links *self, uint32_t n_flows) {
  ARENA_RESERVE(self->arena, self->flows, self->flows_capacity, n_flows);
  ARENA_RESERVE(self->arena, self->active, self->active_capacity, n_flows);
  ARENA_RESERVE(self->arena, self->changed, self->changed_capacity, n_flows);
  ARENA_RESERVE(self->arena, self->touched, self->touched_capacity, 2 * (size_t)n_flows);
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

/* Puts a NIC that a flow goes through on the list of those to fill. */
static void touch(Links *self, Nic *nic) {
  if (nic->n_unsettled++ > 0) return;
  nic->left = nic->capacity;
  self->touched[self->n_touched++] = nic;
}

/* The touched NIC with the smallest share for each of its unsettled flows; NULL when all are
 * settled. */
static Nic *tightest(const Links *self, int64_t *ret_share) {
  Nic *best = NULL;
  for (size_t i = 0; i < self->n_touched; i++) {
    Nic *nic = self->touched[i];
    if (nic->n_unsettled == 0) continue;
    const int64_t share = nic->left / nic->n_unsettled;
    if (best && share >= *ret_share) continue;
    best = nic;
    *ret_share = share;
  }
  return best;
}

/* Progressive filling over all active flows; a share is at least one byte per second. */
static void fill(Links *self, Tick now) {
  self->n_touched = 0;
  for (size_t i = 0; i < self->n_active; i++) {
    Flow *flow = &self->flows[self->active[i]];
    flow->settled = false;
    touch(self, &self->out[flow->from]);
    touch(self, &self->in[flow->to]);
  }
  int64_t share = 0;
  for (Nic *nic = tightest(self, &share); nic; nic = tightest(self, &share)) {
    if (share < 1) share = 1;
    for (size_t i = 0; i < self->n_active; i++) {
      Flow *flow = &self->flows[self->active[i]];
      Nic *out = &self->out[flow->from], *in = &self->in[flow->to];
      if (flow->settled || (out != nic && in != nic)) continue;
      flow->settled = true;
      out->left -= share;
      in->left -= share;
      out->n_unsettled--;
      in->n_unsettled--;
      set_rate(self, self->active[i], share, now);
    }
  }
}

void links_begin(Links *self, FlowIx ix, MachineIx from, MachineIx to, int64_t bytes, Tick now) {
  assert(bytes > 0 && from != to && ix < self->flows_capacity);
  Flow *flow = &self->flows[ix];
  assert(!flow->active);
  *flow = (Flow){.from = from, .to = to, .active = true, .bytes_left = bytes, .updated_at = now};
  self->active[self->n_active++] = ix;
  Nic *out = &self->out[from], *in = &self->in[to];
  out->n_flows++;
  in->n_flows++;
  self->n_changed = 0;
  if (out->n_flows == 1 && in->n_flows == 1)
    set_rate(self, ix, out->capacity < in->capacity ? out->capacity : in->capacity, now);
  else
    fill(self, now);
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
  for (size_t i = 0; i < self->n_active; i++) {
    if (self->active[i] != ix) continue;
    self->active[i] = self->active[--self->n_active];
    break;
  }
  Nic *out = &self->out[flow->from], *in = &self->in[flow->to];
  out->n_flows--;
  in->n_flows--;
  self->n_changed = 0;
  if (out->n_flows > 0 || in->n_flows > 0) fill(self, now);
  return flow->bytes_left;
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
