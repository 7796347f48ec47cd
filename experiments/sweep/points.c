/* The points that axes span, and what axes may not do to each other. */
#include "experiments/sweep/axes.h"
#include <string.h>

/* Whether setting one key changes the other too: the same path, or one inside the other. */
static bool keys_overlap(const char *a, const char *b) {
  const size_t a_length = strlen(a), b_length = strlen(b);
  const size_t shorter = a_length < b_length ? a_length : b_length;
  if (strncmp(a, b, shorter) != 0) return false;
  const char next = a_length < b_length ? b[shorter] : a[shorter];
  return next == '\0' || next == '.';
}

static int check_pair(const Axis *a, const Axis *b, Diag *diag) {
  for (int i = 0; i < a->n_keys; i++)
    for (int k = 0; k < b->n_keys; k++)
      if (keys_overlap(a->keys[i].key, b->keys[k].key))
        return diag_error(diag, b->keys[k].at, "axes '%s' and '%s' both move '%s'", a->name,
                          b->name, b->keys[k].key);
  return 0;
}

static int count_points(Sweep *self, Place at, Diag *diag) {
  self->n_points = 1;
  for (int i = 0; i < self->n_axes; i++) {
    const Axis *axis = &self->axes[i];
    int most = 0;
    for (int k = 0; k < axis->n_choices; k++)
      if (axis->choices[k].n_settings > most) most = axis->choices[k].n_settings;
    self->n_settings_max += most;
    self->n_points *= axis->n_choices;
    if (self->n_points > SWEEP_POINTS_MAX)
      return diag_error(diag, at, "the axes make more than %d points", SWEEP_POINTS_MAX);
  }
  return 0;
}

int sweep_bind(Sweep *self, const Node *block, Arena *arena, Diag *diag) {
  *self = (Sweep){0};
  if (block->kind != NODE_MAP || block->n_children == 0) {
    diag_error(diag, block->at, "'sweep' must be a map of keys to their values");
    diag_hint(diag,
              "for example {pools.prefill.count: 1..40, workload.arrivals.rate: [70 /s, 90 /s]}");
    return -1;
  }
  self->axes = ARENA_ARRAY(arena, Axis, block->n_children);
  int status = 0;
  for (const Node *entry = block->first; entry; entry = entry->next)
    status |= axis_bind(&self->axes[self->n_axes++], entry, arena, diag);
  if (status) return -1;
  for (int i = 0; i < self->n_axes; i++)
    for (int k = 0; k < i; k++)
      status |= check_pair(&self->axes[k], &self->axes[i], diag);
  return status ? -1 : count_points(self, block->at, diag);
}

const Choice *sweep_choice(const Sweep *self, int64_t point, int axis) {
  for (int i = self->n_axes - 1; i > axis; i--)
    point /= self->axes[i].n_choices;
  return &self->axes[axis].choices[point % self->axes[axis].n_choices];
}

int sweep_settings(const Sweep *self, int64_t point, Setting *ret_settings) {
  int n = 0;
  for (int i = 0; i < self->n_axes; i++) {
    const Choice *choice = sweep_choice(self, point, i);
    for (int k = 0; k < choice->n_settings; k++)
      ret_settings[n++] = choice->settings[k];
  }
  return n;
}

const char *sweep_label(const Sweep *self, int64_t point, Arena *arena) {
  const char *label = "";
  for (int i = 0; i < self->n_axes; i++)
    label = arena_printf(arena, "%s%s%s=%s", label, i ? " " : "", self->axes[i].name,
                         sweep_choice(self, point, i)->label);
  return label;
}

int64_t sweep_shard_points(const Sweep *self, int64_t shard, int64_t n_shards) {
  return (self->n_points - shard + n_shards) / n_shards;
}
