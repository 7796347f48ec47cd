/* Keys as lists for people and as a page. */
#include "experiments/keys/keys.h"
#include "perfmodel/dtype.h"
#include <assert.h>
#include <ctype.h>
#include <string.h>

/* "workload, trace" */
static const char *block_title(const KeyBlock *block, Arena *arena) {
  const char *place = *block->place ? block->place : "Top level";
  return block->which ? arena_printf(arena, "%s, %s", place, block->which) : place;
}

/* ---- As a list ---- */

/* The rows whose full name has `part` in it, NULL-ended; NULL: none has. */
static const OptionSpec *rows_with(const KeyBlock *block, const char *part, Arena *arena) {
  size_t n = 0, n_found = 0;
  while (block->specs && block->specs[n].key)
    n++;
  OptionSpec *found = ARENA_ARRAY(arena, OptionSpec, n + 1);
  for (size_t i = 0; i < n; i++)
    if (!part || strstr(keys_name(block, &block->specs[i], arena), part))
      found[n_found++] = block->specs[i];
  return n_found > 0 ? found : NULL;
}

bool keys_print(const char *part, FILE *out) {
  Arena arena;
  arena_init(&arena);
  size_t n_blocks = 0;
  const char *between = "";
  const KeyBlock *blocks = keys_blocks(&n_blocks, &arena);
  for (size_t i = 0; i < n_blocks; i++) {
    const OptionSpec *rows = rows_with(&blocks[i], part, &arena);
    const bool is_text = !blocks[i].specs && (!part || strstr(blocks[i].place, part));
    if (!rows && !is_text) continue;
    fprintf(out, "%s%s:\n", between, block_title(&blocks[i], &arena));
    if (is_text) fprintf(out, "  %s\n", blocks[i].help);
    if (rows) option_print(rows, 2, out);
    between = "\n";
  }
  arena_done(&arena);
  return *between;
}

/* ---- As a page ---- */

typedef struct Page {
  const KeyBlock *blocks;
  size_t n;
  Arena *arena;
  FILE *out;
} Page;

/* A link to a heading: small letters and digits of it, hyphens for spaces, else nothing. */
static void print_link(const Page *page, const char *text, const char *title) {
  char *anchor = arena_copy(page->arena, title, strlen(title)), *end = anchor;
  for (const char *c = title; *c; c++)
    if (*c == ' ')
      *end++ = '-';
    else if (isalnum((unsigned char)*c) || *c == '_' || *c == '-')
      *end++ = (char)tolower((unsigned char)*c);
  *end = '\0';
  fprintf(page->out, "[%s](#%s)", text, anchor);
}

static void print_block_link(const Page *page, const KeyBlock *block, bool short_text) {
  const char *title = block_title(block, page->arena);
  print_link(page, short_text ? block->which : title, title);
}

/* Of a cell: a bar would end it. */
static void print_cell(const char *text, FILE *out) {
  for (; *text; text++)
    fprintf(out, *text == '|' ? "\\|" : "%c", *text);
}

/* Whether the block has the keys of a map that is the value of `key`, or of each of its NAMEs. */
static bool is_value_of(const KeyBlock *block, const char *key) {
  const size_t length = strlen(key);
  if (strncmp(block->place, key, length) != 0) return false;
  const char *rest = block->place + length;
  return !*rest || (*rest == '.' && !rest[strspn(rest, ".ABCDEFGHIJKLMNOPQRSTUVWXYZ")]);
}

/* What the value may be: the blocks that have its keys, or the type. */
static void print_type(const Page *page, const OptionSpec *spec, const char *name) {
  const char *before = "see ";
  for (size_t i = 0; i < page->n; i++)
    if (spec->type == OPTION_NODE && is_value_of(&page->blocks[i], name)) {
      fputs(before, page->out);
      print_block_link(page, &page->blocks[i], page->blocks[i].which && *before == ',');
      before = ", ";
    }
  if (*before == ',')
    ;
  else if (spec->choices == dtype_names)
    print_link(page, "number format", "Number formats");
  else
    print_cell(option_values(spec, page->arena), page->out);
  if (spec->listed) fprintf(page->out, "; `tandem list %s`", spec->listed);
}

static void print_row(const Page *page, const KeyBlock *block, const OptionSpec *spec) {
  const char *fallback = option_default(spec);
  const char *mark = spec->fallback && !spec->required ? "`" : "";
  print_type(page, spec, keys_name(block, spec, page->arena));
  fprintf(page->out, " | %s", mark);
  print_cell(fallback ? fallback : "", page->out);
  fprintf(page->out, "%s | ", mark);
  print_cell(spec->help, page->out);
  fputs(" |\n", page->out);
}

