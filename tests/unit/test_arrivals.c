/* Arrivals whose rate changes, their profiles, and mixes.
 *
 * Pinned: times of fixed gaps through steps and ramps to the tick; mean rate and dispersion of
 * counts of each random process against its closed form; order, components and streams of a mix;
 * where messages point. Not pinned: the numbers of any one seed. */
#include "tests/unit/testing.h"
#include "traces/profiles.h"
#include "traces/workload.h"
#include <math.h>

TestSuite(arrivals, .init = setup_data, .fini = teardown);

#define HOUR (3600 * TICKS_PER_SECOND)

static int bind(const char *text, WorkloadConfig *config) {
  const Node *node = yaml_parse("w", text, strlen(text), &arena, &diag);
  cr_assert_not_null(node, "%s", text);
  return workload_bind(config, node, getenv("TANDEM_SOURCE_DIR"), NULL, &arena, &diag);
}

/* Binds and opens {lengths: …, arrivals: {…}, …}; it must be right. */
static TraceSource *open_drawn(const char *arrivals, const char *end, WorkloadConfig *config) {
  const char *text = arena_printf(&arena, "{lengths: sharegpt, arrivals: {%s}, %s}", arrivals, end);
  cr_assert_eq(bind(text, config), 0, "%s: %s", text,
               diag.n_entries ? diag.entries[0].message : "");
  return workload_open(config, 1, &arena, &diag);
}

/* ---- The time change ---- */

/* Fixed gaps arrive where the integral of the rate is 0, 1, 2, … */
Test(arrivals, fixed_gaps_are_carried_through_the_inverse_exactly) {
  static const struct {
    const char *arrivals;
    int n;
    double at_s[8];
  } cases[] = {
      {"process: steps, rates: [{at: 0 s, rate: 1 /s}, {at: 2500 ms, rate: 4 /s}]",
       6,
       {0, 1, 2, 2.625, 2.875, 3.125}},
      // nothing for 10 s: what is owed is spent after
      {"process: steps, rates: [{at: 0 s, rate: 0 /s}, {at: 10 s, rate: 2 /s}]", 3, {10, 10.5, 11}},
      // it ends where the rate is 0 for ever
      {"process: steps, rates: [{at: 0 s, rate: 2 /s}, {at: 1200 ms, rate: 0 /s}]", 3, {0, 0.5, 1}},
      // Λ = t²/2, then 4 t: 8 at 4 s
      {"process: ramp, rates: [{at: 0 s, rate: 0 /s}, {at: 4 s, rate: 4 /s}]",
       8,
       {0, 1.414213562373, 2, 2.449489742783, 2.828427124746, 3.162277660168, 3.464101615138,
        3.741657386774}},
      {"process: diurnal, profile: [1, 3], step: 1 s, period: 2 s, rate: 2 /s",
       6,
       {0, 1, 1 + 1 / 3.0, 1 + 2 / 3.0, 2, 3}},
      {"process: diurnal, profile: [1, 3], step: 1 s, period: 2 s, start: 1 s, peak_rate: 3 /s",
       5,
       {0, 1 / 3.0, 2 / 3.0, 1, 2}},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    WorkloadConfig config;
    const char *gaps = arena_printf(&arena, "%s, gaps: fixed", cases[i].arrivals);
    TraceSource *source = open_drawn(gaps, "requests: 8", &config);
    TraceRow row;
    for (int k = 0; k < cases[i].n; k++) {
      cr_assert_eq(trace_next(source, &row, &diag), 1, "%s, row %d", gaps, k);
      cr_expect_leq(llabs(row.at - tick_from_seconds(cases[i].at_s[k])), 1, "%s, row %d: %.12f",
                    gaps, k, tick_seconds(row.at));
    }
  }
}

