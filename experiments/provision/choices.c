/* What the designs of an offline study go through, and which of it can be had. */
#include "experiments/base/exit_code.h"
#include "experiments/provision/design.h"
#include <stdlib.h>
#include <string.h>

enum {
  CHOICES_MAX = 100000, // of a design
  REASONS_MAX = 3,      // told of one without a choice that can be had
};

static const char parallelism_key[] = "parallelism";

/* ---- From keys to axes ---- */

/* Whether all values of an entry are tried: a list, or what may be a range. */
static bool is_enumerated(const Node *entry) {
  return entry->kind == NODE_LIST ||
         (entry->kind == NODE_SCALAR && !entry->quoted && strstr(entry->text, ".."));
}

static void add_axis(Node *axes, const Node *entry, Arena *arena) {
  Node *axis = node_child(axes, entry->key, entry->key_at, arena);
  const Node *next = axis->next;
  *axis = *node_copy(entry, arena);
  axis->parent = axes;
  axis->next = (Node *)next;
}

/* The degrees go by pools and groups, which the design may set. */
static int add_parallelism(const Design *self, Node *axes, const Node *block, const Node *root,
                           Arena *arena, Diag *diag) {
  const ConfigChanges changes = {
      .seed = -1, .tie_seed = -1, .settings = self->settings, .n_settings = self->n_settings};
  Node *changed = node_copy(root, arena);
  if (config_change(changed, &changes, arena, diag)) return -1;
  return parallelism_add_axis(axes, block, changed, arena, diag);
}

static int bind_keys(Design *self, const Node *map, const Node *root, Arena *arena, Diag *diag) {
  *self = (Design){.name = map->key, .at = map->key_at, .choices = {.n_points = 1}};
  if (map->kind != NODE_MAP)
    return diag_error(diag, map->at, "design '%s' must be a map of keys to values", map->key);
  Node *axes = ARENA_NEW(arena, Node);
  *axes = (Node){.kind = NODE_MAP, .at = map->at};
  self->settings = ARENA_ARRAY(arena, Setting, map->n_children);
  const Node *parallelism = node_find(map, parallelism_key);
  for (const Node *node = map->first; node; node = node->next)
    if (node != parallelism && !is_enumerated(node))
      self->settings[self->n_settings++] = (Setting){node->key, node->key_at, node};
  int status = 0;
  for (const Node *node = map->first; node; node = node->next)
    if (node == parallelism)
      status = add_parallelism(self, axes, node, root, arena, diag);
    else if (is_enumerated(node))
      add_axis(axes, node, arena);
  if (status) return -1;
  if (axes->first && sweep_bind(&self->choices, axes, arena, diag)) return -1;
  if (self->choices.n_points > CHOICES_MAX)
    return diag_error(diag, self->at, "design '%s' has more than %d choices", self->name,
                      CHOICES_MAX);
  return 0;
}

/* ---- Which of them can be had ---- */

static int load_choice(DesignBinding *binding, const Design *design, int64_t choice, Trial *trial) {
  const Probe probe = {{choice, 0}, 0};
  const ConfigChanges changes = provision_changes(binding->study, design, &probe, 0, &trial->arena);
  return trial_load(trial, binding->study->base, &changes);
}

/* Why machines that can be had are still too many; NULL: they are not. */
static const char *check_budget(const Provision *study, const Takes *takes, Arena *arena) {
  if (study->budget_of == OBJECTIVE_THROUGHPUT) return NULL;
  const double taken = takes_value(takes, study->budget_of);
  if (taken <= study->budget * (1 + 1e-9)) return NULL;
  const char *unit = objective_units[study->budget_of];
  return arena_printf(arena, "it takes %.6g %s, the budget is %.6g %s", taken, unit, study->budget,
                      unit);
}

/* The first choice that can be had says what the workload is. */
static int check_workload(DesignBinding *binding, const Design *design, const Config *config) {
  Provision *study = binding->study;
  if (config->workload.trace || config->workload.arrivals != ARRIVAL_AT_ONCE)
    return diag_error(
        binding->diag, design->at,
        "design '%s' has its own arrivals, but the configuration has arrivals at once",
        design->name);
  if (binding->workload.requests > 0) return 0; // as all at once have
  binding->workload = config->workload;
  const int64_t seed = config->workload.seed;
  study->seed = seed >= 0 ? seed : (int64_t)config->sim.seed;
  return 0;
}

/* Whether it can be had, and what it takes; -1 when the study is wrong. */
static int fit_choice(DesignBinding *binding, Design *design, int64_t choice, ChoiceFit *fit) {
  Trial trial;
  trial_init(&trial);
  *fit = (ChoiceFit){.label = sweep_label(&design->choices, choice, binding->arena)};
  int status = 0;
  if (load_choice(binding, design, choice, &trial)) {
    const char *why = trial.diag.entries[0].message;
    fit->why_not = arena_copy(binding->arena, why, strlen(why));
  } else {
    Design one = {.name = design->name, .at = design->at};
    status = check_workload(binding, design, &trial.config) ||
             design_bind_pools(binding, &one, &trial.config,
                               design->lots ? &trial.arena : binding->arena);
    fit->fleet = one.fixed;
    if (!design->lots) {
      design->lots = one.lots;
      design->n_lots = one.n_lots;
    }
    fit->why_not = check_budget(binding->study, &one.fixed.takes, binding->arena);
  }
  trial_done(&trial);
  return status ? -1 : 0;
}

static bool is_new_reason(const Design *design, int64_t choice) {
  for (int64_t i = 0; i < choice; i++)
    if (strcmp(design->fits[choice].why_not, design->fits[i].why_not) == 0) return false;
  return true;
}

/* The first few reasons, where they stand. */
static int refuse_choices(DesignBinding *binding, const Design *design) {
  const int64_t n = design->choices.n_points;
  int n_told = 0;
  for (int64_t i = 0; i < n && n_told < REASONS_MAX; i++) {
    if (!is_new_reason(design, i)) continue;
    Trial trial;
    trial_init(&trial);
    load_choice(binding, design, i, &trial);
    if (n_told++ == 0 && n > 1 && diag_exit_code(&trial.diag) == EXIT_INPUT)
      diag_error(binding->diag, design->at, "none of the %lld choices of design '%s' is possible",
                 (long long)n, design->name);
    diag_append(binding->diag, &trial.diag);
    trial_done(&trial);
  }
  return -1;
}

int design_bind_choices(DesignBinding *binding, Design *design, const Node *node) {
  if (bind_keys(design, node, binding->study->base->root, binding->arena, binding->diag)) return -1;
  const int64_t n = design->choices.n_points;
  design->fits = ARENA_ARRAY(binding->arena, ChoiceFit, n);
  bool any = false;
  for (int64_t i = 0; i < n; i++) {
    if (fit_choice(binding, design, i, &design->fits[i])) return -1;
    any |= design->fits[i].fleet.takes.instances > 0;
  }
  return any ? 0 : refuse_choices(binding, design);
}

/* ---- Its numbers ---- */

bool choice_number(const Design *design, int64_t choice, const char *key, double *ret_value) {
  for (int i = 0; i < design->choices.n_axes; i++) {
    const Choice *at = sweep_choice(&design->choices, choice, i);
    for (int k = 0; k < at->n_settings; k++) {
      const Node *value = at->settings[k].value;
      if (strcmp(at->settings[k].key, key) != 0 || value->kind != NODE_SCALAR) continue;
      char *end = NULL;
      *ret_value = strtod(value->text, &end);
      return end != value->text && *end == '\0';
    }
  }
  return false;
}
