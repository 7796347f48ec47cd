/* Stacks: of the process, and of the threads that it starts. */
#ifndef EXPERIMENTS_BASE_STACK_H
#define EXPERIMENTS_BASE_STACK_H
#include "base/diag.h"

/* What commands need at most is 367 KiB, for an SQL expression as deep as SQLite takes; runs take
 * 87 KiB. A build with sanitizers takes three times as much. */
enum { STACK_BYTES = 2 << 20 };

/* Raises a lower limit of the process' stack; an error where it may not be raised so far. */
int stack_check(Diag *diag);
#endif
