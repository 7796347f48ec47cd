/* How long one iteration of a batch takes: the composed model of DESIGN §4, compiled to integers.
 *
 *   t = overhead + linear(P + n) + prefill_attention(A) + decode_attention(n, C) + head(s)
 *
 * `linear`, `prefill_attention` and `head` are integer piecewise-linear curves; decode_attention is
 * a row per n, piecewise linear in C. A compiled model answers by table look-up, in whole ticks,
 * the same on every compiler, and gives pure decode iterations as arithmetic series: while C stays
 * inside one piece, the iteration over C context tokens lasts base + slope·(C − start).
 * perfmodel_iteration of a batch without prefill equals that to the tick.
 *
 * The `splitwise-sim` form instead has the released simulator's rules: prefill only: prefill(P);
 * decode only: decode(n); mixed: mixed_factor · prefill(P + n), with lines extended at both ends
 * and no flags. */
#ifndef PERFMODEL_PERFMODEL_H
#define PERFMODEL_PERFMODEL_H
#include "perfmodel/pwl.h"
#include "sim/base/option.h"
#include "sim/base/units.h"

/* The numbers of one iteration (DESIGN §4). */
typedef struct BatchShape {
  int64_t prefill_tokens; // P: new tokens of prefill chunks
  int64_t prefill_area2;  // 2A = Σ new·(2·past + new) over chunks
  int64_t decode_seqs;    // n
  int64_t context_tokens; // C: Σ context of the decodes
  int64_t logit_seqs;     // s: sequences that need logits: decodes and prompts that end here
} BatchShape;

/* How far outside the measured range an iteration was. */
typedef enum Extrapolation {
  EXTRAPOLATION_NONE,
  EXTRAPOLATION_NEAR, // past the range, up to twice it
  EXTRAPOLATION_FAR,  // beyond that; the last slope still goes on
} Extrapolation;

/* Decode iterations over context C, start <= C < end, last base + slope·(C − start) ticks. */
typedef struct DecodePiece {
  int64_t start, end;
  Tick base, slope;
  Extrapolation extrapolation;
} DecodePiece;

typedef enum PerfForm { PERF_COMPOSED, PERF_SPLITWISE_SIM } PerfForm;

typedef struct PerfModel {
  const char *name;
  PerfForm form;
  Tick overhead;
  Pwl linear;              // of P + n            | splitwise-sim: prefill(tokens)
  Pwl prefill_attention;   // of 2A; empty: none
  Pwl head;                // of s; empty: none   | splitwise-sim: decode(n)
  double mixed_factor;     // splitwise-sim only
  int64_t max_decode_seqs; // rows compiled
  const DecodePiece
      *pieces; // all rows, one after the other; overhead + linear(n) + head(n) included
  const int32_t
      *row_first; // [max_decode_seqs + 2]: pieces of row n are row_first[n] … row_first[n+1] − 1
} PerfModel;

Tick perfmodel_iteration(const PerfModel *self, const BatchShape *batch,
                         Extrapolation *ret_extrapolation);

/* The piece that the pure decode batch (n, C) falls in; 1 <= n <= max_decode_seqs, C >= 0. */
static inline const DecodePiece *perfmodel_decode(const PerfModel *self, int64_t n,
                                                  int64_t context) {
  const DecodePiece *piece = &self->pieces[self->row_first[n]];
  while (context >= piece->end)
    piece++; // the last piece of a row ends at INT64_MAX
  return piece;
}

/* Loads a model file (perfmodel/README.md describes the form) and compiles rows 1 …
 * max_decode_seqs. */
int perfmodel_load(PerfModel *self, const char *path, int64_t max_decode_seqs, Arena *arena,
                   Diag *diag);
/* Finds the file of a set: `set` "fitted" or "splitwise-sim" gives
 * data_dir/fitted/SET/MODEL_GPU_tpN.yaml; a set that ends in .yaml is the path itself. Missing: a
 * located message that names the combinations there are. */
int perfmodel_load_for(PerfModel *self, const char *set, const char *model, const char *gpu,
                       int64_t tensor_parallel_size, int64_t max_decode_seqs, const char *data_dir,
                       Place at, Arena *arena, Diag *diag);
#endif
