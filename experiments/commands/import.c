/* `tandem import FORMAT FILE… -o PROFILE`: others' profiles as ours. */
#include "perfmodel/import/import.h"
#include "experiments/commands/cli.h"
#include "experiments/config/config.h"
#include "sim/base/output.h"
#include <stddef.h>
#include <string.h>

typedef struct Options {
  const char *output, *model, *gpu;
} Options;

static const CliOption import_options[] = {
    {"-o", "PROFILE", CLI_TEXT, offsetof(Options, output), "the profile to write"},
    {"--model", "NAME", CLI_TEXT, offsetof(Options, model), "the model, by its name in ours"},
    {"--gpu", "NAME", CLI_TEXT, offsetof(Options, gpu), "the GPU, by its name in ours"},
    {0}};

static const CliCommand command_without_notes = {
    .name = "import",
    .summary = "Writes a profile from the measurements of another project. The facts at its head\n"
               "say the source, its units and what had to be assumed.",
    .operands = "FORMAT FILE",
    .min_operands = 2,
    .max_operands = 2,
    .options = import_options,
    .example = "tandem import splitwise-sim perf_model.csv -o profile.csv",
    .exit_codes = "0 done, 2 wrong usage, 3 bad file, 4 cannot read or write",
};

/* The formats, as the list has them. */
static const char *describe_formats(Arena *arena) {
  const char *text = "FORMAT is one of";
  for (int i = 0; importer_at(i); i++) {
    const Importer *importer = importer_at(i);
    text = arena_printf(arena, "%s\n  %-14s %s%s", text, importer->name, importer->help,
                        importer->needs_model ? "; needs --model" : "");
  }
  return text;
}

static int unknown_format(const char *name) {
  const char *names[32] = {NULL};
  for (int i = 0; importer_at(i) && i < 31; i++)
    names[i] = importer_at(i)->name;
  Diag diag;
  diag_init(&diag);
  diag_error(&diag, place_of_file(NULL), "unknown format '%s'", name);
  diag_hint_near(&diag, name, names);
  diag_print(&diag, stderr);
  diag_done(&diag);
  return EXIT_USAGE;
}

/* What the format and the options together want. CLI_GO_ON, or the exit code of wrong usage. */
static int check_usage(const CliCommand *command, const Importer *importer,
                       const Options *options) {
  if (!options->output) return cli_usage(command, "it needs '-o PROFILE'");
  if (importer->needs_model && !options->model)
    return cli_usage(command, "'%s' needs '--model'", importer->name);
  return CLI_GO_ON;
}

static int import(const Importer *importer, const Options *options, const char *path, Arena *arena,
                  Diag *diag) {
  const char *inputs[] = {path, NULL};
  const ImportInput input = {.path = path,
                             .model = options->model,
                             .gpu = options->gpu,
                             .data_dir = arena_printf(arena, "%s/perfmodel", config_data_root())};
  Profile profile;
  profile_init(&profile, path, arena);
  if (output_check(options->output, inputs, diag) ||
      import_profile(importer, &input, &profile, diag) ||
      profile_save(&profile, options->output, diag))
    return EXIT_INPUT;
  ProfileGroup *groups = NULL;
  size_t n = profile_groups(&profile, &groups, arena);
  for (size_t i = 0; i < n; i++)
    printf("%-20s %-18s tensor_parallel_size %d: %zu rows\n", groups[i].model, groups[i].gpu,
           (int)groups[i].tensor_parallel_size, groups[i].n_rows);
  return EXIT_DONE;
}

int cmd_import(int argc, char **argv) {
  Options options = {0};
  const char *operands[2] = {NULL};
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  CliCommand command = command_without_notes;
  command.notes = describe_formats(&arena);
  int code = cli_parse(&command, argc, argv, &options, operands, &arena);
  const Importer *importer = code == CLI_GO_ON ? importer_find(operands[0]) : NULL;
  if (code == CLI_GO_ON && !importer) code = unknown_format(operands[0]);
  if (code == CLI_GO_ON) code = check_usage(&command, importer, &options);
  if (code == CLI_GO_ON) code = import(importer, &options, operands[1], &arena, &diag);
  code = cli_finish(&diag, code);
  diag_done(&diag);
  arena_done(&arena);
  return code;
}
