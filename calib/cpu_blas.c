/* Opening OpenBLAS. */
#include "calib/cpu_blas.h"
#include <dlfcn.h>
#include <stdlib.h>

static const char LIBRARY_PATH[] = "TANDEM_OPENBLAS";
/* As packages for running and for building have it. */
static const char *const LIBRARIES[] = {"libopenblas.so.0", "libopenblas.so"};

static const char *const NAMES[] = {"sgemm_", "sgemv_", "openblas_set_num_threads",
                                    "openblas_get_config", NULL}; // as CpuBlas has them
_Static_assert(sizeof NAMES == sizeof(CpuBlas) + sizeof *NAMES, "a name for each function");

static void *open_library(void) {
  const char *path = getenv(LIBRARY_PATH);
  if (path && *path) return dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *library = NULL;
  for (size_t i = 0; !library && i < sizeof LIBRARIES / sizeof *LIBRARIES; i++)
    library = dlopen(LIBRARIES[i], RTLD_NOW | RTLD_LOCAL);
  return library;
}

CalibStatus cpu_blas_open(CpuBlas *self, char *error) {
  /* Read as the library is opened: it then starts no threads, which would stay idle. */
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  void *library = open_library();
  if (!library) {
    const char *why = dlerror();
    return calib_failed(CALIB_ENVIRONMENT, error,
                        "the cpu backend needs OpenBLAS (libopenblas0; %s names another): %s",
                        LIBRARY_PATH, why ? why : "the library cannot be opened");
  }
  const char *missing = calib_find_functions(library, NAMES, self);
  if (missing) {
    dlclose(library);
    return calib_failed(CALIB_ENVIRONMENT, error,
                        "the library that %s names is not OpenBLAS: it has no '%s'", LIBRARY_PATH,
                        missing);
  }
  self->set_num_threads(1);
  return CALIB_OK;
}
