/* From grids to points. */
#include "calib/plan.h"
#include "base/hash.h"
#include "base/rng.h"
#include "calib/operators.h"
#include <math.h>
#include <string.h>

/* ---- Points ---- */

/* What a plan is being made from. */
typedef struct Making {
  Plan *plan;
  const CalibModel *model;
  const bool *only;
  Arena *arena;
} Making;

static bool same_sequences(const CalibBatch *a, const CalibBatch *b) {
  if (a->n_prefills != b->n_prefills || a->n_decodes != b->n_decodes) return false;
  for (int32_t i = 0; i < a->n_prefills + a->n_decodes; i++)
    if (a->sequences[i].new_tokens != b->sequences[i].new_tokens ||
        a->sequences[i].past_tokens != b->sequences[i].past_tokens)
      return false;
  return true;
}

static bool same_point(const CalibPoint *a, const CalibPoint *b) {
  return a->op == b->op && a->mode == b->mode && a->hot == b->hot && a->busy == b->busy &&
         a->layers == b->layers && a->size == b->size && same_sequences(&a->batch, &b->batch);
}

/* A learned position has a row of its own in a table; other kinds have no end. */
static const char *beyond_positions(const CalibModel *model, const CalibBatch *batch,
                                    Arena *arena) {
  if (model->positions != CALIB_LEARNED) return NULL;
  for (int32_t i = 0; i < batch->n_prefills + batch->n_decodes; i++) {
    const CalibSequence *sequence = &batch->sequences[i];
    if (sequence->new_tokens + (int64_t)sequence->past_tokens > model->max_position_embeddings)
      return arena_printf(arena, "the model has %d positions", (int)model->max_position_embeddings);
  }
  return NULL;
}

static void add_point(const Making *making, const CalibPoint *point, PlanClass class) {
  Plan *plan = making->plan;
  if (making->only && !making->only[point->op]) return;
  if (!calib_has_op(making->model, point->op)) return;
  for (size_t i = 0; i < plan->n; i++) {
    const bool is_sustained = plan->points[i].class == PLAN_SUSTAINED;
    if (is_sustained == (class == PLAN_SUSTAINED) && same_point(&plan->points[i].point, point))
      return;
  }
  ARENA_RESERVE(making->arena, plan->points, plan->capacity, plan->n + 1);
  plan->points[plan->n] = (PlanPoint){
      .point = *point,
      .shape = calib_point_shape(point),
      .class = class,
      .configuration = (int64_t)plan->n + 1,
      .waived = beyond_positions(making->model, &point->batch, making->arena),
  };
  plan->n++;
}

/* ---- Grids ---- */

/* One choice from each list of a row. */
typedef struct Choice {
  int64_t prompts, chunk, past, decodes, context;
} Choice;

static void add_batch(const Making *making, const GridRow *row, const Choice *choice) {
  const int32_t n_prefills = choice->chunk > 0 ? (int32_t)choice->prompts : 0;
  const int32_t n_decodes = (int32_t)choice->decodes;
  CalibSequence *sequences = ARENA_ARRAY(making->arena, CalibSequence, n_prefills + n_decodes);
  for (int32_t i = 0; i < n_prefills; i++)
    sequences[i] = (CalibSequence){(int32_t)choice->chunk, (int32_t)choice->past};
  for (int32_t i = 0; i < n_decodes; i++) {
    const int64_t context = row->light > 0 && i % 2 == 1 ? row->light : choice->context;
    sequences[n_prefills + i] = (CalibSequence){1, (int32_t)context - 1};
  }
  const CalibPoint point = {.op = row->op,
                            .mode = row->mode,
                            .hot = row->hot,
                            .busy = row->busy,
                            .batch = {sequences, n_prefills, n_decodes, n_prefills + n_decodes}};
  add_point(making, &point, row->class);
}

#define EACH(item, list) for (const int64_t *item = (list); *item >= 0; item++)

static void add_batches(const Making *making, const GridRow *row) {
  static const int64_t none[] = {0, -1}, one[] = {1, -1};
  EACH (prompts, row->prompts ? row->prompts : one)
    EACH (chunk, row->chunks ? row->chunks : none)
      EACH (past, row->pasts ? row->pasts : none)
        EACH (decodes, row->decodes ? row->decodes : none)
          EACH (context, row->contexts ? row->contexts : none) {
            const Choice choice = {*prompts, *chunk, *past, *decodes, *context};
            add_batch(making, row, &choice);
          }
}

