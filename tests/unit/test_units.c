/* Pinned: what each unit is worth, what is refused, rounding to ticks, and that formatted text
 * reads back. Not pinned: how many digits a formatted value has beyond four. */
#include "base/rng.h"
#include "base/units.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

Test(units, text_is_read_in_the_base_unit_of_its_dimension) {
  static const struct {
    const char *text;
    Dimension dimension;
    double value;
  } CASES[] = {
      {"8192", DIM_NONE, 8192},
      {"-3", DIM_NONE, -3},
      {"1e6", DIM_NONE, 1e6},
      {"2k", DIM_NONE, 2000},
      {"2 Ki", DIM_NONE, 2048},
      {".5", DIM_NONE, 0.5},
      {"5.", DIM_NONE, 5},
      {"95%", DIM_NONE, 0.95},
      {"57 %", DIM_NONE, 0.57},
      {"+1.5E+2M", DIM_NONE, 1.5e8},
      {"120 s", DIM_TIME, 120},
      {"120s", DIM_TIME, 120},
      {"3 ps", DIM_TIME, 3e-12},
      {"3 ns", DIM_TIME, 3e-9},
      {"5 us", DIM_TIME, 5e-6},
      {"1.5 ms", DIM_TIME, 1.5e-3},
      {"2 min", DIM_TIME, 120},
      {"2\th", DIM_TIME, 7200},
      {"1 d", DIM_TIME, 86400},
      {"7 B", DIM_BYTES, 7},
      {"80 GB", DIM_BYTES, 80e9},
      {"80 GiB", DIM_BYTES, 85899345920},
      {"1 TiB", DIM_BYTES, 1099511627776},
      {"2 KiB", DIM_BYTES, 2048},
      {"400 GB/s", DIM_BANDWIDTH, 400e9},
      {"1 MiB/s", DIM_BANDWIDTH, 1048576},
      {"200 Gbps", DIM_BANDWIDTH, 25e9},
      {"8 bps", DIM_BANDWIDTH, 1},
      {"70 /s", DIM_RATE, 70},
      {"90/min", DIM_RATE, 1.5},
      {"7200 /h", DIM_RATE, 2},
      {"700 W", DIM_POWER, 700},
      {"10.2 kW", DIM_POWER, 10200},
      {"2.5 $/h", DIM_MONEY, 2.5},
  };
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    double value = 0;
    cr_assert(units_parse(CASES[i].text, CASES[i].dimension, &value), "'%s' is refused",
              CASES[i].text);
    cr_assert(fabs(value - CASES[i].value) <= 1e-15 * fabs(CASES[i].value), "'%s' is %.17g",
              CASES[i].text, value);
  }
}

Test(units, text_of_another_form_or_dimension_is_refused_and_leaves_the_value) {
  static const struct {
    const char *text;
    Dimension dimension;
  } CASES[] = {
      {"", DIM_NONE},          {" ", DIM_NONE},     {"x", DIM_NONE},      {"1 2", DIM_NONE},
      {" 1", DIM_NONE},        {"1 ", DIM_NONE},    {"0x10", DIM_NONE},   {"inf", DIM_NONE},
      {"nan", DIM_NONE},       {"1e999", DIM_NONE}, {"1e", DIM_NONE},     {".", DIM_NONE},
      {"-", DIM_NONE},         {"1,5", DIM_NONE},   {"1 s", DIM_NONE},    {"120", DIM_TIME},
      {"120 /s", DIM_TIME},    {"120 S", DIM_TIME}, {"1 ks", DIM_TIME},   {"120 s ", DIM_TIME},
      {"80", DIM_BYTES},       {"80 G", DIM_BYTES}, {"80 gb", DIM_BYTES}, {"80 GB/s", DIM_BYTES},
      {"80 Gbps", DIM_BYTES},  {"70 s", DIM_RATE},  {"70", DIM_RATE},     {"1 k/s", DIM_RATE},
      {"5 GB", DIM_BANDWIDTH}, {"5 W", DIM_MONEY},  {"$5", DIM_MONEY},    {"0", DIM_TIME},
      {"5 k%", DIM_NONE},      {"5 %", DIM_TIME},
  };
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    double value = 42;
    cr_assert_not(units_parse(CASES[i].text, CASES[i].dimension, &value), "'%s' is accepted as %g",
                  CASES[i].text, value);
    cr_assert_eq(value, 42);
  }
}

