/* What is kept of a run for the expressions of claims: its figures and the times of its batches,
 * some kilobytes in place of the megabytes of the run. experiments/papers/README.md lists the
 * names. */
#include "experiments/claims/claims.h"
#include <string.h>

typedef struct RunFigure {
  const char *scope, *name, *statistic;
  double value;
} RunFigure;

/* Busy time in batches of that many tokens, a bucket of a histogram. */
typedef struct BatchTime {
  int64_t tokens; // the least of the bucket
  uint64_t microseconds;
} BatchTime;

typedef struct PoolTimes {
  const char *name;
  double busy_s, all_s; // of all machines together
  BatchTime *times;     // [n_times], ascending
  int n_times;
} PoolTimes;

struct RunRecord {
  RunFigure *figures; // [n_figures], in the order of report_visit
  size_t n_figures, capacity;
  PoolTimes *pools; // [n_pools]
  uint32_t n_pools;
  TimesKnown times;
  Arena *arena;
};

RunRecord *run_record_new(Arena *arena) {
  RunRecord *self = ARENA_NEW(arena, RunRecord);
  self->arena = arena;
  return self;
}

void run_record_keep(RunRecord *self, const char *scope, const char *name, const char *statistic,
                     double value) {
  ARENA_RESERVE(self->arena, self->figures, self->capacity, self->n_figures + 1);
  RunFigure *figure = &self->figures[self->n_figures];
  *figure = (RunFigure){.name = name, .statistic = statistic, .value = value};
  const bool same = self->n_figures > 0 && strcmp(figure[-1].scope, scope) == 0;
  figure->scope = same ? figure[-1].scope : arena_copy(self->arena, scope, strlen(scope));
  self->n_figures++;
}

void run_record_add_times(RunRecord *self, const ExtrapolatedFigures *figures) {
  times_add(&self->times, figures);
}

/* ---- From a run ---- */

static void keep_figure(void *record, const char *scope, const char *name, const char *statistic,
                        double value, const char *unit) {
  (void)unit;
  run_record_keep(record, strcmp(scope, "run") == 0 ? "" : scope, name, statistic, value);
}

/* slo_met, the number of objectives met, and slo.ttft.p90, the value of one. */
static void keep_slos(RunRecord *self, const Report *report) {
  const int n = report->config->slo->n_specs;
  run_record_keep(self, "", "slo_met", "value", n - report->n_missed);
  for (int i = 0; i < n; i++) {
    const SloOutcome *outcome = &report->outcomes[i];
    const char *name = outcome->spec->name;
    run_record_keep(self, "slo", arena_copy(self->arena, name, strlen(name)), "value",
                    outcome->value);
  }
}

/* ---- What instances decoded ---- */

/* Requests by their output: above monitor.heavy_above, and others. */
typedef struct Decoded {
  Tick last_at; // of their last tokens
  int64_t heavy, light;
} Decoded;

typedef struct DecodedBook {
  Decoded *of; // [n], by instance
  size_t n, capacity;
  int64_t heavy_above;
  Arena *arena;
} DecodedBook;

/* Fits SimConfig.on_request. */
static int book_decoded(void *context, const RequestRecord *record, const Metrics *so_far,
                        Diag *diag) {
  (void)so_far, (void)diag;
  DecodedBook *self = context;
  if (record->last_token_at < 0) return 0;
  const size_t instance = record->decode_instance;
  ARENA_RESERVE(self->arena, self->of, self->capacity, instance + 1);
  while (self->n <= instance)
    self->of[self->n++] = (Decoded){0};
  Decoded *to = &self->of[instance];
  if (record->last_token_at > to->last_at) to->last_at = record->last_token_at;
  if (record->output_tokens > self->heavy_above)
    to->heavy++;
  else
    to->light++;
  return 0;
}

void run_record_listen(Trial *trial) {
  SimConfig *sim = &trial->config.sim;
  DecodedBook *book = ARENA_NEW(&trial->arena, DecodedBook);
  *book = (DecodedBook){.heavy_above = sim->heavy_above, .arena = &trial->arena};
  sim->on_request = book_decoded;
  sim->on_request_context = book;
}

/* The heavy and light decodes of the instance that was the last to end. */
static void keep_slowest(RunRecord *self, const DecodedBook *book) {
  const Decoded *slowest = NULL;
  for (size_t i = 0; i < book->n; i++)
    if (!slowest || book->of[i].last_at > slowest->last_at) slowest = &book->of[i];
  if (!slowest) return;
  run_record_keep(self, "", "slowest_heavy", "value", (double)slowest->heavy);
  run_record_keep(self, "", "slowest_light", "value", (double)slowest->light);
}

