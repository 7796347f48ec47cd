/* Traces as Vidur (github.com/microsoft/vidur) replays them:
 *
 *     arrived_at,num_prefill_tokens,num_decode_tokens
 *     0.0,591,140
 *
 * Times are seconds from the start. */
#include "traces/format.h"

const TraceFormat format_vidur = {
    .name = "vidur",
    .help = "traces of Vidur, CSV; keeps its times in seconds",
    .forms = TRACE_TABLE,
    .columns = {"arrived_at", "num_prefill_tokens", "num_decode_tokens"},
    .clock = CLOCK_S,
};
