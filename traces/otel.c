/* Traces as OpenTelemetry's file exporter writes them (OTLP as JSON, an export on each line), with
 * the attributes of the semantic conventions for generative AI:
 *
 *     {"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"chat gpt-4o",
 *       "startTimeUnixNano":"1785740000000000000","attributes":[
 *         {"key":"gen_ai.usage.input_tokens","value":{"intValue":"42"}},
 *         {"key":"gen_ai.usage.output_tokens","value":{"intValue":"12"}}]}]}]}]}
 *
 * A span that has both counts is a request that arrives when the span starts, unless it is of an
 * agent or a tool, whose counts are those of the requests below it. Exports come as spans end, so
 * the file is held, and the first request arrives at 0. Requests of one gen_ai.conversation.id are
 * not taken to share tokens. */
#include "base/json.h"
#include "traces/json_rows.h"

typedef struct Span {
  Field time, input, output, operation;
} Span;

/* The text of a value such as {"intValue": "42"}, with its quotes or without. */
static Field value_of(const Line *line, Field value) {
  enum { INT, STRING, KEYS };
  static const char *const keys[KEYS] = {"intValue", "stringValue"};
  Field values[KEYS] = {{0}};
  Diag none;
  diag_init(&none);
  JsonScanner scanner = json_scanner(line, value, &none);
  const int status = json_object(&scanner, keys, KEYS, values);
  diag_done(&none);
  return status ? (Field){0} : json_unquoted(values[values[INT].text ? INT : STRING]);
}

/* Attributes that later versions of the conventions have other names for are known by both. */
static int read_attributes(const Line *line, Field list, Span *span, Diag *diag) {
  enum { KEY, VALUE, KEYS };
  static const char *const keys[KEYS] = {"key", "value"};
  const struct {
    const char *name;
    Field *field;
  } wanted[] = {{"\"gen_ai.usage.input_tokens\"", &span->input},
                {"\"gen_ai.usage.prompt_tokens\"", &span->input},
                {"\"gen_ai.usage.output_tokens\"", &span->output},
                {"\"gen_ai.usage.completion_tokens\"", &span->output},
                {"\"gen_ai.operation.name\"", &span->operation}};
  JsonScanner scanner = json_scanner(line, list, diag);
  Field attribute;
  int status = 1;
  while ((status = json_element(&scanner, &attribute)) > 0) {
    Field values[KEYS] = {{0}};
    JsonScanner inner = json_scanner(line, attribute, diag);
    if (json_object(&inner, keys, KEYS, values)) return -1;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
      if (field_is(values[KEY], wanted[i].name) && values[VALUE].text)
        *wanted[i].field = value_of(line, values[VALUE]);
  }
  return status;
}

static int read_span(const Line *line, Field text, Span *ret_span, Diag *diag) {
  enum { START, ATTRIBUTES, KEYS };
  static const char *const keys[KEYS] = {"startTimeUnixNano", "attributes"};
  Field values[KEYS] = {{0}};
  JsonScanner scanner = json_scanner(line, text, diag);
  *ret_span = (Span){.time = {0}};
  if (json_object(&scanner, keys, KEYS, values)) return -1;
  ret_span->time = json_unquoted(values[START]);
  return values[ATTRIBUTES].text ? read_attributes(line, values[ATTRIBUTES], ret_span, diag) : 0;
}

static bool is_request(const Span *span) {
  static const char *const sums[] = {"invoke_agent", "create_agent", "execute_tool",
                                     "invoke_workflow"};
  for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
    if (field_is(span->operation, sums[i])) return false;
  return span->input.length > 0 && span->output.length > 0 && !field_is(span->input, "0") &&
         !field_is(span->output, "0");
}

static const char TIME_IS[] = "nanoseconds since 1970";

static int add_span(const Line *line, Field text, TraceIndex *index, Diag *diag) {
  Span span;
  TraceTime time;
  if (read_span(line, text, &span, diag)) return -1;
  if (!is_request(&span)) return 0;
  if (!span.time.text)
    return diag_error(diag, line_place(line, text), "missing key 'startTimeUnixNano'");
  if (!clock_read(CLOCK_EPOCH_NS, span.time, &time))
    return field_error(line, span.time, "startTimeUnixNano", TIME_IS, diag);
  trace_index_add(index, time, text);
  return 0;
}

/* Goes down to the spans: each level is a list of objects with the next one's key. */
static int add_level(const Line *line, Field list, int level, TraceIndex *index, Diag *diag) {
  static const char *const below[] = {"scopeSpans", "spans"};
  enum { SPANS = sizeof below / sizeof *below };
  JsonScanner scanner = json_scanner(line, list, diag);
  Field element;
  int status = 1;
  while ((status = json_element(&scanner, &element)) > 0) {
    Field inner = {0};
    if (level == SPANS) {
      if (add_span(line, element, index, diag)) return -1;
      continue;
    }
    JsonScanner object = json_scanner(line, element, diag);
    if (json_object(&object, &below[level], 1, &inner)) return -1;
    if (inner.text && add_level(line, inner, level + 1, index, diag)) return -1;
  }
  return status;
}

static int otel_index(const Line *line, TraceIndex *index, Diag *diag) {
  static const char *const keys[] = {"resourceSpans"};
  Field resources = {0};
  JsonScanner scanner = json_scanner(line, (Field){0}, diag);
  if (json_object(&scanner, keys, 1, &resources)) return -1;
  if (!resources.text) return 0; // an export of metrics or logs
  trace_index_add_line(index, line, 0);
  return add_level(line, resources, 0, index, diag);
}

static int otel_parse(const JsonRow *row, RawRow *ret_row, Diag *diag) {
  Span span;
  if (read_span(row->line, row->text, &span, diag)) return -1;
  ret_row->time_field = span.time;
  const int prompt = field_row_tokens(row->line, span.input, "gen_ai.usage.input_tokens",
                                      &ret_row->prompt_tokens, diag);
  const int output = field_row_tokens(row->line, span.output, "gen_ai.usage.output_tokens",
                                      &ret_row->output_tokens, diag);
  return prompt || output ? -1 : 1;
}

const TraceFormat format_otel = {
    .name = "otel",
    .help =
        "generative-AI spans of OpenTelemetry, OTLP as JSON lines; the first request arrives at 0",
    .forms = TRACE_JSON,
    .columns = {"startTimeUnixNano", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"},
    .marks = {"resourceSpans"},
    .clock = CLOCK_EPOCH_NS,
    .index = otel_index,
    .parse = otel_parse,
};
