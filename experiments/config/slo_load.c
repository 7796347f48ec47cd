/* The `slo:` block: a set of limits by name, limits on slowdowns, on seconds and on goodput, those
 * of components, and the idle machine that slowdowns are relative to.
 *
 *     slo: {name: splitwise, ttft.p99: 400 ms, slowdown: {tbt.p50: 1.2}, goodput: {share: 95%, …},
 *           components: {chat: {ttft.p99: 1 s}}}
 *
 * A limit is METRIC.STATISTIC, or METRIC with a map of statistics, which is what --set makes. */
#include "experiments/config/config.h"
#include "perfmodel/datafile.h"
#include <string.h>

typedef struct SloKeys {
  int name; // index into slo_sets
  const char *machine;
  int64_t tensor_parallel_size;
  const Node *perfmodel; // NULL: that of the run
  const Node *slowdown, *goodput, *components;
} SloKeys;

#define SLO(field, kind, ...) OPTION_OF(SloKeys, field, kind, __VA_ARGS__)

const OptionSpec config_slo_options[] = {
    SLO(name, OPTION_CHOICE, .choices = slo_choices, .help = "Set of limits to begin with.",
        .absent = "splitwise, or none if other limits are given"),
    SLO(slowdown, OPTION_NODE,
        .help = "Limits on slowdowns relative to an idle machine: {ttft.p99: 6, tbt.p50: 1.2, …}.",
        .absent = "none"),
    SLO(goodput, OPTION_NODE, .help = "Limits that a share of the requests must each keep.",
        .absent = "none"),
    SLO(components, OPTION_NODE,
        .help = "Limits on the requests of one component of a mix, or of one of classes, which "
                "stands for all its components: {NAME: {ttft.p99: 1 s, …}, …}.",
        .absent = "none"),
    SLO(machine, OPTION_STRING, .listed = "machines", .fallback = "dgx-a100",
        .help = "Machine type of the idle machine that slowdowns are relative to."),
    SLO(tensor_parallel_size, OPTION_INT, .fallback = "8", .min = 1, .max = 1024,
        .help = "Number of GPUs of that machine that are used."),
    SLO(perfmodel, OPTION_NODE, .help = "Performance model of that machine, as at the top level.",
        .absent = "that of the run"),
    {0}};

typedef struct GoodputKeys {
  double share, hours;
  Tick ttft, tpot, tbt, e2e;
} GoodputKeys;

#define GOODPUT(field, help_text)                                                                  \
  OPTION_OF(GoodputKeys, field, OPTION_TICKS, .min = 1e-9, .max = 1e6, .help = help_text,          \
            .absent = "no limit")

const OptionSpec config_goodput_options[] = {
    OPTION_OF(GoodputKeys, share, OPTION_REAL, .required = true, .min = 1e-6, .max = 1,
              .help = "Share of the requests that must keep every limit below."),
    OPTION_OF(
        GoodputKeys, hours, OPTION_REAL, .min = 1e-6, .max = 1,
        .help =
            "Share of the hours in each of which that share of the arrivals must keep the limits.",
        .absent = "counted over the whole run"),
    GOODPUT(ttft, "Upper limit on the TTFT of a request."),
    GOODPUT(tpot, "Upper limit on the TPOT of a request, the mean gap between its tokens."),
    GOODPUT(tbt, "Another name of tpot; give one of the two."),
    GOODPUT(e2e, "Upper limit on the E2E time of a request."),
    {0}};

typedef struct ComponentKeys {
  const Node *goodput;
} ComponentKeys;

const OptionSpec config_component_slo_options[] = {
    OPTION_OF(ComponentKeys, goodput, OPTION_NODE,
              .help = "Limits that a share of these requests must each keep, in place of those of "
                      "slo.goodput, with the same keys but hours.",
              .absent = "those of slo.goodput"),
    {0}};

#define NO_LIMIT .absent = "no limit"
const OptionSpec config_limit_of_time = {.type = OPTION_TICKS, .min = 1e-9, .max = 1e6, NO_LIMIT};
const OptionSpec config_limit_of_ratio = {.type = OPTION_REAL, .min = 1e-6, .max = 1e6, NO_LIMIT};

/* ---- Limits in the words of others: p99_itl_ms, ttft_p99, itl.p99 ---- */

