/* See descriptor.h; the interface is that of sqlite.org/vfs.html. */
#include "experiments/results/descriptor.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Nothing is ever beside a file of such a name. */
static const char name_format[] = "/proc/self/fd/%d";

typedef struct Descriptor {
  sqlite3_file base; // first: SQLite knows no more of it
  int file;
} Descriptor;

static int file_of(const sqlite3_file *self) {
  return ((const Descriptor *)self)->file;
}

static int read_at(sqlite3_file *self, void *to, int n, sqlite3_int64 at) {
  int done = 0;
  for (ssize_t got = 1; done < n && got > 0; done += (int)got) {
    got = pread(file_of(self), (char *)to + done, (size_t)(n - done), at + done);
    if (got < 0) return SQLITE_IOERR_READ;
  }
  memset((char *)to + done, 0, (size_t)(n - done));
  return done == n ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int write_at(sqlite3_file *self, const void *from, int n, sqlite3_int64 at) {
  for (int done = 0; done < n;) {
    const ssize_t put =
        pwrite(file_of(self), (const char *)from + done, (size_t)(n - done), at + done);
    if (put < 0) return errno == ENOSPC ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    done += (int)put;
  }
  return SQLITE_OK;
}

static int cut(sqlite3_file *self, sqlite3_int64 size) {
  return ftruncate(file_of(self), size) ? SQLITE_IOERR_TRUNCATE : SQLITE_OK;
}

static int sync_file(sqlite3_file *self, int flags) {
  (void)flags;
  return fsync(file_of(self)) ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

static int get_size(sqlite3_file *self, sqlite3_int64 *ret_size) {
  struct stat status;
  if (fstat(file_of(self), &status)) return SQLITE_IOERR_FSTAT;
  *ret_size = status.st_size;
  return SQLITE_OK;
}

static int stay_open(sqlite3_file *self) {
  (void)self;
  return SQLITE_OK;
}

static int need_no_lock(sqlite3_file *self, int level) {
  (void)self, (void)level;
  return SQLITE_OK;
}

static int nobody_has_it(sqlite3_file *self, int *ret_is_locked) {
  (void)self;
  *ret_is_locked = 0;
  return SQLITE_OK;
}

static int know_no_control(sqlite3_file *self, int control, void *argument) {
  (void)self, (void)control, (void)argument;
  return SQLITE_NOTFOUND;
}

static int default_of_file(sqlite3_file *self) {
  (void)self;
  return 0;
}

static const sqlite3_io_methods methods = {.iVersion = 1,
                                           .xClose = stay_open,
                                           .xRead = read_at,
                                           .xWrite = write_at,
                                           .xTruncate = cut,
                                           .xSync = sync_file,
                                           .xFileSize = get_size,
                                           .xLock = need_no_lock,
                                           .xUnlock = need_no_lock,
                                           .xCheckReservedLock = nobody_has_it,
                                           .xFileControl = know_no_control,
                                           .xSectorSize = default_of_file,
                                           .xDeviceCharacteristics = default_of_file};

static sqlite3_vfs *files; // by name, as ever

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                     int *ret_flags) {
  int number;
  (void)vfs;
  if (!(flags & SQLITE_OPEN_MAIN_DB) || sscanf(name, name_format, &number) != 1)
    return files->xOpen(files, name, file, flags, ret_flags);
  *(Descriptor *)file = (Descriptor){.base.pMethods = &methods, .file = number};
  if (ret_flags) *ret_flags = flags;
  return SQLITE_OK;
}

/* That of a database to attach is one already. */
static int keep_name(sqlite3_vfs *vfs, const char *name, int size, char *ret_name) {
  (void)vfs;
  sqlite3_snprintf(size, ret_name, "%s", name);
  return SQLITE_OK;
}

int descriptor_open(sqlite3 **ret_db, int file, int flags) {
  static sqlite3_vfs vfs;
  if (!files) {
    files = sqlite3_vfs_find(NULL);
    vfs = *files;
    vfs.zName = "descriptor";
    vfs.xOpen = open_file;
    vfs.xFullPathname = keep_name;
    if (vfs.szOsFile < (int)sizeof(Descriptor)) vfs.szOsFile = sizeof(Descriptor);
    sqlite3_vfs_register(&vfs, 0);
  }
  char name[32];
  snprintf(name, sizeof name, name_format, file);
  return sqlite3_open_v2(name, ret_db, flags, vfs.zName);
}
