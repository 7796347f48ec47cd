/* The requests in flight, in recycled slots: memory follows them, not the length of the trace.
 *
 * A request is in one state at a time and in at most one queue. While it is running its position in
 * the decode batch is known by the batch (sim/core/batch.h); `generated_tokens` and `last_token_at`
 * are brought up to date when it leaves the batch. KV of a request with g generated tokens is
 * prompt + g tokens: prefill leaves room for the token it makes, each decode iteration for the
 * next. */
#ifndef SIM_CORE_REQUEST_H
#define SIM_CORE_REQUEST_H
#include "base/arena.h"
#include "base/units.h"
#include <stdbool.h>
#include <stdint.h>

typedef uint32_t RequestIx; // slot
typedef uint32_t InstanceIx;
typedef uint32_t TransferIx; // also the FlowIx of its bytes

#define REQUEST_NONE  UINT32_MAX
#define INSTANCE_NONE UINT32_MAX
#define TRANSFER_NONE UINT32_MAX

/* What holds in each is a row of request_states (sim/core/lifecycle.h). */
typedef enum RequestState {
  REQUEST_FREE,          // the slot is not in use
  REQUEST_NOWHERE,       // for the moment: has arrived, or is between two instances or queues
  REQUEST_WAITS_PREFILL, // in a prefill queue, holding no KV (or that of earlier chunks)
  REQUEST_PREFILLS,      // a chunk of it is in the instance's current iteration; keeps its place
  REQUEST_ENDS_PREFILL,  // its last chunk is
  REQUEST_PREFILLED,     // for the moment: its prefill has just ended
  REQUEST_MOVES,         // prefilled, KV on its way to the decode instance or a store
  REQUEST_WAITS_DECODE,  // KV is on the decode instance, not yet in its batch
  REQUEST_RUNS,          // in the decode batch
  REQUEST_BLOCKED,       // was in the decode batch, is left out of it, keeps its KV
  REQUEST_SWAPPED,       // its KV is in the CPU memory of the decode instance
  REQUEST_STORED,        // KV is in its group's store
  REQUEST_FETCHED,       // KV is on its way from there to the decode instance
  REQUEST_COMPUTES,      // in `running` (scheduler.h), its prefill not over
  REQUEST_GENERATES,     // in `running`, its prefill over
  REQUEST_RESTORES,      // KV on its way from the checkpoint store to the decode instance
  REQUEST_AWAITS,        // in front (front.h): to be tried again, or nobody is up to take it
  REQUEST_HELD,          // has not been admitted yet (admission.c)
  REQUEST_STATES,
} RequestState;

/* A request that is cut in two, of which the first part is under way; what it is as a whole is in
 * Simulation.cuts. */
typedef enum RequestCut {
  CUT_NONE,
  CUT_PROMPT, // that part ends in its prompt, which is as long as the part, and makes no token
  CUT_OUTPUT, // it ends in its output, which is as long as the part
} RequestCut;

/* The first line of the cache is what iterations and queues go by. */
typedef struct Request {
  uint64_t id; // place in the trace, from 0
  Tick last_token_at;
  /* That iterations took which it was in; in the batch, less those it decoded before. */
  Tick computing_ticks;
  int32_t prompt_tokens, output_tokens;
  int32_t generated_tokens; // as of leaving prefill or the batch
  int32_t prefilled_tokens; // of request_prefill_tokens, done
  int32_t kv_blocks;        // held on the instance it is on; none while swapped
  union {
    uint32_t batch_index; // while it runs
    int32_t chunk_tokens; // of its prefill in the current iteration
  };
  RequestIx previous, next; // in its queue
  uint32_t transfer;        // its KV on the move; TRANSFER_NONE otherwise
  uint8_t state;            // RequestState
  uint8_t gives_up;         // Cancellation: its client has, though it has not left yet
  bool lost;                // an instance that it needs has failed, and it has not left yet
  uint8_t redirects;        // of this attempt: instances that were to decode it and failed
  bool ends_session : 1, session_good : 1, local_kv : 1; // as in TraceRow
  bool has_inputs : 1;                                   // for an encoder (encoder.h)
  bool pulled : 1;        // its KV has come from elsewhere, or is on its way (connector.h)
  uint8_t loading : 2;    // Loading (connector.h)
  bool remakes_first : 1; // the token of its prefill is for nobody: it is made again where it is
                          // decoded, and counts among its output
  uint8_t cut;            // RequestCut
  uint16_t component;     // as in TraceRow
  InstanceIx prefill_instance, decode_instance;
  int32_t store_blocks; // held in or booked for a group's store
  int32_t preemptions;  // iterations it was left out of, times its KV was dropped, swaps
  int16_t ahead;        // tokens that a decided step may make of it (speculation.h)
  int16_t drafts;       // that it has for the next decision
  Tick arrived_at;
  Tick prefill_began_at;                 // first time; -1 before
  Tick first_token_at;                   // -1 before
  Tick decode_began_at;                  // first time in a decode batch; -1 before
  int32_t recomputes;                    // times its KV was dropped after its prefill
  int32_t swaps;                         // times it went to CPU memory
  int32_t predicted_low, predicted_high; // output tokens, as Prediction
  uint64_t session;                      // as in TraceRow
  Tick patience, first_token_patience;
  Tick cancelled_at; // -1 before
  int32_t turn;
  int32_t priority;
  int32_t cached_tokens; // of the prompt, found in a prefix cache when its prefill first began
  uint32_t deadline;     // 1 + its place in the heap of patience.c; 0: none
  uint32_t ticket;
  Tick session_began_at;
  uint8_t scheduled;      // Scheduled (scheduler.h), while in `running`
  uint8_t model;          // of SimConfig.models, that serves it
  uint8_t rank;           // 1 + that of its instance (attention_ranks.h); 0: none yet
  bool admitted : 1;      // and counts as in flight of its class (admission.c)
  bool is_copy : 1;       // of one that is served elsewhere too (hedging.c)
  bool waited_for_kv : 1; // first in line it found no room: counted in kv_waits
  bool ignores_eos : 1;   // its output is max_tokens, as its client says
  bool known : 1;         // to a scheduler that does not look all the time
  bool disturbed : 1;     // as Prediction.disturbs
  bool redundant : 1;     // the other copy was first, and it has not left yet
  bool overruns : 1;      // its batch has it for one token more than it makes (scheduler.h)
  uint32_t admission;     // number of it on its instance, in order
  RequestIx next_taker, previous_taker; // of blocks in the same iterations (batch.h)
  uint32_t joined_step, decided_step;   // of its instance (scheduler.h)
  uint32_t n_lost;                      // times it was lost with an instance
  InstanceIx lost_with;                 // the last of them; INSTANCE_NONE: none
  Tick failed_at;                       // that failed; -1: none did
  uint32_t adapter;                     // that it asks for (adapters.c); 0: none
  int32_t max_tokens;                   // that its client allows: at least its output
  uint32_t retry;                       // 1 + its place in the heap of retrying.c; 0: none
  int32_t resumed_tokens;               // of its prompt: output that attempts before delivered
} Request;
_Static_assert(sizeof(Request) <= 256, "four cache lines");