/* What others call our metrics and statistics: vLLM's, GenAI-Perf's and LLMPerf's words. */
static const struct {
  const char *word, *name;
} metric_words[] = {
    {"itl", "tbt"}, {"ict", "tbt"},  {"e2el", "e2e"},  {"latency", "e2e"},
    {"rl", "e2e"},  {"tft", "ttft"}, {"ttfs", "ttft"}, {"ttst", "second_token"},
};
static const struct {
  const char *word, *name;
} statistic_words[] = {{"median", "p50"}, {"avg", "mean"}, {"average", "mean"}, {"maximum", "max"}};

static const char *metric_called(const char *word) {
  const HistogramSpec *metric = slo_metric_find(word, strlen(word));
  if (metric) return metric->name;
  for (size_t i = 0; i < sizeof metric_words / sizeof *metric_words; i++)
    if (strcmp(metric_words[i].word, word) == 0) return metric_words[i].name;
  return NULL;
}

static const char *statistic_called(const char *word) {
  SloStatistic statistic;
  double quantile;
  if (slo_parse_statistic(word, &statistic, &quantile)) return word;
  for (size_t i = 0; i < sizeof statistic_words / sizeof *statistic_words; i++)
    if (strcmp(statistic_words[i].word, word) == 0) return statistic_words[i].name;
  return NULL;
}

const char *slo_key_meant(const char *key, Arena *arena) {
  static const char between[] = "._- ";
  const char *metric = NULL, *statistic = NULL;
  for (const char *at = key + strspn(key, between); *at; at += strspn(at, between)) {
    const size_t length = strcspn(at, between);
    const char *word = arena_copy(arena, at, length);
    if (!metric) metric = metric_called(word);
    if (!statistic) statistic = statistic_called(word);
    at += length;
  }
  return metric ? arena_printf(arena, "%s.%s", metric, statistic ? statistic : "p99") : NULL;
}

/* ---- Rows ---- */

/* The rows of one block as they are gathered. */
typedef struct Rows {
  const char *of;     // name of the component whose limits are read; NULL: all requests
  uint32_t component; // the same, as of metrics_histogram
  SloSpec *items;
  size_t n, capacity;
  Arena *arena;
  Diag *diag;
} Rows;

static void add_row(Rows *rows, SloSpec row) {
  ARENA_RESERVE(rows->arena, rows->items, rows->capacity, rows->n + 1);
  rows->items[rows->n++] = row;
}

static void add_set(Rows *rows, const SloSet *set) {
  for (int i = 0; i < set->n_specs; i++)
    add_row(rows, set->specs[i]);
}

/* As limits of the component that is read are called. */
static const char *named(const Rows *rows, const char *name) {
  return rows->of ? arena_printf(rows->arena, "%s:%s", rows->of, name) : name;
}

/* A metric with a statistic and its limit. */
static int add_limit(Rows *rows, const HistogramSpec *metric, const char *statistic, Place at,
                     const Node *value) {
  SloSpec row = {.metric = metric, .component = rows->component};
  row.name = named(rows, arena_printf(rows->arena, "%s.%s", metric->name, statistic));
  if (!slo_parse_statistic(statistic, &row.statistic, &row.quantile)) {
    diag_error(rows->diag, at, "unknown statistic '%s'", statistic);
    return diag_hint(rows->diag, "choose mean, max, or a percentile such as p50 or p99.9");
  }
  Tick ticks = 0;
  OptionSpec time = config_limit_of_time, ratio = config_limit_of_ratio;
  time.key = ratio.key = value->key;
  const bool seconds = *metric->unit != '\0';
  if (seconds ? option_bind_one(&time, value, &ticks, rows->diag)
              : option_bind_one(&ratio, value, &row.limit, rows->diag))
    return -1;
  if (seconds) row.limit = tick_seconds(ticks);
  for (size_t i = 0; i < rows->n; i++)
    if (strcmp(rows->items[i].name, row.name) == 0)
      return diag_error(rows->diag, at, "'%s' already has a limit", row.name);
  add_row(rows, row);
  return 0;
}

/* The metric that a key begins with, of those whose names begin with `prefix`; NULL: none. */
static const HistogramSpec *metric_of(const Rows *rows, const char *prefix, const char *key) {
  const char *name = arena_printf(rows->arena, "%s%.*s", prefix, (int)strcspn(key, "."), key);
  return slo_metric_find(name, strlen(name));
}

