/* Samples of a curve, their cut by dynamic programming, and the moves of knots. */
#include "perfmodel/fit_search.h"
#include "base/sort.h"
#include <gsl/gsl_fit.h>
#include <math.h>
#include <stdlib.h>

enum { SAMPLES_MAX = 96, MOVE_ROUNDS = 12, MOVE_POINTS = 512 };
static const double BETTER = 1 - 1e-9; // what less than this saves is rounding

/* Samples of one curve, ascending, each x once. */
typedef struct Samples {
  double *x, *y, *weight;
  int n;
} Samples;

typedef struct Sample {
  double x, y, weight;
} Sample;

static int compare_samples(const void *a, const void *b) {
  const Sample *s = a, *t = b;
  if (s->x != t->x) return s->x < t->x ? -1 : 1;
  return (s->y > t->y) - (s->y < t->y);
}

/* Merges samples of equal x, and groups of neighbours where there are more than SAMPLES_MAX. */
static Samples samples_merge(Sample *items, int n, Arena *arena) {
  qsort(items, (size_t)n, sizeof *items, compare_samples);
  int distinct = 0;
  for (int i = 0; i < n; i++)
    distinct += i == 0 || items[i].x != items[i - 1].x;
  int group = (distinct + SAMPLES_MAX - 1) / SAMPLES_MAX;
  Samples out = {ARENA_ARRAY(arena, double, distinct), ARENA_ARRAY(arena, double, distinct),
                 ARENA_ARRAY(arena, double, distinct), 0};
  for (int i = 0, seen = 0; i < n; i++) {
    bool is_new = i == 0 || items[i].x != items[i - 1].x;
    if (is_new && seen++ % group == 0) out.n++;
    int k = out.n - 1;
    double sum = out.weight[k] + items[i].weight, share = items[i].weight / sum;
    out.x[k] += share * (items[i].x - out.x[k]);
    out.y[k] += share * (items[i].y - out.y[k]);
    out.weight[k] = sum;
  }
  return out;
}

/* What the terms other than `op` leave of the points that have it; `row`: those of so many decodes,
 * over means; 0: all. */
static Samples samples_of(const FitModel *model, ProfileOp op, int64_t row, const FitPoint *points,
                          int n_points, Arena *arena) {
  Sample *items = ARENA_ARRAY(arena, Sample, n_points + 1);
  int n = 0;
  for (int i = 0; i < n_points; i++) {
    const FitPoint *point = &points[i];
    const BatchShape *batch = &point->batch;
    if (!fit_has_term(point->op, op, batch) || (row && batch->decode_seqs != row)) continue;
    double others = 0;
    if (point->op == PROFILE_ITERATION)
      others = fit_eval(model, PROFILE_ITERATION, batch) - fit_eval(model, op, batch);
    const int64_t x = row ? fit_row_x(FIT_DECODE_ATTENTION, batch) : fit_x(op, batch);
    items[n++] =
        (Sample){(double)x, point->seconds - others, 1 / (point->seconds * point->seconds)};
  }
  return samples_merge(items, n, arena);
}

/* ---- The cut ---- */

typedef struct Line {
  double at_zero, slope, squares;
} Line;

static Line line_through(const Samples *samples, int from, int to) {
  Line line = {0};
  double cov00, cov01, cov11;
  gsl_fit_wlinear(samples->x + from, 1, samples->weight + from, 1, samples->y + from, 1,
                  (size_t)(to - from), &line.at_zero, &line.slope, &cov00, &cov01, &cov11,
                  &line.squares);
  return line;
}

/* Where the lines left and right of the cut before sample `cut` meet, held between the samples. */
static int64_t meeting(const Samples *samples, int before, int cut, int after) {
  Line left = line_through(samples, before, cut), right = line_through(samples, cut, after);
  double low = samples->x[cut - 1], high = samples->x[cut];
  double x = (left.at_zero - right.at_zero) / (right.slope - left.slope);
  if (!(x > low)) x = low; // parallel lines, too
  if (x > high) x = high;
  return (int64_t)llround(x);
}

