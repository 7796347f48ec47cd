/* Lines through zlib, which hands plain files through unchanged. */
#include "traces/line_reader.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

int line_reader_open(LineReader *self, const char *path, Arena *arena, Diag *diag) {
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return diag_environment(diag, place_of_file(path), "cannot open: %s", strerror(errno));
  struct stat status;
  if (fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
    close(descriptor);
    return diag_environment(diag, place_of_file(path), "is a directory, not a file");
  }
  gzFile file = gzdopen(descriptor, "rb");
  if (!file) {
    close(descriptor);
    return diag_environment(diag, place_of_file(path), "cannot open: out of memory");
  }
  gzbuffer(file, LINE_READER_CHUNK);
  *self = (LineReader){.path = path, .file = file, .arena = arena};
  return 0;
}

void line_reader_open_text(LineReader *self, const char *name, const char *text, size_t length,
                           Arena *arena) {
  *self = (LineReader){.path = name,
                       .arena = arena,
                       .buffer = arena_copy(arena, text, length),
                       .capacity = length,
                       .end = length,
                       .at_end = true};
}

static Place place_after_newest(const LineReader *self) {
  return (Place){.path = self->path, .line = self->line_number + 1};
}

/* What stopped the reading, as an entry; 0 if it was the plain end of the file. */
static int check_end(const LineReader *self, Diag *diag) {
  if (!self->file) return 0;
  int error = Z_OK;
  const char *text = gzerror(self->file, &error);
  if (error == Z_OK || error == Z_STREAM_END) return 0;
  Place at = place_after_newest(self);
  if (error == Z_BUF_ERROR)
    return diag_error(diag, at, "the gzip data ends too early: the file is cut short");
  const char *colon = strstr(text, ": "); // zlib puts a name before its own words
  const char *reason = colon ? colon + 2 : text;
  if (error == Z_ERRNO) return diag_environment(diag, at, "cannot read: %s", reason);
  return diag_error(diag, at, "the gzip data is damaged: %s", reason);
}

static int too_long(const LineReader *self, Diag *diag) {
  return diag_error(diag, place_after_newest(self), "the line is longer than %d MiB",
                    LINE_LENGTH_MAX >> 20);
}

/* Reads on behind the unread bytes, which move to the front of the buffer. */
static int refill(LineReader *self, Diag *diag) {
  size_t unread = self->end - self->begin;
  if (unread > LINE_LENGTH_MAX) return too_long(self, diag);
  if (self->begin > 0) self->start_is_gone = true;
  if (unread) memmove(self->buffer, self->buffer + self->begin, unread);
  self->begin = 0;
  self->end = unread;
  if (self->capacity - unread < LINE_READER_CHUNK) {
    self->capacity = 2 * unread + LINE_READER_CHUNK;
    self->buffer = arena_resize(self->arena, self->buffer, self->capacity);
  }
  unsigned room = (unsigned)(self->capacity - unread);
  int got = gzread(self->file, self->buffer + unread, room);
  if (got > 0) self->end += (size_t)got;
  self->at_end = got < (int)room;
  return 0;
}

/* The next line, blank or not. */
static int next_line(LineReader *self, Line *ret_line, Diag *diag) {
  size_t searched = 0;
  const char *newline = NULL;
  for (;;) {
    size_t unread = self->end - self->begin;
    if (unread > searched)
      newline = memchr(self->buffer + self->begin + searched, '\n', unread - searched);
    if (newline || self->at_end) break;
    searched = unread;
    if (refill(self, diag)) return -1;
  }
  if (!newline && check_end(self, diag)) return -1;
  if (self->begin == self->end) return 0;
  const char *text = self->buffer + self->begin;
  size_t length = newline ? (size_t)(newline - text) : self->end - self->begin;
  self->begin += length + (newline ? 1 : 0);
  if (length && text[length - 1] == '\r') length--;
  if (length > LINE_LENGTH_MAX) return too_long(self, diag);
  if (self->line_number < INT_MAX - 1) self->line_number++;
  *ret_line = (Line){text, (int)length, self->line_number, self->path};
  return 1;
}

int line_reader_next(LineReader *self, Line *ret_line, Diag *diag) {
  int status = 1;
  do
    status = next_line(self, ret_line, diag);
  while (status > 0 && ret_line->length == 0);
  return status;
}

int line_reader_rewind(LineReader *self, Diag *diag) {
  self->begin = 0;
  self->line_number = 0;
  if (!self->start_is_gone) return 0;
  self->end = 0;
  self->start_is_gone = false;
  self->at_end = false;
  if (gzrewind(self->file) == 0) return 0;
  return diag_environment(diag, place_of_file(self->path), "cannot be read a second time");
}

void line_reader_close(LineReader *self) {
  if (self->file) gzclose_r(self->file);
  self->file = NULL;
}
