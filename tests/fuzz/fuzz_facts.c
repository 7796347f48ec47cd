/* Machine, model and preset files of any bytes: the first says which ('m', 'l', 'p'; 'h' for
 * Hugging Face's config.json, with the hf_quant_config.json beside it after a line of dashes), the
 * rest is the file. One that is refused has an entry and one that is not has none; whatever it
 * says, a roofline can be made of it, whose times do not fall with more work. */
#include "perfmodel/roofline.h"
#include "tests/fuzz/files.h"
#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes config.json and, where there is a line of dashes, the file beside it. */
static const char *write_configs(const uint8_t *data, size_t size) {
  static const char line[] = "\n---\n", beside[] = "hf_quant_config.json";
  const size_t n = sizeof line - 1;
  size_t at = 0;
  while (at + n <= size && memcmp(data + at, line, n) != 0)
    at++;
  const bool has_both = at + n <= size;
  if (has_both)
    fuzz_file(beside, data + at + n, size - at - n);
  else
    fuzz_no_file(beside);
  return fuzz_file("config.json", data, has_both ? at : size);
}

static void check_sizes(const Llm *llm) {
  const int64_t all = llm_parameters(llm);
  assert(all > 0 && llm->weight_bytes > 0);
  assert(llm->kv_bytes_per_token > 0 && llm->kv_bytes_per_sequence >= 0);
  assert((llm->state_bytes_per_sequence > 0) == (llm->num_linear_layers > 0));
  for (int part = 0; part < LLM_PARTS; part++) {
    const int64_t parameters = llm_part_parameters(llm, (LlmPart)part);
    assert(parameters >= 0 && parameters < all);
  }
  assert(llm_quantization(llm) < DTYPE_COUNT);
}

static void check_times(const Llm *llm, const Hardware *hardware, const EnginePreset *preset,
                        Arena *arena) {
  Roofline roofline;
  PerfModel model;
  roofline_init(&roofline, llm, hardware, (Parallelism){1, 1, 1, 1, 1}, preset, arena);
  roofline_compile(&roofline, &model, 4, arena);
  Tick prefill = 0, decode = 0;
  for (int64_t tokens = 1; tokens <= 1000000; tokens *= 10) {
    const Tick longer = perfmodel_prefill(&model, tokens);
    const Tick more = perfmodel_decode_step(&model, 4, tokens);
    assert(longer >= prefill && more >= decode);
    prefill = longer;
    decode = more;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  Llm llm = {.name = "small",
             .num_hidden_layers = 2,
             .num_attention_layers = 2,
             .num_mlp_layers = 2,
             .hidden_size = 64,
             .num_attention_heads = 4,
             .num_key_value_heads = 2,
             .head_dim = 16,
             .intermediate_size = 128,
             .vocab_size = 100,
             .dtype_bytes = 2,
             .weight_dtype = DTYPE_BF16,
             .attention_dtype = DTYPE_BF16,
             .expert_dtype = DTYPE_BF16,
             .kv_cache_dtype = DTYPE_BF16};
  Hardware hardware = {.gpu = "slow",
                       .dense_bf16_flops = 1e9,
                       .flops_efficiency = 1,
                       .hbm_bandwidth = 1000000,
                       .hbm_efficiency = 1,
                       .pcie_bandwidth = 1000,
                       .pcie_efficiency = 1};
  EnginePreset preset = {.name = "none"};
  const char *path = data[0] == 'h' ? write_configs(data + 1, size - 1)
                                    : fuzz_file("facts.yaml", data + 1, size - 1);
  const Place at = place_of_file("fuzz");
  const int status = data[0] == 'm' ? hardware_load(&hardware, path, ".", at, &arena, &diag)
                     : data[0] == 'l' || data[0] == 'h'
                         ? llm_load(&llm, path, ".", at, &arena, &diag)
                         : preset_load(&preset, path, &arena, &diag);
  assert((status < 0) == (diag.n_entries > 0));
  if (status == 0 && (data[0] == 'l' || data[0] == 'h')) check_sizes(&llm);
  if (status == 0) check_times(&llm, &hardware, &preset, &arena);
  diag_done(&diag);
  arena_done(&arena);
  return 0;
}
