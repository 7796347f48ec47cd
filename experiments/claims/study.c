/* Studies as sources of figures: a file with a `provision:` block, put to a column's configuration.
 * In such a file a design of the study may start from one of the column: {design: hh, …}. Settings
 * of the source reach into the block as `provision.KEY`. */
#include "experiments/claims/claims.h"
#include "experiments/provision/provision.h"
#include <math.h>
#include <string.h>

struct ClaimStudy {
  TrialBase base; // the column's, with the source's settings
  Provision provision;
  DesignOutcome *outcomes;
};

/* Puts the settings of the column's design, where one is named, in front of a study's design. */
static int expand_design(Node *design, const Node *designs, Arena *arena, Diag *diag) {
  const Node *name = node_take(design, "design");
  if (!name) return 0;
  const Node *from = name->text ? node_find(designs, name->text) : NULL;
  if (!from || from->kind != NODE_MAP)
    return diag_error(diag, name->at, "no design '%s' in this column",
                      name->text ? name->text : "");
  Node *settings = node_copy(from, arena), *last = NULL;
  for (Node *child = settings->first; child; last = child, child = child->next)
    child->parent = design;
  if (!last) return 0;
  last->next = design->first;
  design->first = settings->first;
  design->n_children += settings->n_children;
  return 0;
}

/* The `provision:` block of the file that the source names, its designs expanded. */
static const Node *load_block(const Paper *paper, const ClaimSource *source, ClaimColumn column,
                              Arena *arena, Diag *diag) {
  const Node *file = node_find(source->node, "study");
  if (!file || !file->text) {
    diag_error(diag, source->node->at, "a study wants 'study: FILE'");
    return NULL;
  }
  const char *path = arena_printf(arena, "%s/%s", paper->folder, file->text);
  Node *root = yaml_load(path, arena, diag);
  if (!root) return NULL;
  Node *block = node_take(root, "provision");
  Node *designs = (Node *)node_find(block, "designs");
  if (!block || root->n_children > 0) {
    diag_error(diag, place_of_file(path), "'%s' must hold 'provision:' and nothing else", path);
    return NULL;
  }
  for (Node *design = designs ? designs->first : NULL; design; design = design->next)
    if (design->kind == NODE_MAP &&
        expand_design(design, paper->columns[column].designs, arena, diag))
      return NULL;
  return block;
}

/* Leaves out the designs that nobody asks for. */
static void keep_designs(Provision *provision, const char *designs, Arena *arena) {
  int n = 0;
  for (int d = 0; designs && d < provision->n_designs; d++)
    if (strstr(designs, arena_printf(arena, " %s ", provision->designs[d].name)))
      provision->designs[n++] = provision->designs[d];
  if (designs) provision->n_designs = n;
}

int claim_run_study(Paper *paper, ClaimSource *source, ClaimColumn column, int jobs, Arena *arena,
                    Diag *diag) {
  const TrialBase *from = &paper->columns[column].base;
  ConfigChanges changes = {.seed = -1, .tie_seed = -1};
  Setting *settings;
  if (claim_settings(paper, source, column, &settings, &changes.n_settings, arena, diag)) return -1;
  changes.settings = settings;
  ClaimStudy *study = ARENA_NEW(arena, ClaimStudy);
  study->base = (TrialBase){.path = from->path, .root = node_copy(from->root, arena)};
  config_cache_init(&study->base.cache);
  source->outcomes[column].study = study;
  const Node *block = load_block(paper, source, column, arena, diag);
  // The block is part of what settings change, as on the command line: provision.seeds
  Node *root = study->base.root;
  if (!block || node_set(root, "provision", block->key_at, block, arena, diag) ||
      config_change(root, &changes, arena, diag) ||
      provision_bind(&study->provision, &study->base, node_take(root, "provision"), arena, diag))
    return -1;
  keep_designs(&study->provision, source->designs, arena);
  const ProvisionOptions options = {.jobs = jobs};
  return provision_run(&study->provision, &options, &study->outcomes, arena, diag);
}

void claim_study_done(ClaimStudy *self) {
  trial_base_done(&self->base);
}

void claim_study_times(const ClaimStudy *self, TimesKnown *times) {
  for (int d = 0; d < self->provision.n_designs; d++)
    for (int s = 0; s < self->provision.n_seeds; s++) {
      const Answer *answer = &self->outcomes[d].answers[s];
      if (answer->found)
        times_add(times, &(ExtrapolatedFigures){.time_share = answer->extrapolated,
                                                .far_time_share = answer->far,
                                                .perfmodel_error = answer->perfmodel_error,
                                                .perfmodel_measured = answer->measured});
    }
}

/* What is known of a design under a name; false when there is no such figure. */
static bool design_figure(const ClaimStudy *study, const DesignOutcome *outcome, const char *name,
                          double *ret_value) {
  const Answer *answer = outcome->answers;
  const struct {
    const char *name;
    double value, without; // with no answer: no counts are enough, no rate is low enough
  } figures[] = {
      {"found", 1, 0},
      {"value", provision_value(&study->provision, answer), NAN},
      {"rate", answer->rate, 0},
      {"throughput", study->provision.offline ? answer->rate : NAN, 0},
      {"tokens", study->provision.offline ? answer->output_tokens_per_s : NAN, 0},
      {"prefill", (double)answer->n_prefill, INFINITY},
      {"decode", (double)answer->n_decode, INFINITY},
      {"mixed", (double)answer->n_mixed, INFINITY},
      {"instances", answer->takes.instances, INFINITY},
      {"gpus", answer->takes.gpus, INFINITY},
      {"machines", answer->takes.machines, INFINITY},
      {"cost", answer->takes.cost_per_hour, INFINITY},
      {"power", answer->takes.power_kw, INFINITY},
      {"low", outcome->low, NAN},
      {"high", outcome->high, NAN},
      {"simulations", (double)outcome->n_simulations, (double)outcome->n_simulations},
      {"grid", outcome->n_grid, outcome->n_grid},
  };
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
    if (strcmp(figures[i].name, name) != 0) continue;
    *ret_value = answer->found ? figures[i].value : figures[i].without;
    return true;
  }
  // The number that the answer has for a key which the design goes through.
  const bool numbered = choice_number(outcome->design, answer->choice, name, ret_value);
  if (numbered && !answer->found) *ret_value = NAN;
  return numbered;
}

int claim_study_figure(const ClaimStudy *study, const char *name, int n_arguments, Place at,
                       double *ret_value, Diag *diag) {
  const size_t length = strcspn(name, ".");
  for (int d = 0; name[length] && n_arguments == 0 && d < study->provision.n_designs; d++) {
    const DesignOutcome *outcome = &study->outcomes[d];
    if (strlen(outcome->design->name) == length &&
        strncmp(outcome->design->name, name, length) == 0 &&
        design_figure(study, outcome, name + length + 1, ret_value))
      return 0;
  }
  return diag_error(diag, at, "no figure '%s' of this study; want DESIGN.rate or the like", name);
}
