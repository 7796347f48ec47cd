/* JSON (RFC 8259) and CSV (RFC 4180), value by value. */
#include "experiments/base/writer.h"
#include "base/csv.h"
#include "base/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REPLACEMENT = 0xfffd }; // what Unicode has for bytes that are no text

const char *const format_names[] = {"table", "csv", "json", NULL};

static const double WHOLE_MAX = 9007199254740992.0; // 2^53: whole numbers are exact up to here

void write_number(double value, const char *missing, FILE *out) {
  if (!isfinite(value))
    fputs(missing, out);
  else if (value == floor(value) && fabs(value) <= WHOLE_MAX)
    fprintf(out, "%.0f", value);
  else
    fprintf(out, "%.9g", value);
}

void write_json_value(const char *before, const char *key, double value, FILE *out) {
  fprintf(out, "%s\"%s\": ", before, key);
  write_number(value, "null", out);
}

void write_json_text(const char *before, const char *key, const char *text, FILE *out) {
  fprintf(out, "%s\"%s\": ", before, key);
  if (text)
    write_json_string(text, out);
  else
    fputs("null", out);
}

void write_csv_figure(const char *scope, const char *name, const char *statistic, double value,
                      const char *unit, FILE *out) {
  csv_put_text(scope, out);
  fprintf(out, ",%s,%s,", name, statistic);
  write_number(value, "", out);
  fprintf(out, ",%s\n", unit);
}

void write_json_string(const char *text, FILE *out) {
  putc('"', out);
  for (size_t length = strlen(text), size = 1; length > 0; text += size, length -= size) {
    uint32_t code = REPLACEMENT;
    size = (size_t)text_decode(text, length, &code);
    if (code == '"' || code == '\\')
      fprintf(out, "\\%c", (char)code);
    else if (size == 0 || code < ' ' || (code >= 0x7f && code < 0xa0))
      fprintf(out, "\\u%04x", (unsigned)code);
    else
      fwrite(text, 1, size, out);
    if (size == 0) size = 1;
  }
  putc('"', out);
}

void write_cell(const char *text, int width, FILE *out) {
  const int pad = abs(width) - text_width(text);
  if (width > 0) fprintf(out, "%*s", pad > 0 ? pad : 0, "");
  text_put(out, text, strlen(text), '?');
  if (width < 0) fprintf(out, "%*s", pad > 0 ? pad : 0, "");
}

const char *format_margin(double margin, int decimals, char text[32]) {
  enum { FAR = 100 };
  if (isnan(margin)) return strcpy(text, "-");
  if (margin < -FAR) return strcpy(text, ">100x");
  snprintf(text, 32, "%.*f%%", decimals, 100 * margin);
  return text;
}

const char *format_count(double value, char text[32]) {
  char digits[24];
  int n = snprintf(digits, sizeof digits, "%.0f", value), at = 0;
  for (int i = 0; i < n; i++) {
    if (i > 0 && (n - i) % 3 == 0) text[at++] = ',';
    text[at++] = digits[i];
  }
  text[at] = '\0';
  return text;
}

const char *format_amount(double value, char text[32]) {
  if (isnan(value)) return strcpy(text, "-");
  int length = snprintf(text, 32, "%.2f", value);
  while (text[length - 1] == '0')
    length--;
  text[text[length - 1] == '.' ? length - 1 : length] = '\0';
  return text;
}

const char *format_duration(double seconds, char text[32]) {
  static const struct {
    double scale;
    const char *unit;
  } units[] = {{1e-6, "us"}, {1e-3, "ms"}, {1, "s"}, {60, "min"}, {3600, "h"}};
  if (isnan(seconds)) return strcpy(text, "-");
  int u = 0;
  while (u < 2 && seconds >= 0.9995 * units[u + 1].scale)
    u++;
  while (u >= 2 && u < 4 && seconds >= 10 * units[u + 1].scale)
    u++;
  double scaled = seconds / units[u].scale;
  int decimals = scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0;
  snprintf(text, 32, "%.*f %s", seconds > 0 ? decimals : 0, scaled, units[u].unit);
  return text;
}

void format_batch(const BatchShape *batch, char *text, size_t size) {
  const struct {
    const char *name;
    int64_t value;
  } numbers[] = {{"P", batch->prefill_tokens},
                 {"2A", batch->prefill_area2},
                 {"n", batch->decode_seqs},
                 {"C", batch->context_tokens},
                 {"s", batch->logit_seqs}};
  size_t used = 0;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers && used < size; i++)
    if (numbers[i].value > 0)
      used += (size_t)snprintf(text + used, size - used, "%s%s=%lld", used > 0 ? " " : "",
                               numbers[i].name, (long long)numbers[i].value);
}
