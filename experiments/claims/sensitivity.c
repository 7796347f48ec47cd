/* Figures that are outside, over inputs that their paper leaves out: a claim at each point of a
 * sweep is a claim of its own, whose sources have the point's settings. */
#include "experiments/claims/claims.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Which sources a figure names ---- */

/* Notes which sources that are moved an expression names, whatever it makes of them. */
typedef struct Mentions {
  const Claim *claim;
  const Sensitivity *sensitivity;
  ClaimSource *to;    // [n_sources] at a point; NULL: only `any` is of interest
  ClaimColumn column; // that they are wanted in
  bool any;
  Arena *arena;
} Mentions;

/* " aa hh " and the design that "hh.rate" begins with. */
static const char *add_design(const char *designs, const char *name, Arena *arena) {
  const char *one = arena_printf(arena, " %.*s ", (int)strcspn(name, "."), name);
  return strstr(designs, one) ? designs
                              : arena_printf(arena, "%s%s", designs, one + (*designs > 0));
}

static int mention(void *context, const char *name, const double *arguments, int n_arguments,
                   Place at, double *ret_value, Diag *diag) {
  (void)arguments, (void)n_arguments, (void)at, (void)diag;
  Mentions *self = context;
  *ret_value = 1;
  const size_t length = strcspn(name, ".");
  const ClaimSource *source = claim_find_source(self->claim, name, length);
  const ptrdiff_t s = source ? source - self->claim->sources : 0;
  if (!source || !self->sensitivity->sources[s]) return 0;
  self->any = true;
  if (!self->to || !source->outcomes[self->column].wanted) return 0;
  self->to[s].outcomes[self->column].wanted = true;
  if (source->kind == SOURCE_STUDY && name[length])
    self->to[s].designs = add_design(self->to[s].designs, name + length + 1, self->arena);
  return 0;
}

/* Whether a figure names a source that is moved. */
static bool mention_sources(Mentions *self, int figure, Diag *diag) {
  const ExpressionScope scope = {mention, self};
  double nothing;
  self->any = false;
  expression_eval(&self->claim->figures[figure].value, &scope, &nothing, diag);
  return self->any;
}

/* ---- From the claim's file ---- */

typedef struct SensitivityKeys {
  const char *why;
  const Node *sweep, *sources, *figures;
} SensitivityKeys;

#define KEY(field, kind, ...) OPTION_OF(SensitivityKeys, field, kind, __VA_ARGS__)

static const OptionSpec sensitivity_options[] = {
    KEY(why, OPTION_STRING, .required = true, .help = "What the paper does not state."),
    KEY(sweep, OPTION_NODE, .required = true, .help = "Axes, as in a configuration's 'sweep'."),
    KEY(sources, OPTION_NODE, .help = "List of the sources that are varied; absent: all."),
    KEY(figures, OPTION_NODE, .help = "List of figures that it applies to; absent: all."),
    {0}};

static const char *source_name(const Claim *claim, int i) {
  return claim->sources[i].name;
}

static const char *figure_name(const Claim *claim, int i) {
  return claim->figures[i].what;
}

/* Which of n things of the claim are in a list of names; without a list all are. */
static int bind_chosen(bool **ret_chosen, const Node *list, const Claim *claim, int n,
                       const char *(*name_of)(const Claim *claim, int i), const char *kind,
                       Arena *arena, Diag *diag) {
  bool *chosen = *ret_chosen = ARENA_ARRAY(arena, bool, n);
  const char **names = ARENA_ARRAY(arena, const char *, n + 1);
  int status = 0;
  for (int i = 0; i < n; i++) {
    names[i] = name_of(claim, i);
    chosen[i] = list == NULL;
  }
  if (list && (list->kind != NODE_LIST || list->n_children == 0))
    return diag_error(diag, list->at, "'%ss' must be a list of names", kind);
  for (const Node *item = list ? list->first : NULL; item; item = item->next) {
    const char *name = item->text ? item->text : "";
    bool found = false;
    for (int i = 0; i < n; i++)
      if (strcmp(names[i], name) == 0) found = chosen[i] = true;
    if (found) continue;
    status = diag_error(diag, item->at, "the claim has no %s '%s'", kind, name);
    diag_hint_near(diag, name, names);
  }
  return status;
}

