/* What the tests of sim/ share: a performance model for mental arithmetic, policies by name, a
 * cluster set up by hand for the hooks of policies (Stage), and whole runs over rows given in the
 * test (Scene). */
#ifndef TESTS_UNIT_SIM_TESTING_H
#define TESTS_UNIT_SIM_TESTING_H
#include "sim/batcher/batcher.h"
#include "sim/core/cluster.h"
#include "sim/sim.h"
#include "tests/array_trace.h"
#include "tests/unit/testing.h"

#define MS (TICKS_PER_SECOND / 1000)
#define US (TICKS_PER_SECOND / 1000000)

/* An iteration lasts 10 ms, and 1 ms per token prefilled or made, and 10 us per token of decode
 * context. Measured: up to 1000 tokens, 64 sequences, 10,000 tokens of context. */
const PerfModel *plain_model(Arena *arena);

/* A policy with its options (YAML, NULL for the defaults) bound; the test fails if there is no such
 * policy or an option is wrong. */
PolicyChoice choose_policy(PolicyKind kind, const char *name, const char *options, Arena *arena);
/* The same, as a state that hooks may write to. */
void *policy_state(PolicyKind kind, const char *name, const char *options, Arena *arena);

/* --- hooks of policies */

enum { STAGE_MACHINES = 8 };

/* Machines that nothing runs on, with queues and batches as a test fills them. */
typedef struct Stage {
  Arena *arena;
  PoolSpec pool;
  Instance machines[STAGE_MACHINES];
  RequestTable requests;
  ClusterView view;
  bool made_room; // as batchers see it
  BatchPlan plan;
} Stage;

/* `roles`: a letter per machine, p, d or m, upper case as in "PDM". */
void stage_init(Stage *self, const char *roles, int64_t kv_blocks, int64_t block_size,
                Arena *arena);
/* A request with the next id and a later arrival than all others, on no machine. */
RequestIx stage_request(Stage *self, int32_t prompt_tokens, int32_t output_tokens);
/* A request in the machine's prefill queue, to be decoded there too. */
RequestIx stage_prefill(Stage *self, InstanceIx machine, int32_t prompt_tokens);
/* A request of `context` tokens of KV, the first output token among them, and `remaining` tokens to
 * make: in the decode queue, in `blocked`, in the batch, or swapped out. */
RequestIx stage_decode(Stage *self, InstanceIx machine, RequestState state, int32_t context,
                       int32_t remaining);
InstanceView stage_view(const Stage *self, InstanceIx machine);
/* Asks a batcher for a plan of this machine, from an empty one. */
const BatchPlan *stage_plan(Stage *self, const Batcher *batcher, void *state, void *machine_state,
                            InstanceIx machine);

/* --- whole runs */

enum { SCENE_POOLS = 3, SCENE_REQUESTS = 64 };

/* A trace row without a place. */
TraceRow row(Tick at, int32_t prompt_tokens, int32_t output_tokens);

/* A configuration to be changed by the test, and what became of each request. */
typedef struct Scene {
  Arena *arena;
  Diag *diag;
  SimConfig config;
  PoolSpec pools[SCENE_POOLS];
  ArrayTrace trace;
  RequestRecord records[SCENE_REQUESTS]; // by id, without
  TimeParts parts[SCENE_REQUESTS];       // where their time went: held against their times
  SimResult result;
} Scene;

/* One mixed machine of 1000 blocks of 16 tokens with the plain model, audited; jsq, fixed,
 * continuous, serialized and recompute. */
void scene_init(Scene *self, Arena *arena, Diag *diag);
/* Splits it into `n_prefill` prefill and `n_decode` decode machines; a token of KV is 1 MB, the
 * NICs move 1 GB/s (1 ms per token), a model has ten layers. */
void scene_split(Scene *self, uint32_t n_prefill, uint32_t n_decode);
void scene_choose(Scene *self, PolicyKind kind, const char *name, const char *options);
/* Runs over `rows`, from scratch each time. Returns sim_run's answer. */
int scene_run(Scene *self, const TraceRow *rows, size_t n_rows);
/* Runs coalesced and stepped and holds one against the other; the results are those of `step`, and
 * every request was served or rejected. */
void scene_run_both(Scene *self, const TraceRow *rows, size_t n_rows);
#endif
