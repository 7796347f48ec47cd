/* `tandem plan`: one question, as a study that is written, searched and answered. */
#include "experiments/plan/plan.h"
#include "base/output.h"
#include "experiments/commands/plan_batch.h"
#include "experiments/commands/plan_rate.h"
#include "experiments/commands/plan_sides.h"
#include "experiments/commands/plan_valleys.h"
#include "experiments/plot/plot.h"
#include "perfmodel/datafile.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Options {
  Question question;
  const char *gpus, *prefill_gpus, *engines, *weights, *drafts, *offloads; // lists
  const char *columns;                                                     // of the trace
  const char *workload;                                                    // file of a mix
  const char *study, *output, *export, *figure;
  int format;
  int64_t jobs, memory;
  const char *growth, *from, *until;
  Tick deadline, sample;
  ValleyJob job;
  int64_t windows, sample_seed;
  const Node *set;
  MoneyOptions money;
  bool dry_run, curve;
} Options;

#define ASKED(key, type, field, value, help) CLI_ROW(key, type, question.field, value, help)

/* Those without help stand in that of others, so that all of it fits a screen. */
static const OptionSpec options[] = {
    {CLI_MAIN, ASKED("--model", STRING, model, "MODEL", "model, or the path of its config.json"),
     .required = true, .listed = "models"},
    {CLI_TEXT("--gpu", gpus, "GPU", "GPU, such as h100, or a machine type; several: h100,h200"),
     .required = true, .listed = "machines"},
    {ASKED("--slo", STRING, slo, "LIMITS", "latency limits, such as 'ttft.p99<2s,tpot.p99<50ms'"),
     .absent = "required, but for --batch"},
    {ASKED("--rate", REAL, rate, "R", "arrival rate in requests per second"), .min = 1e-6,
     .max = 1e6},
    {ASKED("--isl", INT, isl, "N", "input length: tokens of each prompt"), .min = 1, .max = 1e7},
    {ASKED("--osl", INT, osl, "N", "output length: tokens of each output"), .min = 1, .max = 1e7},
    {.group = "Other workloads",
     ASKED("--gpus", INT, gpus, "N",
           "number of GPUs, in place of --rate: the highest rate that they hold, the design, and "
           "what the next instance adds"),
     .min = 1,
     .max = 1e6},
    {ASKED("--batch", INT, batch, "N",
           "number of requests that are all there at once, such as 1M, in place of a rate and "
           "limits: hours and money by GPU; with --day beside them: GPUs of both together and of "
           "fleets of their own"),
     .min = 1, .max = 1e12},
    {CLI_ROW("--batch-isl", INT, job.isl, "N", "input length of --batch beside a --day"), .min = 1,
     .max = 1e7, .absent = "--isl"},
    {CLI_ROW("--batch-osl", INT, job.osl, "N", "its output length"), .min = 1, .max = 1e7,
     .absent = "--osl"},
    {CLI_ROW("--batch-start", REAL, job.start_h, "HOUR",
             "hour of the day, or of the week, at which --batch is there"),
     .max = 1e4, .absent = "when valleys leave most"},
    {CLI_ROW("--deadline", TICKS, deadline, "TIME", "time in which --batch must end, such as 8h"),
     .min = 1e-3, .max = 9e6, .absent = "that of one instance"},
    {ASKED("--users", INT, users, "N",
           "number of users, in place of --rate; each waits for an answer before the next request"),
     .min = 1, .max = 1e6},
    {ASKED("--day", STRING, day, "PROFILE",
           "rates over a day or a week, a name or a table hour,rate, whose mean is --rate: the "
           "limits must hold at its peak"),
     .absent = "a constant rate"},
    {ASKED("--lengths", STRING, lengths, "TABLE",
           "table of token counts, in place of --isl and --osl"),
     .listed = "lengths"},
    {ASKED("--trace", STRING, trace, "FILE",
           "trace of requests, in place of a rate and lengths; with --users only its lengths "
           "are used")},
    {CLI_TEXT(
        "--workload", workload, "FILE",
        "mix of workloads of a configuration FILE, in place of a rate and lengths; --slo then "
        "may limit its components: 'chat:ttft.p99<1s,summaries:e2e.p90<60s'")},
    {CLI_TRACE_COLUMNS},
    {CLI_TRACE_TIME(question.reading.clock)},
    {CLI_TRACE_SORT(question.reading.sort)},
    {CLI_ROW("--sample", TICKS, sample, "TIME",
             "simulate windows of the trace, each so long, in place of all of it, and say how far "
             "the limits over all of it may be from that"),
     .min = 1, .max = 9e6, .absent = "no windows; the first 50,000 requests"},
    {CLI_ROW("--windows", INT, windows, "N", "number of windows of --sample"), .min = 7,
     .max = 1001, .fallback = "13"},
    {CLI_ROW("--sample-seed", INT, sample_seed, "N", "seed by which windows are drawn"), .max = 1e9,
     .fallback = "1"},
    {.group = "Designs to search",
     CLI_TEXT("--engine", engines, "ENGINE",
              "serving engine: vllm, vllm-0.24, sglang, trtllm; or several of them"),
     .absent = "the newest vLLM",
     .listed = "engines"},
    {ASKED("--perfmodel", STRING, perfmodel, "NAME",
           "iteration times of another engine's kernels, such as tandem, or another performance "
           "model"),
     .absent = "those of the engine", .listed = "perfmodels"},
    {CLI_TEXT("--weights", weights, "FORMAT", "number format of the weights, or several of them"),
     .choices = dtype_names, .absent = "that of the model"},
    {ASKED("--tp", STRING, tensor_parallel, "LIST", "tensor-parallel degrees to try, such as 2,4"),
     .absent = "all with iteration times"},
    {CLI_TEXT(
         "--speculative", drafts, "DRAFTS",
         "number of draft tokens of a request in a step, by the model's MTP layers; or several "
         "of them: 0..4, or 0,1,3"),
     .absent = "no speculative decoding"},
    {CLI_TEXT("--offload", offloads, "TIERS",
              "memory for KV under the prefix cache, and its size for each GPU: none, cpu, "
              "cpu=64GiB, or ssd=2TB with CPU memory above it; or several of them"),
     .absent = "none"},
    {ASKED("--survive", STRING, survive, "DOMAIN",
           "failure domain of which any one may be down for the whole run: machine, or a name and "
           "its number of machines, such as rack=4"),
     .absent = "nothing fails"},
    {CLI_TEXT("--prefill-gpu", prefill_gpus, "GPU",
              "GPU or machine type of the prefill pools of split designs, or same; or several of "
              "them: same,l40s"),
     .absent = "the same", .listed = "machines"},
    {ASKED(
         "--spares", STRING, spares, "N-1",
         "spare instances: the limits must hold with so many instances of each pool down, such as "
         "N-1"),
     .absent = "none"},
    {ASKED("--headroom", REAL, headroom, "SHARE",
           "share by which the load may grow and the limits must still hold, such as 20%"),
     .max = 100, .fallback = "0"},
    {ASKED("--max-gpus", INT, max_gpus, "N", "most GPUs of all instances"), .min = 1, .max = 1e9,
     .absent = "any"},
    {ASKED("--split", CHOICE, split, "SPLIT", "separate pools for prefill and decode"),
     .choices = plan_split_names, .fallback = "both"},
    {ASKED("--objective", CHOICE, objective, "OBJECTIVE", "quantity to minimize"),
     .choices = plan_objective_names, .absent = "cost, or gpus without a price"},
    {ASKED("--power-budget", POWER, power_budget, "POWER",
           "most provisioned power of all instances, such as '40 kW'"),
     .min = 1, .max = 1e12, .absent = "any"},
    {ASKED("--gpu-power-cap", STRING, gpu_power_cap, "CAP",
           "limit on the power of each GPU, such as '400 W' or a share such as 0.6"),
     .absent = "the GPU's own"},
    {ASKED("--seeds", INT, seeds, "N", "number of seeds to simulate each design with"),
     .fallback = "3", .min = 1, .max = 1000},
    {CLI_TEXT("--growth", growth, "SHARE",
              "growth of --rate, such as 10%/month: how long the answer holds it")},
    {CLI_TEXT("--until", until, "MONTHS",
              "with --growth, what the load takes in so many months, or in a month such as "
              "2027-12"),
     .absent = "not asked"},
    {CLI_TEXT("--from", from, "MONTH", "the month of --rate, such as 2026-11")},
    {.group = "Prices", CLI_MONEY_PRICE},
    {CLI_MONEY_PRICES},
    {CLI_MONEY_SOLD},
    {ASKED("--carbon", STRING, carbon, "GRAMS",
           "carbon intensity of the electricity: grams of CO2 per kWh, or a table "
           "hour,g_per_kwh[,region]"),
     .absent = "not known"},
    {ASKED("--region", STRING, region, "REGION", "region of the table of --carbon"),
     .absent = "the only one"},
    {ASKED("--pue", REAL, pue, "PUE", "power usage effectiveness of the building"), .min = 1,
     .max = 10, .absent = "1"},
    {.group = "Output", CLI_FORMAT},
    {CLI_OUTPUT},
    {CLI_FLAG("--curve", curve,
              "simulate the best designs at loads around the one asked, and print the share of "
              "requests within the limits and the goodput against the rate")},
    {CLI_TEXT("--figure", figure, "FILE",
              "draw what tokens cost against how fast users get them, or the curve of --curve; "
              ".png or .svg")},
    {CLI_TEXT("--study", study, "FILE", "write the question as a study, for run and provision")},
    {CLI_EXPORT},
    {CLI_SET("gpu_cost_per_hour='2.10 $/h'")},
    {CLI_FLAG("--dry-run", dry_run, "print the study and stop")},
    {.group = "Resources", CLI_JOBS},
    {CLI_MEMORY},
    {0}};

