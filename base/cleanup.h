/* Scope cleanup for handles, so that no function needs a ladder of gotos (gcc and clang). */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H
#include <stdio.h>

static inline void cleanup_file(FILE **file) {
  if (*file) fclose(*file);
}
/* `CLEANUP_FILE FILE *f = fopen(…);` closes f when the scope ends; set it to NULL after closing by
 * hand. */
#define CLEANUP_FILE __attribute__((cleanup(cleanup_file)))
#endif
