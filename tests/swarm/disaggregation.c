/* Pools of different speeds for one phase, and attention and FFNs on GPUs of their own. From
 * streams of their own. */
#include "perfmodel/attention_ffn.h"
#include "sim/policies.h"
#include "tests/swarm/draw.h"

/* Of half of the clusters whose router can. */
static void draw_by_speed(Cluster *self, const Draw *draw) {
  PolicyChoice *router = &self->config.policies[POLICY_ROUTER];
  const OptionSpec *by_speed = find_option(router->policy, "by_speed");
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "disaggregation");
  if (!by_speed || !router->state || one_in(&own, 2)) return;
  char *state = arena_copy(own.arena, router->state, router->policy->state_size);
  *(bool *)(state + by_speed->offset) = true;
  router->state = state;
}

static double seconds(Draw *self, int64_t nanoseconds) {
  return (double)magnitude(self, 1, nanoseconds) / 1e9 * (double)self->scale;
}

static RooflineTerm draw_term(Draw *self) {
  RooflineTerm term = {.fixed = seconds(self, 1000000)};
  term.slope = seconds(self, 1000);
  term.memory_fixed = seconds(self, 5000000);
  term.memory_slope = seconds(self, 1000);
  term.compute_slope = seconds(self, 50000);
  return term;
}

static void draw_sides(Draw *self, AttentionFfn *ret) {
  *ret = (AttentionFfn){.name = "drawn"};
  ret->layers = (double)between(self, 1, 12);
  ret->micro_batches = (double)between(self, 1, 5);
  ret->attention.linear = draw_term(self);
  ret->ffn.linear = draw_term(self);
  ret->attention.head = draw_term(self);
  ret->attention.decode_attention.memory_slope = seconds(self, 10000);
  ret->attention.prefill_attention.compute_slope = seconds(self, 100);
  if (one_in(self, 2)) {
    ret->attention.windows[0].window = magnitude(self, 1, 5000);
    ret->attention.windows[0].decode_slope = seconds(self, 10000);
  }
  ret->attention.overhead = seconds(self, 1000000);
  ret->send_fixed = seconds(self, 1000000);
  ret->send_slope = seconds(self, 20000);
}

/* The times of a third of the pools of a quarter of the clusters, where they are composed. */
static void draw_attention_ffn(Cluster *self, const Draw *draw) {
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "attention and FFNs apart");
  if (!one_in(&own, 4)) return;
  for (uint32_t p = 0; p < self->config.n_pools; p++) {
    AttentionFfn sides;
    draw_sides(&own, &sides);
    const bool may = self->models[p].form == PERF_COMPOSED && self->pools[p].pipeline_stages <= 1;
    if (!may || !one_in(&own, 3)) continue;
    attention_ffn_compile(&sides, &self->models[p], self->models[p].max_decode_seqs, own.arena);
    self->exact = false; // numbers of seconds are rounded
  }
}

/* Of none that is pinned, which had none. */
void cluster_draw_disaggregation(Cluster *self, const Draw *draw) {
  if (cluster_policies(POLICY_ROUTER) != policy_list(POLICY_ROUTER)) return;
  draw_by_speed(self, draw);
  draw_attention_ffn(self, draw);
}
