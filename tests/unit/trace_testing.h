/* What the tests of traces/ share: a place for messages and memory, temporary files, and checks of
 * an entry. */
#ifndef TESTS_UNIT_TRACE_TESTING_H
#define TESTS_UNIT_TRACE_TESTING_H
#include "sim/base/diag.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Bench {
  Arena arena;
  Diag diag;
} Bench;

static inline void bench_init(Bench *self) {
  arena_init(&self->arena);
  diag_init(&self->diag);
}
static inline void bench_done(Bench *self) {
  diag_done(&self->diag);
  arena_done(&self->arena);
}

/* Checks that the i-th entry stands at line:column and says `part`, and names `what` if not. */
static inline void expect_entry(const Diag *diag, int i, int line, int column, const char *part,
                                const char *what) {
  cr_assert_gt(diag->n_entries, i, "no entry %d for %s", i, what);
  const DiagEntry *entry = &diag->entries[i];
  cr_expect(strstr(entry->message, part), "'%s' for %s lacks '%s'", entry->message, what, part);
  cr_expect(entry->at.line == line && entry->at.column == column, "%d:%d, not %d:%d, for %s: %s",
            entry->at.line, entry->at.column, line, column, what, entry->message);
}

/* A new file with these bytes; its path is in the arena. */
static inline const char *temp_file(const void *bytes, size_t size, Arena *arena) {
  const char *dir = getenv("TMPDIR");
  char *path = arena_printf(arena, "%s/tandem-test-XXXXXX", dir ? dir : "/tmp");
  int descriptor = mkstemp(path);
  cr_assert_geq(descriptor, 0);
  cr_assert_eq(write(descriptor, bytes, size), (ssize_t)size);
  close(descriptor);
  return path;
}

/* A path below the directory that this variable names; NULL when it is not set or has no such
 * file. */
static inline const char *data_path(const char *variable, const char *name, Arena *arena) {
  const char *dir = getenv(variable);
  const char *path = dir ? arena_printf(arena, "%s/%s", dir, name) : NULL;
  return path && access(path, R_OK) == 0 ? path : NULL;
}
#endif
