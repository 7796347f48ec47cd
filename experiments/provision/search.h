/* The search of one design on one seed, as a pure function of what is known.
 *
 * A probe is a cluster and a rate; it holds or fails. A search goes through the same steps every
 * time, takes verdicts from a callback, and ends either with an answer or with the probe whose
 * verdict it needs next. Whoever simulates calls it again when that verdict is there. So what is
 * probed, and the answer, cannot depend on how many simulations run at once; and guessing a
 * verdict tells which probe would come next.
 *
 * Rates are whole steps of the tolerance. Holding is taken to be monotone: more machines hold what
 * fewer hold, a rate is held when a higher one is. */
#ifndef EXPERIMENTS_PROVISION_SEARCH_H
#define EXPERIMENTS_PROVISION_SEARCH_H
#include "base/arena.h"
#include <stdbool.h>
#include <stdint.h>

enum { SEARCH_DIMENSIONS = 2 };

typedef enum ProbeVerdict { PROBE_UNKNOWN, PROBE_FAILS, PROBE_HOLDS } ProbeVerdict;

typedef struct Probe {
  int64_t counts[SEARCH_DIMENSIONS]; // of a dimension that is not searched: 0
  int64_t rate;                      // in steps; 0: the search has no rates
} Probe;

/* What is searched: counts at one rate, or the rates of some clusters. */
typedef struct SearchSpace {
  int n_counts; // 0, 1 or 2
  int64_t low[SEARCH_DIMENSIONS], high[SEARCH_DIMENSIONS];
  double each[SEARCH_DIMENSIONS]; // what one instance adds to the objective, > 0
  /* What counts cost, by steps where machines are sold whole: never less for more. Of what costs
   * the same, the sums of `each` decide. NULL: those alone. */
  double (*cost)(const void *context, const int64_t *counts);
  const void *cost_context;
  /* The largest rate: every cluster of `clusters` is a candidate. */
  const Probe *clusters; // [n_clusters], rate not set
  int n_clusters;
  int64_t rate_low, rate_high; // >= 1
  /* Where to begin. search_least probes at start.rate alone; search_largest_rate begins with it. */
  Probe start;
  bool has_start; // its counts are a likely answer
  /* Of search_least, without a start: of each count what is likely to be about the least that can
   * hold; below `low`: nothing is known. */
  int64_t likely[SEARCH_DIMENSIONS];
} SearchSpace;

typedef struct SearchStep {
  Probe probe;
  ProbeVerdict verdict;
} SearchStep;

typedef struct SearchResult {
  bool done;
  Probe needs; // while not done
  bool found;  // once done: `answer` holds and nothing better does
  Probe answer;
  Probe least;       // of search_least: nothing with less of any count can hold
  bool monotone;     // no probe that held is contained in one that failed
  SearchStep *steps; // [n_steps] all verdicts that were asked for, each probe once
  int n_steps;
} SearchResult;

/* PROBE_UNKNOWN when it is not known yet. */
typedef ProbeVerdict (*ProbeOracle)(void *context, const Probe *probe);

/* The least cost; among equals those found first: fewest in the dimension with
 * fewer values. The neighbours of the answer that cost less are probed too. */
void search_least(const SearchSpace *space, ProbeOracle oracle, void *context,
                  SearchResult *ret_result, Arena *arena);
/* The largest rate of any of the clusters; among equals the first found, from the start outwards.
 */
void search_largest_rate(const SearchSpace *space, ProbeOracle oracle, void *context,
                         SearchResult *ret_result, Arena *arena);

/* Whether what a search found says that a probe holds, or fails, by monotony. */
bool search_implies(const SearchResult *found, const Probe *probe, ProbeVerdict verdict);

static inline bool probe_equal(const Probe *a, const Probe *b) {
  return a->counts[0] == b->counts[0] && a->counts[1] == b->counts[1] && a->rate == b->rate;
}
#endif
