/* `tandem list [WHAT]`: what there is, from the tables and the data folders. */
#include "base/folder.h"
#include "calib/backend_load.h"
#include "experiments/commands/cli.h"
#include "experiments/commands/list_perfmodels.h"
#include "experiments/commands/manual.h"
#include "experiments/config/config.h"
#include "experiments/fleet/fleet.h"
#include "experiments/keys/keys.h"
#include "experiments/report/report.h"
#include "perfmodel/datafile.h"
#include "perfmodel/finder.h"
#include "sim/policies.h"
#include "sim/proposal/proposal.h"
#include "traces/format.h"
#include "traces/profiles.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What is asked for of the lists of models and of performance models. */
typedef ListOptions Options;

enum { FORMAT_MARKDOWN = 1 };
static const char *const list_formats[] = {"table", "markdown", NULL};

static const OptionSpec options[] = {
    {.group = "Filters for models and perfmodels",
     CLI_TEXT("--engine", engine, "ENGINE", "list times of this engine, such as vllm or vllm-0.24"),
     .listed = "engines"},
    {CLI_TEXT("--model", model, "TEXT", "list models with TEXT in their name"), .listed = "models"},
    {CLI_TEXT("--gpu", gpu, "GPU", "list times on GPUs with this in their name, such as h100")},
    {CLI_ROW("--weights", CHOICE, weights, "FORMAT", "number format of the weights"),
     .choices = dtype_names},
    {CLI_ROW("--tp", INT, tensor_parallel_size, "N", "tensor-parallel degree"), .min = 1,
     .max = 1024},
    {.group = "Output",
     CLI_ROW("--format", CHOICE, format, "FORMAT", "output format of 'options'"),
     .choices = list_formats,
     .fallback = "table"},
    {0}};

/* ---- What there is ---- */

static void print_policy(const Policy *policy) {
  printf("%-26s %s\n", policy->name, policy->help);
  if (policy->options) option_print(policy->options, 4, stdout);
}

static void print_policies(PolicyKind kind) {
  for (const Policy *const *policy = policy_list(kind); *policy; policy++)
    print_policy(*policy);
}

static void print_proposals(Arena *arena, Diag *diag) {
  (void)arena, (void)diag;
  for (const Proposal *const *proposal = proposal_list(); *proposal; proposal++)
    print_policy(&(*proposal)->policy);
}

/* "16384 from 160 GiB of GPU memory, 8192 from 70 GiB but not a100, else 2048". */
static int64_t limit_of(const ServingLimits *limits, size_t offset) {
  return *(const int64_t *)((const char *)limits + offset);
}

static void print_limits(const ServingEngine *engine, const char *key, size_t offset) {
  printf("    %-24s", key);
  const char *unit = " of GPU memory", *separator = "";
  for (const ServingLimits *limits = engine->limits;; limits++) {
    const int64_t limit = limit_of(limits, offset);
    const bool last = limits->gpu_memory_gib == 0 && !limits->but_not;
    if (!last && !limits[1].but_not && limit == limit_of(limits + 1, offset)) continue;
    printf("%s%s%" PRId64, separator, last && *separator ? "else " : "", limit);
    if (last) break;
    printf(" from %g GiB%s", limits->gpu_memory_gib, unit);
    if (limits->but_not) printf(" but not %s", limits->but_not);
    unit = "";
    separator = ", ";
  }
}

/* One number, or what is left of a GPU. */
static void print_memory(const ServingEngine *engine) {
  const ServingReserve *reserve = engine->reserve;
  printf("    %-24s", "gpu_memory_utilization");
  if (!reserve) {
    printf("%g\n", engine->gpu_memory_utilization);
    return;
  }
  printf("all but %g MiB, %g MiB per max_num_batched_tokens (at least %lld), %g MiB per GPU of an "
         "instance, %g MiB per\n    %-24ssequence of the largest CUDA graph (not of pools for "
         "prefill); on GPUs of over %g GiB at least %g GiB;\n    %-24swith attention data "
         "parallelism %g MiB more per such sequence and rank, %g MiB over 300 sequences\n",
         reserve->base, reserve->per_batched_token, (long long)reserve->least_tokens,
         reserve->per_gpu, reserve->per_graph_seq, "", reserve->least_above / 1024,
         reserve->least / 1024, "", reserve->per_graph_seq_of_rank[0],
         reserve->per_graph_seq_of_rank[1]);
}