/* The cut of samples into `segments`: ret_cuts[0] = 0 < … < ret_cuts[segments] = n. */
static void find_cuts(const Samples *samples, int segments, int *ret_cuts, Arena *arena) {
  int n = samples->n, width = n + 1;
  double *best = ARENA_ARRAY(arena, double, (segments + 1) * width);
  int *from = ARENA_ARRAY(arena, int, (segments + 1) * width);
  for (int i = 0; i < (segments + 1) * width; i++)
    best[i] = INFINITY;
  best[0] = 0;
  for (int end = 2; end <= n; end++) {
    for (int start = end - 2; start >= 0; start--) {
      double squares = line_through(samples, start, end).squares;
      for (int s = 1; s <= segments; s++) {
        double sum = best[(s - 1) * width + start] + squares;
        if (sum > best[s * width + end] * BETTER) continue;
        best[s * width + end] = sum;
        from[s * width + end] = start;
      }
    }
  }
  ret_cuts[segments] = n;
  for (int s = segments; s > 0; s--)
    ret_cuts[s - 1] = from[s * width + ret_cuts[s]];
}

/* Appends a knot at `start`, and those of `segments` from there to the last sample. */
static void append_knots(FitCurve *self, int64_t start, const Samples *samples, int segments,
                         Arena *arena) {
  int cuts[FIT_SEGMENTS_MAX + 1];
  int64_t end = (int64_t)samples->x[samples->n - 1];
  self->x[self->n_knots++] = start;
  if (end == start) return;
  if (2 * segments > samples->n) segments = samples->n < 2 ? 1 : samples->n / 2;
  if (segments > 1) find_cuts(samples, segments, cuts, arena);
  for (int s = 1; s < segments; s++) {
    int64_t x = meeting(samples, cuts[s - 1], cuts[s], cuts[s + 1]);
    if (x > self->x[self->n_knots - 1] && x < end) self->x[self->n_knots++] = x;
  }
  self->x[self->n_knots++] = end;
}

static void append_samples(FitCurve *self, const Samples *samples) {
  int n = samples->n < FIT_SEARCH_KNOTS ? samples->n : FIT_SEARCH_KNOTS;
  for (int k = 0; k < n; k++)
    self->x[k] = (int64_t)samples->x[n == 1 ? 0 : k * (samples->n - 1) / (n - 1)];
  self->n_knots = n;
}

/* The curves of contexts start at 0, so that those of rows measured apart compare. */
static void place_knots(FitCurve *self, const Samples *samples, int segments, bool from_origin,
                        Arena *arena) {
  self->n_knots = self->n_decode = 0;
  if (samples->n == 0 || segments == 0) return;
  self->low = self->from_zero ? 0 : (int64_t)samples->x[0];
  self->high = (int64_t)samples->x[samples->n - 1];
  if (segments == FIT_DENSE)
    append_samples(self, samples);
  else
    append_knots(self, from_origin ? 0 : self->low, samples, segments, arena);
}

/* ---- The rows of decode_attention ---- */

static void settle_knots(FitCurve *self) {
  int n = 0;
  for (int k = 0; k < self->n_knots; k++) {
    const int64_t x = fit_row_knot(FIT_DECODE_ATTENTION, self->x[k]);
    if (n == 0 || x > self->x[n - 1]) self->x[n++] = x;
  }
  self->n_knots = n;
}

/* Rows for the numbers of sequences with at least `least` contexts, thinned to FIT_SEARCH_ROWS;
 * none where there are fewer than two. */
