/* Keeping, hinting and printing diagnostics. Text from the input may hold anything: paths,
 * messages and hints are kept plain, the last two bounded, and source lines go through text_put, so
 * that no control character reaches the terminal. */
#include "base/diag.h"
#include "base/text.h"
#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

enum {
  WORD_MAX = 63,         // longer words get no near-miss hint
  NAMES_SHOWN = 5,       // that a hint lists
  SOURCE_SHOWN = 96,     // characters of a source line that are printed
  SOURCE_MAX = 16 << 20, // bytes of one that is kept; a longer one is not shown
  HEAD_MAX = 300,        // bytes of a text before what is left out of it
  TAIL_MAX = 100,        // and behind
};

void diag_init(Diag *self) {
  *self = (Diag){0};
  arena_init(&self->arena);
}

void diag_done(Diag *self) {
  arena_done(&self->arena);
  *self = (Diag){0};
}

/* The text of a message or hint, plain. What it quotes of the input is shown up to the end of its
 * first line, and the middle of a long one is left out. */
static const char *bound(Arena *arena, const char *text) {
  const size_t length = strlen(text), line = strcspn(text, "\r\n");
  if (line == length && length <= HEAD_MAX + TAIL_MAX) return text_shown(text, arena);
  const char *quote = line < length ? strrchr(text + line, '\'') : text + line - TAIL_MAX;
  const size_t behind = quote ? strlen(quote) : 0;
  const size_t head = text_cut(text, line < HEAD_MAX ? line : HEAD_MAX);
  const char *tail = text + length - (behind < TAIL_MAX ? behind : TAIL_MAX);
  tail = text + text_cut(text, (size_t)(tail - text));
  return text_shown(arena_printf(arena, "%.*s…%s", (int)head, text, tail), arena);
}

/* A new entry without its texts, NULL when there is no room for it. */
static DiagEntry *new_entry(Diag *diag, DiagKind kind, Place at) {
  if (diag->n_entries == DIAG_MAX) {
    diag->n_dropped++;
    return NULL;
  }
  if (at.path)
    at.path = text_shown(arena_copy(&diag->arena, at.path, strlen(at.path)), &diag->arena);
  if (at.source_length > SOURCE_MAX) at.source = NULL;
  if (at.source) at.source = arena_copy(&diag->arena, at.source, (size_t)at.source_length);
  DiagEntry *entry = &diag->entries[diag->n_entries++];
  *entry = (DiagEntry){.kind = kind, .at = at};
  return entry;
}

static void append(Diag *diag, DiagKind kind, Place at, const char *format, va_list list) {
  DiagEntry *entry = new_entry(diag, kind, at);
  if (entry) entry->message = bound(&diag->arena, arena_vprintf(&diag->arena, format, list));
}

static bool is_interrupted(const Diag *diag) {
  for (int i = 0; i < diag->n_entries; i++)
    if (diag->entries[i].kind == DIAG_INTERRUPTED) return true;
  return false;
}

void diag_append(Diag *self, const Diag *other) {
  for (int i = 0; i < other->n_entries; i++) {
    const DiagEntry *from = &other->entries[i];
    if (from->kind == DIAG_INTERRUPTED && is_interrupted(self)) continue; // once says it
    DiagEntry *entry = new_entry(self, from->kind, from->at);
    if (!entry) continue;
    entry->message = arena_copy(&self->arena, from->message, strlen(from->message));
    if (from->hint) entry->hint = arena_copy(&self->arena, from->hint, strlen(from->hint));
  }
  self->n_dropped += other->n_dropped;
}

int diag_error(Diag *self, Place at, const char *format, ...) {
  va_list list;
  va_start(list, format);
  append(self, DIAG_INPUT, at, format, list);
  va_end(list);
  return -1;
}

int diag_environment(Diag *self, Place at, const char *format, ...) {
  va_list list;
  va_start(list, format);
  append(self, DIAG_ENVIRONMENT, at, format, list);
  va_end(list);
  return -1;
}

