/* The `provision:` block, all but its designs, and what it makes of a configuration. */
#include "experiments/base/epoch.h"
#include "experiments/provision/design.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const objective_names[] = {"throughput", "cost", "power", "machines",
                                       "instances",  "gpus", NULL};
const char *const objective_units[] = {"requests/s", "$/h", "kW", "machines", "instances", "GPUs"};

/* As Objective, and what designs alone are compared by. */
static const char *const objective_choices[] = {"throughput", "cost", "power",  "machines",
                                                "instances",  "gpus", "carbon", NULL};

const char *provision_objective(const Provision *self) {
  return self->by_carbon ? "carbon" : objective_names[self->objective];
}

typedef struct BlockKeys {
  int objective;
  const Node *constraint, *rates, *prices, *designs;
  double tolerance;
  int64_t best, seeds, spares, n_plus;
  double headroom;
  const char *survive;
} BlockKeys;

typedef struct ConstraintKeys {
  double power, cost, rate; // 0: not given
  int64_t machines, instances, gpus;
} ConstraintKeys;

typedef struct RateKeys {
  double from, to; // 0: not given
} RateKeys;

#define KEY OPTION_OF

const OptionSpec provision_options[] = {
    KEY(BlockKeys, objective, OPTION_CHOICE, .choices = objective_choices, .required = true,
        .help = "Objective: the largest rate (throughput), or the smallest cost, power or number "
                "that holds a rate. With carbon the smallest power of each design is searched, and "
                "the design is best whose tokens emit the least CO2 by 'energy'."),
    KEY(BlockKeys, constraint, OPTION_NODE, .help = "Budget, or the rate to hold.",
        .absent = "no budget, the configuration's rate"),
    KEY(BlockKeys, designs, OPTION_NODE, .required = true,
        .help =
            "Designs to compare: {NAME: {KEY: VALUE, …}, …}. A count such as 1..40 is searched."),
    KEY(BlockKeys, tolerance, OPTION_RATE, .min = 1e-6, .max = 1e9,
        .help = "Resolution of a largest rate, which is a multiple of it.",
        .absent = "about 1/20 of the rate"),
    KEY(BlockKeys, rates, OPTION_NODE, .help = "Range in which the largest rates lie.",
        .absent = "from tolerance to 64 times the rate"),
    KEY(BlockKeys, seeds, OPTION_INT, .fallback = "1", .min = 1, .max = 1000,
        .help = "Number of seeds, each of which gives a replicate of every answer."),
    KEY(BlockKeys, best, OPTION_INT, .min = 1, .max = 1e6,
        .help = "Number of designs to find. One that cannot be among the best so many is not "
                "searched to the end, and further seeds and the error of the times are searched "
                "for the best two alone.",
        .absent = "all designs"),
    KEY(BlockKeys, spares, OPTION_INT, .fallback = "0", .max = 1e6,
        .help = "Number of instances, in addition to each searched count, that are off until one "
                "fails."),
    KEY(BlockKeys, n_plus, OPTION_INT, .fallback = "0", .max = 1e6,
        .help = "Number of instances by which each searched count may fall and must still hold (1 "
                "for N+1)."),
    KEY(BlockKeys, headroom, OPTION_REAL, .fallback = "0", .max = 100,
        .help = "Share by which the load may grow and the limits must still hold, such as 0.2: "
                "clusters are simulated at 1.2 times the load."),
    KEY(BlockKeys, survive, OPTION_STRING,
        .help = "Kind of failure domain, a key of domains, of which any one may be down during the "
                "whole run, and the limits must still hold.",
        .absent = "none"),
    KEY(BlockKeys, prices, OPTION_NODE,
        .help = "Power and price of one instance by machine type or pool: {NAME: {power: …, cost: "
                "…}, …}.",
        .absent = "those of the machine types"),
    {0}};

