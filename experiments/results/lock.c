/* A lock by fcntl, which works on network file systems too. */
#include "base/folder.h"
#include "base/hash.h"
#include "experiments/results/results.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char sweep[] = "sweep";

/* Where the name of the file leaves no room for more, that of the lock has a hash of it instead. */
static const char *lock_path(const char *path, const char *what, Arena *arena) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  if (strlen(name) + strlen(what) < NAME_MAX) return arena_printf(arena, "%s-%s", path, what);
  return arena_printf(arena, "%.*s.tandem-%016" PRIx64 "-%s", (int)(name - path), path,
                      hash_bytes(name, strlen(name)), what);
}

static struct flock whole_file(void) {
  return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

static int in_use(const char *path, const char *what, int file, Diag *diag) {
  struct flock lock = whole_file();
  if (fcntl(file, F_GETLK, &lock) || lock.l_type == F_UNLCK) lock.l_pid = 0;
  const Place at = place_of_file(path);
  return lock.l_pid > 0 ? diag_error(diag, at, "'%s' is in use by another %s, process %ld", path,
                                     what, (long)lock.l_pid)
                        : diag_error(diag, at, "'%s' is in use by another %s", path, what);
}

/* Whether the open file is still the one of that name: whoever had the lock takes the file away
 * when it ends, and its lock would then guard nothing. */
static bool is_current(const char *path, int file) {
  struct stat open_file, named;
  return fstat(file, &open_file) == 0 && lstat(path, &named) == 0 &&
         open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

int results_lock(ResultsLock *self, const char *path, Arena *arena, Diag *diag) {
  *self = (ResultsLock){.file = -1};
  if (results_check_path(path, diag)) return -1;
  return results_lock_file(self, path, sweep, arena, diag);
}

static int cannot_make(const char *lock, const char *path, Diag *diag) {
  const int error = errno;
  const bool is_link = error == ELOOP;
  const char *missing = error == ENOENT ? folder_missing(path, &diag->arena) : NULL;
  diag_environment(diag, place_of_file(path), "cannot make '%s': %s", lock,
                   is_link ? "it is a link, which is not followed" : strerror(error));
  if (is_link) diag_hint(diag, "remove the link if nobody uses it");
  if (missing) diag_hint(diag, "there is no folder '%s'", missing);
  return -1;
}

int results_lock_file(ResultsLock *self, const char *path, const char *what, Arena *arena,
                      Diag *diag) {
  *self = (ResultsLock){.path = lock_path(path, what, arena), .file = -1};
  for (;;) {
    self->file = open(self->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (self->file < 0) return cannot_make(self->path, path, diag);
    struct flock lock = whole_file();
    const bool locked = fcntl(self->file, F_SETLK, &lock) == 0;
    if (locked && is_current(self->path, self->file)) return 0;
    const bool busy = !locked && (errno == EACCES || errno == EAGAIN);
    if (busy)
      in_use(path, what, self->file, diag);
    else if (!locked)
      diag_environment(diag, place_of_file(path), "cannot lock '%s': %s", self->path,
                       strerror(errno));
    close(self->file);
    self->file = -1;
    if (!locked) return -1;
  }
}

void results_unlock(ResultsLock *self) {
  if (self->file < 0) return;
  unlink(self->path);
  close(self->file);
  self->file = -1;
}

int results_check_unlocked(const char *path, Arena *arena, Diag *diag) {
  const int file =
      open(lock_path(path, sweep, arena), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return 0; // no sweep has been here, or none that we could see
  struct flock lock = whole_file();
  const bool busy = fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  const int status = busy ? in_use(path, sweep, file, diag) : 0;
  close(file);
  return status;
}