int diag_interrupted(Diag *self) {
  DiagEntry *entry = new_entry(self, DIAG_INTERRUPTED, (Place){0});
  if (entry) entry->message = "interrupted";
  return -1;
}

int diag_hint(Diag *self, const char *format, ...) {
  if (self->n_entries == 0 || self->n_dropped > 0) return -1;
  va_list list;
  va_start(list, format);
  self->entries[self->n_entries - 1].hint =
      bound(&self->arena, arena_vprintf(&self->arena, format, list));
  va_end(list);
  return -1;
}

static int min_int(int a, int b) {
  return a < b ? a : b;
}

/* Damerau-Levenshtein distance in its restricted form (no substring is edited twice), blind to the
 * case of ASCII letters. Row i of the table is kept in rows[i % 3]. */
static int edit_distance(const char *a, const char *b) {
  int rows[3][WORD_MAX + 1];
  int a_length = (int)strlen(a), b_length = (int)strlen(b);
  assert(a_length <= WORD_MAX && b_length <= WORD_MAX);
  for (int j = 0; j <= b_length; j++)
    rows[0][j] = j;
  for (int i = 1; i <= a_length; i++) {
    int *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
    row[0] = i;
    for (int j = 1; j <= b_length; j++) {
      int from = tolower((unsigned char)a[i - 1]), to = tolower((unsigned char)b[j - 1]);
      row[j] = min_int(min_int(above[j], row[j - 1]) + 1, above[j - 1] + (from != to));
      bool swapped = i > 1 && j > 1 && from == tolower((unsigned char)b[j - 2]) &&
                     to == tolower((unsigned char)a[i - 2]);
      if (swapped) row[j] = min_int(row[j], two_above[j - 2] + 1);
    }
  }
  return rows[a_length % 3][b_length];
}

