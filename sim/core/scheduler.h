/* Instances that are scheduled step by step, as the engine cores of vLLM and SGLang do it: what one
 * decides, and the steps that come of it (RULES.md, "Step by step", "Step by step, as SGLang").
 *
 * `running` has the requests that were admitted, in order of admission, whether their prompt is
 * being computed or they decode. A decision walks it and gives each its tokens of the step, then
 * admits from those that wait. Decodes that take part in every step are in the instance's batch,
 * which is as of the newest decision; all others have an item in the steps that they are part of.
 * With `lag` 1 a step is decided when the one before it begins, so there is always one that runs
 * and one that is decided; with 0 it is decided when it begins. A request counts as having the
 * tokens that decided steps will make. That an output ends with an EOS token is known once the step
 * that makes it has ended, so with lag 1 the request is in one more step: it overruns. Steps of one
 * and the same batch are a decode run (decode_run.h), booked ahead by `lag`.
 *
 * In a pipeline with one scheduler, and where drafts are made, nobody is in the batch: each request
 * is scheduled alone, and several steps may be in flight (flights.h).
 *
 * The rules by which an engine decides are a table, SchedulerRules. Where those whose last token is
 * in a step that runs stay among those running (`tails`), a decision finds them in the batch and
 * takes them out of it. */
#ifndef SIM_CORE_SCHEDULER_H
#define SIM_CORE_SCHEDULER_H
#include "perfmodel/perfmodel.h"
#include "sim/core/kv_store.h"
#include "sim/core/speculation.h"
#include "sim/sim.h"

typedef struct SchedulerRules SchedulerRules;
typedef struct Connector Connector;
typedef struct HiCache HiCache;
typedef struct Encoder Encoder;

typedef enum ConnectorKind {
  CONNECTOR_NONE,
  CONNECTOR_OFFLOADING,
  CONNECTOR_NIXL,
  CONNECTOR_HICACHE, // tiers under a radix tree (hicache.h)
} ConnectorKind;
typedef enum ConnectorRole { CONNECTOR_BOTH, CONNECTOR_PRODUCER, CONNECTOR_CONSUMER } ConnectorRole;

/* How long a request waits for what comes to CPU memory from storage. */
typedef enum PrefetchPolicy {
  PREFETCH_BEST_EFFORT, // not at all
  PREFETCH_WAIT_COMPLETE,
  PREFETCH_TIMEOUT,
} PrefetchPolicy;

/* Where the KV of requests goes and comes from besides their instance (connector.h). */
typedef struct ConnectorOptions {
  ConnectorKind kind;
  ConnectorRole role;
  KvStoreOptions tiers[KV_STORE_KINDS]; // [n_tiers] of one that has some, from the GPUs on
  int32_t n_tiers;
  bool recomputes; // what of a prompt is computed sooner than it is loaded
  Tick overhead;   // of each load or send of NIXL
  double ratio;    // of HiCache, where tiers[0].capacity is 0: of it to the KV memory of the GPUs
  int64_t load_back_threshold, prefetch_threshold; // tokens
  int prefetch_policy;                             // PrefetchPolicy
  Tick prefetch_timeout_base, prefetch_timeout_per_ki_token;
} ConnectorOptions;

/* How requests are spread over attention ranks (rank_spread.h). */
typedef enum RankSpread {
  RANKS_BY_FRONT, // vLLM's front end (rank_front.h)
  RANKS_AUTO,     // one of the next two, by the role of the instance
  RANKS_IN_TURN,
  RANKS_BY_ROOM,     // drawn, for prefill and decode at once
  RANKS_BY_REQUESTS, // the fewest
  RANKS_BY_TOKENS,   // the least KV memory, of prompts that wait too
  RANKS_BALANCED,    // as many requests on each, then the fewest tokens of prompts
} RankSpread;

/* A proposal and its options (sim/proposal/proposal.h); both NULL: none. */
typedef struct ProposalChoice {
  const struct Proposal *proposal;
  const void *options;
} ProposalChoice;

