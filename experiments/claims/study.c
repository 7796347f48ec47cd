/* Studies as sources of figures: a file with a `provision:` block, put to a column's configuration.
 * In such a file a design of the study may start from one of the column: {design: hh, …}. Settings
 * of the source reach into the block as `provision.KEY`. */
#include "experiments/claims/claims.h"
#include "experiments/provision/provision.h"
#include <math.h>
#include <string.h>

/* A study while it runs, with an arena of its own. */
typedef struct StudyRun {
  TrialBase base; // the column's, with the source's settings
  Provision provision;
  DesignOutcome *outcomes;
  Arena arena;
} StudyRun;

/* Puts the settings of the column's design, where one is named, in front of a study's design. */
static int expand_design(Node *design, const Node *designs, Arena *arena, Diag *diag) {
  const Node *name = node_take(design, "design");
  if (!name) return 0;
  const Node *from = name->text ? node_find(designs, name->text) : NULL;
  if (!from || from->kind != NODE_MAP)
    return diag_error(diag, name->at, "this column has no design '%s'",
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

/* Leaves out the prices of machines that a column of one machine does not have. */
static void drop_prices(Node *block, const char *machine) {
  Node *prices = (Node *)node_find(block, "prices");
  for (Node *price = prices ? prices->first : NULL, *next; price; price = next) {
    next = price->next;
    if (strcmp(price->key, machine) != 0) node_take(prices, price->key);
  }
}

/* Leaves out what starts from a design that the column does not have. */
static void drop_designs(Node *designs, const Node *known) {
  for (Node *design = designs->first, *next; design; design = next) {
    next = design->next;
    const Node *name = design->kind == NODE_MAP ? node_find(design, "design") : NULL;
    if (name && !(name->text && node_find(known, name->text))) node_take(designs, design->key);
  }
}

/* The `provision:` block of the file that the source names, its designs expanded. */
static const Node *load_block(const Paper *paper, const ClaimSource *source, ClaimColumn column,
                              Arena *arena, Diag *diag) {
  const Node *file = node_find(source->node, "study");
  if (!file || !file->text) {
    diag_error(diag, source->node->at, "a study needs 'study: FILE'");
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
  const PaperColumn *of = &paper->columns[column];
  if (designs && of->machine) drop_designs(designs, of->designs);
  if (of->machine) drop_prices(block, of->machine);
  for (Node *design = designs ? designs->first : NULL; design; design = design->next)
    if (design->kind == NODE_MAP && expand_design(design, of->designs, arena, diag)) return NULL;
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

static int run(StudyRun *self, Paper *paper, const ClaimSource *source, ClaimColumn column,
               int jobs, Diag *diag) {
  const TrialBase *from = &paper->columns[column].base;
  Arena *arena = &self->arena;
  ConfigChanges changes = {.seed = -1, .tie_seed = -1};
  Setting *settings;
  if (claim_settings(paper, source, column, &settings, &changes.n_settings, arena, diag)) return -1;
  changes.settings = settings;
  self->base.path = from->path;
  self->base.root = node_copy(from->root, arena);
  const Node *block = load_block(paper, source, column, arena, diag);
  // The block is part of what settings change, as on the command line: provision.seeds
  Node *root = self->base.root;
  if (!block || node_set(root, "provision", block->key_at, block, arena, diag) ||
      config_change(root, &changes, arena, diag) ||
      provision_bind(&self->provision, &self->base, node_take(root, "provision"), arena, diag))
    return -1;
  keep_designs(&self->provision, source->designs, arena);
  const ProvisionOptions options = {.jobs = jobs};
  return provision_run(&self->provision, &options, &self->outcomes, arena, diag);
}

/* ---- What is kept ---- */

/* Without an answer no counts are enough, no rate is low enough. */
static void keep_answer(RunRecord *self, const char *design, const Provision *provision,
                        const DesignOutcome *outcome) {
  const Answer *answer = outcome->answers;
  const bool offline = provision->offline;
  const struct {
    const char *name;
    double value, without;
  } figures[] = {
      {"found", 1, 0},
      {"value", provision_value(provision, answer), NAN},
      {"rate", answer->rate, 0},
      {"throughput", offline ? answer->rate : NAN, 0},
      {"tokens", offline ? answer->run.output_tokens_per_s : NAN, 0},
      {"prefill", (double)answer->fleet.n[ROLE_PREFILL], INFINITY},
      {"decode", (double)answer->fleet.n[ROLE_DECODE], INFINITY},
      {"mixed", (double)answer->fleet.n[ROLE_MIXED], INFINITY},
      {"instances", answer->fleet.takes.instances, INFINITY},
      {"gpus", answer->fleet.takes.gpus, INFINITY},
      {"machines", answer->fleet.takes.machines, INFINITY},
      {"cost", answer->fleet.takes.cost_per_hour, INFINITY},
      {"power", answer->fleet.takes.power_kw, INFINITY},
      {"low", outcome->low, NAN},
      {"high", outcome->high, NAN},
      {"simulations", (double)outcome->n_simulations, (double)outcome->n_simulations},
      {"grid", outcome->n_grid, outcome->n_grid},
  };
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    run_record_keep(self, design, figures[i].name, "value",
                    answer->found ? figures[i].value : figures[i].without);
}

/* The numbers that the answer has for keys which the design goes through. */
static void keep_numbers(RunRecord *self, const char *design, const DesignOutcome *outcome,
                         Arena *arena) {
  const Sweep *choices = &outcome->design->choices;
  const Answer *answer = outcome->answers;
  for (int i = 0; i < choices->n_axes; i++) {
    const Choice *at = sweep_choice(choices, answer->choice, i);
    for (int k = 0; k < at->n_settings; k++) {
      const char *key = at->settings[k].key;
      double number;
      if (choice_number(outcome->design, answer->choice, key, &number))
        run_record_keep(self, design, arena_copy(arena, key, strlen(key)), "value",
                        answer->found ? number : NAN);
    }
  }
}

static void keep_times(RunRecord *self, const Answer *answer) {
  const ExtrapolatedFigures figures = {.time_share = answer->run.extrapolated,
                                       .far_time_share = answer->run.far,
                                       .perfmodel_error = answer->run.perfmodel_error,
                                       .perfmodel_measured = answer->run.measured};
  if (answer->found) run_record_add_times(self, &figures);
}

static RunRecord *keep_study(const StudyRun *run, Arena *arena) {
  const Provision *provision = &run->provision;
  RunRecord *self = run_record_new(arena);
  for (int d = 0; d < provision->n_designs; d++) {
    const char *design = provision->designs[d].name;
    keep_answer(self, design, provision, &run->outcomes[d]);
    keep_numbers(self, design, &run->outcomes[d], arena);
    for (int s = 0; s < provision->n_seeds; s++)
      keep_times(self, &run->outcomes[d].answers[s]);
  }
  return self;
}

int claim_run_study(Paper *paper, ClaimSource *source, ClaimColumn column, int jobs, Arena *arena,
                    Diag *diag) {
  StudyRun study = {0};
  arena_init(&study.arena);
  cache_init(&study.base.cache);
  const int status = run(&study, paper, source, column, jobs, diag);
  if (status == 0) {
    RunRecord **runs = source->outcomes[column].runs = ARENA_ARRAY(arena, RunRecord *, 1);
    runs[0] = keep_study(&study, arena);
  }
  trial_base_done(&study.base);
  arena_done(&study.arena);
  return status;
}
