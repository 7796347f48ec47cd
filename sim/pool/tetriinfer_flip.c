/* TetriInfer's transition watcher (TetriInfer §3.5): a prefill or decode instance with little to do
 * flips to the other role. Little is either of
 *
 *   idle   nothing has run on it and nothing is assigned to it, for `idle_for` in this role (§5.1)
 *   load   it was busy for less than `load_below` of the last `window` in this role (§3.5); the
 *          window is looked at in 64ths, so it may be longer by one
 *
 * The paper flips such an instance whatever the others do. Here it flips only when it is needed:
 * when every instance of the other role has work. With `only_if_other_busy: false` that is asked
 * only of an instance that has had nothing to do since its last flip, or a cluster at rest would
 * flip the same instances to and fro for ever. Mixed instances stay mixed. */
#include "sim/pool/pool.h"
#include <assert.h>

typedef enum Rule { RULE_IDLE, RULE_LOAD } Rule;

enum { SAMPLES_PER_WINDOW = 64, SAMPLES = SAMPLES_PER_WINDOW + 1 };

/* Idle time in all at some broadcast. */
typedef struct Sample {
  Tick at, idle_ticks;
} Sample;

/* The last samples of one instance, at least a 64th of the window apart. */
typedef struct History {
  Sample samples[SAMPLES]; // as a ring
  uint32_t first, count;
} History;

typedef struct State {
  int rule; // Rule
  Tick idle_for, window, flip_time;
  double load_below;
  int64_t min_prefill, min_decode;
  bool only_if_other_busy;
  History *histories;       // [n_instances]
  InstanceIx idlers[ROLES]; // in each role, one that had no work when last looked for
} State;

static void start(void *state, const ClusterView *view, Arena *arena) {
  State *self = state;
  if (self->rule != RULE_LOAD) return;
  self->histories = ARENA_ARRAY(arena, History, view->n_instances);
  for (InstanceIx m = 0; m < view->n_instances; m++)
    self->histories[m].count = 1; // at 0, no time had been idle
}

static const char *excess(const void *state, int64_t n_split) {
  const State *self = state;
  return self->min_prefill > n_split  ? "min_prefill"
         : self->min_decode > n_split ? "min_decode"
                                      : NULL;
}

static bool has_work(const ClusterView *view, InstanceIx m) {
  return view->instances[m].idle_since < 0 || column_at(view->columns.n_assigned, m) > 0 ||
         column_at(view->columns.n_present, m) > 0;
}

static bool is_idle(const State *self, const ClusterView *view, const Instance *instance) {
  if (has_work(view, instance->ix)) return false;
  const Tick since =
      instance->idle_since > instance->role_since ? instance->idle_since : instance->role_since;
  return view->now - since >= self->idle_for;
}

static Sample *sample(History *history, uint32_t i) {
  return &history->samples[(history->first + i) % SAMPLES];
}

/* Takes the present in, and drops what lies before the window or in another role; the oldest sample
 * that is left is the last that is at least a window old, if there is one. */
static void take_sample(const State *self, const ClusterView *view, const Instance *instance,
                        History *history) {
  const Tick begins = view->now - self->window;
  if (history->count > 0 && sample(history, 0)->at < instance->role_since) history->count = 0;
  while (history->count > 1 && sample(history, 1)->at <= begins) {
    history->first = (history->first + 1) % SAMPLES;
    history->count--;
  }
  const Tick apart = (self->window + SAMPLES_PER_WINDOW - 1) / SAMPLES_PER_WINDOW;
  if (history->count > 0 && view->now - sample(history, history->count - 1)->at < apart) return;
  assert(history->count < SAMPLES);
  *sample(history, history->count++) = (Sample){view->now, view->loads[instance->ix].idle_ticks};
}

static bool is_underloaded(const State *self, const ClusterView *view, const Instance *instance) {
  History *history = &self->histories[instance->ix];
  take_sample(self, view, instance, history);
  const Sample *oldest = sample(history, 0);
  const Tick span = view->now - oldest->at;
  const Tick busy = span - (view->loads[instance->ix].idle_ticks - oldest->idle_ticks);
  return span >= self->window && (double)busy < self->load_below * (double)span;
}

/* Whether it has flipped and has not worked since. */
static bool is_unused(const Instance *instance) {
  return instance->role_since > 0 && instance->idle_since >= 0 &&
         instance->idle_since <= instance->role_since;
}

/* At a broadcast this is asked for many instances: mostly the idler it found is one still. */
static bool all_have_work(State *self, const ClusterView *view, Role role) {
  const RoleList *list = &view->by_role[role];
  InstanceIx *idler = &self->idlers[role];
  if (view->columns.all->listed[*idler] == list->ix && !has_work(view, *idler)) return false;
  for (uint32_t i = 0; i < list->count; i++) {
    *idler = list->items[i];
    if (!has_work(view, *idler)) return false;
  }
  return list->count > 0;
}

static Role watch(void *state, const ClusterView *view, const Instance *instance, Tick *ret_ticks) {
  State *self = state;
  if (instance->role == ROLE_MIXED) return ROLE_MIXED;
  const bool flips = self->rule == RULE_IDLE ? is_idle(self, view, instance)
                                             : is_underloaded(self, view, instance);
  const bool prefills = instance->role == ROLE_PREFILL;
  const Role other = prefills ? ROLE_DECODE : ROLE_PREFILL;
  const int64_t least = prefills ? self->min_prefill : self->min_decode;
  if (!flips || view->by_role[instance->role].count <= least) return instance->role;
  const bool must_help = self->only_if_other_busy || is_unused(instance);
  if (must_help && !all_have_work(self, view, other)) return instance->role;
  *ret_ticks = self->flip_time;
  return other;
}

static const char *const rules[] = {"idle", "load", NULL}; // as Rule

static const OptionSpec options[] = {
    {"when", OPTION_CHOICE, offsetof(State, rule), "idle", .choices = rules,
     .help = "Condition for a flip: the instance is idle, or its load is low."},
    {"idle_for", OPTION_TICKS, offsetof(State, idle_for), "60 s", .max = 1e6,
     .help = "Time that an instance must have been idle. It applies to when: idle."},
    {"load_below", OPTION_REAL, offsetof(State, load_below), "0.1", .max = 1,
     .help = "Busy share of the window below which an instance flips. It applies to when: load."},
    {"window", OPTION_TICKS, offsetof(State, window), "60 s", .min = 1e-6, .max = 1e6,
     .help = "Time over which the load is measured. It applies to when: load."},
    {"flip_time", OPTION_TICKS, offsetof(State, flip_time), "6 ms", .max = 86400,
     .help = "Duration of a flip, after the instance has finished its requests."},
    {"min_prefill", OPTION_INT, offsetof(State, min_prefill), "1", .max = 1e6,
     .help = "Minimum number of prefill instances."},
    {"min_decode", OPTION_INT, offsetof(State, min_decode), "1", .max = 1e6,
     .help = "Minimum number of decode instances."},
    {"only_if_other_busy", OPTION_BOOL, offsetof(State, only_if_other_busy), "true",
     .help = "Flip only while every instance of the other role has work."},
    {0},
};

const PoolPolicy pool_tetriinfer_flip = {
    .policy = {.name = "tetriinfer_flip",
               .help = "Flips an instance with little load to the other role (TetriInfer).",
               .state_size = sizeof(State),
               .options = options},
    .excess = excess,
    .start = start,
    .watch = watch,
};
