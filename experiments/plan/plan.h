/* Planning: one question about a model, GPUs, a load and limits, as a study in YAML.
 *
 * A question names what is wanted; the plan finds which designs could answer it: the degrees that
 * iteration times were measured at and whose weights fit, one pool or prefill and decode apart, and
 * a smaller batch beside the engine's own. What comes of it is the text of an ordinary study, which
 * is read, searched and kept as any other: there is no second way to say it. Then the front: what
 * a token costs against how fast users get them, from runs of the answers at several loads. */
#ifndef EXPERIMENTS_PLAN_PLAN_H
#define EXPERIMENTS_PLAN_PLAN_H
#include "experiments/base/writer.h"
#include "experiments/plan/sampled.h"
#include "experiments/provision/provision.h"
#include "perfmodel/acceptance.h"
#include "perfmodel/near_rows.h"
#include "traces/profiles.h"

enum { SPLIT_BOTH, SPLIT_YES, SPLIT_NO };
extern const char *const plan_split_names[];     // NULL-terminated
extern const char *const plan_objective_names[]; // likewise: of what is least
enum { PLAN_COST, PLAN_GPUS, PLAN_POWER, PLAN_CARBON };

/* A design that is searched, and of a split how many prefill instances; 0: any number. */
typedef struct PlanOnly {
  const char *name;
  int64_t low, high;
} PlanOnly;

/* The workload of a configuration, which is a mix. */
typedef struct PlanMix {
  const char *path;
  Node *root;   // of all of it
  bool endless; // it does not say when it ends
  WorkloadConfig workload;
} PlanMix;

/* -1 with entries. */
int plan_read_mix(PlanMix *ret, const char *path, Arena *arena, Diag *diag);
/* The share of its requests that are of this component, or class; 1: not known. */
double plan_mix_share(const PlanMix *self, const char *name);
/* Its keys as a study has them; of `requests` where the file does not say when it ends. */
const char *plan_mix_text(const PlanMix *self, int64_t requests, Arena *arena);

/* What is asked, as its options have it. */
typedef struct Question {
  const char *model, *gpu, *engine; // engine NULL: the newest vLLM; "sglang": the newest of those
  const char *prefill_gpu;          // of the prefill pools of split designs; NULL or "same": gpu
  const char *perfmodel;            // as the key; NULL: that of the engine
  int weights, kv_cache;            // Dtype; -1: the model's
  double rate;                      // requests/s; 0: the trace's, or users that wait
  int64_t users;                    // with a request each at all times; 0: none
  int64_t isl, osl;                 // tokens of all prompts and outputs; 0: not given
  const char *day;                  // profile that `rate` is the peak of; NULL: none
  double peak;                      // then, times the mean of the profile
  const char *lengths, *trace;      // in place of those
  TraceReading reading;             // of the trace, whose format is found out
  const TraceSample *sample;        // windows of it, in place of all; NULL: all
  const PlanMix *mix;               // in place of all of that, with its own rate; NULL: none
  const char *slo;                  // "ttft.p99<2s,tpot.p99<50ms"
  const char *tensor_parallel;      // "2,4"; NULL: all that can be had
  const char *survive;              // "rack=4": any one domain may be down; NULL: none
  const char *spares;               // "N-1": with an instance of each pool down; NULL: none
  int64_t max_gpus;                 // 0: any
  int64_t gpus;                     // whose highest rate is searched; 0: the load is given
  int64_t batch;                    // requests that are all there at once; 0: none
  double deadline_s;                // then; 0: of one instance
  double likely_rate;               // then, requests/s, where the search begins; 0: not known
  const PlanOnly *only;             // [n_only] designs; NULL: all
  int n_only;
  double headroom;                // share of the load that must be held beside it
  int64_t drafts;                 // of a request in a step; 0: none; -1: as `assignments` say
  const char *offload;            // "cpu=64GiB": tier for KV, and its size for each GPU; NULL: none
  const char *const *assignments; // of --set, NULL-terminated; NULL: none
  const Node *prices;             // of `prices`; NULL: those of the machine files
  int sold;                       // Sold; -1: that of the machine
  int split;                      // SPLIT_…
  int objective;                  // of plan_objective_names; -1: cost where a price is known
  int64_t seeds;
  double power_budget;       // W that all instances may take; 0: any
  const char *gpu_power_cap; // as the key of pools; NULL: none
  double pue;                // of the building; 0: not given
  const char *carbon;        // g of CO2 per kWh, or a table of them; NULL: not known
  const char *region;        // of the table; NULL: the only one
  Cache *cache;              // keeps what several studies are made of; NULL: nothing is kept
} Question;

