/* Traces of any columns: separators, names and numbers, times in every form, failed requests,
 * sessions, rows out of order; formats that are known by their headers.
 *
 * Pinned: ticks and token counts of rows; line, column and key words of messages. */
#include "tests/unit/testing.h"
#include "traces/reuse.h"
#include "traces/trace_file.h"

#define S  TICKS_PER_SECOND
#define MS (TICKS_PER_SECOND / 1000)

TestSuite(trace_columns, .init = setup, .fini = teardown);

static const TraceReading own = {.columns = {"ts", "in", "out"}};

/* All rows; how trace_file_next ended. */
static int read_rows(const char *text, const TraceReading *reading, TraceRow *rows, int capacity,
                     int *ret_count, TraceFile *ret_file) {
  *ret_count = 0;
  if (trace_file_open_text(ret_file, "t", text, strlen(text), reading, &arena, &diag)) return -1;
  int status = 1;
  TraceRow row;
  while ((status = trace_file_next(ret_file, &row, &diag)) > 0) {
    cr_assert_lt(*ret_count, capacity);
    rows[(*ret_count)++] = row;
  }
  trace_file_close(ret_file);
  return status;
}

/* Two rows of 5 and 6, 7 and 8 tokens; the second arrives `gap` after the first, which is at
 * `first`. */
static void expect_two(const char *what, const char *text, const TraceReading *reading, Tick first,
                       Tick gap) {
  TraceRow rows[4];
  TraceFile file;
  int n = 0;
  teardown();
  setup();
  cr_expect_eq(read_rows(text, reading, rows, 4, &n, &file), 0, "%s: %s", what,
               diag.n_entries ? diag.entries[0].message : "");
  cr_assert_eq(n, 2, "%s: %d rows", what, n);
  cr_expect(rows[0].prompt_tokens == 5 && rows[0].output_tokens == 6 &&
                rows[1].prompt_tokens == 7 && rows[1].output_tokens == 8,
            "%s: tokens", what);
  cr_expect_eq(rows[0].at, first, "%s: begins at %lld ps", what, (long long)rows[0].at);
  cr_expect_eq(rows[1].at - rows[0].at, gap, "%s: %lld ps", what,
               (long long)(rows[1].at - rows[0].at));
}

Test(trace_columns, separators_quotes_and_marks_are_understood) {
  expect_two("commas", "ts,in,out\n0.5,5,6\n1,7,8\n", &own, S / 2, S / 2);
  expect_two("semicolons", "out;x;in;ts\n6;a,b;5;0.5\n8;;7;1.5\n", &own, S / 2, S);
  expect_two("tabs", "ts\tin\tout\r\n2\t5\t6\r\n3\t7\t8", &own, 2 * S, S);
  expect_two("a byte order mark and quotes",
             "\xef\xbb\xbf\"ts\",\"in\",\"out\",\"m\"\n\"0\",\"5\",\"6\",\"{\"\"a\"\": 1, \"\"b\"\""
             ": 2}\"\n1, 7 ,8,\"a,\"\",b\"\n",
             &own, 0, S);
  expect_two("doubles", "ts,in,out\n0,5.0,6.0\n1,7.00,8\n", &own, 0, S);
  expect_two("JSON",
             "{\"ts\": 0, \"in\": 5, \"out\": 6, \"x\": [1]}\n"
             "{\"out\": 8, \"in\": \"7\", \"ts\": \"1.5\"}\n",
             &own, 0, S + S / 2);
}

Test(trace_columns, columns_are_named_or_numbered) {
  const TraceReading numbers = {.columns = {"3", "1", "2"}};
  expect_two("numbers, no header", "5,6,0\n7,8,1\n", &numbers, 0, S);
  expect_two("numbers, a header", "in,out,ts\n5,6,0\n7,8,1\n", &numbers, 0, S);
  const TraceReading other = {.columns = {NULL, "text_tokens", NULL}};
  expect_two(
      "a known format, but for one column",
      "request_id,timestamp,input_tokens,text_tokens,output_tokens\n0,0.5,1,5,6\n1,1,1,7,8\n",
      &other, S / 2, S / 2);
}

