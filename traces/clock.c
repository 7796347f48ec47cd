/* Dates of the Gregorian calendar and decimal numbers, read by hand: exact, and the same in every
 * locale. Digits beyond a tick are left out. */
#include "traces/clock.h"
#include "base/text.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

static const struct {
  const char *name;
  int64_t per_second; // 0: a date
} clocks[CLOCKS] = {
    [CLOCK_AUTO] = {"a date such as '2024-05-10T12:00:00Z' or a number", 0},
    [CLOCK_ISO] = {"a time such as '2023-11-16 18:15:46.6805900'", 0},
    [CLOCK_S] = {"a number of seconds", 1},
    [CLOCK_MS] = {"a number of milliseconds", 1000},
    [CLOCK_US] = {"a number of microseconds", 1000000},
    [CLOCK_NS] = {"a number of nanoseconds", 1000000000},
    [CLOCK_EPOCH_S] = {"a number of seconds", 1},
    [CLOCK_EPOCH_MS] = {"a number of milliseconds", 1000},
    [CLOCK_EPOCH_US] = {"a number of microseconds", 1000000},
    [CLOCK_EPOCH_NS] = {"a number of nanoseconds", 1000000000},
};

const char *const clock_choices[] = {"auto",    "iso8601",  "s",        "ms",       "us", "ns",
                                     "epoch_s", "epoch_ms", "epoch_us", "epoch_ns", NULL};

bool clock_is_wall(TraceClock clock) {
  return clock == CLOCK_ISO || clock >= CLOCK_EPOCH_S;
}

const char *clock_name(TraceClock clock) {
  return clocks[clock].name;
}

#define SINCE_1970_S 1e8 // more seconds are taken to be since then

/* ---- Dates ---- */

/* Days from 1970-01-01 to a date of the Gregorian calendar. Years are counted from March, so that
 * the leap day is a year's last; month lengths from March follow (153 m + 2) / 5. */
static int64_t days_since_1970(int64_t year, int64_t month, int64_t day) {
  int64_t y = month > 2 ? year : year - 1;
  int64_t m = month > 2 ? month - 3 : month + 9;
  int64_t days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
  return days - 719468; // of 1970-01-01, counted from 0000-03-01
}

/* A run of digits at a fixed place, and the range of its value. */
typedef struct Digits {
  int offset, width, low, high;
} Digits;

static bool read_digits(const char *text, Digits digits, int64_t *ret_value) {
  Field field = {text + digits.offset, digits.width};
  return field_decimal(field, 0, ret_value) && *ret_value >= digits.low &&
         *ret_value <= digits.high;
}

/* An offset from UTC, Z, +hh, +hhmm or +hh:mm, or none, in seconds. */
static bool read_zone(Field zone, int64_t *ret_seconds) {
  int64_t hours = 0, minutes = 0;
  *ret_seconds = 0;
  if (zone.length == 0 || field_is(zone, "Z") || field_is(zone, "z")) return true;
  const bool colon = zone.length == 6 && zone.text[3] == ':';
  if (!colon && zone.length != 3 && zone.length != 5) return false;
  if (!read_digits(zone.text, (Digits){1, 2, 0, 23}, &hours)) return false;
  if (zone.length > 3 && !read_digits(zone.text, (Digits){3 + colon, 2, 0, 59}, &minutes))
    return false;
  *ret_seconds = (hours * 60 + minutes) * (zone.text[0] == '-' ? -60 : 60);
  return true;
}

static int count_digits(Field field, int from) {
  int i = from;
  while (i < field.length && isdigit((unsigned char)field.text[i]))
    i++;
  return i - from;
}

/* What digits behind a point are in ticks, of which `unit` is one before it. */
static Tick read_fraction(const char *digits, int n, Tick unit) {
  Tick ticks = 0;
  for (int i = 0; i < n && unit > 1; i++)
    ticks += (digits[i] - '0') * (unit /= 10);
  return ticks;
}

static bool has_layout(Field field, const char *layout) {
  if (field.length < (int)strlen(layout)) return false;
  for (int i = 0; layout[i]; i++) {
    const char c = field.text[i];
    const bool fits = layout[i] == 'T' ? c == 'T' || c == 't' || c == ' ' : c == layout[i];
    if (layout[i] != 'd' && !fits) return false;
  }
  return true;
}

