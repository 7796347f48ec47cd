/* The top level of a configuration, and where data lies. Pools are bound in pools.c, objectives in
 * slo_load.c, policies in policies.c; the digest of what decides a run is in digest.c. */
#include "experiments/config/config.h"
#include "base/folder.h"
#include "base/output.h"
#include "base/text.h"
#include "perfmodel/datafile.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct TopKeys {
  const Node *model, *models, *adapters, *max_model_len;
  const Node *workload, *pools, *groups, *timeline, *network, *flow, *monitor, *policies,
      *perfmodel, *slo, *window, *warm, *prices, *precision, *faults, *domains, *scaling,
      *early_rejection, *sleep, *energy;
  const Node *engine, *classes, *tenants;
  int64_t seed, tie_seed;
  int sold;
  double cost_per_hour, gpu_cost_per_hour;
} TopKeys;

#define TOP(field, kind, ...) OPTION_OF(TopKeys, field, kind, __VA_ARGS__)
#define SEED_RANGE            .min = 0, .max = INFINITY

const OptionSpec config_options[] = {
    TOP(model, OPTION_NODE, .listed = "models",
        .help = "Name of a model, the path of its .yaml, .gguf or config.json file, or a map.",
        .absent = "none; required without models"),
    TOP(models, OPTION_NODE,
        .help = "Several models: {NAME: …, …}, each with a value as of model. Pools and workload "
                "components then name theirs.",
        .absent = "the one of model"),
    TOP(adapters, OPTION_NODE,
        .help =
            "LoRA adapters: {NAME: …, …}. Workload components name those that their requests use.",
        .absent = "none"),
    TOP(max_model_len, OPTION_NODE,
        .help =
            "Maximum number of tokens of a prompt and its output, or none (vLLM --max-model-len).",
        .absent = "the model's longest context"),
    TOP(workload, OPTION_NODE, .required = true,
        .help = "The requests: a trace, a synthetic workload or a mix."),
    TOP(pools, OPTION_NODE, .required = true,
        .help = "The instances: a map from names of pools to their keys."),
    TOP(engine, OPTION_NODE, .listed = "engines",
        .help = "Release of a serving engine, by name or as a map. It sets the batcher, its "
                "limits, KV memory and host times; keys of the file override it.",
        .absent = "none"),
    TOP(classes, OPTION_NODE, .help = "Classes of requests with limits on admission: {NAME: …, …}.",
        .absent = "every request is admitted"),
    TOP(early_rejection, OPTION_NODE,
        .help = "Limits on predicted latencies above which a request is rejected as it arrives.",
        .absent = "none is"),
    TOP(tenants, OPTION_NODE, .help = "Tenants with limits and weights: {NAME: …, …}.",
        .absent = "none"),
    TOP(groups, OPTION_NODE, .help = "Pairs of pools that share their GPUs: {NAME: …, …}.",
        .absent = "none"),
    TOP(timeline, OPTION_NODE,
        .help = "Record of the shape and memory of each group over time. The key's presence turns "
                "it on.",
        .absent = "nothing is recorded"),
    TOP(flow, OPTION_NODE, .help = "Decodes that go from pool to pool as they run.",
        .absent = "they stay where they are"),
    TOP(network, OPTION_NODE, .help = "Network between instances.",
        .absent = "the defaults of its keys"),
    TOP(monitor, OPTION_NODE, .help = "Broadcasts of loads to the policies that read them.",
        .absent = "the defaults of its keys"),
    TOP(scaling, OPTION_NODE, .help = "Autoscaling of pools, for all of them.",
        .absent = "the defaults of its keys"),
    TOP(sleep, OPTION_NODE, .help = "Sleep of instances, whose models take turns on the same GPUs.",
        .absent = "each pool has GPUs of its own"),
    TOP(policies, OPTION_NODE, .help = "Policies by kind.", .absent = "the default of each kind"),
    TOP(perfmodel, OPTION_NODE,
        .help = "Performance model that gives the iteration times, by name or as a map.",
        .absent = "fitted"),
    TOP(energy, OPTION_NODE, .help = "Energy of the building and emissions of its electricity.",
        .absent = "those of the machines alone, without emissions"),
    TOP(faults, OPTION_NODE,
        .help = "Treatment of requests that are lost in a failure. The failures themselves are "
                "keys of the pools.",
        .absent = "the defaults of its keys"),
    TOP(domains, OPTION_NODE,
        .help = "Failure domains, whose machines fail together: {rack: {size: 4, faults: …}, …}.",
        .absent = "none; machines fail by themselves"),
    TOP(prices, OPTION_NODE,
        .help = "Prices that replace those of the machine files: {dgx-h200: 40 $/h, h100: 2.1 $/h, "
                "…}, of a machine type or of a GPU, or the path of a file with such a map or of a "
                "table gpu,usd_per_gpu_hour[,date,source].",
        .absent = "those of the machine types"),
    TOP(cost_per_hour, OPTION_MONEY, .max = 1e6,
        .help = "Price of the machine, for all machine types that prices does not name.",
        .absent = "that of each machine type"),
    TOP(gpu_cost_per_hour, OPTION_MONEY, .max = 1e6,
        .help = "Price of one GPU, likewise. It replaces cost_per_hour.",
        .absent = "that of each machine type"),
    TOP(sold, OPTION_CHOICE, .choices = hardware_sold_names,
        .help = "Unit of sale: gpu charges for the GPUs in use, whole for whole machines.",
        .absent = "that of each machine type"),
    TOP(slo, OPTION_NODE, .help = "Limits that a run is judged by: splitwise, none, or a map.",
        .absent = "splitwise"),
    TOP(window, OPTION_NODE,
        .help = "Window of time in which the figure window_rps counts completions.",
        .absent = "none"),
    TOP(warm, OPTION_NODE,
        .help = "Warm-up: the path of a file with contents of prefix caches, or a map.",
        .absent = "empty caches; every request is counted"),
    TOP(precision, OPTION_NODE,
        .help =
            "Half width of the 95% confidence interval at which a run with duration: auto stops, "
            "as a share of each figure; with limits it stops when every limit is decided.",
        .absent = "5%"),
    TOP(seed, OPTION_INT, .fallback = "1", SEED_RANGE,
        .help = "Seed of all random draws. workload.seed replaces it for arrivals and lengths."),
    TOP(tie_seed, OPTION_INT, .fallback = "0", SEED_RANGE,
        .help =
            "Seed that orders events at the same time. With 0 they keep the order of insertion."),
    {0}};