enum {
  PLAN_SHAPES_MAX = 32,
  PLAN_BEST = 5,        // designs that are found and shown
  PLAN_FRONT_SHOWN = 5, // points of the front
};

/* What it means. */
typedef struct Plan Plan;
struct Plan {
  const Question *question;
  const char *option;  // that names the GPU: --gpu, or --prefill-gpu
  const Plan *prefill; // its machine and shapes, where prefill has its own; NULL: it has not
  const char *machine, *engine; // their names
  const char *objective;        // of objective_names
  Hardware hardware;
  Llm model;
  bool roofline;           // nothing was measured of it
  const char *measured_in; // then, formats of weights (--weights) that have times: fp8_block, mxfp4
  Parallelism shapes[PLAN_SHAPES_MAX];
  int n_shapes;
  const char *left_out;   // "tp1: the weights do not fit"; empty: nothing
  const char *untried;    // "tp1, tp2": nobody has iteration times of them; empty: none
  int64_t batched_tokens; // of the smaller batch; 0: the engine has no such key
  const char *domain;     // that must be survived; NULL: none
  int64_t domain_size;    // machines of it
  int64_t spares;         // instances of each pool that may be down
  bool mtp;               // drafts come from MTP layers of the model
  bool has_acceptance;    // and theirs is the one that is published, or assumed
  PublishedAcceptance acceptance;
  int64_t offload_cpu, offload_ssd; // bytes of each GPU under the prefix cache; 0: none
  bool offload_hicache;             // as SGLang's HiCache
  bool offload_drops;               // designs that cannot offload are left out
  double quantile;                  // the highest that is limited; 0: none
  const char *text;                 // the study
};

/* -1 with entries at the options that are wrong. All of it lives in `arena`. */
int plan_make(Plan *self, const Question *question, Arena *arena, Diag *diag);

/* The study of a plan with the assignments of its question; those of drafts only where there are
 * any. -1 with entries. */
int plan_set_keys(Plan *plan, Arena *arena, Diag *diag);

/* "ttft.p99<2s,chat:tpot.p99<50ms" as "ttft.p99: 2s, components: {chat: {tpot.p99: 50ms}}", and
 * raises `ret_quantile` to the highest that is limited; NULL with an entry. Which limits there are
 * is not its business. */
const char *plan_slo_limits(const char *asked, double *ret_quantile, Arena *arena, Diag *diag);
/* Limits on TTFT, TPOT and E2E as those of each request: the tightest of each, which is
 * "{share: 0.5, ttft: 2s, tpot: 50ms}" of `slo.goodput`, and "{chat: {goodput: {…}}}" of
 * `slo.components`; NULL: there are none. */
typedef struct RequestLimits {
  const char *all, *components;
} RequestLimits;

/* False: no limit is of those. */
bool plan_request_limits(RequestLimits *ret, const Config *config, Arena *arena);
enum { REQUEST_LIMITS = 2 };
/* The keys that set them, at most REQUEST_LIMITS; their number. */
int plan_limit_settings(const RequestLimits *self, Place at, Setting *ret_settings, Arena *arena,
                        Diag *diag);

/* How many times the mean the highest rate of a profile is, by its name or path. -1: entries. */
int plan_peak(const char *profile, double *ret_factor, Arena *arena, Diag *diag);
/* What a day leaves: instances that the rate does not need, of those that hold the peak. They are
 * whole ones, in proportion to the rate: of N, N - max(ceil(N v / peak), least) where it is v. */
typedef struct Valleys {
  double *before; // [n + 1] free instance seconds of the first so many steps
  int n;
  double step_s;
} Valleys;

/* The profile of a day, by its name or path. -1 with entries. */
int plan_profile(RateProfile *ret, const char *profile, Arena *arena, Diag *diag);
void valleys_make(Valleys *self, const RateProfile *day, double instances, double least,
                  Arena *arena);
