/* Which algorithm each product runs by, kept in a file from run to run, so that what goes on with a
 * profile, or is held to it, runs what was measured. Plain C, no CUDA needed.
 *
 * A file is of one device with one driver and one version of the library; the head says so. Numbers
 * are those that the library takes an algorithm apart into; whoever finds a choice has the library
 * check it before it is used. Files come from anywhere: what is not as expected is left aside
 * whole, and written anew. */
#ifndef KERNELS_GEMM_CHOICES_H
#define KERNELS_GEMM_CHOICES_H
#include "calib/backend.h"

typedef enum GemmEpilogue {
  GEMM_PLAIN,
  GEMM_BIAS,      // + bias [n]
  GEMM_BIAS_GELU, // gelu(… + bias), the tanh form
  GEMM_BIAS_RELU,
} GemmEpilogue;

typedef struct GemmShape {
  int32_t m, n, k;
  CalibDtype dtype; // of C, and of A and W where these are not of 8 bits
  GemmEpilogue epilogue;
  CalibWeights weights; // of A and W: e4m3 with scales (fp8.h), or not
} GemmShape;

bool gemm_shape_same(const GemmShape *a, const GemmShape *b);

enum { GEMM_CHOICE_NUMBERS = 9, GEMM_CHOICES_MOST = 1 << 13 };

typedef struct GemmChoice {
  GemmShape shape;
  uint32_t numbers[GEMM_CHOICE_NUMBERS];
  uint32_t candidates; // that it was the best of
} GemmChoice;

typedef struct GemmChoices GemmChoices;

/* Reads what is in `folder` of this device, and goes on with it. `ret_note` [note_size]: a line on
 * what is not used, or not kept, and why; "". Without a folder, NULL, nothing outlives the run. */
GemmChoices *gemm_choices_open(const char *folder, const CalibDevice *device, char *ret_note,
                               size_t note_size);
void gemm_choices_close(GemmChoices *self);
bool gemm_choices_find(const GemmChoices *self, const GemmShape *shape, GemmChoice *ret_choice);
/* In place of one of that shape, if there is one. A whole line at a time goes to the file. */
void gemm_choices_add(GemmChoices *self, const GemmChoice *choice);
#endif
