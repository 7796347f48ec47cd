/* See batches.h. */
#include "sim/batches.h"
#include "sim/base/batch_means.h"
#include <math.h>
#include <string.h>

const int ranged_histograms[RANGED] = {METRICS_ttft, METRICS_tbt, METRICS_tpot, METRICS_e2e};

void batches_init(Batches *self, Arena *arena) {
  *self =
      (Batches){.arena = arena, .width = 1, .next = 1, .asked_width = 1, .bin_width = BATCHES_BIN};
}

/* ---- Copies ---- */

static void copy(HistogramCopy *self, const Histogram *of, Arena *arena) {
  self->total = of->total;
  self->sum = of->sum;
  self->first = self->n = 0;
  if (of->total == 0) return;
  self->first = histogram_bucket(of->min);
  self->n = histogram_bucket(of->max) - self->first + 1;
  ARENA_RESERVE(arena, self->counts, self->capacity, (size_t)self->n);
  uint64_t sum = 0;
  for (int i = 0; i < self->n; i++)
    self->counts[i] = sum += of->counts[self->first + i];
}

/* Observations in buckets before this one. */
static double below(const HistogramCopy *self, int bucket) {
  const int i = bucket - self->first;
  if (i <= 0 || self->n == 0) return 0;
  return (double)(i > self->n ? self->total : self->counts[i - 1]);
}

/* Every second point goes; its room is used again. */
static void drop_points(Batches *self) {
  for (size_t i = 0; i < BATCHES_MOST / 2; i++) {
    const BatchPoint kept = self->points[2 * i + 1];
    self->points[2 * i + 1] = self->points[i];
    self->points[i] = kept;
  }
  self->n_points = BATCHES_MOST / 2;
  self->width *= 2;
}

static void add_turnover(Batches *self, uint64_t asked, uint64_t ended) {
  if (asked < self->next_asked) return;
  if (self->n_turnovers == BATCHES_MOST) {
    for (size_t i = 0; i < BATCHES_MOST / 2; i++)
      self->turnovers[i] = self->turnovers[2 * i + 1];
    self->n_turnovers = BATCHES_MOST / 2;
    self->asked_width *= 2;
  }
  self->turnovers[self->n_turnovers++] = (Turnover){asked, ended};
  self->next_asked = asked - asked % self->asked_width + self->asked_width;
}

void batches_end(Batches *self, const Metrics *metrics) {
  const uint64_t ended = metrics_ended(metrics);
  add_turnover(self, metrics->asked.requests, ended);
  if (ended < self->next) return;
  if (self->n_points == BATCHES_MOST) drop_points(self);
  BatchPoint *point = &self->points[self->n_points++];
  for (int i = 0; i < RANGED; i++)
    copy(&point->of[i], &metrics->histograms[ranged_histograms[i]], self->arena);
  self->next = ended - ended % self->width + self->width;
}

/* ---- Order of arrival ---- */

static void join_bins(Batches *self) {
  for (size_t i = 0; i < BATCHES_BINS / 2; i++) {
    const ArrivalBin *one = &self->bins[2 * i], *other = one + 1;
    self->bins[i] = (ArrivalBin){one->ttft_s + other->ttft_s, one->e2e_s + other->e2e_s,
                                 one->n > 0 ? one->first_at : other->first_at, one->n + other->n};
  }
  memset(&self->bins[BATCHES_BINS / 2], 0, sizeof self->bins / 2);
  self->bin_width *= 2;
}

void batches_serve(Batches *self, const RequestRecord *record) {
  while (record->id / self->bin_width >= BATCHES_BINS)
    join_bins(self);
  ArrivalBin *bin = &self->bins[record->id / self->bin_width];
  if (bin->n == 0 || record->arrived_at < bin->first_at) bin->first_at = record->arrived_at;
  bin->ttft_s += tick_seconds(record->first_token_at - record->arrived_at);
  bin->e2e_s += tick_seconds(record->last_token_at - record->arrived_at);
  bin->n++;
}

FoundStart batches_start(const Batches *self) {
  enum { LEAST = 10 }; // bins
  double ttft[BATCHES_BINS], e2e[BATCHES_BINS];
  size_t bins[BATCHES_BINS], n = 0;
  for (size_t i = 0; i < BATCHES_BINS; i++) {
    const ArrivalBin *bin = &self->bins[i];
    if (bin->n == 0) continue;
    bins[n] = i;
    ttft[n] = bin->ttft_s / (double)bin->n;
    e2e[n++] = bin->e2e_s / (double)bin->n;
  }
  if (n < LEAST) return (FoundStart){0};
  const size_t by_ttft = mser(ttft, n), by_e2e = mser(e2e, n);
  const size_t cut = by_ttft > by_e2e ? by_ttft : by_e2e;
  return (FoundStart){.requests = cut > 0 ? bins[cut] * self->bin_width : 0,
                      .until = cut > 0 ? self->bins[bins[cut]].first_at : 0,
                      .ended = cut < n / 2};
}

