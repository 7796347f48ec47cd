/* See uptime.h. */
#include "experiments/report/uptime.h"
#include "sim/core/expert_balance.h"
#include <math.h>
#include <stdlib.h>

enum { INSTANCES_MOST = 4096, SOURCES_MOST = 1000000 };

uint32_t uptime_wanted(const PoolSpec *pool) {
  return pool->scaling.max > 0 ? pool->scaling.start : pool_machines(pool);
}

double uptime_share(const PoolResult *result, uint32_t n, Tick span) {
  Total ticks = 0;
  for (uint32_t i = n; i <= pool_machines(result->pool); i++)
    ticks += result->up_ticks[i];
  return total_seconds(ticks) / tick_seconds(span);
}

/* --- one source */

/* The probability that a time is longer than this. */
static double survives(const Lifetime *self, double seconds) {
  if (seconds <= 0) return 1;
  switch (self->kind) {
  case LIFETIME_CONSTANT:
    return seconds < self->mean;
  case LIFETIME_WEIBULL: {
    const double scale = self->mean / tgamma(1 + 1 / self->shape);
    return exp(-pow(seconds / scale, self->shape));
  }
  case LIFETIME_LOGNORMAL: {
    const double middle = log(self->mean) - self->shape * self->shape / 2;
    return erfc((log(seconds) - middle) / (self->shape * sqrt(2))) / 2;
  }
  default:
    return exp(-seconds / self->mean);
  }
}

/* E[min(s, U)], the integral of the probability to survive, by Simpson's rule. */
static double mean_below(const Lifetime *self, double seconds) {
  enum { STEPS = 256 };
  if (self->kind == LIFETIME_CONSTANT) return fmin(seconds, self->mean);
  if (self->kind == LIFETIME_EXPONENTIAL) return self->mean * -expm1(-seconds / self->mean);
  double sum = survives(self, 0) + survives(self, seconds);
  for (int i = 1; i < STEPS; i++)
    sum += (i % 2 ? 4 : 2) * survives(self, seconds * i / STEPS);
  return sum * seconds / STEPS / 3;
}

/* The share of time in which it does not hold an instance down that takes so long to start. */
static double availability(const FaultSource *source, double start) {
  const double down = source->down.mean + mean_below(&source->up, start);
  return 1 - down / (source->up.mean + source->down.mean);
}

/* --- all of them */

/* Instances whose number that is up is known together. */
typedef struct Cluster {
  double *shares; // [n + 1]
  uint32_t n;
} Cluster;

/* A pool as sources see it. */
typedef struct Pool {
  const PoolSpec *spec;
  uint32_t first;       // of its instances in the cluster
  uint32_t lanes, n;    // of one that is up or down by itself; of these
  Cluster *clusters;    // [n]
  uint32_t *cluster_of; // [n]
  Arena *arena;
} Pool;

typedef struct Source {
  const FaultSource *spec;
  uint32_t ix, n; // instances of the pool that it takes
} Source;

static int by_size(const void *a, const void *b) {
  const Source *one = a, *other = b;
  if (one->n != other->n) return one->n < other->n ? -1 : 1;
  return (one->ix > other->ix) - (one->ix < other->ix);
}

/* What of a part is up or down by itself, instances as they are bought or ranks: how many, from
 * `ret_from` on. */
static uint32_t units_of(const Pool *self, FaultPart part, uint32_t *ret_from) {
  const uint32_t lanes = self->lanes, end = part.first + part.n_instances;
  if (end <= self->first || part.first >= self->first + self->spec->count) return 0;
  *ret_from = (part.first - self->first) / lanes;
  return (end - self->first + lanes - 1) / lanes - *ret_from;
}

/* Adds one cluster to another: sums of their numbers. */
static void join(Pool *self, uint32_t into, uint32_t other) {
  const Cluster a = self->clusters[into], b = self->clusters[other];
  Cluster sum = {ARENA_ARRAY(self->arena, double, a.n + b.n + 1), a.n + b.n};
  for (uint32_t i = 0; i <= a.n; i++)
    for (uint32_t k = 0; k <= b.n; k++)
      sum.shares[i + k] += a.shares[i] * b.shares[k];
  self->clusters[into] = sum;
  self->clusters[other].n = 0;
  for (uint32_t u = 0; u < self->n; u++)
    if (self->cluster_of[u] == other) self->cluster_of[u] = into;
}

/* Makes one cluster of all that a source takes, with the chance that it is down; false where it
 * takes a part of one. */
