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

const TraceFormat format_splitwise_sim = {
    .name = "splitwise_sim",
    .help = "traces of SplitwiseSim, CSV; arrivals in seconds are kept",
    .header = "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,"
              "token_size",
    .time = {3, "arrival_timestamp"},
    .prompt = {5, "prompt_size"},
    .output = {6, "token_size"},
    .n_columns = 7,
    .read_time = read_seconds,
    .time_is = "a number of seconds from 0 to 9e6",
};
