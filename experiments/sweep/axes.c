/* From the entries of the `sweep:` block to axes: their values, and what each sets. */
#include "experiments/sweep/axes.h"
#include "base/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Values: what is written for one key ---- */

typedef struct Values {
  const Node **nodes;
  size_t n, capacity;
} Values;

/* One number of a range: "70 /s". */
typedef struct Bound {
  double number;
  const char *unit; // "" when it has none
} Bound;

/* The number and unit in text[0..length); false when it is something else. */
static bool read_bound(const char *text, size_t length, Bound *ret_bound, Arena *arena) {
  char *copy = arena_copy(arena, text, length), *end = NULL;
  const double number = strtod(copy, &end);
  if (end == copy || !isfinite(number)) return false;
  end += strspn(end, " ");
  for (size_t last = strlen(end); last > 0 && end[last - 1] == ' '; last--)
    end[last - 1] = '\0';
  *ret_bound = (Bound){number, end};
  return true;
}

static int range_error(const Node *node, const char *why, Diag *diag) {
  diag_error(diag, node->at, "range '%s' %s", node->text, why);
  return diag_hint(diag, "write FIRST..LAST or FIRST..LAST step STEP, such as 1..40 step 3");
}

static int add_value(Values *values, const Node *node, Place at, Arena *arena, Diag *diag) {
  if (values->n == AXIS_CHOICES_MAX)
    return diag_error(diag, at, "an axis has more than %d values", AXIS_CHOICES_MAX);
  ARENA_RESERVE(arena, values->nodes, values->capacity, values->n + 1);
  values->nodes[values->n++] = node;
  return 0;
}

/* 1 when the scalar is no range, which a path such as ../trace.csv is not either. */
static int add_range(Values *values, const Node *node, Arena *arena, Diag *diag) {
  const char *dots = node->quoted ? NULL : strstr(node->text, "..");
  Bound first, last, step = {1, ""};
  if (!dots || !read_bound(node->text, (size_t)(dots - node->text), &first, arena)) return 1;
  const char *rest = dots + strlen(".."), *word = strstr(rest, "step");
  if (!read_bound(rest, word ? (size_t)(word - rest) : strlen(rest), &last, arena) ||
      (word && !read_bound(word + strlen("step"), strlen(word + strlen("step")), &step, arena)))
    return range_error(node, "has no number at one end", diag);
  const char *unit = *first.unit ? first.unit : *last.unit ? last.unit : step.unit;
  const Bound *const bounds[] = {&first, &last, &step};
  for (int i = 0; i < 3; i++)
    if (*bounds[i]->unit && strcmp(bounds[i]->unit, unit) != 0)
      return range_error(node, "has two units", diag);
  // A last value that only rounding keeps out is in.
  const double steps = floor((last.number - first.number) / step.number + 1e-9);
  if (step.number == 0 || steps < 0) return range_error(node, "is empty", diag);
  for (double i = 0; i <= steps; i++) {
    Node *value = ARENA_NEW(arena, Node);
    *value = (Node){.kind = NODE_SCALAR, .at = node->at};
    value->text =
        arena_printf(arena, "%.12g%s%s", first.number + i * step.number, *unit ? " " : "", unit);
    if (add_value(values, value, node->at, arena, diag)) return -1;
  }
  return 0;
}

static int add_scalar(Values *values, const Node *node, Arena *arena, Diag *diag) {
  const int status = add_range(values, node, arena, diag);
  return status == 1 ? add_value(values, node, node->at, arena, diag) : status;
}

/* All values of a key: a scalar, a range, or a list of these and of maps. */
static int read_values(Values *values, const Node *node, Arena *arena, Diag *diag) {
  *values = (Values){0};
  if (node->kind == NODE_SCALAR) return add_scalar(values, node, arena, diag);
  for (const Node *child = node->first; child; child = child->next)
    if (child->kind == NODE_SCALAR ? add_scalar(values, child, arena, diag)
                                   : add_value(values, child, child->at, arena, diag))
      return -1;
  return values->n > 0 ? 0 : diag_error(diag, node->at, "'%s' has no values", node->key);
}

static const char *label_of(const Node *node, Arena *arena) {
  const bool plain = node->kind == NODE_SCALAR && text_is_plain(node->text);
  return plain ? node->text : node_text(node, arena);
}

static Setting setting_of(const Node *entry, const Node *value) {
  return (Setting){.key = entry->key, .at = entry->key_at, .value = value};
}

/* ---- Axes ---- */

