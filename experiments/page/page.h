/* A page of HTML that needs nothing beside it: one stylesheet inside, for light and dark, wide and
 * narrow screens and for paper; no script, and nothing that could fetch anything. It is well-formed
 * XML, too.
 *
 * All text is put through page_say and the functions that take formats, which make what users and
 * databases wrote harmless; only `page_raw` puts markup, of the program's own. Blocks that are
 * opened are closed in reverse order. */
#ifndef EXPERIMENTS_PAGE_PAGE_H
#define EXPERIMENTS_PAGE_PAGE_H
#include "base/arena.h"
#include <stdbool.h>
#include <stdio.h>

typedef struct Page {
  FILE *out;
  Arena *arena;
} Page;

#define PAGE_FORMAT(text, first) __attribute__((format(printf, text, first)))

/* Text as HTML wants it, '?' for control characters and what is no UTF-8. */
void page_text(const char *text, FILE *out);
/* The beginning, up to the body; `css` is of rules beyond those of all pages, or "". */
void page_begin(Page *self, const char *title, const char *css);
void page_end(Page *self);
/* Markup of the program's own, as it is. */
void page_raw(Page *self, const char *markup);
/* Text where the page is. */
void page_say(Page *self, const char *format, ...) PAGE_FORMAT(2, 3);
/* An element with a text; `class` may be NULL. */
void page_element(Page *self, const char *tag, const char *class, const char *format, ...)
    PAGE_FORMAT(4, 5);
/* A part with an id, a word, that links may lead to. */
void page_section(Page *self, const char *id, const char *heading);
void page_section_end(Page *self);
/* A part that is folded away. */
void page_details(Page *self, const char *format, ...) PAGE_FORMAT(2, 3);
void page_details_end(Page *self);

typedef struct PageColumn {
  const char *head;
  const char *title; // what it means, or NULL
  bool is_text;      // on the left; numbers are on the right
} PageColumn;

/* A table, as wide as it needs to be: it scrolls where the screen is narrower. Each row has a cell
 * of each column. */
void page_table(Page *self, const PageColumn *columns, int n, const char *caption);
/* `class` may be NULL; "good", "bad" or "best" mark a row. */
void page_row(Page *self, const char *class);
void page_cell(Page *self, bool is_text, const char *format, ...) PAGE_FORMAT(3, 4);
void page_row_end(Page *self);
void page_table_end(Page *self);
#endif
