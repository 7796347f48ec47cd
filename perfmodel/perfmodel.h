/* How long one iteration of a batch takes: a sum of terms, compiled to integers.
 *
 *   t = overhead + linear(P + n) + prefill_attention(2A) + decode_attention(n, C) + head(s)
 *
 * `linear`, `prefill_attention` and `head` are piecewise-linear curves; decode_attention is a row
 * per n, piecewise linear in C. prefill_attention may have rows over P instead, for which one long
 * prompt, many short ones and a chunk behind a long past differ. Where prefill and decodes share a
 * call of attention, these take mixed_attention(n, C) in the place of decode_attention: kernels for
 * long queries read KV once for each head and split no sequence.
 *
 * With R ranks of attention data parallelism an iteration takes as long as its busiest rank. Terms
 * are then of R times what that one has, as measured of R ranks that are equally busy: ⌈n / R⌉ of
 * the decodes, of as much context each, ⌈s / R⌉ of the logits, and the prompts that the batch says.
 * What is spread over all GPUs whoever's token it is, experts and the exchange of tokens around
 * them, is `spread`, of P + n. Decodes alone are padded to the busiest rank there, too.
 *
 * A compiled model answers by table look-up, the same on every compiler, and gives pure decode
 * iterations as arithmetic series: while C stays inside one piece, the iteration over C context
 * tokens lasts base + slope·(C − start).
 *
 * Terms are added up in FineTicks and rounded once, to the nearest tick; perfmodel_iteration of a
 * batch without prefill is the nearest tick of its piece. Slopes of pieces are rounded down to a
 * FineTick, so that no row falls: a million context tokens are less than 2^-12 ticks short.
 *
 * With captured sizes an iteration of decodes alone pays linear(m) for the m >= n that it is padded
 * to (captured.h). Attention sees the n that are there, and so does the head: logits are computed
 * of them, outside the graph. Rows keep their slopes in C, so runs are series as without.
 *
 * The `splitwise-sim` form instead has the released simulator's rules: prefill only: prefill(P);
 * decode only: decode(n); mixed: mixed_factor · prefill(P + n), with lines extended at both ends,
 * in doubles as it has them, and then to the nearest tick.
 * Its decode table starts at x = 128 but is looked up at the batch size, so most of its decode
 * iterations are flagged: that is the released tool's quirk, reported as what it is. */
#ifndef PERFMODEL_PERFMODEL_H
#define PERFMODEL_PERFMODEL_H
#include "base/option.h"
#include "base/units.h"
#include "perfmodel/captured.h"
#include "perfmodel/curve_table.h"
#include "perfmodel/setup.h"
#include "perfmodel/term_errors.h"

/* The numbers of one iteration, by the letters that stand for them everywhere. */
typedef struct BatchShape {
  int64_t prefill_tokens; // P: new tokens of prefill chunks
  int64_t prefill_area2;  // 2A = Σ new·(2·past + new) over chunks
  int64_t decode_seqs;    // n
  int64_t context_tokens; // C: Σ context of the decodes
  int64_t logit_seqs;     // s: sequences that need logits: decodes and prompts that end here
} BatchShape;

/* P and 2A of the chunks on the busiest rank of attention data parallelism, the most of each. */
typedef struct RankShare {
  int64_t prefill_tokens, prefill_area2;
} RankShare;

/* How many of n sequences `ranks` have that each have as many as the busiest; n for one. */
static inline int64_t ranks_padded(int64_t n, int64_t ranks) {
  return ranks > 1 ? (n + ranks - 1) / ranks * ranks : n;
}
/* The batch of `ranks` that are each as busy as the busiest of `self`; the same for one. Without
 * `busiest` its chunks are one prompt's, all on one rank. */
BatchShape batch_evened(const BatchShape *self, int64_t ranks, const RankShare *busiest);
/* Orders batches by their decodes, then by the rest. */
int batch_compare(const BatchShape *a, const BatchShape *b);

/* Decode iterations over context C, start <= C < end, last base + slope·(C − start). */
typedef struct DecodePiece {
  FineTick base, slope;
  int64_t start, end;
  Extrapolation extrapolation;
} DecodePiece;

/* Sources of kernels: the tables of engines that others measured, those of `tandem calibrate`, and
 * the facts of a machine. */
#define KERNELS_PUBLIC   "public"
#define KERNELS_TANDEM   "tandem"
#define KERNELS_ROOFLINE "roofline"

typedef enum PerfForm { PERF_COMPOSED, PERF_SPLITWISE_SIM } PerfForm;

