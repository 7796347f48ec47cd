/* GGUF files of any bytes: one that is refused has an entry and one that is not has none, and then
 * a shape with weights and a cache. */
#include "perfmodel/llm.h"
#include "tests/fuzz/files.h"
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *path, Arena *arena, Diag *diag) {
  Llm llm;
  const int status = llm_load(&llm, path, "/absent", place_of_file(path), arena, diag);
  assert((status == 0) == (diag->n_entries == 0));
  if (status) return;
  assert(llm.file && llm.weight_bytes > 0 && llm.kv_bytes_per_token > 0);
  assert(llm_parameters(&llm) > 0 && llm.num_attention_heads % llm.num_key_value_heads == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  check(fuzz_file("a.gguf", data, size), &arena, &diag);
  diag_done(&diag);
  arena_done(&arena);
  return 0;
}
