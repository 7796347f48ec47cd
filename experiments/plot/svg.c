/* What gnuplot draws as SVG, made fit for where it goes. The drawing is read in pieces that end
 * with a tag; texts of users are between tags, so that nothing of them is taken for a name or a
 * colour. */
#include "base/text.h"
#include "experiments/plot/gnuplot.h"
#include <string.h>

typedef struct Copy {
  const char *title, *id;
  FILE *out;
  bool begun; // the tag <svg> was there
  char *held; // a tag <g> in which nothing stands yet; NULL: none
  Arena *arena;
  bool titled;
} Copy;

/* Text as HTML and SVG want it, without control characters. */
static void svg_put_text(const char *text, FILE *out) {
  for (size_t length; *text; text += length) {
    length = strcspn(text, "<>&\"'");
    text_put(out, text, length, ' ');
    if (text[length]) fprintf(out, "&#%d;", text[length++]);
  }
}

/* "rgb( 85,  85,  85)" at `text`; returns its length, 0 when it is none. */
static int put_colour(const char *text, FILE *out) {
  int red = 0, green = 0, blue = 0, length = 0;
  if (sscanf(text, "rgb(%3d ,%3d ,%3d )%n", &red, &green, &blue, &length) < 3 || length == 0)
    return 0;
  fprintf(out, "var(--figure-%02x%02x%02x,#%02x%02x%02x)", red, green, blue, red, green, blue);
  return length;
}

/* A tag as a part of a page. */
static void put_tag(const char *tag, const char *id, FILE *out) {
  static const char *const names[] = {" id='", " id=\"", "href='#", "url(#"};
  static const char family[] = "font-family=\"", black[] = "color=\"black\"",
                    white[] = "color='white'"; // below a point, so that no line goes through it
  while (*tag) {
    const int colour = put_colour(tag, out);
    if (colour > 0) {
      tag += colour;
      continue;
    }
    if (strncmp(tag, black, sizeof black - 1) == 0) {
      fputs("color=\"inherit\"", out);
      tag += sizeof black - 1;
      continue;
    }
    if (strncmp(tag, white, sizeof white - 1) == 0) {
      fputs("color='var(--figure-ffffff,#ffffff)'", out);
      tag += sizeof white - 1;
      continue;
    }
    if (strncmp(tag, family, sizeof family - 1) == 0) {
      fputs("font-family=\"inherit", out);
      tag += sizeof family - 1;
      tag += strcspn(tag, "\"");
      continue;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
      if (strncmp(tag, names[i], strlen(names[i])) == 0) {
        fprintf(out, "%s%s-", names[i], id);
        tag += strlen(names[i]);
      }
    putc(*tag++, out);
  }
}

/* The drawing's size becomes its proportions alone. */
static void put_opening(const Copy *self, const char *tag) {
  const char *box = strstr(tag, "viewBox=\"");
  const size_t length =
      box ? strcspn(box + strlen("viewBox=\""), "\"") + strlen("viewBox=\"\"") : 0;
  fprintf(self->out,
          "<svg class=\"figure\" role=\"img\" %.*s xmlns=\"http://www.w3.org/2000/svg\" "
          "xmlns:xlink=\"http://www.w3.org/1999/xlink\" aria-label=\"",
          (int)length, box ? box : "");
  svg_put_text(self->title, self->out);
  fputs("\">", self->out);
}

static void put_plain(const Copy *self, const char *tag) {
  if (self->id)
    put_tag(tag, self->id, self->out);
  else
    fputs(tag, self->out);
}

static bool is_blank(const char *text, const char *end) {
  return text + strspn(text, " \t\n") >= end;
}

/* Text, and the tag that it ends with. */
static void put_piece(Copy *self, char *text) {
  char *tag = strrchr(text, '<');
  const bool is_title = tag && !self->titled && strcmp(tag, "</title>") == 0;
  if (!self->begun && tag && strncmp(tag, "<svg", 4) == 0) {
    self->begun = true;
    if (self->id) {
      put_opening(self, tag);
      return;
    }
  }
  if (!self->begun && self->id) return;
  // What made it, and which version of that, is no part of a figure.
  if (tag && (strcmp(tag, "<desc>") == 0 || strcmp(tag, "</desc>") == 0)) return;
  // gnuplot begins and ends many groups without anything in them.
  const bool is_empty = self->held && tag && strcmp(tag, "</g>") == 0 && is_blank(text, tag);
  if (self->held && !is_empty) put_plain(self, self->held);
  self->held = NULL;
  if (is_empty) return;
  if (is_title) {
    self->titled = true;
    svg_put_text(self->title, self->out);
  } else {
    fwrite(text, 1, tag ? (size_t)(tag - text) : strlen(text), self->out);
  }
  if (tag && strncmp(tag, "<g ", 3) == 0)
    self->held = arena_copy(self->arena, tag, strlen(tag));
  else if (tag)
    put_plain(self, tag);
}

void svg_copy(FILE *drawn, const char *title, const char *id, Arena *arena, FILE *out) {
  Copy copy = {.title = title, .id = id, .out = out, .arena = arena};
  char *piece = NULL;
  size_t length = 0, capacity = 0;
  for (int c; (c = getc(drawn)) != EOF;) {
    ARENA_RESERVE(arena, piece, capacity, length + 2);
    piece[length++] = (char)c;
    if (c != '>') continue;
    piece[length] = '\0';
    put_piece(&copy, piece);
    length = 0;
  }
}
