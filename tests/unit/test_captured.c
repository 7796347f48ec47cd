/* Captured batch sizes. Pinned: what a batch is padded to by a list and by each word, which terms
 * of an iteration see it, that a run's series is the sum of its steps as without, and what is
 * refused. */
#include "experiments/config/config.h"
#include "perfmodel/captured.h"
#include "perfmodel/perfmodel.h"
#include "tests/unit/sim_testing.h"
#include "tests/unit/testing.h"

TestSuite(captured, .init = setup_folder, .fini = teardown_folder);

static CapturedSizes sizes_of(const char *text) {
  CapturedSizes sizes = {0};
  const Node *root = yaml_parse("sizes", text, strlen(text), &arena, &diag);
  cr_assert_eq(captured_bind(&sizes, root, &arena, &diag), 0, "%s", text);
  return sizes;
}

/* And vLLM's own cut at 2·max_num_seqs takes away none of those used. */
Test(captured, a_word_is_the_list_of_its_engine) {
  const struct {
    const char *text;
    int64_t seqs, size;
  } cases[] = {
      {"vllm", 1, 1},
      {"vllm", 3, 4},
      {"vllm", 5, 8},
      {"vllm", 9, 16},
      {"vllm", 241, 248},
      {"vllm", 249, 256},
      {"vllm", 257, 272},
      {"vllm", 497, 512},
      {"vllm", 513, 513},
      {"vllm-blackwell", 513, 528},
      {"vllm-blackwell", 1009, 1024},
      {"vllm-blackwell", 1025, 1025},
      {"vllm-0.5.4", 249, 256},
      {"vllm-0.5.4", 257, 257},
      {"[3, 10]", 1, 3},
      {"[3, 10]", 3, 3},
      {"[3, 10]", 4, 10},
      {"[3, 10]", 11, 11},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const CapturedSizes sizes = sizes_of(cases[i].text);
    cr_expect_eq(captured_size(&sizes, cases[i].seqs), cases[i].size, "case %zu", i);
  }
  const CapturedSizes vllm = sizes_of("vllm");
  for (int64_t seqs = 1; seqs <= 512; seqs++)
    cr_expect_leq(captured_size(&vllm, seqs), 2 * seqs);
  cr_expect_eq(captured_size(&(CapturedSizes){0}, 7), 7);
}

static const char terms[] =
    "form: composed\nmodel: m\ngpu: g\ntensor_parallel_size: 1\n"
    "overhead: 1 ms\n"
    "linear: {knots: [[0, 0.0], [1000, 1.0]]}\n"
    "prefill_attention: none\n"
    "decode_attention: {rows: [{sequences: 1, knots: [[0, 0.0], [1000, 0.01]]},\n"
    "  {sequences: 11, knots: [[0, 0.1], [1000, 0.21]]}]}\n"
    "head: {knots: [[0, 0.0], [1000, 0.1]]}\n";

static PerfModel model_of(const char *last_line) {
  PerfModel model;
  write_file(path, arena_printf(&arena, "%s%s", terms, last_line));
  cr_assert_eq(perfmodel_load(&model, path, 40, &arena, &diag), 0);
  return model;
}

/* linear is 1 ms per token: six sequences run as ten are 4 ms longer, in whatever context. */
Test(captured, linear_alone_sees_the_padded_batch) {
  const PerfModel plain = model_of(""), padded = model_of("captured_batch_sizes: [1, 10, 20]\n");
  for (int64_t n = 1; n <= 40; n++) {
    const int64_t size = n == 1 ? 1 : n <= 10 ? 10 : n <= 20 ? 20 : n;
    for (int64_t context = 0; context <= 3000; context += 500) {
      BatchShape batch = {.decode_seqs = n, .context_tokens = context, .logit_seqs = n};
      cr_expect_eq(perfmodel_iteration(&padded, &batch, NULL) -
                       perfmodel_iteration(&plain, &batch, NULL),
                   (size - n) * TICKS_PER_SECOND / 1000);
      batch.prefill_tokens = 5, batch.prefill_area2 = 25;
      cr_expect_eq(perfmodel_iteration(&padded, &batch, NULL),
                   perfmodel_iteration(&plain, &batch, NULL));
    }
    cr_expect_eq(padded.row_head[n], plain.row_head[n]);
    const DecodePiece *piece = perfmodel_decode(&padded, n, 700);
    cr_expect_eq(piece->slope, perfmodel_decode(&plain, n, 700)->slope);
  }
  cr_expect_neq(padded.digest, plain.digest);
  const PerfModel same = model_of("captured_batch_sizes: [1, 2, 3, 4]\n");
  cr_expect_eq(same.digest, plain.digest);
}

