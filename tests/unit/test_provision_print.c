/* The answers of studies on paper, letter by letter, from outcomes made by hand: a search with two
 * designs of which one has no answer, and an offline study with choices that tie, miss and lack. */
#include "experiments/provision/measure.h"
#include "tests/unit/testing.h"
#include <math.h>

static TrialBase base = {.path = "study.yaml"};
static Provision study;
static DesignOutcome outcomes[2];

static SloSpec ttft = {.name = "ttft.p99", .limit = 2};
static const SloSpec good = {.name = "goodput", .limit = 0.9};
#define SLO(spec, value, margin, met)                                                              \
  { &spec, value, margin, met, NULL, 0 }
static const SloOutcome slos[] = {SLO(ttft, 1.5, 0.25, true), SLO(good, 0.98765, 0.0974, true)};

static void begin(void) {
  setup();
  ttft.metric = slo_metric_find("ttft", 4);
  study = (Provision){.base = &base, .n_seeds = 2, .seed = 7, .n_designs = 2};
}

TestSuite(provision_print, .init = begin, .fini = teardown);
enum { PLAN = -1 };
#define NO_RANGE  .low_model = NAN, .high_model = NAN
#define NO_SPREAD .low = NAN, .high = NAN, .mean = NAN, .half_width = NAN

/* JSON from the study on: the version before it is not pinned. */
static void expect_printed(int format, const char *want) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (format == PLAN)
    provision_print_plan(&study, out);
  else
    provision_print(&study, outcomes, (OutputFormat)format, out);
  cr_assert_eq(fclose(out), 0);
  const char *from = format == OUTPUT_JSON ? strstr(text, "\"study\"") : text;
  cr_assert_not_null(from);
  cr_expect_str_eq(from, want, "\n%s", from);
  free(text);
}

/* --- a search */

static Design searched[] = {
    {.name = "split",
     .n_counts = 2,
     .counts = {{"pools.prefill.count", 1, 5}, {"pools.decode.count", 2, 50}}},
    {.name = "a, whole"},
};

static Answer split[] = {
    {.found = true,
     .open_ended = true,
     .counts = {3, 12},
     .rate = 70.5,
     .run.output_tokens_per_s = 1000,
     .run.tokens_per_s = 4000,
     .run.extrapolated = 0.0125,
     .run.far = 0.001,
     .run.measured = true,
     .run.perfmodel_error = 0.04,
     .fleet.n[ROLE_PREFILL] = 3,
     .fleet.n[ROLE_DECODE] = 12,
     .fleet.takes = {15, 120, 15, 570.25, NAN},
     .binds = "goodput",
     .margin = 0.0974,
     .next_fails = "tbt.p90",
     .n_slos = 2,
     .slos = slos},
    {.found = true,
     .counts = {30, 2},
     .rate = 100,
     .run.output_tokens_per_s = NAN,
     .run.tokens_per_s = NAN,
     .run.extrapolated = 0.03,
     .run.far = 0.002,
     .run.measured = true,
     .run.perfmodel_error = 0.05,
     .fleet.n[ROLE_PREFILL] = 30,
     .fleet.n[ROLE_DECODE] = 2,
     .fleet.n[ROLE_MIXED] = 1,
     .fleet.takes = {33, 264, 33, 1200, 44.8},
     .margin = NAN},
};
static const Answer none[2] = {{0}};

static void a_search(void) {
  study.designs = searched;
  study.objective = OBJECTIVE_THROUGHPUT;
  study.tolerance = 0.25;
  study.budget_of = OBJECTIVE_COST;
  study.budget = 1200;
  outcomes[0] = (DesignOutcome){.design = &searched[0],
                                .answers = split,
                                NO_RANGE,
                                .low = 70.5,
                                .high = 100,
                                .mean = 85.25,
                                .half_width = 187.4,
                                .n_found = 2,
                                .n_different = 2,
                                .n_holds = 1,
                                .n_distinct = 2,
                                .n_simulations = 14,
                                .n_stopped = 5,
                                .events = 3e6,
                                .saved_events = 1e6,
                                .n_reused = 4,
                                .n_grid = 250};
  outcomes[1] = (DesignOutcome){.design = &searched[1],
                                .answers = none,
                                NO_RANGE,
                                NO_SPREAD,
                                .n_distinct = 1,
                                .monotone = true,
                                .why_not = "no instance counts fit",
                                .n_simulations = 2,
                                .events = 1e6,
                                .n_grid = 8};
}

