/* What an answer rests on and a reader should know: times of another KV cache, how far the same
 * engine on the same GPU was off where it was measured, KV memory that binds. */
#include "base/text.h"
#include "experiments/plan/plan.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* From this share of requests on that wait for room, percentiles are of them. */
static const double WAITS_SHARE = 0.01;

typedef struct Notes {
  const char **items; // [n]
  size_t n, capacity;
  Arena *arena;
} Notes;

static void add(Notes *self, const char *text) {
  ARENA_RESERVE(self->arena, self->items, self->capacity, self->n + 2);
  self->items[self->n++] = text;
  self->items[self->n] = NULL;
}

/* Times whose KV cache has another format than the one whose memory is counted. */
static void note_formats(Notes *self, const Config *config) {
  for (uint32_t i = 0; i < config->sim.n_pools; i++) {
    const PerfModel *times = config->sim.pools[i].perfmodel;
    const int counted = config->models[config->sim.pools[i].model].kv_cache_dtype;
    const bool repeats = i > 0 && times == config->sim.pools[i - 1].perfmodel;
    if (!times->measured || !times->says_kv_cache || repeats ||
        times->setup.kv_cache_dtype == counted)
      continue;
    add(self, arena_printf(
                  self->arena,
                  "iteration times of '%s' assume a KV cache in %s, but memory was counted for %s",
                  config->sim.pools[i].name, dtype_names[times->setup.kv_cache_dtype],
                  dtype_names[counted]));
  }
}

/* Times of another release than the one whose scheduler and defaults are simulated: what they are
 * of is the folder in their name. */
static void note_versions(Notes *self, const Config *config) {
  const char *last = "";
  for (uint32_t i = 0; i < config->sim.n_pools; i++) {
    const char *name = config->sim.pools[i].perfmodel->name;
    const ServingEngine *engine = serving_at(config->pools[i].engine.row);
    const size_t folder = name ? strcspn(name, "/") : 0, length = engine ? strlen(engine->name) : 0;
    PerfSetup setup = {0};
    if (!engine || !name || !name[folder]) continue;
    const char *times = arena_copy(self->arena, name, folder);
    const bool same =
        strncmp(times, engine->name, length) == 0 && !isdigit((unsigned char)times[length]);
    if (same || strcmp(last, times) == 0 || !setup_parse_folder(&setup, times, self->arena))
      continue;
    add(self,
        arena_printf(self->arena, "versions are mixed: iteration times of %s, scheduler of %s",
                     times, engine->name));
    last = times;
  }
}

/* Where the acceptance is from that nobody gave. */
static void note_acceptance(Notes *self, const Plan *plan) {
  const PublishedAcceptance *acceptance = &plan->acceptance;
  const double middle = acceptance_middle(acceptance), error = acceptance_error(acceptance);
  if (!plan->has_acceptance) return;
  add(self, arena_printf(self->arena, "%s%.2f tokens a step with %" PRId64 " draft%s,",
                         acceptance->own ? "" : "the acceptance was not measured: ", middle,
                         plan->question->drafts, plan->question->drafts > 1 ? "s" : ""));
  add(self, arena_printf(self->arena,
                         "%s measured on coding prompts (%.2f to %.2f); the error of the times "
                         "includes %.1f%% for it",
                         acceptance->own ? "as" : "the middle of what other models were",
                         acceptance->low, acceptance->high, 100 * error));
}

/* A drafter of its own is on the GPUs, too. */
static void note_drafter(Notes *self, const Config *config) {
  const PolicyChoice batcher = sim_pool_policy(&config->sim, &config->sim.pools[0], POLICY_BATCHER);
  const Speculation *speculation = config_speculation(&batcher);
  if (speculation && speculation->lookahead > 0 && !speculation->mtp)
    add(self, "the weights and the KV of the drafter are not counted in memory");
}

/* What tiers under the prefix cache were assumed, and what was left out for them. */
static void note_offload(Notes *self, const Plan *plan) {
  char cpu[32], ssd[32];
  if (plan->offload_cpu == 0) return;
  units_format(cpu, sizeof cpu, DIM_BYTES, (double)plan->offload_cpu);
  units_format(ssd, sizeof ssd, DIM_BYTES, (double)plan->offload_ssd);
  add(self, arena_printf(
                self->arena, "KV of prompts is kept in %s of CPU memory%s%s%s per GPU", cpu,
                plan->offload_ssd > 0 ? ", then in " : "", plan->offload_ssd > 0 ? ssd : "",
                plan->offload_ssd > 0 ? " on an NVMe drive that reads 6.9 GB/s and writes 4.1 GB/s,"
                                      : ""));
  if (plan->question->split == SPLIT_BOTH || plan->offload_drops)
    add(self, "designs that cannot offload were left out: split pools, attention ranks, pipelines");
}

bool plan_lacks_machine_power(const Config *config) {
  for (uint32_t i = 0; i < config->sim.n_pools; i++)
    if (config->sim.pools[i].perfmodel->power && config->sim.pools[i].prefill_power == 0)
      return true;
  return false;
}

