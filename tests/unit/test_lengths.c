/* Distributions of lengths: their quantiles and means, the tables that ship, and the `lengths:`
 * key.
 *
 * Pinned: values at chosen quantiles; means within stated bounds; that every shipped table loads;
 * where messages point. Not pinned: that a table is true to its source beyond a few figures. */
#include "base/rng.h"
#include "tests/unit/testing.h"
#include "traces/lengths.h"
#include "traces/trace.h"
#include <dirent.h>
#include <math.h>

static const double three_quantiles[] = {0, 10, 110};

Test(lengths, quantiles_come_out) {
  static const struct {
    LengthDistribution of;
    double u;
    int32_t length;
  } cases[] = {
      {{.kind = LENGTH_TABLE, .quantiles = three_quantiles, .n_quantiles = 3}, 0, 1}, // at least 1
      {{.kind = LENGTH_TABLE, .quantiles = three_quantiles, .n_quantiles = 3}, 0.25, 5},
      {{.kind = LENGTH_TABLE, .quantiles = three_quantiles, .n_quantiles = 3}, 0.5, 10},
      {{.kind = LENGTH_TABLE, .quantiles = three_quantiles, .n_quantiles = 3}, 0.508, 12}, // 11.6
      {{.kind = LENGTH_TABLE, .quantiles = three_quantiles, .n_quantiles = 3}, 1, 110},
      {{.kind = LENGTH_CONSTANT, .mean = 512}, 0.7, 512},
      {{.kind = LENGTH_UNIFORM, .low = 3, .high = 5}, 0, 3},
      {{.kind = LENGTH_UNIFORM, .low = 3, .high = 5}, 0.34, 4},
      {{.kind = LENGTH_UNIFORM, .low = 3, .high = 5}, 0.999, 5},
      {{.kind = LENGTH_UNIFORM, .low = 3, .high = 5}, 1, 5},
      // median exp(ln 100 - 1/2) = 60.65
      {{.kind = LENGTH_LOGNORMAL, .mean = 100, .sigma = 1}, 0.5, 61},
      {{.kind = LENGTH_LOGNORMAL, .mean = 100, .sigma = 1, .low = 80}, 0.5, 80},
      {{.kind = LENGTH_LOGNORMAL, .mean = 100, .sigma = 1, .high = 40}, 0.5, 40},
      {{.kind = LENGTH_LOGNORMAL, .mean = 1e7, .sigma = 10}, 1, TRACE_TOKENS_MAX},
      {{.kind = LENGTH_LOGNORMAL, .mean = 1, .sigma = 10}, 0, 1},
      {{.kind = LENGTH_EXPONENTIAL, .mean = 1}, 0.9, 1},
      // P(length <= k) = 1 - 0.5^k
      {{.kind = LENGTH_EXPONENTIAL, .mean = 2}, 0.49, 1},
      {{.kind = LENGTH_EXPONENTIAL, .mean = 2}, 0.51, 2},
      {{.kind = LENGTH_EXPONENTIAL, .mean = 2}, 0.76, 3},
      {{.kind = LENGTH_EXPONENTIAL, .mean = 1e7}, 1, TRACE_TOKENS_MAX},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    LengthSampler sampler;
    length_sampler_init(&sampler, &cases[i].of);
    cr_expect_eq(length_at(&sampler, cases[i].u), cases[i].length, "case %zu: %d, not %d", i,
                 length_at(&sampler, cases[i].u), cases[i].length);
  }
}

/* Mean over an even grid of quantiles, which integrates the distribution. */
static double grid_mean(const LengthDistribution *of) {
  enum { POINTS = 200000 };
  LengthSampler sampler;
  length_sampler_init(&sampler, of);
  double sum = 0;
  for (int i = 0; i < POINTS; i++)
    sum += length_at(&sampler, (i + 0.5) / POINTS);
  return sum / POINTS;
}

