/* Who watches a run: what instances and links did from when to when, outcomes, and samples of what
 * waits and lies where.
 *
 * Watching changes no outcome. Spans of one instance follow each other in time, and so do those of
 * one direction of a link to CPU memory. What is told is valid during the call; a callback that is
 * NULL is not told. */
#ifndef SIM_BOOKS_OBSERVER_H
#define SIM_BOOKS_OBSERVER_H
#include "sim/books/eventlog.h"
#include "sim/books/metrics.h"
#include "sim/books/timeline.h"
#include "sim/core/host_link.h"

/* Iterations of one batch on an instance, one after another; of those with prefill, one. The last
 * may be broken off by a failure, and does not count. */
typedef struct IterationSpan {
  InstanceIx instance;
  Tick begin, end;
  int64_t n_iterations;
  BatchShape shape;  // of the first, padding included
  int64_t n_prompts; // with a chunk in it
  Tick stall;        // of the time, compute waited for copies
  bool goes_on;      // they are of the batch of the span before, which ended at `begin`
} IterationSpan;

/* KV of a request on its way between instances, from when there is room for it until it is there,
 * or until its client's giving up stops it. */
typedef struct TransferSpan {
  uint64_t request; // id
  InstanceIx from, to;
  Tick begin, end;
  int64_t bytes; // that moved
  bool arrived;
} TransferSpan;

/* A copy between the GPUs of an instance and their CPU memory, told of when it is queued. Lanes of
 * a replica, and the shapes of a group, share a link: `link` is the first instance of those. */
typedef struct CopySpan {
  InstanceIx instance, link;
  LinkDirection direction;
  Tick begin, end;
  int64_t bytes;
} CopySpan;

/* An instance at a moment, all that happens in its tick done. */
typedef struct InstanceSample {
  Tick at;
  InstanceIx instance;
  bool prefills, decodes;       // iterations in progress
  int64_t n_waiting;            // requests: in its queues, or elsewhere for room here
  int64_t n_running;            // in its batch, or in an iteration of prefill
  int64_t kv_blocks;            // there are
  int64_t used_blocks;          // of those
  int64_t cached_blocks;        // found in its prefix cache, as of when that was last looked at
  const InstanceTotals *totals; // so far; of an iteration in progress with prefill, all of it
} InstanceSample;

typedef struct SimObserver {
  void *context;
  void (*on_iterations)(void *context, const IterationSpan *span); // as they end
  void (*on_transfer)(void *context, const TransferSpan *span);    // as it ends
  void (*on_copy)(void *context, const CopySpan *span);
  OutcomeListener *on_outcome; // as in the event log
  /* What a group does from here on, when that changes, and at samples what lies in its memory. */
  void (*on_group)(void *context, const TimelineRow *row);
  void (*on_sample)(void *context, const InstanceSample *sample); // of each instance, in order
  Tick interval; // samples are taken at its multiples, unless nothing has changed; 0: none
} SimObserver;
#endif
