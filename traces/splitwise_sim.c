/* Traces of SplitwiseSim, the simulator released with Splitwise (generate_trace.py writes them):
 *
 *     request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size
 *     0,2,0,0.1989686270407775,1,62,8
 *
 * Arrivals are seconds from the start of its run, written as doubles; they are kept as they are.
 * Each row is one request: the other columns do not matter here. */
#include "traces/format.h"
#include <stdlib.h>
#include <string.h>

#define HEADER                                                                                     \
  "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size"
enum { ARRIVAL = 3, PROMPT = 5, OUTPUT = 6, COLUMNS = 7 };

/* Decimal or scientific notation, not negative; the double nearest to the text. The program never
 * leaves the C locale, so strtod takes a point. */
static bool read_seconds(Field field, TraceTime *ret_time) {
  char text[64], *end = text;
  size_t length = (size_t)field.length;
  if (length == 0 || length >= sizeof text) return false;
  memcpy(text, field.text, length);
  text[length] = '\0';
  if (strspn(text, "0123456789.eE+-") != length) return false; // no hexadecimal, inf, nan
  double seconds = strtod(text, &end);
  if (end != text + length || seconds < 0 || seconds > 9e6) return false;
  Tick ticks = tick_from_seconds(seconds);
  *ret_time = (TraceTime){ticks / TICKS_PER_SECOND, ticks % TICKS_PER_SECOND};
  return true;
}

static int splitwise_sim_parse(const Line *line, RawRow *ret_row, Diag *diag) {
  Field fields[COLUMNS];
  if (line_split(line, HEADER, fields, COLUMNS, diag)) return -1;
  int status = 0;
  ret_row->time_field = fields[ARRIVAL];
  if (!read_seconds(fields[ARRIVAL], &ret_row->time))
    status = field_error(line, fields[ARRIVAL], "arrival_timestamp",
                         "a number of seconds from 0 to 9e6", diag);
  status |= field_tokens(line, fields[PROMPT], "prompt_size", &ret_row->prompt_tokens, diag);
  status |= field_tokens(line, fields[OUTPUT], "token_size", &ret_row->output_tokens, diag);
  return status;
}

const TraceFormat format_splitwise_sim = {
    .name = "splitwise_sim",
    .help = "traces of SplitwiseSim, CSV; arrivals in seconds are kept",
    .header = HEADER,
    .parse = splitwise_sim_parse,
};
