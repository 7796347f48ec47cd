/* The host of an engine. Pinned: what it adds to iterations of each kind, to the tick, that runs of
 * decodes have it too, which configurations add it to what, what a pool cannot have, and what the
 * time of requests before the router does to a run. */
#include "experiments/config/config.h"
#include "perfmodel/host_time.h"
#include "tests/unit/scene_testing.h"
#include <unistd.h>

TestSuite(host_time, .init = setup_folder, .fini = teardown_folder);

static const char model_text[] =
    "form: composed\nmodel: m\ngpu: g\ntensor_parallel_size: 1\n%s"
    "overhead: 1 ms\nlinear: {knots: [[4, 0.010], [104, 0.110]]}\n"
    "prefill_attention: none\nhead: %s\n"
    "decode_attention: {rows: [{sequences: 1, knots: [[0, 0], "
    "[100, 0.001]]}, {sequences: 2, knots: [[0, 0], [100, 0.001]]}]}\n";

static PerfModel load_model(const char *head) {
  PerfModel model;
  write_file(path, arena_printf(&arena, model_text, "", head));
  cr_assert_eq(perfmodel_load(&model, path, 40, &arena, &diag), 0);
  return model;
}

/* 3 ms an iteration, 100 us a sequence, 30 layers of 2 ms for prefill of more than 20 tokens. */
static const HostTimes host = {2940 * US, 2 * US, 100 * US, 2 * MS, 20, 0};

Test(host_time, iterations_take_their_host_and_launches) {
  static const char *const heads[] = {"none", "{knots: [[5, 0.002], [10, 0.004]]}"};
  const struct {
    BatchShape batch;
    Tick more_us;
  } cases[] = {
      {{.prefill_tokens = 20, .prefill_area2 = 400, .logit_seqs = 1}, 3100},
      {{.prefill_tokens = 20, .prefill_area2 = 400}, 3000},
      {{.prefill_tokens = 90, .prefill_area2 = 8100, .logit_seqs = 1}, 3100}, // longer than 60 ms
      {{.decode_seqs = 1, .context_tokens = 30, .logit_seqs = 1}, 3100},
      {{.decode_seqs = 40, .context_tokens = 3000, .logit_seqs = 40}, 7000},
      {{.prefill_tokens = 10,
        .prefill_area2 = 100,
        .decode_seqs = 7,
        .context_tokens = 70,
        .logit_seqs = 8},
       3800},
  };
  for (int h = 0; h < 2; h++) {
    const PerfModel before = load_model(heads[h]);
    PerfModel after = before;
    perfmodel_add_host(&after, &host, 30, &arena);
    cr_expect_neq(after.digest, before.digest);
    for (size_t i = 0; i < COUNT(cases); i++) {
      const Tick more = perfmodel_iteration(&after, &cases[i].batch, NULL) -
                        perfmodel_iteration(&before, &cases[i].batch, NULL);
      cr_expect_eq(more, cases[i].more_us * US, "head %d, case %zu: %lld us", h, i,
                   (long long)(more / US));
    }
    const BatchShape eager = {.prefill_tokens = 21, .prefill_area2 = 441, .logit_seqs = 1};
    cr_expect_eq(perfmodel_iteration(&after, &eager, NULL), 60 * MS, "of 31 ms without a graph");
    cr_expect_eq(perfmodel_decode_step(&after, 7, 50) - perfmodel_decode_step(&before, 7, 50),
                 3700 * US);
  }
}

/* Every row is of an engine that there is, and says what it was fitted on. */
Test(host_time, rows_are_found_by_engine_source_and_gpu) {
  for (int i = 0; host_row_at(i); i++) {
    const HostRow *row = host_row_at(i);
    int k = 1;
    while (serving_choices[k] && strcmp(serving_choices[k], row->engine) != 0)
      k++;
    cr_expect_not_null(serving_choices[k], "%s", row->engine);
    cr_expect(row->fitted_on && row->error && row->source, "%s", row->engine);
    cr_expect_eq(host_row_find(row->engine, row->kernels, row->gpu), row, "row %d", i);
    cr_expect(row->kernels || row->times.request_time > 0, "of any source: before the scheduler");
    for (int other = 0; other < i; other++)
      cr_expect(strcmp(host_row_at(other)->engine, row->engine) != 0 ||
                    host_row_at(other)->kernels != row->kernels ||
                    host_row_at(other)->gpu != row->gpu,
                "rows %d and %d are the same", other, i);
  }
  cr_expect_null(host_row_find(NULL, KERNELS_PUBLIC, NULL));
  cr_expect_null(host_row_find("vllm-0.33", KERNELS_PUBLIC, NULL));
  cr_expect_null(host_row_find("vllm-2023", KERNELS_PUBLIC, NULL), "a preset is of rooflines");
  cr_expect_eq(host_row_find("trtllm-1.3", KERNELS_TANDEM, NULL),
               host_row_find("trtllm-1.0", KERNELS_TANDEM, NULL), "another release");
  cr_expect_eq(host_row_find("vllm-0.33", KERNELS_TANDEM, NULL),
               host_row_find("vllm-0.24", KERNELS_TANDEM, NULL));
  cr_expect_null(host_row_find("sglang-0.5", KERNELS_TANDEM, NULL));
  const HostTimes said = {HOST_UNSAID, HOST_UNSAID, 7, HOST_UNSAID, HOST_UNSAID, 0};
  const HostTimes times =
      host_times_filled(&said, host_row_find("vllm-0.12", KERNELS_PUBLIC, "a100-80gb"));
  cr_expect_eq(times.iteration_time, 800 * US);
  cr_expect_eq(times.sequence_time, 7);
  cr_expect_eq(times.layer_time, 0);
  cr_expect_eq(times.eager_layer_time + times.graph_tokens + times.request_time, 0);
  cr_expect_eq(host_times_filled(&host_unsaid, NULL).iteration_time, 0);
}

