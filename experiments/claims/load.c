/* Reading a paper's folder: its columns, its claims, their sources and figures. */
#include "base/folder.h"
#include "experiments/claims/claims.h"
#include "traces/lengths.h"
#include <math.h>
#include <string.h>

const char *const claim_columns[CLAIM_COLUMNS] = {"released", "tandem", "h100"};
const char *const verdict_names[VERDICTS] = {"within", "outside", "input-missing", "reported"};
const char *const figure_kinds[] = {"prediction", "input", "formula", "fit", NULL};

static const char *const section_names[SOURCE_KINDS] = {"runs", "models", "studies"};

#define KEY(name, Struct, field, kind, ...)                                                        \
  { .key = name, .type = kind, .offset = offsetof(Struct, field), __VA_ARGS__ }

/* ---- paper.yaml ---- */

typedef struct PaperKeys {
  const char *title;
  const Node *columns[CLAIM_COLUMNS];
} PaperKeys;

static const OptionSpec paper_options[] = {
    KEY("title", PaperKeys, title, OPTION_STRING, .required = true, .help = "Title of the paper."),
    KEY("released", PaperKeys, columns[COLUMN_RELEASED], OPTION_NODE,
        .help = "Rules and tables of the authors' simulator: {config, designs}."),
    KEY("tandem", PaperKeys, columns[COLUMN_TANDEM], OPTION_NODE,
        .help = "Tandem's own model of batches: {config, designs}."),
    KEY("h100", PaperKeys, columns[COLUMN_H100], OPTION_NODE,
        .help = "Times measured on one machine: {config, designs, machine}."),
    {0}};

typedef struct ColumnKeys {
  const char *config, *machine;
  const Node *designs;
} ColumnKeys;

static const OptionSpec column_options[] = {
    KEY("config", ColumnKeys, config, OPTION_STRING, .required = true,
        .help = "Configuration in the paper's folder, the base of all sources."),
    KEY("designs", ColumnKeys, designs, OPTION_NODE, .help = "Named changes of the configuration."),
    KEY("machine", ColumnKeys, machine, OPTION_STRING,
        .help = "Machine type that all pools of a source must be on; column h100 needs it."),
    {0}};

static int load_column(Paper *self, ClaimColumn column, const Node *node, Arena *arena,
                       Diag *diag) {
  PaperColumn *to = &self->columns[column];
  ColumnKeys keys = {0};
  if (!node) return 0;
  if (option_bind(column_options, node, NULL, node->at, &keys, diag)) return -1;
  if ((column == COLUMN_H100) != (keys.machine != NULL))
    return diag_error(diag, node->at, "column 'h100' has a 'machine', and no other has");
  to->designs = keys.designs;
  to->machine = keys.machine;
  const char *path = arena_printf(arena, "%s/%s", self->folder, keys.config);
  to->present = trial_base_init(&to->base, path, NULL, arena, diag) == 0;
  return to->present ? 0 : -1;
}

static int load_paper(Paper *self, Arena *arena, Diag *diag) {
  PaperKeys keys = {0};
  const Node *root = yaml_load(arena_printf(arena, "%s/paper.yaml", self->folder), arena, diag);
  if (!root || option_bind(paper_options, root, NULL, root->at, &keys, diag)) return -1;
  self->title = keys.title;
  int status = 0;
  for (int c = 0; c < CLAIM_COLUMNS; c++)
    status |= load_column(self, (ClaimColumn)c, keys.columns[c], arena, diag);
  return status;
}

/* ---- A claim ---- */

typedef struct ClaimKeys {
  const char *claim, *where, *note, *group;
  int64_t seeds;
  int kind;
  const Node *sections[SOURCE_KINDS], *figures, *sensitivity;
} ClaimKeys;

#define CLAIM(field, kind, ...)   KEY(#field, ClaimKeys, field, kind, __VA_ARGS__)
#define SECTION(name, which, ...) KEY(name, ClaimKeys, sections[which], OPTION_NODE, __VA_ARGS__)

