/* `tandem timeline DB [RUN]` or `tandem timeline CONFIG`: a run as a file that Perfetto opens. */
#include "experiments/timeline/timeline.h"
#include "base/output.h"
#include "base/text.h"
#include "experiments/base/interrupt.h"
#include "experiments/base/progress.h"
#include "experiments/commands/cli.h"
#include <string.h>

typedef struct Options {
  const Node *set;
  const char *output, *machines;
  Tick from, to, sample; // sample -1: to be chosen
  int64_t size, seed, tie_seed, memory;
} Options;

static const OptionSpec options[] = {
    {CLI_MAIN,
     CLI_TEXT("-o", output, "FILE", "timeline to write (.json), or - for standard output"),
     .required = true},
    {CLI_TEXT("--machines", machines, "LIST",
              "pools and instances to draw, such as prefill,3,5..7"),
     .absent = "all"},
    {CLI_ROW("--from", TICKS, from, "TIME", "leave out what ends before this time"), .max = 8.64e6},
    {CLI_ROW("--to", TICKS, to, "TIME", "leave out what begins after this time"), .max = 8.64e6},
    {CLI_ROW("--size", BYTES, size, "SIZE", "approximate size of FILE; sets --sample"),
     .fallback = "45 MB", .min = 1e5, .max = 1e18},
    {.group = "Simulation",
     CLI_ROW("--sample", TICKS, sample, "TIME",
             "join slices that are shorter than this; also the interval between counter samples"),
     .max = 8.64e6},
    {CLI_SET("pools.prefill.count=30")},
    {CLI_SEED},
    {CLI_TIE_SEED},
    {CLI_MEMORY},
    {0}};

/* Between samples: each looks at all machines. */
static const Tick INTERVAL_MIN = TICKS_PER_SECOND / 1000;

/* The run of a database, or a configuration. */
static int load(Replay *run, const Cli *cli) {
  const Options *given = cli->given;
  const char *path = cli->operands[0];
  const ConfigChanges changes = {.assignments = cli_texts(given->set, cli->arena),
                                 .seed = given->seed,
                                 .tie_seed = given->tie_seed};
  if (replay_is_database(path))
    return replay_load(run, path, cli->operands[1], cli->arena, cli->diag);
  return replay_load_config(run, path, &changes, cli->arena, cli->diag);
}

static void print_summary(const Cli *cli, const Replay *run, const TimelineOptions *drawn,
                          const TimelineCounts *counts, bool on_stdout) {
  const Options *given = cli->given;
  char duration[32], join[32], interval[32];
  fprintf(stderr, "%s: %s of simulated time, %lld slices, %lld arrows",
          text_shown(run->source, cli->arena), format_duration(tick_seconds(counts->end), duration),
          (long long)counts->slices_drawn, (long long)counts->arrows_drawn);
  if (!on_stdout && counts->bytes > 0)
    fprintf(stderr, counts->bytes < 1000000 ? ", %.0f kB in %s" : ", %.1f MB in %s",
            (double)counts->bytes / (counts->bytes < 1000000 ? 1e3 : 1e6),
            text_shown(given->output, cli->arena));
  fprintf(stderr, ", a sample each %s\n", format_duration(tick_seconds(drawn->interval), interval));
  if (counts->slices_drawn < counts->slices || counts->arrows_drawn < counts->arrows)
    fprintf(stderr,
            "note: of %lld slices those that last less than %s together are joined, and %lld "
            "arrows are omitted; --from and --to, --machines or --size show more\n",
            (long long)counts->slices, format_duration(tick_seconds(drawn->join), join),
            (long long)(counts->arrows - counts->arrows_drawn));
  if (!on_stdout) fprintf(stderr, "open it at ui.perfetto.dev\n");
}

static int simulate(const Cli *cli, Replay *run, TimelineOptions *drawn, FILE *out,
                    TimelineCounts *counts) {
  const Options *given = cli->given;
  Progress progress;
  progress_init(&progress, &run->config.workload);
  run->config.sim.memory_limit = cli_memory(given->memory, 1);
  run->config.sim.on_progress = progress_update;
  run->config.sim.on_progress_context = &progress;
  interrupt_catch();
  int status = 0;
  if (given->sample <= 0) status = timeline_choose(drawn, run, given->size, cli->diag);
  if (given->sample == 0) drawn->join = 0;
  if (status == 0) status = timeline_write(drawn, run, out, counts, cli->diag);
  progress_done(&progress);
  return status;
}

static int draw(const Cli *cli, Replay *run, Output *output) {
  const Options *given = cli->given;
  const bool on_stdout = strcmp(given->output, "-") == 0;
  const char *const inputs[] = {cli->operands[0], NULL};
  TimelineOptions drawn = {.from = given->from, .to = given->to};
  TimelineCounts counts;
  if (given->sample > 0) drawn.join = drawn.interval = given->sample;
  if (given->sample > 0 && given->sample < INTERVAL_MIN) drawn.interval = INTERVAL_MIN;
  if (load(run, cli)) return EXIT_INPUT;
  drawn.machines = timeline_machines(&run->config, given->machines, cli->arena, cli->diag);
  if (!drawn.machines || output_check(given->output, inputs, cli->diag) ||
      config_check_output(&run->config, "-o", given->output, cli->arena, cli->diag) ||
      output_open(output, on_stdout ? "/dev/stdout" : given->output, cli->arena, cli->diag) ||
      simulate(cli, run, &drawn, output->file, &counts) || output_commit(output, cli->diag))
    return EXIT_INPUT;
  print_summary(cli, run, &drawn, &counts, on_stdout);
  return EXIT_DONE;
}

static int run_timeline(Cli *cli) {
  const Options *given = cli->given;
  const bool is_database = replay_is_database(cli->operands[0]);
  const bool changed = given->set || given->seed >= 0 || given->tie_seed >= 0;
  if (given->to > 0 && given->to <= given->from)
    return cli_usage(cli, "'--to' must be later than '--from'");
  if (is_database && changed)
    return cli_usage(cli, "'--set' and seeds need a CONFIG: a stored run cannot be changed");
  if (!is_database && cli->operands[1]) return cli_usage(cli, "RUN needs a database");
  Replay run = {0};
  Output output = {0};
  const int code = draw(cli, &run, &output);
  if (run.config.sim.trace) trace_close(run.config.sim.trace);
  output_drop(&output);
  cli_interrupted(cli, "nothing was written; the same command starts again");
  return code;
}

const Command command_timeline = {
    .name = "timeline",
    .group = COMMANDS_RESULTS,
    .help = "write a run as a timeline for Perfetto",
    .description =
        "Writes what each instance and link did over time, as trace events that ui.perfetto.dev "
        "opens. A stored run is simulated again; it is refused if its outcomes would differ.",
    .operands = "DB|CONFIG [RUN]",
    .arguments = (const CliTerm[]){{"DB", "database of results"},
                                   {"CONFIG", "configuration file to simulate"},
                                   {"RUN", "number of a run in DB; the newest run by default"},
                                   {0}},
    CLI_OPTIONS,
    .notes = "--set, --seed and --tie-seed are for a CONFIG; a stored run keeps its own.",
    .examples = "tandem timeline experiments/examples/splitwise-small.yaml -o small.json",
    .initial = &(const Options){.sample = -1, .seed = -1, .tie_seed = -1},
    .run = run_timeline,
};
