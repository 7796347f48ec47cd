/* `tandem fit PROFILE`: model files from measurements, with how good they are. */
#include "base/output.h"
#include "base/text.h"
#include "experiments/base/cells.h"
#include "experiments/commands/cli.h"
#include "experiments/commands/fit_tables.h"
#include "experiments/config/config.h"
#include "perfmodel/compose/collectives.h"
#include "perfmodel/datafile.h"
#include "perfmodel/fit_file.h"
#include "perfmodel/hardware.h"
#include "perfmodel/presets.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Options {
  const char *output_path, *tables, *model, *gpu, *preset, *mode, *machine;
  int64_t tensor_parallel_size, seed;
  bool verify;
  int format;
} Options;

static const OptionSpec options[] = {
    {CLI_MAIN,
     CLI_TEXT("-o", output_path, "PATH", "file to write (MODEL.yaml), or a folder for all groups")},
    {CLI_TEXT("--tables", tables, "FOLDER",
              "write tables of kernels to FOLDER/GPU/tandem-DATE, such as perfmodel/tables")},
    {CLI_TEXT("--model", model, "NAME", "fit only this model"), .listed = "models"},
    {CLI_TEXT("--gpu", gpu, "GPU", "fit only this GPU")},
    {CLI_COUNT("--tp", tensor_parallel_size, "fit only this tensor-parallel degree", INT32_MAX)},
    {CLI_FORMAT},
    {.group = "Fitting",
     CLI_TEXT("--preset", preset, "NAME",
              "engine preset, whose host time is added to measured kernels"),
     .absent = "what the profile says"},
    {CLI_TEXT("--mode", mode, "MODE", "rows to use, graph or eager, if the profile has both"),
     .absent = "graph"},
    {CLI_MACHINE("machine type whose links give the times of all-reduces that were not measured, "
                 "in place of the tables of the GPU")},
    {CLI_COUNT("--seed", seed, "random seed of folds and splits", 1e19), .fallback = "1"},
    {CLI_FLAG("--verify", verify, "check whether MODEL was fitted to PROFILE")},
    {0}};

/* ---- Groups ---- */

static const char *group_name(const ProfileGroup *group, Arena *arena) {
  return arena_printf(arena, "%s_%s_tp%d", group->model, group->gpu,
                      (int)group->tensor_parallel_size);
}

/* Another model is further than another GPU, and that than another size. */
static int64_t group_distance(const ProfileGroup *group, const Options *options) {
  int64_t distance = 0;
  if (options->model && strcmp(options->model, group->model) != 0) distance += INT64_C(2) << 32;
  if (options->gpu && strcmp(options->gpu, group->gpu) != 0) distance += INT64_C(1) << 32;
  if (options->tensor_parallel_size > 0)
    distance += llabs(options->tensor_parallel_size - group->tensor_parallel_size);
  return distance;
}

/* Sorts the groups, nearest to what was asked for first; keeps the order of those as near. */
static void sort_groups(ProfileGroup *groups, size_t n, const Options *options) {
  for (size_t i = 1; i < n; i++) {
    ProfileGroup group = groups[i];
    size_t at = i;
    for (; at > 0 && group_distance(&groups[at - 1], options) > group_distance(&group, options);
         at--)
      groups[at] = groups[at - 1];
    groups[at] = group;
  }
}

static int list_groups(const Profile *profile, const ProfileGroup *groups, size_t n,
                       const char *problem, Arena *arena, Diag *diag) {
  const char **names = ARENA_ARRAY(arena, const char *, n + 1);
  for (size_t i = 0; i < n; i++)
    names[i] = group_name(&groups[i], arena);
  diag_error(diag, place_of_file(profile->path), "%s", problem);
  return diag_hint(diag, "the profile has, nearest first, %s", datafile_join(names, arena));
}

/* How many of the sorted groups are meant; −1 with an entry when that is none, or several go into
 * one file. */
static int count_groups(const Profile *profile, const ProfileGroup *groups, size_t n,
                        const Options *options, Arena *arena, Diag *diag) {
  size_t meant = 0;
  while (meant < n && group_distance(&groups[meant], options) == 0)
    meant++;
  if (meant == 0)
    return list_groups(profile, groups, n, "the profile has no rows for these options", arena,
                       diag);
  if (meant > 1 && options->output_path && datafile_is_path(options->output_path))
    return list_groups(profile, groups, n,
                       "the profile has several groups, but one model file was asked for", arena,
                       diag);
  return (int)meant;
}

