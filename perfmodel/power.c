/* See power.h. */
#include "perfmodel/power.h"
#include "base/hash.h"
#include "base/rng.h"
#include <assert.h>
#include <math.h>

double power_curve_eval(const PowerCurve *self, int64_t x) {
  if (x <= 1) return self->at[0];
  const int octave = 63 - __builtin_clzll((uint64_t)x);
  if (octave >= POWER_OCTAVES - 1) return self->at[POWER_OCTAVES - 1];
  const int64_t start = INT64_C(1) << octave;
  const double low = self->at[octave], high = self->at[octave + 1];
  return low + (high - low) * ((double)(x - start) / (double)start);
}

static void fill(PowerCurve *self, double value) {
  for (int i = 0; i < POWER_OCTAVES; i++)
    self->at[i] = value;
}

/* ---- By batch ---- */

/* Seconds or ticks of a curve: what of it matters is ratios. */
static double time_at(const PerfModel *model, const Pwl *curve, int64_t x) {
  if (curve->n_segments == 0) return 0;
  return model->form == PERF_SPLITWISE_SIM ? pwl_seconds(curve, x) : fine_ticks(pwl_fine(curve, x));
}

/* What of a time grows with the batch, up to this one: φ. */
static void fill_shares(PowerCurve *self, const PerfModel *model, const Pwl *curve,
                        const Pwl *spread) {
  const double least = time_at(model, curve, 1) + time_at(model, spread, 1);
  double share = 0;
  for (int i = 0; i < POWER_OCTAVES; i++) {
    const int64_t x = INT64_C(1) << (i < 30 ? i : 30);
    const double time = time_at(model, curve, x) + time_at(model, spread, x);
    if (time > 0 && 1 - least / time > share) share = 1 - least / time;
    self->at[i] = share;
  }
}

static void fill_watts(PowerTerm *self, double memory, double limit) {
  for (int i = 0; i < POWER_OCTAVES; i++)
    self->watts.at[i] = memory + self->compute.at[i] * (limit - memory);
}

double power_memory_watts(const Hardware *hardware) {
  const double limit = hardware->gpu_tdp;
  if (hardware->prefill_power == 0 || hardware->decode_power == 0)
    return POWER_MEMORY_SHARE * limit;
  const double less =
      (hardware->prefill_power - hardware->decode_power) / (double)hardware->num_gpus;
  return fmin(fmax(limit - less, POWER_IDLE_SHARE * limit), limit);
}

void power_by_batch(PowerModel *self, const PerfModel *model, double limit, double memory) {
  static const Pwl none = {0};
  *self = (PowerModel){.idle = POWER_IDLE_SHARE * limit,
                       .limit = limit,
                       .error = POWER_BATCH_ERROR,
                       .text = "of GPUs by the batch, between reading memory and their limit"};
  const bool simulated = model->form == PERF_SPLITWISE_SIM; // `head` is its decodes
  fill_shares(&self->linear.compute, model, &model->linear, &model->spread);
  fill_shares(&self->head.compute, model, simulated ? &none : &model->head, &none);
  fill(&self->prefill.compute, 1);
  fill(&self->decode.compute, 0);
  PowerTerm *terms[] = {&self->linear, &self->head, &self->prefill, &self->decode};
  for (size_t t = 0; t < sizeof terms / sizeof *terms; t++)
    fill_watts(terms[t], memory, limit);
  power_limit(self, limit);
}

/* ---- Under a limit ---- */

double power_slowdown(const PowerModel *self, double watts, double compute) {
  if (watts <= self->cap) return 1;
  const double clock =
      portable_exp(portable_log((self->cap - self->idle) / (watts - self->idle)) / 3);
  return compute / clock + (1 - compute) * fmax(1, POWER_MEMORY_CLOCK / clock);
}

