/* An instance: what waits on it, what runs on it, what its memory holds.
 *
 * An instance runs one iteration at a time. An iteration with prefill is one event; a batch of
 * decodes alone is a run of many iterations in one event (series.h). Batch and free_blocks are
 * brought up to the iteration in progress when a policy looks at them (sim_catch_up), as if that
 * had ended; at other times they may be as of an earlier one. free_blocks + blocks held +
 * withheld_blocks == kv_blocks. */
#ifndef SIM_CORE_INSTANCE_H
#define SIM_CORE_INSTANCE_H
#include "perfmodel/power.h"
#include "sim/books/metrics.h"
#include "sim/core/batch.h"
#include "sim/core/host_link.h"
#include "sim/core/kv_groups.h"
#include "sim/core/pipeline.h"
#include "sim/core/prefix_cache.h"
#include "sim/core/series.h"
#include "sim/core/starting.h"
#include "sim/policy.h"

typedef enum Role { ROLE_PREFILL, ROLE_DECODE, ROLE_MIXED, ROLES } Role;
typedef enum Phase { PHASE_PREFILL, PHASE_DECODE } Phase;

/* "prefill", "decode", "mixed". */
const char *role_name(Role role);
static inline bool role_covers(Role role, Phase phase) {
  return role == ROLE_MIXED || (phase == PHASE_PREFILL) == (role == ROLE_PREFILL);
}

typedef struct Group Group;
typedef struct Lockstep Lockstep;
typedef struct Loop Loop;
typedef struct Scheduler Scheduler;
typedef struct Batcher Batcher;
typedef struct KvTier KvTier;
typedef struct Instance Instance;
typedef struct ExpertSpec ExpertSpec;     // expert_balance.h
typedef struct AdapterCache AdapterCache; // feature/adapters.c

/* LoRA adapters that an instance has room for; max_loras 0: it has none. */
typedef struct AdapterRoom {
  int64_t max_loras;      // on the GPUs
  int64_t max_cpu_loras;  // in CPU memory, at least max_loras
  int64_t load_bandwidth; // bytes/s from where they are kept into CPU memory
} AdapterRoom;

/* How many instances a pool may have, as they are bought (autoscaling.h). */
typedef struct PoolScaling {
  uint32_t min, max, start;    // min <= start <= max; max 0: it is not scaled
  Tick up_window, down_window; // stabilization windows
  Tick cool_down;              // after a change
  double machine_rate;         // requests/s that an instance serves, for a forecast; 0: not known
} PoolScaling;

/* Instances of one kind that start in one role. All figures are of one instance of the pool. */
typedef struct PoolSpec {
  const char *name;
  const char *machine; // hardware name, for reports
  Role role;
  uint32_t model;          // that its instances serve (SimConfig.models)
  uint32_t count;          // of pipelines, their lanes: a multiple of pool_replica_lanes
  uint32_t lanes;          // of those, in one instance as it is bought; 0: 1
  uint32_t per_machine;    // instances that fit on one machine; 0: 1
  int64_t pipeline_stages; // 0 or 1: none
  int64_t pipeline_lanes;  // instances that share the stages of one; 1: its batches are of one
                           // scheduler (flights.h); 0: as many as it has stages
  int64_t
      attention_ranks; // a prompt and its KV are on one of them (attention_ranks.h); 0 or 1: none
  int64_t ranks; // instances that are the ranks of one and step together (lockstep.h); 0 or 1: none
  const PerfModel *perfmodel;
  int64_t kv_blocks, block_size;  // blocks on the GPUs; tokens per block
  const KvLayout *layout;         // groups of its layers; NULL: one, which keeps all tokens
  int64_t cpu_kv_blocks;          // that CPU memory has room for, for a tier that swaps
  int64_t kv_block_bytes;         // that one of them is on the host link
  int64_t kv_bytes_per_token;     // of layers that keep all tokens
  int64_t window_bytes_per_token; // of those with a window of so many
  int64_t window, state_bytes;    // of a sequence, of those with a state
  HostLink host_link;             // of all GPUs of a replica, whose lanes share it
  int64_t weight_bytes;
  int64_t num_hidden_layers;
  int64_t num_nextn_predict_layers; // of its model (MTP)
  int64_t nic_bandwidth;            // bytes/s in each direction
  int64_t nvlink_bandwidth;  // the same, of all its GPUs to those of other instances; 0: none
  Tick kv_transfer_overhead; // visible part of a layer-wise transfer beyond the last layer
  Tick kv_layer_sync;        // that such a transfer adds to each layer of its prefill
  double idle_power, prefill_power, decode_power, provisioned_power; // W
  double gpus, rest_power; // where the model says its power: GPUs, and W of the rest while it works
  double cost_per_hour;    // $
  PolicyChoice batcher, kvtier; // of this pool; without a policy: those of the run
  StartUp start_up;
  PoolScaling scaling;
  Tick sleep_ticks, wake_ticks; // with SimConfig.sleep: to fall asleep and to wake
  AdapterRoom adapters;
  bool two_batches;          // of pools with `ranks`: steps are cut in two (forward_time.h)
  const ExpertSpec *experts; // of pools with `ranks`; NULL: their loads are not followed
  bool shrinks;              // with `experts`: its ranks fail one by one, and the others go on
  Tick rank_recovery;        // until these do; and the wait for one that comes back
  Tick rank_rejoin;
} PoolSpec;

