/* `tandem import FORMAT FILE... -o PROFILE`: others' profiles as ours. */
#include "perfmodel/import/import.h"
#include "base/output.h"
#include "experiments/commands/cli.h"
#include "experiments/config/config.h"
#include <string.h>

typedef struct Options {
  const char *output, *model, *gpu, *machine, *engine, *quantization, *kv_cache_dtype;
  int64_t tensor_parallel_size, attention_data_parallel_size, expert_parallel_size;
} Options;

enum { MAX_DEGREE = 1024 };
#define DEGREE(key, field, help)                                                                   \
  { CLI_ROW(key, INT, field, "N", help), .min = 1, .max = MAX_DEGREE, .fallback = "1" }

static const OptionSpec options[] = {
    {CLI_ROW("-o", STRING, output, "PROFILE", "the profile to write"), .required = true},
    {CLI_ROW("--model", STRING, model, "NAME", "the model, by its name in ours"),
     .listed = "models"},
    CLI_TEXT("--gpu", gpu, "NAME", "the GPU, by its name in ours"),
    {CLI_ROW("--machine", STRING, machine, "NAME", "the machine that operators are composed for"),
     .listed = "machines"},
    DEGREE("--tensor-parallel", tensor_parallel_size, "GPUs that share attention"),
    DEGREE("--attention-data-parallel", attention_data_parallel_size,
           "groups of them with requests of their own"),
    DEGREE("--expert-parallel", expert_parallel_size, "ways that whole experts are spread"),
    CLI_TEXT("--quantization", quantization, "FORMAT", "of weights  [what the model says]"),
    CLI_TEXT("--kv-cache-dtype", kv_cache_dtype, "FORMAT", "of keys and values  [likewise]"),
    CLI_TEXT("--engine", engine, "NAME", "NAME or NAME-VERSION  [what the folder is called]"),
    {0}};

/* The formats, as the list has them. */
static const char *describe_formats(Arena *arena) {
  const char *text = "FORMAT";
  for (int i = 0; importer_at(i); i++) {
    const Importer *importer = importer_at(i);
    text = arena_printf(arena, "%s%s %-14s %s%s%s", text, i > 0 ? "\n      " : "", importer->name,
                        importer->help, importer->needs_model ? "; needs --model" : "",
                        importer->needs_setup ? " and --machine" : "");
  }
  return text;
}

static int unknown_format(const char *name, Arena *arena) {
  int n = 0;
  while (importer_at(n))
    n++;
  const char **names = ARENA_ARRAY(arena, const char *, n + 1);
  while (n-- > 0)
    names[n] = importer_at(n)->name;
  return cli_unknown("format", name, names, "tandem import --help");
}

/* What an importer looked for in its source, and what it found. */
static void print_checks(const Profile *profile) {
  for (size_t i = 0; i < profile->n_facts; i++)
    if (strncmp(profile->facts[i].key, "check_", 6) == 0)
      printf("%s: %s\n", profile->facts[i].key + 6, profile->facts[i].value);
}

static int import(const Importer *importer, const Options *options, const char *const *paths,
                  Arena *arena, Diag *diag) {
  const ImportInput input = {
      .path = paths[0],
      .more = paths + 1,
      .model = options->model,
      .gpu = options->gpu,
      .data_dir = arena_printf(arena, "%s/perfmodel", config_data_root()),
      .machine = options->machine,
      .engine = options->engine,
      .quantization = options->quantization,
      .kv_cache_dtype = options->kv_cache_dtype,
      .tensor_parallel_size = options->tensor_parallel_size,
      .attention_data_parallel_size = options->attention_data_parallel_size,
      .expert_parallel_size = options->expert_parallel_size,
  };
  Profile profile;
  profile_init(&profile, paths[0], arena);
  if (output_check(options->output, paths, diag) ||
      import_profile(importer, &input, &profile, diag) ||
      profile_save(&profile, options->output, diag))
    return EXIT_INPUT;
  ProfileGroup *groups = NULL;
  size_t n = profile_groups(&profile, &groups, arena);
  for (size_t i = 0; i < n; i++)
    printf("%-20s %-18s tensor_parallel_size %d: %zu rows\n", groups[i].model, groups[i].gpu,
           (int)groups[i].tensor_parallel_size, groups[i].n_rows);
  print_checks(&profile);
  return EXIT_DONE;
}

static int run_import(Cli *cli) {
  const Importer *importer = importer_find(cli->operands[0]);
  if (!importer) return unknown_format(cli->operands[0], cli->arena);
  const Options *given = cli->given;
  if (importer->needs_model && !given->model)
    return cli_usage(cli, "'%s' needs '--model'", importer->name);
  if (importer->needs_setup && !given->machine)
    return cli_usage(cli, "'%s' needs '--machine'", importer->name);
  if (cli->n_operands > 2 && !importer->takes_more)
    return cli_usage(cli, "'%s' takes one FILE, so '%s' is unexpected", importer->name,
                     cli->operands[2]);
  return import(importer, given, cli->operands + 1, cli->arena, cli->diag);
}

const Command command_import = {
    .name = "import",
    .help = "a profile from another project's measurements",
    .summary = "Writes a profile of another project's measurements, with what had to be assumed.",
    .operands = "FORMAT FILE...",
    .options = options,
    .size = sizeof(Options),
    .example = "tandem import splitwise-sim perf_model.csv -o profile.csv",
    .exit_codes = "0 done, 2 wrong usage, 3 bad file, 4 cannot read or write",
    .more_notes = describe_formats,
    .run = run_import,
};
