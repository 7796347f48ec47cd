/* The simulator as a function: configuration in, results out.
 *
 * sim_run is a pure function of its configuration: no globals, no clock, no environment. The same
 * configuration, trace and performance models give the same digest on any compiler. */
#ifndef SIM_SIM_H
#define SIM_SIM_H
#include "sim/books/batches.h"
#include "sim/books/eventlog.h"
#include "sim/books/metrics.h"
#include "sim/books/observer.h"
#include "sim/books/timeline.h"
#include "sim/core/group.h"
#include "sim/core/instance.h"
#include "sim/core/uplinks.h"
#include "sim/faults.h"
#include "sim/policy.h"
#include "traces/trace.h"
#include <signal.h>

/* A request's part of an iteration: the tokens it computes, after those whose KV it has. */
typedef struct BatchSequence {
  uint64_t request; // id
  int32_t new_tokens, past_tokens;
} BatchSequence;

typedef struct ExecutorBatch {
  InstanceIx instance;
  BatchShape shape; // the same in sums, padding included; a decode's context is past_tokens + 1
  const BatchSequence *sequences; // prefills, then decodes; valid during the call
  int32_t n_prefills, n_decodes;
} ExecutorBatch;

/* Another clock for the instances: how long a batch took where it was really run. */
typedef struct Executor {
  void *context;
  /* Ticks > 0; negative, with entries in `diag`, stops the run. */
  Tick (*iteration)(void *context, const ExecutorBatch *batch, Diag *diag);
  /* The same of each stage of a pipeline but the last; of that `ret_last`. NULL: an iteration takes
   * each the same. */
  Tick (*stage)(void *context, const ExecutorBatch *batch, Tick *ret_last, Diag *diag);
  Tick dummy; // of a rank that has nothing to do in a step of others; 0: they decide
} Executor;

/* A step as a batcher that schedules step by step (vllm) decided it, once it has run. */
typedef struct StepItem {
  uint64_t request;
  int32_t tokens;      // computed in the step
  int32_t hit_tokens;  // found in the cache, of one scheduled for the first time; else -1
  int32_t drafts;      // of `tokens`, that are verified, or padding of a prompt's last token
  int32_t past_tokens; // that there are of it before them
  bool prefills;
  uint64_t encodes; // inputs that are encoded in the step, a bit for each of the first 64
} StepItem;

typedef struct StepRecord {
  InstanceIx instance;
  Tick decided_at, begin, end; // begin = end = decided_at of a step without tokens
  const StepItem *items;       // [n_items]
  const uint64_t *preempted;   // [n_preempted], in order of preemption
  const uint64_t *running;     // [n_running], in order of admission
  size_t n_items, n_preempted, n_running;
  const int64_t *held; // [n_held] blocks that requests hold in each group of layers; none of one
  size_t n_held;
  int64_t n_waiting, free_blocks; // these and `running` as they were once it was decided

  int64_t encoder_free; // tokens of its encoder's cache in which nothing is (sim/core/encoder.h)

  // With a KV connector (sim/core/connector.h): requests whose KV is on its way here; loads that
  // the decision began; requests that it stores blocks of, or whose KV is sent since the one
  // before.
  const uint64_t *loading; // [n_loading], in the order of their queue
  size_t n_loading;
  int64_t n_loads, n_stores;

  // Of a pipeline with one scheduler: number of the decision, steps in flight with it, empty ones
  // as well; when it entered and left each stage; when its output was taken.
  uint32_t number;
  int64_t n_in_flight;
  const Tick *stages; // [2 * n_stages]; NULL of another, or without tokens
  int64_t n_stages;
  Tick out_at;

  // Of ranks in lockstep, which have a step in each forward, with tokens or without: its number,
  // when the last of them came to it, the wave and its steps before this one.
  uint64_t forward;
  Tick launched_at;
  int64_t wave, counter;

  // Of a scheduler that decides as SGLang's: `running` has only those that decode, of a step with
  // prefill those that stand still.
  const uint64_t *waiting;  // [n_waiting], in order
  int64_t chunked;          // whose prefill is between two chunks; -1: nobody's
  int64_t evictable_blocks; // of free_blocks, the prefix cache's
  double new_token_ratio;
  bool full;
} StepRecord;

