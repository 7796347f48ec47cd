/* When iterations of the present part of a decode run end (decode_run.h): an arithmetic series, or
 * of a lane of a pipeline (lanes.h) or with layers in groups one by one. */
#ifndef SIM_CORE_RUN_PART_H
#define SIM_CORE_RUN_PART_H
#include "sim/core/instance.h"

/* Ticks that the first `n` iterations of the present part take together. */
static inline Tick sim_part_sum(const DecodeRun *run, int64_t n) {
  return n > 1 && run->ends ? run->ends[n - 1] - run->part_began_at : series_sum(run->series, n);
}
static inline Tick sim_part_end(const DecodeRun *run) {
  return run->part_began_at + sim_part_sum(run, run->part);
}
/* When the newest iteration of a run that is over began, of layers in groups; of others the run. */
static inline Tick sim_newest_began_at(const Instance *instance) {
  const DecodeRun *run = &instance->run;
  if (!instance->kv_groups || run->done <= 1) return run->began_at;
  return run->part_began_at + sim_part_sum(run, run->part - 1);
}
#endif