static const char *const path_choices[] = {"nic", "nvlink", "indirect", NULL}; // as NetworkPath

#define SIM(name, field, kind, ...) OPTION_AT(SimConfig, name, field, kind, __VA_ARGS__)

const OptionSpec config_network_options[] = {
    SIM("path", network_path, OPTION_CHOICE, .fallback = "nic", .choices = path_choices,
        .help = "Path of the KV between GPUs: NICs, NVLink, or NICs with a copy in CPU memory on "
                "both sides (indirect)."),
    SIM("bandwidth", network_bandwidth, OPTION_BANDWIDTH, .min = 1, .max = 1e18,
        .help =
            "Limit on the bandwidth per instance and direction, in addition to that of its NIC.",
        .absent = "no limit"),
    SIM("latency", network_latency, OPTION_TICKS, .fallback = "0 s", .min = 0, .max = 60,
        .help = "Latency of each transfer."),
    SIM("compression", network_compression, OPTION_REAL, .fallback = "1", .min = 1, .max = 1000,
        .help = "Bytes of KV per byte that is transferred. The time to compress is not counted."),
    {0}};

const OptionSpec config_monitor_options[] = {
    SIM("interval", monitor_interval, OPTION_TICKS, .fallback = "100 ms", .min = 1e-6, .max = 86400,
        .help = "Time between broadcasts of loads."),
    SIM("report_interval", report_interval, OPTION_TICKS, .fallback = "0 s", .min = 0, .max = 60,
        .help = "Time between reports of instances to a router that goes by their loads. With 0 s "
                "the router sees the present loads."),
    SIM("report_delay", report_delay, OPTION_TICKS, .fallback = "0 s", .min = 0, .max = 60,
        .help = "Time from such a report until the router knows it."),
    SIM("report_leaves_sent", report_leaves_sent, OPTION_BOOL, .fallback = "false",
        .help = "The router does not count what it has sent since the last report."),
    SIM("heavy_above", heavy_above, OPTION_INT, .fallback = "128", .min = 0, .max = 1e9,
        .help = "Number of predicted output tokens above which a decode is heavy."),
    {0}};