/* Instances, as they are bought, that take turns on the same GPUs (feature/switching.c). Each model
 * has one pool, of both phases, with `scaling` from 0 to all of it; nothing fails. */
typedef struct SleepOptions {
  uint32_t awake;     // that may be awake at a time; 0: nobody sleeps
  Tick min_residence; // from when one is up until it may have to sleep for another model
  double queue;       // waiting requests per instance above which one more wakes, where an instance
                      // of another model has nothing to do; 0: one is enough
} SleepOptions;

/* What a scheduler may do, as it is told from time to time (vLLM's pause and resume). */
typedef enum PauseMode {
  PAUSE_NONE, // all
  PAUSE_NEW,  // not admit prompts
  PAUSE_ALL,  // decide nothing
} PauseMode;

/* The instances of a pool are told so. It holds from their next decision on. */
typedef struct PauseSpec {
  Tick at;
  uint32_t pool; // scheduled step by step
  PauseMode mode;
  bool reset; // the prefix cache is emptied; with PAUSE_ALL all that run are preempted first, and
              // tokens that a step makes of them are dropped; else nothing happens if any holds KV
} PauseSpec;

/* The links that KV takes from GPU to GPU (TetriInfer §3.3.4, Fig. 9). */
typedef enum NetworkPath {
  NETWORK_NIC,      // each instance's NIC, straight from and to GPU memory ("Direct-NIC")
  NETWORK_NVLINK,   // NVLink ("Direct")
  NETWORK_INDIRECT, // NICs; KV is stored in CPU memory before and after, and forwarded whole
} NetworkPath;

/* What an earlier run left in the caches of the instances (saved_caches.h). */
typedef struct SavedCaches {
  SavedCache *instances; // of the run
  uint64_t salt;         // of the numbers of requests, where those name content
} SavedCaches;

/* A model that a fleet serves. */
typedef struct ModelSpec {
  const char *name;
  int64_t max_model_len;          // tokens of a prompt and its output together; 0: no limit
  const PerfModel *slo_reference; // an idle instance that slowdowns are relative to; NULL: none
} ModelSpec;

/* What requests of a component of the trace have in common (TraceRow.component). */
typedef struct ComponentSpec {
  const char *name;
  uint8_t model;         // that serves them
  uint32_t adapters;     // 1 + a set of SimConfig.adapters, one of which each asks for; 0: none
  uint8_t class, tenant; // where there are classes
  /* What makes its requests good ones; NULL: that of its class, or else of the run. */
  const GoodputLimits *good_limits;
} ComponentSpec;

/* LoRA adapters that the requests of a component are spread over. */
typedef struct AdapterSet {
  const char *name;
  uint32_t count; // > 0
  double zipf;    // the k-th is asked for with a share of k^-zipf; 0: all alike
  int64_t bytes;  // > 0, of one, on the host link of a replica
} AdapterSet;

/* What becomes of a request that a limit of its class or tenant stops (admission.c). */
typedef enum AdmissionAction {
  ADMISSION_QUEUE,   // it is held until it may come in
  ADMISSION_REJECT,  // at once
  ADMISSION_DEGRADE, // it comes in with its output cut
} AdmissionAction;

typedef struct ClassSpec {
  const char *name;
  int64_t priority;      // less goes first
  int64_t max_in_flight; // requests; 0: any number
  int action;            // AdmissionAction
  int64_t max_queue;     // requests held; -1: any number
  int32_t output_tokens; // that degraded requests get at most
  /* What makes its requests good ones, but for components with their own; NULL: that of the run. */
  const GoodputLimits *good_limits;
} ClassSpec;

typedef struct TenantSpec {
  const char *name;
  double weight;         // of its share among those who are held
  int64_t max_in_flight; // requests; 0: any number
  Tick token_ticks;      // a token of prompt or output is paid for in; 0: any number
  Tick burst;            // what it did not use of the time before that is kept
} TenantSpec;

