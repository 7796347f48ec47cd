/* See trace_options.h. */
#include "experiments/commands/trace_options.h"
#include <string.h>

/* The field that `text` begins with the name of, up to its '='; TRACE_FIELDS: none. */
static int field_named(const char *text, size_t length) {
  int i = 0;
  while (i < TRACE_FIELDS && (strlen(trace_field_names[i]) != length ||
                              strncmp(trace_field_names[i], text, length) != 0))
    i++;
  return i;
}

int trace_read_columns(const Cli *cli, const char *list, const char *ret_columns[TRACE_FIELDS]) {
  if (list && !*list) return cli_usage(cli, "'--columns' is empty");
  for (const char *at = list; at && *at;) {
    const size_t length = strcspn(at, ","), key = strcspn(at, "=");
    const int i = field_named(at, key);
    if (i == TRACE_FIELDS || key + 1 >= length)
      return cli_usage(cli, "'--columns' must be arrival=C,prompt=C,output=C,session=C, not '%s'",
                       list);
    if (ret_columns[i])
      return cli_usage(cli, "'--columns' names '%s' twice: '%s'", trace_field_names[i], list);
    ret_columns[i] = arena_copy(cli->arena, at + key + 1, length - key - 1);
    at += length + (at[length] == ',');
  }
  return 0;
}