const OptionSpec config_timeline_options[] = {SIM("interval", timeline_interval, OPTION_TICKS,
                                                  .fallback = "1 s", .min = 1e-3, .max = 86400,
                                                  .help = "Time between samples of the memory."),
                                              {0}};

#define WINDOW(field, ...)                                                                         \
  OPTION_OF(Window, field, OPTION_TICKS, .min = 0, .max = 8.64e6, __VA_ARGS__)

const OptionSpec config_window_options[] = {
    WINDOW(from, .fallback = "0 s", .help = "Simulated time at which the window begins."),
    WINDOW(to, .required = true, .help = "Simulated time at which the window ends."),
    {0}};

static const char data_part[] = "perfmodel/models"; // what is there where data lies

const char *config_data_root(void) {
  const char *root = getenv("TANDEM_DATA");
  return root && *root ? root : TANDEM_DATA_ROOT;
}

static bool has_data(const char *root, Arena *arena) {
  return access(arena_printf(arena, "%s/%s", root, data_part), F_OK) == 0;
}

void config_find_data(Arena *arena) {
  const char *given = getenv("TANDEM_DATA");
  const char *root = arena_printf(arena, "%s../share/tandem", folder_of_program(arena));
  if (!(given && *given) && has_data(root, arena)) setenv("TANDEM_DATA", root, 1);
}

int config_check_data(Diag *diag) {
  const char *root = getenv("TANDEM_DATA");
  if (!root || !*root || has_data(root, &diag->arena)) return 0;
  if (access(root, F_OK))
    diag_environment(diag, place_of_file(NULL), "TANDEM_DATA is set to '%s', which does not exist",
                     root);
  else
    diag_environment(diag, place_of_file(NULL), "TANDEM_DATA is set to '%s', which has no '%s'",
                     root, data_part);
  return diag_hint(diag, "set it to the folder that holds 'perfmodel' and 'traces', or unset it");
}

Place config_place(const Node *map, const char *key) {
  const Node *node = node_find(map, key);
  return node ? node->at : map->key ? map->key_at : map->at;
}

const char *config_data_name(const Config *self, const char *name, Arena *arena) {
  if (!datafile_is_path(name)) return name;
  const char *path = path_resolve(name, self->directory, arena);
  return output_is_same(path, self->path) ? name : path;
}

/* After the models, each of which has its own unless `node` says otherwise. */
static int bind_context(Config *self, const Node *node, Diag *diag) {
  static const OptionSpec spec = {
      .key = "max_model_len", .type = OPTION_INT, .min = 2, .max = 2.0 * TRACE_TOKENS_MAX};
  const bool none =
      node && node->kind == NODE_SCALAR && !node->quoted && strcmp(node->text, "none") == 0;
  int64_t all = 0;
  const int status = node && !none ? option_bind_one(&spec, node, &all, diag) : 0;
  for (uint32_t i = 0; i < self->n_models; i++) {
    const Llm *model = &self->models[i];
    self->specs[i].max_model_len = node ? all : model->name ? llm_context(model) : 0;
  }
  self->sim.model = self->specs[0];
  if (node_find(self->root, "models")) {
    self->sim.models = self->specs;
    self->sim.n_models = self->n_models;
  }
  return status;
}

