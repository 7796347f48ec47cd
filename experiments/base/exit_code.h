/* What the exit code of a command says. */
#ifndef EXPERIMENTS_BASE_EXIT_CODE_H
#define EXPERIMENTS_BASE_EXIT_CODE_H

enum ExitCode {
  EXIT_DONE = 0,
  EXIT_SLO_MISSED = 1,
  EXIT_NOT_MET = 1, // the verdict of a validation
  EXIT_USAGE = 2,
  EXIT_INPUT = 3,
  EXIT_ENVIRONMENT = 4,
  EXIT_INTERRUPTED = 130,
};
#endif
