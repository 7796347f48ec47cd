/* See search.h. */
#include "experiments/provision/search.h"
#include <assert.h>
#include <math.h>
#include <string.h>

typedef struct Search {
  const SearchSpace *space;
  ProbeOracle oracle;
  void *context;
  SearchResult *result;
  size_t capacity;
  Arena *arena;
  bool blocked; // a verdict is missing: all steps give way
} Search;

/* ---- Verdicts ---- */

/* Whether all of a is at most b, at no lower a rate: then what fails b fails a. */
static bool is_harder(const Probe *a, const Probe *b) {
  return a->counts[0] <= b->counts[0] && a->counts[1] <= b->counts[1] && a->rate >= b->rate;
}

/* PROBE_UNKNOWN also when `blocked` is already set; then nothing is asked. */
static ProbeVerdict ask(Search *self, Probe probe) {
  SearchResult *result = self->result;
  if (self->blocked) return PROBE_UNKNOWN;
  for (int i = 0; i < result->n_steps; i++)
    if (probe_equal(&result->steps[i].probe, &probe)) return result->steps[i].verdict;
  const ProbeVerdict verdict = self->oracle(self->context, &probe);
  if (verdict == PROBE_UNKNOWN) {
    self->blocked = true;
    result->needs = probe;
    return verdict;
  }
  ARENA_RESERVE(self->arena, result->steps, self->capacity, result->n_steps + 1);
  result->steps[result->n_steps++] = (SearchStep){probe, verdict};
  return verdict;
}

static bool holds(Search *self, Probe probe) {
  return ask(self, probe) == PROBE_HOLDS;
}

bool search_implies(const SearchResult *found, const Probe *probe, ProbeVerdict verdict) {
  for (int i = 0; i < found->n_steps; i++) {
    const SearchStep *step = &found->steps[i];
    if (step->verdict != verdict) continue;
    if (verdict == PROBE_FAILS ? is_harder(probe, &step->probe) : is_harder(&step->probe, probe))
      return true;
  }
  return false;
}

/* Whether a probe that failed says that this one must. */
static bool must_fail(const Search *self, const Probe *probe) {
  return search_implies(self->result, probe, PROBE_FAILS);
}

static bool is_monotone(const SearchResult *result) {
  for (int i = 0; i < result->n_steps; i++)
    for (int k = 0; k < result->n_steps; k++)
      if (result->steps[i].verdict == PROBE_HOLDS && result->steps[k].verdict == PROBE_FAILS &&
          is_harder(&result->steps[i].probe, &result->steps[k].probe))
        return false;
  return true;
}

static Search begin(const SearchSpace *space, ProbeOracle oracle, void *context,
                    SearchResult *result, Arena *arena) {
  *result = (SearchResult){0};
  return (Search){
      .space = space, .oracle = oracle, .context = context, .result = result, .arena = arena};
}

static void end(Search *self) {
  self->result->done = !self->blocked;
  self->result->monotone = is_monotone(self->result);
}

/* ---- The fewest machines ---- */

static double sum_of(const SearchSpace *space, const Probe *probe) {
  double sum = 0;
  for (int d = 0; d < space->n_counts; d++)
    sum += space->each[d] * (double)probe->counts[d];
  return sum;
}

/* Sums of the same prices in another order may differ in the last bits. */
static bool is_less(double a, double b) {
  return a < b * (1 - 1e-12);
}

static bool costs_less(const SearchSpace *space, const Probe *a, const Probe *b) {
  if (space->cost) {
    const double of_a = space->cost(space->cost_context, a->counts);
    const double of_b = space->cost(space->cost_context, b->counts);
    if (is_less(of_a, of_b) || is_less(of_b, of_a)) return of_a < of_b;
  }
  return is_less(sum_of(space, a), sum_of(space, b));
}

static void take(Search *self, Probe probe) {
  self->result->found = true;
  self->result->answer = probe;
}

/* Whether nothing that is left can be better than the best. */
static bool is_least(const Search *self) {
  return self->result->found && probe_equal(&self->result->answer, &self->result->least);
}

/* The dimension that is bisected: the one with more values. The other one's are gone through. */
static int inner_of(const SearchSpace *space) {
  if (space->n_counts < 2) return 0;
  return space->high[0] - space->low[0] >= space->high[1] - space->low[1] ? 0 : 1;
}

/* The largest inner count of this column that would beat the best; below the range: none. */
static int64_t largest_better(const Search *self, Probe probe, int inner) {
  if (!self->result->found) return self->space->high[inner];
  int64_t better = self->space->low[inner] - 1;
  for (int64_t worse = self->space->high[inner] + 1; worse - better > 1;) {
    probe.counts[inner] = better + (worse - better) / 2;
    const bool less = costs_less(self->space, &probe, &self->result->answer);
    *(less ? &better : &worse) = probe.counts[inner];
  }
  return better;
}

