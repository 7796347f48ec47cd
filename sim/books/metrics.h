/* What a run books, by the rows of metrics.def: what users of the cluster felt, latencies of
 * requests and tokens, and what instances and groups did. A new latency is its row there and the
 * place that books it; a field of a request's slot becomes one of its record by its row.
 *
 *   queue  prefill began − arrival          TTFT  first token − arrival
 *   E2E    last token − arrival             TBT   gap between consecutive tokens, over all tokens
 *   TPOT   (last − first token) / (output tokens − 1), over requests with two tokens or more
 *   computing, queueing per token   time in iterations, and all other time from arrival to the last
 *       token, over output tokens (Pie §5.1); what iterations waited for copies is computing
 *   second token   gap between the first two tokens: where a move of the KV cache is felt
 *   KV transfer    end of prefill to the KV's arrival where it is decoded, waits included
 *
 * Slowdowns are relative to the same request alone on an idle reference instance, as SplitwiseSim's
 * notebooks define them: TTFT / prefill(prompt), TBT mean / decode step, E2E / (prefill + (output −
 * 1) steps), where the TBT mean is (E2E − TTFT) / output tokens. They are kept in millionths. */
#ifndef SIM_BOOKS_METRICS_H
#define SIM_BOOKS_METRICS_H
#include "base/histogram.h"
#include "perfmodel/perfmodel.h"
#include "sim/books/hours.h"
#include "sim/core/eplb.h"
#include "sim/core/group.h"
#include "sim/core/kv_store.h"

enum { SLOWDOWN_SCALE = 1000000 };

/* Why a request was turned away when it arrived. */
typedef enum Rejection {
  REJECTED_NOT,
  REJECTED_CONTEXT,   // its prompt leaves no room for a token in the model's context
  REJECTED_KV_MEMORY, // no instance can hold its prompt, or the prompt and output
  REJECTED_STORE,     // a group's store cannot hold its prompt
  REJECTED_ADMISSION, // its class or tenant may have no more, or it came when loads were too high
  REJECTED_LOST,      // it was lost with instances as often as it may be tried again
  REJECTIONS,
} Rejection;

/* What the client of a request gave up waiting for. */
typedef enum Cancellation {
  CANCELLED_NOT,
  CANCELLED_TTFT, // its first token
  CANCELLED_E2E,  // its last
  CANCELLATIONS,
} Cancellation;

/* Where the time of a request goes (parts.h). */
typedef enum Cause {
#define REQUEST_PART(phase, name, meaning) CAUSE_##name,
#include "sim/books/metrics.def"
  CAUSES,
} Cause;

typedef struct TimeParts {
  Tick of[CAUSES]; // they add up to E2E, or the time until it was turned away or cancelled
  int64_t chunks;  // iterations that computed tokens of its prompt
} TimeParts;

typedef struct CauseRow {
  const char *name;
  bool is_late; // of the time after the first token
} CauseRow;

extern const CauseRow metrics_causes[CAUSES];

/* One finished request, for tables of requests. Times are -1 when they never came. */
typedef struct RequestRecord {
#define REQUEST_FIELD(type, field, column, kind, meaning) type field;
#include "sim/books/metrics.def"
  Rejection rejected;
  Cancellation cancelled;
  const TimeParts *parts; // valid during the call; NULL: not kept (SimConfig.keeps_parts)
} RequestRecord;

/* What makes a request good: each of these at most so much; 0: no limit. */
typedef struct GoodputLimits {
  Tick ttft, tpot, e2e;
  double share; // of the requests of an hour that must keep them; 0: hours are not looked at
} GoodputLimits;

static inline bool goodput_limits_given(const GoodputLimits *self) {
  return self->ttft > 0 || self->tpot > 0 || self->e2e > 0;
}

