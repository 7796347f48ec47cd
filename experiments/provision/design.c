/* The designs of a study: their settings, searched counts or choices, and what their machines
 * take. */
#include "experiments/provision/design.h"
#include "experiments/base/epoch.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KEY OPTION_OF

typedef struct PriceKeys {
  double power, cost; // 0: as the machine file says
} PriceKeys;

const OptionSpec provision_price_options[] = {
    KEY(PriceKeys, power, OPTION_POWER, .min = 1e-3, .max = 1e12, .help = "Power of one instance.",
        .absent = "that of the machine type"),
    KEY(PriceKeys, cost, OPTION_MONEY, .min = 1e-9, .max = 1e12, .help = "Price of one instance.",
        .absent = "that of the machine type"),
    {0}};

static const double FILL_MAX = 1e15; // far more than there are, well within int64_t

int64_t provision_fill(double budget, double taken, double each) {
  const double quotient = (budget - taken) / each;
  const double whole = floor(quotient + 1e-9 * fmax(1, fabs(quotient)));
  return (int64_t)fmin(fmax(whole, -FILL_MAX), FILL_MAX);
}

/* Whether the value of a count is a range; -1 when it is one that makes no sense. */
static int read_range(const Node *node, CountRange *ret_range, Diag *diag) {
  static const char prefix[] = "pools.", suffix[] = ".count";
  const size_t length = strlen(node->key);
  if (node->kind != NODE_SCALAR || node->quoted || !strstr(node->text, "..")) return 0;
  if (strncmp(node->key, prefix, strlen(prefix)) != 0 ||
      length <= strlen(prefix) + strlen(suffix) ||
      strcmp(node->key + length - strlen(suffix), suffix) != 0)
    return diag_error(diag, node->at, "'%s' cannot be searched: only 'pools.NAME.count' can",
                      node->key);
  char *end = NULL;
  ret_range->key = node->key;
  ret_range->low = strtoll(node->text, &end, 10);
  const bool first = end != node->text && strncmp(end, "..", 2) == 0;
  const char *second = first ? end + 2 : "";
  ret_range->high = strtoll(second, &end, 10);
  if (!first || end == second || *end || ret_range->low < 1 || ret_range->high > 1000000 ||
      ret_range->low > ret_range->high)
    return diag_error(diag, node->at, "'%s' must be a range of instances such as '1..40', not '%s'",
                      node->key, node->text);
  return 1;
}

static int bind_settings(Design *self, const Node *map, Arena *arena, Diag *diag) {
  *self = (Design){.name = map->key, .at = map->key_at};
  if (map->kind != NODE_MAP || map->n_children == 0) {
    diag_error(diag, map->at, "design '%s' must be a map of keys to values", map->key);
    diag_hint(diag, "for example {pools.prefill.count: 1..40, pools.decode.count: 1..20}");
    return -1;
  }
  self->settings = ARENA_ARRAY(arena, Setting, map->n_children);
  int status = 0;
  for (const Node *node = map->first; node; node = node->next) {
    CountRange range;
    const int is_range = read_range(node, &range, diag);
    if (strcmp(node->key, "parallelism") == 0)
      status = diag_error(diag, node->key_at,
                          "'parallelism' needs the objective 'throughput' and arrivals at once");
    else if (is_range < 0)
      status = -1;
    else if (is_range && self->n_counts == COUNTS_MAX)
      status = diag_error(diag, node->key_at, "design '%s' searches more than %d counts", map->key,
                          COUNTS_MAX);
    else if (is_range)
      self->counts[self->n_counts++] = range;
    else
      self->settings[self->n_settings++] = (Setting){node->key, node->key_at, node};
  }
  return status;
}

static int check_distinct(const Node *designs, Arena *arena, Diag *diag) {
  int status = 0;
  for (const Node *node = designs->first; node; node = node->next)
    for (const Node *other = designs->first; other != node; other = other->next)
      if (strcmp(node_text(node, arena), node_text(other, arena)) == 0)
        status = diag_error(diag, node->key_at, "designs '%s' and '%s' are the same", other->key,
                            node->key);
  return status;
}

static const Setting *find_setting(const Design *design, const char *key) {
  for (int i = 0; i < design->n_settings; i++)
    if (strcmp(design->settings[i].key, key) == 0) return &design->settings[i];
  return NULL;
}

static const CountRange *find_count(const Design *design, const char *key) {
  for (int i = 0; i < design->n_counts; i++)
    if (strcmp(design->counts[i].key, key) == 0) return &design->counts[i];
  return NULL;
}

/* Whether two designs have clusters in common: the same settings, and ranges that meet. */
static bool designs_overlap(const Design *a, const Design *b, Arena *arena) {
  if (a->n_settings != b->n_settings || a->n_counts != b->n_counts) return false;
  for (int i = 0; i < a->n_settings; i++) {
    const Setting *other = find_setting(b, a->settings[i].key);
    if (!other || strcmp(node_text(a->settings[i].value, arena), node_text(other->value, arena)))
      return false;
  }
  for (int i = 0; i < a->n_counts; i++) {
    const CountRange *other = find_count(b, a->counts[i].key);
    if (!other || a->counts[i].low > other->high || other->low > a->counts[i].high) return false;
  }
  return true;
}

