/* Whether a stored run would be the same today.
 *
 * The rules of the simulation have a digest each, of what pinned runs give by them (outcomes.def):
 * "core" and "rest" are everybody's, others those of a policy ("router.jsq") or of a feature
 * ("faults"). The epoch of a run is of the rules that it used, so a rule that changes makes stale
 * what used it, and a new policy nothing.
 *
 * As text an epoch is twelve hexadecimal digits for each rule, four for its name and eight for its
 * digest; core and rest come first, the others in order. */
#ifndef EXPERIMENTS_BASE_EPOCH_H
#define EXPERIMENTS_BASE_EPOCH_H
#include "base/arena.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct OutcomeRule {
  const char *name;
  uint64_t digest;
} OutcomeRule;

enum { EPOCH_RULE = 12 }; // digits of a rule

/* Those of this program. */
const OutcomeRule *outcome_rules(size_t *ret_n);
/* The epoch of what uses these rules, in any order, some more than once. */
const char *epoch_of(const char *const *rules, size_t n, Arena *arena);
/* That of what uses the rules of both. */
const char *epoch_join(const char *a, const char *b, Arena *arena);
/* Whether this program gives other outcomes by one of its rules. */
bool epoch_is_stale(const char *epoch);
/* Whether programs that made these have the rules in common that both used. */
bool epoch_agrees(const char *a, const char *b);
#endif
