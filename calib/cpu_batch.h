/* A batch as the operators of a CPU take it: rows, positions, and pages in several sets.
 *
 * Every set is a whole batch on pages of its own. Used in turn, they keep attention that is
 * measured on its own from finding its keys in the cache, where an iteration, which reads all
 * weights in between, would not. */
#ifndef CALIB_CPU_BATCH_H
#define CALIB_CPU_BATCH_H
#include "calib/cpu_attention.h"
#include "calib/cpu_model.h"

typedef struct CpuBatch {
  int32_t n_prefills, n_decodes, n_sets;
  int64_t tokens, pages; // of a set
  int64_t *row_starts;   // [sequences + 1]
  int64_t *page_starts;  // [sequences], in a set
  int64_t *gather_starts;
  int32_t *past;            // [sequences]
  int32_t *ids, *positions; // [tokens]
  int32_t *slots;           // [n_sets][tokens]
  float *rotation;          // [tokens][head_dim], NULL: none
  int64_t n_logits;
  int32_t *logit_rows; // [n_logits]
} CpuBatch;

/* Fills `self`, in `arena`, and makes room for it in the model. `rotates`: as many sets as it takes
 * for the weights' bytes, as far as memory allows, else one. */
CalibStatus cpu_batch_init(CpuBatch *self, CpuModel *model, const CalibBatch *batch, bool rotates,
                           int64_t available_bytes, Arena *arena, char *error);
/* A set's pages, of all its sequences. */
const int32_t *cpu_batch_pages(const CpuBatch *self, const CpuModel *model, int64_t set);
#endif
