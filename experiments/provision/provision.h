/* Provisioning: which machine counts of which design, under a constraint, are the best.
 *
 *     provision:
 *       objective: throughput               # or the least cost, power, machines, …, carbon
 *       constraint: {power: 1760 kW}        # or cost: 190 $/h, machines: 40, gpus: 64, rate: 70 /s
 *       tolerance: 10 /s                    # rates are multiples of it
 *       seeds: 5                            # replicates
 *       prices: {dgx-h100: {power: 44 kW, cost: 4.76 $/h}}   # of an instance, not the files'
 *       designs:
 *         hh: {pools.prefill.count: 1..39, pools.decode.count: 1..39}
 *         baseline: {pools: {all: {machine: dgx-a100}}, pools.all.count: 1..80}
 *
 * A design is a map of settings on the configuration that holds the block; a count that is a range
 * is searched, at most two of them. Counts are of instances; cost and power are of whole
 * machines where those are sold whole (fleet.h), but for what `prices` give. Under a budget the
 * last searched count is what that leaves, rounded down. Whether a cluster holds a rate is taken to
 * be monotone in rate and counts; what was simulated is checked against that, and so are the
 * neighbours of an answer.
 *
 * Of arrivals at once the throughput is what a run measures, and nothing has to be assumed: then a
 * list or a range of any key is gone through, and so are the degrees that share so many GPUs:
 *
 *         vllm: {parallelism: {gpus: 8, pools: [all]},
 *                policies.batcher.max_num_batched_tokens: [512, 2048]}
 *
 * Every combination is a choice, numbered as the points of a sweep are. Those that cannot be had,
 * since the weights do not fit or the heads cannot be divided, are listed with the reason; there
 * must be one that can.
 *
 * `spares` are bought beside every count that is searched, off until a machine fails
 * (pools.NAME.spares). With `n_plus` N a cluster has to hold the rate with N machines fewer in each
 * pool that is searched, all at once. With `headroom` H it has to hold 1 + H times the load. With
 * `survive: rack` it has to hold with any one of the configuration's domains of that name down for
 * the whole run (domains.NAME.down): a run for each whose loss is not covered by that of another
 * (config_worst_domains). The one with the least margin is that of the answer.
 *
 * All designs meet the same requests: equal seeds draw equal lengths and the same arrivals, scaled
 * to the rate. The answer of a design is that of the configuration's own seed; the other seeds say
 * how sure it is. Answers and the number of simulations do not depend on the number of threads. */
#ifndef EXPERIMENTS_PROVISION_PROVISION_H
#define EXPERIMENTS_PROVISION_PROVISION_H
#include "experiments/campaign/campaign.h"
#include "experiments/fleet/fleet.h"
#include "experiments/provision/search.h"
#include "experiments/results/results.h"
#include "experiments/sweep/sweep.h"

enum { COUNTS_MAX = SEARCH_DIMENSIONS };

typedef enum Objective {
  OBJECTIVE_THROUGHPUT,
  OBJECTIVE_COST,
  OBJECTIVE_POWER,
  OBJECTIVE_MACHINES,
  OBJECTIVE_INSTANCES,
  OBJECTIVE_GPUS,
  OBJECTIVES,
} Objective;
extern const char *const objective_names[OBJECTIVES + 1]; // NULL-terminated
typedef struct Provision Provision;
/* What was asked to be least or largest: one of these, or carbon. */
const char *provision_objective(const Provision *self);
extern const char *const objective_units[OBJECTIVES];

/* What an objective or budget is of; not of throughput. */
static inline double takes_value(const Takes *self, Objective objective) {
  const double values[OBJECTIVES] = {[OBJECTIVE_COST] = self->cost_per_hour,
                                     [OBJECTIVE_POWER] = self->power_kw,
                                     [OBJECTIVE_MACHINES] = self->machines,
                                     [OBJECTIVE_INSTANCES] = self->instances,
                                     [OBJECTIVE_GPUS] = self->gpus};
  return values[objective];
}

typedef struct CountRange {
  const char *key; // pools.NAME.count
  int64_t low, high;
} CountRange;

