/* Profiles of rates of any bytes, and arrivals by them: the first byte says if they repeat, whether
 * rates are linear between steps, and which gaps there are; the rest is the table. What is refused
 * has an entry, what is not has none; what loads has rates as profiles.h promises, and its arrivals
 * come in order of time. */
#include "traces/arrivals.h"
#include "traces/profiles.h"
#include <assert.h>
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void draw(const RateProfile *profile, uint8_t how, Arena *arena) {
  enum { ARRIVALS = 200 };
  ArrivalPattern pattern = {.given = true, .gaps = (ArrivalProcess)(how >> 2 & 1), .cv = 2};
  if (how & 8) pattern.gaps = ARRIVAL_FIXED;
  rate_curve_steps(&pattern.curve, profile->values, profile->n, profile->step, how & 1, how & 2,
                   arena);
  const double mean = rate_curve_mean(&pattern.curve);
  assert(mean > 0 && isfinite(mean) && rate_curve_peak(&pattern.curve) >= mean * (1 - 1e-9));
  const double span = tick_seconds(profile->step) * profile->n;
  rate_curve_scale(&pattern.curve, ARRIVALS / span / mean, arena);
  ArrivalDraw arrivals;
  arrival_draw_init(&arrivals, &pattern, (uint64_t)profile->n);
  Tick at = 0, last = 0;
  for (int i = 0; i < ARRIVALS && arrival_draw_next(&arrivals, &at) > 0; i++) {
    assert(at >= last);
    last = at;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  Arena arena;
  Diag diag;
  Csv csv;
  RateProfile profile;
  arena_init(&arena);
  diag_init(&diag);
  csv_open_text(&csv, "fuzz", (const char *)data + 1, size - 1, &arena);
  const int status = profile_read(&profile, &csv, place_of_file("fuzz"), &arena, &diag);
  assert((status < 0) == (diag.n_entries > 0));
  for (int i = 0; status == 0 && i < profile.n; i++)
    assert(profile.values[i] >= 0 && isfinite(profile.values[i]));
  if (status == 0) draw(&profile, data[0], &arena);
  diag_done(&diag);
  arena_done(&arena);
  return 0;
}
