/* Mooncake's early rejection (Qin et al., arXiv:2407.00079, §7): a request is rejected as it
 * arrives, before its prefill would be in vain, if the load of the prefill or of the decode
 * instances is above 1. A load is the predicted TTFT, or time between tokens, over its limit.
 * "Based on prediction" the decode load is that of the time when the prefill ends: with the
 * requests whose prefill ends by then, without those that will have decoded for a time `t_d`, which
 * is taken to be the same for all. RULES.md has the rules.
 *
 * Live decodes are counted by when they began, in bins of a part of t_d, so that an arrival costs
 * the same in a small cluster and in a large one. */
#include "sim/feature/early_rejection.h"
#include "sim/core/cluster.h"
#include "sim/core/front.h"
#include "sim/feature/features.h"
#include <assert.h>
#include <math.h>

enum { BINS = 64 }; // that t_d has

typedef enum Stage { STAGE_NONE, STAGE_PREFILL, STAGE_DECODE } Stage;

/* Of a slot. */
typedef struct Placed {
  int64_t bin; // in which it began to decode
  uint8_t stage, model;
} Placed;

/* Requests that a model serves. */
typedef struct Served {
  int64_t n_prefills, n_decodes;
  int64_t bins[BINS]; // decodes that began in the bin of that number modulo BINS, and not earlier
  int64_t last_bin;   // no later one has any
  double prompts, prompt_tokens, ended, output_tokens;
} Served;

typedef struct EarlyRejection {
  Served *served; // [n_deployments]
  Placed *placed; // by slot
  size_t placed_capacity;
  Tick bin; // as long as this
} EarlyRejection;

static EarlyRejection *rejection_of(const Simulation *self) {
  return self->feature_states[FEATURE_early_rejection];
}

static const EarlyRejectionOptions *options_of(const Simulation *self) {
  return &self->config->early_rejection;
}

static bool is_used(const Simulation *self) {
  return options_of(self)->ttft > 0;
}

static void start(Simulation *self) {
  EarlyRejection *state = rejection_of(self);
  const Tick decode = options_of(self)->decode_time;
  *state = (EarlyRejection){.served = ARENA_ARRAY(self->arena, Served, self->n_deployments),
                            .bin = decode / BINS > 0 ? decode / BINS : 1};
}

/* --- who decodes, and since when */

static Placed *placed_at(Simulation *self, RequestIx ix) {
  EarlyRejection *state = rejection_of(self);
  const size_t before = state->placed_capacity;
  ARENA_RESERVE(self->arena, state->placed, state->placed_capacity, (size_t)ix + 1);
  for (size_t i = before; i < state->placed_capacity; i++)
    state->placed[i] = (Placed){0};
  return &state->placed[ix];
}

/* Bins up to `bin` are of the present round. */
static void turn(Served *self, int64_t bin) {
  const int64_t first = bin - self->last_bin > BINS ? bin - BINS : self->last_bin;
  for (int64_t i = first + 1; i <= bin; i++)
    self->bins[i % BINS] = 0;
  if (bin > self->last_bin) self->last_bin = bin;
}

static void leave_stage(Simulation *self, RequestIx ix) {
  Placed *placed = placed_at(self, ix);
  Served *served = &rejection_of(self)->served[placed->model];
  if (placed->stage == STAGE_PREFILL) served->n_prefills--;
  if (placed->stage == STAGE_DECODE) {
    served->n_decodes--;
    if (served->last_bin - placed->bin < BINS) served->bins[placed->bin % BINS]--;
  }
  placed->stage = STAGE_NONE;
}

static void begin_prefill(Simulation *self, RequestIx ix) {
  leave_stage(self, ix);
  const uint8_t model = self->requests.slots[ix].model;
  *placed_at(self, ix) = (Placed){.stage = STAGE_PREFILL, .model = model};
  rejection_of(self)->served[model].n_prefills++;
}

static void begin_decode(Simulation *self, const Instance *instance, RequestIx ix) {
  (void)instance;
  EarlyRejection *state = rejection_of(self);
  leave_stage(self, ix);
  Placed *placed = placed_at(self, ix);
  *placed = (Placed){.stage = STAGE_DECODE,
                     .model = self->requests.slots[ix].model,
                     .bin = self->now / state->bin};
  Served *served = &state->served[placed->model];
  turn(served, placed->bin);
  served->bins[placed->bin % BINS]++;
  served->n_decodes++;
}

static void forget_lost(Simulation *self, RequestIx ix, InstanceIx at, int32_t undelivered) {
  (void)at, (void)undelivered;
  leave_stage(self, ix);
}

static void book_end(Simulation *self, RequestIx ix, const RequestRecord *record) {
  if (record->rejected || record->cancelled) return;
  Served *served = &rejection_of(self)->served[self->requests.slots[ix].model];
  served->ended++;
  served->output_tokens += record->output_tokens;
}

static void book_arrival(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  Served *served = &rejection_of(self)->served[request->model];
  served->prompts++;
  served->prompt_tokens += request->prompt_tokens;
}

/* --- loads */