const OptionSpec provision_constraint_options[] = {
    KEY(ConstraintKeys, power, OPTION_POWER, .min = 1e-3, .max = 1e15,
        .help = "Maximum provisioned power of all instances. It applies to every objective.",
        .absent = "no budget"),
    KEY(ConstraintKeys, cost, OPTION_MONEY, .min = 1e-9, .max = 1e15,
        .help = "Maximum price of all instances.", .absent = "no budget"),
    KEY(ConstraintKeys, machines, OPTION_INT, .min = 1, .max = 1e6,
        .help = "Maximum number of whole machines.", .absent = "no budget"),
    KEY(ConstraintKeys, instances, OPTION_INT, .min = 1, .max = 1e6,
        .help = "Maximum number of instances.", .absent = "no budget"),
    KEY(ConstraintKeys, gpus, OPTION_INT, .min = 1, .max = 1e9,
        .help = "Maximum number of GPUs of all instances. It applies to every objective.",
        .absent = "no budget"),
    KEY(ConstraintKeys, rate, OPTION_RATE, .min = 1e-6, .max = 1e9,
        .help = "Rate to hold. It does not apply to objective: throughput.",
        .absent = "that of the configuration"),
    {0}};

const OptionSpec provision_rate_options[] = {
    KEY(RateKeys, from, OPTION_RATE, .min = 1e-6, .max = 1e9, .help = "Lowest rate.",
        .absent = "tolerance"),
    KEY(RateKeys, to, OPTION_RATE, .min = 1e-6, .max = 1e9, .help = "Highest rate.",
        .absent = "64 times the rate"),
    {0}};

/* ---- The numbers of the block ---- */

static int bind_constraint(Provision *self, const Node *node, const Node *block, Diag *diag) {
  ConstraintKeys keys = {0};
  if (option_bind(provision_constraint_options, node, NULL, block->at, &keys, diag)) return -1;
  const double budgets[OBJECTIVES] = {[OBJECTIVE_COST] = keys.cost,
                                      [OBJECTIVE_POWER] = keys.power / 1000,
                                      [OBJECTIVE_MACHINES] = (double)keys.machines,
                                      [OBJECTIVE_INSTANCES] = (double)keys.instances,
                                      [OBJECTIVE_GPUS] = (double)keys.gpus};
  const bool largest = self->objective == OBJECTIVE_THROUGHPUT;
  int n_budgets = 0;
  for (int i = OBJECTIVE_COST; i < OBJECTIVES; i++) {
    if (budgets[i] == 0) continue;
    self->budget_of = (Objective)i;
    self->budget = budgets[i];
    n_budgets++;
  }
  if (keys.power > 0 && keys.gpus > 0 && n_budgets == 2) {
    self->budget_of = OBJECTIVE_POWER;
    self->budget = budgets[OBJECTIVE_POWER];
    self->max_gpus = budgets[OBJECTIVE_GPUS];
    n_budgets = 1;
  }
  self->rate = keys.rate;
  if (n_budgets > 1)
    return diag_error(diag, node->key_at, "'constraint' has %d budgets, but at most one is allowed",
                      n_budgets);
  if (largest && keys.rate > 0)
    return diag_error(
        diag, config_place(node, "rate"),
        "'rate' cannot be used with the objective 'throughput', which searches the rate");
  if (!largest && n_budgets > 0 && self->budget_of != OBJECTIVE_POWER &&
      self->budget_of != OBJECTIVE_GPUS)
    return diag_error(diag, config_place(node, objective_names[self->budget_of]),
                      "'%s' is a budget for the objective 'throughput', not for '%s'",
                      objective_names[self->budget_of], objective_names[self->objective]);
  return 0;
}

double provision_round_down(double value) {
  const double power = pow(10, floor(log10(value)));
  const double lead = value / power;
  return power * (lead >= 5 ? 5 : lead >= 2 ? 2 : 1);
}

/* What is measured has no rates to search. */
static int check_no_rates(const Node *block, Diag *diag) {
  static const char *const keys[] = {"tolerance", "rates"};
  int status = 0;
  for (int i = 0; i < 2; i++) {
    const Node *node = node_find(block, keys[i]);
    if (node)
      status = diag_error(diag, node->key_at,
                          "'%s' cannot be used with arrivals at once, whose throughput is measured",
                          keys[i]);
  }
  return status;
}

