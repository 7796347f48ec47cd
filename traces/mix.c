/* A mix: workloads of their own, merged in order of time.
 *
 * A component is bound as a workload is, with what the whole says of its end where it says nothing
 * itself. Rows of the same tick come in the order of the components. */
#include "traces/mix.h"
#include "base/hash.h"
#include <math.h>
#include <string.h>

enum { COMPONENTS_MAX = 64 };

const OptionSpec workload_mix_options[] = {
    {"mix", OPTION_NODE, offsetof(MixKeys, components), .required = true,
     .help = "Components, each of them a workload: [{name: code, lengths: …, arrivals: …}, …]."},
    {"rate_scale", OPTION_REAL, offsetof(MixKeys, rate_scale), "1", .min = 1e-6, .max = 1e6,
     .help = "Factor on the rates of all components."},
    {"duration", OPTION_TICKS, offsetof(MixKeys, duration), .min = 1e-9, .max = 9e6, .word = "auto",
     .absent = "that of each component",
     .help = "Duration of components without one. With auto the run stops as precision says."},
    {"requests", OPTION_INT, offsetof(MixKeys, requests), .min = 1, .max = INFINITY,
     .help = "Number of requests of all components together after which the workload ends.",
     .absent = "no limit", .also = "num_prompts num_requests"},
    {"seed", OPTION_INT, offsetof(MixKeys, seed), .max = INFINITY,
     .help = "Seed of the arrivals and lengths, together with the component's name.",
     .absent = "that of the run"},
    {0}};

const OptionSpec workload_component_options[] = {
    {"name", OPTION_NODE, offsetof(WorkloadComponent, name), .required = true,
     .help = "Name of the component, of its random streams and of its figures."},
    {"model", OPTION_NODE, offsetof(WorkloadComponent, model),
     .help = "Model that the requests ask for, one of models.", .absent = "the only model"},
    {"adapters", OPTION_NODE, offsetof(WorkloadComponent, adapters),
     .help = "Entry of adapters, one of whose adapters each request asks for.", .absent = "none"},
    {"class", OPTION_NODE, offsetof(WorkloadComponent, class),
     .help = "Class of the requests, one of classes.", .absent = "that of the tenant"},
    {"tenant", OPTION_NODE, offsetof(WorkloadComponent, tenant),
     .help = "Tenant of the requests, one of tenants.", .absent = "a tenant of its own"},
    {0}};

/* ---- Binding ---- */

typedef struct Binder {
  WorkloadConfig *whole;
  const Node *node;
  const MixKeys *keys;
  const char *data_dir, *config_dir;
  Arena *arena;
  Diag *diag;
} Binder;

/* Keys of a workload that a mix has only in its components. */
static int refuse_keys(const Node *node, Diag *diag) {
  int status = 0;
  for (const Node *child = node->first; child; child = child->next) {
    bool known = false, elsewhere = false;
    for (const OptionSpec *spec = workload_mix_options; spec->key; spec++)
      known |= strcmp(spec->key, child->key) == 0;
    const OptionSpec *const others[] = {workload_synthetic_options, workload_replay_options};
    for (int i = 0; i < 2; i++)
      for (const OptionSpec *spec = others[i]; spec->key; spec++)
        elsewhere |= strcmp(spec->key, child->key) == 0;
    if (known || !elsewhere) continue;
    status = diag_error(diag, child->key_at, "'%s' cannot be used with 'mix'", child->key);
    diag_hint(diag, "set it in the components");
  }
  return status;
}

static int check_component(const Node *node, const Node *name, Diag *diag) {
  static const char *const refused[] = {"mix", "closed_loop", "sessions"};
  int status = 0;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    const Node *child = node_find(node, refused[i]);
    if (!child) continue;
    status = diag_error(diag, child->key_at, "'%s' is not supported in a mix", refused[i]);
    diag_hint(diag, "the components of a mix must be traces, or lengths with arrivals, whose "
                    "clients do not wait for answers");
  }
  if (!name) return diag_error(diag, node->at, "a component of a mix needs 'name'");
  if (name->kind == NODE_SCALAR && *name->text) return status;
  return diag_error(diag, name->at, "the 'name' of a component must be text");
}

static int check_name(const WorkloadComponent *components, int n, const Node *name, Diag *diag) {
  for (int i = 0; i < n; i++)
    if (strcmp(components[i].name, name->text) == 0)
      return diag_error(diag, name->at, "two components have the name '%s'", name->text);
  return 0;
}

/* Its map as that of a workload: without what is of components alone, with an end. */
static Node *workload_of(const Binder *self, const Node *node) {
  static const char *const ends[] = {"duration", "requests"};
  Node *copy = node_copy(node, self->arena);
  for (const OptionSpec *spec = workload_component_options; spec->key; spec++)
    node_take(copy, spec->key);
  for (int i = 0; i < 2; i++) {
    const Node *end = node_find(self->node, ends[i]);
    if (end && !node_find(copy, ends[i]) &&
        node_set(copy, ends[i], end->key_at, end, self->arena, self->diag))
      return NULL;
  }
  return copy;
}

static void scale(WorkloadConfig *config, double factor, Arena *arena) {
  if (factor == 1) return;
  config->rate *= factor;
  if (config->trace && config->rate == 0) config->rate_scale *= factor;
  if (config->pattern.given) rate_curve_scale(&config->pattern.curve, factor, arena);
}

