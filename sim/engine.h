/* The inside of a run: all of its state, and the steps its handlers are made of.
 *
 * engine.c runs the loop and its one switch. A handler may call the functions below but never
 * another handler; what has to happen later is set in the agenda. The parts:
 *
 *   placement.c   arrival, routing, the end of a request
 *   roles.c       who plays which role; the monitor, flips
 *   iteration.c   what a machine does next, and what the end of it brings
 *   planning.c    what the batcher has planned for it, carried out
 *   executor.c    how long that took where it was really run
 *   memory.c      blocks, growth, eviction
 *   swapping.c    KV to CPU memory and back
 *   tier.c        what a KV tier adds to iterations, capacity that changes
 *   moving.c      KV transfers
 *   shaping.c     groups of GPUs that change their shape
 *   timeline.c    what is kept of what they did */
#ifndef SIM_ENGINE_H
#define SIM_ENGINE_H
#include "sim/agenda.h"
#include "sim/batcher/batcher.h"
#include "sim/dispatcher/dispatcher.h"
#include "sim/kvtier/kvtier.h"
#include "sim/link.h"
#include "sim/pool/pool.h"
#include "sim/predictor/predictor.h"
#include "sim/router/router.h"
#include "sim/sim.h"
#include "sim/transfer.h"

typedef struct Engine {
  const SimConfig *config;
  Arena *arena;
  Diag *diag;
  bool failed;  // a callback or the trace did; the loop stops
  bool stopped; // on_request wants no more
  bool step;    // every iteration on its own

  Tick now;
  Event event; // being handled
  Agenda agenda;
  uint64_t n_events;
  size_t n_retries;  // pending events that only ask for room again
  size_t n_refusals; // of those, since anything else happened

  RequestTable requests;
  Machine *machines;
  uint32_t n_machines;
  Group *groups;
  uint32_t n_groups;
  Timeline *timeline;    // NULL: none is asked for
  int64_t smallest_room; // tokens of KV that fit on every machine
  Links links;
  TransferTable transfers;
  ClusterView view;
  BatchPlan plan;           // reused
  BatchSequence *sequences; // of an iteration for an executor; reused
  size_t n_sequences, sequences_capacity;

  const Router *router;
  const Predictor *predictor;
  const Dispatcher *dispatcher;
  const PoolPolicy *pool;
  const TransferPolicy *transfer;
  void *states[POLICY_KINDS]; // batchers' and tiers' are with the machines

  TraceRow next_row; // the pending arrival
  bool gathers;      // which is at this very tick: machines that were woken wait for it
  MachineIx *woken;  // [n_machines] in order
  uint32_t n_woken;
  MachineIx *flipping;            // [n_machines] in the order in which their flips began
  uint32_t n_flipping, n_turning; // of those, drained: EVENT_FLIP is pending
  Metrics metrics;
  EventLog log;
} Engine;

/* What a policy sees of a machine between iterations; in one, after engine_catch_up. */
static inline MachineView engine_view(const Engine *self, const Machine *machine) {
  return (MachineView){.now = self->now, .machine = machine, .requests = self->requests.slots};
}

static inline void engine_log(Engine *self, Outcome outcome, const Request *request,
                              MachineIx machine, int64_t a, int64_t b) {
  eventlog_add(&self->log, self->now, outcome, request ? request->id : LOG_NOBODY, machine, a, b);
}

/* --- engine.c */

/* Sets up a run, its first arrival pending. */
void engine_init(Engine *self, const SimConfig *config, Arena *arena, Diag *diag);
/* Handles the next event; false when none is left or the run has failed. */
bool engine_step(Engine *self);
/* Whether the run may hold `growth` bytes more than it does; that it may not stops it. */
bool engine_has_memory(Engine *self, size_t growth);
/* Whether `ticks` from now lie past the end of simulated time, 106 days; that stops the run. */
bool engine_passes_the_end(Engine *self, double ticks);

/* --- placement.c */

/* Pulls the next row and sets the arrival timer. */
void engine_pull(Engine *self);
void engine_handle_arrival(Engine *self);
/* Chooses where a request that is being prefilled will be decoded, when that was left open. */
void engine_dispatch(Engine *self, RequestIx request);
/* Books the decode of a request on a machine. */
void engine_assign_decode(Engine *self, Request *request, Machine *machine);
/* The machine whose role is to serve the phase and that has the most room for it; MACHINE_NONE if
 * none is there at present. */
