/* Checks for people, with what to do below each that needs it, and for programs. */
#include "base/text.h"
#include "experiments/base/cells.h"
#include "experiments/doctor/doctor.h"
#include <math.h>
#include <string.h>

static const char *const VERDICTS[] = {"ok", "noted", "noisy", "missed"};

/* "93.1%, at least 85%", "1.980, from 1.9 to 2.1", or nothing. */
static const char *band_text(const Doctor *self, const DoctorCheck *check) {
  Arena *arena = self->arena;
  if (isnan(check->value)) return "";
  if (check->is_ratio)
    return arena_printf(arena, "; %.3f, from %g to %g", check->value, check->low, check->high);
  const char *share = arena_printf(arena, "; %.1f%%", 100 * check->value);
  if (!isnan(check->low) && !(check->value > check->high))
    return arena_printf(arena, "%s, at least %g%%", share, 100 * check->low);
  return arena_printf(arena, "%s, at most %g%%", share, 100 * check->high);
}

static void print_check(const Doctor *self, const DoctorCheck *check, bool is_first) {
  printf("%-8s ", is_first ? check->part : "");
  write_cell(check->name, -21, stdout);
  printf(" %-6s  %s%s\n", VERDICTS[check->verdict], text_shown(check->found, self->arena),
         band_text(self, check));
  if (check->advice) printf("%-38s  -> %s\n", "", check->advice);
}

static void print_table(const Doctor *self) {
  int n[DOCTOR_MISSED + 1] = {0};
  const char *part = "";
  for (size_t i = 0; i < self->n; i++) {
    const DoctorCheck *check = &self->checks[i];
    print_check(self, check, strcmp(part, check->part) != 0);
    part = check->part;
    n[check->verdict]++;
  }
  printf("%zu checks: %d ok, %d noted, %d noisy, %d missed\n", self->n, n[DOCTOR_OK],
         n[DOCTOR_NOTED], n[DOCTOR_NOISY], n[DOCTOR_MISSED]);
}

void doctor_print(const Doctor *self, OutputFormat format) {
  Rows rows = {.format = format, .out = stdout, .gap = "\n    ", .end = "\n  ]\n}\n"};
  if (format == OUTPUT_TABLE) {
    print_table(self);
    return;
  }
  if (format == OUTPUT_JSON)
    printf("{\n  \"verdict\": \"%s\",\n  \"checks\": ", VERDICTS[doctor_verdict(self)]);
  for (size_t i = 0; i < self->n; i++) {
    const DoctorCheck *check = &self->checks[i];
    rows_put(&rows, (Cell[]){{CELL_OF_TEXT("part", check->part)},
                             {CELL_OF_TEXT("name", check->name)},
                             {CELL_OF_TEXT("verdict", VERDICTS[check->verdict])},
                             {CELL_OF_NUMBER("value", check->value)},
                             {CELL_OF_NUMBER("low", check->low)},
                             {CELL_OF_NUMBER("high", check->high)},
                             {CELL_OF_TEXT("found", check->found)},
                             {CELL_OF_TEXT("advice", check->advice)},
                             {0}});
  }
  rows_end(&rows);
}
