/* A request's life. The audit counts requests by the rows of their states, so that a transition
 * which forgets a part of what it has to book is found right after it. */
#include "sim/audit.h"
#include "sim/core/lifecycle.h"
#include "sim/run.h"
#include "tests/unit/scene_testing.h"
#include <criterion/parameterized.h>
#include <signal.h>

TestSuite(lifecycle, .init = setup_scene, .fini = teardown);

/* A run in which machine 0 prefills one request, with others behind it, while machine 1 decodes. */
static Simulation *busy_engine(void) {
  static const TraceRow rows[] = {{.prompt_tokens = 50, .output_tokens = 400},
                                  {.prompt_tokens = 60, .output_tokens = 300},
                                  {.prompt_tokens = 900, .output_tokens = 20},
                                  {.prompt_tokens = 1200, .output_tokens = 20}};
  scene_split(&scene, 1, 1);
  scene_choose(&scene, POLICY_BATCHER, "continuous", "max_num_batched_tokens: 128");
  array_trace_init(&scene.trace, rows, sizeof rows / sizeof *rows);
  Simulation *engine = ARENA_NEW(&arena, Simulation);
  sim_init(engine, &scene.config, &arena, &diag);
  const Instance *machines = engine->instances;
  while (machines[0].prefill_queue.count == 0 || machines[0].n_chunks == 0 ||
         machines[1].batch.n_seqs == 0)
    cr_assert(sim_step(engine));
  return engine;
}

Test(lifecycle, books_of_a_run_agree_with_the_rows) {
  const Simulation *engine = busy_engine();
  audit_check(engine, engine->now);
}

typedef struct Plant {
  const char *name;
  enum { STATE, MACHINE, COLUMN } in;
  int what; // RequestState, or the offset of an int32_t counter or of a column
} Plant;

ParameterizedTestParameters(lifecycle, audit_finds) {
  static Plant plants[] = {
      {"out of a queue it is in", STATE, REQUEST_ENDS_PREFILL},
      {"into a queue it is not in", STATE, REQUEST_WAITS_DECODE},
      {"into a queue of its own kind", STATE, REQUEST_BLOCKED},
      {"into the batch", STATE, REQUEST_RUNS},
      {"a state that does not last", STATE, REQUEST_NOWHERE},
      {"on the move", STATE, REQUEST_MOVES},
      {"prefills", MACHINE, offsetof(Instance, n_prefills)},
      {"decodes", MACHINE, offsetof(Instance, n_decodes)},
      {"begun prefills", MACHINE, offsetof(Instance, n_started)},
      {"those that leave", MACHINE, offsetof(Instance, n_outgoing)},
      {"a queue's count", MACHINE, offsetof(Instance, prefill_queue.count)},
      {"who leaves the batch", MACHINE, offsetof(Instance, leaving.count)},
      {"pending tokens", COLUMN, offsetof(ClusterColumns, pending_tokens)},
      {"those assigned", COLUMN, offsetof(ClusterColumns, n_assigned)},
      {"those present", COLUMN, offsetof(ClusterColumns, n_present)},
      {"blocks", COLUMN, offsetof(ClusterColumns, kv_blocks)},
      {"heavy decodes", COLUMN, offsetof(ClusterColumns, n_heavy)},
  };
  return cr_make_param_array(Plant, plants, sizeof plants / sizeof *plants);
}

/* One thing is not as the transitions left it. */
ParameterizedTest(Plant *plant, lifecycle, audit_finds, .init = setup_scene, .fini = teardown,
                  .signal = SIGABRT) {
  Simulation *engine = busy_engine();
  Instance *machine = &engine->instances[0];
  if (plant->in == STATE)
    engine->requests.slots[machine->prefill_queue.first].state = (uint8_t)plant->what;
  else if (plant->in == MACHINE)
    ++*(int32_t *)((char *)machine + plant->what);
  else
    ++(*(Column **)((char *)&engine->columns + plant->what))->of[machine->ix];
  audit_check(engine, engine->now);
  cr_assert_fail("%s: nothing is found", plant->name);
}
