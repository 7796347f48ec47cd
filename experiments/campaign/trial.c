/* A trial: a copy of the base's tree, bound and simulated within one arena. */
#include "experiments/campaign/trial.h"
#include "experiments/base/interrupt.h"
#include "experiments/base/progress.h"
#include "experiments/campaign/steady.h"

int trial_base_init(TrialBase *self, const char *path, const ConfigChanges *changes, Arena *arena,
                    Diag *diag) {
  return trial_base_init_tree(self, path, config_tree(path, arena, diag), changes, NULL, arena,
                              diag);
}

int trial_base_init_tree(TrialBase *self, const char *path, Node *root,
                         const ConfigChanges *changes, Cache *lasting, Arena *arena, Diag *diag) {
  *self = (TrialBase){.path = path, .root = root};
  cache_init(&self->cache);
  self->cache.lasting = lasting;
  if (self->root && (!changes || config_change(self->root, changes, arena, diag) == 0)) return 0;
  trial_base_done(self);
  return -1;
}

void trial_base_done(TrialBase *self) {
  cache_done(&self->cache);
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
  self->config.sim.keeps_batches = true;
  return config_digest(&self->config, &self->config_digest, &self->diag);
}

static int simulate_once(Config *config, SimConfig *sim, SimResult *ret_result, Report *ret_report,
                         Arena *arena, Diag *diag) {
  if (!config->sim.trace && config_open_trace(config, arena, diag)) return -1;
  sim->trace = config->sim.trace;
  if (!sim->interrupted) sim->interrupted = &interrupt_signal;
  const double wall = clock_monotonic(), cpu = clock_cpu();
  const int status = sim_run(sim, ret_result, arena, diag);
  const double cpu_s = clock_cpu() - cpu, wall_s = clock_monotonic() - wall;
  trace_close(config->sim.trace);
  config->sim.trace = NULL;
  if (status == 0) report_init(ret_report, config, ret_result, cpu_s, wall_s, arena);
  return status;
}

/* The run that `steady` has come to, with those who listen or without. */
static int simulate_pass(Config *config, SimConfig *sim, const Steady *steady, bool quiet,
                         SimResult *ret_result, Report *ret_report, Arena *arena, Diag *diag) {
  SimConfig pass = *sim;
  if (config->length.automatic) config->workload.requests = steady->requests;
  if (config->length.finds_start) config->sim.warm_up.requests = steady->left_out;
  pass.warm_up = config->sim.warm_up;
  pass.keeps_batches = true;
  if (quiet) {
    pass.executor = NULL;
    pass.event_log = NULL;
    pass.on_request = NULL;
    pass.on_step = NULL;
    pass.observer = NULL;
    pass.keeps_parts = false;
  }
  return simulate_once(config, &pass, ret_result, ret_report, arena, diag);
}

/* Whether somebody is told of a run while it lasts, who must not hear of those before it. */
static bool is_heard(const SimConfig *sim) {
  return sim->executor || sim->event_log || sim->on_request || sim->on_step || sim->observer ||
         sim->keeps_parts;
}

/* What a pass made stays only if it was the last one, and nobody listens. */
static bool keep_pass(const SimConfig *sim, bool last, Arena *pass, Arena *arena) {
  const bool kept = last && !is_heard(sim);
  if (kept)
    arena_take(arena, pass);
  else
    arena_done(pass);
  return kept;
}

static int simulate_steady(Config *config, SimConfig *sim, SimResult *ret_result,
                           Report *ret_report, Arena *arena, Diag *diag) {
  Steady steady;
  LengthEnd end = LENGTH_GIVEN;
  double cpu_s = 0, wall_s = 0;
  steady_init(&steady, &config->length);
  if (config->sim.trace) trace_close(config->sim.trace); // it is of another length
  config->sim.trace = NULL;
  for (bool goes_on = true, kept = false; !kept;) {
    const bool heard = !goes_on;
    Arena *made = ARENA_NEW(arena, Arena);
    arena_init(made);
    if (simulate_pass(config, sim, &steady, !heard, ret_result, ret_report, heard ? arena : made,
                      diag)) {
      arena_done(made);
      return -1;
    }
    cpu_s += ret_report->run.cpu_s;
    wall_s += ret_report->run.wall_s;
    if (heard) break;
    const Pass pass = steady_pass(ret_report);
    goes_on = steady_goes_on(&steady, &pass, &end);
    kept = keep_pass(sim, !goes_on, made, arena);
  }
  ret_report->run.cpu_s = cpu_s;
  ret_report->run.wall_s = wall_s;
  ret_report->length_end = config->length.automatic ? end : LENGTH_GIVEN;
  return 0;
}

int config_simulate(Config *config, SimConfig *sim, SimResult *ret_result, Report *ret_report,
                    Arena *arena, Diag *diag) {
  const LengthConfig *length = &config->length;
  return length->automatic || length->finds_start
             ? simulate_steady(config, sim, ret_result, ret_report, arena, diag)
             : simulate_once(config, sim, ret_result, ret_report, arena, diag);
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