Test(provision_print, a_search_for_people) {
  a_search();
  expect_printed(
      OUTPUT_TABLE,
      "study.yaml: the highest rate, to within 0.25 requests/s, within 1200 $/h; 2 seeds\n"
      "\n"
      "design    instances               GPUs machines      $/h    $/M      kW  "
      "requests/s  range         binds              margin\n"
      "split     3 prefill, 12 decode     120       15   570.25    158       - >=     "
      "70.5  70.5..100     goodput              9.7%\n"
      "a, whole  none: no instance counts fit\n"
      "\n"
      "split: mean 85.25 +- 1.9e+02 requests/s (95%); its answer meets the limits on 1 of 2 seeds; "
      "the answer depends on the seed: 2 different clusters\n"
      "split: one step further, tbt.p90 is missed\n"
      "split: not monotone: a smaller cluster or a higher rate met the limits "
      "where a larger cluster or a lower rate missed them\n"
      "\n"
      "limit                  value     limit  margin  of split\n"
      "ttft.p99               1.5 s       2 s   25.0%\n"
      "goodput              0.9877       0.9     9.7%\n"
      "\n"
      "best         split\n"
      "times        measured, held-out error up to 4.0%\n"
      "extrapolated up to 3.0% of an answer's time (far: 0.2%) is outside the measured "
      "range, where the error is unknown (split)\n"
      "simulations  16 of 258 in the full grid, 5 ended early (about 20% of events "
      "saved), 4 from the database\n");
}

Test(provision_print, the_least_that_holds_a_rate) {
  a_search();
  study.objective = OBJECTIVE_MACHINES;
  study.budget_of = OBJECTIVE_THROUGHPUT;
  study.rate = 8;
  study.replays = true;
  outcomes[0].n_reused = 0;
  outcomes[0].n_distinct = 1;
  outcomes[0].monotone = true;
  split[0].open_ended = false;
  split[0].next_fails = NULL;
  expect_printed(
      OUTPUT_TABLE,
      "study.yaml: the fewest machines at 8 requests/s; 2 seeds\n"
      "\n"
      "design    instances               GPUs machines      $/h    $/M      kW  requests/s  range  "
      "       binds              margin\n"
      "split     3 prefill, 12 decode     120       15   570.25    158       -        70.5  "
      "70.5..100     goodput              9.7%\n"
      "a, whole  none: no instance counts fit\n"
      "\n"
      "split: mean 85.25 +- 1.9e+02 machines (95%); its answer meets the limits on 1 of 2 seeds\n"
      "a trace is equal on every seed: only other random choices can differ\n"
      "\n"
      "limit                  value     limit  margin  of split\n"
      "ttft.p99               1.5 s       2 s   25.0%\n"
      "goodput              0.9877       0.9     9.7%\n"
      "\n"
      "best         split\n"
      "times        measured, held-out error up to 4.0%\n"
      "extrapolated up to 3.0% of an answer's time (far: 0.2%) is outside the measured range, "
      "where the error is unknown (split)\n"
      "simulations  16 of 258 in the full grid, 5 ended early (about 20% of events saved)\n");
  study.n_seeds = 1;
  study.rate = 0;
  outcomes[0].answers = none;
  outcomes[0].why_not = "nor here";
  expect_printed(
      OUTPUT_TABLE,
      "study.yaml: the fewest machines at the trace's requests/s; 1 seed\n"
      "\n"
      "design    instances               GPUs machines      $/h    $/M      kW  requests/s  range  "
      "       binds              margin\n"
      "split     none: nor here\n"
      "a, whole  none: no instance counts fit\n"
      "\n"
      "\n"
      "best         none\n"
      "simulations  16 of 258 in the full grid, 5 ended early (about 20% of events saved)\n");
}

