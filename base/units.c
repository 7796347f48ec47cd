/* Units are rows of one table: a name, what one of it is worth in the base unit of its dimension,
 * and whether prefixes may stand before it. Reading and writing walk the same rows. */
#include "base/units.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Unit {
  Dimension dimension;
  const char *name;
  double scale;
  bool prefixed;
} Unit;

/* The base unit of a dimension, which is worth 1, comes first among its rows. */
static const Unit UNITS[] = {
    {DIM_NONE, "", 1, true},
    {DIM_NONE, "%", 0.01, false},
    {DIM_TIME, "s", 1, false},
    {DIM_TIME, "ps", 1e-12, false},
    {DIM_TIME, "ns", 1e-9, false},
    {DIM_TIME, "us", 1e-6, false},
    {DIM_TIME, "ms", 1e-3, false},
    {DIM_TIME, "min", 60, false},
    {DIM_TIME, "h", 3600, false},
    {DIM_TIME, "d", 86400, false},
    {DIM_BYTES, "B", 1, true},
    {DIM_BANDWIDTH, "B/s", 1, true},
    {DIM_BANDWIDTH, "bps", 0.125, true},
    {DIM_RATE, "/s", 1, false},
    {DIM_RATE, "/min", 1.0 / 60, false},
    {DIM_RATE, "/h", 1.0 / 3600, false},
    {DIM_POWER, "W", 1, true},
    {DIM_MONEY, "$/h", 1, false},
};

typedef struct Prefix {
  const char *name;
  double scale;
} Prefix;

/* The empty one first: it is the only one for units without prefixes. */
static const Prefix PREFIXES[] = {
    {"", 1},
    {"k", 1e3},
    {"M", 1e6},
    {"G", 1e9},
    {"T", 1e12},
    {"Ki", 1ull << 10},
    {"Mi", 1ull << 20},
    {"Gi", 1ull << 30},
    {"Ti", 1ull << 40},
};

enum {
  N_UNITS = sizeof UNITS / sizeof *UNITS,
  N_PREFIXES = sizeof PREFIXES / sizeof *PREFIXES,
};

static size_t count_digits(const char *text) {
  return strspn(text, "0123456789");
}

/* Length of the decimal number at the start of `text`, 0 if none. strtod alone would take
 * hexadecimal, "inf" and "nan" too. */
static size_t number_length(const char *text) {
  const char *at = text;
  if (*at == '+' || *at == '-') at++;
  size_t whole = count_digits(at);
  at += whole;
  size_t fraction = *at == '.' ? count_digits(at + 1) : 0;
  if (whole + fraction == 0) return 0;
  if (*at == '.') at += 1 + fraction;
  if (*at == 'e' || *at == 'E') {
    const char *exponent = at + 1;
    if (*exponent == '+' || *exponent == '-') exponent++;
    size_t digits = count_digits(exponent);
    if (digits) at = exponent + digits;
  }
  return (size_t)(at - text);
}

/* What `name` is worth, prefix included; 0 when it is no unit of the dimension. */
static double unit_scale(const char *name, Dimension dimension) {
  for (int u = 0; u < N_UNITS; u++) {
    if (UNITS[u].dimension != dimension) continue;
    for (int p = 0; p < (UNITS[u].prefixed ? N_PREFIXES : 1); p++) {
      size_t length = strlen(PREFIXES[p].name);
      if (strncmp(name, PREFIXES[p].name, length) == 0 && !strcmp(name + length, UNITS[u].name))
        return UNITS[u].scale * PREFIXES[p].scale;
    }
  }
  return 0;
}

bool units_parse(const char *text, Dimension dimension, double *ret_value) {
  size_t length = number_length(text);
  if (length == 0) return false;
  double number = strtod(text, NULL);
  const char *unit = text + length + strspn(text + length, " \t");
  if (!*unit && text[length]) return false;
  const double scale = unit_scale(unit, dimension);
  if (scale == 0) return false;
  // 1/100 is no double, 100 is: dividing keeps 57% the same number as 0.57.
  double value = scale < 1 ? number / (1 / scale) : number * scale;
  if (!isfinite(value)) return false;
  *ret_value = value;
  return true;
}

const char *units_describe(Dimension dimension) {
  static const char *const NAMES[] = {
      [DIM_NONE] = "a number such as '8192'",    [DIM_TIME] = "a time such as '120 s'",
      [DIM_BYTES] = "a size such as '80 GiB'",   [DIM_BANDWIDTH] = "a bandwidth such as '200 Gbps'",
      [DIM_RATE] = "a rate such as '70 /s'",     [DIM_POWER] = "a power such as '700 W'",
      [DIM_MONEY] = "a price such as '2.5 $/h'",
  };
  return NAMES[dimension];
}

void units_list(char *out, size_t size, Dimension dimension) {
  size_t used = 0;
  bool prefixed = false;
  const char *comma = "";
  for (int u = 0; u < N_UNITS && used < size; u++) {
    if (UNITS[u].dimension != dimension) continue;
    used += (size_t)snprintf(out + used, size - used, "%s%s", comma,
                             *UNITS[u].name ? UNITS[u].name : "none");
    prefixed |= UNITS[u].prefixed;
    comma = ", ";
  }
  comma = ", alone or after ";
  for (int p = 1; p < N_PREFIXES && prefixed && used < size; p++) {
    used += (size_t)snprintf(out + used, size - used, "%s%s", comma, PREFIXES[p].name);
    comma = ", ";
  }
}

/* Shortest text wins, the base unit among equals: 80 GiB rather than 85.9 GB, 1.5 ms rather than
 * 0.0015 s, 120 s rather than 2 min. Bare numbers stay without suffix, so that limits are exact. */
void units_format(char *out, size_t size, Dimension dimension, double value) {
  char best[64] = "";
  if (dimension == DIM_NONE) snprintf(best, sizeof best, "%.15g", value);
  for (int u = 0; u < N_UNITS && dimension != DIM_NONE; u++) {
    if (UNITS[u].dimension != dimension) continue;
    for (int p = 0; p < (UNITS[u].prefixed ? N_PREFIXES : 1); p++) {
      char text[64];
      double scaled = value / (UNITS[u].scale * PREFIXES[p].scale);
      snprintf(text, sizeof text, "%.4g %s%s", scaled, PREFIXES[p].name, UNITS[u].name);
      if (!*best || strlen(text) < strlen(best)) memcpy(best, text, sizeof best);
    }
  }
  snprintf(out, size, "%s", best);
}
