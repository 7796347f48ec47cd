/* What routers and pool policies see of the instances that serve a model: them by role, and columns
 * of what they are busy with. Where there are several models each has a view of its own.
 *
 * Columns (column.h) are kept by the core. They change when a request is placed, when a phase or a
 * chunk of it ends and when a batch changes. A run takes blocks without a change of its batch:
 * kv_blocks knows of those when column_at or column_least asks, and loads when they are broadcast.
 */
#ifndef SIM_CORE_CLUSTER_H
#define SIM_CORE_CLUSTER_H
#include "sim/core/column.h"

/* An instance's load as the monitor last broadcast it. */
typedef struct InstanceLoad {
  int64_t free_blocks;      // of KV memory, neither held nor promised; may be negative
  int64_t pending_tokens;   // as the column
  int64_t n_heavy, n_light; // decodes assigned, by predicted output
  Tick idle_ticks;          // since the start
} InstanceLoad;

typedef struct Reports Reports;

/* Of all instances, whatever they serve. */
typedef struct ClusterColumns {
  Columns *all;           // of which:
  Column *pending_tokens; // assigned prompt tokens not yet prefilled, plus one per decode
  Column *n_assigned;     // requests with a phase assigned here that is not finished
  Column *n_present;      // requests that are here now
  Column *kv_blocks;      // held by or promised to requests, growth as above
  Column *n_heavy;        // decodes assigned whose predicted output is above heavy_above
} ClusterColumns;

typedef struct ClusterView {
  Tick now;
  uint32_t model;
  uint32_t n_instances; // of all models: their numbers are below
  const Instance *instances;
  const InstanceIx *members; // [n_members] those that serve this model, in order
  uint32_t n_members;
  const Request *requests; // by slot
  /* By slot, where content is kept: an instance has a cache, or the router knows_content. */
  const RequestMemory *memory;
  RoleList by_role[ROLES];
  bool roles_move; // the pool policy lets an instance take the opposite phase
  ClusterColumns columns;
  int64_t heavy_above; // tokens
  Tick loads_at;       // when `loads` were broadcast
  InstanceLoad *loads; // [n_instances]
  Reports *reports;    // what a router that asks for reports knows (reports.h); NULL: it does not
} ClusterView;

/* Where a request's phases run; the same instance twice means no transfer. With a `cut` both serve
 * both phases: `prefill` computes the first so many tokens of prompt and output, and `decode` the
 * others (lifecycle.h); where the core cannot it makes no cut. With a dispatcher that picks, a
 * decode instance other than the prefill instance is ignored. An instance whose role does
 * not cover its phase is claimed for the mixed pool, unless `roles_stay`: then it serves this one
 * request across its role, and `claimed` is claimed for the phase that it lacks, if it is any. */
typedef struct Placement {
  InstanceIx prefill, decode;
  bool roles_stay;
  InstanceIx claimed; // INSTANCE_NONE: nobody; read with roles_stay alone
  int32_t cut;        // tokens; 0: none
} Placement;

/* Sets up the columns of the instances of so many models. */
void cluster_columns_init(ClusterColumns *self, uint32_t n_instances, uint32_t n_models,
                          Arena *arena);
/* Sets up the lists of those that serve `model`, with their `home` roles set. */
void cluster_init(ClusterView *self, const ClusterColumns *columns, uint32_t model,
                  const Instance *instances, uint32_t n_instances, Arena *arena);
/* Takes an instance out of the list of `role`; appends it. */
void cluster_withdraw(ClusterView *self, InstanceIx instance, Role role);
void cluster_join(ClusterView *self, InstanceIx instance, Role role);
static inline void cluster_move(ClusterView *self, InstanceIx instance, Role from, Role to) {
  cluster_withdraw(self, instance, from);
  cluster_join(self, instance, to);
}
/* Whether a request counts among the heavy decodes. */
static inline bool view_heavy(const ClusterView *view, const Request *request) {
  return request->predicted_low > view->heavy_above;
}
#endif
