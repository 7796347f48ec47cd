/* Keys as lists for people and as a page. */
#include "experiments/keys/keys.h"
#include <ctype.h>
#include <string.h>

/* "workload, of a trace" */
static const char *block_title(const KeyBlock *block, Arena *arena) {
  const char *place = *block->place ? block->place : "CONFIG";
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

/* What a heading is linked by: small letters and digits, hyphens for spaces, else nothing. */
static const char *anchor(const char *title, Arena *arena) {
  char *text = arena_copy(arena, title, strlen(title)), *end = text;
  for (const char *c = title; *c; c++)
    if (*c == ' ')
      *end++ = '-';
    else if (isalnum((unsigned char)*c) || *c == '_' || *c == '-')
      *end++ = (char)tolower((unsigned char)*c);
  *end = '\0';
  return text;
}

/* Of a cell: a bar would end it. */
static void print_cell(const char *text, FILE *out) {
  for (; *text; text++)
    fprintf(out, *text == '|' ? "\\|" : "%c", *text);
}

static void print_row(const OptionSpec *spec, Arena *arena, FILE *out) {
  const char *fallback = option_default(spec);
  const bool is_value = spec->fallback && !spec->required;
  fprintf(out, "| `%s` | ", spec->key);
  print_cell(option_values(spec, arena), out);
  if (spec->listed) fprintf(out, " ([`tandem list %s`](#names))", spec->listed);
  fputs(is_value ? " | `" : " | ", out);
  print_cell(fallback ? fallback : "", out);
  fputs(is_value ? "` | " : " | ", out);
  print_cell(spec->help, out);
  fputs(" |\n", out);
}

static void print_block(const KeyBlock *block, Arena *arena, FILE *out) {
  fprintf(out, "\n### %s\n", block_title(block, arena));
  if (block->help) fprintf(out, "\n%s\n", block->help);
  if (!block->specs) return;
  fputs("\n| key | value | default | |\n|---|---|---|---|\n", out);
  for (const OptionSpec *spec = block->specs; spec->key; spec++)
    print_row(spec, arena, out);
}

static void print_contents(const KeyBlock *blocks, size_t n, Arena *arena, FILE *out) {
  for (size_t i = 0; i < n; i++) {
    const char *title = block_title(&blocks[i], arena);
    if (blocks[i].chapter) fprintf(out, "%s- **%s**:", i > 0 ? "\n" : "\n", blocks[i].chapter);
    fprintf(out, "%s\n  [%s](#%s)", blocks[i].chapter ? "" : ",", title, anchor(title, arena));
  }
  fputs("\n- **[Units](#units)**\n", out);
}

void keys_print_units(FILE *out) {
  for (Dimension dimension = DIM_NONE; dimension <= DIM_MONEY; dimension++) {
    char units[160];
    units_list(units, sizeof units, dimension);
    fprintf(out, "%-36s %s\n", units_describe(dimension), units);
  }
}

static void print_units_markdown(FILE *out) {
  fputs(
      "\n## Units\n\nA quantity is a number and one of its units, with or without a space between: "
      "`80 GiB`, `1.5ms`.\n\n| | units |\n|---|---|\n",
      out);
  for (Dimension dimension = DIM_NONE; dimension <= DIM_MONEY; dimension++) {
    char units[160];
    units_list(units, sizeof units, dimension);
    fprintf(out, "| %s | %s |\n", units_describe(dimension), units);
  }
}

void keys_print_markdown(FILE *out) {
  Arena arena;
  arena_init(&arena);
  size_t n = 0;
  const KeyBlock *blocks = keys_blocks(&n, &arena);
  fputs("# Keys\n\n"
        "<!-- Written by `tandem list options --format markdown`; `ninja -C build keys` writes it "
        "anew. -->\n\n"
        "Every key of the files that Tandem reads, as `tandem list options` prints them: what its "
        "value may be, and\nwhat holds without it. Any key of a configuration can be set on the "
        "command line, `--set pools.prefill.count=3`,\nand `--set KEY=null` takes one out. "
        "Capitals stand for names of your own.\n",
        out);
  print_contents(blocks, n, &arena, out);
  fputs("\n## Names\n\nWhere a value is a name, `tandem list WHAT` prints those that there are.\n",
        out);
  for (size_t i = 0; i < n; i++) {
    if (blocks[i].chapter) fprintf(out, "\n## %s\n", blocks[i].chapter);
    print_block(&blocks[i], &arena, out);
  }
  print_units_markdown(out);
  arena_done(&arena);
}
