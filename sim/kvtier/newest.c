/* The victim that vLLM takes, see kvtier.h. */
#include "sim/kvtier/kvtier.h"

static RequestIx later(const MachineView *view, RequestIx a, RequestIx b) {
  if (a == REQUEST_NONE) return b;
  return view->requests[b].id > view->requests[a].id ? b : a;
}

RequestIx kvtier_newest(void *state, const MachineView *view) {
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