Test(lengths, distributions_have_the_mean_they_are_given) {
  static const LengthDistribution cases[] = {
      {.kind = LENGTH_CONSTANT, .mean = 7},
      {.kind = LENGTH_LOGNORMAL, .mean = 120, .sigma = 0.9},
      {.kind = LENGTH_EXPONENTIAL, .mean = 1},
      {.kind = LENGTH_EXPONENTIAL, .mean = 1.5},
      {.kind = LENGTH_EXPONENTIAL, .mean = 100},
      {.kind = LENGTH_UNIFORM, .mean = 150, .low = 100, .high = 200},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    cr_expect_float_eq(grid_mean(&cases[i]), cases[i].mean, cases[i].mean / 1000, "case %zu: %g", i,
                       grid_mean(&cases[i]));
}

/* The means of the Azure traces, which a coarse table would miss by up to a fifth. */
Test(lengths, the_azure_tables_keep_medians_and_means) {
  static const struct {
    const char *name;
    double prompt_mean, output_mean;
    int32_t prompt_p50, output_p50;
  } cases[] = {
      {"azure-conv-2023", 1154.7, 211.1, 1020, 129},
      {"azure-code-2023", 2047.8, 27.88, 1469, 13},
  };
  for (int i = 0; i < 2; i++) {
    setup();
    const char *name = arena_printf(&arena, "traces/lengths/%s.csv", cases[i].name);
    const char *path = data_path("TANDEM_SOURCE_DIR", name, &arena);
    cr_assert_not_null(path);
    LengthDistribution prompt, output;
    LengthSampler sampler;
    cr_assert_eq(lengths_load(path, &prompt, &output, &arena, &diag), 0);
    length_sampler_init(&sampler, &prompt);
    cr_expect_eq(length_at(&sampler, 0.5), cases[i].prompt_p50);
    length_sampler_init(&sampler, &output);
    cr_expect_eq(length_at(&sampler, 0.5), cases[i].output_p50);
    cr_expect_float_eq(grid_mean(&prompt), cases[i].prompt_mean, 0.015 * cases[i].prompt_mean);
    cr_expect_float_eq(grid_mean(&output), cases[i].output_mean, 0.015 * cases[i].output_mean);
    teardown();
  }
}

Test(lengths, every_table_that_ships_loads) {
  setup();
  const char *folder = data_path("TANDEM_SOURCE_DIR", "traces/lengths", &arena);
  cr_assert_not_null(folder);
  DIR *listing = opendir(folder);
  const struct dirent *entry = NULL;
  int n = 0;
  while ((entry = readdir(listing))) {
    if (!strstr(entry->d_name, ".csv")) continue;
    const char *path = arena_printf(&arena, "%s/%s", folder, entry->d_name);
    LengthDistribution prompt, output;
    cr_expect_eq(lengths_load(path, &prompt, &output, &arena, &diag), 0, "%s", entry->d_name);
    n++;
  }
  closedir(listing);
  cr_expect_geq(n, 12);
  teardown();
}

Test(lengths, bad_tables_are_located) {
  static const struct {
    const char *text;
    int line, column;
    const char *part;
  } cases[] = {
      {"# only this\n", 0, 0, "must run"},
      {"q,prompt,output\n0,1,1\n", 0, 0, "must run"},
      {"q,prompt,output\n0,1,1\n50,1,1\n", 0, 0, "must run"},
      {"q;prompt;output\n", 1, 1, "header"},
      {"q,prompt,output\n0,1\n", 2, 1, "expected 3 fields"},
      {"q,prompt,output\n1,1,1\n", 2, 1, "'q' must be in equal steps from 0"},
      {"q,prompt,output\n0,1,1\n50,1,1\n99,1,1\n", 4, 1, "in equal steps"},
      {"q,prompt,output\n0,1,1\n0,1,1\n", 3, 1, "in equal steps"},
      {"q,prompt,output\n0,1,1\n# x\n100,1,0.5\n", 4, 7, "at least the value of the row before"},
      {"q,prompt,output\n0,1,1\n100,x,2\n", 3, 5, "'prompt' must be a number"},
      {"q,prompt,output\n0,1,1\n100,3e9,2\n", 3, 5, "'prompt' must be a number"},
      {"q,prompt,output\n0,1,1\n100,3000000000,2\n", 3, 5, "'prompt' must be"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    setup();
    const char *path = temp_file(cases[i].text, strlen(cases[i].text), &arena);
    LengthDistribution prompt, output;
    cr_expect_eq(lengths_load(path, &prompt, &output, &arena, &diag), -1);
    expect_entry(&diag, 0, cases[i].line, cases[i].column, cases[i].part, cases[i].text);
    unlink(path);
    teardown();
  }
}

static int bind(const char *text, LengthDistribution ret[2]) {
  const Node *node = yaml_parse("w", text, strlen(text), &arena, &diag);
  cr_assert_not_null(node, "%s", text);
  return lengths_bind(node, getenv("TANDEM_SOURCE_DIR"), NULL, &ret[0], &ret[1], &arena, &diag);
}

Test(lengths, all_forms_of_the_key_are_read) {
  static const struct {
    const char *text;
    double prompt_mean, output_mean;
  } cases[] = {
      {"{prompt: {constant: 512}, output: {uniform: [100, 200]}}", 512, 150},
      {"{prompt: {exponential: {mean: 100}}, output: {lognormal: {mean: 120, sigma: 0.9}}}", 100,
       120},
      {"{prompt: {exponential: {mean: 100, min: 7, max: 7}}, output: {constant: 1k}}", 7, 1000},
      {"{prompt: {table: azure-conv-2023}, output: {table: azure-code-2023}}", 1157.7, 28.17},
      {"azure-code-2023", 2047.7, 28.17},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    setup();
    LengthDistribution of[2];
    cr_assert_eq(bind(cases[i].text, of), 0, "%s", cases[i].text);
    cr_expect_float_eq(grid_mean(&of[0]), cases[i].prompt_mean, cases[i].prompt_mean / 1000);
    cr_expect_float_eq(grid_mean(&of[1]), cases[i].output_mean, cases[i].output_mean / 1000);
    teardown();
  }
}

Test(lengths, a_table_may_be_a_path) {
  setup();
  static const char text[] = "# made here\nq,prompt,output\r\n0,2,4\n100,2,4";
  const char *plain = temp_file(text, strlen(text), &arena);
  const char *path = arena_printf(&arena, "%s.csv", plain);
  cr_assert_eq(rename(plain, path), 0);
  LengthDistribution of[2];
  cr_assert_eq(bind(path, of), 0);
  cr_expect(grid_mean(&of[0]) == 2 && grid_mean(&of[1]) == 4);
  unlink(path);
  cr_expect_eq(bind(path, of), -1);
  cr_expect_eq(diag_exit_code(&diag), 4);
  teardown();
}

Test(lengths, wrong_forms_are_located) {
  static const struct {
    const char *text;
    int column;
    const char *part;
  } cases[] = {
      {"[1, 2]", 1, "a name or the path"},
      {"../lengths/sharegpt", 1, "unknown table"},
      {"{prompt: {constant: 1}}", 1, "output"},
      {"{prompt: {constant: 1}, output: 3}", 33, "'output' must be a map with one distribution"},
      {"{prompt: {constant: 1, uniform: [1, 2]}, output: {constant: 1}}", 10, "one distribution"},
      {"{prompt: {constant: 0}, output: {constant: 1}}", 21, "'constant' must be from 1"},
      {"{prompt: {constant: 1.5}, output: {constant: 1}}", 21, "'constant' must be a whole number"},
      {"{prompt: {normal: 0}, output: {constant: 1}}", 11, "unknown distribution 'normal'"},
      {"{prompt: {uniform: 3}, output: {constant: 1}}", 20, "a list of two lengths"},
      {"{prompt: {uniform: [3, 1]}, output: {constant: 1}}", 20, "is above the high end"},
      {"{prompt: {lognormal: {mean: 3}}, output: {constant: 1}}", 11, "sigma"},
      {"{prompt: {exponential: {mean: 3, sigma: 1}}, output: {constant: 1}}", 34, "sigma"},
      {"{prompt: {exponential: {mean: 3, min: 3, max: 2}}, output: {constant: 1}}", 24,
       "'min' is above 'max'"},
      {"{prompt: {table: {a: 1}}, output: {constant: 1}}", 18, "a name or the path"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    setup();
    LengthDistribution of[2];
    cr_expect_eq(bind(cases[i].text, of), -1, "%s", cases[i].text);
    expect_entry(&diag, 0, 1, cases[i].column, cases[i].part, cases[i].text);
    teardown();
  }
}
