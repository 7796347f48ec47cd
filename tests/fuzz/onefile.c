/* Runs a fuzzer's entry over the files named on the command line and over mutations of each: the
 * same ones every time, so that an ordinary test run exercises what a fuzzer would.
 *
 * Every input is handed over in a block of its own size, so that a sanitizer sees one byte read too
 * far. Exit status 1 if a file cannot be read; a finding aborts. */
#include "base/cleanup.h"
#include "base/hash.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
  INPUT_MAX_BYTES = 1 << 20,
  TRUNCATIONS = 400, // shorter files are cut at every length, longer ones at as many places
  MUTATIONS = 600,
};

static void run_copy(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size ? size : 1);
  if (!copy) abort();
  memcpy(copy, data, size);
  LLVMFuzzerTestOneInput(copy, size);
  free(copy);
}

/* Changes one to four bytes: to a character that a reader may trip over, by one bit, or at random.
 */
static void mutate(uint8_t *data, size_t size, uint64_t seed) {
  static const char TROUBLE[] = "\n\t\r \"':,-[]{}#&*!|>%@?.0e\\";
  int changes = 1 + (int)(seed % 4);
  for (int i = 0; i < changes; i++) {
    uint64_t draw = hash_fold(seed, (uint64_t)i);
    uint8_t *byte = &data[(draw >> 16) % size];
    if (draw % 3 == 0) {
      *byte = (uint8_t)TROUBLE[(draw >> 8) % sizeof TROUBLE]; // the NUL at its end included
    } else if (draw % 3 == 1) {
      *byte ^= (uint8_t)(1u << (draw >> 8) % 8);
    } else {
      *byte = (uint8_t)(draw >> 8);
    }
  }
}

static void run_file(const uint8_t *data, size_t size) {
  static uint8_t mutated[INPUT_MAX_BYTES];
  run_copy(data, size);
  size_t step = size / TRUNCATIONS + 1;
  for (size_t length = 0; length < size; length += step)
    run_copy(data, length);
  for (int i = 0; i < MUTATIONS && size > 0; i++) {
    memcpy(mutated, data, size);
    mutate(mutated, size, hash_fold(hash_bytes(data, size), (uint64_t)i));
    run_copy(mutated, size);
  }
}

int main(int argc, char **argv) {
  static uint8_t data[INPUT_MAX_BYTES];
  if (argc < 2) {
    fprintf(stderr, "usage: %s FILE...\n", argv[0]);
    return 2;
  }
  for (int i = 1; i < argc; i++) {
    CLEANUP_FILE FILE *file = fopen(argv[i], "rb");
    if (!file) {
      fprintf(stderr, "%s: cannot be opened\n", argv[i]);
      return 1;
    }
    run_file(data, fread(data, 1, sizeof data, file));
  }
  return 0;
}
