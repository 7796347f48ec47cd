/* Roofline models and engine presets. Pinned: the terms against sums written out by hand, that the
 * compiled model is the closed form, sound times for every system's own machine, stages, and how
 * far each preset is from published operator sums and measured engines. Not pinned: the machines
 * that nobody measured. */
#include "experiments/config/serving.h"
#include "perfmodel/datafile.h"
#include "perfmodel/roofline.h"
#include "tests/roofline_seconds.h"
#include "tests/unit/testing.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(roofline, .init = setup_data, .fini = teardown);

static Hardware machine(const char *name) {
  Hardware hardware;
  cr_assert_eq(hardware_load(&hardware, name, data_dir, place_of_file("test"), &arena, &diag), 0,
               "%s", name);
  return hardware;
}

static Llm model(const char *name) {
  Llm llm;
  cr_assert_eq(llm_load(&llm, name, data_dir, place_of_file("test"), &arena, &diag), 0, "%s", name);
  return llm;
}

static EnginePreset preset(const char *name) {
  const EnginePreset *engine = preset_find(name, NULL);
  cr_assert_not_null(engine, "%s", name);
  return *engine;
}

static Roofline roofline(const char *llm_name, const char *machine_name, int64_t tp, int64_t pp,
                         const char *preset_name) {
  const Llm llm = model(llm_name);
  const Hardware hardware = machine(machine_name);
  const EnginePreset engine = preset(preset_name);
  Roofline made;
  roofline_init(&made, &llm, &hardware, (Parallelism){tp, pp, 1, 1, 1}, &engine, &arena);
  return made;
}

static void assert_close(double value, double expected, double tolerance, const char *what) {
  cr_assert(fabs(value - expected) <= tolerance * fabs(expected), "%s: %.12g, not %.12g", what,
            value, expected);
}

static BatchShape prompt_of(int64_t tokens) {
  return (BatchShape){.prefill_tokens = tokens, .prefill_area2 = tokens * tokens, .logit_seqs = 1};
}

static BatchShape decode_of(int64_t seqs, int64_t context) {
  return (BatchShape){.decode_seqs = seqs, .context_tokens = seqs * context, .logit_seqs = seqs};
}

/* Llama2-70B over eight GPUs of round rates. Per GPU and layer, in elements: weights 8192·(1024 +
 * 2·128) + 1024·8192 + 3·3584·8192 = 106,954,752; products move 8192 + 1280 + 1024 + 8192 + 8192 +
 * 7168 + 3584 + 8192 = 45,824 per token, the rest 65,536 + 2·1280 + 3·3584 + 2·(1024 + 128) =
 * 81,152; an all-reduce 2·7/8·8192 = 14,336. */
Test(roofline, terms_are_the_sums_of_their_operators) {
  const Llm llm = model("llama2-70b");
  const Hardware hardware = {.gpu = "round",
                             .dense_bf16_flops = 1e15,
                             .flops_efficiency = 0.5,
                             .hbm_bandwidth = 4000000000000,
                             .hbm_efficiency = 0.25,
                             .nvlink_bandwidth = 400000000000,
                             .nvlink_efficiency = 0.5,
                             .pcie_bandwidth = 1,
                             .pcie_efficiency = 1,
                             .all_reduce_latency = 10000000};
  const EnginePreset engine = {"mine", 3000000000, 1500000, 500000, 50000000};
  Roofline made;
  roofline_init(&made, &llm, &hardware, (Parallelism){8, 1, 1, 1, 1}, &engine, &arena);
  const double flops = 0.5e15, memory = 1e12, link = 200e9, latency = 10e-6;
  cr_assert_str_eq(made.name, "llama2-70b_round_tp8_roofline-mine");
  assert_close(made.overhead, 3e-3, 1e-12, "overhead");
  for (int64_t tokens = 1; tokens <= 4096; tokens *= 8) {
    const double t = (double)tokens;
    const double products =
        fmax(2 * (106954752.0 + 45824 * t) / memory, 2 * 106954752.0 * t / flops);
    const double linear =
        80 * (2e-6 + products + 2 * 81152 * t / memory + 2 * (latency + 2 * 14336 * t / link));
    assert_close(roofline_term_seconds(&made.linear, t), linear, 1e-12, "linear");
  }
  // 2·b·h_q·s²·d and 4·b·h_q·s·d FLOPs, 2·2·b·h_kv·s·d bytes, an eighth of them
  assert_close(roofline_term_seconds(&made.prefill_attention, 3000.0 * 3000),
               80 * 2 * 64 * 3000.0 * 3000 * 128 / 8 / flops, 1e-12, "prefill attention");
  assert_close(roofline_term_seconds(&made.decode_attention, 5 * 3000),
               80 * fmax(4 * 5 * 64 * 3000.0 * 128 / flops, 4 * 5 * 8 * 3000.0 * 128 / memory) / 8,
               1e-12, "decode attention");
  // 4000 rows of the vocabulary on each GPU; the logits are gathered
  const double head =
      fmax(2 * (8192 * 4000.0 + 7 * (8192 + 4000)) / memory, 2 * 7 * 8192 * 4000.0 / flops);
  assert_close(roofline_term_seconds(&made.head, 7),
               head + latency + 7 * (2 * 32000 * 7.0 / 8 / link + 50e-6), 1e-12, "head");
  assert_close(made.send_slope * 100, 100 * 8192 * 2 / link, 1e-12, "send");
}