/* A sensitivity is for figures that what is moved bears on. */
static int keep_figures(Sensitivity *self, const Claim *claim, const Node *list, Diag *diag) {
  Mentions mentions = {.claim = claim, .sensitivity = self};
  int status = 0;
  for (int f = 0; f < claim->n_figures; f++) {
    self->moved[f] = mention_sources(&mentions, f, diag);
    if (!self->figures[f]) continue;
    self->figures[f] = self->moved[f];
    if (list && !self->figures[f])
      status =
          diag_error(diag, list->at, "no source of figure '%s' is varied", claim->figures[f].what);
  }
  return status;
}

static int bind_sensitivity(Sensitivity *self, const Claim *claim, const Node *node, Arena *arena,
                            Diag *diag) {
  SensitivityKeys keys = {0};
  if (option_bind(sensitivity_options, node, NULL, node->at, &keys, diag)) return -1;
  self->why = keys.why;
  if (sweep_bind(&self->sweep, keys.sweep, arena, diag) |
      bind_chosen(&self->sources, keys.sources, claim, claim->n_sources, source_name, "source",
                  arena, diag) |
      bind_chosen(&self->figures, keys.figures, claim, claim->n_figures, figure_name, "figure",
                  arena, diag))
    return -1;
  self->moved = ARENA_ARRAY(arena, bool, claim->n_figures);
  return keep_figures(self, claim, keys.figures, diag);
}

int sensitivities_bind(Claim *self, const Node *list, Arena *arena, Diag *diag) {
  if (list->kind != NODE_LIST || list->n_children == 0)
    return diag_error(diag, list->at, "'sensitivity' must be a list");
  self->sensitivities = ARENA_ARRAY(arena, Sensitivity, list->n_children);
  int status = 0;
  for (const Node *node = list->first; node; node = node->next)
    status |=
        bind_sensitivity(&self->sensitivities[self->n_sensitivities++], self, node, arena, diag);
  return status;
}

/* ---- The claim at a point ---- */

static const char *settings_text(const Setting *settings, int n, Arena *arena) {
  const char *text = "";
  for (int i = 0; i < n; i++)
    text =
        arena_printf(arena, "%s %s=%s", text, settings[i].key, node_text(settings[i].value, arena));
  return text;
}

const char *sensitivity_setting(const Sensitivity *self, int64_t point, Arena *arena) {
  Setting *settings = ARENA_ARRAY(arena, Setting, self->sweep.n_settings_max);
  return settings_text(settings, sweep_settings(&self->sweep, point, settings), arena);
}

static bool is_wanted(const Claim *claim, const Sensitivity *sensitivity, int figure) {
  return sensitivity->figures[figure] && claim->figures[figure].verdict == VERDICT_OUTSIDE;
}

static bool is_any_wanted(const Claim *claim, const Sensitivity *sensitivity) {
  bool any = false;
  for (int f = 0; f < claim->n_figures; f++)
    any |= is_wanted(claim, sensitivity, f);
  return any;
}

/* Whether a claim has a sensitivity with the same points. */
static bool has_points_of(const Claim *claim, const Sensitivity *self, Arena *arena) {
  const int64_t last = self->sweep.n_points - 1;
  for (int k = 0; k < claim->n_sensitivities; k++) {
    const Sensitivity *other = &claim->sensitivities[k];
    if (is_any_wanted(claim, other) && other->sweep.n_points == last + 1 &&
        strcmp(sensitivity_setting(self, 0, arena), sensitivity_setting(other, 0, arena)) == 0 &&
        strcmp(sensitivity_setting(self, last, arena), sensitivity_setting(other, last, arena)) ==
            0)
      return true;
  }
  return false;
}

/* A sensitivity is looked at where a figure of its claim is outside, or one of the claim's group
 * with the same points. */
