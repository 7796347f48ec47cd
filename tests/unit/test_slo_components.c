/* Limits on the requests of one component of a mix, or of a class of them: by hand, against limits
 * on all requests, against the records of single requests, and as studies are answered by them. */
#include "experiments/campaign/early.h"
#include "experiments/provision/probe.h"
#include "tests/unit/testing.h"
#include <math.h>

TestSuite(slo_components, .init = setup_folder, .fini = teardown_folder);

#define S TICKS_PER_SECOND

/* ---- By hand ---- */

static SloSpec limit_on(const char *metric, const char *statistic, double limit, uint32_t of) {
  SloSpec spec = {.name = statistic, .limit = limit, .component = of};
  spec.metric = slo_metric_find(metric, strlen(metric));
  cr_assert(spec.metric && slo_parse_statistic(statistic, &spec.statistic, &spec.quantile));
  return spec;
}

static SloOutcome outcome_of(const SloSpec *spec, const Metrics *metrics) {
  SloOutcome outcome;
  slo_eval(&(SloSet){"one", spec, 1}, metrics, &outcome);
  return outcome;
}

/* Request `i` of ten comes at i s, has its first token after `ttft`, and 11 tokens by i + 30 s. */
static void add(ComponentMetrics *to, int i, Tick ttft, bool good) {
  const Tick at = i * S;
  const RequestRecord record = {.arrived_at = at,
                                .prefill_began_at = at,
                                .first_token_at = at + ttft,
                                .last_token_at = at + 30 * S,
                                .prompt_tokens = 5,
                                .output_tokens = 11};
  component_metrics_arrive(to, record.output_tokens);
  component_metrics_end(to, &record, good);
}

/* TTFTs are 10, 20 … 100 ms: the 90th percentile has rank 8.1, between 90 and 100 ms. A request
 * that never comes moves it to rank 9, the last, and one more beyond what there is. */
Test(slo_components, a_statistic_is_of_the_component_alone) {
  ComponentMetrics of[2];
  Metrics metrics;
  metrics_init(&metrics, &arena);
  metrics.components = of;
  component_metrics_init(&of[0], &arena);
  component_metrics_init(&of[1], &arena);
  for (int i = 0; i < 10; i++)
    add(&of[1], i, (i + 1) * S / 100, i < 8);
  const SloSpec first = limit_on("ttft", "p90", 0.0925, 1),
                p90 = limit_on("ttft", "p90", 0.0925, 2);
  cr_expect_str_eq(outcome_of(&first, &metrics).unmeasured, "no request came");
  const SloOutcome outcome = outcome_of(&p90, &metrics);
  cr_expect(outcome.met && fabs(outcome.value - 0.091) < 0.091 / 100, "%g", outcome.value);
  const SloSpec tpot = limit_on("tpot", "max", 3, 2), e2e = limit_on("e2e", "mean", 30, 2);
  cr_expect_float_eq(outcome_of(&tpot, &metrics).value, 2.999, 0.01, "(30 s - 10 ms) / 10");
  cr_expect(outcome_of(&tpot, &metrics).met);
  cr_expect(!outcome_of(&e2e, &metrics).met, "the mean is its limit");
  const SloSpec good = {
      .name = "goodput", .statistic = SLO_GOOD_SHARE, .limit = 0.8, .component = 2};
  cr_expect(outcome_of(&good, &metrics).met);
  component_metrics_arrive(&of[1], 1);
  cr_expect_float_eq(outcome_of(&p90, &metrics).value, 0.1, 0.001);
  cr_expect_float_eq(outcome_of(&good, &metrics).value, 8 / 11.0, 1e-12);
  cr_expect(isfinite(outcome_of(&tpot, &metrics).value), "its output has no gap");
  component_metrics_arrive(&of[1], 2);
  cr_expect_eq(outcome_of(&p90, &metrics).value, INFINITY);
  cr_expect_eq(outcome_of(&tpot, &metrics).value, INFINITY);
}

/* Of ten requests one may be late at a 90th percentile; of the three that are, each component is
 * judged by its own. */
