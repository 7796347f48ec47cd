/* Figures of one run over time, which the database does not hold: the run is simulated again, and
 * what its machines do in the window that its figures are of is summed by pool into equal spans. */
#include "experiments/config/config.h"
#include "experiments/plot/gnuplot.h"
#include "experiments/plot/shown.h"
#include "experiments/replay/replay.h"
#include "sim/books/observer.h"
#include <math.h>
#include <string.h>

enum { SPANS = 240, POOLS_MAX = 7 };

/* Of a pool in a span; what a sample says is of the span's end. */
typedef struct Span {
  bool sampled;
  double waiting, running, used_blocks, power;
  double queried_tokens, cached_tokens; // since the run began
  double iterations, prefill_tokens, decode_tokens;
} Span;

typedef struct Watched {
  SimObserver observer;
  const SimConfig *sim;
  uint32_t *pool_of; // [machines]
  double blocks[POOLS_MAX];
  Tick from, length;            // of the window; of a span
  Tick sampled_at;              // the newest sample before the window
  Span (*pools)[1 + SPANS + 1]; // the first is of that sample
  uint32_t n_pools;
} Watched;

/* Of what happens before the window the first. */
static Span *span_of(const Watched *self, InstanceIx machine, Tick at) {
  const uint32_t pool = self->pool_of[machine];
  const Tick number = at < self->from ? 0 : 1 + (at - self->from) / self->length;
  return pool < self->n_pools ? &self->pools[pool][number <= SPANS ? number : 1 + SPANS] : NULL;
}

static void watch_sample(void *watched, const InstanceSample *sample) {
  Watched *self = watched;
  if (sample->at < self->from && sample->at != self->sampled_at) {
    for (uint32_t p = 0; p < self->n_pools; p++)
      self->pools[p][0] = (Span){0};
    self->sampled_at = sample->at;
  }
  Span *span = span_of(self, sample->instance, sample->at);
  if (!span) return;
  const PoolSpec *pool = &self->sim->pools[self->pool_of[sample->instance]];
  span->sampled = true;
  span->waiting += (double)sample->n_waiting;
  span->running += (double)sample->n_running;
  span->used_blocks += (double)sample->used_blocks;
  span->power += sample->prefills  ? pool->prefill_power
                 : sample->decodes ? pool->decode_power
                                   : pool->idle_power;
  span->queried_tokens += (double)sample->totals->queried_tokens;
  span->cached_tokens += (double)sample->totals->cached_tokens;
}

/* Iterations of one batch, each in the span that it lies in, or in both that it lies in. */
static void watch_iterations(void *watched, const IterationSpan *iterations) {
  const Watched *self = watched;
  const double length = (double)(iterations->end - iterations->begin);
  for (Tick at = iterations->begin; at < iterations->end;) {
    const Tick next =
        at < self->from ? self->from : at + self->length - (at - self->from) % self->length;
    const Tick until = next < iterations->end ? next : iterations->end;
    const double n = (double)iterations->n_iterations * (double)(until - at) / length;
    Span *span = span_of(self, iterations->instance, at);
    if (!span) return;
    span->iterations += n;
    span->prefill_tokens += n * (double)iterations->shape.prefill_tokens;
    span->decode_tokens += n * (double)iterations->shape.decode_seqs;
    at = until;
  }
}

