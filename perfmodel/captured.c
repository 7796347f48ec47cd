/* See captured.h. Sizes: vLLM 0.33.0's default of cudagraph_capture_sizes (up to 512, on Blackwell
 * 1024), and of 0.5.4 the list in its model runner. */
#include "perfmodel/captured.h"
#include "base/option.h"
#include <string.h>

const CapturedWord captured_words[] = {
    {"vllm", 248, 512}, {"vllm-blackwell", 248, 1024}, {"vllm-0.5.4", 256, 0}, {0}};

enum { SIZE_MAX_SEQS = 1000000, SIZES_MAX = 4096 };

int64_t captured_size(const CapturedSizes *self, int64_t seqs) {
  int32_t low = 0, high = self->n;
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (self->sizes[middle] < seqs)
      low = middle + 1;
    else
      high = middle;
  }
  return low < self->n ? self->sizes[low] : seqs;
}

static void expand(CapturedSizes *self, const CapturedWord *word, Arena *arena) {
  int64_t *sizes = ARENA_ARRAY(arena, int64_t, 3 + word->last_by_8 / 8 + word->last_by_16 / 16);
  int32_t n = 0;
  for (int64_t size = 1; size < 8; size *= 2)
    sizes[n++] = size;
  for (int64_t size = 8; size <= word->last_by_8; size += 8)
    sizes[n++] = size;
  for (int64_t size = word->last_by_8 + 8; size <= word->last_by_16; size += 16)
    sizes[n++] = size;
  *self = (CapturedSizes){sizes, n};
}

static int bind_word(CapturedSizes *self, const Node *node, Arena *arena, Diag *diag) {
  const char *words[sizeof captured_words / sizeof *captured_words] = {NULL};
  for (int i = 0; captured_words[i].word; i++) {
    words[i] = captured_words[i].word;
    if (strcmp(node->text, words[i]) != 0) continue;
    expand(self, &captured_words[i], arena);
    return 0;
  }
  diag_error(diag, node->at,
             "'%s' must be a list of sizes or a name for the list of an engine, not '%s'",
             node->key, node_shown(node, &diag->arena));
  diag_hint_near(diag, node->text, words);
  return -1;
}

int captured_bind(CapturedSizes *self, const Node *node, Arena *arena, Diag *diag) {
  static const OptionSpec size = {
      .key = "captured size", .type = OPTION_INT, .min = 1, .max = SIZE_MAX_SEQS};
  if (node->kind == NODE_SCALAR) return bind_word(self, node, arena, diag);
  if (node->kind != NODE_LIST || node->n_children == 0)
    return diag_error(diag, node->at,
                      "'%s' must be a list of sizes or a name for the list of an engine",
                      node->key);
  if (node->n_children > SIZES_MAX)
    return diag_error(diag, node->at, "the list has %d captured sizes, at most %d are allowed",
                      node->n_children, SIZES_MAX);
  int64_t *sizes = ARENA_ARRAY(arena, int64_t, node->n_children);
  int32_t n = 0;
  for (const Node *child = node->first; child; child = child->next, n++) {
    if (option_bind_one(&size, child, &sizes[n], diag)) return -1;
    if (n > 0 && sizes[n] <= sizes[n - 1])
      return diag_error(diag, child->at, "captured sizes must ascend: %lld follows %lld",
                        (long long)sizes[n], (long long)sizes[n - 1]);
  }
  *self = (CapturedSizes){sizes, n};
  return 0;
}
