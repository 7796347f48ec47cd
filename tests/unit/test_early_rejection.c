/* Mooncake's early rejection on cases computed by hand: a prompt of P tokens takes 10 + P ms, a
 * step of n sequences with prompts of 100 takes 10 + 2·n ms. */
#include "tests/unit/sim_testing.h"

static Scene scene;

static void setup_scene(void) {
  setup();
  scene_init(&scene, &arena, &diag);
}

TestSuite(early_rejection, .init = setup_scene, .fini = teardown);

static void limit(int64_t ttft_ms, int64_t tbt_ms, bool predicts, int64_t decode_ms) {
  scene.config.early_rejection = (EarlyRejectionOptions){.ttft = ttft_ms * MS,
                                                         .tbt = tbt_ms * MS,
                                                         .predicts = predicts,
                                                         .decode_time = decode_ms * MS};
}

static void expect(const TraceRow *rows, size_t n, const bool *rejected) {
  scene_run_both(&scene, rows, n);
  for (size_t i = 0; i < n; i++)
    cr_expect_eq(scene.records[i].rejected, rejected[i] ? REJECTED_ADMISSION : REJECTED_NOT,
                 "limit %g s: request %zu", tick_seconds(scene.config.early_rejection.ttft), i);
}

/* Behind a prompt of 90 tokens another one has its first token after 2 · (10 + 90 + 1 + 0.9) ms,
 * with the decode of the first beside both. */
Test(early_rejection, a_prompt_that_would_be_late_is_rejected) {
  const TraceRow rows[] = {row(0, 90, 1), row(1 * MS, 90, 1), row(150 * MS, 90, 1)};
  limit(203, 1000, true, 1000);
  expect(rows, COUNT(rows), (bool[]){false, true, false});
  limit(204, 1000, true, 1000);
  expect(rows, COUNT(rows), (bool[]){false, false, false});
}

/* Three sequences step in 16 ms. Nobody decodes yet when three come at once: only the prediction
 * knows that they will. */
Test(early_rejection, the_prediction_knows_who_is_still_prefilled) {
  scene_split(&scene, 1, 1);
  const TraceRow rows[] = {row(0, 100, 20), row(1 * MS, 100, 20), row(2 * MS, 100, 20)};
  limit(10000, 15, true, 10000);
  expect(rows, COUNT(rows), (bool[]){false, false, true});
  limit(10000, 15, false, 10000);
  expect(rows, COUNT(rows), (bool[]){false, false, false});
}

/* Two decode since 0.2 s. At 1 s a third one is too many, but not if requests are known to decode
 * for half a second. */
Test(early_rejection, the_prediction_takes_away_who_will_have_ended) {
  scene_split(&scene, 1, 1);
  const TraceRow rows[] = {row(0, 100, 400), row(1 * MS, 100, 400), row(1000 * MS, 100, 20)};
  limit(10000, 15, true, 10000);
  expect(rows, COUNT(rows), (bool[]){false, false, true});
  limit(10000, 15, true, 500);
  expect(rows, COUNT(rows), (bool[]){false, false, false});
  limit(10000, 15, false, 500);
  expect(rows, COUNT(rows), (bool[]){false, false, true});
}
