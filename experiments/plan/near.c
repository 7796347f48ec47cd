/* What was measured nearest to an answer. The load of a row is clients in a closed loop, so that of
 * an answer is its requests in flight: by Little's law those that are decoded at a time. */
#include "experiments/plan/plan.h"
#include <string.h>

/* The pool that decodes. */
static const PoolConfig *pool_of(const PlanAnswer *self) {
  return &self->config->pools[self->config->sim.n_pools - 1];
}

const char *plan_near_gpu(const PlanAnswer *self) {
  return pool_of(self)->hardware.gpu;
}

static void fill_load(NearQuestion *asked, const PlanAnswer *self) {
  const Question *question = self->plan->question;
  const DesignOutcome *outcome = &self->outcomes[self->best];
  const RunKept *run = &outcome->answers[0].run;
  const FrontPoint *point = front_asked(self->front, outcome);
  asked->prompt_tokens = (double)question->isl;
  asked->output_tokens = (double)question->osl;
  if (!point || !(point->rate > 0)) return;
  if (question->isl == 0) {
    asked->prompt_tokens = (run->tokens_per_s - run->output_tokens_per_s) / point->rate;
    asked->output_tokens = run->output_tokens_per_s / point->rate;
  }
  asked->in_flight = point->tokens_per_s / point->tokens_per_user / point->gpus;
}

int plan_near(NearRows *ret, const PlanAnswer *self, Arena *arena, Diag *diag) {
  const PoolConfig *pool = pool_of(self);
  const PerfModel *times = pool->spec.perfmodel;
  const char *engine = self->plan->engine;
  NearQuestion asked = {.gpu = pool->hardware.gpu,
                        .engine = times->setup.engine
                                      ? times->setup.engine
                                      : arena_copy(arena, engine, strcspn(engine, "-")),
                        .model = &self->config->model,
                        .split = self->config->sim.n_pools > 1,
                        .degrees = {.tensor = pool->tensor_parallel_size,
                                    .pipeline = pool->pipeline_parallel_size,
                                    .data = 1,
                                    .attention = pool->attention_data_parallel_size,
                                    .expert = pool->expert_parallel_size},
                        .drafts = self->plan->question->drafts};
  fill_load(&asked, self);
  return near_rows_find(ret, &asked, self->config->perfmodel_root, PLAN_NEAR, arena, diag);
}