typedef struct SchedulerLimits {
  const SchedulerRules *rules;
  int64_t max_num_batched_tokens;
  int64_t max_tokens; // that a decision gives, at most as many
  int64_t max_num_seqs;
  int64_t long_prefill_token_threshold; // 0: none
  bool adaptive_threshold;              // at least a fair share of max_num_batched_tokens
  int64_t prefill_interval; // at least so many steps from one with prefill to the next; 0, 1: any
  double watermark;         // share of the blocks that admissions leave free
  bool self_preemption_ends_step; // by priority, too: those after it get nothing
  bool priority;                  // else first come, first served
  bool reserve_full_isl;
  bool no_evict; // who is admitted can end: there are blocks for all that those who run may make
  bool whole_prompts; // a prompt is not cut, unless no step has room for it
  /* So many decisions at most those who may join wait beside decodes, while the step would have
   * fewer tokens. */
  int64_t batch_wait_iters, batch_wait_tokens;
  int64_t rank_wait_iters;  // those who may join wait for prompts on all ranks; 0: they do not
  int64_t rank_batch_iters; // then so many decisions for more of them
  RankSpread rank_spread;
  bool one_round; // of all ranks (rank_rounds.h), in place of waves (lockstep.h)
  int lag;
  int64_t retention;     // KvGroupOptions
  bool makes_first;      // tokens again of prompts that were prefilled elsewhere
  Tick idle_sleep;       // of the engine of a pipeline or rank, after a step without tokens
  int64_t sync_interval; // rounds of ranks from one vote on the end of their wave to the next
  Speculation speculation;
  ConnectorOptions connector;
  ProposalChoice proposal;
  int64_t encoder_tokens, encoder_cache_size; // in a step, and in the cache; 0: no encoder
  Tick encoder_time;                          // of each token encoded
} SchedulerLimits;

/* How a request in `running` is scheduled. */
typedef enum Scheduled {
  SCHEDULED_ALONE, // by items: its prefill is not over, or it was left out of the batch
  SCHEDULED_BATCH, // with the batch
  SCHEDULED_ENDS,  // no more: a decided step makes its last token here
} Scheduled;

typedef enum StepItemKind {
  STEP_CHUNK,  // tokens of a prefill
  STEP_DECODE, // of a request that joins the batch with it
  STEP_LEAVES, // the batch, with its token of the step
  STEP_JOINS,  // the batch, in its first step with that after others
} StepItemKind;

typedef struct ScheduledItem {
  RequestIx request; // REQUEST_NONE: it has left
  StepItemKind kind;
  int32_t tokens;
  int32_t drafts;     // of those, that are verified; or padding of a prefill's last token
  int32_t done;       // of its prefill, after them
  int32_t hit_tokens; // as StepItem
  int32_t encoded;    // tokens of its inputs that the step encodes
  uint64_t encodes;   // which, as StepItem
  bool last;          // chunk of its prefill
  bool ends;          // with the last token that it makes here
  bool lost;          // the token: it was retracted meanwhile
  int32_t kv_tokens;  // whose KV is there, as far as it is more than of all but the newest: 1
  uint32_t admission;
} ScheduledItem;

/* Tokens of a step that are booked as computed before it has ended: of a request that left before
 * the step began, or was preempted for a pause. */
typedef struct Forfeit {
  int64_t *booked;
  int64_t tokens;
} Forfeit;

/* A block of a tier (kv_store.h), or that is loaded to the GPUs: tier -1. */
typedef struct TierBlock {
  uint64_t key;
  int32_t tier;
} TierBlock;

