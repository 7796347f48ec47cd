/* The Qwen-Bailian traces (github.com/alibaba-edu/qwen-bailian-usagetraces-anon), a JSON object on
 * each line:
 *
 *     {"chat_id": 159, "parent_chat_id": 55, "timestamp": 61.114, "input_length": 521,
 *      "output_length": 132, "type": "text", "turn": 2, "hash_ids": [1089, 1090, …]}
 *
 * Times are seconds from the start of the trace and are kept. `hash_ids` names the prompt's blocks
 * of 16 tokens, ⌈input_length / 16⌉ of them. A turn arrives when it did, whatever became of the one
 * before. */
#include "traces/format.h"

const TraceFormat format_qwen_bailian = {
    .name = "qwen_bailian",
    .help = "Qwen-Bailian traces, JSON lines with blocks of 16 tokens; keeps its times in seconds",
    .forms = TRACE_JSON,
    .columns = {"timestamp", "input_length", "output_length"},
    .clock = CLOCK_S,
    .read_time = field_seconds,
    .time_is = FIELD_SECONDS_IS,
    .marks = {"chat_id"},
    .block_tokens = 16,
};
