/* KV caches move: see transfer.h for the stages. */
#include "sim/core/moving.h"
#include "sim/books/observing.h"
#include "sim/books/parts.h"
#include "sim/core/copying.h"
#include "sim/core/counting.h"
#include "sim/core/hicache.h"
#include "sim/core/lifecycle.h"
#include "sim/core/limits.h"
#include "sim/core/loop.h"
#include "sim/core/marks.h"
#include "sim/core/memory.h"
#include "sim/core/transfers.h"
#include "sim/core/waking.h"
#include <assert.h>

/* Whether it reads a checkpoint. */
static bool restores(const Simulation *self, const Transfer *transfer) {
  return transfer->from == transfers_store(self);
}

/* Of the last so many tokens of a prompt, or of those with `beside` others less these. */
static int64_t bytes_of(const Simulation *self, const Transfer *transfer, int64_t tokens,
                        int64_t beside) {
  const InstanceIx end = restores(self, transfer) ? transfer->to : transfer->from;
  const PoolSpec *pool = self->instances[end].pool;
  const int64_t bytes =
      pool_kv_bytes(pool, tokens + beside) - (beside > 0 ? pool_kv_bytes(pool, beside) : 0);
  const double ratio = self->config->network_compression;
  return ratio > 1 ? (int64_t)((double)bytes / ratio) : bytes;
}

/* What moves of a prompt: all but what the receiver's cache has; a byte says that it has all. */
static int64_t kv_bytes(const Simulation *self, const Transfer *transfer) {
  const int64_t tokens = self->requests.slots[transfer->request].prompt_tokens;
  const int64_t bytes = bytes_of(self, transfer, tokens - transfer->cached_tokens, 0);
  return bytes > 0 ? bytes : 1;
}

/* What need not move of it, as the receiver's cache has it. */
static int64_t spared_bytes(const Simulation *self, const Transfer *transfer) {
  const int64_t tokens = self->requests.slots[transfer->request].prompt_tokens;
  return bytes_of(self, transfer, transfer->cached_tokens, tokens - transfer->cached_tokens);
}

/* Whether KV goes through CPU memory on either side. */
static bool is_indirect(const Simulation *self) {
  return self->config->network_path == NETWORK_INDIRECT;
}

/* Whether the receiver can take the KV beside the margin of those that run there (evictions fall
 * from 798 to 48 by it on experiments/examples/splitwise-hh.yaml). Those swapped out there return
 * first, and the batcher may refuse it. */
static bool fits(Simulation *self, const Transfer *transfer) {
  Instance *to = &self->instances[transfer->to];
  if (to->swapped.count > 0) return false;
  if (!sim_has_room(self, to, life_room_needed(self, transfer->request))) {
    life_found_no_room(self, to, transfer->request);
    return false;
  }
  if (!to->batcher->receives) return true;
  sim_catch_up(self, to);
  const InstanceView view = sim_view(self, to);
  return to->batcher->receives(to->batcher_options, to->batcher_state, &view, transfer->request);
}

/* Whether it fits and nobody waits there already. */
static bool has_room(Simulation *self, const Transfer *transfer) {
  return self->instances[transfer->to].inbound.count == 0 && fits(self, transfer);
}

void sim_change_nic(Simulation *self, InstanceIx instance, double factor) {
  const int64_t nominal = self->links.nics[NIC_OUT][instance].nominal;
  const int64_t slower = factor > 0 ? (int64_t)((double)nominal / factor) : 0;
  const int64_t capacity = factor > 0 && slower == 0 ? 1 : slower;
  links_set_capacity(&self->links, instance, capacity, self->now);
  transfers_follow(self);
}

/* Whether an instance at one of its ends has failed: then it stands still. */
static bool is_held_up(const Simulation *self, const Transfer *transfer) {
  return self->instances[transfer->to].dead ||
         (!restores(self, transfer) && self->instances[transfer->from].dead);
}

void sim_hold_up_transfers(Simulation *self, InstanceIx instance) {
  for (size_t i = 0; i < self->requests.n_slots; i++) {
    const Request *request = &self->requests.slots[i];
    if (request->state == REQUEST_FREE || request->transfer == TRANSFER_NONE) continue;
    const Transfer *transfer = &self->transfers.slots[request->transfer];
    const bool is_timed =
        transfer->stage == TRANSFER_STORED || transfer->stage == TRANSFER_TAIL; // else by the NIC
    if (is_timed && (transfer->from == instance || transfer->to == instance))
      agenda_clear(&self->agenda, EVENT_TRANSFER, request->transfer);
  }
}

