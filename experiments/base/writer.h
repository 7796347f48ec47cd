/* Numbers and text as JSON and CSV have them, and as people read them. */
#ifndef EXPERIMENTS_BASE_WRITER_H
#define EXPERIMENTS_BASE_WRITER_H
#include "perfmodel/perfmodel.h"
#include <stdio.h>

typedef enum OutputFormat { OUTPUT_TABLE, OUTPUT_CSV, OUTPUT_JSON } OutputFormat;
extern const char *const format_names[]; // "table", …, NULL-terminated

/* Nine digits, or all of a whole number; `missing` when it is not finite. */
void write_number(double value, const char *missing, FILE *out);
/* Control characters as escapes, U+FFFD for each byte that is no UTF-8. */
void write_json_string(const char *text, FILE *out);
/* A member of an object, after `before`, the ", " or what else comes first; a text may be NULL. */
void write_json_value(const char *before, const char *key, double value, FILE *out);
void write_json_text(const char *before, const char *key, const char *text, FILE *out);
/* A line of "scope,name,statistic,value,unit". */
void write_csv_figure(const char *scope, const char *name, const char *statistic, double value,
                      const char *unit, FILE *out);
/* A cell of a table for people: '?' for what is not plain (base/text.h), padded to `width`
 * characters, on the right when that is negative. */
void write_cell(const char *text, int width, FILE *out);
/* Three digits and a unit that fits: "81.2 ms", "3.04 s"; "-" for NAN. Returns `text`. */
const char *format_duration(double seconds, char text[32]);
/* A share of a limit that is left, in per cent: "12%"; what is missed by far as ">100x". Returns
 * `text`. */
const char *format_margin(double margin, int decimals, char text[32]);
/* 1234567 as "1,234,567". Returns `text`. */
const char *format_count(double value, char text[32]);
/* Up to two decimals, as many as it needs: "1.5"; "-" for NAN. Returns `text`. */
const char *format_amount(double value, char text[32]);
/* Its numbers that are not 0, by the letters of BatchShape: "P=512 2A=262144 s=1". */
void format_batch(const BatchShape *batch, char *text, size_t size);
#endif