Test(provision_print, a_search_for_programs) {
  a_search();
  expect_printed(
      OUTPUT_CSV,
      "design,seed,prefill,decode,mixed,instances,gpus,machines,cost_per_hour,cost_per_million_"
      "output_tokens,cost_per_million_tokens,power_kw,rate_rps,output_tokens_per_s,binds,margin,"
      "extrapolated,extrapolated_far,measured,perfmodel_error,low_model,high_model\n"
      "split,7,3,12,0,15,120,15,570.25,158.402778,39.6006944,,70.5,1000,goodput,0.0974,0.0125,0."
      "001,1,0.04,,\n"
      "split,8,30,2,1,33,264,33,1200,,,44.8,100,,,,0.03,0.002,1,0.05,,\n"
      "\"a, whole\",7,,,,,,,,,,,,,,,,,,,,\n"
      "\"a, whole\",8,,,,,,,,,,,,,,,,,,,,\n");
  expect_printed(
      OUTPUT_JSON,
      "\"study\": \"study.yaml\",\n"
      "  \"objective\": \"throughput\",\n"
      "  \"unit\": \"requests/s\",\n"
      "  \"budget\": {\"of\": \"cost\", \"value\": 1200},\n"
      "  \"best\": \"split\",\n"
      "  \"flips\": false,\n"
      "  \"designs\": [\n"
      "    {\"design\": \"split\", \"low\": 70.5, \"high\": 100, \"mean\": 85.25, \"half_width\": "
      "187.4, \"low_model\": null, \"high_model\": null, \"different\": 2, \"distinct\": 2, "
      "\"holds\": 1, \"monotone\": false, \"why_not\": null, \"simulations\": 14, \"stopped\": 5, "
      "\"reused\": 4, \"grid\": 250, \"events\": 3000000, \"saved_events\": 1000000, "
      "\"range_simulations\": 0, \"range_events\": 0,\n"
      "     \"answers\": [\n"
      "       {\"seed\": 7, \"found\": true, \"prefill\": 3, \"decode\": 12, \"mixed\": 0, "
      "\"instances\": 15, \"gpus\": 120, \"machines\": 15, \"cost_per_hour\": 570.25, "
      "\"cost_per_million_output_tokens\": 158.402778, \"cost_per_million_tokens\": 39.6006944, "
      "\"power_kw\": null, \"rate_rps\": 70.5, \"output_tokens_per_s\": 1000, \"open_ended\": "
      "true, \"binds\": \"goodput\", \"margin\": 0.0974, \"next_fails\": \"tbt.p90\", "
      "\"extrapolated\": 0.0125, \"extrapolated_far\": 0.001, \"measured\": true, "
      "\"perfmodel_error\": 0.04, \"slo\": [{\"name\": \"ttft.p99\", \"unit\": \"s\", \"value\": "
      "1.5, \"limit\": 2, \"margin\": 0.25, \"low_margin\": null, \"high_margin\": null}, "
      "{\"name\": \"goodput\", \"unit\": \"\", \"value\": 0.98765, \"limit\": 0.9, \"margin\": "
      "0.0974, \"low_margin\": null, \"high_margin\": null}]},\n"
      "       {\"seed\": 8, \"found\": true, \"prefill\": 30, \"decode\": 2, \"mixed\": 1, "
      "\"instances\": 33, \"gpus\": 264, \"machines\": 33, \"cost_per_hour\": 1200, "
      "\"cost_per_million_output_tokens\": null, \"cost_per_million_tokens\": null, \"power_kw\": "
      "44.8, \"rate_rps\": 100, \"output_tokens_per_s\": null, \"open_ended\": false, \"binds\": "
      "null, \"margin\": null, \"next_fails\": null, \"extrapolated\": 0.03, \"extrapolated_far\": "
      "0.002, \"measured\": true, \"perfmodel_error\": 0.05, \"slo\": []}]},\n"
      "    {\"design\": \"a, whole\", \"low\": null, \"high\": null, \"mean\": null, "
      "\"half_width\": null, \"low_model\": null, \"high_model\": null, \"different\": 0, "
      "\"distinct\": 1, \"holds\": 0, \"monotone\": true, \"why_not\": \"no instance counts fit\", "
      "\"simulations\": 2, \"stopped\": 0, \"reused\": 0, \"grid\": 8, \"events\": 1000000, "
      "\"saved_events\": 0, \"range_simulations\": 0, \"range_events\": 0,\n"
      "     \"answers\": [\n"
      "       {\"seed\": 7, \"found\": false},\n"
      "       {\"seed\": 8, \"found\": false}]}\n"
      "  ]\n"
      "}\n");
}