typedef struct PerfModel {
  const char *name; // of its file, after the folder where it was looked for: SET/MODEL_GPU_tpN
  PerfSetup setup;  // what its file says it is of; zeroes of a roofline
  bool says_weights, says_kv_cache; // its file says their formats; else `setup` has bf16
  /* Of one that was looked for by its engine: what was found. Of a file by its path: what of it
   * does not match, or is not known. NULL of others. */
  const char *taken;
  const char *measured_on; // the machine, as the fit recorded it; NULL: unknown
  bool measured;           // false: computed from a machine's facts, a roofline
  /* Mean relative error of iterations that its fit did not see; NAN: unknown. Decides no time, so
   * it is not in the digest. */
  double held_out_error;
  /* The source of its times, where they are of kernels alone: a host time is added to them by it
   * (host_times.def). NULL: they are of whole iterations, whose host is in them, or not known. */
  const char *kernels;
  TermErrors errors; // by term; PERF_SUM where iterations alone are known
  Pwl communication; // of P + n, what of `linear` and `spread` it is; empty: none, or not known
  Residual residual; // of a composed one: on measured rows
  PerfForm form;
  Tick overhead;
  Pwl linear;                 // of P + n            | splitwise-sim: prefill(tokens)
  Pwl prefill_attention;      // of 2A; empty: none
  CurveTable prefill_rows;    // of P and the mean span, in its place; without rows: none
  CurveTable mixed_attention; // of n and C; without rows decode_attention times mixed_factor
  Pwl head;                   // of s; empty: none   | splitwise-sim: decode(n)
  double mixed_factor;        // composed: 0 is 1  | splitwise-sim: of mixed over prefill
  int64_t ranks;              // of attention data parallelism; 0 or 1: none
  Pwl spread;                 // of P + n beside linear, with ranks; empty: none
  Pwl experts;                // of P + n, what of `spread` routed experts are; empty: not known
  double busiest;             // GPU's load over the mean, that those are of (expert_balance.h)
  int64_t stages;             // of a pipeline, the last of which this is; 0 or 1: it is the whole
  FineTick send;              // per token, to the next stage
  CapturedSizes captured;     // composed only: what decodes alone are padded to
  Tick eager;                 // composed only: all layers (host_time.h); 0: none
  int64_t graph_tokens;       // likewise
  Tick host_per_sequence;     // likewise; `head` has it, as overhead what the host takes besides
  const struct PowerModel *power; // of its iterations (power.h); NULL: constants of a machine type
  // what perfmodel_compile made
  int64_t max_decode_seqs;   // rows compiled
  const DecodePiece *pieces; // all rows, one after the other, each over C from 0 to INT64_MAX
  const int32_t *row_first; // [max_decode_seqs + 2]: row n is row_first[n] … row_first[n + 1] − 1
  const FineTick *row_constant; // [max_decode_seqs + 1]: the part of row n's pieces that is not
                                // decode_attention: overhead + linear(m) + head(n)
  const FineTick *row_head;     // [max_decode_seqs + 1]: head(n)
  uint64_t digest;              // of all numbers above: equal when all times are
} PerfModel;

/* Takes out of `linear` of a model with ranks what is `spread`: of x tokens the share that `share`
 * says. Balanced iterations last as long as before. */
typedef double SpreadShare(const void *context, double tokens);
/* The curve whose knots are those of `curve` times what `share` says of their x. */
void perfmodel_share(Pwl *self, const Pwl *curve, SpreadShare *share, const void *context,
                     Arena *arena);
void perfmodel_spread(PerfModel *self, SpreadShare *share, const void *context, Arena *arena);

/* Fills the compiled part from the curves and `table` (used only during the call). */
void perfmodel_compile(PerfModel *self, const CurveTable *table, int64_t max_decode_seqs,
                       Arena *arena);

/* What row n of decodes takes beside attention, 1 <= n <= max_decode_seqs. */
FineTick perfmodel_row_constant(const PerfModel *self, int64_t n, FineTick head,
                                Extrapolation *ret_flag);

/* One iteration, to the nearest tick; the batch is not empty, decode_seqs <= max_decode_seqs.
 * Without prefill, logit_seqs is taken to be decode_seqs. `busiest`, with ranks, and
 * `ret_extrapolation` may be NULL. */
Tick perfmodel_iteration_on(const PerfModel *self, const BatchShape *batch,
                            const RankShare *busiest, Extrapolation *ret_extrapolation);
static inline Tick perfmodel_iteration(const PerfModel *self, const BatchShape *batch,
                                       Extrapolation *ret_extrapolation) {
  return perfmodel_iteration_on(self, batch, NULL, ret_extrapolation);
}

/* The terms of an iteration with prefill of a composed one, and what they are looked up at. */
typedef struct IterationTerms {
  BatchShape even; // with ranks that are as busy as the busiest
  FineTick linear, prefill, decode, head;
} IterationTerms;
IterationTerms perfmodel_terms(const PerfModel *self, const BatchShape *batch,
                               const RankShare *busiest);

/* A step of all ranks, each with its own batch: as long as that one would last of which all had as
 * much as the rank that takes longest, but that what is spread over all GPUs is of the tokens of
 * all. In steps of decodes alone all are padded to the captured size of the largest batch. */
typedef struct RanksTime {
  FineTick longest; // of a rank, without what is spread
  int64_t tokens;   // of all
  int64_t padded;   // of all, if each has as many as the one with the most
  bool prefills;
  Extrapolation extrapolation;
  const PerfModel *model; // of the newest
} RanksTime;

/* The batch of a further rank, whose decodes verify `drafts` tokens; `more` ticks follow that.
 * `self` begins as zeroes. */
