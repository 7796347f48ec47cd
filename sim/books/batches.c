/* See batches.h. */
#include "sim/books/batches.h"
#include "base/batch_means.h"
#include <math.h>
#include <string.h>

void batches_init(Batches *self, uint64_t ranged, Arena *arena) {
  *self = (Batches){.arena = arena,
                    .ranged = ranged | RANGED_ALWAYS,
                    .width = BATCHES_WIDTH,
                    .next = BATCHES_WIDTH,
                    .asked_width = 1,
                    .bin_width = BATCHES_BIN};
}

void batches_range_components(Batches *self, const uint32_t *components, uint32_t n) {
  self->components = components;
  self->n_components = n;
  for (size_t i = 0; i < BATCHES_MOST && n > 0; i++)
    self->points[i].components = ARENA_ARRAY(self->arena, ComponentPoint, n);
}

static bool is_ranged(const Batches *self, int histogram) {
  return self->ranged >> histogram & 1;
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
  memcpy(self->counts, &of->counts[self->first], (size_t)self->n * sizeof *self->counts);
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

void batches_arrive(Batches *self, const Metrics *metrics) {
  const uint64_t asked = metrics->asked.requests;
  if (asked < self->next_asked) return;
  if (self->n_turnovers == BATCHES_MOST) {
    for (size_t i = 0; i < BATCHES_MOST / 2; i++)
      self->turnovers[i] = self->turnovers[2 * i + 1];
    self->n_turnovers = BATCHES_MOST / 2;
    self->asked_width *= 2;
  }
  self->turnovers[self->n_turnovers++] = (Turnover){asked, metrics_ended(metrics)};
  self->next_asked = asked - asked % self->asked_width + self->asked_width;
}

static uint64_t ended_of(const ComponentMetrics *self) {
  return self->completed + self->rejected + self->cancelled;
}

static void copy_component(ComponentPoint *self, const ComponentMetrics *of, Arena *arena) {
  for (int i = 0; i < COMPONENT_HISTOGRAMS; i++)
    copy(&self->of[i], &of->histograms[i], arena);
  self->ended = ended_of(of);
  self->good = of->good;
}

void batches_end(Batches *self, const Metrics *metrics) {
  const uint64_t ended = metrics_ended(metrics);
  if (ended < self->next) return;
  if (self->n_points == BATCHES_MOST) drop_points(self);
  BatchPoint *point = &self->points[self->n_points++];
  for (int i = 0; i < METRICS_HISTOGRAMS; i++)
    if (is_ranged(self, i)) copy(&point->of[i], &metrics->histograms[i], self->arena);
  for (uint32_t i = 0; i < self->n_components; i++)
    copy_component(&point->components[i], &metrics->components[self->components[i] - 1],
                   self->arena);
  point->ended = ended;
  point->good = metrics->good;
  self->next = ended - ended % self->width + self->width;
}

/* ---- Order of arrival ---- */

static void join_bins(Batches *self) {
  for (size_t i = 0; i < BATCHES_BINS / 2; i++) {
    const ArrivalBin *one = &self->bins[2 * i], *other = one + 1;
    self->bins[i] = (ArrivalBin){one->ttft_s + other->ttft_s, one->e2e_s + other->e2e_s,
                                 one->wait_s + other->wait_s,
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
  bin->wait_s += tick_seconds(record->last_token_at - record->arrived_at - record->computing_ticks);
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

/* Half of the range of a ratio, from its sums and weights up to the end of each batch. */
static double range(double *sums, double *weights, size_t n) {
  for (size_t i = n; i-- > 1;) {
    sums[i] -= sums[i - 1];
    weights[i] -= weights[i - 1];
  }
  return batch_means_half_width(sums, weights, n);
}

/* What had been booked by the end of a batch; NULL: all of it. */
static const BatchPoint *end_of(const Batches *self, Cut cut, size_t batch) {
  return batch + 1 < cut.n ? &self->points[(batch + 1) * cut.step - 1] : NULL;
}

/* What is asked of: a histogram of all requests, or of a component. */
typedef struct Ranged {
  const Histogram *whole;
  int component; // index of BatchPoint.components; -1: all requests
  int histogram; // of either
} Ranged;

/* False: it is not ranged, or too few requests of the component have ended: as many as the least
 * number of batches has. */
static bool find_ranged(const Batches *self, const Metrics *metrics, uint32_t component,
                        int histogram, Ranged *ret) {
  enum { LEAST = BATCH_MEANS_LEAST * BATCHES_WIDTH };
  *ret = (Ranged){metrics_histogram(metrics, component, histogram), -1, histogram};
  if (component == 0) return is_ranged(self, histogram);
  const ComponentMetrics *of = &metrics->components[component - 1];
  for (uint32_t i = 0; i < self->n_components && ret->whole; i++)
    if (self->components[i] == component) ret->component = (int)i;
  if (ret->component < 0 || ended_of(of) < LEAST) return false;
  ret->histogram = (int)(ret->whole - of->histograms);
  return true;
}

static const HistogramCopy *copy_of(const Ranged *self, const BatchPoint *point) {
  return self->component < 0 ? &point->of[self->histogram]
                             : &point->components[self->component].of[self->histogram];
}

double batches_mean_range(const Batches *self, const Metrics *metrics, uint32_t component,
                          int histogram) {
  double sums[BATCHES_MOST], weights[BATCHES_MOST];
  const Cut cut = cut_of(self);
  Ranged of;
  if (!find_ranged(self, metrics, component, histogram, &of)) return NAN;
  for (size_t i = 0; i < cut.n; i++) {
    const BatchPoint *end = end_of(self, cut, i);
    sums[i] = end ? copy_of(&of, end)->sum : of.whole->sum;
    weights[i] = (double)(end ? copy_of(&of, end)->total : of.whole->total);
  }
  return range(sums, weights, cut.n);
}

double batches_good_range(const Batches *self, const Metrics *metrics, uint32_t component) {
  double sums[BATCHES_MOST], weights[BATCHES_MOST];
  const Cut cut = cut_of(self);
  Ranged of = {.component = -1};
  if (component > 0 && !find_ranged(self, metrics, component, METRICS_e2e, &of)) return NAN;
  const ComponentMetrics *one = component > 0 ? &metrics->components[component - 1] : NULL;
  const uint64_t good = one ? one->good : metrics->good;
  const uint64_t ended = one ? ended_of(one) : metrics_ended(metrics);
  for (size_t i = 0; i < cut.n; i++) {
    const BatchPoint *end = end_of(self, cut, i);
    const ComponentPoint *part = end && one ? &end->components[of.component] : NULL;
    sums[i] = (double)(part ? part->good : end ? end->good : good);
    weights[i] = (double)(part ? part->ended : end ? end->ended : ended);
  }
  return range(sums, weights, cut.n);
}

/* A place in a histogram: a share of what a bucket holds is below it. */
typedef struct Mark {
  int bucket;
  double share;
} Mark;

static Mark mark_of(const Histogram *histogram, double q) {
  const double rank = q * (double)histogram->total;
  Mark mark = {.bucket = histogram_bucket(histogram->min)};
  double before = 0;
  while (before + (double)histogram->counts[mark.bucket] < rank)
    before += (double)histogram->counts[mark.bucket++];
  mark.share = (rank - before) / (double)histogram->counts[mark.bucket];
  return mark;
}

static double below(const HistogramCopy *copy, Mark mark) {
  const int n = mark.bucket - copy->first;
  uint64_t sum = 0;
  for (int i = 0; i < n && i < copy->n; i++)
    sum += copy->counts[i];
  return (double)sum + (n >= 0 && n < copy->n ? mark.share * (double)copy->counts[n] : 0);
}

double batches_quantile_range(const Batches *self, const Metrics *metrics, uint32_t component,
                              int histogram, double q) {
  double sums[BATCHES_MOST], weights[BATCHES_MOST];
  const Cut cut = cut_of(self);
  Ranged of;
  if (!find_ranged(self, metrics, component, histogram, &of) || of.whole->total == 0) return NAN;
  const Mark mark = mark_of(of.whole, q);
  for (size_t i = 0; i < cut.n; i++) {
    const BatchPoint *end = end_of(self, cut, i);
    sums[i] = end ? below(copy_of(&of, end), mark) : q * (double)of.whole->total;
    weights[i] = (double)(end ? copy_of(&of, end)->total : of.whole->total);
  }
  const double half = range(sums, weights, cut.n);
  if (isnan(half) || q + half >= 1) return NAN;
  const double last = (double)(of.whole->total - 1);
  return (histogram_at_rank(of.whole, (q + half) * last) -
          histogram_at_rank(of.whole, fmax(q - half, 0) * last)) /
         2;
}

/* ---- Saturation ---- */

/* A quarter of the requests in order of arrival. */
typedef struct Quarter {
  double wait_s; // mean
  Tick from;     // the first of them arrived
} Quarter;

static Quarter quarter_of(const Batches *self, size_t n_bins, size_t quarter) {
  double sum = 0;
  int64_t n = 0;
  Tick from = TICK_MAX;
  for (size_t i = quarter * n_bins / 4; i < (quarter + 1) * n_bins / 4; i++) {
    const ArrivalBin *bin = &self->bins[i];
    sum += bin->wait_s;
    n += bin->n;
    if (bin->n > 0 && bin->first_at < from) from = bin->first_at;
  }
  return (Quarter){n > 0 ? sum / (double)n : 0, n > 0 ? from : 0};
}

static const double least_overload = 0.02;
static const double strict = 1.15; // of one in 40, it makes one in 80

/* The later, the longer: of requests that come at a rate r and are served at s, those that come t
 * later wait (r / s - 1) t longer. */
static bool waits_grow(const Batches *self) {
  static const double least_growth = 1.25;
  size_t n = BATCHES_BINS;
  while (n > 0 && self->bins[n - 1].n == 0)
    n--;
  const Quarter second = quarter_of(self, n, 1), last = quarter_of(self, n, 3);
  const double between = tick_seconds(last.from - second.from);
  return between > 0 && last.wait_s > least_growth * second.wait_s &&
         last.wait_s - second.wait_s > least_overload * between;
}

bool batches_saturated(const Batches *self) {
  enum { LEAST = 4 };
  const size_t n = self->n_turnovers, from = n / 4; // the cluster fills first
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
  return sum > least_overload * arrived && mean > strict * student_t95((int)count - 1) * error;
}