static int save_study(const char *path, const char *text, Arena *arena, Diag *diag) {
  Output output = {0};
  if (output_open(&output, path, arena, diag)) return -1;
  fputs(text, output.file);
  return output_commit(&output, diag);
}

static RateSearch search_of(Cli *cli) {
  const Options *given = cli->given;
  return (RateSearch){given->jobs, given->memory, cli->arena, cli->diag};
}

/* Draws the curve, or else the front. */
static int draw(Cli *cli, const PlanAnswer *answer) {
  const Options *given = cli->given;
  const PlotPlace place = {.path = given->figure};
  const char *title = plan_title(answer->plan->question, answer->plan->machine, cli->arena);
  if (!given->figure) return 0;
  if (answer->curve)
    return plot_curve(answer->curve, answer->plan->quantile, title, &place, cli->arena, cli->diag);
  return plot_fronts(&(PlotFront){answer->front, NULL}, 1, title, &place, cli->arena, cli->diag);
}

/* The exit code when `diag` stays empty. */
static int answer(Cli *cli, const Plan *plan, Study *study) {
  const Options *given = cli->given;
  Config *config = ARENA_NEW(cli->arena, Config);
  Front front = {0};
  Curve curve = {0};
  const int status = study_search(study, given->output, false, true);
  study_note_times(study);
  if (status) return EXIT_INPUT;
  if (study->best >= 0 && given->export) return study_export(study, given->export);
  const bool all = given->format != OUTPUT_TABLE || given->figure;
  const int wanted = all ? INT_MAX : PLAN_FRONT_SHOWN;
  if (front_make(&front, &study->provision, study->outcomes, wanted, given->output != NULL,
                 study->jobs, cli->arena, cli->diag))
    return EXIT_INPUT;
  if (given->curve &&
      curve_make(&curve, &study->provision, study->outcomes, study->jobs, cli->arena, cli->diag))
    return EXIT_INPUT;
  if (given->output && plan_store(&front, given->curve ? &curve : NULL, plan->quantile,
                                  &study->database.results, cli->diag))
    return EXIT_INPUT;
  if (study->best >= 0 && study_bind_answer(study, 0, NULL, config)) return EXIT_INPUT;
  const RateSearch how = search_of(cli);
  const bool rates = plan->question->gpus > 0;
  MoreGpus more = {0};
  if (rates && study->best >= 0 && rate_next(&how, plan->question, study, &more)) return EXIT_INPUT;
  Growth growth = {0};
  if (given->growth && study->best >= 0 &&
      (growth_read(given->growth, given->from, given->until, &growth, cli->diag) ||
       rate_growth(&how, plan->question, study, &growth)))
    return EXIT_INPUT;
  const Provision *provision = &study->provision;
  const int *order = plan_order(provision, study->outcomes, cli->arena);
  const bool second = provision->n_designs > 1 && study->outcomes[order[1]].answers[0].found;
  PlanAnswer answer = {.plan = plan,
                       .study = provision,
                       .outcomes = study->outcomes,
                       .best = study->best,
                       .runner_up = second ? order[1] : -1,
                       .front = &front,
                       .curve = given->curve ? &curve : NULL,
                       .more = rates ? &more : NULL,
                       .growth = given->growth && study->best >= 0 ? &growth : NULL,
                       .config = config,
                       .path = given->study};
  NearRows near = {0};
  Sampled sampled = {0};
  const TraceSample *sample = plan->question->sample;
  if (study->best >= 0 && sample) {
    if (plan_sampled(&sampled, sample, &study->outcomes[study->best].answers[0], config, cli->arena,
                     cli->diag))
      return EXIT_INPUT;
    answer.sampled = &sampled;
  }
  if (study->best >= 0) {
    if (plan_near(&near, &answer, cli->arena, cli->diag)) return EXIT_INPUT;
    answer.near = &near;
  }
  plan_print(&answer, given->format, stdout, cli->arena);
  if (study->best >= 0) return draw(cli, &answer) ? EXIT_INPUT : EXIT_DONE;
  study_explain(study);
  return EXIT_INPUT;
}