/* Times moved: a limit and a rival are undecided, and of the rival nothing holds any more. */
Test(provision_print, a_search_and_how_sure_it_is) {
  static const SloOutcome shorter[] = {SLO(ttft, 1.4, 0.3, true), SLO(good, 0.99, 0.1, true)};
  static const SloOutcome longer[] = {SLO(ttft, 2.1, -0.05, false), SLO(good, 0.95, 0.056, true)};
  a_search();
  study.objective = OBJECTIVE_MACHINES;
  study.budget_of = OBJECTIVE_THROUGHPUT;
  study.rate = 8;
  study.n_seeds = 1;
  split[0].moved_slos[0] = shorter;
  split[0].moved_slos[1] = longer;
  outcomes[0].monotone = true;
  outcomes[0].ranged = true;
  outcomes[0].moved[1].found = true;
  outcomes[0].low_model = 14;
  outcomes[0].high_model = 17;
  outcomes[0].n_moved_simulations = 6;
  outcomes[1] = outcomes[0];
  outcomes[1].design = &searched[1];
  outcomes[1].answers = &split[1];
  outcomes[1].low_model = 16;
  outcomes[1].high_model = INFINITY;
  outcomes[1].moved[1].found = false;
  expect_printed(
      OUTPUT_TABLE,
      "study.yaml: the fewest machines at 8 requests/s; 1 seed\n"
      "\n"
      "design    instances               GPUs machines      $/h    $/M      kW  "
      "requests/s  range         binds              margin\n"
      "split     3 prefill, 12 decode     120       15   570.25    158       - >=     "
      "70.5  14..17        goodput              9.7%\n"
      "a, whole  30 prefill, 2 decode, 1 mixed   264       33     1200      -    44.8   "
      "      100  >=16          -                       -\n"
      "\n"
      "split: 14 to 17 machines; 15 most likely (times up to 4.0% shorter or longer)\n"
      "split: one step further, tbt.p90 is missed\n"
      "a, whole: 16 machines or more; 33 most likely (times up to 5.0% shorter or longer); "
      "no cluster meets the limits with the longer times\n"
      "\n"
      "limit                  value     limit  margin  times 4.0% off  of split\n"
      "ttft.p99               1.5 s       2 s   25.0%   -5.0% to  30.0%  undecided\n"
      "goodput              0.9877       0.9     9.7%    5.6% to  10.0%\n"
      "\n"
      "best         split\n"
      "undecided    within the error of the times, 'a, whole' (>=16) may be as good as "
      "'split' (14..17)\n"
      "times        measured, held-out error up to 5.0%\n"
      "extrapolated up to 3.0% of an answer's time (far: 0.2%) is outside the measured "
      "range, where the error is unknown (a, whole)\n"
      "simulations  28 of 500 in the full grid, 10 ended early (about 25% of events saved), 8 "
      "from the database; 12 more for the ranges\n");
}

Test(provision_print, the_plan_of_a_search) {
  a_search();
  expect_printed(
      PLAN, "study.yaml: the highest rate, to within 0.25 requests/s, within 1200 $/h; 2 seeds\n"
            "\n"
            "split: pools.prefill.count=1..5 pools.decode.count=2..50\n"
            "a, whole: counts are fixed\n");
  study.objective = OBJECTIVE_POWER;
  study.n_seeds = 1;
  study.base_rate = 12;
  expect_printed(PLAN, "study.yaml: the least power at 12 requests/s, within 1200 $/h; 1 seed\n"
                       "\n"
                       "split: pools.prefill.count=1..5 pools.decode.count=2..50\n"
                       "a, whole: counts are fixed\n");
}

