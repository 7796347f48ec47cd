/* BurstGPT (github.com/HPMLL/BurstGPT): requests to ChatGPT and GPT-4 of a university.
 *
 *     Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
 *     5,ChatGPT,472,18,490,Conversation log
 *
 * Later files have `Session ID` and `Elapsed time` behind `Timestamp`. Times are seconds from the
 * first day of the collection, which a later file begins far behind. A request that failed has no
 * response tokens. */
#include "traces/format.h"

const TraceFormat format_burstgpt = {
    .name = "burstgpt",
    .help = "BurstGPT, CSV; the first request arrives at 0; failed requests are left out",
    .forms = TRACE_TABLE,
    .columns = {"Timestamp", "Request tokens", "Response tokens"},
    .clock = CLOCK_EPOCH_S,
    .leaves_out_empty = true,
};