static void take_room(Simulation *self, Transfer *transfer) {
  const Request *request = &self->requests.slots[transfer->request];
  Instance *to = &self->instances[transfer->to];
  transfer->cached_tokens = life_room_taken(self, transfer->request);
  transfer->began_at = self->now;
  if (hicache_writes_back(to) && to->activity == ACTIVITY_DECODE) sim_mark(self, to, MARK_BEGIN);
  if (restores(self, transfer)) return;
  sim_books(self, request)->transfers++;
  sim_books(self, request)->transferred_bytes += kv_bytes(self, transfer);
  sim_books(self, request)->spared_bytes += spared_bytes(self, transfer);
  sim_log(self, OUTCOME_TRANSFER_BEGIN, request, transfer->from, transfer->to,
          request->prompt_tokens - transfer->cached_tokens);
}

/* Undoes that, of which `moved` bytes have gone. */
static void give_room(Simulation *self, Transfer *transfer, int64_t moved) {
  life_room_given(self, transfer->request);
  if (restores(self, transfer)) return;
  Metrics *metrics = sim_books(self, &self->requests.slots[transfer->request]);
  metrics->transferred_bytes -= kv_bytes(self, transfer) - moved;
  metrics->spared_bytes -= spared_bytes(self, transfer);
  transfer->cached_tokens = 0;
}

/* The request's transfer, which is set up with a choice of how it moves the first time. */
static TransferIx open_transfer(Simulation *self, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  if (request->transfer != TRANSFER_NONE) return request->transfer;
  const Instance *from = &self->instances[request->prefill_instance];
  const Instance *to = &self->instances[request->decode_instance];
  const double ratio = self->config->network_compression;
  const double least = (double)links_alone_rate(&self->links, from->ix, to->ix);
  const TransferIx slot = request->transfer = transfers_take(self);
  Transfer *transfer = &self->transfers.slots[slot];
  *transfer =
      (Transfer){.request = ix,
                 .from = from->ix,
                 .to = to->ix,
                 .choice = self->transfer->pick(self->transfer_state, request, from->pool, to->pool,
                                                (int64_t)(ratio > 1 ? least * ratio : least))};
  if (is_indirect(self)) transfer->choice.mode = TRANSFER_SERIALIZED;
  return slot;
}

/* Whether KV can move while prefill goes on: there is room at the receiver or was before. */
static bool overlaps(Simulation *self, Transfer *transfer) {
  if (transfer->stage != TRANSFER_WAITS) return true;
  if (!has_room(self, transfer)) return false;
  take_room(self, transfer);
  transfer->stage = TRANSFER_OVERLAPS;
  return true;
}

/* A share of the KV, `bytes` in all so far, moves. */
static void offer(Simulation *self, TransferIx ix, int64_t bytes) {
  Transfer *transfer = &self->transfers.slots[ix];
  const int64_t more = bytes - transfer->offered_bytes;
  if (more <= 0) return;
  transfer->offered_bytes = bytes;
  transfers_move(self, ix, more);
}

void sim_offer_chunk(Simulation *self, RequestIx ix) {
  const TransferIx slot = open_transfer(self, ix);
  Transfer *transfer = &self->transfers.slots[slot];
  if (transfer->choice.mode != TRANSFER_CHUNKED || !overlaps(self, transfer)) return;
  const int64_t tokens = self->requests.slots[ix].prefilled_tokens - transfer->cached_tokens;
  offer(self, slot, bytes_of(self, transfer, tokens, 0));
}

void sim_offer_layers(Simulation *self, RequestIx ix) {
  const TransferIx slot = open_transfer(self, ix);
  Transfer *transfer = &self->transfers.slots[slot];
  if (transfer->choice.mode != TRANSFER_LAYERWISE || !overlaps(self, transfer)) return;
  self->instances[transfer->from].run.sends_layers = true;
  const int64_t bytes = kv_bytes(self, transfer);
  offer(self, slot, bytes - bytes / self->instances[transfer->from].pool->num_hidden_layers);
}

/* From now on it is the links that its KV waits for, beyond what the stages to come take while
 * nobody else is on them. */
