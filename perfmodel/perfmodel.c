/* Compilation of the curves to decode pieces, and evaluation of an iteration. Loading is in
 * perfmodel_load.c. */
#include "perfmodel/perfmodel.h"
#include "base/hash.h"
#include "base/sort.h"
#include <assert.h>
#include <math.h>

/* Where the last piece of a row, which has no end, takes its slope from. */
enum { LAST_PIECE_SPAN = 1 << 20 };

int batch_compare(const BatchShape *a, const BatchShape *b) {
  const int64_t pairs[][2] = {{a->decode_seqs, b->decode_seqs},
                              {a->prefill_tokens, b->prefill_tokens},
                              {a->prefill_area2, b->prefill_area2},
                              {a->context_tokens, b->context_tokens},
                              {a->logit_seqs, b->logit_seqs}};
  return compare_pairs(pairs, sizeof pairs / sizeof *pairs);
}

/* What is looked up of n sequences with ranks: as many on each as on the busiest, `even` of them in
 * all, of as much context each. */
typedef struct RowRanks {
  int64_t seqs, even;
} RowRanks;

static int64_t even_context(RowRanks ranks, int64_t context) {
  return (int64_t)((Wide)context * ranks.even / ranks.seqs);
}

/* The first context of which even_context is `even` or more. */
static int64_t own_context(RowRanks ranks, int64_t even) {
  return (int64_t)(((Wide)even * ranks.seqs + ranks.even - 1) / ranks.even);
}

BatchShape batch_evened(const BatchShape *self, int64_t ranks, const RankShare *busiest) {
  BatchShape even = *self;
  if (ranks <= 1) return even;
  even.prefill_tokens = ranks * (busiest ? busiest->prefill_tokens : self->prefill_tokens);
  even.prefill_area2 = ranks * (busiest ? busiest->prefill_area2 : self->prefill_area2);
  even.decode_seqs = ranks_padded(self->decode_seqs, ranks);
  even.logit_seqs = ranks_padded(self->logit_seqs, ranks);
  if (self->decode_seqs > 0)
    even.context_tokens =
        even_context((RowRanks){self->decode_seqs, even.decode_seqs}, self->context_tokens);
  return even;
}

static Extrapolation curve_flag(const Pwl *curve, int64_t x) {
  if (curve->n_segments == 0) return EXTRAPOLATION_NONE;
  return extrapolation_of(curve->low, curve->high, x);
}

/* Contexts at which a row may change slope or flag, ascending from 0 without repeats. `points` has
 * room for both curves' segments and five more. */
static int mix_points(const CurveTable *table, const RowMix *mix, RowRanks ranks, int64_t low,
                      int64_t high, int64_t *points) {
  const int64_t bounds[] = {0, (low + 1) / 2, low, high + 1, 2 * high + 1};
  int n = 0;
  for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
    points[n++] = bounds[i];
  const CurveRow *rows[] = {mix->lower, mix->upper};
  for (int r = 0; r < 2; r++) {
    const Pwl *curve = &rows[r]->curve;
    for (int32_t i = 0; i < curve->n_segments; i++)
      points[n++] = curve->segments[i].start;
  }
  for (int i = 0; i < n; i++)
    points[i] = own_context(ranks, curve_table_sum(table, ranks.even, points[i]));
  return (int)sort_distinct(points, (size_t)n);
}

typedef struct PieceList {
  DecodePiece *items;
  size_t count, capacity;
  Arena *arena;
} PieceList;

static void pieces_push(PieceList *list, DecodePiece piece) {
  ARENA_RESERVE(list->arena, list->items, list->capacity, list->count + 1);
  list->items[list->count++] = piece;
}

/* Slopes are rounded down, so that a piece never ends above the start of the next and the row does
 * not fall. What the rounding of knots lets rows come closer is no fall. */
static void compile_row(PieceList *list, const CurveTable *table, RowRanks ranks, FineTick constant,
                        Extrapolation flag, int64_t *points) {
  const RowMix mix = curve_table_mix(table, ranks.even);
  const int64_t low = row_mix_low(&mix), high = row_mix_high(&mix);
  int n_points = mix_points(table, &mix, ranks, low, high, points);
  for (int i = 0; i < n_points; i++) {
    bool last = i + 1 == n_points;
    int64_t start = points[i];
    int64_t next = last ? start + LAST_PIECE_SPAN : points[i + 1];
    const int64_t x = curve_table_x(table, ranks.even, even_context(ranks, start));
    const int64_t x_next = curve_table_x(table, ranks.even, even_context(ranks, next));
    const FineTick here = row_mix_fine(&mix, x), rise = row_mix_fine(&mix, x_next) - here;
    pieces_push(list, (DecodePiece){.start = start,
                                    .end = last ? INT64_MAX : next,
                                    .base = constant + here,
                                    .slope = rise > 0 ? rise / (next - start) : 0,
                                    .extrapolation =
                                        extrapolation_worse(flag, extrapolation_of(low, high, x))});
  }
}

