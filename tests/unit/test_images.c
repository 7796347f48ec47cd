/* Images of requests, drawn and of traces. Pinned: where they stand in the prompt and what they add
 * to it, which of them are the same, what sessions keep, and messages about what cannot be. */
#include "base/yaml.h"
#include "tests/unit/testing.h"
#include "traces/trace_file.h"
#include "traces/workload.h"

TestSuite(images, .init = setup_data, .fini = teardown);

static const char *const head = "lengths: {prompt: {constant: 100}, output: {constant: 10}}\n"
                                "arrivals: {process: poisson, rate: 1 /s}\n"
                                "requests: 400\n";

static TraceSource *open_drawn(const char *more) {
  static WorkloadConfig config;
  const char *text = arena_printf(&arena, "%s%s", head, more);
  const Node *node = yaml_parse("drawn", text, strlen(text), &arena, &diag);
  cr_assert_not_null(node);
  if (workload_bind(&config, node, data_dir, ".", &arena, &diag)) return NULL;
  return workload_open(&config, 1, &arena, &diag);
}

Test(images, drawn_ones_stand_behind_shared_text_and_add_to_the_prompt) {
  TraceSource *source = open_drawn("system_prompts: {count: 1, tokens: {constant: 30}}\n"
                                   "images: {count: {uniform: [1, 3]}, tokens: {constant: 50}, "
                                   "share: 50%}\n");
  int n_with = 0, n_images[4] = {0};
  TraceRow row;
  while (trace_next(source, &row, &diag) > 0) {
    cr_assert_leq(row.n_inputs, 3);
    cr_expect_eq(row.prompt_tokens, 130 + 50 * row.n_inputs);
    for (int i = 0; i < row.n_inputs; i++)
      cr_expect(row.inputs[i].place == 30 + 50 * i && row.inputs[i].tokens == 50);
    n_images[row.n_inputs]++;
    n_with += row.n_inputs > 0;
  }
  cr_expect(150 < n_with && n_with < 250, "%d", n_with); // 5 standard errors
  for (int n = 1; n <= 3; n++)
    cr_expect(n_images[n] > n_with / 5, "%d of %d", n_images[n], n_with);
}

/* Two images, 0.8 : 0.2 in popularity. */
Test(images, distinct_ones_come_again) {
  TraceSource *source =
      open_drawn("images: {tokens: {uniform: [1, 1000]}, distinct: 2, zipf: 2}\n");
  TraceRow row;
  uint64_t first = 0;
  int32_t tokens = 0;
  int n_first = 0;
  while (trace_next(source, &row, &diag) > 0) {
    cr_assert_eq(row.n_inputs, 1);
    if (first == 0) first = row.inputs[0].id, tokens = row.inputs[0].tokens;
    n_first += row.inputs[0].id == first;
    cr_expect_eq(row.inputs[0].id == first, row.inputs[0].tokens == tokens);
    cr_expect_eq(row.prompt_tokens, 100 + row.inputs[0].tokens);
  }
  cr_expect(280 < n_first || n_first < 120, "%d", n_first);
}

Test(images, without_distinct_ones_none_comes_twice) {
  TraceSource *source = open_drawn("images: {tokens: {constant: 5}}\n");
  uint64_t seen[400];
  TraceRow row;
  for (int n = 0; trace_next(source, &row, &diag) > 0; n++) {
    seen[n] = row.inputs[0].id;
    for (int i = 0; i < n; i++)
      cr_assert_neq(seen[i], seen[n]);
  }
}

/* A prompt that the context cuts keeps the images that are wholly in it. */
Test(images, a_cut_prompt_loses_images) {
  TraceSource *source = open_drawn("images: {count: {constant: 4}, tokens: {constant: 50}}\n"
                                   "max_model_len: 121\n");
  TraceRow row;
  cr_assert_eq(trace_next(source, &row, &diag), 1);
  cr_expect(row.prompt_tokens == 120 && row.n_inputs == 2);
}

