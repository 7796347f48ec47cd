/* Finds a backend by name. Those of backends.def are part of the program; `cuda` is a module,
 * opened with dlopen and kept until the program ends.
 *
 * The module is looked for at the path $TANDEM_BACKEND_CUDA, or, when that is unset, as
 * backend_cuda.so beside the executable and in the folder kernels/ there, where a build has it. */
#ifndef CALIB_BACKEND_LOAD_H
#define CALIB_BACKEND_LOAD_H
#include "calib/backend.h"
#include "sim/base/diag.h"

/* All names, NULL-terminated, whether or not they can be opened here. */
extern const char *const backend_names[];

/* NULL with one entry: DIAG_INPUT at `at` with near names when there is no such backend,
 * DIAG_ENVIRONMENT when its module, a library of it or its entry is missing, or when it was built
 * for another CALIB_API_VERSION. */
const Backend *backend_find(const char *name, Place at, Arena *arena, Diag *diag);

/* An error at `at` when it is a GPU older than the kernels are built for. */
int backend_check_device(const CalibDevice *device, Place at, Diag *diag);

/* Adds `error`, as a backend wrote it, at `at`: DIAG_INPUT when it was rejected, else
 * DIAG_ENVIRONMENT. Returns −1. */
int backend_failed(CalibStatus status, const char *error, Place at, Diag *diag);
#endif
