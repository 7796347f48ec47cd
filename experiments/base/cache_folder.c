/* As the XDG base directory specification has it: a path that is relative counts as none. */
#include "experiments/base/cache_folder.h"
#include <stdlib.h>

const char *cache_folder(Arena *arena) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (cache && *cache == '/') return arena_printf(arena, "%s/tandem", cache);
  return home && *home == '/' ? arena_printf(arena, "%s/.cache/tandem", home) : NULL;
}
