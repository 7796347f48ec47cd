/* A backend of backend.h as a program: the other end of backend_process.h. */
#ifndef CALIB_SERVE_H
#define CALIB_SERVE_H
#include "calib/backend.h"

/* Answers requests on standard input until it ends, and returns the exit code. Answers go to what
 * standard output was; what libraries print there goes to standard error. */
int serve(const Backend *backend);
#endif