/* Requests that would be late are rejected as they arrive (early_rejection.c). */
typedef struct EarlyRejectionOptions {
  Tick ttft, tbt;   // limits on what is predicted; ttft 0: nobody is rejected so
  bool predicts;    // TBT as of the end of the prefill
  Tick decode_time; // of a request, then
} EarlyRejectionOptions;

/* Decodes that go from pool to pool as they run (feature/flowing.c). Batchers plan iterations;
 * not with groups, faults, hedging or checkpoints. */
typedef struct FlowOptions {
  double watermark;  // of the KV memory of an instance of `from`, above which decodes flow to
                     // `to`; 0: none does
  uint32_t from, to; // pools of one model
  Tick tpot;         // at whose `share` a decode in `to` flows back; 0: none does
  double share;
  int64_t review; // iterations of decodes alone after which an instance of both is looked at again
} FlowOptions;

typedef struct SimConfig {
  ModelSpec model;         // that all serve, where there are no
  const ModelSpec *models; // [n_models]: each pool serves one, each component asks for one
  uint32_t n_models;       // 0: one
  const PoolSpec *pools;
  uint32_t n_pools;
  const GroupSpec *groups; // pools that share their GPUs, two each
  uint32_t n_groups;       // entries of it
  Tick timeline_interval;  // between samples of what they do; 0: no timeline is kept
  PolicyChoice policies[POLICY_KINDS];
  const FaultSource *faults; // [n_faults]
  uint32_t n_faults;
  /* Drafts of a request that a step accepts, of `n` in it, and those that its drafter proposes
   * then. NULL: as the options of its instance say. */
  int32_t (*on_drafts)(void *context, uint64_t request, int32_t n, int32_t *ret_proposed);
  void *on_drafts_context;
  /* A scheduler without a step decides none before the next end of a load or store of its
   * connector, whoever arrives, as a recorder's clock has it. */
  bool connectors_sleep;
  const PauseSpec *pauses; // [n_pauses], by time
  uint32_t n_pauses;
  HedgeOptions hedge;           // not where routers keep books of their own, nor of groups
  Tick detection;               // from a fault until the router knows
  RetryOptions retry;           // of requests that are lost with an instance
  CheckpointOptions checkpoint; // not of requests that resume, nor of groups
  int network_path;             // NetworkPath
  int64_t network_bandwidth; // bytes/s per instance and direction besides its links'; 0: no limit
  Tick network_latency;      // of each KV transfer
  FlowOptions flow;
  Uplinks uplinks;            // that instances share, on the way between NICs; not of groups
  double network_compression; // bytes of KV for each that it moves; 0: 1
  Tick monitor_interval;      // between broadcasts of loads, where a policy wants them; > 0 then
  /* What routers that read loads know of them: as of the last report (reports.h). */
  Tick report_interval;    // 0: now
  Tick report_delay;       // until a report is known
  bool report_leaves_sent; // what was sent since does not count
  Tick scaling_interval;   // at which the scaler is asked, if there is one; > 0 then
  SleepOptions sleep;      // of all pools, which no scaler scales
  int64_t heavy_above;     // predicted output tokens beyond which a decode is heavy
  /* From the arrival of a request until the router sees it: what servers and tokenizers take. Its
   * latencies and patience count from the arrival; who gives up before is seen to then. */
  Tick request_time;
  TraceSource *trace;
  const ComponentSpec *components; // [n_components] of its rows
  uint32_t n_components;           // 0: they have nothing that tells them apart
  const AdapterSet *adapters;      // [n_adapters]
  uint32_t n_adapters;
  const ClassSpec *classes;              // [n_classes]
  uint32_t n_classes;                    // 0: all are admitted
  EarlyRejectionOptions early_rejection; // not with hedging
  const TenantSpec *tenants;             // [n_tenants] of components, where there are classes
  uint32_t n_tenants;
  double expected_requests;  // of all of it, for messages; 0: not known
  size_t memory_limit;       // bytes that the run may hold in its arena; 0: none
  uint64_t seed, tie_seed;   // tie_seed 0: insertion order among equal times
  bool step;                 // every decode iteration on its own
  bool audit;                // check all books after every event
  uint64_t audited_in_full;  // after so many events, ever less often; 0: no end
  GoodputLimits good_limits; // what makes a request a good one, but for components with their own
  Window window;             // completions in it are counted apart
  const Executor *executor;  // NULL: the performance models. Implies step
  FILE *event_log;           // NULL: none
  bool meters_hours;         // SimResult.hour_joules
  bool keeps_batches;        // of the run, for the ranges of its figures
  bool without_ranges;       // batches then say only whether it is saturated, and where steady
  uint64_t ranged;           // histograms that have them besides those that always do
  const uint32_t *ranged_components; // [n_ranged_components] that have them too, as of
  uint32_t n_ranged_components;      // metrics_histogram, from 1 on
  bool keeps_parts;                  // where the time of requests goes, for on_request
  /* What is not counted: latencies and counts of these requests, and what instances did before it
   * ends, when the first other one arrives. An iteration in progress then is of it. */
  WarmUp warm_up;
  /* What prefix caches begin with; NULL: nothing. */
  const SavedCaches *saved_caches;
  /* Called with each request that completes, is rejected or cancelled, booked in `so_far`. 0 goes
   * on, 1 ends the run there, with the results so far; a negative return is a failure, with entries
   * in `diag`. */
  int (*on_request)(void *context, const RequestRecord *record, const Metrics *so_far, Diag *diag);
  void *on_request_context;
  /* Called with each step, in order of decision on each instance; those without tokens only if
   * somebody was preempted. Each step is an event then. NULL: not called. The record is valid
   * during the call. */
  void (*on_step)(void *context, const StepRecord *record);
  void *on_step_context;
  /* Puts requests in order, by id, that were preempted together and that SGLang takes in the order
   * of a set, which hangs on addresses. NULL: they stay as they are, the worst first. */
  void (*on_set)(void *context, uint64_t *requests, size_t n);
  /* Rounds of a scheduler like SGLang's that find nothing to run end with the next arrival, as
   * under a virtual clock that goes there then; else they follow each other and take no time. */
  bool idle_rounds_sleep;
  const SimObserver *observer; // NULL: nobody watches
  /* NULL, or not 0 when the user wants it to stop: the run then fails before the next event. */
  const volatile sig_atomic_t *interrupted;
  /* Called now and then with the requests finished so far and the simulated time. */
  void (*on_progress)(void *context, uint64_t finished, Tick now);
  void *on_progress_context;
} SimConfig;

