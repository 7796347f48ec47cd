/* A campaign: many runs on several threads, told of as they end.
 *
 * The caller says which run comes next, once it knows: it may hang on those that have ended. What
 * the database has, it takes there and then, and gives no thread. Runs lie in slots, which are used
 * again. Next, take and release are called on the caller's thread alone, so that what they use (the
 * database, the terminal) needs no lock. */
#ifndef EXPERIMENTS_CAMPAIGN_CAMPAIGN_H
#define EXPERIMENTS_CAMPAIGN_CAMPAIGN_H
#include "experiments/campaign/early.h"
#include "experiments/campaign/moved.h"
#include "experiments/campaign/trial.h"
#include "experiments/results/results.h"

typedef struct Campaign {
  int jobs;        // threads
  int ahead;       // runs in slots for each of them; with 4, none waits for the caller's thread
  size_t run_size; // of what lies in a slot
  /* Fills a slot, which is zeroed: 1; 0 when there is nothing to run until another one has ended,
   * and, when all have, no more; -1 with entries in `diag`. */
  int (*next)(void *context, void *run);
  void (*make)(void *run);               // on a thread
  int (*take)(void *context, void *run); // of a run that has ended; -1 with entries
  void (*release)(void *run);            // then, and in its place after a failure; NULL: nothing
  void (*idle)(void *context); // each second that the caller's thread waits; NULL: nothing
  void *context;
  Results *results; // where `take` keeps runs, many in a transaction; NULL: nowhere
} Campaign;

/* Runs until `next` has no more. -1 with entries in `diag` after a failure of next or take, and
 * when the user interrupts it: runs that have ended are taken then too. */
int campaign_run(const Campaign *self, Arena *arena, Diag *diag);
#endif
