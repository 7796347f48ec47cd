/* JSON (RFC 8259) and CSV (RFC 4180), value by value. */
#include "experiments/writer.h"
#include <math.h>
#include <string.h>

static const double WHOLE_MAX = 9007199254740992.0; // 2^53: whole numbers are exact up to here

static void write_number(double value, const char *missing, FILE *out) {
  if (!isfinite(value))
    fputs(missing, out);
  else if (value == floor(value) && fabs(value) <= WHOLE_MAX)
    fprintf(out, "%.0f", value);
  else
    fprintf(out, "%.9g", value);
}

void write_json_number(double value, FILE *out) {
  write_number(value, "null", out);
}

void write_csv_number(double value, FILE *out) {
  write_number(value, "", out);
}

void write_json_string(const char *text, FILE *out) {
  putc('"', out);
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      fprintf(out, "\\%c", c);
    else if (c < ' ')
      fprintf(out, "\\u%04x", c);
    else
      putc(c, out);
  }
  putc('"', out);
}

void write_csv_text(const char *text, FILE *out) {
  if (!strpbrk(text, ",\"\r\n")) {
    fputs(text, out);
    return;
  }
  putc('"', out);
  for (; *text; text++) {
    if (*text == '"') putc('"', out);
    putc(*text, out);
  }
  putc('"', out);
}
