/* A run cut into batches, for the ranges of its figures, the end of its start, and whether its
 * queues grow without bound.
 *
 * Every so many requests that have ended, copies of the histograms are kept: a batch is what was
 * added between two. When there are too many, every second is dropped, so memory does not grow with
 * the run. Of requests in order of arrival, means of five are kept, and of twice as many whenever
 * there are too many. It changes no outcome. */
#ifndef SIM_BOOKS_BATCHES_H
#define SIM_BOOKS_BATCHES_H
#include "sim/books/metrics.h"

/* A batch has eight requests or more. */
enum { BATCHES_MOST = 64, BATCHES_WIDTH = 8, BATCHES_BINS = 2048, BATCHES_BIN = 5 };

/* Bits of `SimConfig.ranged`: histograms of Metrics whose ranges are wanted. */
#define RANGED(histogram) (UINT64_C(1) << (histogram))
/* Those that every run has that keeps batches. */
#define RANGED_ALWAYS                                                                              \
  (RANGED(METRICS_ttft) | RANGED(METRICS_tbt) | RANGED(METRICS_tpot) | RANGED(METRICS_e2e))

typedef struct HistogramCopy {
  uint64_t *counts; // [n] from bucket `first` on
  size_t capacity;
  int first, n;
  uint64_t total;
  double sum;
} HistogramCopy;

/* The same of a component that is ranged. */
typedef struct ComponentPoint {
  HistogramCopy of[COMPONENT_HISTOGRAMS];
  uint64_t ended, good;
} ComponentPoint;

typedef struct BatchPoint {
  HistogramCopy of[METRICS_HISTOGRAMS]; // of those that are ranged
  uint64_t ended, good;
  ComponentPoint *components; // [n_components]
} BatchPoint;

/* Requests that had arrived, and those of them that had ended by then. */
typedef struct Turnover {
  uint64_t asked, ended;
} Turnover;

/* Requests width·i … width·(i+1) - 1 in order of arrival. */
typedef struct ArrivalBin {
  double ttft_s, e2e_s; // sums
  double wait_s;        // the same of the time outside iterations
  Tick first_at;        // the first of them arrived
  int64_t n;            // that were served
} ArrivalBin;

typedef struct Batches {
  Arena *arena;
  uint64_t ranged;            // histograms
  const uint32_t *components; // [n_components] that are ranged, as of metrics_histogram
  uint32_t n_components;
  BatchPoint points[BATCHES_MOST];
  size_t n_points;
  uint64_t width, next;             // requests of a batch; and when the next ends
  Turnover turnovers[BATCHES_MOST]; // every so many that arrived
  size_t n_turnovers;
  uint64_t asked_width, next_asked;
  ArrivalBin bins[BATCHES_BINS];
  uint64_t bin_width;
} Batches;

/* `ranged`: of which histograms besides those that always are. */
void batches_init(Batches *self, uint64_t ranged, Arena *arena);
/* Has ranges of components too, before the first request. `components`, which stays the caller's,
 * are as of metrics_histogram, from 1 on. */
void batches_range_components(Batches *self, const uint32_t *components, uint32_t n);
/* A request has arrived that `metrics` counts. */
void batches_arrive(Batches *self, const Metrics *metrics);
/* A request has ended that is in `metrics`; those that are not counted are not told. */
void batches_end(Batches *self, const Metrics *metrics);
/* A request that was served, whether it is counted or not. */
void batches_serve(Batches *self, const RequestRecord *record);

/* Half of the 95% range of the mean of a histogram, and of quantile q, whose range is between the
 * quantiles that the share of observations below it allows (Heidelberger and Lewis 1984). In its
 * own unit; NAN where the run is too short to tell, or the histogram is not ranged. `metrics` is
 * that of the whole run; `component` and `histogram` are as of metrics_histogram. */
double batches_mean_range(const Batches *self, const Metrics *metrics, uint32_t component,
                          int histogram);
double batches_quantile_range(const Batches *self, const Metrics *metrics, uint32_t component,
                              int histogram, double q);
/* The same of the share of requests that are good. */
double batches_good_range(const Batches *self, const Metrics *metrics, uint32_t component);

/* The start of a run, by MSER-5 of TTFT and of E2E: how many requests, and when the next arrived.
 * 0 requests: none was found. `ended`: false where the run is too short to have an end of it. */
typedef struct FoundStart {
  uint64_t requests;
  Tick until;
  bool ended;
} FoundStart;
FoundStart batches_start(const Batches *self);

/* Whether more requests arrive than are served. Over the last three quarters of the arrivals those
 * in the cluster grew by more than a fiftieth of what came, and by more than a random walk does
 * once in 80 times; and the last quarter waited longer than the second, by a quarter and by more
 * than a fiftieth of the time between: in a queue that grows, waits grow in proportion to time.
 * What only fills, batches and memory, makes nobody wait. */
bool batches_saturated(const Batches *self);
#endif
