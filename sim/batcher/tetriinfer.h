/* The two local schedulers of TetriInfer's instances (TetriInfer §3.3, §3.4): what they share with
 * the batcher that is made of them. */
#ifndef SIM_BATCHER_TETRIINFER_H
#define SIM_BATCHER_TETRIINFER_H
#include "sim/batcher/fcfs.h"
#include "sim/predictor/predictor.h"

typedef enum ChunkRule { CHUNK_FIXED, CHUNK_SATURATION } ChunkRule;
typedef enum PrefillPolicy { PREFILL_FCFS, PREFILL_SJF, PREFILL_LJF } PrefillPolicy;
typedef enum DecodePolicy {
  DECODE_GREEDY,
  DECODE_RESERVE_STATIC,
  DECODE_RESERVE_DYNAMIC
} DecodePolicy;

typedef struct TetriInfer {
  BatchLimits limits;
  int chunk; // ChunkRule
  int64_t chunk_size;
  int prefill_policy; // PrefillPolicy
  int64_t prefill_sched_batch;
  int decode_policy; // DecodePolicy
  int estimate;      // Estimate
} TetriInfer;

/* Tokens of a chunk on the instances of a pool. */
int64_t tetriinfer_chunk_tokens(const TetriInfer *self, const PoolSpec *pool);

/* --- prefill */

typedef struct Scheduled {
  int64_t key; // less goes first, then by position
  size_t position;
  RequestIx request;
} Scheduled;

/* The scheduled queue of an instance: requests of its prefill_queue, which is the raw queue, taken
 * when the last of those before was prefilled. They are one string of tokens, cut into chunks. */
typedef struct PrefillSchedule {
  Arena *arena;
  int64_t chunk_tokens;
  Scheduled *items;
  size_t first, count, capacity; // items[first … count − 1] are not prefilled yet
} PrefillSchedule;

void prefill_schedule_init(PrefillSchedule *self, int64_t chunk_tokens, Arena *arena);
/* Plans the next chunk, padded; nothing when there is none or it waits for memory to be whole. With
 * `cut` it goes as far as memory allows. */
void prefill_schedule_plan(PrefillSchedule *self, const TetriInfer *options,
                           const InstanceView *view, bool cut, BatchPlan *plan);
/* A request leaves the prefill queue that may be scheduled. */
void prefill_schedule_drop(PrefillSchedule *self, RequestIx request);
/* Whether a whole one could be planned now. */
bool prefill_schedule_ready(PrefillSchedule *self, const TetriInfer *options,
                            const InstanceView *view);

/* --- decode */

/* Plans decodes from the head of decode_queue until one has to wait, then swapped ones. */
void tetriinfer_admit(const TetriInfer *self, const InstanceView *view, BatchPlan *plan);
/* The iterations of the batch, as it is, after which the head of decode_queue may join: 0 at once,
 * INT64_MAX when something else must happen first. */
int64_t tetriinfer_joins_after(const TetriInfer *self, const InstanceView *view);
/* Whether a request whose KV is elsewhere might join behind those that wait, were it here. */
bool tetriinfer_receives(const TetriInfer *self, const InstanceView *view, RequestIx request);
#endif
