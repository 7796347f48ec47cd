/* KV caches on the move: the stages of each transfer and what it holds meanwhile.
 *
 * A transfer takes blocks on the receiver when it begins and gives up those on the sender when it
 * ends. Its stages, each with one event at most:
 *
 *   waits      for its prefill to end, then for room at the receiver
 *   overlaps   prefill goes on: all but the last layer moves (layer-wise, from the start of the
 *              last chunk), or the chunks that are done (chunked, from the end of any but the
 *              last). What finds no room at such a moment, or is prefilled in one chunk before its
 *              decode instance is chosen, goes on waiting and moves whole
 *   stored     indirect path only: the copy to the sender's CPU memory
 *   moves      what is left moves
 *   tail       latency; the constant that stays visible of a layer-wise transfer; on an indirect
 *              path the copy from the receiver's CPU memory
 *
 * What goes over an indirect path goes whole, after prefill. Its copies queue on the links between
 * GPUs and CPU memory with all others (sim/core/host_link.h). */
#ifndef SIM_CORE_TRANSFER_H
#define SIM_CORE_TRANSFER_H
#include "sim/core/link.h"
#include "sim/transfer/transfer_policy.h"

typedef enum TransferStage {
  TRANSFER_WAITS,
  TRANSFER_OVERLAPS,
  TRANSFER_STORED,
  TRANSFER_MOVES,
  TRANSFER_TAIL,
  TRANSFER_SAVES, // into the checkpoint store (checkpoint.c)
} TransferStage;

typedef struct Transfer {
  RequestIx request;
  InstanceIx from, to; // or the checkpoint store
  TransferStage stage;
  TransferChoice choice;
  int64_t cached_tokens; // of the prompt, that the receiver's cache has: they do not move
  int64_t offered_bytes; // given to the link during prefill
  Tick began_at;         // there was room for it
  Tick tail_ticks;       // after the last byte
  TransferIx next_free;
} Transfer;

typedef struct TransferTable {
  Transfer *slots;
  size_t n_slots, capacity;
  size_t n_taken; // slots
  TransferIx first_free;
} TransferTable;
#endif