/* "iteration_time 800 us, sequence_time 30 us with public kernels; fitted on …, h100-80gb". */
static void print_host(const HostRow *host) {
  const char *separator = "";
  printf("    %-24s", "host time");
  for (const OptionSpec *row = NULL; (row = serving_next_time(row));) {
    char text[32];
    const Tick time = serving_time(&host->times, row);
    if (time == 0) continue;
    units_format(text, sizeof text, DIM_TIME, tick_seconds(time));
    printf("%s%s %s", separator, row->key, text);
    separator = ", ";
  }
  if (host->preset.name) printf("preset %s", host->preset.name);
  if (host->kernels) printf(" with %s kernels", host->kernels);
  printf("; fitted on %s%s%s; error %s; %s\n", host->fitted_on, host->gpu ? ", " : "",
         host->gpu ? host->gpu : "", host->error, host->source);
}

static void print_engines(Arena *arena, Diag *diag) {
  (void)arena, (void)diag;
  for (int i = 1; serving_choices[i]; i++) {
    const ServingEngine *engine = serving_at(i);
    printf("%-26s %s\n    %-24s%s", engine->name, engine->help, "batcher", engine->batcher);
    if (engine->options) printf(" %s", engine->options);
    putchar('\n');
    print_limits(engine, "max_num_batched_tokens", offsetof(ServingLimits, max_num_batched_tokens));
    puts(engine->whole_prompts ? ", or the model's context" : "");
    print_limits(engine, "max_num_seqs", offsetof(ServingLimits, max_num_seqs));
    putchar('\n');
    print_memory(engine);
    printf("    %-24s%lld\n", "block_size", (long long)engine->block_size);
    printf("    %-24s%s\n", "swapping", engine->swaps ? "kvtier: swap" : "never");
    if (engine->captured_batch_sizes)
      printf("    %-24s%s, where a performance model says so\n", "captured_batch_sizes",
             engine->captured_batch_sizes);
    for (int k = 0; host_row_at(k); k++)
      if (strcmp(host_row_at(k)->engine, engine->name) == 0) print_host(host_row_at(k));
    printf("    %-24s%s\n", "source", engine->source);
  }
}

static void print_machines(Arena *arena, Diag *diag) {
  const char *root = list_data_dir(arena);
  for (const char *const *name = datafile_names(root, "machines", arena); *name; name++) {
    Hardware hardware;
    if (hardware_load(&hardware, *name, root, place_of_file(NULL), arena, diag)) continue;
    printf("%-26s %lld x %s, NIC %.4g GB/s", *name, (long long)hardware.num_gpus, hardware.gpu,
           (double)hardware.nic_bandwidth / 1e9);
    if (hardware.provisioned_power > 0) printf(", %.1f kW", hardware.provisioned_power / 1000);
    if (hardware.sold == SOLD_WHOLE) printf(", sold whole");
    if (hardware.cost_per_hour > 0) {
      printf(", %.4g $/h, ", hardware.cost_per_hour);
      hardware_print_price(&hardware, stdout);
    }
    putchar('\n');
  }
}

/* "tokens of prompts p50 1020, p90 3825, p99 6683, max 14050" */
static void print_quantiles(const char *what, const LengthDistribution *of) {
  static const int percents[] = {50, 90, 99};
  printf("%s", what);
  for (size_t i = 0; i < sizeof percents / sizeof *percents; i++)
    printf(" p%d %.0f,", percents[i], of->quantiles[(of->n_quantiles - 1) * percents[i] / 100]);
  printf(" max %.0f", of->quantiles[of->n_quantiles - 1]);
}

