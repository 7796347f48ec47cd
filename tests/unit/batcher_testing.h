/* What tests of batchers share: a batcher at work on a machine made by hand, with blocks of one
 * token, and its plans as text. */
#ifndef TESTS_UNIT_BATCHER_TESTING_H
#define TESTS_UNIT_BATCHER_TESTING_H
#include "sim/policies.h"
#include "tests/unit/sim_testing.h"

static Stage stage;

/* A batcher at work on machine 0 of a fresh stage. */
typedef struct Subject {
  const char *name;
  const Batcher *batcher;
  void *state, *machine_state;
} Subject;

static inline Subject start(const char *name, const char *options, int64_t kv_blocks) {
  stage_init(&stage, "M", kv_blocks, 1, &arena);
  Subject self = {.name = name,
                  .batcher = (const Batcher *)policy_find(POLICY_BATCHER, name),
                  .state = policy_state(POLICY_BATCHER, name, options, &arena)};
  self.machine_state = arena_alloc(&arena, self.batcher->instance_state_size);
  const InstanceView view = stage_view(&stage, 0);
  if (self.batcher->start) self.batcher->start(self.state, self.machine_state, &view, &arena);
  return self;
}

/* As the core asks. */
static inline bool wake(const Subject *self, Wake why, RequestIx request) {
  if (why == WAKE_CHAINED && !self->batcher->hears_chained) return false;
  const InstanceView view = stage_view(&stage, 0);
  return self->batcher->wake(self->state, self->machine_state, &view, why, request);
}

/* The plan as text: "2p30 +3 -4 ~5/25" prefills 30 tokens of request 2, admits 3, leaves out 4 and
 * pads by 5 tokens of area 25. */
static inline const char *planned(const Subject *self) {
  const BatchPlan *plan = stage_plan(&stage, self->batcher, self->state, self->machine_state, 0);
  char *text = arena_printf(&arena, "%s", plan->pause_decodes ? "paused" : "");
  for (size_t i = 0; i < plan->n_prefills; i++)
    text =
        arena_printf(&arena, "%s %up%d", text, plan->prefills[i].request, plan->prefills[i].tokens);
  for (size_t i = 0; i < plan->n_admits; i++)
    text = arena_printf(&arena, "%s +%u", text, plan->admits[i]);
  for (size_t i = 0; i < plan->n_preempts; i++)
    text = arena_printf(&arena, "%s -%u", text, plan->preempts[i]);
  if (plan->padding.prefill_tokens > 0 || plan->padding.prefill_area2 > 0)
    text = arena_printf(&arena, "%s ~%lld/%lld", text, (long long)plan->padding.prefill_tokens,
                        (long long)plan->padding.prefill_area2);
  return *text == ' ' ? text + 1 : text;
}

static inline void expect_plan(const Subject *self, const char *want, const char *what) {
  const char *got = planned(self);
  cr_expect_str_eq(got, want, "%s: '%s', not '%s'", what, got, want);
}

static inline void prefills(const int32_t *prompts, size_t n) {
  for (size_t i = 0; i < n; i++)
    stage_prefill(&stage, 0, prompts[i]);
}

static inline void decodes(RequestState state, int n, int32_t context) {
  for (int i = 0; i < n; i++)
    stage_decode(&stage, 0, state, context, 20);
}
#endif