/* Whether an instance does iterations, whoever asked for it. */
typedef enum Availability {
  INSTANCE_UP,
  INSTANCE_DRAINS, // takes no new requests and finishes those it has, then it goes (draining.h)
  INSTANCE_AWAY,   // begins none: it turns to its new role, or its group is not in its shape
  INSTANCE_OFF,    // begins none: it is not wanted at present (autoscaling.h)
  INSTANCE_DOWN,   // begins none: it has failed, or is in maintenance (faults.h)
  INSTANCE_BOOTS,  // begins none: it is repaired or wanted, and starts (starting.h)
} Availability;

/* What an instance goes for once it has drained. */
typedef enum Drain {
  DRAIN_FLIP,        // to another role
  DRAIN_MAINTENANCE, // and comes back
  DRAIN_STOP,        // it is not wanted any more
} Drain;

/* A source of faults that makes an instance, or its NIC, slow at present (faults.h). */
typedef struct Slowdown {
  const PerfModel *perfmodel; // of the instance then
  double factor;              // of a NIC 0: it is down
  struct Slowdown *next;      // of the same instance
} Slowdown;

typedef enum Activity {
  ACTIVITY_IDLE,
  ACTIVITY_PREFILL, // one iteration with prefill in it, decodes perhaps too
  ACTIVITY_DECODE,  // a run of decode iterations
} Activity;

/* A run of decode iterations in progress; its event ends the present part. A part is what one piece
 * of the performance model and one plan of the tier cover (in --step mode, one iteration). An
 * iteration with prefill is a run of one. */
typedef struct DecodeRun {
  Tick began_at, part_began_at;
  int64_t done;   // iterations of earlier parts
  int64_t part;   // iterations of the present part
  int64_t booked; // iterations that batch and free_blocks know of, the present one at most
  int64_t limit;  // iterations of the whole run, as far as is known
  Series series;  // of the present part
  Series compute; // the same without the tier's work
  Tick *ends;     // of iterations of a part of several that are no series: of a lane (lanes.h), or
                  // with layers in groups; else NULL
  size_t ends_capacity;
  int64_t most;                // that the present part may have, however long the run
  int64_t review;              // iterations after which the batcher wants to be asked
  int64_t tokens;              // of output that each iteration makes
  int64_t counted;             // of those, of requests that are (SimConfig.warm_up)
  int64_t seqs;                // of each iteration, padding included
  int64_t drafts;              // tokens of them that are verified beyond one each
  Tick beside;                 // time of what proposes the next, and of an encoder
  int64_t context;             // of them in the first
  Tick stall;                  // in the first iteration, before its work
  bool sends_layers;           // while the iteration that is about to begin computes them
  bool ends_soon;              // something must join: the run ends with its part
  bool moves[LINK_DIRECTIONS]; // the tier does that way, in the present part
  bool goes_on;                // with what the run before it was of

  // Of the iteration that was last asked for one by one (sim_iteration_ticks): what its model
  // says of it, and where it has prefill in it what it is of.
  Tick modelled;
  Extrapolation extrapolation;
  BatchShape shape;
  Tick ends_at;                // of one with prefill
  int64_t milliwatts;          // the mean of one GPU in that one; 0: not known, or by `power`
  const PerfModel *planned_by; // the part, of a lane
  DecodePower power;           // of iterations of a part that are not asked for one by one
} DecodeRun;