static int check_overlaps(const Provision *study, Arena *arena, Diag *diag) {
  int status = 0;
  for (int i = 0; i < study->n_designs; i++)
    for (int k = 0; k < i; k++)
      if (designs_overlap(&study->designs[k], &study->designs[i], arena))
        status =
            diag_error(diag, study->designs[i].at, "designs '%s' and '%s' have clusters in common",
                       study->designs[k].name, study->designs[i].name);
  return status;
}

/* The entry of `prices` for a pool, by its name or else its machine type; NULL: none. */
static const Node *find_price(DesignBinding *binding, const PoolSpec *pool) {
  const Node *prices = binding->prices;
  const char *const names[] = {pool->name, pool->machine};
  for (int i = 0; i < 2; i++) {
    int k = 0;
    for (const Node *node = prices ? prices->first : NULL; node; node = node->next, k++) {
      if (strcmp(node->key, names[i]) != 0) continue;
      binding->price_used[k] = true;
      return node;
    }
  }
  return NULL;
}

static const char *copy_text(const char *text, Arena *arena) {
  return text ? arena_copy(arena, text, strlen(text)) : NULL;
}

/* Prices of the study are of instances, so that nothing is rounded to whole machines. */
static int lot_of(DesignBinding *binding, const PoolConfig *pool, Arena *arena, Lot *ret_lot) {
  PriceKeys keys = {0};
  const Node *node = find_price(binding, &pool->spec);
  if (node && option_bind(provision_price_options, node, NULL, node->at, &keys, binding->diag))
    return -1;
  Hardware *type = ARENA_NEW(arena, Hardware); // that of the pool goes with its trial
  *type = pool->hardware;
  type->price_source = copy_text(type->price_source, arena);
  type->price_date = copy_text(type->price_date, arena);
  *ret_lot = lot_of_pool(pool);
  ret_lot->type = type;
  if (keys.power > 0) ret_lot->each.power_kw = keys.power / 1000;
  if (keys.cost > 0) {
    ret_lot->each.cost_per_hour = keys.cost;
    type->gpu_cost_per_hour = keys.cost / ret_lot->each.gpus;
    type->price_source = "'prices' of the study";
    type->price_date = NULL;
  }
  ret_lot->whole_power &= keys.power == 0;
  ret_lot->whole_cost &= keys.cost == 0;
  return 0;
}

/* The searched count whose key is of this pool; -1: none. */
static int count_of_pool(const Design *design, const char *pool, Arena *arena) {
  const char *key = arena_printf(arena, "pools.%s.count", pool);
  for (int i = 0; i < design->n_counts; i++)
    if (strcmp(design->counts[i].key, key) == 0) return i;
  return -1;
}

/* Whether what decides is known of a pool's machines. */
static int check_known(DesignBinding *binding, const Design *design, const PoolSpec *pool,
                       const Takes *takes) {
  const Provision *study = binding->study;
  const Objective by =
      study->objective == OBJECTIVE_THROUGHPUT ? study->budget_of : study->objective;
  if (by == OBJECTIVE_THROUGHPUT || !isnan(takes_value(takes, by))) return 0;
  diag_error(binding->diag, design->at, "the %s of machine '%s' in design '%s' is not known",
             objective_names[by], pool->machine, design->name);
  diag_hint(binding->diag, "set it in 'prices': {%s: {%s: …}}", pool->machine, objective_names[by]);
  return -1;
}

/* A pool's own spares and a search of its count say two things of one. */
static int check_own_spares(const DesignBinding *binding, const Design *design,
                            const PoolConfig *pool) {
  if (pool->spares == binding->study->spares) return 0;
  diag_error(binding->diag, design->at, "design '%s' searches pool '%s', which has 'spares'",
             design->name, pool->spec.name);
  diag_hint(binding->diag, "'spares' of the block 'provision', or --spares, adds spares to the "
                           "counts that are searched");
  return -1;
}

Takes design_takes(const Design *self, const int64_t *counts) {
  return lots_take(self->lots, self->n_lots, counts);
}

int design_bind_pools(DesignBinding *binding, Design *design, const Config *config, Arena *arena) {
  static const int64_t none[COUNTS_MAX] = {0};
  int status = 0, n_searched = 0;
  design->lots = ARENA_ARRAY(arena, Lot, config->sim.n_pools);
  for (uint32_t i = 0; i < config->sim.n_pools; i++) {
    const PoolSpec *pool = &config->sim.pools[i];
    Lot *lot = &design->lots[design->n_lots];
    if (lot_of(binding, &config->pools[i], arena, lot)) return -1;
    lot->searched = count_of_pool(design, pool->name, arena);
    status |= check_known(binding, design, pool, &lot->each);
    if (lot->searched < 0)
      design->fixed.n[pool->role] += pool_machines(pool);
    else {
      lot->spares = binding->study->spares;
      status |= check_own_spares(binding, design, &config->pools[i]);
      design->each[lot->searched] = lot->each;
      design->roles[lot->searched] = pool->role;
      n_searched++;
    }
    // Pools that were counted as another shape take nothing more.
    design->n_lots += !sim_is_second_shape(&config->sim, i);
  }
  design->fixed.takes = design_takes(design, none);
  if (n_searched < design->n_counts)
    status =
        diag_error(binding->diag, design->at,
                   "design '%s' searches the count of a pool that does not exist", design->name);
  return status;
}