static void print_columns(FILE *out) {
  fputs("\n| key | type | default | description |\n|---|---|---|---|\n", out);
}

static void print_block(const Page *page, const KeyBlock *block) {
  fprintf(page->out, "\n### %s\n\n%s\n", block_title(block, page->arena), block->help);
  if (!block->specs) return;
  print_columns(page->out);
  for (const OptionSpec *spec = block->specs; spec->key; spec++) {
    fprintf(page->out, "| `%s` | ", spec->key);
    print_row(page, block, spec);
  }
}

/* The row of a full name, and a link to its block. */
static void print_first(const Page *page, const char *name) {
  for (size_t i = 0; i < page->n; i++)
    for (const OptionSpec *spec = page->blocks[i].specs; spec && spec->key; spec++) {
      if (strcmp(keys_name(&page->blocks[i], spec, page->arena), name) != 0) continue;
      fputs("| ", page->out);
      print_link(page, name, block_title(&page->blocks[i], page->arena));
      fputs(" | ", page->out);
      print_row(page, &page->blocks[i], spec);
      return;
    }
  assert(false);
}

static void print_contents(const Page *page) {
  for (size_t i = 0; i < page->n; i++) {
    const KeyBlock *block = &page->blocks[i];
    const bool goes_on = i > 0 && block->which && strcmp(block[-1].place, block->place) == 0;
    if (block->chapter) fprintf(page->out, "\n- **%s**:", block->chapter);
    fputs(block->chapter ? "\n  " : goes_on ? ", " : ",\n  ", page->out);
    print_block_link(page, block, goes_on);
  }
  fputs("\n- [Number formats](#number-formats), [units](#units)\n", page->out);
}

void keys_print_units(FILE *out) {
  for (Dimension dimension = DIM_NONE; dimension <= DIM_MONEY; dimension++) {
    char units[160];
    units_list(units, sizeof units, dimension);
    fprintf(out, "%-36s %s\n", units_describe(dimension), units);
  }
}

static void print_formats_and_units(FILE *out) {
  fputs("\n## Number formats\n\nA number format is one of", out);
  for (int i = 0; dtype_names[i]; i++)
    fprintf(out, "%s `%s`", i > 0 ? "," : "", dtype_names[i]);
  fputs(".\n\n## Units\n\nA quantity is a number and one of its units, with or without a space "
        "between: `80 GiB`, `1.5ms`.\n\n| type | units |\n|---|---|\n",
        out);
  for (Dimension dimension = DIM_NONE; dimension <= DIM_MONEY; dimension++) {
    char units[160];
    units_list(units, sizeof units, dimension);
    fprintf(out, "| %s | %s |\n", units_describe(dimension), units);
  }
}

static const char INTRODUCTION[] =
    "# Keys\n\n"
    "<!-- Written by `tandem list options --format markdown`; `ninja -C build keys` writes it "
    "anew. -->\n\n"
    "This page has every key of the YAML files that Tandem reads: configurations, studies (a\n"
    "configuration with a block `sweep` or `provision`), machine files, model files and preset "
    "files.\n"
    "`tandem list options TEXT` prints the keys that have TEXT in their names.\n\n"
    "- A table has one row per key: the type of its value and the allowed range, the default, and "
    "what it\n  sets. A default in `this font` is a value that could be written; other defaults "
    "are described in words.\n"
    "- Capitals stand for names of your own: `pools.NAME.count` is `count` of any pool.\n"
    "- Where a value is a name, the command `tandem list WHAT` beside the type prints the known "
    "names.\n"
    "- `--set pools.prefill.count=3` sets any key of a configuration on the command line, and "
    "`--set KEY=null`\n  removes it.\n\n"
    "## The keys that matter most\n";

void keys_print_markdown(FILE *out) {
  Arena arena;
  arena_init(&arena);
  Page page = {.arena = &arena, .out = out};
  page.blocks = keys_blocks(&page.n, &arena);
  fputs(INTRODUCTION, out);
  print_columns(out);
  for (int i = 0; keys_first[i]; i++)
    print_first(&page, keys_first[i]);
  fputs("\n## Contents\n", out);
  print_contents(&page);
  for (size_t i = 0; i < page.n; i++) {
    if (page.blocks[i].chapter) fprintf(out, "\n## %s\n", page.blocks[i].chapter);
    print_block(&page, &page.blocks[i]);
  }
  print_formats_and_units(out);
  arena_done(&arena);
}
