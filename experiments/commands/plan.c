/* `tandem plan`: one question, as a study that is written, searched and answered. */
#include "experiments/plan/plan.h"
#include "base/output.h"
#include "experiments/commands/study.h"
#include "experiments/commands/trace_options.h"
#include "perfmodel/datafile.h"
#include <string.h>

typedef struct Options {
  Question question;
  const char *columns; // of the trace
  const char *study, *output, *export;
  int format;
  int64_t jobs, memory;
  bool dry_run;
} Options;

#define ASKED(key_, type_, field_, value_, help_)                                                  \
  .key = (key_), .type = OPTION_##type_, .offset = offsetof(Options, question.field_),             \
  .value = (value_), .help = (help_)

/* Those without help stand in that of others, so that all of it fits a screen. */
static const OptionSpec options[] = {
    {ASKED("--model", STRING, model, "M",
           "'tandem list models', a config.json; --weights fp8: in it"),
     .required = true},
    {ASKED("--weights", CHOICE, weights, "F", NULL), .choices = dtype_names},
    {ASKED("--gpu", STRING, gpu, "G", "h100, or a machine type: 'tandem list machines'"),
     .required = true},
    {ASKED("--slo", STRING, slo, "LIMITS", "'ttft.p99<2s,tpot.p99<50ms'"), .required = true},
    {ASKED("--rate", REAL, rate, "R", "requests per second; or --users N, who wait for answers"),
     .min = 1e-6, .max = 1e6},
    {ASKED("--users", INT, users, "N", NULL), .min = 1, .max = 1e6},
    {ASKED("--isl", INT, isl, "N", "tokens of each prompt"), .min = 1, .max = 1e7},
    {ASKED("--osl", INT, osl, "N", "of each output; or of both --lengths azure-conv-2023, a table"),
     .min = 1, .max = 1e7},
    {ASKED("--lengths", STRING, lengths, "T", NULL)},
    {ASKED("--trace", STRING, trace, "FILE",
           "lengths and arrivals, in place of all that, or lengths for --users N")},
    CLI_TEXT("--columns", columns, "F=C",
             "of the trace: arrival=C,prompt=C,output=C,session=C, names or numbers"),
    {ASKED("--time", CHOICE, reading.clock, "T", "how its times are written"),
     .choices = clock_choices, .fallback = "auto"},
    {ASKED("--sort", BOOL, reading.sort, NULL, "puts its rows in order of time")},
    {ASKED("--engine", STRING, engine, "E", "sglang, trtllm, vllm-0.24  [the newest vLLM]")},
    {ASKED("--tp", STRING, tensor_parallel, "LIST", "2,4: degrees to try  [all that are known]")},
    {ASKED("--split", CHOICE, split, "S", "prefill and decode apart"), .choices = plan_split_names,
     .fallback = "both"},
    {ASKED("--objective", CHOICE, objective, "O", "what is least, on so many --seeds N"),
     .choices = plan_objective_names},
    {ASKED("--seeds", INT, seeds, "N", NULL), .fallback = "3", .min = 1, .max = 1000},
    CLI_TEXT("--study", study, "FILE",
             "keeps the question as a study; --dry-run prints it and ends"),
    CLI_TEXT("--export", export, "P",
             "prints what starts the answer with the program P, see below"),
    CLI_TEXT("--output", output, "DB", "keeps runs and answers, made by --jobs N threads"),
    CLI_FORMAT,
    {CLI_ROW("--jobs", INT, jobs, "N", NULL), .min = 1, .max = 1024},
    {CLI_ROW("--memory", BYTES, memory, "SIZE", NULL), .min = 1, .max = 1e18},
    CLI_FLAG("--dry-run", dry_run, NULL),
    {0}};

static const char *programs_listed(Arena *arena) {
  return arena_printf(arena, "P is one of: %s.", datafile_join(export_names(arena), arena));
}

static int save_study(const char *path, const char *text, Arena *arena, Diag *diag) {
  Output output = {0};
  if (output_open(&output, path, arena, diag)) return -1;
  fputs(text, output.file);
  return output_commit(&output, diag);
}

/* The exit code when `diag` stays empty. */
static int answer(Cli *cli, const Plan *plan, Study *study) {
  const Options *given = cli->given;
  Config *config = ARENA_NEW(cli->arena, Config);
  Front front = {0};
  if (study_search(study, given->output, false, true)) return EXIT_INPUT;
  if (study->best >= 0 && given->export) return study_export(study, given->export);
  if (front_make(&front, &study->provision, study->outcomes, study->jobs, cli->arena, cli->diag))
    return EXIT_INPUT;
  if (study->best >= 0 && study_bind_answer(study, 0, config)) return EXIT_INPUT;
  const Provision *provision = &study->provision;
  const int *order = plan_order(provision, study->outcomes, cli->arena);
  const bool second = provision->n_designs > 1 && study->outcomes[order[1]].answers[0].found;
  const PlanAnswer answer = {.plan = plan,
                             .study = provision,
                             .outcomes = study->outcomes,
                             .best = study->best,
                             .runner_up = second ? order[1] : -1,
                             .front = &front,
                             .config = config,
                             .path = given->study};
  plan_print(&answer, given->format, stdout, cli->arena);
  if (study->best >= 0) return EXIT_DONE;
  study_explain(study);
  return EXIT_INPUT;
}

static int load_and_answer(Cli *cli, const Plan *plan, Study *study) {
  const Options *given = cli->given;
  const char *name = given->study ? given->study : "(the study)";
  Node *root = yaml_parse(name, plan->text, strlen(plan->text), cli->arena, cli->diag);
  if (!root ||
      study_open(study, name, root, NULL, given->jobs, given->memory, cli->arena, cli->diag))
    return EXIT_INPUT;
  return answer(cli, plan, study);
}

static int run_plan(Cli *cli) {
  const Options *given = cli->given;
  Question question = given->question;
  Plan plan;
  const int usage = study_check_export(given->export, cli->arena);
  if (usage != EXIT_DONE) return usage;
  if (trace_read_columns(cli, given->columns, question.reading.columns)) return EXIT_USAGE;
  if (!question.trace && (given->columns || question.reading.clock || question.reading.sort))
    return cli_usage(cli, "'--columns', '--time' and '--sort' need '--trace'");
  if (plan_make(&plan, &question, cli->arena, cli->diag)) return EXIT_INPUT;
  if (given->study && save_study(given->study, plan.text, cli->arena, cli->diag)) return EXIT_INPUT;
  if (given->dry_run) {
    fputs(plan.text, stdout);
    return EXIT_DONE;
  }
  Study study = {0};
  const int code = load_and_answer(cli, &plan, &study);
  study_close(&study);
  if (given->output)
    cli_interrupted(cli, "its runs so far are in '%s'; the same command continues", given->output);
  else
    cli_interrupted(
        cli, "nothing is kept; '--output DB' keeps the runs, and the same command then continues");
  return code;
}

const Command command_plan = {
    .name = "plan",
    .help = "what to buy for a model, a load and limits, without a file",
    .summary =
        "Searches engines' designs on a GPU for the least that holds a load within its limits.",
    .operands = "",
    .options = options,
    .size = sizeof(Options),
    .more_notes = programs_listed,
    .example = "tandem plan --model qwen3-32b --gpu h100 --isl 2000 --osl 300 --rate 30 --slo "
               "'ttft.p99<2s'",
    .exit_codes = "0 done, 2 wrong usage, 3 bad input or no design meets the limits, "
                  "4 environment, 130 ^C",
    .initial = &(const Options){.question = {.weights = -1, .kv_cache = -1, .objective = -1}},
    .run = run_plan,
};