FineTick perfmodel_row_constant(const PerfModel *self, int64_t n, FineTick head,
                                Extrapolation *ret_flag) {
  *ret_flag = curve_flag(&self->head, ranks_padded(n, self->ranks));
  if (self->form == PERF_SPLITWISE_SIM) return head;
  const int64_t ranks = self->ranks > 1 ? self->ranks : 1;
  const int64_t padded =
      ranks * captured_size(&self->captured, ranks_padded(n, self->ranks) / ranks);
  *ret_flag = extrapolation_worse(*ret_flag, curve_flag(&self->linear, padded));
  return fine_from_ticks(self->overhead) + pwl_fine(&self->linear, padded) +
         pwl_fine(&self->spread, padded) + head;
}

static int64_t *points_alloc(const CurveTable *table, Arena *arena) {
  int32_t most = 0;
  for (int32_t i = 0; i < table->n_rows; i++)
    if (table->rows[i].curve.n_segments > most) most = table->rows[i].curve.n_segments;
  return ARENA_ARRAY(arena, int64_t, 2 * most + 5);
}

static void fold_words(uint64_t *hash, const int64_t *words, size_t n) {
  *hash = hash_fold(*hash, hash_bytes(words, n * sizeof *words));
}

#define FINE_WORDS(fine) (int64_t)((fine) >> FINE_BITS), (int64_t)((fine)&UINT32_MAX)

static void fold_curve(uint64_t *hash, const Pwl *curve) {
  for (int32_t i = 0; i < curve->n_segments; i++) {
    if (curve->knots) {
      fold_words(hash, &curve->knots[i].x, 1);
      *hash = hash_fold(*hash, hash_bytes(&curve->knots[i].seconds, sizeof(double)));
      continue;
    }
    const PwlSegment *segment = &curve->segments[i];
    fold_words(hash, (const int64_t[]){segment->start, segment->run, FINE_WORDS(segment->base)}, 4);
    *hash = hash_fold(*hash, hash_bytes(&segment->slope, sizeof segment->slope));
  }
  fold_words(hash, (const int64_t[]){curve->low, curve->high}, 2);
}

static void fold_table(uint64_t *hash, const CurveTable *table) {
  if (table->n_rows == 0) return;
  fold_words(hash, (const int64_t[]){table->n_rows, table->low, table->high}, 3);
  for (int32_t i = 0; i < table->n_rows; i++) {
    fold_words(hash, &table->rows[i].key, 1);
    fold_curve(hash, &table->rows[i].curve);
  }
}

static uint64_t digest_of(const PerfModel *model) {
  uint64_t hash = 0;
  fold_words(&hash, (const int64_t[]){model->form, model->overhead}, 2);
  if (model->stages > 1)
    fold_words(&hash, (const int64_t[]){model->stages, FINE_WORDS(model->send)}, 3);
  fold_curve(&hash, &model->linear);
  fold_curve(&hash, &model->prefill_attention);
  fold_curve(&hash, &model->head);
  fold_table(&hash, &model->prefill_rows);
  fold_table(&hash, &model->mixed_attention);
  if (model->ranks > 1) {
    fold_words(&hash, &model->ranks, 1);
    fold_curve(&hash, &model->spread);
  }
  hash = hash_fold(hash, hash_bytes(&model->mixed_factor, sizeof model->mixed_factor));
  const int32_t n_pieces = model->row_first[model->max_decode_seqs + 1];
  for (int32_t i = 0; i < n_pieces; i++) {
    const DecodePiece *piece = &model->pieces[i];
    fold_words(&hash,
               (const int64_t[]){piece->start, piece->end, FINE_WORDS(piece->base),
                                 FINE_WORDS(piece->slope), piece->extrapolation},
               7);
  }
  return hash;
}