/* Λ(t) of a linear profile: trapezia that meet in the middle of the steps, the mean as given. */
Test(arrivals, a_linear_profile_keeps_the_mean_and_its_shape) {
  static const double values[] = {1, 5, 3};
  RateCurve curve;
  rate_curve_steps(&curve, values, 3, 2 * HOUR, true, true, &arena);
  cr_expect_float_eq(rate_curve_mean(&curve), 3, 1e-12);
  cr_expect_float_eq(rate_curve_expected(&curve, HOUR), 3600 * (2 + 1) / 2.0, 1e-8);
  cr_expect_float_eq(rate_curve_expected(&curve, 2 * HOUR), 3600 * (1.5 + 2), 1e-8);
  cr_expect_float_eq(rate_curve_expected(&curve, 600 * HOUR), 3 * 600 * 3600.0, 1e-3);
  curve.start = 5 * HOUR; // at its third value, over the seam
  cr_expect_float_eq(rate_curve_expected(&curve, 2 * HOUR), 3600 * (2.5 + 1.5), 1e-8);
}

/* ---- Random processes ---- */

typedef struct Counted {
  double mean, dispersion, rows; // of counts in windows: variance over mean
} Counted;

static Counted count(const char *arrivals, double window_s, int n_windows) {
  WorkloadConfig config;
  const char *end = arena_printf(&arena, "duration: %.0f s", window_s * n_windows);
  TraceSource *source = open_drawn(arrivals, end, &config);
  double *counts = ARENA_ARRAY(&arena, double, n_windows);
  const Tick window = tick_from_seconds(window_s);
  TraceRow row;
  Tick last = 0;
  double sum = 0, squares = 0;
  while (trace_next(source, &row, &diag) > 0) {
    cr_assert_geq(row.at, last);
    last = row.at;
    counts[row.at / window]++;
  }
  for (int i = 0; i < n_windows; i++)
    sum += counts[i];
  const double mean = sum / n_windows;
  for (int i = 0; i < n_windows; i++)
    squares += (counts[i] - mean) * (counts[i] - mean);
  cr_expect_float_eq(workload_expected(&config), config.rate * window_s * n_windows, 1e-6 * sum);
  return (Counted){mean, squares / (n_windows - 1) / mean, sum};
}

/* The index of dispersion of counts in windows of T:
 *   a renewal process: cv² (T long);
 *   an MMPP of two states with rates a, b, left at u, v (Fischer & Meier-Hellstern 1993):
 *     1 + 2 (a−b)² u v / ((u+v)² (a v + b u)) · (1 − (1 − e^{−(u+v)T}) / ((u+v)T));
 *   Poisson arrivals by a lognormal factor with E[X_s X_0] − 1 = c(s) = exp(σ² e^{−s/τ}) − 1:
 *     1 + λ (2/T) ∫ (T−s) c(s) ds, here by Simpson's rule. */
static double mmpp_dispersion(double a, double b, double u, double v, double window) {
  const double leave = u + v, decay = -expm1(-leave * window) / (leave * window);
  return 1 + 2 * (a - b) * (a - b) * u * v / (leave * leave * (a * v + b * u)) * (1 - decay);
}

static double drift_dispersion(double rate, double cv, double tau, double window) {
  enum { N = 2000 };
  double sum = 0;
  for (int i = 0; i <= N; i++) {
    const double s = window * i / N, c = expm1(log1p(cv * cv) * exp(-s / tau));
    sum += (i == 0 || i == N ? 1 : i % 2 ? 4 : 2) * (window - s) * c;
  }
  return 1 + rate * 2 / window * sum * window / N / 3;
}

Test(arrivals, rate_and_dispersion_are_those_of_the_process, STATISTICS) {
  const struct {
    const char *arrivals;
    double window_s, rate, dispersion;
    double error_of_rate, error_of_dispersion; // shares, some five standard errors
  } cases[] = {
      {"process: steps, rates: [{at: 0 s, rate: 5 /s}]", 10, 5, 1, 0.01, 0.05},
      {"process: steps, rates: [{at: 0 s, rate: 20 /s}], cv: 2", 50, 20, 4, 0.01, 0.06},
      {"process: diurnal, profile: [1, 2, 6], step: 1 s, period: 3 s, rate: 9 /s", 3, 9, 1, 0.01,
       0.05},
      {"process: diurnal, profile: [0, 4], step: 2 s, period: 4 s, rate: 9 /s, cv: 0.5,"
       "interpolation: linear",
       40, 9, 0.25, 0.005, 0.07},
      {"process: mmpp, states: [{rate: 2 /s, mean_time: 4 s}, {rate: 20 /s, mean_time: 1 s}]", 20,
       (2 * 4 + 20) / 5.0, mmpp_dispersion(2, 20, 0.25, 1, 20), 0.03, 0.08},
      {"process: poisson, rate: 6 /s, modulation: {cv: 0.5, time_constant: 8 s}", 4, 6,
       drift_dispersion(6, 0.5, 8, 4), 0.04, 0.12},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const Counted counted = count(cases[i].arrivals, cases[i].window_s, 20000);
    const double due = cases[i].rate * cases[i].window_s;
    cr_expect_float_eq(counted.mean, due, due * cases[i].error_of_rate, "%s: mean %g, not %g",
                       cases[i].arrivals, counted.mean, due);
    cr_expect_float_eq(
        counted.dispersion, cases[i].dispersion, cases[i].dispersion * cases[i].error_of_dispersion,
        "%s: dispersion %g, not %g", cases[i].arrivals, counted.dispersion, cases[i].dispersion);
  }
}

