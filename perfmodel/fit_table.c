/* Grids of times: collected, made to rise, thinned, and written as knots. */
#include "perfmodel/fit_table.h"
#include "base/sort.h"
#include "perfmodel/fit_cells.h"
#include "perfmodel/table_rows.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  FOLLOWED_LEAST = 12,
  GRID_MAX = 24,    // knots of all rows of a table together
  KEYS_MAX = 64,    // that are looked at
  CANDIDATES = 192, // x that are
  PASSES = 4,       // of pooling along rows and across them
};
_Static_assert((int)CANDIDATES <= (int)FIT_POOLED_MAX, "the grid has longer series");
static const double NOISE_MOST = 0.01;  // on average, of what is followed
static const double TABLE_APART = 1.04; // x of rows that are nearer become one
/* What is left out may be missed by so much: curves of one variable are most of an iteration, and
 * attention of both depends on more than its table. */
static const double LINEAR_TOLERANCE = 0.003, HEAD_TOLERANCE = 0.01, TABLE_TOLERANCE = 0.025,
                    MIXED_TOLERANCE = 0.06;
/* A row of a table has no knots of its own where lines are so near. */
static const double ROW_TOLERANCE = 0.005;
/* Times of prompts that fall with tokens by less do so by noise. */
static const double FALLS = 0.1;

const char fit_grid_few[] = "each point once, few of them";

bool fit_is_table(const FitPoint *points, int n_points, int least) {
  for (int i = 0; i < n_points; i++)
    if (points[i].rows > 1 || points[i].spread > 0) return false;
  return n_points >= least;
}

bool fit_table_can(FitTerm term, const FitPoint *points, int n_points) {
  double noise = 0;
  for (int i = 0; i < n_points; i++)
    noise += points[i].spread;
  return term != FIT_LINEAR && term != FIT_HEAD && n_points >= FOLLOWED_LEAST &&
         noise < NOISE_MOST * n_points;
}

/* ---- Samples ---- */

static int compare_samples(const void *a, const void *b) {
  const FitSample *s = a, *t = b;
  const int64_t pairs[][2] = {{s->key, t->key}, {s->x, t->x}};
  const int order = compare_pairs(pairs, 2);
  return order ? order : (s->y > t->y) - (s->y < t->y);
}

/* Sorted, with the weighted mean where several are at one place. Returns how many. */
static int collect(FitTerm term, const FitPoint *points, int n_points, FitSample *ret_samples) {
  for (int i = 0; i < n_points; i++) {
    const FitPoint *point = &points[i];
    ret_samples[i] =
        (FitSample){fit_key(term, &point->batch), fit_row_x(term, &point->batch),
                    fmax(0, point->seconds - point->known), 1 / (point->seconds * point->seconds)};
  }
  sort_items(ret_samples, (size_t)n_points, sizeof *ret_samples, compare_samples);
  int n = 0;
  for (int i = 0; i < n_points; i++) {
    FitSample *last = n > 0 ? &ret_samples[n - 1] : NULL;
    const FitSample *next = &ret_samples[i];
    if (!last || last->key != next->key || last->x != next->x) {
      ret_samples[n++] = *next;
      continue;
    }
    const double sum = last->weight + next->weight;
    last->y += next->weight / sum * (next->y - last->y);
    last->weight = sum;
  }
  return n;
}

/* The samples of each key. Returns how many keys there are. */
static int find_rows(const FitSample *samples, int n, FitSpan *ret_rows) {
  int rows = 0;
  for (int first = 0, end = 0; first < n; first = end) {
    while (end < n && samples[end].key == samples[first].key)
      end++;
    ret_rows[rows++] = (FitSpan){&samples[first], end - first};
  }
  return rows;
}

/* The rows of the grid: without those that have less than a quarter of the longest one's samples,
 * and of more than KEYS_MAX every some. `alone`: the first row may have one sample if
 * the next has more. Returns how many; `ret_kept` has room for all. */
