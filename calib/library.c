/* Libraries that are opened at run time. */
#include "calib/backend.h"
#include <dlfcn.h>
#include <string.h>

/* ISO C has no cast from an object's address to a function's; POSIX says that copying works. */
const char *calib_find_functions(void *library, const char *const *names, void *ret_functions) {
  const char *missing = NULL;
  for (char *to = ret_functions; *names; names++, to += sizeof(void *)) {
    void *symbol = dlsym(library, *names);
    memcpy(to, &symbol, sizeof symbol);
    if (!symbol && !missing) missing = *names;
  }
  return missing;
}
