/* The victim that vLLM takes, see kvtier.h. */
#include "sim/core/transfer.h"
#include "sim/kvtier/kvtier.h"

static RequestIx later(const InstanceView *view, RequestIx a, RequestIx b) {
  if (a == REQUEST_NONE) return b;
  return view->requests[b].id > view->requests[a].id ? b : a;
}

RequestIx kvtier_newest(void *state, const InstanceView *view) {
  (void)state;
  const Instance *instance = view->instance;
  RequestIx victim = REQUEST_NONE;
  for (size_t i = 0; i < instance->batch.n_seqs; i++)
    victim = later(view, victim, instance->batch.entries[i].request);
  const RequestQueue *const waiting[] = {&instance->decode_queue, &instance->blocked};
  for (size_t i = 0; i < 2; i++)
    for (RequestIx ix = waiting[i]->first; ix != REQUEST_NONE; ix = view->requests[ix].next)
      victim = later(view, victim, ix);
  int32_t n_started = instance->n_started;
  for (RequestIx ix = instance->prefill_queue.first; n_started > 0; ix = view->requests[ix].next) {
    const Request *request = &view->requests[ix];
    if (request->prefilled_tokens == 0) continue;
    n_started--;
    if (request->state == REQUEST_WAITS_PREFILL && request->transfer == TRANSFER_NONE)
      victim = later(view, victim, ix);
  }
  return victim;
}