void perfmodel_compile(PerfModel *self, const CurveTable *table, int64_t max_decode_seqs,
                       Arena *arena) {
  assert(max_decode_seqs >= 1 && max_decode_seqs < INT32_MAX / 64);
  PieceList list = {.arena = arena};
  int32_t *first = ARENA_ARRAY(arena, int32_t, max_decode_seqs + 2);
  FineTick *constants = ARENA_ARRAY(arena, FineTick, max_decode_seqs + 1);
  FineTick *heads = ARENA_ARRAY(arena, FineTick, max_decode_seqs + 1);
  int64_t *points = points_alloc(table, arena);
  for (int64_t n = 1; n <= max_decode_seqs; n++) {
    Extrapolation flag;
    const RowRanks ranks = {n, ranks_padded(n, self->ranks)};
    heads[n] = pwl_fine(&self->head, ranks.even);
    constants[n] = perfmodel_row_constant(self, n, heads[n], &flag);
    if (table->n_rows == 0) {
      pieces_push(&list, (DecodePiece){constants[n], 0, 0, INT64_MAX, flag});
    } else {
      flag = extrapolation_worse(flag, extrapolation_of(table->low, table->high, ranks.even));
      compile_row(&list, table, ranks, constants[n], flag, points);
    }
    first[n + 1] = (int32_t)list.count;
  }
  self->max_decode_seqs = max_decode_seqs;
  self->pieces = list.items;
  self->row_first = first;
  self->row_constant = constants;
  self->row_head = heads;
  self->digest = digest_of(self);
}

void perfmodel_share(Pwl *self, const Pwl *curve, SpreadShare *share, const void *context,
                     Arena *arena) {
  const int32_t n = curve->n_segments;
  PwlKnot *knots = ARENA_ARRAY(arena, PwlKnot, n + 1);
  for (int32_t i = 0; i <= n; i++) {
    const PwlSegment *last = &curve->segments[n - 1];
    const int64_t x = i < n ? curve->segments[i].start : last->start + last->run;
    const double seconds = fine_ticks(pwl_fine(curve, x)) / 1e12;
    knots[i] = (PwlKnot){x, seconds * share(context, (double)x)};
  }
  const Pwl range = *curve; // which may be `self`
  pwl_init(self, knots, n + 1, false, arena);
  self->low = range.low;
  self->high = range.high;
}

/* What a share leaves. */
typedef struct Rest {
  SpreadShare *share;
  const void *context;
} Rest;

static double rest_of(const void *context, double tokens) {
  const Rest *self = context;
  return 1 - self->share(self->context, tokens);
}

void perfmodel_spread(PerfModel *self, SpreadShare *share, const void *context, Arena *arena) {
  assert(self->form == PERF_COMPOSED && self->ranks > 1 && self->spread.n_segments == 0);
  if (self->linear.n_segments == 0) return;
  const Rest rest = {share, context};
  perfmodel_share(&self->spread, &self->linear, share, context, arena);
  perfmodel_share(&self->linear, &self->linear, rest_of, &rest, arena);
  self->digest = digest_of(self);
}

static FineTick prefill_fine(const PerfModel *self, int64_t tokens, int64_t area2,
                             Extrapolation *ret_flag) {
  if (self->prefill_rows.n_rows > 0 && tokens > 0)
    return curve_table_fine(&self->prefill_rows, tokens, area2, ret_flag);
  *ret_flag = curve_flag(&self->prefill_attention, area2);
  return pwl_fine(&self->prefill_attention, area2);
}

/* What decodes take in one call of attention with prefill. */
static FineTick mixed_fine(const PerfModel *self, const BatchShape *batch,
                           Extrapolation *ret_flag) {
  const int64_t n = batch->decode_seqs, context = batch->context_tokens;
  *ret_flag = EXTRAPOLATION_NONE;
  if (n == 0) return 0;
  const RowRanks ranks = {n, ranks_padded(n, self->ranks)};
  if (self->mixed_attention.n_rows > 0)
    return curve_table_fine(&self->mixed_attention, ranks.even, even_context(ranks, context),
                            ret_flag);
  const DecodePiece *piece = perfmodel_decode(self, n, context);
  const FineTick alone = decode_piece_fine(piece, context) - self->row_constant[n];
  *ret_flag = piece->extrapolation;
  return self->mixed_factor > 0 ? fine_from_real(self->mixed_factor * fine_ticks(alone)) : alone;
}

static FineTick iteration_composed(const PerfModel *self, const BatchShape *batch,
                                   const RankShare *busiest, Extrapolation *ret_flag) {
  const BatchShape even = batch_evened(batch, self->ranks, busiest);
  const int64_t tokens = even.prefill_tokens + even.decode_seqs;
  Extrapolation prefill, mixed, flag = curve_flag(&self->linear, tokens);
  const FineTick fine = fine_from_ticks(self->overhead) + pwl_fine(&self->linear, tokens) +
                        pwl_fine(&self->spread, batch->prefill_tokens + batch->decode_seqs) +
                        prefill_fine(self, even.prefill_tokens, even.prefill_area2, &prefill) +
                        mixed_fine(self, batch, &mixed) + pwl_fine(&self->head, even.logit_seqs);
  if (even.logit_seqs > 0)
    flag = extrapolation_worse(flag, curve_flag(&self->head, even.logit_seqs));
  *ret_flag = extrapolation_worse(flag, extrapolation_worse(prefill, mixed));
  return fine;
}

