/* Splitwise's mixed pool (Splitwise §IV-A). An instance given a task of the opposite kind turns to
 * mixed; it returns once no such task is left. One that stayed mixed for `repurpose_after` is
 * re-purposed: the opposite role becomes its home (the paper's coarse-grained re-purposing). */
#include "sim/pool/pool.h"

typedef struct State {
  Tick repurpose_after; // 0: never
} State;

static Role claim(void *state, const ClusterView *view, const Instance *instance, Phase phase) {
  (void)state, (void)view, (void)instance, (void)phase;
  return ROLE_MIXED;
}

static Role review_role(void *state, const ClusterView *view, const Instance *instance, bool idle,
                        Role *ret_home) {
  (void)idle;
  const State *self = state;
  if (instance->role != ROLE_MIXED || instance->home == ROLE_MIXED) return instance->role;
  const bool prefills = instance->home == ROLE_PREFILL;
  const int32_t opposite = prefills ? instance->n_decodes : instance->n_prefills;
  if (opposite == 0) return instance->home;
  if (self->repurpose_after == 0 || view->now - instance->role_since < self->repurpose_after)
    return ROLE_MIXED;
  *ret_home = prefills ? ROLE_DECODE : ROLE_PREFILL;
  const int32_t own = prefills ? instance->n_prefills : instance->n_decodes;
  return own == 0 ? *ret_home : ROLE_MIXED;
}

static const OptionSpec options[] = {
    {"repurpose_after", OPTION_TICKS, offsetof(State, repurpose_after), "0 s", .max = 9e6,
     .help = "Time in the mixed pool after which an instance takes the opposite role for good. "
             "With 0 s it never does."},
    {0},
};

const PoolPolicy pool_splitwise_mixed = {
    .policy = {.name = "splitwise_mixed",
               .help =
                   "Keeps an instance mixed while it has tasks of the opposite role (Splitwise).",
               .state_size = sizeof(State),
               .options = options},
    .moves_roles = true,
    .claim = claim,
    .review_role = review_role,
};
