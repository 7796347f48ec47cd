/* Opening OpenBLAS. */
#include "calib/cpu_blas.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char LIBRARY_PATH[] = "TANDEM_OPENBLAS";
/* As packages for running and for building have it. */
static const char *const LIBRARIES[] = {"libopenblas.so.0", "libopenblas.so"};

static void *open_library(void) {
  const char *path = getenv(LIBRARY_PATH);
  if (path && *path) return dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *library = NULL;
  for (size_t i = 0; !library && i < sizeof LIBRARIES / sizeof *LIBRARIES; i++)
    library = dlopen(LIBRARIES[i], RTLD_NOW | RTLD_LOCAL);
  return library;
}

/* ISO C has no conversion from an object's pointer to a function's; POSIX promises their size. */
static bool find(void *library, const char *name, void *ret_function, size_t size) {
  void *symbol = dlsym(library, name);
  if (symbol) memcpy(ret_function, &symbol, size);
  return symbol;
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
  if (find(library, "sgemm_", &self->sgemm, sizeof self->sgemm) &&
      find(library, "sgemv_", &self->sgemv, sizeof self->sgemv) &&
      find(library, "openblas_set_num_threads", &self->set_num_threads,
           sizeof self->set_num_threads) &&
      find(library, "openblas_get_config", &self->config, sizeof self->config)) {
    self->set_num_threads(1);
    return CALIB_OK;
  }
  snprintf(error, CALIB_ERROR_SIZE, "the library that %s names is not OpenBLAS: %s", LIBRARY_PATH,
           dlerror());
  dlclose(library);
  return CALIB_ENVIRONMENT;
}