static void book_moving(Simulation *self, TransferIx ix) {
  if (!self->keeps_parts) return;
  const Transfer *transfer = &self->transfers.slots[ix];
  const PoolSpec *from = self->instances[transfer->from].pool;
  const PoolSpec *to = self->instances[transfer->to].pool;
  const int64_t bytes = transfers_moves(self, ix) ? links_left_bytes(&self->links, ix, self->now)
                                                  : kv_bytes(self, transfer);
  Tick ticks = transfer->tail_ticks;
  if (transfer->choice.private_bandwidth > 0)
    ticks = TICK_MAX;
  else
    ticks += links_alone_ticks(&self->links, transfer->from, transfer->to, bytes);
  if (transfer->stage == TRANSFER_STORED)
    ticks += host_link_ticks(&from->host_link, NULL, LINK_TO_CPU, bytes, self->now) +
             host_link_ticks(&to->host_link, NULL, LINK_TO_GPU, bytes, self->now);
  parts_moves(self, transfer->request, ticks);
}

/* Begins a transfer whose prefill has ended, or whose KV is in the checkpoint store, and which has
 * room. */
static void begin_moving(Simulation *self, TransferIx ix) {
  Transfer *transfer = &self->transfers.slots[ix];
  take_room(self, transfer);
  const int64_t bytes = kv_bytes(self, transfer);
  const int64_t rate = transfer->choice.private_bandwidth;
  const bool copies = is_indirect(self) && !restores(self, transfer);
  transfer->stage = rate > 0 ? TRANSFER_TAIL : copies ? TRANSFER_STORED : TRANSFER_MOVES;
  transfer->tail_ticks = self->config->network_latency;
  if (rate > 0) {
    const double seconds = (double)bytes / (double)rate;
    if (sim_passes_the_end(self, seconds * (double)TICKS_PER_SECOND)) return;
    if (!is_held_up(self, transfer))
      agenda_set(&self->agenda, EVENT_TRANSFER, ix, self->now + tick_from_seconds(seconds));
  } else if (transfer->stage == TRANSFER_STORED) {
    Instance *from = &self->instances[transfer->from];
    if (!is_held_up(self, transfer))
      agenda_set(&self->agenda, EVENT_TRANSFER, ix,
                 sim_copy(self, from, LINK_TO_CPU, bytes, self->now));
  } else {
    transfers_move(self, ix, bytes);
  }
  if (!restores(self, transfer)) book_moving(self, ix);
}

/* Prefill has ended: what has not been offered yet joins what is on its way. */
static void move_rest(Simulation *self, TransferIx ix) {
  Transfer *transfer = &self->transfers.slots[ix];
  const bool layerwise = transfer->choice.mode == TRANSFER_LAYERWISE;
  const int64_t rest = kv_bytes(self, transfer) - transfer->offered_bytes;
  transfer->stage = TRANSFER_MOVES;
  transfer->tail_ticks = self->config->network_latency;
  if (layerwise) transfer->tail_ticks += self->instances[transfer->from].pool->kv_transfer_overhead;
  if (rest > 0 || !transfers_moves(self, ix)) transfers_move(self, ix, rest > 0 ? rest : 1);
  book_moving(self, ix);
}

static void wait_for_room(Simulation *self, TransferIx ix) {
  const Transfer *transfer = &self->transfers.slots[ix];
  Instance *to = &self->instances[transfer->to];
  if (transfer->choice.retry > 0) {
    agenda_set(&self->agenda, EVENT_TRANSFER, ix, self->now + transfer->choice.retry);
    self->n_retries++;
  } else {
    if (to->loop->cut) to->loop->cut(self, to); // the end of each step asks for it
    request_queue_push(&to->inbound, self->requests.slots, transfer->request);
    if (to->kv_groups && to->activity == ACTIVITY_DECODE)
      sim_mark(self, to, MARK_BEGIN); // each of its steps may give blocks back
  }
}

void sim_begin_transfer(Simulation *self, RequestIx ix) {
  const TransferIx slot = open_transfer(self, ix);
  const Transfer *transfer = &self->transfers.slots[slot];
  life_left(self, &self->instances[transfer->from], ix);
  if (transfer->stage == TRANSFER_OVERLAPS)
    move_rest(self, slot);
  else if (has_room(self, transfer))
    begin_moving(self, slot);
  else
    wait_for_room(self, slot);
}

void sim_restore(Simulation *self, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const TransferIx slot = request->transfer = transfers_take(self);
  Transfer *transfer = &self->transfers.slots[slot];
  *transfer = (Transfer){.request = ix,
                         .from = transfers_store(self),
                         .to = request->decode_instance,
                         .stage = TRANSFER_WAITS,
                         .choice = {.mode = TRANSFER_SERIALIZED}};
  if (has_room(self, transfer))
    begin_moving(self, slot);
  else
    wait_for_room(self, slot);
}