static void print_lengths(Arena *arena, Diag *diag) {
  const char *path = arena_printf(arena, "%s/traces/lengths", config_data_root());
  for (const char *const *name = folder_names(path, ".csv", arena); *name; name++) {
    LengthDistribution prompt, output;
    const char *file = arena_printf(arena, "%s/%s.csv", path, *name);
    if (lengths_load(file, &prompt, &output, arena, diag)) continue;
    printf("%-26s ", *name);
    print_quantiles("prompt tokens", &prompt);
    print_quantiles("; output tokens", &output);
    putchar('\n');
  }
}

static void print_profiles(Arena *arena, Diag *diag) {
  const char *path = arena_printf(arena, "%s/traces/profiles", config_data_root());
  for (const char *const *name = folder_names(path, ".csv", arena); *name; name++) {
    RateProfile profile;
    Csv csv;
    const char *file = arena_printf(arena, "%s/%s.csv", path, *name);
    if (csv_open(&csv, file, arena, diag) ||
        profile_read(&profile, &csv, place_of_file(file), arena, diag))
      continue;
    double sum = 0, most = 0;
    for (int i = 0; i < profile.n; i++) {
      sum += profile.values[i];
      most = fmax(most, profile.values[i]);
    }
    char step[64];
    units_format(step, sizeof step, DIM_TIME, tick_seconds(profile.step));
    printf("%-26s %d relative rates, one every %s; the highest is %.2f times the mean\n", *name,
           profile.n, step, most * profile.n / sum);
  }
}

static void print_traces(Arena *arena, Diag *diag) {
  (void)arena, (void)diag;
  for (int i = 1; format_choices[i]; i++)
    printf("%-26s %s\n", format_choices[i], format_at(i - 1)->help);
}

/* As reports, the database and claims name them. */
static void print_figures(Arena *arena, Diag *diag) {
  (void)arena, (void)diag;
  static const char *const scopes[LEVELS] = {
      [LEVEL_LATENCY] = "run, each with mean, p50, p90, p95, p99, max",
      [LEVEL_RUN] = "run",
      [LEVEL_EXTRAPOLATED] = "extrapolated",
      [LEVEL_MACHINE] = "run and pool.NAME, summed over instances; columns of the table machine",
      [LEVEL_POOL] = "pool.NAME",
      [LEVEL_POOL_SPREAD] = "pool.NAME, each with the same statistics",
      [LEVEL_COMPONENT] = "component.NAME, of a mix",
      [LEVEL_COMPONENT_SPREAD] = "component.NAME, each with the same statistics",
      [LEVEL_GROUP] = "group.NAME, summed over its replicas",
      [LEVEL_REQUEST] = "columns of the table request (run --requests)",
  };
  for (Level level = 0; level < LEVELS; level++) {
    printf("%s:\n", scopes[level]);
    for (const Figure *figure = report_figures; figure->name; figure++)
      if (figure->level == level)
        printf("  %-24s %-4s %s\n", figure->name, figure->unit, figure->meaning);
  }
}

static void print_options(Arena *arena, Diag *diag) {
  (void)arena, (void)diag;
  keys_print(NULL, stdout);
}

static void print_units(Arena *arena, Diag *diag) {
  (void)arena, (void)diag;
  keys_print_units(stdout);
}

static void print_backends(Arena *arena, Diag *diag) {
  (void)diag;
  for (int i = 0; backend_names[i]; i++) {
    const char *path = backend_find(backend_names[i], arena);
    printf("%-26s %s\n", backend_names[i], path ? path : "not in this build");
  }
}

/* ---- Their names, for completion ---- */

static const char *const *machines_of(Arena *arena) {
  return datafile_names(list_data_dir(arena), "machines", arena);
}

