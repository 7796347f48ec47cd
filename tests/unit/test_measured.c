/* Measurements of others. Pinned: what the columns of degrees mean in each of the ways in which
 * they were filled in; the reason of each row that cannot be simulated; that a row's configuration
 * is what was measured, that it runs, and that the threads do not matter. */
#include "experiments/measured/measured.h"
#include "tests/unit/testing.h"
#include <math.h>
#include <sys/stat.h>

TestSuite(measured, .init = setup_data, .fini = teardown);

static const char header[] =
    "id,silicon_data_source,concurrency,backend,backend_version,model_path,system,precision,mode,"
    "isl,osl,silicon_ttft_ms,silicon_tpot_ms,tp_size,pp_size,attention_dp_size,moe_tp_size,"
    "moe_ep_size,prefill_num_workers,prefill_tp_size,prefill_pp_size,prefill_attention_dp_size,"
    "prefill_moe_tp_size,prefill_moe_ep_size,decode_num_workers,decode_tp_size,decode_pp_size,"
    "decode_attention_dp_size,decode_moe_tp_size,decode_moe_ep_size,measured_at,image\n";

/* Reads rows; `perfmodel` as in a configuration. */
static Measured load(const char *rows, const char *perfmodel) {
  Measured measured;
  const char *text = arena_printf(&arena, "%s%s", header, rows);
  const MeasuredOptions options = {.rows = temp_file(text, strlen(text), &arena),
                                   .perfmodel = perfmodel};
  const int status = measured_load(&measured, &options, &arena, &diag);
  unlink(options.rows);
  cr_assert_eq(status, 0, "%s", diag.n_entries ? diag.entries[0].message : "");
  return measured;
}

/* A point of a model of 70 B parameters on the GPUs that the text of a row's degrees gives. */
static const MeasuredPoint *load_degrees(const char *gpu, const char *degrees) {
  const Measured measured = load(
      arena_printf(&arena,
                   "a,,8.0,vllm,0.19.0,meta-llama/Llama-3.1-70B,%s,fp8,agg,1024,128,50,9,%s,,\n",
                   gpu, degrees),
      "roofline");
  cr_assert_eq(measured.n_points, 1);
  return &measured.points[0];
}

Test(measured, degrees_are_what_ran_however_they_were_filled_in) {
  static const struct {
    const char *written; // tp, pp, attention_dp, moe_tp, moe_ep
    const char *ran;
    int64_t gpus;
  } cases[] = {
      {"4.0,1.0,,1.0,1.0,,,,,,,,,,,,", "tp4", 4},  {"4,1,,0.0,0.0,,,,,,,,,,,,", "tp4", 4},
      {"4,1,1,4,1,,,,,,,,,,,,", "tp4", 4},         {"8,1,1,1,8,,,,,,,,,,,,", "tp8 ep8", 8},
      {"4,1,,2,2,,,,,,,,,,,,", "tp4 ep2", 4},      {"64,1,1,8,8,,,,,,,,,,,,", "tp8 ep8", 8},
      {"16,1,1,4,4,,,,,,,,,,,,", "tp4 ep4", 4},    {"1,1,64,8,8,,,,,,,,,,,,", "tp1 dp8 ep8", 8},
      {"1,1,4,2,2,,,,,,,,,,,,", "tp1 dp2 ep2", 2}, {"1,1,8,1,8,,,,,,,,,,,,", "tp1 dp8 ep8", 8},
      {"1,1,4,4,1,,,,,,,,,,,,", "tp1 dp4", 4},     {"4,1,4,1,16,,,,,,,,,,,,", "tp1 dp4 ep4", 4},
      {"2,1,2,1,4,,,,,,,,,,,,", "tp1 dp2 ep2", 2},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const MeasuredPoint *point = load_degrees("h100_sxm", cases[i].written);
    cr_expect_str_eq(measured_degrees(point, &arena), cases[i].ran, "%s is %s", cases[i].written,
                     measured_degrees(point, &arena));
    cr_expect_eq(measured_gpus(point), cases[i].gpus);
    cr_expect_null(point->why);
  }
  cr_expect_not_null(load_degrees("gb200", "72,1,1,72,1,,,,,,,,,,,,")->why);
}

