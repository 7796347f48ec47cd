/* The knobs of a configuration: rows of option tables that have values to try. */
#include "base/text.h"
#include "experiments/tune/tune.h"
#include "sim/batcher/batcher.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Finder {
  Tuning *tuning;
  const Config *config;
  Knobs *knobs;
  Arena *arena;
} Finder;

static void leave_out(Finder *self, const char *why) {
  ARENA_RESERVE(self->arena, self->knobs->left_out, self->knobs->capacity,
                self->knobs->n_left_out + 1);
  self->knobs->left_out[self->knobs->n_left_out++] = why;
}

/* ---- Values ---- */

/* What a bound option has; of limits of so many attention ranks together, that of one. */
static const char *current_text(const OptionSpec *spec, const void *state, int64_t ranks,
                                Arena *arena) {
  const char *text = option_text(spec, state, arena);
  return ranks > 1 ? arena_printf(arena, "%lld", atoll(text) / (long long)ranks) : text;
}

static bool is_number(const OptionSpec *spec) {
  return spec->type == OPTION_INT || spec->type == OPTION_REAL;
}

static bool is_in_range(const OptionSpec *spec, const char *text) {
  if (!is_number(spec) || (spec->min == 0 && spec->max == 0)) return true;
  const double value = strtod(text, NULL);
  return value >= spec->min && value <= spec->max;
}

static bool same_value(const Knob *knob, const char *a, const char *b) {
  return strcmp(a, b) == 0 || (knob->ordered && strtod(a, NULL) == strtod(b, NULL));
}

/* Where it stands among the values, which are in order; it is put there if it is not one of them,
 * and there is room. */
static int place_value(Knob *self, const char *text) {
  int at = 0;
  while (at < self->n_values && !same_value(self, self->values[at].text, text) &&
         !(self->ordered && strtod(self->values[at].text, NULL) > strtod(text, NULL)))
    at++;
  if (at < self->n_values && same_value(self, self->values[at].text, text)) return at;
  memmove(&self->values[at + 1], &self->values[at],
          (size_t)(self->n_values - at) * sizeof *self->values);
  self->values[at] = (KnobValue){.text = text};
  self->n_values++;
  return at;
}

/* The values of a row, with the current one. */
static void add_values(Finder *self, Knob *knob, const OptionSpec *spec, const char *current) {
  for (const char *at = spec->tries; *at;) {
    const size_t length = strcspn(at, " ");
    const char *text = arena_copy(self->arena, at, length);
    if (knob->n_values < TUNE_VALUES_MAX - 1 && is_in_range(spec, text)) place_value(knob, text);
    at += length + strspn(at + length, " ");
  }
  knob->current = place_value(knob, current);
}

static const Setting *one_setting(const char *key, const char *text, Arena *arena) {
  Setting *setting = ARENA_NEW(arena, Setting);
  *setting = setting_text(key, place_of_file("--knobs"), text, arena);
  return setting;
}

/* Of one key: what each of its values sets. */
static void fill_settings(Finder *self, Knob *knob) {
  for (int v = 0; v < knob->n_values; v++) {
    KnobValue *value = &knob->values[v];
    if (v == knob->current) continue;
    value->settings = one_setting(knob->key, value->text, self->arena);
    value->n_settings = 1;
  }
}

/* ---- Batchers and pools ---- */

static Knob *add_knob(Finder *self, const char *name, const char *key, bool ordered) {
  if (self->knobs->n == TUNE_KNOBS_MAX) return NULL;
  Knob *knob = &self->knobs->items[self->knobs->n++];
  *knob = (Knob){.name = name, .key = key, .ordered = ordered};
  return knob;
}