/* Instances of several pools. Two pools that are shapes of the same GPUs take them once. */
typedef struct Fleet {
  Takes takes;
  int64_t n[ROLES]; // by role
} Fleet;

/* One choice of a design, before anything is simulated. */
typedef struct ChoiceFit {
  const char *label;   // "parallelism=TP4PP2 policies.batcher.max_num_batched_tokens=512"
  const char *why_not; // one line; NULL: it can be had
  Fleet fleet;
} ChoiceFit;

typedef struct Design {
  const char *name;
  Place at;
  Setting *settings; // [n_settings], without the searched counts and the choices'
  int n_settings;
  CountRange counts[COUNTS_MAX]; // [n_counts], as in the file
  int n_counts;
  Lot *lots; // [n_lots] of its pools; of an offline study those of a choice
  int n_lots;
  Takes each[COUNTS_MAX]; // of one instance of the searched pools, by its GPUs
  Fleet fixed;            // the other pools alone
  int roles[COUNTS_MAX];  // Role of the searched pools
  Sweep choices;          // of an offline study; without axes: one choice
  ChoiceFit *fits;        // [choices.n_points]
} Design;

struct Provision {
  TrialBase *base;
  const char *text;  // all of the file, canonical; NULL: bound from a block
  const char *epoch; // of the rules that its designs use
  bool offline;      // arrivals at once: the throughput of each choice is measured
  Objective objective;
  bool by_carbon;      // counts are searched by power, designs compared by what their tokens emit
  bool emits;          // energy.carbon is given
  Objective budget_of; // OBJECTIVE_THROUGHPUT: no budget
  double budget;       // in the unit of Takes
  double max_gpus;     // beside a budget of power; 0: any
  double rate;         // to hold; 0: as the configuration has it
  double tolerance;    // of a largest rate, requests/s
  double rate_from, rate_to;
  int64_t spares, n_plus; // of each pool whose count is searched
  double headroom;        // share of the load that is held beside it
  const char *survive;    // domains any one of which may be down; NULL: none is
  int n_best;             // designs that are wanted, the others are given up; 0: all
  int64_t seed;           // of the first replicate
  int n_seeds;
  bool replays;         // a trace, which is the same on every seed
  const char *rate_key; // of the configuration
  double base_rate;     // the configuration's
  Design *designs;
  int n_designs;
};

/* Whether so much is more than the budgets, if there are any. */
static inline bool provision_exceeds(const Provision *self, const Takes *takes) {
  return (self->max_gpus > 0 && takes->gpus > self->max_gpus) ||
         (self->budget_of != OBJECTIVE_THROUGHPUT &&
          !(takes_value(takes, self->budget_of) <= self->budget * (1 + 1e-9)));
}

/* Per request: how many found no room in KV memory as they came, and how often one gave way. */
typedef struct KvPressure {
  double waits, recomputes;
} KvPressure;

/* What users got of a run, and what it took for it; all zero where a database had it. */
typedef struct RunServed {
  bool known, saturated, met; // met: all limits
  double throughput_rps, output_tokens_per_s, gpus;
  double tpot_s;         // mean
  double cost, joules;   // per million output tokens; per output token
  double offered_tokens; // output tokens that came per second
} RunServed;

RunServed run_served(const Report *report);

/* What is kept of a run beside its rate and its limits. */
typedef struct RunKept {
  RunServed served;
  double output_tokens_per_s;
  double tokens_per_s;    // of prompts and outputs
  double unpaid;          // share of what all of its instances cost, of those that it had off
  double carbon;          // g of CO2 per million output tokens; NAN: not known
  double extrapolated;    // share of the time of iterations beyond what was measured
  double far;             // of that, beyond twice
  double perfmodel_error; // of its performance models, the largest; NAN: one is unknown
  bool measured;          // all of them are; false: one is a roofline
  uint64_t config_digest; // 0: there is no run
  uint64_t outcomes;      // the digest of those; 0: not known
} RunKept;

