/* GGUF heads written by hand: the shape that they say, and what is refused with a sentence. */
#include "perfmodel/gguf.h"
#include "perfmodel/llm.h"
#include "tests/unit/testing.h"
#include <string.h>

TestSuite(gguf, .init = setup_folder, .fini = teardown_folder);

static FILE *file;
static uint64_t n_pairs, n_tensors;

static void put(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++)
    fputc((int)(value >> 8 * i & 0xff), file);
}

static void put_text(const char *text) {
  put(strlen(text), 8);
  fputs(text, file);
}

/* Counts are written when they are known. */
static void begin(int version) {
  path = in_folder("small-one.gguf");
  file = fopen(path, "wb");
  n_pairs = n_tensors = 0;
  fputs("GGUF", file);
  put((uint64_t)version, 4);
  put(0, 8);
  put(0, 8);
}

static void add_number(const char *key, uint64_t value) {
  put_text(key);
  put(4, 4); // uint32
  put(value, 4);
  n_pairs++;
}

static void add_text(const char *key, const char *text) {
  put_text(key);
  put(8, 4);
  put_text(text);
  n_pairs++;
}

static void add_numbers(const char *key, uint64_t first, uint64_t second) {
  put_text(key);
  put(9, 4);
  put(5, 4); // int32
  put(2, 8);
  put(first, 4);
  put(second, 4);
  n_pairs++;
}

static void add_tensor(const char *name, uint64_t inner, uint64_t outer, uint64_t type) {
  put_text(name);
  put(2, 4);
  put(inner, 8);
  put(outer, 8);
  put(type, 4);
  put(0, 8);
  n_tensors++;
}

/* With so many bytes of weights after it. */
static void end(int weights) {
  while (ftell(file) % 32 != 0)
    fputc(0, file);
  for (int i = 0; i < weights; i++)
    fputc(1, file);
  fseek(file, 8, SEEK_SET);
  put(n_tensors, 8);
  put(n_pairs, 8);
  fclose(file);
}

static void begin_llama(void) {
  begin(3);
  add_text("general.architecture", "llama");
  add_number("llama.embedding_length", 64);
  add_number("llama.attention.head_count", 4);
  add_number("llama.feed_forward_length", 96);
  add_number("llama.context_length", 1000);
}

static int load(Llm *llm) {
  return llm_load(llm, path, data_dir, place_of_file("test"), &arena, &diag);
}

static void expect_refused(const char *says) {
  Llm llm;
  cr_assert(load(&llm) < 0 && diag.n_entries > 0, "not refused: %s", says);
  cr_expect(strstr(diag.entries[0].message, says), "'%s' says not '%s'", diag.entries[0].message,
            says);
}

Test(gguf, the_shape_is_what_the_metadata_says) {
  Llm llm;
  begin_llama();
  add_number("llama.block_count", 3);
  add_numbers("llama.attention.head_count_kv", 2, 2);
  add_tensor("token_embd.weight", 64, 500, 8);
  add_tensor("blk.0.ffn_gate.weight", 64, 96, 8);
  add_tensor("blk.0.attn_q.weight", 64, 64, 8);
  end(4321);
  cr_assert(load(&llm) == 0, "%s", diag.n_entries ? diag.entries[0].message : "");
  cr_expect_str_eq(llm.name, "small-one");
  cr_expect_str_eq(llm.file, path);
  cr_expect(llm.num_hidden_layers == 3 && llm.hidden_size == 64 && llm.num_attention_heads == 4);
  cr_expect(llm.num_key_value_heads == 2 && llm.head_dim == 16 && llm.intermediate_size == 96);
  cr_expect(llm.vocab_size == 500 && llm.max_position_embeddings == 1000);
  cr_expect(llm.gated_mlp && llm.tie_word_embeddings && llm.weight_dtype == DTYPE_INT8);
  cr_expect(llm.weight_bytes == 4321, "%lld", (long long)llm.weight_bytes);
  cr_expect(llm.kv_bytes_per_token == 2 * 3 * 2 * 16 * 2); // fp16
}

Test(gguf, what_is_missing_or_out_of_range_is_named) {
  begin_llama();
  end(0);
  expect_refused("no 'llama.block_count'");
}

Test(gguf, a_count_beyond_all_models_is_refused) {
  begin_llama();
  add_number("llama.block_count", 4000000000u);
  end(0);
  expect_refused("'llama.block_count' must be a number from 1 to 1000");
}

Test(gguf, heads_that_differ_between_layers_are_refused) {
  begin_llama();
  add_number("llama.block_count", 2);
  add_numbers("llama.attention.head_count_kv", 2, 4);
  end(0);
  expect_refused("'llama.attention.head_count_kv' differs between layers");
}

Test(gguf, parts_of_a_model_are_refused) {
  begin_llama();
  add_number("split.count", 3);
  end(0);
  expect_refused("one of 3 parts");
}

Test(gguf, another_version_is_refused) {
  begin(4);
  end(0);
  expect_refused("the version is neither 2 nor 3 at byte 8");
}

Test(gguf, a_file_that_ends_is_refused_where_it_does) {
  begin(3);
  n_pairs = 1;
  put(400, 8); // of a key that is not there
  end(0);
  expect_refused("at byte 32");
}

Test(gguf, a_text_longer_than_the_file_is_refused) {
  begin(3);
  put_text("a");
  put(8, 4);
  put(UINT64_MAX, 8);
  n_pairs = 1;
  end(0);
  expect_refused("a value is longer than the file");
}
