/* Data by name: the file data_dir/FOLDER/NAME.yaml, and which names there are. */
#ifndef PERFMODEL_DATAFILE_H
#define PERFMODEL_DATAFILE_H
#include "base/diag.h"
#include <stdbool.h>

/* Whether `name` says a file (it ends in .yaml, .yml, .json or .gguf) rather than a name. */
bool datafile_is_path(const char *name);
/* The path of a name's file, NULL when there is none. */
const char *datafile_find(const char *data_dir, const char *folder, const char *name, Arena *arena);
/* Names in a folder in order, NULL-terminated; none when the folder cannot be read. */
const char *const *datafile_names(const char *data_dir, const char *folder, Arena *arena);
/* "a, b, c". */
const char *datafile_join(const char *const *names, Arena *arena);
/* The path that `name` stands for: itself when it is a path. Otherwise NULL with "unknown WHAT
 * 'NAME'" and near names at `at`. */
const char *datafile_resolve(const char *data_dir, const char *folder, const char *what,
                             const char *name, Place at, Arena *arena, Diag *diag);
/* "llama2-70b" of "models/llama2-70b.yaml". */
const char *datafile_stem(const char *path, Arena *arena);
#endif
