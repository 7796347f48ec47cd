/* Lines of a plain or gzip file, one at a time, and their comma-separated fields.
 *
 * A file is streamed, and the buffer holds little more than the longest line met; or it is held as
 * a whole, and lines last as long as the arena. A line ends with LF or CR LF; the last one may go
 * without. Blank lines are passed over, and so is a byte order mark. A gzip file that is cut short
 * or damaged is an error at the line where the damage shows; lines of a stream before it have been
 * handed out by then. */
#ifndef BASE_LINES_H
#define BASE_LINES_H
#include "base/arena.h"
#include "base/diag.h"
#include <stdbool.h>
#include <stddef.h>

enum {
  LINE_READER_CHUNK = 64 << 10,
  LINE_LENGTH_MAX = 16 << 20, // longer is taken for a file that is not text
  LINES_HELD_MAX = 1 << 29,   // bytes of a file that is held
};

/* A piece of a line. */
typedef struct Field {
  const char *text; // not NUL-terminated; inside the line
  int length;
} Field;

typedef struct Line {
  const char *text; // not NUL-terminated; of a stream valid until the next line is read
  int length;       // without the line end
  int number;       // from 1
  const char *path;
} Line;

typedef struct LineReader {
  const char *path;
  void *file; // a gzFile; NULL when reading from memory
  Arena *arena;
  char *buffer;
  size_t capacity, begin, end; // unread bytes are buffer[begin, end)
  bool at_end;                 // nothing comes after `end`
  bool start_is_gone;          // the buffer no longer holds the first line
  int line_number;             // of the newest line
} LineReader;

/* Opens a file; a file that cannot be read is DIAG_ENVIRONMENT. `path` must outlive the reader. */
int line_reader_open(LineReader *self, const char *path, Arena *arena, Diag *diag);
/* The same, held: one larger than LINES_HELD_MAX is an error. Nothing is left to close. */
int line_reader_load(LineReader *self, const char *path, Arena *arena, Diag *diag);
/* Reads on to the end and holds all, as line_reader_load does, and begins with the first line anew.
 * Fails where line_reader_rewind does. */
int line_reader_hold(LineReader *self, Diag *diag);
/* Holds a copy of `text`, which `name` stands for in messages. */
void line_reader_open_text(LineReader *self, const char *name, const char *text, size_t length,
                           Arena *arena);
/* 1 and the next line that is not blank, 0 at the end, -1 with an entry. */
int line_reader_next(LineReader *self, Line *ret_line, Diag *diag);
/* Goes back to the first line. Fails for what can be read only once, such as a pipe, unless all
 * that was read is still in the buffer. */
int line_reader_rewind(LineReader *self, Diag *diag);
void line_reader_close(LineReader *self);

/* Fills up to `room` fields. Returns how many there are. */
int line_split(const Line *line, Field *ret_fields, int room);
/* Without spaces and tabs at both ends. */
Field field_trim(Field field);
bool field_is(Field field, const char *text);
/* A finite number, of all the field, in decimal or scientific notation. */
bool field_real(Field field, double *ret_value);
/* The same from 0 to `most`. */
bool field_number(Field field, double most, double *ret_value);
bool line_is(const Line *line, const char *text);
/* The place of a field of this line; of the whole line when `field.text` is NULL. */
Place line_place(const Line *line, Field field);
/* "'NAME' must be EXPECTED, not 'FIELD'" at a field. Returns −1. */
int field_error(const Line *line, Field field, const char *name, const char *expected, Diag *diag);
#endif
