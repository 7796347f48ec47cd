/* What users of the cluster felt: latencies of requests and tokens, and counts.
 *
 *   queue  prefill began − arrival          TTFT  first token − arrival
 *   E2E    last token − arrival             TBT   gap between consecutive tokens, over all tokens
 *   TPOT   (last − first token) / (output tokens − 1), over requests with two tokens or more
 *   computing, queueing per token   time in iterations, and all other time from arrival to the last
 *       token, over output tokens (Pie §5.1); what iterations waited for copies is computing
 *   second token   gap between the first two tokens: where a move of the KV cache is felt
 *   KV transfer    end of prefill to the KV's arrival where it is decoded, waits included
 *
 * Slowdowns are relative to the same request alone on an idle reference machine, as SplitwiseSim's
 * notebooks define them: TTFT / prefill(prompt), TBT mean / decode step, E2E / (prefill + (output −
 * 1) steps), where the TBT mean is (E2E − TTFT) / output tokens. They are kept in millionths. */
#ifndef SIM_METRICS_H
#define SIM_METRICS_H
#include "perfmodel/perfmodel.h"
#include "sim/base/histogram.h"
#include "sim/request.h"
#include <stdbool.h>

enum { SLOWDOWN_SCALE = 1000000 };

/* Why a request was turned away when it arrived. */
typedef enum Rejection {
  REJECTED_NOT,
  REJECTED_CONTEXT,   // its prompt leaves no room for a token in the model's context
  REJECTED_KV_MEMORY, // no machine can hold its prompt, or the prompt and output
  REJECTED_STORE,     // a group's store cannot hold its prompt
  REJECTIONS,
} Rejection;

/* One finished request, for tables of requests. */
typedef struct RequestRecord {
  uint64_t id;
  int32_t prompt_tokens, output_tokens;
  MachineIx prefill_machine, decode_machine; // MACHINE_NONE when rejected
  Tick arrived_at, prefill_began_at, first_token_at, decode_began_at, last_token_at; // -1: never
  Tick computing_ticks; // of the iterations it was in
  int32_t preemptions, evictions, swaps;
  Rejection rejected;
} RequestRecord;

/* What makes a request good: each of these at most so much; 0: no limit. */
typedef struct GoodputLimits {
  Tick ttft, tpot, e2e;
} GoodputLimits;

/* How many observations a workload makes when all of it is served. */
typedef struct Demand {
  uint64_t requests;
  uint64_t gaps;  // between tokens, of all requests
  uint64_t paced; // requests of two tokens or more, which have a TPOT
} Demand;

static inline void demand_add(Demand *self, int32_t output_tokens) {
  self->requests++;
  self->gaps += (uint64_t)output_tokens - 1;
  self->paced += output_tokens > 1;
}

/* Part of a run, apart from its start and its end. */
typedef struct Window {
  Tick from, to; // to 0: none
} Window;

typedef struct Metrics {
  Histogram ttft, tbt, tpot, e2e, queue, second_token, kv_transfer; // ticks
  Histogram computing_per_token, queueing_per_token;                // ticks
  Histogram slowdown_ttft, slowdown_tbt, slowdown_e2e;
  Demand asked;                      // of all that arrived
  uint64_t completed, rejected;      // of those
  uint64_t rejected_for[REJECTIONS]; // by reason
  uint64_t cut_outputs; // of all that arrived, those that the model's context ends early
  uint64_t good;        // completed within good_limits
  uint64_t in_window;   // completed from window.from on and before window.to
  uint64_t prompt_tokens, output_tokens; // of completed requests
  uint64_t preemptions, evictions, transfers, role_changes;
  int64_t dropped_tokens;   // of prefill that had to begin again between chunks
  uint64_t dispatches;      // decode machines chosen by a dispatcher
  uint64_t predicted_right; // of all that arrived, outputs within the predicted range
  uint64_t flips;           // completed; role changes too
  Total flip_ticks;         // that flips took after the machine had finished its work
  Total transferred_bytes;
  Tick first_arrival_at, last_finish_at; // -1: none
  const PerfModel *reference;            // NULL: no slowdowns
  GoodputLimits good_limits;
  Window window;
} Metrics;

enum { METRICS_HISTOGRAMS = 12 };
/* All histograms there are in it. */
void metrics_histograms(Metrics *self, Histogram *ret_all[METRICS_HISTOGRAMS]);
void metrics_init(Metrics *self, const PerfModel *slo_reference, Arena *arena);
/* Books a request whose last token was made. */
void metrics_complete(Metrics *self, const RequestRecord *record);
#endif