/* One key of a map of limits: ttft.p99, or ttft with a map. */
static int add_key(Rows *rows, const HistogramSpec *metric, const Node *node) {
  const char *dot = strchr(node->key, '.');
  if (rows->of && !component_metrics_have((int)(metric - metrics_histograms))) {
    diag_error(rows->diag, node->key_at, "'%s' cannot be limited for one component", node->key);
    return diag_hint(rows->diag, "limits of a component are on ttft, tpot, e2e and goodput");
  }
  if (dot) return add_limit(rows, metric, dot + 1, node->key_at, node);
  if (node->kind != NODE_MAP) {
    diag_error(rows->diag, node->key_at, "'%s' needs a statistic", node->key);
    return diag_hint(rows->diag, "for example '%s.p99'", node->key);
  }
  int status = 0;
  for (const Node *child = node->first; child; child = child->next)
    status |= add_limit(rows, metric, child->key, child->key_at, child);
  return status;
}

/* The limits of a map, on metrics whose names begin with `prefix`; without one there are other keys
 * beside them. */
static int add_limits(Rows *rows, const char *prefix, const Node *map) {
  if (map->kind != NODE_MAP)
    return diag_error(rows->diag, map->at, "'slowdown' must be a map such as {ttft.p99: 6}");
  int status = 0;
  for (const Node *node = map->first; node; node = node->next) {
    const HistogramSpec *metric = metric_of(rows, prefix, node->key);
    if (metric) status |= add_key(rows, metric, node);
    if (metric || !*prefix) continue;
    const char *meant = slo_key_meant(node->key, rows->arena);
    status = diag_error(rows->diag, node->key_at, "unknown key '%s'", node->key);
    diag_hint(rows->diag, "slowdowns exist for ttft, tbt and e2e, such as '%s'",
              meant ? meant : "ttft.p99");
  }
  return status;
}

static Tick least_limit(Tick a, Tick b) {
  return a == 0 || (b != 0 && b < a) ? b : a;
}

static int add_goodput(Rows *rows, const Node *node, GoodputLimits *ret_limits) {
  GoodputKeys keys = {0};
  if (option_bind(config_goodput_options, node, NULL, node->at, &keys, rows->diag)) return -1;
  if (rows->of && keys.hours > 0)
    return diag_error(rows->diag, config_place(node, "hours"),
                      "'hours' counts all requests and cannot be used for one component");
  const double hour_share = rows->of ? 0 : keys.share;
  *ret_limits = (GoodputLimits){keys.ttft, least_limit(keys.tpot, keys.tbt), keys.e2e, hour_share};
  if (!goodput_limits_given(ret_limits))
    return diag_error(rows->diag, node->key_at, "'goodput' needs a limit: ttft, tpot or e2e");
  SloSpec row = {named(rows, "goodput"), SLO_GOOD_SHARE, NULL, 0, keys.share, rows->component};
  if (keys.hours > 0) row = (SloSpec){"goodput.hours", SLO_GOOD_HOURS, NULL, 0, keys.hours, 0};
  add_row(rows, row);
  return 0;
}

/* Whether a key has a statistic of no metric, which an entry then says. */
static bool refuse_metric(const Rows *rows, const Node *node) {
  const char *dot = strchr(node->key, '.');
  const char *names[METRICS_HISTOGRAMS + 1] = {NULL};
  SloStatistic statistic;
  double quantile;
  if (!dot || !slo_parse_statistic(dot + 1, &statistic, &quantile)) return false;
  for (int i = 0, n = 0; i < METRICS_HISTOGRAMS; i++)
    if (*metrics_histograms[i].unit) names[n++] = metrics_histograms[i].name;
  const char *word = arena_copy(rows->arena, node->key, (size_t)(dot - node->key));
  diag_error(rows->diag, node->key_at, "unknown limit '%s': there is no metric '%s'", node->key,
             word);
  diag_hint_choices(rows->diag, word, names, "tandem list options");
  return true;
}

/* Whether a key that is none of the block's is a limit in other words, which an entry then says. */
static bool refuse_words(const Rows *rows, const OptionSpec *options, const Node *node) {
  for (const OptionSpec *option = options; option->key; option++)
    if (strcmp(option->key, node->key) == 0) return false;
  const char *meant = slo_key_meant(node->key, rows->arena);
  if (!meant) return refuse_metric(rows, node);
  diag_error(rows->diag, node->key_at, "unknown limit '%s'", node->key);
  diag_hint(
      rows->diag,
      "did you mean '%s'? Limits exist for ttft, tbt, tpot, e2e and others: 'tandem list options'",
      meant);
  return true;
}

