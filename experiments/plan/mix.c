/* Several kinds of traffic in one question: the mix of a configuration, in place of a rate and
 * lengths. */
#include "experiments/plan/plan.h"
#include "experiments/plan/quote.h"
#include <string.h>
#include <unistd.h>

/* Paths of traces and tables are relative to the file that has them, and the study is elsewhere. */
static void place_paths(Node *node, const char *folder, Arena *arena) {
  for (Node *child = node->first; child; child = child->next) {
    place_paths(child, folder, arena);
    if (child->kind != NODE_SCALAR || !strpbrk(child->text, "./")) continue;
    const char *there = arena_printf(arena, "%s/%s", folder, child->text);
    if (*child->text != '/' && access(child->text, F_OK) != 0 && access(there, F_OK) == 0)
      child->text = there;
  }
}

static const char *folder_of(const char *path, Arena *arena) {
  const char *slash = strrchr(path, '/');
  return slash ? arena_copy(arena, path, (size_t)(slash - path)) : ".";
}

static bool says_end(const Node *workload) {
  return node_find(workload, "duration") || node_find(workload, "requests");
}

/* Whether the file says when the mix ends, or else each component. */
static bool has_end(const Node *workload) {
  if (says_end(workload)) return true;
  for (const Node *item = node_find(workload, "mix")->first; item; item = item->next)
    if (item->kind == NODE_MAP && !says_end(item) && !node_find(item, "trace")) return false;
  return true;
}

int plan_read_mix(PlanMix *ret, const char *path, Arena *arena, Diag *diag) {
  *ret = (PlanMix){.path = path, .root = config_tree(path, arena, diag)};
  Node *workload = (Node *)node_find(ret->root, "workload");
  if (!ret->root) return -1;
  if (!workload || !node_find(workload, "mix")) {
    diag_error(diag, workload ? workload->at : place_of_file(path), "'%s' has no mix of workloads",
               path);
    return diag_hint(diag, "for example workload: {mix: [{name: chat, …}, …]}");
  }
  const char *folder = folder_of(path, arena);
  place_paths(workload, folder, arena);
  ret->endless = !has_end(workload);
  if (ret->endless && yaml_set(ret->root, "workload.requests=1", arena, diag)) return -1;
  return workload_bind(&ret->workload, workload, config_data_root(), folder, arena, diag);
}

double plan_mix_share(const PlanMix *self, const char *name) {
  const WorkloadConfig *workload = &self->workload;
  double rate = 0, all = 0;
  for (int i = 0; i < workload->n_components; i++) {
    const WorkloadComponent *component = &workload->components[i];
    const Node *class = component->class;
    const bool of_class = class && class->kind == NODE_SCALAR && strcmp(class->text, name) == 0;
    if (strcmp(component->name, name) == 0 || of_class) rate += component->of.rate;
    all += component->of.rate;
  }
  return rate > 0 ? rate / all : 1;
}

const char *plan_mix_text(const PlanMix *self, int64_t requests, Arena *arena) {
  static const char *const others[] = {"classes", "tenants"};
  const Node *workload = node_find(self->root, "workload");
  const char *text = "";
  for (int i = 0; i < 2; i++) {
    const Node *other = node_find(self->root, others[i]);
    if (other) text = arena_printf(arena, "%s%s: %s\n", text, others[i], node_text(other, arena));
  }
  text = arena_printf(arena, "%sworkload:\n", text);
  for (const Node *child = workload->first; child; child = child->next) {
    const char *key = quote_yaml(child->key, arena);
    if (self->endless && strcmp(child->key, "requests") == 0) continue;
    if (strcmp(child->key, "mix") != 0) {
      text = arena_printf(arena, "%s  %s: %s\n", text, key, node_text(child, arena));
      continue;
    }
    text = arena_printf(arena, "%s  mix:\n", text);
    for (const Node *item = child->first; item; item = item->next)
      text = arena_printf(arena, "%s    - %s\n", text, node_text(item, arena));
  }
  if (!self->endless) return text;
  return arena_printf(arena, "%s  requests: %lld\n", text, (long long)requests);
}
