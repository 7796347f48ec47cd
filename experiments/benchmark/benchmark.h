/* What a benchmark client measured of a running engine, as it saved it: the JSON of `vllm bench
 * serve --save-result`, also with --save-detailed or --append-result (vLLM 0.4 to 0.33, and what
 * writes the same keys).
 *
 * A result is one object: totals, and the mean, median and percentiles of TTFT, TPOT, ITL and E2EL
 * in ms. One with details has lists of as many requests: input_lens, output_lens, ttfts and itls
 * (the gaps after each further piece of output) in seconds, errors, and, since 0.11, start_times by
 * the client's clock. Then what is told of the run is taken from those. */
#ifndef EXPERIMENTS_BENCHMARK_BENCHMARK_H
#define EXPERIMENTS_BENCHMARK_BENCHMARK_H
#include "experiments/results/results.h"
#include "perfmodel/import/vllm_steps.h"

enum { BENCHMARK_LATENCIES = 4, BENCHMARK_FIGURES = 48 };

/* One request of a result with details. */
typedef struct BenchmarkRequest {
  int32_t prompt_tokens, output_tokens;
  bool failed;
  Tick sent; // after the first one was; -1: the file does not say when
  Tick ttft, e2e;
} BenchmarkRequest;

/* One result; it lives in the arena that it was read with. */
typedef struct Benchmark {
  EngineRun run;
  const char *model;                // as the server calls it
  const BenchmarkRequest *requests; // [n_requests], in order of submission; 0: no details
  size_t n_requests;
} Benchmark;

/* All results of a file, plain or gzip: one object, or several, each beginning a line. */
int benchmark_load(const char *path, Benchmark **ret_results, size_t *ret_n, Arena *arena,
                   Diag *diag);
/* Adds one to a database, with its requests where the file says when they were sent. */
int benchmark_store(const Benchmark *self, Results *results, Arena *arena, Diag *diag);

/* One step of an engine. */
typedef struct LoggedStep {
  BatchShape batch;
  double seconds;
} LoggedStep;

/* What was logged of each request that was served, in order of arrival, the first at 0. */
typedef struct EngineLog {
  const char *path, *kind;
  BenchmarkRequest *requests; // [n_requests]
  size_t n_requests, n_failed;
  double cached_tokens, prompt_tokens; // sums; of cached ones as far as it is said
  LoggedStep *steps;                   // [n_steps], without those of speculation
  size_t n_steps;
} EngineLog;

/* Reads one of: a result with details and start_times (above), the last of a file; the steps of an
 * engine (perfmodel/import/vllm_steps.h) with its requests; requests.csv of LLMServingSim's logs of
 * vLLM, whose client's clock is the engine's but for the least time from arrival to queue, since
 * requests are queued between two steps. */
int engine_log_load(EngineLog *self, const char *path, Arena *arena, Diag *diag);
#endif
