/* Names of the files in a folder. */
#ifndef EXPERIMENTS_BASE_FOLDER_H
#define EXPERIMENTS_BASE_FOLDER_H
#include "sim/base/arena.h"

/* Names without `extension` (".sql"; "": those that have no dot) in order, NULL-terminated; none
 * when the folder cannot be read. */
const char *const *folder_names(const char *folder, const char *extension, Arena *arena);
#endif
