/* Numbers and times of a cluster, drawn from its seed. Every time goes through `ticks`, which
 * scales it; no other draw depends on the scale. */
#ifndef TESTS_SWARM_DRAW_H
#define TESTS_SWARM_DRAW_H
#include "base/arena.h"
#include "base/rng.h"
#include "base/units.h"
#include "sim/core/expert_balance.h"
#include "tests/swarm/cluster.h"
#include <string.h>

#define MILLISECOND (TICKS_PER_SECOND / 1000)
/* Between two priorities: more than most differences that a batcher asks for. */
enum { PRIORITY_STEP = 1000 };

typedef struct Draw {
  Rng rng;
  Arena *arena;
  uint64_t seed;
  const Rule *rule; // that the cluster is of; NULL: it has all that it may have
  int64_t scale;
  bool coarse; // times are whole milliseconds, so that many are equal
  bool ragged; // those of a model have fractions of ticks
} Draw;

static inline int64_t between(Draw *self, int64_t low, int64_t high) {
  return low + (int64_t)rng_below(&self->rng, (uint64_t)(high - low + 1));
}

static inline bool one_in(Draw *self, int64_t n) {
  return between(self, 1, n) == 1;
}

/* Every order of magnitude from `low` >= 1 to `high` is equally likely. */
static inline int64_t magnitude(Draw *self, int64_t low, int64_t high) {
  const double log_low = portable_log((double)low), log_high = portable_log((double)high);
  const double value = portable_exp(log_low + (log_high - log_low) * rng_uniform(&self->rng));
  return value >= (double)high ? high : value <= (double)low ? low : (int64_t)value;
}

/* A time of at least a microsecond and about `milliseconds` at most. */
static inline Tick ticks(Draw *self, int64_t milliseconds) {
  if (self->coarse) return between(self, 1, milliseconds) * MILLISECOND * self->scale;
  return magnitude(self, MILLISECOND / 1000, milliseconds * MILLISECOND) * self->scale;
}

static inline Tick ticks_or_zero(Draw *self, int64_t milliseconds) {
  return one_in(self, 2) ? 0 : ticks(self, milliseconds);
}

/* The option of a policy; NULL: it has none of that name. */
static inline const OptionSpec *find_option(const Policy *policy, const char *key) {
  for (const OptionSpec *spec = policy->options; spec && spec->key; spec++)
    if (strcmp(spec->key, key) == 0) return spec;
  return NULL;
}

/* Whether an option came later than the streams of the others: drawn in disaggregation.c
 * and flow.c. */
static inline bool option_is_late(const OptionSpec *spec) {
  return strcmp(spec->key, "by_speed") == 0 || strcmp(spec->key, "tbt") == 0;
}

/* What clients allow, and say of EOS tokens. In ends.c. */
void draw_ends(const Draw *self, TraceRow *rows, int n);
/* Which of its pools have groups of layers. In layers.c. */
void cluster_draw_layers(Cluster *self, const Draw *draw);
/* When its schedulers pause. In pauses.c. */
void cluster_draw_pauses(Cluster *self, const Draw *draw);
/* Before faults and scaling, which take all ranks of an instance. */
void cluster_draw_ranks(Cluster *self, const Draw *draw);
/* Decodes that flow between two of its pools, or requests that are cut, after all else; by the rule
 * that it is of. In flow.c. */
void cluster_draw_flow(Cluster *self, const Draw *draw);
/* Links above the NICs, after all that was before. From a stream of its own. In uplinks.c. */
void cluster_draw_uplinks(Cluster *self, const Draw *draw);
/* Which of its pools have a KV connector. In connectors.c. */
void cluster_draw_connectors(Cluster *self, const Draw *draw);
/* Which of them have tiers under their prefix cache. In connectors.c. */
void cluster_draw_tiers(Cluster *self, const Draw *draw);
/* Which of them have CPU memory under their radix tree, after all else. In connectors.c. */
void cluster_draw_hicache(Cluster *self, const Draw *draw);
/* Which images its prompts have, and what its pools encode. In images.c. */
void cluster_draw_images(Cluster *self, const Draw *draw);
/* Whether its routers go by the speed of instances, and which of its pools have attention and FFNs
 * apart. In disaggregation.c. */
void cluster_draw_disaggregation(Cluster *self, const Draw *draw);
/* All that has a stream of its own. In streams.c. */
/* Gives the pool's batcher, which has the option, what the text says, if it may have that there;
 * whether it does. */
bool draw_batcher_option(const Draw *self, const SimConfig *config, PoolSpec *pool,
                         const OptionSpec *option, const char *text);
void cluster_draw_streams(Cluster *self, const Draw *draw);
/* The power of its GPUs. In power.c. */
void cluster_draw_powers(Cluster *self, const Draw *draw);
/* Which of its pools speculate. In speculation.c. */
void cluster_draw_speculation(Cluster *self, const Draw *draw);
/* When what of a cluster breaks. From a stream of its own. In faults.c. */
void cluster_draw_faults(Cluster *self, const Draw *draw);
/* What of it breaks together, after all else. From a stream of its own. In faults.c. */
void cluster_draw_domains(Cluster *self, const Draw *draw);
void cluster_draw_proposals(Cluster *self, const Draw *draw);
/* Stages of a group's copies. From a stream of its own. In streams.c. */
void cluster_draw_pinned(Cluster *self, const Draw *draw);
/* What sending KV layer by layer adds to a layer. Likewise. */
void cluster_draw_layer_sync(Cluster *self, const Draw *draw);
/* Loads of experts of its ranks. In experts.c. */
void cluster_draw_experts(Cluster *self, const Draw *draw);
/* Which of these cut their batches in two. In experts.c. */
void cluster_draw_two_batches(Cluster *self, const Draw *draw);
void cluster_draw_shrinking(Cluster *self, const Draw *draw);
/* Which adapters its requests ask for, after those. From a stream of its own. In adapters.c.
 */
void cluster_draw_adapters(Cluster *self, const Draw *draw);
/* Which models it serves, and whose requests. From a stream of its own. In components.c. */
void cluster_draw_components(Cluster *self, const Draw *draw);
/* What makes requests of components and classes good ones, and which of these have ranges, but not
 * in clusters that are pinned, whose books are. From a stream of its own. In components.c. */
void cluster_draw_limits(Cluster *self, const Draw *draw);
void cluster_draw_early_rejection(Cluster *self, const Draw *draw);
/* How old the loads are that its router goes by. From a stream of its own. In components.c. */
void cluster_draw_reports(Cluster *self, const Draw *draw);
/* All its pools serve both phases; and which of them take turns, from a stream of its own. In
 * sleep.c. */
void cluster_draw_mixed(Cluster *self);
void cluster_draw_sleep(Cluster *self, const Draw *draw);
/* How many machines its pools have, and when. From a stream of its own. In scaling.c. */
void cluster_draw_scaling(Cluster *self, const Draw *draw);
#endif
