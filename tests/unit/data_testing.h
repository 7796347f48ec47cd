/* What tests over the data of perfmodel/ begin and end with: an arena, a Diag, the folder. */
#ifndef TESTS_UNIT_DATA_TESTING_H
#define TESTS_UNIT_DATA_TESTING_H
#include "sim/base/diag.h"
#include <criterion/criterion.h>
#include <stdlib.h>

static Arena arena;
static Diag diag;
static const char *data_dir;

static void setup(void) {
  arena_init(&arena);
  diag_init(&diag);
  const char *source = getenv("TANDEM_SOURCE_DIR");
  cr_assert_not_null(source);
  data_dir = arena_printf(&arena, "%s/perfmodel", source);
}

static void teardown(void) {
  diag_done(&diag);
  arena_done(&arena);
}
#endif
