/* FNV-1a (Fowler, Noll and Vo), 64 bits. */
#include "base/hash.h"
#include <string.h>

uint64_t hash_bytes(const void *bytes, size_t size) {
  const unsigned char *byte = bytes;
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
  return hash;
}

uint64_t hash_text(uint64_t hash, const char *text) {
  return hash_fold(hash, text ? hash_bytes(text, strlen(text)) : 0);
}
