/* Files of algorithms of any bytes. One that is gone on with stays as it is, and its last choice is
 * there; of one that is not nothing is used, and a new one has taken its place. Either way what is
 * added is there the next time. */
#include "base/cleanup.h"
#include "kernels/gemm_choices.h"
#include "tests/fuzz/files.h"
#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PATH_SIZE = 512, LINE_SIZE = 512 };

static const CalibDevice DEVICE = {.name = "NVIDIA H200",
                                   .driver = "580.1",
                                   .runtime = "CUDA 13.0",
                                   .library = "cuBLASLt 13.0.0",
                                   .n_units = 132};

static GemmChoices *open_choices(const char *folder, bool *ret_is_used) {
  char note[160];
  GemmChoices *choices = gemm_choices_open(folder, &DEVICE, note, sizeof note);
  *ret_is_used = !*note;
  return choices;
}

/* The one file in the folder; what it is called hangs on the device alone. */
static void find_file(const char *folder, char *ret_path) {
  *ret_path = '\0';
  DIR *open = opendir(folder);
  if (!open) abort();
  for (struct dirent *entry; (entry = readdir(open));) {
    if (entry->d_name[0] == '.') continue;
    assert(!*ret_path);
    snprintf(ret_path, 2 * PATH_SIZE, "%s/%s", folder, entry->d_name);
  }
  closedir(open);
  assert(*ret_path);
}

static void write_file(const char *path, const uint8_t *data, size_t size) {
  CLEANUP_FILE FILE *file = fopen(path, "wb");
  if (!file || fwrite(data, 1, size, file) != size) abort();
}

static bool is_same_file(const char *path, const uint8_t *data, size_t size) {
  CLEANUP_FILE FILE *file = fopen(path, "rb");
  if (!file) abort();
  for (size_t i = 0; i < size; i++)
    if (fgetc(file) != data[i]) return false;
  return fgetc(file) == EOF;
}

/* The last line's choice, read another way; false of a file that has only its head. */
static bool last_choice(const uint8_t *data, size_t size, GemmChoice *ret_choice) {
  enum { HEAD_LINES = 2 };
  size_t begin = size - 1, n_lines = 0;
  for (size_t i = 0; i < size; i++)
    n_lines += data[i] == '\n';
  if (n_lines <= HEAD_LINES) return false;
  while (data[begin - 1] != '\n')
    begin--;
  char line[LINE_SIZE], *next = line;
  snprintf(line, sizeof line, "%.*s", (int)(size - begin), (const char *)data + begin);
  unsigned at[GEMM_CHOICE_NUMBERS + 7];
  for (size_t i = 0; i < sizeof at / sizeof *at; i++)
    at[i] = (unsigned)strtoul(next, &next, 10);
  *ret_choice = (GemmChoice){.shape = {(int32_t)at[0], (int32_t)at[1], (int32_t)at[2],
                                       (CalibDtype)at[3], (GemmEpilogue)at[4], (CalibWeights)at[5]},
                             .candidates = at[GEMM_CHOICE_NUMBERS + 6]};
  memcpy(ret_choice->numbers, at + 6, sizeof ret_choice->numbers);
  return true;
}

static bool has(const GemmChoices *choices, const GemmChoice *wanted) {
  GemmChoice found;
  return gemm_choices_find(choices, &wanted->shape, &found) &&
         memcmp(found.numbers, wanted->numbers, sizeof found.numbers) == 0 &&
         found.candidates == wanted->candidates;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[2 * PATH_SIZE];
  const char *folder = fuzz_folder();
  bool is_used;
  gemm_choices_close(open_choices(folder, &is_used));
  find_file(folder, path);
  write_file(path, data, size);

  GemmChoices *choices = open_choices(folder, &is_used);
  GemmChoice last;
  const bool has_last = is_used && last_choice(data, size, &last);
  const GemmChoice added = {.shape = {INT32_MAX, 1, 2, CALIB_FP16, GEMM_BIAS_RELU, CALIB_FP8_BLOCK},
                            .numbers = {1, UINT32_MAX},
                            .candidates = 8};
  assert(is_used == is_same_file(path, data, size));
  assert(!has_last || has(choices, &last));
  gemm_choices_add(choices, &added);
  const bool is_there = has(choices, &added);
  assert(is_there || is_used); // a new file is not full
  gemm_choices_close(choices);

  choices = open_choices(folder, &is_used);
  assert(is_used && has(choices, &added) == is_there);
  assert(!has_last || gemm_shape_same(&last.shape, &added.shape) || has(choices, &last));
  gemm_choices_close(choices);
  unlink(path);
  return 0;
}