Test(roofline, one_gpu_needs_no_link_and_kv_heads_are_copied_when_there_are_too_few) {
  Roofline one = roofline("opt-13b", "gh200-96gb", 1, 1, "ideal");
  Hardware slow = machine("gh200-96gb");
  slow.pcie_bandwidth = 1;
  const Llm opt = model("opt-13b");
  const EnginePreset ideal = preset("ideal");
  Roofline same;
  roofline_init(&same, &opt, &slow, (Parallelism){1, 1, 1, 1, 1}, &ideal, &arena);
  const BatchShape batch = prompt_of(512);
  cr_assert_eq(roofline_stage_seconds(&one, &batch, true),
               roofline_stage_seconds(&same, &batch, true));
  Llm llm = model("llama3-8b");
  const Hardware eight = machine("dgx-h100");
  Roofline four_heads, two_heads;
  llm.num_key_value_heads = 4;
  roofline_init(&four_heads, &llm, &eight, (Parallelism){8, 1, 1, 1, 1}, &ideal, &arena);
  llm.num_key_value_heads = 2;
  roofline_init(&two_heads, &llm, &eight, (Parallelism){8, 1, 1, 1, 1}, &ideal, &arena);
  cr_assert_eq(four_heads.decode_attention.memory_slope, two_heads.decode_attention.memory_slope);
}

/* Mixtral on two GPUs: each holds half of every expert, 3·4096·7168 parameters. One token reaches 2
 * of 8 experts, two tokens 8·(1 − 0.75²) = 3.5. */
Test(roofline, experts_are_read_as_far_as_tokens_reach_them) {
  const Roofline two = roofline("mixtral-8x7b", "dgx-h100", 2, 1, "ideal");
  const Hardware hardware = machine("dgx-h100");
  const double memory = hardware_memory_rate(&hardware), flops = hardware_compute_rate(&hardware);
  const double each = 32 * 3 * 4096.0 * 7168, io = 32 * 2 * 2.0 * (2 * 4096 + 3 * 7168);
  for (int n = 1; n <= 2; n++)
    assert_close(roofline_experts_seconds(&two.experts, n),
                 ((n == 1 ? 2 : 3.5) * 2 * each + n * io) / memory, 1e-12, "few");
  assert_close(roofline_experts_seconds(&two.experts, 1e5), 1e5 * 2 * 2 * each / flops, 1e-12,
               "many");
}

/* With whole experts a GPU has as many bytes of them and as many FLOPs in the mean; the one that
 * has the most has 1.36 times as many on four. */