/* ---- Ranges ---- */

/* What batches of some points each added; the last has all the rest. */
typedef struct Cut {
  size_t step, n; // points of a batch, batches
} Cut;

/* As many as there are when points are joined by two until there are few enough. */
static Cut cut_of(const Batches *self) {
  enum { MOST = 40 };
  Cut cut = {1, self->n_points};
  while (cut.n > MOST) {
    cut.step *= 2;
    cut.n = self->n_points / cut.step;
  }
  return cut;
}

typedef double Figure(const HistogramCopy *copy, int bucket, double share);

static double sum_of(const HistogramCopy *copy, int bucket, double share) {
  (void)bucket, (void)share;
  return copy->sum;
}

/* Observations below a place within a bucket. */
static double share_of(const HistogramCopy *copy, int bucket, double share) {
  return below(copy, bucket) + share * (below(copy, bucket + 1) - below(copy, bucket));
}

static double range(const Batches *self, const Metrics *metrics, Ranged which, Figure *figure,
                    int bucket, double share) {
  double sums[BATCHES_MOST], weights[BATCHES_MOST], sum = 0, weight = 0;
  const Cut cut = cut_of(self);
  HistogramCopy whole = {0};
  Arena arena;
  arena_init(&arena);
  copy(&whole, &metrics->histograms[ranged_histograms[which]], &arena);
  for (size_t i = 0; i < cut.n; i++) {
    const HistogramCopy *end =
        i + 1 < cut.n ? &self->points[(i + 1) * cut.step - 1].of[which] : &whole;
    sums[i] = figure(end, bucket, share) - sum;
    weights[i] = (double)end->total - weight;
    sum += sums[i];
    weight += weights[i];
  }
  arena_done(&arena);
  return batch_means_half_width(sums, weights, cut.n);
}

double batches_mean_range(const Batches *self, const Metrics *metrics, Ranged which) {
  return range(self, metrics, which, sum_of, 0, 0);
}

double batches_quantile_range(const Batches *self, const Metrics *metrics, Ranged which, double q) {
  const Histogram *histogram = &metrics->histograms[ranged_histograms[which]];
  if (histogram->total == 0) return NAN;
  const double last = (double)(histogram->total - 1), rank = q * (double)histogram->total;
  int bucket = histogram_bucket(histogram->min);
  double before = 0;
  while (before + (double)histogram->counts[bucket] < rank)
    before += (double)histogram->counts[bucket++];
  const double share = (rank - before) / (double)histogram->counts[bucket];
  const double half = range(self, metrics, which, share_of, bucket, share);
  if (isnan(half) || q + half >= 1) return NAN;
  return (histogram_at_rank(histogram, (q + half) * last) -
          histogram_at_rank(histogram, fmax(q - half, 0) * last)) /
         2;
}

/* ---- Saturation ---- */

/* Mean E2E of a quarter of the requests, in order of arrival. */
static double quarter_e2e(const Batches *self, size_t n_bins, size_t quarter) {
  double sum = 0;
  int64_t n = 0;
  for (size_t i = quarter * n_bins / 4; i < (quarter + 1) * n_bins / 4; i++) {
    sum += self->bins[i].e2e_s;
    n += self->bins[i].n;
  }
  return n > 0 ? sum / (double)n : 0;
}

/* The later, the longer: not only a cluster that fills. */
static bool waits_grow(const Batches *self) {
  static const double least_growth = 1.25;
  size_t n = BATCHES_BINS;
  while (n > 0 && self->bins[n - 1].n == 0)
    n--;
  return quarter_e2e(self, n, 3) > least_growth * quarter_e2e(self, n, 1);
}

bool batches_saturated(const Batches *self) {
  enum { LEAST = 4 };
  static const double strict = 1.31; // of 95%, it makes 99%
  static const double least_share = 0.02;
  const size_t n = self->n_turnovers, from = n / 2; // the cluster fills first
  if (n < from + LEAST + 1 || !waits_grow(self)) return false;
  double sum = 0, squares = 0;
  for (size_t i = from + 1; i < n; i++) {
    const Turnover *end = &self->turnovers[i], *begin = end - 1;
    const double growth = (double)(end->asked - begin->asked) - (double)(end->ended - begin->ended);
    sum += growth;
    squares += growth * growth;
  }
  const double count = (double)(n - from - 1), mean = sum / count;
  const double error = sqrt(fmax(squares / count - mean * mean, 0) / (count - 1));
  const double arrived = (double)(self->turnovers[n - 1].asked - self->turnovers[from].asked);
  return sum > least_share * arrived && mean > strict * student_t95((int)count - 1) * error;
}
