/* See table_rows.h. */
#include "perfmodel/table_rows.h"
#include "base/sort.h"
#include <math.h>

static double row_at(const RowKnots *row, int64_t x) {
  const PwlKnot *knots = row->knots;
  int i = 0;
  if (row->n == 1 || x <= knots[0].x) return knots[0].seconds;
  while (i + 2 < row->n && x >= knots[i + 1].x)
    i++;
  const double share = (double)(x - knots[i].x) / (double)(knots[i + 1].x - knots[i].x);
  const double rise = knots[i + 1].seconds - knots[i].seconds;
  if (x == knots[i + 1].x) return knots[i + 1].seconds;
  return fmin(knots[i].seconds + share * rise, tick_seconds(PWL_TICKS_MAX));
}

bool table_rows_init(TableRows *self, const RowKnots *rows, int n_rows, bool may_fall,
                     Arena *arena) {
  size_t n = 0;
  for (int r = 0; r < n_rows; r++)
    n += (size_t)rows[r].n;
  int64_t *x = ARENA_ARRAY(arena, int64_t, n);
  n = 0;
  for (int r = 0; r < n_rows; r++)
    for (int k = 0; k < rows[r].n; k++)
      x[n++] = rows[r].knots[k].x;
  n = sort_distinct(x, n);
  if (n * (size_t)n_rows > TABLE_ROWS_MAX) return false;
  *self = (TableRows){n_rows,
                      (int)n,
                      may_fall,
                      x,
                      ARENA_ARRAY(arena, Tick, n * (size_t)n_rows),
                      ARENA_ARRAY(arena, double, n *(size_t)n_rows)};
  for (int i = 0; i < n_rows * self->n; i++) {
    self->seconds[i] = row_at(&rows[i / self->n], x[i % self->n]);
    self->ticks[i] = tick_from_seconds(self->seconds[i]);
  }
  return true;
}

enum {
  SLACK_SHARE = 50000, // digits of files, and what solvers leave
  EQUAL_SHARE = 1000,  // rows of prefill no further below the one before are equal to it
};

static bool is_last(const TableRows *self, int row) {
  return row + 1 == self->n_rows;
}

/* Whether the row has to stay above the one before. */
static bool must_lie_above(const TableRows *self, int row) {
  return row > 0 && (!self->may_fall || is_last(self, row));
}

/* Whether the row must rise as the one before does, up to this knot. */
static bool must_be_as_steep(const TableRows *self, int row, int knot) {
  return row > 0 && knot > 0 && (knot + 1 == self->n || (is_last(self, row) && !self->may_fall));
}

static bool must_rise(const TableRows *self, int knot) {
  return knot > 0 && (knot + 1 == self->n || !self->may_fall);
}

TableFault table_rows_fault(const TableRows *self, int row, int64_t *ret_x) {
  const Tick *ticks = &self->ticks[row * self->n], *before = ticks - self->n;
  TableFault fault = TABLE_SOUND;
  for (int k = self->n - 1; k >= 0 && must_lie_above(self, row); k--) {
    const Tick slack = 2 + ticks[k] / SLACK_SHARE; // four knots are half a tick off each
    const bool at_the_end = k + 1 == self->n, falls = ticks[k] < before[k] - slack;
    const bool nears = must_be_as_steep(self, row, k) &&
                       ticks[k] - ticks[k - 1] < before[k] - before[k - 1] - slack;
    if (!falls && (!nears || (fault == TABLE_FALLS_BELOW && !at_the_end))) continue;
    fault = falls || at_the_end ? TABLE_FALLS_BELOW : TABLE_APPROACHES;
    *ret_x = self->x[fault == TABLE_APPROACHES ? k - 1 : k];
  }
  return fault;
}

/* The least time at a knot, by the row before. */
static Tick least_above(const TableRows *self, int row, int knot) {
  const Tick *at = &self->ticks[row * self->n + knot], *before = at - self->n;
  if (row == 0) return 0;
  Tick least = *before;
  if (must_be_as_steep(self, row, knot) && at[-1] + before[0] - before[-1] > least)
    least = at[-1] + before[0] - before[-1];
  return must_lie_above(self, row) || least - *at <= least / EQUAL_SHARE ? least : 0;
}

void table_rows_settle(TableRows *self) {
  for (int i = 0; i < self->n_rows * self->n; i++) {
    const int row = i / self->n, k = i % self->n;
    const Tick *at = &self->ticks[i];
    Tick least = least_above(self, row, k);
    if (must_rise(self, k) && at[-1] > least) least = at[-1];
    if (*at >= least) continue;
    self->ticks[i] = least;
    self->seconds[i] = tick_seconds(least);
  }
}
