/* See beside.h. */
#define _DEFAULT_SOURCE // flock
#include "base/beside.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char BEGIN[] = ".tandem-", END[] = ".new";

/* "" or a path that ends with '/'. */
static const char *folder_of(const char *place, Arena *arena) {
  const char *slash = strrchr(place, '/');
  return arena_copy(arena, place, slash ? (size_t)(slash - place) + 1 : 0);
}

static bool is_ours(const char *name) {
  static const char digits[] = "0123456789";
  if (strncmp(name, BEGIN, sizeof BEGIN - 1) != 0) return false;
  name += sizeof BEGIN - 1;
  const size_t process = strspn(name, digits);
  if (process == 0 || name[process] != '-') return false;
  name += process + 1;
  const size_t number = strspn(name, digits);
  return number > 0 && strcmp(name + number, END) == 0;
}

/* Whether the open file still has that name: another process may have taken it for one that was
 * left, before it was locked. */
static bool is_current(const char *path, int file) {
  struct stat opened, named;
  return fstat(file, &opened) == 0 && lstat(path, &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

/* Takes a file away if its writer has ended: then nobody has it locked. */
static void remove_if_left(const char *path) {
  struct stat status;
  const int file = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
      flock(file, LOCK_EX | LOCK_NB) == 0 && is_current(path, file))
    unlink(path);
  close(file);
}

static void remove_left(const char *folder, Arena *arena) {
  DIR *listing = opendir(*folder ? folder : ".");
  for (const struct dirent *entry; listing && (entry = readdir(listing));)
    if (is_ours(entry->d_name)) remove_if_left(arena_printf(arena, "%s%s", folder, entry->d_name));
  if (listing) closedir(listing);
}

/* A file system without locks keeps what is left there. */
static void lock(int file) {
  while (flock(file, LOCK_EX) && errno == EINTR)
    ;
}

/* Not mkstemp, whose files are the user's alone: the file is as open to others as any. */
int beside_open(const char *place, const char **ret_path, Arena *arena) {
  const char *folder = folder_of(place, arena);
  remove_left(folder, arena);
  for (int n = 0;; n++) {
    *ret_path = arena_printf(arena, "%s%s%ld-%d%s", folder, BEGIN, (long)getpid(), n, END);
    const int file = open(*ret_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno != EEXIST) return -1;
    if (file < 0) continue;
    lock(file);
    if (is_current(*ret_path, file)) return file;
    close(file);
  }
}