static int load_and_answer(Cli *cli, const Plan *plan, Study *study) {
  const Options *given = cli->given;
  const char *name = given->study ? given->study : "(the study)";
  Node *root = yaml_parse(name, plan->text, strlen(plan->text), cli->arena, cli->diag);
  if (!root || study_open(study, name, root, NULL, given->jobs, given->memory,
                          plan->question->cache, cli->arena, cli->diag))
    return EXIT_INPUT;
  return answer(cli, plan, study);
}

/* The exit code of one question. */
static int ask_one(Cli *cli, const Question *question) {
  const Options *given = cli->given;
  const RateSearch how = search_of(cli);
  Question narrowed = *question;
  Plan plan;
  if (question->gpus > 0 && !given->dry_run && rate_narrow(&how, question, &narrowed))
    return EXIT_INPUT;
  if (plan_make(&plan, &narrowed, cli->arena, cli->diag) ||
      plan_set_keys(&plan, cli->arena, cli->diag))
    return EXIT_INPUT;
  if (given->study && save_study(given->study, plan.text, cli->arena, cli->diag)) return EXIT_INPUT;
  if (given->dry_run) {
    fputs(plan.text, stdout);
    return EXIT_DONE;
  }
  Study study = {0};
  const int code = load_and_answer(cli, &plan, &study);
  study_close(&study);
  study_interrupted(cli, given->output);
  return code;
}

