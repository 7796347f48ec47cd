/* The Mooncake traces (github.com/kvcache-ai/Mooncake), a JSON object on each line:
 *
 *     {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353]}
 *
 * Times are milliseconds from the start of the trace and are kept. `hash_ids` names the prompt's
 * blocks of 512 tokens, ⌈input_length / 512⌉ of them, each with all before it. */
#include "traces/format.h"

enum { MS_PLACES = 9 }; // a millisecond is 10^9 ticks

static bool read_milliseconds(Field field, TraceTime *ret_time) {
  int64_t ticks = 0;
  if (!field_decimal(field, MS_PLACES, &ticks)) return false;
  *ret_time = (TraceTime){ticks / TICKS_PER_SECOND, ticks % TICKS_PER_SECOND};
  return true;
}

const TraceFormat format_mooncake = {
    .name = "mooncake",
    .help =
        "Mooncake traces, JSON lines with blocks of 512 tokens; keeps its times in milliseconds",
    .forms = TRACE_JSON,
    .columns = {"timestamp", "input_length", "output_length"},
    .clock = CLOCK_MS,
    .read_time = read_milliseconds,
    .time_is = "a number of milliseconds from 0 to 9e9",
    .marks = {"input_length", "hash_ids"},
    .block_tokens = 512,
};
