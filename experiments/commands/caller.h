/* A proposal (sim/proposal/proposal.h) whose decisions another program makes: the one that started
 * this one, which holds a scheduler as an object and answers on two pipes. A configuration may name
 * it, `proposal: caller`, but only that program can give it: no file and no database says what is
 * run.
 *
 * A question and its answer are a line each, all numbers whole but ranks:
 *
 *     rank NOW ARRIVED PROMPT MAX OUTPUT PRIORITY HIT_BLOCKS VIEW    ->  a number
 *     prefill_tokens NOW VIEW, prefill_seqs NOW VIEW                 ->  a whole number from 1
 *
 * where VIEW is BLOCK_SIZE WAITING FREE_BLOCKS, and times are ticks. "!TEXT" in place of an answer
 * is why there is none; the run then ends. */
#ifndef EXPERIMENTS_COMMANDS_CALLER_H
#define EXPERIMENTS_COMMANDS_CALLER_H
#include "sim/proposal/proposal.h"
#include <signal.h>

typedef struct Caller {
  FILE *answers, *questions;
  const char *wrong;          // why there was no answer; NULL: there were all
  volatile sig_atomic_t ends; // fits SimConfig.interrupted: also when a signal came
  Proposal proposal;
  Arena *arena;
} Caller;

/* "IN,OUT,HOOK[,HOOK…]": descriptors to read answers from and to write questions to, and which
 * hooks it has. From then on, until caller_close, it is a proposal named "caller". -1 with
 * entries. There may be one at a time. */
int caller_open(Caller *self, const char *text, Arena *arena, Diag *diag);
/* After a run: -1 with an entry in place of others if an answer was missing or wrong. */
int caller_check(const Caller *self, Diag *diag);
void caller_close(Caller *self);
#endif