static void add_row(const Making *making, const GridRow *row) {
  if (calib_op_size(row->op) == CALIB_SIZE_batch) {
    add_batches(making, row);
    return;
  }
  EACH (size, row->sizes) {
    const CalibPoint point = {
        .op = row->op, .mode = row->mode, .hot = row->hot, .busy = row->busy, .size = *size};
    add_point(making, &point, row->class);
  }
}

/* ---- Order and digest ---- */

static uint64_t fold_point(uint64_t hash, const PlanPoint *planned) {
  const CalibPoint *point = &planned->point;
  const uint64_t words[] = {planned->class,
                            point->op,
                            point->mode,
                            point->hot,
                            point->busy,
                            (uint64_t)point->layers,
                            (uint64_t)point->size,
                            (uint64_t)point->batch.n_prefills,
                            (uint64_t)point->batch.n_decodes,
                            (uint64_t)point->batch.n_logits};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    hash = hash_fold(hash, words[i]);
  for (int32_t i = 0; i < point->batch.n_prefills + point->batch.n_decodes; i++) {
    hash = hash_fold(hash, (uint64_t)point->batch.sequences[i].new_tokens);
    hash = hash_fold(hash, (uint64_t)point->batch.sequences[i].past_tokens);
  }
  return hash;
}

static uint64_t digest_of(const Plan *plan, const CalibModel *m) {
  const int32_t shape[] = {m->num_hidden_layers,
                           m->hidden_size,
                           m->num_attention_heads,
                           m->num_key_value_heads,
                           m->head_dim,
                           m->intermediate_size,
                           m->vocab_size,
                           m->max_position_embeddings,
                           (int32_t)m->norm,
                           (int32_t)m->activation,
                           (int32_t)m->positions,
                           m->bias,
                           (int32_t)m->dtype,
                           m->tensor_parallel_size,
                           m->block_size};
  uint64_t hash = hash_bytes(m->name, strlen(m->name));
  const int64_t moe[] = {m->num_experts, m->num_experts_per_tok, m->moe_intermediate_size,
                         (int64_t)m->router};
  for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
    hash = hash_fold(hash, (uint64_t)shape[i]);
  if (m->qk_norm) hash = hash_fold(hash, hash_bytes("qk_norm", strlen("qk_norm")));
  if (m->weights != CALIB_WEIGHTS_PLAIN) hash = hash_fold(hash, (uint64_t)m->weights);
  for (size_t i = 0; m->num_experts > 0 && i < sizeof moe / sizeof *moe; i++)
    hash = hash_fold(hash, (uint64_t)moe[i]);
  for (size_t i = 0; i < plan->n; i++)
    hash = fold_point(hash, &plan->points[i]);
  return hash;
}

/* Sorts by class and shuffles inside each: a point's key is its class and a random number. */
static void order_points(Plan *plan, uint64_t seed) {
  Rng rng;
  rng_init(&rng, seed, "plan");
  size_t begin = 0;
  for (int class = 0; class < PLAN_CLASSES; class ++) {
    size_t end = begin;
    for (size_t i = begin; i < plan->n; i++) {
      if (plan->points[i].class != (PlanClass) class) continue;
      const PlanPoint point = plan->points[i];
      memmove(&plan->points[end + 1], &plan->points[end], (i - end) * sizeof point);
      plan->points[end++] = point;
    }
    for (size_t left = end - begin; left > 1 && class != PLAN_ANCHOR; left--) {
      PlanPoint *a = &plan->points[begin + rng_below(&rng, left)];
      PlanPoint *b = &plan->points[begin + left - 1];
      const PlanPoint point = *a;
      *a = *b;
      *b = point;
    }
    begin = end;
  }
}

void plan_init(Plan *self, const CalibModel *model, const CalibDevice *device,
               const PlanOptions *options, Arena *arena) {
  *self = (Plan){0};
  const Making making = {self, model, options->only, arena};
  const GridRow *row = options->grid;
  if (!row) row = device->sm == 0 ? grid_cpu : grid_gpu;
  for (; row->class != PLAN_CLASSES; row++)
    add_row(&making, row);
  self->digest = digest_of(self, model);
  order_points(self, options->seed);
}

void plan_waive(Plan *self, const Backend *backend, void *state, Arena *arena) {
  for (size_t i = 0; i < self->n; i++) {
    PlanPoint *planned = &self->points[i];
    if (planned->waived) continue;
    const char *why = backend->supports(state, &planned->point);
    if (why) planned->waived = arena_copy(arena, why, strlen(why));
  }
}

