/* KV caches move: see transfer.h for the stages. */
#include "sim/engine.h"
#include <assert.h>

static TransferIx take_slot(Engine *self) {
  TransferTable *table = &self->transfers;
  TransferIx ix = table->first_free;
  if (ix != TRANSFER_NONE) {
    table->first_free = table->slots[ix].next_free;
    return ix;
  }
  ix = (TransferIx)table->n_slots++;
  ARENA_RESERVE(self->arena, table->slots, table->capacity, table->n_slots);
  agenda_reserve(&self->agenda, EVENT_TRANSFER, (uint32_t)table->n_slots);
  links_reserve(&self->links, (uint32_t)table->n_slots);
  return ix;
}

static int64_t kv_bytes(const Engine *self, const Transfer *transfer) {
  return self->requests.slots[transfer->request].prompt_tokens *
         self->machines[transfer->from].pool->kv_bytes_per_token;
}

static int64_t blocks_needed(const Engine *self, const Transfer *transfer) {
  return blocks_of(&self->machines[transfer->to],
                   (int64_t)self->requests.slots[transfer->request].prompt_tokens + 1);
}

/* Whether the receiver can take the KV and leave every sequence that runs there a block to grow
 * into: without that margin a full machine takes KV in only to evict it again (evictions fall from
 * 798 to 48 on experiments/examples/splitwise-hh.yaml). */
static bool fits(const Engine *self, const Transfer *transfer) {
  const Machine *to = &self->machines[transfer->to];
  const int64_t margin = to->batcher->reserves_output ? 0 : (int64_t)to->batch.n_seqs;
  return engine_has_blocks(self, to, blocks_needed(self, transfer) + margin);
}

/* Whether it fits and nobody waits there already. */
static bool has_room(const Engine *self, const Transfer *transfer) {
  return self->machines[transfer->to].inbound.count == 0 && fits(self, transfer);
}

static void set_changed_timers(Engine *self) {
  for (size_t i = 0; i < self->links.n_changed; i++) {
    const FlowIx flow = self->links.changed[i];
    agenda_set(&self->agenda, EVENT_TRANSFER, flow, links_finish(&self->links, flow));
  }
}

static void move_bytes(Engine *self, TransferIx ix, int64_t bytes) {
  const Transfer *transfer = &self->transfers.slots[ix];
  links_begin(&self->links, ix, transfer->from, transfer->to, bytes, self->now);
  set_changed_timers(self);
}

static int64_t stop_bytes(Engine *self, TransferIx ix) {
  const int64_t left = links_end(&self->links, ix, self->now);
  set_changed_timers(self);
  return left;
}

static void take_room(Engine *self, const Transfer *transfer) {
  Machine *to = &self->machines[transfer->to];
  const int64_t blocks = blocks_needed(self, transfer);
  engine_take_blocks(self, to, blocks);
  engine_promise_blocks(self, to, -blocks);
  const Request *request = &self->requests.slots[transfer->request];
  self->metrics.transfers++;
  self->metrics.transferred_bytes += kv_bytes(self, transfer);
  engine_log(self, OUTCOME_TRANSFER_BEGIN, request, transfer->from, transfer->to,
             request->prompt_tokens);
}

void engine_prepare_transfer(Engine *self, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const Machine *from = &self->machines[request->prefill_machine];
  const Machine *to = &self->machines[request->decode_machine];
  const int64_t out = self->links.out[from->ix].capacity, in = self->links.in[to->ix].capacity;
  const TransferIx slot = take_slot(self);
  Transfer *transfer = &self->transfers.slots[slot];
  request->transfer = slot;
  *transfer = (Transfer){.request = ix,
                         .from = from->ix,
                         .to = to->ix,
                         .choice = self->transfer->pick(self->states[POLICY_TRANSFER], request,
                                                        from->pool, to->pool, out < in ? out : in)};
  if (transfer->choice.mode != TRANSFER_LAYERWISE || !has_room(self, transfer)) return;
  take_room(self, transfer);
  transfer->stage = TRANSFER_OVERLAPS;
  const int64_t bytes = kv_bytes(self, transfer);
  const int64_t early = bytes - bytes / from->pool->num_hidden_layers;
  if (early > 0) move_bytes(self, slot, early);
}

/* Begins a transfer whose prefill has ended and which has room. */
static void begin_moving(Engine *self, TransferIx ix) {
  Transfer *transfer = &self->transfers.slots[ix];
  take_room(self, transfer);
  const int64_t bytes = kv_bytes(self, transfer);
  const int64_t rate = transfer->choice.private_bandwidth;
  if (rate > 0) {
    transfer->stage = TRANSFER_TAIL;
    agenda_set(&self->agenda, EVENT_TRANSFER, ix,
               self->now + tick_from_seconds((double)bytes / (double)rate));
    return;
  }
  transfer->stage = TRANSFER_MOVES;
  transfer->tail_ticks = self->config->network_latency;
  move_bytes(self, ix, bytes);
}

static void wait_for_room(Engine *self, TransferIx ix) {
  const Transfer *transfer = &self->transfers.slots[ix];
  if (transfer->choice.retry > 0) {
    agenda_set(&self->agenda, EVENT_TRANSFER, ix, self->now + transfer->choice.retry);
    self->n_retries++;
  } else {
    request_queue_push(&self->machines[transfer->to].inbound, self->requests.slots,
                       transfer->request);
  }
}