static bool is_looked_at(const Paper *paper, const Claim *claim, const Sensitivity *self,
                         Arena *arena) {
  bool looked = is_any_wanted(claim, self);
  for (int i = 0; i < paper->n_claims && !looked; i++)
    looked = strcmp(paper->claims[i].group, claim->group) == 0 &&
             has_points_of(&paper->claims[i], self, arena);
  return looked;
}

/* At a point all predictions are judged that it bears on: what brings one inside may take another
 * outside. */
static bool is_evaluated(const Claim *claim, const Sensitivity *sensitivity, int figure) {
  const ClaimFigure *of = &claim->figures[figure];
  return is_wanted(claim, sensitivity, figure) ||
         (sensitivity->moved[figure] && of->kind == KIND_PREDICTION && !isnan(of->low));
}

/* The column that the figure was judged in: the first in which it has a value. */
static ClaimColumn judged_column(const ClaimFigure *figure) {
  int column = 0;
  while (column < CLAIM_COLUMNS - 1 && isnan(figure->values[column]))
    column++;
  return (ClaimColumn)column;
}

/* The sources that are moved are wanted where figures need them, and of studies the designs. */
static void want_sources(Claim *point, const Claim *claim, const Sensitivity *sensitivity,
                         Arena *arena, Diag *diag) {
  Mentions mentions = {
      .claim = claim, .sensitivity = sensitivity, .to = point->sources, .arena = arena};
  for (int f = 0; f < claim->n_figures; f++) {
    if (is_evaluated(claim, sensitivity, f)) {
      mentions.column = judged_column(&claim->figures[f]);
      mention_sources(&mentions, f, diag);
    } else {
      point->figures[f].value.text = NULL;
    }
  }
}

/* What tells sources apart: all that is set, and what is looked at. */
static const char *moved_text(const ClaimSource *self, const char *text, Arena *arena) {
  return arena_printf(arena, "%s%s of%s", text, settings_text(self->moved, self->n_moved, arena),
                      self->designs);
}

/* What is not moved is the claim's own. */
static void make_point(const Claim *claim, const Sensitivity *sensitivity, int64_t point,
                       Arena *arena, Diag *diag) {
  Claim *to = &sensitivity->points[point];
  Setting *settings = ARENA_ARRAY(arena, Setting, sensitivity->sweep.n_settings_max);
  const int n_settings = sweep_settings(&sensitivity->sweep, point, settings);
  *to = *claim;
  to->sensitivities = NULL;
  to->n_sensitivities = 0;
  to->figures = ARENA_ARRAY(arena, ClaimFigure, claim->n_figures);
  memcpy(to->figures, claim->figures, (size_t)claim->n_figures * sizeof *to->figures);
  to->sources = ARENA_ARRAY(arena, ClaimSource, claim->n_sources);
  for (int s = 0; s < claim->n_sources; s++) {
    ClaimSource *from = &claim->sources[s];
    to->sources[s] = *from;
    to->sources[s].twin = from->twin ? from->twin : from;
    if (!sensitivity->sources[s]) continue;
    to->sources[s] = (ClaimSource){.kind = from->kind,
                                   .name = from->name,
                                   .node = from->node,
                                   .moved = settings,
                                   .n_moved = n_settings,
                                   .designs = "",
                                   .n_runs = from->n_runs};
  }
  want_sources(to, claim, sensitivity, arena, diag);
  for (int s = 0; s < claim->n_sources; s++)
    if (sensitivity->sources[s])
      to->sources[s].text = moved_text(&to->sources[s], claim->sources[s].text, arena);
}

void paper_points(Paper *self, Arena *arena, Diag *diag) {
  int64_t n = 0;
  for (int i = 0; i < self->n_claims; i++)
    for (int k = 0; k < self->claims[i].n_sensitivities; k++)
      n += self->claims[i].sensitivities[k].sweep.n_points;
  self->points = ARENA_ARRAY(arena, Claim, n);
  for (int i = 0; i < self->n_claims; i++)
    for (int k = 0; k < self->claims[i].n_sensitivities; k++) {
      Sensitivity *sensitivity = &self->claims[i].sensitivities[k];
      if (!is_looked_at(self, &self->claims[i], sensitivity, arena)) continue;
      sensitivity->points = &self->points[self->n_points];
      for (int64_t p = 0; p < sensitivity->sweep.n_points; p++, self->n_points++)
        make_point(&self->claims[i], sensitivity, p, arena, diag);
    }
  for (int i = 0; i < self->n_points; i++)
    for (int s = 0; s < self->points[i].n_sources; s++) {
      ClaimSource *source = &self->points[i].sources[s];
      if (!source->twin) source->twin = claims_find_twin(self->points, self->n_points, source);
    }
}