void power_limit(PowerModel *self, double cap) {
  self->cap = cap;
  PowerTerm *terms[] = {&self->linear, &self->prefill, &self->decode, &self->head};
  for (size_t t = 0; t < sizeof terms / sizeof *terms; t++) {
    double most = 1;
    for (int i = 0; i < POWER_OCTAVES; i++) {
      most = fmax(most, power_slowdown(self, terms[t]->watts.at[i], terms[t]->compute.at[i]));
      terms[t]->slowed.at[i] = most;
    }
  }
}

/* A curve of a term, and what its x are: x times `numerator` / `denominator` of the term's. */
typedef struct Capping {
  const PowerCurve *slowed;
  int64_t numerator, denominator;
  Arena *arena;
} Capping;

static double factor_at(const Capping *self, int64_t x) {
  return power_curve_eval(self->slowed, (int64_t)((Wide)x * self->numerator / self->denominator));
}

static FineTick times(FineTick fine, double factor) {
  return fine_from_real(fine_ticks(fine) * factor);
}

static void cap_curve(const Capping *self, Pwl *curve) {
  const int32_t n = curve->n_segments;
  if (curve->knots) {
    PwlKnot *knots = ARENA_ARRAY(self->arena, PwlKnot, n);
    for (int32_t i = 0; i < n; i++) {
      const PwlKnot *knot = &curve->knots[i];
      knots[i] = (PwlKnot){knot->x, knot->seconds * factor_at(self, knot->x)};
    }
    curve->knots = knots;
    return;
  }
  PwlSegment *segments = ARENA_ARRAY(self->arena, PwlSegment, n);
  for (int32_t i = 0; i < n; i++) {
    PwlSegment *segment = &segments[i];
    *segment = curve->segments[i];
    const double here = factor_at(self, segment->start);
    const double before = fine_ticks(segment->base), run = (double)segment->run;
    segment->base = times(segment->base, here);
    const double end =
        (before + segment->slope * run) * factor_at(self, segment->start + segment->run);
    segment->slope = run > 0 ? (end - fine_ticks(segment->base)) / run : segment->slope * here;
  }
  curve->segments = segments;
}

static void cap_table(Capping *self, CurveTable *table) {
  CurveRow *rows = ARENA_ARRAY(self->arena, CurveRow, table->n_rows);
  for (int32_t i = 0; i < table->n_rows; i++) {
    rows[i] = table->rows[i];
    self->numerator = table->spans ? rows[i].key : 1;
    self->denominator = table->spans ? SPAN_STEPS : 1;
    cap_curve(self, &rows[i].curve);
  }
  self->numerator = self->denominator = 1;
  table->rows = rows;
}

/* Attention of decodes in row n, whose constant part is `constant` and becomes `slowed`. */
static void cap_row(const Capping *self, DecodePiece *pieces, int32_t n, FineTick constant,
                    FineTick slowed) {
  for (int32_t i = 0; i < n; i++) {
    DecodePiece *piece = &pieces[i];
    const FineTick here = piece->base - constant;
    const double factor = factor_at(self, piece->start);
    piece->base = slowed + times(here, factor);
    if (piece->end == INT64_MAX) {
      piece->slope = times(piece->slope, factor);
      continue;
    }
    const int64_t run = piece->end - piece->start;
    const FineTick end = times(here + piece->slope * run, factor_at(self, piece->end));
    piece->slope = (end + slowed - piece->base) / run;
  }
}

static void cap_rows(const Capping *self, PerfModel *model) {
  const int64_t n_rows = model->max_decode_seqs;
  const int32_t *first = model->row_first;
  DecodePiece *pieces = ARENA_ARRAY(self->arena, DecodePiece, first[n_rows + 1]);
  FineTick *constants = ARENA_ARRAY(self->arena, FineTick, n_rows + 1);
  FineTick *heads = ARENA_ARRAY(self->arena, FineTick, n_rows + 1);
  for (int32_t i = 0; i < first[n_rows + 1]; i++)
    pieces[i] = model->pieces[i];
  for (int64_t n = 1; n <= n_rows; n++) {
    Extrapolation flag;
    heads[n] = pwl_fine(&model->head, ranks_padded(n, model->ranks));
    constants[n] = perfmodel_row_constant(model, n, heads[n], &flag);
    cap_row(self, &pieces[first[n]], first[n + 1] - first[n], model->row_constant[n], constants[n]);
  }
  model->pieces = pieces;
  model->row_constant = constants;
  model->row_head = heads;
}

