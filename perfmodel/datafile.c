/* Look-up of data files by name, for models, machines and measured times alike. */
#include "perfmodel/datafile.h"
#include "sim/base/text.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), end_length = strlen(end);
  return length > end_length && strcmp(text + length - end_length, end) == 0;
}

bool datafile_is_path(const char *name) {
  return ends_with(name, ".yaml") || ends_with(name, ".yml") || ends_with(name, ".json");
}

const char *datafile_find(const char *data_dir, const char *folder, const char *name,
                          Arena *arena) {
  const char *path = arena_printf(arena, "%s/%s/%s.yaml", data_dir, folder, name);
  return access(path, F_OK) == 0 ? path : NULL;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *const *datafile_names(const char *data_dir, const char *folder, Arena *arena) {
  const char **names = NULL;
  size_t n = 0, capacity = 0;
  DIR *directory = opendir(arena_printf(arena, "%s/%s", data_dir, folder));
  if (directory) {
    for (struct dirent *entry; (entry = readdir(directory));) {
      if (!ends_with(entry->d_name, ".yaml")) continue;
      ARENA_RESERVE(arena, names, capacity, n + 1);
      names[n++] = datafile_stem(entry->d_name, arena);
    }
    closedir(directory);
  }
  if (n > 0) qsort(names, n, sizeof *names, compare_names);
  ARENA_RESERVE(arena, names, capacity, n + 1);
  names[n] = NULL;
  return names;
}

const char *datafile_join(const char *const *names, Arena *arena) {
  const char *text = names[0] ? names[0] : "";
  for (size_t i = 1; names[0] && names[i]; i++)
    text = arena_printf(arena, "%s, %s", text, names[i]);
  return text;
}

const char *datafile_resolve(const char *data_dir, const char *folder, const char *what,
                             const char *name, Place at, Arena *arena, Diag *diag) {
  if (datafile_is_path(name)) return name;
  const char *path = datafile_find(data_dir, folder, name, arena);
  if (path) return path;
  diag_error(diag, at, "unknown %s '%s'", what, name);
  diag_hint_near(diag, name, datafile_names(data_dir, folder, arena));
  return NULL;
}

const char *datafile_stem(const char *path, Arena *arena) {
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  const char *dot = strrchr(name, '.');
  return text_shown(arena_copy(arena, name, dot ? (size_t)(dot - name) : strlen(name)), arena);
}
