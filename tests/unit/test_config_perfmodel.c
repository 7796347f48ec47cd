/* The key `perfmodel` of a configuration. Pinned: which model each way of writing it gives, for the
 * run, a pool and the reference machine, what is refused and where, and that the example of a
 * roofline runs. Not pinned: the sets themselves. */
#include "experiments/config/config.h"
#include "tests/unit/testing.h"

TestSuite(config_perfmodel, .init = setup_folder, .fini = teardown_folder);

/* A small cluster with more lines, which may set `perfmodel` anywhere. */
static int load(Config *config, const char *machine, const char *pool, const char *lines) {
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file);
  fprintf(file,
          "model: llama2-70b\n"
          "workload: {lengths: azure-conv-2023, arrivals: {process: poisson, rate: 4 /s},\n"
          "           duration: 10 s}\n"
          "pools:\n"
          "  all: {machine: %s%s}\n%s",
          machine, pool, lines);
  fclose(file);
  return config_load(config, path, NULL, &arena, &diag);
}

Test(config_perfmodel, each_way_of_writing_it_gives_its_model) {
  const struct {
    const char *machine, *pool, *lines, *name, *reference;
  } cases[] = {
      {"dgx-h100", "", "", "splitwise-2023/llama2-70b_h100-80gb_tp8", NULL},
      {"dgx-h100", "", "perfmodel: {name: splitwise-sim}\n",
       "splitwise-sim/llama2-70b_h100-80gb_tp8", NULL},
      {"a10-x8", "", "perfmodel: roofline\n", "llama2-70b_a10_tp8_roofline-graph-engine", NULL},
      {"a10-x8", "", "perfmodel: {name: roofline, preset: eager-2023}\n",
       "llama2-70b_a10_tp8_roofline-eager-2023", NULL},
      {"l4-x8", ", perfmodel: {name: roofline, preset: ideal}", "slo: splitwise\n",
       "llama2-70b_l4_tp8_roofline-ideal", "splitwise-2023/llama2-70b_a100-80gb_tp8"},
      {"dgx-h100", ", perfmodel: fitted", "perfmodel: roofline\nslo: splitwise\n",
       "splitwise-2023/llama2-70b_h100-80gb_tp8", "llama2-70b_a100-80gb_tp8_roofline-graph-engine"},
      {"dgx-h100", "", "slo: {machine: dgx-h200, perfmodel: roofline}\n",
       "splitwise-2023/llama2-70b_h100-80gb_tp8",
       "llama2-70b_h200-141gb_tp8_roofline-graph-engine"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Config config;
    cr_assert_eq(load(&config, cases[i].machine, cases[i].pool, cases[i].lines), 0, "case %zu: %s",
                 i, diag.n_entries > 0 ? diag.entries[0].message : "");
    cr_assert_str_eq(config.sim.pools[0].perfmodel->name, cases[i].name);
    const PerfModel *reference = config.sim.model.slo_reference;
    cr_assert_eq(reference == NULL, cases[i].reference == NULL, "case %zu", i);
    if (reference) cr_assert_str_eq(reference->name, cases[i].reference);
  }
}

/* 200 prompt tokens of Llama2-70B over eight A10: 160 all-reduces of 200·8192·2 bytes, of which a
 * GPU's link carries 7/4, and the logits of one sequence, 7/8. Stages have one GPU, and none. */
Test(config_perfmodel, all_reduces_alone_are_scaled) {
  const struct {
    const char *pool;
    double scale, shift; // times the seconds of all collectives
  } cases[] = {{"", 0.5, 1}, {"", 1, 0}, {"", 4, -0.75}, {", pipeline_parallel_size: 8", 0.5, 0}};
  const double link = 0.6 * 16 * 1073741824.0;
  const double collectives = (160 * 200 * 8192.0 * 2 * 7 / 4 + 32000 * 2 * 7 / 8.0) / link;
  const BatchShape batch = {.prefill_tokens = 200, .prefill_area2 = 40000, .logit_seqs = 1};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Config plain, scaled;
    char lines[128];
    snprintf(lines, sizeof lines, "perfmodel: {name: roofline, all_reduce_scale: %g}\n",
             cases[i].scale);
    cr_assert_eq(load(&plain, "a10-x8", cases[i].pool, "perfmodel: roofline\n"), 0);
    cr_assert_eq(load(&scaled, "a10-x8", cases[i].pool, lines), 0);
    const PerfModel *a = plain.sim.pools[0].perfmodel, *b = scaled.sim.pools[0].perfmodel;
    const Tick before = perfmodel_iteration(a, &batch, NULL);
    const Tick after = perfmodel_iteration(b, &batch, NULL);
    cr_assert_float_eq(tick_seconds(after - before), cases[i].shift * collectives, 1e-9,
                       "case %zu: %.12g s", i, tick_seconds(after - before));
    cr_assert_eq(a->send, b->send);
  }
}

