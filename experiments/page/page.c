/* See page.h. */
#include "experiments/page/page.h"
#include "base/text.h"
#include <stdarg.h>
#include <string.h>

static const char style[] =
    ":root{color-scheme:light dark;--ink:#1b1d20;--soft:#5a6068;--line:#d5d9de;--ground:#fff;"
    "--band:#f5f6f8;--mark:#00639c;--good:#0b6e4f;--bad:#b3261e;--best:#e6f2fa}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e4e6e9;--soft:#a2a9b2;--line:#3b4047;"
    "--ground:#181818;--band:#22252a;--mark:#6cb8f0;--good:#5ccaa0;--bad:#ff8a80;--best:#163247}}\n"
    "*{box-sizing:border-box}\n"
    "html{-webkit-text-size-adjust:100%}\n"
    "body{font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif;"
    "color:var(--ink);background:var(--ground);margin:0 auto;max-width:76rem;"
    "padding:1.5rem 1.25rem 4rem;overflow-wrap:anywhere}\n"
    "h1{font-size:1.75rem;line-height:1.2;margin:0 0 .25rem}\n"
    "h2{font-size:1.3rem;line-height:1.3;margin:2.25rem 0 .5rem;padding-top:.75rem;"
    "border-top:1px solid var(--line)}\n"
    "h3{font-size:1.05rem;margin:1.5rem 0 .4rem}\n"
    "p,ul{max-width:46rem;margin:.5rem 0}\n"
    "ul{padding-left:1.2rem}\n"
    "a{color:var(--mark)}\n"
    ".soft{color:var(--soft);font-size:.9rem}\n"
    ".answer{font-size:1.15rem;line-height:1.45;border-left:4px solid var(--mark);"
    "padding:.4rem 0 .4rem .9rem;margin:.75rem 0}\n"
    ".warn{border-left:4px solid var(--bad);padding:.2rem 0 .2rem .9rem}\n"
    "nav{margin:1rem 0;font-size:.95rem}\n"
    "nav a{margin-right:1rem;display:inline-block}\n"
    ".scroll{overflow-x:auto;margin:.75rem 0}\n"
    "table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}\n"
    "caption{text-align:left;color:var(--soft);padding:0 0 .35rem}\n"
    "th,td{padding:.25rem .7rem;text-align:right;vertical-align:top;white-space:nowrap;"
    "border-bottom:1px solid var(--line);overflow-wrap:normal}\n"
    "th:first-child,td:first-child{padding-left:.25rem}\n"
    "thead th{vertical-align:bottom;color:var(--soft);font-weight:600;border-bottom-width:2px;"
    "white-space:normal}\n"
    "th.t,td.t{text-align:left}\n"
    "td.t{white-space:normal;min-width:4rem;max-width:30rem}\n"
    "td.w{min-width:12rem;overflow-wrap:anywhere}\n"
    "tr.best td{background:var(--best);font-weight:600}\n"
    ".good,tr.good td:last-child{color:var(--good)}\n"
    ".bad,tr.bad td:last-child{color:var(--bad)}\n"
    "tbody tr:hover td{background:var(--band)}\n"
    "details{margin:.5rem 0}\n"
    "summary{cursor:pointer;color:var(--mark)}\n"
    "pre{background:var(--band);border:1px solid var(--line);border-radius:4px;padding:.7rem;"
    "font:.8125rem/1.45 ui-monospace,'DejaVu Sans Mono',Consolas,monospace;white-space:pre-wrap;"
    "overflow-wrap:anywhere;margin:.5rem 0}\n"
    "code{font:.9em ui-monospace,'DejaVu Sans Mono',Consolas,monospace}\n"
    "figure{margin:1.25rem 0;max-width:44rem}\n"
    "figcaption{color:var(--soft);font-size:.9rem;margin-top:.25rem}\n"
    "@media(max-width:40rem){body{font-size:15px;padding:1rem .9rem 3rem}h1{font-size:1.4rem}"
    "th,td{padding:.25rem .5rem}td.t{max-width:16rem}.answer{font-size:1.05rem}}\n"
    "@media print{body{max-width:none}a{color:inherit}.scroll{overflow:visible}}\n";

void page_text(const char *text, FILE *out) {
  for (size_t length; *text; text += length) {
    length = strcspn(text, "<>&\"'");
    text_put(out, text, length, '?');
    if (text[length]) fprintf(out, "&#%d;", text[length++]);
  }
}

static void put_format(Page *self, const char *format, va_list list) {
  page_text(arena_vprintf(self->arena, format, list), self->out);
}

#define PUT_FORMAT(self, format)                                                                   \
  do {                                                                                             \
    va_list list;                                                                                  \
    va_start(list, format);                                                                        \
    put_format(self, format, list);                                                                \
    va_end(list);                                                                                  \
  } while (0)

void page_raw(Page *self, const char *markup) {
  fputs(markup, self->out);
}

void page_say(Page *self, const char *format, ...) {
  PUT_FORMAT(self, format);
}

void page_begin(Page *self, const char *title, const char *css) {
  page_raw(self, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                 "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                 "style-src 'unsafe-inline'\"/>\n"
                 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
                 "<title>");
  page_text(title, self->out);
  fprintf(self->out, "</title>\n<style>\n%s%s</style>\n</head>\n<body>\n", style, css);
}

void page_end(Page *self) {
  page_raw(self, "</body>\n</html>\n");
}

/* "<p class="soft">" */
static void put_tag(Page *self, const char *tag, const char *class) {
  fprintf(self->out, class ? "<%s class=\"%s\">" : "<%s>", tag, class);
}

void page_element(Page *self, const char *tag, const char *class, const char *format, ...) {
  put_tag(self, tag, class);
  PUT_FORMAT(self, format);
  fprintf(self->out, "</%s>\n", tag);
}

void page_section(Page *self, const char *id, const char *heading) {
  fprintf(self->out, "<section id=\"%s\">\n", id);
  page_element(self, "h2", NULL, "%s", heading);
}

void page_section_end(Page *self) {
  page_raw(self, "</section>\n");
}

void page_details(Page *self, const char *format, ...) {
  page_raw(self, "<details>\n<summary>");
  PUT_FORMAT(self, format);
  page_raw(self, "</summary>\n");
}

void page_details_end(Page *self) {
  page_raw(self, "</details>\n");
}

void page_table(Page *self, const PageColumn *columns, int n, const char *caption) {
  page_raw(self, "<div class=\"scroll\" tabindex=\"0\"><table>\n");
  if (caption) page_element(self, "caption", NULL, "%s", caption);
  page_raw(self, "<thead><tr>");
  for (int i = 0; i < n; i++) {
    page_raw(self, columns[i].is_text ? "<th class=\"t\"" : "<th");
    if (columns[i].title) {
      page_raw(self, " title=\"");
      page_text(columns[i].title, self->out);
      page_raw(self, "\"");
    }
    page_raw(self, ">");
    page_text(columns[i].head, self->out);
    page_raw(self, "</th>");
  }
  page_raw(self, "</tr></thead>\n<tbody>\n");
}

void page_row(Page *self, const char *class) {
  put_tag(self, "tr", class);
}

void page_cell(Page *self, bool is_text, const char *format, ...) {
  page_raw(self, is_text ? "<td class=\"t\">" : "<td>");
  PUT_FORMAT(self, format);
  page_raw(self, "</td>");
}

void page_row_end(Page *self) {
  page_raw(self, "</tr>\n");
}

void page_table_end(Page *self) {
  page_raw(self, "</tbody></table></div>\n");
}
