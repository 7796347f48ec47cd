/* Threads that run jobs for one caller.
 *
 * The caller pushes jobs and pops finished ones, both from its own thread, so that whatever takes
 * the results (the database, the terminal) needs no lock. A job owns what it touches from push to
 * pop; the pool adds no order: jobs end as they end. At most `capacity` jobs are in flight (pushed
 * and not yet popped), so results that wait to be taken are bounded too. */
#ifndef EXPERIMENTS_BASE_WORKERS_H
#define EXPERIMENTS_BASE_WORKERS_H
#include "base/diag.h"
#include <pthread.h>
#include <stdbool.h>

typedef struct Job {
  void (*run)(void *context);
  void *context;
} Job;

typedef struct Workers {
  pthread_mutex_t lock;
  pthread_cond_t pushed, finished;
  pthread_t *threads;
  int n_threads;
  bool closing;
  Job *waiting;   // ring [capacity]
  void **results; // ring [capacity]: contexts of finished jobs
  int capacity, first_waiting, n_waiting, first_result, n_results;
  int n_in_flight; // the caller's thread alone reads and writes this
} Workers;

/* CPUs that this process may run on. */
int workers_cpus(void);
/* Raises the limit of the process' stack to that of threads; an error where it may not be raised so
 * far. */
int workers_check_stack(Diag *diag);
/* Starts `n_threads` >= 1 threads; capacity is at least that. -1 when the system gives none. */
int workers_init(Workers *self, int n_threads, int capacity, Arena *arena, Diag *diag);
/* Ends the threads after the jobs that have begun; jobs that only wait are dropped. */
void workers_done(Workers *self);
/* Whether `capacity` jobs are in flight; then the next call is workers_pop. */
bool workers_full(const Workers *self);
/* Adds a job; asserts that there is room. */
void workers_push(Workers *self, void (*run)(void *context), void *context);
/* Waits for a finished job for up to `seconds` (INFINITY: until there is one); false when there is
 * none yet. One must be in flight. */
bool workers_wait(Workers *self, double seconds);
/* The context of a finished job, waiting for one to end; NULL when none is in flight. */
void *workers_pop(Workers *self);
#endif