static int bind_component(const Binder *self, const Node *node, WorkloadComponent *ret) {
  if (node->kind != NODE_MAP)
    return diag_error(self->diag, node->at, "a component of a mix must be a map, like 'workload'");
  const Node *name = node_find(node, "name");
  if (check_component(node, name, self->diag)) return -1;
  if (check_name(self->whole->components, self->whole->n_components, name, self->diag)) return -1;
  const Node *workload = workload_of(self, node);
  if (!workload) return -1;
  ret->name = name->text;
  ret->model = node_find(node, "model");
  ret->adapters = node_find(node, "adapters");
  ret->class = node_find(node, "class");
  ret->tenant = node_find(node, "tenant");
  if (workload_bind(&ret->of, workload, self->data_dir, self->config_dir, self->arena, self->diag))
    return -1;
  scale(&ret->of, self->keys->rate_scale, self->arena);
  if (ret->of.priorities.n_values > 0 && !self->whole->priorities_at.path)
    self->whole->priorities_at = ret->of.priorities_at;
  if (ret->of.images_at.path && !self->whole->images_at.path)
    self->whole->images_at = ret->of.images_at;
  return 0;
}

int mix_bind(WorkloadConfig *whole, const Node *node, const char *data_dir, const char *config_dir,
             Arena *arena, Diag *diag) {
  MixKeys keys = {.seed = -1};
  int status = refuse_keys(node, diag);
  if (status || option_bind(workload_mix_options, node, NULL, node->at, &keys, diag)) return -1;
  const Node *list = keys.components;
  if (list->kind != NODE_LIST || list->n_children == 0 || list->n_children > COMPONENTS_MAX) {
    diag_error(diag, list->at, "'mix' must be a list of 1 to %d workloads", COMPONENTS_MAX);
    diag_hint(diag,
              "for example [{name: code, lengths: azure-code-2024, arrivals: {rate: 28 /s}}]");
    return -1;
  }
  WorkloadComponent *components = ARENA_ARRAY(arena, WorkloadComponent, list->n_children);
  *whole = (WorkloadConfig){.rate_scale = 1,
                            .loop = 1,
                            .automatic = keys.duration < 0,
                            .duration = keys.duration < 0 ? 0 : keys.duration,
                            .requests = keys.requests,
                            .seed = keys.seed,
                            .components = components,
                            .at = node->at};
  const Binder binder = {whole, node, &keys, data_dir, config_dir, arena, diag};
  for (const Node *child = list->first; child; child = child->next) {
    if (bind_component(&binder, child, &components[whole->n_components])) status = -1;
    if (!components[whole->n_components].name) return -1; // nothing to tell it from others by
    whole->rate += components[whole->n_components++].of.rate;
  }
  return status;
}

/* ---- Merging ---- */

typedef struct Head {
  TraceSource *source;
  TraceRow row; // the next one
  bool ended;
} Head;

typedef struct Mix {
  TraceSource source; // first member
  Head *heads;
  int n_heads, taken; // whose row was handed out: the next is pulled once it is no longer looked at
  int64_t left;       // rows that may still come; -1: any
  int64_t left_out;
} Mix;

static int pull(Mix *self, int i, Diag *diag) {
  Head *head = &self->heads[i];
  const int64_t before = head->source->left_out ? *head->source->left_out : 0;
  const int status = trace_next(head->source, &head->row, diag);
  if (head->source->left_out) self->left_out += *head->source->left_out - before;
  head->ended = status <= 0;
  head->row.component = (uint16_t)i;
  return status;
}

static int mix_next(TraceSource *source, TraceRow *ret_row, Diag *diag) {
  Mix *self = (Mix *)source;
  if (self->left == 0) return 0;
  const int from = self->taken < 0 ? 0 : self->taken;
  const int to = self->taken < 0 ? self->n_heads - 1 : self->taken;
  for (int i = from; i <= to; i++)
    if (pull(self, i, diag) < 0) return -1;
  int first = -1;
  for (int i = 0; i < self->n_heads; i++)
    if (!self->heads[i].ended && (first < 0 || self->heads[i].row.at < self->heads[first].row.at))
      first = i;
  if (first < 0) return 0;
  self->taken = first;
  if (self->left > 0) self->left--;
  *ret_row = self->heads[first].row;
  return 1;
}

static void mix_close(TraceSource *source) {
  const Mix *self = (const Mix *)source;
  for (int i = 0; i < self->n_heads; i++)
    trace_close(self->heads[i].source);
}

TraceSource *mix_open(const WorkloadConfig *config, uint64_t seed, Arena *arena, Diag *diag) {
  Mix *self = ARENA_NEW(arena, Mix);
  *self = (Mix){.source = {.next = mix_next, .close = mix_close, .status = 1},
                .heads = ARENA_ARRAY(arena, Head, config->n_components),
                .taken = -1,
                .left = config->requests > 0 ? config->requests : -1};
  self->source.left_out = &self->left_out;
  for (int i = 0; i < config->n_components; i++) {
    const WorkloadComponent *component = &config->components[i];
    const uint64_t name = hash_bytes(component->name, strlen(component->name));
    TraceSource *of = workload_open(&component->of, hash_fold(seed, name), arena, diag);
    if (!of) {
      mix_close(&self->source);
      return NULL;
    }
    self->heads[self->n_heads++].source = of;
  }
  return &self->source;
}
