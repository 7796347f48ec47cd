/* Writing beside and renaming. */
#define _XOPEN_SOURCE 700 // realpath
#include "base/output.h"
#include "base/beside.h"
#include "base/folder.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int report(const Output *self, int error, Diag *diag) {
  const char *missing = error == ENOENT ? folder_missing(self->path, &diag->arena) : NULL;
  diag_environment(diag, place_of_file(self->path), "cannot write '%s': %s", self->path,
                   strerror(error));
  if (missing) diag_hint(diag, "there is no folder '%s'", missing);
  return -1;
}

bool output_is_same(const char *path, const char *other) {
  struct stat a, b;
  return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

int output_check(const char *path, const char *const *inputs, Diag *diag) {
  for (; *inputs; inputs++)
    if (output_is_same(path, *inputs))
      return diag_error(diag, place_of_file(path),
                        "'%s' is also an input file and would be overwritten", path);
  return 0;
}

/* Whether the path names a file that somebody has open. */
static bool is_descriptor(const char *path) {
  static const char *const folders[] = {"/dev/std", "/dev/fd/", "/proc/"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    if (strncmp(path, folders[i], strlen(folders[i])) == 0) return true;
  return false;
}

/* The descriptor to write to in place. Standard output and error, by whatever name, are written on
 * where they are: opened anew, a file behind them would be written from its start. */
static int open_in_place(const char *path, const struct stat *status) {
  struct stat standard;
  for (int file = STDOUT_FILENO; file <= STDERR_FILENO; file++)
    if (fstat(file, &standard) == 0 && standard.st_dev == status->st_dev &&
        standard.st_ino == status->st_ino)
      return fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  return open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
}

/* The descriptor of a new file beside the place, as open to others as the one that it replaces. */
static int open_beside(Output *self, const struct stat *status, Arena *arena) {
  char place[PATH_MAX];
  if (status && realpath(self->path, place)) self->place = arena_copy(arena, place, strlen(place));
  if (status && access(self->place, W_OK)) return -1;
  const int file = beside_open(self->place, &self->beside, arena);
  if (file >= 0 && status) fchmod(file, status->st_mode & 0777);
  if (file >= 0) self->lock = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  return file;
}

/* The file is at its place by now, or is not to be. */
static void end_beside(const Output *self, bool is_placed) {
  if (!self->beside) return;
  if (!is_placed) unlink(self->beside);
  if (self->lock >= 0) close(self->lock);
}

int output_open(Output *self, const char *path, Arena *arena, Diag *diag) {
  *self = (Output){.path = path, .place = path, .lock = -1};
  struct stat status;
  const bool exists = stat(path, &status) == 0;
  const bool in_place = exists && (!S_ISREG(status.st_mode) || is_descriptor(path));
  if (!*path) return report(self, ENOENT, diag);
  const int file =
      in_place ? open_in_place(path, &status) : open_beside(self, exists ? &status : NULL, arena);
  if (file >= 0) self->file = fdopen(file, "w");
  if (self->file) return 0;
  const int error = errno;
  if (file >= 0) {
    close(file);
    end_beside(self, false);
  }
  return report(self, error, diag);
}

int output_commit(Output *self, Diag *diag) {
  int error = 0;
  errno = 0;
  if (fflush(self->file) != 0 || ferror(self->file)) error = errno ? errno : EIO;
  if (fclose(self->file) != 0 && !error) error = errno;
  self->file = NULL;
  if (!error && self->beside && rename(self->beside, self->place)) error = errno;
  end_beside(self, !error);
  return error ? report(self, error, diag) : 0;
}

void output_drop(Output *self) {
  if (!self->file) return;
  fclose(self->file);
  self->file = NULL;
  end_beside(self, false);
}
