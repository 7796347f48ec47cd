/* Ctrl-C while something long runs: the first SIGINT or SIGTERM is only noted, so that what runs
 * ends at its next event, what is whole is kept, and the command says how to go on. A second one
 * ends the program at once. */
#ifndef EXPERIMENTS_BASE_INTERRUPT_H
#define EXPERIMENTS_BASE_INTERRUPT_H
#include <signal.h>

/* Which signal came, 0 while none has: the one thing that a signal handler can reach. Fits
 * SimConfig.interrupted. */
extern volatile sig_atomic_t interrupt_signal;

/* From now on signals are noted. */
void interrupt_catch(void);
#endif
