/* Lines of a plain or gzip file, one at a time.
 *
 * The buffer holds little more than the longest line met. A line ends with LF or CR LF; the last
 * one may go without. Blank lines are passed over. A gzip file that is cut short or damaged is an
 * error at the line where the damage shows; lines before it have been handed out by then. */
#ifndef TRACES_LINE_READER_H
#define TRACES_LINE_READER_H
#include "sim/base/arena.h"
#include "sim/base/diag.h"
#include <stdbool.h>
#include <stddef.h>

enum {
  LINE_READER_CHUNK = 64 << 10,
  LINE_LENGTH_MAX = 16 << 20, // longer is taken for a file that is not text
};

typedef struct Line {
  const char *text; // not NUL-terminated; valid until the next line is read
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
/* Reads a copy of `text`, which `name` stands for in messages. */
void line_reader_open_text(LineReader *self, const char *name, const char *text, size_t length,
                           Arena *arena);
/* 1 and the next line that is not blank, 0 at the end, -1 with an entry. */
int line_reader_next(LineReader *self, Line *ret_line, Diag *diag);
/* Goes back to the first line. Fails for what can be read only once, such as a pipe, unless all
 * that was read is still in the buffer. */
int line_reader_rewind(LineReader *self, Diag *diag);
void line_reader_close(LineReader *self);
#endif
