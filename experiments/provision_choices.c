/* See provision_choices.h. */
#include "experiments/provision_choices.h"
#include <stdlib.h>
#include <string.h>

enum { CHOICES_MAX = 100000 }; // of a design

static const char parallelism_key[] = "parallelism";

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

int choices_bind(Design *self, const Node *map, Node *root, Arena *arena, Diag *diag) {
  *self = (Design){.name = map->key, .at = map->key_at, .choices = {.n_points = 1}};
  if (map->kind != NODE_MAP)
    return diag_error(diag, map->at, "design '%s' wants a map of keys to values", map->key);
  Node *axes = ARENA_NEW(arena, Node);
  *axes = (Node){.kind = NODE_MAP, .at = map->at};
  self->settings = ARENA_ARRAY(arena, Setting, map->n_children);
  const Node *parallelism = node_find(map, parallelism_key);
  for (const Node *node = map->first; node; node = node->next)
    if (node != parallelism && !is_enumerated(node))
      self->settings[self->n_settings++] = (Setting){node->key, node->key_at, node};
  for (const Node *node = map->first; node; node = node->next)
    if (node == parallelism && add_parallelism(self, axes, node, root, arena, diag))
      return -1;
    else if (node != parallelism && is_enumerated(node))
      add_axis(axes, node, arena);
  if (axes->first && sweep_bind(&self->choices, axes, arena, diag)) return -1;
  if (self->choices.n_points > CHOICES_MAX)
    return diag_error(diag, self->at, "design '%s' has more than %d choices", self->name,
                      CHOICES_MAX);
  return 0;
}

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
