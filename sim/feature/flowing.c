/* Decodes that flow between pools as they run (TaiChi, arXiv 2508.01989): from instances that
 * decode fast, with little prefill beside, to others when memory runs short there, the one with the
 * most output so far first; and back when the mean time between its tokens comes near its limit.
 *
 * Both are looked at when a batcher is about to plan. A decode flows only where there is room for
 * its KV at once, and on from there only as it has made another token. */
#include "sim/core/lifecycle.h"
#include "sim/core/memory.h"
#include "sim/core/moving.h"
#include "sim/feature/features.h"

static int64_t made_of(const Instance *instance, const Request *request) {
  return batch_context(&instance->batch, request) - request->prompt_tokens;
}

/* Blocks that leave it already. */
static int64_t leaving_blocks(const Simulation *self, const Instance *instance) {
  int64_t blocks = 0;
  if (instance->n_outgoing == 0) return 0;
  for (size_t i = 0; i < self->requests.n_slots; i++) {
    const Request *request = &self->requests.slots[i];
    if (request->state == REQUEST_MOVES && request->prefill_instance == instance->ix)
      blocks += request->kv_blocks;
  }
  return blocks;
}

/* Blocks of KV that are held or on their way here, but for those that leave. */
static int64_t used_blocks(const Simulation *self, const Instance *instance) {
  return instance->kv_blocks - instance->free_blocks + instance->promised_blocks -
         leaving_blocks(self, instance);
}

/* Room that is neither taken nor promised, up to a share of the memory. */
static int64_t room_of(const Simulation *self, const Instance *instance, double share) {
  return (int64_t)(share * (double)instance->kv_blocks) - used_blocks(self, instance);
}

/* The instance of a pool with the most room below a share of its memory, where that is enough for
 * so many tokens and nobody waits; INSTANCE_NONE: there is none. */
static InstanceIx find_room(Simulation *self, const PoolSpec *pool, double share, int64_t tokens) {
  InstanceIx best = INSTANCE_NONE;
  int64_t most = -1;
  for (InstanceIx m = 0; m < self->n_instances; m++) {
    Instance *instance = &self->instances[m];
    if (instance->pool != pool || !instance->listed || instance->inbound.count > 0) continue;
    sim_catch_up(self, instance);
    const int64_t room = room_of(self, instance, share), needed = blocks_of(instance, tokens);
    if (room < needed || room <= most || !sim_has_room(self, instance, needed)) continue;
    best = m;
    most = room;
  }
  return best;
}

static bool may_flow(const Instance *instance, const Request *request) {
  return request->state == REQUEST_RUNS && !request_leaves(request) &&
         request->decode_instance == instance->ix && made_of(instance, request) > 1 &&
         batch_remaining(&instance->batch, request) > 0;
}

/* Its KV and its next token fit wherever else it goes. */
static bool flow(Simulation *self, Instance *from, RequestIx ix, uint32_t pool, double share) {
  const Request *request = &self->requests.slots[ix];
  const int64_t context = batch_context(&from->batch, request);
  const int64_t most = context + batch_remaining(&from->batch, request);
  const InstanceIx to = find_room(self, &self->config->pools[pool], share, context);
  if (to == INSTANCE_NONE || instance_room(&self->instances[to]) < most) return false;
  life_flows(self, from, ix, to);
  sim_log(self, OUTCOME_DISPATCH, request, from->ix, to, request->resumed_tokens);
  sim_begin_transfer(self, ix);
  return true;
}

/* The one with the most output; of equals the first to arrive. */
static RequestIx longest(const Simulation *self, const Instance *instance) {
  RequestIx best = REQUEST_NONE;
  int64_t most = 0;
  for (size_t i = 0; i < instance->batch.n_seqs; i++) {
    const RequestIx ix = instance->batch.entries[i].request;
    const Request *request = &self->requests.slots[ix];
    if (!may_flow(instance, request)) continue;
    const int64_t made = request_delivered(request, made_of(instance, request));
    if (made < most || (made == most && request->id > self->requests.slots[best].id)) continue;
    best = ix;
    most = made;
  }
  return best;
}

static void relieve(Simulation *self, Instance *instance) {
  const FlowOptions *options = &self->config->flow;
  const int64_t most = (int64_t)(options->watermark * (double)instance->kv_blocks);
  while (instance->kv_blocks - instance->free_blocks > most && used_blocks(self, instance) > most) {
    const RequestIx ix = longest(self, instance);
    if (ix == REQUEST_NONE || !flow(self, instance, ix, options->to, 1)) return;
  }
}

/* The mean time between tokens that its client has seen. */
static bool is_late(const Simulation *self, const Instance *instance, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  const bool resumed = request->resumed_tokens > 0;
  const Tick first = resumed ? self->delivered[ix].first_token_at : request->first_token_at;
  const int64_t gaps = request_delivered(request, made_of(instance, request)) - 1;
  const FlowOptions *options = &self->config->flow;
  return gaps > 0 &&
         (double)(self->now - first) >= options->share * (double)options->tpot * (double)gaps;
}

/* Of several the first to arrive goes first. */
static RequestIx first_late(const Simulation *self, const Instance *instance) {
  RequestIx best = REQUEST_NONE;
  for (size_t i = 0; i < instance->batch.n_seqs; i++) {
    const RequestIx ix = instance->batch.entries[i].request;
    const Request *request = &self->requests.slots[ix];
    if (!may_flow(instance, request) || !is_late(self, instance, ix)) continue;
    if (best == REQUEST_NONE || request->id < self->requests.slots[best].id) best = ix;
  }
  return best;
}

static void hurry(Simulation *self, Instance *instance) {
  const FlowOptions *options = &self->config->flow;
  for (;;) {
    const RequestIx ix = options->tpot > 0 ? first_late(self, instance) : REQUEST_NONE;
    if (ix == REQUEST_NONE) return;
    if (!flow(self, instance, ix, options->from, options->watermark)) return;
  }
}

static void plans(Simulation *self, Instance *instance) {
  const SimConfig *config = self->config;
  if (instance->pool == &config->pools[config->flow.from]) relieve(self, instance);
  if (instance->pool == &config->pools[config->flow.to]) hurry(self, instance);
}

static bool is_used(const Simulation *self) {
  return self->config->flow.watermark > 0;
}

const Feature feature_flowing = {.is_used = is_used, .plans = plans};