/* Why a pool's batcher and tier cannot work together, or under a pool policy, in a sentence; NULL
 * when they can. */
const char *sim_conflict(const Policy *pool, const Policy *batcher, const Policy *kvtier);
/* The policy of a kind; a configuration that has none has the first of the list. */
PolicyChoice sim_policy(const SimConfig *config, PolicyKind kind);
/* The batcher or tier of a pool: its own, or that of the run. */
PolicyChoice sim_pool_policy(const SimConfig *config, const PoolSpec *pool, PolicyKind kind);

/* Whether something in the run may be drawn from its seed; rows of its trace are drawn before. */
bool sim_draws(const SimConfig *config);

/* Whether the instances of a pool keep a prefix cache. */
bool sim_keeps_cache(const SimConfig *config, const PoolSpec *pool);

/* Whether the instances of a pool encode images; the time that each of their tokens adds to a step.
 */
bool sim_encodes(const SimConfig *config, const PoolSpec *pool, Tick *ret_time);

/* Whether a pool is the decode shape of a group: its GPUs, with their price and what they draw when
 * idle, are those of the pool that is the prefill shape, and count there. */
static inline bool sim_is_second_shape(const SimConfig *config, uint32_t pool) {
  for (uint32_t g = 0; g < config->n_groups; g++)
    if (config->groups[g].pools[SHAPE_DECODE] == pool) return true;
  return false;
}

static inline const ModelSpec *sim_model(const SimConfig *config, uint32_t model) {
  return config->n_models > 0 ? &config->models[model] : &config->model;
}
/* Models served, and which of them requests of a component ask for. */
static inline uint32_t sim_n_models(const SimConfig *config) {
  return config->n_models > 0 ? config->n_models : 1;
}
static inline uint8_t sim_model_of(const SimConfig *config, uint16_t component) {
  return config->n_components > 0 ? config->components[component].model : 0;
}

