/* The outcome epoch. It stands alone in its file, so that a test can link a program of another. */
#include "experiments/base/version.h"
#include "sim/base/hash.h"

uint64_t outcome_epoch(void) {
  static const uint64_t pinned[] = {
#define FIGURES(number)      number,
#define OUTCOME(digest, run) digest,
#include "experiments/outcomes.def"
  };
  return hash_bytes(pinned, sizeof pinned);
}
