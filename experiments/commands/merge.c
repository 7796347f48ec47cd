/* `tandem merge OUT DB…`: the shards of a sweep, or any results, as one database. */
#include "experiments/commands/cli.h"
#include "experiments/results/results.h"
#include "sim/base/text.h"
#include <inttypes.h>

enum { PATHS_MAX = 10000 };

typedef struct Options {
  bool partial;
} Options;

static const CliOption options[] = {
    {"--partial", NULL, CLI_FLAG, offsetof(Options, partial), "sweeps may lack points"}, {0}};

static const CliCommand command = {
    .name = "merge",
    .summary = "Joins databases of results, such as the shards of a sweep, to a new one.",
    .operands = "OUT DB...",
    .min_operands = 2,
    .max_operands = 1 + PATHS_MAX,
    .options = options,
    .notes =
        "OUT appears whole or not at all. Databases of different versions, different outcomes\n"
        "of one configuration and missing shards are errors. Results of programs with other\n"
        "outcomes stay apart: 'tandem query' calls them stale.",
    .example = "tandem merge sweep.db shard-*.db",
    .exit_codes = "0 done, 2 wrong usage, 3 bad input, 4 the environment lacks something",
};

static int merge(const char *const *operands, const Options *given, Arena *arena, Diag *diag) {
  Merge merge = {.out = operands[0], .paths = operands + 1, .partial = given->partial};
  while (merge.n_paths < PATHS_MAX && merge.paths[merge.n_paths])
    merge.n_paths++;
  if (merge_databases(&merge, arena, diag)) return -1;
  for (size_t i = 0; i < merge.n_missing; i++)
    fprintf(stderr, "%s: %s\n", text_shown(merge.out, arena), text_shown(merge.missing[i], arena));
  cli_note_stale(merge.runs, merge.stale);
  printf("%" PRId64 " runs of %d databases\n", merge.runs, merge.n_paths);
  return 0;
}

int cmd_merge(int argc, char **argv) {
  Options given = {0};
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  const char **operands = ARENA_ARRAY(&arena, const char *, command.max_operands);
  int code = cli_parse(&command, argc, argv, &given, operands, &arena);
  if (code == CLI_GO_ON) code = merge(operands, &given, &arena, &diag) ? EXIT_INPUT : EXIT_DONE;
  code = cli_finish(&diag, code);
  diag_done(&diag);
  arena_done(&arena);
  return code;
}
