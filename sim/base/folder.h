/* Names of the files in a folder. */
#ifndef SIM_BASE_FOLDER_H
#define SIM_BASE_FOLDER_H
#include "sim/base/arena.h"

/* Names without `extension` (".sql"; "": those that have no dot) in order, NULL-terminated; none
 * when the folder cannot be read. Names that are no plain text are left out. */
const char *const *folder_names(const char *folder, const char *extension, Arena *arena);
#endif
