/* `pools.NAME.pauses`: when the schedulers of a pool pause, as their engines are told to while
 * weights are updated. */
#include "experiments/config/config.h"
#include "sim/batcher/batcher.h"
#include <stdlib.h>

typedef struct PauseKeys {
  Tick at, length;
  int mode;
  bool reset_prefix_cache;
} PauseKeys;

static const char *const mode_choices[] = {"new", "all", NULL};

#define PAUSE(name, field, type_, ...)                                                             \
  OPTION_AT(PauseKeys, name, field, OPTION_##type_, __VA_ARGS__)

const OptionSpec config_pause_options[] = {
    PAUSE("at", at, TICKS, .required = true, .min = 1e-6, .max = 9e6,
          .help = "Time at which the pause begins. Schedulers hear of it between two steps."),
    PAUSE("for", length, TICKS, .required = true, .min = 1e-6, .max = 9e6,
          .help = "Duration of the pause."),
    PAUSE("mode", mode, CHOICE, .fallback = "all", .choices = mode_choices,
          .help = "Requests that wait: prompts that have not begun (new), or all of them (all)."),
    PAUSE("reset_prefix_cache", reset_prefix_cache, BOOL, .fallback = "false",
          .help = "Empty the prefix cache as the pause begins. With mode: all the KV of running "
                  "requests is dropped too; with mode: new nothing is emptied while any request "
                  "holds KV."),
    {0}};

typedef struct Pauses {
  PauseSpec *specs;
  size_t n, capacity;
  Arena *arena;
  Diag *diag;
} Pauses;

static void add(Pauses *self, PauseSpec spec) {
  ARENA_RESERVE(self->arena, self->specs, self->capacity, self->n + 1);
  self->specs[self->n++] = spec;
}

static int bind_pause(Pauses *self, uint32_t pool, const Node *node, Tick *last) {
  PauseKeys keys = {0};
  if (option_bind(config_pause_options, node, NULL, node->at, &keys, self->diag)) return -1;
  if (keys.at <= *last)
    return diag_error(self->diag, config_place(node, "at"),
                      "a pause must begin after the one before it has ended");
  *last = keys.at + keys.length;
  add(self, (PauseSpec){.at = keys.at,
                        .pool = pool,
                        .mode = keys.mode == 1 ? PAUSE_ALL : PAUSE_NEW,
                        .reset = keys.reset_prefix_cache});
  add(self, (PauseSpec){.at = *last, .pool = pool});
  return 0;
}

static int bind_pool(Pauses *self, const Config *config, uint32_t pool) {
  const Node *node = config->pools[pool].pauses;
  const Policy *batcher =
      sim_pool_policy(&config->sim, &config->pools[pool].spec, POLICY_BATCHER).policy;
  int status = 0;
  Tick last = 0;
  if (!((const Batcher *)batcher)->pauses)
    return diag_error(self->diag, node->key_at,
                      "batcher '%s' of pool '%s' cannot pause: only 'vllm' can", batcher->name,
                      config->pools[pool].spec.name);
  if (node->kind != NODE_LIST || node->n_children == 0)
    return diag_error(self->diag, node->at,
                      "'pauses' must be a list, such as [{at: 60 s, for: 5 s}]");
  for (const Node *child = node->first; child; child = child->next)
    status |= bind_pause(self, pool, child, &last);
  return status;
}

static int by_time(const void *a, const void *b) {
  const PauseSpec *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  return x->pool < y->pool ? -1 : x->pool > y->pool;
}

int config_bind_pauses(Config *self, Arena *arena, Diag *diag) {
  Pauses pauses = {.arena = arena, .diag = diag};
  int status = 0;
  for (uint32_t i = 0; i < self->sim.n_pools; i++)
    if (self->pools[i].pauses) status |= bind_pool(&pauses, self, i);
  if (pauses.n > 0) qsort(pauses.specs, pauses.n, sizeof *pauses.specs, by_time);
  self->sim.pauses = pauses.specs;
  self->sim.n_pauses = (uint32_t)pauses.n;
  return status;
}