/* Three states, or more, have shares of time as their mean times. */
Test(arrivals, states_last_as_long_as_they_say) {
  const Counted counted = count("process: mmpp, states: [{rate: 0 /s, mean_time: 1 s},"
                                "{rate: 10 /s, mean_time: 2 s}, {rate: 40 /s, mean_time: 3 s}]",
                                60, 3000);
  cr_expect_float_eq(counted.mean / 60, (20 + 120) / 6.0, 0.3);
}

/* ---- Profiles ---- */

Test(arrivals, the_weeks_of_azure_are_as_their_heads_say) {
  static const struct {
    const char *name;
    double weekday, weekend;
    double peak_over_least[7];
  } cases[] = {{"azure-code-2024", 124202, 39572, {10.0, 11.3, 11.1, 9.1, 8.6, 7.0, 5.9}},
               {"azure-conv-2024", 185431, 105255, {1.8, 1.9, 2.0, 2.0, 2.2, 1.7, 1.8}}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    const Node *node = yaml_parse("p", cases[i].name, strlen(cases[i].name), &arena, &diag);
    RateProfile profile;
    cr_assert_eq(profile_bind(&profile, node, getenv("TANDEM_SOURCE_DIR"), NULL, &arena, &diag), 0);
    cr_assert(profile.n == 168 && profile.step == HOUR);
    const double mean = (5 * cases[i].weekday + 2 * cases[i].weekend) / 7;
    double sums[2] = {0, 0};
    for (int day = 0; day < 7; day++) {
      const double *hours = profile.values + day * 24L;
      double least = hours[0], most = hours[0];
      for (int h = 0; h < 24; h++) {
        sums[day >= 5] += hours[h];
        least = fmin(least, hours[h]);
        most = fmax(most, hours[h]);
      }
      cr_expect_float_eq(most / least, cases[i].peak_over_least[day], 0.05, "day %d", day);
    }
    cr_expect_float_eq(sums[0] / 120, cases[i].weekday / mean, 0.003);
    cr_expect_float_eq(sums[1] / 48, cases[i].weekend / mean, 0.003);
  }
}

Test(arrivals, times_of_the_week_are_read) {
  static const struct {
    const char *text;
    double hours; // -1: none
  } cases[] = {{"Monday 08:00", 8},
               {"sun 23:30", 6 * 24 + 23.5},
               {"WEDNESDAY", 48},
               {"8:30", 8.5},
               {"32 h", 32},
               {"Mondays 8:00", -1},
               {"24:01", -1},
               {"8:60", -1},
               {"-1 h", -1},
               {"8:00 pm", -1},
               {"", -1},
               {"8", -1}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    Tick at = 0;
    bool names_day = false;
    const bool read = profile_time(cases[i].text, &at, &names_day);
    cr_expect_eq(read, cases[i].hours >= 0, "'%s'", cases[i].text);
    if (read) cr_expect_eq(at, tick_from_seconds(cases[i].hours * 3600), "'%s'", cases[i].text);
  }
}

/* ---- Mixes ---- */

#define TWO                                                                                        \
  "{mix: [{name: a, lengths: {prompt: {constant: 10}, output: {constant: 1}},"                     \
  "arrivals: {rate: 3 /s}}, {name: b, lengths: {prompt: {constant: 20}, output: {constant: 2}},"   \
  "arrivals: {process: fixed, rate: 1 /s}"

