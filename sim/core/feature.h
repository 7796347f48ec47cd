/* What may be added to the core without its knowing.
 *
 * A feature is a file of sim/feature/ with one table, `Feature`, and a line in features.def. It has
 * state of its own, handles events of its own, and is called where the hooks that it names are
 * (hooks.def). The core never calls it by name; a hook that nobody listens to costs a comparison.
 * Features may call the core, and each other. */
#ifndef SIM_CORE_FEATURE_H
#define SIM_CORE_FEATURE_H
#include "sim/core/event.h"
#include "sim/core/scheduler.h"
#include "sim/core/transfer.h"
#include "sim/sim.h"

typedef struct Simulation Simulation;
typedef struct Deployment Deployment;

/* What comes back once something is repaired. */
typedef enum Repair {
  REPAIR_NONE,
  REPAIR_INSTANCES, // those that requests wait for
  REPAIR_LINKS,     // those too over which KV waits
} Repair;

typedef void EventHandler(Simulation *self, uint32_t target);

#define HOOK(name, parameters, arguments)                 typedef void name##_hook parameters;
#define ASK(type, name, otherwise, parameters, arguments) typedef type name##_hook parameters;
#include "sim/core/hooks.def"

typedef struct Feature {
  size_t state_size; // of feature_state, zeroed before the run
  /* Whether this run has it. NULL: always. */
  bool (*is_used)(const Simulation *self);
  /* Before routers and other policies start. NULL: nothing. */
  void (*prepare)(Simulation *self);
  /* Before the first event. NULL: nothing. */
  void (*start)(Simulation *self);
  EventHandler *handlers[EVENT_KINDS]; // of its events; NULL: another's
#define HOOK(name, parameters, arguments)                 name##_hook *name;
#define ASK(type, name, otherwise, parameters, arguments) name##_hook *name;
#include "sim/core/hooks.def"
} Feature;

/* Who is called, of the features that a run has. */
typedef struct Hooks {
#define HOOK(name, parameters, arguments)                                                          \
  name##_hook **name; /* [n_name] */                                                               \
  uint32_t n_##name;
#define ASK(type, name, otherwise, parameters, arguments) name##_hook *name;
#include "sim/core/hooks.def"
} Hooks;
#endif
