/* Reading trace files: formats, order of time, line ends, gzip, and where messages point.
 *
 * Pinned: ticks and token counts of rows; line, column and key words of messages; that every kind
 * of damage is found. Not pinned: the full wording, nor at which line damaged gzip data shows. */
#include "tests/unit/testing.h"
#include "traces/summary.h"
#include "traces/trace_file.h"
#include <math.h>
#include <zlib.h>

#define ROW(at_, prompt_, output_)                                                                 \
  { .at = (at_), .prompt_tokens = (prompt_), .output_tokens = (output_) }

#define AZURE "TIMESTAMP,ContextTokens,GeneratedTokens\n"
#define SPLITWISE                                                                                  \
  "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
#define S TICKS_PER_SECOND

static const TraceFormat *format_named(const char *name) {
  for (int i = 0; format_at(i); i++)
    if (strcmp(format_at(i)->name, name) == 0) return format_at(i);
  return NULL;
}

/* All rows of `text`; returns how trace_file_next ended. */
static int read_text(const char *text, TraceRow *rows, int capacity, int *ret_count) {
  TraceFile file;
  *ret_count = 0;
  if (trace_file_open_text(&file, "t", text, strlen(text), NULL, &arena, &diag)) return -1;
  int status = 1;
  TraceRow row;
  while ((status = trace_file_next(&file, &row, &diag)) > 0) {
    cr_assert_lt(*ret_count, capacity);
    rows[(*ret_count)++] = row;
  }
  trace_file_close(&file);
  return status;
}