Test(roofline, the_most_loaded_gpu_of_spread_experts_is_waited_for) {
  const Llm llm = model("qwen3-30b-a3b");
  const Hardware hardware = machine("dgx-h100");
  const EnginePreset ideal = preset("ideal");
  Roofline sliced, spread;
  roofline_init(&sliced, &llm, &hardware, (Parallelism){4, 1, 1, 1, 1}, &ideal, &arena);
  roofline_init(&spread, &llm, &hardware, (Parallelism){4, 1, 1, 1, 4}, &ideal, &arena);
  assert_close(spread.experts.compute_slope, 1.36 * sliced.experts.compute_slope, 1e-12, "FLOPs");
  assert_close(spread.experts.held * spread.experts.memory_each,
               sliced.experts.held * sliced.experts.memory_each, 1e-12, "bytes");
  cr_assert_str_eq(spread.name, "qwen3-30b-a3b_h100-80gb_tp4_ep4_roofline-ideal");
}

/* FP8 halves what is read and has twice the rate; embedding, head and activations stay. */
Test(roofline, products_run_at_the_peak_of_their_format) {
  const LlmFormats fp8 = {DTYPE_FP8, LLM_UNSAID, LLM_UNSAID, DTYPE_FP8};
  const Llm plain = model("llama3.1-70b");
  Llm llm;
  cr_assert_eq(llm_load_as(&llm, "llama3.1-70b", &fp8, data_dir, place_of_file("t"), &arena, &diag),
               0);
  Hardware hardware = machine("dgx-h100");
  hardware.dense_fp8_flops = 2 * hardware.dense_bf16_flops;
  const EnginePreset ideal = preset("ideal");
  Roofline wide, narrow;
  roofline_init(&wide, &plain, &hardware, (Parallelism){4, 1, 1, 1, 1}, &ideal, &arena);
  roofline_init(&narrow, &llm, &hardware, (Parallelism){4, 1, 1, 1, 1}, &ideal, &arena);
  cr_expect_eq(2 * narrow.linear.memory_fixed, wide.linear.memory_fixed);
  cr_expect_eq(2 * narrow.linear.compute_slope, wide.linear.compute_slope);
  cr_expect_eq(2 * narrow.decode_attention.memory_slope, wide.decode_attention.memory_slope);
  cr_expect_eq(narrow.linear.memory_slope, wide.linear.memory_slope);
  cr_expect_eq(narrow.head.memory_fixed, wide.head.memory_fixed);
}

/* Latent KV, 576 elements of 61 layers, is read whole by each GPU, and absorbed heads have 2·512 +
 * 64 elements, plain ones 192 and 128. */
Test(roofline, latent_kv_is_read_once_for_all_heads) {
  const Roofline eight = roofline("deepseek-v3", "dgx-h200", 8, 1, "ideal");
  const Hardware hardware = machine("dgx-h200");
  const double memory = hardware_memory_rate(&hardware), flops = hardware_compute_rate(&hardware);
  assert_close(eight.decode_attention.memory_slope, 61 * 576 * 2 / memory, 1e-12, "read");
  assert_close(eight.decode_attention.compute_slope, 61 * 2 * 16 * 1088 / flops, 1e-12, "decode");
  assert_close(eight.prefill_attention.compute_slope, 61 * 16 * 320 / flops, 1e-12, "prefill");
}

/* Half of gpt-oss's layers see 128 tokens: beyond, a token of context costs half as much. The
 * compiled model has the bend where it is, and experts within a percent between the sizes it knows.
 * */
Test(roofline, windows_bend_attention_where_they_are_full) {
  const Roofline made = roofline("gpt-oss-120b", "dgx-h100", 1, 1, "ideal");
  const double before = roofline_window_decode(&made.windows[0], 8, 8 * 128);
  cr_expect_eq(roofline_window_decode(&made.windows[0], 8, 8 * 5000), before);
  assert_close(roofline_term_seconds(&made.decode_attention, 8 * 128), before, 1e-12, "half");
  assert_close(roofline_window_prefill(&made.windows[0], 1000.0 * 1000),
               made.windows[0].prefill_slope * (2 * 1000 * 128 - 128 * 128), 1e-12, "prefill");
  PerfModel compiled;
  roofline_compile(&made, &compiled, 64, &arena);
  const BatchShape batches[] = {decode_of(8, 100), decode_of(8, 5000), decode_of(40, 5000),
                                decode_of(23, 77), prompt_of(3000),    prompt_of(777)};
  for (size_t i = 0; i < COUNT(batches); i++)
    assert_close(tick_seconds(perfmodel_iteration(&compiled, &batches[i], NULL)),
                 roofline_stage_seconds(&made, &batches[i], true), 0.01, "compiled");
}