/* How many observations a workload makes when all of it is served. */
typedef struct Demand {
  uint64_t requests;
  uint64_t gaps;  // between tokens, of all requests
  uint64_t paced; // requests of two tokens or more, which have a TPOT
  uint64_t sessions;
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

/* The start of a run that is simulated and not counted: its first requests, and all that arrive
 * before a time. */
typedef struct WarmUp {
  int64_t requests;
  Tick duration;
} WarmUp;

/* Whether the request that is `id` in order of arrival, from 0, is of it. */
static inline bool warm_up_has(const WarmUp *self, uint64_t id, Tick at) {
  return id < (uint64_t)self->requests || at < self->duration;
}

enum {
#define LATENCY(field, asked, meaning) METRICS_##field,
#define SLOWDOWN(field, meaning)       METRICS_SLOWDOWN_##field,
#include "sim/books/metrics.def"
  METRICS_HISTOGRAMS,
};

/* How many observations a histogram should have: of Demand, or as many as there were. */
typedef enum Asked {
  ASKED_requests,
  ASKED_gaps,
  ASKED_paced,
  ASKED_sessions,
  ASKED_observed,
} Asked;

/* A histogram of Metrics. */
typedef struct HistogramSpec {
  const char *name;   // as limits have it: ttft, slowdown.ttft
  const char *column; // in reports: ttft_s; NULL of slowdowns, which limits alone show
  const char *unit;   // s, or "" of ratios
  double scale;       // of its values in one `unit`
  Asked asked;
  const char *meaning;
} HistogramSpec;

extern const HistogramSpec metrics_histograms[METRICS_HISTOGRAMS];

/* Of instances whose loads of experts are followed. */
typedef struct ExpertBooks {
  uint64_t rearrangements;
  Total moved_bytes, move_ticks;
  Total ticks;     // of steps
  Total imbalance; // the same times the load of the busiest GPU over the mean, in EPLB_ONE
} ExpertBooks;

enum {
#define COMPONENT_HISTOGRAM(field, unit, scale, meaning) COMPONENT_##field,
#include "sim/books/metrics.def"
  COMPONENT_HISTOGRAMS,
};

/* What became of the requests of one component of a mix, or of a class of them. */
typedef struct ComponentMetrics {
#define COMPONENT_BOOK(type, field, dimension) type field dimension;
#include "sim/books/metrics.def"
  union {
    struct {
#define COMPONENT_HISTOGRAM(field, unit, scale, meaning) Histogram field;
#include "sim/books/metrics.def"
    };
    Histogram histograms[COMPONENT_HISTOGRAMS];
  };
  GoodputLimits good_limits; // of its requests
} ComponentMetrics;

typedef struct Metrics {
  union {
    struct {
#define LATENCY(field, asked, meaning) Histogram field;
#define SLOWDOWN(field, meaning)       Histogram slowdown_##field;
#include "sim/books/metrics.def"
    };
    Histogram histograms[METRICS_HISTOGRAMS]; // by metrics_histograms
  };
  Demand asked; // of all that arrived
#define RUN_BOOK(type, field, dimension) type field dimension;
#include "sim/books/metrics.def"
  Tick first_arrival_at; // -1: none
  GoodputLimits good_limits;
  Window window;
  Tick last_arrival_at; // -1: none
  Hours hours;          // where good_limits has a share
  int64_t encoder_tokens;
  ExpertBooks experts;
  const ComponentMetrics *components; // of a mix, and behind them its classes
} Metrics;

/* `component` is 0 for all requests, and else one more than an index of Metrics.components;
 * `histogram` is METRICS_…, of which components have some. NULL: not this one. */
const Histogram *metrics_histogram(const Metrics *self, uint32_t component, int histogram);
Demand metrics_asked(const Metrics *self, uint32_t component);
bool component_metrics_have(int histogram);

void component_metrics_init(ComponentMetrics *self, Arena *arena);
/* Books a request that arrives. */
void component_metrics_arrive(ComponentMetrics *self, int32_t output_tokens);
/* Books a request that has ended; `good`: it was a good one. */
void component_metrics_end(ComponentMetrics *self, const RequestRecord *record, bool good);

void metrics_init(Metrics *self, Arena *arena);
/* Books a request whose last token was made, with slowdowns unless `reference` is NULL; whether it
 * was a good one by `limits`, NULL: those of the run. */
bool metrics_complete(Metrics *self, const RequestRecord *record, const GoodputLimits *limits,
                      const PerfModel *reference);
/* Books a session whose last turn was answered; `good`: all of them were. */
void metrics_complete_session(Metrics *self, Tick ticks, bool good);

/* Requests that have ended, however. */
static inline uint64_t metrics_ended(const Metrics *self) {
  return self->completed + self->rejected + self->cancelled;
}

/* What an instance has done so far, or several. */
typedef struct InstanceTotals {
#define INSTANCE_BOOK(type, field, dimension) type field dimension;
#include "sim/books/metrics.def"
} InstanceTotals;

/* Adds what others have done; blocks at once are added up. */
void instance_totals_add(InstanceTotals *self, const InstanceTotals *other);
/* Leaves out what was done before. */
void instance_totals_subtract(InstanceTotals *self, const InstanceTotals *other);
static inline Total instance_busy_ticks(const InstanceTotals *self) {
  return self->prefill_ticks + self->decode_ticks;
}

/* Adds what other replicas have done; of what one holds at most, the most. */
void group_totals_add(GroupTotals *self, const GroupTotals *other);
/* Leaves out what was done before; what it holds at most stays. */
void group_totals_subtract(GroupTotals *self, const GroupTotals *other);
#endif
