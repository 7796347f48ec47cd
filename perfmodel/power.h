/* What a GPU draws while it does an iteration, by the terms of the iteration's time, and what a
 * limit of its power does to both.
 *
 * The power of an iteration is the mean of its terms' watts by their times, so that its energy is
 * the sum of watts times seconds. Watts of a term are a curve over what the term's time is of: new
 * tokens, 2A, context tokens, logits. They are of one GPU:
 *
 *   measured  of the tables of kernels whose watts were measured (compose/watts.h)
 *   batch     between the watts of reading memory and the limit, by the share of a term's time that
 *             grows with the batch: 1 − t(1)/t(x), what is not reading the weights. Attention of
 *             prompts is at the limit, that of decodes at the watts of memory, the host at idle.
 *
 * Under a limit a term that would draw W > cap runs at the share f of its clock of which
 *
 *   cap = idle + (W − idle)·f³       dynamic power is C·V²·f, with V in proportion to f
 *
 * and takes φ/f + (1 − φ)·max(1, m/f) as long: what computes, φ, by the clock, what reads memory
 * only once the clock is below m, the share at which the multiprocessors cannot ask for more.
 * φ is 1 of attention of prompts, 0 of that of decodes, else 1 − t(1)/t(x). The cube is the
 * textbook law (Weiser et al., OSDI 1994); tests/unit/test_power.c has measured caps beside it. */
#ifndef PERFMODEL_POWER_H
#define PERFMODEL_POWER_H
#include "perfmodel/hardware.h"
#include "perfmodel/perfmodel.h"

/* Shares of a GPU's limit. Idle: 123.9 W of 700 W, NVML of an idle H100 with a context. Memory,
 * where a machine type does not say it: of B200's kernels that read memory products of up to 64
 * tokens over matrices of 2^24 weights or more draw 0.59 (the median; 0.89 by their times) and
 * attention of decodes 0.44 (0.49). This is what lies between. */
static const double POWER_IDLE_SHARE = 0.18, POWER_MEMORY_SHARE = 0.65;
/* The mean relative error of GPUs by batch against NVML's single readings of an H100 with the
 * constants of dgx-h100; with POWER_MEMORY_SHARE it is 15% (tests/differential/nvml.c). */
static const double POWER_BATCH_ERROR = 0.18;
/* m above: half of the clock. Splitwise (Fig. 9) sees no effect on decodes at half of the power,
 * which is 0.73 of the clock; nobody has published where it begins. */
static const double POWER_MEMORY_CLOCK = 0.5;
/* The least limit that drivers take: 200 W of an H100's 700. */
static const double POWER_CAP_MIN = 0.28;

enum { POWER_OCTAVES = 48 };

/* At x = 2^i, linear between; left of 1 and beyond the last it holds. */
typedef struct PowerCurve {
  double at[POWER_OCTAVES];
} PowerCurve;

double power_curve_eval(const PowerCurve *self, int64_t x);

typedef struct PowerTerm {
  PowerCurve watts;   // of one GPU
  PowerCurve compute; // φ
  PowerCurve slowed;  // of its time under `cap`; never falls
} PowerTerm;

typedef struct PowerModel {
  double idle, limit;                      // W of one GPU
  double cap;                              // W; the limit: none
  PowerTerm linear, prefill, decode, head; // over P + n, 2A, C, s
  bool measured;                           // else by batch
  double error;                            // mean relative, of a GPU's power; NAN: not known
  const char *text;                        // where it is from, for notes
} PowerModel;

/* W of one GPU that reads memory: what the machine draws less in decodes than in prefill, less. */
double power_memory_watts(const Hardware *hardware);
/* By batch: of a compiled model whose host is not in it yet. `memory` in W. */
void power_by_batch(PowerModel *self, const PerfModel *model, double limit, double memory);
/* Sets a limit, POWER_CAP_MIN to 1 of the GPU's own, and what it does to times; 0 < cap. */
void power_limit(PowerModel *self, double cap);
/* How much longer a term takes that draws `watts` without a limit: 1 or more. */
double power_slowdown(const PowerModel *self, double watts, double compute);
/* The terms of a compiled model under the limit of its power, before its host is added. Without a
 * limit nothing changes, the digest neither. */
void perfmodel_cap(PerfModel *self, const PowerModel *power, Arena *arena);

/* ---- Of iterations ---- */

/* Milliwatts of one GPU, the mean of an iteration with prefill or of one asked for by itself. */
int64_t power_of_iteration(const PerfModel *model, const BatchShape *batch,
                           const RankShare *busiest);

/* Decodes alone over one piece of a model: `constant` ticks of an iteration at `constant_mw`, the
 * rest at `rest_mw`, so that iterations add up whatever the run that they are in. */
typedef struct DecodePower {
  Tick constant;
  int64_t constant_mw, rest_mw;
} DecodePower;

DecodePower power_of_decodes(const PerfModel *model, int64_t seqs, const DecodePiece *piece);

/* Milliwatt-ticks of n iterations that take `ticks` in all, whatever runs they are of. */
static inline Total decode_power_sum(DecodePower self, int64_t n, Total ticks) {
  return ticks * self.rest_mw + (Total)n * self.constant * (self.constant_mw - self.rest_mw);
}

/* Of milliwatt-ticks of one GPU. */
static inline double power_joules(Total milliwatt_ticks) {
  return (double)milliwatt_ticks / 1e3 / (double)TICKS_PER_SECOND;
}
#endif
