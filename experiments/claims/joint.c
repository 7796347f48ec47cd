/* One setting of the inputs that a paper leaves out, for all figures of a group: what brings one of
 * them inside may take another outside, so ranges of figures one by one promise too much. */
#include "experiments/claims/claims.h"
#include <math.h>
#include <string.h>

/* Predictions of the claim that are judged, and those of them that are within. */
static void count(const Claim *claim, int *n, int *n_within) {
  for (int f = 0; f < claim->n_figures; f++) {
    const ClaimFigure *figure = &claim->figures[f];
    if (figure->kind != KIND_PREDICTION || isnan(figure->low)) continue;
    ++*n;
    *n_within += figure->verdict == VERDICT_WITHIN;
  }
}

/* The same at a point, at which figures that do not move are as they were. */
static int count_at(const Claim *claim, const Sensitivity *sensitivity, int64_t point) {
  int n_within = 0;
  for (int f = 0; f < claim->n_figures; f++) {
    const ClaimFigure *figure = &claim->figures[f];
    if (figure->kind != KIND_PREDICTION || isnan(figure->low)) continue;
    const ClaimFigure *there = &sensitivity->points[point].figures[f];
    n_within += (there->value.text ? there : figure)->verdict == VERDICT_WITHIN;
  }
  return n_within;
}

/* Those of the claim that are within at a setting. */
static int count_with(const Claim *claim, const char *setting, Arena *arena) {
  for (int k = 0; k < claim->n_sensitivities; k++) {
    const Sensitivity *sensitivity = &claim->sensitivities[k];
    for (int64_t p = 0; sensitivity->points && p < sensitivity->sweep.n_points; p++)
      if (strcmp(sensitivity_setting(sensitivity, p, arena), setting) == 0)
        return count_at(claim, sensitivity, p);
  }
  int n = 0, n_within = 0;
  count(claim, &n, &n_within);
  return n_within;
}

/* Tries a setting on all claims of the group; of equals the first one stays. */
static void try_setting(const Paper *paper, JointSetting *self, const Sensitivity *sensitivity,
                        int64_t point, Arena *arena) {
  const char *setting = sensitivity_setting(sensitivity, point, arena);
  int n_within = 0;
  for (int i = 0; i < paper->n_claims; i++)
    if (strcmp(paper->claims[i].group, self->group) == 0)
      n_within += count_with(&paper->claims[i], setting, arena);
  if (n_within <= self->n_best) return;
  self->n_best = n_within;
  self->setting = sweep_label(&sensitivity->sweep, point, arena);
}

static JointSetting join(const Paper *paper, const char *group, Arena *arena) {
  JointSetting self = {.group = group, .setting = ""};
  for (int i = 0; i < paper->n_claims; i++)
    if (strcmp(paper->claims[i].group, group) == 0)
      count(&paper->claims[i], &self.n, &self.n_within);
  self.n_best = self.n_within;
  for (int i = 0; i < paper->n_claims; i++) {
    const Claim *claim = &paper->claims[i];
    if (strcmp(claim->group, group) != 0) continue;
    for (int k = 0; k < claim->n_sensitivities; k++)
      for (int64_t p = 0;
           claim->sensitivities[k].points && p < claim->sensitivities[k].sweep.n_points; p++)
        try_setting(paper, &self, &claim->sensitivities[k], p, arena);
  }
  return self;
}

JointSetting *paper_joint(const Paper *self, int *ret_n, Arena *arena) {
  JointSetting *joint = ARENA_ARRAY(arena, JointSetting, self->n_claims);
  *ret_n = 0;
  for (int i = 0; i < self->n_claims; i++) {
    bool known = false;
    for (int k = 0; k < *ret_n; k++)
      known |= strcmp(joint[k].group, self->claims[i].group) == 0;
    if (!known) joint[(*ret_n)++] = join(self, self->claims[i].group, arena);
  }
  return joint;
}
