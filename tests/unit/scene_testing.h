/* What tests of whole runs share: a Scene of their own in each, and checks of times. */
#ifndef TESTS_UNIT_SCENE_TESTING_H
#define TESTS_UNIT_SCENE_TESTING_H
#include "tests/unit/sim_testing.h"

static Scene scene;

static inline void setup_scene(void) {
  setup();
  scene_init(&scene, &arena, &diag);
}

static inline void run(const TraceRow *rows, size_t n_rows) {
  scene_run_both(&scene, rows, n_rows);
}

static inline void expect_at(Tick got, Tick want_us, const char *what) {
  cr_expect_eq(got, want_us * US, "%s at %.6f ms, not %.6f", what, (double)got / (double)MS,
               (double)want_us / 1000);
}
#endif
