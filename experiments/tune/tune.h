/* Tuning: which values of a serving engine's knobs are the best on the cluster and the traffic of a
 * configuration, and what each is worth.
 *
 * A knob is an option of a batcher, a key of pools or a policy whose row has values to try
 * (OptionSpec.tries), or how the GPUs are divided between prefill and decode. A point has a value
 * for each. All points meet the same requests: a value is compared with another on the same seeds,
 * by the mean of the differences and its 95% interval.
 *
 * The search is a descent along one knob at a time. In a round all values that are due of all knobs
 * are raced from the same point: on the first seed, then on more, where each time the better half
 * of a knob's values goes on and one that is lost is dropped. The value whose gain is largest, and
 * beyond chance, becomes part of the point, and the next round begins there. Rounds go through
 * every second value and the ends first, and through all values when those are no better: it ends
 * where no change of one knob is seen to be better.
 *
 * What was found is measured on seeds that the search did not see, so that it is not flattered by
 * having been chosen: what all changes are worth together, what each is alone, and what its loss
 * would cost. Changes whose loss costs nothing beyond chance are put back, the least first. */
#ifndef EXPERIMENTS_TUNE_TUNE_H
#define EXPERIMENTS_TUNE_TUNE_H
#include "base/key_map.h"
#include "experiments/base/difference.h"
#include "experiments/base/writer.h"
#include "experiments/campaign/campaign.h"
#include "experiments/plan/plan.h"

enum { TUNE_KNOBS_MAX = 48, TUNE_VALUES_MAX = 24 };
/* A rate and limits of a request, beside the settings of a point. */
enum { TUNE_SETTINGS_MORE = 1 + REQUEST_LIMITS };

/* A value of a knob. */
typedef struct KnobValue {
  const char *text;        // "2048"; of the division of GPUs "4+2"
  const Setting *settings; // [n_settings]; none of the current one
  int n_settings;
  const char *why_not; // the configuration that it makes is wrong; NULL: it can be had
} KnobValue;

typedef struct Knob {
  const char *name; // max_num_seqs; prefill.max_num_seqs of a pool with a batcher of its own
  const char *key;  // of the configuration; NULL: several, the division of GPUs
  KnobValue values[TUNE_VALUES_MAX]; // [n_values]; in order where they have one
  int n_values, current;
  bool ordered;
} Knob;

typedef struct Knobs {
  Knob *items; // [n]
  int n;
  const char **left_out; // [n_left_out] "watermark: vLLM has no such option"
  int n_left_out;
  size_t capacity;
} Knobs;

/* The value of each knob. */
typedef struct TunePoint {
  int8_t at[TUNE_KNOBS_MAX];
} TunePoint;

typedef enum TuneKind {
  TUNE_RATE,    // the largest rate within the limits
  TUNE_GOODPUT, // requests per second that kept the limits
  TUNE_FIGURE,  // a figure of the run
  TUNE_LATENCY, // a statistic of a latency; what never came counts as infinitely late
} TuneKind;

typedef struct TuneObjective {
  TuneKind kind;
  const char *name, *unit;
  const char *figure; // of TUNE_FIGURE
  SloSpec latency;    // of TUNE_LATENCY; without a limit
  bool lower;         // is better
} TuneObjective;

/* What a point gives on a seed. */
typedef struct TuneEval {
  TunePoint point;
  int seed, move;     // place among the seeds; 0, or 1 + which of config_moves
  int64_t low;        // of TUNE_RATE: steps below which nothing was looked for; 1: none
  int64_t likely;     // steps where its search began
  bool done, bounded; // bounded: the value is at most this
  bool saturated;     // more requests come than it serves: a longer run would be worse
  bool met;           // all limits, at the rate of the value
  double value;       // NAN: there is none
  const char *why;    // then
  uint64_t outcomes;  // a digest
  int64_t n_runs;
  ExtrapolatedFigures extrapolated;
} TuneEval;

/* What is known of a knob from the first round, one change at a time from the current values. */
typedef struct KnobTried {
  Difference best, worst;      // of its other values, n 0: none; gains are positive in objective's
  int best_value, worst_value; // terms alone
  bool worst_bounded, worst_lost; // worst: at least as bad; there is no value at all
  bool any_effect;                // some value was told apart from the current one
  int n_tried;                    // values besides the current one
} KnobTried;

