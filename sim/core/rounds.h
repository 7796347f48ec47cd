/* The rounds of SGLang's scheduler (RULES.md, "Step by step, as SGLang"): each decides a step.
 *
 * Those that decode are the instance's batch, which is as of the newest decision and stands still
 * in steps with prefill. `Instance.running` has them in order, those whose prefill is in the newest
 * decision behind, and in between perhaps one between two chunks, who does not run yet. */
#ifndef SIM_CORE_ROUNDS_H
#define SIM_CORE_ROUNDS_H
#include "sim/core/scheduling.h"

typedef enum SchedulePolicy { SCHEDULE_FCFS, SCHEDULE_LPM } SchedulePolicy;

/* Options, under SGLang's names but for the limits: chunked_prefill_size, max_running_requests. */
typedef struct RoundOptions {
  BatchLimits limits;
  int64_t max_prefill_tokens;
  int64_t scheduler_recv_interval;
  int64_t prefill_max_requests; // 0: no limit
  int64_t prefill_decode_interval, prefill_decode_interval_min_bs;
  int64_t priority_scheduling_preemption_threshold;
  double schedule_conservativeness;
  int schedule_policy; // SchedulePolicy
  bool enable_chunked_prefill, enable_mixed_chunk, enable_overlap_schedule, enable_prefix_caching;
  bool enable_priority_scheduling, disable_priority_preemption;
  bool schedule_low_priority_values_first;
  int rank_scheduling;     // of attention ranks: each has a scheduler, or one is shared
  int load_balance_method; // over those that have their own
} RoundOptions;

/* A request that an admission takes, with the tokens of its chunk. */
typedef struct Admitted {
  RequestIx request;
  int64_t tokens;
  int32_t hits; // tokens found, of one that is admitted for the first time; else -1
} Admitted;

/* What preemption by priority goes by, of a request. */
typedef struct Tried {
  uint32_t entry;       // into the waiting, in order
  int32_t tokens, hits; // as it was last tried: all, and those in the cache
} Tried;

/* Who may be retracted, to be sorted. */
typedef struct Retractable {
  int64_t made, prompt_tokens;
  RequestIx request;
  uint32_t place;
} Retractable;

typedef struct Rounds {
  const RoundOptions *options;
  double ratio, init_ratio, min_ratio, decay;
  const double *ratios; // [n_ratios] that it falls through, from init_ratio to min_ratio
  int64_t n_ratios;
  int64_t ratio_at;     // `ratio` among them; -1: it was raised, and is none of them
  bool full;            // nobody is tried until somebody leaves
  bool left;            // somebody has since the last decision
  bool has_prefill;     // the newest decision
  bool had_step;        // that has tokens, the same
  RequestIx chunked;    // between two chunks
  int64_t rests;        // decisions without prefill that are to come
  int64_t n_unlooked;   // since arrivals were taken in, as SGLang counts
  int64_t n_sorts;      // of those who wait, by arrival
  uint32_t n_entries;   // into the waiting
  RequestIx *joined;    // the batch since it last took part
  RequestIx *ends;      // of the batch, whose last token a step in progress makes
  RequestIx *preempted; // by priority, in this decision
  Admitted *admitted;   // in this decision
  Retractable *order;
  Tried *tried;              // [by slot], with priorities
  struct Likeness *likeness; // of those who wait, for lpm (ordering.c)
  size_t n_joined, n_ends, n_preempted, n_admitted;
  size_t joined_capacity, ends_capacity, preempted_capacity, admitted_capacity, order_capacity,
      likeness_capacity, tried_capacity;
} Rounds;

static inline Rounds *rounds_of(const Instance *instance) {
  return instance->scheduler->rounds;
}

/* Whether those who run may have to give way to one of a better priority. */
static inline bool rounds_may_preempt(const RoundOptions *options) {
  return options->enable_priority_scheduling && !options->disable_priority_preemption;
}

