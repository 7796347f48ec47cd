/* The composed model while it is being fitted: curves of known knots and unknown times.
 *
 * Every predicted time is linear in the times at the knots, and all that physics demands (no time
 * below zero, no curve that falls, no row of decode_attention faster or in the end flatter than the
 * one of fewer sequences) is linear too, so one fit_solve finds all terms at once. Where whole
 * iterations were measured, prefill and decode share `linear`, and the curves of attention start at
 * zero: what no context costs cannot be told from `linear`. */
#ifndef PERFMODEL_FIT_MODEL_H
#define PERFMODEL_FIT_MODEL_H
#include "perfmodel/profile.h"

enum {
  FIT_KNOTS_MAX = 80, // of a curve, 48 of one that is searched for
  FIT_ROWS_MAX = 20,  // of a table, 12 of one that is searched for
  FIT_SEARCH_KNOTS = 48,
  FIT_SEARCH_ROWS = 12,
};

/* What a model has times of: the terms of profiles, and one that is measured in their sum only. */
typedef enum FitTerm {
  FIT_LINEAR = PROFILE_LINEAR,
  FIT_PREFILL_ATTENTION = PROFILE_PREFILL_ATTENTION,
  FIT_DECODE_ATTENTION = PROFILE_DECODE_ATTENTION,
  FIT_HEAD = PROFILE_HEAD,
  FIT_MIXED_ATTENTION = PROFILE_OPS, // of decodes in one call with prefill
} FitTerm;

typedef struct FitCurve {
  int n_knots;    // 0: the term is none
  bool from_zero; // takes no time at knot 0
  int n_decode;   // knots among the decodes, where they are apart: the last of them and the next
                  // one stay where they are
  int64_t x[FIT_KNOTS_MAX];
  double seconds[FIT_KNOTS_MAX];
  int64_t low, high; // the measured range
} FitCurve;

typedef struct FitRow {
  int64_t key;    // sequences, or tokens of prefill
  FitCurve curve; // over means (curve_table.h)
} FitRow;

typedef struct FitTable {
  FitRow rows[FIT_ROWS_MAX];
  int n_rows;
} FitTable;

/* curves[PROFILE_DECODE_ATTENTION] is the one curve of all rows where there are none: the source
 * did not vary the context at more than one number of sequences. Prefill has rows, and decodes
 * beside it times of their own, where tables say so. */
typedef struct FitModel {
  bool has_overhead; // a solve finds it; else it stays as it is, and iterations are their terms
  double overhead;   // seconds of every iteration
  FitCurve curves[PROFILE_TERMS]; // PROFILE_ITERATION is unused
  FitTable decode, prefill, mixed;
} FitModel;

/* What is fitted to: the replicates of one batch and operator as one. */
typedef struct FitPoint {
  ProfileOp op;
  BatchShape batch;
  double seconds; // their median
  double spread;  // mean distance from it, relative; of a row alone, that of its samples if known
  int64_t rows;
  double weight;   // of its squared relative error; 0 is 1
  double known;    // of its seconds: what terms that are fitted already take
  double held_out; // seconds by a fit that never saw it; NAN: there was nothing left to fit to
} FitPoint;

/* The key of a row of the term, and what its curve has its knots in. */
int64_t fit_key(FitTerm term, const BatchShape *batch);
int64_t fit_row_x(FitTerm term, const BatchShape *batch);
/* The nearest x that a row of a table may have a knot at: whole means of decodes, so that the sums
 * of a file give it again. */
int64_t fit_row_knot(FitTerm term, int64_t x);
/* What the curve of `op` has its knots in. */
int64_t fit_x(ProfileOp op, const BatchShape *batch);
/* Whether the time of `measured` contains the term of `op` for this batch. */
bool fit_has_term(ProfileOp measured, ProfileOp op, const BatchShape *batch);
/* Seconds of a batch: one term, or with PROFILE_ITERATION all and the overhead. */
double fit_eval(const FitModel *self, ProfileOp op, const BatchShape *batch);
/* Seconds of what was measured: attention of decodes with prefill is one call of both. */
double fit_point_eval(const FitModel *self, const FitPoint *point);
double fit_curve_eval(const FitCurve *self, int64_t x);
/* Finds all times at the knots, and the overhead if it has one, least in the weighted sum of
 * squared relative errors. Returns that sum. */
double fit_model_solve(FitModel *self, const FitPoint *points, int n_points, Arena *arena);
#endif