/* Numbers are positions, whatever the first line says there. */
Test(trace_columns, numbers_are_positions) {
  static const char *const texts[] = {"2,5,6,3\n3,7,8,1\n",         "2;5;6\n3;7;8\n",
                                      "2.0,5.0,6.0\n3.0,7.0,8.0\n", "\"2\",\"5\",\"6\"\n3,7,8\n",
                                      "t,1,2\n2,5,6\n3,7,8\n",      "\"t, s\",3,1\n2,5,6\n3,7,8\n",
                                      "a,b,c\n2,5,6\n3,7,8\n",      "1,,2\n2,5,6\n3,7,8\n"};
  const TraceReading numbers = {.columns = {"1", "2", "3"}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    expect_two(texts[i], texts[i], &numbers, 2 * S, S);
  const TraceReading mixed = {.columns = {"ts", "2", "3"}};
  expect_two("a name and numbers", "ts,3,2\n0,5,6\n1,7,8\n", &mixed, 0, S);
  const TraceReading digits = {.columns = {"ts", "2024", "2025"}};
  expect_two("names of digits", "ts,2024,2025\n0,5,6\n1,7,8\n", &digits, 0, S);
}

/* A client that allows nothing in particular leaves the field empty. */
Test(trace_columns, what_clients_allow_may_be_a_column) {
  const TraceReading named = {.columns = {"ts", "in", "out", NULL, "cap"}}, usual = {0};
  const struct {
    const char *text;
    const TraceReading *reading;
  } cases[] = {
      {"ts,in,out,cap\n0,5,6,6\n1,7,8,\n", &named},
      {"{\"ts\": 0, \"in\": 5, \"out\": 6, \"cap\": 6}\n"
       "{\"ts\": 1, \"in\": 7, \"out\": 8, \"cap\": null}\n",
       &named},
      {"ts,prompt_tokens,completion_tokens,Max Tokens\n0,5,6,6\n1,7,8,0\n", &usual},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    TraceRow rows[4];
    TraceFile file;
    int n = 0;
    expect_two(cases[i].text, cases[i].text, cases[i].reading, 0, S);
    cr_assert_eq(read_rows(cases[i].text, cases[i].reading, rows, 4, &n, &file), 0);
    cr_expect(rows[0].max_tokens == 6 && rows[1].max_tokens == 0, "%s", cases[i].text);
  }
}

Test(trace_columns, columns_that_cannot_be_are_located) {
  static const struct {
    const char *columns[TRACE_FIELDS], *text;
    int line, column;
    const char *part;
  } cases[] = {
      {{"1", "2", "4"}, "0,5,6\n", 1, 1, "there is no column 4: the first line has 3"},
      {{"1", "2", "0"}, "7,5,6\n", 1, 1, "there is no column 0"},
      {{"1", "2", "99999999999999999999"}, "0,5,6\n", 1, 1, "there is no column 9999"},
      {{"ts", "2", "3"}, "0,5,6\n", 1, 1, "there is no column 'ts'"},
      {{"1", "2", "20"}, "0,5,6,20\n", 1, 7, "the first line is a row"},
      {{"1", "2", "3", "chat"}, "0,5,6,chat\n", 1, 7, "no header with a column 'chat'"},
      {{"1", "2", "3"},
       "0,abc,6\n",
       1,
       3,
       "neither a row, because 'abc' is given for 'prompt', nor a header"},
      {{"1", "2", "3"},
       "01/02/24,5,6\n",
       1,
       1,
       "neither a row, because '01/02/24' is given for 'arrival'"},
      {{"1", "2", "2"}, "0,5,6\n", 1, 3, "'prompt' and 'output' are both column 2"},
      {{"a", "b", "3"}, "a,b,b\n0,5,6\n", 1, 3, "several columns have the name 'b'"},
      {{"1", "2", "3"}, "0,5,6\n1,5\n", 2, 1, "expected 3 fields as in the first row"},
      {{"1", "2", "3", NULL, "4"}, "0,5,6,5\n", 1, 7, "'column 4' is 5, but the output has 6"},
      {{NULL, "2", "3"}, "0,5,6\n", 1, 1, "no known column holds the arrivals"},
      {{NULL, "2"}, "{\"input_toks\": 1}\n", 1, 1, "'prompt' cannot be named"},
      {{NULL},
       "start_time,input_tokens,output_tokens,num_model_requests\n",
       1,
       39,
       "each row must be"},
      {{NULL}, "ts,time,prompt_tokens,completion_tokens\n", 1, 1, "no known column holds"},
      {{NULL}, "{\"a\": 1}\n", 1, 1, "the trace is in no known format"},
      {{NULL}, "[{\"a\": 1}]\n", 1, 1, "must have one object on each line, not a list"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    TraceReading reading = {0};
    TraceRow rows[4];
    TraceFile file;
    int n = 0;
    memcpy(reading.columns, cases[i].columns, sizeof reading.columns);
    teardown();
    setup();
    cr_expect_eq(read_rows(cases[i].text, &reading, rows, 4, &n, &file), -1, "%s", cases[i].text);
    expect_entry(&diag, 0, cases[i].line, cases[i].column, cases[i].part, cases[i].text);
  }
}

/* As closed loops read them. */
Test(trace_columns, times_that_nobody_asks_for_are_not_read) {
  static const struct {
    const char *prompt, *text;
  } cases[] = {{"in", "in,out\n5,6\n7,8\n"},
               {"1", "5,6\n7,8\n"},
               {NULL, "prompt_tokens,completion_tokens\n5,6\n7,8\n"},
               {NULL, "num_prefill_tokens,num_decode_tokens,x\n5,6,1\n7,8,1\n"},
               {NULL, "arrived_at,num_prefill_tokens,num_decode_tokens\n9,5,6\nlate,7,8\n"},
               {NULL, "{\"input_length\": 5, \"output_length\": 6}\n"
                      "{\"input_length\": 7, \"output_length\": 8}\n"},
               {NULL, "{\"input_toks\": 5, \"output_toks\": 6}\n"
                      "{\"input_toks\": 7, \"output_toks\": 8}\n"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *prompt = cases[i].prompt, *output = !prompt ? NULL : *prompt == '1' ? "2" : "out";
    TraceReading reading = {.columns = {NULL, prompt, output}, .untimed = true};
    expect_two(cases[i].text, cases[i].text, &reading, 0, 0);
    TraceRow rows[4];
    TraceFile file;
    int n = 0;
    reading.untimed = false;
    cr_expect_eq(read_rows(cases[i].text, &reading, rows, 4, &n, &file), -1, "%s", cases[i].text);
  }
}

Test(trace_columns, times_are_exact_in_every_form) {
  static const struct {
    const char *a, *b;
    Tick first, gap;
    TraceClock clock;
  } cases[] = {
      {"2024-02-29 23:59:59.5", "2024-03-01 00:00:00.25", 0, 750 * MS, CLOCK_AUTO},
      {"2024-05-10T12:00:00Z", "2024-05-10T14:00:00.000001+02:00", 0, S / 1000000, CLOCK_AUTO},
      {"2024-05-10T12:00:00+0000", "2024-05-10T10:30:01-0130", 0, S, CLOCK_AUTO},
      {"2024-05-10T12:00:00.1234567890123", "2024-05-10T13:00:00.623456789012+01", 0, S / 2,
       CLOCK_AUTO},
      {"1715342400", "1715342400.000000000001", 0, 1, CLOCK_AUTO},
      {"1715342400123", "1715342400124.5", 0, 3 * MS / 2, CLOCK_AUTO},
      {"1715342400123456", "1715342400123457", 0, S / 1000000, CLOCK_AUTO},
      {"1715342400123456789", "1715342400123456790", 0, 1000, CLOCK_AUTO},
      {"1.715e9", "1.715000001e9", 0, S, CLOCK_AUTO},
      {"0.1989686270407775", "0.1989686270417775", 198968627040, 1, CLOCK_AUTO},
      {"1500", "1750", 1500 * MS, 250 * MS, CLOCK_MS},
      {"1500", "1750", 0, 250 * MS, CLOCK_EPOCH_MS},
      {"1000000000", "1000000001", S, 1000, CLOCK_NS},
      {"19440110.0", "19440161.0", 0, 51 * S, CLOCK_EPOCH_S},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[160];
    TraceReading reading = own;
    reading.clock = cases[i].clock;
    snprintf(text, sizeof text, "ts;in;out\n%s;5;6\n%s;7;8\n", cases[i].a, cases[i].b);
    expect_two(cases[i].a, text, &reading, cases[i].first, cases[i].gap);
  }
}

typedef struct KnownLog {
  const char *name, *text;
  Tick first, gap;
} KnownLog;

static void expect_known(const KnownLog *logs, size_t n_logs) {
  for (size_t i = 0; i < n_logs; i++) {
    TraceRow rows[4];
    TraceFile file;
    int n = 0;
    cr_expect_eq(read_rows(logs[i].text, NULL, rows, 4, &n, &file), 0, "%s: %s", logs[i].name,
                 diag.n_entries ? diag.entries[0].message : "");
    cr_expect_str_eq(file.layout.format->name, logs[i].name);
    expect_two(logs[i].name, logs[i].text, NULL, logs[i].first, logs[i].gap);
  }
}

Test(trace_columns, logs_are_known_by_their_headers) {
  static const KnownLog logs[] = {
      {"azure",
       "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-10-15 00:00:00.5,2,5,6\n"
       "2024-10-15 00:00:01.5,0,7,8\n",
       0, S},
      {"burstgpt",
       "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
       "5,ChatGPT,5,6,11,Conversation log\n6,GPT-4,9,0,9,API log\n45,ChatGPT,7,8,15,API log\n",
       0, 40 * S},
      {"burstgpt",
       "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log "
       "Type\n19440110.0,1722ac82,43,GPT-4,5,6,11,Conversation log\n"
       "19440161.0,d5983bf9,2,ChatGPT,7,8,15,Conversation log\n",
       0, 51 * S},
      {"servegen", "request_id,timestamp,input_tokens,output_tokens\n0,0.5,5,6\n1,1.25,7,8\n",
       S / 2, 750 * MS},
      {"vidur", "arrived_at,num_prefill_tokens,num_decode_tokens\n0.25,5,6\n0.75,7,8\n", S / 4,
       S / 2},
      {"litellm",
       "request_id,total_tokens,prompt_tokens,completion_tokens,startTime,metadata\n"
       "a,11,5,6,2024-05-10 12:00:00.25,\"{\"\"x\"\": 1, \"\"y\"\": 2}\"\n"
       "b,0,0,0,2024-05-10 12:00:01,{}\nc,15,7,8,2024-05-10 12:00:02.25,{}\n",
       0, 2 * S},
      {"litellm",
       "{\"startTime\":\"2024-05-10T12:00:00Z\",\"prompt_tokens\":5,\"completion_tokens\":6}\n"
       "{\"startTime\":\"2024-05-10T12:00:03Z\",\"prompt_tokens\":7,\"completion_tokens\":8}\n",
       0, 3 * S},
      {"otel",
       "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":["
       "{\"startTimeUnixNano\":\"1785740001000000000\",\"attributes\":["
       "{\"key\":\"gen_ai.usage.input_tokens\",\"value\":{\"intValue\":\"7\"}},"
       "{\"key\":\"gen_ai.usage.output_tokens\",\"value\":{\"intValue\":\"8\"}}]},"
       "{\"startTimeUnixNano\":\"1785739999000000000\",\"attributes\":["
       "{\"key\":\"gen_ai.operation.name\",\"value\":{\"stringValue\":\"invoke_agent\"}},"
       "{\"key\":\"gen_ai.usage.input_tokens\",\"value\":{\"intValue\":12}},"
       "{\"key\":\"gen_ai.usage.output_tokens\",\"value\":{\"intValue\":14}}]}]}]}]}\n"
       "{\"resourceMetrics\":[]}\n"
       "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"name\":\"GET\"},"
       "{\"startTimeUnixNano\":\"1785740000000000000\",\"attributes\":["
       "{\"key\":\"gen_ai.usage.prompt_tokens\",\"value\":{\"intValue\":5}},"
       "{\"key\":\"gen_ai.usage.completion_tokens\",\"value\":{\"intValue\":6}}]}]}]}]}\n",
       0, S},
  };
  expect_known(logs, sizeof logs / sizeof *logs);
}

Test(trace_columns, workloads_and_usual_names_are_known) {
  static const KnownLog logs[] = {
      {"llmservingsim_workload",
       "{\"input_toks\": 5, \"output_toks\": 6, \"arrival_time_ns\": 101537000}\n"
       "{\"input_toks\": 7, \"output_toks\": 8, \"arrival_time_ns\": 1.44370e8}\n",
       101537 * (MS / 1000), 42833 * (MS / 1000)},
      {"llmservingsim_workload",
       "{\"input_toks\": 7, \"output_toks\": 8, \"arrival_time_ns\": 9000000000}\n"
       "{\"input_toks\": 5, \"output_toks\": 6, \"arrival_time_ns\": 1000000000.0}\n",
       S, 8 * S},
      {"llmservingsim_workload",
       "input_toks\toutput_toks\tarrival_time_ns\n5\t6\t46926808\n7\t8\t347938952\n",
       46926808 * INT64_C(1000), 301012144 * INT64_C(1000)},
      {"usual", "timestamp,prompt_tokens,completion_tokens\n1.5,5,6\n2,7,8\n", 3 * S / 2, S / 2},
      {"usual",
       "Created-At;Model;Input Tokens;Output Tokens\n1715342400;x;5;6\n1715342401;x;9;0\n"
       "1715342402;x;7;8\n",
       0, 2 * S},
      {"usual", "arrival_ms,prompt_len,output_len\n500,5,6\n1750,7,8\n", S / 2, 1250 * MS},
      {"usual", "timestamp_ms,isl,osl\n1715342400123,5,6\n1715342400624,7,8\n", 0, 501 * MS},
      {"usual",
       "{\"ts\": \"2024-05-10T12:00:00Z\", \"prompt_tokens\": 5, \"completion_tokens\": 6}\n"
       "{\"ts\": \"2024-05-10T12:00:01Z\", \"prompt_tokens\": 7, \"completion_tokens\": null}\n"
       "{\"ts\": \"2024-05-10T12:00:02Z\", \"prompt_tokens\": 7, \"completion_tokens\": 8}\n",
       0, 2 * S},
  };
  expect_known(logs, sizeof logs / sizeof *logs);
}

/* The name of a column of the user's own may say the unit. */
Test(trace_columns, units_are_in_names) {
  const TraceReading reading = {.columns = {"at_ns", "in", "out"}};
  expect_two("from 0", "at_ns,in,out\n101537000,5,6\n144370000,7,8\n", &reading,
             101537 * (MS / 1000), 42833 * (MS / 1000));
  expect_two("since 1970", "at_ns,in,out\n1715342400123456789,5,6\n1715342400123456790,7,8\n",
             &reading, 0, 1000);
  const TraceReading stated = {.columns = {"at_ns", "in", "out"}, .clock = CLOCK_MS};
  expect_two("another is stated", "at_ns,in,out\n500,5,6\n1500,7,8\n", &stated, S / 2, S);
}

Test(trace_columns, failed_requests_are_left_out_and_counted) {
  TraceRow rows[4];
  TraceFile file;
  int n = 0;
  cr_assert_eq(read_rows("ts,in,out\n0,5,0\n1,5,6\n2,,3\n3,7,8\n4,9,\n", &own, rows, 4, &n, &file),
               0);
  cr_expect_eq(n, 2);
  cr_expect_eq(file.n_left_out, 3);
}

Test(trace_columns, rows_without_tokens_have_a_hint) {
  static const struct {
    const char *text, *hint;
  } cases[] = {
      {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,5,0\n",
       "{arrival: TIMESTAMP, prompt: ContextTokens, output: GeneratedTokens}"},
      {"arrived_at,num_prefill_tokens,num_decode_tokens\n0,,6\n",
       "counted if all columns are named"},
      {"{\"timestamp\": 1, \"input_length\": 0, \"output_length\": 4}\n", "remove its row from"},
      {"{\"chat_id\": 1, \"timestamp\": 1, \"input_length\": 3, \"output_length\": null}\n",
       "remove its row from"},
      {"{\"requests\": [{\"t\": 0, \"in\": 0, \"out\": 1}]}\n", "remove its row from"},
      {"{\"input_toks\": 0, \"output_toks\": 4, \"arrival_time_ns\": 1}\n", "remove its row from"},
      {"Timestamp,Request tokens,Response tokens\n5,472,0\n", "are left out: 1"},
      {"timestamp,prompt_tokens,completion_tokens\n5,0,0\n6,1,0.0\n", "are left out: 2"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    TraceRow rows[1];
    TraceFile file;
    int n = 0;
    teardown();
    setup();
    cr_expect_eq(read_rows(cases[i].text, NULL, rows, 1, &n, &file), -1, "%s", cases[i].text);
    cr_assert(diag.n_entries == 1 && diag.entries[0].hint, "%s", cases[i].text);
    cr_expect(strstr(diag.entries[0].hint, cases[i].hint), "%s", diag.entries[0].hint);
  }
}

Test(trace_columns, rows_of_a_session_share_their_beginning) {
  const TraceReading reading = {.columns = {"ts", "in", "out", "sid"}};
  TraceRow rows[4];
  TraceFile file;
  Reuse reuse;
  int n = 0;
  reuse_init(&reuse, 16, &arena);
  const char text[] = "ts,in,out,sid\n0,160,9,a\n1,320,9,b\n2,480,9,a\n3,480,9,\n";
  cr_assert_eq(trace_file_open_text(&file, "t", text, sizeof text - 1, &reading, &arena, &diag), 0);
  for (; trace_file_next(&file, &rows[n], &diag) > 0; n++)
    cr_expect_eq(reuse_add(&reuse, &rows[n]), n == 2 ? 160 : 0, "row %d", n);
  cr_expect_eq(n, 4);
}

Test(trace_columns, rows_out_of_order_are_sorted_when_asked) {
  TraceReading reading = own;
  const char text[] = "ts,in,out\n2024-05-10 12:00:01,7,8\n2024-05-10 12:00:00,5,6\n";
  TraceRow rows[2];
  TraceFile file;
  int n = 0;
  cr_expect_eq(read_rows(text, &reading, rows, 2, &n, &file), -1);
  expect_entry(&diag, 0, 3, 1, "times must not decrease", "not asked for");
  cr_expect_not_null(strstr(diag.entries[0].hint, "sort: true"));
  reading.sort = true;
  expect_two("sorted", text, &reading, 0, S);
  const TraceReading of_format = {.sort = true};
  expect_two("sorted, a known format",
             "arrived_at,num_prefill_tokens,num_decode_tokens\n3,7,8\n1,5,6\n", &of_format, S,
             2 * S);
}

Test(trace_columns, what_does_not_fit_is_located) {
  static const struct {
    const char *text;
    int line, column;
    const char *part;
  } cases[] = {
      {"a,b,c\n1,2,3\n", 1, 1, "there is no column 'out'"},
      {"ts,in,out\n1,2\n", 2, 1, "expected 3 fields as in the header, found 2"},
      {"ts,in,out\nnow,2,3\n", 2, 1, "'ts' must be a date such as"},
      {"ts,in,out\n1,-2,3\n", 2, 3, "'in' must be a whole number"},
      {"ts,in,out\n1,2,3\n2024-05-10 12:00:00,2,3\n", 3, 1, "'ts' must be a number of seconds"},
      {"ts,in,out\n2024-02-30 12:00:00,2,3\n", 2, 1, "'ts' must be a date"},
      {"ts,in,out\n2024-02-20 12:00:00.,2,3\n", 2, 1, "'ts' must be a date"},
      {"ts,in,out\n2024-02-20 12:00:00 UTC,2,3\n", 2, 1, "'ts' must be a date"},
      {"ts,in,out\n0,2,3\n99999999,2,3\n", 3, 1, "more than 106 days"},
      {"ts,in,out\n0,0,3\n", 0, 0, "the file has no rows"},
      {"{\"ts\": 1, \"in\": 2}\n", 1, 1, "missing key 'out'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    TraceRow rows[4];
    TraceFile file;
    int n = 0;
    teardown();
    setup();
    cr_expect_eq(read_rows(cases[i].text, &own, rows, 4, &n, &file), -1, "%s", cases[i].text);
    expect_entry(&diag, diag.n_entries - 1, cases[i].line, cases[i].column, cases[i].part,
                 cases[i].text);
  }
}
