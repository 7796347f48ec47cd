/* See time_scale.h. Bases and slopes are rounded down alike, so that what did not fall does not
 * fall: k·floor(slope) + floor(base) is at most floor(base + k·slope). */
#include "perfmodel/time_scale.h"
#include "base/hash.h"
#include <assert.h>
#include <math.h>

/* A factor in 2^-32. */
typedef struct Scale {
  int64_t factor;
  double real;
  Arena *arena;
} Scale;

static FineTick scaled(const Scale *scale, FineTick fine) {
  const Tick whole = (Tick)(fine >> FINE_BITS);
  const FineTick rest = (FineTick)(uint32_t)fine * scale->factor;
  const FineTick product = (FineTick)whole * scale->factor + (rest >> FINE_BITS);
  const FineTick most = fine_from_ticks(TICK_MAX); // of sums of terms at PWL_TICKS_MAX
  return product < most ? product : most;
}

static Tick scaled_ticks(const Scale *scale, Tick ticks) {
  return tick_nearest(scaled(scale, fine_from_ticks(ticks)));
}

static void scale_curve(const Scale *scale, Pwl *curve) {
  const int32_t n = curve->n_segments;
  if (curve->knots) {
    PwlKnot *knots = ARENA_ARRAY(scale->arena, PwlKnot, n);
    for (int32_t i = 0; i < n; i++)
      knots[i] = (PwlKnot){curve->knots[i].x, curve->knots[i].seconds * scale->real};
    curve->knots = knots;
    return;
  }
  PwlSegment *segments = ARENA_ARRAY(scale->arena, PwlSegment, n);
  for (int32_t i = 0; i < n; i++) {
    segments[i] = curve->segments[i];
    segments[i].base = scaled(scale, segments[i].base);
    segments[i].slope *= scale->real;
  }
  curve->segments = segments;
}

static void scale_table(const Scale *scale, CurveTable *table) {
  CurveRow *rows = ARENA_ARRAY(scale->arena, CurveRow, table->n_rows);
  for (int32_t i = 0; i < table->n_rows; i++) {
    rows[i] = table->rows[i];
    scale_curve(scale, &rows[i].curve);
  }
  table->rows = rows;
}

/* Rows of decodes, and what of them is not attention. */
static void scale_rows(const Scale *scale, PerfModel *self) {
  const int64_t n_rows = self->max_decode_seqs;
  const int32_t n_pieces = self->row_first[n_rows + 1];
  DecodePiece *pieces = ARENA_ARRAY(scale->arena, DecodePiece, n_pieces);
  FineTick *constants = ARENA_ARRAY(scale->arena, FineTick, n_rows + 1);
  FineTick *heads = ARENA_ARRAY(scale->arena, FineTick, n_rows + 1);
  for (int32_t i = 0; i < n_pieces; i++) {
    pieces[i] = self->pieces[i];
    pieces[i].base = scaled(scale, pieces[i].base);
    pieces[i].slope = scaled(scale, pieces[i].slope);
  }
  for (int64_t n = 1; n <= n_rows; n++) {
    constants[n] = scaled(scale, self->row_constant[n]);
    heads[n] = scaled(scale, self->row_head[n]);
  }
  self->pieces = pieces;
  self->row_constant = constants;
  self->row_head = heads;
}

static Scale scale_of(double scale, Arena *arena) {
  assert(scale >= TIME_SCALE_MIN && scale <= SLOWDOWN_MAX);
  const int64_t factor = llround(scale * 4294967296.0);
  return (Scale){factor, (double)factor / 4294967296.0, arena};
}