/* What is known of the times of each GPU against measured engines. */
static void note_residual(Notes *self, const Config *config) {
  const PerfModel *last = NULL;
  for (uint32_t i = 0; i < config->sim.n_pools; i++) {
    const PerfModel *times = config->sim.pools[i].perfmodel;
    const bool repeats = last && strcmp(times->setup.gpu, last->setup.gpu) == 0;
    if (times->residual.rows == 0 || repeats) continue;
    add(self, arena_printf(self->arena, "on two thirds of %s,",
                           residual_rows_text(&times->residual, self->arena)));
    add(self, residual_text(&times->residual, self->arena));
    last = times;
  }
}

/* Tokens that KV memory has room for; with groups of layers, of sequences as long as the model
 * allows, as vLLM counts them. */
static int64_t kv_tokens(const Config *config, const PoolSpec *pool) {
  const int64_t context = llm_context(&config->models[pool->model]);
  if (!pool->layout || context == 0) return pool->kv_blocks * pool->block_size;
  const double each = (double)kv_layout_blocks(pool->layout, context);
  return (int64_t)((double)pool->kv_blocks / each * (double)context);
}

/* "an instance of 'serve' has KV memory for 25 requests of 2,500 tokens"; for a trace, tokens. */
static const char *room_of(const Config *config, const Question *asked, Arena *arena) {
  const PoolSpec *pool = &config->sim.pools[config->sim.n_pools - 1];
  const int64_t each = asked->isl + asked->osl;
  char room[32], size[32];
  if (asked->isl == 0)
    return arena_printf(arena, "an instance of '%s' has KV memory for %s tokens", pool->name,
                        format_count((double)kv_tokens(config, pool), room));
  return arena_printf(arena, "an instance of '%s' has KV memory for %s requests of %s tokens",
                      pool->name, format_count((double)pool_kv_seqs(pool, each), room),
                      format_count((double)each, size));
}

/* "12% of the requests wait for room and 0.5% are evicted"; NULL: neither. */
static const char *pressure_of(const KvPressure *kv, Arena *arena) {
  const char *waits =
      kv->waits >= WAITS_SHARE
          ? arena_printf(arena, "%.0f%% of the requests wait for room", 100 * kv->waits)
          : NULL;
  if (!(kv->recomputes > 0)) return waits;
  return arena_printf(arena, "%s%s%.2g%%%s are evicted", waits ? waits : "", waits ? " and " : "",
                      100 * kv->recomputes, waits ? "" : " of the requests");
}

static void note_memory(Notes *self, const Answer *answer, const Config *config,
                        const Question *asked) {
  const char *now = pressure_of(&answer->kv, self->arena);
  const char *later = pressure_of(&answer->moved_kv[MOVES - 1], self->arena);
  if (!now && !later) return;
  if (now) add(self, arena_printf(self->arena, "KV memory is full at times: %s", now));
  if (later)
    add(self, arena_printf(self->arena, "%sif times are %.1f%% longer, %s",
                           now ? "" : "KV memory is almost full: ",
                           100 * answer->run.perfmodel_error, later));
  add(self, room_of(config, asked, self->arena));
}

/* What the cluster survives, and what that takes. */
static void note_survival(Notes *self, const Config *config, const char *domain) {
  const DomainLevel *level = domain ? config_find_level(config, domain) : NULL;
  if (!level) return;
  uint32_t n = 0, most = 0;
  const uint32_t *worst = config_worst_domains(config, level, &n, self->arena);
  for (uint32_t i = 0; i < n; i++) {
    const Domain *one = &level->domains[worst[i]];
    uint32_t lost = 0;
    for (uint32_t k = 0; k < one->n_parts; k++)
      lost += one->parts[k].n_instances;
    if (lost > most) most = lost;
  }
  uint32_t all = 0;
  for (uint32_t p = 0; p < config->sim.n_pools; p++)
    all += config->sim.pools[p].count;
  add(self,
      arena_printf(self->arena,
                   "the limits hold with any one of %u %s domain%s down during the whole run,",
                   level->n, domain, level->n > 1 ? "s" : ""));
  add(self,
      arena_printf(self->arena, "of which the worst takes %u of %u instances or ranks; %u run%s",
                   most, all, n, n > 1 ? "s show it" : " shows it"));
}

static void note_spares(Notes *self, const Plan *plan, const Answer *answer) {
  const bool split = answer->fleet.n[ROLE_DECODE] > 0;
  if (plan->spares == 0) return;
  add(self, arena_printf(self->arena,
                         "the limits hold with %" PRId64 " instance%s%s down during the whole run",
                         plan->spares, plan->spares > 1 ? "s" : "", split ? " of each pool" : ""));
}

const char *const *plan_notes(const PlanAnswer *self, Arena *arena) {
  Notes notes = {.arena = arena};
  ARENA_RESERVE(arena, notes.items, notes.capacity, 1);
  notes.items[0] = NULL;
  if (self->best < 0) return notes.items;
  note_formats(&notes, self->config);
  note_acceptance(&notes, self->plan);
  note_survival(&notes, self->config, self->plan->domain);
  note_spares(&notes, self->plan, &self->outcomes[self->best].answers[0]);
  note_drafter(&notes, self->config);
  note_offload(&notes, self->plan);
  note_versions(&notes, self->config);
  note_residual(&notes, self->config);
  if (plan_lacks_machine_power(self->config))
    add(&notes,
        "energy is that of the GPUs alone: what the rest of the machine draws is not known");
  note_memory(&notes, &self->outcomes[self->best].answers[0], self->config, self->plan->question);
  return notes.items;
}