static const OptionSpec claim_options[] = {
    CLAIM(claim, OPTION_STRING, .required = true, .help = "Statement of the paper, in one line."),
    CLAIM(where, OPTION_STRING, .required = true, .help = "Section or figure of the paper."),
    CLAIM(note, OPTION_STRING, .help = "Explanation of the outcome."),
    CLAIM(seeds, OPTION_INT, .fallback = "1", .min = 1, .max = 1000,
          .help = "Number of seeds of each run; figures are means over them."),
    CLAIM(kind, OPTION_CHOICE, .choices = figure_kinds, .help = "Kind of its figures."),
    CLAIM(group, OPTION_STRING, .help = "Name that claims with equal inputs share; absent: none."),
    SECTION("runs", SOURCE_RUN, .help = "Configurations that are simulated."),
    SECTION("models", SOURCE_MODEL, .help = "Configurations that are loaded, not simulated."),
    SECTION("studies", SOURCE_STUDY, .help = "Studies that are provisioned."),
    CLAIM(figures, OPTION_NODE, .required = true, .help = "List of figures to compare."),
    CLAIM(sensitivity, OPTION_NODE, .help = "List of inputs that the paper leaves open."),
    {0}};

typedef struct FigureKeys {
  const char *what, *value, *paper, *unit;
  int kind;
  ToleranceKeys near_enough;
} FigureKeys;

#define FIGURE(field, kind, ...) KEY(#field, FigureKeys, field, kind, __VA_ARGS__)
#define NEAR(field, kind, ...)   KEY(#field, FigureKeys, near_enough.field, kind, __VA_ARGS__)

static const OptionSpec figure_options[] = {
    FIGURE(what, OPTION_STRING, .required = true, .help = "Name of the figure."),
    FIGURE(value, OPTION_STRING, .required = true, .help = "Expression over the sources."),
    FIGURE(paper, OPTION_STRING, .help = "Value that the paper states, or its words."),
    FIGURE(kind, OPTION_CHOICE, .choices = figure_kinds,
           .help = "Kind of the figure; absent: that of the claim."),
    NEAR(rule, OPTION_CHOICE, .choices = claim_rules, .help = "Rule for the range."),
    NEAR(tolerance, OPTION_STRING, .help = "Allowed difference: 0.2, or 20% of 'paper'."),
    NEAR(range, OPTION_NODE, .help = "Allowed range [low, high]."),
    FIGURE(unit, OPTION_STRING, .help = "Unit, such as s, % or yes."),
    {0}};

static int bind_figure(ClaimFigure *figure, FigureKind kind, const Node *node, Diag *diag) {
  FigureKeys keys = {.paper = "", .unit = "", .kind = (int)kind, .near_enough.rule = -1};
  if (option_bind(figure_options, node, NULL, node->at, &keys, diag)) return -1;
  *figure = (ClaimFigure){.what = keys.what,
                          .value = {keys.value, node_find(node, "value")->at},
                          .unit = keys.unit,
                          .paper = keys.paper,
                          .kind = (FigureKind)keys.kind,
                          .low = NAN,
                          .high = NAN};
  double nothing;
  if (expression_eval(&figure->value, NULL, &nothing, diag)) return -1;
  return tolerance_bind(figure, &keys.near_enough, node, diag);
}

static int bind_figures(Claim *self, FigureKind kind, const Node *list, Arena *arena, Diag *diag) {
  if (list->kind != NODE_LIST || list->n_children == 0)
    return diag_error(diag, list->at, "'figures' must be a list");
  self->figures = ARENA_ARRAY(arena, ClaimFigure, list->n_children);
  int status = 0;
  for (const Node *node = list->first; node; node = node->next)
    status |= bind_figure(&self->figures[self->n_figures++], kind, node, diag);
  return status;
}

/* ---- Sources ---- */

/* What the tandem column has, with its design. */
static void follow_tandem(const Paper *paper, ClaimSource *source) {
  const PaperColumn *column = &paper->columns[COLUMN_H100];
  const Node *design = node_find(source->node, "design");
  const bool known = !design || (design->text && node_find(column->designs, design->text));
  source->outcomes[COLUMN_H100].wanted =
      column->present && known && source->outcomes[COLUMN_TANDEM].wanted;
}

