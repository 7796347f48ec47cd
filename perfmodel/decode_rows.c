/* See decode_rows.h. */
#include "perfmodel/decode_rows.h"

static Tick tick_max(Tick a, Tick b) {
  return a > b ? a : b;
}

void decode_rows_settle(int n_rows, int n, Tick *ticks) {
  for (int r = 0; r < n_rows; r++) {
    Tick *row = &ticks[(ptrdiff_t)r * n];
    const Tick *before = r > 0 ? row - n : NULL;
    for (int k = 0; k < n; k++) {
      const bool as_steep = before && k > 0 && (k + 1 == n || r + 1 == n_rows);
      row[k] = tick_max(row[k], before ? before[k] : 0);
      if (k > 0) row[k] = tick_max(row[k], row[k - 1]);
      if (as_steep) row[k] = tick_max(row[k], row[k - 1] + before[k] - before[k - 1]);
    }
  }
}

static FineTick rows_apart(const DecodeRow *row, const DecodeRow *before, int64_t context) {
  return pwl_fine(&row->curve, context) - pwl_fine(&before->curve, context);
}

/* Whether two rows come closer between two contexts, by more than rounding knots may. */
static bool approach(const DecodeRow *row, const DecodeRow *before, int64_t from, int64_t to) {
  const FineTick apart = rows_apart(row, before, from);
  return rows_apart(row, before, to) < apart - fine_from_ticks(1);
}

int64_t decode_row_falls_below(const DecodeRow *row, const DecodeRow *before) {
  const Pwl *curves[] = {&row->curve, &before->curve};
  int64_t last = 0;
  for (int c = 0; c < 2; c++) {
    for (int32_t i = 0; i < curves[c]->n_segments; i++) {
      const PwlSegment *segment = &curves[c]->segments[i];
      if (segment->start + segment->run > last) last = segment->start + segment->run;
      if (pwl_eval(&row->curve, segment->start) < pwl_eval(&before->curve, segment->start))
        return segment->start;
    }
  }
  return approach(row, before, last, 2 * last) ? last : -1;
}

int64_t decode_rows_approach(const DecodeRow *row, const DecodeRow *before) {
  const Pwl *curves[] = {&row->curve, &before->curve};
  int64_t found = -1;
  for (int c = 0; c < 2; c++) {
    for (int32_t i = 0; i < curves[c]->n_segments; i++) {
      int64_t from = curves[c]->segments[i].start, to = from;
      for (int other = 0; other < 2; other++)
        for (int32_t k = 0; k < curves[other]->n_segments; k++) {
          int64_t start = curves[other]->segments[k].start;
          if (start > from && (to == from || start < to)) to = start;
        }
      if (approach(row, before, from, to) && (found < 0 || from < found)) found = from;
    }
  }
  return found;
}
