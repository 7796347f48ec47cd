/* See watts.h. */
#include "perfmodel/compose/watts.h"
#include "base/rng.h"
#include "perfmodel/compose/kernel_write.h"
#include "perfmodel/compose/nearest.h"
#include <math.h>
#include <string.h>

enum {
  TOKENS_OCTAVES = 16, // of products: 32,768 tokens are the most that were measured
  AREA_OCTAVES = 29,   // of 2A of one prompt of 16,384 tokens
  CONTEXT_OCTAVES = 24,
  CONTEXT = 1024, // of a decode, where there are so many tokens
};

typedef struct Watts {
  Layers *layers;
  KernelFound products[DTYPE_COUNT], experts, prefill, decode, all_reduce;
  double small; // of kernels that no table has
} Watts;

static double log2_of(double x) {
  static const double LOG_2 = 0.69314718055994530942;
  return x > 1 ? portable_log(x) / LOG_2 : 0;
}

/* Of the folders of the GPU the first that has the rows. */
static bool read_first(const Layers *layers, KernelFound *found, const KernelQuery *query) {
  const char *const *beside =
      kernel_folders_beside(layers->folder, NULL, query->name, layers->arena);
  for (; *beside; beside++)
    if (nearest_read_beside(layers, found, query, *beside)) return true;
  *found = (KernelFound){.path = NULL};
  return false;
}

static void read_products(Watts *self) {
  for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
    const char *name = kernel_dtype_name(dtype);
    const KernelQuery query = {.name = "gemm_watts",
                               .filters = {{"gemm_dtype", {name}}},
                               .keys = {"log2_weights", "log2_m"}};
    if (name) read_first(self->layers, &self->products[dtype], &query);
  }
}

/* Whether there are any. */
static bool read_all(Watts *self) {
  const Layers *layers = self->layers;
  const char *experts = kernel_dtype_name(layers->llm.expert_dtype);
  const bool narrow = layers->setup.kv_cache_dtype == DTYPE_FP8;
  const char *kv = narrow ? "fp8" : "bfloat16";
  const KernelQuery prefill = {.name = "context_attention_watts",
                               .filters = {{"attn_dtype", {kv, "bfloat16"}}},
                               .keys = {"log2_work"}};
  const KernelQuery decode = {.name = "generation_attention_watts",
                              .filters = {{"kv_cache_dtype", {kv, "bfloat16"}}},
                              .keys = {"log2_bytes"}};
  const KernelQuery reduce = {.name = "custom_allreduce_watts", .keys = {"log2_size"}};
  const KernelQuery moe = {.name = "moe_watts",
                           .filters = {{"moe_dtype", {experts ? experts : "nvfp4", "nvfp4"}}},
                           .keys = {"log2_weights", "log2_tokens"}};
  read_products(self);
  read_first(layers, &self->experts, &moe);
  read_first(layers, &self->all_reduce, &reduce);
  if (!read_first(layers, &self->prefill, &prefill) ||
      !read_first(layers, &self->decode, &decode) || !self->products[DTYPE_BF16].path)
    return false;
  self->small = self->decode.table.points[0].us;
  for (size_t i = 1; i < self->decode.table.n_points; i++)
    self->small = fmin(self->small, self->decode.table.points[i].us);
  return true;
}

/* At the logarithms, inside what was measured. */
static double watts_at(const Watts *self, const KernelFound *found, double first, double second) {
  double keys[KERNEL_KEYS] = {first, second};
  if (!found->path) return self->small;
  const KernelSlice all = kernel_table_all(&found->table);
  const double least = (double)all.points[0].key[0], most = (double)kernel_slice_last(all);
  keys[0] = fmin(fmax(keys[0], least), most);
  return fmin(kernel_slice_eval(all, keys), self->layers->hardware.gpu_tdp);
}

/* ---- Of a kernel ---- */

typedef double (*WattsOf)(const Watts *self, const KernelFound *found, const int64_t *key);

static double of_prompts(const Watts *self, const KernelFound *found, const int64_t *key) {
  (void)found;
  const Layers *layers = self->layers;
  const Llm *llm = &layers->llm;
  const bool latent = llm_latent(llm);
  const double isl = (double)key[latent ? 1 : 2], past = latent ? 0 : (double)key[1];
  const double d = (double)(latent ? llm->qk_nope_head_dim + llm->qk_rope_head_dim : llm->head_dim);
  return watts_at(
      self, &self->prefill,
      log2_of((double)key[0] * isl * (isl + 2 * past) * d * (double)layers_heads(layers)), 0);
}

static double of_decodes(const Watts *self, const KernelFound *found, const int64_t *key) {
  (void)found;
  const Layers *layers = self->layers;
  const Llm *llm = &layers->llm;
  const double context = (double)layers_context_of(layers, key[1]);
  const double kept = llm_latent(llm) ? (double)(llm->kv_lora_rank + llm->qk_rope_head_dim)
                                      : 2 * (double)(layers_kv_heads(layers) * llm->head_dim);
  return watts_at(
      self, &self->decode,
      log2_of((double)key[0] * context * kept * dtype_bytes((Dtype)layers->setup.kv_cache_dtype)),
      0);
}