static void place_rows(FitModel *self, const FitPoint *points, int n_points, int least,
                       int segments, Arena *arena) {
  int64_t *counts = ARENA_ARRAY(arena, int64_t, n_points + 1);
  int n = 0, kept = 0;
  for (int i = 0; i < n_points; i++)
    if (points[i].batch.decode_seqs > 0 && points[i].batch.prefill_tokens == 0)
      counts[n++] = points[i].batch.decode_seqs;
  n = (int)sort_distinct(counts, (size_t)n);
  for (int i = 0; i < n; i++) {
    int64_t seqs = counts[i];
    Samples at = samples_of(self, PROFILE_DECODE_ATTENTION, seqs, points, n_points, arena);
    if (at.n >= least) counts[kept++] = seqs;
  }
  self->decode.n_rows = kept < 2 ? 0 : kept > FIT_SEARCH_ROWS ? FIT_SEARCH_ROWS : kept;
  for (int r = 0; r < self->decode.n_rows; r++) {
    FitRow *row = &self->decode.rows[r];
    row->key = counts[r * (kept - 1) / (self->decode.n_rows - 1)];
    row->curve = (FitCurve){.from_zero = self->curves[PROFILE_DECODE_ATTENTION].from_zero};
    Samples at = samples_of(self, PROFILE_DECODE_ATTENTION, row->key, points, n_points, arena);
    place_knots(&row->curve, &at, segments, true, arena);
    settle_knots(&row->curve);
  }
}

static void place_decode(FitModel *self, const FitPoint *points, int n_points, int segments,
                         Arena *arena) {
  FitCurve *shared = &self->curves[PROFILE_DECODE_ATTENTION];
  int least = shared->from_zero ? 3 : 2; // `linear` takes one for itself
  FitModel before = *self;
  place_rows(&before, points, n_points, least, segments, arena);
  Samples all = samples_of(self, PROFILE_DECODE_ATTENTION, 0, points, n_points, arena);
  if (shared->from_zero && segments > 1) segments = 1; // its bends would be those of `linear`
  place_knots(shared, &all, before.decode.n_rows > 0 ? 0 : segments, true, arena);
  self->decode.n_rows = before.decode.n_rows;
  for (int r = 0; r < self->decode.n_rows; r++)
    self->decode.rows[r] = before.decode.rows[r];
}

/* ---- Rows of prefill, and of decodes beside it ---- */

static bool in_rows(FitTerm term, const BatchShape *batch) {
  return batch->prefill_tokens > 0 && (batch->decode_seqs > 0) == (term == FIT_MIXED_ATTENTION);
}

/* One line from 0, with a time there where decodes are beside prefill; no knots unless one place is
 * twice another. */
static FitCurve line_of_row(FitTerm term, int64_t key, const FitPoint *points, int n_points) {
  FitCurve line = {.from_zero = term == FIT_PREFILL_ATTENTION, .low = INT64_MAX};
  for (int i = 0; i < n_points; i++) {
    const BatchShape *batch = &points[i].batch;
    if (!in_rows(term, batch) || fit_key(term, batch) != key) continue;
    const int64_t x = fit_row_x(term, batch);
    if (x < line.low) line.low = x;
    if (x > line.high) line.high = x;
  }
  if (line.high < 2 * line.low) return line;
  line.n_knots = 2;
  line.x[1] = fit_row_knot(term, line.high);
  return line;
}

static void place_lines(FitTable *self, FitTerm term, const FitPoint *points, int n_points,
                        Arena *arena) {
  int64_t *keys = ARENA_ARRAY(arena, int64_t, n_points + 1);
  int n = 0, kept = 0;
  for (int i = 0; i < n_points; i++)
    if (in_rows(term, &points[i].batch)) keys[n++] = fit_key(term, &points[i].batch);
  n = (int)sort_distinct(keys, (size_t)n);
  for (int i = 0; i < n; i++)
    if (line_of_row(term, keys[i], points, n_points).n_knots > 0) keys[kept++] = keys[i];
  self->n_rows = kept < 2 ? 0 : kept > FIT_SEARCH_ROWS ? FIT_SEARCH_ROWS : kept;
  for (int r = 0; r < self->n_rows; r++) {
    const int64_t key = keys[r * (kept - 1) / (self->n_rows - 1)];
    self->rows[r] = (FitRow){key, line_of_row(term, key, points, n_points)};
  }
}

/* ---- All terms ---- */