Test(images, all_turns_of_a_session_have_those_of_the_first) {
  TraceSource *source = open_drawn("sessions: {turns: {constant: 2}}\n"
                                   "images: {tokens: {constant: 50}}\n");
  TraceRow first, second;
  cr_assert_eq(trace_next(source, &first, &diag), 1);
  const TraceInput image = first.inputs[0];
  source->ended(source, &(TraceEnd){.at = first.at, .served = true, .ticket = first.ticket});
  cr_assert_eq(trace_next(source, &second, &diag), 1);
  cr_assert_eq(second.turn, 1);
  cr_expect_eq(second.prompt_tokens, 150 + 10 + 100);
  cr_assert_eq(second.n_inputs, 1);
  cr_expect_eq(memcmp(&second.inputs[0], &image, sizeof image), 0);
}

Test(images, a_map_is_needed) {
  cr_expect_null(open_drawn("images: 5\n"));
  cr_assert_eq(diag.n_entries, 1);
  cr_expect_not_null(strstr(diag.entries[0].message, "'images' must be a map"));
}

/* --- of a trace */

static const TraceReading reading = {.columns = {"ts", "in", "out", NULL, NULL, "img"}};

static int read_first(const char *text, TraceRow *rows, int n) {
  static TraceFile file;
  if (trace_file_open_text(&file, "t", text, strlen(text), &reading, &arena, &diag)) return -1;
  int status = 1;
  for (int i = 0; i < n && status > 0; i++) {
    status = trace_file_next(&file, &rows[i], &diag);
    if (status <= 0) break;
    TraceInput *inputs = ARENA_ARRAY(&arena, TraceInput, rows[i].n_inputs);
    for (int k = 0; k < rows[i].n_inputs; k++)
      inputs[k] = rows[i].inputs[k];
    rows[i].inputs = inputs;
  }
  trace_file_close(&file);
  return status;
}

static void expect_image(const TraceInput *image, int32_t place, int32_t tokens) {
  cr_expect(image->place == place && image->tokens == tokens, "%d tokens at %d", image->tokens,
            image->place);
}

Test(images, a_column_of_a_trace_has_them) {
  static const char *const texts[] = {
      "ts,in,out,img\n0,100,6,20 10@40=cat 10\n1,100,6,\n2,100,6, 10@90=cat  \n",
      "{\"ts\": 0, \"in\": 100, \"out\": 6, \"img\": \"20 10@40=cat 10\"}\n"
      "{\"ts\": 1, \"in\": 100, \"out\": 6}\n"
      "{\"ts\": 2, \"in\": 100, \"out\": 6, \"img\": \"10@90=cat\"}\n"};
  for (size_t i = 0; i < COUNT(texts); i++) {
    TraceRow rows[3];
    cr_assert_eq(read_first(texts[i], rows, 3), 1);
    cr_assert(rows[0].n_inputs == 3 && rows[1].n_inputs == 0 && rows[2].n_inputs == 1);
    expect_image(&rows[0].inputs[0], 0, 20);
    expect_image(&rows[0].inputs[1], 40, 10);
    expect_image(&rows[0].inputs[2], 50, 10);
    expect_image(&rows[2].inputs[0], 90, 10);
    cr_expect_eq(rows[0].inputs[1].id, rows[2].inputs[0].id);
    cr_expect_neq(rows[0].inputs[0].id, rows[0].inputs[2].id);
  }
}

Test(images, those_that_cannot_be_are_located) {
  static const struct {
    const char *images;
    int column;
    const char *part;
  } cases[] = {
      {"20 30@80", 12, "ends at token 110 of a prompt of 100"},
      {"20 10@19", 15, "begins before the one in front of it ends"},
      {"0", 9, "'img'"},
      {"20@x", 12, "the place of an image"},
      {"cat", 9, "'img'"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    TraceRow row;
    diag_done(&diag);
    diag_init(&diag);
    const char *text = arena_printf(&arena, "ts,in,out,img\n0,100,6,%s\n", cases[i].images);
    cr_expect_eq(read_first(text, &row, 1), -1, "%s", cases[i].images);
    cr_assert_geq(diag.n_entries, 1);
    const DiagEntry *entry = &diag.entries[0];
    cr_expect(entry->at.line == 2 && entry->at.column == cases[i].column, "%s: column %d",
              cases[i].images, entry->at.column);
    cr_expect_not_null(strstr(entry->message, cases[i].part), "%s", entry->message);
  }
}
