/* The claims of a paper, and what Tandem has to say about each.
 *
 * A folder of experiments/papers/ is a paper: paper.yaml, and one file per claim, SW-F15.yaml. Each
 * claim is put to up to three columns: `released`, with the tables and rules of the simulator that
 * its authors released, where there is one, `tandem`, with the batch-true model, and `h100`, with
 * times that were measured on that machine, for sources on no other. A column is a configuration
 * and named designs, lists of settings on it. A claim has sources, each a name and
 * settings on top of a design: `runs` are simulated, `models` bound, `studies` provisioned; and
 * figures, expressions over the sources' figures with what the paper says and how far off is near
 * enough. A claim with `seeds` has its runs made on as many, and a figure is the mean of what its
 * expression gives on each. What the paper leaves out may be moved over a sweep: each figure that
 * is outside is then evaluated at every point of it. experiments/papers/README.md has the keys and
 * the names of the figures. */
#ifndef EXPERIMENTS_CLAIMS_CLAIMS_H
#define EXPERIMENTS_CLAIMS_CLAIMS_H
#include "experiments/campaign/campaign.h"
#include "experiments/claims/expression.h"
#include "experiments/report/report.h"
#include "experiments/sweep/sweep.h"

typedef enum ClaimColumn { COLUMN_RELEASED, COLUMN_TANDEM, COLUMN_H100, CLAIM_COLUMNS } ClaimColumn;
extern const char *const claim_columns[CLAIM_COLUMNS];

typedef enum Verdict {
  VERDICT_WITHIN,
  VERDICT_OUTSIDE,
  VERDICT_INPUT_MISSING, // a source cannot be had here
  VERDICT_REPORTED,      // the paper gives no figure that could be held against it
  VERDICTS,
} Verdict;
extern const char *const verdict_names[VERDICTS];

/* What a figure that is within says. All but predictions are counted apart. */
typedef enum FigureKind {
  KIND_PREDICTION,
  KIND_INPUT,   // an input that comes back
  KIND_FORMULA, // arithmetic that the paper writes down
  KIND_FIT,     // something was calibrated on it
} FigureKind;
extern const char *const figure_kinds[];

typedef struct RunRecord RunRecord; // record.c

typedef enum SourceKind { SOURCE_RUN, SOURCE_MODEL, SOURCE_STUDY, SOURCE_KINDS } SourceKind;

/* A source in one column. */
typedef struct SourceOutcome {
  bool wanted;      // the claim has it in this column
  Trial *bound;     // of models; of runs NULL until a figure of their configuration is asked for
  int64_t seed;     // of runs, the first
  RunRecord **runs; // [n_runs]; NULL until they were made
  const char *gap;  // why it has no figures: an input is not here; NULL: it has them
} SourceOutcome;

typedef struct ClaimSource {
  SourceKind kind;
  const char *name;
  const Node *node;
  const Setting *moved; // [n_moved] of a point of a sensitivity, after all others
  int n_moved;
  const char *designs;      // of a study at a point: those that are looked at, " aa hh "
  const char *text;         // of the node and of what is moved
  int n_runs;               // of runs, one for each of the claim's seeds; 1 of studies
  struct ClaimSource *twin; // an earlier one that is equal, which is made for both; or NULL
  SourceOutcome outcomes[CLAIM_COLUMNS];
} ClaimSource;

typedef struct ClaimFigure {
  const char *what, *unit; // unit "%": a share, printed times 100; "yes": 1 or 0
  const char *paper;       // as it is printed
  Expression value;        // text NULL: nobody asks, at a point
  FigureKind kind;
  double low, high;             // what agrees, INFINITY: any; NAN: nothing is judged
  bool open;                    // the ends themselves do not
  double values[CLAIM_COLUMNS]; // NAN: none
  const char *gap;              // why the value that would be judged is missing
  Verdict verdict;              // of the first column that has a value
  Verdict by[CLAIM_COLUMNS];    // of that column; VERDICTS: only the other has a value
} ClaimFigure;

/* An input that the paper leaves out, and the points over which it is moved. */
typedef struct Sensitivity {
  const char *why;
  Sweep sweep;
  bool *sources, *figures; // of the claim: which are moved, and for which that is done
  bool *moved;             // figures that name a source which is moved
  struct Claim *points;    // [sweep.n_points], the claim at each; NULL: no such figure is outside
} Sensitivity;

/* What a figure is over the points of a sensitivity. */
typedef struct SensitivityRange {
  double low, high;   // NAN: it has a value nowhere
  const char *over;   // "max_num_seqs 16..64"
  const char *inside; // "24..32", the points at which it is within; "" nowhere
} SensitivityRange;

typedef struct Claim {
  const char *path, *id, *claim, *where, *note; // note: "" or why it is as it is
  const char *group;                            // of claims with the same inputs; else its id
  int n_seeds;                                  // the configuration's own and those that follow it
  ClaimSource *sources;
  int n_sources;
  ClaimFigure *figures;
  int n_figures;
  Sensitivity *sensitivities;
  int n_sensitivities;
} Claim;

typedef struct PaperColumn {
  bool present;
  TrialBase base;
  const Node *designs; // NULL: none
  /* NULL: any; else sources of the tandem column are in this one as far as they can be, that is if
   * it has their design, and binds, and all their pools are on this machine. */
  const char *machine;
} PaperColumn;