/* The answer for a knob, on the seeds of the measurement. */
typedef struct KnobAnswer {
  int best;
  Difference alone;   // from the current values to those with its best one
  Difference without; // from the best values to those with its current one
} KnobAnswer;

typedef struct TuneOptions {
  const char *objective, *slo, *knobs; // as given; NULL: not
  int64_t seeds, budget, jobs, memory;
  Results *results; // where runs are kept; NULL: nowhere
} TuneOptions;

typedef struct Tuning {
  TrialBase base;
  Config config; // of the current values
  Knobs knobs;
  TuneObjective objective;
  RequestLimits goodput; // none: as the configuration has them
  bool keeps_limits;     // the current values meet all limits, and so must others
  int n_seeds;
  bool same_seeds; // the measurement has those of the search, since there are no others
  bool replays;    // a trace, which is the same on every seed
  Provision load;  // how the load is set; base, rate_key and base_rate alone
  double step;     // of TUNE_RATE, in requests/s or times the load
  int jobs;
  int64_t budget;
  Results *results; // where the run of each evaluation is kept; NULL: nowhere
  TuneEval *evals;  // [n_evals]
  size_t n_evals, capacity;
  KeyMap index; // of them
  TunePoint current, found;
  KnobTried tried[TUNE_KNOBS_MAX];
  KnobAnswer answers[TUNE_KNOBS_MAX];
  Difference together;     // from the current values to the best ones
  Difference moved[MOVES]; // the same on the first seed, with times moved; n 0: not known
  TimesKnown times[2];     // of the runs of the measurement: current values, best ones
  int n_saturated;         // runs of the best ones that are
  bool out_of_budget;
  int64_t n_runs, n_search_runs; // simulations
  double began_s, shown_s;
  Arena *arena;
  Diag *diag;
} Tuning;

/* Reads the configuration and finds its knobs. `self` must not move afterwards, and is closed in
 * any case. -1 with entries. */
int tune_open(Tuning *self, const char *path, const ConfigChanges *changes,
              const TuneOptions *options, Arena *arena, Diag *diag);
/* Searches and measures. -1 with entries, also when the user interrupts it. */
int tune_run(Tuning *self);
void tune_close(Tuning *self);
/* The knobs and their values, before anything is simulated. */
void tune_print_plan(const Tuning *self, FILE *out);
/* The answer. -1 with entries. */
int tune_print(Tuning *self, OutputFormat format, FILE *out);

/* private: knobs.c */

/* The knobs of self->config, those in the list `only` alone (NULL: all). -1 with entries. */
int knobs_find(Tuning *self, const char *only);
/* Whether a value differs from the current one. */
static inline bool tune_changed(const Tuning *self, const TunePoint *point, int knob) {
  return point->at[knob] != self->current.at[knob];
}
/* The settings of a point, with room for TUNE_SETTINGS_MORE. */
ConfigChanges tune_changes(const Tuning *self, const TunePoint *point, Arena *arena);

/* private: objective.c */

/* Finds out what is meant, or what suits. -1 with an entry. */
int objective_find(Tuning *self, const char *given);
/* "24.5 requests/s" */
const char *objective_text(const TuneObjective *self, double value, Arena *arena);
static inline double objective_gain(const TuneObjective *self, double change) {
  return self->lower ? -change : change;
}

/* private: measure.c */

/* Which evaluation is wanted. */
typedef struct TuneWish {
  TunePoint point;
  int seed, move;
  int64_t low, likely; // as in TuneEval; 0: not said
} TuneWish;

/* Simulates those of [n] that are not known. -1 with entries. */
int tune_measure(Tuning *self, const TuneWish *wishes, int n);
/* NULL: it was not measured. */
const TuneEval *tune_find(const Tuning *self, const TunePoint *point, int seed, int move);
/* The difference from one point to another on so many seeds, from the first of `seed` on. */
Difference tune_difference(const Tuning *self, const TunePoint *from, const TunePoint *to, int seed,
                           int n_seeds, int move);
/* Whether a gain is beyond chance; without an interval, whether it is more than a hair. */
bool tune_gains(const Tuning *self, const Difference *difference);

/* private: search.c, answer.c */

int tune_search(Tuning *self);
int tune_answer(Tuning *self);
#endif