/* The keys of a block that are limits themselves, or meant to be, for option_bind to leave alone.
 */
static const char *const *limit_keys(const Rows *rows, const OptionSpec *options, const Node *map,
                                     int *ret_status) {
  const char **keys = ARENA_ARRAY(rows->arena, const char *, map->n_children + 1);
  int n = 0;
  for (const Node *node = map->first; node; node = node->next) {
    const bool limit = metric_of(rows, "", node->key);
    const bool refused = !limit && refuse_words(rows, options, node);
    if (refused) *ret_status = -1;
    if (limit || refused) keys[n++] = node->key;
  }
  return keys;
}

/* ---- Components ---- */

/* The names that there are: of components, and of classes that are named. */
static const char *names_of(const SimConfig *sim, Arena *arena) {
  const char **names = ARENA_ARRAY(arena, const char *, sim->n_components + sim->n_classes + 1);
  int n = 0;
  for (uint32_t i = 0; i < sim->n_components; i++)
    names[n++] = sim->components[i].name;
  for (uint32_t i = 0; i < sim->n_classes; i++) {
    bool known = !*sim->classes[i].name;
    for (uint32_t c = 0; c < sim->n_components; c++)
      known |= strcmp(sim->components[c].name, sim->classes[i].name) == 0;
    if (!known) names[n++] = sim->classes[i].name;
  }
  return datafile_join(names, arena);
}

/* Components of a class. */
static int count_members(const SimConfig *sim, uint32_t class) {
  int n = 0;
  for (uint32_t i = 0; i < sim->n_components; i++)
    n += sim->components[i].class == class;
  return n;
}

/* As of metrics_histogram; 0 with an entry where the name is of none, or of several. */
static uint32_t find_component(const SimConfig *sim, const Node *node, Diag *diag) {
  uint32_t component = 0, class = 0;
  for (uint32_t i = 0; i < sim->n_components; i++)
    if (strcmp(sim->components[i].name, node->key) == 0) component = 1 + i;
  for (uint32_t i = 0; i < sim->n_classes; i++)
    if (*node->key && strcmp(sim->classes[i].name, node->key) == 0) class = 1 + i;
  if (component > 0 && class > 0) {
    const bool same =
        sim->components[component - 1].class == class - 1 && count_members(sim, class - 1) == 1;
    if (same) return component;
    diag_error(diag, node->key_at, "'%s' is a component, and a class of other components",
               node->key);
    diag_hint(diag, "give one of the two another name");
    return 0;
  }
  if (component > 0) return component;
  if (class > 0 && count_members(sim, class - 1) > 0) return sim->n_components + class;
  if (class > 0) {
    diag_error(diag, node->key_at, "no component of the workload is of class '%s'", node->key);
  } else {
    diag_error(diag, node->key_at, "there is no component or class '%s'", node->key);
    diag_hint(diag, "the workload has %s", names_of(sim, &diag->arena));
  }
  return 0;
}

/* What makes requests of a component or class good ones. */
static void set_good_limits(SimConfig *sim, uint32_t component, const GoodputLimits *limits) {
  if (component <= sim->n_components)
    ((ComponentSpec *)sim->components)[component - 1].good_limits = limits;
  else
    ((ClassSpec *)sim->classes)[component - 1 - sim->n_components].good_limits = limits;
}

static int bind_component(Rows *rows, SimConfig *sim, const Node *node) {
  const uint32_t component = find_component(sim, node, rows->diag);
  if (component == 0) return -1;
  if (node->kind != NODE_MAP || node->n_children == 0)
    return diag_error(rows->diag, node->at, "'%s' must be a map of limits such as {ttft.p99: 1 s}",
                      node->key);
  ComponentKeys keys = {0};
  rows->of = node->key;
  rows->component = component;
  int status = 0;
  const char *const *limits = limit_keys(rows, config_component_slo_options, node, &status);
  status |= option_bind(config_component_slo_options, node, limits, node->at, &keys, rows->diag);
  if (status == 0) status = add_limits(rows, "", node);
  if (status == 0 && keys.goodput) {
    GoodputLimits *good = ARENA_NEW(rows->arena, GoodputLimits);
    status = add_goodput(rows, keys.goodput, good);
    set_good_limits(sim, component, good);
  }
  rows->of = NULL;
  rows->component = 0;
  return status;
}