static bool take(Pool *self, const Source *source) {
  uint32_t n = 0, into = UINT32_MAX;
  for (uint32_t k = 0; k <= source->spec->n_others; k++) {
    uint32_t from = 0;
    const uint32_t units = units_of(self, fault_part(source->spec, k), &from);
    for (uint32_t u = from; u < from + units; u++) {
      const uint32_t cluster = self->cluster_of[u];
      if (into == UINT32_MAX) into = cluster;
      if (cluster != into) join(self, into, cluster);
    }
    n += units;
  }
  Cluster *all = &self->clusters[into];
  if (all->n != n) return false;
  const double start = tick_seconds(pool_start_ticks(self->spec));
  const double up = availability(source->spec, start);
  for (uint32_t i = 0; i <= all->n; i++)
    all->shares[i] = up * all->shares[i] + (i == 0 ? 1 - up : 0);
  return true;
}

/* Of so many or more. */
static double tail(const double *shares, uint32_t n, uint32_t most) {
  double sum = 0;
  for (uint32_t i = n; i <= most; i++)
    sum += shares[i];
  return sum;
}

static Pool make_pool(const SimConfig *config, uint32_t pool, uint32_t lanes, Arena *arena) {
  const PoolSpec *spec = &config->pools[pool];
  const uint32_t n = spec->count / lanes;
  Pool self = {.spec = spec,
               .lanes = lanes,
               .n = n,
               .clusters = ARENA_ARRAY(arena, Cluster, n),
               .cluster_of = ARENA_ARRAY(arena, uint32_t, n),
               .arena = arena};
  for (uint32_t p = 0; p < pool; p++)
    self.first += config->pools[p].count;
  for (uint32_t u = 0; u < n; u++) {
    self.clusters[u] = (Cluster){ARENA_ARRAY(arena, double, 2), 1};
    self.clusters[u].shares[1] = 1;
    self.cluster_of[u] = u;
  }
  return self;
}

/* The sources that take instances of the pool down, the smaller ones first; false where one of them
 * is not drawn, or drains. */
static bool find_sources(const SimConfig *config, const Pool *pool, Source *sources,
                         uint32_t *ret_n) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < config->n_faults; i++) {
    const FaultSource *spec = &config->faults[i];
    Source source = {.spec = spec, .ix = i};
    for (uint32_t k = 0, from; k <= spec->n_others; k++)
      source.n += units_of(pool, fault_part(spec, k), &from);
    if (source.n == 0 || (spec->kind != FAULT_FAIL && spec->kind != FAULT_DRAIN)) continue;
    if (spec->kind == FAULT_DRAIN || spec->n_spans > 0) return false;
    sources[n++] = source;
  }
  qsort(sources, n, sizeof *sources, by_size);
  *ret_n = n;
  return n > 0;
}

/* Ranks of a replica that have places for all experts. */
static uint32_t enough_ranks(const PoolSpec *spec) {
  const uint32_t ranks = pool_ranks(spec);
  uint32_t n = ranks;
  while (n > 1 &&
         expert_balance_fits(spec->experts, (int64_t)(n - 1) * spec->experts->shape.n_gpus / ranks))
    n--;
  return n;
}

/* Of an instance as it is bought, whose ranks fail alone: the chance that each of its replicas has
 * enough of them; negative where a source takes ranks of several replicas. */
static double enough_up(Pool *self, uint32_t instance) {
  const uint32_t ranks = pool_ranks(self->spec), lanes = pool_lanes(self->spec);
  const uint32_t k = enough_ranks(self->spec);
  double up = 1;
  for (uint32_t first = instance * lanes; first < (instance + 1) * lanes; first += ranks) {
    for (uint32_t r = 1; r < ranks; r++)
      if (self->cluster_of[first + r] != self->cluster_of[first])
        join(self, self->cluster_of[first], self->cluster_of[first + r]);
    const Cluster *replica = &self->clusters[self->cluster_of[first]];
    if (replica->n != ranks) return -1;
    up *= tail(replica->shares, k, ranks);
  }
  return up;
}

/* The same of instances whose ranks fail alone. */
static const double *expected_of_ranks(Pool *self) {
  const uint32_t n = pool_machines(self->spec);
  double *shares = ARENA_ARRAY(self->arena, double, n + 1);
  shares[0] = 1;
  for (uint32_t i = 0; i < n; i++) {
    const double up = enough_up(self, i);
    if (up < 0) return NULL;
    for (uint32_t k = i + 1; k > 0; k--)
      shares[k] = (1 - up) * shares[k] + up * shares[k - 1];
    shares[0] *= 1 - up;
  }
  return shares;
}