/* The largest decode, where all that has prefill is larger and there are both; else 0. */
static int64_t decodes_end(const FitPoint *points, int n_points) {
  int64_t decode = 0, prefill = INT64_MAX;
  for (int i = 0; i < n_points; i++) {
    int64_t x = fit_x(PROFILE_LINEAR, &points[i].batch);
    if (points[i].batch.prefill_tokens > 0)
      prefill = x < prefill ? x : prefill;
    else
      decode = x > decode ? x : decode;
  }
  return decode < prefill && prefill < INT64_MAX ? decode : 0;
}

static void place_linear(FitModel *self, const FitPoint *points, int n_points, const FitPlan *plan,
                         Arena *arena) {
  FitCurve *linear = &self->curves[PROFILE_LINEAR];
  Samples all = samples_of(self, PROFILE_LINEAR, 0, points, n_points, arena);
  int64_t end = decodes_end(points, n_points);
  int n = 0;
  while (n < all.n && all.x[n] <= (double)end)
    n++;
  if (n == 0 || n == all.n || points[0].op != PROFILE_ITERATION) {
    place_knots(linear, &all, plan->segments[PROFILE_LINEAR], false, arena);
    return;
  }
  Samples decodes = {all.x, all.y, all.weight, n};
  Samples prefills = {all.x + n, all.y + n, all.weight + n, all.n - n};
  place_knots(linear, &decodes, plan->decode_segments, false, arena);
  linear->n_decode = linear->n_knots;
  append_knots(linear, (int64_t)prefills.x[0], &prefills, plan->segments[PROFILE_LINEAR], arena);
  linear->high = (int64_t)all.x[all.n - 1];
}

static void place_term(FitModel *self, ProfileOp op, const FitPoint *points, int n_points,
                       const FitPlan *plan, Arena *arena) {
  int segments = plan->segments[op];
  if (op == PROFILE_DECODE_ATTENTION) {
    place_decode(self, points, n_points, segments, arena);
  } else if (op == PROFILE_LINEAR) {
    place_linear(self, points, n_points, plan, arena);
  } else {
    Samples samples = samples_of(self, op, 0, points, n_points, arena);
    FitCurve *curve = &self->curves[op];
    place_knots(curve, &samples, segments, curve->from_zero, arena);
  }
}

/* `linear` with a knot at every sample, the others as lines: what each term's share of the measured
 * times is judged by. */
static void place_dense(FitModel *self, const FitPoint *points, int n_points, const FitPlan *plan,
                        Arena *arena) {
  FitPlan lines = {
      .segments = {[PROFILE_PREFILL_ATTENTION] = plan->segments[PROFILE_PREFILL_ATTENTION] > 0,
                   [PROFILE_DECODE_ATTENTION] = plan->segments[PROFILE_DECODE_ATTENTION] > 0,
                   [PROFILE_HEAD] = plan->segments[PROFILE_HEAD] > 0}};
  for (int op = PROFILE_LINEAR + 1; op < PROFILE_TERMS; op++)
    place_term(self, (ProfileOp)op, points, n_points, &lines, arena);
  if (plan->prefill_rows)
    place_lines(&self->prefill, FIT_PREFILL_ATTENTION, points, n_points, arena);
  if (self->prefill.n_rows > 0) self->curves[PROFILE_PREFILL_ATTENTION].n_knots = 0;
  if (plan->mixed_rows) place_lines(&self->mixed, FIT_MIXED_ATTENTION, points, n_points, arena);
  Samples samples = samples_of(self, PROFILE_LINEAR, 0, points, n_points, arena);
  append_samples(&self->curves[PROFILE_LINEAR], &samples);
  fit_model_solve(self, points, n_points, arena);
}

/* The places a knot may move to, ascending: samples and the quarters between them. */
static int grid_of(const Samples *samples, int64_t *ret_grid) {
  int n = 0;
  for (int i = 0; i < samples->n; i++) {
    for (int quarter = 0; quarter < (i + 1 < samples->n ? 4 : 1); quarter++) {
      double gap = i + 1 < samples->n ? samples->x[i + 1] - samples->x[i] : 0;
      int64_t x = (int64_t)(samples->x[i] + gap * quarter / 4);
      if (n == 0 || x > ret_grid[n - 1]) ret_grid[n++] = x;
    }
  }
  return n;
}

