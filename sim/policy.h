/* What all policies share.
 *
 * A policy is one `const` table in one file plus one line in its folder's .def list. It decides and
 * the core acts: a hook gets a read-only view and returns a choice; it cannot push events or touch
 * memory accounting, so it cannot break conservation. Its state is a byte count that the core
 * allocates, and its options are offsets into that state. Hooks marked optional may be NULL. */
#ifndef SIM_POLICY_H
#define SIM_POLICY_H
#include "base/option.h"
#include <string.h>

typedef struct Policy {
  const char *name;          // as written in YAML
  const char *help;          // one line, shown by `tandem list`
  size_t state_size;         // zeroed, then the options are bound into it
  const OptionSpec *options; // NULL if none
  /* Whether it may decide by what it draws from the seed of the run; `state` as in PolicyChoice.
   * Optional: it does not. */
  bool (*draws)(const void *state);
  /* What rows of a table cannot say, once all options are bound: fits them to each other, reads
   * subtrees, fills in what follows from the rest. `map` is what was written, NULL if nothing;
   * `owner` where the policy is named. -1 with entries in `diag`. Optional. */
  int (*check)(void *state, const Node *map, Place owner, Arena *arena, Diag *diag);
} Policy;

typedef enum PolicyKind {
  POLICY_ROUTER,
  POLICY_PREDICTOR,
  POLICY_DISPATCHER,
  POLICY_POOL,
  POLICY_BATCHER,
  POLICY_TRANSFER,
  POLICY_KVTIER,
  POLICY_SCALER,
  POLICY_KINDS,
} PolicyKind;

/* A policy and its options, bound; a run copies the state and does not write to it. */
typedef struct PolicyChoice {
  const Policy *policy;
  const void *state; // policy->state_size bytes; NULL: all zero
} PolicyChoice;

/* The state of a choice, for one who writes to it. */
static inline void *policy_state_copy(const PolicyChoice *choice, Arena *arena) {
  void *state = arena_alloc(arena, choice->policy->state_size);
  if (choice->state) memcpy(state, choice->state, choice->policy->state_size);
  return state;
}

/* The `draws` of one that always does. */
static inline bool policy_always_draws(const void *state) {
  (void)state;
  return true;
}
#endif
