/* Tables. Pinned: what a header may lack, how cells become fields, and where each message stands.
 * Not pinned: that files larger than the limit are refused, which would need one. */
#include "base/csv.h"
#include "base/rng.h"
#include "tests/unit/testing.h"
#include <math.h>
#include <stdlib.h>
#include <zlib.h>

typedef struct Row {
  const char *name;
  int64_t count;
  double time, extra;
} Row;

static const CsvColumn COLUMNS[] = {CSV_FIELD(Row, name, CSV_TEXT, CSV_ANY),
                                    CSV_FIELD(Row, count, CSV_INT, CSV_NOT_NEGATIVE),
                                    CSV_FIELD(Row, time, CSV_REAL, CSV_POSITIVE),
                                    {.name = "extra",
                                     .type = CSV_REAL,
                                     .offset = offsetof(Row, extra),
                                     .may_be_empty = true,
                                     .may_miss = true},
                                    {0}};

TestSuite(csv, .init = setup, .fini = teardown);

static Csv open_text(const char *text) {
  Csv csv;
  csv_open_text(&csv, "test", text, strlen(text), &arena);
  return csv;
}

Test(csv, rows_fill_structs_whatever_the_order_of_columns) {
  Csv csv = open_text("\xef\xbb\xbf# a: b\n#c\r\n\ntime,count,note,name\r\n"
                      "1.5, 8.0 ,\"x, y\",one\n\n2e3,0,,\"two, too\"");
  Row row = {0};
  Field comment;
  cr_assert(csv_comment(&csv, &comment));
  cr_assert(comment.length == 4 && memcmp(comment.text, "a: b", 4) == 0);
  cr_assert(csv_comment(&csv, &comment));
  cr_assert_not(csv_comment(&csv, &comment));
  cr_assert_eq(csv_header(&csv, COLUMNS, false, &diag), 0);
  cr_assert(csv_has(&csv, "time"));
  cr_assert_not(csv_has(&csv, "extra"));
  cr_assert_eq(csv_next(&csv, &row, &diag), 1);
  cr_assert(row.time == 1.5 && row.count == 8 && isnan(row.extra));
  cr_assert_str_eq(row.name, "one");
  cr_assert_eq(csv_place(&csv, "count").column, 6);
  cr_assert_eq(csv_place(&csv, NULL).line, 5);
  cr_assert_eq(csv_next(&csv, &row, &diag), 1);
  cr_assert(row.time == 2000 && row.count == 0);
  cr_assert_str_eq(row.name, "two, too");
  cr_assert_eq(csv_next(&csv, &row, &diag), 0);
  cr_assert_eq(diag.n_entries, 0);
}

Test(csv, equal_texts_of_neighbours_are_one_pointer) {
  Csv csv = open_text("name,count,time\na,1,1\na,1,1\nb,1,1\n");
  Row row = {0};
  cr_assert_eq(csv_header(&csv, COLUMNS, true, &diag), 0);
  cr_assert_eq(csv_next(&csv, &row, &diag), 1);
  const char *first = row.name;
  cr_assert_eq(csv_next(&csv, &row, &diag), 1);
  cr_assert_eq(row.name, first);
  cr_assert_eq(csv_next(&csv, &row, &diag), 1);
  cr_assert_str_eq(row.name, "b");
  cr_assert_str_eq(first, "a");
}

Test(csv, headers_that_do_not_fit_are_located) {
  static const struct {
    const char *text, *part;
    int line, column;
  } cases[] = {
      {"", "has no header row", 0, 0},
      {"# only: a comment\n", "has no header row", 0, 0},
      {"name,time\n", "missing column 'count'", 1, 1},
      {"name,count,time,count\n", "duplicate column 'count'", 1, 17},
      {"name,count,time,colour\n", "unknown column 'colour'", 1, 17},
      {"name,count,time,\n", "unknown column ''", 1, 17},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Csv csv = open_text(cases[i].text);
    diag.n_entries = 0;
    cr_expect_eq(csv_header(&csv, COLUMNS, true, &diag), -1);
    expect_entry(&diag, 0, cases[i].line, cases[i].column, cases[i].part, cases[i].text);
  }
}

Test(csv, cells_that_do_not_fit_are_located_and_the_next_row_is_read) {
  static const struct {
    const char *row, *part;
    int column;
  } cases[] = {
      {"a,1", "expected 3 fields as in the header, found 2", 1},
      {"a,1,1,1", "expected 3 fields as in the header, found 4", 1},
      {",1,1", "'name' is empty", 1},
      {"a\tb,1,1", "'name' must be text in UTF-8 without quotes and control characters", 1},
      {"a\"b,1,1", "'name' must be text in UTF-8 without quotes and control characters", 1},
      {"a\x1b,1,1", "'name' must be text in UTF-8", 1},
      {"a\xc2\x9b,1,1", "'name' must be text in UTF-8", 1},
      {"a\xff,1,1", "'name' must be text in UTF-8", 1},
      {"a,,1", "'count' is empty, but must be a whole number, 0 or more", 3},
      {"a,-1,1", "'count' must be a whole number, 0 or more, not '-1'", 3},
      {"a,1.5,1", "'count' must be a whole number, 0 or more, not '1.5'", 3},
      {"a,1e30,1", "'count' must be a whole number, 0 or more", 3},
      {"a,1,0", "'time' must be a number above 0, not '0'", 5},
      {"a,1,nan", "'time' must be a number above 0, not 'nan'", 5},
      {"a,1,inf", "'time' must be a number above 0, not 'inf'", 5},
      {"a,1,0x10", "'time' must be a number above 0, not '0x10'", 5},
      {"a,1,1e999", "'time' must be a number above 0, not '1e999'", 5},
      {"a,1,1 ms", "'time' must be a number above 0, not '1 ms'", 5},
      {"a,1,-", "'time' must be a number above 0, not '-'", 5},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Csv csv = open_text(arena_printf(&arena, "name,count,time\n%s\nb,2,3\n", cases[i].row));
    Row row = {0};
    diag.n_entries = 0;
    cr_assert_eq(csv_header(&csv, COLUMNS, true, &diag), 0);
    cr_expect_eq(csv_next(&csv, &row, &diag), -1, "%s", cases[i].row);
    expect_entry(&diag, 0, 2, cases[i].column, cases[i].part, cases[i].row);
    cr_expect_eq(csv_next(&csv, &row, &diag), 1);
    cr_expect(row.count == 2 && row.time == 3);
  }
}

