/* `tandem merge OUT DB…`: the shards of a sweep, or any results, as one database. */
#include "base/text.h"
#include "experiments/commands/cli.h"
#include "experiments/results/results.h"
#include <inttypes.h>

typedef struct Options {
  bool partial;
} Options;

static const OptionSpec options[] = {CLI_FLAG("--partial", partial, "sweeps may lack points"), {0}};

static int run_merge(Cli *cli) {
  const Options *given = cli->given;
  Arena *arena = cli->arena;
  Merge merge = {.out = cli->operands[0],
                 .paths = cli->operands + 1,
                 .n_paths = cli->n_operands - 1,
                 .partial = given->partial};
  if (merge_databases(&merge, arena, cli->diag)) return EXIT_INPUT;
  for (size_t i = 0; i < merge.n_missing; i++)
    fprintf(stderr, "%s: %s\n", text_shown(merge.out, arena), text_shown(merge.missing[i], arena));
  cli_note_stale(merge.runs, merge.stale);
  printf("%" PRId64 " runs of %d databases\n", merge.runs, merge.n_paths);
  return EXIT_DONE;
}

const Command command_merge = {
    .name = "merge",
    .help = "join databases of results",
    .summary = "Joins databases of results, such as the shards of a sweep, to a new one.",
    .operands = "OUT DB...",
    .options = options,
    .size = sizeof(Options),
    .notes =
        "OUT appears whole or not at all. Databases of different versions, different outcomes\n"
        "of one configuration and missing shards are errors. Results of programs with other\n"
        "outcomes stay apart: 'tandem query' calls them stale.",
    .example = "tandem merge sweep.db shard-*.db",
    .exit_codes = "0 done, 2 wrong usage, 3 bad input, 4 the environment lacks something",
    .run = run_merge,
};
