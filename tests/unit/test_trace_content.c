/* What tokens of requests are: hashes that traces name, what an endless cache would hit of them,
 * and drawn beginnings.
 *
 * Pinned: segments of each format, that equal beginnings and only these have equal ids, where
 * messages about hashes point and that they count; hits against a cache of single blocks; the known
 * shares of the published traces; lengths and popularity of drawn texts; that what was drawn before
 * is drawn still. Not pinned: ids. */
#include "sim/core/prefix_cache.h"
#include "tests/unit/testing.h"
#include "traces/reuse.h"
#include "traces/trace_file.h"
#include "traces/workload.h"
#include <math.h>

TestSuite(trace_content, .init = setup, .fini = teardown);

enum { ROWS_MAX = 8, SEGMENTS_MAX = 8 };

typedef struct Rows {
  TraceRow rows[ROWS_MAX];
  TraceSegment segments[ROWS_MAX][SEGMENTS_MAX];
  int n;
} Rows;

/* All rows of `text` with copies of their segments; returns how it ended. */
static int read_rows(const char *text, Rows *ret) {
  TraceFile file;
  *ret = (Rows){0};
  if (trace_file_open_text(&file, "t", text, strlen(text), NULL, &arena, &diag)) return -1;
  int status = 1;
  TraceRow row;
  while ((status = trace_file_next(&file, &row, &diag)) > 0) {
    cr_assert(ret->n < ROWS_MAX && row.n_segments <= SEGMENTS_MAX);
    for (int i = 0; i < row.n_segments; i++)
      ret->segments[ret->n][i] = row.segments[i];
    ret->rows[ret->n++] = row;
  }
  trace_file_close(&file);
  return status;
}

/* How many of their first segments are the same. */
static int shared(const Rows *rows, int a, int b) {
  int n = 0;
  while (n < rows->rows[a].n_segments && n < rows->rows[b].n_segments &&
         rows->segments[a][n].id == rows->segments[b][n].id)
    n++;
  return n;
}

Test(trace_content, hashes_name_beginnings) {
  static const char mooncake[] =
      "{\"timestamp\": 0, \"input_length\": 1100, \"output_length\": 5, \"hash_ids\": [7, 8, 9]}\n"
      "{\"timestamp\": 0, \"input_length\": 1536, \"output_length\": 5, \"hash_ids\": [7,8,10]}\n"
      "{\"timestamp\": 0, \"input_length\": 1024, \"output_length\": 5, \"hash_ids\": [8, 7]}\n"
      "{\"timestamp\": 1, \"input_length\": 1024, \"output_length\": 5}\n";
  Rows rows;
  cr_assert_eq(read_rows(mooncake, &rows), 0);
  cr_assert_eq(rows.n, 4);
  const int ends[][4] = {{3, 512, 1024, 1100}, {3, 512, 1024, 1536}, {2, 512, 1024}, {0}};
  for (int i = 0; i < 4; i++) {
    cr_assert_eq(rows.rows[i].n_segments, ends[i][0], "row %d", i);
    for (int k = 0; k < ends[i][0]; k++)
      cr_expect_eq(rows.segments[i][k].end, ends[i][k + 1], "row %d, segment %d", i, k);
  }
  cr_expect_eq(shared(&rows, 0, 1), 2);
  cr_expect_eq(shared(&rows, 0, 2), 0);
  cr_expect_neq(rows.segments[2][1].id, rows.segments[0][0].id, "7 behind 8 is not 7 in front");
}

