/* KV caches on the move: the stages of each transfer and what it holds meanwhile.
 *
 * A transfer takes blocks on the receiver when it begins and gives up those on the sender when it
 * ends. Its stages, each with one event at most:
 *
 *   waits      for its prefill to end, then for room at the receiver
 *   overlaps   layer-wise only: all but the last layer moves during prefill
 *   moves      the rest moves
 *   tail       latency, and the constant that stays visible of a layer-wise transfer */
#ifndef SIM_TRANSFER_H
#define SIM_TRANSFER_H
#include "sim/link.h"
#include "sim/transfer/transfer_policy.h"

typedef uint32_t TransferIx; // also the FlowIx of its bytes

#define TRANSFER_NONE UINT32_MAX

typedef enum TransferStage {
  TRANSFER_WAITS,
  TRANSFER_OVERLAPS,
  TRANSFER_MOVES,
  TRANSFER_TAIL,
} TransferStage;

typedef struct Transfer {
  RequestIx request;
  MachineIx from, to;
  TransferStage stage;
  TransferChoice choice;
  Tick tail_ticks; // after the last byte
  TransferIx next_free;
} Transfer;

typedef struct TransferTable {
  Transfer *slots;
  size_t n_slots, capacity;
  TransferIx first_free;
} TransferTable;
#endif
