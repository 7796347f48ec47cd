/* Seeds that change nothing: runs that are said to differ in them would be one run. */
#include "experiments/config/config.h"
#include <string.h>

static const char workload_seed[] = "workload.seed";

static bool assigns(const char *assignment, const char *key) {
  const size_t length = strlen(key);
  return strncmp(assignment, key, length) == 0 && assignment[length] == '=';
}

static bool changes_key(const ConfigChanges *changes, const char *key) {
  for (const char *const *one = changes->assignments; one && *one; one++)
    if (assigns(*one, key)) return true;
  for (int i = 0; i < changes->n_settings; i++)
    if (strcmp(changes->settings[i].key, key) == 0) return true;
  return false;
}

int config_check_seeds(const Config *self, const ConfigChanges *changes, Diag *diag) {
  const Node *of_workload = node_find(node_find(self->root, "workload"), "seed");
  if (!of_workload || sim_draws(&self->sim)) return 0;
  if (!changes_key(changes, "seed") || changes_key(changes, workload_seed)) return 0;
  diag_error(diag, node_find(self->root, "seed")->key_at,
             "'seed' changes nothing: arrivals and lengths are drawn from '%s', which is %s, and "
             "nothing else is random",
             workload_seed, of_workload->text);
  return diag_hint(diag, "remove the key '%s', or vary it instead of 'seed'", workload_seed);
}
