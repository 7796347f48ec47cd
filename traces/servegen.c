/* Workloads that ServeGen (github.com/alibaba/ServeGen) writes, save_requests_to_csv:
 *
 *     request_id,timestamp,input_tokens,output_tokens
 *     0,0.5,10,20
 *
 * Times are seconds from the start; workloads of other kinds have more columns. */
#include "traces/format.h"

const TraceFormat format_servegen = {
    .name = "servegen",
    .help = "workloads of ServeGen, CSV; keeps its times in seconds",
    .forms = TRACE_TABLE,
    .columns = {"timestamp", "input_tokens", "output_tokens"},
    .marks = {"request_id"},
    .clock = CLOCK_AUTO,
};
