/* Arrivals whose rate changes over time: one mechanism for profiles of days, steps, ramps, bursts.
 *
 * A renewal process of unit rate (gaps exponential, gamma or all 1) is carried through the inverse
 * of the cumulative rate: the k-th request arrives where the integral of the rate reaches the sum
 * of the first k gaps (Çinlar 1975, §4.7, for Poisson; Gerhardt & Nelson 2009 for other gaps), so
 * that nothing is thinned. The rate is the product of a curve (rate_curve.h) and, as far as given,
 * of two random factors that are held between their changes:
 *
 *   states  a Markov chain's (MMPP; Fischer & Meier-Hellstern 1993): a state lasts an exponential
 *           time, then any other follows, equally likely, so that shares of time are as mean times;
 *   drift   exp of an Ornstein-Uhlenbeck process, with mean 1 and coefficient of variation `cv`;
 *           its logarithm has the autocorrelation exp(-t/time_constant), at every sixteenth of
 *           that. That gaps are near gamma while their rate wanders is what BurstGPT (Wang et al.
 *           2024) and ServeGen (Xiang et al. 2025) find; that it does so as a lognormal is ours. */
#ifndef TRACES_ARRIVALS_H
#define TRACES_ARRIVALS_H
#include "base/option.h"
#include "base/rng.h"
#include "traces/rate_curve.h"

typedef enum ArrivalProcess {
  ARRIVAL_POISSON,
  ARRIVAL_GAMMA,   // gaps gamma with coefficient of variation `cv`
  ARRIVAL_FIXED,   // one every 1/rate, the first at 0
  ARRIVAL_AT_ONCE, // all at time 0: offline work
  ARRIVAL_DIURNAL, // a profile of relative rates
  ARRIVAL_STEPS,   // rates held from point to point
  ARRIVAL_RAMP,    // rates in a straight line from point to point
  ARRIVAL_MMPP,    // rates of a Markov chain's states
} ArrivalProcess;

typedef struct RateState {
  double rate;    // per second
  Tick mean_time; // of a stay
} RateState;

/* How the rate changes. */
typedef struct ArrivalPattern {
  bool given;          // else `rate` holds for ever
  ArrivalProcess gaps; // of the process of unit rate: poisson, gamma or fixed
  double cv;           // of gamma gaps
  RateCurve curve;     // 1 /s where states have the rates
  const RateState *states;
  int n_states;    // 0: none; else at least 2
  double drift_cv; // 0: none
  Tick drift_time;
} ArrivalPattern;

/* What `arrivals:` says. */
typedef struct ArrivalConfig {
  ArrivalProcess process;
  double rate, cv; // mean over the profile, the run's duration or the states
  ArrivalPattern pattern;
} ArrivalConfig;

/* What the block is bound with. */
typedef struct ArrivalSetting {
  const char *data_dir, *config_dir; // data_dir holds traces/profiles/
  Tick duration;                     // of the arrivals; 0: not known
} ArrivalSetting;

extern const OptionSpec workload_arrival_options[];
extern const OptionSpec arrival_point_options[], arrival_state_options[], arrival_drift_options[];

int arrivals_bind(ArrivalConfig *self, const Node *node, const ArrivalSetting *setting,
                  Arena *arena, Diag *diag);

/* Gaps of a renewal process: poisson, gamma or fixed. */
typedef struct GapDraw {
  Rng rng; // stream "arrivals"
  ArrivalProcess kind;
  double shape, scale;
  bool begun; // the first was drawn
} GapDraw;

/* `mean` is in the caller's unit; `cv` of gamma gaps. */
void gap_draw_init(GapDraw *self, ArrivalProcess kind, double mean, double cv, uint64_t seed);
/* The next gap. The first of fixed ones is 0. */
double gap_draw_next(GapDraw *self);

/* Part of the run over which the rate is a straight line. */
typedef struct RatePiece {
  Tick begin, end;    // TICK_MAX: it has none
  double length;      // seconds; INFINITY
  double rate, slope; // at `begin`, per second; per second²
} RatePiece;

/* Draws arrivals of a pattern. Streams "arrivals", "arrival_states" and "arrival_drift". */
typedef struct ArrivalDraw {
  const ArrivalPattern *pattern;
  GapDraw gaps; // of mean 1
  Rng states, drift;
  int point;                   // of the curve, where its present part begins
  Tick curve_begin, curve_end; // of that part, in time of the run
  int state;
  Tick state_end;
  double normal, factor; // of the drift
  double keep, spread;   // of `normal` from step to step
  Tick drift_end;
  RatePiece piece;
  double offset; // of the newest arrival in the piece, seconds
} ArrivalDraw;

void arrival_draw_init(ArrivalDraw *self, const ArrivalPattern *pattern, uint64_t seed);
/* The next arrival: 1, 0 when the rate is 0 from here on, -1 past the range of time. */
int arrival_draw_next(ArrivalDraw *self, Tick *ret_at);
#endif
