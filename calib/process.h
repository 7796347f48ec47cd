/* A program that answers line by line: started, asked, ended.
 *
 * It reads requests on its standard input and answers on its standard output; its standard error
 * is ours. It runs without a shell and with SIGINT blocked, so that Ctrl-C is our affair, and it
 * ends when its input does: also when this process is killed. Once it has ended, sent what
 * is no answer or been silent for too long, it is over: every call says the same from then on. */
#ifndef CALIB_PROCESS_H
#define CALIB_PROCESS_H
#include "calib/protocol.h"
#include <signal.h>
#include <sys/types.h>

typedef struct Process {
  Arena arena;
  const char *path;
  pid_t pid; // 0: gone, and waited for
  int to, from;
  double patience_seconds; // for each answer
  const volatile sig_atomic_t *interrupted;
  char *buffer; // of the newest answer
  size_t length, capacity;
  bool is_over;
  char why[CALIB_ERROR_SIZE];
} Process;

/* Starts it. −1 with an entry at `path`, and nothing to end. It may take $TANDEM_BACKEND_TIMEOUT
 * seconds for each answer, 600 when that is unset. `interrupted` may be NULL; once it is not 0, an
 * answer may take five seconds more. */
int process_start(Process *self, const char *path, const volatile sig_atomic_t *interrupted,
                  Diag *diag);
/* Sends a line and waits for one. `call` is what is asked, for messages. The answer, without its
 * line end, lasts until the next. CALIB_ENVIRONMENT with a line in `error` when it is over. */
CalibStatus process_ask(Process *self, const char *call, const ProtocolLine *request,
                        Line *ret_answer, char *error);
/* What it sent is no answer to `call`: ends it at once. Returns CALIB_ENVIRONMENT with a line in
 * `error`. */
CalibStatus process_refuse(Process *self, const char *call, const char *why, char *error);
/* Lets it end, for five seconds, then ends it. */
void process_end(Process *self);
#endif