/* ---- Printing ---- */

/* `key`: of the row that it is; 0: none. */
static void print_curve(const char *name, const FitCurve *curve, int64_t key) {
  if (curve->n_knots == 0) return;
  printf("  %s, %d knots:", name, curve->n_knots);
  for (int k = 0; k < curve->n_knots; k++)
    printf(" %lld", (long long)(key > 0 ? span_total(curve->x[k], key) : curve->x[k]));
  putchar('\n');
}

static void print_table(const char *name, const FitTable *table, Arena *arena) {
  for (int r = 0; r < table->n_rows; r++) {
    const FitRow *row = &table->rows[r];
    print_curve(arena_printf(arena, "%s, row %lld", name, (long long)row->key), &row->curve,
                row->key);
  }
}

static void print_joining(const FitResult *result) {
  if (result->joined) {
    printf("  iterations and operators: %s", fit_way_name(result->way));
    for (int op = PROFILE_LINEAR; op < PROFILE_TERMS; op++)
      if (result->levels.of[op] != 1)
        printf(", %s %.3f", profile_op_name((ProfileOp)op), result->levels.of[op]);
    putchar('\n');
  }
  if (result->all_reduce) printf("  all-reduce: %s\n", result->all_reduce);
}

/* Hours of load are somewhere between bursts and these. */
static void print_sustained(const FitResult *result) {
  double most = 0;
  char at[96];
  for (int i = 0; i < result->n_sustained; i++) {
    const FitSustained *sustained = &result->sustained[i];
    format_batch(&sustained->batch, at, sizeof at);
    printf("%s%s takes %.3f times its time in a burst", i == 0 ? "  sustained: " : ", ", at,
           sustained->ratio);
    if (sustained->ratio > most) most = sustained->ratio;
  }
  if (result->n_sustained > 0) putchar('\n');
  if (most > 1.01)
    printf("    for sustained load: 'perfmodel: {name: FILE, time_scale: %.2f}'\n", most);
}

static void print_left_out(const FitResult *result) {
  const FitLeftOut *left_out = &result->left_out;
  const struct {
    int64_t rows;
    const char *what;
  } parts[] = {{left_out->early_stops, "decode rows with unknown context"},
               {left_out->other_mode, "rows of the other mode"},
               {left_out->hot_or_busy, "rows measured on a hot or busy GPU"},
               {left_out->sustained, "sustained rows"},
               {left_out->details, "rows of operators that are parts of a term"},
               {left_out->incomplete, "rows of operators, since others were not measured"}};
  const char *before = "  left out: ";
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (parts[i].rows == 0) continue;
    printf("%s%lld %s", before, (long long)parts[i].rows, parts[i].what);
    before = ", ";
  }
  if (*before == ',') putchar('\n');
}

/* Terms that nothing was measured of: simulations by this model leave them out. */
static void print_missing(const FitResult *result) {
  const char *before = "  not measured, and counted as 0: ";
  if (result->parts[FIT_ALL_ITERATIONS].rows > 0) return; // they are inside of iterations
  for (int op = PROFILE_LINEAR; op < PROFILE_TERMS; op++) {
    const bool has_rows = (op == PROFILE_DECODE_ATTENTION && result->model.decode.n_rows > 0) ||
                          (op == PROFILE_PREFILL_ATTENTION && result->model.prefill.n_rows > 0);
    if (has_rows || result->model.curves[op].n_knots > 0) continue;
    printf("%s%s", before, profile_op_name((ProfileOp)op));
    before = ", ";
  }
  if (*before == ',') putchar('\n');
}

static void print_head_table(const FitResult *result, Arena *arena) {
  printf("%s\n  overhead %.6g ms, engine '%s'\n", group_name(&result->group, arena),
         1e3 * result->model.overhead, result->options.preset);
  for (int op = PROFILE_LINEAR; op < PROFILE_TERMS; op++)
    print_curve(profile_op_name((ProfileOp)op), &result->model.curves[op], 0);
  print_table("decode_attention", &result->model.decode, arena);
  print_table("prefill_attention", &result->model.prefill, arena);
  print_table("mixed_attention", &result->model.mixed, arena);
  print_missing(result);
  print_joining(result);
  print_sustained(result);
  print_left_out(result);
}