/* The best of one design on one seed. */
typedef struct Answer {
  bool found;      // false: no counts meet the limits
  bool open_ended; // the highest rate that was allowed still meets them
  int64_t counts[COUNTS_MAX];
  int64_t choice; // of an offline study; else 0
  double rate;    // held, requests/s; NAN: that of a trace, which nobody stated
  RunKept run;
  Fleet fleet;
  const char *binds;      // the limit with the least margin
  double margin;          // its
  const char *next_fails; // the limit that fails one step further; NULL: not known
  int n_slos;
  const SloOutcome *slos; // [n_slos] at the answer; names and values
  /* [n_slos] each, of its cluster with times moved down and up; NULL: not known. */
  const SloOutcome *moved_slos[MOVES];
  KvPressure kv, moved_kv[MOVES]; // the latter of moved_slos
} Answer;

/* What one choice gave on one seed. */
typedef struct Measurement {
  double throughput_rps; // NAN: it was not simulated; then those of `run` are, too
  RunKept run;
  const char *why_not; // one line; NULL: it may be the answer
} Measurement;

/* By what the terms of iteration times are moved: of each group its error, and the part of it that
 * counts. The squares of the parts sum to 1: of errors that are independent it is the most likely
 * way to be so far off in the limit that binds. */
typedef struct MovedTerms {
  double error[TERM_MOVES]; // the largest of its pools
  TermShifts part;          // 0: it does not move that limit
} MovedTerms;

/* What is known of one design. */
typedef struct DesignOutcome {
  const Design *design;
  const Answer *answers; // [n_seeds]; the first one is the answer
  bool first_seed_alone; // no other was searched: it is not among the best two
  /* Of the objective's value over the seeds that have an answer: */
  double low, high, mean, half_width; // half_width of the 95% t-interval; NAN: under two seeds
  int n_found;                        // seeds with an answer
  int n_different;                    // of those, whose runs have outcomes of their own
  int n_holds;                        // seeds whose requests the answer holds
  int n_distinct;                     // different clusters among their answers
  bool monotone;                      // nothing that was simulated says otherwise
  const char *why_not;   // when the first seed has no answer: which limit fails, at which counts
  int64_t n_simulations; // that the search needed
  int64_t n_stopped;     // of those, ended early
  double events, saved_events;     // simulated, and (estimated) not
  int64_t n_reused;                // found in the database
  double n_grid;                   // simulations of all counts and rates, or choices, all seeds
  const Measurement *measurements; // [n_seeds][choices.n_points]; NULL: counts were searched
  /* The first seed once more with times moved: its best answers then, or, of an offline study, what
   * its best choice gives. */
  bool ranged;         // it was asked for, there is an answer, and its models' error is known
  Answer moved[MOVES]; // not found: nothing holds
  MovedTerms moved_by; // of both, up and down; zeroes of an offline study, where all move together
  double low_model, high_model; // of the objective over the seeds and these; else NAN. INFINITY, or
                                // a rate of 0: nothing holds
  int64_t n_moved_simulations;  // which the numbers above are without
  double moved_events;
} DesignOutcome;

/* Seeds that a design was searched on. */
static inline int provision_seeds(const Provision *self, const DesignOutcome *outcome) {
  return outcome->first_seed_alone ? 1 : self->n_seeds;
}

/* Where a study stands. */
typedef struct ProvisionProgress {
  int64_t done, in_flight;  // simulations
  int n_designs, n_settled; // those whose first search has ended
  const Design *best;       // of those, the one with the best answer; NULL: none so far
  Answer answer;            // its
} ProvisionProgress;

typedef struct ProvisionOptions {
  int jobs;         // threads
  Results *results; // NULL: runs are not kept
  bool no_early_stop;
  bool range; // fills in what is of moved times
  /* As runs begin and end, and each second that none does. */
  void (*on_progress)(void *context, const ProvisionProgress *progress);
  void *context;
} ProvisionOptions;

/* Binds a study, a configuration with a `provision:` block, from a tree as trial_base_init_tree
 * takes it; `base` is filled, and must not move. */
int provision_load(Provision *self, TrialBase *base, const char *path, Node *root,
                   const ConfigChanges *changes, Cache *lasting, Arena *arena, Diag *diag);
/* The same of a block for a base that is at hand. All of it lives in `arena`. */
int provision_bind(Provision *self, TrialBase *base, const Node *block, Arena *arena, Diag *diag);
/* Searches. ret_outcomes[n_designs] and all they point to live in `arena`. -1 with entries in
 * `diag` when a simulation fails or the database does. */