static const char *const *models_of(Arena *arena) {
  return datafile_names(list_data_dir(arena), "models", arena);
}

static const char *const *perfmodels_of(Arena *arena) {
  return finder_engines(list_data_dir(arena), arena);
}

static const char *const *lengths_of(Arena *arena) {
  return folder_names(arena_printf(arena, "%s/traces/lengths", config_data_root()), ".csv", arena);
}

static const char *const *profiles_of(Arena *arena) {
  return folder_names(arena_printf(arena, "%s/traces/profiles", config_data_root()), ".csv", arena);
}

static const char *const *engines_of(Arena *arena) {
  (void)arena;
  return serving_choices + 1;
}

static const char *const *traces_of(Arena *arena) {
  (void)arena;
  return format_choices;
}

static const char *const *backends_of(Arena *arena) {
  (void)arena;
  return backend_names;
}

static const char *const *proposals_of(Arena *arena) {
  const Proposal *const *proposals = proposal_list();
  int n = 0;
  while (proposals[n])
    n++;
  const char **names = ARENA_ARRAY(arena, const char *, n + 1);
  while (n-- > 0)
    names[n] = proposals[n]->policy.name;
  return names;
}

/* ---- The lists ---- */

static const struct {
  const char *name, *help;
  /* What cannot be loaded is left out, its entries in `diag`; of neither the
   * policies of this kind. */
  void (*print)(Arena *arena, Diag *diag);
  PolicyKind kind;
  void (*print_wanted)(const ListOptions *wanted, Arena *arena,
                       Diag *diag);          // of those with options
  const char *const *(*names)(Arena *arena); // that a configuration or an option may have
} listings[] = {
    {"engines", "serving engines, with their limits and host times", .print = print_engines,
     .names = engines_of},
    {"routers", "policies that choose the instance of a request", .kind = POLICY_ROUTER},
    {"predictors", "policies that predict output tokens", .kind = POLICY_PREDICTOR},
    {"dispatchers", "policies that choose the instance for decode", .kind = POLICY_DISPATCHER},
    {"pools", "policies that change the roles of instances", .kind = POLICY_POOL},
    {"batchers", "policies that choose what an iteration holds", .kind = POLICY_BATCHER},
    {"proposals", "scheduling ideas on top of batcher vllm", .print = print_proposals,
     .names = proposals_of},
    {"transfers", "policies that choose when KV is sent", .kind = POLICY_TRANSFER},
    {"kvtiers", "policies that choose what happens when KV memory is full", .kind = POLICY_KVTIER},
    {"scalers", "policies that start and stop instances", .kind = POLICY_SCALER},
    {"models", "models, with their weights and KV per token", .print_wanted = list_models,
     .names = models_of},
    {"machines", "machine types, with their GPUs and prices", .print = print_machines,
     .names = machines_of},
    {"perfmodels", "performance models, with their range and held-out errors",
     .print_wanted = list_perfmodels, .names = perfmodels_of},
    {"lengths", "tables of prompt and output tokens", .print = print_lengths, .names = lengths_of},
    {"profiles", "tables of arrival rates over time", .print = print_profiles,
     .names = profiles_of},
    {"traces", "formats of traces", .print = print_traces, .names = traces_of},
    {"figures", "figures of a run, as reports and databases name them", .print = print_figures},
    {"units", "units of quantities", .print = print_units},
    {"backends", "backends that measure, and where they are", .print = print_backends,
     .names = backends_of},
    {"options", "keys of a configuration", .print = print_options},
};
enum { N_LISTINGS = sizeof listings / sizeof *listings };

static int unknown_listing(const char *what) {
  const char *names[N_LISTINGS + 1] = {NULL};
  for (int i = 0; i < N_LISTINGS; i++)
    names[i] = listings[i].name;
  return cli_unknown("list", what, names, "tandem list --help");
}