void sim_admit_inbound(Simulation *self, Instance *instance) {
  while (instance->inbound.count > 0) {
    const RequestIx ix = instance->inbound.first;
    const TransferIx slot = self->requests.slots[ix].transfer;
    if (!fits(self, &self->transfers.slots[slot])) return;
    request_queue_remove(&instance->inbound, self->requests.slots, ix);
    begin_moving(self, slot);
  }
}

static void release_slot(Simulation *self, Request *request) {
  transfers_release(self, request->transfer);
  request->transfer = TRANSFER_NONE;
}

/* What waited for memory on the sender may have it now. */
static void wake_sender(Simulation *self, Instance *from, RequestIx ix) {
  sim_admit_inbound(self, from);
  sim_wake(self, from, WAKE_RELEASE, ix);
}

/* The KV has arrived of a request whose client has given up. */
static void discard(Simulation *self, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  life_room_given(self, ix);
  release_slot(self, request);
  life_left_early(self, ix, 0);
}

/* The KV has come out of the checkpoint store. */
static void end_restoring(Simulation *self, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const Tick began_at = self->transfers.slots[request->transfer].began_at;
  if (request_leaves(request)) {
    discard(self, ix);
    return;
  }
  release_slot(self, request);
  life_restored(self, ix, began_at);
  sim_wake(self, &self->instances[request->decode_instance], WAKE_DECODE, ix);
}

/* The KV has arrived: the sender's copy goes, then the receiver learns of it, then the sender. */
static void end_transfer(Simulation *self, TransferIx slot) {
  const Transfer transfer = self->transfers.slots[slot];
  const RequestIx ix = transfer.request;
  Request *request = &self->requests.slots[ix];
  if (restores(self, &transfer)) {
    end_restoring(self, ix);
    return;
  }
  Instance *from = &self->instances[transfer.from], *to = &self->instances[transfer.to];
  sim_log(self, OUTCOME_TRANSFER_END, request, from->ix, to->ix, request->prompt_tokens);
  histogram_add(&sim_books(self, request)->kv_transfer, self->now - request->last_token_at, 1);
  sim_observe_transfer(self, &transfer, kv_bytes(self, &transfer), true);
  if (request_leaves(request)) {
    discard(self, ix);
    return;
  }
  life_released(self, from, ix);
  release_slot(self, request);
  life_arrived(self, ix);
  const bool cut = request->cut == CUT_PROMPT;
  if (cut) life_second_part_waits(self, ix);
  sim_wake(self, to, cut ? WAKE_PREFILL : WAKE_DECODE, ix);
  wake_sender(self, from, ix);
}

/* A request whose KV waits for room at its receiver, where somebody may give way; REQUEST_NONE if
 * there is none. */
static RequestIx first_waiting(const Simulation *self) {
  const Request *slots = self->requests.slots;
  for (RequestIx ix = 0; ix < self->requests.n_slots; ix++)
    if (slots[ix].state == REQUEST_MOVES &&
        self->instances[slots[ix].decode_instance].kvtier->pick &&
        self->transfers.slots[slots[ix].transfer].stage == TRANSFER_WAITS)
      return ix;
  return REQUEST_NONE;
}

static void stop_waiting(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  if (self->transfers.slots[request->transfer].choice.retry > 0) {
    agenda_clear(&self->agenda, EVENT_TRANSFER, request->transfer);
    self->n_retries--;
  } else {
    Instance *to = &self->instances[request->decode_instance];
    request_queue_remove(&to->inbound, self->requests.slots, ix);
  }
}

/* What is on its way goes on no more, and the receiver's room is given back. */
static void stop_moving(Simulation *self, RequestIx ix) {
  const TransferIx slot = self->requests.slots[ix].transfer;
  Transfer *transfer = &self->transfers.slots[slot];
  int64_t moved = transfer->stage == TRANSFER_OVERLAPS ? transfer->offered_bytes
                  : transfer->stage == TRANSFER_STORED ? 0
                                                       : kv_bytes(self, transfer);
  agenda_clear(&self->agenda, EVENT_TRANSFER, slot);
  if (transfers_moves(self, slot)) moved -= transfers_stop(self, slot);
  if (!restores(self, transfer)) sim_observe_transfer(self, transfer, moved, false);
  give_room(self, transfer, moved);
}