MachineIx engine_roomiest(const Engine *self, Phase phase);
/* Books the end of a request, all of whose tokens are made (or which was rejected), and frees its
 * slot. */
void engine_retire(Engine *self, RequestIx request, Rejection rejected);

/* --- roles.c */

/* Gives a machine a role that covers the phase. */
void engine_claim(Engine *self, Machine *machine, Phase phase);
/* Gives the machine the role its pool policy wants after a change of its batch. */
void engine_settle(Engine *self, Machine *machine);
/* Sets the monitor's first broadcast where a policy wants loads. */
void engine_start_monitor(Engine *self);
void engine_handle_monitor(Engine *self);
/* Lets machines that flip and have nothing left begin to turn; to be called after each event. */
void engine_turn(Engine *self);
void engine_handle_flip(Engine *self, Machine *machine);

/* --- iteration.c */

void engine_handle_iteration(Engine *self, Machine *machine);
/* Tells the batcher what happened on a machine and begins an iteration if it wants one: now on an
 * idle machine, at the next iteration's end in a decode run. */
void engine_wake(Engine *self, Machine *machine, Wake why, RequestIx request);
/* Begins on a machine that may do so again. */
void engine_begin(Engine *self, Machine *machine);
/* Begins on the machines woken while arrivals were gathered. */
void engine_begin_woken(Engine *self);
/* The iterations of the run in progress that have begun by now, the present one included. */
int64_t engine_begun_iterations(const Engine *self, const Machine *machine);
/* Fits the length of a decode run in progress to a change of free_blocks. */
void engine_refit_run(Engine *self, Machine *machine);
/* Cuts a decode run in progress to end with its present iteration. */
void engine_cut_run(Engine *self, Machine *machine);

/* --- planning.c */

/* Carries out self->plan on a machine between iterations, as far as a group's store has room;
 * returns whether anybody was evicted. */
bool engine_carry_out(Engine *self, Machine *machine);

/* --- executor.c */

/* Has the configuration's executor run an iteration, `done` iterations of a decode run beyond those
 * that the batch knows of. Its ticks, or negative when it failed. */
Tick engine_execute(Engine *self, const Machine *machine, const BatchShape *shape, int64_t done);

/* --- memory.c */

/* Blocks free right now, the growth of a run in progress taken off. */
int64_t engine_free_blocks(const Engine *self, const Machine *machine);
/* Books the first `n` iterations of the run in progress in its batch and in free_blocks; those that
 * are booked already among them. */
void engine_book_iterations(Engine *self, Machine *machine, int64_t n);
/* Books all that have begun, before a policy looks at a machine that may be in an iteration. */
void engine_catch_up(Engine *self, Machine *machine);
/* Whether `n` blocks are free right now. */
bool engine_has_blocks(const Engine *self, const Machine *machine, int64_t n);
/* Whether KV of `n` blocks may come in: beside the margin of those that run (batch.h). */
bool engine_has_room(const Engine *self, const Machine *machine, int64_t n);
/* Takes (n > 0) or gives back (n < 0) blocks. */
void engine_take_blocks(Engine *self, Machine *machine, int64_t n);
/* Books blocks for a request placed on a machine its KV has not reached, and their end. */
void engine_promise_blocks(Engine *self, Machine *machine, int64_t n);
/* Takes a running request out of the batch, the tokens it has made and their blocks booked. */
void engine_leave_batch(Engine *self, Machine *machine, RequestIx request);
/* Queues a request whose KV was dropped, to be prefilled again here ahead of the others. */
void engine_requeue(Engine *self, Machine *machine, RequestIx request);
/* Takes a request that waits for decode or decodes on a machine between iterations out of queues
 * and batch; it keeps its KV. */
void engine_suspend(Engine *self, Machine *machine, RequestIx request);
/* Loses the chunks of a prefill that has begun and waits for its next iteration. */
void engine_drop_chunks(Engine *self, Machine *machine, RequestIx request);
/* Has a request that waits for decode or decodes on a machine between iterations give up its blocks
 * there: its KV goes to CPU memory when the tier swaps and there is room, or it is dropped and the
 * request queued again. One between chunks of its prefill, whose transfer has not begun, begins
 * that again in its place. */