static int ask_many(Cli *cli, const Sides *sides) {
  const Options *given = cli->given;
  if (given->study || given->export || given->dry_run || given->curve || given->growth)
    return cli_usage(
        cli, "'--study', '--export', '--curve', '--growth' and '--dry-run' need one GPU, prefill "
             "GPU, engine, format, draft number and tier");
  if (sides_count(sides) > SIDES_MAX)
    return cli_usage(cli,
                     "more than 64 combinations of GPU, prefill GPU, engine, format, draft number "
                     "and tier");
  const int code = sides_answer(cli, sides);
  study_interrupted(cli, given->output);
  return code;
}

/* Draws the windows of a sample. The exit code. */
static int draw_sample(Cli *cli, Question *question, int n_sides) {
  const Options *given = cli->given;
  if (given->sample == 0) return EXIT_DONE;
  if (!question->trace || question->rate > 0 || question->users > 0 || question->gpus > 0 ||
      question->headroom > 0 || question->batch > 0)
    return cli_usage(cli, "'--sample' needs '--trace', at its own rate, without '--rate', "
                          "'--users', '--gpus', '--headroom' and '--batch'");
  if (n_sides > 1)
    return cli_usage(cli, "'--sample' needs one GPU, prefill GPU, engine, format, draft number and "
                          "tier");
  TraceSample *sample = ARENA_NEW(cli->arena, TraceSample);
  if (sample_choose(sample, question->trace, &question->reading, given->sample, (int)given->windows,
                    (uint64_t)given->sample_seed, cli->arena, cli->diag))
    return EXIT_INPUT;
  question->sample = sample;
  return EXIT_DONE;
}

