/* A run cut into batches, for the ranges of its figures, the end of its start, and whether its
 * queues grow without bound.
 *
 * Every so many requests that have ended, copies of the histograms are kept: a batch is what was
 * added between two. When there are too many, every second is dropped, so memory does not grow with
 * the run. Of requests in order of arrival, means of five are kept, and of twice as many whenever
 * there are too many. It changes no outcome. */
#ifndef SIM_BATCHES_H
#define SIM_BATCHES_H
#include "sim/metrics.h"

enum { BATCHES_MOST = 64, BATCHES_BINS = 2048, BATCHES_BIN = 5 };

/* Latencies that have ranges. */
typedef enum Ranged { RANGED_TTFT, RANGED_TBT, RANGED_TPOT, RANGED_E2E, RANGED } Ranged;

extern const int ranged_histograms[RANGED]; // of Metrics

typedef struct HistogramCopy {
  uint64_t *counts; // [n] from bucket `first` on; sums up to and with each
  size_t capacity;
  int first, n;
  uint64_t total;
  double sum;
} HistogramCopy;

typedef struct BatchPoint {
  HistogramCopy of[RANGED];
} BatchPoint;

/* Requests that had arrived, and those of them that had ended. */
typedef struct Turnover {
  uint64_t asked, ended;
} Turnover;

/* Requests width·i … width·(i+1) - 1 in order of arrival. */
typedef struct ArrivalBin {
  double ttft_s, e2e_s; // sums
  Tick first_at;        // the first of them arrived
  int64_t n;            // that were served
} ArrivalBin;

typedef struct Batches {
  Arena *arena;
  BatchPoint points[BATCHES_MOST];
  size_t n_points;
  uint64_t width, next;             // requests of a batch; and when the next ends
  Turnover turnovers[BATCHES_MOST]; // as requests ended, every so many that arrived
  size_t n_turnovers;
  uint64_t asked_width, next_asked;
  ArrivalBin bins[BATCHES_BINS];
  uint64_t bin_width;
} Batches;

void batches_init(Batches *self, Arena *arena);
/* A request has ended that is in `metrics`; those that are not counted are not told. */
void batches_end(Batches *self, const Metrics *metrics);
/* A request that was served, whether it is counted or not. */
void batches_serve(Batches *self, const RequestRecord *record);

/* Half of the 95% range of a mean, and of quantile q, whose range is between the quantiles that the
 * share of observations below it allows (Heidelberger and Lewis 1984). In ticks; NAN where the run
 * is too short to tell. `metrics` is that of the whole run. */
double batches_mean_range(const Batches *self, const Metrics *metrics, Ranged which);
double batches_quantile_range(const Batches *self, const Metrics *metrics, Ranged which, double q);

/* The start of a run, by MSER-5 of TTFT and of E2E: how many requests, and when the next arrived.
 * 0 requests: none was found. `ended`: false where the run is too short to have an end of it. */
typedef struct FoundStart {
  uint64_t requests;
  Tick until;
  bool ended;
} FoundStart;
FoundStart batches_start(const Batches *self);

/* Whether requests in the cluster grew, in the second half of the time in which more arrived, by
 * more than a fiftieth of what came and more than chance, at 99%, gives, and took longer than those
 * before. */
bool batches_saturated(const Batches *self);
#endif
