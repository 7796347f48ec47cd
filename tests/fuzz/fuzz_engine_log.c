/* Logs of an engine's requests of any bytes, whichever of the three kinds they look like: what is
 * refused has an entry, what is not has requests in order, with tokens and times that can be. */
#include "experiments/benchmark/benchmark.h"
#include "tests/fuzz/files.h"
#include <assert.h>
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const EngineLog *self) {
  assert(self->n_requests > 0 && self->requests[0].sent == 0);
  for (size_t i = 0; i < self->n_requests; i++) {
    const BenchmarkRequest *request = &self->requests[i];
    assert(i == 0 || request->sent >= self->requests[i - 1].sent);
    assert(request->e2e >= request->ttft && request->ttft >= 0);
    assert(request->prompt_tokens >= 1 && request->output_tokens >= 1);
  }
  for (size_t i = 0; i < self->n_steps; i++) {
    const BatchShape *batch = &self->steps[i].batch;
    assert(isfinite(self->steps[i].seconds) && self->steps[i].seconds > 0);
    assert(batch->prefill_tokens + batch->decode_seqs > 0 && batch->prefill_area2 >= 0);
    assert(batch->context_tokens >= batch->decode_seqs);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_file("input", data, size);
  Arena arena;
  Diag diag;
  EngineLog log;
  arena_init(&arena);
  diag_init(&diag);
  const int status = engine_log_load(&log, path, &arena, &diag);
  assert((status < 0) == (diag.n_entries > 0));
  if (status == 0) check(&log);
  diag_done(&diag);
  arena_done(&arena);
  return 0;
}
