/* Steps of a scheduler request by request, for those who want to know: SimConfig.on_step, and an
 * executor, which runs them. Kept only then, when each step is an event. */
#ifndef SIM_CORE_STEP_LISTING_H
#define SIM_CORE_STEP_LISTING_H
#include "sim/core/scheduler.h"
#include "sim/core/state.h"

typedef struct StepListing {
  StepItem *listed;
  uint64_t *preempted, *running, *waiting;
  size_t waiting_capacity;
  int64_t chunked, evictable_blocks;
  double new_token_ratio;
  bool full;
  size_t n_listed, listed_capacity;
  size_t n_reset; // of those preempted: by a pause, and told of with the next step that has tokens
  size_t n_preempted, preempted_capacity, n_running, running_capacity;
  int64_t *held;
  size_t n_held, held_capacity;
  int64_t n_waiting, free_blocks, encoder_free;
  uint64_t *loading;
  size_t n_loading, loading_capacity;
  int64_t n_loads, n_stores;
} StepListing;

/* A decision begins; somebody is preempted for it; its batch takes part; it is made. */
void sim_begin_listing(Simulation *self, Step *step);
void sim_list_preempted(Simulation *self, Step *step, RequestIx request);
/* Somebody is preempted by a pause: told of with the next step that has tokens. */
void sim_list_reset(Simulation *self, Step *step, RequestIx request);
void sim_list_batch(Simulation *self, const Instance *instance, Step *step);
void sim_list_step(Simulation *self, const Instance *instance, Step *step);
/* The step begins now, or is empty. */
void sim_tell_step(Simulation *self, const Instance *instance, const Step *step, Tick end);
/* Those of it that prefill, or that decode, into `sequences` unless that is NULL; how many. */
size_t step_sequences(const Step *step, bool prefills, BatchSequence *sequences);
#endif
