/* What unit tests share: memory and a place for messages of their own, the data of the project, a
 * folder to write to, checks of an entry. A suite names the pair that it needs:
 *   TestSuite(name, .init = setup, .fini = teardown)               arena, diag
 *   TestSuite(name, .init = setup_data, .fini = teardown)          data_dir, TANDEM_DATA too
 *   TestSuite(name, .init = setup_folder, .fini = teardown_folder) folder too */
#ifndef TESTS_UNIT_TESTING_H
#define TESTS_UNIT_TESTING_H
#include "base/diag.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(xs) (sizeof(xs) / sizeof *(xs))

/* Marks a test that simulates long enough for a statistic to be near its theory. It says nothing of
 * memory that shorter tests of the same code do not, so it is left out where memory is watched,
 * which takes several times as long:  Test(suite, name, STATISTICS) */
#ifdef __SANITIZE_ADDRESS__
#define STATISTICS .disabled = true
#else
#define STATISTICS .disabled = false
#endif

static Arena arena;
static Diag diag;
static const char *data_dir; // of perfmodel/, in the source tree
static const char *folder;   // what is in it goes with it
static const char *path;     // of a file in the folder that a test may make

static inline void setup(void) {
  arena_init(&arena);
  diag_init(&diag);
}

static inline void teardown(void) {
  diag_done(&diag);
  arena_done(&arena);
}

static inline void setup_data(void) {
  setup();
  const char *source = getenv("TANDEM_SOURCE_DIR");
  cr_assert_not_null(source, "TANDEM_SOURCE_DIR is not set");
  setenv("TANDEM_DATA", source, 1);
  data_dir = arena_printf(&arena, "%s/perfmodel", source);
}

/* Of a file or folder of its own, for mkstemp and mkdtemp. */
static inline char *temp_name(Arena *to) {
  const char *dir = getenv("TMPDIR");
  return arena_printf(to, "%s/tandem-test-XXXXXX", dir ? dir : "/tmp");
}

/* A new folder. */
static inline const char *temp_folder(Arena *to) {
  const char *name = mkdtemp(temp_name(to));
  cr_assert_not_null(name);
  return name;
}

static inline void teardown_folder(void) {
  DIR *listing = opendir(folder);
  for (const struct dirent *entry; listing && (entry = readdir(listing));)
    unlink(arena_printf(&arena, "%s/%s", folder, entry->d_name));
  if (listing) closedir(listing);
  rmdir(folder);
  teardown();
}

/* The path of a file of the folder. */
static inline const char *in_folder(const char *name) {
  return arena_printf(&arena, "%s/%s", folder, name);
}

static inline void setup_folder(void) {
  setup_data();
  folder = temp_folder(&arena);
  path = in_folder("file.yaml");
}

static inline void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file, "%s", path);
  fputs(text, file);
  cr_assert_eq(fclose(file), 0);
}

/* Checks that the i-th entry stands at line:column and says `part`, and names `what` if not. */
static inline void expect_entry(const Diag *of, int i, int line, int column, const char *part,
                                const char *what) {
  cr_assert_gt(of->n_entries, i, "no entry %d for %s", i, what);
  const DiagEntry *entry = &of->entries[i];
  cr_expect(strstr(entry->message, part), "'%s' for %s lacks '%s'", entry->message, what, part);
  cr_expect(entry->at.line == line && entry->at.column == column, "%d:%d, not %d:%d, for %s: %s",
            entry->at.line, entry->at.column, line, column, what, entry->message);
}

/* A new file with these bytes; its path is in the arena. */
static inline const char *temp_file(const void *bytes, size_t size, Arena *to) {
  char *path = temp_name(to);
  int descriptor = mkstemp(path);
  cr_assert_geq(descriptor, 0);
  cr_assert_eq(write(descriptor, bytes, size), (ssize_t)size);
  close(descriptor);
  return path;
}

/* A path below the directory that this variable names; NULL when it is not set or has no such
 * file. */
static inline const char *data_path(const char *variable, const char *name, Arena *to) {
  const char *dir = getenv(variable);
  const char *path = dir ? arena_printf(to, "%s/%s", dir, name) : NULL;
  return path && access(path, R_OK) == 0 ? path : NULL;
}
#endif
