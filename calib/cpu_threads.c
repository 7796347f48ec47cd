/* A run is published by a counter; each thread counts itself off. The lock serves only those who
 * have gone to sleep. */
#define _GNU_SOURCE // affinity
#include "calib/cpu_threads.h"
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { SPINS_BEFORE_SLEEP = 1 << 14, SPINS_BEFORE_YIELD = 1 << 12 };

typedef struct Worker {
  CpuThreads *threads;
  int32_t part;
  pthread_t id;
} Worker;

struct CpuThreads {
  int32_t n, started;
  cpu_set_t before; // where the caller might run
  Worker *workers;  // [n], the first unused: it is the caller
  CpuTask *task;    // NULL: end
  const void *work;
  _Atomic uint64_t run; // counts runs; the task is published by its increment
  _Atomic int32_t busy; // parts not done yet
  _Atomic int32_t asleep;
  pthread_mutex_t lock;
  pthread_cond_t wake;
};

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

int32_t cpu_threads_allowed(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

CalibStatus cpu_threads_wanted(const CalibOptions *options, int32_t *ret_threads, char *error) {
  const int32_t allowed = cpu_threads_allowed();
  *ret_threads = options->threads > 0 ? options->threads : allowed;
  if (options->device == 0 && options->threads >= 0 && options->threads <= allowed) return CALIB_OK;
  return calib_failed(CALIB_REJECTED, error,
                      "device %d with %d threads is not available: this process may use device 0 "
                      "with up to %d threads",
                      (int)options->device, (int)options->threads, (int)allowed);
}

/* The set of only the i-th CPU of `all`. */
static cpu_set_t nth_cpu(const cpu_set_t *all, int32_t i) {
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, all) || i-- > 0) continue;
    CPU_SET(cpu, &one);
    break;
  }
  return one;
}

static void sleep_until(CpuThreads *self, uint64_t seen) {
  pthread_mutex_lock(&self->lock);
  atomic_fetch_add(&self->asleep, 1);
  while (atomic_load(&self->run) == seen)
    pthread_cond_wait(&self->wake, &self->lock);
  atomic_fetch_sub(&self->asleep, 1);
  pthread_mutex_unlock(&self->lock);
}

static void *work_on(void *argument) {
  const Worker *worker = argument;
  CpuThreads *self = worker->threads;
  for (uint64_t seen = 0;; seen++) {
    for (int i = 0; i < SPINS_BEFORE_SLEEP && atomic_load(&self->run) == seen; i++)
      relax();
    if (atomic_load(&self->run) == seen) sleep_until(self, seen);
    CpuTask *task = self->task;
    if (task) task(self->work, worker->part, self->n);
    atomic_fetch_sub(&self->busy, 1);
    if (!task) return NULL;
  }
}

static bool start(CpuThreads *self, int32_t part) {
  Worker *worker = &self->workers[part];
  *worker = (Worker){.threads = self, .part = part};
  const cpu_set_t cpu = nth_cpu(&self->before, part);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes)) return false;
  const bool started = pthread_attr_setaffinity_np(&attributes, sizeof cpu, &cpu) == 0 &&
                       pthread_create(&worker->id, &attributes, work_on, worker) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

CpuThreads *cpu_threads_open(int32_t n, Arena *arena) {
  assert(n >= 1);
  CpuThreads *self = ARENA_NEW(arena, CpuThreads);
  if (sched_getaffinity(0, sizeof self->before, &self->before)) return NULL;
  self->n = n;
  self->workers = ARENA_ARRAY(arena, Worker, n);
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->wake, NULL);
  const cpu_set_t first = nth_cpu(&self->before, 0);
  bool good = sched_setaffinity(0, sizeof first, &first) == 0;
  self->started = 1;
  while (good && self->started < n) {
    good = start(self, self->started);
    self->started += good;
  }
  if (good) return self;
  cpu_threads_close(self);
  return NULL;
}

int32_t cpu_threads_count(const CpuThreads *self) {
  return self->n;
}

static void publish(CpuThreads *self, CpuTask *task, const void *work) {
  self->task = task;
  self->work = work;
  atomic_store(&self->busy, self->started - 1);
  atomic_fetch_add(&self->run, 1);
  if (atomic_load(&self->asleep) == 0) return;
  pthread_mutex_lock(&self->lock);
  pthread_cond_broadcast(&self->wake);
  pthread_mutex_unlock(&self->lock);
}

static void wait_for_all(CpuThreads *self) {
  for (int spins = 0; atomic_load(&self->busy) > 0; spins++) {
    if (spins < SPINS_BEFORE_YIELD)
      relax();
    else
      sched_yield();
  }
}

void cpu_threads_run(CpuThreads *self, CpuTask *task, const void *work) {
  assert(task);
  publish(self, task, work);
  task(work, 0, self->n);
  wait_for_all(self);
}

static void nothing(const void *work, int32_t part, int32_t n_parts) {
  (void)work, (void)part, (void)n_parts;
}

void cpu_threads_wake(CpuThreads *self) {
  cpu_threads_run(self, nothing, NULL);
}

void cpu_threads_close(CpuThreads *self) {
  publish(self, NULL, NULL);
  for (int32_t i = 1; i < self->started; i++)
    pthread_join(self->workers[i].id, NULL);
  pthread_cond_destroy(&self->wake);
  pthread_mutex_destroy(&self->lock);
  sched_setaffinity(0, sizeof self->before, &self->before);
}