/* A row of a table that is bound in `state`. */
static void add_row(Finder *self, const char *prefix, const char *name_prefix,
                    const OptionSpec *spec, const void *state, int64_t ranks) {
  const char *name = arena_printf(self->arena, "%s%s", name_prefix, spec->key);
  const char *key = arena_printf(self->arena, "%s.%s", prefix, spec->key);
  const ServingEngine *engine = serving_at(self->config->engine.row);
  if (engine && !plan_engine_has(engine->name, spec->key)) {
    leave_out(self, arena_printf(self->arena, "%s: %s has no such option", name, engine->name));
    return;
  }
  const char *current = current_text(spec, state, ranks, self->arena);
  Knob *knob = current ? add_knob(self, name, key, is_number(spec)) : NULL;
  if (!knob) return;
  add_values(self, knob, spec, current);
  fill_settings(self, knob);
}

/* A batcher, that of the run or of one pool: its rows with values; the others are named. */
static void add_batcher(Finder *self, const PoolConfig *pool, const char *prefix,
                        const char *name_prefix) {
  const PolicyChoice batcher = sim_pool_policy(&self->config->sim, &pool->spec, POLICY_BATCHER);
  const char *others = "";
  for (const OptionSpec *spec = batcher.policy->options; spec && spec->key; spec++) {
    const bool limit =
        strcmp(spec->key, "max_num_batched_tokens") == 0 || strcmp(spec->key, "max_num_seqs") == 0;
    const int64_t ranks = limit && pool->spec.attention_ranks > 0 ? pool->spec.attention_ranks : 1;
    if (spec->tries)
      add_row(self, prefix, name_prefix, spec, batcher.state, ranks);
    else
      others = arena_printf(self->arena, "%s%s%s", others, *others ? ", " : "", spec->key);
  }
  if (*others)
    leave_out(self, arena_printf(self->arena, "%s of batcher %s: no values to try", others,
                                 batcher.policy->name));
}

/* Keys of pools. */
static void add_pool_rows(Finder *self, const PoolConfig *pool, bool alone) {
  const char *name = pool->spec.name;
  const char *prefix = arena_printf(self->arena, "pools.%s", name);
  for (const OptionSpec *spec = config_pool_options; spec->key; spec++)
    if (spec->tries)
      add_row(self, prefix, alone ? "" : arena_printf(self->arena, "%s.", name), spec, pool, 1);
}

static void add_batchers(Finder *self) {
  const Config *config = self->config;
  bool of_run = false;
  for (uint32_t i = 0; i < config->sim.n_pools; i++) {
    const PoolConfig *pool = &config->pools[i];
    const char *name = pool->spec.name;
    if (pool->batcher)
      add_batcher(self, pool, arena_printf(self->arena, "pools.%s.batcher", name),
                  config->sim.n_pools > 1 ? arena_printf(self->arena, "%s.", name) : "");
    else if (!of_run)
      add_batcher(self, pool, "policies.batcher", "");
    of_run |= !pool->batcher;
  }
  for (uint32_t i = 0; i < config->sim.n_pools; i++)
    add_pool_rows(self, &config->pools[i], config->sim.n_pools == 1);
}

/* ---- The router ---- */

/* Whether a request may go to one of several instances. */
static bool has_choice(const Config *config) {
  int64_t of_role[ROLES] = {0}, most = 0;
  for (uint32_t i = 0; i < config->sim.n_pools; i++) {
    const PoolConfig *pool = &config->pools[i];
    of_role[pool->spec.role] += pool->count * pool->data_parallel_size;
  }
  for (int i = 0; i < ROLES; i++)
    most = of_role[i] > most ? of_role[i] : most;
  return most > 1;
}

static void add_router(Finder *self) {
  const OptionSpec *spec = &config_policy_options[POLICY_ROUTER];
  if (!has_choice(self->config)) {
    leave_out(self, "router: there is one instance for each request to go to");
    return;
  }
  Knob *knob = add_knob(self, "router", "policies.router", false);
  if (!knob) return;
  add_values(self, knob, spec, sim_policy(&self->config->sim, POLICY_ROUTER).policy->name);
  fill_settings(self, knob);
}

/* ---- Prefill and decode ---- */