bool sim_abandon_transfer(Simulation *self, RequestIx ix, bool at_once) {
  Request *request = &self->requests.slots[ix];
  if (request->transfer == TRANSFER_NONE) return true;
  const TransferStage stage = self->transfers.slots[request->transfer].stage;
  if (stage == TRANSFER_OVERLAPS || (at_once && stage != TRANSFER_WAITS))
    stop_moving(self, ix);
  else if (stage != TRANSFER_WAITS)
    return false;
  else if (request->state == REQUEST_MOVES || request->state == REQUEST_RESTORES)
    stop_waiting(self, ix);
  release_slot(self, request);
  return true;
}

/* A request whose KV has room at its receiver though its prefill cannot go on; REQUEST_NONE if
 * there is none. */
static RequestIx first_overlapping(const Simulation *self) {
  const Request *slots = self->requests.slots;
  for (RequestIx ix = 0; ix < self->requests.n_slots; ix++)
    if (slots[ix].state == REQUEST_WAITS_PREFILL && slots[ix].transfer != TRANSFER_NONE &&
        self->transfers.slots[slots[ix].transfer].stage == TRANSFER_OVERLAPS)
      return ix;
  return REQUEST_NONE;
}

/* Undoes take_room: the KV will move whole. */
static void give_room_back(Simulation *self, RequestIx ix) {
  const TransferIx slot = self->requests.slots[ix].transfer;
  Transfer *transfer = &self->transfers.slots[slot];
  Instance *to = &self->instances[transfer->to];
  assert(!transfers_moves(self, slot));
  transfer->stage = TRANSFER_WAITS;
  transfer->choice.mode = TRANSFER_SERIALIZED;
  give_room(self, transfer, 0);
  sim_books(self, &self->requests.slots[ix])->transfers--;
  sim_admit_inbound(self, to);
  sim_wake(self, to, WAKE_RELEASE, ix);
}

/* The first in line gives up its KV and is prefilled again where it will be decoded. */
static void give_up(Simulation *self, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  Instance *from = &self->instances[request->prefill_instance];
  Instance *to = &self->instances[request->decode_instance];
  stop_waiting(self, ix);
  life_released(self, from, ix);
  release_slot(self, request);
  life_returned(self, ix);
  if (request->cut == CUT_PROMPT) life_second_part_waits(self, ix);
  sim_wake(self, to, WAKE_PREFILL, ix);
  wake_sender(self, from, ix);
}

/* Where nothing is on the network nobody waits for room there, however many requests wait. */
bool sim_break_deadlock(Simulation *self) {
  if (self->transfers.n_taken == 0) return false;
  RequestIx ix = first_overlapping(self);
  if (ix != REQUEST_NONE) {
    give_room_back(self, ix);
    return true;
  }
  ix = first_waiting(self);
  if (ix == REQUEST_NONE) return false;
  give_up(self, ix);
  return true;
}

/* The last byte is across the network. */
static void begin_tail(Simulation *self, TransferIx ix) {
  Transfer *transfer = &self->transfers.slots[ix];
  Tick end = self->now + transfer->tail_ticks;
  transfer->stage = TRANSFER_TAIL;
  if (is_indirect(self))
    end =
        sim_copy(self, &self->instances[transfer->to], LINK_TO_GPU, kv_bytes(self, transfer), end);
  if (end > self->now)
    agenda_set(&self->agenda, EVENT_TRANSFER, ix, end);
  else
    end_transfer(self, ix);
}

void sim_handle_transfer(Simulation *self, uint32_t ix) {
  Transfer *transfer = &self->transfers.slots[ix];
  switch (transfer->stage) {
  case TRANSFER_SAVES:
    tell_kv_saved(self, ix);
    break;
  case TRANSFER_WAITS:
    self->n_retries--;
    if (has_room(self, transfer)) {
      begin_moving(self, ix);
      break;
    }
    self->n_refusals++;
    wait_for_room(self, ix);
    break;
  case TRANSFER_OVERLAPS: // all that was offered is across
    transfers_stop(self, ix);
    break;
  case TRANSFER_STORED:
    transfer->stage = TRANSFER_MOVES;
    transfers_move(self, ix, kv_bytes(self, transfer));
    break;
  case TRANSFER_MOVES:
    transfers_stop(self, ix);
    begin_tail(self, ix);
    break;
  case TRANSFER_TAIL:
    end_transfer(self, ix);
    break;
  }
}