static bool read_date(Field field, TraceTime *ret_time) {
  static const char layout[] = "dddd-dd-ddTdd:dd:dd";
  static const Digits parts[] = {{0, 4, 1, 9999}, {5, 2, 1, 12},  {8, 2, 1, 31},
                                 {11, 2, 0, 23},  {14, 2, 0, 59}, {17, 2, 0, 59}};
  enum { LENGTH = sizeof layout - 1 };
  if (!has_layout(field, layout)) return false;
  int64_t part[6], offset = 0;
  for (int i = 0; i < 6; i++)
    if (!read_digits(field.text, parts[i], &part[i])) return false;
  const int64_t day = days_since_1970(part[0], part[1], part[2]);
  const int64_t next_month =
      part[1] == 12 ? days_since_1970(part[0] + 1, 1, 1) : days_since_1970(part[0], part[1] + 1, 1);
  if (day >= next_month) return false;
  int at = LENGTH, n = 0;
  if (at < field.length && (field.text[at] == '.' || field.text[at] == ',')) {
    n = count_digits(field, ++at);
    if (n == 0) return false;
  }
  const Field zone = {field.text + at + n, field.length - at - n};
  if (!read_zone(zone, &offset)) return false;
  ret_time->seconds = ((day * 24 + part[3]) * 60 + part[4]) * 60 + part[5] - offset;
  ret_time->fraction = read_fraction(field.text + at, n, TICKS_PER_SECOND);
  return true;
}

/* ---- Numbers ---- */

static bool read_number(Field field, int64_t per_second, TraceTime *ret_time) {
  const int n = count_digits(field, 0);
  const bool point = n < field.length && field.text[n] == '.';
  const int decimals = point ? count_digits(field, n + 1) : 0;
  int64_t whole = 0;
  if (n > 0 && n + point + decimals == field.length && (!point || decimals > 0)) {
    if (!field_decimal((Field){field.text, n}, 0, &whole)) return false;
    const Tick unit = TICKS_PER_SECOND / per_second;
    ret_time->seconds = whole / per_second;
    ret_time->fraction =
        whole % per_second * unit + read_fraction(field.text + n + 1, decimals, unit);
    return true;
  }
  double number = 0;
  if (!field_real(field, &number)) return false;
  const double seconds = floor(number / (double)per_second);
  if (!(seconds >= 0 && seconds < 1e15)) return false;
  ret_time->seconds = (int64_t)seconds;
  ret_time->fraction = tick_from_seconds(number / (double)per_second - seconds);
  if (ret_time->fraction == TICKS_PER_SECOND) ret_time->fraction--;
  return true;
}

TraceClock clock_of_name(const char *name) {
  static const struct {
    const char *end;
    TraceClock clock;
  } ends[] = {{"_s", CLOCK_S},   {"_sec", CLOCK_S}, {"_seconds", CLOCK_S},
              {"_ms", CLOCK_MS}, {"_us", CLOCK_US}, {"_ns", CLOCK_NS}};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (text_ends_with(name, ends[i].end)) return ends[i].clock;
  return CLOCK_AUTO;
}

/* A number of seconds, or of that unit, since 1970 or from a zero of the file's own. */
static TraceClock clock_in(TraceClock unit, double number) {
  const double seconds = number / (double)clocks[unit].per_second;
  return seconds < SINCE_1970_S ? unit : (TraceClock)(unit + CLOCK_EPOCH_S - CLOCK_S);
}

TraceClock clock_of(Field field, TraceClock unit) {
  static const struct {
    double below;
    TraceClock clock;
  } magnitudes[] = {{SINCE_1970_S, CLOCK_S},
                    {1e11, CLOCK_EPOCH_S},
                    {1e14, CLOCK_EPOCH_MS},
                    {1e17, CLOCK_EPOCH_US},
                    {1e20, CLOCK_EPOCH_NS}};
  TraceTime time;
  double number = 0;
  if (read_date(field, &time)) return CLOCK_ISO;
  if (!field_real(field, &number) || number < 0) return CLOCK_AUTO;
  if (unit != CLOCK_AUTO) return clock_in(unit, number);
  for (size_t i = 0; i < sizeof magnitudes / sizeof *magnitudes; i++)
    if (number < magnitudes[i].below) return magnitudes[i].clock;
  return CLOCK_AUTO;
}

bool clock_read(TraceClock clock, Field field, TraceTime *ret_time) {
  return clock == CLOCK_ISO ? read_date(field, ret_time)
                            : read_number(field, clocks[clock].per_second, ret_time);
}