Test(arrivals, a_mix_merges_its_components_in_order_of_time) {
  WorkloadConfig config;
  cr_assert_eq(bind(TWO "}], duration: 1000 s}", &config), 0);
  cr_expect_float_eq(workload_expected(&config), 4000, 1e-9);
  TraceSource *source = workload_open(&config, 1, &arena, &diag);
  TraceRow row;
  Tick last = 0;
  int rows[2] = {0, 0};
  while (trace_next(source, &row, &diag) > 0) {
    cr_assert(row.at >= last && row.component <= 1);
    cr_assert_eq(row.prompt_tokens, 10 * (row.component + 1));
    last = row.at;
    rows[row.component]++;
  }
  cr_expect_eq(rows[1], 1000);
  cr_expect_float_eq(rows[0], 3000, 5 * sqrt(3000));
}

/* The rows of the first component, as a number. */
static uint64_t first_component(const char *text, uint64_t seed) {
  WorkloadConfig config;
  cr_assert_eq(bind(text, &config), 0, "%s", text);
  TraceSource *source = workload_open(&config, seed, &arena, &diag);
  TraceRow row;
  uint64_t digest = 0;
  while (trace_next(source, &row, &diag) > 0)
    if (row.component == 0) digest = digest * 31 + (uint64_t)row.at;
  return digest;
}

Test(arrivals, a_component_does_not_hang_on_the_others) {
  const uint64_t digest = first_component(TWO "}], duration: 100 s}", 1);
  cr_expect_eq(
      first_component(TWO ", max_model_len: 50, patience: {ttft: 1 s}}], duration: 100 s}", 1),
      digest);
  cr_expect_neq(first_component(TWO "}], duration: 100 s}", 2), digest);
  cr_expect_neq(first_component(TWO "}], duration: 100 s, rate_scale: 2}", 1), digest);
}

Test(arrivals, requests_of_a_mix_are_of_all_together) {
  WorkloadConfig config;
  cr_assert_eq(bind(TWO "}], requests: 7}", &config), 0);
  TraceSource *source = workload_open(&config, 1, &arena, &diag);
  TraceRow row;
  int n = 0;
  while (trace_next(source, &row, &diag) > 0)
    n++;
  cr_expect_eq(n, 7);
}

/* ---- Bad input ---- */

#define DAILY "process: diurnal, rate: 1 /s, profile: "

Test(arrivals, messages_say_what_is_possible) {
  static const struct {
    const char *text, *part, *hint;
  } cases[] = {
      {DAILY "[1, 2, 3]", "3 values of 1 h, 3 h in all, and does not cover whole days",
       "period: none"},
      {DAILY "[1, 2, 3], period: 1 d", "does not cover", "'3 h'"},
      {DAILY "[1, 2, 3], period: none, start: 2 h", "ends after 1 h of the run",
       "the profile repeats"},
      {DAILY "[1, -2], period: 2 h", "'rate' must be from 0", NULL},
      {DAILY "[0, 0], period: 2 h", "all 2 rates of the profile are 0", "above 0"},
      {DAILY "[1], period: 1 h", "two values", NULL},
      {DAILY "{a: 1}", "a profile must be a name", NULL},
      {DAILY "azure-code", "unknown profile 'azure-code'", "azure-code-2024"},
      {DAILY "azure-code-2024, step: 1 h", "'step' applies to a list of rates", NULL},
      {DAILY "azure-code-2024, start: soon", "'start' must be a time", "Monday 08:00"},
      {DAILY "azure-code-2024, start: 168 h", "beyond the end", NULL},
      {DAILY "[1, 2], period: 2 h, start: Monday", "'start' names a day", NULL},
      {DAILY "[1, 2], period: 2 h, peak_rate: 2 /s", "exclude each other", NULL},
      {DAILY "[1, 2], period: 2 h, gaps: gamma", "need 'cv'", NULL},
      {DAILY "[1, 2], period: 2 h, gaps: fixed, cv: 2", "'cv' needs gamma gaps", NULL},
      {"process: diurnal, rate: 1 /s", "needs 'profile'", NULL},
      {"process: diurnal, profile: azure-code-2024", "'rate' (the mean) or 'peak_rate'", NULL},
      {"process: steps, rates: []", "must be a list", "at: 10 min"},
      {"process: steps, rates: [{at: 1 s, rate: 1 /s}]", "must be at 0 s", NULL},
      {"process: ramp, rates: [{at: 0 s, rate: 1 /s}, {at: 0 s, rate: 1 /s}]", "must ascend", NULL},
      {"process: steps, rates: [{at: 0 s, rate: 0 /s}]", "all of 'rates' are 0", NULL},
      {"process: mmpp, states: [{rate: 1 /s, mean_time: 1 s}]", "must be a list", "mean_time"},
      {"process: mmpp, states: [{rate: 0 /s, mean_time: 1 s}, {rate: 0 /s, mean_time: 1 s}]",
       "are 0", NULL},
      {"process: at_once, modulation: {cv: 1, time_constant: 1 h}", "'modulation' cannot be used",
       NULL},
      {"rate: 1 /s, states: []", "'states' cannot be used with process 'poisson'", NULL},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    WorkloadConfig config;
    diag.n_entries = 0;
    const char *text =
        arena_printf(&arena, "{lengths: sharegpt, arrivals: {%s}, duration: 4 h}", cases[i].text);
    cr_expect_eq(bind(text, &config), -1, "%s", text);
    cr_assert_eq(diag.n_entries, 1, "%s", text);
    cr_expect(strstr(diag.entries[0].message, cases[i].part), "%s: %s", text,
              diag.entries[0].message);
    cr_expect_gt(diag.entries[0].at.column, 20, "%s", text);
    if (cases[i].hint)
      cr_expect(diag.entries[0].hint && strstr(diag.entries[0].hint, cases[i].hint), "%s: %s", text,
                diag.entries[0].hint);
  }
}