static PoolTimes pool_times(const PoolResult *pool, Tick span, Arena *arena) {
  const Histogram *batch_tokens = pool->batch_tokens;
  const char *name = pool->pool->name;
  PoolTimes times = {.name = arena_copy(arena, name, strlen(name)),
                     .busy_s = (double)batch_tokens->total / 1e6,
                     .all_s = tick_seconds(span) * pool->pool->count};
  int n = 0;
  for (size_t i = 0; i < batch_tokens->n_counts; i++)
    n += batch_tokens->counts[i] > 0;
  times.times = ARENA_ARRAY(arena, BatchTime, n);
  for (size_t i = 0; i < batch_tokens->n_counts; i++)
    if (batch_tokens->counts[i] > 0)
      times.times[times.n_times++] =
          (BatchTime){histogram_bucket_start((int)i), batch_tokens->counts[i]};
  return times;
}

RunRecord *run_record_make(const Trial *trial, Arena *arena) {
  const SimResult *result = &trial->result;
  RunRecord *self = run_record_new(arena);
  run_record_add_times(self, &trial->report.extrapolated);
  report_visit(&trial->report, keep_figure, self);
  keep_slos(self, &trial->report);
  keep_slowest(self, trial->config.sim.on_request_context);
  self->n_pools = result->n_pools;
  self->pools = ARENA_ARRAY(arena, PoolTimes, result->n_pools);
  for (uint32_t i = 0; i < result->n_pools; i++)
    self->pools[i] = pool_times(&result->pools[i], result->span, arena);
  return self;
}

/* ---- By name ---- */

/* What is left of `name` after `part` and a dot, or its end; NULL when it begins otherwise. */
static const char *after(const char *name, const char *part) {
  const size_t length = strlen(part);
  if (!name || strncmp(name, part, length) != 0) return NULL;
  if (name[length] == '.') return name + length + 1;
  return name[length] == '\0' ? name + length : NULL;
}

/* "ttft_s.p50", "pool.decode.utilization". */
static bool find_value(const RunRecord *self, const char *name, double *ret_value) {
  bool found = false;
  for (size_t i = 0; i < self->n_figures; i++) {
    const RunFigure *figure = &self->figures[i];
    const char *rest = after(*figure->scope ? after(name, figure->scope) : name, figure->name);
    if (rest && strcmp(figure->statistic, "value") != 0) rest = after(rest, figure->statistic);
    if (!rest || *rest) continue;
    *ret_value = figure->value;
    found = true;
  }
  return found;
}

/* Seconds of busy time in iterations of at most `tokens` tokens. Histograms are exact up to 255. */
static double seconds_at_most(const PoolTimes *pool, double tokens) {
  double microseconds = 0;
  for (int i = 0; i < pool->n_times && (double)pool->times[i].tokens <= tokens; i++)
    microseconds += (double)pool->times[i].microseconds;
  return microseconds / 1e6;
}

/* The share of time that machines of a pool ("" : of all pools) spend in iterations of at most
 * `tokens` tokens; of busy time, or of all time, in which an idle machine has none. */
static double share_at_most(const RunRecord *self, const char *pool, bool with_idle,
                            double tokens) {
  double busy = 0, all = 0, counted = 0;
  for (uint32_t i = 0; i < self->n_pools; i++) {
    const PoolTimes *of = &self->pools[i];
    if (*pool && strcmp(of->name, pool) != 0) continue;
    busy += of->busy_s;
    all += of->all_s;
    counted += seconds_at_most(of, tokens);
  }
  if (with_idle) counted += all - busy;
  return counted / (with_idle ? all : busy);
}

/* busy_share(20), time_share(20), pool.decode.time_share(20). */
static bool find_share(const RunRecord *self, const char *name, const double *arguments,
                       int n_arguments, double *ret_value) {
  static const char *const shares[] = {"busy_share", "time_share"};
  char pool[64] = "";
  const char *rest = after(name, "pool");
  if (rest) {
    const size_t length = strcspn(rest, ".");
    if (rest[length] == '\0' || length >= sizeof pool) return false;
    memcpy(pool, rest, length);
    pool[length] = '\0';
    name = rest + length + 1;
  }
  for (int i = 0; i < 2; i++)
    if (strcmp(name, shares[i]) == 0 && n_arguments == 1) {
      *ret_value = share_at_most(self, pool, i == 1, arguments[0]);
      return true;
    }
  return false;
}

bool run_record_figure(const RunRecord *self, const char *name, const double *arguments,
                       int n_arguments, double *ret_value) {
  if (n_arguments == 0) return find_value(self, name, ret_value);
  return self->n_pools > 0 && find_share(self, name, arguments, n_arguments, ret_value);
}

void run_record_times(const RunRecord *self, TimesKnown *times) {
  times_merge(times, &self->times);
}