/* LLMServingSim's requests of 20 and 36 tokens, of which those of the output are some. */
Test(trace_content, tokens_name_beginnings) {
  static const char *const outputs[] = {
      ", \"output_tok_ids\": [20,21,22,23,24,25,26,27,28,29,30,31]", ""};
  for (int k = 0; k < 2; k++) {
    char text[900];
    int n = snprintf(text, sizeof text,
                     "{\"input_toks\": 20, \"output_toks\": 12, \"arrival_time_ns\": 0%s"
                     ", \"input_tok_ids\": [0",
                     outputs[k]);
    for (int i = 1; i < 20; i++)
      n += snprintf(text + n, sizeof text - (size_t)n, ", %d", i);
    n += snprintf(text + n, sizeof text - (size_t)n,
                  "]}\n{\"input_toks\": 36, \"output_toks\": 1, "
                  "\"arrival_time_ns\": 5, \"input_tok_ids\": [0");
    for (int i = 1; i < 36; i++)
      n += snprintf(text + n, sizeof text - (size_t)n, ", %d", i);
    snprintf(text + n, sizeof text - (size_t)n,
             "]}\n{\"input_toks\": 3, \"output_toks\": 1, "
             "\"arrival_time_ns\": 6, \"input_tok_ids\": null, \"output_tok_ids\": []}\n");
    Rows rows;
    cr_assert_eq(read_rows(text, &rows), 0, "%s", diag.n_entries ? diag.entries[0].message : "");
    cr_assert_eq(rows.n, 3);
    cr_expect_eq(rows.rows[0].n_segments, k == 0 ? 2 : 1);
    cr_expect_eq(rows.rows[1].n_segments, 2);
    cr_expect_eq(rows.segments[1][1].end, 32);
    cr_expect_eq(rows.rows[2].n_segments, 0);
    cr_expect_eq(shared(&rows, 0, 1), k == 0 ? 2 : 1);
  }
}

Test(trace_content, the_kind_of_a_trace_is_known_by_its_keys) {
  static const char qwen[] =
      "{\"chat_id\": 1, \"parent_chat_id\": -1, \"timestamp\": 0.5, \"input_length\": 33, "
      "\"output_length\": 5, \"type\": \"text\", \"turn\": 1, \"hash_ids\": [1, 1, 2]}\n"
      "{\"chat_id\": 2, \"parent_chat_id\": 1, \"timestamp\": 61.114, \"input_length\": 32, "
      "\"output_length\": 5, \"type\": \"text\", \"turn\": 2, \"hash_ids\": [1, 3]}\n";
  Rows rows;
  cr_assert_eq(read_rows(qwen, &rows), 0);
  cr_assert_eq(rows.n, 2);
  cr_expect_eq(rows.rows[0].at, TICKS_PER_SECOND / 2);
  cr_expect_eq(rows.rows[1].at, INT64_C(61114000000000));
  cr_expect_eq(rows.segments[0][2].end, 33);
  cr_expect_neq(rows.segments[0][0].id, rows.segments[0][1].id, "a repetition goes on");
  cr_expect_eq(shared(&rows, 0, 1), 1);
}

/* Requests of subagents lie between those of the session, and sessions beside each other. */
Test(trace_content, sessions_of_agents_are_put_in_order_of_time) {
  static const char weka[] =
      "{\"id\": \"a\", \"block_size\": 64, \"hash_id_scope\": \"local\", \"requests\": ["
      "{\"t\": 0.0, \"type\": \"n\", \"in\": 130, \"out\": 38, \"hash_ids\": [1, 2]},"
      "{\"t\": 2, \"type\": \"subagent\", \"requests\": ["
      "{\"t\": 4.0, \"in\": 128, \"out\": 0, \"hash_ids\": [1, 9]},"
      "{\"t\": 1.5, \"in\": 70, \"out\": 3, \"hash_ids\": [1, 4]}]},"
      "{\"t\": 3, \"type\": \"s\", \"in\": 200, \"out\": 1, \"hash_ids\": [1, 2, 3]}]}\n"
      "{\"id\": \"b\", \"requests\": [{\"t\": 3, \"in\": 64, \"out\": 1, \"hash_ids\": [1]}]}\n";
  static const struct {
    double at_s;
    int prompt, output, n_segments, end, shared_with_first;
  } want[] = {{0, 130, 38, 2, 128, 2},
              {3, 200, 1, 3, 192, 2},
              {3, 64, 1, 1, 64, 0},
              {3.5, 70, 3, 2, 70, 1},
              {4, 128, 1, 2, 128, 1}};
  Rows rows;
  cr_assert_eq(read_rows(weka, &rows), 0);
  cr_assert_eq(rows.n, 5);
  for (int i = 0; i < 5; i++) {
    const TraceRow *row = &rows.rows[i];
    cr_expect(row->at == tick_from_seconds(want[i].at_s) && row->prompt_tokens == want[i].prompt &&
                  row->output_tokens == want[i].output,
              "row %d: %g s, %d, %d", i, tick_seconds(row->at), row->prompt_tokens,
              row->output_tokens);
    cr_assert_eq(row->n_segments, want[i].n_segments, "row %d", i);
    cr_expect_eq(rows.segments[i][row->n_segments - 1].end, want[i].end, "row %d", i);
    cr_expect_eq(shared(&rows, 0, i), want[i].shared_with_first, "row %d", i);
  }
}