void perfmodel_add_rank(RanksTime *self, const PerfModel *model, const BatchShape *batch,
                        int64_t drafts, Tick more);
/* Tokens of all of them that what is spread over all GPUs is of. */
static inline int64_t perfmodel_ranks_tokens(const RanksTime *self) {
  return self->prefills ? self->tokens : self->padded;
}
/* Of all that were added, to the nearest tick. */
Tick perfmodel_ranks(const RanksTime *self);

/* What `drafts` tokens more, that the decodes of a batch verify, add to its iteration: the layers'
 * products and the logits of them. Attention reads the context of a sequence once for all its
 * tokens, as it does for one. Of a composed one. */
Tick perfmodel_drafts(const PerfModel *self, const BatchShape *batch, int64_t drafts);
/* Passes of a drafter behind an iteration: over all its tokens, and over one token of each sequence
 * that has logits. A pass takes as long as one of the model's `n_layers`, on average, and the head;
 * no host. */
typedef struct DrafterPasses {
  int64_t all, one;
} DrafterPasses;
Tick perfmodel_drafter(const PerfModel *self, const BatchShape *batch, int64_t drafts,
                       DrafterPasses passes, int64_t n_layers);

/* Ticks of each of `n_stages` >= 2 pipeline stages but the last: its share of the layers; and in
 * `ret_last` of the last one, which has the head too. `self` is a model of one stage
 * (PerfModel.stages = n_stages) or of the whole, whose layers are then taken to be spread evenly;
 * its overhead is then paid in every stage. */
Tick perfmodel_stage(const PerfModel *self, const BatchShape *batch, const RankShare *busiest,
                     int64_t n_stages, Tick *ret_last, Extrapolation *ret_extrapolation);

/* The piece that the pure decode batch (n, C) falls in; 1 <= n <= max_decode_seqs, C >= 0. */
static inline const DecodePiece *perfmodel_decode(const PerfModel *self, int64_t n,
                                                  int64_t context) {
  const DecodePiece *piece = &self->pieces[self->row_first[n]];
  while (context >= piece->end)
    piece++; // the last piece of a row ends at INT64_MAX
  return piece;
}

static inline FineTick decode_piece_fine(const DecodePiece *piece, int64_t context) {
  return piece->base + piece->slope * (context - piece->start);
}

/* What decode iterations of one piece take in each of `n_stages` >= 2 stages: iteration i has the
 * layers + step·i, spread over `parts` stages, which are 2^shift unless that is -1. */
typedef struct DecodeStages {
  FineTick layers, step, overhead, head;
  int64_t parts;
  int shift;
} DecodeStages;

/* Of iterations of `seqs`, the first of which has `context`. */
static inline DecodeStages decode_stages_of(const PerfModel *self, const DecodePiece *piece,
                                            int64_t seqs, int64_t context, int64_t n_stages) {
  const FineTick overhead = fine_from_ticks(self->overhead), head = self->row_head[seqs];
  const int64_t parts = self->stages == n_stages ? 1 : n_stages;
  return (DecodeStages){.layers = decode_piece_fine(piece, context) - head - overhead,
                        .step = piece->slope * seqs,
                        .overhead = overhead,
                        .head = head,
                        .parts = parts,
                        .shift = parts & (parts - 1) ? -1 : __builtin_ctzll((uint64_t)parts)};
}

/* As perfmodel_stage says of the next of them, which is gone then. */
static inline Tick decode_stages_next(DecodeStages *self, Tick *ret_last) {
  const FineTick layers =
      self->shift >= 0 ? self->layers >> self->shift : fine_divide(self->layers, self->parts);
  const FineTick share = layers + self->overhead;
  self->layers += self->step;
  *ret_last = tick_nearest(share + self->head);
  return tick_nearest(share);
}

/* One pure decode iteration, to the nearest tick. */
static inline Tick perfmodel_decode_step(const PerfModel *self, int64_t seqs, int64_t context) {
  return tick_nearest(decode_piece_fine(perfmodel_decode(self, seqs, context), context));
}

/* One whole prompt alone on the machine: the unloaded reference of slowdowns. */
static inline Tick perfmodel_prefill(const PerfModel *self, int64_t prompt_tokens) {
  BatchShape batch = {.prefill_tokens = prompt_tokens,
                      .prefill_area2 = prompt_tokens * prompt_tokens,
                      .logit_seqs = 1};
  return perfmodel_iteration(self, &batch, NULL);
}

/* The tokens of prefill that saturate the machine: the fewest, of the powers of two, with which a
 * prompt alone has a throughput within a tenth of the best there is (TetriInfer §2.1, §3.3.3). */
int64_t perfmodel_saturation_tokens(const PerfModel *self);

/* Loads a model file (perfmodel/README.md describes the form) and compiles rows 1 …
 * max_decode_seqs. */
int perfmodel_load(PerfModel *self, const char *path, int64_t max_decode_seqs, Arena *arena,
                   Diag *diag);
/* The same of a text, which messages call `name`. */
int perfmodel_parse(PerfModel *self, const char *name, const char *text, size_t length,
                    int64_t max_decode_seqs, Arena *arena, Diag *diag);
#endif