static int bind_window(Window *window, const Node *node, Diag *diag) {
  if (option_bind(config_window_options, node, NULL, node->at, window, diag)) return -1;
  if (window->from < window->to) return 0;
  return diag_error(diag, node->at, "the end of 'window' must be after its begin");
}

static int bind_timeline(Config *self, const Node *node, Diag *diag) {
  if (option_bind(config_timeline_options, node, NULL, node->at, &self->sim, diag)) return -1;
  if (node_find(self->root, "groups")) return 0;
  return diag_error(diag, node->key_at,
                    "'timeline' applies to groups, and the configuration has none");
}

/* Blocks that other commands take off before they bind the rest. */
static const char *const study_blocks[] = {"sweep", "provision", NULL};

static int refuse_studies(const Node *root, Diag *diag) {
  int status = 0;
  for (int i = 0; study_blocks[i]; i++) {
    const Node *block = node_find(root, study_blocks[i]);
    if (block)
      status = diag_error(diag, block->key_at, "block '%s' needs the command 'tandem %s'",
                          block->key, block->key);
  }
  return status;
}

/* All blocks, whatever is wrong with those before. */
static int bind_root(Config *self, Arena *arena, Diag *diag) {
  TopKeys keys = {.sold = -1};
  int status = refuse_studies(self->root, diag);
  status |= option_bind(config_options, self->root, study_blocks, self->root->at, &keys, diag);
  if (self->root->kind != NODE_MAP) return status;
  status |= config_bind_perfmodel(self, keys.perfmodel, &self->perfmodel, arena, diag);
  self->engine.said = host_unsaid;
  status |= serving_bind(&self->engine, keys.engine, diag);
  self->sim.request_time = serving_request_time(&self->engine);
  self->sim.seed = (uint64_t)keys.seed;
  self->sim.tie_seed = (uint64_t)keys.tie_seed;
  status |= config_bind_models(self, keys.model, keys.models, arena, diag);
  status |= bind_context(self, keys.max_model_len, diag);
  if (keys.workload)
    status |= workload_bind(&self->workload, keys.workload, self->data_root, self->directory, arena,
                            diag);
  if (keys.adapters) status |= config_bind_adapters(self, keys.adapters, arena, diag);
  status |= config_bind_components(self, arena, diag);
  status |= config_bind_classes(self, keys.classes, keys.tenants, arena, diag);
  self->workload.context = self->sim.model.max_model_len;
  status |= config_bind_policies(self, keys.policies, arena, diag);
  status |=
      option_bind(config_network_options, keys.network, NULL, self->root->at, &self->sim, diag);
  self->sold = keys.sold;
  self->cost_per_hour = keys.cost_per_hour;
  self->gpu_cost_per_hour = keys.gpu_cost_per_hour;
  if (keys.prices) status |= config_bind_prices(self, keys.prices, arena, diag);
  if (keys.energy) status |= config_bind_energy(self, keys.energy, arena, diag);
  if (keys.sleep) status |= config_bind_sleep(self, keys.sleep, diag);
  if (keys.pools) status |= config_bind_pools(self, keys.pools, arena, diag);
  if (!status)
    status |= config_check_router(self, diag) | config_check_priorities(self, diag) |
              config_check_images(self, diag) | config_check_adapters(self, diag) |
              config_check_acceptance(self, diag);
  if (!status) status |= config_bind_groups(self, keys.groups, arena, diag);
  if (!status) status |= config_bind_faults(self, keys.faults, keys.domains, arena, diag);
  if (!status && keys.flow) status |= config_bind_flow(self, keys.flow, diag);
  if (!status && keys.early_rejection)
    status |= config_bind_early_rejection(self, keys.early_rejection, diag);
  if (!status) status |= config_bind_pauses(self, arena, diag);
  if (!status)
    status |= keys.sleep ? config_check_sleep(self, diag)
                         : config_bind_scaling(self, keys.scaling, arena, diag);
  if (!status) status |= config_check_cuts(self, diag);
  status |=
      option_bind(config_monitor_options, keys.monitor, NULL, self->root->at, &self->sim, diag);
  if (!status) status |= config_check_reports(self, keys.monitor, diag);
  if (keys.timeline) status |= bind_timeline(self, keys.timeline, diag);
  if (keys.window) status |= bind_window(&self->sim.window, keys.window, diag);
  if (keys.warm) status |= config_bind_warm(self, keys.warm, status == 0, arena, diag);
  if (keys.workload && !status) status |= config_bind_length(self, keys.precision, diag);
  return status | config_bind_slo(self, keys.slo, arena, diag);
}