static int bind_rates(Provision *self, const BlockKeys *given, const Node *block,
                      const WorkloadConfig *workload, Diag *diag) {
  const Node *node = given->rates;
  RateKeys keys = {0};
  if (option_bind(provision_rate_options, node, NULL, block->at, &keys, diag)) return -1;
  const bool largest = self->objective == OBJECTIVE_THROUGHPUT;
  const bool at_once = !workload->trace && workload->arrivals == ARRIVAL_AT_ONCE;
  if (self->offline) return check_no_rates(block, diag);
  self->rate_key = workload->trace ? "workload.rate" : "workload.arrivals.rate";
  self->base_rate = workload_has_rate(workload) ? workload->rate : 0;
  self->replays = workload->trace != NULL;
  if (workload->closed_loop.clients > 0 && !workload->closed_loop.timed &&
      (largest || self->rate > 0))
    return diag_error(diag, workload->at, "a closed loop without 'arrivals' has no rate to search");
  if (at_once && (largest || self->rate > 0))
    return diag_error(diag, workload->at, "arrivals at once have no rate to search");
  if (!workload_has_rate(workload) && (largest || self->rate > 0)) {
    diag_error(diag, workload->at, "the workload has no single rate to search");
    diag_hint(diag, "poisson, gamma, fixed and diurnal arrivals have one, 'arrivals.rate'");
    return -1;
  }
  if (!largest) return 0;
  if (workload->trace && workload->rate_scale != 1)
    return diag_error(diag, workload->at,
                      "'rate_scale' cannot be used with a search for the largest rate");
  self->tolerance = given->tolerance;
  if (self->base_rate == 0) self->base_rate = keys.to > 0 ? keys.to / 2 : 20 * self->tolerance;
  if (self->base_rate == 0)
    return diag_error(diag, block->key_at,
                      "the trace has its own rate: set 'tolerance' or 'rates.to'");
  if (self->tolerance == 0)
    self->tolerance = provision_round_down(self->base_rate / 20 * (1 + 1e-9));
  self->rate_from = keys.from > 0 ? keys.from : self->tolerance;
  self->rate_to = keys.to > 0 ? keys.to : 64 * self->base_rate;
  if (floor(self->rate_to / self->tolerance + 1e-9) <
      ceil(self->rate_from / self->tolerance - 1e-9))
    return diag_error(diag, node ? node->at : block->at,
                      "there is no multiple of 'tolerance' between 'from' and 'to'");
  return 0;
}

/* ---- What a probe is of ---- */

Setting setting_text(const char *key, Place at, const char *text, Arena *arena) {
  Node *value = ARENA_NEW(arena, Node);
  *value = (Node){.kind = NODE_SCALAR, .text = text, .at = at};
  return (Setting){key, at, value};
}

double provision_probe_rate(const Provision *self, const Probe *probe) {
  return self->objective == OBJECTIVE_THROUGHPUT ? (double)probe->rate * self->tolerance
                                                 : self->rate;
}

static Setting set_whole(const char *key, Place at, int64_t value, Arena *arena) {
  return setting_text(key, at, arena_printf(arena, "%lld", (long long)value), arena);
}

/* The spares of the pool that a count is of. */
static Setting set_spares(const Provision *self, const Design *design, int i, Arena *arena) {
  const char *key = design->counts[i].key;
  const int pool = (int)(strrchr(key, '.') - key);
  return set_whole(arena_printf(arena, "%.*s.spares", pool, key), design->at, self->spares, arena);
}

Setting provision_load_setting(const Provision *self, double rate, double load, Place at,
                               Arena *arena) {
  const Node *loop = node_find(node_find(self->base->root, "workload"), "closed_loop");
  const Node *clients = node_find(loop, "clients");
  if (clients)
    return setting_text("workload.closed_loop.clients", at,
                        arena_printf(arena, "%.0f", fmax(1, load * atof(clients->text))), arena);
  if (rate > 0)
    return setting_text(self->rate_key, at, arena_printf(arena, "%.12g /s", load * rate), arena);
  return setting_text("workload.rate_scale", at, arena_printf(arena, "%.12g", load), arena);
}

/* The cluster of a probe; `stressed`: with the machines fewer of each count and the load more that
 * it has to hold. */
