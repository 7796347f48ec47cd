/* What is known of the error of iteration times, by the terms that they are the sum of.
 *
 * An error is a mean relative one, as a fraction, on what was measured and not fitted to. Errors
 * are correlated within a term and independent between terms: of an iteration in which term t has
 * the share s(t) of the time, the error is the root of the sum of (s(t) · e(t))². */
#ifndef PERFMODEL_TERM_ERRORS_H
#define PERFMODEL_TERM_ERRORS_H
#include "base/arena.h"
#include "base/diag.h"
#include "perfmodel/setup.h"

typedef enum PerfTerm {
  PERF_LINEAR, // without communication
  PERF_PREFILL_ATTENTION,
  PERF_DECODE_ATTENTION,
  PERF_HEAD,
  PERF_COMMUNICATION, // all-reduces, and the exchange of tokens between experts
  PERF_HOST,
  PERF_SUM, // of the terms together: what they miss of measured engines, or whole iterations
  PERF_TERMS,
} PerfTerm;
extern const char *const perf_term_names[PERF_TERMS + 1]; // NULL-terminated

typedef struct TermErrors {
  double of[PERF_TERMS]; // 0: none, or not known apart
} TermErrors;

/* Terms that a study moves together, and by how many of their errors. */
typedef enum TermMove {
  MOVE_LINEAR, // with the head
  MOVE_ATTENTION,
  MOVE_COMMUNICATION,
  MOVE_HOST,
  MOVE_SUM,
  TERM_MOVES,
  TERM_SCREENS = MOVE_SUM, // those that are moved one at a time
} TermMove;
extern const char *const term_move_names[TERM_MOVES + 1]; // NULL-terminated

typedef struct TermShifts {
  double by[TERM_MOVES]; // 0: as they are
} TermShifts;

static const double HOST_TIME_ERROR = 0.25; // not measured

/* The error of an iteration whose terms take `times`, in any unit. PERF_SUM is of the whole: its
 * time is not read. */
double term_errors_of(const TermErrors *self, const double times[PERF_TERMS]);
/* What a term is multiplied by. */
double term_factor(const TermErrors *self, const TermShifts *shifts, PerfTerm term);
TermMove term_move_of(PerfTerm term);
/* The largest error of the terms that are moved together. */
double term_errors_moved(const TermErrors *self, TermMove move);

/* How far models composed of tables were off on measured rows of an engine and a GPU:
 * (predicted − measured) / measured, between the lowest and the highest sixth, and the median. It
 * corrects no time. */
typedef struct Residual {
  int64_t rows; // 0: none is known
  const char *engine, *gpu;
  bool elsewhere; // none are of this engine and GPU: all rows there are
  double tpot_low, tpot_median, tpot_high, ttft_low, ttft_median, ttft_high;
} Residual;

/* Of data_dir/residuals.csv; no rows where there is no such file. 0, or −1 with entries. */
int residual_load(Residual *self, const PerfSetup *setup, const char *data_dir, Arena *arena,
                  Diag *diag);
/* Half of the range of TPOT. */
double residual_spread(const Residual *self);
/* "214 measured rows of vllm on h100-80gb". */
const char *residual_rows_text(const Residual *self, Arena *arena);
/* "TPOT was 3% low to 9% high (median 2% high), TTFT …". */
const char *residual_text(const Residual *self, Arena *arena);
#endif