Test(units, seconds_become_the_nearest_tick_halves_away_from_zero) {
  static const struct {
    double seconds;
    Tick ticks;
  } CASES[] = {
      {0, 0},
      {1, TICKS_PER_SECOND},
      {5e-6, 5000000},
      {0.5e-12, 1},
      {-0.5e-12, -1},
      {0.4e-12, 0},
      {2.6e-12, 3},
      {9.2e6, INT64_C(9200000000000000000)},
      {-9.2e6, INT64_C(-9200000000000000000)},
  };
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
    cr_assert_eq(tick_from_seconds(CASES[i].seconds), CASES[i].ticks, "%g s", CASES[i].seconds);
  cr_assert_eq(tick_seconds(TICKS_PER_SECOND / 4), 0.25);
}

Test(units, parts_of_a_fine_tick_are_rounded_down) {
  const int64_t parts[] = {1, 2, 3, 7, 64, 1000003, INT32_MAX};
  const Tick whole[] = {0, 1, 41, TICKS_PER_SECOND, TICK_MAX / 2};
  const uint32_t rest[] = {0, 1, 0x80000000, UINT32_MAX};
  for (size_t n = 0; n < sizeof parts / sizeof *parts; n++)
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
      for (size_t j = 0; j < sizeof rest / sizeof *rest; j++) {
        const FineTick fine = fine_from_ticks(whole[i]) + rest[j], down = parts[n] - 1;
        cr_assert(fine_divide(fine, parts[n]) == fine / parts[n]);
        cr_assert(fine_divide(-fine, parts[n]) == -((fine + down) / parts[n]));
      }
}

Test(units, ticks_are_those_of_llround) {
  Rng rng;
  rng_init(&rng, 1, "ticks");
  for (int i = 0; i < 200000; i++) {
    const double range = i % 2 ? 1e-11 : 1e5; // fractions of ticks, and beyond 2^53 of them
    const double halves = (double)(rng_below(&rng, 41)) / 2 - 10;
    const double seconds = i % 4 == 0 ? halves * 1e-12 : (2 * rng_uniform(&rng) - 1) * range;
    cr_assert_eq(tick_from_seconds(seconds), llround(seconds * 1e12), "%.17g s", seconds);
  }
}

Test(units, values_are_written_in_the_shortest_unit) {
  static const struct {
    double value;
    Dimension dimension;
    const char *text;
  } CASES[] = {
      {0.0015, DIM_TIME, "1.5 ms"},
      {120, DIM_TIME, "120 s"},
      {3600, DIM_TIME, "1 h"},
      {0, DIM_TIME, "0 s"},
      {1e-6, DIM_TIME, "1 us"},
      {-0.05, DIM_TIME, "-50 ms"},
      {85899345920, DIM_BYTES, "80 GiB"},
      {80e9, DIM_BYTES, "80 GB"},
      {25e9, DIM_BANDWIDTH, "25 GB/s"},
      {12.5e9, DIM_BANDWIDTH, "100 Gbps"},
      {70, DIM_RATE, "70 /s"},
      {10200, DIM_POWER, "10.2 kW"},
      {2.5, DIM_MONEY, "2.5 $/h"},
      {65535, DIM_NONE, "65535"},
  };
  char text[64];
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    units_format(text, sizeof text, CASES[i].dimension, CASES[i].value);
    cr_assert_str_eq(text, CASES[i].text);
  }
  units_format(text, 4, DIM_BYTES, 85899345920);
  cr_assert_str_eq(text, "80 ");
}

Test(units, written_values_read_back_to_four_digits) {
  for (int d = DIM_NONE; d <= DIM_MONEY; d++) {
    for (double value = 1e-10; value < 1e15; value *= 3.7) {
      char text[64];
      double back = 0;
      units_format(text, sizeof text, (Dimension)d, value);
      cr_assert(units_parse(text, (Dimension)d, &back), "'%s' does not read back", text);
      cr_assert(fabs(back - value) <= 5.1e-4 * value, "%g became '%s'", value, text);
    }
  }
}

Test(units, each_dimension_describes_itself_by_an_example_it_accepts) {
  for (int d = DIM_NONE; d <= DIM_MONEY; d++) {
    char example[32];
    double value = 0;
    cr_assert_eq(sscanf(units_describe((Dimension)d), "%*[^']'%31[^']'", example), 1);
    cr_assert(units_parse(example, (Dimension)d, &value), "'%s'", example);
  }
}