/* --- an offline study */

static Choice batches[] = {{.label = "512"}, {.label = "2048"}};
static Choice pools[] = {{.label = "TP8"}, {.label = "TP4PP2"}};
static Axis axes[] = {{.name = "policies.batcher.max_num_seqs", .choices = batches, .n_choices = 2},
                      {.name = "parallelism", .choices = pools, .n_choices = 2}};
static ChoiceFit fits[] = {
    {"max_num_seqs=512 parallelism=TP8", NULL, {{2, 16, 2, 20, 8}, {0, 0, 2}}},
    {"max_num_seqs=512 parallelism=TP4PP2",
     "the weights do not fit: 1 of 2 GB",
     {{0, 0, 0, 0, 0}, {0, 0, 0}}},
    {"max_num_seqs=2048 parallelism=TP8", NULL, {{2, 16, 2, 20, NAN}, {0, 0, 2}}},
    {"max_num_seqs=2048 parallelism=TP4PP2", NULL, {{4, 32, 4, 40, 16}, {0, 0, 4}}},
};
static Design chosen[] = {
    {.name = "offline", .choices = {axes, 2, 4, 1}, .fits = fits},
    {.name = "b",
     .choices = {NULL, 0, 1, 0},
     .fits = &(ChoiceFit){"", NULL, {{1, 8, 1, 2, 3}, {0, 0, 1}}}},
};
static Answer best[] = {{.found = true,
                         .choice = 2,
                         .rate = 4,
                         .run.output_tokens_per_s = 900,
                         .run.tokens_per_s = 3600,
                         .run.extrapolated = 0.125,
                         .run.measured = true,
                         .run.perfmodel_error = NAN,
                         .fleet.takes = {2, 16, 2, 20, NAN},
                         .fleet.n[ROLE_MIXED] = 2,
                         .margin = NAN},
                        {.found = true,
                         .choice = 3,
                         .rate = 5.5,
                         .run.output_tokens_per_s = 1000,
                         .run.tokens_per_s = 2000,
                         .run.perfmodel_error = NAN,
                         .fleet.takes = {4, 32, 4, 40, 16},
                         .fleet.n[ROLE_MIXED] = 4,
                         .margin = NAN}};
#define GAVE(rps, tokens, digest, share)                                                           \
  { rps, {.output_tokens_per_s = tokens, .config_digest = digest, .extrapolated = share}, NULL }
#define GAVE_NOT(why)                                                                              \
  { NAN, {.output_tokens_per_s = NAN, .extrapolated = NAN}, why }
static const Measurement measured[] = {
    GAVE(2, 450, 1, 0),
    GAVE_NOT("the weights do not fit: 1 of 2 GB"),
    GAVE(4, 900, 2, 0.125),
    {.throughput_rps = 1,
     .run.output_tokens_per_s = 300,
     .why_not = "3 of 9 requests are rejected or never finish",
     .run.config_digest = 3,
     .run.extrapolated = 1},
    GAVE(3, 460, 4, 0),
    GAVE_NOT("the weights do not fit: 1 of 2 GB"),
    GAVE(4.123456789, 901, 5, 0),
    GAVE(5.5, 1000, 6, 0),
};
static const Answer only[] = {{.found = true,
                               .rate = 0.5,
                               .run.output_tokens_per_s = 50,
                               .run.tokens_per_s = 50,
                               .run.perfmodel_error = NAN,
                               .fleet.takes = {1, 8, 1, 2, 3},
                               .fleet.n[ROLE_MIXED] = 1,
                               .margin = NAN},
                              {0}};
static const Measurement measured_only[] = {GAVE(0.5, 50, 7, 0), GAVE_NOT("it failed")};