/* Tokens that there are of it: the prompt, and the output so far. */
static inline int64_t request_tokens(const Request *request) {
  return (int64_t)request->prompt_tokens + request->generated_tokens;
}

/* Those that its prefill computes: the output too, if its KV was dropped. */
static inline int32_t request_prefill_tokens(const Request *request) {
  return (int32_t)request_tokens(request);
}

/* Those of its prompt that an attempt has really computed. */
static inline int32_t request_computed_tokens(const Request *request) {
  const int32_t prefilled =
      request->first_token_at < 0 ? request->prefilled_tokens : request->prompt_tokens;
  return prefilled - (request->cached_tokens < prefilled ? request->cached_tokens : prefilled);
}

/* What the client of one that resumes has from attempts that were lost. */
typedef struct Delivered {
  Tick prefill_began_at, first_token_at; // of the first token
} Delivered;

/* What a request is that is cut, and where its second part runs. */
typedef struct CutRequest {
  int32_t prompt_tokens, output_tokens, max_tokens;
  InstanceIx to;
} CutRequest;

/* Whether its client waits for the token after those that a lost attempt delivered. */
static inline bool request_resumes(const Request *request) {
  return request->resumed_tokens > 0 && request->first_token_at < 0;
}

/* Tokens of its output that its client has once its attempt has made so many. */
static inline int64_t request_delivered(const Request *request, int64_t made) {
  return request->resumed_tokens + made - request->remakes_first;
}

/* Whether the next token that it delivers is the second of its output. */
static inline bool request_has_one_token(const Request *request) {
  return request_delivered(request, request->generated_tokens) == 1;
}

/* Whether its first token is made where it is decoded, and has not been yet. */
static inline bool request_awaits_first(const Request *request) {
  return request->remakes_first && request->generated_tokens <= 1;
}

/* Whether its output ends with an EOS token, which nobody foresees, before max_tokens. */
static inline bool request_stops(const Request *request) {
  return request->output_tokens < request->max_tokens;
}

/* Whether it leaves where it is, though it has not yet. */
static inline bool request_leaves(const Request *request) {
  return request->gives_up || request->lost || request->redundant;
}

/* Whether it waits for prefill or is in one. */
static inline bool request_prefills(const Request *request) {
  return request->state >= REQUEST_WAITS_PREFILL && request->state <= REQUEST_ENDS_PREFILL;
}

/* Tokens whose KV a request that is prefilled has: the newest one's is not computed yet. */
static inline int64_t request_kv_tokens(const Request *request) {
  return request_tokens(request) - 1;
}

/* Whether the KV of a request that is prefilled on `instance` will have to move, and whither is
 * known. */
static inline bool request_moves_from(const Request *request, InstanceIx instance) {
  return request->decode_instance != INSTANCE_NONE && request->decode_instance != instance &&
         (request->output_tokens > 1 || request->cut == CUT_PROMPT);
}

typedef struct RequestTable {
  Arena *arena;
  Request *slots;
  size_t n_slots, capacity;
  RequestIx first_free; // chained through `next`
  uint64_t n_live;
} RequestTable;

void request_table_init(RequestTable *self, Arena *arena);
/* A free slot, all zero but links (NONE) and times (-1). May move the slots. */
RequestIx request_table_take(RequestTable *self);
/* Bytes by which the next of them makes the table grow; mostly 0. */
size_t request_table_growth(const RequestTable *self);
void request_table_release(RequestTable *self, RequestIx request);

/* A queue of requests, linked through their slots. */
typedef struct RequestQueue {
  RequestIx first, last;
  int32_t count;
} RequestQueue;

#define REQUEST_QUEUE_EMPTY ((RequestQueue){REQUEST_NONE, REQUEST_NONE, 0})

/* Before request `next` of the queue; REQUEST_NONE: at its end. */
void request_queue_insert(RequestQueue *self, Request *slots, RequestIx request, RequestIx next);
static inline void request_queue_push(RequestQueue *self, Request *slots, RequestIx request) {
  request_queue_insert(self, slots, request, REQUEST_NONE);
}
void request_queue_remove(RequestQueue *self, Request *slots, RequestIx request);
#endif
