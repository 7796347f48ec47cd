/* Decisions: what a proposal for vLLM's scheduler (proposal.h) changes of one. */
#include "sim/core/decision.h"
#include "sim/proposal/proposal.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>

typedef struct WaitingPrompt {
  double rank;
  Tick arrived_at;
  uint64_t id;
  RequestIx request;
} WaitingPrompt;

static int compare(const void *a_, const void *b_) {
  const WaitingPrompt *a = a_, *b = b_;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  if (a->arrived_at != b->arrived_at) return a->arrived_at < b->arrived_at ? -1 : 1;
  return (a->id > b->id) - (a->id < b->id);
}

/* Whether it keeps its place ahead of those that are ranked: it has begun before. */
static bool stays_ahead(const Request *request) {
  return request->loading || request->prefill_began_at >= 0;
}

static void sort_queue(Simulation *self, Instance *instance, const ProposalChoice *by) {
  Scheduler *scheduler = instance->scheduler;
  Request *slots = self->requests.slots;
  RequestQueue *queue = &instance->prefill_queue;
  const InstanceView view = sim_view(self, instance);
  size_t n = 0;
  for (RequestIx ix = queue->first; ix != REQUEST_NONE; ix = slots[ix].next) {
    if (stays_ahead(&slots[ix])) continue;
    ARENA_RESERVE(self->arena, scheduler->ranked, scheduler->ranked_capacity, n + 1);
    scheduler->ranked[n] = (WaitingPrompt){by->proposal->rank(by->options, &view, ix),
                                           slots[ix].arrived_at, slots[ix].id, ix};
    assert(!isnan(scheduler->ranked[n].rank));
    n++;
  }
  qsort(scheduler->ranked, n, sizeof *scheduler->ranked, compare);
  for (size_t i = 0; i < n; i++) {
    request_queue_remove(queue, slots, scheduler->ranked[i].request);
    request_queue_push(queue, slots, scheduler->ranked[i].request);
  }
}

bool proposal_sorts(const Scheduler *scheduler) {
  return scheduler->limits.proposal.proposal && scheduler->limits.proposal.proposal->rank;
}

void decision_propose(Simulation *self, Instance *instance, Decision *decision) {
  const ProposalChoice *by = &instance->scheduler->limits.proposal;
  const InstanceView view = sim_view(self, instance);
  if (by->proposal->rank && instance->prefill_queue.count > 1) sort_queue(self, instance, by);
  if (by->proposal->prefill_tokens)
    decision->prompt_tokens = by->proposal->prefill_tokens(by->options, &view);
  if (by->proposal->prefill_seqs)
    decision->prompts = by->proposal->prefill_seqs(by->options, &view);
  assert(decision->prompt_tokens > 0 && decision->prompts > 0);
}
