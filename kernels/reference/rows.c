/* What picks rows, pages and greatest elements. */
#include <math.h>
#include <string.h>

#include "kernels/reference/half.h"
#include "kernels/reference/reference.h"

void reference_embedding(CalibDtype dtype, double *out, const int32_t *ids, const void *table,
                         const int32_t *positions, const void *positions_table, int32_t tokens,
                         int32_t hidden) {
  for (int64_t t = 0; t < tokens; t++) {
    for (int64_t i = 0; i < hidden; i++) {
      out[t * hidden + i] = half_load(dtype, table, (int64_t)ids[t] * hidden + i);
      if (positions_table)
        out[t * hidden + i] +=
            half_load(dtype, positions_table, (int64_t)positions[t] * hidden + i);
    }
  }
}

void reference_argmax(CalibDtype dtype, int32_t *ids, const void *logits, int32_t rows,
                      int32_t vocab) {
  for (int64_t row = 0; row < rows; row++) {
    double greatest = -INFINITY; // which NaN is not above
    ids[row] = 0;
    for (int32_t i = 0; i < vocab; i++) {
      const double value = half_load(dtype, logits, row * vocab + i);
      if (value > greatest) {
        greatest = value;
        ids[row] = i;
      }
    }
  }
}

void reference_kv_gather(void *buffer, const void *kv_pages, const int32_t *pages, int32_t n_pages,
                         int64_t page_bytes) {
  for (int64_t i = 0; i < n_pages; i++)
    memcpy((char *)buffer + i * page_bytes, (const char *)kv_pages + pages[i] * page_bytes,
           (size_t)page_bytes);
}

void reference_kv_scatter(void *kv_pages, const void *buffer, const int32_t *pages, int32_t n_pages,
                          int64_t page_bytes) {
  for (int64_t i = 0; i < n_pages; i++)
    memcpy((char *)kv_pages + pages[i] * page_bytes, (const char *)buffer + i * page_bytes,
           (size_t)page_bytes);
}
