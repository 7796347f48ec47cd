/* A file without a name until it is complete: whatever ends the program, nothing of it stays.
 *
 *     unnamed_open(&file, "out.db", &arena, &diag)    a file called file.scratch
 *     … whoever can only open files by name does so …
 *     unnamed_hide(&file)                             it has no name any more
 *     … it is written, and closed …
 *     unnamed_publish(&file, &diag)                   out.db is there, whole */
#ifndef EXPERIMENTS_BASE_UNNAMED_H
#define EXPERIMENTS_BASE_UNNAMED_H
#include "sim/base/diag.h"
#include <stdbool.h>

typedef struct UnnamedFile {
  const char *path;    // where it will be
  const char *scratch; // its name until it is hidden
  bool named;          // scratch is there
  int file;            // open for reading, −1: not open
  Arena *arena;
} UnnamedFile;

/* Makes an empty file in the folder of `path`, where nothing may be: that is an error of input. */
int unnamed_open(UnnamedFile *self, const char *path, Arena *arena, Diag *diag);
/* Takes its name away. */
void unnamed_hide(UnnamedFile *self);
/* Puts what was written at `path`, unless something is there by now. */
int unnamed_publish(UnnamedFile *self, Diag *diag);
/* Closes it, also when it was published. */
void unnamed_close(UnnamedFile *self);
#endif