typedef struct Step {
  /* Of ranks in lockstep: the forward that it is in, when that is launched and begins, the wave and
   * its steps before this one, and the ticks that an executor gives. A dummy has no tokens. */
  uint64_t forward;
  Tick launched_at, begins, executed;
  int64_t wave, counter;
  bool dummy;
  /* In a pipeline: `end`, when it leaves the last stage; when it entered and left each stage, and
   * how many were in flight with it. */
  Tick end;
  Tick *stages; // [2 per stage]
  int64_t n_in_flight;
  Extrapolation extrapolation;
  int64_t n_ahead; // tokens of the one that left last, which it was to compute
  BatchShape shape;
  RankShare busiest; // with attention_ranks
  Tick decided_at;
  int64_t n_regular;    // of the batch, which take part
  int64_t n_counted;    // of those, whose requests are (warm_up.h)
  int64_t n_drafts;     // tokens that its decodes verify
  int64_t n_padding;    // tokens of prefills' items that are none of theirs
  int64_t n_encoded;    // tokens of encoder inputs
  int64_t n_thrown[2];  // of those, whose output has ended, by whether they are counted
  int64_t n_seconds[2]; // that make their second token, by whether they are counted
  bool preempted;       // somebody was, so nobody could be admitted
  uint32_t number;      // of the decision
  int64_t n_joins[2];   // of the regular, that are in it for the first time (STEP_JOINS), likewise
  uint64_t version;     // of the batch
  ScheduledItem *items; // in order of admission once it begins
  size_t n_items, items_capacity;
  Forfeit *forfeits; // taken back if the step does not end
  size_t n_forfeits, forfeits_capacity;
  TierBlock *stored; // whose store begins as it ends (connector.h)
  size_t n_stored, stored_capacity;
  int64_t n_copied; // blocks that are copied from the GPUs for that
  /* With tiers under a radix tree: when the load that it waits for layer by layer moves, and when
   * pages are free that it takes; 0: there is nothing to wait for. */
  Tick load_from, load_until, free_at;
  struct StepListing *listing; // one by one, where somebody wants to know
} Step;

static inline bool step_is_empty(const Step *self) {
  return self->shape.prefill_tokens + self->shape.decode_seqs == 0;
}

struct Rounds;
struct Flights;
struct Rank;

typedef struct Scheduler {
  SchedulerLimits limits;
  Step *steps;          // [n_places]
  size_t n_places;      // 2, or as many as may be in flight
  Step *current, *next; // the one that runs or is to begin; the one decided after it
  const Step *ending;   // whose items end at present; NULL: none
  Tick ending_ticks;    // of Instance.decoded_ticks, of the step that ends or was broken off
  bool has_next;
  uint32_t number;        // of the newest decision
  uint64_t version;       // of the batch: who is in it; from 1
  uint64_t plain_version; // of the newest step that ended, if it was of the batch alone
  int64_t n_seconds[2];   // of the batch, that have one token, by whether they are counted
  int64_t n_waited;       // decisions since somebody was admitted, in which those who might wait
  bool waits;             // the newest decision was one, or held prompts
  bool holds_prompts;     // the next one, for prompts on other ranks (rank_rounds.h)
  int64_t let_in_at;      // ranks_clock when prompts of ranks were last let in
  int64_t n_steps;        // decided that were not empty
  int64_t prefilled_step; // number of the newest of those with prefill
  int64_t max_model_len;  // INT64_MAX: no limit
  int64_t max_slots;      // tokens of a request that its drafter may write KV of
  const double *const *rates; // of acceptance, by component (speculation.h); NULL: no drafts
  bool crowded;               // the newest decision that held no prompts left somebody waiting
  bool by_items;              // each request is scheduled alone, by an item in every step
  PauseMode pause;
  const PauseSpec **pauses; // that it has not heard of yet
  size_t n_pauses, pauses_capacity;
  RequestIx *leaving; // given up: they go as the present step ends, in this order
  size_t n_leaving, leaving_capacity;
  RequestIx *alone; // SCHEDULED_ALONE, by admission
  size_t n_alone, alone_capacity;
  struct WaitingPrompt *ranked; // by a proposal, of the newest decision (proposing.c)
  size_t ranked_capacity;
  bool untold;             // requests have ended since the newest decision
  struct Rounds *rounds;   // what rules keep of their own (rounds.h)
  Connector *connector;    // NULL: none
  HiCache *hicache;        // NULL: none
  Encoder *encoder;        // NULL: none
  struct Flights *flights; // steps in the stages of a pipeline; NULL: one at a time (flights.h)
  struct Rank *rank; // its steps are in lockstep with others'; NULL: they are not (lockstep.h)
} Scheduler;
#endif
