/* Fits the composed model of DESIGN §4 to one group of a profile, and says how good it is.
 *
 * A profile of whole iterations gives `linear`, `prefill_attention` and one slope or table of
 * `decode_attention`; the engine's own time is inside `linear`. A profile of operators gives each
 * term from its operator, and `overhead` last, from what its whole iterations took longer; without
 * any, from an engine preset. Replicates count once, by their median, and the loss is the sum of
 * squared relative errors (calibration study, 5.3). The number of knots is the smallest whose error
 * on held-out configurations is within one standard error of the least one. Equal inputs give equal
 * models: all that is drawn comes from `seed`. */
#ifndef PERFMODEL_FIT_H
#define PERFMODEL_FIT_H
#include "perfmodel/fit_search.h"

/* What is scored apart: iterations by what is in them, and operators. */
typedef enum FitPart {
  FIT_PREFILL,
  FIT_DECODE,
  FIT_MIXED,
  FIT_ALL_ITERATIONS,
  FIT_OPERATORS, // + ProfileOp
  FIT_PARTS = FIT_OPERATORS + PROFILE_OPS,
} FitPart;

/* "prefill", "decode", …, "linear". */
const char *fit_part_name(FitPart part);

/* Relative errors, as fractions; all NAN where nothing was scored. */
typedef struct FitScore {
  double mape, p95, worst;
  BatchShape worst_batch;
} FitScore;

typedef struct FitPartScores {
  int64_t rows, configurations;
  double noise;           // how far replicates are from their median
  FitScore train;         // of configurations, by the model that is kept
  FitScore random;        // of rows, five random 80:20 splits: replicates fall on both sides
  FitScore held_out;      // of configurations, each by a fit that never saw it
  FitScore held_out_size; // likewise, by a fit that saw none with as many tokens or sequences
} FitPartScores;

/* What an engine adds to its kernels where whole iterations do not say it. */
typedef struct FitOptions {
  const char *preset;            // its name, recorded
  bool ideal;                    // nothing, whatever was measured
  double overhead, per_sequence; // seconds, where no iteration was measured
  uint64_t seed;
} FitOptions;

typedef struct FitResult {
  ProfileGroup group;
  FitOptions options;
  bool whole; // from whole iterations
  FitModel model;
  FitPoint *points; // operators first, each ascending by batch
  int n_points;
  int64_t unused; // decode rows of unknown context
  FitPartScores parts[FIT_PARTS];
} FitResult;

/* 0, or −1 with entries when there is too little to fit. */
int fit_group(FitResult *self, const Profile *profile, const ProfileGroup *group,
              const FitOptions *options, Arena *arena, Diag *diag);
/* The part that a point is scored in. */
FitPart fit_part(ProfileOp op, const BatchShape *batch);
#endif