/* Whether it is among those that run: decodes, or will in the next step without prefill. */
static inline bool rounds_runs(const Request *request) {
  return request->scheduled == SCHEDULED_BATCH ||
         (request->scheduled == SCHEDULED_ALONE && request->state == REQUEST_GENERATES);
}
/* How many they are. */
static inline int64_t rounds_n_running(const Instance *instance) {
  return (int64_t)(instance->batch.n_seqs + instance->scheduler->n_alone);
}

/* Whether something that has come may change the next decision. */
bool rounds_wake(const InstanceView *view, Wake why);

/* Whether a step in progress makes a token of it that is in the batch, which nobody knows yet. */
bool rounds_in_flight(const Instance *instance, const Request *request);
/* Its item in a step, that does not only say that it joins; NULL: it has none. */
ScheduledItem *rounds_item_of(Step *step, RequestIx request);
/* Nobody waits for its first token with the batch. In rounds_retracting.c. */
void rounds_forget_joined(Rounds *self, RequestIx request);
/* Behind all others that run. */
void rounds_put_last(Simulation *self, Instance *instance, RequestIx request);
/* Output tokens that are known of it: not those of a step in progress. */
int64_t rounds_made(const Instance *instance, const Request *request);
/* Output tokens that it may make: SGLang cuts max_tokens to what the memory has beside its prompt.
 * In rounds_admitting.c. */
int64_t rounds_most_made(const Instance *instance, const Request *request);
/* Those that it may yet make, as far as they are reserved. In rounds_admitting.c. */
int64_t rounds_reserved(const Instance *instance, const Request *request, int64_t made);

/* Tokens of the first so many of one that waits that are found on the GPUs; where what is found in
 * CPU memory, too, ends is memory->matched. */
static inline int64_t rounds_match(Instance *instance, RequestMemory *memory, int64_t tokens) {
  Radix *radix = instance->radix;
  const int64_t found = radix_match(radix, &memory->content, tokens, &memory->matched);
  return radix->host ? radix->tree.nodes[radix_on_gpus(radix, memory->matched)].to : found;
}
/* Puts those who wait in order, for an admission. In rounds_ordering.c. */
void rounds_sort(Simulation *self, Instance *instance);
/* Of a request; with priorities. */
Tried *rounds_tried(Simulation *self, Instance *instance, RequestIx request);
/* Takes in those who have come. */
void rounds_look(Simulation *self, Instance *instance);
/* Whether a priority goes before another. */
bool rounds_goes_before(const RoundOptions *options, int32_t a, int32_t b);
/* The first of those who wait that is known of, and the next; REQUEST_NONE: there is none. */
RequestIx rounds_first_waiting(const Simulation *self, const Instance *instance);
RequestIx rounds_next_waiting(const Simulation *self, RequestIx request);

/* Decides what is prefilled: whether anything is. In rounds_admitting.c. */
bool rounds_admit(Simulation *self, Instance *instance, Step *step);
/* Whether there are pages for the next token of all who run; evicts for them. */
bool rounds_fits(Simulation *self, Instance *instance);
/* Evicts for whoever takes pages next. */
void rounds_make_room(Instance *instance, int64_t pages);

/* Of those running, until the next step of the rest fits; in rounds_retracting.c. */
int64_t rounds_retract(Simulation *self, Instance *instance, Step *step);
/* One between two chunks that is not prefilled for want of pages gives way to KV that has come in
 * and waits for its place, if nothing else is going on; how many do. In rounds_retracting.c. */
int64_t rounds_free_place(Simulation *self, Instance *instance, Step *step);
/* One gives way to another. In rounds_retracting.c. */
void rounds_retract_one(Simulation *self, Instance *instance, RequestIx request, int64_t n_others);
/* Enters the waiting anew, behind all that are known of. */
void rounds_enqueue(Simulation *self, Instance *instance, RequestIx request);
int32_t rounds_withdraw(Simulation *self, Instance *instance, RequestIx request);
void rounds_forget(Instance *instance);
#endif
