/* Reading folders. */
#include "base/folder.h"
#include "base/cleanup.h"
#include "base/text.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *const *folder_names(const char *folder, const char *extension, Arena *arena) {
  const char **names = NULL;
  size_t n = 0, capacity = 0;
  DIR *directory = opendir(folder);
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    const char *name = entry->d_name;
    const bool any = *extension == '*', ends = *extension && !any;
    const size_t stem = ends  ? strlen(name) - strlen(extension)
                        : any ? strlen(name)
                              : strcspn(name, ".");
    if (ends ? !text_ends_with(name, extension) : any ? name[0] == '.' : name[stem] != '\0')
      continue;
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

const char *folder_missing(const char *path, Arena *arena) {
  struct stat status;
  for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
    const char *folder = arena_copy(arena, path, (size_t)(slash - path));
    if (*folder && stat(folder, &status) && errno == ENOENT) return folder;
  }
  return NULL;
}

const char *folder_text(const char *path, Arena *arena, Diag *diag) {
  enum { TEXT_MAX = 1 << 16 };
  CLEANUP_FILE FILE *file = fopen(path, "rb");
  char *text = arena_alloc(arena, TEXT_MAX);
  if (file && fread(text, 1, TEXT_MAX - 1, file) > 0 && feof(file)) return text;
  diag_environment(diag, place_of_file(path), "cannot read '%s': %s", path,
                   file ? "the file is empty or too long" : strerror(errno));
  return NULL;
}

const char *folder_about(const char *path, Arena *arena) {
  Diag none;
  diag_init(&none);
  const char *text = folder_text(path, arena, &none);
  diag_done(&none);
  if (!text) return "";
  text += strspn(text, "- ");
  return arena_copy(arena, text, strcspn(text, "\n"));
}

const char *folder_of_program(Arena *arena) {
  enum { SIZE = 4096 };
  char *path = arena_alloc(arena, SIZE);
  ssize_t length = readlink("/proc/self/exe", path, SIZE - 1);
  char *slash = length > 0 ? strrchr(path, '/') : NULL;
  if (!slash) return "";
  slash[1] = '\0';
  return path;
}
