/* Finds a backend's program, starts it and opens the device.
 *
 * `NAME` is the program tandem-calib-NAME, beside this one, where it is installed, or in the
 * folders calib/ and kernels/ there, where a build has it. What has a slash is the path of a
 * program. Those that come with Tandem are in backends.def; a build may lack some. */
#ifndef CALIB_BACKEND_LOAD_H
#define CALIB_BACKEND_LOAD_H
#include "base/diag.h"
#include "calib/backend.h"

/* Of backends.def, NULL-terminated, whether or not they can be opened here. */
extern const char *const backend_names[];

/* The path of its program, NULL when it is in none of these places. What has a slash is one. */
const char *backend_find(const char *name, Arena *arena);

/* One that is open. The table, its strings and the state last until backend_close. */
typedef struct OpenBackend {
  const Backend *table;
  void *state;
  CalibDevice device;
} OpenBackend;

/* −1 with one entry, and nothing to close: DIAG_INPUT at `at` with near names when there is no such
 * backend, or for what the backend rejects; DIAG_ENVIRONMENT when its program is not there, does
 * not run, speaks another version of the protocol or finds no device, or when that is a GPU older
 * than kernels are built for and the backend is no whole engine. */
int backend_open(OpenBackend *self, const char *name, const CalibOptions *options, Place at,
                 Diag *diag);
void backend_close(OpenBackend *self);

/* Adds `error`, as a backend wrote it, at `at`: DIAG_INPUT when it was rejected, else
 * DIAG_ENVIRONMENT. Returns −1. */
int backend_failed(CalibStatus status, const char *error, Place at, Diag *diag);
#endif