/* Eight groups read attention's weights whole, with an eighth of the tokens each. */
Test(roofline, attention_groups_share_the_tokens) {
  const Llm llm = model("deepseek-v3");
  const Hardware hardware = machine("dgx-h200");
  const EnginePreset ideal = preset("ideal");
  Roofline one, groups;
  roofline_init(&one, &llm, &hardware, (Parallelism){1, 1, 1, 1, 1}, &ideal, &arena);
  roofline_init(&groups, &llm, &hardware, (Parallelism){1, 1, 1, 8, 8}, &ideal, &arena);
  cr_expect_eq(groups.linear.memory_fixed, one.linear.memory_fixed);
  assert_close(8 * groups.linear.compute_slope, one.linear.compute_slope, 1e-12, "products");
  assert_close(8 * groups.decode_attention.memory_slope, one.decode_attention.memory_slope, 1e-12,
               "attention");
  cr_expect_gt(groups.experts.exchange_slope, 0);
}

/* One prompt of DeepSeek-V3 is on one of eight ranks: 8000²/2 pairs of tokens, 128 heads of 192 +
 * 128 in 61 layers are 160 TFLOP, and a GPU has 989 TFLOP/s. Eight of them take no longer in
 * attention; experts see the tokens of all. Decodes take as long as eight times as many as the
 * busiest has. */
Test(roofline, a_sequence_is_on_one_rank) {
  const Llm llm = model("deepseek-v3");
  const Hardware hardware = machine("dgx-h200");
  const EnginePreset ideal = preset("ideal");
  Roofline made;
  PerfModel compiled;
  roofline_init(&made, &llm, &hardware, (Parallelism){1, 1, 1, 8, 8}, &ideal, &arena);
  roofline_compile(&made, &compiled, 64, &arena);
  const BatchShape one = prompt_of(8000), mixed = {8000, 8000 * 8000, 3, 9000, 4};
  const BatchShape batches[] = {one, mixed, decode_of(1, 5000), decode_of(9, 5000)};
  for (size_t i = 0; i < COUNT(batches); i++)
    assert_close(tick_seconds(perfmodel_iteration(&compiled, &batches[i], NULL)),
                 roofline_stage_seconds(&made, &batches[i], true), 0.01, "compiled");
  const double alone = tick_seconds(perfmodel_iteration(&compiled, &one, NULL));
  cr_expect_gt(alone, 0.162);
  const BatchShape eight = {64000, 8 * one.prefill_area2, 0, 0, 8};
  const RankShare each = {8000, one.prefill_area2}, both = {16000, 2 * one.prefill_area2};
  const double spread = tick_seconds(perfmodel_iteration_on(&compiled, &eight, &each, NULL));
  const double crowded = tick_seconds(perfmodel_iteration_on(&compiled, &eight, &both, NULL));
  assert_close(spread - alone,
               roofline_experts_seconds(&made.experts, 64000) -
                   roofline_experts_seconds(&made.experts, 8000),
               0.01, "experts");
  cr_expect_gt(crowded, spread + 0.162);
  const int64_t seqs[][2] = {{1, 8}, {5, 8}, {9, 16}, {16, 16}};
  for (size_t i = 0; i < COUNT(seqs); i++)
    cr_expect_eq(perfmodel_decode_step(&compiled, seqs[i][0], 1000 * seqs[i][0]),
                 perfmodel_decode_step(&compiled, seqs[i][1], 1000 * seqs[i][1]), "%d decodes",
                 (int)seqs[i][0]);
}

/* Measured times are of ranks that are equally busy, and stay what they are there. */
static double a_third(const void *context, double tokens) {
  (void)context, (void)tokens;
  return 1.0 / 3;
}

