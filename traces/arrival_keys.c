/* The `arrivals:` block: which keys go with which process, and the rate they make. */
#include "traces/arrivals.h"
#include "traces/profiles.h"
#include <inttypes.h>
#include <math.h>

typedef struct ArrivalKeys {
  int process, gaps, interpolation;
  double rate, peak_rate, cv;
  const Node *profile, *rates, *states, *modulation;
  Tick step, period;
  const char *start;
} ArrivalKeys;

enum { GAPS_AUTO, GAPS_POISSON, GAPS_GAMMA, GAPS_FIXED };
static const char *const process_choices[] = {"poisson", "gamma", "fixed", "at_once", "diurnal",
                                              "steps",   "ramp",  "mmpp",  NULL};
static const char *const gap_choices[] = {"auto", "poisson", "gamma", "fixed", NULL};
static const char *const interpolation_choices[] = {"hold", "linear", NULL};

#define TIME_MIN 1.0 // seconds, of what the rate is held for
#define TIME_MAX 9e6
#define RATE_MIN 1e-6 // per second
#define RATE_MAX 1e9
#define DAY      (86400 * TICKS_PER_SECOND)
enum { POINTS_MAX = 100000, STATES_MAX = 64 };

#define KEY(name, type_, ...) OPTION_OF(ArrivalKeys, name, OPTION_##type_, __VA_ARGS__)

const OptionSpec workload_arrival_options[] = {
    KEY(process, CHOICE, .fallback = "poisson", .choices = process_choices,
        .help = "Arrival process."),
    KEY(rate, RATE, .min = RATE_MIN, .max = RATE_MAX,
        .help = "Mean rate; for diurnal the mean over the profile. It does not apply to at_once, "
                "steps, ramp and mmpp.",
        .also = "rps qps request_rate", .absent = "none"),
    KEY(cv, REAL, .min = 1e-3, .max = 100,
        .help = "Coefficient of variation of the gaps between arrivals. It applies to gamma.",
        .absent = "none; required for gamma"),
    KEY(gaps, CHOICE, .fallback = "auto", .choices = gap_choices,
        .help = "Distribution of the gaps for diurnal, steps, ramp and mmpp. With auto it is gamma "
                "if cv is given, else poisson."),
    KEY(profile, NODE, .listed = "profiles",
        .help = "Relative rates over time: the name of a profile, the path of a .csv file, or a "
                "list. It applies to diurnal.",
        .absent = "none; required for diurnal"),
    KEY(step, TICKS, .min = TIME_MIN, .max = TIME_MAX,
        .help = "Duration of each value of a list of rates. It applies to diurnal.",
        .absent = "1 h"),
    KEY(period, TICKS, .min = TIME_MIN, .max = TIME_MAX, .word = "none",
        .help = "Period after which the profile repeats. With none it does not repeat and must "
                "cover the run.",
        .absent = "length of the profile in whole days"),
    KEY(interpolation, CHOICE, .fallback = "hold", .choices = interpolation_choices,
        .help = "Interpolation of the profile: hold each rate, or change it linearly from the "
                "middle of each step to the next."),
    KEY(start, STRING,
        .help = "Place in the profile at which the run begins, such as Monday 08:00 or 32 h.",
        .absent = "the beginning"),
    KEY(peak_rate, RATE, .min = RATE_MIN, .max = RATE_MAX,
        .help = "Rate at the highest value of the profile. It replaces rate.", .absent = "none"),
    KEY(rates, NODE,
        .help = "Rates over time: [{at: 0 s, rate: 10 /s}, …]. It applies to steps and ramp.",
        .absent = "none; required for steps and ramp"),
    KEY(states, NODE,
        .help = "States of the process: [{rate: 10 /s, mean_time: 60 s}, …]. It applies to mmpp.",
        .absent = "none; required for mmpp"),
    KEY(modulation, NODE,
        .help = "Random variation of the rate: {cv: …, time_constant: …}. It does not apply to "
                "at_once.",
        .absent = "none"),
    {0}};

typedef struct RatePoint {
  Tick at;
  double rate;
} RatePoint;

const OptionSpec arrival_point_options[] = {
    {"at", OPTION_TICKS, offsetof(RatePoint, at), .required = true, .max = TIME_MAX,
     .help = "Time since the start of the run. The first one is 0 s."},
    {"rate", OPTION_RATE, offsetof(RatePoint, rate), .required = true, .max = RATE_MAX,
     .help = "Rate from this time on (steps), or at this time (ramp)."},
    {0}};
