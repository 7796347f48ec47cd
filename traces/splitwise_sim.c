/* Traces of SplitwiseSim, the simulator released with Splitwise (generate_trace.py writes them):
 *
 *     request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size
 *     0,2,0,0.1989686270407775,1,62,8
 *
 * Arrivals are seconds from the start of its run, written as doubles; they are kept as they are.
 * Each row is one request: the other columns do not matter here. */
#include "traces/format.h"

const TraceFormat format_splitwise_sim = {
    .name = "splitwise_sim",
    .help = "traces of SplitwiseSim, CSV; keeps its times in seconds",
    .forms = TRACE_TABLE,
    .columns = {"arrival_timestamp", "prompt_size", "token_size"},
    .clock = CLOCK_S,
    .read_time = field_seconds,
    .time_is = FIELD_SECONDS_IS,
};
