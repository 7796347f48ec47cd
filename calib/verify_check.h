/* One comparison of a point with its reference: what verify.c and verify_terms.c share.
 *
 * The first call that fails decides `status`; those after it do nothing and hand out zeros, so that
 * a check is written straight down. */
#ifndef CALIB_VERIFY_CHECK_H
#define CALIB_VERIFY_CHECK_H
#include "base/arena.h"
#include "calib/reference.h"
#include "calib/verify.h"

typedef struct Check {
  const VerifyTarget *target;
  CalibPoint point;
  Arena *arena;
  CalibStatus status;
  char *error;
  double worst;         // of all rows so far
  CalibTensor worst_at; // and where that was
  bool is_compared;     // anything at all
} Check;

/* Rows of a tensor, or sequences of a batch. */
typedef struct CheckRows {
  const int64_t *at;
  int64_t n;
} CheckRows;

/* `first` … `first + n`. */
CheckRows check_range(Check *self, int64_t first, int64_t n);
/* At most `most` of 0 … n, evenly, the first and the last among them. */
CheckRows check_spread(Check *self, int64_t n, int64_t most);

/* Numbers in a row: by the model, whatever a backend says, which is compared with it before any
 * row is read or written. Of copies, and of logits, which may be a few more, by the backend. 0: the
 * model has no such tensor. */
int64_t check_columns(const Check *self, CalibTensor tensor);
/* An index among `n`, −1 where the number is none. */
int64_t check_index(double number, int64_t n);
/* A bias, or another vector: NULL where the model has none. */
const double *check_vector(Check *self, CalibTensor tensor, int32_t layer);
/* [rows][columns]. */
double *check_read(Check *self, CalibTensor tensor, int32_t layer, CheckRows rows);
/* Keys or values of one sequence, tokens first … first + n, to `ret` [n][columns]. */
void check_read_kv(Check *self, CalibTensor tensor, int32_t layer, int32_t sequence, int64_t first,
                   int64_t n, double *ret);
/* No numbers, or −1 where they are indices. */
void check_poison(Check *self, CalibTensor tensor, CheckRows rows);
void check_prepare(Check *self);
void check_run(Check *self);
/* Rows of the table of words and, where there is one, of positions, added up. */
double *check_embedded(Check *self, CheckRows rows);

/* An error at a tensor; one that is no number is infinite. */
void check_book(Check *self, CalibTensor tensor, double error);

/* Rows of `n` numbers as they are now, or of an output read already, against the reference. */
void check_compare(Check *self, CalibTensor tensor, const double *out, const double *reference,
                   int64_t rows, int64_t n);
void check_output(Check *self, CalibTensor tensor, CheckRows rows, const double *reference);
/* The index of the greatest logit of each row of `logits`, exactly. */
void check_best(Check *self, CheckRows rows, const double *logits);

/* The columns of a product that are compared: out [rows][columns of n] (verify.c). */
void check_product_columns(Check *self, CheckRows rows, const double *in, CalibTensor weights,
                           CalibTensor bias, CalibTensor out, bool is_active);

/* --- verify_moe.c: of a mixture of experts. Routes are compared exactly, products by the rows of
 * pairs. */
void check_moe_routing(Check *self);
void check_moe_product(Check *self);
void check_moe_combine(Check *self);
/* The experts of rows that an iteration took, [rows][num_experts_per_tok]: as they are, for the
 * reference to take, too, since another rounding picks others where two are nearly as good. */
int64_t *check_read_experts(Check *self, CheckRows rows);
/* How much worse by the reference's logits they are than the best, in units of four deviations of a
 * row's logits; infinite where one is taken twice. */
void check_experts(Check *self, const int64_t *experts, const double *logits, int64_t rows);

/* --- verify_terms.c: an iteration, or one of its terms. */
void check_terms(Check *self);
/* The batch of operators that take one; `room` for its sequences. */
enum { VERIFY_SEQUENCES = 9 };
CalibBatch verify_batch(const CalibModel *model, CalibSequence *room);
#endif