static void init(Watched *self, const SimConfig *sim, Tick from, Tick until, Arena *arena) {
  uint32_t n_machines = 0;
  *self = (Watched){.sim = sim,
                    .from = from,
                    .length = (until - from) / SPANS + 1,
                    .sampled_at = -1,
                    .n_pools = sim->n_pools < POOLS_MAX ? sim->n_pools : POOLS_MAX};
  for (uint32_t p = 0; p < sim->n_pools; p++)
    n_machines += sim->pools[p].count;
  self->pool_of = ARENA_ARRAY(arena, uint32_t, n_machines);
  for (uint32_t p = 0, m = 0; p < sim->n_pools; p++)
    for (uint32_t i = 0; i < sim->pools[p].count; i++)
      self->pool_of[m++] = p;
  self->pools = arena_alloc(arena, self->n_pools * sizeof *self->pools);
  for (uint32_t p = 0; p < self->n_pools; p++)
    self->blocks[p] = (double)sim->pools[p].count * (double)sim->pools[p].kv_blocks;
  self->observer = (SimObserver){.context = self,
                                 .on_iterations = watch_iterations,
                                 .on_sample = watch_sample,
                                 .interval = self->length};
}

/* ---- As data ---- */

static const char columns[] =
    "pool,time_s,waiting,running,kv_share,cached_share,power_kw,prefill_tokens,decode_tokens";

/* Samples are not taken while nothing changes. */
static void carry(Span *span, const Span *before) {
  if (span->sampled) return;
  const Span own = *span;
  *span = *before;
  span->iterations = own.iterations;
  span->prefill_tokens = own.prefill_tokens;
  span->decode_tokens = own.decode_tokens;
}

static void write_value(double value, const char *before, bool csv, FILE *out) {
  fputs(before, out);
  if (!isnan(value))
    fprintf(out, "%.9g", value);
  else if (!csv)
    fputs("NaN", out);
}

/* A line for each span, with `name` before it unless that is NULL. */
static void write_pool(const Watched *self, uint32_t pool, const char *name, FILE *out) {
  const bool csv = name != NULL;
  const PoolSpec *spec = &self->sim->pools[pool];
  const bool has_power = spec->prefill_power + spec->decode_power > 0;
  Span before = self->pools[pool][0];
  for (int i = 0; i <= SPANS; i++) {
    Span span = self->pools[pool][1 + i];
    carry(&span, &before);
    const double queried = span.queried_tokens - before.queried_tokens;
    const double cached = span.cached_tokens - before.cached_tokens;
    const double values[] = {
        tick_seconds(self->from + i * self->length),
        span.waiting,
        span.running,
        self->blocks[pool] > 0 ? span.used_blocks / self->blocks[pool] : NAN,
        queried > 0 ? cached / queried : NAN,
        has_power ? span.power / 1e3 : NAN,
        span.iterations > 0 ? span.prefill_tokens / span.iterations : 0,
        span.iterations > 0 ? span.decode_tokens / span.iterations : 0,
    };
    if (csv) fputs(name, out);
    for (size_t k = 0; k < sizeof values / sizeof *values; k++)
      write_value(values[k], csv ? "," : " ", csv, out);
    putc('\n', out);
    before = span;
  }
}

static int draw(const Watched *self, const char *name, const char *corner, const PlotPlace *place,
                Arena *arena, Diag *diag) {
  Gnuplot gnuplot;
  if (place->rows) fprintf(place->rows, "%s\n", columns);
  for (uint32_t p = 0; place->rows && p < self->n_pools; p++)
    write_pool(self, p, self->sim->pools[p].name, place->rows);
  if (place->rows) return 0;
  if (gnuplot_open(&gnuplot, place, config_data_root(), arena, diag)) return -1;
  for (uint32_t p = 0; p < self->n_pools; p++) {
    gnuplot_set(&gnuplot, arena_printf(arena, "name%u", p + 1), self->sim->pools[p].name);
    fprintf(gnuplot.script, "$series%u << END\n", p + 1);
    write_pool(self, p, NULL, gnuplot.script);
    fputs("END\n", gnuplot.script);
  }
  fprintf(gnuplot.script, "n_series = %u\n", self->n_pools);
  gnuplot_corner(&gnuplot, corner, arena);
  return gnuplot_draw(&gnuplot, name, arena_printf(arena, "%s over time", name), diag);
}

/* ---- The run ---- */

const char *const plot_run_names[] = {"batches", "cluster", NULL};