static double iteration_s(const Instance *instance, int64_t prompt, double n, double context) {
  const PerfModel *perfmodel = instance->pool->perfmodel;
  const double most = (double)perfmodel->max_decode_seqs;
  const int64_t seqs = n < 1 ? 0 : (int64_t)(fmin(n, most) + 0.5);
  const BatchShape batch = {.prefill_tokens = prompt,
                            .prefill_area2 = prompt * prompt,
                            .decode_seqs = seqs,
                            .context_tokens = (int64_t)((double)seqs * context + 0.5),
                            .logit_seqs = seqs + (prompt > 0)};
  return tick_seconds(perfmodel_iteration(perfmodel, &batch, NULL));
}

static double mean_context(const Served *self) {
  const double output = self->ended > 0 ? self->output_tokens / self->ended : 0;
  return fmax(1, self->prompt_tokens / self->prompts + output / 2);
}

/* Of the instance of the list with the least to prefill; infinite without one. */
static double ttft_s(Simulation *self, const Served *served, const RoleList *list,
                     const Request *request) {
  const InstanceIx m = column_least(self->columns.pending_tokens, list);
  if (m == INSTANCE_NONE) return INFINITY;
  const Instance *instance = &self->instances[m];
  const int64_t queue = column_at(self->columns.pending_tokens, m) - instance->n_decodes;
  const double mean = fmax(1, served->prompt_tokens / served->prompts);
  const double context = mean_context(served), n = instance->n_decodes;
  const double each = iteration_s(instance, (int64_t)(mean + 0.5), n, context);
  return (double)queue / mean * each + iteration_s(instance, request->prompt_tokens, n, context);
}

/* Decodes of the model that begin, or began, less than t_d before `then`; among those that began
 * before the bins of a whole t_d none is left. */
static double decodes_at(const EarlyRejection *state, const Served *served, Tick then) {
  const int64_t oldest = then / state->bin - BINS;
  double n = 0;
  for (int64_t bin = served->last_bin; bin > oldest && bin > served->last_bin - BINS && bin >= 0;
       bin--)
    n += (double)served->bins[bin % BINS];
  return n;
}

/* TBT of the mean decode instance. */
static double tbt_s(const Simulation *self, const Served *served, const Deployment *deployment,
                    double ttft) {
  const RoleList *lists = deployment->view.by_role;
  const uint32_t n_instances = lists[ROLE_MIXED].count + lists[ROLE_DECODE].count;
  const RoleList *list = lists[ROLE_DECODE].count > 0 ? &lists[ROLE_DECODE] : &lists[ROLE_MIXED];
  const Instance *instance = &self->instances[list->items[0]];
  double n = (double)served->n_decodes + 1;
  if (options_of(self)->predicts) {
    const Tick then = self->now + (Tick)(ttft * (double)TICKS_PER_SECOND);
    n = decodes_at(rejection_of(self), served, then) + (double)served->n_prefills + 1;
  }
  return iteration_s(instance, 0, fmax(1, n / n_instances), mean_context(served));
}

bool early_rejection_refuses(Simulation *self, RequestIx ix) {
  if (!is_used(self)) return false;
  const Request *request = &self->requests.slots[ix];
  const Deployment *deployment = sim_deployment(self, request);
  if (!front_is_open(deployment)) return false;
  const Served *served = &rejection_of(self)->served[request->model];
  const RoleList *lists = deployment->view.by_role;
  const double ttft = fmin(ttft_s(self, served, &lists[ROLE_PREFILL], request),
                           ttft_s(self, served, &lists[ROLE_MIXED], request));
  return ttft > tick_seconds(options_of(self)->ttft) ||
         tbt_s(self, served, deployment, ttft) > tick_seconds(options_of(self)->tbt);
}

/* Those that are counted are those that are there. */
static void check(const Simulation *self) {
  const EarlyRejection *state = rejection_of(self);
  for (uint32_t d = 0; d < self->n_deployments; d++) {
    const Served *served = &state->served[d];
    int64_t n_prefills = 0, n_decodes = 0, binned = 0;
    for (size_t i = 0; i < self->requests.n_slots && i < state->placed_capacity; i++) {
      const Placed *placed = &state->placed[i];
      assert(placed->stage == STAGE_NONE || self->requests.slots[i].state != REQUEST_FREE);
      n_prefills += placed->stage == STAGE_PREFILL && placed->model == d;
      n_decodes += placed->stage == STAGE_DECODE && placed->model == d;
      binned += placed->stage == STAGE_DECODE && placed->model == d &&
                served->last_bin - placed->bin < BINS;
    }
    for (int i = 0; i < BINS; i++)
      binned -= served->bins[i];
    assert(n_prefills == served->n_prefills && n_decodes == served->n_decodes && binned == 0);
  }
}

const Feature feature_early_rejection = {
    .state_size = sizeof(EarlyRejection),
    .is_used = is_used,
    .start = start,
    .arrived = book_arrival,
    .routed = begin_prefill,
    .first_token = begin_decode,
    .lost = forget_lost,
    .ended = book_end,
    .slot_freed = leave_stage,
    .audits = check,
};
