/* Appending with write(), so that a line is there whole or not at all. */
#include "calib/recorder.h"
#include "base/beside.h"
#include "base/cleanup.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_SIZE = 1 << 16 }; // facts and header, or a row

static int report(const char *path, Diag *diag) {
  return diag_environment(diag, place_of_file(path), "cannot write: %s", strerror(errno));
}

/* ---- Lines ---- */

/* What `row` (NULL: the head) is as text; NULL when it is longer than any can be. */
static const char *make_text(Recorder *self, const ProfileRow *row, size_t *ret_length) {
  CLEANUP_FILE FILE *out = fmemopen(self->line, TEXT_SIZE, "w");
  if (!out) return NULL;
  if (row)
    profile_write_row(row, out);
  else
    profile_write_header(&self->profile, out);
  const long length = fflush(out) == 0 && !ferror(out) ? ftell(out) : -1;
  if (length < 0) return NULL;
  *ret_length = (size_t)length;
  return self->line;
}

static int write_text(Recorder *self, const char *text, size_t length, Diag *diag) {
  size_t written = 0;
  while (written < length) {
    const ssize_t n = write(self->file, text + written, length - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      self->failed = true;
      report(self->path, diag);
      if (self->is_regular && ftruncate(self->file, self->bytes) != 0) self->bytes = 0;
      return -1;
    }
    written += (size_t)n;
  }
  self->bytes += (int64_t)length;
  return 0;
}

static int append(Recorder *self, const ProfileRow *row, Diag *diag) {
  size_t length = 0;
  const char *text = make_text(self, row, &length);
  if (!text) return report(self->path, diag);
  return write_text(self, text, length, diag);
}

/* ---- Files ---- */

/* What is no regular file. */
static int open_in_place(Recorder *self, Diag *diag) {
  self->file = open(self->path, O_WRONLY | O_APPEND | O_CLOEXEC);
  return self->file < 0 ? report(self->path, diag) : 0;
}

/* A file that takes the place of any before only when complete. */
static int open_beside(Recorder *self, const char **ret_beside, Diag *diag) {
  self->file = beside_open(self->path, ret_beside, self->arena);
  if (self->file < 0 || fcntl(self->file, F_SETFL, O_APPEND)) return report(self->path, diag);
  self->bytes = 0;
  return 0;
}

static int write_all(Recorder *self, Diag *diag) {
  if (append(self, NULL, diag)) return -1;
  for (size_t i = 0; i < self->profile.n_rows; i++)
    if (append(self, &self->profile.rows[i], diag)) return -1;
  return 0;
}

static void close_file(Recorder *self) {
  if (self->file >= 0) close(self->file);
  self->file = -1;
}

/* Writes everything beside the path and puts it in its place; the new file stays open. */
static int replace(Recorder *self, Diag *diag) {
  const char *beside;
  const int before = self->file;
  const int64_t bytes_before = self->bytes;
  if (open_beside(self, &beside, diag) == 0) {
    const bool written = write_all(self, diag) == 0;
    if (written && rename(beside, self->path) == 0) {
      if (before >= 0) close(before);
      return 0;
    }
    if (written) report(self->path, diag);
    close_file(self);
    unlink(beside);
  }
  self->file = before;
  self->bytes = bytes_before;
  return -1;
}

int recorder_open(Recorder *self, const char *path, const Profile *profile, Diag *diag) {
  struct stat status;
  const bool exists = stat(path, &status) == 0;
  *self = (Recorder){.profile = *profile,
                     .path = path,
                     .arena = profile->arena,
                     .line = arena_alloc(profile->arena, TEXT_SIZE),
                     .file = -1,
                     .is_regular = !exists || S_ISREG(status.st_mode)};
  if (!self->is_regular) return open_in_place(self, diag) || write_all(self, diag) ? -1 : 0;
  /* A path that cannot be written is found out now, not after the first measurement. */
  const char *beside;
  if (open_beside(self, &beside, diag)) return -1;
  close_file(self);
  unlink(beside);
  return profile->n_rows < RECORDER_FIRST_ROWS ? 0 : replace(self, diag);
}

int recorder_add(Recorder *self, const ProfileRow *row, Diag *diag) {
  assert(!self->failed);
  profile_add(&self->profile, row);
  if (self->file >= 0) return append(self, row, diag);
  return self->profile.n_rows < RECORDER_FIRST_ROWS ? 0 : replace(self, diag);
}

void recorder_drop(Recorder *self, size_t row) {
  Profile *profile = &self->profile;
  assert(row < profile->n_rows);
  profile->n_rows--;
  memmove(&profile->rows[row], &profile->rows[row + 1],
          (profile->n_rows - row) * sizeof *profile->rows);
}

void recorder_flag(Recorder *self, size_t first, size_t end, const char *flag) {
  for (size_t i = first; i < end; i++) {
    ProfileRow *row = &self->profile.rows[i];
    if (strstr(row->stop, flag)) continue;
    row->stop = arena_printf(self->arena, "%s%s%s", row->stop, *row->stop ? "; " : "", flag);
  }
}

int recorder_save(Recorder *self, Diag *diag) {
  if (!self->is_regular || self->failed) return 0;
  return replace(self, diag);
}

int recorder_close(Recorder *self, Diag *diag) {
  int error = 0;
  if (self->file < 0 && self->profile.n_rows > 0) error = recorder_save(self, diag);
  close_file(self);
  return error;
}