static int keep_rows(const FitSpan *rows, int n_rows, bool alone, int *ret_kept) {
  int least = 0, n = 0, kept = 0;
  for (int r = 0; r < n_rows; r++)
    if (rows[r].n / 4 > least) least = rows[r].n / 4;
  alone = alone && n_rows > 1 && rows[1].n >= 2;
  for (int r = 0; r < n_rows; r++)
    if (rows[r].n >= least && (rows[r].n >= 2 || (alone && r == 0))) ret_kept[n++] = r;
  if (n <= KEYS_MAX) return n;
  for (; kept < KEYS_MAX; kept++)
    ret_kept[kept] = ret_kept[(int64_t)kept * (n - 1) / (KEYS_MAX - 1)];
  return kept;
}

/* ---- The grid ---- */

typedef struct Grid {
  int n_rows, n; // n: x
  int64_t *keys, *x;
  bool may_fall;       // along rows
  double *y;           // [n_rows][n]
  bool *known;         // [n_rows][n]: measured, or between cells that were
  int64_t *low, *high; // of each row
  double *weight;      // [n_rows][n]
} Grid;

/* All x, of rows that are not kept as well, and where `sparse` those of prompts without a past;
 * neighbours within a share of one another as the first of them. */
static int64_t *candidates_of(const FitSpan *rows, int n_rows, int n_samples, FitTerm term,
                              bool sparse, int *ret_n, Arena *arena) {
  const bool one_row = term == FIT_LINEAR || term == FIT_HEAD;
  double apart = one_row ? 1 : TABLE_APART;
  int64_t *x = ARENA_ARRAY(arena, int64_t, n_samples + n_rows + 1);
  size_t n = 0;
  for (int r = 0; r < n_rows && sparse && term == FIT_PREFILL_ATTENTION; r++)
    x[n++] = rows[r].first->key * SPAN_STEPS;
  for (int r = 0; r < n_rows; r++)
    for (int i = 0; i < rows[r].n; i++)
      x[n++] = one_row ? rows[r].first[i].x : fit_row_knot(term, rows[r].first[i].x);
  n = sort_distinct(x, n);
  for (bool first = apart > 1; first || n > CANDIDATES; apart *= 1.02, first = false) {
    size_t kept = 1;
    for (size_t i = 1; i < n; i++)
      if ((double)x[i] > apart * (double)x[kept - 1] || i + 1 == n) x[kept++] = x[i];
    n = kept;
  }
  *ret_n = (int)n;
  return x;
}

static Grid grid_new(const FitSpan *rows, int n_rows, int n_samples, FitTerm term, bool sparse,
                     Arena *arena) {
  const bool prefill = term == FIT_PREFILL_ATTENTION;
  int *kept = ARENA_ARRAY(arena, int, n_rows + 1);
  Grid grid = {.n_rows = keep_rows(rows, n_rows, sparse && prefill, kept), .may_fall = prefill};
  if (grid.n_rows == 0) return grid;
  grid.x = candidates_of(rows, n_rows, n_samples, term, sparse, &grid.n, arena);
  const int cells = grid.n_rows * grid.n;
  grid.keys = ARENA_ARRAY(arena, int64_t, grid.n_rows);
  grid.low = ARENA_ARRAY(arena, int64_t, grid.n_rows);
  grid.high = ARENA_ARRAY(arena, int64_t, grid.n_rows);
  grid.y = ARENA_ARRAY(arena, double, cells);
  grid.weight = ARENA_ARRAY(arena, double, cells);
  grid.known = ARENA_ARRAY(arena, bool, cells);
  double least = INFINITY; // nothing takes less than the fastest of all
  for (int r = 0; r < (sparse ? n_rows : grid.n_rows); r++) {
    const FitSpan *row = &rows[sparse ? r : kept[r]];
    for (int i = 0; i < (grid.may_fall ? row->n : 1); i++)
      least = fmin(least, row->first[i].y);
  }
  for (int i = 0; i < cells; i++) {
    const int r = i / grid.n;
    const FitSpan *row = &rows[kept[r]];
    const FitCell cell = fit_cell(rows, n_rows, kept[r], grid.x[i % grid.n], prefill, sparse);
    grid.keys[r] = row->first->key;
    grid.low[r] = row->first->x;
    grid.high[r] = row->first[row->n - 1].x;
    grid.y[i] = fmax(least, cell.y);
    grid.known[i] = cell.known;
    grid.weight[i] = (cell.known ? 1 : 1e-3) / fmax(1e-18, grid.y[i] * grid.y[i]);
  }
  return grid;
}

