/* Rooflines: terms to seconds, and to the curves of a PerfModel. */
#include "base/rng.h"
#include "perfmodel/roofline.h"
#include <math.h>

#define LARGEST 700.0 // exponent of portable_exp

double roofline_term_seconds(const RooflineTerm *self, double x) {
  return self->fixed + self->slope * x +
         fmax(self->memory_fixed + self->memory_slope * x, self->compute_slope * x);
}

double roofline_experts_seconds(const RooflineExperts *self, double tokens) {
  if (self->held == 0 || tokens <= 0) return 0;
  const double exponent = self->missed > 0 ? tokens * portable_log(self->missed) : -LARGEST;
  const double unreached = exponent > -LARGEST ? portable_exp(exponent) : 0;
  return fmax(self->held * (1 - unreached) * self->memory_each + self->memory_slope * tokens,
              self->compute_slope * tokens) +
         self->exchange_slope * tokens;
}

double roofline_window_decode(const RooflineWindow *self, double seqs, double context) {
  return self->decode_slope * fmin(context, seqs * (double)self->window);
}

double roofline_window_prefill(const RooflineWindow *self, double area2) {
  const double window = (double)self->window, length = sqrt(area2);
  return self->prefill_slope * (length <= window ? area2 : 2 * length * window - window * window);
}

double roofline_linear_seconds(const Roofline *self, double tokens) {
  return roofline_term_seconds(&self->linear, tokens) +
         roofline_experts_seconds(&self->experts, tokens);
}

static double prefill_seconds(const Roofline *self, double area2) {
  double seconds = roofline_term_seconds(&self->prefill_attention, area2);
  for (int i = 0; i < ROOFLINE_WINDOWS; i++)
    seconds += roofline_window_prefill(&self->windows[i], area2);
  return seconds;
}

double roofline_decode_seconds(const Roofline *self, double seqs, double context) {
  double seconds = roofline_term_seconds(&self->decode_attention, context);
  for (int i = 0; i < ROOFLINE_WINDOWS; i++)
    seconds += roofline_window_decode(&self->windows[i], seqs, context);
  return seconds;
}

double roofline_spread_share(const Roofline *self, double tokens) {
  const double spread = roofline_experts_seconds(&self->experts, tokens);
  return spread > 0 ? spread / (spread + roofline_term_seconds(&self->linear, tokens)) : 0;
}

/* ---- To curves ---- */

/* Ranges that no batch leaves. That of contexts is smaller because their pieces go on to twice the
 * range, where times must stay within a Tick. */
#define ANY_COUNT   (INT64_C(1) << 60)
#define ANY_CONTEXT (INT64_C(1) << 31)

static PwlKnot knot_at(const RooflineTerm *term, int64_t x) {
  const double limit = tick_seconds(PWL_TICKS_MAX);
  return (PwlKnot){x, fmin(roofline_term_seconds(term, (double)x), limit)};
}

/* Nothing takes no time; from there both sides of a jump, both sides of the bend where compute
 * overtakes memory, and the end. */
static Pwl term_curve(const RooflineTerm *term, Arena *arena) {
  PwlKnot knots[5] = {{0, 0}};
  int n = 1;
  const bool jumps = term->fixed + term->memory_fixed > 0;
  const int64_t first = jumps ? 1 : 0;
  if (jumps) knots[n++] = knot_at(term, first);
  const double gain = term->compute_slope - term->memory_slope;
  const double bend = gain > 0 ? term->memory_fixed / gain : 0;
  if (bend > (double)first && bend < ROOFLINE_LAST_KNOT - 1) {
    const int64_t before = (int64_t)bend;
    if (before > first) knots[n++] = knot_at(term, before);
    knots[n++] = knot_at(term, before + 1);
  }
  knots[n++] = knot_at(term, ROOFLINE_LAST_KNOT);
  Pwl curve;
  pwl_init(&curve, knots, n, false, arena);
  curve.high = ANY_COUNT;
  return curve;
}

/* ---- What has more than one bend ---- */

enum { KNOTS_MAX = 512 };

/* Four to each power of two, all below 8, up to the first that is `last` or more. */
int roofline_sizes(int64_t sizes[ROOFLINE_SIZES_MAX], int64_t last) {
  int n = 0;
  int64_t power = 1;
  for (int64_t size = 1; n<ROOFLINE_SIZES_MAX; size += power> 4 ? power / 4 : 1) {
    if (size >= 2 * power) power *= 2;
    sizes[n++] = size;
    if (size >= last) break;
  }
  return n;
}

typedef double Seconds(const Roofline *self, double x);

typedef struct Knots {
  const Roofline *roofline;
  Seconds *seconds;
  PwlKnot knots[KNOTS_MAX];
  int n;
} Knots;

/* With as many before it as PWL_RUN_MAX asks for; those at or before the last are left out. */
static void knots_to(Knots *self, int64_t x) {
  const double limit = tick_seconds(PWL_TICKS_MAX);
  int64_t at = self->n > 0 ? self->knots[self->n - 1].x : -1;
  while (at < x && self->n < KNOTS_MAX) {
    at = x - at > PWL_RUN_MAX && at >= 0 ? at + PWL_RUN_MAX : x;
    self->knots[self->n++] =
        (PwlKnot){at, at == 0 ? 0 : fmin(self->seconds(self->roofline, (double)at), limit)};
  }
}

