/* A program as a backend: the table of backend.h, each call a request on its pipe. */
#ifndef CALIB_BACKEND_PROCESS_H
#define CALIB_BACKEND_PROCESS_H
#include "calib/backend_load.h"

/* Starts the program, which says what it is, and opens its device. The table has no `open`. −1 with
 * an entry, and nothing to close. What such a table returns has been checked: seconds are positive
 * and finite, texts plain, columns within bounds. A failure of a call that cannot say so shows at
 * the next that can. */
int backend_process_open(OpenBackend *ret_backend, const char *path, const CalibOptions *options,
                         Diag *diag);
#endif
