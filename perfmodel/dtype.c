/* See dtype.h. */
#include "perfmodel/dtype.h"
#include <stddef.h>

static const struct {
  double bytes;
  Dtype compute;
} dtypes[] = {
#define DTYPE(id, name, ...) {__VA_ARGS__},
#include "perfmodel/dtype.def"
#undef DTYPE
};

const char *const dtype_names[] = {
#define DTYPE(id, name, ...) name,
#include "perfmodel/dtype.def"
#undef DTYPE
    NULL};

double dtype_bytes(Dtype self) {
  return dtypes[self].bytes;
}

Dtype dtype_compute(Dtype self) {
  return dtypes[self].compute;
}