void perfmodel_scale(PerfModel *self, double scale, Arena *arena) {
  if (scale == 1) return;
  const Scale by = scale_of(scale, arena);
  self->overhead = scaled_ticks(&by, self->overhead);
  self->eager = scaled_ticks(&by, self->eager);
  self->host_per_sequence = scaled_ticks(&by, self->host_per_sequence);
  self->send = scaled(&by, self->send);
  scale_curve(&by, &self->linear);
  scale_curve(&by, &self->spread);
  scale_curve(&by, &self->experts);
  scale_curve(&by, &self->communication);
  scale_curve(&by, &self->prefill_attention);
  scale_curve(&by, &self->head);
  scale_table(&by, &self->prefill_rows);
  scale_table(&by, &self->mixed_attention);
  scale_rows(&by, self);
  self->digest = hash_fold(self->digest, hash_bytes(&by.factor, sizeof by.factor));
}

/* ---- Terms ---- */

typedef struct LinearMove {
  Pwl linear, spread, communication; // as they are
  double products, exchange;         // factors of the two
} LinearMove;

/* Fits SpreadShare. */
static double linear_factor(const void *context, double tokens) {
  const LinearMove *self = context;
  const int64_t x = (int64_t)tokens;
  const double all = fine_ticks(pwl_fine(&self->linear, x) + pwl_fine(&self->spread, x));
  const double exchange = fine_ticks(pwl_fine(&self->communication, x));
  const double share = all > 0 ? fmin(1, exchange / all) : 0;
  return self->products + share * (self->exchange - self->products);
}

static void scale_linear(PerfModel *self, const double *factors, Arena *arena) {
  const LinearMove move = {self->linear, self->spread, self->communication, factors[PERF_LINEAR],
                           factors[PERF_COMMUNICATION]};
  if (self->linear.n_segments > 0)
    perfmodel_share(&self->linear, &move.linear, linear_factor, &move, arena);
  const Scale experts = scale_of(factors[PERF_LINEAR], arena);
  scale_curve(&experts, &self->experts);
  const Scale exchange = scale_of(factors[PERF_COMMUNICATION], arena);
  scale_curve(&exchange, &self->communication);
  if (self->spread.n_segments > 0)
    perfmodel_share(&self->spread, &move.spread, linear_factor, &move, arena);
}

/* Rows anew: attention by its factor, the rest as its curves have become. */
static void scale_row_terms(const Scale *decode, PerfModel *self) {
  const int64_t n_rows = self->max_decode_seqs;
  const int32_t *first = self->row_first;
  DecodePiece *pieces = ARENA_ARRAY(decode->arena, DecodePiece, first[n_rows + 1]);
  FineTick *constants = ARENA_ARRAY(decode->arena, FineTick, n_rows + 1);
  FineTick *heads = ARENA_ARRAY(decode->arena, FineTick, n_rows + 1);
  for (int64_t n = 1; n <= n_rows; n++) {
    Extrapolation flag;
    heads[n] = pwl_fine(&self->head, ranks_padded(n, self->ranks));
    constants[n] = perfmodel_row_constant(self, n, heads[n], &flag);
    for (int32_t i = first[n]; i < first[n + 1]; i++) {
      pieces[i] = self->pieces[i];
      pieces[i].base = constants[n] + scaled(decode, pieces[i].base - self->row_constant[n]);
      pieces[i].slope = scaled(decode, pieces[i].slope);
    }
  }
  self->pieces = pieces;
  self->row_constant = constants;
  self->row_head = heads;
}

void perfmodel_scale_terms(PerfModel *self, const double factors[PERF_TERMS], Arena *arena) {
  bool any = false;
  for (int t = 0; t < PERF_HOST; t++)
    any |= factors[t] != 1;
  if (!any) return;
  assert(self->form == PERF_COMPOSED);
  const Scale prefill = scale_of(factors[PERF_PREFILL_ATTENTION], arena);
  const Scale decode = scale_of(factors[PERF_DECODE_ATTENTION], arena);
  const Scale head = scale_of(factors[PERF_HEAD], arena);
  scale_linear(self, factors, arena);
  scale_curve(&prefill, &self->prefill_attention);
  scale_table(&prefill, &self->prefill_rows);
  scale_curve(&head, &self->head);
  scale_table(&decode, &self->mixed_attention);
  scale_row_terms(&decode, self);
  self->digest = hash_fold(self->digest, hash_bytes(factors, PERF_HOST * sizeof *factors));
}
