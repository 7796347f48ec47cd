/* A backend module built for another version of the interface: what a forgotten rebuild leaves. */
#include "calib/backend.h"

const Backend *tandem_backend(void);
const Backend *tandem_backend(void) {
  static const Backend backend = {.api_version = CALIB_API_VERSION + 1, .name = "cuda"};
  return &backend;
}