/* Free instance seconds from a time of the day on; days follow one another. */
double valleys_free(const Valleys *self, double from_s, double lasts_s);
/* The step at whose beginning most is free for so long; the first of those. */
int valleys_best(const Valleys *self, double lasts_s);
/* The lowest rate of a profile in that time, as its values have it. */
double valleys_lowest(const RateProfile *day, double from_s, double lasts_s);
/* The designs of a study from the best on, those without an answer last; [n_designs]. */
int *plan_order(const Provision *study, const DesignOutcome *outcomes, Arena *arena);

/* private: question.c */

/* Fills all but the text. -1 with entries at the options that are wrong. */
int question_resolve(Plan *self, const Question *question, Arena *arena, Diag *diag);
/* What drafts come from, and how many are accepted. -1 with entries. */
int question_resolve_drafts(Plan *self, const ServingEngine *engine, Diag *diag);
/* Which tiers there are under the prefix cache. -1 with entries. */
int question_resolve_offload(Plan *self, const ServingEngine *engine, Diag *diag);
/* Drops shapes that cannot have them. -1 with an entry when none is left. */
int question_keep_offloading(Plan *self, Diag *diag);
bool plan_offloads(Parallelism shape);
/* `kv_connector` of a shape. */
const char *plan_offload_text(const Plan *self, Parallelism shape, Arena *arena);
/* "tp2", "tp1-dp4-ep4". */
const char *shape_name(Parallelism shape, Arena *arena);

/* ---- The front ---- */

/* A run of an answer at some load. */
typedef struct FrontPoint {
  int number; // in the order in which they were run
  const DesignOutcome *outcome;
  double load;            // of what was asked
  double rate;            // requests/s that were served
  double gpus;            // of the cluster
  double cost;            // $ per million output tokens; NAN: no price
  double gpu_seconds;     // per million output tokens
  double joules;          // per output token; NAN: not known
  double tokens_per_user; // per second: 1 / mean TPOT
  double tokens_per_s;    // of output
  bool saturated;         // more come than it serves
  bool met;               // all limits
  bool best;              // not dominated: no other is cheaper and faster
  double parts[CAUSES];   // mean seconds of a request, at the load that was asked, or zeroes
} FrontPoint;

typedef struct Front {
  FrontPoint *points; // [n]; by cost, then speed
  int n;
  bool keeps_parts; // of requests, at the load that was asked
} Front;

/* What its tokens cost: money, or GPU seconds where there is no price. */
double front_cost(const FrontPoint *point);
/* Simulates the answers of a study at a few loads each, on `jobs` threads, until so many points of
 * the front that meet the limits are known. What the search has simulated is not run again but for
 * `keeps_parts`. */
int front_make(Front *self, const Provision *study, const DesignOutcome *outcomes, int wanted,
               bool keeps_parts, int jobs, Arena *arena, Diag *diag);
/* The point of a design at the load that was asked; NULL: it has no answer or is not in the front's
 * runs. */
const FrontPoint *front_asked(const Front *self, const DesignOutcome *outcome);

/* ---- The curve ---- */

enum { CURVE_DESIGNS = 3 };

/* Of the first seed, and over all seeds and times moved by their error. */
typedef struct CurveRange {
  double value, low, high;
} CurveRange;

/* An answer at some load. */
typedef struct CurvePoint {
  const DesignOutcome *outcome;
  double load;         // of what was asked
  double rate;         // requests/s that came
  CurveRange attained; // share of the requests that kept all limits, each by itself
  CurveRange goodput;  // those per second
} CurvePoint;

typedef struct Curve {
  CurvePoint *points; // [n]; the best design first, of each by load
  int n;
  RequestLimits limits;
} Curve;

/* Simulates the best answers of a study at loads around the one that was asked. A limit on a
 * statistic counts as one of each request; limits on other metrics than TTFT, TPOT and E2E do not
 * count. */
int curve_make(Curve *self, const Provision *study, const DesignOutcome *outcomes, int jobs,
               Arena *arena, Diag *diag);
/* The highest rate up to which such a share of requests keeps the limits on all seeds and with
 * times moved; 0: none. */
double curve_knee(const Curve *self, const DesignOutcome *outcome, double share);