#define ROW(prompt, hashes)                                                                        \
  "{\"timestamp\": 1, \"input_length\": " prompt ", \"output_length\": 1, \"hash_ids\": " hashes "}"
#define WEKA(keys, request) "{" keys "\"requests\": [" request "]}"
#define TOKENS(length, tokens)                                                                     \
  "{\"input_toks\": " length                                                                       \
  ", \"output_toks\": 1, \"arrival_time_ns\": 0, \"input_tok_ids\": " tokens "}\n"

Test(trace_content, wrong_hashes_are_located_and_counted) {
  static const struct {
    const char *text;
    int column;
    const char *part;
  } cases[] = {
      {ROW("1025", "[1, 2]"), 72, "must name 3 blocks of 512 tokens for a prompt of 1025, not 2"},
      {ROW("1024", "[1, 2, 3]"), 72,
       "must name 2 blocks of 512 tokens for a prompt of 1024, not 3"},
      {ROW("1", "[]"), 69, "must name 1 block of 512 tokens for a prompt of 1, not 0"},
      {ROW("1", "7"), 69, "expected '['"},
      {ROW("1", "[1 2]"), 72, "expected ',' or ']'"},
      {ROW("1", "[-1]"), 70, "whole numbers below 2^64, not '-1'"},
      {ROW("1", "[18446744073709551616]"), 70, "whole numbers below 2^64"},
      {ROW("1", "[[1]]"), 70, "not '[1]'"},
      {WEKA("", "{\"t\": 0, \"in\": 130, \"out\": 1, \"hash_ids\": [1]}"), 57,
       "must name 3 blocks of 64 tokens, the last of which may be missing, for a prompt of 130"},
      {WEKA("\"block_size\": 32, ", "{\"t\": 0, \"in\": 64, \"out\": 1, \"hash_ids\": [1]}"), 74,
       "must name 2 blocks of 32 tokens for a prompt of 64, not 1"},
      {WEKA("\"block_size\": 0, ", ""), 16, "'block_size' must be"},
      {WEKA("\"hash_id_scope\": \"global\", ", ""), 19, "must be \"local\", not '\"global\"'"},
      {WEKA("", "{\"in\": 1, \"out\": 1}"), 15, "missing key 't'"},
      {WEKA("", "{\"t\": 0, \"out\": 1}"), 15, "missing key 'in'"},
      {WEKA("", "{\"t\": \"x\", \"in\": 1, \"out\": 1}"), 21, "a number of seconds"},
      {WEKA("", "{\"t\": 0, \"type\": \"subagent\"}"), 15, "missing key 'requests'"},
      {WEKA("", "{\"t\": 0, \"type\": \"subagent\", \"requests\": {}}"), 56, "expected '['"},
      {WEKA("", "{\"t\": 9e6, \"type\": \"subagent\", \"requests\": ["
                "{\"t\": 8e6, \"in\": 1, \"out\": 1}]}"),
       65, "the time is beyond 106 days"},
      {WEKA("", ""), 0, "no rows"},
      {TOKENS("2", "[1]"), 76, "'input_tok_ids' lists 1 tokens, but 'input_toks' is 2"},
      {TOKENS("1", "[1, 2]"), 76, "'input_tok_ids' lists 2 tokens, but 'input_toks' is 1"},
      {TOKENS("1", "[x]"), 77, "'input_tok_ids' must be a list of whole numbers, not 'x'"},
      {TOKENS("1", "[1], \"output_tok_ids\": [1, 2]"), 99, "'output_tok_ids' lists 2 tokens"},
      {TOKENS("1", "[1], \"sub_requests\": []"), 97, "are not supported"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    Rows rows;
    diag_done(&diag);
    diag_init(&diag);
    cr_expect_eq(read_rows(cases[i].text, &rows), -1, "%s", cases[i].text);
    expect_entry(&diag, 0, cases[i].column > 0, cases[i].column, cases[i].part, cases[i].text);
  }
}

/* Against the engine's own cache, where nothing is ever taken for something else. */
Test(trace_content, an_endless_cache_is_the_engines_with_blocks_enough) {
  enum { REQUESTS = 400, BLOCKS = 4000000 };
  static const int block_sizes[] = {1, 16, 48, 512, 700};
  for (size_t b = 0; b < COUNT(block_sizes); b++) {
    const int64_t size = block_sizes[b];
    PrefixCache cache;
    Reuse reuse;
    Rng rng;
    Content content = {0};
    TraceSegment segments[12];
    prefix_cache_init(&cache, BLOCKS, &arena);
    reuse_init(&reuse, size, &arena);
    rng_init(&rng, 7, "test");
    for (int i = 0; i < REQUESTS; i++) {
      const int32_t n = (int32_t)rng_below(&rng, 12);
      TraceRow row = {.segments = segments, .n_segments = n, .output_tokens = 1};
      uint64_t id = 0;
      for (int32_t k = 0; k < n; k++) {
        id = hash_fold(id, rng_below(&rng, 2));
        segments[k] = (TraceSegment){id, 100 * (k + 1)};
      }
      row.prompt_tokens = 100 * n + 1 + (int32_t)rng_below(&rng, 100);
      if (n > 0 && rng_below(&rng, 2) > 0) // the last segment in part
        row.prompt_tokens = segments[n - 1].end -= (int32_t)rng_below(&rng, 100);
      content_set(&content, &row, (uint64_t)i, &arena);
      int64_t unheld = 0;
      HeldBlocks held = {0};
      const int64_t hits =
          prefix_cache_match(&cache, &content, size, (row.prompt_tokens - 1) / size, &unheld);
      prefix_cache_hit(&cache, &held, &content, size, hits);
      prefix_cache_take(&cache, &held, row.prompt_tokens / size + 1 - hits);
      prefix_cache_register(&cache, &held, &content, size, row.prompt_tokens);
      prefix_cache_release(&cache, &held);
      cr_expect_eq(reuse_add(&reuse, &row), hits * size, "request %d, blocks of %lld", i,
                   (long long)size);
    }
    cr_expect(reuse.hit_tokens > 0 || size > 600);
  }
}

Test(trace_content, the_published_traces_have_their_known_share) {
  static const struct {
    const char *name;
    double share;
  } cases[] = {{"traces/mooncake_conversation_trace.jsonl", 0.374},
               {"traces/mooncake_synthetic_trace.jsonl", 0.651}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    const char *path = data_path("TANDEM_DATA_DIR", cases[i].name, &arena);
    if (!path) cr_skip_test("TANDEM_DATA_DIR has no %s", cases[i].name);
    TraceFile file;
    Reuse reuse;
    TraceRow row;
    reuse_init(&reuse, 16, &arena);
    cr_assert_eq(trace_file_open(&file, path, NULL, &arena, &diag), 0);
    while (trace_file_next(&file, &row, &diag) > 0)
      reuse_add(&reuse, &row);
    trace_file_close(&file);
    cr_expect_float_eq(reuse_share(&reuse), cases[i].share, 0.0005, "%s: %g", cases[i].name,
                       reuse_share(&reuse));
  }
}

/* ---- Drawn beginnings ---- */

static WorkloadConfig drawn(int64_t requests) {
  const LengthDistribution of = {.kind = LENGTH_UNIFORM, .low = 10, .high = 1000};
  return (WorkloadConfig){.arrivals = ARRIVAL_FIXED,
                          .rate = 1,
                          .prompt = of,
                          .output = of,
                          .requests = requests,
                          .seed = -1};
}

static SharedTexts texts(int64_t count, double zipf, double low, double high) {
  return (SharedTexts){
      .count = count, .zipf = zipf, .tokens = {.kind = LENGTH_UNIFORM, .low = low, .high = high}};
}

Test(trace_content, texts_stand_in_front_of_what_is_drawn_anyway) {
  enum { N = 500 };
  const WorkloadConfig plain = drawn(N);
  uint64_t ids[N][2];
  int n = 0, n_repeated = 0;
  WorkloadConfig both = plain;
  both.system_prompts = texts(3, 1, 50, 90);
  both.documents = texts(40, 0, 2000, 3000);
  TraceSource *without = workload_open(&plain, 5, &arena, &diag);
  TraceSource *with = workload_open(&both, 5, &arena, &diag);
  TraceRow a, b;
  while (trace_next(without, &a, &diag) > 0) {
    cr_assert_gt(trace_next(with, &b, &diag), 0);
    cr_expect_eq(a.n_segments, 0);
    cr_assert_eq(b.n_segments, 2);
    const int32_t first = b.segments[0].end, second = b.segments[1].end - first;
    cr_expect(50 <= first && first <= 90 && 2000 <= second && second <= 3000);
    cr_expect(b.at == a.at && b.output_tokens == a.output_tokens);
    cr_expect_eq(b.prompt_tokens, a.prompt_tokens + first + second);
    for (int i = 0; i < n; i++) { // a document names the system prompt before it, too
      if (ids[i][1] != b.segments[1].id) continue;
      cr_expect_eq(ids[i][0], b.segments[0].id);
      n_repeated++;
    }
    ids[n][0] = b.segments[0].id;
    ids[n++][1] = b.segments[1].id;
  }
  cr_expect_gt(n_repeated, 0);
  cr_expect_eq(trace_next(with, &b, &diag), 0);
}

/* Counts within five standard errors of n·p; equal ids have equal lengths. */
Test(trace_content, popularity_follows_zipf) {
  enum { N = 60000, TEXTS = 5 };
  static const double exponents[] = {0, 1, 2.5};
  for (size_t e = 0; e < COUNT(exponents); e++) {
    WorkloadConfig config = drawn(N);
    config.documents = texts(TEXTS, exponents[e], 1, 1000000);
    TraceSource *source = workload_open(&config, 1, &arena, &diag);
    struct {
      uint64_t id;
      int32_t end, n;
    } seen[TEXTS] = {0};
    TraceRow row;
    int n = 0;
    while (trace_next(source, &row, &diag) > 0) {
      int i = 0;
      cr_assert_eq(row.n_segments, 1);
      while (i < n && seen[i].id != row.segments[0].id)
        i++;
      cr_assert_lt(i, TEXTS);
      if (i == n) seen[n++].end = row.segments[0].end;
      seen[i].id = row.segments[0].id;
      seen[i].n++;
      cr_expect_eq(seen[i].end, row.segments[0].end);
    }
    double sum = 0;
    int counts[TEXTS] = {0};
    for (int k = 1; k <= TEXTS; k++)
      sum += pow(k, -exponents[e]);
    for (int i = 0; i < TEXTS; i++) { // the k-th most frequent
      int rank = 0;
      for (int k = 0; k < TEXTS; k++)
        rank += seen[k].n > seen[i].n || (seen[k].n == seen[i].n && k < i);
      counts[rank] = seen[i].n;
    }
    for (int k = 1; k <= TEXTS; k++) {
      const double p = pow(k, -exponents[e]) / sum, error = sqrt(N * p * (1 - p));
      cr_expect_float_eq(counts[k - 1], N * p, 5 * error, "s = %g, rank %d: %d", exponents[e], k,
                         counts[k - 1]);
    }
  }
}

Test(trace_content, a_context_that_ends_within_a_text_cuts_it) {
  WorkloadConfig config = drawn(50);
  config.system_prompts = texts(1, 0, 300, 300);
  config.documents = texts(1, 0, 500, 500);
  static const struct {
    int64_t max_model_len;
    int n_segments, end;
  } cases[] = {{2000, 2, 800}, {700, 2, 699}, {301, 1, 300}, {200, 1, 199}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    config.max_model_len = cases[i].max_model_len;
    TraceSource *source = workload_open(&config, 1, &arena, &diag);
    TraceRow row;
    while (trace_next(source, &row, &diag) > 0) {
      cr_assert_eq(row.n_segments, cases[i].n_segments);
      cr_expect_eq(row.segments[row.n_segments - 1].end, cases[i].end);
      cr_expect_leq(row.segments[row.n_segments - 1].end, row.prompt_tokens);
      cr_expect_leq(row.prompt_tokens + row.output_tokens, cases[i].max_model_len);
    }
  }
}