IterationTerms perfmodel_terms(const PerfModel *self, const BatchShape *batch,
                               const RankShare *busiest) {
  assert(self->form == PERF_COMPOSED);
  const BatchShape even = batch_evened(batch, self->ranks, busiest);
  Extrapolation flag;
  return (IterationTerms){
      .even = even,
      .linear = pwl_fine(&self->linear, even.prefill_tokens + even.decode_seqs) +
                pwl_fine(&self->spread, batch->prefill_tokens + batch->decode_seqs),
      .prefill = prefill_fine(self, even.prefill_tokens, even.prefill_area2, &flag),
      .decode = mixed_fine(self, batch, &flag),
      .head = pwl_fine(&self->head, even.logit_seqs)};
}

/* SplitwiseSim performance_model.py, get_iteration_duration. */
static FineTick iteration_splitwise_sim(const PerfModel *self, const BatchShape *batch,
                                        Extrapolation *ret_flag) {
  int64_t tokens = batch->prefill_tokens + batch->decode_seqs;
  const double seconds = self->linear.n_segments > 0 ? pwl_seconds(&self->linear, tokens) : 0;
  *ret_flag = curve_flag(&self->linear, tokens);
  return fine_from_seconds(batch->decode_seqs == 0 ? seconds : self->mixed_factor * seconds);
}

static FineTick iteration_fine(const PerfModel *self, const BatchShape *batch,
                               const RankShare *busiest, Extrapolation *ret_extrapolation) {
  int64_t n = batch->decode_seqs, context = batch->context_tokens;
  assert(n >= 0 && n <= self->max_decode_seqs && batch->prefill_tokens + n > 0);
  FineTick fine;
  Extrapolation flag;
  if (batch->prefill_tokens == 0) {
    const DecodePiece *piece = perfmodel_decode(self, n, context);
    fine = decode_piece_fine(piece, context);
    flag = piece->extrapolation;
  } else if (self->form == PERF_SPLITWISE_SIM) {
    fine = iteration_splitwise_sim(self, batch, &flag);
  } else {
    fine = iteration_composed(self, batch, busiest, &flag);
    const FineTick eager = fine_from_ticks(self->eager);
    if (fine < eager && batch->prefill_tokens + n > self->graph_tokens) fine = eager;
  }
  if (ret_extrapolation) *ret_extrapolation = flag;
  return fine;
}

Tick perfmodel_iteration_on(const PerfModel *self, const BatchShape *batch,
                            const RankShare *busiest, Extrapolation *ret_extrapolation) {
  return tick_nearest(iteration_fine(self, batch, busiest, ret_extrapolation));
}

/* Tokens that the layers compute: decodes alone are padded to a captured size. */
static int64_t layer_tokens(const PerfModel *self, const BatchShape *even, int64_t drafts) {
  const int64_t ranks = self->ranks > 1 ? self->ranks : 1;
  const int64_t tokens = even->prefill_tokens + even->decode_seqs + drafts;
  return even->prefill_tokens > 0 ? tokens : ranks * captured_size(&self->captured, tokens / ranks);
}

void perfmodel_add_rank(RanksTime *self, const PerfModel *model, const BatchShape *batch,
                        int64_t drafts, Tick more) {
  const int64_t ranks = model->ranks > 1 ? model->ranks : 1;
  const BatchShape all = {.prefill_tokens = ranks * batch->prefill_tokens,
                          .prefill_area2 = ranks * batch->prefill_area2,
                          .decode_seqs = ranks * batch->decode_seqs,
                          .context_tokens = ranks * batch->context_tokens,
                          .logit_seqs = ranks * batch->logit_seqs};
  const RankShare each = {batch->prefill_tokens, batch->prefill_area2};
  const int64_t tokens = layer_tokens(model, &all, 0);
  const int64_t padded = layer_tokens(model, &all, ranks * drafts);
  Extrapolation flag;
  FineTick fine = iteration_fine(model, &all, &each, &flag) + fine_from_ticks(more) -
                  pwl_fine(&model->spread, tokens);
  if (drafts > 0)
    fine += pwl_fine(&model->linear, padded) - pwl_fine(&model->linear, tokens) +
            pwl_fine(&model->head, all.logit_seqs + ranks * drafts) -
            pwl_fine(&model->head, all.logit_seqs);
  if (fine > self->longest) self->longest = fine;
  if (padded > self->padded) self->padded = padded;
  self->tokens += batch->prefill_tokens + batch->decode_seqs + drafts;
  self->prefills |= batch->prefill_tokens > 0;
  self->extrapolation = extrapolation_worse(self->extrapolation, flag);
  self->model = model;
}