typedef struct Paper {
  const char *name, *folder, *title;
  PaperColumn columns[CLAIM_COLUMNS];
  Claim *claims; // in the order of their files' names
  int n_claims;
  Claim *points; // of all sensitivities that were looked at
  int n_points;
} Paper;

/* Reads a folder; `only` (NULL: all) names the one claim to read. All problems at once. */
int paper_load(Paper *self, const char *folder, const char *only, Arena *arena, Diag *diag);
void paper_done(Paper *self);
/* Makes all sources and evaluates all figures, with `jobs` threads; then, with `sensitivity`, those
 * that are outside at each point of the sensitivities that are for them. `on_progress` (may be
 * NULL) is told how many of the runs are done. -1 when something is wrong with a source beyond an
 * input that is not here. */
int paper_eval(Paper *self, int jobs, bool sensitivity, void (*on_progress)(int done, int all),
               Arena *arena, Diag *diag);
/* True when sensitivity `which` of the claim was looked at for this figure. */
bool claim_sensitivity(const Claim *self, int figure, int which, SensitivityRange *ret_range,
                       Arena *arena);

/* What one setting of the inputs that a paper leaves out makes of the predictions of all claims of
 * a group. A setting is a point of a sensitivity; a claim that does not have it stays as it is. */
typedef struct JointSetting {
  const char *group;
  int n, n_within, n_best; // figures, those within as they are, and with the best setting
  const char *setting;     // the best; "": as they are
} JointSetting;
/* Of each group, in the order of the claims, judged by their first column. */
JointSetting *paper_joint(const Paper *self, int *ret_n, Arena *arena);

/* From a value that is outside to the nearer end: a share of that end, or points of a share. */
double tolerance_miss(const ClaimFigure *figure, double value);

/* What is known of the iteration times of its sources in a column, once they are made. */
TimesKnown claim_times(const Claim *self, ClaimColumn column);

/* private: load.c, tolerance.c, eval.c, figures.c, record.c, study.c, sensitivity.c, joint.c */

/* The keys of a figure that say what agrees with it; at most one is set. */
typedef struct ToleranceKeys {
  int rule; // of claim_rules; -1: none
  const char *tolerance;
  const Node *range;
} ToleranceKeys;
extern const char *const claim_rules[];
/* Sets low and high. */
int tolerance_bind(ClaimFigure *figure, const ToleranceKeys *keys, const Node *node, Diag *diag);
/* All that is set at a point of a sensitivity. */
const char *sensitivity_setting(const Sensitivity *self, int64_t point, Arena *arena);

/* The list `sensitivity` of a claim whose sources and figures are bound. */
int sensitivities_bind(Claim *self, const Node *list, Arena *arena, Diag *diag);
/* Makes self->points, for the figures that are outside; each has sources that are to be made. */
void paper_points(Paper *self, Arena *arena, Diag *diag);
/* The source of that name in name[0..length), or NULL. */
ClaimSource *claim_find_source(const Claim *claim, const char *name, size_t length);
/* The first source of these claims, before `source` itself, that has what it has. */
ClaimSource *claims_find_twin(const Claim *claims, int n_claims, const ClaimSource *source);

/* The settings of a source in a column: its design's, `set`, those of the column's own map, and
 * what is moved. */
int claim_settings(const Paper *paper, const ClaimSource *source, ClaimColumn column,
                   Setting **ret_settings, int *ret_n, Arena *arena, Diag *diag);
/* What expressions may ask of a run, or of a study: nothing so far. */
RunRecord *run_record_new(Arena *arena);
/* Adds a figure; the scope "" goes without saying, as the statistic "value" does. `name` and
 * `statistic` must outlive it. */
void run_record_keep(RunRecord *self, const char *scope, const char *name, const char *statistic,
                     double value);
void run_record_add_times(RunRecord *self, const ExtrapolatedFigures *figures);
/* Before the trial runs: it listens for what instances decode. */
void run_record_listen(Trial *trial);
/* All of a trial that was run; the trial may go. */
RunRecord *run_record_make(const Trial *trial, Arena *arena);
/* False when it has no figure `name` (after the source's). */
bool run_record_figure(const RunRecord *self, const char *name, const double *arguments,
                       int n_arguments, double *ret_value);
void run_record_times(const RunRecord *self, TimesKnown *times);
/* The figure `name` (after the source's) of a trial that is bound. */
int claim_model_figure(const Trial *trial, const char *name, const double *arguments,
                       int n_arguments, Place at, double *ret_value, Diag *diag);
/* Whether a source is in a column: NULL for one that does not bind there. */
bool claim_is_of_column(const PaperColumn *column, const Config *config);
/* Provisions, and keeps "DESIGN.rate" and so on; `jobs` threads. */
int claim_run_study(Paper *paper, ClaimSource *source, ClaimColumn column, int jobs, Arena *arena,
                    Diag *diag);

/* What FlexGen's search finds for the first pool of a configuration. */
typedef enum FlexGenFigure {
  FLEXGEN_WEIGHTS_ON_CPU, // shares
  FLEXGEN_KV_ON_CPU,
  FLEXGEN_ACTIVATIONS_ON_CPU,
  FLEXGEN_SEQUENCES, // of a block
  FLEXGEN_TOKENS_PER_S,
} FlexGenFigure;

/* Of prompts and outputs of so many tokens; NAN: there is no policy. */
double claim_flexgen(const Config *config, FlexGenFigure figure, double prompt, double output);
#endif