static bool falls(const double *y, int n, int step) {
  int i = 1;
  while (i < n && !(y[(i - 1) * step] > y[i * step]))
    i++;
  return i < n;
}

bool fit_pool(double *y, const double *weight, int n, int step) {
  double mean[FIT_POOLED_MAX], sum[FIT_POOLED_MAX];
  int first[FIT_POOLED_MAX], blocks = 0;
  if (!falls(y, n, step)) return false;
  for (int i = 0; i < n; i++) {
    mean[blocks] = y[i * step];
    sum[blocks] = weight[i * step];
    first[blocks++] = i;
    while (blocks > 1 && mean[blocks - 2] > mean[blocks - 1]) {
      const int b = blocks - 2;
      mean[b] += sum[b + 1] / (sum[b] + sum[b + 1]) * (mean[b + 1] - mean[b]);
      sum[b] += sum[b + 1];
      blocks--;
    }
  }
  for (int b = 0; b < blocks; b++)
    for (int i = first[b]; i < (b + 1 < blocks ? first[b + 1] : n); i++)
      y[i * step] = mean[b];
  return true;
}

/* The last row rises at least as the one before does, where rows must rise. */
static void pool_last(Grid *self, Arena *arena) {
  if (self->n_rows < 2 || self->may_fall) return;
  double *last = &self->y[(self->n_rows - 1) * self->n], *before = last - self->n;
  double *more = ARENA_ARRAY(arena, double, self->n);
  for (int k = 0; k < self->n; k++)
    more[k] = fmax(0, last[k] - before[k]);
  fit_pool(more, &self->weight[(self->n_rows - 1) * self->n], self->n, 1);
  for (int k = 0; k < self->n; k++)
    last[k] = before[k] + more[k];
}

/* Times of prompts that really fall stay: those of launches, less products that grow. */
static bool pool_column(Grid *self, int k) {
  double before[FIT_POOLED_MAX];
  for (int r = 0; r < self->n_rows; r++)
    before[r] = self->y[r * self->n + k];
  if (!fit_pool(&self->y[k], &self->weight[k], self->n_rows, self->n)) return false;
  for (int r = 0; r < self->n_rows && self->may_fall; r++)
    if (fabs(self->y[r * self->n + k] - before[r]) > FALLS * before[r])
      self->y[r * self->n + k] = before[r];
  return true;
}

static void make_rise(Grid *self, Arena *arena) {
  bool pooled = true;
  for (int pass = 0; pass < PASSES && pooled; pass++) {
    pooled = false;
    for (int r = 0; r < self->n_rows && !self->may_fall; r++)
      pooled |= fit_pool(&self->y[r * self->n], &self->weight[r * self->n], self->n, 1);
    for (int k = 0; k < self->n; k++)
      pooled |= pool_column(self, k);
  }
  pool_last(self, arena);
}

/* ---- What can be left out ---- */

static double off(double value, double lower, double upper, double share) {
  return value > 0 ? fabs((lower + share * (upper - lower)) / value - 1) : 0;
}

/* How far neighbours miss a row, at the most. */
static double row_cost(const Grid *self, const int *kept, int at) {
  const int a = kept[at - 1], r = kept[at], b = kept[at + 1];
  const double share =
      (double)(self->keys[r] - self->keys[a]) / (double)(self->keys[b] - self->keys[a]);
  double most = 0;
  for (int k = 0; k < self->n; k++)
    if (self->known[r * self->n + k])
      most = fmax(most, off(self->y[r * self->n + k], self->y[a * self->n + k],
                            self->y[b * self->n + k], share));
  return most;
}

