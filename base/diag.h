/* Located diagnostics: what is wrong with the input or the environment, where, and what to do.
 *
 * A library function that fails appends entries and returns a negative int; it never prints. The
 * deepest function that knows the position writes the sentence, nobody above adds to it. The Diag
 * is untouched on success, so calls chain with ||. Entries past DIAG_MAX are counted, not kept.
 * Sentences start in lower case, put the subject in single quotes and end without a full stop.
 * They are plain text (base/text.h) of 400 bytes at most, and quote no more of the input than
 * its first line.
 * Printed form:
 *
 *     experiments/examples/a.yaml:12:9: error: unknown router 'jsqq'
 *       12 |   router: jsqq
 *          |           ^~~~
 *       hint: did you mean 'jsq'? */
#ifndef BASE_DIAG_H
#define BASE_DIAG_H
#include "base/arena.h"
#include <stdio.h>

enum { DIAG_MAX = 20 };

typedef enum DiagKind {
  DIAG_INPUT,       // the input was rejected: exit 3
  DIAG_ENVIRONMENT, // the environment lacks something (file, disk, device): exit 4
  DIAG_INTERRUPTED, // the user wanted it to stop: exit 130; not printed, the command says more
} DiagKind;

typedef struct Place {
  const char *path;   // as the user wrote it; NULL: no location is printed
  int line, column;   // from 1; line 0: only the path; column 0: no caret
  int width;          // characters to underline, at least 1 when column is set
  const char *source; // text of that line, NULL if not at hand
  int source_length;  // its length without the newline
} Place;

typedef struct DiagEntry {
  DiagKind kind;
  Place at;
  const char *message;
  const char *hint; // NULL if none
} DiagEntry;

typedef struct Diag {
  Arena arena;
  DiagEntry entries[DIAG_MAX];
  int n_entries; // kept
  int n_dropped; // past DIAG_MAX
} Diag;

void diag_init(Diag *self);
void diag_done(Diag *self);

/* Both append an entry (all text is copied, place included) and return -1, for `return
 * diag_error(…)`. */
int diag_error(Diag *self, Place at, const char *format, ...) __attribute__((format(printf, 3, 4)));
int diag_environment(Diag *self, Place at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Appends that the user wanted it to stop; returns -1. */
int diag_interrupted(Diag *self);
/* Attaches a hint to the newest entry (the last one wins). No-op when that entry was dropped.
 * Returns -1, as the two below do. */
int diag_hint(Diag *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Attaches "did you mean 'X'?" when one of the NULL-terminated `names` is within a third of the
 * length of `word` (Damerau-Levenshtein), or alone has it in it; otherwise lists the five nearest,
 * how many more there are, and `where` they are listed, such as "tandem list machines" (NULL:
 * nowhere); five or fewer in their order. */
int diag_hint_choices(Diag *self, const char *word, const char *const *names, const char *where);
/* The same for names that are listed nowhere. */
int diag_hint_near(Diag *self, const char *word, const char *const *names);

/* Appends copies of all entries of `other`. */
void diag_append(Diag *self, const Diag *other);
/* 0 with no entry, 130 if any is DIAG_INTERRUPTED, 3 if any is DIAG_INPUT, otherwise 4. */
int diag_exit_code(const Diag *self);
/* An entry that says the same of the same place as one before it is left out. */
void diag_print(const Diag *self, FILE *out);

/* A place with only a path (line 0), for messages about a whole file. */
Place place_of_file(const char *path);
#endif
