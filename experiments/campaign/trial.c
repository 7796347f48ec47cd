/* A trial: a copy of the base's tree, bound and simulated within one arena. */
#include "experiments/campaign/trial.h"
#include "experiments/base/interrupt.h"
#include "experiments/base/progress.h"

int trial_base_init(TrialBase *self, const char *path, const ConfigChanges *changes, Arena *arena,
                    Diag *diag) {
  return trial_base_init_tree(self, path, config_tree(path, arena, diag), changes, arena, diag);
}

int trial_base_init_tree(TrialBase *self, const char *path, Node *root,
                         const ConfigChanges *changes, Arena *arena, Diag *diag) {
  *self = (TrialBase){.path = path, .root = root};
  config_cache_init(&self->cache);
  if (self->root && (!changes || config_change(self->root, changes, arena, diag) == 0)) return 0;
  trial_base_done(self);
  return -1;
}

void trial_base_done(TrialBase *self) {
  config_cache_done(&self->cache);
  self->root = NULL;
}

void trial_init(Trial *self) {
  *self = (Trial){0};
  arena_init(&self->arena);
  diag_init(&self->diag);
}

void trial_done(Trial *self) {
  diag_done(&self->diag);
  arena_done(&self->arena);
}

int trial_load(Trial *self, TrialBase *base, const ConfigChanges *changes) {
  Node *root = node_copy(base->root, &self->arena);
  if (config_bind(&self->config, base->path, root, changes, &base->cache, &self->arena,
                  &self->diag)) {
    self->config_digest = config_text_digest(&self->config);
    return -1;
  }
  self->config.sim.memory_limit = base->memory;
  return config_digest(&self->config, &self->config_digest, &self->diag);
}

int config_simulate(Config *config, SimConfig *sim, SimResult *ret_result, Report *ret_report,
                    Arena *arena, Diag *diag) {
  if (!config->sim.trace && config_open_trace(config, arena, diag)) return -1;
  sim->trace = config->sim.trace;
  sim->interrupted = &interrupt_signal;
  const double wall = clock_monotonic(), cpu = clock_cpu();
  const int status = sim_run(sim, ret_result, arena, diag);
  const double cpu_s = clock_cpu() - cpu, wall_s = clock_monotonic() - wall;
  trace_close(config->sim.trace);
  config->sim.trace = NULL;
  if (status == 0) report_init(ret_report, config, ret_result, cpu_s, wall_s, arena);
  return status;
}

int trial_run(Trial *self) {
  return config_simulate(&self->config, &self->config.sim, &self->result, &self->report,
                         &self->arena, &self->diag);
}

const char *trial_reason(Trial *self) {
  if (self->diag.n_entries == 0) return "";
  const DiagEntry *entry = &self->diag.entries[0];
  if (!entry->at.path) return entry->message;
  if (entry->at.line == 0)
    return arena_printf(&self->arena, "%s: %s", entry->at.path, entry->message);
  return arena_printf(&self->arena, "%s:%d:%d: %s", entry->at.path, entry->at.line,
                      entry->at.column, entry->message);
}
