/* A scheduling idea that vLLM has been offered and does not have, on top of its own scheduler: in
 * which order those that wait are admitted, and how much of prompts a step takes. It changes these
 * decisions of batcher `vllm` and nothing else, so that two runs differ by the idea alone.
 *
 * A proposal is one `const` table in one file of this folder and a line in proposals.def
 * (experiments/guide/policy-lab.md). As with other policies, its hooks get a read-only view and
 * return a choice; the core does the rest (core/proposing.c), and drops no request whatever they
 * return. */
#ifndef SIM_PROPOSAL_PROPOSAL_H
#define SIM_PROPOSAL_PROPOSAL_H
#include "sim/batcher/batcher.h"
#include "sim/core/scheduler.h"

typedef struct Proposal {
  Policy policy; // its state is its options; nothing is kept from one decision to the next
  /* Where a prompt that has not begun stands among its likes: the least goes first, equal ones in
   * order of arrival. Never NAN. Asked of all of them in each decision that may admit one. Those
   * that were preempted, or whose KV is loaded, stay ahead. Optional: all are equal. */
  double (*rank)(const void *options, const InstanceView *view, RequestIx request);
  /* Tokens of prompts that the step may have, of all together; at least 1. Optional: no limit
   * beside those of the batcher. */
  int64_t (*prefill_tokens)(const void *options, const InstanceView *view);
  /* Prompts that may have tokens in the step; at least 1. Those that have begun go on. Optional: no
   * limit. */
  int64_t (*prefill_seqs)(const void *options, const InstanceView *view);
} Proposal;

/* All of them in the order of proposals.def, NULL-terminated. */
const Proposal *const *proposal_list(void);
/* A proposal beside those of the list, which only this process has: configurations may then name
 * it. It has no options. NULL takes it back; neither while one is bound or runs. */
void proposal_give(const Proposal *proposal);
/* What the node says, a name or {name: …, options}; NULL: none. -1 with entries in `diag` when
 * something is wrong. Options live in `arena`. */
int proposal_bind(ProposalChoice *self, const Node *node, Arena *arena, Diag *diag);
#endif