void perfmodel_cap(PerfModel *self, const PowerModel *power, Arena *arena) {
  self->power = power;
  if (power->cap >= power->limit) return;
  Capping linear = {&power->linear.slowed, 1, 1, arena};
  Capping prefill = {&power->prefill.slowed, 1, 1, arena};
  Capping decode = {&power->decode.slowed, 1, 1, arena};
  Capping head = {&power->head.slowed, 1, 1, arena};
  if (self->form == PERF_SPLITWISE_SIM) head = decode; // its curve is of decodes
  cap_curve(&linear, &self->linear);
  cap_curve(&linear, &self->spread);
  cap_curve(&prefill, &self->prefill_attention);
  cap_curve(&head, &self->head);
  cap_table(&prefill, &self->prefill_rows);
  cap_table(&decode, &self->mixed_attention);
  cap_rows(&decode, self);
  self->digest = hash_fold(self->digest, hash_bytes(&power->cap, sizeof power->cap));
}

/* ---- Of iterations ---- */

static double drawn(const PowerModel *self, const PowerTerm *term, int64_t x) {
  return fmin(power_curve_eval(&term->watts, x), self->cap);
}

static int64_t milliwatts(double watts) {
  return (int64_t)(1e3 * watts + 0.5);
}

static double watts_composed(const PerfModel *model, const BatchShape *batch,
                             const RankShare *busiest) {
  const PowerModel *power = model->power;
  const IterationTerms terms = perfmodel_terms(model, batch, busiest);
  const BatchShape *even = &terms.even;
  const double parts[][2] = {
      {(double)model->overhead, power->idle},
      {fine_ticks(terms.linear),
       drawn(power, &power->linear, even->prefill_tokens + even->decode_seqs)},
      {fine_ticks(terms.prefill), drawn(power, &power->prefill, even->prefill_area2)},
      {fine_ticks(terms.decode), drawn(power, &power->decode, even->context_tokens)},
      {fine_ticks(terms.head), drawn(power, &power->head, even->logit_seqs)}};
  double ticks = 0, sum = 0;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    ticks += parts[i][0];
    sum += parts[i][0] * parts[i][1];
  }
  return ticks > 0 ? sum / ticks : power->idle;
}

int64_t power_of_iteration(const PerfModel *model, const BatchShape *batch,
                           const RankShare *busiest) {
  const PowerModel *power = model->power;
  const int64_t tokens = batch->prefill_tokens + batch->decode_seqs;
  if (model->form == PERF_SPLITWISE_SIM) return milliwatts(drawn(power, &power->linear, tokens));
  return milliwatts(watts_composed(model, batch, busiest));
}

DecodePower power_of_decodes(const PerfModel *model, int64_t seqs, const DecodePiece *piece) {
  const PowerModel *power = model->power;
  const double rest = drawn(power, &power->decode, piece->start);
  if (model->form == PERF_SPLITWISE_SIM)
    return (DecodePower){.rest_mw = milliwatts(drawn(power, &power->decode, 1))};
  const double all = fine_ticks(model->row_constant[seqs]),
               head = fine_ticks(model->row_head[seqs]);
  const double host = (double)model->overhead;
  const double layers = all - head - host;
  const double sum = host * power->idle + head * drawn(power, &power->head, seqs) +
                     layers * drawn(power, &power->linear, seqs);
  return (DecodePower){.constant = tick_nearest(model->row_constant[seqs]),
                       .constant_mw = milliwatts(all > 0 ? sum / all : power->idle),
                       .rest_mw = milliwatts(rest)};
}