int provision_run(const Provision *self, const ProvisionOptions *options,
                  DesignOutcome **ret_outcomes, Arena *arena, Diag *diag);
/* The design with the best answer, -1 when none has one. `ret_flips`: on another seed it would be
 * another one. */
int provision_best(const Provision *self, const DesignOutcome *outcomes, bool *ret_flips);
/* Whether design `other` has in its range a value as good as one in the range of `best`. */
bool provision_rivals(const Provision *self, const DesignOutcome *outcomes, int best, int other);
/* Whether an answer is better than another: by the objective, of equals the one with fewer GPUs,
 * and of those the one with more of its limits left. */
bool provision_is_better(const Provision *self, const Answer *answer, const Answer *other);
/* The objective's value of an answer. */
double provision_value(const Provision *self, const Answer *answer);

/* What makes the study's base the configuration of an answer that was found, on the first seed. */
ConfigChanges provision_answer_changes(const Provision *self, const DesignOutcome *outcome,
                                       Arena *arena);
/* What makes the load so many times as high as it is in the base, or, of arrivals with a rate,
 * such a part of `rate`. */
Setting provision_load_setting(const Provision *self, double rate, double load, Place at,
                               Arena *arena);
/* The same of the load of an answer. */
Setting provision_answer_load(const Provision *self, const DesignOutcome *outcome, double load,
                              Arena *arena);
/* What a design takes with so many instances of the searched pools. */
Takes design_takes(const Design *self, const int64_t *counts);

/* How many machines that take `each` a budget leaves beside what is `taken`: rounded down, where a
 * quotient within a billionth of a whole number counts as that (Splitwise §VI-B: iso-power and
 * iso-cost sizes). */
int64_t provision_fill(double budget, double taken, double each);

extern const OptionSpec provision_options[];
extern const OptionSpec provision_constraint_options[];
extern const OptionSpec provision_rate_options[];
extern const OptionSpec provision_price_options[]; // of a machine type or pool
extern const OptionSpec provision_parallelism_options[];

/* Keeps the answers of a study that was loaded from a file. */
int provision_store(const Provision *self, const DesignOutcome *outcomes, Results *results,
                    Diag *diag);

/* The answers of a study on paper: a table for people, JSON and CSV for programs. */
void provision_print(const Provision *study, const DesignOutcome *outcomes, OutputFormat format,
                     FILE *out);
/* Characters of a column that names the designs. */
int provision_name_width(const Provision *study);
/* What would be searched, for --dry-run. */
void provision_print_plan(const Provision *study, FILE *out);

/* The number that a choice has under a key which its design goes through; false when it is none. */
bool choice_number(const Design *design, int64_t choice, const char *key, double *ret_value);

/* 1, 2 or 5 times a power of ten, at most `value`. */
double provision_round_down(double value);
/* Of runs that find out how long to be (`duration: auto`), only what a search needs: whether limits
 * hold. -1 with entries. */
int provision_ask_for_verdicts(Node *root, Arena *arena, Diag *diag);

/* A text for a key of the configuration, for changes. */
Setting setting_text(const char *key, Place at, const char *text, Arena *arena);

/* private: load.c */

/* What makes the base a probe's configuration. Of an offline study counts[0] is the choice. */
ConfigChanges provision_changes(const Provision *self, const Design *design, const Probe *probe,
                                int seed, Arena *arena);
/* The same, with a domain of those to survive down. */
ConfigChanges provision_changes_without(const Provision *self, const Design *design,
                                        const Probe *probe, int seed, uint32_t domain,
                                        Arena *arena);
/* The rate of a probe, requests/s; 0: the configuration's. */
double provision_probe_rate(const Provision *self, const Probe *probe);

/* private: outcome.c */

/* From the answers to low, high, mean, half_width, n_found and n_distinct. */
void outcome_fill_spread(const Provision *self, DesignOutcome *outcome);
/* Whether times of an answer can be moved: there is one, and its error is known. */
bool answer_moves(const Answer *self);
/* From those and outcome->moved to ranged, low_model and high_model. */
void outcome_fill_range(const Provision *self, DesignOutcome *outcome);
#endif
