/* What compare says of means: t quantiles against published tables, paired and unpaired differences
 * worked by hand, Holm's step-down procedure on the example of its name. */
#include "experiments/base/difference.h"
#include "experiments/base/student.h"
#include <criterion/criterion.h>
#include <math.h>

TestSuite(difference);

static const bool all_new[8];
#define OF(array) (&(Values){array, all_new, sizeof array / sizeof *array})

#define NEAR(value, wanted, within)                                                                \
  cr_expect(fabs((value) - (wanted)) <= (within), "%.9g, not %.9g", (double)(value), wanted)

Test(difference, quantiles_are_those_of_tables) {
  static const double table[][2] = {{1, 12.7062}, {2, 4.3027}, {10, 2.2281}, {30, 2.0423}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    NEAR(student_quantile(table[i][0]), table[i][1], 5e-5);
    NEAR(student_p(-table[i][1], table[i][0]), 0.05, 1e-5);
  }
  cr_expect(isnan(student_quantile(0)) && isnan(student_quantile(NAN)));
}

/* Differences 1, 2, 1, 3: mean 1.75, variance 2.75 / 3, t(3) = 3.1824; p by t's closed form for
 * three degrees of freedom. */
Test(difference, pairs_by_hand) {
  static const double a[] = {10, 12, NAN, 14, 16, 3}, b[] = {11, 14, 7, 15, 19, NAN};
  const Difference got = difference_paired(OF(a), OF(b));
  cr_expect_eq(got.n, 4);
  NEAR(got.a, 13.0, 1e-12);
  NEAR(got.b, 14.75, 1e-12);
  NEAR(got.value, 1.75, 1e-12);
  NEAR(got.half_width, 1.523480, 2e-6);
  NEAR(got.p, 0.03535285, 1e-6);
}

/* Squared errors 5/3 and 3.2, so Satterthwaite's degrees are 6.794. */
Test(difference, replicates_without_partners_by_hand) {
  static const double a[] = {10, 12, 14, 16}, b[] = {11, 14, 15, 19, 21, NAN};
  const Difference got = difference_unpaired(OF(a), OF(b));
  cr_expect_eq(got.n, 4);
  NEAR(got.value, 3.0, 1e-12);
  NEAR(got.half_width, student_quantile(6.7943051) * sqrt(5.0 / 3 + 3.2), 1e-6);
}

Test(difference, few_and_equal_values) {
  static const double a[] = {1, 2, 3}, same[] = {1, 2, 3 + 1e-15}, more[] = {2, 3, 4};
  const Values first = {a, all_new, 1}, none = {a, all_new, 0};
  cr_expect(isnan(difference_paired(&first, OF(more)).half_width));
  cr_expect(difference_paired(&first, OF(more)).value == 1);
  cr_expect(isnan(difference_unpaired(&first, OF(more)).half_width));
  cr_expect(isnan(difference_paired(&none, &none).value));
  const Difference equal = difference_paired(OF(a), OF(same)),
                   shifted = difference_paired(OF(a), OF(more));
  cr_expect(equal.value == 0 && equal.half_width == 0 && equal.p == 1);
  cr_expect(shifted.value == 1 && shifted.half_width == 0 && shifted.p == 0);
}

/* Each of two outcomes three times over says what it says once: the mean, the interval and p. */
Test(difference, equal_outcomes_are_one_observation) {
  static const double a[] = {1, 4, 1, 4, 1, 4}, b[] = {2, 9, 2, 9, 2, 9};
  static const bool again[] = {false, false, true, true, true, true};
  static const bool all[] = {false, true, true, true, true, true};
  const Values of_a = {a, again, 6}, of_b = {b, again, 6}, once_a = {a, again, 2},
               once_b = {b, again, 2};
  for (int paired = 0; paired < 2; paired++) {
    const Difference got =
        paired ? difference_paired(&of_a, &of_b) : difference_unpaired(&of_a, &of_b);
    const Difference once =
        paired ? difference_paired(&once_a, &once_b) : difference_unpaired(&once_a, &once_b);
    cr_expect(got.n == 6 && got.different == 2 && once.n == 2 && once.different == 2);
    NEAR(got.value, once.value, 1e-12);
    NEAR(got.half_width, once.half_width, 1e-9);
    NEAR(got.p, once.p, 1e-12);
  }
  // Chance may give one outcome twice: the mean stays that of all seeds.
  static const double rare[] = {0, 0, 0, 8}, zero[] = {0, 0, 0, 0};
  static const bool but_one[] = {false, true, true, false};
  const Difference some =
      difference_paired(&(Values){zero, but_one, 4}, &(Values){rare, but_one, 4});
  cr_expect(some.value == 2 && some.different == 2);
  NEAR(some.half_width, student_quantile(1) * sqrt(48.0 / 4), 1e-9);
  const Values same_a = {a, all, 6}, same_b = {b, all, 6};
  cr_expect(isnan(difference_paired(&same_a, &same_b).half_width));
  cr_expect(isnan(difference_unpaired(&same_a, &of_b).half_width));
  cr_expect(isnan(difference_paired(&same_a, &same_b).p));
}

/* 0.005 and 0.01 are below 5% / 4 and 5% / 3; 0.03 is not below 5% / 2, which ends it. */
Test(difference, what_holds_for_all_at_once) {
  const Difference all[] = {{.p = 0.01}, {.p = 0.04}, {.p = NAN}, {.p = 0.03}, {.p = 0.005}};
  bool hold[5];
  difference_hold(all, 5, hold);
  cr_expect(hold[0] && !hold[1] && !hold[2] && !hold[3] && hold[4]);
}
