/* Fits the composed model (perfmodel.h) to one group of a profile, and says how good it is.
 *
 * A profile of whole iterations gives `linear`, `prefill_attention` and one slope or table of
 * `decode_attention`; the engine's own time is inside `linear`. A profile of operators gives each
 * term from its operator; its whole iterations then give `overhead`, and the level of the terms
 * where their sum misses (fit_join.h). Without any, `overhead` is 0. Replicates
 * count once, by their median, and the loss is the sum of squared relative errors (calibration
 * study, 5.3). The number of knots is the smallest whose error on held-out configurations is within
 * one standard error of the least one. Equal inputs give equal models: all that is drawn comes from
 * `seed`. */
#ifndef PERFMODEL_FIT_H
#define PERFMODEL_FIT_H
#include "perfmodel/fit_join.h"
#include "perfmodel/fit_rows.h"
#include "perfmodel/fit_search.h"

/* What is scored apart: iterations by what is in them, and operators. */
typedef enum FitPart {
  FIT_PREFILL,
  FIT_DECODE,
  FIT_MIXED,
  FIT_ALL_ITERATIONS,
  FIT_OPERATORS,                                       // + ProfileOp
  FIT_MIXED_OPERATORS = FIT_OPERATORS + PROFILE_TERMS, // prefill and decodes in one call
  FIT_PARTS,
} FitPart;

/* "prefill", "decode", …, "linear". */
const char *fit_part_name(FitPart part);

/* Relative errors, as fractions; all NAN where nothing was scored. */
typedef struct FitScore {
  double mape, p95, worst;
  BatchShape worst_batch;
} FitScore;

typedef struct FitPartScores {
  int64_t rows, configurations; // iterations without rows are composed (fit_compose.h)
  double noise;                 // how far replicates are from their median
  FitScore train;               // of configurations, by the model that is kept
  FitScore random;              // of rows, five random 80:20 splits: replicates fall on both sides
  FitScore held_out;            // of configurations, each by a fit that never saw it
  FitScore held_out_size;       // likewise, by a fit that saw none with as many tokens or sequences
} FitPartScores;

typedef struct FitOptions {
  const char *preset;      // the engine that was measured, recorded; ideal: kernels alone
  bool ideal;              // whole iterations beside operators are not used
  const char *mode;        // graph or eager, where rows are of both; NULL: graph
  FitAllReduce all_reduce; // of rows that have none
  uint64_t seed;
  bool held_out_alone; // of the scores
} FitOptions;

typedef struct FitResult {
  ProfileGroup group;
  FitOptions options;
  bool whole;  // from whole iterations
  bool tables; // some terms follow tables: they are written a row to a line
  bool joined; // from operators and iterations, in this way
  FitWay way;
  FitLevels levels;
  FitModel model;
  FitPoint *points; // operators first, each ascending by batch; with the all-reduces added to them
  int n_points;
  FitLeftOut left_out;
  FitSustained *sustained;
  int n_sustained;
  const char *all_reduce; // where all-reduces came from, a phrase; NULL: none were lacking
  bool lacks_all_reduce;  // they are in no term
  FitPartScores parts[FIT_PARTS];
} FitResult;

/* 0, or −1 with entries when there is too little to fit. */
int fit_group(FitResult *self, const Profile *profile, const ProfileGroup *group,
              const FitOptions *options, Arena *arena, Diag *diag);
/* The part that a point is scored in. */
FitPart fit_part(ProfileOp op, const BatchShape *batch);
#endif