Test(config_perfmodel, what_makes_no_sense_is_refused_once_and_where_it_stands) {
  const struct {
    const char *machine, *pool, *lines, *message;
    int line;
  } cases[] = {
      {"mi300x-x8", "", "", "there are no iteration times of llama2-70b_mi300x-192gb_tp8_", 5},
      {"dgx-h100", "", "perfmodel: {name: fitted, preset: ideal}\n",
       "'preset' applies to 'roofline'", 6},
      {"dgx-h100", "", "perfmodel: {preset: ideal}\n", "'preset' applies to 'roofline'", 6},
      {"dgx-h100", "", "perfmodel: {all_reduce_scale: 2}\n",
       "'all_reduce_scale' applies to 'roofline'", 6},
      {"a10-x8", "", "perfmodel: {name: roofline, all_reduce_scale: 0}\n", "all_reduce_scale", 6},
      {"dgx-h100", "", "perfmodel:\n  name: roofline\n  preset: idle\n", "unknown preset 'idle'",
       8},
      {"dgx-h100", ", perfmodel: {name: roofline, engine: vllm}", "",
       "'engine' applies to 'fitted', which looks for iteration times by it, not to 'roofline'", 5},
      {"dgx-h100", "", "perfmodel: [roofline]\n", "", 6},
      {"dgx-h100", "", "slo: {machine: v100-32gb-x4, perfmodel: roofline}\n",
       "tensor_parallel_size 8 exceeds the 4 GPUs of machine 'v100-32gb-x4'", 6},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Config config;
    diag_done(&diag);
    diag_init(&diag);
    cr_assert_eq(load(&config, cases[i].machine, cases[i].pool, cases[i].lines), -1, "case %zu", i);
    cr_assert_eq(diag.n_entries, 1, "case %zu: %d messages", i, diag.n_entries);
    cr_assert_not_null(strstr(diag.entries[0].message, cases[i].message), "case %zu: %s", i,
                       diag.entries[0].message);
    cr_assert_eq(diag.entries[0].at.line, cases[i].line, "case %zu: line %d", i,
                 diag.entries[0].at.line);
  }
}

Test(config_perfmodel, a_file_of_other_weights_is_refused) {
  static const char text[] = "form: composed\nmodel: llama2-70b\ngpu: h100-80gb\n"
                             "tensor_parallel_size: 8\nengine: vllm\nengine_version: \"0.24.0\"\n"
                             "weight_dtype: fp8\nkv_cache_dtype: bf16\noverhead: 0 s\n"
                             "linear: {knots: [[1, 0.01], [2, 0.02]]}\nprefill_attention: none\n"
                             "decode_attention: none\nhead: none\n";
  const char *file = arena_printf(&arena, "%s-fp8.yaml", path);
  Config config;
  write_file(file, text);
  const char *lines = arena_printf(&arena, "perfmodel: {name: %s}\n", file);
  cr_assert_eq(load(&config, "dgx-h100", "", lines), -1);
  cr_expect_not_null(strstr(diag.entries[0].message, "to another setup: weights in fp8 for bf16"));
  remove(file);
}