/* Whether the study's spares, and machines fewer, are of searched counts, and leave some. */
static int check_spares(DesignBinding *binding, const Design *design) {
  const Provision *study = binding->study;
  const bool any = study->spares > 0 || study->n_plus > 0;
  int status = 0;
  if (any && design->n_counts == 0) {
    status = diag_error(binding->diag, design->at, "'%s' needs a count that is searched",
                        study->spares > 0 ? "spares" : "n_plus");
    diag_hint(binding->diag, "add one to design '%s', such as pools.NAME.count: 2..40",
              design->name);
  }
  for (int i = 0; i < design->n_counts; i++) {
    if (design->counts[i].low > study->n_plus) continue;
    status = diag_error(binding->diag, design->at, "n_plus %lld leaves no instance of '%s: %lld'",
                        (long long)study->n_plus, design->counts[i].key,
                        (long long)design->counts[i].low);
    diag_hint(binding->diag, "begin the range at %lld", (long long)study->n_plus + 1);
  }
  return status;
}

/* Binds the design with its smallest counts, to find what is wrong with it. `trial` is its. */
static int try_design(DesignBinding *binding, Design *design, Trial *trial) {
  if (check_spares(binding, design)) return -1;
  const ConfigChanges changes = provision_changes(
      binding->study, design, &(Probe){{design->counts[0].low, design->counts[1].low}, 0}, 0,
      &trial->arena);
  if (trial_load(trial, binding->study->base, &changes)) {
    diag_append(binding->diag, &trial->diag);
    return -1;
  }
  const char *survive = binding->study->survive;
  if (survive && !config_find_level(&trial->config, survive)) {
    diag_error(binding->diag, design->at, "'survive' names '%s', which is no key of 'domains'",
               survive);
    return diag_hint(binding->diag, "for example domains: {%s: {size: 4, placement: spread}}",
                     survive);
  }
  if (trial->config.slo->n_specs == 0) {
    diag_error(binding->diag, design->at,
               "the objective is unbounded: design '%s' has no limits in 'slo'", design->name);
    return -1;
  }
  return design_bind_pools(binding, design, &trial->config, binding->arena);
}

static int bind_design(DesignBinding *binding, Design *design, const Node *node, bool first) {
  Provision *self = binding->study;
  if (self->offline) return design_bind_choices(binding, design, node);
  if (bind_settings(design, node, binding->arena, binding->diag)) return -1;
  if (self->objective == OBJECTIVE_THROUGHPUT && self->budget_of == OBJECTIVE_THROUGHPUT &&
      design->n_counts > 0) {
    diag_error(binding->diag, design->at,
               "the objective is unbounded: nothing limits the number of instances in design '%s'",
               design->name);
    diag_hint(
        binding->diag,
        "set a power, a cost or a number of machines or GPUs in 'constraint', or fix the counts");
    return -1;
  }
  Trial trial;
  trial_init(&trial);
  int status = try_design(binding, design, &trial);
  if (status == 0)
    self->epoch =
        epoch_join(self->epoch, config_epoch(&trial.config, &trial.arena), binding->arena);
  if (status == 0 && first) {
    binding->workload = trial.config.workload;
    const int64_t seed = binding->workload.seed;
    self->seed = seed >= 0 ? seed : (int64_t)trial.config.sim.seed;
  }
  trial_done(&trial);
  return status;
}

static int check_prices(const DesignBinding *binding) {
  const Node *prices = binding->prices;
  int status = 0, i = 0;
  for (const Node *node = prices ? prices->first : NULL; node; node = node->next, i++)
    if (!binding->price_used[i])
      status = diag_error(binding->diag, node->key_at,
                          "'%s' is neither a pool nor a machine type of any design", node->key);
  return status;
}

int designs_bind(DesignBinding *binding) {
  Provision *self = binding->study;
  const Node *map = binding->designs;
  if (map->kind != NODE_MAP || map->n_children == 0)
    return diag_error(binding->diag, map->at, "'designs' must be a map of names to settings");
  if (check_distinct(map, binding->arena, binding->diag)) return -1;
  self->designs = ARENA_ARRAY(binding->arena, Design, map->n_children);
  int status = 0;
  for (const Node *node = map->first; node; node = node->next, self->n_designs++)
    status |= bind_design(binding, &self->designs[self->n_designs], node, self->n_designs == 0);
  if (status) return -1;
  if (!self->offline && check_overlaps(self, binding->arena, binding->diag)) return -1;
  return check_prices(binding);
}
