/* Number formats that weights and KV caches are kept in, by the names that serving engines give
 * them. A row of dtype.def each. */
#ifndef PERFMODEL_DTYPE_H
#define PERFMODEL_DTYPE_H

typedef enum Dtype {
#define DTYPE(id, ...) DTYPE_##id,
#include "perfmodel/dtype.def"
#undef DTYPE
  DTYPE_COUNT,
} Dtype;

/* "bf16", "fp8", … in the order of Dtype, NULL-terminated: for OPTION_CHOICE. */
extern const char *const dtype_names[];
/* Bytes of an element with its share of the scales of its block. */
double dtype_bytes(Dtype self);
/* The format that products with such weights are computed in: bf16 for weight-only formats. */
Dtype dtype_compute(Dtype self);
#endif
