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

void perfmodel_scale(PerfModel *self, double scale, Arena *arena) {
  assert(scale >= TIME_SCALE_MIN && scale <= SLOWDOWN_MAX);
  if (scale == 1) return;
  const int64_t factor = llround(scale * 4294967296.0);
  const Scale by = {factor, (double)factor / 4294967296.0, arena};
  self->overhead = scaled_ticks(&by, self->overhead);
  self->eager = scaled_ticks(&by, self->eager);
  self->host_per_sequence = scaled_ticks(&by, self->host_per_sequence);
  self->send = scaled(&by, self->send);
  scale_curve(&by, &self->linear);
  scale_curve(&by, &self->spread);
  scale_curve(&by, &self->prefill_attention);
  scale_curve(&by, &self->head);
  scale_table(&by, &self->prefill_rows);
  scale_table(&by, &self->mixed_attention);
  scale_rows(&by, self);
  self->digest = hash_fold(self->digest, hash_bytes(&factor, sizeof factor));
}
