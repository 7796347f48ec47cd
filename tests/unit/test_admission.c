/* Who is admitted: limits, buckets, classes and fairness among tenants
 * (sim/feature/admission.h). */
#include "tests/unit/scene_testing.h"
#include <criterion/criterion.h>

static ClassSpec classes[2];
static TenantSpec tenants[2];
static ComponentSpec components[2];

/* Two components, each of a class and a tenant of its own, without limits; a request of 90 tokens
 * and one of output is alone on the machine for 100 ms. */
static void setup_admission(void) {
  setup_scene();
  for (int i = 0; i < 2; i++) {
    classes[i] = (ClassSpec){.name = "class", .max_queue = -1};
    tenants[i] = (TenantSpec){.name = "tenant", .weight = 1};
    components[i] = (ComponentSpec){.name = "component", .class = (uint8_t)i, .tenant = (uint8_t)i};
  }
  scene.config.classes = classes;
  scene.config.tenants = tenants;
  scene.config.components = components;
  scene.config.n_classes = scene.config.n_tenants = scene.config.n_components = 2;
}

TestSuite(admission, .init = setup_admission, .fini = teardown);

static TraceRow row_of(int component, Tick at, int32_t prompt_tokens, int32_t output_tokens) {
  TraceRow made = row(at, prompt_tokens, output_tokens);
  made.component = (uint16_t)component;
  return made;
}

static void expect_first_token(int request, Tick want_us, const char *what) {
  expect_at(scene.records[request].first_token_at, want_us, what);
}

Test(admission, a_full_class_holds_others_in_line) {
  classes[0].max_in_flight = 1;
  const TraceRow rows[] = {row_of(0, 0, 90, 1), row_of(0, 10 * MS, 90, 1),
                           row_of(0, 20 * MS, 90, 1)};
  run(rows, 3);
  expect_first_token(0, 100000, "the first");
  expect_first_token(1, 200000, "as it leaves the second");
  expect_first_token(2, 300000, "then the third");
  cr_expect_eq(scene.result.metrics.held, 2u);
  cr_expect_eq(scene.parts[2].of[CAUSE_admission], 180 * MS, "from 20 ms to 200 ms");
}

Test(admission, a_full_class_rejects_or_cuts) {
  classes[0] = (ClassSpec){.max_in_flight = 1, .action = ADMISSION_REJECT, .max_queue = -1};
  classes[1] = (ClassSpec){.max_in_flight = 1, .action = ADMISSION_DEGRADE, .output_tokens = 2};
  const TraceRow rows[] = {row_of(0, 0, 90, 9), row_of(0, 1 * MS, 90, 9), row_of(1, 2 * MS, 90, 9),
                           row_of(1, 3 * MS, 90, 9)};
  run(rows, 4);
  cr_expect_eq(scene.records[1].rejected, REJECTED_ADMISSION);
  cr_expect_eq(scene.records[2].output_tokens, 9);
  cr_expect_eq(scene.records[3].output_tokens, 2, "cut");
  cr_expect_eq(scene.result.metrics.degraded, 1u);
  cr_expect_eq(scene.result.metrics.asked.gaps, 8u + 8 + 8 + 1, "nobody asked for what was cut");
}

Test(admission, a_queue_has_an_end) {
  classes[0].max_in_flight = 1;
  classes[0].max_queue = 1;
  const TraceRow rows[] = {row_of(0, 0, 90, 1), row_of(0, 1 * MS, 90, 1), row_of(0, 2 * MS, 90, 1)};
  run(rows, 3);
  expect_first_token(1, 200000, "held");
  cr_expect_eq(scene.records[2].rejected, REJECTED_ADMISSION);
}

/* A token is paid for in 10 ms: 91 of a request take 910 ms, from when its tenant was in debt. */
Test(admission, a_bucket_is_filled_at_its_rate) {
  tenants[0].token_ticks = 10 * MS;
  tenants[0].burst = 500 * MS;
  const TraceRow rows[] = {row_of(0, 1000 * MS, 90, 1), row_of(0, 1001 * MS, 90, 1),
                           row_of(1, 1002 * MS, 90, 1)};
  run(rows, 3);
  expect_first_token(0, 1100000, "half a second is saved up");
  // paid until 500 + 900 ms as it came in, 10 ms more as it had its token
  expect_first_token(1, 1410000 + 100000, "1000 - 500 + 91 x 10 ms");
  expect_first_token(2, 1200000, "another tenant does not wait for that");
}

Test(admission, classes_go_by_priority) {
  tenants[0].max_in_flight = tenants[1].max_in_flight = 1;
  classes[0].priority = 1;
  classes[0].max_in_flight = classes[1].max_in_flight = 1;
  components[1].tenant = 0; // one tenant for both
  const TraceRow rows[] = {row_of(0, 0, 90, 1), row_of(0, 1 * MS, 90, 1), row_of(1, 2 * MS, 90, 1)};
  run(rows, 3);
  expect_first_token(2, 200000, "less goes first");
  expect_first_token(1, 300000, "before one who came earlier");
}

/* Sheng et al., Theorem 4.4: of two that always wait, services over weights differ by at most
 * 2 max(w_p L_input, w_q M). Here a request is 90 + 2, one is in flight at a time, and the second
 * tenant has twice the weight: 92 n - 46 m is within 184. */
Test(admission, those_who_wait_are_served_by_weight) {
  enum { EACH = 24 };
  TraceRow rows[2 * EACH];
  tenants[1].weight = 2;
  components[1].class = 0;
  classes[0].max_in_flight = 1;
  for (int i = 0; i < 2 * EACH; i++)
    rows[i] = row_of(i < EACH ? 0 : 1, 0, 90, 1);
  run(rows, 2 * EACH);
  int n[2] = {0, 0};
  for (Tick at = 100 * MS; n[0] < EACH && n[1] < EACH; at += 100 * MS) {
    for (int i = 0; i < 2 * EACH; i++)
      if (scene.records[i].first_token_at == at) n[rows[i].component]++;
    cr_assert(n[0] * 2 - n[1] <= 4 && n[1] - n[0] * 2 <= 4, "%d and %d at %g s", n[0], n[1],
              tick_seconds(at));
  }
  cr_expect(n[1] == EACH && n[0] <= EACH / 2 + 2, "twice the weight is through first");
}

/* Lines 7 to 13: who asked for nothing while another was served has not saved that up. */
Test(admission, nobody_saves_up_by_staying_away) {
  enum { EACH = 10 };
  TraceRow rows[2 * EACH];
  components[1].class = 0;
  classes[0].max_in_flight = 1;
  for (int i = 0; i < EACH; i++)
    rows[i] = row_of(0, 0, 90, 1);
  for (int i = EACH; i < 2 * EACH; i++)
    rows[i] = row_of(1, 450 * MS, 90, 1); // five of the other are served or in service
  run(rows, 2 * EACH);
  expect_first_token(EACH, 600000, "of equals, or nearly, the one with less");
  expect_first_token(5, 700000, "then by turns");
  expect_first_token(EACH + 1, 800000, "by turns");
}