/* Where to look next between a count that fails (or one below all) and one that holds (or one above
 * all): in doubling steps while one side is open, then in the middle. */
static int64_t next_between(const SearchSpace *space, int dimension, int64_t failing,
                            int64_t holding, int64_t step) {
  const bool open_above = holding > space->high[dimension];
  const bool open_below = failing < space->low[dimension];
  if (open_above) return holding - failing > step ? failing + step : holding - 1;
  if (open_below) return holding - failing > step ? holding - step : failing + 1;
  return failing + (holding - failing) / 2;
}

enum { AMPLE = 2 }; // times what is likely to be the least

/* A count of the other dimension beside which this one holds if it does at all, most likely: that
 * of the best so far, else the one that the search begins with or has found to be the least; what
 * then holds is cheap to simulate, and may be the answer. */
static int64_t likely_beside(const Search *self, int dimension) {
  const int other = 1 - dimension;
  if (self->result->found) return self->result->answer.counts[other];
  if (self->space->has_start) return self->space->start.counts[other];
  if (dimension > 0) return self->result->least.counts[other];
  const int64_t likely = self->space->likely[other], high = self->space->high[other];
  return likely > high / AMPLE || likely < self->space->low[other] ? high : AMPLE * likely;
}

/* Whether so many of a dimension hold beside the most of the other one. */
static bool holds_beside_most(Search *self, Probe probe, int dimension) {
  if (search_implies(self->result, &probe, PROBE_HOLDS)) return true;
  Probe likely = probe;
  likely.counts[1 - dimension] = likely_beside(self, dimension);
  if (self->space->n_counts < 2 || must_fail(self, &likely) || !holds(self, likely))
    return holds(self, probe);
  if (!self->result->found || costs_less(self->space, &likely, &self->result->answer))
    take(self, likely);
  return true;
}

/* Raises `least` of a dimension to the least count that holds beside the most of the other one.
 * False: none does, or a verdict is missing. */
static bool raise_least(Search *self, int dimension) {
  const SearchSpace *space = self->space;
  Probe probe = {{space->high[0], space->high[1]}, space->start.rate};
  int64_t failing = space->low[dimension] - 1, holding = space->high[dimension] + 1;
  int64_t at = space->has_start ? space->start.counts[dimension] : space->likely[dimension];
  if (at < space->low[dimension]) at = space->low[dimension];
  for (int64_t step = 1; holding - failing > 1; step *= 2) {
    probe.counts[dimension] = at;
    const bool held = holds_beside_most(self, probe, dimension);
    if (self->blocked) return false;
    *(held ? &holding : &failing) = at;
    self->result->least.counts[dimension] = failing + 1;
    at = next_between(space, dimension, failing, holding, step);
  }
  return holding <= space->high[dimension];
}

/* The best of a column is at most `probe`, which holds. */
static void bisect_column(Search *self, Probe probe, int inner) {
  int64_t failing = self->space->low[inner] - 1;
  take(self, probe);
  while (!self->blocked && probe.counts[inner] - failing > 1) {
    Probe middle = probe;
    middle.counts[inner] = failing + (probe.counts[inner] - failing) / 2;
    if (!must_fail(self, &middle) && holds(self, middle))
      take(self, probe = middle);
    else
      failing = middle.counts[inner];
  }
}

static void search_columns(Search *self) {
  const SearchSpace *space = self->space;
  const int inner = inner_of(space), outer = 1 - inner;
  bool improved = true;
  for (int64_t column = space->low[outer]; column <= space->high[outer]; column++) {
    Probe probe = {.rate = space->start.rate};
    probe.counts[outer] = column;
    probe.counts[inner] = largest_better(self, probe, inner);
    if (self->blocked || probe.counts[inner] < space->low[inner]) return;
    // What fails with all that the outer dimension has fails in every column from here on.
    Probe widest = probe;
    widest.counts[outer] = space->high[outer];
    if (improved && !search_implies(self->result, &widest, PROBE_HOLDS) && !holds(self, widest))
      return;
    improved = false;
    if (must_fail(self, &probe) || !holds(self, probe)) continue;
    bisect_column(self, probe, inner);
    improved = true;
  }
}

/* What is likely to be about the least that holds. */
static Probe likely_least(const Search *self) {
  const SearchSpace *space = self->space;
  Probe probe = self->result->least;
  for (int d = 0; d < space->n_counts; d++)
    if (space->likely[d] > probe.counts[d])
      probe.counts[d] = space->likely[d] < space->high[d] ? space->likely[d] : space->high[d];
  return probe;
}

