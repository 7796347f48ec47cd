/* The table of what pinned runs give. It stands alone in its file, so that a test can link a
 * program of another. */
#include "experiments/base/epoch.h"

static const OutcomeRule rules[] = {
#define REST(number)       {"rest", number},
#define RULE(digest, name) {#name, digest},
#define OUTCOME(digest, run)
#include "experiments/outcomes.def"
};

const OutcomeRule *outcome_rules(size_t *ret_n) {
  *ret_n = sizeof rules / sizeof *rules;
  return rules;
}
