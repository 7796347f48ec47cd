/* Where what may be lost is kept from run to run. */
#ifndef EXPERIMENTS_BASE_CACHE_FOLDER_H
#define EXPERIMENTS_BASE_CACHE_FOLDER_H
#include "base/arena.h"

/* `tandem` in $XDG_CACHE_HOME, or in ~/.cache; it need not be there yet. NULL when neither is said,
 * or not from the root. */
const char *cache_folder(Arena *arena);
#endif
