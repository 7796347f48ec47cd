/* A file that was made without a name (O_TMPFILE) may be linked once. Where the file system has no
 * such files, one gives up its name at once, and is copied to get one again. */
#define _GNU_SOURCE
#include "experiments/base/unnamed.h"
#include "base/beside.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int report(const UnnamedFile *self, Diag *diag) {
  const Place at = place_of_file(self->path);
  return errno == EEXIST
             ? diag_error(diag, at, "'%s' already exists", self->path)
             : diag_environment(diag, at, "cannot write '%s': %s", self->path, strerror(errno));
}

int unnamed_open(UnnamedFile *self, const char *path, Arena *arena, Diag *diag) {
  *self = (UnnamedFile){.path = path, .file = -1, .arena = arena};
  if (access(path, F_OK) == 0) {
    errno = EEXIST;
    return report(self, diag);
  }
  const char *slash = strrchr(path, '/');
  const char *folder = slash ? arena_copy(arena, path, (size_t)(slash - path) + 1) : ".";
  self->file = open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0666);
  if (self->file >= 0) return 0;
  const char *scratch;
  self->file = beside_open(path, &scratch, arena);
  if (self->file < 0) return report(self, diag);
  unlink(scratch);
  return 0;
}

/* Copies all there is and makes sure that it is on the disk; -1 and errno. */
static int copy(int from, int to) {
  char bytes[1 << 16];
  off_t at = 0;
  ssize_t got;
  while ((got = pread(from, bytes, sizeof bytes, at)) > 0) {
    at += got;
    for (ssize_t done = 0, n; done < got; done += n)
      if ((n = write(to, bytes + done, (size_t)(got - done))) < 0) return -1;
  }
  return got == 0 ? fsync(to) : -1;
}

static int publish_copy(const UnnamedFile *self) {
  const char *scratch;
  const int to = beside_open(self->path, &scratch, self->arena);
  if (to < 0) return -1;
  int status = copy(self->file, to);
  if (status == 0) status = link(scratch, self->path);
  if (status && errno != EEXIST && errno != ENOSPC) status = rename(scratch, self->path);
  const int error = errno;
  close(to);
  unlink(scratch);
  errno = error;
  return status;
}

int unnamed_publish(UnnamedFile *self, Diag *diag) {
  const char *name = arena_printf(self->arena, "/proc/self/fd/%d", self->file);
  int status = fsync(self->file);
  if (status == 0) {
    status = linkat(AT_FDCWD, name, AT_FDCWD, self->path, AT_SYMLINK_FOLLOW);
    if (status && (errno == ENOENT || errno == EPERM || errno == EXDEV))
      status = publish_copy(self);
  }
  return status ? report(self, diag) : 0;
}

void unnamed_close(UnnamedFile *self) {
  if (self->file >= 0) close(self->file);
  self->file = -1;
}