void plan_go_on(Plan *self, const Profile *profile, const ProfileGroup *group) {
  for (size_t r = 0; r < profile->n_rows; r++) {
    const ProfileRow *row = &profile->rows[r];
    for (size_t i = 0; profile_in_group(row, group) && i < self->n; i++) {
      if (self->points[i].configuration != row->configuration) continue;
      self->points[i].readings++;
      self->points[i].drifted += strstr(row->stop, PLAN_DRIFT) || strstr(row->stop, PLAN_CLOCK);
    }
  }
}

size_t plan_left(const Plan *self) {
  size_t left = 0;
  for (size_t i = 0; i < self->n; i++)
    left += !self->points[i].waived && self->points[i].readings == 0;
  return left;
}

/* ---- Time ---- */

static const double PREPARING_ON_GPU = 0.063, PREPARING_ON_CPU = 0.02; // s

PlanRates plan_peaks(const Hardware *hardware, CalibWeights weights) {
  Hardware peak = *hardware;
  if (weights != CALIB_WEIGHTS_PLAIN && peak.dense_fp8_flops > 0)
    peak.dense_bf16_flops = peak.dense_fp8_flops;
  peak.flops_efficiency = peak.hbm_efficiency = 1;
  peak.nvlink_efficiency = peak.pcie_efficiency = 1;
  return plan_rates(&peak, NULL);
}

PlanRates plan_rates(const Hardware *hardware, const CalibDevice *device) {
  if (hardware)
    return (PlanRates){hardware_compute_rate(hardware), hardware_memory_rate(hardware),
                       (double)hardware->pcie_bandwidth * hardware->pcie_efficiency,
                       hardware_link_rate(hardware), PREPARING_ON_GPU};
  if (device->sm > 0) return (PlanRates){200e12, 1.5e12, 25e9, 100e9, PREPARING_ON_GPU};
  const double threads = device->n_units > 0 ? device->n_units : 1;
  return (PlanRates){25e9 * threads, 10e9, 10e9, 10e9, PREPARING_ON_CPU};
}

bool plan_crosses_link(CalibOp op) {
  return calib_is_to_host(op) || calib_is_to_gpu(op);
}

static double path_of(const PlanRates *rates, CalibOp op) {
  if (calib_is_to_host(op)) return rates->host_link;
  return calib_is_to_gpu(op) ? rates->gpu_link : rates->memory;
}

double plan_run_seconds(const CalibModel *model, const CalibPoint *point, const PlanRates *rates) {
  const CalibWork work = calib_work(model, point);
  return fmax(work.flops / rates->flops, work.bytes / path_of(rates, point->op));
}

static const double SAMPLE_SECONDS = 0.002; // of one, at least

static double point_seconds(const CalibModel *model, const PlanPoint *planned,
                            const PlanRates *rates, const SampleLimits *limits) {
  const double run = plan_run_seconds(model, &planned->point, rates);
  const double samples = fmax(limits->min_seconds, limits->min_samples * run);
  if (planned->class == PLAN_SUSTAINED) return PLAN_SUSTAINED_SECONDS;
  return rates->preparing + PLAN_PREPARING_RUNS * run +
         fmax(fmin(samples, limits->max_seconds), SAMPLES_LEAST * fmax(run, SAMPLE_SECONDS));
}

/* What a point takes besides its samples is that of 1,294 points on an H100. Anchors come back
 * after each hundred. */
double plan_seconds(const Plan *self, const CalibModel *model, const PlanRates *rates,
                    const SampleLimits *limits) {
  const double readings = 2 + floor((double)plan_left(self) / PLAN_ANCHOR_POINTS);
  double seconds = 0;
  for (size_t i = 0; i < self->n; i++) {
    const PlanPoint *planned = &self->points[i];
    if (planned->waived || (planned->readings > 0 && planned->class != PLAN_ANCHOR)) continue;
    seconds += (planned->class == PLAN_ANCHOR ? readings : 1) *
               point_seconds(model, planned, rates, limits);
  }
  return seconds;
}

SampleLimits plan_limits(const Plan *self, const CalibModel *model, const PlanRates *rates,
                         const SampleLimits *limits, double seconds) {
  enum { STEPS = 16 };
  double low = 0, high = 1; // shares of the limits
  if (plan_seconds(self, model, rates, limits) <= seconds) return *limits;
  for (int i = 0; i < STEPS; i++) {
    const double share = (low + high) / 2;
    const SampleLimits shrunk = sample_limits_shrink(limits, share);
    *(plan_seconds(self, model, rates, &shrunk) <= seconds ? &low : &high) = share;
  }
  return sample_limits_shrink(limits, low);
}