const double *uptime_expected(const SimConfig *config, uint32_t pool, Arena *arena) {
  const PoolSpec *spec = &config->pools[pool];
  if (config->n_faults == 0 || config->n_faults > SOURCES_MOST ||
      pool_machines(spec) > INSTANCES_MOST || sim_is_second_shape(config, pool))
    return NULL;
  Pool self = make_pool(config, pool, spec->shrinks ? 1 : pool_lanes(spec), arena);
  if (self.n > INSTANCES_MOST) return NULL;
  Source *sources = ARENA_ARRAY(arena, Source, config->n_faults);
  uint32_t n = 0;
  if (!find_sources(config, &self, sources, &n)) return NULL;
  for (uint32_t i = 0; i < n; i++)
    if (!take(&self, &sources[i])) return NULL;
  if (spec->shrinks) return expected_of_ranks(&self);
  for (uint32_t u = 1; u < self.n; u++)
    if (self.cluster_of[u] != self.cluster_of[0])
      join(&self, self.cluster_of[0], self.cluster_of[u]);
  return self.clusters[self.cluster_of[0]].shares;
}

double uptime_expected_share(const SimConfig *config, uint32_t pool, Arena *arena) {
  const double *shares = uptime_expected(config, pool, arena);
  const PoolSpec *spec = &config->pools[pool];
  return shares ? tail(shares, uptime_wanted(spec), pool_machines(spec)) : NAN;
}

/* --- on paper */

/* "all 8 up 93.2% of the time, 7 or more 98.4%" of those that a pool begins with, down to what is
 * nearly always up. */
static void print_pool(const PoolResult *result, const double *expected, Tick span, FILE *out) {
  enum { ROWS = 4 };
  const uint32_t wanted = uptime_wanted(result->pool), most = pool_machines(result->pool);
  fprintf(out, "up           %s:", result->pool->name);
  for (uint32_t i = 0; i < ROWS && i < wanted; i++) {
    const uint32_t n = wanted - i;
    const double share = uptime_share(result, n, span);
    if (i == 0 && n > 1)
      fprintf(out, " all %u", n);
    else
      fprintf(out, "%s %u%s", i > 0 ? "," : "", n, n < most ? " or more" : "");
    fprintf(out, " %.5g%%", 100 * share);
    if (i == 0) fputs(" of the time", out);
    if (expected) fprintf(out, " (closed form %.5g%%)", 100 * tail(expected, n, most));
    if (share > 0.9999) break;
  }
  putc('\n', out);
}

static void print_step(const char *name, Tick ticks, const char **comma, FILE *out) {
  char text[32];
  if (ticks <= 0) return;
  fprintf(out, "%s%s %s", *comma, name, format_duration(tick_seconds(ticks), text));
  *comma = ", ";
}

/* The steps from a failure until the instance serves again. */
static void print_recovery(const Report *self, const PoolSpec *pool, FILE *out) {
  const StartUp *start = &pool->start_up;
  const Tick all = pool_start_ticks(pool);
  const char *comma = " (";
  char text[32];
  fprintf(out, "recovery     %s: known after %s; a repaired instance starts", pool->name,
          format_duration(tick_seconds(self->config->sim.detection), text));
  if (all <= 1) {
    fputs(" at once\n", out);
    return;
  }
  fprintf(out, " in %s", format_duration(tick_seconds(all), text));
  print_step("boot", start->boot, &comma, out);
  print_step("image", start->image, &comma, out);
  print_step("weights", all - start->boot - start->image - start->capture - start->warm_up, &comma,
             out);
  print_step("capture", start->capture, &comma, out);
  print_step("warm-up", start->warm_up, &comma, out);
  fputs(")\n", out);
}

void uptime_print(const Report *self, FILE *out) {
  Arena arena;
  arena_init(&arena);
  for (uint32_t p = 0; p < self->result->n_pools; p++) {
    const PoolResult *result = &self->result->pools[p];
    if (!result->up_ticks || self->result->span == 0 || result->totals.down_ticks == 0 ||
        sim_is_second_shape(&self->config->sim, p))
      continue;
    print_pool(result, uptime_expected(&self->config->sim, p, &arena), self->result->span, out);
    print_recovery(self, result->pool, out);
  }
  arena_done(&arena);
}