static ConfigChanges changes_of(const Provision *self, const Design *design, const Probe *probe,
                                bool stressed, int seed, Arena *arena) {
  const int64_t fewer = stressed ? self->n_plus : 0;
  const double load = stressed ? 1 + self->headroom : 1;
  const Sweep *choices = &design->choices;
  Setting *settings = ARENA_ARRAY(
      arena, Setting, design->n_settings + 2 * design->n_counts + choices->n_settings_max + 3);
  int n = 0;
  for (; n < design->n_settings; n++)
    settings[n] = design->settings[n];
  if (self->offline) n += sweep_settings(choices, probe->counts[0], &settings[n]);
  for (int i = 0; i < design->n_counts; i++) {
    settings[n++] = set_whole(design->counts[i].key, design->at, probe->counts[i] - fewer, arena);
    if (self->spares > 0) settings[n++] = set_spares(self, design, i, arena);
  }
  const double rate = load * provision_probe_rate(self, probe);
  if (rate > 0 && self->rate_key)
    settings[n++] =
        setting_text(self->rate_key, design->at, arena_printf(arena, "%.12g /s", rate), arena);
  else if (load != 1 && self->rate_key) // which is bound after designs are tried
    settings[n++] = provision_load_setting(self, self->base_rate, load, design->at, arena);
  // The first replicate is the configuration as it stands, so that its digest is that of a sweep.
  return (ConfigChanges){.seed = seed > 0 ? self->seed + seed : -1,
                         .tie_seed = -1,
                         .settings = settings,
                         .n_settings = n};
}

ConfigChanges provision_changes(const Provision *self, const Design *design, const Probe *probe,
                                int seed, Arena *arena) {
  return changes_of(self, design, probe, true, seed, arena);
}

ConfigChanges provision_changes_without(const Provision *self, const Design *design,
                                        const Probe *probe, int seed, uint32_t domain,
                                        Arena *arena) {
  ConfigChanges changes = provision_changes(self, design, probe, seed, arena);
  Setting *settings = (Setting *)changes.settings; // changes_of has left room
  settings[changes.n_settings++] =
      set_whole(arena_printf(arena, "domains.%s.down", self->survive), design->at, domain, arena);
  return changes;
}

ConfigChanges provision_answer_changes(const Provision *self, const DesignOutcome *outcome,
                                       Arena *arena) {
  const Answer *answer = &outcome->answers[0];
  Probe probe = {{answer->counts[0], answer->counts[1]}, 0};
  if (self->offline)
    probe.counts[0] = answer->choice;
  else if (self->objective == OBJECTIVE_THROUGHPUT)
    probe.rate = llround(answer->rate / self->tolerance);
  return changes_of(self, outcome->design, &probe, false, 0, arena);
}

Setting provision_answer_load(const Provision *self, const DesignOutcome *outcome, double load,
                              Arena *arena) {
  const bool searched = self->objective == OBJECTIVE_THROUGHPUT;
  const double rate = searched ? outcome->answers[0].rate : self->base_rate;
  return provision_load_setting(self, rate, load, outcome->design->at, arena);
}

/* ---- All of it ---- */

static int check_seed(const Provision *self, const Design *design, const Setting *setting,
                      Diag *diag) {
  if (strcmp(setting->key, "seed") != 0 && strcmp(setting->key, "workload.seed") != 0) return 0;
  diag_error(diag, setting->at, "design '%s' sets '%s', so all %d seeds would give the same run",
             design->name, setting->key, self->n_seeds);
  diag_hint(diag, "the seeds of a study count up from the seed of the configuration");
  return -1;
}

/* Replicates have seeds of their own. */
static int check_seeds(const Provision *self, Diag *diag) {
  int status = 0;
  for (int d = 0; self->n_seeds > 1 && d < self->n_designs; d++) {
    const Design *design = &self->designs[d];
    for (int i = 0; i < design->n_settings; i++)
      status |= check_seed(self, design, &design->settings[i], diag);
    for (int a = 0; a < design->choices.n_axes; a++)
      for (int k = 0; k < design->choices.axes[a].n_keys; k++)
        status |= check_seed(self, design, &design->choices.axes[a].keys[k], diag);
  }
  return status;
}

