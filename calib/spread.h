/* Loops over many items on all CPUs that the process may run on. */
#ifndef CALIB_SPREAD_H
#define CALIB_SPREAD_H
#include <stdint.h>

/* Does items [begin, end) of `work`; called by several threads at once, each for items of its own.
 */
typedef void SpreadTask(const void *work, int64_t begin, int64_t end);

/* Does all `n` items and returns when they are done. `operations` is about how many there are in
 * all: few are done by the caller alone, because threads take some 20 us to start. Where a thread
 * cannot be had, the caller does its share. */
void spread(SpreadTask *task, const void *work, int64_t n, double operations);
#endif