/* A line for a part and how it was scored. */
static void put_score(Rows *rows, const FitResult *result, FitPart part, const char *kind,
                      const FitScore *score) {
  const FitPartScores *scores = &result->parts[part];
  const ProfileGroup *group = &result->group;
  char at[96];
  if (isnan(score->mape) || scores->configurations == 0) return;
  format_batch(&score->worst_batch, at, sizeof at);
#define PERCENT(key, heading, share)                                                               \
  CELL_OF_NUMBER(key, 100 * (share)), .format = "%.4f", .show = "%.2f", COLUMN(heading, 7)
  rows_put(rows,
           (Cell[]){{CELL_OF_TEXT("model", group->model)},
                    {CELL_OF_TEXT("gpu", group->gpu)},
                    {CELL_OF_WHOLE("tensor_parallel_size", group->tensor_parallel_size)},
                    {CELL_OF_TEXT("part", fit_part_name(part)), COLUMN("errors in %", -17)},
                    {CELL_OF_TEXT("kind", kind), COLUMN("", -14)},
                    {CELL_OF_WHOLE("rows", scores->rows), COLUMN("rows", 6)},
                    {CELL_OF_WHOLE("configurations", scores->configurations), COLUMN("configs", 7)},
                    {PERCENT("noise_percent", "noise", scores->noise)},
                    {PERCENT("mape_percent", "MAPE", score->mape)},
                    {PERCENT("p95_percent", "p95", score->p95)},
                    {PERCENT("worst_percent", "worst", score->worst)},
                    {CELL_OF_TEXT("worst_batch", at), COLUMN("at", 0)},
                    {0}});
}

static void put_result(Rows *rows, const FitResult *result, Arena *arena) {
  if (rows->format == OUTPUT_TABLE) {
    print_head_table(result, arena);
    rows->any = false; // each result has a table of its own
  }
  for (FitPart part = 0; part < FIT_PARTS; part++) {
    const FitPartScores *scores = &result->parts[part];
    put_score(rows, result, part, "train", &scores->train);
    put_score(rows, result, part, "random 80:20", &scores->random);
    put_score(rows, result, part, "held out", &scores->held_out);
    put_score(rows, result, part, "held-out size", &scores->held_out_size);
  }
}

/* ---- Running ---- */

/* What the profile says that its engine is, or the option. A fit has no host time of a release: a
 * run adds that of the engine that it names. */
static int find_preset(const Profile *profile, const Options *options, FitOptions *fit,
                       Diag *diag) {
  const char *fact = profile_fact(profile, "engine_preset"), *asked = options->preset;
  fit->preset = asked ? asked : fact ? fact : "unknown";
  if (!asked) return 0;
  const char *engine;
  const Place at = place_of_file("--preset");
  fit->ideal = !fact || strcmp(fact, preset_ideal.name) != 0; // else kernels alone were measured
  if (!preset_find(asked, &engine)) {
    diag_error(diag, at, "unknown preset '%s'", asked);
    return diag_hint_near(diag, asked, preset_names(&diag->arena));
  }
  if (!engine) return 0;
  diag_error(diag, at, "the host time of '%s' is not part of a fit", asked);
  return diag_hint(diag, "it is that of engine '%s', which a configuration names", engine);
}

/* By the links of a machine type: two sizes, since a ring's time is a line. */
static int take_rings(const char *machine, int64_t n_gpus, FitAllReduce *ret_all_reduce,
                      const char *data_dir, Arena *arena, Diag *diag) {
  static const int64_t sizes[] = {0, INT64_C(1) << 30};
  const double gpus = (double)n_gpus;
  Hardware hardware;
  if (hardware_load(&hardware, machine, data_dir, place_of_file("--machine"), arena, diag))
    return -1;
  const double latency = tick_seconds(hardware.all_reduce_latency);
  double *seconds = ARENA_ARRAY(arena, double, 2);
  seconds[0] = latency;
  seconds[1] = latency + 2 * (gpus - 1) / gpus / hardware_link_rate(&hardware) * (double)sizes[1];
  ret_all_reduce->source = arena_printf(arena, "rings of '%s'", hardware.name);
  ret_all_reduce->n_sizes = 2;
  ret_all_reduce->bytes = sizes;
  ret_all_reduce->seconds = seconds;
  return 0;
}

