/* Recorded runs of vLLM's scheduler, step by step, and Tandem over the same requests.
 *
 * DATA_DIR/vllm-scheduler-runs/NAME.jsonl.gz holds a run of one instance, a JSON object a line: its
 * config, its requests by arrival, each step that had tokens as the scheduler decided it, and when
 * each request had its first and its last token or was cancelled. A key that is not known here is
 * an error. Times are whole microseconds of a virtual clock;
 * a step of t > 0 tokens takes base + per_token·t. In a pipeline each stage takes that and per_seq
 * for each request, the last one `last` more. With ranks in lockstep a rank's batch takes the same,
 * `base` if it has nothing, and a step as long as the longest; a line has what each rank has of it.
 *
 * Requests are known here by their place in the file, which is their id in the engine. */
#ifndef TESTS_DIFFERENTIAL_VLLM_H
#define TESTS_DIFFERENTIAL_VLLM_H
#include "experiments/config/serving.h"
#include "sim/core/scheduler.h"
#include "sim/sim.h"

/* What a line of a step says; what it leaves out is not compared. */
typedef enum StepPart {
  PART_AT,
  PART_BEGIN,
  PART_END,
  PART_TOKENS,
  PART_HITS,
  PART_PREEMPTED,
  PART_RUNNING,
  PART_WAITING,
  PART_FREE_BLOCKS,
  PART_DRAFTS,
  PART_HELD,
  PART_CALL,
  PART_QUEUE,
  PART_STAGES,
  PART_OUT,
  PART_LAUNCH,
  PART_WAVE,
  PART_COUNTER,
  PART_LOADING,
  PART_LOADS,
  PART_STORES,
  PART_ENCODE,
  PART_ENCODER_FREE,
  STEP_PARTS,
} StepPart;

/* As lines have them: "at_us", "tokens" … */
extern const char *const step_part_names[STEP_PARTS];

/* A part that is one number; NULL: another. */
int64_t *step_count(StepRecord *step, StepPart part);

typedef struct RecordedStep {
  StepRecord step; // items and preempted by request; hit_tokens of those scheduled first, else -1
  unsigned given;  // 1 << StepPart
} RecordedStep;

/* -1: not known. */
typedef struct RequestTimes {
  Tick first_token_at, last_token_at, cancelled_at;
} RequestTimes;

typedef struct RequestName {
  int64_t name; // in the file
  uint32_t request;
} RequestName;

/* What became of the drafts of a request in a step. */
typedef struct RecordedDrafts {
  uint32_t request;
  size_t step;
  int32_t n, accepted, proposed; // in it; proposed after it, -1: not said
} RecordedDrafts;

typedef struct RecordedRun {
  const char *name, *path;
  int64_t block_size, num_gpu_blocks, max_model_len, max_num_seqs, max_num_batched_tokens;
  Tick base, per_token, per_seq, last;
  int64_t stages;              // of a pipeline; 1: none
  int64_t ranks;               // in lockstep, each with such memory; 1: none
  const ServingEngine *engine; // NULL: not said
  ConnectorKind connector;     // KV connector; transfers take base + per_block each
  Tick transfer_base, transfer_per_block;
  int64_t cpu_blocks;
  KvLayout layout;     // of the model; no groups: one of full attention
  const char *options; // of batcher `vllm` besides, as YAML: ", key: value…"
  TraceRow *rows;      // [n_requests]
  int64_t *names;      // [n_requests]
  bool *scheduled;     // [n_requests] in a step read so far
  RequestTimes *times; // [n_requests]
  RequestName *index;  // [n_indexed] by name
  RecordedStep *steps; // with ranks, of each in turn
  PauseSpec *pauses;
  RecordedDrafts *drafts; // by request, then by step
  int64_t hash_lookahead; // tokens behind those that names are of
  size_t n_requests, n_indexed, n_steps, n_pauses, n_drafts;
  size_t capacities[7];
  Arena *arena;
} RecordedRun;

/* Reads all of it. */
int recorded_run_load(RecordedRun *self, const char *path, Arena *arena, Diag *diag);

/* Replays it and puts each step and all times beside the record, until one differs; then again
 * without a look at steps, coalesced, which must give the same times and digest. 1: all the same.
 * 0: not so, and `*ret_difference` says where first, in a few lines. */
int recorded_run_replay(const RecordedRun *self, const char **ret_difference, Arena *arena,
                        Diag *diag);
#endif
