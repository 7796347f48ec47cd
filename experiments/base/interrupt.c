/* See interrupt.h. */
#include "experiments/base/interrupt.h"
#include <stddef.h>

volatile sig_atomic_t interrupt_signal;

static void catch_signal(int number) {
  interrupt_signal = number;
}

void interrupt_catch(void) {
  struct sigaction action = {.sa_handler = catch_signal};
  action.sa_flags = (int)SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}
