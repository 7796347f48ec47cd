/* A file that is written beside its place and takes it when it is whole, so that whatever goes
 * wrong leaves what was there before. Where the path is no regular file (a pipe, a device,
 * /dev/stdout), it is written in place. */
#ifndef BASE_OUTPUT_H
#define BASE_OUTPUT_H
#include "base/diag.h"
#include <stdbool.h>

typedef struct Output {
  FILE *file;       // NULL: not open; what is written here goes into the file
  const char *path; // as the user wrote it
  /* private: output.c */
  const char *place;  // what takes the file, links followed
  const char *beside; // NULL: written in place
  int lock;           // a second descriptor of it (beside.h)
} Output;

/* Whether two paths lead to the same file. */
bool output_is_same(const char *path, const char *other);
/* An error when `path` is one of the NULL-terminated `inputs`, which would be lost. */
int output_check(const char *path, const char *const *inputs, Diag *diag);
/* Opens; `path` and the arena must live until the end. DIAG_ENVIRONMENT when it cannot be written.
 */
int output_open(Output *self, const char *path, Arena *arena, Diag *diag);
/* Ends: the file is at its path, whole, or there is an entry and the path is as it was. */
int output_commit(Output *self, Diag *diag);
/* Ends without the file. Nothing to do when it is not open. */
void output_drop(Output *self);
#endif
