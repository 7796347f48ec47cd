/* Makes the program one with another rule, $TANDEM_OTHER_RULE or that of all runs, as a change of
 * it would; or without the rule that $TANDEM_LACKS names, as one from before it was there. */
#include "experiments/base/epoch.h"
#include <stdlib.h>
#include <string.h>

static OutcomeRule rules[] = {
#define REST(number)       {"rest", number},
#define RULE(digest, name) {#name, digest},
#define OUTCOME(digest, run)
#include "experiments/outcomes.def"
};
static size_t n_rules = sizeof rules / sizeof *rules;

__attribute__((constructor)) static void change(void) {
  const char *other = getenv("TANDEM_OTHER_RULE"), *lacks = getenv("TANDEM_LACKS");
  for (size_t i = 0; i < n_rules; i++) {
    if (lacks && strcmp(rules[i].name, lacks) == 0) rules[i] = rules[--n_rules];
    if (strcmp(rules[i].name, other ? other : "core") == 0) rules[i].digest = ~rules[i].digest;
  }
}

const OutcomeRule *outcome_rules(size_t *ret_n) {
  *ret_n = n_rules;
  return rules;
}