Test(slo_components, a_limit_is_lost_by_the_component_alone) {
  ComponentMetrics of[2];
  Metrics metrics;
  metrics_init(&metrics, &arena);
  metrics.components = of;
  const Demand asked[3] = {{.requests = 20}, {.requests = 10}, {.requests = 10}};
  const SloSpec both[] = {limit_on("ttft", "p90", 0.5, 1), limit_on("ttft", "p90", 0.5, 2)};
  const SloSet set = {"both", both, 2};
  uint64_t patience;
  component_metrics_init(&of[0], &arena);
  component_metrics_init(&of[1], &arena);
  add(&of[0], 0, S, false);
  add(&of[1], 1, S / 10, true);
  add(&of[1], 2, S, false);
  cr_expect_null(slo_find_lost(&set, &metrics, asked, NULL, &patience), "one of each may");
  const Demand refused[3] = {{.requests = 1}, {.requests = 1}, {0}};
  cr_expect_eq(slo_find_lost(&set, &metrics, asked, refused, &patience), &both[0],
               "one was late, and one cannot be served");
  add(&of[1], 3, S, false);
  cr_expect_eq(slo_find_lost(&set, &metrics, asked, NULL, &patience), &both[1]);
  const Demand more[3] = {{.requests = 30}, {.requests = 10}, {.requests = 20}};
  cr_expect_null(slo_find_lost(&set, &metrics, more, NULL, &patience), "two of twenty may");
}

/* ---- Runs ---- */

/* Rates of the two components, and what is said beside them. */
static void write_mix(const char *mix, const char *slo, const char *more) {
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file);
  fprintf(file,
          "model: llama3.1-8b\n"
          "max_model_len: none\n"
          "%s\n"
          "workload:\n"
          "  mix: [%s]\n"
          "  duration: 10 s\n"
          "pools: {serve: {machine: dgx-h100, tensor_parallel_size: 1, count: 1}}\n"
          "slo: %s\n",
          more, mix, slo);
  cr_assert_eq(fclose(file), 0);
}

static const char two_components[] =
    "{name: chat, lengths: azure-conv-2024, arrivals: {rate: 12 /s}},"
    "{name: summaries, lengths: azure-code-2024, arrivals: {rate: 6 /s}}";

static Trial *load(TrialBase *base) {
  Trial *trial = ARENA_NEW(&arena, Trial);
  cr_assert_eq(trial_base_init(base, path, NULL, &arena, &diag), 0);
  trial_init(trial);
  const int status = trial_load(trial, base, &(ConfigChanges){.seed = -1, .tie_seed = -1});
  diag_print(&trial->diag, stderr);
  cr_assert_eq(status, 0);
  return trial;
}

static void done(Trial *trial, TrialBase *base) {
  trial_done(trial);
  trial_base_done(base);
}

static const SloOutcome *outcome_named(const Trial *trial, const char *name) {
  for (int i = 0; i < trial->config.slo->n_specs; i++)
    if (strcmp(trial->config.slo->specs[i].name, name) == 0) return &trial->report.outcomes[i];
  cr_assert_fail("no limit %s", name);
  return NULL;
}

static void expect_equal(const SloOutcome *a, const SloOutcome *b) {
  cr_expect_eq(a->value, b->value, "%s: %.17g, %.17g", a->spec->name, a->value, b->value);
  cr_expect_eq(a->margin, b->margin, "%s", a->spec->name);
  cr_expect_eq(a->met, b->met, "%s", a->spec->name);
  cr_expect(a->half_width == b->half_width || (isnan(a->half_width) && isnan(b->half_width)),
            "%s: %g, %g", a->spec->name, a->half_width, b->half_width);
}

/* To the bit, with the half of their range. */
Test(slo_components, limits_of_the_only_component_are_those_of_all_requests) {
  static const char *const limits[] = {"ttft.p99", "ttft.p50", "ttft.mean", "tpot.p90",
                                       "tpot.max", "e2e.p90",  "e2e.mean",  "goodput"};
  static const char text[] = "ttft.p99: 1 s, ttft.p50: 50 ms, ttft.mean: 1 s, tpot.p90: 50 ms, "
                             "tpot.max: 1 s, e2e.p90: 9 s, e2e.mean: 5 s, "
                             "goodput: {share: 0.9, ttft: 100 ms, tpot: 20 ms}";
  write_mix("{name: chat, class: all, lengths: azure-conv-2024, arrivals: {rate: 20 /s}}",
            arena_printf(&arena, "{%s, components: {chat: {%s}, all: {%s}}}", text, text, text),
            "classes: {all: {priority: 0}}");
  TrialBase base;
  Trial *trial = load(&base);
  cr_assert_eq(trial_run(trial), 0);
  cr_assert_eq(trial->config.slo->n_specs, 24);
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    const SloOutcome *all = outcome_named(trial, limits[i]);
    expect_equal(all, outcome_named(trial, arena_printf(&arena, "chat:%s", limits[i])));
    expect_equal(all, outcome_named(trial, arena_printf(&arena, "all:%s", limits[i])));
  }
  cr_expect(isfinite(outcome_named(trial, "chat:ttft.p50")->half_width));
  cr_expect(isfinite(outcome_named(trial, "chat:goodput")->half_width));
  done(trial, &base);
}

typedef struct Seen {
  double ttft[2][4000], tpot[2][4000];
  int n[2], n_paced[2], n_good[2];
} Seen;