static int bind_components(Rows *rows, SimConfig *sim, const Node *map) {
  if (map->kind != NODE_MAP)
    return diag_error(rows->diag, map->at,
                      "'components' must be a map such as {chat: {ttft.p99: "
                      "1 s}}");
  if (sim->n_components == 0) {
    diag_error(rows->diag, map->key_at,
               "'components' applies to the components of a mix, and the workload is not a mix");
    return diag_hint(rows->diag, "for example workload: {mix: [{name: chat, …}, …]}");
  }
  int status = 0;
  for (const Node *node = map->first; node; node = node->next)
    status |= bind_component(rows, sim, node);
  return status;
}

/* ---- All of it ---- */

static int bind_map(const Node *map, SloKeys *keys, Rows *rows, SimConfig *sim) {
  int status = 0;
  const char *const *limits = limit_keys(rows, config_slo_options, map, &status);
  status |= option_bind(config_slo_options, map, limits, map->at, keys, rows->diag);
  if (status) return status;
  const bool own = *limits || keys->slowdown || keys->goodput || keys->components;
  if (!node_find(map, "name")) keys->name = own ? 0 : 1;
  add_set(rows, &slo_sets[keys->name]);
  if (keys->slowdown) status |= add_limits(rows, "slowdown.", keys->slowdown);
  status |= add_limits(rows, "", map);
  if (keys->goodput) status |= add_goodput(rows, keys->goodput, &sim->good_limits);
  if (keys->components) status |= bind_components(rows, sim, keys->components);
  return status;
}

static int load_reference(Config *self, const SloKeys *slo, const Node *node, Arena *arena,
                          Diag *diag) {
  Place machine_at = node->kind == NODE_MAP ? config_place(node, "machine") : node->at;
  Hardware hardware;
  if (config_load_hardware(self, &hardware, slo->machine, machine_at, arena, diag)) return -1;
  if (!self->perfmodel.name) return -1;
  // One file is of one machine, hardly of this one.
  PerfModelInputs choice = self->perfmodel;
  if (datafile_is_path(choice.name)) choice = config_fitted;
  choice.time_scale = 1; // what is moved is the cluster, not what it is measured by
  if (slo->perfmodel && config_bind_perfmodel(self, slo->perfmodel, &choice, arena, diag))
    return -1;
  choice.hardware = &hardware;
  choice.degrees = (Parallelism){.tensor = slo->tensor_parallel_size, .pipeline = 1, .data = 1};
  choice.max_decode_seqs = 1;
  int status = 0;
  for (uint32_t i = 0; i < self->n_models && !status; i++) {
    ModelSpec *spec = &self->specs[i];
    choice.model = &self->models[i];
    spec->slo_reference = choice.model->name ? config_load_perfmodel(self, choice, &self->engine,
                                                                     node->at, arena, diag)
                                             : NULL;
    status = spec->slo_reference ? 0 : -1;
  }
  self->sim.model = self->specs[0];
  return status;
}

static const char *set_name(const SloSet *named, size_t n_specs, Arena *arena) {
  if ((size_t)named->n_specs == n_specs) return named->name;
  return named->n_specs > 0 ? arena_printf(arena, "%s and own", named->name) : "own";
}

int config_bind_slo(Config *self, const Node *node, Arena *arena, Diag *diag) {
  if (!node) return 0;
  SloKeys keys = {0};
  option_defaults(config_slo_options, &keys);
  Rows rows = {.arena = arena, .diag = diag};
  if (node->kind == NODE_MAP) {
    if (bind_map(node, &keys, &rows, &self->sim)) return -1;
  } else {
    const OptionSpec bare = {.key = "slo", .type = OPTION_CHOICE, .choices = slo_choices};
    if (option_bind_one(&bare, node, &keys.name, diag)) return -1;
    add_set(&rows, &slo_sets[keys.name]);
  }
  SloSet *set = ARENA_NEW(arena, SloSet);
  *set = (SloSet){set_name(&slo_sets[keys.name], rows.n, arena), rows.items, (int)rows.n};
  self->slo = set;
  self->sim.ranged = slo_ranged(set);
  self->sim.n_ranged_components = slo_ranged_components(set, &self->sim.ranged_components, arena);
  bool relative = false;
  for (size_t i = 0; i < rows.n; i++)
    relative |= rows.items[i].metric && strncmp(rows.items[i].metric->name, "slowdown.", 9) == 0;
  return relative ? load_reference(self, &keys, node, arena, diag) : 0;
}
