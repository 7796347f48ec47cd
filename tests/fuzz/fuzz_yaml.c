/* Any bytes either give a tree or entries that say why not, never both; the canonical text of a
 * tree reads back to the same text; and the same bytes as an assignment keep to this too. */
#include "base/yaml.h"
#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_diag(const Diag *diag, bool succeeded) {
  static char printed[1 << 20];
  assert(succeeded == (diag->n_entries == 0));
  for (int i = 0; i < diag->n_entries; i++) {
    const Place *at = &diag->entries[i].at;
    assert(at->line >= 0 && at->column >= 0 && at->source_length >= 0);
    assert(at->line == 0 || (at->column > 0 && at->width > 0));
  }
  FILE *out = fmemopen(printed, sizeof printed, "w");
  assert(out);
  diag_print(diag, out);
  fclose(out);
}

static void check_stable(const Node *root, Arena *arena, Diag *diag) {
  const char *text = node_text(root, arena);
  const Node *again = yaml_parse("canonical", text, strlen(text), arena, diag);
  if (!again) diag_print(diag, stderr);
  assert(again);
  assert(!strcmp(text, node_text(again, arena)));
}

static void try_assignment(const uint8_t *data, size_t size) {
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  Node *root = yaml_parse("tree", "{a: {b: [1, x]}, c: 2}", 22, &arena, &diag);
  const char *assignment = arena_copy(&arena, (const char *)data, size);
  int status = yaml_set(root, assignment, &arena, &diag);
  check_diag(&diag, status == 0);
  node_text(root, &arena);
  diag_done(&diag);
  arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  const Node *root = yaml_parse("input", (const char *)data, size, &arena, &diag);
  check_diag(&diag, root != NULL);
  if (root) check_stable(root, &arena, &diag);
  diag_done(&diag);
  arena_done(&arena);
  try_assignment(data, size);
  return 0;
}
