/* Attainment and goodput against the rate: the best answers of a study at loads around the one that
 * was asked, on each seed, and on the first one with times moved. */
#include "experiments/plan/plan.h"
#include "experiments/plan/quote.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of what was asked; beyond the last one each is so many times the one before, until half of the
 * requests miss a limit or the load is that of LOAD_MOST. */
static const double loads[] = {0.5, 0.75, 0.9, 1, 1.1, 1.25};
static const double LOAD_STEP = 1.2, LOAD_MOST = 16;
enum { LOADS = sizeof loads / sizeof *loads, LOADS_MAX = LOADS + 14 };

typedef struct CurveRun {
  int point;
  ConfigChanges changes;
  TrialBase *base;
  bool loaded;
  Trial trial;
} CurveRun;

typedef struct Runs {
  Curve *curve;
  const Provision *study;
  int n_variants; // runs of a point
  int *due;       // [n_due] points to be run
  int n_due, n_begun;
  Arena *arena;
  Diag *diag;
} Runs;

/* ---- Limits of one request ---- */

/* What limits of a component hold for too: those of its class, and of all requests. */
static bool holds_for(const SloSpec *spec, uint32_t component, const SimConfig *sim) {
  if (spec->component == 0 || spec->component == component) return true;
  if (component == 0 || component > sim->n_components || sim->n_classes == 0) return false;
  return spec->component == 1 + sim->n_components + sim->components[component - 1].class;
}

/* "{share: 0.5, ttft: 2s}" of the requests of a component; NULL: none. */
static const char *limits_text(const Config *config, uint32_t component, Arena *arena) {
  static const int metrics[] = {METRICS_ttft, METRICS_tpot, METRICS_e2e};
  const char *text = "";
  for (int m = 0; m < 3; m++) {
    const HistogramSpec *metric = &metrics_histograms[metrics[m]];
    double limit = INFINITY;
    for (int i = 0; i < config->slo->n_specs; i++) {
      const SloSpec *spec = &config->slo->specs[i];
      if (spec->metric == metric && holds_for(spec, component, &config->sim))
        limit = fmin(limit, spec->limit);
    }
    if (!isinf(limit)) text = arena_printf(arena, "%s, %s: %.12g s", text, metric->name, limit);
  }
  return *text ? arena_printf(arena, "{share: 0.5%s}", text) : NULL;
}

bool plan_request_limits(RequestLimits *ret, const Config *config, Arena *arena) {
  const uint32_t *components;
  const uint32_t n = slo_ranged_components(config->slo, &components, arena);
  const SimConfig *sim = &config->sim;
  *ret = (RequestLimits){.all = limits_text(config, 0, arena)};
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t of = components[i] - 1;
    const char *name = of < sim->n_components ? sim->components[of].name
                                              : sim->classes[of - sim->n_components].name;
    const char *limits = limits_text(config, components[i], arena);
    if (limits)
      ret->components =
          arena_printf(arena, "%s%s%s: {goodput: %s}", ret->components ? ret->components : "{",
                       ret->components ? ", " : "", quote_yaml(name, arena), limits);
  }
  if (ret->components) ret->components = arena_printf(arena, "%s}", ret->components);
  return ret->all || ret->components;
}

int plan_limit_settings(const RequestLimits *self, Place at, Setting *ret_settings, Arena *arena,
                        Diag *diag) {
  const Setting settings[] = {{"slo.goodput", at, NULL}, {"slo.components", at, NULL}};
  const char *const texts[] = {self->all, self->components};
  int n = 0;
  for (int i = 0; i < REQUEST_LIMITS; i++) {
    if (!texts[i]) continue;
    ret_settings[n] = settings[i];
    ret_settings[n++].value = yaml_parse(at.path, texts[i], strlen(texts[i]), arena, diag);
  }
  return n;
}

/* The limits of the study are those of one of its designs. -1 with entries. */
static int find_limits(Curve *self, const Provision *study, const DesignOutcome *outcome,
                       Arena *arena, Diag *diag) {
  Trial trial;
  trial_init(&trial);
  const ConfigChanges changes = provision_answer_changes(study, outcome, &trial.arena);
  int status = trial_load(&trial, study->base, &changes);
  if (status)
    diag_append(diag, &trial.diag);
  else if (!plan_request_limits(&self->limits, &trial.config, arena)) {
    status = diag_error(diag, place_of_file("--curve"), "no limit is one that a request can keep");
    diag_hint(diag, "limits on ttft, tpot and e2e are, such as ttft.p99<2s");
  }
  trial_done(&trial);
  return status;
}

/* ---- As a campaign ---- */

/* The seeds come first, then the first one with times moved. */
static ConfigChanges changes_of(const Runs *self, const CurvePoint *point, int variant) {
  const Provision *study = self->study;
  const Place at = point->outcome->design->at;
  ConfigChanges changes = provision_answer_changes(study, point->outcome, self->arena);
  Setting *settings = ARENA_ARRAY(self->arena, Setting, changes.n_settings + 1 + REQUEST_LIMITS);
  memcpy(settings, changes.settings, (size_t)changes.n_settings * sizeof *settings);
  settings[changes.n_settings++] =
      provision_answer_load(study, point->outcome, point->load, self->arena);
  changes.n_settings += plan_limit_settings(&self->curve->limits, at, &settings[changes.n_settings],
                                            self->arena, self->diag);
  changes.settings = settings;
  if (variant >= study->n_seeds)
    changes.error_shift = config_moves[variant - study->n_seeds];
  else if (variant > 0)
    changes.seed = study->seed + variant;
  return changes;
}

