/* A file that had a name and lost it never gets one again, so it is copied into one that was made
 * without (O_TMPFILE), which may be linked once. Only where the file system has no such files, the
 * copy has a name while it is made. */
#define _GNU_SOURCE
#include "experiments/base/unnamed.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int report(const UnnamedFile *self, Diag *diag) {
  const Place at = place_of_file(self->path);
  return errno == EEXIST
             ? diag_error(diag, at, "'%s' is there already", self->path)
             : diag_environment(diag, at, "cannot write '%s': %s", self->path, strerror(errno));
}

int unnamed_open(UnnamedFile *self, const char *path, Arena *arena, Diag *diag) {
  *self = (UnnamedFile){.path = path, .file = -1, .arena = arena};
  if (access(path, F_OK) == 0) {
    errno = EEXIST;
    return report(self, diag);
  }
  // Not mkstemp, whose files are the user's alone: the file is as open to others as any.
  self->scratch = arena_printf(arena, "%s.%ld", path, (long)getpid());
  self->file = open(self->scratch, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  self->named = self->file >= 0;
  return self->named ? 0 : report(self, diag);
}

void unnamed_hide(UnnamedFile *self) {
  if (self->named) unlink(self->scratch);
  self->named = false;
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

/* 1 when the file system has no files without names. */
static int publish_unnamed(UnnamedFile *self) {
  const char *slash = strrchr(self->path, '/');
  const char *folder =
      slash ? arena_copy(self->arena, self->path, (size_t)(slash - self->path) + 1) : ".";
  const int to = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (to < 0) return 1;
  const char *name = arena_printf(self->arena, "/proc/self/fd/%d", to);
  int status = copy(self->file, to);
  if (status == 0) status = linkat(AT_FDCWD, name, AT_FDCWD, self->path, AT_SYMLINK_FOLLOW);
  const int error = errno;
  close(to);
  errno = error;
  return status && (error == ENOENT || error == EPERM || error == EXDEV) ? 1 : status;
}

static int publish_named(UnnamedFile *self) {
  const int to = open(self->scratch, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (to < 0) return -1;
  int status = copy(self->file, to);
  if (status == 0) status = link(self->scratch, self->path);
  if (status && errno != EEXIST && errno != ENOSPC) status = rename(self->scratch, self->path);
  const int error = errno;
  close(to);
  unlink(self->scratch);
  errno = error;
  return status;
}

int unnamed_publish(UnnamedFile *self, Diag *diag) {
  int status = publish_unnamed(self);
  if (status == 1) status = publish_named(self);
  return status ? report(self, diag) : 0;
}

void unnamed_close(UnnamedFile *self) {
  unnamed_hide(self);
  if (self->file >= 0) close(self->file);
  self->file = -1;
}
