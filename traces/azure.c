/* The Azure LLM inference traces of 2023 and 2024 (github.com/Azure/AzurePublicDataset):
 *
 *     TIMESTAMP,ContextTokens,GeneratedTokens
 *     2023-11-16 18:15:46.6805900,374,44
 *
 * Times are wall-clock with up to 7 decimals; the files of 2024 add an offset from UTC (+00:00). */
#include "traces/format.h"

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

/* An offset from UTC, "+hh:mm" or "-hh:mm", in seconds. */
static bool read_utc_offset(const char *text, int64_t *ret_seconds) {
  int64_t hours = 0, minutes = 0;
  if (text[3] != ':' || !read_digits(text, (Digits){1, 2, 0, 23}, &hours) ||
      !read_digits(text, (Digits){4, 2, 0, 59}, &minutes))
    return false;
  *ret_seconds = (hours * 60 + minutes) * (text[0] == '-' ? -60 : 60);
  return true;
}

static bool read_time(Field field, TraceTime *ret_time) {
  static const char layout[] = "dddd-dd-dd dd:dd:";
  static const Digits parts[] = {{0, 4, 1, 9999}, {5, 2, 1, 12},  {8, 2, 1, 31},
                                 {11, 2, 0, 23},  {14, 2, 0, 59}, {17, 2, 0, 59}};
  enum { LENGTH_MIN = 19, UTC_OFFSET = 6 }; // "2023-11-16 18:15:46", "+00:00"
  if (field.length < LENGTH_MIN) return false;
  for (int i = 0; layout[i]; i++)
    if (layout[i] != 'd' && field.text[i] != layout[i]) return false;
  int64_t part[6], offset = 0, ticks = 0;
  for (int i = 0; i < 6; i++)
    if (!read_digits(field.text, parts[i], &part[i])) return false;
  int64_t day = days_since_1970(part[0], part[1], part[2]);
  int64_t next_month =
      part[1] == 12 ? days_since_1970(part[0] + 1, 1, 1) : days_since_1970(part[0], part[1] + 1, 1);
  if (day >= next_month) return false;
  if (field.length >= LENGTH_MIN + UTC_OFFSET) {
    const char *sign = field.text + field.length - UTC_OFFSET;
    if (*sign == '+' || *sign == '-') {
      if (!read_utc_offset(sign, &offset)) return false;
      field.length -= UTC_OFFSET;
    }
  }
  Field seconds = {field.text + parts[5].offset, field.length - parts[5].offset};
  if (!field_decimal(seconds, 12, &ticks)) return false;
  ret_time->seconds = ((day * 24 + part[3]) * 60 + part[4]) * 60 + part[5] - offset;
  ret_time->fraction = ticks % TICKS_PER_SECOND;
  return true;
}

const TraceFormat format_azure = {
    .name = "azure",
    .help = "Azure LLM inference traces 2023 and 2024, CSV",
    .is_wall_clock = true,
    .header = "TIMESTAMP,ContextTokens,GeneratedTokens",
    .time = {0, "TIMESTAMP"},
    .prompt = {1, "ContextTokens"},
    .output = {2, "GeneratedTokens"},
    .n_columns = 3,
    .read_time = read_time,
    .time_is = "a time such as '2023-11-16 18:15:46.6805900'",
};