/* How far the line between the neighbours of an x misses all rows there, at the most. */
static double x_cost(const Grid *self, const int *kept, int at) {
  const int a = kept[at - 1], b = kept[at + 1];
  double most = 0;
  for (int k = a + 1; k < b; k++) {
    const double share = (double)(self->x[k] - self->x[a]) / (double)(self->x[b] - self->x[a]);
    for (int r = 0; r < self->n_rows; r++)
      if (self->known[r * self->n + k])
        most = fmax(most, off(self->y[r * self->n + k], self->y[r * self->n + a],
                              self->y[r * self->n + b], share));
  }
  return most;
}

typedef double Cost(const Grid *self, const int *kept, int at);

/* Leaves out the cheapest until it costs more than `tolerance` and at most `most` are left.
 * `ret_kept`: the indices that stay; the ends do. */
static int thin(const Grid *self, Cost *cost, int n, double tolerance, int most, int *ret_kept) {
  double costs[FIT_POOLED_MAX];
  for (int i = 0; i < n; i++)
    ret_kept[i] = i;
  for (int i = 0; i < n; i++)
    costs[i] = i > 0 && i + 1 < n ? cost(self, ret_kept, i) : INFINITY;
  while (n > 2) {
    int cheapest = 0;
    for (int i = 1; i + 1 < n; i++)
      if (costs[i] < costs[cheapest]) cheapest = i;
    if (cheapest == 0 || (n <= most && costs[cheapest] > tolerance)) return n;
    n--;
    memmove(&ret_kept[cheapest], &ret_kept[cheapest + 1], (size_t)(n - cheapest) * sizeof(int));
    memmove(&costs[cheapest], &costs[cheapest + 1], (size_t)(n - cheapest) * sizeof(double));
    for (int i = cheapest - 1; i <= cheapest; i++)
      if (i > 0 && i + 1 < n) costs[i] = cost(self, ret_kept, i);
  }
  return n;
}

static void keep(Grid *self, const int *rows, int n_rows, const int *x, int n) {
  for (int r = 0; r < n_rows; r++) {
    self->keys[r] = self->keys[rows[r]];
    self->low[r] = self->low[rows[r]];
    self->high[r] = self->high[rows[r]];
    for (int k = 0; k < n; k++) {
      const int from = rows[r] * self->n + x[k], to = r * n + k;
      self->y[to] = self->y[from];
      self->weight[to] = self->weight[from];
      self->known[to] = self->known[from];
    }
  }
  for (int k = 0; k < n; k++)
    self->x[k] = self->x[x[k]];
  self->n_rows = n_rows;
  self->n = n;
}

static void thin_grid(Grid *self, double tolerance, int x_most) {
  int rows[FIT_POOLED_MAX], x[FIT_POOLED_MAX], all[FIT_POOLED_MAX];
  for (int i = 0; i < self->n || i < self->n_rows; i++)
    all[i] = i;
  const int n_rows = thin(self, row_cost, self->n_rows, tolerance, FIT_ROWS_MAX, rows);
  keep(self, rows, n_rows, all, self->n);
  const int n = thin(self, x_cost, self->n, tolerance, x_most, x);
  keep(self, all, self->n_rows, x, n);
}

/* Puts a row on the line from x[a] to x[b], unless that misses more than the tolerance. */
static bool straighten_between(double *y, const int64_t *x, int a, int b) {
  for (int pass = 0; pass < 2; pass++)
    for (int k = a + 1; k < b; k++) {
      const double share = (double)(x[k] - x[a]) / (double)(x[b] - x[a]);
      if (pass == 1)
        y[k] = y[a] + share * (y[b] - y[a]);
      else if (off(y[k], y[a], y[b], share) > ROW_TOLERANCE)
        return false;
    }
  return true;
}

/* Each row on as long lines as are near enough. The last one stays, for it goes on. */
static void straighten(Grid *self) {
  for (int r = 0; r < self->n_rows; r++)
    for (int a = 0, b; a + 2 < self->n - 1; a = b) {
      double *y = &self->y[r * self->n];
      for (b = self->n - 2; b > a + 1 && !straighten_between(y, self->x, a, b); b--)
        ;
    }
}