/* By the tables of the GPU, which other engines have. */
static void take_table(const ProfileGroup *group, FitAllReduce *ret_all_reduce,
                       const char *data_dir, Arena *arena) {
  AllReduceTimes times;
  if (!all_reduce_times(&times, group->gpu, group->tensor_parallel_size, data_dir, arena)) return;
  ret_all_reduce->source = arena_printf(arena, "table '%s' of '%s'", times.table, group->gpu);
  ret_all_reduce->n_sizes = times.n;
  ret_all_reduce->bytes = times.bytes;
  ret_all_reduce->seconds = times.seconds;
}

/* Two all-reduces a layer; without a model of that name nothing is known of them. */
static int find_all_reduce(const Profile *profile, const ProfileGroup *group,
                           const Options *options, FitAllReduce *ret_all_reduce, Arena *arena,
                           Diag *diag) {
  const char *data_dir = arena_printf(arena, "%s/perfmodel", config_data_root());
  const char *dtype = profile_fact(profile, "dtype");
  const bool wide = dtype && strcmp(dtype, "fp32") == 0;
  Llm llm;
  Diag unknown;
  diag_init(&unknown);
  if (llm_load(&llm, group->model, data_dir, place_of_file(NULL), arena, &unknown) == 0)
    *ret_all_reduce =
        (FitAllReduce){.calls = 2 * llm.num_hidden_layers,
                       .bytes_per_token = llm.hidden_size * (wide ? 4 : llm.dtype_bytes)};
  diag_done(&unknown);
  if (options->machine)
    return take_rings(options->machine, group->tensor_parallel_size, ret_all_reduce, data_dir,
                      arena, diag);
  take_table(group, ret_all_reduce, data_dir, arena);
  return 0;
}

static int make_folder(const char *path, Diag *diag) {
  struct stat status;
  if (mkdir(path, 0777) == 0) return 0;
  if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) return 0;
  return diag_environment(diag, place_of_file(path), "cannot make the folder: %s", strerror(errno));
}

static int save(const FitResult *result, const Profile *profile, const char *path, Arena *arena,
                Diag *diag) {
  if (!path) return 0;
  if (!datafile_is_path(path)) {
    const PerfSetup setup = fit_setup(profile, &result->group);
    const char *engine = setup_engine_name(&setup, arena);
    const char *name = engine || fit_has_format(&setup) ? setup_name(&setup, arena)
                                                        : group_name(&result->group, arena);
    if (strchr(name, '/') || (engine && strchr(engine, '/')))
      return diag_error(diag, place_of_file(profile->path), "'%s' cannot name a file", name);
    const char *attention = profile_fact(profile, "attention");
    if (attention) name = arena_printf(arena, "%s_%s", name, attention);
    if (engine) path = arena_printf(arena, "%s/%s", path, engine);
    if (engine && make_folder(path, diag)) return -1;
    path = arena_printf(arena, "%s/%s.yaml", path, name);
  }
  const char *const inputs[] = {profile->path, NULL};
  return output_check(path, inputs, diag) || fit_save(result, profile, path, diag) ? -1 : 0;
}

/* "cudnn" of "cudnn 9.28.1 engine 3". */
static size_t provider_length(const ProfileRow *row) {
  return strcspn(row->attn_kernel, " ");
}

/* Times of two kinds of attention are no one curve. */
static int check_attention(const Profile *profile, const ProfileGroup *group, Diag *diag) {
  const ProfileRow *first = NULL;
  for (size_t i = 0; i < profile->n_rows; i++) {
    const ProfileRow *row = &profile->rows[i];
    if (!profile_in_group(row, group) || !*row->attn_kernel) continue;
    if (!first) first = row;
    const size_t length = provider_length(first);
    if (provider_length(row) == length && !strncmp(row->attn_kernel, first->attn_kernel, length))
      continue;
    diag_error(diag, row->at,
               "attention of '%.*s' and of '%.*s' in one group cannot be fitted together",
               (int)length, first->attn_kernel, (int)provider_length(row), row->attn_kernel);
    return diag_hint(diag, "'tandem calibrate --attention' makes a profile of each");
  }
  return 0;
}

