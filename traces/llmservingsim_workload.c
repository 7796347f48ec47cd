/* Workloads of LLMServingSim (github.com/casys-kaist/LLMServingSim), JSON lines in any order:
 *
 *     {"input_toks": 1472, "output_toks": 133, "arrival_time_ns": 4059740, "input_tok_ids": [1, …]}
 *
 * and, as its first releases had them, tables of those three columns. Times are nanoseconds from
 * the start and are kept. `input_tok_ids` are the prompt's tokens, and `output_tok_ids`, behind
 * them, those of the output: requests share what is equal from the first token on, in whole blocks
 * of 16. A line with `sub_requests` is a session, whose calls wait for one another; it is refused,
 * because a trace has the times of all its rows. */
#include "base/hash.h"
#include "base/json.h"
#include "traces/format.h"
#include "traces/json_rows.h"

enum { BLOCK = 16 };
enum { INPUT, OUTPUT, TIME, INPUT_IDS, OUTPUT_IDS, SUB_REQUESTS, KEYS };
static const char *const keys[KEYS] = {"input_toks",    "output_toks",    "arrival_time_ns",
                                       "input_tok_ids", "output_tok_ids", "sub_requests"};
static const char TIME_IS[] = "a number of nanoseconds from the start";

static int read_values(const Line *line, Field text, Field *ret_values, Diag *diag) {
  JsonScanner scanner = json_scanner(line, text, diag);
  return json_object(&scanner, keys, KEYS, ret_values);
}

static int refuse_session(const Line *line, Field list, Diag *diag) {
  diag_error(diag, line_place(line, list),
             "sessions of calls that wait for one another ('sub_requests') are not supported");
  diag_hint(diag,
            "'sessions' of a workload draws such sessions: turns, and the think time between them");
  return -1;
}

static int workload_index(const Line *line, TraceIndex *index, Diag *diag) {
  Field values[KEYS] = {{0}};
  TraceTime time = {0};
  int status = 0;
  if (read_values(line, (Field){0}, values, diag)) return -1;
  if (values[SUB_REQUESTS].text) return refuse_session(line, values[SUB_REQUESTS], diag);
  for (int i = INPUT; i <= TIME; i++) {
    if (values[i].text || (i == TIME && index->untimed)) continue;
    status = diag_error(diag, line_place(line, (Field){0}), "missing key '%s'", keys[i]);
    if (i == TIME) layout_hint_arrivals(diag);
  }
  if (status) return -1;
  if (values[TIME].text && !clock_read(CLOCK_NS, values[TIME], &time))
    return field_error(line, values[TIME], keys[TIME], TIME_IS, diag);
  trace_index_add_line(index, line, BLOCK);
  trace_index_add(index, time, (Field){line->text, line->length});
  return 0;
}

/* A request's tokens so far. */
typedef struct Tokens {
  SegmentList *segments;
  uint64_t id;
  int32_t n;
} Tokens;

static void add_token(Tokens *self, uint64_t token) {
  SegmentList *segments = self->segments;
  self->id = hash_fold(self->id, token);
  if (++self->n % BLOCK != 0) return;
  ARENA_RESERVE(segments->arena, segments->items, segments->capacity, (size_t)segments->n + 1);
  segments->items[segments->n++] = (TraceSegment){self->id, self->n};
}

/* Whether tokens are listed; of none, and of null, the request says nothing. */
static bool is_listed(const JsonRow *row, Field list) {
  JsonScanner scanner = json_scanner(row->line, list, NULL);
  Field value;
  return list.text && !field_is(list, "null") && json_element(&scanner, &value) != 0;
}

static int read_tokens(const JsonRow *row, Field list, int key, int32_t expected, Tokens *tokens,
                       Diag *diag) {
  JsonScanner scanner = json_scanner(row->line, list, diag);
  const int32_t before = tokens->n;
  int64_t token = 0, found = 0;
  Field value;
  int status = 1;
  for (; (status = json_element(&scanner, &value)) > 0; found++) {
    if (!field_decimal(value, 0, &token))
      return field_error(row->line, value, keys[key], "a list of whole numbers", diag);
    if (found < expected) add_token(tokens, (uint64_t)token);
  }
  if (status < 0) return -1;
  if (tokens->n - before == expected && found == expected) return 0;
  return diag_error(diag, line_place(row->line, list), "'%s' lists %lld tokens, but '%s' is %d",
                    keys[key], (long long)found, keys[key - INPUT_IDS], expected);
}

/* Outputs go on where prompts end. */
static int read_content(const JsonRow *row, const Field *values, RawRow *raw, Diag *diag) {
  Tokens tokens = {raw->segments, hash_mix(UINT64_C(0x746f6b656e)), 0};
  if (!is_listed(row, values[INPUT_IDS])) return 0;
  if (read_tokens(row, values[INPUT_IDS], INPUT_IDS, raw->prompt_tokens, &tokens, diag)) return -1;
  if (!is_listed(row, values[OUTPUT_IDS])) return 0;
  return read_tokens(row, values[OUTPUT_IDS], OUTPUT_IDS, raw->output_tokens, &tokens, diag);
}

static int workload_parse(const JsonRow *row, RawRow *ret_row, Diag *diag) {
  Field values[KEYS] = {{0}};
  if (read_values(row->line, row->text, values, diag)) return -1;
  ret_row->time_field = values[TIME];
  const int prompt =
      field_row_tokens(row->line, values[INPUT], keys[INPUT], &ret_row->prompt_tokens, diag);
  const int output =
      field_row_tokens(row->line, values[OUTPUT], keys[OUTPUT], &ret_row->output_tokens, diag);
  return prompt || output || read_content(row, values, ret_row, diag) ? -1 : 1;
}

const TraceFormat format_llmservingsim_workload = {
    .name = "llmservingsim_workload",
    .help = "workloads of LLMServingSim, JSON lines or a table; keeps its times in nanoseconds",
    .forms = TRACE_TABLE | TRACE_JSON,
    .columns = {"arrival_time_ns", "input_toks", "output_toks"},
    .marks = {"input_toks", "sub_requests"},
    .clock = CLOCK_NS,
    .block_tokens = BLOCK,
    .index = workload_index,
    .parse = workload_parse,
};
