/* Results of benchmark clients of any bytes: what is refused has an entry, what is not has figures
 * and requests that can be, and goes into a database. */
#include "experiments/benchmark/benchmark.h"
#include "tests/fuzz/files.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const Benchmark *self) {
  assert(self->run.n_figures <= BENCHMARK_FIGURES);
  for (int i = 0; i < self->run.n_figures; i++)
    assert(isfinite(self->run.figures[i].value) && self->run.figures[i].value >= 0);
  for (size_t i = 0; i < self->n_requests; i++) {
    const BenchmarkRequest *request = &self->requests[i];
    assert(request->e2e >= request->ttft && request->ttft >= 0 && request->sent >= -1);
    assert(request->prompt_tokens >= 0 && request->output_tokens >= 0);
  }
}

static void store(const Benchmark *runs, size_t n, Arena *arena, Diag *diag) {
  Results results;
  const char *path = fuzz_no_file("results.db");
  const char *source = getenv("TANDEM_SOURCE_DIR");
  assert(results_open(&results, path, source ? source : ".", arena, diag) == 0);
  for (size_t i = 0; i < n && diag->n_entries == 0; i++)
    benchmark_store(&runs[i], &results, arena, diag); // texts may hold what YAML refuses
  results_close(&results);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_file("input", data, size);
  Arena arena;
  Diag diag;
  Benchmark *runs = NULL;
  size_t n = 0;
  arena_init(&arena);
  diag_init(&diag);
  const int status = benchmark_load(path, &runs, &n, &arena, &diag);
  assert((status < 0) == (diag.n_entries > 0));
  for (size_t i = 0; status == 0 && i < n; i++)
    check(&runs[i]);
  if (status == 0) store(runs, n, &arena, &diag);
  diag_done(&diag);
  arena_done(&arena);
  return 0;
}