static int fit(const char *path, const Options *options, Arena *arena, Diag *diag) {
  Profile profile;
  ProfileGroup *groups = NULL;
  if (profile_load(&profile, path, arena, diag)) return EXIT_INPUT;
  if (profile.torn) fprintf(stderr, "note: %s\n", profile_torn_note);
  size_t n_groups = profile_groups(&profile, &groups, arena);
  sort_groups(groups, n_groups, options);
  int n = count_groups(&profile, groups, n_groups, options, arena, diag);
  if (n < 0) return EXIT_INPUT;
  const char *to = options->output_path;
  if (to && !datafile_is_path(to) && make_folder(to, diag)) return EXIT_ENVIRONMENT;
  FitResult *result = ARENA_NEW(arena, FitResult);
  Rows rows = {(OutputFormat)options->format, stdout, "  ", .gap = "\n  ", .end = "\n]\n"};
  for (int i = 0; i < n; i++) {
    FitOptions fit_options_of = {.seed = (uint64_t)options->seed, .mode = options->mode};
    if (check_attention(&profile, &groups[i], diag) ||
        find_preset(&profile, options, &fit_options_of, diag) ||
        find_all_reduce(&profile, &groups[i], options, &fit_options_of.all_reduce, arena, diag) ||
        fit_group(result, &profile, &groups[i], &fit_options_of, arena, diag))
      continue;
    put_result(&rows, result, arena);
    save(result, &profile, to, arena, diag); // what fails is in `diag`
  }
  rows_end(&rows);
  return EXIT_DONE;
}

static int verify(const char *profile_path, const char *model_path, Arena *arena, Diag *diag) {
  Profile profile;
  FitRecord record;
  if (profile_load(&profile, profile_path, arena, diag) ||
      fit_record_load(&record, model_path, arena, diag) ||
      fit_record_check(&record, &profile, diag))
    return EXIT_INPUT;
  printf("'%s' was fitted to '%s'\n", text_shown(model_path, arena),
         text_shown(profile_path, arena));
  return EXIT_DONE;
}

static int run_fit(Cli *cli) {
  const Options *given = cli->given;
  const char *path = cli->operands[0], *model = cli->operands[1];
  if (given->tables && (given->output_path || given->verify))
    return cli_usage(cli, "'--tables' and '%s' exclude each other",
                     given->verify ? "--verify" : "-o");
  if (given->tables)
    return fit_tables(cli->operands, cli->n_operands, given->tables, (OutputFormat)given->format,
                      cli->arena, cli->diag);
  if (cli->n_operands > 2) return cli_usage(cli, "several profiles need '--tables'");
  if (given->verify && !model) return cli_usage(cli, "'--verify' needs MODEL");
  if (given->mode && strcmp(given->mode, "graph") != 0 && strcmp(given->mode, "eager") != 0)
    return cli_usage(cli, "'--mode' must be graph or eager, not '%s'", given->mode);
  if (!given->verify && model)
    return cli_usage(cli, "'%s' is read only with '--verify'; write with '-o'", model);
  return given->verify ? verify(path, model, cli->arena, cli->diag)
                       : fit(path, given, cli->arena, cli->diag);
}

const Command command_fit = {
    .name = "fit",
    .group = COMMANDS_MEASURE,
    .help = "fit performance models to a profile",
    .description =
        "Fits the terms of iteration times to a profile, and prints the errors: on the rows "
        "fitted, on a random fifth of the rows, and on held-out configurations.",
    .operands = "PROFILE... [MODEL]",
    .arguments = (const CliTerm[]){{"PROFILE", "profile (CSV); 'tandem check' finds its bad rows; "
                                               "several with --tables only"},
                                   {"MODEL", "fitted model to check, with --verify only"},
                                   {0}},
    CLI_OPTIONS,
    .notes = "A fit of operators has no host time: a run adds that of its engine. Times of whole "
             "iterations include it.",
    .examples = "tandem fit profile.csv -o perfmodel/fitted/mine --model llama2-70b\n"
                "tandem fit llama.csv qwen.csv --tables perfmodel/tables",
    .exits = {[EXIT_INPUT] = "the profile or the model is wrong"},
    .run = run_fit,
};
