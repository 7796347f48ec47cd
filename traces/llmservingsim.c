/* Requests as an engine served them, as LLMServingSim logs vLLM's:
 *
 *     request,arrival_s,input_tokens,output_tokens,queued_s,scheduled_s,first_token_s,last_token_s
 *     0,0.046926808,2358,531,0.000000,0.000021,0.689435,17.570318
 *
 * Arrivals are seconds of the client's clock, and come first; the others are of the engine's, from
 * the first that it queued, and do not matter here. It notes `queued_s` between two steps, so that
 * the least of `queued_s` − `arrival_s` is by how much the clocks differ. */
#include "traces/format.h"

const TraceFormat format_llmservingsim = {
    .name = "llmservingsim",
    .help = "requests.csv of LLMServingSim's vLLM logs; the first request arrives at 0",
    .forms = TRACE_TABLE,
    .columns = {"arrival_s", "input_tokens", "output_tokens"},
    .clock = CLOCK_EPOCH_S,
    .read_time = field_seconds,
    .time_is = FIELD_SECONDS_IS,
};
