/* `tandem sweep EXPERIMENT.yaml`: every point of its axes that the database does not have yet. */
#include "experiments/sweep/sweep.h"
#include "base/text.h"
#include "experiments/base/cells.h"
#include "experiments/base/interrupt.h"
#include "experiments/base/workers.h"
#include "experiments/commands/cli.h"
#include "experiments/results/results.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Options {
  const Node *set;
  const char *output, *shard;
  int64_t jobs, memory, format;
  bool dry_run;
} Options;

static const OptionSpec options[] = {
    {CLI_MAIN, CLI_OUTPUT},
    {CLI_SET("sweep.pools.all.count=1..9")},
    {CLI_FLAG("--dry-run", dry_run, "print what would be simulated and stop")},
    {CLI_TEXT("--shard", shard, "K/N",
              "simulate only the K-th of N equal parts, which 'tandem merge' joins")},
    {CLI_FORMAT},
    {.group = "Resources", CLI_JOBS},
    {CLI_MEMORY},
    {0}};

enum { SHARDS_MAX = 1000000 };

/* "K/N" with 1 <= K <= N; -1 when it is something else. */
static int parse_shard(const char *text, int64_t *ret_shard, int64_t *ret_n_shards) {
  if (!text) return 0;
  char *slash = NULL, *end = NULL;
  const long long shard = strtoll(text, &slash, 10);
  if (slash == text || *slash != '/') return -1;
  const long long n_shards = strtoll(slash + 1, &end, 10);
  if (end == slash + 1 || *end || shard < 1 || n_shards < shard || n_shards > SHARDS_MAX) return -1;
  *ret_shard = shard;
  *ret_n_shards = n_shards;
  return 0;
}

/* ---- --dry-run ---- */

static int show_plan(SweepRun *run, const char *output, Arena *arena, Diag *diag) {
  if (output && results_check_path(output, diag)) return -1;
  if (output && access(output, F_OK) == 0) {
    Results results;
    if (results_open_reader(&results, output, arena, diag)) return -1;
    const int status = results_finished(&results, &run->finished, arena, diag);
    results_close(&results);
    if (status) return -1;
  }
  enum { SHOWN = 5 };
  int64_t first[SHOWN];
  const int64_t n = sweep_run_plan(run, first, SHOWN), n_shown = n < SHOWN ? n : SHOWN;
  const Tally *tally = &run->tally;
  printf("%" PRId64 " points: %" PRId64 " are there, %" PRId64 " to simulate, %" PRId64
         " cannot be\n",
         tally->points, tally->found, n, tally->failed);
  for (int64_t i = 0; i < n_shown; i++)
    printf("  %" PRId64 "  %s\n", first[i], sweep_label(&run->sweep, first[i], arena));
  if (n > n_shown) printf("  … and %" PRId64 " more\n", n - n_shown);
  return 0;
}

/* ---- The sweep ---- */

/* For programs: which sweep of the database it is, and what became of its points. */
static void print_tally(const SweepRun *run, const SweepTimes *times, OutputFormat format) {
  const Tally *tally = &run->tally;
  const TimesKnown *known = &times->times;
  const bool sure = known->known && !known->unknown && !known->computed;
  const Cell cells[] = {{CELL_OF_WHOLE("sweep", run->row.id)},
                        {CELL_OF_WHOLE("points", tally->points)},
                        {CELL_OF_WHOLE("found", tally->found)},
                        {CELL_OF_WHOLE("simulated", tally->done)},
                        {CELL_OF_WHOLE("failed", tally->failed)},
                        {CELL_OF_NUMBER("perfmodel_error", sure ? known->error : NAN)},
                        {CELL_OF_NUMBER("extrapolated", known->extrapolated)},
                        {0}};
  Rows rows = {.format = format, .out = stdout, .indent = "", .gap = "", .end = "]\n"};
  rows_put(&rows, cells);
  rows_end(&rows);
}

