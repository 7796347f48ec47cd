/* Others' profiles of any bytes. The first byte says which importer reads the rest ('0' the first
 * of imports.def, …); for the one that reads a folder, the second says which file of it the rest
 * is, and the others are sound. Whatever it holds, an error has an entry and none has none; what
 * is imported has positive times and numbered configurations. */
#include "perfmodel/import/import.h"
#include "tests/fuzz/files.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_FILES = 4 };

static const char *const FILES[N_FILES] = {"tp1/dense.csv", "tp1/per_sequence.csv",
                                           "tp1/attention.csv", "meta.yaml"};
static const char *const SOUND[N_FILES] = {
    "layer,tokens,time_us\nqkv_proj,1,50\nqkv_proj,2,51\n",
    "layer,sequences,time_us\nlm_head,1,9\n",
    "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n16,0,0,0,8\n", "hardware: RTX4090\n"};

static void write_folder(int fuzzed, const uint8_t *data, size_t size) {
  for (int i = 0; i < N_FILES; i++)
    if (i == fuzzed)
      fuzz_file(FILES[i], data, size);
    else
      fuzz_file(FILES[i], SOUND[i], strlen(SOUND[i]));
}

static const Importer *chosen(uint8_t digit) {
  int n = 0;
  while (importer_at(n))
    n++;
  return importer_at((digit - '0') % n < 0 ? 0 : (digit - '0') % n);
}

static void import_one(const Importer *importer, const char *path, Arena *arena) {
  const char *source = getenv("TANDEM_SOURCE_DIR");
  const ImportInput input = {.path = path,
                             .model = "llama2-70b",
                             .gpu = "h100-80gb",
                             .machine = "dgx-h100",
                             .data_dir =
                                 arena_printf(arena, "%s/perfmodel", source ? source : ".")};
  Diag diag;
  Profile profile;
  diag_init(&diag);
  profile_init(&profile, path, arena);
  int status = import_profile(importer, &input, &profile, &diag);
  assert((status < 0) == (diag.n_entries > 0));
  for (size_t i = 0; status == 0 && i < profile.n_rows; i++) {
    const ProfileRow *row = &profile.rows[i];
    assert(row->median_us > 0 && row->tensor_parallel_size >= 1 && row->configuration >= 1);
    assert(row->batch.prefill_area2 >= 0 && row->batch.context_tokens >= 0);
  }
  diag_done(&diag);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  Arena arena;
  arena_init(&arena);
  const Importer *importer = chosen(data[0]);
  if (strcmp(importer->name, "llmservingsim") == 0) {
    write_folder(data[1] % N_FILES, data + 2, size - 2);
    import_one(importer, fuzz_folder(), &arena);
  } else {
    import_one(importer, fuzz_file("profile", data + 1, size - 1), &arena);
  }
  arena_done(&arena);
  return 0;
}