const OptionSpec arrival_state_options[] = {
    {"rate", OPTION_RATE, offsetof(RateState, rate), .required = true, .max = RATE_MAX,
     .help = "Rate of arrivals in the state."},
    {"mean_time", OPTION_TICKS, offsetof(RateState, mean_time), .required = true, .min = 1e-3,
     .max = TIME_MAX, .help = "Mean of the exponential time that the state lasts."},
    {0}};
const OptionSpec arrival_drift_options[] = {
    {"cv", OPTION_REAL, offsetof(ArrivalPattern, drift_cv), .required = true, .min = 1e-3,
     .max = 10,
     .help = "Coefficient of variation of the rate's lognormal factor, whose mean is 1."},
    {"time_constant", OPTION_TICKS, offsetof(ArrivalPattern, drift_time), .required = true,
     .min = TIME_MIN, .max = TIME_MAX,
     .help = "Time after which the autocorrelation has fallen to 1/e."},
    {0}};

typedef struct Binder {
  ArrivalConfig *config;
  const ArrivalKeys *keys;
  const Node *node;
  const ArrivalSetting *setting;
  Arena *arena;
  Diag *diag;
} Binder;

/* ---- Which keys go together ---- */

#define OF(process) (1u << ARRIVAL_##process)
#define SHAPED      (OF(DIURNAL) | OF(STEPS) | OF(RAMP) | OF(MMPP))
#define PACED       (OF(POISSON) | OF(GAMMA) | OF(FIXED))
static const struct {
  const char *key;
  unsigned needed, allowed; // by processes
} rules[] = {{"rate", PACED, OF(DIURNAL)},
             {"cv", OF(GAMMA), SHAPED},
             {"gaps", 0, SHAPED},
             {"profile", OF(DIURNAL), 0},
             {"step", 0, OF(DIURNAL)},
             {"period", 0, OF(DIURNAL)},
             {"interpolation", 0, OF(DIURNAL)},
             {"start", 0, OF(DIURNAL)},
             {"peak_rate", 0, OF(DIURNAL)},
             {"rates", OF(STEPS) | OF(RAMP), 0},
             {"states", OF(MMPP), 0},
             {"modulation", 0, PACED | SHAPED}};

/* What a process needs, and what would have no effect on it. */
static int check_keys(const Binder *self) {
  const char *process = process_choices[self->keys->process];
  const unsigned is = 1u << self->keys->process;
  int status = 0;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    const Node *child = node_find(self->node, rules[i].key);
    if ((rules[i].needed & is) && !child)
      status =
          diag_error(self->diag, self->node->at, "process '%s' needs '%s'", process, rules[i].key);
    if (child && !((rules[i].needed | rules[i].allowed) & is))
      status = diag_error(self->diag, child->key_at, "'%s' cannot be used with process '%s'",
                          rules[i].key, process);
  }
  return status;
}

static int bind_gaps(const Binder *self) {
  static const ArrivalProcess given[] = {
      [GAPS_POISSON] = ARRIVAL_POISSON, [GAPS_GAMMA] = ARRIVAL_GAMMA, [GAPS_FIXED] = ARRIVAL_FIXED};
  ArrivalPattern *pattern = &self->config->pattern;
  const bool has_cv = self->keys->cv > 0;
  pattern->cv = self->keys->cv;
  if (self->config->process <= ARRIVAL_FIXED)
    pattern->gaps = self->config->process;
  else if (self->keys->gaps == GAPS_AUTO)
    pattern->gaps = has_cv ? ARRIVAL_GAMMA : ARRIVAL_POISSON;
  else
    pattern->gaps = given[self->keys->gaps];
  const Node *cv = node_find(self->node, "cv"), *gaps = node_find(self->node, "gaps");
  if (cv && pattern->gaps != ARRIVAL_GAMMA)
    return diag_error(self->diag, cv->key_at, "'cv' needs gamma gaps, and these are '%s'",
                      gaps->text);
  if (pattern->gaps != ARRIVAL_GAMMA || has_cv) return 0;
  return diag_error(self->diag, gaps->at, "gamma gaps need 'cv'");
}

/* ---- Profiles ---- */

static const char *shown(const Binder *self, Tick ticks) {
  char *text = arena_alloc(self->arena, 64);
  units_format(text, 64, DIM_TIME, tick_seconds(ticks));
  return text;
}