Test(roofline, what_is_spread_is_told_apart_in_measured_times) {
  const PwlKnot linear[] = {{0, 0}, {8, 0.003}, {8000, 0.3}};
  const CurveTable none = {0};
  PerfModel whole = {.form = PERF_COMPOSED, .ranks = 8}, apart;
  pwl_init(&whole.linear, linear, 3, false, &arena);
  perfmodel_compile(&whole, &none, 16, &arena);
  apart = whole;
  perfmodel_spread(&apart, a_third, NULL, &arena);
  const BatchShape one = {1000, 0, 0, 0, 1}, eight = {8000, 0, 0, 0, 8};
  const RankShare busiest = {1000, 0};
  assert_close(tick_seconds(perfmodel_iteration_on(&apart, &eight, &busiest, NULL)), 0.3, 1e-9,
               "balanced");
  const double third = tick_seconds(pwl_eval(&whole.linear, 1000)) / 3;
  assert_close(tick_seconds(perfmodel_iteration(&apart, &one, NULL)), 0.2 + third, 1e-9, "alone");
  cr_expect_eq(perfmodel_decode_step(&apart, 3, 100), perfmodel_decode_step(&whole, 8, 100));
  cr_expect_neq(apart.digest, whole.digest);
}

/* Each system's own machines, with the tensor parallel sizes that its paper uses or that fit. */
static const struct {
  const char *machine, *model;
  int64_t tp;
} own[] = {
    {"v100-32gb-x4", "opt-13b", 1},      {"v100-32gb-x4", "opt-13b", 2},
    {"v100-32gb-x8", "opt-13b", 2},      {"a10-x4", "llama3-15b", 4},
    {"a10-x4", "codellama-34b", 4},      {"a10-x8", "codellama-34b", 8},
    {"a10-x8", "llama2-70b", 8},         {"l4-x8", "llama3-15b", 4},
    {"l4-x8", "codellama-34b", 8},       {"l4-x8", "llama2-70b", 8},
    {"a100-40gb-x8", "llama2-70b", 4},   {"a100-40gb-x8", "llama2-70b", 8},
    {"a100-40gb-x8", "llama3-70b", 8},   {"a100-40gb-pcie-x8", "llama2-70b", 8},
    {"gh200-96gb", "opt-13b", 1},        {"gh200-96gb", "opt-30b", 1},
    {"gh200-96gb", "llama-13b", 1},      {"a100-80gb-pcie-x8", "llama2-70b", 2},
    {"h100-80gb-pcie-x8", "opt-66b", 2}, {"dgx-h200", "bloom-176b", 4},
    {"gh200-144gb", "codellama-34b", 1}, {"dgx-b200", "llama3-70b", 1},
};
enum { N_OWN = sizeof own / sizeof *own };

static PerfModel compiled(size_t i, const char *preset_name, Roofline *made) {
  PerfModel perfmodel;
  *made = roofline(own[i].model, own[i].machine, own[i].tp, 1, preset_name);
  roofline_compile(made, &perfmodel, 256, &arena);
  return perfmodel;
}

static void assert_equal_times(const PerfModel *perfmodel, const Roofline *made,
                               const BatchShape *batch) {
  Extrapolation flag;
  const double ticks = tick_seconds(perfmodel_iteration(perfmodel, batch, &flag));
  cr_assert_eq(flag, EXTRAPOLATION_NONE);
  assert_close(ticks, roofline_stage_seconds(made, batch, true), 0.001, made->name);
}

Test(roofline, the_compiled_model_is_the_closed_form) {
  for (size_t i = 0; i < N_OWN; i++) {
    Roofline made;
    const PerfModel perfmodel = compiled(i, "eager-2023", &made);
    for (int64_t n = 0; n <= 256; n = n < 8 ? n + 1 : n + n / 3) {
      for (int64_t tokens = n == 0; tokens <= 20000; tokens = tokens * 4 / 3 + 1) {
        BatchShape batch = {tokens, tokens * (3 * tokens + 1), n, n * (tokens + 100), n};
        assert_equal_times(&perfmodel, &made, &batch);
        batch.logit_seqs += tokens > 0;
        assert_equal_times(&perfmodel, &made, &batch);
      }
    }
  }
}

