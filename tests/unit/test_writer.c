/* Pinned: what JSON and tables have of texts that hold anything. */
#include "experiments/base/writer.h"
#include <criterion/criterion.h>
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