/* What makes requests of a component good ones. */
static inline const GoodputLimits *sim_good_limits(const SimConfig *config, uint32_t component) {
  const ComponentSpec *of = &config->components[component];
  if (of->good_limits) return of->good_limits;
  const ClassSpec *class = config->n_classes > 0 ? &config->classes[of->class] : NULL;
  return class && class->good_limits ? class->good_limits : &config->good_limits;
}

/* An engine ends an output where the model's context ends, so that one which went on is cut there.
 * A prompt that leaves no room is rejected, its output as it is. */
static inline int32_t sim_cut_output(const SimConfig *config, const TraceRow *row, int32_t tokens) {
  const ModelSpec *model = sim_model(config, sim_model_of(config, row->component));
  const int64_t room = model->max_model_len - row->prompt_tokens;
  return 0 < room && room < tokens ? (int32_t)room : tokens;
}
/* Output tokens of a row, and those that its client allows. */
static inline int32_t sim_output_tokens(const SimConfig *config, const TraceRow *row) {
  return sim_cut_output(config, row, row->output_tokens);
}
static inline int32_t sim_max_tokens(const SimConfig *config, const TraceRow *row) {
  return sim_cut_output(config, row, row->max_tokens > 0 ? row->max_tokens : row->output_tokens);
}

typedef struct PoolResult {
  const PoolSpec *pool;
  InstanceTotals totals; // of its instances together
  double utilization;    // busy time / (instances × span)
  double imbalance;      // busy time of the busiest instance / the mean; 1 of none
#define POOL_HISTOGRAM(field, unit, scale, meaning) const Histogram *field;
#include "sim/books/metrics.def"
  double energy_j;                      // of a second shape, beyond what idle GPUs draw
  double mean_expansion, max_expansion; // KV memory over that of the GPUs, over time
  const Total *up_ticks; // [pool_machines + 1] with so many instances up; NULL: nothing may fail
} PoolResult;

/* The pools of a model with the most KV memory for each phase of a request, and how many of its
 * tokens that holds; what needs more is rejected. By Phase. */
typedef struct ModelRoom {
  const PoolSpec *roomiest[2];
  int64_t tokens[2];
  int64_t store_tokens; // the same of every group's store
} ModelRoom;

typedef struct TenantResult {
  const TenantSpec *spec;
  Total service; // tokens of admitted prompts, and twice those of outputs
} TenantResult;

typedef struct SimResult {
  Metrics metrics;
  PoolResult *pools; // [n_pools]
  InstanceTotals *instances;
  uint32_t n_pools, n_instances, n_models, n_tenants, n_components;
  TenantResult *tenants;              // [n_tenants]
  const ComponentMetrics *components; // [n_components]
  const Group *groups;                // as they ended
  uint32_t n_groups;
  const Timeline *timeline; // of them; NULL: none was asked for
  ModelRoom *rooms;         // [n_models]
  /* [n_instances] as they ended; NULL where there is none. */
  const PrefixCache **caches;
  const Batches *batches; // NULL: none were kept
  InstanceTotals totals;
  uint64_t digest, events;
  bool stopped;        // by on_request; digest and figures are of what happened until then
  uint64_t left_out;   // requests of the warm-up, which the figures do not count
  Tick counted_from;   // the first request that is counted arrived: all figures are from here
  uint64_t unfinished; // requests still in the cluster when nothing more could happen
  Tick end;            // of the last event, until which they are
  Tick span;           // from the one to the other
  double energy_j;
  const double *hour_joules; // [n_hour_joules] of it by hour of simulated time from 0; NULL: see
  size_t n_hour_joules;      // SimConfig.meters_hours
} SimResult;

/* Runs until nothing is pending. Results live in `arena`. -1 with entries in `diag` when the trace
 * or a callback fails, it is interrupted, or it needs more memory than it may take. */
int sim_run(const SimConfig *config, SimResult *ret_result, Arena *arena, Diag *diag);
#endif
