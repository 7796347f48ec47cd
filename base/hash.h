/* 64-bit mixing and hashing: digests of outcomes, keys of configurations. Not cryptographic. */
#ifndef BASE_HASH_H
#define BASE_HASH_H
#include <stddef.h>
#include <stdint.h>

/* Finaliser of SplitMix64: a bijection whose output bits each depend on every input bit. */
static inline uint64_t hash_mix(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* Folds one more word into a running hash; order matters. */
static inline uint64_t hash_fold(uint64_t hash, uint64_t word) {
  return hash_mix(hash + UINT64_C(0x9e3779b97f4a7c15) + word);
}

/* FNV-1a over bytes. */
uint64_t hash_bytes(const void *bytes, size_t size);
/* Folds a text, or NULL, into a running hash. */
uint64_t hash_text(uint64_t hash, const char *text);
#endif