/* A profile that repeats does so after whole days, unless it is said after what. */
static int check_period(const Binder *self, const RateProfile *profile, Tick length) {
  const Node *node = node_find(self->node, "period");
  const Place at = (node ? node : self->keys->profile)->at;
  if (self->keys->period < 0 || self->keys->period == length) return 0;
  if (!node && length % DAY == 0) return 0;
  const char *whole = node ? shown(self, self->keys->period) : "a day";
  diag_error(self->diag, at, "the profile has %d values of %s, %s in all, and does not cover %s%s",
             profile->n, shown(self, profile->step), shown(self, length),
             node ? "" : "whole days, ", node ? whole : "after which it would repeat");
  if (node)
    diag_hint(self->diag, "omit 'period', or set it to '%s'", shown(self, length));
  else
    diag_hint(self->diag,
              "24 values of 1 h make a day, 168 a week; or set 'period: %s' or 'period: none'",
              shown(self, length));
  return -1;
}

/* Where the run begins; `length` is that of the profile. */
static int bind_start(const Binder *self, Tick length, Tick *ret) {
  const char *text = self->keys->start;
  if (!text) return 0;
  const Place at = node_find(self->node, "start")->at;
  bool names_day = false;
  if (!profile_time(text, ret, &names_day)) {
    diag_error(self->diag, at, "'start' must be a time of a day or a week, not '%s'", text);
    diag_hint(self->diag, "for example 'Monday 08:00', '08:00' or '32 h'");
    return -1;
  }
  if (names_day && length != 7 * DAY)
    return diag_error(self->diag, at, "'start' names a day of the week, but the profile covers %s",
                      shown(self, length));
  if (*ret < length) return 0;
  return diag_error(self->diag, at, "'start' is beyond the end of the profile, %s",
                    shown(self, length));
}

/* One that does not repeat goes on for as long as requests arrive. */
static int check_covers(const Binder *self, Tick length, Tick start) {
  const Place at = node_find(self->node, "period")->at;
  if (self->setting->duration <= 0)
    return diag_error(self->diag, at,
                      "a profile that does not repeat must cover the 'duration' of the workload, "
                      "which is missing");
  if (self->setting->duration <= length - start) return 0;
  diag_error(self->diag, at, "the profile ends after %s of the run, before its duration of %s",
             shown(self, length - start), shown(self, self->setting->duration));
  diag_hint(self->diag, "without 'period' the profile repeats");
  return -1;
}

static int bind_profile(const Binder *self) {
  const ArrivalKeys *keys = self->keys;
  const Node *step = node_find(self->node, "step"), *rate = node_find(self->node, "rate"),
             *peak_rate = node_find(self->node, "peak_rate");
  RateProfile profile;
  int status = profile_bind(&profile, keys->profile, self->setting->data_dir,
                            self->setting->config_dir, self->arena, self->diag);
  if (rate && peak_rate)
    status = diag_error(self->diag, peak_rate->key_at, "'rate' and 'peak_rate' exclude each other");
  if (!rate && !peak_rate)
    status = diag_error(self->diag, self->node->at,
                        "process 'diurnal' needs 'rate' (the mean) or 'peak_rate'");
  if (status) return -1;
  if (step && profile.has_step)
    return diag_error(self->diag, step->key_at,
                      "'step' applies to a list of rates; the step of this table is %s",
                      shown(self, profile.step));
  if (!profile.has_step) profile.step = step ? keys->step : 3600 * TICKS_PER_SECOND;
  Tick length = 0, start = 0;
  if (__builtin_mul_overflow(profile.step, profile.n, &length))
    return diag_error(self->diag, keys->profile->at,
                      "the profile is longer than 106 days, the limit of the simulator");
  if (check_period(self, &profile, length) || bind_start(self, length, &start)) return -1;
  if (keys->period < 0 && check_covers(self, length, start)) return -1;
  RateCurve *curve = &self->config->pattern.curve;
  rate_curve_steps(curve, profile.values, profile.n, profile.step, keys->interpolation,
                   keys->period >= 0, self->arena);
  curve->start = start;
  const double factor =
      rate ? keys->rate / rate_curve_mean(curve) : keys->peak_rate / rate_curve_peak(curve);
  rate_curve_scale(curve, factor, self->arena);
  self->config->rate = rate_curve_mean(curve);
  return 0;
}

/* ---- Steps, ramps, states ---- */

static int wrong_list(const Binder *self, const Node *node, int most, const char *example) {
  diag_error(self->diag, node->at, "'%s' must be a list of at most %d maps", node->key, most);
  diag_hint(self->diag, "for example %s", example);
  return -1;
}

