/* See tune.h. */
#include "experiments/tune/tune.h"
#include "experiments/base/interrupt.h"
#include "experiments/base/progress.h"
#include <string.h>
#include <unistd.h>

/* A policy that is a name as a map of it, so that its options can be set. */
static void open_policy(Node *map, const char *key, Arena *arena) {
  Node *node = (Node *)node_find(map, key);
  if (!node || node->kind != NODE_SCALAR) return;
  Node *name = node_copy(node, arena);
  name->key = "name";
  name->key_at = node->at;
  name->parent = node;
  name->next = NULL;
  node->kind = NODE_MAP;
  node->text = NULL;
  node->quoted = node->spans = false;
  node->first = name;
  node->n_children = 1;
}

/* What a study has beside a configuration goes; batchers are opened. */
static void prepare(Node *root, Arena *arena) {
  static const char *const studies[] = {"sweep", "provision"};
  for (size_t i = 0; i < sizeof studies / sizeof *studies; i++)
    if (node_find(root, studies[i])) node_take(root, studies[i]);
  open_policy((Node *)node_find(root, "policies"), "batcher", arena);
  const Node *pools = node_find(root, "pools");
  for (Node *pool = pools ? pools->first : NULL; pool; pool = pool->next)
    open_policy(pool, "batcher", arena);
}

static int set_limits(Tuning *self, const char *slo) {
  double quantile = 0;
  if (!slo) return 0;
  const char *limits = plan_slo_limits(slo, &quantile, self->arena, self->diag);
  if (!limits) return -1;
  return yaml_set(self->base.root, arena_printf(self->arena, "slo={%s}", limits), self->arena,
                  self->diag);
}

/* Replicates would be one run where nothing is drawn. */
static void find_seeds(Tuning *self, int64_t seeds) {
  self->replays = self->config.workload.trace && !sim_draws(&self->config.sim);
  self->n_seeds = self->replays ? 1 : (int)seeds;
  self->same_seeds = self->n_seeds == 1;
}

int tune_open(Tuning *self, const char *path, const ConfigChanges *changes,
              const TuneOptions *options, Arena *arena, Diag *diag) {
  *self = (Tuning){.jobs = (int)options->jobs,
                   .budget = options->budget,
                   .results = options->results,
                   .arena = arena,
                   .diag = diag};
  if (trial_base_init(&self->base, path, changes, arena, diag)) return -1;
  self->base.memory = (size_t)options->memory;
  prepare(self->base.root, arena);
  if (set_limits(self, options->slo) ||
      config_bind(&self->config, path, node_copy(self->base.root, arena), NULL, &self->base.cache,
                  arena, diag) ||
      config_need_one_model(&self->config, "'tandem tune'", diag) ||
      objective_find(self, options->objective))
    return -1;
  if (self->objective.kind == TUNE_RATE && provision_ask_for_verdicts(self->base.root, arena, diag))
    return -1;
  find_seeds(self, options->seeds);
  return knobs_find(self, options->knobs);
}

int tune_run(Tuning *self) {
  self->began_s = self->shown_s = clock_monotonic();
  interrupt_catch();
  const int status = tune_search(self) || tune_answer(self) ? -1 : 0;
  if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
  return status;
}

void tune_close(Tuning *self) {
  if (self->base.root) trial_base_done(&self->base);
}
