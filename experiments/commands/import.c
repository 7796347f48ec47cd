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
#define DEGREE(key, field, help) CLI_COUNT(key, field, help, MAX_DEGREE), .min = 1, .fallback = "1"

static const OptionSpec options[] = {
    {CLI_MAIN, CLI_TEXT("-o", output, "PROFILE", "profile to write"), .required = true},
    {CLI_TEXT("--model", model, "NAME", "model that was measured"), .listed = "models"},
    {CLI_TEXT("--gpu", gpu, "GPU", "GPU that was measured, such as h100-80gb")},
    {CLI_MACHINE("machine type that operators are composed for")},
    {CLI_TEXT("--engine", engine, "NAME", "engine, or engine and version"),
     .absent = "the name of the folder"},
    {.group = "Composition of operators",
     DEGREE("--tensor-parallel", tensor_parallel_size, "GPUs that share the attention")},
    {DEGREE("--attention-data-parallel", attention_data_parallel_size,
            "groups of such GPUs that serve separate requests")},
    {DEGREE("--expert-parallel", expert_parallel_size,
            "number of parts that experts are split into")},
    {CLI_TEXT("--quantization", quantization, "FORMAT", "number format of the weights"),
     .choices = dtype_names, .absent = "that of the model"},
    {CLI_TEXT("--kv-cache-dtype", kv_cache_dtype, "FORMAT", "number format of the KV cache"),
     .choices = dtype_names, .absent = "that of the model"},
    {0}};

static const char *const *format_list(Arena *arena) {
  int n = 0;
  while (importer_at(n))
    n++;
  const char **names = ARENA_ARRAY(arena, const char *, n + 1);
  while (n-- > 0)
    names[n] = importer_at(n)->name;
  return names;
}

static const char *about(const char *name, Arena *arena) {
  const Importer *importer = importer_find(name);
  return arena_printf(arena, "%s%s", importer->help,
                      importer->needs_setup   ? " (needs --model and --machine)"
                      : importer->needs_model ? " (needs --model)"
                                              : "");
}

static const CliTerm *formats_listed(Arena *arena) {
  return cli_terms(format_list(arena), about, arena);
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
  if (!importer)
    return cli_unknown("format", cli->operands[0], format_list(cli->arena), "tandem import --help");
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
    .group = COMMANDS_MEASURE,
    .help = "convert measurements of other projects to a profile",
    .description = "Writes a profile from the measurements of another project. The profile records "
                   "what had to be assumed.",
    .operands = "FORMAT FILE...",
    .arguments = (const CliTerm[]){{"FORMAT", "format of FILE, from the list below"},
                                   {"FILE", "file or folder to read"},
                                   {0}},
    CLI_OPTIONS,
    .listing = "Formats",
    .listed = formats_listed,
    .listed_as = "FORMAT",
    .examples = "tandem import splitwise-sim perf_model.csv -o profile.csv",
    .exits = {[EXIT_INPUT] = "the file is wrong"},
    .run = run_import,
};
