/* Rows of measurements of any bytes. Whatever a file holds, it is refused with an entry, or each of
 * its rows has a configuration or a reason; the small ones are simulated, and have figures or a
 * reason then; all of it can be printed. */
#include "experiments/measured/measured.h"
#include "tests/fuzz/files.h"
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Leaves others without a simulation. */
static void keep_small(Measured *measured) {
  enum { CLIENTS = 8, TOKENS = 4096, POINTS = 4 };
  size_t n = 0;
  for (size_t i = 0; i < measured->n_points; i++) {
    MeasuredPoint *point = &measured->points[i];
    const bool small = point->clients <= CLIENTS && point->prompt_tokens.most <= TOKENS &&
                       point->output_tokens.most <= TOKENS;
    if (!point->why && (!small || ++n > POINTS)) point->why = "it is large";
  }
}

static void simulate(Measured *measured, Diag *diag, FILE *out) {
  keep_small(measured);
  assert(measured_simulate(measured, 1, (size_t)64 << 20, diag) == 0);
  for (size_t i = 0; i < measured->n_points; i++) {
    const MeasuredPoint *point = &measured->points[i];
    assert(point->why || point->predicted[MEASURED_TTFT] > 0);
  }
  measured_print_table(measured, true, measured->arena, out);
  measured_print_points(measured, OUTPUT_CSV, out);
  measured_print_html(measured, measured->arena, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_file("input", data, size);
  const char *source = getenv("TANDEM_SOURCE_DIR");
  if (source) setenv("TANDEM_DATA", source, 1);
  FILE *out = fopen("/dev/null", "w");
  assert(out);
  Arena arena;
  Diag diag;
  Measured measured;
  arena_init(&arena);
  diag_init(&diag);
  const MeasuredOptions options = {.rows = path, .perfmodel = "roofline"};
  const int status = measured_load(&measured, &options, &arena, &diag);
  assert((status < 0) == (diag.n_entries > 0));
  for (size_t i = 0; status == 0 && i < measured.n_points; i++)
    assert(!measured.points[i].why == !!measured.points[i].config);
  if (status == 0) simulate(&measured, &diag, out);
  diag_done(&diag);
  arena_done(&arena);
  fclose(out);
  return 0;
}