/* The worst of its points. */
static void print_times(const SweepRun *run, const SweepTimes *times, Arena *arena) {
  const char *label = times->point < 0 ? "" : sweep_label(&run->sweep, times->point, arena);
  const char *known = times_text(&times->times, arena);
  const char *extrapolated = times_extrapolated_text(&times->times, label, arena);
  if (*known) printf("times        %s\n", known);
  if (extrapolated) printf("extrapolated %s\n", extrapolated);
}

static void print_end(const SweepRun *run, const SweepTimes *times, const Options *given, int jobs,
                      Arena *arena) {
  const Tally *tally = &run->tally;
  const char *output = given->output;
  const double elapsed = clock_monotonic() - tally->began_s;
  if (given->format != OUTPUT_TABLE)
    print_tally(run, times, (OutputFormat)given->format);
  else
    printf("%" PRId64 " points: %" PRId64 " were there, %" PRId64 " simulated, %" PRId64
           " failed; %.1f s, %.0f/s, %d at a time\n",
           tally->points, tally->found, tally->done, tally->failed, elapsed, tally_rate(tally),
           jobs);
  if (given->format == OUTPUT_TABLE) print_times(run, times, arena);
  if (tally->failed > 0)
    fprintf(stderr, "%" PRId64 " points failed, see 'tandem query %s failed'; the first: %s\n",
            tally->failed, text_shown(output, arena), run->first_reason);
}

/* The first points with what users feel of them. */
static int print_points(const SweepRun *run, Results *results, Arena *arena, Diag *diag) {
  static const char sql[] =
      "SELECT point, max(value) FILTER (WHERE metric.name = 'ttft_s' AND statistic = 'p99'), "
      "max(value) FILTER (WHERE metric.name = 'tpot_s' AND statistic = 'p99'), "
      "max(value) FILTER (WHERE metric.name = 'throughput_rps'), (SELECT sum(met) || ' of ' || "
      "count(*) FROM slo WHERE slo.run_id = point.run_id HAVING count(*) > 0) "
      "FROM point JOIN metric USING (run_id) WHERE sweep_id = ? AND scope = 'run' "
      "GROUP BY point ORDER BY point LIMIT ?";
  enum { PRINTED = 20 };
  Rows rows = {.format = OUTPUT_TABLE, .out = stdout, .indent = "", .gap = "", .end = ""};
  CLEANUP_STATEMENT sqlite3_stmt *row =
      results_query(results, sql, VALUES(value_whole(run->row.id), value_whole(PRINTED)), diag);
  const char *labels[PRINTED];
  int status, n = 0, width = 5;
  while ((status = results_next(results, row, diag)) > 0) {
    labels[n] = sweep_label(&run->sweep, sqlite3_column_int64(row, 0), arena);
    if ((int)strlen(labels[n]) > width) width = (int)strlen(labels[n]);
    n++;
  }
  if (status == 0) sqlite3_reset(row);
  for (int i = 0; i < n && status == 0 && (status = results_next(results, row, diag)) > 0; i++) {
    char ttft[32], tpot[32];
    rows_put(&rows,
             (Cell[]){{CELL_OF_TEXT("point", labels[i]), COLUMN("point", -width)},
                      {CELL_OF_NUMBER("ttft_p99_s", results_real(row, 1)), COLUMN("TTFT p99", 10),
                       .shown = format_duration(results_real(row, 1), ttft)},
                      {CELL_OF_NUMBER("tpot_p99_s", results_real(row, 2)), COLUMN("TPOT p99", 10),
                       .shown = format_duration(results_real(row, 2), tpot)},
                      {CELL_OF_NUMBER("throughput_rps", results_real(row, 3)),
                       COLUMN("requests/s", 11), .show = "%.4g"},
                      {CELL_OF_TEXT("met", results_text(row, 4, arena)), COLUMN("limits met", 11)},
                      {0}});
    status = 0;
  }
  rows_end(&rows);
  const int64_t others = run->tally.points - run->tally.failed - n;
  if (others > 0) printf("… and %" PRId64 " more; 'tandem query DB points' lists all\n", others);
  return status < 0 ? -1 : 0;
}

