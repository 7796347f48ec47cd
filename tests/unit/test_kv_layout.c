/* Groups of layers of models, and the KV memory that they leave. Pinned: block sizes and groups
 * that vLLM 0.33.0 prints for Qwen3.5-27B, Nemotron-3-Nano, Gemma 4 and gpt-oss, from bytes of
 * their layers worked by hand; heads and states on several GPUs. */
#include "perfmodel/hardware.h"
#include "tests/unit/testing.h"

TestSuite(kv_layout, .init = setup_data, .fini = teardown);

/* Attention of `heads` heads of `dim` numbers of 2 bytes. */
static Llm model_of(int64_t layers, int64_t full, int64_t heads, int64_t dim) {
  return (Llm){.num_hidden_layers = layers,
               .num_attention_layers = full,
               .num_attention_heads = 32,
               .num_key_value_heads = heads,
               .head_dim = dim,
               .dtype_bytes = 2,
               .kv_cache_dtype = DTYPE_BF16};
}

static void add_states(Llm *self, int64_t layers, int64_t bytes) {
  self->num_linear_layers = layers;
  self->state_bytes_per_sequence = layers * bytes;
}

static void check(const KvLayout *layout, int32_t n_groups, int64_t whole, int64_t narrow,
                  int64_t bytes) {
  cr_assert_not_null(layout);
  cr_expect_eq(layout->n_groups, n_groups);
  cr_expect_eq(layout->block_size, whole);
  cr_expect_eq(layout->groups[0].block_size, narrow);
  cr_expect_eq(layout->groups[n_groups - 1].kind, KV_FULL);
  cr_expect_eq(layout->groups[n_groups - 1].block_size, whole);
  cr_expect_eq(layout->block_bytes, bytes);
}

/* A state is 48 heads · 128 · 128 · 4 B and 3 · 10240 inputs of 2 B: 783 tokens of 4096 B. */
Test(kv_layout, states_make_blocks_of_attention_as_large) {
  Llm qwen = model_of(64, 16, 4, 256);
  add_states(&qwen, 48, 48 * 128 * 128 * 4 + 3 * 10240 * 2);
  check(kv_layout_of(&qwen, 1, 16, &arena), 4, 784, 784, 16 * 784 * 4096);
  Llm nemotron = model_of(52, 6, 2, 128);
  add_states(&nemotron, 23, 64 * 64 * 128 * 4 + 3 * 6144 * 2);
  check(kv_layout_of(&nemotron, 1, 16, &arena), 5, 2096, 2096, 6 * 2096 * 1024);
  /* On 8 GPUs 4 heads are there twice, and a state is cut: half as many tokens. */
  check(kv_layout_of(&qwen, 8, 16, &arena), 4, 400, 400, 16 * 400 * 8192);
}

Test(kv_layout, the_kind_with_fewer_bytes_has_more_tokens) {
  Llm gemma = model_of(60, 60, 4, 512);
  gemma.num_sliding_layers = 50;
  gemma.sliding_window = 1024;
  gemma.sliding_num_key_value_heads = 16;
  gemma.sliding_head_dim = 256;
  const KvLayout *layout = kv_layout_of(&gemma, 1, 16, &arena);
  check(layout, 6, 32, 16, 10 * 32 * 8192);
  /* 3126 blocks of full attention; 65 of each window, which may begin within one. */
  cr_expect_eq(kv_layout_blocks(layout, 100010), 3126 + 5 * 65);
  cr_expect_eq(kv_layout_blocks(layout, 100), 4 + 5 * 7);
  Llm gpt_oss = model_of(36, 36, 8, 64);
  gpt_oss.num_sliding_layers = 18;
  gpt_oss.sliding_window = 128;
  check(kv_layout_of(&gpt_oss, 1, 16, &arena), 2, 16, 16, 18 * 16 * 2048);
}

Test(kv_layout, full_attention_has_none) {
  const Llm llama = model_of(32, 32, 8, 128);
  cr_expect_null(kv_layout_of(&llama, 1, 16, &arena));
}

Test(kv_layout, nothing_is_set_aside_of_memory) {
  Hardware hardware;
  Llm llm;
  cr_assert_eq(hardware_load(&hardware, "dgx-h100", data_dir, place_of_file("t"), &arena, &diag),
               0);
  cr_assert_eq(llm_load(&llm, "gpt-oss-120b", data_dir, place_of_file("t"), &arena, &diag), 0);
  const Parallelism two = {.tensor = 2, .pipeline = 1, .data = 1};
  KvOptions options = {.block_size = 16, .gpu_memory_utilization = 0.9, .max_num_seqs = 1024};
  KvCapacity apart, shared;
  cr_assert_eq(kv_capacity(&llm, &hardware, two, &options, place_of_file("t"), &apart, &diag), 0);
  options.layout = kv_layout_of(&llm, 2, 16, &arena);
  cr_assert_eq(kv_capacity(&llm, &hardware, two, &options, place_of_file("t"), &shared, &diag), 0);
  const int64_t gpus = 2 * hardware.gpu_memory_bytes;
  cr_expect_eq(shared.block_bytes, 18 * 16 * 2048);
  cr_expect_eq(shared.blocks,
               ((int64_t)(0.9 * (double)gpus) - llm.weight_bytes) / shared.block_bytes);
}
