/* Numbers and text as JSON and CSV have them. */
#ifndef EXPERIMENTS_WRITER_H
#define EXPERIMENTS_WRITER_H
#include <stdio.h>

/* Nine digits, or all of a whole number; null when it is not finite. */
void write_json_number(double value, FILE *out);
void write_json_string(const char *text, FILE *out);
/* The same number, empty when it is not finite. */
void write_csv_number(double value, FILE *out);
/* In quotes when it needs them (RFC 4180). */
void write_csv_text(const char *text, FILE *out);
#endif