static int set_number(Node *root, const char *key, int64_t number, Arena *arena, Diag *diag) {
  return yaml_set(root, arena_printf(arena, "%s=%lld", key, (long long)number), arena, diag);
}

static int set_precision(Node *root, double precision, Arena *arena, Diag *diag) {
  const Node *workload = node_find(root, "workload");
  int status = yaml_set(root, arena_printf(arena, "precision=%.15g", precision), arena, diag);
  if (!workload || node_find(workload, "trace")) return status;
  if (node_find(workload, "requests"))
    status |= yaml_set(root, "workload.requests=null", arena, diag);
  return status | yaml_set(root, "workload.duration=auto", arena, diag);
}

/* The keys of a sweep and of a study's designs are paths of the configuration themselves: what an
 * assignment names there first is one key, not maps within maps. */
static void add_path_key(Node *root, const char *assignment, Arena *arena) {
  static const char sweep[] = "sweep.", designs[] = "provision.designs.";
  const char *path = arena_copy(arena, assignment, strcspn(assignment, "="));
  int steps = strncmp(path, sweep, strlen(sweep)) == 0       ? 1
              : strncmp(path, designs, strlen(designs)) == 0 ? 3
                                                             : 0;
  if (steps == 0) return;
  Node *block = root;
  for (; steps > 0 && block->kind == NODE_MAP; steps--) {
    const size_t length = strcspn(path, ".");
    const char *key = arena_copy(arena, path, length);
    if (!path[length]) return;
    block = node_child(block, key, place_of_file("--set"), arena);
    path += length + 1;
  }
  const char *first = arena_copy(arena, path, strcspn(path, "."));
  if (block->kind != NODE_MAP || node_find(block, path) || node_find(block, first)) return;
  for (const OptionSpec *option = config_options; option->key; option++)
    if (strcmp(option->key, first) == 0) node_child(block, path, place_of_file("--set"), arena);
}

/* All changes are made to the tree, so that its text is the whole truth about the run. */
int config_change(Node *root, const ConfigChanges *changes, Arena *arena, Diag *diag) {
  int status = 0;
  const char *const *assignment = changes->assignments;
  for (; assignment && *assignment; assignment++) {
    add_path_key(root, *assignment, arena);
    status |= yaml_set(root, *assignment, arena, diag);
  }
  if (changes->seed >= 0) {
    status |= set_number(root, "seed", changes->seed, arena, diag);
    if (node_find(node_find(root, "workload"), "seed"))
      status |= set_number(root, "workload.seed", changes->seed, arena, diag);
  }
  if (changes->tie_seed >= 0)
    status |= set_number(root, "tie_seed", changes->tie_seed, arena, diag);
  if (changes->precision > 0) status |= set_precision(root, changes->precision, arena, diag);
  for (int i = 0; i < changes->n_settings; i++) {
    const Setting *setting = &changes->settings[i];
    status |= node_set(root, setting->key, setting->at, setting->value, arena, diag);
  }
  return status;
}