/* A batch job in the valleys of a day. */
static int ask_valleys(Cli *cli, const Sides *sides) {
  const Options *given = cli->given;
  Question question;
  if (!sides->question->slo || given->deadline == 0)
    return cli_usage(cli, "'--batch' beside '--day' needs '--slo' and '--deadline'");
  if ((given->job.isl > 0) != (given->job.osl > 0))
    return cli_usage(cli, "'--batch-isl' and '--batch-osl' need each other");
  if (sides_count(sides) > 1 || given->study || given->export || given->dry_run || given->curve ||
      given->growth || given->output || given->figure)
    return cli_usage(cli, "'--batch' beside '--day' needs one GPU, engine, format and tier, and "
                          "goes without '--study', '--export', '--curve', '--growth', '--output', "
                          "'--figure' and '--dry-run'");
  if (sides_question(sides, 0, &question, cli->diag)) return EXIT_INPUT;
  question.deadline_s = tick_seconds(given->deadline);
  const RateSearch how = search_of(cli);
  return valleys_answer(&how, &question, &given->job, (OutputFormat)given->format);
}

/* Reads the mix of a question. The exit code. */
static int read_mix(Cli *cli, Question *question) {
  const Options *given = cli->given;
  if (!given->workload) return EXIT_DONE;
  if (question->rate > 0 || question->users > 0 || question->gpus > 0 || question->batch > 0 ||
      question->isl > 0 || question->osl > 0 || question->lengths || question->trace ||
      question->day || given->growth)
    return cli_usage(cli, "'--workload' is the whole load: omit '--rate', '--users', '--gpus', "
                          "'--batch', '--day', '--growth', '--trace' and the lengths");
  PlanMix *mix = ARENA_NEW(cli->arena, PlanMix);
  if (plan_read_mix(mix, given->workload, cli->arena, cli->diag)) return EXIT_INPUT;
  question->mix = mix;
  question->rate = mix->workload.rate;
  return EXIT_DONE;
}

