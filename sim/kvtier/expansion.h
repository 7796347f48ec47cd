/* How many layers of KV live on the CPU: Pie's capacity formulas (§3.1, §3.3) and the controller
 * that adapts the number while a workload runs (§3.4.2, §4.1).
 *
 * The controller is a state instance over steps (iterations). It starts with all layers on the GPU.
 * At the end of a window in which the violations exceed a ratio of the swaps begun, one more layer
 * is swapped; its capacity counts once every layer was swapped, that is after n swap-ins. One layer
 * gives a few percent of capacity, less than what tokens per second vary by: so they are compared
 * only once capacity has grown by trial_growth, with what they were before. If there is no gain,
 * growth stops and what was added is given back; if that costs throughput, it is added again and
 * growth goes on.
 *
 * Waits in several of the last steps, or for a longer share of a window than violations may have of
 * the swaps, take a layer back and stop growth: its capacity is gone for admission at once, the
 * layer stays until all were swapped and the KV held fits. Growth that stopped is tried again every
 * so often, which is how it recovers when background traffic ends.
 *
 * Observing k equal steps at once is observing them one by one, as long as no decision falls
 * between: at most expansion_due of them. */
#ifndef SIM_KVTIER_EXPANSION_H
#define SIM_KVTIER_EXPANSION_H
#include "base/option.h"
#include "base/units.h"

typedef enum ExpansionFormula {
  EXPANSION_PLAIN, // n/(n - m): the KV that n - m slots on the GPU, one per layer there, stand for
  EXPANSION_REFINED, // (n + 4)/(n - m + 2): counts two buffers on each side as memory (§3.3)
} ExpansionFormula;

extern const char *const expansion_formulas[]; // choices of an option: plain, refined

/* Capacity over that of the GPU alone, as a fraction; 1 for m = 0 by either formula. */
typedef struct ExpansionRatio {
  int64_t over, under;
} ExpansionRatio;

ExpansionRatio expansion_ratio(ExpansionFormula formula, int32_t layers, int32_t swapped);
/* Blocks there are when the GPU alone has `blocks` (< 2^53): rounded down, exactly. */
int64_t expansion_blocks(ExpansionFormula formula, int32_t layers, int32_t swapped, int64_t blocks);
/* The fewest swapped layers whose ratio is at least `wanted`, which is taken in millionths; -1 if
 * n - 2, the most there can be, are too few. */
int32_t expansion_layers(ExpansionFormula formula, int32_t layers, double wanted);

/* What the paper leaves open. */
typedef struct ExpansionOptions {
  double violation_ratio;           // of swaps begun in a window, above which it grows; of its
                                    // time spent waiting, above which it shrinks
  int64_t window;                   // steps
  int64_t wait_steps, wait_horizon; // waits in so many of so many last steps take a layer back
  double wait_tolerance;            // share of a step's compute; goes into SwapSpec, not used here
  double trial_growth;              // of capacity, between two looks at tokens/s
  double min_gain;                  // of tokens/s by that growth, but see expansion.c
  int64_t probe_every;              // steps
} ExpansionOptions;

#define EXPANSION_OPTION(State, member, field, kind, value, low, high, text)                       \
  {                                                                                                \
    .key = #field, .type = kind, .offset = offsetof(State, member.field), .fallback = value,       \
    .min = low, .max = high, .help = text                                                          \
  }
/* Rows of an option table whose state `State` has ExpansionOptions as `member`. */
#define EXPANSION_OPTIONS(State, member)                                                           \
  EXPANSION_OPTION(State, member, violation_ratio, OPTION_REAL, "5%", 0, 1,                        \
                   "Share of unneeded swaps above which one more layer is swapped, and share of "  \
                   "the time in waits above which one layer fewer is."),                           \
      EXPANSION_OPTION(State, member, window, OPTION_INT, "20", 1, 1e9,                            \
                       "Number of steps over which violations and tokens/s are measured."),        \
      EXPANSION_OPTION(State, member, wait_steps, OPTION_INT, "3", 1, 64,                          \
                       "Number of steps with waits, among the last wait_horizon steps, after "     \
                       "which one layer fewer is swapped."),                                       \
      EXPANSION_OPTION(State, member, wait_horizon, OPTION_INT, "5", 1, 64,                        \
                       "Number of steps over which steps with waits are counted."),                \
      EXPANSION_OPTION(State, member, wait_tolerance, OPTION_REAL, "10%", 0, 1,                    \
                       "Share of its compute time that a step may wait before it counts as a "     \
                       "step with waits."),                                                        \
      EXPANSION_OPTION(State, member, trial_growth, OPTION_REAL, "30%", 0, 100,                    \
                       "Growth of the capacity after which the gain in tokens/s is measured."),    \
      EXPANSION_OPTION(State, member, min_gain, OPTION_REAL, "1%", 0, 1,                           \
                       "Minimum gain in tokens/s for which the growth continues."),                \
      EXPANSION_OPTION(State, member, probe_every, OPTION_INT, "1000", 1, 1e9,                     \
                       "Number of steps after which a stopped growth is tried again.")

typedef enum ExpansionTrial { TRIAL_NONE, TRIAL_UP, TRIAL_DOWN } ExpansionTrial;
typedef enum ExpansionChange { CHANGE_NONE, CHANGE_GROWS, CHANGE_SHRINKS } ExpansionChange;

/* What a number of layers gave. */
typedef struct ExpansionRecord {
  double rate; // tokens per tick
  int32_t swapped;
} ExpansionRecord;

typedef struct Expansion {
  ExpansionOptions options;
  ExpansionFormula formula;
  int32_t layers, max_swapped;
  int32_t swapped; // m: with this many, layers are swapped now
  int32_t usable;  // and this many give the capacity that may be admitted into
  /* private: expansion.c */
  ExpansionChange change;
  int64_t to_swap; // layers, until the change in progress is complete
  ExpansionTrial trial;
  ExpansionRecord record; // before the trial
  bool held;              // growth has stopped
  int64_t held_steps;     // ago
  uint64_t wait_bits;     // of the last steps, the newest lowest
  int64_t steps;          // of the window so far; and what they did:
  int64_t swaps, violations, tokens;
  Tick ticks, blocked;
} Expansion;

/* Equal steps made in a row, their sums. */
typedef struct ExpansionStep {
  int64_t steps;
  bool waited;                // SwapStretch.waits: each of them did, or none
  bool fits;                  // at their end the KV held is within the capacity of `usable`
  int64_t swaps, swaps_in;    // begun in both directions; towards the GPU
  int64_t violations, tokens; // swap_run.h; output tokens
  Tick ticks, blocked;        // they took; of those, waits
} ExpansionStep;

/* Error at `at` when the options contradict each other. */
int expansion_check(const ExpansionOptions *options, Place at, Diag *diag);
/* `max_swapped` (at most n - 2) is what CPU memory allows. */
void expansion_init(Expansion *self, const ExpansionOptions *options, ExpansionFormula formula,
                    int32_t layers, int32_t max_swapped);
/* The most steps after which the next decision may fall, if each of them waits or none does. While
 * a smaller capacity only waits for KV to leave, INT64_MAX: nothing leaves within a run. */
int64_t expansion_due(const Expansion *self, bool waits);
/* At most expansion_due steps. True if `swapped` or `usable` changed. */
bool expansion_observe(Expansion *self, const ExpansionStep *step);
#endif
