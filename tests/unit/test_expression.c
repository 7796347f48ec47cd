/* Arithmetic over figures. Pinned: values, precedence, what a missing figure does, and that every
 * mistake is found where it stands. */
#include "experiments/claims/expression.h"
#include "tests/unit/testing.h"
#include <math.h>

TestSuite(expression, .init = setup, .fini = teardown);

/* two is 2, a.b.c 5, square(x) x², gone has no value; no other figure exists. */
static int find(void *context, const char *name, const double *arguments, int n_arguments, Place at,
                double *ret_value, Diag *to) {
  (void)context;
  if (strcmp(name, "two") == 0 && n_arguments == 0) return *ret_value = 2, 0;
  if (strcmp(name, "a.b.c") == 0 && n_arguments == 0) return *ret_value = 5, 0;
  if (strcmp(name, "gone") == 0) return *ret_value = NAN, 0;
  if (strcmp(name, "square") == 0 && n_arguments == 1)
    return *ret_value = arguments[0] * arguments[0], 0;
  return diag_error(to, at, "no figure '%s'", name);
}

static const Place somewhere = {.path = "claim.yaml", .line = 3, .column = 10, .width = 1};

static int eval(const char *text, double *ret_value) {
  const ExpressionScope scope = {find, NULL};
  return expression_eval(&(Expression){text, somewhere}, &scope, ret_value, &diag);
}

Test(expression, values) {
  static const struct {
    const char *text;
    double value;
  } cases[] = {
      {"1", 1},
      {" 2.5e1 ", 25},
      {"14%", 0.14},
      {"1 + 2 * 3", 7},
      {"(1 + 2) * 3", 9},
      {"8 - 4 - 2", 2},
      {"8 / 4 / 2", 1},
      {"-two + 1", -1},
      {"2 * -two", -4},
      {"a.b.c / two - 1", 1.5},
      {"square(3) + square(two)", 13},
      {"1 < 2", 1},
      {"2 <= 1", 0},
      {"2 >= 2 and 1 > 2", 0},
      {"1 < 2 and two > 1", 1},
      {"min(3, two, 4)", 2},
      {"max(3, two, 4)", 4},
      {"mean(3, two, 4)", 3},
      {"geomean(1, 4)", 2},
      {"at_max(1, 5, 2, 7, 3, 7)", 2},
      {"at_max(9, 1)", 9},
      {"reaches(6, 1, 5, 3, 7, 4, 9)", 2},
      {"reaches(8, 1, 5, 3, 7, 4, 9)", 3.5},
      {"reaches(3, 1, 5, 3, 7)", 1},
      {"reaches(6, 1, 5, 2, 4, 3, 7)", 2 + 2.0 / 3},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double value = NAN;
    cr_expect_eq(eval(cases[i].text, &value), 0, "%s", cases[i].text);
    cr_expect(fabs(value - cases[i].value) < 1e-12, "%s is %g", cases[i].text, value);
  }
}

Test(expression, what_needs_a_missing_figure_is_missing) {
  static const char *const cases[] = {"gone",
                                      "gone + 1",
                                      "two < gone",
                                      "min(gone, 1)",
                                      "geomean(1, gone)",
                                      "max(1, gone)",
                                      "-gone",
                                      "at_max(1, 2, 3, gone)",
                                      "at_max(1, 2, 3)",
                                      "reaches(9, 1, 2, 3, 4)",
                                      "reaches(1, gone, 2)"};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double value = 0;
    cr_expect_eq(eval(cases[i], &value), 0, "%s", cases[i]);
    cr_expect(isnan(value), "%s is %g", cases[i], value);
  }
}

Test(expression, mistakes_are_found_where_they_stand) {
  static const struct {
    const char *text, *message;
    int column;
  } cases[] = {
      {"", "expected a number or a name at the end of ''", 10},
      {"1 +", "expected a number or a name at the end of '1 +'", 13},
      {"1 2", "expected an operator at '2' of '1 2'", 12},
      {"(1", "expected ')' at the end of '(1'", 12},
      {"square(1 2)", "expected ',' or ')' at '2)' of 'square(1 2)'", 19},
      {"1 + nobody", "no figure 'nobody'", 14},
      {"square(1, 2)", "no figure 'square'", 10},
      {"1 & 2", "expected an operator at '& 2' of '1 & 2'", 12},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double value;
    diag.n_entries = 0;
    cr_assert_eq(eval(cases[i].text, &value), -1, "%s", cases[i].text);
    cr_assert_eq(diag.n_entries, 1);
    cr_expect_str_eq(diag.entries[0].message, cases[i].message);
    cr_expect_eq(diag.entries[0].at.column, cases[i].column, "%s: %d", cases[i].text,
                 diag.entries[0].at.column);
  }
}

Test(expression, nesting_is_bounded) {
  char text[4096] = "";
  double value;
  for (int i = 0; i < 100; i++)
    strcat(text, "min(1, 2, 3, ");
  cr_expect_eq(eval(text, &value), -1);
  cr_expect_neq(strstr(diag.entries[0].message, "nested too deeply"), NULL);
  memset(text, '(', sizeof text);
  text[sizeof text - 1] = '\0';
  cr_expect_eq(eval(text, &value), -1);
  memset(text, '-', sizeof text - 1);
  cr_expect_eq(eval(text, &value), -1);
}
