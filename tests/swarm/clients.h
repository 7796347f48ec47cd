/* A cluster's requests as clients send them who wait for answers: each in turn, or as the first
 * turns of conversations. What was sent is kept, to be held against an open trace of the same. */
#ifndef TESTS_SWARM_CLIENTS_H
#define TESTS_SWARM_CLIENTS_H
#include "tests/array_trace.h"
#include "traces/closed_loop.h"
#include "traces/sessions.h"

typedef struct Clients {
  ClosedLoopConfig loop;   // clients 0: none
  SessionsConfig sessions; // not given: none; one of the two is there
  SessionsSetting setting;
} Clients;

/* Over these rows. False: this seed has none. */
bool clients_draw(Clients *self, uint64_t seed, const TraceRow *rows, int n_rows);
/* Sends no more requests than there are rows. `self` must outlive it. */
TraceSource *clients_open(const Clients *self, TraceSource *rows, Arena *arena);

/* Gives the rows of one cluster in three new times, at a rate that changes: steps or ramps that
 * repeat, with states, a drift or both. They are so many times `scale` exactly. */
void arrivals_draw(TraceRow *rows, int n_rows, uint64_t seed, int64_t scale, Arena *arena);

/* Hands on what `of` gives and keeps the rows that were not put back. */
typedef struct Recorder {
  TraceSource source; // first member
  TraceSource *of;
  Arena *arena;
  TraceRow *rows; // [n_rows], in the arena
  size_t capacity;
  int n_rows;
} Recorder;

void recorder_init(Recorder *self, TraceSource *of, Arena *arena);
#endif