static int see(void *context, const RequestRecord *record, const Metrics *so_far, Diag *unused) {
  (void)so_far, (void)unused;
  Seen *self = context;
  const int of = record->component;
  const double ttft = tick_seconds(record->first_token_at - record->arrived_at);
  const double rest = tick_seconds(record->last_token_at - record->first_token_at);
  const double tpot = record->output_tokens > 1 ? rest / (record->output_tokens - 1) : 0;
  self->ttft[of][self->n[of]++] = ttft;
  if (record->output_tokens > 1) self->tpot[of][self->n_paced[of]++] = tpot;
  self->n_good[of] += of == 0 ? ttft <= 0.1 && tpot <= 0.012 : ttft <= 0.2;
  return 0;
}

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Within the width of a bucket of the histograms, 1 part in 128. */
static void expect_quantile(const SloOutcome *outcome, double *values, int n) {
  qsort(values, (size_t)n, sizeof *values, compare_doubles);
  const double rank = outcome->spec->quantile * (n - 1);
  const int low = (int)rank, high = low + 1 < n ? low + 1 : low;
  const double wanted = values[low] + (rank - low) * (values[high] - values[low]);
  cr_expect(values[low] * 127 / 128 <= outcome->value && outcome->value <= values[high] * 129 / 128,
            "%s: %g, not %g", outcome->spec->name, outcome->value, wanted);
}

/* Each request is judged by the limits of its component, else of its class, else of the run. */
Test(slo_components, statistics_are_those_of_the_records) {
  write_mix(
      "{name: chat, class: fast, lengths: azure-conv-2024, arrivals: {rate: 12 /s}},"
      "{name: summaries, class: slow, lengths: azure-code-2024, arrivals: {rate: 6 /s}}",
      "{goodput: {share: 0.5, ttft: 1 ms}, components: {"
      "chat: {ttft.p99: 1 s, tpot.p90: 50 ms, goodput: {share: 0.5, ttft: 100 ms, tpot: 12 ms}},"
      "summaries: {ttft.p90: 1 s}, slow: {goodput: {share: 0.9, ttft: 200 ms}}}}",
      "classes: {fast: {priority: 0}, slow: {priority: 1}}");
  TrialBase base;
  Trial *trial = load(&base);
  Seen *seen = ARENA_NEW(&arena, Seen);
  trial->config.sim.on_request = see;
  trial->config.sim.on_request_context = seen;
  cr_assert_eq(trial_run(trial), 0);
  expect_quantile(outcome_named(trial, "chat:ttft.p99"), seen->ttft[0], seen->n[0]);
  expect_quantile(outcome_named(trial, "chat:tpot.p90"), seen->tpot[0], seen->n_paced[0]);
  expect_quantile(outcome_named(trial, "summaries:ttft.p90"), seen->ttft[1], seen->n[1]);
  const double n[] = {seen->n[0], seen->n[1]}, good[] = {seen->n_good[0], seen->n_good[1]};
  cr_assert(0 < good[0] && good[0] < n[0] && 0 < good[1] && good[1] < n[1]);
  cr_expect_eq(outcome_named(trial, "chat:goodput")->value, good[0] / n[0]);
  cr_expect_eq(outcome_named(trial, "slow:goodput")->value, good[1] / n[1]);
  cr_expect_eq(outcome_named(trial, "goodput")->value, (good[0] + good[1]) / (n[0] + n[1]));
  done(trial, &base);
}

/* What is ended early is missed by the whole run, and what is not has all outcomes of it. */
Test(slo_components, ending_early_changes_no_verdict) {
  int n_stopped = 0;
  for (int i = 0; i < 10; i++) {
    const int ms[] = {200 + 40 * i, 30 + 2 * i};
    write_mix(two_components,
              arena_printf(&arena,
                           "{components: {chat: {ttft.p90: %d ms}, summaries: {tpot.mean: %d ms}}}",
                           ms[0], ms[1]),
              "");
    TrialBase base, other;
    Trial *whole = load(&base), *part = load(&other);
    EarlyEnd end = {.cache = &other.cache, .key = "demands"}, later = end;
    cr_assert_eq(trial_run(whole), 0);
    cr_assert_eq(early_end_set(&end, part), 0);
    cr_assert_eq(early_end_count(&later, part), 0);
    cr_expect_eq(later.demands, end.demands); // counted once
    cr_assert_eq(trial_run(part), 0);
    n_stopped += part->result.stopped;
    cr_expect_eq(end.demands->of[0].requests,
                 end.demands->of[1].requests + end.demands->of[2].requests);
    cr_expect_eq(end.demands->of[1].paced, metrics_asked(&whole->result.metrics, 1).paced);
    cr_expect_eq(end.demands->of[2].gaps, metrics_asked(&whole->result.metrics, 2).gaps);
    if (part->result.stopped)
      cr_expect(!outcome_named(whole, part->config.slo->specs[0].name)->met);
    else
      cr_expect_eq(whole->report.n_missed, part->report.n_missed);
    done(whole, &base);
    done(part, &other);
  }
  cr_expect(2 < n_stopped && n_stopped < 10, "%d", n_stopped);
}

