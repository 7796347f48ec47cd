/* A pool of threads around one lock and two rings. The affinity of a process is a question that
 * only GNU's headers answer. */
#define _GNU_SOURCE
#include "experiments/base/workers.h"
#include <assert.h>
#include <math.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* What commands need at most is 367 KiB, for an SQL expression as deep as SQLite takes; runs take
 * 87 KiB. A build with sanitizers takes three times as much. */
enum { STACK_BYTES = 2 << 20 };

int workers_check_stack(Diag *diag) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= STACK_BYTES) return 0;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max < STACK_BYTES ? limit.rlim_max : STACK_BYTES;
  if (limit.rlim_cur == STACK_BYTES && setrlimit(RLIMIT_STACK, &limit) == 0) return 0;
  diag_environment(diag, place_of_file(NULL),
                   "the stack is limited to %llu KiB, and %d KiB are needed",
                   (unsigned long long)before >> 10, STACK_BYTES >> 10);
  return diag_hint(diag, "raise the limit: 'ulimit -s %d', or that of the container",
                   STACK_BYTES >> 10);
}

int workers_cpus(void) {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof cpus, &cpus)) return 1;
  return CPU_COUNT(&cpus);
}

/* Takes the job that waits longest; false when the pool is closing. Called with the lock held. */
static bool take_job(Workers *self, Job *ret_job) {
  while (self->n_waiting == 0 && !self->closing)
    pthread_cond_wait(&self->pushed, &self->lock);
  if (self->closing) return false;
  *ret_job = self->waiting[self->first_waiting];
  self->first_waiting = (self->first_waiting + 1) % self->capacity;
  self->n_waiting--;
  return true;
}

static void add_result(Workers *self, void *context) {
  self->results[(self->first_result + self->n_results) % self->capacity] = context;
  self->n_results++;
  pthread_cond_signal(&self->finished);
}

static void *work(void *context) {
  Workers *self = context;
  Job job;
  pthread_mutex_lock(&self->lock);
  while (take_job(self, &job)) {
    pthread_mutex_unlock(&self->lock);
    job.run(job.context);
    pthread_mutex_lock(&self->lock);
    add_result(self, job.context);
  }
  pthread_mutex_unlock(&self->lock);
  return NULL;
}

/* Its stack is of a size of its own, whatever the limit for that of the process is. */
static int start_thread(pthread_t *ret_thread, Workers *self) {
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error) return error;
  error = pthread_attr_setstacksize(&attributes, STACK_BYTES);
  if (error == 0) error = pthread_create(ret_thread, &attributes, work, self);
  pthread_attr_destroy(&attributes);
  return error;
}

int workers_init(Workers *self, int n_threads, int capacity, Arena *arena, Diag *diag) {
  assert(n_threads >= 1 && capacity >= n_threads);
  *self = (Workers){.capacity = capacity,
                    .threads = ARENA_ARRAY(arena, pthread_t, n_threads),
                    .waiting = ARENA_ARRAY(arena, Job, capacity),
                    .results = ARENA_ARRAY(arena, void *, capacity)};
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->pushed, NULL);
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&self->finished, &clock);
  pthread_condattr_destroy(&clock);
  for (; self->n_threads < n_threads; self->n_threads++) {
    const int error = start_thread(&self->threads[self->n_threads], self);
    if (error == 0) continue;
    diag_environment(diag, place_of_file(NULL), "cannot start thread %d of %d: %s",
                     self->n_threads + 1, n_threads, strerror(error));
    diag_hint(diag, "use '--jobs %d', or raise the limit ('ulimit -u', 'ulimit -v')",
              self->n_threads > 0 ? self->n_threads : 1);
    workers_done(self);
    return -1;
  }
  return 0;
}

void workers_done(Workers *self) {
  pthread_mutex_lock(&self->lock);
  self->closing = true;
  pthread_cond_broadcast(&self->pushed);
  pthread_mutex_unlock(&self->lock);
  for (int i = 0; i < self->n_threads; i++)
    pthread_join(self->threads[i], NULL);
  pthread_cond_destroy(&self->finished);
  pthread_cond_destroy(&self->pushed);
  pthread_mutex_destroy(&self->lock);
}

bool workers_full(const Workers *self) {
  return self->n_in_flight == self->capacity;
}

void workers_push(Workers *self, void (*run)(void *context), void *context) {
  assert(!workers_full(self));
  self->n_in_flight++;
  pthread_mutex_lock(&self->lock);
  self->waiting[(self->first_waiting + self->n_waiting) % self->capacity] = (Job){run, context};
  self->n_waiting++;
  pthread_cond_signal(&self->pushed);
  pthread_mutex_unlock(&self->lock);
}

bool workers_wait(Workers *self, double seconds) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  const double nanoseconds = (double)until.tv_nsec + 1e9 * fmax(0, fmin(seconds, 1e6));
  until.tv_sec += (time_t)(nanoseconds / 1e9);
  until.tv_nsec = (long)fmod(nanoseconds, 1e9);
  int error = 0;
  pthread_mutex_lock(&self->lock);
  while (self->n_results == 0 && error == 0)
    error = isinf(seconds) ? pthread_cond_wait(&self->finished, &self->lock)
                           : pthread_cond_timedwait(&self->finished, &self->lock, &until);
  const bool is_there = self->n_results > 0;
  pthread_mutex_unlock(&self->lock);
  return is_there;
}

void *workers_pop(Workers *self) {
  if (self->n_in_flight == 0) return NULL;
  workers_wait(self, INFINITY);
  pthread_mutex_lock(&self->lock);
  void *context = self->results[self->first_result];
  self->first_result = (self->first_result + 1) % self->capacity;
  self->n_results--;
  self->n_in_flight--;
  pthread_mutex_unlock(&self->lock);
  return context;
}