/* A source is for the columns that its `columns` lists, else for all there are. */
static int want_columns(const Paper *paper, ClaimSource *source, Diag *diag) {
  const Node *listed = node_find(source->node, "columns");
  for (int c = 0; c < CLAIM_COLUMNS; c++)
    source->outcomes[c].wanted = paper->columns[c].present && !listed;
  follow_tandem(paper, source);
  if (!listed) return 0;
  if (listed->kind != NODE_LIST) return diag_error(diag, listed->at, "'columns' must be a list");
  for (const Node *item = listed->first; item; item = item->next) {
    int c = 0;
    while (c < CLAIM_COLUMNS && (!item->text || strcmp(item->text, claim_columns[c]) != 0))
      c++;
    if (c == CLAIM_COLUMNS || !paper->columns[c].present)
      return diag_error(diag, item->at, "'%s' is not a column of this paper",
                        item->text ? item->text : "");
    source->outcomes[c].wanted = true;
  }
  follow_tandem(paper, source);
  return 0;
}

/* Keys that are not settings: all but those of columns. */
static int check_keys(const ClaimSource *source, Diag *diag) {
  static const char *const keys[] = {"design",   "set",    "columns", "study",
                                     "released", "tandem", "h100",    NULL};
  int status = 0;
  for (const Node *child = source->node->first; child; child = child->next) {
    int k = 0;
    while (keys[k] && strcmp(child->key, keys[k]) != 0)
      k++;
    if (keys[k]) continue;
    status = diag_error(diag, child->key_at, "unknown key '%s'", child->key);
    diag_hint_near(diag, child->key, keys);
  }
  return status;
}

static int bind_sources(const Paper *paper, Claim *self, const ClaimKeys *keys, Arena *arena,
                        Diag *diag) {
  int status = 0, n = 0;
  for (int kind = 0; kind < SOURCE_KINDS; kind++)
    if (keys->sections[kind]) n += keys->sections[kind]->n_children;
  self->sources = ARENA_ARRAY(arena, ClaimSource, n);
  for (int kind = 0; kind < SOURCE_KINDS; kind++) {
    const Node *section = keys->sections[kind];
    if (section && section->kind != NODE_MAP)
      status = diag_error(diag, section->at, "'%s' must be a map of names", section_names[kind]);
    for (const Node *node = section ? section->first : NULL; node; node = node->next) {
      ClaimSource *source = &self->sources[self->n_sources++];
      *source = (ClaimSource){.kind = (SourceKind)kind,
                              .name = node->key,
                              .node = node,
                              .text = node_text(node, arena),
                              .n_runs = kind == SOURCE_RUN ? self->n_seeds : kind == SOURCE_STUDY};
      if (node->kind != NODE_MAP)
        status = diag_error(diag, node->at, "'%s' must be a map: {design, set, …}", node->key);
      else
        status |= want_columns(paper, source, diag) | check_keys(source, diag);
    }
  }
  return status;
}

static int add_settings(const Node *map, Setting *settings, int *n, Diag *diag) {
  if (!map) return 0;
  if (map->kind != NODE_MAP) return diag_error(diag, map->at, "settings must be a map");
  for (const Node *node = map->first; node; node = node->next)
    settings[(*n)++] = (Setting){.key = node->key, .at = node->key_at, .value = node};
  return 0;
}

int claim_settings(const Paper *paper, const ClaimSource *source, ClaimColumn column,
                   Setting **ret_settings, int *ret_n, Arena *arena, Diag *diag) {
  const Node *name = node_find(source->node, "design"), *design = NULL;
  const Node *designs = paper->columns[column].designs;
  if (name) design = name->text ? node_find(designs, name->text) : NULL;
  if (name && !design)
    return diag_error(diag, name->at, "no design '%s' in column '%s'", name->text ? name->text : "",
                      claim_columns[column]);
  const Node *own = node_find(source->node, claim_columns[column]);
  if (!own && column == COLUMN_H100) own = node_find(source->node, claim_columns[COLUMN_TANDEM]);
  const Node *maps[] = {design, node_find(source->node, "set"), own};
  int capacity = source->n_moved, n = 0;
  for (int i = 0; i < 3; i++)
    capacity += maps[i] ? maps[i]->n_children : 0;
  Setting *settings = ARENA_ARRAY(arena, Setting, capacity);
  for (int i = 0; i < 3; i++)
    if (add_settings(maps[i], settings, &n, diag)) return -1;
  for (int i = 0; i < source->n_moved; i++)
    settings[n++] = source->moved[i];
  *ret_settings = settings;
  *ret_n = n;
  return 0;
}