/* Whether `text` holds `part`, blind to the case of ASCII letters. */
static bool holds(const char *text, const char *part) {
  for (; *text; text++) {
    size_t i = 0;
    while (part[i] && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
      i++;
    if (!part[i]) return true;
  }
  return false;
}

/* Those that hold the word come first, then by distance; words that are too long for it are last.
 */
static int rank_of(const char *word, const char *name) {
  if (*word && holds(name, word)) return (int)(strlen(name) - strlen(word)) - WORD_MAX;
  if (strlen(word) > WORD_MAX || strlen(name) > WORD_MAX) return WORD_MAX;
  return edit_distance(word, name);
}

/* The names that `rank`, as many, puts first, each in quotes; of equal ones in their order. Spends
 * the ranks. */
static const char *first_names(const char *const *names, int *ranks, int n_names, int count,
                               Arena *arena) {
  const char *list = "";
  for (int k = 0; k < count; k++) {
    int first = 0;
    for (int i = 1; i < n_names; i++)
      if (ranks[i] < ranks[first]) first = i;
    ranks[first] = INT_MAX;
    list = arena_printf(arena, "%s%s'%s'", list, k ? ", " : "", names[first]);
  }
  return list;
}

/* The name that was meant, of those that hold the word if any does; NULL when that is not clear. */
static const char *meant(const char *word, const char *const *names) {
  enum { PART_MIN = 3 }; // shorter words are in many names
  const char *nearest = NULL, *holder = NULL;
  const size_t length = strlen(word);
  int least = (int)(length / 3) + 1, n_holders = 0;
  for (int i = 0; names[i] && length >= PART_MIN; i++)
    if (holds(names[i], word)) {
      holder = names[i];
      n_holders++;
    }
  for (; *names && length <= WORD_MAX; names++) {
    if (strlen(*names) > WORD_MAX || (n_holders > 0 && !holds(*names, word))) continue;
    const int distance = edit_distance(word, *names);
    if (distance >= least) continue;
    least = distance;
    nearest = *names;
  }
  return nearest ? nearest : n_holders == 1 ? holder : NULL;
}

int diag_hint_choices(Diag *self, const char *word, const char *const *names, const char *where) {
  Arena *arena = &self->arena;
  const char *one = meant(word, names);
  int n_names = 0;
  while (names[n_names])
    n_names++;
  if (n_names == 0) return -1;
  if (one) return diag_hint(self, "did you mean '%s'?", one);
  if (n_names == 1) return diag_hint(self, "the only choice is '%s'", names[0]);
  int *ranks = ARENA_ARRAY(arena, int, n_names);
  for (int i = 0; i < n_names && n_names > NAMES_SHOWN; i++)
    ranks[i] = rank_of(word, names[i]);
  if (n_names <= NAMES_SHOWN)
    return diag_hint(self, "choose from %s", first_names(names, ranks, n_names, n_names, arena));
  return diag_hint(self, "choose from %s and %d more%s%s%s",
                   first_names(names, ranks, n_names, NAMES_SHOWN, arena), n_names - NAMES_SHOWN,
                   where ? ": '" : "", where ? where : "", where ? "'" : "");
}

int diag_hint_near(Diag *self, const char *word, const char *const *names) {
  return diag_hint_choices(self, word, names, NULL);
}

int diag_exit_code(const Diag *self) {
  int code = 0;
  if (is_interrupted(self)) return 130;
  for (int i = 0; i < self->n_entries; i++) {
    if (self->entries[i].kind == DIAG_INPUT) return 3;
    code = 4;
  }
  return code;
}

static void put_repeated(FILE *out, char c, int count) {
  for (int i = 0; i < count; i++)
    putc(c, out);
}

/* The source line and the underline. A line longer than SOURCE_SHOWN is cut on both sides of the
 * column, so that a whole JSON file on one line does not fill the screen. */
static void print_source(const Place *at, FILE *out) {
  int skipped = at->column > SOURCE_SHOWN * 2 / 3 ? at->column - SOURCE_SHOWN / 3 : 0;
  int characters = at->source_length;
  if (text_span(at->source, at->source_length, SOURCE_SHOWN) == characters) skipped = 0;
  int start = text_span(at->source, at->source_length, skipped);
  int shown = text_span(at->source + start, at->source_length - start, SOURCE_SHOWN);
  int gutter = fprintf(out, "%4d", at->line);
  fputs(" |   ", out);
  text_put(out, at->source + start, (size_t)shown, ' ');
  putc('\n', out);
  if (at->column < 1) return;
  put_repeated(out, ' ', gutter);
  fputs(" |   ", out);
  put_repeated(out, ' ', at->column - 1 - skipped);
  putc('^', out);
  put_repeated(out, '~', min_int(at->width, SOURCE_SHOWN - (at->column - 1 - skipped)) - 1);
  putc('\n', out);
}

static void print_entry(const DiagEntry *entry, FILE *out) {
  const Place *at = &entry->at;
  if (at->path) {
    fputs(at->path, out);
    if (at->line > 0) fprintf(out, ":%d", at->line);
    if (at->line > 0 && at->column > 0) fprintf(out, ":%d", at->column);
    fputs(": ", out);
  }
  fputs("error: ", out);
  fputs(entry->message, out);
  putc('\n', out);
  if (at->path && at->line > 0 && at->source) print_source(at, out);
  if (!entry->hint) return;
  fputs("  hint: ", out);
  fputs(entry->hint, out);
  putc('\n', out);
}

/* Whether an entry before it says the same of the same place, as several pools may of one key. */
static bool is_repeated(const Diag *self, int i) {
  const DiagEntry *entry = &self->entries[i];
  for (const DiagEntry *other = self->entries; other < entry; other++)
    if (entry->at.path && other->at.path && strcmp(entry->at.path, other->at.path) == 0 &&
        entry->at.line == other->at.line && entry->at.column == other->at.column &&
        strcmp(entry->message, other->message) == 0)
      return true;
  return false;
}

void diag_print(const Diag *self, FILE *out) {
  for (int i = 0; i < self->n_entries; i++)
    if (self->entries[i].kind != DIAG_INTERRUPTED && !is_repeated(self, i))
      print_entry(&self->entries[i], out);
  if (self->n_dropped > 0) fprintf(out, "%d more not shown\n", self->n_dropped);
}

Place place_of_file(const char *path) {
  return (Place){.path = path};
}
