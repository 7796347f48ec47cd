/* Cluster-level scheduling: which instance prefills a request and which decodes it.
 *
 * A router decides once, on arrival. It may pick an instance outside the role only when
 * view->roles_move; the pool policy then gives that instance its new role. */
#ifndef SIM_ROUTER_ROUTER_H
#define SIM_ROUTER_ROUTER_H
#include "base/rng.h"
#include "sim/core/cluster.h"
#include "sim/core/reports.h"
#include "sim/policy.h"

typedef enum Observation {
  OBSERVED_PLACED,      // it has its instances; `instance` will prefill it
  OBSERVED_PREFILLED,   // the prefill of a request ended on `instance`
  OBSERVED_TRANSFERRED, // its KV left `instance`
  OBSERVED_FINISHED,    // its last token was made on `instance`
  OBSERVED_CANCELLED,   // it leaves `instance`, where it or its KV was; in a store: INSTANCE_NONE
} Observation;

typedef struct Router {
  Policy policy;
  bool knows_content; // reads view->memory of the request it places
  bool reads_loads;   // the columns of its view, which reports may be behind (SimConfig)
  bool cuts;          // requests in two (Placement.cut), for which it goes by predicted outputs
  bool needs_roles;   // is of no use where prefill and decode instances are not apart
  bool needs_caches;  // is of no use where no instance keeps a prefix cache; reports tell of them
  /* How instances report to it (view->reports), of its options. Optional: they do not. */
  const ReportOptions *(*reports)(const void *state);
  /* Bytes that `start` takes for each instance, where they are many. Optional. */
  size_t (*instance_bytes)(const void *state);
  /* Before the first pick: `state` has its options. Optional. */
  void (*start)(void *state, const ClusterView *view, uint64_t seed, Arena *arena);
  Placement (*pick)(void *state, const ClusterView *view, RequestIx request);
  /* Something a router may keep books on happened. Optional. */
  void (*observe)(void *state, const ClusterView *view, RequestIx request, Observation what,
                  InstanceIx instance);
} Router;

/* Picks one instance of a list. */
typedef InstanceIx (*RouterChoice)(void *state, const ClusterView *view, const RoleList *list,
                                   Phase phase);

/* The common shape of a router: where there are prefill instances, one of them and then one of the
 * decode instances; otherwise one mixed instance for both. A missing side is taken from the mixed
 * instances and, where none of those is up and roles move, from the other side. */
Placement router_place(const ClusterView *view, RouterChoice choose, void *state);

/* Which of several instances that have the least of a figure a router joins. Balancers that go by
 * the fewest connections take them in turn: nginx (least_conn), HAProxy (leastconn). One that took
 * the first would send all that an idle fleet gets to one instance. */
typedef enum TieRule { TIES_ROUND_ROBIN, TIES_FIRST, TIES_RANDOM } TieRule;

/* All the state of routers that have no other. */
typedef struct Ties {
  int rule;      // TieRule
  bool by_speed; // figures are compared over the speed of their instances
  Rng rng;
} Ties;

extern const char *const router_tie_rules[];
/* The row of an option table, of a rule at `at` in the state. */
#define ROUTER_TIES(at)                                                                            \
  {                                                                                                \
    "ties", OPTION_CHOICE, at, "round_robin",                                                      \
        .choices = router_tie_rules,                                                               \
        .help = "Choice among equally loaded instances: each in turn, the first in the list, or "  \
                "one at random."                                                                   \
  }
extern const OptionSpec router_ties_options[]; // of a state that is Ties
extern const OptionSpec router_load_options[]; // the same and by_speed, of one that compares work

/* Whether equals are drawn from: the `draws` of a policy whose state is Ties. */
bool router_ties_draw(const void *ties);
void router_start_ties(void *ties, const ClusterView *view, uint64_t seed, Arena *arena);
/* An instance of a list with the least of a figure; INSTANCE_NONE if it is empty. */
InstanceIx router_least(Ties *ties, Column *figure, const RoleList *list);
/* It is the one that is chosen. */
void router_chose(const Ties *ties, const ClusterView *view, InstanceIx instance);
/* Of each phase one with the least; `ties` NULL: the first of its list. */
Placement router_join_least(const ClusterView *view, Column *figure, Ties *ties);
#endif