static double of_experts(const Watts *self, const KernelFound *found, const int64_t *key) {
  (void)found;
  const Llm *llm = &self->layers->llm;
  const double weights = 3 * (double)(llm->num_experts * llm->hidden_size) *
                         (double)llm->moe_intermediate_size /
                         (double)layers_expert_gpus(self->layers);
  return watts_at(self, &self->experts, log2_of(weights), log2_of((double)key[0]));
}

static double of_message(const Watts *self, const KernelFound *found, const int64_t *key) {
  (void)found;
  return watts_at(self, &self->all_reduce, log2_of((double)key[0]), 0);
}

/* ---- Energy in the place of time ---- */

/* So that what no table has, which stays, is of `small`. */
static void weigh(const Watts *self, KernelPoint *point, double watts) {
  point->us *= watts / self->small;
}

static void weigh_products(const Watts *self, int dtype) {
  LayerProducts *products = &self->layers->products[dtype];
  const KernelFound *own = &self->products[dtype];
  const KernelFound *of = own->path ? own : &self->products[DTYPE_BF16];
  for (int s = 0; s < products->n; s++)
    for (size_t i = 0; i < products->found[s].table.n_points; i++) {
      KernelPoint *point = &products->found[s].table.points[i];
      const double weights = log2_of((double)point->key[0] * (double)point->key[1]);
      weigh(self, point, watts_at(self, of, weights, log2_of((double)point->key[2])));
    }
}

static void weigh_all(const Watts *self) {
  Layers *layers = self->layers;
  const struct {
    KernelFound *found;
    WattsOf of;
  } kernels[] = {{&layers->prefill, of_prompts},        {&layers->decode, of_decodes},
                 {&layers->window_prefill, of_prompts}, {&layers->window_decode, of_decodes},
                 {&layers->experts, of_experts},        {&layers->split, of_experts},
                 {&layers->whole, of_experts},          {&layers->all_reduce, of_message},
                 {&layers->nccl, of_message},           {&layers->gather, of_message},
                 {&layers->scatter, of_message}};
  for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
    weigh_products(self, dtype);
  for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
    for (size_t i = 0; i < kernels[k].found->table.n_points; i++) {
      KernelPoint *point = &kernels[k].found->table.points[i];
      weigh(self, point, kernels[k].of(self, kernels[k].found, point->key));
    }
}

/* ---- Curves ---- */

/* Microseconds of a term at 2^octave, of the tables as they are. */
typedef double (*TermOf)(const Layers *layers, int octave);

static double linear_us(const Layers *layers, int octave) {
  return layers_linear_us(layers, INT64_C(1) << octave);
}

static double head_us(const Layers *layers, int octave) {
  return layers_head_us(layers, INT64_C(1) << octave);
}

static double prefill_us(const Layers *layers, int octave) {
  const int64_t isl = (int64_t)sqrt((double)(INT64_C(1) << octave));
  return layers_prefill_us(layers, 1, isl, 0);
}

static double decode_us(const Layers *layers, int octave) {
  const int64_t tokens = INT64_C(1) << octave, batch = tokens > CONTEXT ? tokens / CONTEXT : 1;
  return layers_decode_us(layers, batch, tokens / batch);
}

static const struct {
  TermOf us;
  int octaves;
} terms[] = {{linear_us, TOKENS_OCTAVES},
             {head_us, TOKENS_OCTAVES},
             {prefill_us, AREA_OCTAVES},
             {decode_us, CONTEXT_OCTAVES}};

enum { TERMS = sizeof terms / sizeof *terms };

static void sum_terms(const Layers *layers, double us[TERMS][POWER_OCTAVES]) {
  for (int t = 0; t < TERMS; t++)
    for (int i = 0; i < POWER_OCTAVES; i++)
      us[t][i] = terms[t].us(layers, i < terms[t].octaves ? i : terms[t].octaves - 1);
}

const PowerModel *watts_compose(Layers *layers, const PerfModel *model, Arena *arena) {
  Watts *self = ARENA_NEW(layers->arena, Watts);
  double times[TERMS][POWER_OCTAVES], energies[TERMS][POWER_OCTAVES];
  self->layers = layers;
  if (layers->hardware.gpu_tdp == 0 || !read_all(self)) return NULL;
  const double limit = layers->hardware.gpu_tdp;
  PowerModel *power = ARENA_NEW(arena, PowerModel);
  power_by_batch(power, model, limit, self->small);
  sum_terms(layers, times);
  weigh_all(self);
  sum_terms(layers, energies);
  PowerTerm *const of[TERMS] = {&power->linear, &power->head, &power->prefill, &power->decode};
  for (int t = 0; t < TERMS; t++)
    for (int i = 0; i < POWER_OCTAVES; i++)
      if (times[t][i] > 0)
        of[t]->watts.at[i] = fmin(self->small * energies[t][i] / times[t][i], limit);
  power->measured = true;
  power->error = WATTS_ERROR;
  power->text = "of kernels whose watts were measured (NVML), by their times";
  power_limit(power, limit);
  return power;
}