/* Names alone explain themselves to who knows them; policies have their sentences. */
static const CliTerm *policy_terms(PolicyKind kind, Arena *arena) {
  const Policy *const *policies = policy_list(kind);
  int n = 0;
  while (policies[n])
    n++;
  CliTerm *terms = ARENA_ARRAY(arena, CliTerm, n + 1);
  while (n-- > 0)
    terms[n] = (CliTerm){policies[n]->name, policies[n]->help};
  return terms;
}

static const char *unexplained(const char *name, Arena *arena) {
  (void)name, (void)arena;
  return "";
}

const CliTerm *list_terms(const char *what, Arena *arena) {
  for (int i = 0; i < N_LISTINGS; i++) {
    if (strcmp(what, listings[i].name) != 0) continue;
    if (listings[i].names) return cli_terms(listings[i].names(arena), unexplained, arena);
    if (!listings[i].print && !listings[i].print_wanted)
      return policy_terms(listings[i].kind, arena);
  }
  return NULL;
}

static const CliTerm *listing_terms(Arena *arena) {
  CliTerm *terms = ARENA_ARRAY(arena, CliTerm, N_LISTINGS + 1);
  for (int i = 0; i < N_LISTINGS; i++)
    terms[i] = (CliTerm){listings[i].name, listings[i].help};
  return terms;
}

/* 'list options', as a page or with a part of their names. */
static int list_options(const ListOptions *wanted, const char *part) {
  if (wanted->format == FORMAT_MARKDOWN) {
    keys_print_markdown(stdout);
  } else if (!keys_print(part, stdout)) {
    fprintf(stderr, "tandem list: no key has '%s' in its name; see 'tandem list options'\n", part);
    return EXIT_USAGE;
  }
  return EXIT_DONE;
}

static int run_list(Cli *cli) {
  const char *what = cli->operands[0], *part = what ? cli->operands[1] : NULL;
  const ListOptions *wanted = cli->given;
  bool found = false;
  if (what && strcmp(what, "options") == 0) return list_options(wanted, part);
  if (part) return cli_usage(cli, "unexpected argument '%s'", part);
  if (wanted->format == FORMAT_MARKDOWN) return cli_usage(cli, "'--format' needs 'options'");
  if (list_is_filtered(wanted) && (!what || !strstr(what, "models")))
    return cli_usage(cli, "these options need 'models' or 'perfmodels'");
  Diag diag;
  diag_init(&diag);
  for (int i = 0; i < N_LISTINGS; i++) {
    if (what && strcmp(what, listings[i].name) != 0) continue;
    found = true;
    if (!what) printf("%s%s:\n", i > 0 ? "\n" : "", listings[i].name);
    if (listings[i].print_wanted)
      listings[i].print_wanted(wanted, cli->arena, &diag);
    else if (listings[i].print)
      listings[i].print(cli->arena, &diag);
    else
      print_policies(listings[i].kind);
  }
  diag_done(&diag);
  return found ? EXIT_DONE : unknown_listing(what);
}

const Command command_list = {
    .name = "list",
    .group = COMMANDS_DATA,
    .help = "list engines, policies, models, machines and keys",
    .description = "Lists what a configuration can name.",
    .operands = "[WHAT] [TEXT]",
    .arguments = (const CliTerm[]){{"WHAT", "list to print; all lists by default"},
                                   {"TEXT", "part of a name: 'list options TEXT' prints the keys "
                                            "that contain it"},
                                   {0}},
    CLI_OPTIONS,
    .initial = &(const Options){.weights = -1},
    .listing = "Lists",
    .listed = listing_terms,
    .listed_as = "WHAT",
    .examples = "tandem list routers\n"
                "tandem list options pools.NAME.count\n"
                "tandem list perfmodels --engine vllm --gpu h100 --weights fp8",
    .exits = {[EXIT_INPUT] = ""},
    .run = run_list,
};
