/* Splitwise's mixed pool (Splitwise §IV-A). A machine given a task of the opposite kind turns to
 * mixed; it returns once no such task is left. One that stayed mixed for `repurpose_after` is
 * re-purposed: the opposite role becomes its home (the paper's coarse-grained re-purposing). */
#include "sim/pool/pool.h"

typedef struct State {
  Tick repurpose_after; // 0: never
} State;

static Role claim(void *state, const ClusterView *view, const Machine *machine, Phase phase) {
  (void)state, (void)view, (void)machine, (void)phase;
  return ROLE_MIXED;
}

static Role review_role(void *state, const ClusterView *view, const Machine *machine, bool idle,
                        Role *ret_home) {
  (void)idle;
  const State *self = state;
  if (machine->role != ROLE_MIXED || machine->home == ROLE_MIXED) return machine->role;
  const bool prefills = machine->home == ROLE_PREFILL;
  const int32_t opposite = prefills ? machine->n_decodes : machine->n_prefills;
  if (opposite == 0) return machine->home;
  if (self->repurpose_after == 0 || view->now - machine->role_since < self->repurpose_after)
    return ROLE_MIXED;
  *ret_home = prefills ? ROLE_DECODE : ROLE_PREFILL;
  const int32_t own = prefills ? machine->n_prefills : machine->n_decodes;
  return own == 0 ? *ret_home : ROLE_MIXED;
}

static const OptionSpec options[] = {
    {"repurpose_after", OPTION_TICKS, offsetof(State, repurpose_after), "0 s", .max = 9e6,
     .help = "time in the mixed pool after which the opposite role becomes home; 0 s: never"},
    {0},
};

const PoolPolicy pool_splitwise_mixed = {
    .policy = {.name = "splitwise_mixed",
               .help = "an instance is mixed while it has tasks of the opposite role (Splitwise)",
               .state_size = sizeof(State),
               .options = options},
    .moves_roles = true,
    .claim = claim,
    .review_role = review_role,
};