/* Whether the configuration has arrivals at once; designs may not change that. */
static bool is_at_once(const Node *root) {
  const Node *arrivals = node_find(node_find(root, "workload"), "arrivals");
  const Node *process = node_find(arrivals, "process");
  return process && process->text && strcmp(process->text, "at_once") == 0;
}

/* Emissions are of runs, so that no design can be given up before its own. */
static int check_carbon(const Provision *self, const BlockKeys *keys, const Node *block,
                        Diag *diag) {
  if (!self->by_carbon) return 0;
  if (!self->emits) {
    diag_error(diag, config_place(block, "objective"), "'objective: carbon' needs 'energy.carbon'");
    return diag_hint(diag, "set the grams of CO2 per kWh, such as energy: {carbon: 400}");
  }
  if (keys->best == 0) return 0;
  return diag_error(diag, config_place(block, "best"),
                    "'best' gives up designs by their power, which 'objective: carbon' does not "
                    "compare them by");
}

int provision_bind(Provision *self, TrialBase *base, const Node *block, Arena *arena, Diag *diag) {
  *self = (Provision){.base = base, .epoch = epoch_of(NULL, 0, arena)};
  BlockKeys keys = {0};
  if (option_bind(provision_options, block, NULL, block->at, &keys, diag)) return -1;
  self->by_carbon = keys.objective == OBJECTIVES;
  self->objective = self->by_carbon ? OBJECTIVE_POWER : (Objective)keys.objective;
  const Node *energy = node_find(base->root, "energy");
  self->emits = energy && node_find(energy, "carbon");
  if (check_carbon(self, &keys, block, diag)) return -1;
  self->n_seeds = (int)keys.seeds;
  self->n_best = (int)keys.best;
  self->spares = keys.spares;
  self->n_plus = keys.n_plus;
  self->headroom = keys.headroom;
  self->survive = keys.survive;
  self->offline = self->objective == OBJECTIVE_THROUGHPUT && is_at_once(base->root);
  if (keys.best > 0 && self->objective == OBJECTIVE_THROUGHPUT)
    return diag_error(diag, config_place(block, "best"),
                      "'best' applies to counts that are searched, not to objective: throughput");
  if (self->offline && self->survive)
    return diag_error(diag, config_place(block, "survive"),
                      "'survive' cannot be used with arrivals at once");
  if (self->offline && self->headroom > 0)
    return diag_error(diag, config_place(block, "headroom"),
                      "'headroom' cannot be used with arrivals at once");
  if (bind_constraint(self, keys.constraint, block, diag)) return -1;
  if (keys.prices && keys.prices->kind != NODE_MAP)
    return diag_error(diag, keys.prices->at, "'prices' must be a map of machine types or pools");
  DesignBinding binding = {
      .study = self, .designs = keys.designs, .prices = keys.prices, .arena = arena, .diag = diag};
  if (keys.prices) binding.price_used = ARENA_ARRAY(arena, bool, keys.prices->n_children);
  if (designs_bind(&binding) || check_seeds(self, diag)) return -1;
  return bind_rates(self, &keys, block, &binding.workload, diag);
}

int provision_ask_for_verdicts(Node *root, Arena *arena, Diag *diag) {
  const Node *workload = node_find(root, "workload");
  const Node *duration = workload ? node_find(workload, "duration") : NULL;
  const bool automatic = duration && duration->kind == NODE_SCALAR && !duration->quoted &&
                         strcmp(duration->text, "auto") == 0;
  if (!automatic || node_find(root, "precision")) return 0;
  return yaml_set(root, "precision=limits", arena, diag);
}

int provision_load(Provision *self, TrialBase *base, const char *path, Node *root,
                   const ConfigChanges *changes, Cache *lasting, Arena *arena, Diag *diag) {
  if (trial_base_init_tree(base, path, root, changes, lasting, arena, diag)) return -1;
  const char *text = node_text(base->root, arena);
  const Node *block = node_take(base->root, "provision");
  if (block) {
    const int status = provision_bind(self, base, block, arena, diag);
    self->text = text;
    return status | provision_ask_for_verdicts(base->root, arena, diag);
  }
  diag_error(diag, place_of_file(path), "'%s' is not a study: it has no key 'provision'", path);
  diag_hint(diag, "experiments/examples/provision.yaml is one");
  return -1;
}
