/* Pinned: what JSON and tables have of texts that hold anything. */
#include "experiments/base/cells.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

typedef void WriteText(const char *text, FILE *out);

static const char *written(WriteText *write, const char *text) {
  static char buffer[256];
  FILE *out = fmemopen(buffer, sizeof buffer, "w");
  write(text, out);
  fclose(out);
  return buffer;
}

Test(writer, json_is_utf_8_without_control_characters) {
  static const struct {
    const char *text, *json;
  } cases[] = {{"a\"b\\", "\"a\\\"b\\\\\""},
               {"caf\xc3\xa9", "\"caf\xc3\xa9\""},
               {"\x1b\n\x7f", "\"\\u001b\\u000a\\u007f\""},
               {"\xc2\x9b", "\"\\u009b\""},
               {"a\xff"
                "b\xe2\x82",
                "\"a\\ufffdb\\ufffd\\ufffd\""},
               {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},
               {"", "\"\""}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    cr_expect_str_eq(written(write_json_string, cases[i].text), cases[i].json);
}

static void write_left(const char *text, FILE *out) {
  write_cell(text, -4, out);
  putc('|', out);
}

static void write_right(const char *text, FILE *out) {
  write_cell(text, 4, out);
}

Test(writer, cells_of_tables_are_harmless_and_aligned_by_characters) {
  cr_expect_str_eq(written(write_left, "a\x1b\n"), "a?? |");
  cr_expect_str_eq(written(write_left, "\xc3\xa9\xff"), "\xc3\xa9?  |");
  cr_expect_str_eq(written(write_right, "ab"), "  ab");
  cr_expect_str_eq(written(write_right, "abcdef"), "abcdef");
}

/* ---- Rows of cells ---- */

static void write_three(const void *of, FILE *out) {
  fprintf(out, "[%s, 2, 3]", (const char *)of);
}

/* A known row and one of which nothing is known. */
static void expect_rows(OutputFormat format, bool any, const char *want) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  Rows rows = {format, out, "> ", .gap = "\n  ", .end = "\n]"};
  for (int i = 0; any && i < 2; i++)
    rows_put(&rows, (Cell[]){{CELL_OF_TEXT("na\"me", i ? NULL : "a,b"), COLUMN("who", -5)},
                             {CELL_OF_NUMBER("share", i ? NAN : 0.5), COLUMN("%", 6),
                              .format = "%.4f", .show = "%.1f"},
                             {CELL_OF_WHOLE("n", 9007199254740993 + i), .only = CELL_IN_JSON},
                             {CELL_OF_NUMBER("x", i ? INFINITY : 1.0 / 3), COLUMN("x", 9)},
                             {CELL_OF_FLAG("is", i == 0)},
                             {CELL_OF_TEXT("never", "seen"), .only = CELL_NOWHERE},
                             {CELL_OF_JSON("list", write_three, "1"), .text = "one to three"},
                             {CELL_OF_WHOLE("count", i), COLUMN("", 3), .only = CELL_IN_TABLE},
                             {CELL_OF_TEXT(NULL, i ? NULL : "end"), COLUMN("at", 0)},
                             {0}});
  rows_end(&rows);
  cr_assert_eq(fclose(out), 0);
  cr_expect_str_eq(text, want, "\n%s", text);
  free(text);
}

Test(cells, one_list_for_all_formats) {
  expect_rows(OUTPUT_TABLE, true,
              "> who        %         x      at\n"
              "> a,b      0.5  0.333333   0  end\n"
              "> -          -       inf   1  -\n");
  expect_rows(OUTPUT_CSV, true,
              "\"na\"\"me\",share,x,is,list\n"
              "\"a,b\",0.5000,0.333333333,1,one to three\n"
              ",,,0,one to three\n");
  expect_rows(OUTPUT_JSON, true,
              "[\n  {\"na\\\"me\": \"a,b\", \"share\": 0.5000, \"n\": 9007199254740993, \"x\": "
              "0.333333333, \"is\": true, \"list\": [1, 2, 3]},\n  {\"na\\\"me\": null, \"share\": "
              "null, \"n\": 9007199254740994, \"x\": null, \"is\": false, \"list\": [1, 2, 3]}\n]");
}

Test(cells, no_rows) {
  expect_rows(OUTPUT_TABLE, false, "");
  expect_rows(OUTPUT_CSV, false, "");
  expect_rows(OUTPUT_JSON, false, "[]");
}

Test(cells, headings_alone) {
  const Cell cells[] = {{CELL_OF_TEXT("name", "value"), COLUMN("Name", 0)}, {0}};
  char text[64] = "";
  FILE *out = fmemopen(text, sizeof text, "w");
  Rows table = {OUTPUT_TABLE, out, "", .headings_only = true};
  Rows csv = {OUTPUT_CSV, out, "", .headings_only = true};
  rows_put(&table, cells);
  rows_put(&csv, cells);
  csv.headings_only = false;
  rows_put(&csv, cells);
  cr_assert_eq(fclose(out), 0);
  cr_expect_str_eq(text, "Name\nname\nvalue\n");
}

Test(cells, lines_of_figures) {
  char text[128] = "";
  FILE *out = fmemopen(text, sizeof text, "w");
  cells_figures((Cell[]){{CELL_OF_TEXT("what", "is no figure")},
                         {CELL_OF_NUMBER("mean", 0.25), .unit = "s"},
                         {CELL_OF_NUMBER("shown", 1), .only = CELL_IN_JSON},
                         {CELL_OF_NUMBER("max", NAN)},
                         {0}},
                "pool.a,b", "tbt", out);
  cr_assert_eq(fclose(out), 0);
  cr_expect_str_eq(text, "\"pool.a,b\",tbt,mean,0.25,s\n\"pool.a,b\",tbt,max,,\n");
}

Test(cells, percents) {
  char text[64] = "";
  FILE *out = fmemopen(text, sizeof text, "w");
  Rows rows = {.format = OUTPUT_TABLE, .out = out, .indent = ""};
  rows_put(&rows, (Cell[]){{CELL_OF_NUMBER("a", 0.125), COLUMN_PERCENT("a", 7, "%+.1f")},
                           {CELL_OF_NUMBER("b", NAN), COLUMN_PERCENT("b", 3, "%.0f")},
                           {0}});
  cr_assert_eq(fclose(out), 0);
  cr_expect_str_eq(text, "      a   b\n +12.5%   -\n");
}
