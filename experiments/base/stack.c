/* See stack.h. */
#include "experiments/base/stack.h"
#include <sys/resource.h>

int stack_check(Diag *diag) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= STACK_BYTES) return 0;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max < STACK_BYTES ? limit.rlim_max : STACK_BYTES;
  if (limit.rlim_cur == STACK_BYTES && setrlimit(RLIMIT_STACK, &limit) == 0) return 0;
  diag_environment(diag, place_of_file(NULL),
                   "the stack is limited to %llu KiB, and %d KiB are needed",
                   (unsigned long long)before >> 10, STACK_BYTES >> 10);
  diag_hint(diag, "raise the limit: 'ulimit -s %d', or that of the container", STACK_BYTES >> 10);
  return -1;
}