static int check_points(const Binder *self, const RatePoint *points, int n) {
  const Node *node = self->keys->rates->first;
  bool any = false;
  for (int i = 0; i < n; i++, node = node->next) {
    any |= points[i].rate > 0;
    if (i == 0 && points[i].at != 0)
      return diag_error(self->diag, node->at, "the first entry of 'rates' must be at 0 s");
    if (i > 0 && points[i].at <= points[i - 1].at)
      return diag_error(self->diag, node->at, "the times of 'rates' must ascend");
  }
  if (any) return 0;
  return diag_error(self->diag, self->keys->rates->at, "all of 'rates' are 0");
}

static int bind_points(const Binder *self) {
  const Node *list = self->keys->rates;
  if (list->kind != NODE_LIST || list->n_children == 0 || list->n_children > POINTS_MAX)
    return wrong_list(self, list, POINTS_MAX,
                      "[{at: 0 s, rate: 10 /s}, {at: 10 min, rate: 50 /s}]");
  const int n = list->n_children;
  RatePoint *points = ARENA_ARRAY(self->arena, RatePoint, n);
  int i = 0, status = 0;
  for (const Node *node = list->first; node; node = node->next)
    status |= option_bind(arrival_point_options, node, NULL, node->at, &points[i++], self->diag);
  if (status || check_points(self, points, n)) return -1;
  Tick *at = ARENA_ARRAY(self->arena, Tick, n);
  double *rates = ARENA_ARRAY(self->arena, double, n);
  for (i = 0; i < n; i++) {
    at[i] = points[i].at;
    rates[i] = points[i].rate;
  }
  RateCurve *curve = &self->config->pattern.curve;
  *curve = (RateCurve){
      .at = at, .rates = rates, .n_points = n, .linear = self->config->process == ARRIVAL_RAMP};
  const Tick duration = self->setting->duration;
  self->config->rate =
      duration > 0 ? rate_curve_expected(curve, duration) / tick_seconds(duration) : rates[n - 1];
  return 0;
}

static int bind_states(const Binder *self) {
  const Node *list = self->keys->states;
  if (list->kind != NODE_LIST || list->n_children < 2 || list->n_children > STATES_MAX)
    return wrong_list(self, list, STATES_MAX,
                      "[{rate: 10 /s, mean_time: 60 s}, {rate: 80 /s, mean_time: 5 s}]");
  ArrivalPattern *pattern = &self->config->pattern;
  RateState *states = ARENA_ARRAY(self->arena, RateState, list->n_children);
  int status = 0;
  for (const Node *node = list->first; node; node = node->next)
    status |= option_bind(arrival_state_options, node, NULL, node->at, &states[pattern->n_states++],
                          self->diag);
  if (status) return -1;
  double requests = 0, time = 0;
  for (int i = 0; i < pattern->n_states; i++) {
    requests += states[i].rate * tick_seconds(states[i].mean_time);
    time += tick_seconds(states[i].mean_time);
  }
  if (requests == 0) return diag_error(self->diag, list->at, "the rates of all states are 0");
  pattern->states = states;
  rate_curve_constant(&pattern->curve, 1, self->arena);
  self->config->rate = requests / time;
  return 0;
}

/* ---- All of it ---- */

static int bind_curve(const Binder *self) {
  switch (self->config->process) {
  case ARRIVAL_DIURNAL:
    return bind_profile(self);
  case ARRIVAL_STEPS:
  case ARRIVAL_RAMP:
    return bind_points(self);
  case ARRIVAL_MMPP:
    return bind_states(self);
  default:
    rate_curve_constant(&self->config->pattern.curve, self->config->rate, self->arena);
    return 0;
  }
}

int arrivals_bind(ArrivalConfig *self, const Node *node, const ArrivalSetting *setting,
                  Arena *arena, Diag *diag) {
  ArrivalKeys keys = {0};
  if (option_bind(workload_arrival_options, node, NULL, node->at, &keys, diag)) return -1;
  const Binder binder = {self, &keys, node, setting, arena, diag};
  *self =
      (ArrivalConfig){.process = (ArrivalProcess)keys.process, .rate = keys.rate, .cv = keys.cv};
  if (check_keys(&binder)) return -1;
  ArrivalPattern *pattern = &self->pattern;
  pattern->given = self->process > ARRIVAL_AT_ONCE || keys.modulation;
  if (!pattern->given) return 0;
  if (bind_gaps(&binder) || bind_curve(&binder)) return -1;
  if (!keys.modulation) return 0;
  return option_bind(arrival_drift_options, keys.modulation, NULL, keys.modulation->at, pattern,
                     diag);
}
