/* Where the knots of a fit go, for a given number of them.
 *
 * The knots of a curve come from dynamic programming over its samples: the cut into segments whose
 * own lines (gsl_fit_wlinear) miss least, at least two samples each; neighbouring lines meet in a
 * knot. In whole iterations a curve's samples are what the other terms leave, taken from a fit in
 * which `linear` has a knot at every measured count of tokens. Then all terms are solved together,
 * and each knot moves on a grid, the samples and the quarters between them, while that lowers the
 * error. Ties go to the cut further left and to the knot that is there: nothing is drawn. */
#ifndef PERFMODEL_FIT_SEARCH_H
#define PERFMODEL_FIT_SEARCH_H
#include "perfmodel/fit_model.h"

enum {
  FIT_SEGMENTS_MAX = 9,             // eight knots between the ends
  FIT_DENSE = FIT_SEGMENTS_MAX + 1, // of `linear` and `head`: a knot at every sample
};

/* Segments of each term's curve, of each row for decode_attention; 0: the term is none. Where every
 * prefill has more tokens than any decode has sequences, `linear` has knots of its own among the
 * decodes, whose kernels differ: `decode_segments` there, segments[PROFILE_LINEAR] among prefills,
 * and one line between.
 *
 * Of whole iterations segments[PROFILE_HEAD] is 1, a slope over the sequences that need logits, or
 * 0, in `linear`. `prefill_rows`: attention of prompts as rows over their tokens, each a line over
 * the mean span, in the place of one slope of the area. `mixed_rows`: decodes beside prefill as
 * rows over their number, each a line over their context with what the iteration takes longer for
 * being both. Each where at least two rows of iterations have two places of their line apart. */
typedef struct FitPlan {
  int segments[PROFILE_TERMS];
  int decode_segments;
  int prefill_rows, mixed_rows; // of whole iterations: 0 or 1
} FitPlan;

/* `points` are all whole iterations, or all of the one operator that the plan has. A curve with
 * fewer samples than two per segment gets fewer segments. */
void fit_build(FitModel *self, const FitPoint *points, int n_points, const FitPlan *plan,
               Arena *arena);
#endif