/* ---- Studies ---- */

static int64_t fewest(const char *slo) {
  Provision study;
  TrialBase base;
  DesignOutcome *outcomes;
  write_mix(two_components, slo, "");
  FILE *file = fopen(path, "a");
  fprintf(file, "provision: {objective: gpus, designs: {whole: {pools.serve.count: 1..16}}}\n");
  cr_assert_eq(fclose(file), 0);
  const int status = provision_load(&study, &base, path, config_tree(path, &arena, &diag), NULL,
                                    NULL, &arena, &diag);
  diag_print(&diag, stderr);
  cr_assert_eq(status, 0);
  cr_assert_eq(provision_run(&study, &(ProvisionOptions){.jobs = 1}, &outcomes, &arena, &diag), 0);
  trial_base_done(&base);
  return outcomes->answers[0].found ? outcomes->answers[0].counts[0] : INT64_MAX;
}

/* Both must be kept: a limit more never takes fewer GPUs. */
Test(slo_components, another_limit_takes_no_fewer_gpus) {
  static const char *const chat[] = {"ttft.p90: 1 s", "tpot.p90: 20 ms", "tpot.p90: 10 ms"};
  static const char *const summaries[] = {"e2e.p90: 60 s", "e2e.p90: 500 ms", "e2e.p90: 400 ms"};
  int64_t largest = 0, smallest = INT64_MAX;
  for (int c = 0; c < 3; c++) {
    const int64_t one = fewest(arena_printf(&arena, "{components: {chat: {%s}}}", chat[c]));
    for (int s = 0; s < 3; s++) {
      const char *of = summaries[s];
      const int64_t other = fewest(arena_printf(&arena, "{components: {summaries: {%s}}}", of));
      const int64_t both =
          fewest(arena_printf(&arena, "{components: {chat: {%s}, summaries: {%s}}}", chat[c], of));
      cr_expect_eq(both, one > other ? one : other, "%s, %s: %lld of %lld and %lld", chat[c], of,
                   (long long)both, (long long)one, (long long)other);
      largest = both > largest ? both : largest;
      smallest = both < smallest ? both : smallest;
    }
  }
  cr_expect(smallest < largest && largest < INT64_MAX, "%lld to %lld", (long long)smallest,
            (long long)largest);
}

/* ---- What is refused ---- */

Test(slo_components, what_cannot_be_limited_is_an_error) {
  static const struct {
    const char *mix, *slo, *message;
  } rows[] = {
      {two_components, "{components: {chta: {ttft.p99: 1 s}}}",
       "there is no component or class 'chta'"},
      {two_components, "{components: {chat: {tbt.p99: 1 s}}}",
       "'tbt.p99' cannot be limited for one component"},
      {two_components, "{components: {chat: 1 s}}",
       "'chat' must be a map of limits such as {ttft.p99: 1 s}"},
      {two_components, "{components: {chat: {goodput: {share: 0.9, hours: 0.9, ttft: 1 s}}}}",
       "'hours' counts all requests and cannot be used for one component"},
      {two_components, "{components: {chat: {ttft.p99: 1 s, ttft: {p99: 2 s}}}}",
       "'chat:ttft.p99' already has a limit"},
      {two_components, "{components: {chat: {slowdown: {ttft.p99: 1}}}}", "unknown key 'slowdown'"},
      {"{name: a, class: c, lengths: azure-conv-2024, arrivals: {rate: 1 /s}},"
       "{name: c, lengths: azure-conv-2024, arrivals: {rate: 1 /s}}",
       "{components: {c: {ttft.p99: 1 s}}}", "'c' is a component, and a class of other components"},
      {two_components, "{components: {c: {ttft.p99: 1 s}}}",
       "no component of the workload is of class 'c'"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const bool classes = strstr(rows[i].slo, "{c:");
    write_mix(rows[i].mix, rows[i].slo, classes ? "classes: {c: {priority: 0}}" : "");
    TrialBase base;
    Trial trial;
    cr_assert_eq(trial_base_init(&base, path, NULL, &arena, &diag), 0);
    trial_init(&trial);
    cr_expect_neq(trial_load(&trial, &base, &(ConfigChanges){.seed = -1, .tie_seed = -1}), 0);
    cr_assert_geq(trial.diag.n_entries, 1);
    cr_expect_str_eq(trial.diag.entries[0].message, rows[i].message);
    trial_done(&trial);
    trial_base_done(&base);
  }
}
