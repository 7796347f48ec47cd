/* See attention_ffn.h. */
#include "perfmodel/attention_ffn.h"
#include <math.h>

double pingpong_seconds(const PingPong *self, double layers, double micro_batches) {
  const double longest = fmax(fmax(self->attention, self->ffn), self->send);
  const double round = self->attention + self->ffn + 2 * self->send;
  return round + (layers - 1) * fmax(micro_batches * longest, round) +
         (micro_batches - 1) * longest;
}

/* GPUs that a token of a mean layer is sent to. */
static double copies_of(const Llm *llm, double gpus) {
  const double all = (double)llm->num_hidden_layers;
  double missed = 1;
  for (int64_t i = 0; i < llm->num_experts_per_tok; i++)
    missed *= 1 - 1 / gpus;
  return ((double)llm_dense_layers(llm) + (double)llm_moe_layers(llm) * gpus * (1 - missed)) / all;
}

void attention_ffn_init(AttentionFfn *self, const Llm *llm, const Hardware *hardware,
                        Parallelism degrees, const EnginePreset *preset, Arena *arena) {
  const double ffn = (double)degrees.ffn;
  const double attention = (double)(degrees.tensor * degree_of(degrees.attention));
  const bool together = parallelism_gpus(degrees) <= hardware->num_gpus;
  const double rate = together ? hardware_link_rate(hardware) : hardware_nic_rate(hardware);
  *self =
      (AttentionFfn){.layers = (double)llm->num_hidden_layers,
                     .micro_batches = degrees.micro_batches > 1 ? (double)degrees.micro_batches : 1,
                     .send_fixed = tick_seconds(hardware->all_reduce_latency),
                     .send_slope = (double)llm->dtype_bytes * (double)llm->hidden_size *
                                   copies_of(llm, ffn) / (fmin(attention, ffn) * rate)};
  roofline_init_side(&self->attention, llm, hardware, degrees, preset, ROOFLINE_ATTENTION, arena);
  roofline_init_side(&self->ffn, llm, hardware, degrees, preset, ROOFLINE_FFN, arena);
  self->name = arena_printf(arena, "%s_ffn%lld", self->attention.name, (long long)degrees.ffn);
}

PingPong attention_ffn_layer(const AttentionFfn *self, double tokens, double seqs, double context) {
  const double attention = roofline_linear_seconds(&self->attention, tokens) +
                           roofline_decode_seconds(&self->attention, seqs, context);
  return (PingPong){attention / self->layers,
                    roofline_linear_seconds(&self->ffn, tokens) / self->layers,
                    self->send_fixed + self->send_slope * tokens};
}

double attention_ffn_seconds(const AttentionFfn *self, double tokens, double seqs, double context) {
  const double m = fmin(self->micro_batches, tokens);
  const PingPong layer = attention_ffn_layer(self, tokens / m, seqs / m, context / m);
  return pingpong_seconds(&layer, self->layers, m);
}

/* ---- To curves ---- */

static double within(double seconds) {
  return fmin(seconds, tick_seconds(PWL_TICKS_MAX));
}

/* Without context. */
static Pwl linear_curve(const AttentionFfn *self, Arena *arena) {
  PwlKnot knots[ROOFLINE_SIZES_MAX + 1] = {{0, 0}};
  int64_t sizes[ROOFLINE_SIZES_MAX];
  const int n = roofline_sizes(sizes, ROOFLINE_LAST_KNOT);
  for (int i = 0; i < n; i++)
    knots[1 + i] = (PwlKnot){sizes[i], within(attention_ffn_seconds(self, (double)sizes[i], 0, 0))};
  Pwl curve;
  pwl_init(&curve, knots, n + 1, false, arena);
  curve.high = INT64_C(1) << 60;
  return curve;
}

enum { BENDS_MAX = 64 };

typedef struct Bends {
  int64_t at[BENDS_MAX]; // [n], ascending
  int n;
} Bends;

static void add_bend(Bends *self, double context) {
  if (!(context >= 0) || context > (double)(INT64_C(1) << 30)) return;
  for (int64_t x = (int64_t)context; x <= (int64_t)context + 1; x++) {
    int i = self->n;
    while (i > 0 && self->at[i - 1] > x)
      i--;
    if ((i > 0 && self->at[i - 1] == x) || self->n == BENDS_MAX) continue;
    for (int k = self->n++; k > i; k--)
      self->at[k] = self->at[k - 1];
    self->at[i] = x;
  }
}

/* Contexts in [from, to] of n decodes, on which attention is a line, at which it takes so long in a
 * layer of a micro-batch of 1/m of them. */
static void add_where(const AttentionFfn *self, Bends *bends, double n, double m, double from,
                      double to, double attention) {
  const double low = attention_ffn_layer(self, n / m, n / m, from / m).attention;
  const double high = attention_ffn_layer(self, n / m, n / m, to / m).attention;
  if (low < attention && attention < high)
    add_bend(bends, from + (to - from) * (attention - low) / (high - low));
}

