/* Classes of requests and tenants (sim/feature/admission.c): `classes`, `tenants`, and which of
 * them the components of a mix are of. */
#include "experiments/config/config.h"
#include <string.h>

enum { NAMES_MAX = 64 }; // of each, as of components

typedef struct ClassKeys {
  int64_t priority, max_in_flight, max_queue, output_tokens;
  int action;
} ClassKeys;

typedef struct TenantKeys {
  const char *class;
  double weight, tokens_per_minute;
  int64_t max_in_flight;
  Tick burst;
} TenantKeys;

static const char *const action_choices[] = {"queue", "reject", "degrade", NULL};

#define CLASS(field, type_, ...)  OPTION_OF(ClassKeys, field, OPTION_##type_, __VA_ARGS__)
#define TENANT(field, type_, ...) OPTION_OF(TenantKeys, field, OPTION_##type_, __VA_ARGS__)

const OptionSpec config_class_options[] = {
    CLASS(priority, INT, .fallback = "0", .min = -1e6, .max = 1e6,
          .help = "Priority of admission; lower values first. Requests without a priority of their "
                  "own have it in the engine too."),
    CLASS(max_in_flight, INT, .min = 1, .max = 1e9,
          .help = "Maximum number of requests in the cluster at a time.", .absent = "no limit"),
    CLASS(action, CHOICE, .fallback = "queue", .choices = action_choices,
          .help = "Action for requests above a limit of the class or tenant: hold them (queue), "
                  "reject them, or admit them with fewer output tokens (degrade)."),
    CLASS(max_queue, INT, .min = 0, .max = 1e9,
          .help = "Maximum number of requests that are held; further ones are rejected. It applies "
                  "to action: queue.",
          .absent = "no limit"),
    CLASS(output_tokens, INT, .min = 1, .max = 1e9,
          .help = "Maximum number of output tokens of degraded requests.",
          .absent = "none; required for degrade"),
    {0}};

const OptionSpec config_tenant_options[] = {
    TENANT(class, STRING, .help = "Class of the tenant's requests, one of classes.",
           .absent = "none, without limits"),
    TENANT(weight, REAL, .fallback = "1", .min = 1e-3, .max = 1e3,
           .help = "Weight of the tenant among those whose requests are held."),
    TENANT(max_in_flight, INT, .min = 1, .max = 1e9,
           .help = "Maximum number of requests in the cluster at a time.", .absent = "no limit"),
    TENANT(tokens_per_minute, REAL, .min = 1e-3, .max = 1e12,
           .help = "Maximum rate of prompt and output tokens per minute.", .absent = "no limit"),
    TENANT(burst, TICKS, .fallback = "60 s", .max = 86400,
           .help = "Time for which unused tokens remain available."),
    {0}};

typedef struct Binder {
  Config *config;
  Arena *arena;
  Diag *diag;
  ClassSpec *classes;
  TenantSpec *tenants;
  const char *of_tenant[2 * NAMES_MAX]; // classes that are named
  Place at_tenant[2 * NAMES_MAX];
  int status;
} Binder;

static bool is_map(Binder *self, const Node *node, const char *example) {
  if (!node) return false;
  if (node->kind == NODE_MAP && node->n_children > 0 && node->n_children <= NAMES_MAX) return true;
  self->status =
      diag_error(self->diag, node->at, "'%s' must be a map of 1 to %d names", node->key, NAMES_MAX);
  diag_hint(self->diag, "for example %s", example);
  return false;
}

