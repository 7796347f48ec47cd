/* vLLM's default: the request that arrived last gives up its KV and is prefilled again. */
#include "sim/kvtier/kvtier.h"

static RequestIx later(const MachineView *view, RequestIx a, RequestIx b) {
  if (a == REQUEST_NONE) return b;
  return view->requests[b].id > view->requests[a].id ? b : a;
}

static RequestIx pick(void *state, const MachineView *view) {
  (void)state;
  const Machine *machine = view->machine;
  RequestIx victim = REQUEST_NONE;
  for (size_t i = 0; i < machine->batch.n_seqs; i++)
    victim = later(view, victim, machine->batch.entries[i].request);
  const RequestQueue *const waiting[] = {&machine->decode_queue, &machine->blocked};
  for (size_t i = 0; i < 2; i++)
    for (RequestIx ix = waiting[i]->first; ix != REQUEST_NONE; ix = view->requests[ix].next)
      victim = later(view, victim, ix);
  return victim;
}

const KvTier kvtier_recompute = {
    .policy = {.name = "recompute",
               .help = "the last to arrive gives up its KV and is prefilled again (vLLM)"},
    .pick = pick,
};