void engine_evict(Engine *self, Machine *machine, RequestIx request);

/* --- swapping.c */

/* Whether a request's KV may go to the machine's CPU memory. */
bool engine_can_swap_out(const Machine *machine, const Request *request);
/* Moves the KV of a request that has left its queue and given up its blocks there. */
void engine_swap_out(Engine *self, Machine *machine, RequestIx request);
/* Takes a request out of `swapped` and blocks for its KV, which returns. */
void engine_swap_in(Engine *self, Machine *machine, RequestIx request);
/* What an iteration that begins now waits for copies, booked, before its `work` ticks. */
Tick engine_await_copies(Engine *self, Machine *machine, Tick work);
static inline Tick engine_stall(Engine *self, Machine *machine, Tick work) {
  return machine->copied_at > self->now ? engine_await_copies(self, machine, work) : 0;
}
/* --- tier.c; the first does what a tier without hooks needs, the others are for those with */

/* Sets up the machine's tier and capacity. */
void engine_start_tier(Engine *self, Machine *machine);
/* Has the tier plan the part of the run that begins: its series, and how long that holds. `shape`
 * is of its first iteration. */
void engine_plan_tier(Engine *self, Machine *machine, const BatchShape *shape);
/* Tells the tier that the present part of the run has ended; true when it wants another capacity,
 * which engine_fit_capacity gives once the batch's books are up to date. */
bool engine_advance_tier(Engine *self, Machine *machine);
/* Brings kv_blocks to what the tier wants as far as that can be done now. */
void engine_fit_capacity(Engine *self, Machine *machine);
/* Books the time with the present capacity, up to now. */
void engine_book_capacity(const Engine *self, Machine *machine);
/* Blocks were given back while the tier wants fewer: keeps what is missing. */
void engine_withhold_blocks(Engine *self, Machine *machine);

/* --- moving.c */

/* A chunk of a prefill that decodes elsewhere has ended, not the last: its KV moves if that goes
 * by chunks and the receiver has room. */
void engine_offer_chunk(Engine *self, RequestIx request);
/* The last chunk of a prefill that decodes elsewhere begins: all of its KV but the last layer moves
 * if that goes by layers and the receiver has room. */
void engine_offer_layers(Engine *self, RequestIx request);
/* That prefill has ended. */
void engine_begin_transfer(Engine *self, RequestIx request);
void engine_handle_transfer(Engine *self, TransferIx transfer);
/* Blocks were given back on a machine: begins transfers that waited for room there, in order. */
void engine_admit_inbound(Engine *self, Machine *machine);
/* Nothing is pending and requests are left: senders and receivers wait for each other's memory.
 * A prefill that is stuck gives back the room it has at its receiver; if there is none, the first
 * in line gives up its KV and is prefilled again where it will be decoded. False when neither can
 * be done. */
bool engine_break_deadlock(Engine *self);

/* --- shaping.c */

/* Sets up the groups, each in the shape that prefills. */
void engine_init_groups(Engine *self);
/* Tokens of KV that the store of each group has room for. */
int64_t engine_smallest_store(const Engine *self);
/* Enters the time since the last entry into the books of a group, before it changes. */
void engine_book_group(Engine *self, Group *group);
/* The run is over: closes the books of all groups. */
void engine_end_groups(Engine *self);
/* Books a place in the store of a group's machine, where a prefill begins. */
void engine_book_store(const Machine *machine, Request *request);
/* Gives that back of a request which has ended with its prefill. */
void engine_leave_store(const Machine *machine, Request *request);
/* Cuts the plan for a group's machine before the first prompt that its store cannot take; what is
 * left keeps the padding of the whole. */
void engine_fit_store(Engine *self, const Machine *machine);
/* A prefill on a group's machine has ended: its KV is copied out. */
void engine_copy_out(Engine *self, RequestIx request);
void engine_handle_copy(Engine *self, uint32_t target);
void engine_handle_turn(Engine *self, Group *group);
/* Something changed on a machine of the group: copies in what there is room for, asks for its
 * shape, and goes on leaving the present one. */
void engine_shape(Engine *self, Group *group);

/* --- timeline.c */

void engine_init_timeline(Engine *self);
/* The clock goes on to `until` > now: looks at the groups as they are now, and at the multiples of
 * the interval before `until`. */
void engine_look(const Engine *self, Tick until);
#endif