Tick perfmodel_ranks(const RanksTime *self) {
  return tick_nearest(self->longest + pwl_fine(&self->model->spread, perfmodel_ranks_tokens(self)));
}

/* What the layers take of `drafts` tokens more. */
static FineTick drafted_fine(const PerfModel *self, const BatchShape *batch, int64_t drafts) {
  const BatchShape even = batch_evened(batch, self->ranks, NULL);
  const int64_t tokens = batch->prefill_tokens + batch->decode_seqs;
  return pwl_fine(&self->linear, layer_tokens(self, &even, ranks_padded(drafts, self->ranks))) -
         pwl_fine(&self->linear, layer_tokens(self, &even, 0)) +
         pwl_fine(&self->spread, tokens + drafts) - pwl_fine(&self->spread, tokens);
}

Tick perfmodel_drafts(const PerfModel *self, const BatchShape *batch, int64_t drafts) {
  assert(self->form == PERF_COMPOSED);
  const int64_t logits = ranks_padded(batch->logit_seqs, self->ranks);
  const int64_t all = ranks_padded(drafts, self->ranks);
  return tick_nearest(drafted_fine(self, batch, drafts) + pwl_fine(&self->head, logits + all) -
                      pwl_fine(&self->head, logits));
}

/* What the layers of an iteration take, without the host and, in `ret_head`, the head. */
static FineTick layers_fine(const PerfModel *self, const BatchShape *batch,
                            const RankShare *busiest, FineTick *ret_head,
                            Extrapolation *ret_extrapolation) {
  const FineTick whole = iteration_fine(self, batch, busiest, ret_extrapolation);
  *ret_head = 0;
  if (batch->prefill_tokens == 0)
    *ret_head = self->row_head[batch->decode_seqs];
  else if (batch->logit_seqs > 0)
    *ret_head = pwl_fine(&self->head, ranks_padded(batch->logit_seqs, self->ranks));
  return whole - *ret_head - fine_from_ticks(self->overhead);
}

Tick perfmodel_drafter(const PerfModel *self, const BatchShape *batch, int64_t drafts,
                       DrafterPasses passes, int64_t n_layers) {
  assert(self->form == PERF_COMPOSED);
  const int64_t seqs =
      batch->logit_seqs < self->max_decode_seqs ? batch->logit_seqs : self->max_decode_seqs;
  const BatchShape one = {.decode_seqs = seqs,
                          .logit_seqs = seqs,
                          .context_tokens = batch->context_tokens + batch->prefill_tokens};
  FineTick head, of_all;
  const FineTick host = seqs * fine_from_ticks(self->host_per_sequence);
  const FineTick all =
      layers_fine(self, batch, NULL, &of_all, NULL) + drafted_fine(self, batch, drafts);
  const FineTick ones = layers_fine(self, &one, NULL, &head, NULL);
  return tick_nearest(fine_divide(passes.all * all + passes.one * ones, n_layers) +
                      (passes.all + passes.one) * (head - host));
}

Tick perfmodel_stage(const PerfModel *self, const BatchShape *batch, const RankShare *busiest,
                     int64_t n_stages, Tick *ret_last, Extrapolation *ret_extrapolation) {
  assert(n_stages > 1 && self->form == PERF_COMPOSED);
  assert(self->stages <= 1 || self->stages == n_stages);
  FineTick head;
  const FineTick layers = layers_fine(self, batch, busiest, &head, ret_extrapolation);
  const FineTick overhead = fine_from_ticks(self->overhead);
  const FineTick share = self->stages == n_stages ? layers : fine_divide(layers, n_stages);
  *ret_last = tick_nearest(share + overhead + head);
  return tick_nearest(share + overhead);
}

static double prefill_throughput(const PerfModel *self, int64_t tokens) {
  return (double)tokens / (double)perfmodel_prefill(self, tokens);
}

int64_t perfmodel_saturation_tokens(const PerfModel *self) {
  const int64_t most = 1 << 16;
  double best = 0;
  for (int64_t tokens = 1; tokens <= most; tokens *= 2)
    best = fmax(best, prefill_throughput(self, tokens));
  int64_t least = 1;
  while (prefill_throughput(self, least) < 0.9 * best)
    least *= 2;
  return least;
}
