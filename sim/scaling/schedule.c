/* By the clock: steps of a period that comes again, a day or a week. Before the first step of a
 * period the last one holds. */
#include "sim/scaling/scaler.h"
#include <string.h>

typedef struct Step {
  Tick at;
  int64_t machines;
  const char *pool; // NULL: all that are scaled
  Place place;
} Step;

typedef struct State {
  Tick every;
  const Node *steps_node;
  Step *steps; // in order of time
  int n_steps;
} State;

#define STEP(field, type_, ...)                                                                    \
  { .key = #field, .type = OPTION_##type_, .offset = offsetof(Step, field), __VA_ARGS__ }

const OptionSpec schedule_step_options[] = {
    STEP(at, TICKS, .required = true, .max = 9e6, .help = "time since the period began"),
    STEP(machines, INT, .required = true, .max = 1e6, .help = "from then on"),
    STEP(pool, STRING, .help = "whose", .absent = "of every pool that is scaled"),
    {0}};

static const OptionSpec options[] = {
    {"every", OPTION_TICKS, offsetof(State, every), "24 h", .min = 1, .max = 9e6,
     .help = "after which the steps come again"},
    {"steps", OPTION_NODE, offsetof(State, steps_node),
     .help = "a list of {at, machines, pool}, see below", .absent = "none; at least one is needed"},
    {0},
};

static int bind_step(State *self, const Node *node, Diag *diag) {
  Step *step = &self->steps[self->n_steps++];
  step->place = node->at;
  if (option_bind(schedule_step_options, node, NULL, node->at, step, diag)) return -1;
  const Step *before = self->n_steps > 1 ? step - 1 : NULL;
  if (step->at >= self->every)
    return diag_error(diag, node->at, "a step at or after 'every' never comes");
  if (before && before->at > step->at)
    return diag_error(diag, node->at, "steps must stand in the order of their times");
  return 0;
}

static int check(void *state, const Node *map, Place owner, Arena *arena, Diag *diag) {
  (void)map, (void)owner;
  State *self = state;
  const Node *list = self->steps_node;
  if (!list) return 0; // check_pools says so
  if (list->kind != NODE_LIST) return diag_error(diag, list->at, "'steps' wants a list of them");
  self->steps = ARENA_ARRAY(arena, Step, list->n_children);
  int status = 0;
  for (const Node *node = list->first; node; node = node->next)
    status |= bind_step(self, node, diag);
  return status;
}

static int check_pools(const void *state, const PoolSpec *pools, uint32_t n_pools, Place at,
                       Diag *diag) {
  const State *self = state;
  int status = 0;
  if (self->n_steps == 0) {
    diag_error(diag, at, "scaler 'schedule' has no 'steps'");
    diag_hint(diag, "such as steps: [{at: 0 h, machines: 4}, {at: 8 h, machines: 10}]");
    return -1;
  }
  for (int i = 0; i < self->n_steps; i++) {
    const Step *step = &self->steps[i];
    if (step->pool) status |= scaler_check_pool(step->pool, step->place, pools, n_pools, diag);
  }
  return status;
}

/* -1: no step is of the pool. */
static int64_t machines_of(const State *self, const PoolSpec *spec, Tick at) {
  int64_t last = -1, now = -1;
  for (int i = 0; i < self->n_steps; i++) {
    const Step *step = &self->steps[i];
    if (step->pool && strcmp(step->pool, spec->name) != 0) continue;
    last = step->machines;
    if (step->at <= at) now = last;
  }
  return now >= 0 ? now : last;
}

static void plan(void *state, const ScalingView *view, double *wanted) {
  const State *self = state;
  for (uint32_t p = 0; p < view->n_pools; p++) {
    const int64_t machines = machines_of(self, view->pools[p].spec, view->now % self->every);
    if (machines >= 0) wanted[p] = (double)machines;
  }
}

const Scaler scaler_schedule = {
    .policy = {.name = "schedule",
               .help = "instances by the time of the day or of the week",
               .state_size = sizeof(State),
               .options = options,
               .check = check},
    .check_pools = check_pools,
    .plan = plan,
};