static void bind_class(Binder *self, const Node *node) {
  SimConfig *sim = &self->config->sim;
  ClassKeys keys = {.max_queue = -1};
  if (option_bind(config_class_options, node, NULL, node->at, &keys, self->diag)) self->status = -1;
  if (keys.action == ADMISSION_DEGRADE && keys.output_tokens == 0) {
    self->status = diag_error(self->diag, config_place(node, "action"),
                              "class '%s' has 'action: degrade' and no 'output_tokens'", node->key);
    diag_hint(self->diag, "set the most output tokens that its requests get then, such as 64");
  }
  if (keys.action != ADMISSION_DEGRADE && keys.output_tokens > 0)
    self->status = diag_error(self->diag, config_place(node, "output_tokens"),
                              "'output_tokens' needs 'action: degrade'");
  if (keys.action != ADMISSION_QUEUE && keys.max_queue >= 0)
    self->status = diag_error(self->diag, config_place(node, "max_queue"),
                              "'max_queue' needs 'action: queue'");
  self->classes[sim->n_classes++] = (ClassSpec){.name = node->key,
                                                .priority = keys.priority,
                                                .max_in_flight = keys.max_in_flight,
                                                .action = keys.action,
                                                .max_queue = keys.max_queue,
                                                .output_tokens = (int32_t)keys.output_tokens};
}

static void bind_tenant(Binder *self, const Node *node) {
  SimConfig *sim = &self->config->sim;
  TenantKeys keys = {0};
  if (option_bind(config_tenant_options, node, NULL, node->at, &keys, self->diag))
    self->status = -1;
  if (keys.tokens_per_minute == 0 && node_find(node, "burst"))
    self->status =
        diag_error(self->diag, config_place(node, "burst"),
                   "'burst' needs 'tokens_per_minute', which '%s' does not have", node->key);
  self->of_tenant[sim->n_tenants] = keys.class;
  self->at_tenant[sim->n_tenants] = config_place(node, "class");
  const double ticks =
      keys.tokens_per_minute > 0 ? 60 * (double)TICKS_PER_SECOND / keys.tokens_per_minute : 0;
  self->tenants[sim->n_tenants++] = (TenantSpec){.name = node->key,
                                                 .weight = keys.weight,
                                                 .max_in_flight = keys.max_in_flight,
                                                 .token_ticks = (Tick)(ticks + 0.5),
                                                 .burst = keys.burst};
}

/* ---- Components ---- */

/* The index of a name among structs that begin with theirs; -1 with an entry. */
static int find(Binder *self, const char *what, const char *name, Place at, const void *structs,
                size_t size, uint32_t n) {
  const char **names = ARENA_ARRAY(&self->diag->arena, const char *, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    names[i] = *(const char *const *)((const char *)structs + i * size);
    if (strcmp(names[i], name) == 0) return (int)i;
  }
  self->status = diag_error(self->diag, at, "there is no %s '%s'", what, name);
  return diag_hint_near(self->diag, name, names);
}

/* The class of those who are of none. */
static int no_class(Binder *self) {
  SimConfig *sim = &self->config->sim;
  for (uint32_t i = 0; i < sim->n_classes; i++)
    if (!*self->classes[i].name) return (int)i;
  self->classes[sim->n_classes] = (ClassSpec){.name = "", .max_queue = -1};
  return (int)sim->n_classes++;
}

static const char *name_of(Binder *self, const Node *node) {
  if (!node || node->kind == NODE_SCALAR) return node ? node->text : NULL;
  self->status = diag_error(self->diag, node->at, "'%s' must be a name", node->key);
  return NULL;
}

/* A component that is of no tenant is one by itself. */
static void bind_component(Binder *self, const WorkloadComponent *component, uint32_t n_named,
                           ComponentSpec *spec) {
  SimConfig *sim = &self->config->sim;
  const char *tenant = name_of(self, component->tenant), *class = name_of(self, component->class);
  int t = tenant ? find(self, "tenant", tenant, component->tenant->at, self->tenants,
                        sizeof *self->tenants, n_named)
                 : -1;
  if (!tenant) {
    t = (int)sim->n_tenants++;
    self->tenants[t] = (TenantSpec){.name = component->name, .weight = 1};
    self->of_tenant[t] = NULL;
  }
  if (t < 0) return;
  const Place at = class ? component->class->at : self->at_tenant[t];
  if (!class) class = self->of_tenant[t];
  const int c =
      class ? find(self, "class", class, at, self->classes, sizeof *self->classes, sim->n_classes)
            : no_class(self);
  if (c < 0) return;
  spec->tenant = (uint8_t)t;
  spec->class = (uint8_t)c;
}