/* What holds has no less of either count than holds beside the most of the other. Mostly these two
 * hold together, and nothing that does costs less; else what lies beyond them is gone through. */
static void search_from_least(Search *self) {
  const SearchSpace *space = self->space;
  SearchSpace rest = *space;
  const Probe first = space->has_start ? self->result->least : likely_least(self);
  if (!self->result->found && holds(self, first)) take(self, first);
  for (int d = 0; d < SEARCH_DIMENSIONS; d++)
    if (!raise_least(self, d)) return;
  if (!is_least(self) && holds(self, self->result->least)) take(self, self->result->least);
  if (self->blocked || is_least(self)) return;
  memcpy(rest.low, self->result->least.counts, sizeof rest.low);
  self->space = &rest;
  search_columns(self);
  self->space = space;
}

/* Probes the neighbours that cost less; goes on from one that holds, against monotony. */
static void check_neighbours(Search *self) {
  const SearchSpace *space = self->space;
  const int reach = space->n_counts == 2;
  bool moved = true;
  while (moved && !self->blocked) {
    moved = false;
    const Probe answer = self->result->answer;
    for (int a = -1; a <= 1 && !moved; a++)
      for (int b = -reach; b <= reach && !moved; b++) {
        const Probe near = {{answer.counts[0] + a, answer.counts[1] + b}, answer.rate};
        bool inside = true;
        for (int d = 0; d < space->n_counts; d++)
          inside &= near.counts[d] >= space->low[d] && near.counts[d] <= space->high[d];
        if (!inside || !costs_less(space, &near, &answer) || !holds(self, near)) continue;
        take(self, near);
        moved = true;
      }
  }
}

void search_least(const SearchSpace *space, ProbeOracle oracle, void *context,
                  SearchResult *ret_result, Arena *arena) {
  assert(space->n_counts >= 0 && space->n_counts <= SEARCH_DIMENSIONS);
  Search search = begin(space, oracle, context, ret_result, arena);
  SearchSpace flat = *space; // a dimension that is not searched has one value
  for (int d = space->n_counts; d < SEARCH_DIMENSIONS; d++)
    flat.low[d] = flat.high[d] = flat.start.counts[d] = 0;
  search.space = &flat;
  ret_result->least = (Probe){{flat.low[0], flat.low[1]}, space->start.rate};
  if (space->has_start && holds(&search, space->start)) take(&search, space->start);
  if (!search.blocked) search_from_least(&search);
  if (ret_result->found) check_neighbours(&search);
  end(&search);
}

/* ---- The largest rate ---- */

static Probe at_rate(Probe cluster, int64_t rate) {
  cluster.rate = rate;
  return cluster;
}

/* Between a rate that holds (or one below all) and one that fails (or one above all). Outwards from
 * `rate` in doubling steps while one side is open, then by halves. */
static void bisect_rate(Search *self, Probe cluster, int64_t held, int64_t rate) {
  const SearchSpace *space = self->space;
  int64_t failing = space->rate_high + 1, step = 1;
  const int64_t floor_rate = held;
  while (!self->blocked && failing - held > 1) {
    if (rate <= held) rate = held + 1;
    if (rate >= failing) rate = failing - 1;
    if (holds(self, at_rate(cluster, rate))) {
      take(self, at_rate(cluster, rate));
      held = rate;
    } else {
      failing = rate;
    }
    const bool open_above = failing > space->rate_high, open_below = held == floor_rate;
    rate = open_above ? held + step : open_below ? failing - step : held + (failing - held) / 2;
    step *= 2;
  }
}

void search_largest_rate(const SearchSpace *space, ProbeOracle oracle, void *context,
                         SearchResult *ret_result, Arena *arena) {
  assert(space->rate_low >= 1 && space->rate_high >= space->rate_low);
  Search search = begin(space, oracle, context, ret_result, arena);
  // From the likely one outwards: a good rate early makes short work of the others.
  int middle = space->n_clusters / 2;
  const Probe start = at_rate(space->start, 0);
  for (int i = 0; space->has_start && i < space->n_clusters; i++)
    if (probe_equal(&space->clusters[i], &start)) middle = i;
  for (int i = 0; i < 2 * space->n_clusters && !search.blocked; i++) {
    const int at = middle + (i % 2 ? -(i + 1) / 2 : i / 2);
    if (at < 0 || at >= space->n_clusters) continue;
    const int64_t best = ret_result->found ? ret_result->answer.rate : space->rate_low - 1;
    if (best >= space->rate_high) break;
    bisect_rate(&search, space->clusters[at], best, i == 0 ? space->start.rate : best + 1);
  }
  end(&search);
}