Test(measured, split_clusters_have_their_pools) {
  const char *row = "a,,64,trtllm,1.0,meta-llama/Llama-3.1-70B,h200_sxm,fp8,disagg,8192,1024,900,9,"
                    ",,,,,%s,8,1,1,1,8,%s,1,1,8,1,8,,\n";
  Measured measured = load(arena_printf(&arena, row, "2", "3"), "roofline");
  const MeasuredPoint *point = &measured.points[0];
  cr_expect_str_eq(measured_degrees(point, &arena), "tp8 ep8 | tp1 dp8 ep8");
  cr_expect_eq(measured_gpus(point), 2 * 8 + 3 * 8);
  cr_assert_not_null(point->config);
  cr_expect_not_null(strstr(point->config, "role: prefill, machine: dgx-h200, count: 2"));
  cr_expect_not_null(strstr(point->config, "role: decode, machine: dgx-h200, count: 3"));
  measured = load(arena_printf(&arena, row, "", ""), "roofline");
  cr_expect_not_null(measured.points[0].why);
}

Test(measured, a_row_that_cannot_be_simulated_says_why) {
  static const struct {
    const char *row, *why;
  } cases[] = {
      {"a,,,vllm,,meta-llama/Llama-3.1-70B,h100_sxm,fp8,agg,1024,128,50,9,8", "'concurrency'"},
      {"a,,x,vllm,,meta-llama/Llama-3.1-70B,h100_sxm,fp8,agg,1024,128,50,9,8", "'concurrency'"},
      {"a,,1e9,vllm,,meta-llama/Llama-3.1-70B,h100_sxm,fp8,agg,1024,128,50,9,8", "'concurrency'"},
      {"a,,2.5,vllm,,meta-llama/Llama-3.1-70B,h100_sxm,fp8,agg,1024,128,50,9,8", "whole"},
      {"a,,8,vllm,,meta-llama/Llama-3.1-70B,h100_sxm,fp8,agg,-4,128,50,9,8", "'isl'"},
      {"a,,8,vllm,,meta-llama/Llama-3.1-70B,h100_sxm,fp8,agg,1024,nan,50,9,8", "'osl'"},
      {"a,,8,vllm,,meta-llama/Llama-3.1-70B,h100_sxm,fp8,both,1024,128,50,9,8", "mode 'both'"},
      {"a,,8,vllm,,someone/else,h100_sxm,fp8,agg,1024,128,50,9,8", "model 'someone/else'"},
      {"a,,8,vllm,,meta-llama/Llama-3.1-70B,abacus,fp8,agg,1024,128,50,9,8", "'abacus'"},
      {"a,,8,vllm,,meta-llama/Llama-3.1-70B,h100_sxm,fp3,agg,1024,128,50,9,8", "'fp3'"},
      {"a,,8,vllm,,meta-llama/Llama-3.1-70B,h100_sxm,fp8,agg,1024,128,,9,8", "'silicon_ttft_ms'"},
      {"a,,8,vllm,,meta-llama/Llama-3.1-70B,h100_sxm,fp8,agg,1024,128,50,9,3", "3"},
      {"a,,8,vllm,,meta-llama/Llama-3.1-70B,h100_sxm,fp8,agg,1024,128,50,9,800", "GPUs"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    Measured measured =
        load(arena_printf(&arena, "%s,1,,1,1,,,,,,,,,,,,,,\n", cases[i].row), "roofline");
    cr_assert_eq(measured.n_points, 1);
    const MeasuredPoint *point = &measured.points[0];
    cr_assert_eq(measured_simulate(&measured, 1, 0, &diag), 0);
    cr_assert_not_null(point->why, "%s", cases[i].row);
    cr_expect_not_null(strstr(point->why, cases[i].why), "%s: %s", cases[i].row, point->why);
    cr_expect(isnan(measured_error(point, MEASURED_TPOT)));
  }
}

Test(measured, points_are_the_same_on_any_number_of_threads) {
  const char *rows = "";
  for (int i = 0; i < 12; i++)
    rows = arena_printf(
        &arena,
        "%sr%d,,%d,vllm,,meta-llama/Llama-3.1-70B,h100_sxm,fp8,agg,512,64,50,9,8,1,,1,1"
        ",,,,,,,,,,,,,,\n",
        rows, i, 1 + i % 5);
  Measured one = load(rows, "roofline"), many = load(rows, "roofline");
  cr_assert_eq(measured_simulate(&one, 1, 0, &diag), 0);
  cr_assert_eq(measured_simulate(&many, 4, 0, &diag), 0);
  for (size_t i = 0; i < one.n_points; i++) {
    const MeasuredPoint *a = &one.points[i], *b = &many.points[i];
    cr_expect_str_eq(a->id, arena_printf(&arena, "r%zu", i));
    cr_expect_null(a->why, "%s", a->why);
    for (int f = 0; f < MEASURED_FIGURES; f++)
      cr_expect(a->predicted[f] > 0 && a->predicted[f] == b->predicted[f]);
  }
  // throughput is what Little's law makes of both times, so an exact prediction has no error in it
  MeasuredPoint *point = &one.points[3];
  point->predicted[MEASURED_TPOT] = 1.1 * point->measured[MEASURED_TPOT];
  cr_expect_float_eq(measured_error(point, MEASURED_TPOT), 0.1, 1e-9);
}

Test(measured, groups_leave_out_what_was_fitted_and_what_is_missing) {
  Measured measured =
      load("a,,8,vllm,1,meta-llama/Llama-3.1-70B,h100_sxm,fp8,agg,64,64,50,10,8,1,,1,1"
           ",,,,,,,,,,,,,,\n"
           "b,,8,vllm,2,meta-llama/Llama-3.1-70B,h100_sxm,fp8,agg,64,64,50,10,4,1,,1,1"
           ",,,,,,,,,,,,,,\n"
           "c,,8,vllm,2,meta-llama/Llama-3.1-70B,h100_sxm,fp8,agg,64,64,50,10,4,1,,1,1"
           ",,,,,,,,,,,,,,\n"
           "d,,,vllm,2,meta-llama/Llama-3.1-70B,h100_sxm,fp8,agg,64,64,50,10,4,1,,1,1"
           ",,,,,,,,,,,,,,\n",
           "roofline");
  static const double tpot[] = {0.011, 0.007, 0.5};
  for (int i = 0; i < 3; i++)
    measured.points[i].predicted[MEASURED_TPOT] = tpot[i];
  measured.points[2].fitted = "host time";
  const MeasuredGroup *groups = measured_groups(&measured, false, &arena);
  cr_assert(groups[0].first && !groups[1].first);
  const MeasuredErrors *errors = &groups[0].errors[MEASURED_TPOT];
  cr_expect(groups[0].points == 4 && groups[0].fitted == 1 && groups[0].missing == 1);
  cr_expect_eq(errors->n, 2);
  cr_expect_float_eq(errors->mape, 0.2, 1e-9);
  cr_expect_float_eq(errors->bias, -0.1, 1e-9);
  cr_expect_str_eq(errors->worst->id, "b");
  groups = measured_groups(&measured, true, &arena);
  cr_expect(groups[1].first && !groups[2].first, "versions and degrees are apart");
}

Test(measured, the_table_leaves_out_groups_of_which_nothing_was_simulated) {
  const Measured measured =
      load("a,,8,vllm,1,meta-llama/Llama-3.1-70B,h100_sxm,fp8,agg,64,64,50,10,8,1,,1,1"
           ",,,,,,,,,,,,,,\n"
           "b,,8,vllm,1,someone/else,h200_sxm,fp8,agg,64,64,50,10,8,1,,1,1,,,,,,,,,,,,,,\n",
           "roofline");
  measured.points[0].predicted[MEASURED_TPOT] = 0.011;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  cr_assert_not_null(out);
  measured_print_table(&measured, false, &arena, out);
  fclose(out);
  cr_expect_not_null(strstr(text, " h100_sxm "));
  cr_expect_null(strstr(text, " h200_sxm "));
  cr_expect_not_null(strstr(text, "inferencex: 2 points, 1 held out, 0 fitted, 1 missing"));
  free(text);
}

/* Loads a table of TensorRT-LLM's page: Llama-3.1-8B, FP8, on one H100. */
static Measured load_overview(const char *isl, const char *osl) {
  const char *folder = temp_folder(&arena), *e2e = arena_printf(&arena, "%s/e2e", folder);
  const char *path = arena_printf(&arena, "%s/trtllm_perf_overview_v1.0.csv", e2e);
  cr_assert_eq(mkdir(e2e, 0700), 0);
  write_file(path, arena_printf(&arena,
                                "model,gpu,tp,pp,weights,isl,osl,num_requests,output_tokens_per_s\n"
                                "Llama-3.1-8B,H100,1,1,FP8,%s,%s,1000,10000\n",
                                isl, osl));
  Measured measured;
  const MeasuredOptions options = {.folder = folder, .set = "perf_overview"};
  const int status = measured_load(&measured, &options, &arena, &diag);
  unlink(path);
  rmdir(e2e);
  rmdir(folder);
  cr_assert_eq(status, 0, "%s", diag.n_entries ? diag.entries[0].message : "");
  cr_assert_eq(measured.n_points, 1);
  return measured;
}

/* Nine tenths of 80 GiB less 8.03 GB of weights, at 65,536 bytes of KV a token: 1,069,000. */
Test(measured, limits_of_an_overview_hold_as_many_whole_requests_as_memory) {
  static const struct {
    const char *isl, *osl;
    int64_t seqs, tokens;
  } cases[] = {
      {"128", "128", 4096, 8192},   // 4,177 fit, of at most 4,096
      {"128", "2048", 512, 2048},   // 491 fit, in steps of 128
      {"20000", "2000", 64, 20064}, // 48 fit: a prompt must fit beside all that decode
      {"2048", "128", 512, 9216},   // 491 fit, and 8,348 tokens, in steps of 1,024
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const Measured measured = load_overview(cases[i].isl, cases[i].osl);
    const MeasuredScript *script = &measured.points[0].script;
    cr_expect_eq(script->max_num_seqs, cases[i].seqs, "%s: %d", cases[i].isl,
                 (int)script->max_num_seqs);
    cr_expect_eq(script->max_num_batched_tokens, cases[i].tokens, "%s: %d", cases[i].isl,
                 (int)script->max_num_batched_tokens);
  }
}

/* The degrees and the reason of one row of DeepSeek-R1 on 8 GPUs. */
static const MeasuredPoint *load_deepseek(const char *load_and_precision, const char *clients,
                                          const char *day_and_image) {
  const char *row = arena_printf(&arena, "a,,%s,%s,50,9,8,1,1,8,1,,,,,,,,,,,,,%s\n", clients,
                                 load_and_precision, day_and_image);
  const Measured measured = load(row, "roofline");
  cr_assert_eq(measured.n_points, 1);
  return &measured.points[0];
}

Test(measured, rows_of_deepseek_have_the_degrees_of_their_scripts) {
  static const struct {
    const char *engine, *precision, *isl, *clients, *image, *ran;
  } cases[] = {
      {"trtllm", "fp8", "1024", "64", "", "tp8 ep8"},
      {"trtllm", "fp8", "1024", "128", "", "tp1 dp8 ep8"},
      {"trtllm", "fp8", "8192", "64", "", "tp1 dp8 ep8"},
      {"trtllm", "fp4", "1024", "8", "", "tp8"},
      {"trtllm", "fp4", "1024", "16", "", "tp8 ep8"},
      {"trtllm", "fp4", "1024", "256", "", "tp1 dp8 ep8"},
      {"sglang", "fp4", "1024", "8", "", "tp8 ep8"},
      {"sglang", "fp8", "1024", "8", "", "tp8"},
      {"trtllm", "fp8", "1024", "64", "an image", "tp8"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const char *what = arena_printf(&arena, "%s,,deepseek-ai/DeepSeek-R1,b200_sxm,%s,agg,%s,1024",
                                    cases[i].engine, cases[i].precision, cases[i].isl);
    const MeasuredPoint *point = load_deepseek(
        what, cases[i].clients, arena_printf(&arena, "2025-11-02,%s", cases[i].image));
    cr_expect_str_eq(measured_degrees(point, &arena), cases[i].ran, "%s, %s clients: %s", what,
                     cases[i].clients, measured_degrees(point, &arena));
  }
}

/* What scripts of DeepSeek tell engines by the load, the day and the release. */
Test(measured, scripts_of_deepseek_go_by_the_load) {
  static const struct {
    const char *what, *clients, *day;
    int64_t tokens;
    double memory;
    bool launches_free;
    const char *batcher;
  } cases[] = {
      {"trtllm,1.2.0rc6.post2,M,b200_sxm,fp8,agg,8192,1024", "16", "2026-01-29", 8320, 0.8, false,
       NULL},
      {"trtllm,1.2.0rc6.post2,M,b200_sxm,fp8,agg,1024,1024", "64", "2026-01-29", 8192, 0.8, true,
       ", batch_wait_timeout_iters: 40, batch_wait_max_tokens_ratio: 0.8"},
      {"trtllm,1.2.0rc6.post2,M,b200_sxm,fp8,agg,1024,8192", "256", "2026-01-29", 8192, 0.7, false,
       NULL},
      {"trtllm,1.1.0rc2.post2,M,h200_sxm,fp8,agg,1024,1024", "64", "2025-12-15", 1152, 0.75, false,
       NULL},
      {"trtllm,,M,b200_sxm,fp4,agg,1024,1024", "64", "2025-11-02", 1152, 0.8, false, NULL},
      {"sglang,0.5.9,M,b200_sxm,fp4,agg,1024,1024", "8", "2026-03-25", 16384, 0.85, false,
       ", scheduler_recv_interval: 10"},
      {"sglang,0.5.9,M,h200_sxm,fp8,agg,1024,1024", "8", "2026-03-25", 32768, 0.82, false, NULL},
      {"vllm,0.19.0,M,h200_sxm,fp8,agg,1024,1024", "8", "2026-03-25", 8192, 0, false, NULL},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const char *model = strchr(cases[i].what, 'M');
    const char *what = arena_printf(&arena, "%.*sdeepseek-ai/DeepSeek-R1%s",
                                    (int)(model - cases[i].what), cases[i].what, model + 1);
    const MeasuredScript script =
        load_deepseek(what, cases[i].clients, arena_printf(&arena, "%s,image", cases[i].day))
            ->script;
    cr_expect_eq(script.max_num_batched_tokens, cases[i].tokens, "%s: %d", what,
                 (int)script.max_num_batched_tokens);
    cr_expect_eq(script.memory, cases[i].memory, "%s: %g", what, script.memory);
    cr_expect_eq(script.launches_free, cases[i].launches_free, "%s", what);
    cr_expect_str_eq(script.batcher ? script.batcher : "", cases[i].batcher ? cases[i].batcher : "",
                     "%s: %s", what, script.batcher);
  }
}

/* Ranks of attention data parallelism wait for one another, and prefill has steps of its own. */
Test(measured, configurations_say_what_pools_are_told) {
  const MeasuredPoint *ranks = load_deepseek(
      "trtllm,,deepseek-ai/DeepSeek-R1,b200_sxm,fp4,agg,1024,1024", "256", "2025-11-02,");
  cr_expect(strstr(ranks->config, "attention_dp_timeout_iters: 60"), "%s", ranks->config);
  cr_expect(strstr(ranks->config, "gpu_memory_utilization: 0.8"), "%s", ranks->config);
  const Measured split = load("a,,64,trtllm,0.8.1,deepseek-ai/DeepSeek-R1,b200_sxm,fp8,disagg,8192,"
                              "1024,900,9,,,,,,2,1,1,8,1,8,3,8,1,1,1,8,,\n",
                              "roofline");
  cr_assert(split.points[0].config, "%s", split.points[0].why);
  cr_expect_str_eq(measured_degrees(&split.points[0], &arena), "tp1 dp8 | tp8 ep8");
  cr_expect(strstr(split.points[0].config,
                   "batcher: {max_num_batched_tokens: 8320, max_num_seqs: 64, "
                   "enable_prefix_caching: false, async_scheduling: false}"),
            "%s", split.points[0].config);
}

/* NVIDIA's deployments: 416 clients, 13 on each GPU, on instances of 2. */
Test(measured, deployments_have_as_many_instances_as_their_batch_says) {
  static const struct {
    const char *source, *batch;
    int64_t workers;
  } cases[] = {{"gtl_job_id=1", "13", 16}, {"gtl_job_id=1", "208", 1}, {"dump", "13", 1}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    const char *text = arena_printf(
        &arena,
        "id,silicon_data_source,concurrency,backend,model_path,system,precision,mode,isl,osl,"
        "silicon_ttft_ms,silicon_tpot_ms,batch_size,tp_size,pp_size,attention_dp_size,moe_tp_size,"
        "moe_ep_size%s\na,%s,416,trtllm,nvidia/Qwen3-32B-NVFP4,b200_sxm,fp4,agg,15000,500,700,13,"
        "%s,2,1,1,1,1,,,,,,,,,,,,,,\n",
        strstr(header, ",prefill_num_workers"), cases[i].source, cases[i].batch);
    const MeasuredOptions options = {.rows = temp_file(text, strlen(text), &arena),
                                     .perfmodel = "roofline"};
    Measured measured;
    cr_assert_eq(measured_load(&measured, &options, &arena, &diag), 0, "%s",
                 diag.n_entries ? diag.entries[0].message : "");
    unlink(options.rows);
    cr_expect_eq(measured.points[0].pools[0].workers, cases[i].workers, "case %zu: %d", i,
                 (int)measured.points[0].pools[0].workers);
  }
}

/* With the limits of its script: tokens for (1 + drafts) of each client and a prompt, in 64s, 64
 * more. One that does not say so is odd, and compared like any other. */
Test(measured, speculative_decoding_is_recognized) {
  static const struct {
    const char *release, *precision, *day;
    int64_t tokens;
    double memory;
    bool launches_free;
  } drafts[] = {
      {"1.2.0rc6.post3", "fp8", "2026-02-05T00:00:00Z,release:1.2.0rc6.post3", 1152, 0.8, true},
      {"1.2.0rc6.post3", "fp4", "2026-02-05T00:00:00Z,release:1.2.0rc6.post3", 1152, 0.8, false},
      {"1.1.0rc2.post2", "fp8", "2026-01-14T00:00:00Z,image", 1152, 0.8, false}};
  for (size_t i = 0; i < COUNT(drafts); i++) {
    const MeasuredPoint *point = load_deepseek(
        arena_printf(&arena, "trtllm,%s,deepseek-ai/DeepSeek-R1,b200_sxm,%s,agg,1024,1024",
                     drafts[i].release, drafts[i].precision),
        "8", drafts[i].day);
    cr_expect(!point->odd && !point->why && point->assumed);
    cr_expect_eq(point->script.drafts, 3);
    cr_expect_eq(point->script.max_num_batched_tokens, drafts[i].tokens);
    cr_expect_eq(point->script.memory, drafts[i].memory);
    cr_expect_eq(point->script.launches_free, drafts[i].launches_free, "%zu", i);
    cr_assert_not_null(point->config);
    cr_expect_not_null(strstr(point->config, "speculative: {method: mtp, num_speculative_tokens: "
                                             "3, acceptance: 2.94}"));
  }
  const char *what = "trtllm,1.2,deepseek-ai/DeepSeek-R1,b200_sxm,fp8,agg,1024,1024";
  const MeasuredPoint *plain = load_deepseek(what, "8", "2026-01-29T00:00:00Z,image");
  cr_expect(!plain->odd && plain->script.drafts == 0 && !plain->assumed);
  const char *row =
      "%s,,8,sglang,0.5.9,deepseek-ai/DeepSeek-R1,b200_sxm,fp8,agg,1024,1024,50,%s,8,1,1,8,1"
      ",,,,,,,,,,,,,2026-03-25,image\n";
  const Measured measured =
      load(arena_printf(&arena, "%s%s%s", arena_printf(&arena, row, "a", "9"),
                        arena_printf(&arena, row, "b", "12"), arena_printf(&arena, row, "c", "11")),
           "roofline");
  cr_expect(measured.points[0].odd && !measured.points[0].why);
  cr_expect(!measured.points[1].odd && !measured.points[2].odd);
}

Test(measured, a_split_row_has_the_workers_of_its_twin) {
  const char *row = "%s,,64,trtllm,1.0,deepseek-ai/DeepSeek-R1,h200_sxm,fp8,disagg,8192,1024,%s,9,"
                    ",,,,,%s,,\n";
  const Measured measured = load(
      arena_printf(&arena, "%s%s%s", arena_printf(&arena, row, "a", "900", ",8,1,1,1,8,,8,1,1,1,8"),
                   arena_printf(&arena, row, "b", "900", "2,1,1,8,1,8,3,8,1,1,1,8"),
                   arena_printf(&arena, row, "c", "901", ",8,1,1,1,8,,8,1,1,1,8")),
      "roofline");
  cr_expect_str_eq(measured_degrees(&measured.points[0], &arena), "tp8 ep8 | tp8 ep8");
  cr_expect_eq(measured_gpus(&measured.points[0]), 2 * 8 + 3 * 8);
  cr_expect_not_null(measured.points[2].why, "nobody says how many there are");
}

static void remove_log(const Measured *measured) {
  const char *path = measured->points[0].log;
  unlink(path);
  unlink(arena_printf(&arena, "%.*s/vllm_meta.json", (int)(strrchr(path, '/') - path), path));
  for (int i = 0; i < 4; i++) {
    path = arena_copy(&arena, path, (size_t)(strrchr(path, '/') - path));
    rmdir(path);
  }
}

/* Loads a folder of measurements with one log, of `requests`. */
static Measured load_log(const char *requests) {
  const char *folder = temp_folder(&arena), *path = folder;
  for (const char *const *part = (const char *const[]){"llmservingsim", "vllm", "H100_log", NULL};
       *part; part++) {
    path = arena_printf(&arena, "%s/%s", path, *part);
    cr_assert_eq(mkdir(path, 0700), 0);
  }
  write_file(arena_printf(&arena, "%s/vllm_meta.json", path),
             "{\"vllm_version\": \"0.19.0\", \"engine_kwargs\": {\"model\": \"llama3.1-8b\", "
             "\"max_num_seqs\": 2}, \"kv_cache\": {\"num_gpu_blocks\": 4096}}\n");
  write_file(arena_printf(&arena, "%s/requests.csv", path),
             arena_printf(&arena,
                          "request,arrival_s,input_tokens,output_tokens,queued_s,scheduled_s,"
                          "first_token_s,last_token_s\n%s",
                          requests));
  Measured measured;
  const MeasuredOptions options = {.folder = folder, .set = "vllm_logs", .perfmodel = "roofline"};
  cr_assert_eq(measured_load(&measured, &options, &arena, &diag), 0);
  return measured;
}

Test(measured, requests_of_a_log_are_one_run_with_its_arrivals) {
  Measured measured = load_log("0,0.5,100,11,0,0,0.25,0.45\n1,1.0,200,21,0.6,0.6,0.75,1.15\n"
                               "2,1.5,300,1,1.3,1.3,1.5,1.5\n");
  cr_assert_eq(measured.n_points, 3);
  const MeasuredPoint *points = measured.points;
  cr_expect_str_eq(points[1].id, "H100_log/1");
  cr_expect_not_null(strstr(points[1].config, "num_gpu_blocks_override: 4096"));
  // the first was queued half a second before it came by the client's clock: it came at 0
  cr_expect_float_eq(points[0].measured[MEASURED_TTFT], 0.25, 1e-9);
  cr_expect_float_eq(points[1].measured[MEASURED_TTFT], 0.25, 1e-9);
  cr_expect_float_eq(points[1].measured[MEASURED_TPOT], 0.02, 1e-9);
  cr_expect_float_eq(points[1].measured[MEASURED_E2E], 0.65, 1e-9);
  cr_expect(isnan(points[2].measured[MEASURED_TPOT]));
  cr_assert_eq(measured_simulate(&measured, 1, 0, &diag), 0);
  for (int i = 0; i < 3; i++)
    cr_assert(!points[i].why && points[i].predicted[MEASURED_TTFT] > 0, "%s", points[i].why);
  cr_expect(points[2].predicted[MEASURED_TTFT] > points[0].predicted[MEASURED_TTFT]);
  // the median of three errors, and the error of their mean
  static const double predicted[] = {0.25, 0.5, 0.25};
  double sum = 0;
  for (int i = 0; i < 3; i++) {
    measured.points[i].predicted[MEASURED_TTFT] = predicted[i];
    sum += points[i].measured[MEASURED_TTFT];
  }
  const MeasuredErrors *errors = &measured_groups(&measured, true, &arena)->errors[MEASURED_TTFT];
  remove_log(&measured);
  cr_expect_float_eq(errors->bias, 1 / sum - 1, 1e-9);
  cr_expect_float_eq(errors->mape, fabs(0.25 / points[2].measured[MEASURED_TTFT] - 1), 1e-9);
}

Test(measured, a_log_without_one_of_its_requests_is_not_simulated) {
  const Measured measured = load_log("0,0.5,100,11,0,0,0.25,0.45\n2,1.5,300,1,1.3,1.3,1.5,1.5\n");
  remove_log(&measured);
  cr_expect(measured.points[0].why && measured.points[1].why);
}