Test(roofline, every_systems_own_machine_holds_its_model_and_has_sound_times) {
  static const KvOptions options = {
      .block_size = 16, .gpu_memory_utilization = 0.9, .activation_bytes = INT64_C(512) << 20};
  for (size_t i = 0; i < N_OWN; i++) {
    const Llm llm = model(own[i].model);
    const Hardware hardware = machine(own[i].machine);
    KvCapacity capacity;
    cr_assert_eq(kv_capacity(&llm, &hardware, (Parallelism){own[i].tp, 1, 1, 1, 1}, &options,
                             place_of_file("test"), &capacity, &diag),
                 0, "%s on %s", own[i].model, own[i].machine);
    cr_assert_geq(capacity.blocks * options.block_size, 2048);
    Roofline made;
    const PerfModel perfmodel = compiled(i, "graph-engine", &made);
    Tick before = 0;
    for (int64_t tokens = 1; tokens <= 8192; tokens++) {
      const Tick ticks = perfmodel_prefill(&perfmodel, tokens);
      cr_assert(ticks > 0 && ticks >= before, "%s: %lld tokens", made.name, (long long)tokens);
      before = ticks;
    }
    for (int64_t n = 1; n < 256; n++) {
      const DecodePiece *piece = perfmodel_decode(&perfmodel, n, 1000 * n);
      cr_assert(piece->base > 0 && piece->slope >= 0);
      cr_assert_leq(perfmodel_decode_step(&perfmodel, n, 1000 * n),
                    perfmodel_decode_step(&perfmodel, n + 1, 1000 * n));
    }
    // a decode step reads all weights, of which the embedding is at most a tenth
    const double weights = (double)llm.weight_bytes / (double)own[i].tp;
    cr_assert_gt(tick_seconds(perfmodel_decode_step(&perfmodel, 1, 1)),
                 0.9 * weights / (double)hardware.hbm_bandwidth, "%s", made.name);
  }
}

Test(roofline, stages_share_the_layers) {
  const Roofline whole = roofline("llama2-70b", "a10-x8", 4, 1, "graph-engine");
  const Roofline half = roofline("llama2-70b", "a10-x8", 4, 2, "graph-engine");
  const Roofline third = roofline("llama2-70b", "a10-x8", 4, 3, "graph-engine");
  const BatchShape batches[] = {prompt_of(1000), decode_of(16, 500)};
  for (size_t i = 0; i < 2; i++) {
    const BatchShape *batch = &batches[i];
    const double head = roofline_term_seconds(&whole.head, (double)batch->logit_seqs);
    const double layers = roofline_stage_seconds(&whole, batch, false);
    assert_close(roofline_stage_seconds(&whole, batch, true), layers + head, 1e-12, "last stage");
    assert_close(roofline_stage_seconds(&half, batch, false), layers / 2, 1e-12, "40 of 80 layers");
    assert_close(roofline_stage_seconds(&third, batch, false), layers * 27 / 80, 1e-12, "27 of 80");
  }
  // Seesaw leaves it out: it is small beside the stage
  cr_assert_lt(half.send_slope * 1000, 0.1 * roofline_stage_seconds(&half, &batches[0], false));
}

/* Published operator sums and SplitwiseSim's engine, milliseconds, Llama2-70B with tensor parallel
 * 8 and, in decode, contexts of 512: the rows of perfmodel/README.md. Prompts of 4096 tokens ran in
 * another regime of that engine. */
static const struct {
  const char *machine;
  int64_t prompt, decodes;
  double operators, engine;
} published[] = {
    {"dgx-h100", 512, 0, 32.1, 53.4},  {"dgx-h100", 1024, 0, 55.2, 77.9},
    {"dgx-h100", 2048, 0, 103, 136.8}, {"dgx-h100", 0, 1, 10.2, 29.8},
    {"dgx-h100", 0, 8, 10.9, 32.5},    {"dgx-h100", 0, 32, 13.3, 38.6},
    {"dgx-h100", 0, 64, 13.2, 50.2},   {"dgx-a100", 512, 0, 75, 94},
    {"dgx-a100", 1024, 0, 132, 155},   {"dgx-a100", 2048, 0, 254, 274},
    {"dgx-a100", 0, 1, 16.8, 44.9},    {"dgx-a100", 0, 8, 17.8, 46.5},
    {"dgx-a100", 0, 32, 19.6, 53},     {"dgx-a100", 0, 64, 21.1, 71.6},
};