/* ---- Curves ---- */

/* The rules of tables to the tick, as they are loaded (table_rows.h). */
static void settle(Grid *self, Arena *arena) {
  TableRows all;
  RowKnots *rows = ARENA_ARRAY(arena, RowKnots, self->n_rows);
  for (int r = 0; r < self->n_rows; r++) {
    PwlKnot *knots = ARENA_ARRAY(arena, PwlKnot, self->n);
    for (int k = 0; k < self->n; k++)
      knots[k] = (PwlKnot){self->x[k], self->y[r * self->n + k]};
    rows[r] = (RowKnots){knots, self->n};
  }
  if (!table_rows_init(&all, rows, self->n_rows, self->may_fall, arena))
    return; // never: few of both
  table_rows_settle(&all);
  memcpy(self->y, all.seconds, (size_t)(self->n_rows * self->n) * sizeof *self->y);
}

/* Without the knots that the others say: where the row holds on the left, and on a line. */
static void curve_of_row(const Grid *self, int row, FitCurve *ret_curve) {
  const double *y = &self->y[row * self->n];
  *ret_curve = (FitCurve){.low = self->low[row], .high = self->high[row]};
  for (int k = 0; k < self->n; k++) {
    int n = ret_curve->n_knots;
    if (n == 1 && ret_curve->seconds[0] == y[k] && k + 1 < self->n) n = 0;
    if (n > 1) {
      const int64_t x0 = ret_curve->x[n - 2];
      const double y0 = ret_curve->seconds[n - 2];
      const double share = (double)(ret_curve->x[n - 1] - x0) / (double)(self->x[k] - x0);
      if (off(ret_curve->seconds[n - 1], y0, y[k], share) < 1e-10) n--;
    }
    ret_curve->x[n] = self->x[k];
    ret_curve->seconds[n] = y[k];
    ret_curve->n_knots = n + 1;
  }
}

static FitTable *table_of(FitModel *self, FitTerm term) {
  return term == FIT_PREFILL_ATTENTION  ? &self->prefill
         : term == FIT_DECODE_ATTENTION ? &self->decode
         : term == FIT_MIXED_ATTENTION  ? &self->mixed
                                        : NULL;
}

/* Without the rows of tables, which are most of it. */
static void clear(FitModel *self) {
  self->has_overhead = false;
  self->overhead = 0;
  memset(self->curves, 0, sizeof self->curves);
  self->decode.n_rows = self->prefill.n_rows = self->mixed.n_rows = 0;
}

bool fit_table_build(FitModel *self, FitTerm term, const FitPoint *points, int n_points,
                     bool sparse, Arena *arena) {
  clear(self);
  FitTable *table = table_of(self, term);
  FitSample *samples = ARENA_ARRAY(arena, FitSample, n_points + 1);
  FitSpan *rows = ARENA_ARRAY(arena, FitSpan, n_points + 1);
  const int n = collect(term, points, n_points, samples), n_rows = find_rows(samples, n, rows);
  Grid grid = grid_new(rows, n_rows, n, term, sparse, arena);
  if (grid.n_rows < (table ? 2 : 1)) return false;
  make_rise(&grid, arena);
  const double tolerance = term == FIT_LINEAR            ? LINEAR_TOLERANCE
                           : term == FIT_HEAD            ? HEAD_TOLERANCE
                           : term == FIT_MIXED_ATTENTION ? MIXED_TOLERANCE
                                                         : TABLE_TOLERANCE;
  thin_grid(&grid, tolerance, table ? GRID_MAX : FIT_KNOTS_MAX);
  make_rise(&grid, arena);
  if (table) straighten(&grid);
  settle(&grid, arena);
  if (!table) {
    curve_of_row(&grid, 0, &self->curves[term]);
    return true;
  }
  table->n_rows = grid.n_rows;
  for (int r = 0; r < grid.n_rows; r++) {
    table->rows[r].key = grid.keys[r];
    curve_of_row(&grid, r, &table->rows[r].curve);
  }
  return true;
}