static void check_named(Binder *self, const Node *classes, const Node *tenants) {
  const WorkloadConfig *workload = &self->config->workload;
  for (int i = 0; i < workload->n_components; i++) {
    const WorkloadComponent *component = &workload->components[i];
    if (component->class && !classes)
      self->status = diag_error(self->diag, component->class->at,
                                "there is no class '%s': the configuration has no 'classes'",
                                component->class->text);
    if (component->tenant && !tenants)
      self->status = diag_error(self->diag, component->tenant->at,
                                "there is no tenant '%s': the configuration has no 'tenants'",
                                component->tenant->text);
  }
}

int config_bind_classes(Config *self, const Node *classes, const Node *tenants, Arena *arena,
                        Diag *diag) {
  const WorkloadConfig *workload = &self->workload;
  Binder binder = {.config = self,
                   .arena = arena,
                   .diag = diag,
                   .classes = ARENA_ARRAY(arena, ClassSpec, NAMES_MAX + 1),
                   .tenants = ARENA_ARRAY(arena, TenantSpec, 2 * NAMES_MAX)};
  if (is_map(&binder, classes, "{interactive: {priority: 0}, batch: {priority: 1}}"))
    for (const Node *node = classes->first; node; node = node->next)
      bind_class(&binder, node);
  if (is_map(&binder, tenants, "{acme: {weight: 2}, others: {tokens_per_minute: 100k}}"))
    for (const Node *node = tenants->first; node; node = node->next)
      bind_tenant(&binder, node);
  check_named(&binder, classes, tenants);
  if (binder.status || !(classes || tenants)) return binder.status;
  if (workload->n_components == 0) {
    diag_error(diag, classes ? classes->key_at : tenants->key_at,
               "'%s' apply to the components of a mix, and the workload is not a mix",
               classes ? "classes" : "tenants");
    return diag_hint(diag, "for example workload: {mix: [{name: chat, class: interactive, …}]}");
  }
  const uint32_t n_named = self->sim.n_tenants;
  ComponentSpec *components = (ComponentSpec *)self->sim.components;
  for (int i = 0; i < workload->n_components; i++)
    bind_component(&binder, &workload->components[i], n_named, &components[i]);
  self->sim.classes = binder.classes;
  self->sim.tenants = binder.tenants;
  return binder.status;
}

/* --- early rejection */

#define EARLY(field, kind, ...)                                                                    \
  OPTION_AT(SimConfig, #field, early_rejection.field, kind, __VA_ARGS__)

const OptionSpec config_early_rejection_options[] = {
    EARLY(ttft, OPTION_TICKS, .required = true, .min = 1e-6, .max = 86400,
          .help = "Limit on the predicted TTFT."),
    EARLY(tbt, OPTION_TICKS, .required = true, .min = 1e-6, .max = 86400,
          .help = "Limit on the predicted time between tokens of the decode instances."),
    {"prediction", OPTION_BOOL, offsetof(SimConfig, early_rejection.predicts), "true",
     .help = "Whether the time between tokens is that of the moment when the prefill ends (early "
             "rejection based on prediction), or of the arrival."},
    EARLY(decode_time, OPTION_TICKS, .fallback = "10 s", .min = 1e-3, .max = 86400,
          .help = "Time that every request is taken to decode for by the prediction."),
    {0}};

int config_bind_early_rejection(Config *self, const Node *node, Diag *diag) {
  if (option_bind(config_early_rejection_options, node, NULL, node->at, &self->sim, diag))
    return -1;
  if (self->sim.hedge.after == 0 && self->sim.n_groups == 0) return 0;
  return diag_error(diag, node->key_at, "'early_rejection' cannot be used with %s",
                    self->sim.n_groups > 0 ? "groups" : "'faults.hedge'");
}