/* ---- What came of it ---- */

/* "max_num_seqs", the last word of an axis that is a key. */
static const char *axis_word(const Axis *axis) {
  const char *dot = strrchr(axis->name, '.');
  return dot ? dot + 1 : axis->name;
}

/* Whether the values of an axis are numbers in order, so that "first..last" tells them. */
static bool is_ordered(const Axis *axis) {
  double before = -INFINITY;
  for (int i = 0; i < axis->n_choices; i++) {
    const char *label = axis->choices[i].label;
    char *end;
    const double number = strtod(label, &end);
    if (end == label || strchr(label, ',') || !(number > before)) return false;
    before = number;
  }
  return true;
}

/* "16, 24..32": the values of an axis at which `at` is true, neighbours joined. */
static const char *values_text(const Axis *axis, const bool *at, Arena *arena) {
  const bool ordered = is_ordered(axis);
  const char *text = "";
  for (int i = 0; i < axis->n_choices; i++) {
    if (!at[i]) continue;
    int last = i;
    while (ordered && last + 1 < axis->n_choices && at[last + 1])
      last++;
    const char *value = axis->choices[i].label;
    const bool together = strchr(value, ',') != NULL; // keys that move so: "(46, 40)"
    text = arena_printf(arena, together ? "%s%s(%s)" : "%s%s%s", text, *text ? ", " : "", value);
    if (last > i) text = arena_printf(arena, "%s..%s", text, axis->choices[last].label);
    i = last;
  }
  return text;
}

static const char *over_text(const Sweep *sweep, Arena *arena) {
  const char *text = "";
  for (int a = 0; a < sweep->n_axes; a++) {
    const Axis *axis = &sweep->axes[a];
    bool *all = ARENA_ARRAY(arena, bool, axis->n_choices);
    for (int i = 0; i < axis->n_choices; i++)
      all[i] = true;
    text = arena_printf(arena, "%s%s%s %s", text, a ? ", " : "", axis_word(axis),
                        values_text(axis, all, arena));
  }
  return text;
}

/* The points that `inside` has: the values of the one axis that moves, else what each is called. */
static const char *inside_text(const Sweep *sweep, const bool *inside, Arena *arena) {
  const char *text = "";
  for (int a = 0; a < sweep->n_axes; a++)
    if (sweep->axes[a].n_choices == sweep->n_points)
      return values_text(&sweep->axes[a], inside, arena);
  for (int64_t p = 0; p < sweep->n_points; p++)
    if (inside[p])
      text = arena_printf(arena, "%s%s%s", text, *text ? ", " : "", sweep_label(sweep, p, arena));
  return text;
}

bool claim_sensitivity(const Claim *self, int figure, int which, SensitivityRange *ret_range,
                       Arena *arena) {
  const Sensitivity *sensitivity = &self->sensitivities[which];
  if (!sensitivity->points || !is_wanted(self, sensitivity, figure)) return false;
  const Sweep *sweep = &sensitivity->sweep;
  bool *inside = ARENA_ARRAY(arena, bool, sweep->n_points);
  *ret_range = (SensitivityRange){.low = NAN, .high = NAN, .over = over_text(sweep, arena)};
  for (int64_t p = 0; p < sweep->n_points; p++) {
    const ClaimFigure *there = &sensitivity->points[p].figures[figure];
    const double value = there->values[judged_column(there)];
    inside[p] = there->verdict == VERDICT_WITHIN;
    ret_range->low = fmin(ret_range->low, value); // the other one when one is NAN
    ret_range->high = fmax(ret_range->high, value);
  }
  ret_range->inside = inside_text(sweep, inside, arena);
  return true;
}