static void an_offline_study(void) {
  study.designs = chosen;
  study.objective = OBJECTIVE_THROUGHPUT;
  study.offline = true;
  outcomes[0] = (DesignOutcome){.design = &chosen[0],
                                .answers = best,
                                NO_RANGE,
                                .low = 4,
                                .high = 5.5,
                                .mean = 4.75,
                                .half_width = 9.53,
                                .n_found = 2,
                                .n_different = 2,
                                .n_holds = 2,
                                .n_distinct = 2,
                                .monotone = true,
                                .n_simulations = 6,
                                .n_reused = 1,
                                .n_grid = 8,
                                .measurements = measured};
  outcomes[1] = (DesignOutcome){.design = &chosen[1],
                                .answers = only,
                                NO_RANGE,
                                .low = 0.5,
                                .high = 0.5,
                                .mean = 0.5,
                                .half_width = 0.25,
                                .n_found = 1,
                                .n_different = 1,
                                .n_holds = 1,
                                .n_distinct = 1,
                                .monotone = true,
                                .n_simulations = 2,
                                .n_grid = 2,
                                .measurements = measured_only};
}

Test(provision_print, an_offline_study_for_people) {
  an_offline_study();
  expect_printed(
      OUTPUT_TABLE,
      "study.yaml: the highest throughput of requests that are all present at the start; 2 seeds\n"
      "\n"
      "design  requests/s  tokens/s  GPUs machines     $/h    $/M      kW  choice\n"
      "offline          4       900    16        2      20  6.173       -  max_num_seqs=2048 "
      "parallelism=TP8\n"
      "b              0.5        50     8        1       2  11.11       3  -\n"
      "\n"
      "offline: 4..5.5 requests/s over the seeds, mean 4.75 +- 9.5 requests/s (95%); the "
      "answer depends on the seed: 2 different choices\n"
      "b: 0.5..0.5 requests/s over the seeds, mean 0.5 +- 0.25 requests/s (95%)\n"
      "\n"
      "offline: 2 of 4 choices\n"
      "rank requests/s  tokens/s  of best  max_num_seqs  parallelism\n"
      "   1          4       900   100.0%  2048          TP8\n"
      "   2          2       450    50.0%  512           TP8\n"
      "   -          -         -        -  512           TP4PP2       the weights do not fit\n"
      "   -          1       300        -  2048          TP4PP2       3 of 9 requests are rejected "
      "or never finish\n"
      "\n"
      "b: 1 of 1 choices\n"
      "rank requests/s  tokens/s  of best\n"
      "   1        0.5        50   100.0%\n"
      "\n"
      "best         offline\n"
      "times        measured, with unknown error: offline\n"
      "times        from a roofline, not measured, with unknown error: b\n"
      "extrapolated up to 12.5% of an answer's time (far: 0.0%) is outside the measured range, "
      "where the error is unknown (offline)\n"
      "simulations  8 of 10 choices, 1 from the database\n");
  study.n_seeds = 1;
  outcomes[1].answers = none;
  outcomes[1].why_not = "nobody could";
  outcomes[1].measurements = &measured_only[1];
  outcomes[0].n_reused = 0;
  expect_printed(
      OUTPUT_TABLE,
      "study.yaml: the highest throughput of requests that are all present at the start; 1 seed\n"
      "\n"
      "design  requests/s  tokens/s  GPUs machines     $/h    $/M      kW  choice\n"
      "offline          4       900    16        2      20  6.173       -  max_num_seqs=2048 "
      "parallelism=TP8\n"
      "b       none: nobody could\n"
      "\n"
      "offline: 2 of 4 choices\n"
      "rank requests/s  tokens/s  of best  max_num_seqs  parallelism\n"
      "   1          4       900   100.0%  2048          TP8\n"
      "   2          2       450    50.0%  512           TP8\n"
      "   -          -         -        -  512           TP4PP2       the weights do not fit\n"
      "   -          1       300        -  2048          TP4PP2       3 of 9 requests are rejected "
      "or never finish\n"
      "\n"
      "b: 0 of 1 choices\n"
      "rank requests/s  tokens/s  of best\n"
      "   -          -         -        -  it failed\n"
      "\n"
      "best         offline\n"
      "times        measured, with unknown error: offline\n"
      "extrapolated up to 12.5% of an answer's time (far: 0.0%) is outside the measured range, "
      "where the error is unknown (offline)\n"
      "simulations  8 of 10 choices\n");
}