/* Tries knot k of a curve some steps along the grid; keeps the best. */
static bool move_knot(FitModel *self, FitCurve *curve, int k, const int64_t *grid, int n_grid,
                      const FitPoint *points, int n_points, double *squares, Arena *arena) {
  static const int steps[] = {-8, -4, -2, -1, 0, 1, 2, 4, 8};
  int64_t best = curve->x[k], start = best;
  int at = 0;
  while (at + 1 < n_grid && grid[at + 1] <= start)
    at++;
  for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
    int place = at + steps[s];
    if (place < 0 || place >= n_grid) continue;
    if (grid[place] <= curve->x[k - 1] || grid[place] >= curve->x[k + 1]) continue;
    curve->x[k] = grid[place];
    double trial = fit_model_solve(self, points, n_points, arena);
    if (trial >= *squares * BETTER) continue;
    *squares = trial;
    best = grid[place];
  }
  curve->x[k] = best;
  return best != start;
}

static void move_knots(FitModel *self, ProfileOp op, const FitPoint *points, int n_points,
                       Arena *arena) {
  FitCurve *curve = &self->curves[op];
  if (curve->n_knots < 3) return;
  Samples samples = samples_of(self, op, 0, points, n_points, arena);
  int64_t *grid = ARENA_ARRAY(arena, int64_t, 4 * samples.n);
  int n_grid = grid_of(&samples, grid);
  double squares = fit_model_solve(self, points, n_points, arena);
  bool moved = true;
  for (int round = 0; moved && round < MOVE_ROUNDS; round++) {
    moved = false;
    for (int k = 1; k + 1 < curve->n_knots; k++)
      if (curve->n_decode == 0 || (k != curve->n_decode - 1 && k != curve->n_decode))
        moved |= move_knot(self, curve, k, grid, n_grid, points, n_points, &squares, arena);
  }
}

/* Moves are tried on at most MOVE_POINTS points, spread evenly: each try solves all of it. */
static const FitPoint *thin_points(const FitPoint *points, int *n_points, Arena *arena) {
  if (*n_points <= MOVE_POINTS) return points;
  FitPoint *kept = ARENA_ARRAY(arena, FitPoint, MOVE_POINTS);
  for (int64_t i = 0; i < MOVE_POINTS; i++)
    kept[i] = points[i * *n_points / MOVE_POINTS];
  *n_points = MOVE_POINTS;
  return kept;
}

void fit_build(FitModel *self, const FitPoint *points, int n_points, const FitPlan *plan,
               Arena *arena) {
  bool whole = points[0].op == PROFILE_ITERATION;
  *self = (FitModel){0};
  self->curves[PROFILE_PREFILL_ATTENTION].from_zero = whole;
  self->curves[PROFILE_DECODE_ATTENTION].from_zero = whole;
  self->curves[PROFILE_HEAD].from_zero = whole;
  if (whole) place_dense(self, points, n_points, plan, arena);
  FitModel dense = *self;
  for (int op = PROFILE_LINEAR; op < PROFILE_TERMS; op++) {
    FitModel placed = dense;
    const bool in_rows = op == PROFILE_PREFILL_ATTENTION && dense.prefill.n_rows > 0;
    if (plan->segments[op] > 0 && !in_rows)
      place_term(&placed, (ProfileOp)op, points, n_points, plan, arena);
    self->curves[op] = placed.curves[op];
    if (op != PROFILE_DECODE_ATTENTION) continue;
    self->decode.n_rows = placed.decode.n_rows;
    for (int r = 0; r < placed.decode.n_rows; r++)
      self->decode.rows[r] = placed.decode.rows[r];
  }
  fit_model_solve(self, points, n_points, arena);
  int n_moved = n_points;
  const FitPoint *moved = thin_points(points, &n_moved, arena);
  for (int op = 0; op < PROFILE_TERMS; op++)
    if (plan->segments[op] != FIT_DENSE) move_knots(self, (ProfileOp)op, moved, n_moved, arena);
  fit_model_solve(self, points, n_points, arena);
}
