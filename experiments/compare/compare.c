/* See compare.h. */
#include "experiments/compare/figures.h"
#include <string.h>

void compare_close(Compare *self) {
  results_close(&self->results[0]);
  results_close(&self->results[1]);
}

static int open_sides(Compare *self, const CompareQuestion *question) {
  Arena *arena = self->arena;
  if (results_open_reader(&self->results[0], question->paths[0], arena, self->diag)) return -1;
  const bool both = question->paths[1] != NULL;
  if (both && results_open_reader(&self->results[1], question->paths[1], arena, self->diag))
    return -1;
  for (int i = 0; i < 2; i++) {
    Side *side = &self->sides[i];
    side->results = &self->results[both ? i : 0];
    side->name = question->names[i] ? question->names[i] : question->paths[i];
    if (side_find(side, question->names[i], question->where, arena, self->diag)) return -1;
    if (side_load_params(side, arena, self->diag)) return -1;
  }
  return 0;
}

/* Runs without partners may be compared as replicates; where they differ in more than their seed,
 * the difference would be of that as well. */
static int check_unpaired(const Compare *self) {
  for (int i = 0; i < 2; i++) {
    const Param *key = side_varying(&self->sides[i]);
    if (!key) continue;
    diag_error(self->diag, place_of_file(self->sides[i].results->path),
               "no run of '%s' has a partner with the same seed, and those of '%s' differ in '%s'",
               self->sides[0].name, self->sides[i].name, key->key);
    diag_hint(self->diag, "'--where %s=%s' selects the runs with that value", key->key, key->value);
    return -1;
  }
  return 0;
}

static int pair_sides(Compare *self) {
  Side *sides = self->sides;
  const int64_t n = side_pair(&sides[0], &sides[1], self->arena, self->diag);
  if (n < 0 || (n == 0 && check_unpaired(self))) return -1;
  self->paired = n > 0;
  self->n_pairs = (size_t)n;
  const size_t of_a = side_find_repeated(&sides[0], n > 0 ? &sides[1] : NULL, self->arena);
  const size_t of_b = side_find_repeated(&sides[1], n > 0 ? &sides[0] : NULL, self->arena);
  self->n_different = of_a < of_b ? of_a : of_b;
  // What is said of configurations is of the runs that are compared.
  return side_load_params(&sides[0], self->arena, self->diag) ||
                 side_load_params(&sides[1], self->arena, self->diag)
             ? -1
             : 0;
}

/* Which figures differ when all are taken together. */
static void judge(Compare *self) {
  Difference *differences = ARENA_ARRAY(self->arena, Difference, self->n_figures);
  bool *hold = ARENA_ARRAY(self->arena, bool, self->n_figures);
  for (size_t i = 0; i < self->n_figures; i++)
    differences[i] = self->figures[i].difference;
  difference_hold(differences, self->n_figures, hold);
  for (size_t i = 0; i < self->n_figures; i++)
    self->figures[i].holds = hold[i];
}

int compare_open(Compare *self, const CompareQuestion *question, Arena *arena, Diag *diag) {
  *self = (Compare){.arena = arena, .diag = diag, .sides = ARENA_ARRAY(arena, Side, 2)};
  if (open_sides(self, question) || pair_sides(self) || figures_load(self, question)) return -1;
  judge(self);
  for (int i = 0; i < 2; i++) {
    self->runs += (int64_t)self->sides[i].n_runs;
    self->stale += self->sides[i].stale;
  }
  return 0;
}