/* A model file of an engine or of none, on a pool of one GPU. */
static int load(Config *config, const char *of_engine, const char *pool, const char *lines) {
  const char *file = in_folder("times.yaml");
  write_file(file, arena_printf(&arena, model_text, of_engine, "none"));
  write_file(path, arena_printf(&arena,
                                "model: llama3-8b\nperfmodel: {name: %s, insist: true}\n"
                                "workload: {lengths: azure-conv-2023, requests: 1,\n"
                                "           arrivals: {process: at_once}}\n"
                                "pools: {all: {machine: dgx-h100, tensor_parallel_size: 1%s}}\n%s",
                                file, pool, lines));
  const int status = config_load(config, path, NULL, &arena, &diag);
  unlink(file);
  return status;
}

Test(host_time, the_engine_adds_it_to_times_of_its_kernels) {
  static const char vllm[] = "engine: vllm\nengine_version: 0.12.0\n";
  const struct {
    const char *of_engine, *pool, *lines;
    Tick more_us, request_us; // of one decode
  } cases[] = {
      {vllm, "", "engine: vllm-0.33\n", 0, 0},
      {vllm, "", "engine: vllm-0.12\n", 830, 40000},
      {vllm, ", engine: vllm-0.12", "", 830, 0},
      {"", "", "engine: {name: vllm-0.12, request_time: 1 ms}\n", 0,
       1000}, // whole iterations, for all that is known
      {"", "", "engine: {name: vllm-0.12, iteration_time: 1 ms}\n", 1030, 40000},
      {"", "", "engine: {iteration_time: 2 ms, request_time: 20 ms}\n", 2000, 20000},
      {vllm, ", engine: {sequence_time: 0 s}", "engine: vllm-0.12\n", 800, 40000},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    Config config;
    cr_assert_eq(load(&config, cases[i].of_engine, cases[i].pool, cases[i].lines), 0, "%zu: %s", i,
                 diag.n_entries > 0 ? diag.entries[0].message : "");
    const Tick step = perfmodel_decode_step(config.sim.pools[0].perfmodel, 1, 0);
    cr_expect_eq(step - 11 * MS, cases[i].more_us * US, "case %zu: %lld us", i,
                 (long long)(step / US));
    cr_expect_eq(config.sim.request_time, cases[i].request_us * US, "case %zu", i);
  }
  Config config;
  cr_assert_eq(load(&config, vllm, ", engine: {request_time: 1 ms}", ""), -1);
  expect_entry(&diag, 0, 5, 68, "'request_time' belongs in the 'engine' of the whole configuration",
               "a pool");
}

/* Times count from the arrival; all is later by what it takes to reach the router. */
Test(host_time, requests_reach_the_router_later) {
  const TraceRow rows[] = {
      row(0, 90, 3),
      row(5 * MS, 40, 5),
      row(400 * MS, 30, 2),
      {.at = 401 * MS, .prompt_tokens = 30, .output_tokens = 9, .first_token_patience = 10 * MS}};
  RequestRecord at_once[COUNT(rows)];
  scene_init(&scene, &arena, &diag);
  run(rows, COUNT(rows));
  memcpy(at_once, scene.records, sizeof at_once);
  scene.config.request_time = 25 * MS;
  run(rows, COUNT(rows));
  for (size_t i = 0; i < 3; i++) {
    const RequestRecord *record = &scene.records[i];
    cr_expect_eq(record->arrived_at, rows[i].at);
    cr_expect_eq(record->first_token_at, at_once[i].first_token_at + 25 * MS);
    cr_expect_eq(record->last_token_at, at_once[i].last_token_at + 25 * MS);
  }
  cr_expect_eq(scene.records[3].cancelled_at, 426 * MS, "seen to as it reaches the router");
}
