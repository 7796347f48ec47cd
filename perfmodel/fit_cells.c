/* See fit_cells.h. */
#include "perfmodel/fit_cells.h"
#include <math.h>
#include <stdlib.h>

/* Spans are rounded down: that of a ray is met up to this share. */
static const double RAY_APART = 1e-3;

static const FitSample *last_of(const FitSpan *row) {
  return &row->first[row->n - 1];
}

/* The first sample at or behind x; NULL: none. */
static const FitSample *sample_from(const FitSpan *row, double x) {
  int low = 0, high = row->n;
  while (low < high) {
    const int middle = (low + high) / 2;
    if ((double)row->first[middle].x < x)
      low = middle + 1;
    else
      high = middle;
  }
  return low < row->n ? &row->first[low] : NULL;
}

/* ---- Between samples ---- */

static double line(double x0, double y0, double x1, double y1, double x) {
  return y0 + (x - x0) / (x1 - x0) * (y1 - y0);
}

static double row_between(const FitSpan *row, int64_t x) {
  const FitSample *upper = sample_from(row, (double)x);
  if (!upper || x < row->first->x) return INFINITY;
  if (upper->x == x) return upper->y;
  return line((double)upper[-1].x, upper[-1].y, (double)upper->x, upper->y, (double)x);
}

/* The nearest samples, at most `most`, on one side of a row (`step` −1 or 1) in the column of x, or
 * on its ray. Returns how many. */
static int beside(const FitSpan *rows, int n_rows, int row, int64_t x, int step, bool on_ray,
                  int most, const FitSample **ret_found) {
  const double key = (double)rows[row].first->key;
  int n = 0;
  for (int r = row + step; n < most && r >= 0 && r < n_rows; r += step) {
    const double share = on_ray ? (double)rows[r].first->key / key : 1;
    const double at = share * (double)x, apart = on_ray ? RAY_APART * at : 0;
    const FitSample *found = sample_from(&rows[r], at - apart);
    if (found && (double)found->x <= at + apart) ret_found[n++] = found;
  }
  return n;
}

static double across_between(const FitSpan *rows, int n_rows, int row, int64_t x, bool on_ray) {
  const FitSample *lower, *upper;
  if (beside(rows, n_rows, row, x, -1, on_ray, 1, &lower) == 0 ||
      beside(rows, n_rows, row, x, 1, on_ray, 1, &upper) == 0)
    return INFINITY;
  const double key = (double)rows[row].first->key;
  const double key0 = (double)lower->key, key1 = (double)upper->key;
  const double time = line(key0, lower->y, key1, upper->y, key);
  if (!on_ray) return time;
  return fmin(time, key * line(key0, lower->y / key0, key1, upper->y / key1, key));
}

/* ---- Beyond samples ---- */

/* The line of the last two rows in the column, which have fewer prompts of this length: a lower
 * bound. */
static double more_prompts(const FitSpan *rows, int row, int64_t x) {
  const FitSample *last = NULL;
  for (int r = row - 1; r >= 0; r--) {
    const FitSample *found = sample_from(&rows[r], (double)x);
    if (!found || found->x != x) continue;
    if (last)
      return line((double)found->key, found->y, (double)last->key, last->y,
                  (double)rows[row].first->key);
    last = found;
  }
  return last ? last->y : 0;
}

/* Behind the samples the line of the last quarter of the range, at least two samples. Before them
 * the time of the first, and of prefill no less than the line of the first two. */
static double row_beyond(const FitSpan *row, int64_t x, bool prefill) {
  const FitSample *s = row->first;
  int a = 0, b = row->n - 1;
  if (x <= s[0].x && !prefill) return s[0].y;
  if (x < s[0].x)
    for (b = 1; b + 1 < row->n && s[b].x < 2 * s[0].x; b++)
      ;
  else
    for (a = b - 1; a > 0 && 4 * s[a].x > 3 * s[b].x; a--)
      ;
  const double slope = (s[b].y - s[a].y) / (double)(s[b].x - s[a].x);
  const FitSample *from = x < s[0].x ? &s[0] : &s[b];
  return fmax(0, from->y + fmax(0, slope) * (double)(x - from->x));
}

/* The end of a row times what the nearest row that reaches x rises from there; INFINITY: none. */
static double like_beside(const FitSpan *rows, int n_rows, int row, int64_t x) {
  const FitSpan *own = &rows[row];
  const FitSample *end = x < own->first->x ? own->first : last_of(own);
  for (int apart = 1; apart < n_rows; apart++)
    for (int side = -1; side <= 1; side += 2) {
      const int r = row + side * apart;
      if (r < 0 || r >= n_rows || x > last_of(&rows[r])->x) continue;
      const double rise = row_between(&rows[r], x) / row_between(&rows[r], end->x);
      if (rise > 0 && !isinf(rise)) return end->y * rise;
    }
  return INFINITY;
}

/* ---- Between bounds ---- */

/* The line that the two nearest samples of its row on one side go on by to x; 0: fewer. */
static double row_goes_on(const FitSpan *row, int64_t x, int step) {
  const FitSample *s = row->first, *upper = sample_from(row, (double)x);
  const int behind = upper ? (int)(upper - s) : row->n;
  const int a = step < 0 ? behind - 1 : behind, b = a + step;
  if (b < 0 || b >= row->n) return 0;
  return line((double)s[a].x, s[a].y, (double)s[b].x, s[b].y, (double)x);
}

static double across_goes_on(const FitSpan *rows, int n_rows, int row, int64_t x, int step,
                             bool on_ray) {
  const FitSample *s[2];
  if (beside(rows, n_rows, row, x, step, on_ray, 2, s) < 2) return 0;
  return line((double)s[0]->key, s[0]->y, (double)s[1]->key, s[1]->y, (double)rows[row].first->key);
}

/* Half way from an upper bound to the greatest lower one. */
static double lower_half(const FitSpan *rows, int n_rows, int row, int64_t x, double upper) {
  double lower = 0;
  for (int step = -1; step <= 1; step += 2) {
    lower = fmax(lower, row_goes_on(&rows[row], x, step));
    for (int on_ray = 0; on_ray < 2; on_ray++)
      lower = fmax(lower, across_goes_on(rows, n_rows, row, x, step, on_ray));
  }
  return lower > 0 && lower < upper ? (lower + upper) / 2 : upper;
}

FitCell fit_cell(const FitSpan *rows, int n_rows, int row, int64_t x, bool prefill, bool sparse) {
  const FitSpan *own = &rows[row];
  const FitSample *at = sample_from(own, (double)x);
  const bool within = x >= own->first->x && x <= last_of(own)->x;
  if (at && at->x == x) return (FitCell){at->y, true};
  if (own->n == 1) return (FitCell){fit_cell(rows, n_rows, row + 1, x, prefill, sparse).y, false};
  double y = row_between(own, x);
  if (prefill || !within) y = fmin(y, across_between(rows, n_rows, row, x, false));
  if (prefill) y = fmin(y, across_between(rows, n_rows, row, x, true));
  if (prefill && sparse && !isinf(y)) y = lower_half(rows, n_rows, row, x, y);
  if (!isinf(y)) return (FitCell){y, true};
  y = like_beside(rows, n_rows, row, x);
  if (!isinf(y)) return (FitCell){y, false};
  y = row_beyond(own, x, prefill);
  if (prefill && x < own->first->x) y = fmax(y, more_prompts(rows, row, x));
  return (FitCell){y, false};
}