static Pwl knots_curve(const Knots *self, Arena *arena) {
  Pwl curve;
  pwl_init(&curve, self->knots, self->n, false, arena);
  curve.high = ANY_COUNT;
  return curve;
}

static double experts_seconds(const Roofline *self, double tokens) {
  return roofline_experts_seconds(&self->experts, tokens);
}

static double routed_seconds(const Roofline *self, double tokens) {
  return experts_seconds(self, tokens) - self->experts.exchange_slope * tokens;
}

/* The bend of the line, beside the sizes at which experts are sampled. */
static Pwl experts_curve(const Roofline *self, Seconds *seconds, Arena *arena) {
  Knots knots = {.roofline = self, .seconds = seconds};
  int64_t sizes[ROOFLINE_SIZES_MAX];
  const int n = roofline_sizes(sizes, ROOFLINE_LAST_KNOT);
  knots_to(&knots, 0);
  for (int i = 0; i < n; i++)
    knots_to(&knots, sizes[i]);
  return knots_curve(&knots, arena);
}

static bool has_windows(const Roofline *self) {
  bool any = false;
  for (int i = 0; i < ROOFLINE_WINDOWS; i++)
    any |= self->windows[i].window > 0;
  return any;
}

/* Experts are apart where they see other tokens than the busiest rank. */
static void linear_curves(const Roofline *self, PerfModel *model, Arena *arena) {
  const bool experts = self->experts.held > 0, apart = experts && self->ranks > 1;
  model->linear = experts && !apart ? experts_curve(self, roofline_linear_seconds, arena)
                                    : term_curve(&self->linear, arena);
  if (!apart) return;
  model->spread = experts_curve(self, experts_seconds, arena);
  model->experts = experts_curve(self, routed_seconds, arena);
  model->busiest = self->experts.busiest;
}

/* Sampled at squares of lengths. */
static Pwl prefill_curve(const Roofline *self, Arena *arena) {
  enum { LONGEST = 1 << 18 };
  if (!has_windows(self)) return term_curve(&self->prefill_attention, arena);
  Knots knots = {.roofline = self, .seconds = prefill_seconds};
  int64_t sizes[ROOFLINE_SIZES_MAX];
  const int n = roofline_sizes(sizes, LONGEST);
  knots_to(&knots, 0);
  for (int i = 0; i < n; i++)
    knots_to(&knots, sizes[i] * sizes[i]);
  return knots_curve(&knots, arena);
}

/* Of `seqs` decodes: all lines bend where their windows are full, if anything can fill them. */
static Pwl decode_curve(const Roofline *self, int64_t seqs, Arena *arena) {
  const double limit = tick_seconds(PWL_TICKS_MAX);
  int64_t bends[ROOFLINE_WINDOWS + 2];
  int n = 0;
  bends[n++] = 0;
  for (int i = 0; i < ROOFLINE_WINDOWS; i++) {
    const int64_t window = self->windows[i].window;
    if (window > 0 && window < ROOFLINE_LAST_KNOT && seqs < ROOFLINE_LAST_KNOT / window * 512)
      bends[n++] = seqs * window;
  }
  if (n == 3 && bends[1] > bends[2]) {
    const int64_t first = bends[2];
    bends[2] = bends[1];
    bends[1] = first;
  }
  bends[n] = bends[n - 1] + ROOFLINE_LAST_KNOT;
  PwlKnot knots[ROOFLINE_WINDOWS + 2];
  int count = 0;
  for (int i = 0; i <= n; i++)
    if (i == 0 || bends[i] > bends[i - 1])
      knots[count++] = (PwlKnot){
          bends[i], fmin(roofline_decode_seconds(self, (double)seqs, (double)bends[i]), limit)};
  Pwl curve;
  pwl_init(&curve, knots, count, false, arena);
  curve.high = ANY_CONTEXT;
  return curve;
}

static CurveTable decode_table(const Roofline *self, int64_t max_decode_seqs, Arena *arena) {
  int64_t sizes[ROOFLINE_SIZES_MAX];
  const int n = has_windows(self) ? roofline_sizes(sizes, max_decode_seqs) : 0;
  CurveRow *rows = ARENA_ARRAY(arena, CurveRow, n > 0 ? n : 1);
  rows[0] = (CurveRow){1, term_curve(&self->decode_attention, arena)};
  rows[0].curve.high = ANY_CONTEXT;
  for (int i = 0; i < n; i++)
    rows[i] = (CurveRow){sizes[i], decode_curve(self, sizes[i], arena)};
  return (CurveTable){.rows = rows, .n_rows = n > 0 ? n : 1, .low = 1, .high = ANY_COUNT};
}

void roofline_compile(const Roofline *self, PerfModel *model, int64_t max_decode_seqs,
                      Arena *arena) {
  const CurveTable table = decode_table(self, max_decode_seqs, arena);
  *model = (PerfModel){
      .name = self->name,
      .held_out_error = NAN,
      .form = PERF_COMPOSED,
      .overhead = tick_from_seconds(self->overhead),
      .stages = self->stages,
      .send = fine_from_seconds(self->send_slope),
      .captured = self->captured,
      .ranks = self->ranks,
      .prefill_attention = prefill_curve(self, arena),
      .head = term_curve(&self->head, arena),
  };
  linear_curves(self, model, arena);
  perfmodel_compile(model, &table, max_decode_seqs, arena);
}