/* Adds the front and the curve (NULL: none) to the newest study of a database, for the figures of
 * its page; `share` of the requests must keep the limits. -1 with entries. */
int plan_store(const Front *front, const Curve *curve, double share, Results *results, Diag *diag);

/* ---- On paper ---- */

/* What the next instance adds to the highest rate. */
typedef struct MoreGpus {
  int64_t gpus; // of it
  double rate;  // requests/s with it; 0: not known
} MoreGpus;

/* When a load that grows runs out of an answer. */
typedef struct Growth {
  double share;       // of a month
  double held;        // requests/s that the answer holds; 0: not known
  double months;      // until then
  double until, rate; // months, and requests/s then; 0: not asked
  const char *then;   // what that takes: "9 instances of tp1: 9 GPUs, 36 $/h"
  bool dated;         // the month of the load that is asked is known
  int from;           // that month, counted from January of year 0
} Growth;

/* Reads `share` ("10%/month"), the month `from` ("2026-11") and `until` (a number of months, or a
 * month), of which the last two may be NULL. -1 with entries. */
int growth_read(const char *share, const char *from, const char *until, Growth *growth, Diag *diag);

/* The month that is `months` after `from`, in the arena; NULL if that is not known. */
const char *growth_month(const Growth *self, double months, Arena *arena);

/* Lines of the answer, and a field of its JSON object. */
void growth_print(const Growth *self, FILE *out, Arena *arena);
void growth_write_json(const Growth *self, FILE *out, Arena *arena);

/* Everything but the search, which found `outcomes`. `path` is where the study is kept, NULL:
 * nowhere. */
typedef struct PlanAnswer {
  const Plan *plan;
  const Provision *study;
  const DesignOutcome *outcomes;
  int best, runner_up; // designs; -1: none
  const Front *front;
  const Curve *curve;     // NULL: not asked
  const MoreGpus *more;   // NULL: the load was given
  const Growth *growth;   // NULL: not asked
  const Config *config;   // of the best answer; NULL: none
  const Sampled *sampled; // of a trace that was sampled; NULL: it was not
  const NearRows *near;   // what was measured nearest to that; NULL: not looked for
  const char *path;
} PlanAnswer;

enum { PLAN_NEAR = 3 };
/* The measured rows that are nearest to an answer, which has its front and its configuration. -1
 * with entries. */
int plan_near(NearRows *ret, const PlanAnswer *self, Arena *arena, Diag *diag);
/* The GPU whose rows they are. */
const char *plan_near_gpu(const PlanAnswer *self);

/* What the answer rests on that its figures do not say; NULL-terminated. */
const char *const *plan_notes(const PlanAnswer *self, Arena *arena);

/* Energy counts the GPUs of some pool alone, since the machine type does not say the rest. */
bool plan_lacks_machine_power(const Config *config);
/* "6", or "4 + 2" of a split. */
const char *plan_instances(const Answer *answer, Arena *arena);
/* "4 + 2 instances of split-tp1: 6 GPUs, 24 $/h" */
const char *plan_named_takes(const DesignOutcome *outcome, Arena *arena);
/* "llama3.1-8b on dgx-h100: 20 requests/s, 500 + 100 tokens, within ttft.p99<2s"; `on` NULL: it is
 * left out. */
const char *plan_title(const Question *asked, const char *on, Arena *arena);
/* private: print_curve.c */
void plan_print_curve(const PlanAnswer *self, OutputFormat format, FILE *out, Arena *arena);
void plan_print(const PlanAnswer *self, OutputFormat format, FILE *out, Arena *arena);

/* ---- To start it ---- */

/* Their names, NULL-terminated. */
const char *const *export_names(Arena *arena);
/* What one of them prints, in one line. */
const char *export_about(const char *name, Arena *arena);
/* Whether the program of a serving engine, "vllm-0.33", has an option for this key of a batcher or
 * of pools. */
bool plan_engine_has(const char *engine, const char *key);
/* A map as YAML, its maps of maps in lines of their own. */
void plan_print_block(const Node *map, int indent, FILE *out, Arena *arena);
/* What starts the cluster of a configuration under the program `name`, one of them, as that reads
 * it; NULL: the engine's own. */
void export_print(const char *name, const Config *config, FILE *out, Arena *arena);
#endif