/* In the order in which an event needs it: the first lines of the cache are all that most need. */
struct Instance {
  const PoolSpec *pool;
  const PerfModel *perfmodel; // of iterations that begin: the pool's, or slower
  const Batcher *batcher;
  const KvTier *kvtier;
  Group *group;       // it is a shape of; NULL: none
  Pipeline *pipeline; // shared by the lanes of a replica; NULL: none
  Lockstep *lockstep; // shared by the ranks of a replica; NULL: none
  InstanceIx ix;
  Role role;
  Activity activity;
  Availability availability;
  uint8_t marks;       // marks.h
  bool listed;         // in the list of its role: routers may pick it
  bool moves_kv;       // the tier does
  bool decodes_paused; // the batch sits this iteration out
  bool dead;           // it has failed, which nobody knows yet: links to and from it are down
  bool unfinished;     // the last iteration that the batch has booked never ended: it is dead
  Batch batch;
  int64_t free_blocks;     // not held by anybody; a run's growth is taken off when it is booked
  int64_t kv_blocks;       // there are at present: pool->kv_blocks, or what the tier makes
  int64_t wanted_blocks;   // by the tier
  int64_t promised_blocks; // for requests placed here whose KV is not here yet
  Tick idle_since;         // -1 while it is busy
  Tick decoded_at;         // end of the last iteration the batch took part in
  Tick decoded_ticks;      // that all iterations took in which it did
  PrefixCache *cache;      // keeps its blocks; NULL: they are counted, or
  Radix *radix;            // keeps its pages; NULL: it does not
  KvGroups *kv_groups;     // keep its blocks, in the cache if there is one; NULL: they do not
  const Loop *loop;        // how it decides what it computes
  Scheduler *scheduler;    // of loop_of_steps
  AdapterCache *adapters;  // that it has; NULL: none, ever
  int lag;                 // iterations that are booked before they begin
  CopyQueue *copies;       // shared by lanes of a replica, and by the shapes of a group
  Tick copied_at;          // when all that was swapped is across
  DecodeRun run;
  RequestIx *chunks; // prefilled in the current iteration, in the order of the plan
  size_t n_chunks, chunks_capacity;
  RequestIx *joined; // the batch with the iteration or run in progress
  size_t n_joined, joined_capacity;
  RequestQueue prefill_queue;    // in order of arrival here, evicted requests first
  RequestQueue decode_queue;     // KV is here, not in the batch since it was prefilled (again)
  RequestQueue blocked;          // left out of the batch, oldest first
  RequestQueue swapped;          // KV is in CPU memory, first to arrive first
  RequestQueue inbound;          // requests elsewhere whose KV waits for room here
  RequestQueue running;          // by admission, where there is a scheduler
  RequestQueue leaving;          // of the batch, go as the present iteration ends: given up
  int32_t n_started;             // of prefill_queue, hold KV of earlier chunks
  int32_t n_prefills, n_decodes; // phases assigned to it and not yet finished
  uint32_t n_admissions;         // to the batch, or to `running`
  int32_t n_outgoing;            // transfers that still hold KV here
  void *batcher_options, *batcher_state, *kvtier_options, *kvtier_state;
  BatchShape padding;      // of the current iteration; of its decodes as the batch began its run
  RankShare busiest;       // of its prefills, with attention_ranks
  Histogram *batch_tokens; // of its pool; weighted by microseconds
  Tick idle_ticks;         // before idle_since
  InstanceTotals totals;
  InstanceTotals before;   // of those, before they are counted
  Tick counted_from;       // what it does then is
  int64_t least_blocks;    // of kv_blocks, there always will be
  int64_t free_cpu_blocks; // not held by `swapped`
  int64_t withheld_blocks; // of kv_blocks, not free: will go once all beyond wanted are
  Tick kv_blocks_since;    // kv_blocks are what they are
  Role home;               // where it belongs
  Tick role_since;
  Role flips_to;                        // while it drains or is away for a flip
  Tick flip_ticks;                      // how long it is away
  Drain drains_for;                     // while it drains
  uint32_t n_faults;                    // sources that hold it down
  uint32_t n_drains;                    // sources that want it away
  Slowdown *slowdowns, *link_slowdowns; // sources that make it slow, and its NIC
  double link_factor;                   // of the worst of the latter; 0: its NIC is down
  Tick down_since;                      // -1: it is neither down nor starting after that
  Tick off_since;                       // -1: it is not off
  Tick starts_since;                    // -1: it does not start for a scaler
  bool stops;                           // it is off, or is to be as soon as it can
};