/* ---- Seeds that change nothing: runs that are said to differ in them would be one run ---- */

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

static int check_seeds(const Config *self, const ConfigChanges *changes, Diag *diag) {
  const Node *of_workload = node_find(node_find(self->root, "workload"), "seed");
  if (!of_workload || sim_draws(&self->sim)) return 0;
  if (!changes_key(changes, "seed") || changes_key(changes, workload_seed)) return 0;
  diag_error(diag, node_find(self->root, "seed")->key_at,
             "'seed' changes nothing: arrivals and lengths are drawn from '%s', which is %s, and "
             "nothing else is random",
             workload_seed, of_workload->text);
  return diag_hint(diag, "remove the key '%s', or vary it instead of 'seed'", workload_seed);
}

/* ---- All of it ---- */

int config_bind(Config *self, const char *path, Node *root, const ConfigChanges *changes,
                Cache *cache, Arena *arena, Diag *diag) {
  *self = (Config){.path = path,
                   .data_root = config_data_root(),
                   .slo = &slo_sets[0],
                   .cache = cache,
                   .error_shift = changes ? changes->error_shift : 0,
                   .apart = changes ? changes->apart : (TermShifts){{0}}};
  const char *slash = strrchr(path, '/');
  self->directory = slash ? arena_copy(arena, path, (size_t)(slash - path) + 1) : ".";
  self->perfmodel_root = arena_printf(arena, "%s/perfmodel", self->data_root);
  const int status = changes ? config_change(root, changes, arena, diag) : 0;
  if (!cache) self->cache = cache_new(arena);
  self->root = root;
  self->text = node_text(root, arena);
  if (status || bind_root(self, arena, diag)) return -1;
  return changes ? check_seeds(self, changes, diag) : 0;
}

static bool names_trace(const char *path) {
  static const char *const ends[] = {".csv", ".tsv", ".jsonl", ".csv.gz", ".tsv.gz", ".jsonl.gz"};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (text_ends_with(path, ends[i])) return true;
  return false;
}

Node *config_tree(const char *path, Arena *arena, Diag *diag) {
  const bool trace = names_trace(path);
  Node *root = trace ? NULL : yaml_load(path, arena, diag);
  if (root && root->kind == NODE_MAP) return root;
  if (!trace && !root) return NULL;
  diag_error(diag, place_of_file(path), "'%s' is not a configuration, which must be a map of keys",
             path);
  diag_hint(diag,
            "a configuration names its trace, as in workload: {trace: %s}; 'tandem trace %s' shows "
            "the content of a trace",
            path, path);
  return NULL;
}

int config_load(Config *self, const char *path, const ConfigChanges *changes, Arena *arena,
                Diag *diag) {
  Node *root = config_tree(path, arena, diag);
  return root ? config_bind(self, path, root, changes, NULL, arena, diag) : -1;
}

static int check_values(const Config *self, const Node *node, const char *option, const char *path,
                        Arena *arena, Diag *diag) {
  int status = 0;
  for (const Node *child = node->first; child; child = child->next)
    status |= check_values(self, child, option, path, arena, diag);
  if (node->kind != NODE_SCALAR) return status;
  const char *named = path_resolve(node->text, self->directory, arena);
  if (!output_is_same(path, named)) return status;
  return diag_error(diag, node->at, "'%s' would overwrite '%s'", option, named);
}

int config_check_output(const Config *self, const char *option, const char *path, Arena *arena,
                        Diag *diag) {
  return check_values(self, self->root, option, path, arena, diag);
}

int config_open_trace(Config *self, Arena *arena, Diag *diag) {
  self->sim.expected_requests = workload_expected(&self->workload);
  self->sim.trace = workload_open(&self->workload, self->sim.seed, arena, diag);
  self->source = self->sim.trace;
  return self->sim.trace ? 0 : -1;
}