/* Requests that come and go: batches of all sizes up to 12, each run cut here and there. */
Test(captured, runs_in_one_event_give_the_digest_of_single_iterations) {
  const PerfModel padded = model_of("captured_batch_sizes: [2, 5, 9]\n"), plain = model_of("");
  const PerfModel *models[] = {&padded, &plain};
  TraceRow rows[40];
  for (int i = 0; i < 40; i++)
    rows[i] = row(i / 3 * 40 * MS, 5 + i % 7, 1 + 11 * i % 37);
  uint64_t digests[2];
  for (int i = 0; i < 2; i++) {
    Scene scene;
    scene_init(&scene, &arena, &diag);
    scene_choose(&scene, POLICY_BATCHER, "mixed", "{max_num_seqs: 12}");
    scene.pools[0].perfmodel = models[i];
    scene_run_both(&scene, rows, COUNT(rows));
    digests[i] = scene.result.digest;
  }
  cr_expect_neq(digests[0], digests[1]);
}

Test(captured, what_is_no_list_of_sizes_is_refused_where_it_stands) {
  const struct {
    const char *text, *message;
    int column;
  } cases[] = {
      {"[8, 4]", "captured sizes must ascend: 4 follows 8", 27},
      {"[0, 4]", "'captured size' must be from 1", 24},
      {"[]", "must be a list of sizes or a name for the list of an engine", 23},
      {"vlm", "must be a list of sizes or a name for the list of an engine, not 'vlm'", 23},
      {"{a: 1}", "must be a list of sizes or a name for the list of an engine", 23},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    Diag of;
    PerfModel model;
    diag_init(&of);
    write_file(path, arena_printf(&arena, "%scaptured_batch_sizes: %s\n", terms, cases[i].text));
    cr_expect_eq(perfmodel_load(&model, path, 8, &arena, &of), -1);
    cr_expect_eq(of.n_entries, 1);
    expect_entry(&of, 0, 11, cases[i].column, cases[i].message, cases[i].text);
    diag_done(&of);
  }
}

/* A roofline has no file of its own, so the configuration says it; each is a model of its own. */
Test(captured, of_a_roofline_it_is_a_key_of_the_configuration) {
  static const char *const keys[] = {"", ", captured_batch_sizes: vllm",
                                     ", captured_batch_sizes: [64]"};
  Tick ticks[3];
  Cache cache;
  cache_init(&cache);
  for (int i = 0; i < 3; i++) {
    Config config;
    const char *text = arena_printf(
        &arena,
        "model: llama3-8b\npools: {all: {machine: dgx-h100, tensor_parallel_size: 1}}\n"
        "perfmodel: {name: roofline%s}\n"
        "workload: {lengths: azure-conv-2023, requests: 1, arrivals: {process: "
        "at_once}}\n",
        keys[i]);
    Node *root = yaml_parse("config", text, strlen(text), &arena, &diag);
    cr_assert_eq(config_bind(&config, path, root, NULL, &cache, &arena, &diag), 0);
    ticks[i] = perfmodel_decode_step(config.sim.pools[0].perfmodel, 33, 1000);
  }
  cache_done(&cache);
  cr_expect_lt(ticks[0], ticks[1]);
  cr_expect_lt(ticks[1], ticks[2]);
}