/* A file by its path is of the model, GPU, degrees and formats of its pool, or is insisted on. */
Test(config_perfmodel, a_file_is_of_its_pool) {
  static const struct {
    const char *file, *machine, *pool, *insist, *message;
  } cases[] = {
      {"splitwise-2023/llama2-70b_h100-80gb_tp8", "dgx-h100", "", "false", NULL},
      {"splitwise-2023/bloom-176b_h100-80gb_tp8", "dgx-h100", "", "false",
       "model bloom-176b for llama2-70b"},
      {"splitwise-2023/llama2-70b_h100-80gb_tp4", "dgx-h100", "", "false",
       "to another setup: tensor_parallel_size 4 for 8"},
      {"splitwise-2023/llama2-70b_h100-80gb_tp8", "dgx-h200", "", "false",
       "GPU h100-80gb for h200-141gb"},
      {"splitwise-2023/llama2-70b_h100-80gb_tp8", "dgx-h200", "", "true", NULL},
      {"splitwise-2023/llama2-70b_h100-80gb_tp4", "dgx-h100",
       ", tensor_parallel_size: 4, attention_data_parallel_size: 2", "false",
       "attention_data_parallel_size 1 for 2"},
      {"vllm-0.19.0/qwen3-32b_rtx-pro-6000-96gb_tp2_bf16", "dgx-h100", ", tensor_parallel_size: 4",
       "false",
       "model qwen3-32b for llama2-70b, GPU rtx-pro-6000-96gb for h100-80gb, "
       "tensor_parallel_size 2 for 4"},
      {"vllm-0.19.0/qwen3-32b_rtx-pro-6000-96gb_tp2_bf16", "dgx-h100", "", "true", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Config config;
    const char *lines = arena_printf(&arena, "perfmodel: {name: %s/fitted/%s.yaml, insist: %s}\n",
                                     data_dir, cases[i].file, cases[i].insist);
    diag_done(&diag);
    diag_init(&diag);
    const int status = load(&config, cases[i].machine, cases[i].pool, lines);
    cr_assert_eq(status, cases[i].message ? -1 : 0, "case %zu: %s", i,
                 diag.n_entries > 0 ? diag.entries[0].message : "");
    if (!cases[i].message) continue;
    cr_expect_not_null(strstr(diag.entries[0].message, cases[i].message), "case %zu: %s", i,
                       diag.entries[0].message);
    cr_expect_not_null(strstr(diag.entries[0].hint, "insist: true"));
    cr_expect_eq(diag.entries[0].at.line, 6);
  }
  Config config;
  diag_done(&diag);
  diag_init(&diag);
  cr_assert_eq(load(&config, "dgx-h100", "", "perfmodel: {name: roofline, insist: true}\n"), -1);
  cr_expect_not_null(strstr(diag.entries[0].message, "'insist' applies to the path of a file"));
}

Test(config_perfmodel, the_example_of_a_roofline_runs) {
  static const char *const assignments[] = {"workload.duration=20 s", NULL};
  const ConfigChanges changes = {.assignments = assignments, .seed = -1, .tie_seed = -1};
  Config config;
  SimResult result;
  const char *example =
      arena_printf(&arena, "%s/../experiments/examples/roofline-gh200.yaml", data_dir);
  cr_assert_eq(config_load(&config, example, &changes, &arena, &diag), 0);
  cr_assert_eq(config_open_trace(&config, &arena, &diag), 0);
  config.sim.audit = true;
  cr_assert_eq(sim_run(&config.sim, &result, &arena, &diag), 0);
  trace_close(config.sim.trace);
  cr_assert_gt(result.totals.decode_iterations, 1000);
  cr_assert_eq(result.unfinished, 0);
}

/* ---- The key of a model's cache ---- */

#define OTHER_text(field)   field = "other"
#define OTHER_number(field) field += 1
#define OTHER_real(field)   field *= 1.5
#define OTHER_words(field)  ((int64_t *)(void *)&field)[sizeof(field) / 8 - 1] += 1
#define OTHER_tree(field)   field = field->first
#define OTHER_loaded(field)                                                                        \
  char *copy = arena_copy(&arena, (const char *)(field), sizeof *(field));                         \
  ++*(uint64_t *)(void *)(copy + ((const char *)&(field)->digest - (const char *)(field)));        \
  field = (void *)copy
#define OTHER_preset(field) field = &preset_ideal

static PerfModelInputs inputs(Arena *where) {
  Llm *model = ARENA_NEW(where, Llm);
  Hardware *hardware = ARENA_NEW(where, Hardware);
  EnginePreset *preset = ARENA_NEW(where, EnginePreset);
  const Place at = place_of_file("test");
  cr_assert_eq(llm_load(model, "llama2-70b", data_dir, at, where, &diag), 0);
  cr_assert_eq(hardware_load(hardware, "dgx-h100", data_dir, at, where, &diag), 0);
  *preset = preset_graph_engine;
  return (PerfModelInputs){.root = arena_printf(where, "%s", "root"),
                           .name = arena_printf(where, "%s", "fitted"),
                           .model = model,
                           .hardware = hardware,
                           .degrees = {8, 1, 1, 1, 1},
                           .max_decode_seqs = 256,
                           .time_scale = 1,
                           .error_shift = 1,
                           .output_error = 0.125,
                           .power_cap = 400,
                           .added = preset,
                           .preset = arena_printf(where, "%s", "graph-engine"),
                           .all_reduce_scale = 1,
                           .captured_batch_sizes = yaml_parse("test", "[1, 2]", 6, where, &diag),
                           .serving = arena_printf(where, "%s", "vllm-0.33")};
}

/* Of all rows, each of which a model is made of. */
Test(config_perfmodel, every_input_is_in_the_key_and_no_address) {
  Arena elsewhere;
  arena_init(&elsewhere);
  const PerfModelInputs base = inputs(&arena), same = inputs(&elsewhere);
  const uint64_t key = perfmodel_inputs_digest(&base);
  cr_expect_eq(perfmodel_inputs_digest(&same), key);
  int n = 0;
#define INPUT(kind, type, name)                                                                    \
  {                                                                                                \
    PerfModelInputs changed = base;                                                                \
    OTHER_##kind(changed.name);                                                                    \
    cr_expect_neq(perfmodel_inputs_digest(&changed), key, "%s", #name);                            \
    n++;                                                                                           \
  }
#include "experiments/config/perfmodel_inputs.def"
#undef INPUT
  cr_expect_geq(n, 20);
  arena_done(&elsewhere);
}

/* All 64-bit words of what is hashed as it stands. */
Test(config_perfmodel, every_word_of_an_input_is_in_the_key) {
  const PerfModelInputs base = inputs(&arena);
  const uint64_t key = perfmodel_inputs_digest(&base);
  for (size_t i = 0; i < sizeof(Parallelism) / 8; i++) {
    PerfModelInputs changed = base;
    ((int64_t *)&changed.degrees)[i]++;
    cr_expect_neq(perfmodel_inputs_digest(&changed), key, "degree %zu", i);
  }
  for (size_t i = 0; i < sizeof(HostTimes) / 8; i++) {
    PerfModelInputs changed = base;
    ((int64_t *)&changed.said)[i]++;
    cr_expect_neq(perfmodel_inputs_digest(&changed), key, "time %zu", i);
  }
  for (int i = 0; i < 4; i++) {
    PerfModelInputs changed = base;
    EnginePreset preset = *base.added;
    (&preset.per_iteration)[i]++;
    changed.added = &preset;
    cr_expect_neq(perfmodel_inputs_digest(&changed), key, "preset %d", i);
  }
}

/* The digest of a model or machine type whose file has one key more, in the test's own file. */
static uint64_t digest_of_file(bool is_model, const char *of, const char *key) {
  const Place at = place_of_file("test");
  Llm llm;
  Hardware hardware;
  Node *root = yaml_load(arena_printf(&arena, "%s/%s.yaml", data_dir, of), &arena, &diag);
  if (key) cr_assert_eq(yaml_set(root, key, &arena, &diag), 0);
  FILE *file = fopen(path, "w");
  fprintf(file, "# a remark\n%s\n", node_text(root, &arena));
  fclose(file);
  cr_assert_eq(is_model ? llm_load(&llm, path, data_dir, at, &arena, &diag)
                        : hardware_load(&hardware, path, data_dir, at, &arena, &diag),
               0);
  return is_model ? llm.digest : hardware.digest;
}

/* What it says, in which formats; not its remarks. */
Test(config_perfmodel, the_digest_of_a_file_is_of_all_that_it_says) {
  const LlmFormats written = {LLM_UNSAID, LLM_UNSAID, LLM_UNSAID, LLM_UNSAID};
  const Place at = place_of_file("test");
  cr_expect_neq(digest_of_file(true, "models/opt-13b", NULL),
                digest_of_file(true, "models/opt-13b", "attention_sinks=true"));
  cr_expect_neq(digest_of_file(false, "machines/dgx-h100", NULL),
                digest_of_file(false, "machines/dgx-h100", "kv_transfer_overhead=1 us"));
  Llm plain, other;
  cr_assert_eq(llm_load_as(&plain, "opt-13b", &written, data_dir, at, &arena, &diag), 0);
  for (int i = 0; i < 4; i++) {
    LlmFormats formats = written;
    ((int *)&formats)[i] = DTYPE_FP8;
    cr_assert_eq(llm_load_as(&other, "opt-13b", &formats, data_dir, at, &arena, &diag), 0);
    cr_expect_neq(plain.digest, other.digest, "format %d", i);
  }
}
