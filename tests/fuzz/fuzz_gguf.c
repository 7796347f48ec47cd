/* GGUF files of any bytes: one that is refused has an entry and one that is not has none, and then
 * a shape with weights and a cache. */
#include "base/cleanup.h"
#include "perfmodel/llm.h"
#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_file(const char *path, const uint8_t *data, size_t size) {
  CLEANUP_FILE FILE *file = fopen(path, "wb");
  if (!file || fwrite(data, 1, size, file) != size) abort();
}

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
  char folder[] = "/tmp/fuzz_gguf_XXXXXX";
  if (!mkdtemp(folder)) abort();
  arena_init(&arena);
  diag_init(&diag);
  const char *path = arena_printf(&arena, "%s/a.gguf", folder);
  write_file(path, data, size);
  check(path, &arena, &diag);
  unlink(path);
  rmdir(folder);
  diag_done(&diag);
  arena_done(&arena);
  return 0;
}
