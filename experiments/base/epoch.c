/* See epoch.h. */
#include "experiments/base/epoch.h"
#include "base/hash.h"
#include "experiments/base/version.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_DIGITS = 4 };
static const char *const everybodys[] = {"core", "rest"};
enum { N_EVERYBODYS = sizeof everybodys / sizeof *everybodys };

static uint64_t name_hash(const char *name) {
  return hash_bytes(name, strlen(name));
}

/* 0 where no run is pinned by it. */
static uint64_t digest_of(const char *name) {
  size_t n = 0;
  const OutcomeRule *rules = outcome_rules(&n);
  for (size_t i = 0; i < n; i++)
    if (strcmp(rules[i].name, name) == 0) return rules[i].digest;
  return 0;
}

static void write_rule(const char *name, uint64_t digest, char text[EPOCH_RULE + 1]) {
  const uint64_t hash = name_hash(name);
  snprintf(text, EPOCH_RULE + 1, "%04" PRIx64 "%08" PRIx64, hash & 0xffff,
           hash_fold(hash, digest) >> 32);
}

static int compare_rules(const void *a, const void *b) {
  return memcmp(a, b, EPOCH_RULE);
}

/* Sorts the rules behind everybody's, and leaves one of those that are equal. */
static const char *in_order(char *text) {
  char *first = text + N_EVERYBODYS * EPOCH_RULE, *kept = first;
  const size_t n = strlen(first) / EPOCH_RULE;
  qsort(first, n, EPOCH_RULE, compare_rules);
  for (char *at = first; at < first + n * EPOCH_RULE; at += EPOCH_RULE) {
    if (kept > first && compare_rules(kept - EPOCH_RULE, at) == 0) continue;
    memmove(kept, at, EPOCH_RULE);
    kept += EPOCH_RULE;
  }
  *kept = '\0';
  return text;
}

const char *epoch_of(const char *const *rules, size_t n, Arena *arena) {
  char *text = arena_alloc(arena, (N_EVERYBODYS + n) * EPOCH_RULE + 1);
  for (size_t i = 0; i < N_EVERYBODYS + n; i++) {
    const char *name = i < N_EVERYBODYS ? everybodys[i] : rules[i - N_EVERYBODYS];
    write_rule(name, digest_of(name), text + i * EPOCH_RULE);
  }
  return in_order(text);
}

const char *epoch_join(const char *a, const char *b, Arena *arena) {
  return in_order(arena_printf(arena, "%s%s", a, b + N_EVERYBODYS * EPOCH_RULE));
}

/* Whether the rule at `at` is one of `epoch`; -1 when it has another digest there. */
static int find_rule(const char *epoch, const char *at) {
  for (; strlen(epoch) >= EPOCH_RULE; epoch += EPOCH_RULE)
    if (strncmp(epoch, at, NAME_DIGITS) == 0) return strncmp(epoch, at, EPOCH_RULE) == 0 ? 1 : -1;
  return 0;
}

static bool is_ours(const char *at) {
  size_t n = 0;
  const OutcomeRule *rules = outcome_rules(&n);
  for (size_t i = 0; i < n; i++) {
    char text[EPOCH_RULE + 1];
    write_rule(rules[i].name, rules[i].digest, text);
    if (strncmp(text, at, EPOCH_RULE) == 0) return true;
  }
  return false;
}

bool epoch_is_stale(const char *epoch) {
  const size_t length = strlen(epoch);
  bool stale = length < N_EVERYBODYS * EPOCH_RULE || length % EPOCH_RULE != 0;
  for (size_t i = 0; !stale && i < length; i += EPOCH_RULE)
    stale = !is_ours(epoch + i);
  return stale;
}

bool epoch_agrees(const char *a, const char *b) {
  if (strcmp(a, b) == 0) return true;
  const size_t length = strlen(a);
  if (length % EPOCH_RULE != 0 || strlen(b) % EPOCH_RULE != 0) return false;
  int common = 0;
  for (size_t i = 0; i < length; i += EPOCH_RULE) {
    const int found = find_rule(b, a + i);
    if (found < 0) return false;
    common += found;
  }
  return common > 0;
}

uint64_t outcome_epoch(void) {
  uint64_t hash = 0;
  size_t n = 0;
  const OutcomeRule *rules = outcome_rules(&n);
  for (size_t i = 0; i < n; i++)
    hash = hash_fold(hash, hash_fold(name_hash(rules[i].name), rules[i].digest));
  return hash;
}
