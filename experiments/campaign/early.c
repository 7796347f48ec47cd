/* See early.h. */
#include "experiments/campaign/early.h"

/* Adds a request to the demand for all of them, and of its component and class. */
static void demand_add_row(Demand *demand, const SimConfig *sim, uint16_t component,
                           int32_t output_tokens) {
  demand_add(&demand[0], output_tokens);
  if (sim->n_components == 0) return;
  demand_add(&demand[1 + component], output_tokens);
  if (sim->n_classes > 0)
    demand_add(&demand[1 + sim->n_components + sim->components[component].class], output_tokens);
}

static void count_beyond(Demands *self, const SimConfig *sim, const TraceRow *row) {
  const int64_t context = sim_model(sim, sim_model_of(sim, row->component))->max_model_len;
  if (context == 0 || row->prompt_tokens < context) return;
  demand_add_row(self->beyond_of, sim, row->component, row->output_tokens);
  if (self->context == 0 || context < self->context) self->context = context;
}

bool early_end_may(const Trial *trial) {
  return !trial->config.length.automatic && !workload_waits(&trial->config.workload);
}

/* A CacheLoad; entries point into the trial. */
static const void *count(const void *context, Arena *arena, Diag *diag) {
  Trial *trial = (Trial *)context; // in whose arena the workload is read
  const Config *config = &trial->config;
  TraceSource *source = workload_open(&config->workload, config->sim.seed, &trial->arena, diag);
  if (!source) return NULL;
  const size_t n = 1 + (size_t)config->sim.n_components + config->sim.n_classes;
  Demands *self = ARENA_NEW(arena, Demands);
  self->of = ARENA_ARRAY(arena, Demand, n);
  self->beyond_of = ARENA_ARRAY(arena, Demand, n);
  TraceRow row;
  int status = 0;
  for (uint64_t id = 0; (status = trace_next(source, &row, diag)) > 0; id++)
    if (!warm_up_has(&config->sim.warm_up, id, row.at)) {
      demand_add_row(self->of, &config->sim, row.component, sim_output_tokens(&config->sim, &row));
      count_beyond(self, &config->sim, &row);
    }
  trace_close(source);
  return status == 0 ? self : NULL;
}

int early_end_count(EarlyEnd *self, Trial *trial) {
  self->demands = self->cache ? cache_get(self->cache, self->key, count, trial, &trial->diag)
                              : count(trial, &trial->arena, &trial->diag);
  return self->demands ? 0 : -1;
}

/* Fits SimConfig.on_request: 1 when a limit is lost. */
static int look_for_lost(void *context, const RequestRecord *record, const Metrics *so_far,
                         Diag *diag) {
  (void)record;
  (void)diag;
  EarlyEnd *self = context;
  const uint64_t finished = metrics_ended(so_far);
  if (finished < self->next_look) return 0;
  Config *config = &self->trial->config;
  uint64_t patience = 0;
  const SloSpec *lost =
      slo_find_lost(config->slo, so_far, self->demands->of, self->demands->beyond_of, &patience);
  self->next_look = finished + patience;
  if (!lost) return 0;
  SloSet *rest = ARENA_NEW(&self->trial->arena, SloSet);
  *rest = (SloSet){config->slo->name, lost, 1};
  config->slo = rest;
  return 1;
}

int early_end_set(EarlyEnd *self, Trial *trial) {
  if (early_end_count(self, trial)) return -1;
  self->trial = trial;
  trial->config.sim.on_request = look_for_lost;
  trial->config.sim.on_request_context = self;
  return 0;
}
