/* See curve_table.h. */
#include "perfmodel/curve_table.h"

RowMix curve_table_mix(const CurveTable *self, int64_t key) {
  const CurveRow *rows = self->rows;
  int32_t i = 0;
  while (i + 2 < self->n_rows && key > rows[i + 1].key)
    i++;
  if (self->n_rows == 1 || key <= rows[0].key) return (RowMix){&rows[0], &rows[0], 0, 1};
  return (RowMix){&rows[i], &rows[i + 1], key - rows[i].key, rows[i + 1].key - rows[i].key};
}

static FineTick mix_values(const RowMix *self, FineTick lower, FineTick upper, FineTick most) {
  const FineTick value = lower + (upper - lower) * self->numerator / self->denominator;
  return value < 0 ? 0 : value > most ? most : value;
}

FineTick row_mix_fine(const RowMix *self, int64_t x) {
  return mix_values(self, pwl_fine(&self->lower->curve, x), pwl_fine(&self->upper->curve, x),
                    fine_from_ticks(PWL_TICKS_MAX));
}

static int64_t mix_bounds(const RowMix *self, int64_t lower, int64_t upper) {
  return (int64_t)mix_values(self, lower, upper, PWL_TICKS_MAX);
}

int64_t row_mix_low(const RowMix *self) {
  return mix_bounds(self, self->lower->curve.low, self->upper->curve.low);
}

int64_t row_mix_high(const RowMix *self) {
  return mix_bounds(self, self->lower->curve.high, self->upper->curve.high);
}

int64_t curve_table_x(const CurveTable *self, int64_t key, int64_t sum) {
  return self->spans ? mean_span(sum, key) : sum;
}

int64_t curve_table_sum(const CurveTable *self, int64_t key, int64_t x) {
  return self->spans ? span_total(x, key) : x;
}

FineTick curve_table_fine(const CurveTable *self, int64_t key, int64_t sum,
                          Extrapolation *ret_flag) {
  *ret_flag = EXTRAPOLATION_NONE;
  if (self->n_rows == 0) return 0;
  const int64_t x = curve_table_x(self, key, sum);
  const RowMix mix = curve_table_mix(self, key);
  *ret_flag = extrapolation_worse(extrapolation_of(self->low, self->high, key),
                                  extrapolation_of(row_mix_low(&mix), row_mix_high(&mix), x));
  return row_mix_fine(&mix, x);
}

int64_t mean_span(int64_t sum, int64_t key) {
  const Wide span = (Wide)sum * SPAN_STEPS / key;
  return span > PWL_TICKS_MAX ? PWL_TICKS_MAX : (int64_t)span;
}

int64_t span_total(int64_t span, int64_t key) {
  return (int64_t)(((Wide)span * key + SPAN_STEPS - 1) / SPAN_STEPS);
}
