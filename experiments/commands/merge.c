/* `tandem merge OUT DB…`: the shards of a sweep, or any results, as one database. */
#include "base/text.h"
#include "experiments/commands/cli.h"
#include "experiments/results/results.h"
#include <inttypes.h>

typedef struct Options {
  bool partial;
} Options;

static const OptionSpec options[] = {
    {CLI_MAIN, CLI_FLAG("--partial", partial, "accept sweeps with missing points")}, {0}};

static int run_merge(Cli *cli) {
  const Options *given = cli->given;
  Arena *arena = cli->arena;
  Merge merge = {.out = cli->operands[0],
                 .paths = cli->operands + 1,
                 .n_paths = cli->n_operands - 1,
                 .partial = given->partial};
  if (merge_databases(&merge, arena, cli->diag)) return EXIT_INPUT;
  for (const char *const *missing = merge.missing; *missing; missing++)
    fprintf(stderr, "%s: %s\n", text_shown(merge.out, arena), text_shown(*missing, arena));
  cli_note_stale(merge.runs, merge.stale);
  printf("%" PRId64 " runs of %d databases\n", merge.runs, merge.n_paths);
  return EXIT_DONE;
}

const Command command_merge = {
    .name = "merge",
    .group = COMMANDS_RESULTS,
    .help = "join databases of results",
    .description =
        "Joins databases of results, such as the shards of a sweep, into a new one. OUT is "
        "written completely or not at all.",
    .operands = "OUT DB...",
    .arguments = (const CliTerm[]){{"OUT", "database to write"}, {"DB", "databases to join"}, {0}},
    CLI_OPTIONS,
    .notes = "Databases of different versions, different outcomes of one configuration and missing "
             "shards are errors. Results of a program with other outcomes are kept and marked as "
             "stale.",
    .examples = "tandem merge sweep.db shard-*.db",
    .run = run_merge,
};