/* Why the GPUs cannot be divided in another way; NULL: they can. */
static const char *why_not_divided(const Config *config) {
  const PoolConfig *pools = config->pools;
  const SimConfig *sim = &config->sim;
  if (sim->n_pools == 1) return "split: prefill and decode are in one pool";
  if (sim->n_pools != 2) return "split: there are more than two pools";
  const Role a = pools[0].spec.role, b = pools[1].spec.role;
  if (!((a == ROLE_PREFILL && b == ROLE_DECODE) || (a == ROLE_DECODE && b == ROLE_PREFILL)))
    return "split: the pools are not of prefill and of decode";
  if (sim->n_groups > 0) return "split: the pools are the same GPUs";
  if (strcmp(pools[0].machine, pools[1].machine) != 0)
    return "split: prefill and decode have different machines";
  if (pools[0].scaling || pools[1].scaling) return "split: the pools are scaled";
  return NULL;
}

/* So many instances of prefill and of decode. */
static KnobValue division(const Finder *self, const PoolConfig *prefill, const PoolConfig *decode,
                          int64_t of_prefill, int64_t of_decode) {
  Arena *arena = self->arena;
  const PoolConfig *const pools[] = {prefill, decode};
  const int64_t counts[] = {of_prefill, of_decode};
  Setting *settings = ARENA_ARRAY(arena, Setting, 2);
  for (int i = 0; i < 2; i++)
    settings[i] =
        setting_text(arena_printf(arena, "pools.%s.count", pools[i]->spec.name),
                     place_of_file("--knobs"), arena_printf(arena, "%" PRId64, counts[i]), arena);
  return (KnobValue){.text = arena_printf(arena, "%" PRId64 "+%" PRId64, of_prefill, of_decode),
                     .settings = settings,
                     .n_settings = 2};
}

static void add_division(Finder *self) {
  const char *why_not = why_not_divided(self->config);
  const PoolConfig *pools = self->config->pools;
  if (why_not) {
    leave_out(self, why_not);
    return;
  }
  const bool first = pools[0].spec.role == ROLE_PREFILL;
  const PoolConfig *prefill = &pools[first ? 0 : 1], *decode = &pools[first ? 1 : 0];
  const int64_t each_prefill = parallelism_gpus(config_degrees(prefill)),
                each_decode = parallelism_gpus(config_degrees(decode)),
                gpus = prefill->count * each_prefill + decode->count * each_decode;
  const int64_t most = (gpus - each_decode) / each_prefill;
  const int64_t every = most / (TUNE_VALUES_MAX - 2) + 1; // of many only some, and the current one
  Knob knob = {.name = "split", .ordered = true};
  for (int64_t p = 1; p <= most; p++) {
    const int64_t left = gpus - p * each_prefill;
    const bool current = p == prefill->count;
    if (left % each_decode != 0 || (!current && p % every != 0)) continue;
    if (current) knob.current = knob.n_values;
    knob.values[knob.n_values++] = division(self, prefill, decode, p, left / each_decode);
  }
  if (knob.n_values < 2) {
    leave_out(self, "split: these GPUs cannot be divided in another way");
    return;
  }
  knob.values[knob.current].n_settings = 0;
  Knob *added = add_knob(self, knob.name, NULL, true);
  if (added) *added = knob;
}

/* ---- All of them ---- */

ConfigChanges tune_changes(const Tuning *self, const TunePoint *point, Arena *arena) {
  Setting *settings = ARENA_ARRAY(arena, Setting, 2 * TUNE_KNOBS_MAX + TUNE_SETTINGS_MORE);
  int n = 0;
  for (int k = 0; k < self->knobs.n; k++) {
    const KnobValue *value = &self->knobs.items[k].values[point->at[k]];
    for (int i = 0; i < value->n_settings; i++)
      settings[n++] = value->settings[i];
  }
  return (ConfigChanges){.seed = -1, .tie_seed = -1, .settings = settings, .n_settings = n};
}