Test(provision_print, an_offline_study_as_csv) {
  an_offline_study();
  expect_printed(
      OUTPUT_CSV,
      "design,seed,rank,choice,throughput_rps,output_tokens_per_s,instances,gpus,machines,cost_per_"
      "hour,cost_per_million_output_tokens,power_kw,why_not,extrapolated\n"
      "offline,7,2,max_num_seqs=512 parallelism=TP8,2,450,2,16,2,20,12.345679,8,,0\n"
      "offline,7,,max_num_seqs=512 parallelism=TP4PP2,,,,,,,,,the weights do not fit: 1 of 2 GB,\n"
      "offline,7,1,max_num_seqs=2048 parallelism=TP8,4,900,2,16,2,20,6.17283951,,,0.125\n"
      "offline,7,,max_num_seqs=2048 parallelism=TP4PP2,1,300,4,32,4,40,37.037037,16,3 of 9 "
      "requests are rejected or never finish,1\n"
      "offline,8,3,max_num_seqs=512 parallelism=TP8,3,460,2,16,2,20,12.0772947,8,,0\n"
      "offline,8,,max_num_seqs=512 parallelism=TP4PP2,,,,,,,,,the weights do not fit: 1 of 2 GB,\n"
      "offline,8,2,max_num_seqs=2048 parallelism=TP8,4.12345679,901,2,16,2,20,6.16598841,,,0\n"
      "offline,8,1,max_num_seqs=2048 parallelism=TP4PP2,5.5,1000,4,32,4,40,11.1111111,16,,0\n"
      "b,7,1,,0.5,50,1,8,1,2,11.1111111,3,,0\n"
      "b,8,,,,,1,8,1,2,,3,it failed,\n");
}