Test(trace_file, rows_of_every_format_have_exact_times) {
  static const struct {
    const char *what, *text;
    int n;
    TraceRow rows[3];
  } cases[] = {
      {"azure, seven decimals, CR LF, no newline at the end",
       "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n"
       "2023-11-16 18:15:50.9951690,396,109",
       2,
       {ROW(0, 374, 44), ROW(4314579 * (S / 1000000), 396, 109)}},
      {"azure, no decimals, then one of 100 ns",
       AZURE "2023-11-16 18:15:46,1,1\n2023-11-16 18:15:46.0000001,10000000,2\n",
       2,
       {ROW(0, 1, 1), ROW(100000, TRACE_TOKENS_MAX, 2)}},
      {"azure, over midnight of a leap day",
       AZURE "2024-02-28 23:59:59.5,1,1\n2024-02-29 00:00:00.5,1,1\n2024-03-01 00:00:00,1,1\n",
       3,
       {ROW(0, 1, 1), ROW(S, 1, 1), ROW(86400 * S + S / 2, 1, 1)}},
      {"azure, over a new year that 1900 had no leap day before",
       AZURE "1899-12-31 23:59:59,1,1\n1900-03-01 00:00:00,1,1\n",
       2,
       {ROW(0, 1, 1), ROW((59 * 86400 + 1) * S, 1, 1)}},
      {"azure, offsets from UTC",
       AZURE "2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-09 22:30:01.009930-01:30,1,1\n"
             "2024-05-10 02:00:02.009930+02:00,1,1\n",
       3,
       {ROW(0, 2162, 5), ROW(S, 1, 1), ROW(2 * S, 1, 1)}},
      {"azure, a byte order mark, spaces and quotes",
       "\xef\xbb\xbf" AZURE "  \n2023-11-16 18:15:46 , 374,\"44\"\n",
       1,
       {ROW(0, 374, 44)}},
      {"azure, blank lines", "\n" AZURE "\n2023-11-16 18:15:46,1,1\n\n\n", 1, {ROW(0, 1, 1)}},
      {"splitwise_sim keeps its zero and reads doubles",
       SPLITWISE "0,2,0,1.0,1,374,44\n1,2,0,5.314579,1,396,109\n2,2,0,6e0,1,1,1\n",
       3,
       {ROW(S, 374, 44), ROW(5314579 * (S / 1000000), 396, 109), ROW(6 * S, 1, 1)}},
      {"mooncake keeps its zero, keys in any order",
       "{\"timestamp\": 27, \"input_length\": 6, \"output_length\": 5, \"hash_ids\": [1]}\n"
       "{\"x\":{\"timestamp\":\"]}\\\"\"},\"output_length\":7,"
       "\"input_length\":8,\"timestamp\":27.5}\n",
       2,
       {ROW(27 * (S / 1000), 6, 5), ROW(27500 * (S / 1000000), 8, 7)}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    setup();
    TraceRow rows[8];
    int n = 0;
    cr_expect_eq(read_text(cases[i].text, rows, 8, &n), 0, "%s", cases[i].what);
    cr_assert_eq(n, cases[i].n, "%d rows of %s", n, cases[i].what);
    for (int k = 0; k < n; k++) {
      const TraceRow *want = &cases[i].rows[k];
      cr_expect(rows[k].at == want->at && rows[k].prompt_tokens == want->prompt_tokens &&
                    rows[k].output_tokens == want->output_tokens,
                "row %d of %s: %lld ps, %d, %d", k, cases[i].what, (long long)rows[k].at,
                rows[k].prompt_tokens, rows[k].output_tokens);
    }
    teardown();
  }
}

Test(trace_file, bad_rows_are_located) {
  static const struct {
    const char *text;
    int line, column;
    const char *part;
  } cases[] = {
      {"", 0, 0, "empty"},
      {"\n\n", 0, 0, "empty"},
      {AZURE, 0, 0, "no rows"},
      {"a,b,c\n1,2,3\n", 1, 1, "the trace is in no known format"},
      {"TIMESTAMP,ContextTokens\n", 1, 1, "the trace is in no known format"},
      {AZURE "2023-11-16 18:15:46,1\n", 2, 1, "expected 3 fields"},
      {AZURE "2023-11-16 18:15:46,1,1,1\n", 2, 1, "found 4"},
      {AZURE "2023-11-16 18:15:46,x,1\n", 2, 21, "'ContextTokens' must be a whole number"},
      {AZURE "2023-11-16 18:15:46,1,0\n", 2, 23, "from 1 to 10000000, not '0'"},
      {AZURE "2023-11-16 18:15:46,1,10000001\n", 2, 23, "from 1 to 10000000, not '10000001'"},
      {AZURE "2023-11-16 18:15:46,1,\n", 2, 23, "'GeneratedTokens' is empty"},
      {AZURE "2023-11-16 18:15:46,-1,1\n", 2, 21, "not '-1'"},
      {AZURE "2023-11-16 18:15:46,1.5,1\n", 2, 21, "not '1.5'"},
      {AZURE "2023-11-16 18:15:46,2147483648,1\n", 2, 21, "not '2147483648'"},
      {AZURE "2023-11-16 18:15:46,99999999999999999999,1\n", 2, 21, "not '9999"},
      {AZURE "2023-13-16 18:15:46,1,1\n", 2, 1, "'TIMESTAMP' must be a time"},
      {AZURE "2023-02-29 18:15:46,1,1\n", 2, 1, "'TIMESTAMP' must be a time"},
      {AZURE "2023-11-16 24:00:00,1,1\n", 2, 1, "'TIMESTAMP' must be a time"},
      {AZURE "2023-11-16x18:15:46,1,1\n", 2, 1, "'TIMESTAMP' must be a time"},
      {AZURE "2023-11-16 18:15:46.,1,1\n", 2, 1, "'TIMESTAMP' must be a time"},
      {AZURE "2023-11-16 18:15:4,1,1\n", 2, 1, "'TIMESTAMP' must be a time"},
      {AZURE "2023-11-16 18:15:46+1:000,1,1\n", 2, 1, "'TIMESTAMP' must be a time"},
      {AZURE "2023-11-16 18:15:46,1,1\n2023-11-16 18:15:45.9,1,1\n", 3, 1,
       "'2023-11-16 18:15:45.9' comes after '2023-11-16 18:15:46'"},
      {AZURE "2023-11-16 18:15:46,1,1\n2024-11-16 18:15:46,1,1\n", 3, 1, "106 days"},
      {SPLITWISE "0,2,0,-1,1,1,1\n", 2, 7, "'arrival_timestamp' must be"},
      {SPLITWISE "0,2,0,nan,1,1,1\n", 2, 7, "not 'nan'"},
      {SPLITWISE "0,2,0,0x10,1,1,1\n", 2, 7, "not '0x10'"},
      {SPLITWISE "0,2,0,1e9,1,1,1\n", 2, 7, "not '1e9'"},
      {SPLITWISE "0,2,0,,1,1,1\n", 2, 7, "'arrival_timestamp' is empty"},
      {SPLITWISE "0,2,0,2,1,1,1\n1,2,0,1,1,1,1\n", 3, 7, "'1' comes after '2'"},
      {"{\"input_length\": 1}\n", 1, 1, "missing key 'timestamp'"},
      {"{\"timestamp\": 1}\n", 1, 1, "the trace is in no known format"},
      {"{\"timestamp\": 1, \"timestamp\": 2, \"input_length\": 1}\n", 1, 19,
       "duplicate key 'timestamp'"},
      {"{\"timestamp\": [1], \"input_length\": 1, \"output_length\": 1}", 1, 15,
       "a number of milliseconds"},
      {"{\"timestamp\": 1 \"x\": 2}", 1, 17, "expected ',' or '}'"},
      {"{\"timestamp\": 1", 1, 16, "before the end of the line"},
      {"{\"timestamp\" 1}", 1, 14, "expected ':'"},
      {"{\"timestamp\": }", 1, 15, "expected a value"},
      {"{\"hash_ids\": [1, 2", 1, 19, "expected ']'"},
      {"{\"hash", 1, 7, "expected '\"'"},
      {"{} x", 1, 4, "end of the line"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    setup();
    TraceRow rows[8];
    int n = 0;
    cr_expect_eq(read_text(cases[i].text, rows, 8, &n), -1, "%s", cases[i].text);
    expect_entry(&diag, 0, cases[i].line, cases[i].column, cases[i].part, cases[i].text);
    cr_expect_eq(diag_exit_code(&diag), 3);
    teardown();
  }
}

Test(trace_file, all_that_is_wrong_with_a_row_is_said) {
  setup();
  TraceRow rows[1];
  int n = 0;
  cr_expect_eq(read_text(AZURE "today,0,many\n", rows, 1, &n), -1);
  cr_assert_eq(diag.n_entries, 3);
  expect_entry(&diag, 0, 2, 1, "TIMESTAMP", "the time");
  expect_entry(&diag, 1, 2, 7, "ContextTokens", "the prompt");
  expect_entry(&diag, 2, 2, 9, "GeneratedTokens", "the output");
  teardown();
}

Test(trace_file, a_stated_format_must_match_the_header) {
  static const struct {
    const char *format, *text, *part;
    int column;
  } cases[] = {
      {"azure", SPLITWISE, "format 'azure' needs a column 'TIMESTAMP'", 1},
      {"splitwise_sim", AZURE, "format 'splitwise_sim'", 1},
      {"mooncake", AZURE, "expected '{'", 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    setup();
    TraceFile file;
    TraceRow row;
    const TraceReading reading = {.format = format_named(cases[i].format)};
    int status = trace_file_open_text(&file, "t", cases[i].text, strlen(cases[i].text), &reading,
                                      &arena, &diag);
    if (status == 0) status = trace_file_next(&file, &row, &diag);
    cr_expect_eq(status, -1);
    expect_entry(&diag, 0, 1, cases[i].column, cases[i].part, cases[i].format);
    teardown();
  }
}

Test(trace_file, what_cannot_be_opened_is_of_the_environment) {
  static const char *const paths[] = {"/", "/nonexistent/trace.csv"};
  static const char *const parts[] = {"is a directory", "cannot open"};
  for (int i = 0; i < 2; i++) {
    setup();
    TraceFile file;
    cr_expect_eq(trace_file_open(&file, paths[i], NULL, &arena, &diag), -1);
    expect_entry(&diag, 0, 0, 0, parts[i], paths[i]);
    cr_expect_eq(diag_exit_code(&diag), 4);
    teardown();
  }
}

/* A trace of `rows` rows, one per second of a day, whose bytes hardly compress. */
static char *make_trace(int rows, size_t *ret_length, Arena *arena) {
  enum { ROW = 64 };
  size_t size = (size_t)(rows + 1) * ROW, used = strlen(AZURE);
  char *text = arena_alloc(arena, size);
  memcpy(text, AZURE, used);
  Rng rng;
  rng_init(&rng, 1, "test");
  for (int i = 0; i < rows; i++)
    used += (size_t)snprintf(text + used, size - used, "2023-11-16 %02d:%02d:%02d.%07d,%d,%d\n",
                             i / 3600, i / 60 % 60, i % 60, (int)rng_below(&rng, 10000000),
                             1 + (int)rng_below(&rng, 99999), 1 + (int)rng_below(&rng, 999));
  *ret_length = used;
  return text;
}

/* Counts the rows of a file, all read twice; -1 if reading fails. */
static int count_rows_twice(const char *path) {
  TraceFile file;
  TraceRow row;
  int counts[2] = {0, 0};
  if (trace_file_open(&file, path, NULL, &arena, &diag)) return -1;
  for (int pass = 0; pass < 2; pass++) {
    int status = 1;
    while ((status = trace_file_next(&file, &row, &diag)) > 0)
      counts[pass]++;
    if (status == 0) status = trace_file_rewind(&file, &diag);
    if (status) counts[pass] = -1;
    if (status) break;
  }
  trace_file_close(&file);
  cr_expect(counts[0] < 0 || counts[0] == counts[1]);
  return counts[0];
}

Test(trace_file, gzip_reads_like_plain_text_and_damage_is_found) {
  setup();
  enum { ROWS = 20000 }; // several buffers long
  size_t length = 0, size = 0;
  char *text = make_trace(ROWS, &length, &arena);
  const char *plain = temp_file(text, length, &arena);
  const char *packed = temp_file("", 0, &arena);
  gzFile out = gzopen(packed, "wb");
  cr_assert_eq(gzwrite(out, text, (unsigned)length), (int)length);
  cr_assert_eq(gzclose(out), Z_OK);
  cr_expect_eq(count_rows_twice(plain), ROWS);
  cr_expect_eq(count_rows_twice(packed), ROWS);
  cr_expect_eq(diag.n_entries, 0);

  unsigned char *bytes = arena_alloc(&arena, length);
  FILE *file = fopen(packed, "rb");
  size = fread(bytes, 1, length, file);
  fclose(file);
  const char *cut[] = {temp_file(bytes, size / 2, &arena), temp_file(bytes, size - 4, &arena),
                       temp_file(bytes, 20, &arena)};
  bytes[size / 2] ^= 0x55;
  const char *damaged = temp_file(bytes, size, &arena);
  for (int i = 0; i < 3; i++) {
    cr_expect_eq(count_rows_twice(cut[i]), -1);
    cr_assert_eq(diag.n_entries, i + 1);
    cr_expect(strstr(diag.entries[i].message, "cut short"), "%s", diag.entries[i].message);
    unlink(cut[i]);
  }
  cr_expect_gt(diag.entries[0].at.line, ROWS / 4);
  cr_expect_lt(diag.entries[0].at.line, ROWS * 3 / 4);
  cr_expect_eq(diag.entries[1].at.line, ROWS + 2);
  cr_expect_eq(count_rows_twice(damaged), -1);
  cr_expect_eq(diag_exit_code(&diag), 3);
  unlink(plain);
  unlink(packed);
  unlink(damaged);
  teardown();
}

Test(trace_file, lines_may_be_long_but_not_without_end) {
  static const size_t lengths[] = {1000000, LINE_LENGTH_MAX + 100000};
  for (int i = 0; i < 2; i++) {
    setup();
    static const char head[] = "{\"timestamp\": 1, \"input_length\": 2, \"output_length\": 3, "
                               "\"x\": [";
    char *text = arena_alloc(&arena, lengths[i]);
    memset(text, ' ', lengths[i]);
    memcpy(text, head, strlen(head));
    memcpy(text + lengths[i] - 2, "]}", 2);
    const char *path = temp_file(text, lengths[i], &arena);
    cr_expect_eq(count_rows_twice(path), i == 0 ? 1 : -1);
    if (i == 1) {
      expect_entry(&diag, 0, 1, 0, "longer than 16 MiB", "a line without end");
      cr_expect(strstr(diag.entries[0].hint, "weka"));
    }
    unlink(path);
    teardown();
  }
}

Test(trace_file, the_sample_is_an_azure_trace) {
  setup();
  const char *path = data_path("TANDEM_SOURCE_DIR", "traces/sample/azure_sample.csv", &arena);
  cr_assert_not_null(path);
  cr_expect_eq(count_rows_twice(path), 200);
  teardown();
}

/* Rows and means are those of the published files; medians are the known ones, up to the 0.4% of a
 * histogram. */
Test(trace_file, the_published_traces_have_their_known_statistics) {
  static const struct {
    const char *name;
    int64_t rows;
    double prompt_mean, prompt_p50, output_mean, output_p50, rate, gap_cv, correlation;
  } cases[] = {
      {"traces/AzureLLMInferenceTrace_conv.csv", 19366, 1154.7, 1020, 211.1, 129, 5.530, 1.094,
       0.073},
      {"traces/AzureLLMInferenceTrace_code.csv", 8819, 2047.8, 1469, 27.9, 13, 2.566, 13.151,
       -0.021},
      {"traces/mooncake_conversation_trace.jsonl", 12031, 12035.1, 6909, 342.6, 350, 3.401, 3.034,
       0.072},
      {"splitwise-sim-runs/traces/azure_conv_replay.csv.gz", 19366, 1154.7, 1020, 211.1, 129, 5.530,
       1.094, 0.073},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    setup();
    const char *path = data_path("TANDEM_DATA_DIR", cases[i].name, &arena);
    if (!path) cr_skip_test("TANDEM_DATA_DIR has no %s", cases[i].name);
    TraceFile file;
    TraceSummary summary;
    TraceRow row;
    int status = 1;
    summary_init(&summary, &arena);
    cr_assert_eq(trace_file_open(&file, path, NULL, &arena, &diag), 0);
    while ((status = trace_file_next(&file, &row, &diag)) > 0)
      summary_add(&summary, &row);
    trace_file_close(&file);
    cr_expect_eq(status, 0);
    cr_expect_eq(summary.rows, cases[i].rows);
    const double pairs[][3] = {
        // what it is, what it should be, tolerance
        {histogram_mean(&summary.prompt_tokens), cases[i].prompt_mean, 0.05},
        {histogram_mean(&summary.output_tokens), cases[i].output_mean, 0.05},
        {histogram_quantile(&summary.prompt_tokens, 0.5), cases[i].prompt_p50,
         cases[i].prompt_p50 / 256},
        {histogram_quantile(&summary.output_tokens, 0.5), cases[i].output_p50,
         cases[i].output_p50 < 256 ? 0 : cases[i].output_p50 / 256},
        {summary_rate(&summary), cases[i].rate, 0.0005},
        {summary_gap_cv(&summary), cases[i].gap_cv, 0.0006},
        {summary_correlation(&summary), cases[i].correlation, 0.0006}};
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
      cr_expect(fabs(pairs[k][0] - pairs[k][1]) <= pairs[k][2], "%s, figure %zu: %.6g, not %.6g",
                cases[i].name, k, pairs[k][0], pairs[k][1]);
    teardown();
  }
}