/* Marks the values of which the configuration would be wrong, with the reason. */
static void try_values(Finder *self, int k) {
  Tuning *tuning = self->tuning;
  Knob *knob = &self->knobs->items[k];
  for (int v = 0; v < knob->n_values; v++) {
    if (v == knob->current) continue;
    TunePoint point = tuning->current;
    point.at[k] = (int8_t)v;
    Trial trial;
    trial_init(&trial);
    const ConfigChanges changes = tune_changes(tuning, &point, &trial.arena);
    if (trial_load(&trial, &tuning->base, &changes) && trial.diag.n_entries > 0) {
      const char *reason = trial.diag.entries[0].message;
      knob->values[v].why_not = arena_copy(self->arena, reason, strlen(reason));
      leave_out(self, arena_printf(self->arena, "%s %s: %s", knob->name, knob->values[v].text,
                                   knob->values[v].why_not));
    }
    trial_done(&trial);
  }
}

/* Whether a list "a,b" has a name; each of the names that are there is marked in `used`. */
static bool is_listed(const char *list, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) return true;
  return false;
}

static int check_list(Finder *self, const char *only, Diag *diag) {
  const Knobs *knobs = self->knobs;
  const char **names = ARENA_ARRAY(&diag->arena, const char *, knobs->n + 1);
  for (int k = 0; k < knobs->n; k++)
    names[k] = knobs->items[k].name;
  for (const char *at = only; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    const char *name = arena_copy(self->arena, at, strcspn(at, ","));
    if (text_is_one(name, names)) continue;
    diag_error(diag, place_of_file("--knobs"), "this configuration has no knob '%s'", name);
    return diag_hint_choices(diag, name, names, "tandem tune CONFIG --dry-run");
  }
  return 0;
}

static void keep_listed(Finder *self, const char *only) {
  Knobs *knobs = self->knobs;
  const char *others = "";
  int n = 0;
  for (int k = 0; k < knobs->n; k++) {
    if (is_listed(only, knobs->items[k].name))
      knobs->items[n++] = knobs->items[k];
    else
      others =
          arena_printf(self->arena, "%s%s%s", others, *others ? ", " : "", knobs->items[k].name);
  }
  knobs->n = n;
  if (*others) leave_out(self, arena_printf(self->arena, "%s: not in --knobs", others));
}

/* Without those that have no other value. */
static void drop_idle(Finder *self) {
  Knobs *knobs = self->knobs;
  int n = 0;
  for (int k = 0; k < knobs->n; k++) {
    int n_tried = 0;
    for (int v = 0; v < knobs->items[k].n_values; v++)
      n_tried += v != knobs->items[k].current && !knobs->items[k].values[v].why_not;
    if (n_tried > 0) knobs->items[n++] = knobs->items[k];
  }
  knobs->n = n;
}

static void set_current(Tuning *self) {
  self->current = (TunePoint){{0}};
  for (int k = 0; k < self->knobs.n; k++)
    self->current.at[k] = (int8_t)self->knobs.items[k].current;
}

int knobs_find(Tuning *self, const char *only) {
  Finder finder = {
      .tuning = self, .config = &self->config, .knobs = &self->knobs, .arena = self->arena};
  self->knobs = (Knobs){.items = ARENA_ARRAY(self->arena, Knob, TUNE_KNOBS_MAX)};
  add_batchers(&finder);
  add_router(&finder);
  add_division(&finder);
  if (only && check_list(&finder, only, self->diag)) return -1;
  if (only) keep_listed(&finder, only);
  set_current(self);
  for (int k = 0; k < self->knobs.n; k++)
    try_values(&finder, k);
  drop_idle(&finder);
  set_current(self);
  leave_out(&finder,
            "gpu_memory_utilization: more is better up to what the engine needs beside it, "
            "which is not modelled");
  leave_out(&finder, "parallel degrees and numbers of GPUs: 'tandem plan' searches those");
  if (self->knobs.n > 0) return 0;
  return diag_error(self->diag, place_of_file(self->base.path),
                    "the configuration has no knob with another value to try");
}