bool plot_is_of_run(const char *name) {
  int i = 0;
  while (plot_run_names[i] && strcmp(plot_run_names[i], name) != 0)
    i++;
  return plot_run_names[i] != NULL;
}

/* A stored run. */
typedef struct Stored {
  const char *number, *corner;
  Tick from, until; // of its window, to the microsecond
  bool same;        // this program has its outcomes
} Stored;

static int read_stored(Stored *self, Results *results, const char *number, Arena *arena,
                       Diag *diag) {
  int64_t run = 0, from = 0, until = 0, same = 0;
  if (results_find_run(results, number, &run, diag)) return -1;
  const Value values[] = {value_whole(run)};
  static const char moment[] = "SELECT CAST(1e6 * value AS INTEGER) FROM metric WHERE run_id = ? "
                               "AND scope = 'run' AND name = ";
  const char *begins = arena_printf(arena, "%s'counted_from_s'", moment);
  const char *ends = arena_printf(arena, "%s'counted_until_s'", moment);
  if (results_ask(results, begins, values, 1, &from, diag) < 0 ||
      results_ask(results, ends, values, 1, &until, diag) < 0 ||
      results_ask(results, "SELECT NOT is_stale(epoch) FROM run WHERE id = ? AND status = 'done'",
                  values, 1, &same, diag) < 0)
    return -1;
  if (until <= from)
    return diag_error(diag, place_of_file(results->path), "run %lld did not complete",
                      (long long)run);
  *self = (Stored){.number = arena_printf(arena, "%lld", (long long)run),
                   .from = from * (TICKS_PER_SECOND / 1000000),
                   .until = until * (TICKS_PER_SECOND / 1000000),
                   .same = same != 0};
  const Shown shown = {.ids = arena_printf(arena, "[%lld]", (long long)run), .held = ""};
  self->corner = shown_corner(&shown, results, arena, diag);
  return self->corner ? 0 : -1;
}

static int find(Stored *self, const char *database, const PlotChoice *choice, Arena *arena,
                Diag *diag) {
  Results results = {0};
  if (results_open_reader(&results, database, arena, diag)) return -1;
  const char *number = choice && choice->runs ? choice->runs[0] : NULL;
  const int status = read_stored(self, &results, number, arena, diag);
  results_close(&results);
  return status;
}

bool plot_run_fits(const char *database, const PlotChoice *choice, Arena *arena) {
  Stored stored = {0};
  Diag unsaid;
  diag_init(&unsaid);
  const bool fits = find(&stored, database, choice, arena, &unsaid) == 0 && stored.same;
  diag_done(&unsaid);
  return fits;
}

static int check_choice(const char *name, const PlotChoice *choice, Diag *diag) {
  if (choice->metrics) return plot_refuse("--metric", name, diag);
  if (choice->where) return plot_refuse("--where", name, diag);
  if (choice->axis || choice->x) return plot_refuse("--axis", name, diag);
  if (choice->y) return plot_refuse("--y", name, diag);
  return 0;
}

int plot_run(const char *name, const char *database, const PlotChoice *choice,
             const PlotPlace *place, Arena *arena, Diag *diag) {
  Replay replay = {0};
  Watched watched;
  Stored stored = {0};
  if ((choice && check_choice(name, choice, diag)) || find(&stored, database, choice, arena, diag))
    return -1;
  int status = replay_load(&replay, database, stored.number, arena, diag);
  if (status == 0) {
    init(&watched, &replay.config.sim, stored.from, stored.until, arena);
    replay.config.sim.observer = &watched.observer;
    replay.config.sim.memory_limit = choice ? choice->memory : 0;
    status = replay_run(&replay, arena, diag);
  }
  if (status == 0) status = draw(&watched, name, stored.corner, place, arena, diag);
  if (replay.config.sim.trace) trace_close(replay.config.sim.trace);
  return status;
}
