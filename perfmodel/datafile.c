/* Look-up of data files by name, for models, machines and measured times alike. */
#include "perfmodel/datafile.h"
#include "base/folder.h"
#include "base/text.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool datafile_is_path(const char *name) {
  return text_ends_with(name, ".yaml") || text_ends_with(name, ".yml") ||
         text_ends_with(name, ".json") || text_ends_with(name, ".gguf");
}

const char *datafile_find(const char *data_dir, const char *folder, const char *name,
                          Arena *arena) {
  const char *path = arena_printf(arena, "%s/%s/%s.yaml", data_dir, folder, name);
  return access(path, F_OK) == 0 ? path : NULL;
}

const char *const *datafile_names(const char *data_dir, const char *folder, Arena *arena) {
  return folder_names(arena_printf(arena, "%s/%s", data_dir, folder), ".yaml", arena);
}

const char *datafile_join(const char *const *names, Arena *arena) {
  const char *text = names[0] ? names[0] : "";
  for (size_t i = 1; names[0] && names[i]; i++)
    text = arena_printf(arena, "%s, %s", text, names[i]);
  return text;
}

/* Letters and digits, in lower case, of what follows the last slash. */
static const char *bare_name(const char *name, Arena *arena) {
  const char *slash = strrchr(name, '/');
  char *bare = arena_printf(arena, "%s", slash ? slash + 1 : name);
  size_t n = 0;
  for (const char *c = bare; *c; c++) {
    const bool upper = *c >= 'A' && *c <= 'Z';
    if (upper || (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9'))
      bare[n++] = upper ? (char)(*c - 'A' + 'a') : *c;
  }
  bare[n] = '\0';
  return bare;
}

/* The longest name that `name` begins with, written in another way: Qwen/Qwen3-32B-Instruct. */
static const char *same_name(const char *name, const char *const *names, Arena *arena) {
  const char *bare = bare_name(name, arena), *best = NULL;
  size_t longest = 0;
  for (; *names; names++) {
    const char *known = bare_name(*names, arena);
    const size_t n = strlen(known);
    if (n <= longest || strncmp(bare, known, n) != 0) continue;
    best = *names;
    longest = n;
  }
  return best;
}

const char *datafile_resolve(const char *data_dir, const char *folder, const char *what,
                             const char *name, Place at, Arena *arena, Diag *diag) {
  if (datafile_is_path(name)) return name;
  const char *path = datafile_find(data_dir, folder, name, arena);
  if (path) return path;
  diag_error(diag, at, "unknown %s '%s'", what, name);
  const char *const *names = datafile_names(data_dir, folder, arena);
  const char *same = same_name(name, names, arena);
  struct stat status;
  if (same)
    diag_hint(diag, "did you mean '%s'?", same);
  else if (strchr(name, '/') && stat(name, &status) == 0 && S_ISDIR(status.st_mode))
    diag_hint(diag, "this is a folder: name a file in it, such as its 'config.json'");
  else if (strchr(name, '/'))
    diag_hint(diag, "give the path with its ending: .yaml, or .json for a model");
  else if (!names[0])
    diag_hint(diag, "'%s/%s' has no such files", data_dir, folder);
  else
    diag_hint_choices(diag, name, names, arena_printf(arena, "tandem list %s", folder));
  return NULL;
}

const char *datafile_stem(const char *path, Arena *arena) {
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  const char *dot = strrchr(name, '.');
  return text_shown(arena_copy(arena, name, dot ? (size_t)(dot - name) : strlen(name)), arena);
}
