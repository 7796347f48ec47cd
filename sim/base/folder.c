/* Reading folders. */
#include "sim/base/folder.h"
#include "sim/base/text.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *const *folder_names(const char *folder, const char *extension, Arena *arena) {
  const char **names = NULL;
  size_t n = 0, capacity = 0;
  DIR *directory = opendir(folder);
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    const char *name = entry->d_name;
    const size_t stem = *extension ? strlen(name) - strlen(extension) : strcspn(name, ".");
    if (*extension ? !text_ends_with(name, extension) : name[stem] != '\0') continue;
    if (!text_is_plain(name)) continue; // no configuration could name it
    ARENA_RESERVE(arena, names, capacity, n + 1);
    names[n++] = arena_copy(arena, name, stem);
  }
  if (directory) closedir(directory);
  if (n > 0) qsort(names, n, sizeof *names, compare_names);
  ARENA_RESERVE(arena, names, capacity, n + 1);
  names[n] = NULL;
  return names;
}