/* Where windows are full, and between those where attention begins to be what takes longest, and
 * where the pipeline begins to be full. */
static void find_bends(const AttentionFfn *self, double n, Bends *bends) {
  const double m = fmin(self->micro_batches, n);
  const PingPong none = attention_ffn_layer(self, n / m, n / m, 0);
  const double others = fmax(none.ffn, none.send), rest = none.ffn + 2 * none.send;
  double ends[ROOFLINE_WINDOWS + 2] = {0};
  int n_ends = 1;
  for (int i = 0; i < ROOFLINE_WINDOWS; i++) {
    const double full = n * (double)self->attention.windows[i].window;
    if (full > 0 && full < ROOFLINE_LAST_KNOT * 512.0) ends[n_ends++] = full;
  }
  if (n_ends == 3 && ends[1] > ends[2]) {
    const double first = ends[2];
    ends[2] = ends[1];
    ends[1] = first;
  }
  ends[n_ends] = ROOFLINE_LAST_KNOT * 512.0;
  *bends = (Bends){.at = {0}, .n = 1};
  for (int i = 0; i < n_ends; i++) {
    if (i > 0) add_bend(bends, ends[i]);
    add_where(self, bends, n, m, ends[i], ends[i + 1], others);
    add_where(self, bends, n, m, ends[i], ends[i + 1], m * others - rest);
    if (m > 1) add_where(self, bends, n, m, ends[i], ends[i + 1], rest / (m - 1));
  }
}

static Pwl context_curve(const AttentionFfn *self, int64_t seqs, Arena *arena) {
  const double n = (double)seqs, bare = attention_ffn_seconds(self, n, 0, 0);
  PwlKnot knots[BENDS_MAX + 1];
  Bends bends;
  find_bends(self, n, &bends);
  const int64_t last = bends.at[bends.n - 1] + ROOFLINE_LAST_KNOT;
  double least = 0; // no rounding makes a curve fall
  for (int i = 0; i <= bends.n; i++) {
    const int64_t context = i < bends.n ? bends.at[i] : last;
    least = fmax(least, within(attention_ffn_seconds(self, n, n, (double)context) - bare));
    knots[i] = (PwlKnot){context, least};
  }
  Pwl curve;
  pwl_init(&curve, knots, bends.n + 1, false, arena);
  curve.high = INT64_C(1) << 31;
  return curve;
}

/* Attention of prompts as one line: what windows save of it is not counted. */
static Pwl prefill_curve(const AttentionFfn *self, Arena *arena) {
  enum { LAST = 1 << 30 };
  double slope = self->attention.prefill_attention.compute_slope;
  for (int i = 0; i < ROOFLINE_WINDOWS; i++)
    slope += self->attention.windows[i].prefill_slope;
  const PwlKnot knots[] = {{0, 0}, {LAST, within(slope * LAST)}};
  Pwl curve;
  pwl_init(&curve, knots, 2, false, arena);
  curve.high = INT64_C(1) << 60;
  return curve;
}

static Pwl head_curve(const AttentionFfn *self, Arena *arena) {
  PwlKnot knots[ROOFLINE_SIZES_MAX + 1] = {{0, 0}};
  int64_t sizes[ROOFLINE_SIZES_MAX];
  const int n = roofline_sizes(sizes, ROOFLINE_LAST_KNOT);
  for (int i = 0; i < n; i++)
    knots[1 + i] =
        (PwlKnot){sizes[i], within(roofline_term_seconds(&self->attention.head, (double)sizes[i]))};
  Pwl curve;
  pwl_init(&curve, knots, n + 1, false, arena);
  curve.high = INT64_C(1) << 60;
  return curve;
}

void attention_ffn_compile(const AttentionFfn *self, PerfModel *model, int64_t max_decode_seqs,
                           Arena *arena) {
  int64_t sizes[ROOFLINE_SIZES_MAX];
  const int n = roofline_sizes(sizes, max_decode_seqs);
  CurveRow *rows = ARENA_ARRAY(arena, CurveRow, n);
  for (int i = 0; i < n; i++)
    rows[i] = (CurveRow){sizes[i], context_curve(self, sizes[i], arena)};
  const CurveTable table = {.rows = rows, .n_rows = n, .low = 1, .high = INT64_C(1) << 60};
  *model = (PerfModel){.name = self->name,
                       .held_out_error = NAN,
                       .form = PERF_COMPOSED,
                       .overhead = tick_from_seconds(self->attention.overhead),
                       .stages = 1,
                       .captured = self->attention.captured,
                       .ranks = self->attention.ranks,
                       .linear = linear_curve(self, arena),
                       .prefill_attention = prefill_curve(self, arena),
                       .head = head_curve(self, arena)};
  perfmodel_compile(model, &table, max_decode_seqs, arena);
}