/* Bytes of the KV that its layers keep of so many tokens. */
static inline int64_t pool_kv_bytes(const PoolSpec *pool, int64_t tokens) {
  const int64_t seen = tokens < pool->window ? tokens : pool->window;
  return pool->kv_bytes_per_token * tokens + pool->window_bytes_per_token * seen +
         (tokens > 0 ? pool->state_bytes : 0);
}

/* Sequences of so many tokens that its KV memory has room for. */
static inline int64_t pool_kv_seqs(const PoolSpec *pool, int64_t tokens) {
  return pool->layout ? pool->kv_blocks / kv_layout_blocks(pool->layout, tokens)
                      : pool->kv_blocks * pool->block_size / tokens;
}

/* Lanes in one machine as it is bought. */
static inline uint32_t pool_lanes(const PoolSpec *pool) {
  return pool->lanes > 1 ? pool->lanes : 1;
}

/* Machines as they are bought, which is what pools are sized by. */
static inline uint32_t pool_machines(const PoolSpec *pool) {
  return pool->count / pool_lanes(pool);
}

/* Ranks of one replica that step together; without any, 1. */
static inline uint32_t pool_ranks(const PoolSpec *pool) {
  return pool->ranks > 1 ? (uint32_t)pool->ranks : 1;
}

/* Instances that share the stages of one pipeline, or are the ranks of one replica; else 1. */
static inline uint32_t pool_replica_lanes(const PoolSpec *pool) {
  if (pool->pipeline_stages <= 1) return pool_ranks(pool);
  return (uint32_t)(pool->pipeline_lanes > 0 ? pool->pipeline_lanes : pool->pipeline_stages);
}

/* Replicas of the model that so many of its lanes are. */
static inline int64_t pool_replicas(const PoolSpec *pool, uint32_t lanes) {
  const int64_t each = pool_replica_lanes(pool);
  return (lanes + each - 1) / each;
}

/* How long an instance of the pool takes to start while nobody else loads. */
static inline Tick pool_start_ticks(const PoolSpec *pool) {
  const int64_t replicas = pool_replicas(pool, pool_lanes(pool));
  return start_up_alone(&pool->start_up, replicas * pool->weight_bytes,
                        replicas * pool->nic_bandwidth);
}

/* Whether it is down, or is maintained as soon as it can be: it will be back. */
static inline bool instance_is_out(const Instance *instance) {
  return instance->availability >= INSTANCE_DOWN ||
         (instance->availability == INSTANCE_DRAINS && instance->drains_for == DRAIN_MAINTENANCE);
}

/* Whether requests may be placed on it, now or once it is back. Where a group is not in its shape
 * they wait for that. */
static inline bool instance_takes_requests(const Instance *instance) {
  return (instance->availability == INSTANCE_UP || instance_is_out(instance) || instance->group) &&
         !instance->stops;
}

/* Whether it begins iterations. */
static inline bool instance_works(const Instance *instance) {
  return instance->availability <= INSTANCE_DRAINS;
}

/* Whether its batch takes part in the present iteration. */
static inline bool instance_decodes(const Instance *instance) {
  return instance->batch.n_seqs > 0 && !instance->decodes_paused;
}

static inline int64_t blocks_of(const Instance *instance, int64_t tokens) {
  return batch_whole_blocks(&instance->batch, tokens + instance->batch.block_size - 1);
}

/* Blocks that one request may hold: its KV is on one rank. */
static inline int64_t instance_rank_blocks(const Instance *instance) {
  const int64_t ranks = instance->pool->attention_ranks;
  return ranks > 1 ? instance->least_blocks / ranks : instance->least_blocks;
}

/* Tokens of KV that the instance always has room for, of one request. */
static inline int64_t instance_room(const Instance *instance) {
  if (instance->kv_groups)
    return kv_groups_room(instance->kv_groups, instance_rank_blocks(instance));
  return instance_rank_blocks(instance) * instance->pool->block_size;
}
#endif
