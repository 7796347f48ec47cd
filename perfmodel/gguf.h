/* The head of a GGUF file: its metadata and the list of its tensors. */
#ifndef PERFMODEL_GGUF_H
#define PERFMODEL_GGUF_H
#include "base/diag.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum GgufKind { GGUF_OTHER, GGUF_INTEGER, GGUF_STRING, GGUF_ARRAY } GgufKind;

typedef struct GgufPair {
  const char *key;
  GgufKind kind;    // floats and texts of more than 1 KiB: GGUF_OTHER
  int64_t integer;  // flags are 0 or 1; of an array of integers the first
  bool differs;     // an array of integers that are not all the same
  uint64_t length;  // of an array
  const char *text; // of a string, as it may be shown
} GgufPair;

typedef struct GgufTensor {
  const char *name;
  int n_dimensions;
  uint64_t dimensions[4]; // the first is the innermost
  uint32_t type;          // ggml's
} GgufTensor;

typedef struct Gguf {
  GgufPair *pairs;
  GgufTensor *tensors;
  size_t n_pairs, n_tensors;
  int64_t data_bytes; // after the head
  uint64_t digest;    // of all that was read, and of the file's size
} Gguf;

/* All in `arena`. −1 with one entry that says the byte. */
int gguf_load(Gguf *self, const char *path, Arena *arena, Diag *diag);
/* NULL: there is none. */
const GgufPair *gguf_find(const Gguf *self, const char *key);
const GgufTensor *gguf_find_tensor(const Gguf *self, const char *name);
#endif
