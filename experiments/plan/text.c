/* The text of a study: what was asked, in the words of a configuration. */
#include "experiments/plan/plan.h"
#include "experiments/plan/quote.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *const plan_split_names[] = {"both", "yes", "no", NULL};
const char *const plan_objective_names[] = {"cost", "gpus", "power", "carbon", NULL};

typedef struct Text {
  const Plan *plan;
  const char *text;
  Arena *arena;
} Text;

static void add(Text *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(Text *self, const char *format, ...) {
  va_list list;
  va_start(list, format);
  const char *more = arena_vprintf(self->arena, format, list);
  va_end(list);
  self->text = arena_printf(self->arena, "%s%s", self->text, more);
}

/* ---- Limits ---- */

/* Without the spaces around it. */
static const char *trimmed(const char *text, size_t length, Arena *arena) {
  while (length > 0 && *text == ' ')
    text++, length--;
  while (length > 0 && text[length - 1] == ' ')
    length--;
  return arena_copy(arena, text, length);
}

/* A quantity stands as it is; anything else in quotes, for the reader to refuse. */
static const char *value_of(const char *text, Arena *arena) {
  static const char plain[] = "0123456789.eE+% abcdefghijklmnopqrstuvwxyz";
  return *text && text[strspn(text, plain)] == '\0' ? text : quote_yaml_text(text, arena);
}

/* Limits as they are gathered: those on all requests, and of each component. */
typedef struct Limits {
  const char *name; // NULL: all requests
  const char *text;
} Limits;

static Limits *find_limits(Limits *limits, int *n, const char *name) {
  for (int i = 1; i < *n; i++)
    if (strcmp(limits[i].name, name) == 0) return &limits[i];
  limits[*n] = (Limits){name, ""};
  return &limits[(*n)++];
}

static void add_limit(Limits *self, const char *key, const char *value, Arena *arena) {
  self->text = arena_printf(arena, "%s%s%s: %s", self->text, *self->text ? ", " : "",
                            quote_yaml(key, arena), value_of(value, arena));
}

static const char *join_limits(const Limits *limits, int n, Arena *arena) {
  const char *text = limits[0].text, *components = "";
  for (int i = 1; i < n; i++)
    components = arena_printf(arena, "%s%s%s: {%s}", components, i > 1 ? ", " : "",
                              quote_yaml(limits[i].name, arena), limits[i].text);
  if (!*components) return text;
  return arena_printf(arena, "%s%scomponents: {%s}", text, *text ? ", " : "", components);
}

const char *plan_slo_limits(const char *asked, double *ret_quantile, Arena *arena, Diag *diag) {
  if (!asked) return "";
  Limits *limits = ARENA_ARRAY(arena, Limits, strlen(asked) + 1);
  int n = 1;
  limits[0].text = "";
  for (const char *at = asked; at;) {
    const size_t length = strcspn(at, ","), name = strcspn(at, "<");
    if (name == 0 || name >= length) {
      diag_error(diag, place_of_file("--slo"), "'%s' is not a limit",
                 trimmed(at, length, &diag->arena));
      diag_hint(diag, "write METRIC.STATISTIC<VALUE, such as ttft.p99<2s,tpot.p99<50ms; of a "
                      "component chat:ttft.p99<2s");
      return NULL;
    }
    const size_t sign = name + 1 + (at[name + 1] == '=');
    const char *key = trimmed(at, name, arena), *value = trimmed(at + sign, length - sign, arena);
    const char *colon = strrchr(key, ':'), *metric = colon ? colon + 1 : key;
    const char *dot = strchr(metric, '.');
    SloStatistic statistic;
    double quantile;
    if (dot && slo_parse_statistic(dot + 1, &statistic, &quantile) && statistic == SLO_QUANTILE)
      *ret_quantile = fmax(*ret_quantile, quantile);
    Limits *of =
        colon ? find_limits(limits, &n, arena_copy(arena, key, (size_t)(colon - key))) : limits;
    add_limit(of, metric, value, arena);
    at = at[length] ? at + length + 1 : NULL;
  }
  return join_limits(limits, n, arena);
}

/* ---- The workload ---- */

/* Requests beyond the highest percentile that is limited; what a run must last, in seconds and in
 * answers at a reader's pace; and where it is too long to search with. */
enum {
  BATCH_FULL = 2048,
  BEYOND = 40,
  LASTS_S = 30,
  LASTS_ANSWERS = 5,
  REQUESTS_MAX = 50000,
  RATED_MAX = 200000,
  FIRST_S = 15
};
#define PACE_S 0.05 // a token
/* Steps of a rate that is searched; one GPU more of a hundred must be seen. */
enum { RATE_STEPS = 200 };

/* Where the rate is searched: the likely one, or what each GPU may hold of short requests. */
static double asked_rate(const Question *asked) {
  const double tokens = asked->osl > 0 ? (double)asked->osl : 200;
  const double likely =
      asked->likely_rate > 0 ? asked->likely_rate : 1000 * (double)asked->gpus / tokens;
  return asked->gpus > 0 ? likely : asked->rate;
}

static int64_t count_requests(const Question *asked, double quantile) {
  const double seconds = fmax(LASTS_S, LASTS_ANSWERS * PACE_S * (double)asked->osl);
  const double tail = quantile < 1 ? BEYOND / (1 - quantile) : 0;
  const double turns = asked->users > 0 ? 4.0 * LASTS_ANSWERS * (double)asked->users : 0;
  const double requests = fmax(fmax(tail, turns), asked_rate(asked) * seconds);
  return (int64_t)fmin(ceil(requests - 1e-6), asked->gpus > 0 ? RATED_MAX : REQUESTS_MAX);
}

/* How the trace is read, as far as that was said. */
static void add_reading(Text *self, const TraceReading *reading) {
  const char *columns = "";
  for (int i = 0; i < TRACE_FIELDS; i++)
    if (reading->columns[i])
      columns = arena_printf(self->arena, "%s%s%s: %s", columns, *columns ? ", " : "",
                             trace_field_names[i], quote_yaml(reading->columns[i], self->arena));
  if (*columns) add(self, "  columns: {%s}\n", columns);
  if (reading->clock) add(self, "  time: %s\n", clock_choices[reading->clock]);
  if (reading->sort) add(self, "  sort: true\n");
}

/* Times as they are read again, to the picosecond. */
static void add_windows(Text *self, const TraceSample *sample) {
  const char *starts = "";
  for (int i = 0; i < sample->n; i++)
    starts = arena_printf(self->arena, "%s%s%.12g s", starts, i ? ", " : "",
                          tick_seconds(sample->windows[i].start));
  add(self, "  # %d of %" PRId64 " windows, which stand for all of the trace.\n", sample->n,
      sample->n_all);
  add(self, "  window: %.12g s\n  windows: [%s]\n", tick_seconds(sample->length), starts);
}

/* What the building draws, and what that emits. */
static void add_energy(Text *self) {
  const Question *asked = self->plan->question;
  char *end = NULL;
  if (asked->pue == 0 && !asked->carbon) return;
  const bool is_number = asked->carbon && *asked->carbon && (strtod(asked->carbon, &end), !*end);
  add(self, "energy: {pue: %.6g", asked->pue > 0 ? asked->pue : 1.0);
  if (asked->carbon)
    add(self, ", carbon: %s",
        is_number ? asked->carbon : quote_yaml_text(asked->carbon, self->arena));
  if (asked->region) add(self, ", region: %s", quote_yaml_text(asked->region, self->arena));
  add(self, "}\n");
}

/* The mix, with so many requests that there are enough of each component that is limited. */
static void add_mix(Text *self, double quantile) {
  const Question *asked = self->plan->question;
  double least = 1;
  for (const char *at = asked->slo; at && *at; at += strcspn(at, ","), at += *at == ',') {
    const size_t name = strcspn(at, ":,<");
    if (at[name] == ':')
      least = fmin(least, plan_mix_share(asked->mix, trimmed(at, name, self->arena)));
  }
  const double requests = ceil((double)count_requests(asked, quantile) / least);
  add(self, "%s", plan_mix_text(asked->mix, (int64_t)fmin(requests, REQUESTS_MAX), self->arena));
}

static void add_workload(Text *self, double quantile) {
  const Question *asked = self->plan->question;
  Arena *arena = self->arena;
  const int64_t requests = count_requests(asked, quantile);
  if (asked->mix) {
    add_mix(self, quantile);
    return;
  }
  add(self, "workload:\n");
  if (asked->trace) {
    add(self, "  trace: %s\n", quote_yaml(asked->trace, arena));
    add_reading(self, &asked->reading);
    if (asked_rate(asked) > 0) add(self, "  rate: %.12g /s\n", asked_rate(asked));
    if (asked->users > 0)
      add(self, "  closed_loop: {clients: %" PRId64 "} # replaces the times of the trace\n",
          asked->users);
    if (asked->sample)
      add_windows(self, asked->sample);
    else
      add(self, "  requests: %d # at most\n", REQUESTS_MAX);
    return;
  }
  if (asked->lengths)
    add(self, "  lengths: %s\n", quote_yaml(asked->lengths, arena));
  else
    add(self,
        "  # All requests have these lengths, as from benchmark clients; a table has real ones.\n"
        "  lengths: {prompt: {constant: %" PRId64 "}, output: {constant: %" PRId64 "}}\n"
        "  ignore_eos: true\n",
        asked->isl, asked->osl);
  if (asked->users > 0)
    add(self, "  closed_loop: {clients: %" PRId64 ", requests: %" PRId64 "}\n", asked->users,
        requests);
  else if (asked->batch > 0)
    add(self, "  arrivals: {process: at_once}\n  requests: %d\n", BATCH_FULL);
  else if (asked->gpus > 0 && asked->likely_rate == 0)
    add(self, "  arrivals: {process: poisson, rate: %.12g /s}\n  duration: %d s\n",
        asked_rate(asked), FIRST_S);
  else
    add(self, "  arrivals: {process: poisson, rate: %.12g /s}\n  requests: %" PRId64 "\n",
        asked_rate(asked), requests);
}

/* ---- Designs ---- */

/* More instances of a design than any load of this size takes. */
static int64_t most_instances(const Question *asked) {
  const double load = 1 + asked->headroom;
  if (asked->gpus > 0) return asked->gpus;
  if (asked->users > 0) return (int64_t)ceil(load * (double)asked->users);
  const double wanted = asked->rate > 0 ? 2 * load * asked->rate : 256 * load;
  int64_t most = 16;
  while ((double)most < wanted && most < 1000000 / 2)
    most *= 2;
  return most;
}

/* The range of instances that is searched. */
static const char *counts_of(const Text *self) {
  const int64_t spares = self->plan->spares;
  return arena_printf(self->arena, "%" PRId64 "..%" PRId64, 1 + spares,
                      most_instances(self->plan->question) + spares);
}

/* A pool on the machine of `plan`, which is that of the question or of its prefill. */
static const char *pool_of(const Text *self, const Plan *plan, const char *role,
                           Parallelism shape) {
  Arena *arena = self->arena;
  const char *pool = arena_printf(arena, "{role: %s, machine: %s, tensor_parallel_size: %" PRId64,
                                  role, quote_yaml(plan->machine, arena), shape.tensor);
  if (plan->roofline != self->plan->roofline && !self->plan->question->perfmodel)
    pool = arena_printf(arena, "%s, perfmodel: %s", pool, plan->roofline ? "roofline" : "fitted");
  if (shape.pipeline > 1)
    pool = arena_printf(arena, "%s, pipeline_parallel_size: %" PRId64, pool, shape.pipeline);
  if (shape.nodes > 1) pool = arena_printf(arena, "%s, nnodes: %" PRId64, pool, shape.nodes);
  if (shape.attention > 1)
    pool = arena_printf(arena, "%s, attention_data_parallel_size: %" PRId64, pool, shape.attention);
  if (shape.expert > 1)
    pool = arena_printf(arena, "%s, expert_parallel_size: %" PRId64, pool, shape.expert);
  const char *cap = self->plan->question->gpu_power_cap;
  const bool plain = cap && *cap && cap[strspn(cap, "0123456789. kW")] == '\0';
  if (cap)
    pool = arena_printf(arena, "%s, gpu_power_cap: %s", pool,
                        plain ? cap : quote_yaml_text(cap, arena));
  return arena_printf(arena, "%s}", pool);
}

/* The design of this name, if it is searched; `all` where any is. NULL: it is not. */
static const PlanOnly *find_only(const Text *self, const char *name) {
  static const PlanOnly all;
  const Question *asked = self->plan->question;
  for (int i = 0; i < asked->n_only; i++)
    if (strcmp(asked->only[i].name, name) == 0) return &asked->only[i];
  return asked->only ? NULL : &all;
}

static void add_whole(Text *self, Parallelism shape, int64_t batched_tokens) {
  const char *name = shape_name(shape, self->arena);
  if (batched_tokens > 0)
    name = arena_printf(self->arena, "%s-batch-%" PRId64, name, batched_tokens);
  if (!find_only(self, name)) return;
  add(self, "    %s:\n", name);
  if (batched_tokens > 0)
    add(self, "      policies.batcher.max_num_batched_tokens: %" PRId64 "\n", batched_tokens);
  if (self->plan->offload_cpu > 0)
    add(self, "      policies.batcher.kv_connector: %s\n",
        plan_offload_text(self->plan, shape, self->arena));
  add(self, "      pools: {serve: %s}\n", pool_of(self, self->plan, "mixed", shape));
  if (self->plan->question->batch > 0)
    add(self, "      workload.requests: [%d, %d] # to know the time of more\n", BATCH_FULL,
        2 * BATCH_FULL);
  else
    add(self, "      pools.serve.count: %s\n", counts_of(self));
}

static void add_split(Text *self, Parallelism prefill, Parallelism decode) {
  Arena *arena = self->arena;
  const Plan *there = self->plan->prefill ? self->plan->prefill : self->plan;
  const char *first = shape_name(prefill, arena), *second = shape_name(decode, arena);
  const char *counts = counts_of(self), *prefills = counts;
  const char *name = arena_printf(arena, "split-%s", first);
  if (self->plan->prefill)
    name = arena_printf(arena, "split-%s-%s-%s", there->hardware.name, first, second);
  else if (strcmp(first, second) != 0)
    name = arena_printf(arena, "%s-%s", name, second);
  const PlanOnly *only = find_only(self, name);
  if (!only) return;
  if (only->high > 0)
    prefills = arena_printf(arena, "%" PRId64 "..%" PRId64, only->low, only->high);
  add(self, "    %s", self->plan->prefill ? quote_yaml(name, arena) : name);
  add(self,
      ":\n      pools:\n        prefill: %s\n        decode: %s\n"
      "      pools.prefill.count: %s\n      pools.decode.count: %s\n",
      pool_of(self, there, "prefill", prefill), pool_of(self, self->plan, "decode", decode),
      prefills, counts);
}

/* Prefill on another GPU: by instances of half as many GPUs to twice as many, or by the smallest
 * where none of those fits. */
static void add_splits_over(Text *self, const Plan *prefill, Parallelism decode) {
  const int64_t gpus = parallelism_gpus(decode);
  bool any = false;
  for (int i = 0; i < prefill->n_shapes; i++) {
    const int64_t there = parallelism_gpus(prefill->shapes[i]);
    if (2 * there < gpus || there > 2 * gpus) continue;
    add_split(self, prefill->shapes[i], decode);
    any = true;
  }
  if (!any) add_split(self, prefill->shapes[0], decode);
}

static void add_designs(Text *self) {
  const Plan *plan = self->plan;
  const int split = plan->question->batch > 0 ? SPLIT_NO : plan->question->split;
  add(self, "  designs:\n");
  for (int i = 0; i < plan->n_shapes && split != SPLIT_YES; i++)
    add_whole(self, plan->shapes[i], 0);
  for (int i = 0; i < plan->n_shapes && split != SPLIT_YES && plan->batched_tokens > 0; i++)
    add_whole(self, plan->shapes[i], plan->batched_tokens);
  for (int i = 0; i < plan->n_shapes && split != SPLIT_NO && plan->offload_cpu == 0; i++) {
    if (plan->prefill) {
      add_splits_over(self, plan->prefill, plan->shapes[i]);
      continue;
    }
    add_split(self, plan->shapes[i], plan->shapes[i]);
    if (i + 1 < plan->n_shapes) add_split(self, plan->shapes[i], plan->shapes[i + 1]);
  }
}

/* ---- All of it ---- */

static void add_model(Text *self) {
  const Question *asked = self->plan->question;
  const char *name = quote_yaml(asked->model, self->arena);
  if (asked->weights < 0 && asked->kv_cache < 0) {
    add(self, "model: %s\n", name);
    return;
  }
  add(self, "model: {name: %s", name);
  if (asked->weights >= 0) add(self, ", quantization: %s", dtype_names[asked->weights]);
  if (asked->kv_cache >= 0) add(self, ", kv_cache_dtype: %s", dtype_names[asked->kv_cache]);
  add(self, "}\n");
}

/* "speculative: {...}"; what --set says of it is added later. */
static const char *drafts_of(const Plan *plan, Arena *arena) {
  const PublishedAcceptance *acceptance = &plan->acceptance;
  const char *text = arena_printf(arena, "speculative: {%snum_speculative_tokens: %" PRId64,
                                  plan->mtp ? "method: mtp, " : "", plan->question->drafts);
  if (plan->has_acceptance)
    text = arena_printf(arena, "%s, acceptance: %.3g, acceptance_error: %.3g", text,
                        acceptance_middle(acceptance), acceptance_error(acceptance));
  return arena_printf(arena, "%s}", text);
}

static void add_policies(Text *self) {
  const ServingEngine *engine = serving_at(1);
  for (int i = 1; serving_choices[i]; i++)
    if (strcmp(serving_choices[i], self->plan->engine) == 0) engine = serving_at(i);
  add(self,
      "policies:\n  router: token_jsq     # the instance with the fewest waiting prompt tokens\n"
      "  transfer: serialized  # split pools send KV when the prompt is done\n");
  const bool drafts = self->plan->question->drafts > 0;
  const bool unshared = !self->plan->question->trace && !self->plan->question->mix &&
                        engine->options && strstr(engine->options, "enable_prefix_caching: true");
  if (unshared)
    add(self, "  # These prompts share nothing, so the result is the same without the cache.\n");
  if (unshared || drafts)
    add(self, "  batcher: {%s%s%s}\n", unshared ? "enable_prefix_caching: false" : "",
        unshared && drafts ? ", " : "", drafts ? drafts_of(self->plan, self->arena) : "");
}

/* "rack=4", or "machine" for each by itself. */
static int read_survive(Plan *self, const char *asked, Arena *arena, Diag *diag) {
  const size_t length = asked ? strcspn(asked, "=") : 0;
  if (!asked) return 0;
  self->domain = arena_copy(arena, asked, length);
  self->domain_size = 1;
  char *end = (char *)asked + length;
  if (*end) self->domain_size = strtoll(end + 1, &end, 10);
  const bool sized = asked[length] != '\0' || strcmp(self->domain, "machine") == 0;
  if (length > 0 && sized && !*end && 1 <= self->domain_size && self->domain_size <= 1000000)
    return 0;
  diag_error(diag, place_of_file("--survive"), "'%s' is not a failure domain", asked);
  return diag_hint(diag, "write machine, or a name and its number of machines, such as rack=4");
}

/* "N-1", or "1". */
static int read_spares(Plan *self, const char *asked, Diag *diag) {
  if (!asked) return 0;
  const char *digits = *asked == 'N' || *asked == 'n' ? asked + 1 : asked;
  char *end = NULL;
  const bool signs = (digits == asked) == (*digits != '-');
  self->spares = strtoll(digits, &end, 10);
  if (self->spares < 0) self->spares = -self->spares;
  if (signs && end != digits && !*end && 1 <= self->spares && self->spares <= 1000000) return 0;
  diag_error(diag, place_of_file("--spares"), "'%s' is not a number of spare instances", asked);
  return diag_hint(diag, "write N-1 for limits that hold with one instance of each pool down");
}

/* What a cluster must hold beside the limits. */
static void add_constraints(Text *self) {
  const Question *asked = self->plan->question;
  const int64_t gpus = asked->gpus > 0 ? asked->gpus : asked->max_gpus;
  const char *both = asked->power_budget > 0 && gpus > 0 ? ", " : "";
  if (asked->power_budget > 0 || gpus > 0) {
    add(self, "  constraint: {");
    if (asked->power_budget > 0) add(self, "power: %.12g W", asked->power_budget);
    if (gpus > 0) add(self, "%sgpus: %" PRId64, both, gpus);
    add(self, "}\n");
  }
  if (self->plan->domain) add(self, "  survive: %s\n", quote_yaml(self->plan->domain, self->arena));
  if (self->plan->spares > 0)
    add(self, "  n_plus: %" PRId64 " # instances of each pool that may be down\n",
        self->plan->spares);
  if (asked->headroom > 0)
    add(self, "  headroom: %.12g # share of the load that is held beside it\n", asked->headroom);
}

static void add_domains(Text *self) {
  const Plan *plan = self->plan;
  if (!plan->domain) return;
  add(self,
      "# The limits must hold with any one %s down; machines are dealt out over them in turn.\n"
      "domains: {%s: {size: %" PRId64 ", placement: spread}}\n",
      plan->domain, quote_yaml(plan->domain, self->arena), plan->domain_size);
}

int plan_make(Plan *self, const Question *asked, Arena *arena, Diag *diag) {
  const int status = question_resolve(self, asked, arena, diag);
  const char *limits = plan_slo_limits(asked->slo, &self->quantile, arena, diag);
  if (status || !limits || read_survive(self, asked->survive, arena, diag) ||
      read_spares(self, asked->spares, diag))
    return -1;
  Text text = {self, "", arena};
  add(&text,
      "# A question of 'tandem plan' as a study. 'tandem provision FILE' searches it, 'tandem "
      "run FILE'\n# simulates its answer. 'tandem list options' lists all keys.\n\n");
  add_model(&text);
  add(&text, "engine: %s\n", self->engine);
  if (self->roofline && !asked->perfmodel)
    add(&text, "# These iteration times come from a roofline; none was measured.\n"
               "perfmodel: roofline\n");
  if (asked->perfmodel) add(&text, "perfmodel: %s\n", quote_yaml(asked->perfmodel, arena));
  if (asked->prices) add(&text, "prices: %s\n", node_text(asked->prices, arena));
  if (asked->sold >= 0) add(&text, "sold: %s\n", hardware_sold_names[asked->sold]);
  add_energy(&text);
  add_workload(&text, self->quantile);
  add_policies(&text);
  add_domains(&text);
  if (asked->batch > 0)
    add(&text, "slo: none\n");
  else
    add(&text, "slo: {%s}\n", limits);
  add(&text, "\nprovision:\n  objective: %s\n", self->objective);
  const bool by_carbon = strcmp(self->objective, "carbon") == 0; // of designs by power
  if (asked->gpus == 0 && asked->batch == 0 && !by_carbon) add(&text, "  best: %d\n", PLAN_BEST);
  if (asked->likely_rate > 0) add(&text, "  tolerance: %.1g /s\n", asked->likely_rate / RATE_STEPS);
  add(&text, "  seeds: %" PRId64 "\n", asked->seeds);
  add_constraints(&text);
  add_designs(&text);
  self->text = text.text;
  return 0;
}
