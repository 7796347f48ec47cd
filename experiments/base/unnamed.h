/* A file without a name until it is complete: whatever ends the program, nothing of it stays.
 *
 *     unnamed_open(&unnamed, "out.db", &arena, &diag)
 *     … unnamed.file is written to …
 *     unnamed_publish(&unnamed, &diag)                   out.db is there, whole */
#ifndef EXPERIMENTS_BASE_UNNAMED_H
#define EXPERIMENTS_BASE_UNNAMED_H
#include "base/diag.h"

typedef struct UnnamedFile {
  const char *path; // where it will be
  int file;         // open for reading and writing, −1: not open
  Arena *arena;
} UnnamedFile;

/* Makes an empty file in the folder of `path`, where nothing may be: that is an error of input. */
int unnamed_open(UnnamedFile *self, const char *path, Arena *arena, Diag *diag);
/* Puts what was written at `path`, unless something is there by now. */
int unnamed_publish(UnnamedFile *self, Diag *diag);
/* Closes it, also when it was published. */
void unnamed_close(UnnamedFile *self);
#endif