static int next_run(void *context, void *run) {
  Runs *self = context;
  CurveRun *next = run;
  if (self->n_begun == self->n_due * self->n_variants) return 0;
  next->point = self->due[self->n_begun / self->n_variants];
  next->base = self->study->base;
  next->changes =
      changes_of(self, &self->curve->points[next->point], self->n_begun++ % self->n_variants);
  return self->diag->n_entries > 0 ? -1 : 1;
}

static void make_run(void *run) {
  CurveRun *self = run;
  trial_init(&self->trial);
  self->loaded = true;
  if (trial_load(&self->trial, self->base, &self->changes) == 0) trial_run(&self->trial);
}

static void widen(CurveRange *range, double value, bool first) {
  if (first) range->value = value;
  range->low = fmin(range->low, value);
  range->high = fmax(range->high, value);
}

static int take_run(void *context, void *run) {
  Runs *self = context;
  const CurveRun *ended = run;
  if (ended->trial.diag.n_entries > 0) {
    diag_append(self->diag, &ended->trial.diag);
    return -1;
  }
  CurvePoint *point = &self->curve->points[ended->point];
  const Report *report = &ended->trial.report;
  const double good = report_value(report, "good"), all = report_value(report, "requests");
  const bool first = ended->changes.seed < 0 && ended->changes.error_shift == 0;
  widen(&point->attained, good / all, first);
  widen(&point->goodput, good / report_value(report, "duration_s"), first);
  if (!first) return 0;
  const Metrics *metrics = &report->result->metrics;
  const double arrivals_s = tick_seconds(metrics->last_arrival_at - metrics->first_arrival_at);
  point->rate = workload_waits(&report->config->workload) || !(arrivals_s > 0)
                    ? report_value(report, "throughput_rps")
                    : (all - 1) / arrivals_s;
  return 0;
}

static void release_run(void *run) {
  CurveRun *self = run;
  if (self->loaded) trial_done(&self->trial);
}

/* ---- The curve ---- */

/* The first points of each design, and then one more of each that still keeps the limits; there is
 * room for LOADS_MAX of a design. */
static void add_due(Runs *self, int *n_of, int n_designs) {
  CurvePoint *points = self->curve->points;
  self->n_due = self->n_begun = 0;
  for (int d = 0; d < n_designs; d++) {
    CurvePoint *of = &points[d * LOADS_MAX];
    const int n = n_of[d];
    const double load = n == 0 ? loads[0] : of[n - 1].load * LOAD_STEP;
    const bool goes_on =
        n > 0 && n < LOADS_MAX && load <= LOAD_MOST && of[n - 1].attained.value >= 0.5;
    for (int i = n; n == 0 && i < LOADS; i++)
      of[i].load = loads[i];
    if (goes_on) of[n].load = load;
    n_of[d] += n == 0 ? LOADS : goes_on;
    for (int i = n; i < n_of[d]; i++)
      self->due[self->n_due++] = d * LOADS_MAX + i;
  }
}

/* Without the room between the designs. */
static void close_up(Curve *self, const int *n_of, int n_designs) {
  self->n = 0;
  for (int d = 0; d < n_designs; d++)
    for (int i = 0; i < n_of[d]; i++)
      self->points[self->n++] = self->points[d * LOADS_MAX + i];
}

int curve_make(Curve *self, const Provision *study, const DesignOutcome *outcomes, int jobs,
               Arena *arena, Diag *diag) {
  const int *order = plan_order(study, outcomes, arena);
  int n = 0;
  while (n < study->n_designs && n < CURVE_DESIGNS && outcomes[order[n]].answers[0].found)
    n++;
  int n_of[CURVE_DESIGNS] = {0};
  *self = (Curve){.points = ARENA_ARRAY(arena, CurvePoint, n * LOADS_MAX + 1)};
  for (int i = 0; i < n * LOADS_MAX; i++)
    self->points[i] = (CurvePoint){.outcome = &outcomes[order[i / LOADS_MAX]],
                                   .attained = {NAN, INFINITY, -INFINITY},
                                   .goodput = {NAN, INFINITY, -INFINITY}};
  if (n == 0 || find_limits(self, study, &outcomes[order[0]], arena, diag)) return n == 0 ? 0 : -1;
  Runs runs = {.curve = self,
               .study = study,
               .n_variants = study->n_seeds + MOVES,
               .due = ARENA_ARRAY(arena, int, n *LOADS_MAX),
               .arena = arena,
               .diag = diag};
  const Campaign campaign = {.jobs = jobs,
                             .ahead = 4,
                             .run_size = sizeof(CurveRun),
                             .next = next_run,
                             .make = make_run,
                             .take = take_run,
                             .release = release_run,
                             .context = &runs};
  int status = 0;
  for (add_due(&runs, n_of, n); runs.n_due > 0 && status == 0; add_due(&runs, n_of, n))
    status = campaign_run(&campaign, arena, diag);
  close_up(self, n_of, n);
  return status;
}

double curve_knee(const Curve *self, const DesignOutcome *outcome, double share) {
  double rate = 0;
  for (int i = 0; i < self->n; i++) {
    const CurvePoint *point = &self->points[i];
    if (point->outcome != outcome) continue;
    if (!(point->attained.low >= share)) break;
    rate = point->rate;
  }
  return rate;
}