static int run_plan(Cli *cli) {
  const Options *given = cli->given;
  Question question = given->question;
  question.cache = cache_new(cli->arena);
  Sides sides = {.question = &question,
                 .gpus = sides_list(given->gpus, cli->arena),
                 .prefill_gpus = sides_list(given->prefill_gpus, cli->arena),
                 .engines = sides_list(given->engines, cli->arena),
                 .weights = sides_list(given->weights, cli->arena),
                 .offloads = sides_list(given->offloads, cli->arena),
                 .output = given->output,
                 .figure = given->figure,
                 .format = given->format,
                 .jobs = given->jobs,
                 .memory = given->memory};
  const int usage = study_check_export(given->export, cli->arena);
  if (usage != EXIT_DONE) return usage;
  if (given->figure && !gnuplot_can_draw(given->figure))
    return cli_usage(cli, "'--figure' needs a file that ends in .png or .svg");
  if (cli_read_columns(cli, given->columns, question.reading.columns)) return EXIT_USAGE;
  if (!question.trace && (given->columns || question.reading.clock || question.reading.sort))
    return cli_usage(cli, "'--columns', '--time' and '--sort' need '--trace'");
  const int read = read_mix(cli, &question);
  if (read != EXIT_DONE) return read;
  question.assignments = cli_texts(given->set, cli->arena);
  question.sold = given->money.sold;
  if (study_prices(&given->money, &question.prices, cli->arena, cli->diag)) return EXIT_INPUT;
  if (sides_drafts(&sides, given->drafts, cli->arena, cli->diag)) return EXIT_INPUT;
  Growth growth;
  if (question.day && question.rate == 0) return cli_usage(cli, "'--day' needs '--rate', its mean");
  if (question.day && plan_peak(question.day, &question.peak, cli->arena, cli->diag))
    return EXIT_INPUT;
  if (question.day) question.rate *= question.peak;
  if ((given->growth && question.rate == 0) || ((given->until || given->from) && !given->growth))
    return cli_usage(cli, "'--until' and '--from' need '--growth', and that needs '--rate'");
  if (given->growth && growth_read(given->growth, given->from, given->until, &growth, cli->diag))
    return EXIT_INPUT;
  if ((question.region || question.objective == PLAN_CARBON) && !question.carbon)
    return cli_usage(cli, "'--region' and '--objective carbon' need '--carbon'");
  if (question.batch > 0 && question.day) return ask_valleys(cli, &sides);
  if (question.batch > 0 ? question.slo != NULL : !question.slo)
    return cli_usage(cli, question.batch > 0 ? "'--batch' has no latency limits: omit '--slo'"
                                             : "'--slo LIMITS' is missing");
  if (question.batch > 0 && (given->prefill_gpus || question.split == SPLIT_YES))
    return cli_usage(cli, "'--batch' has no split designs: omit '%s'",
                     given->prefill_gpus ? "--prefill-gpu" : "--split");
  question.deadline_s = tick_seconds(given->deadline);
  const int drawn = draw_sample(cli, &question, sides_count(&sides));
  if (drawn != EXIT_DONE) return drawn;
  if (question.batch > 0 && !given->dry_run && !given->study) return batch_answer(cli, &sides);
  Question one;
  for (int i = sides_count(&sides) - 1; i >= 0; i--)
    if (sides_question(&sides, i, &one, cli->diag)) return EXIT_INPUT;
  return sides_count(&sides) > 1 ? ask_many(cli, &sides) : ask_one(cli, &one);
}

const Command command_plan = {
    .name = "plan",
    .group = COMMANDS_SIMULATE,
    .help = "find the cheapest cluster for a load and latency limits",
    .description =
        "Answers one question without a configuration file: how many GPUs does a model need to "
        "serve a load within latency limits? It searches the parallel degrees, the split of "
        "prefill and decode, and the number of instances, and prints the best design, its margin "
        "and the next best design.",
    .operands = "",
    CLI_OPTIONS,
    .notes = "The load is --rate or --users with --isl and --osl or --lengths, a --trace, or a "
             "--workload. With "
             "several GPUs, prefill GPUs, engines, formats of weights, numbers of drafts or tiers, "
             "separated by commas, "
             "each combination is a row of one table, the best first. With --output, runs that DB "
             "already has are "
             "not repeated.",
    .listing = "Programs of --export",
    .listed = study_programs,
    .listed_as = "PROGRAM",
    .examples = "tandem plan --model qwen3-32b --gpu h100 --isl 2000 --osl 300 --rate 30 \\\n"
                "  --slo 'ttft.p99<2s,tpot.p99<50ms'",
    .exits = {[EXIT_INPUT] = "the input is wrong, or no design meets the limits"},
    .initial = &(const Options){.question = {.weights = -1, .kv_cache = -1, .objective = -1},
                                .money = {.sold = -1},
                                .job = {.start_h = NAN}},
    .run = run_plan,
};
