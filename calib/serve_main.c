/* tandem-calib-NAME: the backend backend_NAME as a program. The build defines BACKEND. */
#include "calib/serve.h"

extern const Backend BACKEND;

int main(void) {
  return serve(&BACKEND);
}