static int fill_database(SweepRun *run, const Options *given, int jobs, SweepTimes *ret_times,
                         Arena *arena, Diag *diag) {
  Results results;
  if (results_open(&results, given->output, config_data_root(), arena, diag)) return -1;
  int64_t runs = 0, stale = 0;
  int status = results_count_runs(&results, &runs, &stale, diag);
  cli_note_stale(runs, stale);
  if (status == 0) status = results_finished(&results, &run->finished, arena, diag);
  if (status == 0) status = results_add_sweep(&results, &run->row, arena, diag);
  interrupt_catch();
  if (status == 0) status = sweep_run(run, &results, jobs, arena, diag);
  if (status == 0) status = sweep_times(&results, run->row.id, ret_times, diag);
  if (status == 0 && given->format == OUTPUT_TABLE)
    status = print_points(run, &results, arena, diag);
  results_close(&results);
  return status;
}

static int sweep(const char *path, const Options *given, SweepRun *run, Arena *arena, Diag *diag) {
  const ConfigChanges changes = {
      .assignments = cli_texts(given->set, arena), .seed = -1, .tie_seed = -1};
  const int jobs = cli_jobs(given->jobs);
  if (sweep_run_init(run, path, &changes, arena, diag)) return -1;
  run->base.memory = cli_memory(given->memory, jobs);
  if (given->dry_run) return show_plan(run, given->output, arena, diag);
  ResultsLock lock;
  if (results_lock(&lock, given->output, arena, diag)) return -1;
  SweepTimes times;
  const int status = fill_database(run, given, jobs, &times, arena, diag);
  results_unlock(&lock);
  config_note_perfmodels(&run->base.cache, stderr);
  if (status == 0) print_end(run, &times, given, jobs, arena);
  return status;
}

static int run_sweep(Cli *cli) {
  const Options *given = cli->given;
  SweepRun run = {.row = {.shard = 1, .n_shards = 1}};
  if (!given->output && !given->dry_run)
    return cli_usage(cli, "'--output' or '--dry-run' is missing");
  if (parse_shard(given->shard, &run.row.shard, &run.row.n_shards))
    return cli_usage(cli, "'--shard' must be K/N, such as 2/8, not '%s'", given->shard);
  sweep(cli->operands[0], given, &run, cli->arena, cli->diag); // what fails is in `diag`
  cli_interrupted(cli, "%" PRId64 " of %" PRId64 " points are in '%s'; the same command continues",
                  tally_ended(&run.tally), run.tally.points, given->output);
  sweep_run_done(&run);
  return EXIT_DONE;
}

const Command command_sweep = {
    .name = "sweep",
    .group = COMMANDS_SIMULATE,
    .help = "simulate all points of a sweep",
    .description =
        "Simulates every combination of the values on the axes in the block 'sweep' of a "
        "configuration. An axis is a key with its values, such as 'pools.all.count: 1..40 step 3' "
        "or 'workload.arrivals.rate: [70 /s, 100 /s]'.",
    .operands = "EXPERIMENT",
    .arguments = (const CliTerm[]){{"EXPERIMENT", "configuration file with a block 'sweep'"}, {0}},
    CLI_OPTIONS,
    .notes = "A sweep needs --output, or --dry-run. Points that DB already has are not simulated "
             "again, so the same command continues a sweep that was stopped or extended. Points "
             "that fail are stored with the reason: 'tandem query DB failed' prints them.",
    .examples = "tandem sweep experiments/examples/sweep.yaml --output sweep.db\n"
                "tandem query sweep.db points",
    .exits = {[EXIT_DONE] = "success, also if points failed"},
    .run = run_sweep,
};
