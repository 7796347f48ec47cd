/* The fields of a line of a table, between commas, tabs or semicolons. */
#ifndef TRACES_TABLE_H
#define TRACES_TABLE_H
#include "base/lines.h"

/* What stands between the fields of a header: a tab, a semicolon or a comma. */
char table_separator(const Line *header);
/* The field at `*at`, without quotes and spaces around it; `*at` moves behind its separator, or to
 * NULL when the line ends. A quote that nothing closes is text. */
Field table_take(const Line *line, const char **at, char separator);
int table_count(const Line *line, char separator);
/* The first column of this name, from 0; -1: there is none. */
int table_column(const Line *header, char separator, const char *name);
/* That of a column, from 0; its text is NULL when there is none. */
Field table_field(const Line *line, char separator, int column);
#endif