Test(csv, files_that_cannot_be_read_are_the_environment) {
  static const char *const paths[] = {"/no/such/file", "/"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    Csv csv;
    cr_expect_eq(csv_open(&csv, paths[i], &arena, &diag), -1);
    cr_expect_eq(diag.entries[i].kind, DIAG_ENVIRONMENT);
  }
}

Test(csv, gzip_reads_like_plain_text_and_damage_is_found) {
  static const char text[] = "name,count,time\na,1,2\nb,3,4\n";
  const char *packed = temp_file("", 0, &arena);
  gzFile out = gzopen(packed, "wb");
  cr_assert_eq(gzwrite(out, text, sizeof text - 1), (int)sizeof text - 1);
  cr_assert_eq(gzclose(out), Z_OK);
  Csv csv;
  Row row = {0};
  cr_assert_eq(csv_open(&csv, packed, &arena, &diag), 0);
  cr_assert_eq(csv_header(&csv, COLUMNS, true, &diag), 0);
  cr_expect_eq(csv_next(&csv, &row, &diag), 1);
  cr_expect_eq(csv_next(&csv, &row, &diag), 1);
  cr_expect(row.count == 3 && csv_place(&csv, "time").line == 3);
  cr_expect_eq(csv_next(&csv, &row, &diag), 0);
  cr_assert_eq(truncate(packed, 20), 0);
  cr_expect_eq(csv_open(&csv, packed, &arena, &diag), -1);
  expect_entry(&diag, 0, 1, 0, "cut short", "half of it");
  unlink(packed);
}

/* What csv_put_text writes of a cell. */
static const char *put(const char *text) {
  char *written = arena_alloc(&arena, 256);
  FILE *out = fmemopen(written, 256, "w");
  csv_put_text(text, out);
  fclose(out);
  return written;
}

Test(csv, what_a_spreadsheet_would_run_is_marked_and_numbers_are_not) {
  static const struct {
    const char *text, *written;
  } cases[] = {{"plain", "plain"},
               {"=1+1", "'=1+1"},
               {"+A1", "'+A1"},
               {"-cmd|' /C calc'!A0", "'-cmd|' /C calc'!A0"},
               {"@SUM(A1)", "'@SUM(A1)"},
               {"-", "'-"},
               {"-1.5", "-1.5"},
               {"+2e3", "+2e3"},
               {"-15%", "-15%"},
               {"'=1", "''=1"},
               {"'quoted'", "'quoted'"},
               {"=a,b", "\"'=a,b\""},
               {"=\"x\"", "\"'=\"\"x\"\"\""},
               {"a\nb", "\"a\nb\""},
               {"\x1b[2J\xc2\x9b\xff", "?[2J??"},
               {"", ""}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    cr_expect_str_eq(put(cases[i].text), cases[i].written);
}

Test(csv, what_is_written_of_a_text_reads_back_to_it) {
  static const char *const texts[] = {"a",  "=1+1", "'=1", "''=1", "'",   "''",  "'a'",
                                      "-5", "'-5",  "@",   "+",    "-5%", "=a,b"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    Csv csv = open_text(arena_printf(&arena, "name,count,time\n%s,2,3\n", put(texts[i])));
    Row row = {0};
    cr_assert_eq(csv_header(&csv, COLUMNS, true, &diag), 0);
    cr_assert_eq(csv_next(&csv, &row, &diag), 1, "%s", texts[i]);
    cr_expect_str_eq(row.name, texts[i]);
  }
}

Test(csv, numbers_are_the_nearest_ones_to_their_digits) {
  Rng rng;
  rng_init(&rng, 3, "csv numbers");
  for (int i = 0; i < 20000; i++) {
    char text[40];
    const int digits = 1 + (int)rng_below(&rng, 20), point = (int)rng_below(&rng, 22);
    int length = 0;
    for (int k = 0; k < digits; k++) {
      if (k == point) text[length++] = '.';
      text[length++] = (char)('0' + rng_below(&rng, 10));
    }
    text[length] = '\0';
    double value = -1;
    cr_assert(field_real((Field){text, length}, &value), "%s", text);
    cr_assert(value == strtod(text, NULL), "%s gave %.17g", text, value);
  }
  double value = 0;
  cr_expect_not(field_real((Field){".", 1}, &value));
  cr_expect_not(field_real((Field){"1.2.3", 5}, &value));
  cr_expect(field_real((Field){"5.", 2}, &value) && value == 5);
}
