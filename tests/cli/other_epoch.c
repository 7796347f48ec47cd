/* Makes the program one of another outcome epoch, as a change of outcomes would. */
#include "experiments/base/version.h"

uint64_t outcome_epoch(void) {
  return 1;
}
