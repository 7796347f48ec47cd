/* Lines through zlib, which hands plain files through unchanged. */
#include "base/lines.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { SHOWN_MAX = 60 }; // of a field in a message

/* ---- Files ---- */

int line_reader_open(LineReader *self, const char *path, Arena *arena, Diag *diag) {
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return diag_environment(diag, place_of_file(path), "cannot open: %s", strerror(errno));
  struct stat status;
  if (fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
    close(descriptor);
    return diag_environment(diag, place_of_file(path), "cannot open: it is a directory");
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

/* Reads on behind the unread bytes, which are at the front of the buffer. */
static void fill(LineReader *self) {
  if (self->capacity - self->end < LINE_READER_CHUNK) {
    self->capacity = 2 * self->end + LINE_READER_CHUNK;
    self->buffer = arena_resize(self->arena, self->buffer, self->capacity);
  }
  const unsigned room = (unsigned)(self->capacity - self->end);
  const int got = gzread(self->file, self->buffer + self->end, room);
  if (got > 0) self->end += (size_t)got;
  self->at_end = got < (int)room;
}

int line_reader_hold(LineReader *self, Diag *diag) {
  int status = line_reader_rewind(self, diag);
  while (status == 0 && !self->at_end && self->end <= LINES_HELD_MAX)
    fill(self);
  if (status == 0)
    status = self->end > LINES_HELD_MAX
                 ? diag_error(diag, place_of_file(self->path), "the file is larger than %d MiB",
                              LINES_HELD_MAX >> 20)
                 : check_end(self, diag);
  line_reader_close(self);
  return status;
}

int line_reader_load(LineReader *self, const char *path, Arena *arena, Diag *diag) {
  return line_reader_open(self, path, arena, diag) || line_reader_hold(self, diag) ? -1 : 0;
}

/* ---- Lines ---- */

/* Makes room in front of the unread bytes and reads on. */
static int refill(LineReader *self, Diag *diag) {
  const size_t unread = self->end - self->begin;
  if (unread > LINE_LENGTH_MAX) return too_long(self, diag);
  if (self->begin > 0) self->start_is_gone = true;
  if (unread) memmove(self->buffer, self->buffer + self->begin, unread);
  self->begin = 0;
  self->end = unread;
  fill(self);
  return 0;
}

Field field_trim(Field field) {
  while (field.length > 0 && (*field.text == ' ' || *field.text == '\t')) {
    field.text++;
    field.length--;
  }
  while (field.length > 0 && strchr(" \t", field.text[field.length - 1]))
    field.length--;
  return field;
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
  if (self->file && length > LINE_LENGTH_MAX) return too_long(self, diag);
  if (self->line_number == 0 && length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
    text += 3;
    length -= 3;
  }
  if (self->line_number < INT_MAX - 1) self->line_number++;
  *ret_line = (Line){text, (int)length, self->line_number, self->path};
  return 1;
}

int line_reader_next(LineReader *self, Line *ret_line, Diag *diag) {
  int status = 1;
  do
    status = next_line(self, ret_line, diag);
  while (status > 0 && field_trim((Field){ret_line->text, ret_line->length}).length == 0);
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

/* ---- Fields ---- */

/* The field at `at`, inside the line, without spaces around it; `at` moves behind its comma, or to
 * NULL when the line ends. A field that starts with a quote goes on to the one that closes it; the
 * text is what stands between. */
static Field line_take(const Line *line, const char **at) {
  const char *start = *at, *from = start, *end = line->text + line->length;
  if (start < end && *start == '"') {
    const char *close = memchr(start + 1, '"', (size_t)(end - start - 1));
    if (close) from = close;
  }
  const char *comma = memchr(from, ',', (size_t)(end - from));
  const char *stop = comma ? comma : end;
  *at = comma ? comma + 1 : NULL;
  if (from > start && stop == from + 1) return (Field){start + 1, (int)(from - start - 1)};
  return field_trim((Field){start, (int)(stop - start)});
}

int line_split(const Line *line, Field *ret_fields, int room) {
  int n = 0;
  for (const char *at = line->text; at; n++) {
    const Field field = line_take(line, &at);
    if (n < room) ret_fields[n] = field;
  }
  return n;
}

bool field_is(Field field, const char *text) {
  return (size_t)field.length == strlen(text) && memcmp(field.text, text, strlen(text)) == 0;
}

/* "3", "2.5" or "0.00417", of so few digits that they and the power of ten by which they are
 * divided are exact, so that the quotient is the nearest number, as strtod's is. */
static bool is_short_real(Field field, double *ret_value) {
  static const double powers[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  enum { DIGITS_MAX = 15 };
  int64_t digits = 0;
  int point = -1;
  if (field.length > DIGITS_MAX + 1) return false;
  for (int i = 0; i < field.length; i++) {
    const char c = field.text[i];
    if (c == '.' && point < 0)
      point = i;
    else if (c >= '0' && c <= '9')
      digits = 10 * digits + (c - '0');
    else
      return false;
  }
  const int n = field.length - (point >= 0), decimals = point < 0 ? 0 : n - point;
  if (n < 1 || n > DIGITS_MAX) return false;
  *ret_value = (double)digits / powers[decimals];
  return true;
}

/* The program never leaves the C locale, so strtod takes a point. Digits, since it would take more
 * than numbers. */
bool field_real(Field field, double *ret_value) {
  char text[65], *end;
  if (field.length <= 0 || field.length >= (int)sizeof text) return false;
  if (is_short_real(field, ret_value)) return true;
  memcpy(text, field.text, (size_t)field.length);
  text[field.length] = '\0';
  if (strspn(text, "0123456789.eE+-") != (size_t)field.length) return false;
  *ret_value = strtod(text, &end);
  return *end == '\0' && isfinite(*ret_value);
}

bool field_number(Field field, double most, double *ret_value) {
  return field_real(field, ret_value) && *ret_value >= 0 && *ret_value <= most;
}

bool line_is(const Line *line, const char *text) {
  return field_is((Field){line->text, line->length}, text);
}

Place line_place(const Line *line, Field field) {
  if (!field.text) field = (Field){line->text, line->length};
  return (Place){.path = line->path,
                 .line = line->number,
                 .column = (int)(field.text - line->text) + 1,
                 .width = field.length > 0 ? field.length : 1,
                 .source = line->text,
                 .source_length = line->length};
}

int field_error(const Line *line, Field field, const char *name, const char *expected, Diag *diag) {
  const int shown = field.length < SHOWN_MAX ? field.length : SHOWN_MAX;
  const Place at = line_place(line, field);
  if (shown == 0) return diag_error(diag, at, "'%s' is empty, but must be %s", name, expected);
  return diag_error(diag, at, "'%s' must be %s, not '%.*s'", name, expected, shown, field.text);
}