/* One key, or several that move together: each of `entries` has a value per choice. */
static int bind_keys(Axis *self, const Node *first, int n_keys, Arena *arena, Diag *diag) {
  self->keys = ARENA_ARRAY(arena, Setting, n_keys);
  const Node *entry = first;
  for (; self->n_keys < n_keys; self->n_keys++, entry = entry->next) {
    const int key = self->n_keys;
    Values values;
    if (read_values(&values, entry, arena, diag)) return -1;
    if (key == 0) {
      self->n_choices = (int)values.n;
      self->choices = ARENA_ARRAY(arena, Choice, values.n);
    }
    if ((int)values.n != self->n_choices)
      return diag_error(diag, entry->key_at,
                        "'%s' has %zu values, but '%s', which moves with it, has %d", entry->key,
                        values.n, first->key, self->n_choices);
    self->keys[key] = setting_of(entry, NULL);
    for (int i = 0; i < self->n_choices; i++) {
      Choice *choice = &self->choices[i];
      if (key == 0) *choice = (Choice){"", ARENA_ARRAY(arena, Setting, n_keys), n_keys};
      choice->settings[key] = setting_of(entry, values.nodes[i]);
      choice->label = arena_printf(arena, "%s%s%s", choice->label, key ? ", " : "",
                                   label_of(values.nodes[i], arena));
    }
  }
  return 0;
}

static void bind_designs(Axis *self, const Node *map, Arena *arena) {
  int n_keys = 0;
  for (const Node *design = map->first; design; design = design->next)
    n_keys += design->n_children;
  self->keys = ARENA_ARRAY(arena, Setting, n_keys);
  self->choices = ARENA_ARRAY(arena, Choice, map->n_children);
  for (const Node *design = map->first; design; design = design->next) {
    Choice *choice = &self->choices[self->n_choices++];
    *choice = (Choice){design->key, ARENA_ARRAY(arena, Setting, design->n_children), 0};
    for (const Node *entry = design->first; entry; entry = entry->next) {
      choice->settings[choice->n_settings++] = setting_of(entry, entry);
      self->keys[self->n_keys++] = setting_of(entry, NULL);
    }
  }
}

/* What tells choices apart, sorted to find two that are the same. */
typedef struct ChoiceContent {
  const char *text;
  const Choice *choice;
} ChoiceContent;

static int compare_contents(const void *a, const void *b) {
  const ChoiceContent *one = a, *other = b;
  const int order = strcmp(one->text, other->text);
  return order ? order : (one->choice > other->choice) - (one->choice < other->choice);
}

static const char *content_of(const Choice *choice, Arena *arena) {
  const char *text = "";
  for (int i = 0; i < choice->n_settings; i++)
    text = arena_printf(arena, "%s%s=%s;", text, choice->settings[i].key,
                        node_text(choice->settings[i].value, arena));
  return text;
}

static int check_distinct(const Axis *self, const Node *entry, Arena *arena, Diag *diag) {
  ChoiceContent *contents = ARENA_ARRAY(arena, ChoiceContent, self->n_choices);
  for (int i = 0; i < self->n_choices; i++)
    contents[i] = (ChoiceContent){content_of(&self->choices[i], arena), &self->choices[i]};
  qsort(contents, (size_t)self->n_choices, sizeof *contents, compare_contents);
  for (int i = 1; i < self->n_choices; i++) {
    if (strcmp(contents[i].text, contents[i - 1].text) != 0) continue;
    const char *first = contents[i - 1].choice->label, *second = contents[i].choice->label;
    return strcmp(first, second) == 0
               ? diag_error(diag, entry->at, "'%s' lists '%s' twice", entry->key, first)
               : diag_error(diag, entry->at, "designs '%s' and '%s' are the same", first, second);
  }
  return 0;
}

static int bind_axis(Axis *self, const Node *entry, Arena *arena, Diag *diag) {
  *self = (Axis){.name = entry->key};
  int n_maps = 0;
  for (const Node *child = entry->first; child; child = child->next)
    n_maps += child->kind == NODE_MAP;
  int status = 0;
  if (entry->kind != NODE_MAP)
    status = bind_keys(self, entry, 1, arena, diag);
  else if (entry->n_children == 0)
    status = diag_error(diag, entry->at, "'%s' has no values", entry->key);
  else if (n_maps == 0)
    status = bind_keys(self, entry->first, entry->n_children, arena, diag);
  else if (n_maps == entry->n_children)
    bind_designs(self, entry, arena);
  else
    status =
        diag_error(diag, entry->at, "'%s' mixes designs, which are maps, with values", entry->key);
  return status ? -1 : check_distinct(self, entry, arena, diag);
}

/* ---- Points ---- */

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
    return diag_hint(
        diag, "for example {pools.prefill.count: 1..40, workload.arrivals.rate: [70 /s, 90 /s]}");
  }
  self->axes = ARENA_ARRAY(arena, Axis, block->n_children);
  int status = 0;
  for (const Node *entry = block->first; entry; entry = entry->next)
    status |= bind_axis(&self->axes[self->n_axes++], entry, arena, diag);
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
