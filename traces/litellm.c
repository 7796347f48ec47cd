/* The log of LiteLLM's proxy (github.com/BerriAI/litellm), table LiteLLM_SpendLogs of its database,
 * as CSV with a header, or its rows as JSON objects, each on a line of its own:
 *
 *     request_id,call_type,…,total_tokens,prompt_tokens,completion_tokens,startTime,endTime,…
 *
 * A request that failed has no tokens. Rows are in any order unless they were asked for in that of
 * `startTime`. */
#include "traces/format.h"

const TraceFormat format_litellm = {
    .name = "litellm",
    .help = "spend logs of LiteLLM, CSV or JSON lines; failed requests are left out",
    .forms = TRACE_TABLE | TRACE_JSON,
    .columns = {"startTime", "prompt_tokens", "completion_tokens"},
    .marks = {"startTime"},
    .clock = CLOCK_AUTO,
    .leaves_out_empty = true,
};