Test(roofline, presets_lie_where_the_published_times_are) {
  for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
    const BatchShape batch = published[i].prompt > 0 ? prompt_of(published[i].prompt)
                                                     : decode_of(published[i].decodes, 512);
    static const char *const names[] = {"ideal", "graph-engine", "eager-2023"};
    double ms[3];
    for (int p = 0; p < 3; p++) {
      const Roofline made = roofline("llama2-70b", published[i].machine, 8, 1, names[p]);
      ms[p] = 1e3 * roofline_stage_seconds(&made, &batch, true);
    }
    cr_assert(ms[0] < published[i].operators, "row %zu: ideal %g ms", i, ms[0]);
    const double graph = ms[1] / published[i].operators, eager = ms[2] / published[i].engine;
    cr_assert(graph > 0.75 && graph < 1.05, "row %zu: graph-engine is %g of the operators", i,
              graph);
    cr_assert(eager > 0.70 && eager < 1.10, "row %zu: eager-2023 is %g of the engine", i, eager);
  }
}

/* The presets were derived from Llama2-70B. SplitwiseSim's one sequence of BLOOM-176B, which they
 * were not: 36.0 ms on the H100, 48.8 ms on the A100. */
Test(roofline, the_eager_preset_holds_for_another_model) {
  const BatchShape batch = decode_of(1, 512);
  const Roofline h100 = roofline("bloom-176b", "dgx-h100", 8, 1, "eager-2023");
  const Roofline a100 = roofline("bloom-176b", "dgx-a100", 8, 1, "eager-2023");
  assert_close(roofline_stage_seconds(&h100, &batch, true), 36.0e-3, 0.1, "H100");
  assert_close(roofline_stage_seconds(&a100, &batch, true), 48.8e-3, 0.1, "A100");
}

Test(roofline, every_machine_runs_a_model) {
  const Llm llm = model("llama3-8b");
  double matrices = 0; // parameters of all layers
  for (int part = 0; part < LLM_PARTS; part++)
    matrices += (double)llm_part_parameters(&llm, (LlmPart)part);
  const EnginePreset engine = preset("ideal");
  int n = 0;
  for (const char *const *name = datafile_names(data_dir, "machines", &arena); *name; name++, n++) {
    const Hardware hardware = machine(*name);
    if (hardware.sm == 0) continue; // any processor: its peaks are those of none
    const int64_t gpus = hardware.num_gpus < 8 ? hardware.num_gpus : 8;
    Roofline made;
    roofline_init(&made, &llm, &hardware, (Parallelism){gpus, 1, 1, 1, 1}, &engine, &arena);
    const BatchShape batch = prompt_of(1024);
    // between 5% and all of the peak, whatever the link
    const double seconds = roofline_stage_seconds(&made, &batch, true);
    const double peak = 2 * 1024 * matrices / ((double)gpus * hardware.dense_bf16_flops);
    cr_assert(seconds > peak && seconds < 20 * peak, "%s: %g s, %g at the peak", *name, seconds,
              peak);
    cr_assert(hardware.gpu_tdp >= 70 && hardware.gpu_tdp <= 1800);
  }
  cr_assert_geq(n, 16);
}

/* TetriInfer §2.1, Fig. 2: prefill's throughput is flat from 512 tokens on. */
Test(roofline, tetriinfers_gpus_are_saturated_by_512_tokens) {
  const Roofline made = roofline("opt-13b", "v100-32gb-x4", 2, 1, "eager-2023");
  PerfModel compiled;
  roofline_compile(&made, &compiled, 16, &arena);
  cr_assert_eq(perfmodel_saturation_tokens(&compiled), 512);
}