void engine_begin_transfer(Engine *self, RequestIx ix) {
  if (self->requests.slots[ix].transfer == TRANSFER_NONE) engine_prepare_transfer(self, ix);
  Request *request = &self->requests.slots[ix];
  const TransferIx slot = request->transfer;
  Transfer *transfer = &self->transfers.slots[slot];
  Machine *from = &self->machines[transfer->from];
  request->state = REQUEST_MOVES;
  from->n_outgoing++;
  self->view.n_present[from->ix]--;
  if (transfer->stage == TRANSFER_OVERLAPS) {
    const int64_t left =
        agenda_find(&self->agenda, EVENT_TRANSFER, slot) ? stop_bytes(self, slot) : 0;
    agenda_clear(&self->agenda, EVENT_TRANSFER, slot);
    const int64_t last_layer = kv_bytes(self, transfer) / from->pool->num_hidden_layers;
    transfer->stage = TRANSFER_MOVES;
    transfer->tail_ticks = self->config->network_latency + from->pool->kv_transfer_overhead;
    move_bytes(self, slot, left + last_layer > 0 ? left + last_layer : 1);
  } else if (has_room(self, transfer)) {
    begin_moving(self, slot);
  } else {
    wait_for_room(self, slot);
  }
}

void engine_admit_inbound(Engine *self, Machine *machine) {
  while (machine->inbound.count > 0) {
    const RequestIx ix = machine->inbound.first;
    const TransferIx slot = self->requests.slots[ix].transfer;
    if (!fits(self, &self->transfers.slots[slot])) return;
    request_queue_remove(&machine->inbound, self->requests.slots, ix);
    begin_moving(self, slot);
  }
}

static void release_slot(Engine *self, Request *request) {
  Transfer *transfer = &self->transfers.slots[request->transfer];
  transfer->next_free = self->transfers.first_free;
  self->transfers.first_free = request->transfer;
  request->transfer = TRANSFER_NONE;
}

/* The sender's copy of the KV goes. */
static void release_sender(Engine *self, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  Machine *from = &self->machines[request->prefill_machine];
  engine_take_blocks(self, from, -request->kv_blocks);
  request->kv_blocks = 0;
  from->n_outgoing--;
  if (self->router->observe)
    self->router->observe(self->states[POLICY_ROUTER], &self->view, ix, OBSERVED_TRANSFERRED,
                          from->ix);
}

/* What waited for memory on the sender may have it now. */
static void wake_sender(Engine *self, Machine *from, RequestIx ix) {
  engine_admit_inbound(self, from);
  engine_wake(self, from, WAKE_RELEASE, ix);
}

/* The KV has arrived: the sender's copy goes, then the receiver learns of it, then the sender. */
static void end_transfer(Engine *self, TransferIx slot) {
  const Transfer transfer = self->transfers.slots[slot];
  const RequestIx ix = transfer.request;
  Request *request = &self->requests.slots[ix];
  Machine *from = &self->machines[transfer.from], *to = &self->machines[transfer.to];
  engine_log(self, OUTCOME_TRANSFER_END, request, from->ix, to->ix, request->prompt_tokens);
  histogram_add(&self->metrics.kv_transfer, self->now - request->last_token_at, 1);
  release_sender(self, ix);
  release_slot(self, request);
  request->kv_blocks = (int32_t)blocks_needed(self, &transfer);
  request->state = REQUEST_WAITS_DECODE;
  request_queue_push(&to->decode_queue, self->requests.slots, ix);
  self->view.n_present[to->ix]++;
  engine_wake(self, to, WAKE_DECODE, ix);
  wake_sender(self, from, ix);
}

/* A request whose KV waits for room at its receiver, where somebody may give way; REQUEST_NONE if
 * there is none. */
static RequestIx first_waiting(const Engine *self) {
  const Request *slots = self->requests.slots;
  for (RequestIx ix = 0; ix < self->requests.n_slots; ix++)
    if (slots[ix].state == REQUEST_MOVES && self->machines[slots[ix].decode_machine].kvtier->pick &&
        self->transfers.slots[slots[ix].transfer].stage == TRANSFER_WAITS)
      return ix;
  return REQUEST_NONE;
}

static void stop_waiting(Engine *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  if (self->transfers.slots[request->transfer].choice.retry > 0) {
    agenda_clear(&self->agenda, EVENT_TRANSFER, request->transfer);
    self->n_retries--;
  } else {
    Machine *to = &self->machines[request->decode_machine];
    request_queue_remove(&to->inbound, self->requests.slots, ix);
  }
}

bool engine_break_deadlock(Engine *self) {
  const RequestIx ix = first_waiting(self);
  if (ix == REQUEST_NONE) return false;
  Request *request = &self->requests.slots[ix];
  Machine *to = &self->machines[request->decode_machine];
  stop_waiting(self, ix);
  engine_promise_blocks(self, to, -blocks_of(to, (int64_t)request->prompt_tokens + 1));
  release_sender(self, ix);
  release_slot(self, request);
  engine_requeue(self, to, ix);
  self->view.n_present[to->ix]++;
  engine_wake(self, to, WAKE_PREFILL, ix);
  wake_sender(self, &self->machines[request->prefill_machine], ix);
  return true;
}

void engine_handle_transfer(Engine *self, TransferIx ix) {
  Transfer *transfer = &self->transfers.slots[ix];
  switch (transfer->stage) {
  case TRANSFER_WAITS:
    self->n_retries--;
    if (has_room(self, transfer)) {
      begin_moving(self, ix);
      break;
    }
    self->n_refusals++;
    wait_for_room(self, ix);
    break;
  case TRANSFER_OVERLAPS: // all but the last layer is across
    stop_bytes(self, ix);
    break;
  case TRANSFER_MOVES:
    stop_bytes(self, ix);
    transfer->stage = TRANSFER_TAIL;
    if (transfer->tail_ticks > 0)
      agenda_set(&self->agenda, EVENT_TRANSFER, ix, self->now + transfer->tail_ticks);
    else
      end_transfer(self, ix);
    break;
  case TRANSFER_TAIL:
    end_transfer(self, ix);
    break;
  }
}
