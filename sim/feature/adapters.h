/* LoRA adapters: weights beside those of a model, that come to a machine with the requests that
 * name them and go for others.
 *
 * A machine has room for so many in the memory of its GPUs and, those included, for so many in CPU
 * memory, as vLLM's max_loras and max_cpu_loras have it. A decision admits nobody whose adapter
 * would be one too many among those of requests that are scheduled: it is passed over (RULES.md,
 * "Adapters"). What is not on the GPUs is brought there before the step that needs it begins, in
 * place of the one whose last request left the machine's `running` first. */
#ifndef SIM_FEATURE_ADAPTERS_H
#define SIM_FEATURE_ADAPTERS_H
#include "base/arena.h"
#include "base/units.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct Engine Engine;
typedef struct Machine Machine;
typedef struct Request Request;
typedef struct Step Step;

/* Adapters that the requests of a component are spread over. */
typedef struct AdapterSet {
  const char *name;
  uint32_t count; // > 0
  double zipf;    // the k-th is asked for with a share of k^-zipf; 0: all alike
  int64_t bytes;  // > 0, of one, on the host link of a replica
} AdapterSet;

/* Of a machine; max_loras 0: it has no adapters. */
typedef struct AdapterRoom {
  int64_t max_loras;      // on the GPUs
  int64_t max_cpu_loras;  // in CPU memory, at least max_loras
  int64_t load_bandwidth; // bytes/s from where they are kept into CPU memory
} AdapterRoom;

/* Where those of a set begin among all, and how often each is asked for. */
typedef struct AdapterDraw {
  uint32_t first; // of all, from 1
  double *shares; // [count] of it and those before it, the last 1
} AdapterDraw;

typedef struct LoadedAdapter {
  uint32_t adapter;
  bool on_gpu;
  uint64_t needed; // AdapterCache.number of the last load that had to leave it
  Tick left_at;    // its last request left `running`, or it came
} LoadedAdapter;

/* What is in CPU memory, in no order, and which of it is on the GPUs. */
typedef struct AdapterCache {
  LoadedAdapter *loaded; // [n_loaded], room for max_cpu_loras
  uint32_t n_loaded, n_on_gpu;
  uint64_t number;     // of loads so far
  uint32_t *scheduled; // [n_scheduled] adapters of the decision in progress; room for max_loras
  int64_t n_scheduled; // -1: not looked for yet
} AdapterCache;

/* How adapters are drawn; in the run's arena. */
void adapters_start(Engine *self);
void adapters_start_machine(Engine *self, Machine *machine);
/* The adapter that it asks for, by its number alone; 0: none. */
uint32_t adapters_draw(const Engine *self, const Request *request);
/* A decision begins. */
static inline void adapters_decide(AdapterCache *self) {
  if (self) self->n_scheduled = -1;
}
/* Whether the decision, which has `step` so far, passes over one that waits; if not, and it is
 * admitted, adapters_schedule follows. Both only on machines with adapters. */
bool adapters_pass_over(const Engine *self, const Machine *machine, const Step *step,
                        const Request *request);
void adapters_schedule(const Machine *machine, const Request *request);
/* Before a step of those in `running` begins: its adapters come to the GPUs, one after the other.
 * The machine's iterations wait for copied_at. */
void adapters_load(Engine *self, Machine *machine, const Step *step);
/* It leaves `running`. */
void adapters_left(AdapterCache *self, const Request *request, Tick now);
/* What is in the memory of a machine that fails is lost. */
void adapters_forget(AdapterCache *self);
/* Whether it is on the GPUs. */
bool adapters_has(const AdapterCache *self, uint32_t adapter);
#endif
