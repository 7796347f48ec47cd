/* Threads live for one loop: what they compute takes milliseconds or more. */
#define _GNU_SOURCE // CPU sets
#include "calib/spread.h"
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

enum { MOST_THREADS = 64 };
static const double FEW_OPERATIONS = 1e6;

typedef struct Share {
  SpreadTask *task;
  const void *work;
  int64_t begin, end;
  pthread_t thread;
  bool has_thread;
} Share;

static void *do_share(void *context) {
  const Share *self = context;
  self->task(self->work, self->begin, self->end);
  return NULL;
}

static int64_t allowed_cpus(void) {
  cpu_set_t set;
  const int64_t n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return n < MOST_THREADS ? n : MOST_THREADS;
}

void spread(SpreadTask *task, const void *work, int64_t n, double operations) {
  Share shares[MOST_THREADS];
  const int64_t cpus = operations < FEW_OPERATIONS ? 1 : allowed_cpus();
  const int64_t n_shares = cpus < n ? cpus : n;
  for (int64_t i = 0; i < n_shares; i++) {
    shares[i] = (Share){
        .task = task, .work = work, .begin = n * i / n_shares, .end = n * (i + 1) / n_shares};
    shares[i].has_thread =
        i + 1 < n_shares && pthread_create(&shares[i].thread, NULL, do_share, &shares[i]) == 0;
    if (!shares[i].has_thread) do_share(&shares[i]);
  }
  for (int64_t i = 0; i < n_shares; i++)
    if (shares[i].has_thread) pthread_join(shares[i].thread, NULL);
}
