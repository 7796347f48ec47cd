/* Where experts lie on GPUs: the expert-parallel load balancer of DeepSeek-V3 (EPLB), by its
 * published description (github.com/deepseek-ai/EPLB, README).
 *
 * A layer has E experts with a load each, S >= E places on G GPUs, S/G on each, and N machines of
 * G/N GPUs. S - E places have second copies of experts, which share the load evenly.
 *
 *   replicate  S - E times: one copy more of the expert whose load by the number of its copies is
 *              largest
 *   pack       the heaviest first, each on the pack with the least load that has room, all packs
 *              with as many; of equals the first
 *
 * Globally copies are made of all experts and packed on all GPUs. Hierarchically, where the experts
 * are in groups (DeepSeek's expert groups) that N divides: groups are packed on machines, copies
 * are made within each machine, and packed on its GPUs. Loads are integers, so that comparisons are
 * exact; of equal loads the lower number comes first. */
#ifndef SIM_CORE_EPLB_H
#define SIM_CORE_EPLB_H
#include "base/arena.h"
#include <stdint.h>

typedef struct EplbShape {
  int32_t n_experts, n_slots; // E, S
  int32_t n_gpus, n_nodes;    // G, N: S / G and G / N are whole
  int32_t n_groups;           // of experts; not a multiple of N: copies are made globally
} EplbShape;

/* What a placement is worked out in. */
typedef struct Eplb {
  EplbShape shape;
  int32_t *order, *merged, *pack_of, *count; // [n_slots]
  int32_t *experts, *items, *copies;         // [n_slots]
  int64_t *loads, *sums;                     // [n_slots]
} Eplb;

void eplb_init(Eplb *self, EplbShape shape, Arena *arena);
/* The expert in each place, those of GPU g from g·S/G on, of loads from 0 to 2^44. */
void eplb_place(Eplb *self, const int64_t *loads, int32_t *ret_expert_of);
/* The placement that engines begin with: expert i in place i, second copies of 0, 1, … behind. */
void eplb_begin(const EplbShape *shape, int32_t *ret_expert_of);

enum { EPLB_ONE = 1 << 16 };
/* Load of the busiest GPU over the mean of all, in EPLB_ONE; EPLB_ONE if nothing has any load. A
 * place may be empty, -1. */
int64_t eplb_imbalance(const Eplb *self, const int64_t *loads, const int32_t *expert_of);
#endif