/* ---- The folder ---- */

static int load_claim(const Paper *paper, Claim *self, const char *id, Arena *arena, Diag *diag) {
  ClaimKeys keys = {.note = "", .group = id};
  const char *path = arena_printf(arena, "%s/%s.yaml", paper->folder, id);
  const Node *root = yaml_load(path, arena, diag);
  *self = (Claim){.path = path, .id = id};
  if (!root || option_bind(claim_options, root, NULL, root->at, &keys, diag)) return -1;
  self->claim = keys.claim;
  self->where = keys.where;
  self->note = keys.note;
  self->group = keys.group;
  self->n_seeds = (int)keys.seeds;
  if (bind_sources(paper, self, &keys, arena, diag) |
      bind_figures(self, (FigureKind)keys.kind, keys.figures, arena, diag))
    return -1;
  return keys.sensitivity ? sensitivities_bind(self, keys.sensitivity, arena, diag) : 0;
}

/* A claim's file has the claim's name, SW-F15.yaml; names in lower case are of configurations and
 * studies that claims start from. */
static bool is_claim(const char *name, const char *only) {
  return *name >= 'A' && *name <= 'Z' && (!only || strcmp(name, only) == 0);
}

ClaimSource *claim_find_source(const Claim *claim, const char *name, size_t length) {
  for (int i = 0; i < claim->n_sources; i++)
    if (strlen(claim->sources[i].name) == length &&
        strncmp(claim->sources[i].name, name, length) == 0)
      return &claim->sources[i];
  return NULL;
}

/* Whether all that `source` is wanted for is made for `other`. */
static bool has_all(const ClaimSource *other, const ClaimSource *source) {
  bool all = other->kind == source->kind && other->n_runs >= source->n_runs;
  for (int c = 0; c < CLAIM_COLUMNS; c++)
    all = all && (other->outcomes[c].wanted || !source->outcomes[c].wanted);
  return all && strcmp(other->text, source->text) == 0;
}

ClaimSource *claims_find_twin(const Claim *claims, int n_claims, const ClaimSource *source) {
  for (int i = 0; i < n_claims; i++)
    for (int s = 0; s < claims[i].n_sources; s++) {
      ClaimSource *other = &claims[i].sources[s];
      if (other == source) return NULL;
      if (!other->twin && has_all(other, source)) return other;
    }
  return NULL;
}

int paper_load(Paper *self, const char *folder, const char *only, Arena *arena, Diag *diag) {
  const char *slash = strrchr(folder, '/');
  *self = (Paper){.folder = folder, .name = slash ? slash + 1 : folder};
  if (load_paper(self, arena, diag)) return -1;
  const char *const *names = folder_names(folder, ".yaml", arena);
  size_t n = 0;
  int status = 0;
  while (names[n])
    n++;
  self->claims = ARENA_ARRAY(arena, Claim, n);
  for (size_t i = 0; i < n; i++)
    if (is_claim(names[i], only))
      status |= load_claim(self, &self->claims[self->n_claims++], names[i], arena, diag);
  for (int i = 0; i < self->n_claims; i++)
    for (int s = 0; s < self->claims[i].n_sources; s++)
      self->claims[i].sources[s].twin =
          claims_find_twin(self->claims, self->n_claims, &self->claims[i].sources[s]);
  if (self->n_claims == 0)
    return diag_error(diag, place_of_file(folder), "there is no claim%s%s in '%s'", only ? " " : "",
                      only ? only : "", folder);
  return status;
}

static void done_sources(Claim *claims, int n_claims) {
  for (int i = 0; i < n_claims; i++)
    for (int s = 0; s < claims[i].n_sources; s++)
      for (int c = 0; c < CLAIM_COLUMNS; c++) {
        const ClaimSource *source = &claims[i].sources[s];
        Trial *bound = source->twin ? NULL : source->outcomes[c].bound;
        if (bound) trial_done(bound);
      }
}

void paper_done(Paper *self) {
  done_sources(self->claims, self->n_claims);
  done_sources(self->points, self->n_points);
  for (int c = 0; c < CLAIM_COLUMNS; c++)
    if (self->columns[c].present) trial_base_done(&self->columns[c].base);
}
