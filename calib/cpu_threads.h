/* The threads of the cpu backend: one per CPU, pinned, the caller's being the first.
 *
 * A run hands the same work to all of them as parts 0 … n − 1 and returns when all are done.
 * Between runs a thread spins for a moment, so that the hundreds of runs of an iteration follow
 * each other without a wake-up, and then sleeps. Work is only ever shared here: BLAS is called on
 * one part by one thread. */
#ifndef CALIB_CPU_THREADS_H
#define CALIB_CPU_THREADS_H
#include "base/arena.h"
#include "calib/backend.h"

typedef struct CpuThreads CpuThreads;

/* Does part `part` of `n_parts` of `work`. */
typedef void CpuTask(const void *work, int32_t part, int32_t n_parts);

/* CPUs that this process may run on. */
int32_t cpu_threads_allowed(void);
/* As many as the options ask for, or as are allowed. CALIB_REJECTED when they ask for more, or for
 * another device than 0. */
CalibStatus cpu_threads_wanted(const CalibOptions *options, int32_t *ret_threads, char *error);

/* Pins the caller to the first allowed CPU and starts a thread on each of the next n − 1, 1 <= n <=
 * cpu_threads_allowed(). NULL when a thread cannot be had. */
CpuThreads *cpu_threads_open(int32_t n, Arena *arena);
/* Ends the threads and lets the caller run where it might before. */
void cpu_threads_close(CpuThreads *self);

int32_t cpu_threads_count(const CpuThreads *self);
/* By the thread that opened them, never within a task. */
void cpu_threads_run(CpuThreads *self, CpuTask *task, const void *work);
/* Gets all threads out of their sleep, so that what is timed next does not begin with that. */
void cpu_threads_wake(CpuThreads *self);

/* [*ret_begin, *ret_end) is a part's share of n items; shares differ by `unit` at most. */
static inline void cpu_share(int64_t n, int64_t unit, int32_t part, int32_t n_parts,
                             int64_t *ret_begin, int64_t *ret_end) {
  const int64_t units = (n + unit - 1) / unit;
  const int64_t begin = units * part / n_parts * unit, end = units * (part + 1) / n_parts * unit;
  *ret_begin = begin < n ? begin : n;
  *ret_end = end < n ? end : n;
}
#endif