Test(provision_print, an_offline_study_as_json) {
  an_offline_study();
  study.n_seeds = 1;
  expect_printed(
      OUTPUT_JSON,
      "\"study\": \"study.yaml\",\n"
      "  \"objective\": \"throughput\",\n"
      "  \"unit\": \"requests/s\",\n"
      "  \"best\": \"offline\",\n"
      "  \"flips\": false,\n"
      "  \"designs\": [\n"
      "    {\"design\": \"offline\", \"low\": 4, \"high\": 5.5, \"mean\": 4.75, \"half_width\": "
      "9.53, \"low_model\": null, \"high_model\": null, \"different\": 2, \"distinct\": 2, "
      "\"holds\": 2, \"monotone\": true, \"why_not\": null, \"simulations\": 6, \"stopped\": 0, "
      "\"reused\": 1, \"grid\": 8, \"events\": 0, \"saved_events\": 0, \"range_simulations\": 0, "
      "\"range_events\": 0,\n"
      "     \"answers\": [\n"
      "       {\"seed\": 7, \"found\": true, \"prefill\": 0, \"decode\": 0, \"mixed\": 2, "
      "\"instances\": 2, \"gpus\": 16, \"machines\": 2, \"cost_per_hour\": 20, "
      "\"cost_per_million_output_tokens\": 6.17283951, \"cost_per_million_tokens\": 1.54320988, "
      "\"power_kw\": null, \"rate_rps\": 4, \"output_tokens_per_s\": 900, \"choice\": "
      "\"max_num_seqs=2048 parallelism=TP8\", \"open_ended\": false, \"binds\": null, \"margin\": "
      "null, \"next_fails\": null, \"extrapolated\": 0.125, \"extrapolated_far\": 0, \"measured\": "
      "true, \"perfmodel_error\": null, \"slo\": []}],\n"
      "     \"choices\": [\n"
      "       {\"seed\": 7, \"rank\": 2, \"choice\": \"max_num_seqs=512 parallelism=TP8\", "
      "\"values\": {\"policies.batcher.max_num_seqs\": \"512\", \"parallelism\": \"TP8\"}, "
      "\"throughput_rps\": 2, \"output_tokens_per_s\": 450, \"cost_per_million_output_tokens\": "
      "12.345679, \"why_not\": null, \"extrapolated\": 0},\n"
      "       {\"seed\": 7, \"rank\": null, \"choice\": \"max_num_seqs=512 parallelism=TP4PP2\", "
      "\"values\": {\"policies.batcher.max_num_seqs\": \"512\", \"parallelism\": \"TP4PP2\"}, "
      "\"throughput_rps\": null, \"output_tokens_per_s\": null, "
      "\"cost_per_million_output_tokens\": null, \"why_not\": \"the weights do not fit: 1 of 2 "
      "GB\", \"extrapolated\": null},\n"
      "       {\"seed\": 7, \"rank\": 1, \"choice\": \"max_num_seqs=2048 parallelism=TP8\", "
      "\"values\": {\"policies.batcher.max_num_seqs\": \"2048\", \"parallelism\": \"TP8\"}, "
      "\"throughput_rps\": 4, \"output_tokens_per_s\": 900, \"cost_per_million_output_tokens\": "
      "6.17283951, \"why_not\": null, \"extrapolated\": 0.125},\n"
      "       {\"seed\": 7, \"rank\": null, \"choice\": \"max_num_seqs=2048 parallelism=TP4PP2\", "
      "\"values\": {\"policies.batcher.max_num_seqs\": \"2048\", \"parallelism\": \"TP4PP2\"}, "
      "\"throughput_rps\": 1, \"output_tokens_per_s\": 300, \"cost_per_million_output_tokens\": "
      "37.037037, \"why_not\": \"3 of 9 requests are rejected or never finish\", \"extrapolated\": "
      "1}]},\n"
      "    {\"design\": \"b\", \"low\": 0.5, \"high\": 0.5, \"mean\": 0.5, \"half_width\": 0.25, "
      "\"low_model\": null, \"high_model\": null, \"different\": 1, \"distinct\": 1, \"holds\": 1, "
      "\"monotone\": true, \"why_not\": null, \"simulations\": 2, \"stopped\": 0, \"reused\": 0, "
      "\"grid\": 2, \"events\": 0, \"saved_events\": 0, \"range_simulations\": 0, "
      "\"range_events\": 0,\n"
      "     \"answers\": [\n"
      "       {\"seed\": 7, \"found\": true, \"prefill\": 0, \"decode\": 0, \"mixed\": 1, "
      "\"instances\": 1, \"gpus\": 8, \"machines\": 1, \"cost_per_hour\": 2, "
      "\"cost_per_million_output_tokens\": 11.1111111, \"cost_per_million_tokens\": 11.1111111, "
      "\"power_kw\": 3, \"rate_rps\": 0.5, \"output_tokens_per_s\": 50, \"choice\": \"\", "
      "\"open_ended\": false, \"binds\": null, \"margin\": null, \"next_fails\": null, "
      "\"extrapolated\": 0, \"extrapolated_far\": 0, \"measured\": false, \"perfmodel_error\": "
      "null, \"slo\": []}],\n"
      "     \"choices\": [\n"
      "       {\"seed\": 7, \"rank\": 1, \"choice\": \"\", \"values\": {}, \"throughput_rps\": "
      "0.5, \"output_tokens_per_s\": 50, \"cost_per_million_output_tokens\": 11.1111111, "
      "\"why_not\": null, \"extrapolated\": 0}]}\n"
      "  ]\n"
      "}\n");
}

Test(provision_print, the_plan_of_an_offline_study) {
  an_offline_study();
  expect_printed(
      PLAN,
      "study.yaml: the highest throughput of requests that are all present at the start; 2 seeds\n"
      "\n"
      "offline: 3 of 4 choices\n"
      "  max_num_seqs=512 parallelism=TP8\n"
      "  max_num_seqs=512 parallelism=TP4PP2: the weights do not fit: 1 of 2 GB\n"
      "  max_num_seqs=2048 parallelism=TP8\n"
      "  max_num_seqs=2048 parallelism=TP4PP2\n"
      "b: 1 of 1 choices\n"
      "  -\n");
}