Test(arrivals, a_mix_says_what_does_not_go_into_it) {
  static const struct {
    const char *text, *part;
  } cases[] = {
      {TWO ", closed_loop: {clients: 1}}], duration: 1 s}",
       "'closed_loop' is not supported in a mix"},
      {TWO ", mix: []}], duration: 1 s}", "'mix' is not supported in a mix"},
      {TWO "}, {name: a, lengths: sharegpt}], duration: 1 s}", "two components have the name 'a'"},
      {TWO "}, {lengths: sharegpt}], duration: 1 s}", "needs 'name'"},
      {TWO "}], duration: 1 s, lengths: sharegpt}", "'lengths' cannot be used with 'mix'"},
      {TWO "}]}", "never end"},
      {"{mix: []}", "must be a list of 1 to 64"},
      {"{mix: [1]}", "must be a map"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    WorkloadConfig config;
    diag.n_entries = 0;
    cr_expect_eq(bind(cases[i].text, &config), -1, "%s", cases[i].text);
    cr_assert_geq(diag.n_entries, 1);
    cr_expect(strstr(diag.entries[0].message, cases[i].part), "%s: %s", cases[i].text,
              diag.entries[0].message);
  }
}

Test(arrivals, tables_of_profiles_are_located) {
  static const struct {
    const char *text, *part;
    int line;
  } cases[] = {
      {"hour,rate\n0,1\n1,-2\n", "rate", 3},
      {"hour,rate\n0,1\n1,2\n3,2\n", "equal steps", 4},
      {"hour,rate\n1,1\n2,2\n", "0 in the first row", 2},
      {"minute,rate\n0,0\n1,0\n", "are 0", 0},
      {"rate\n1\n", "one column of times", 0},
      {"hour,minute,rate\n0,0,1\n", "one column of times", 0},
      {"second,rate\n0,1\n0.5,1\n", "from 1 s", 3},
      {"hour,rate\n0,1\n", "two values", 0},
      {"second,rate\n0,1\n5e6,1\n", "92 days at most", 3},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    Csv csv;
    RateProfile profile;
    diag.n_entries = 0;
    csv_open_text(&csv, "p.csv", cases[i].text, strlen(cases[i].text), &arena);
    cr_expect_eq(profile_read(&profile, &csv, place_of_file("p.csv"), &arena, &diag), -1);
    cr_assert_geq(diag.n_entries, 1, "%s", cases[i].text);
    cr_expect(strstr(diag.entries[0].message, cases[i].part), "%s: %s", cases[i].text,
              diag.entries[0].message);
    cr_expect_eq(diag.entries[0].at.line, cases[i].line, "%s", cases[i].text);
  }
}
