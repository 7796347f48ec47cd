/* See other_gpu.h. */
#include "perfmodel/compose/other_gpu.h"
#include "perfmodel/compose/nearest.h"
#include "perfmodel/datafile.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Which GPU ---- */

enum { SM_ADA = 89, SM_AMD = 900 }; // compute capabilities; gfx numbers of AMD begin at 900

static int64_t architecture(const Hardware *self) {
  return self->sm == SM_ADA ? self->sm : self->sm / 10;
}

static bool same_vendor(const Hardware *a, const Hardware *b) {
  return a->sm > 0 && b->sm > 0 && a->sm < SM_AMD && b->sm < SM_AMD;
}

static double ratio_distance(double a, double b) {
  return fabs(log(a / b));
}

static double distance(const Hardware *asked, const Hardware *there) {
  static const double OTHER_ARCHITECTURE = 100; // more than any ratio of peaks
  const double sm = (double)llabs(there->sm - asked->sm);
  const double apart = architecture(asked) == architecture(there) ? 0 : OTHER_ARCHITECTURE * sm;
  return apart + ratio_distance(asked->dense_bf16_flops, there->dense_bf16_flops) +
         ratio_distance((double)asked->hbm_bandwidth, (double)there->hbm_bandwidth);
}

static bool is_among(const char *const *names, const char *name) {
  while (*names && strcmp(*names, name) != 0)
    names++;
  return *names;
}

bool other_gpu_find(Hardware *ret_hardware, const Hardware *asked, const char *const *gpus,
                    const char *data_dir, Arena *arena) {
  double least = INFINITY;
  Diag unknown;
  diag_init(&unknown);
  for (const char *const *name = datafile_names(data_dir, "machines", arena); *name; name++) {
    Hardware there;
    if (hardware_load(&there, *name, data_dir, place_of_file(NULL), arena, &unknown) ||
        !is_among(gpus, there.gpu) || !same_vendor(asked, &there) ||
        distance(asked, &there) >= least)
      continue;
    least = distance(asked, &there);
    *ret_hardware = there;
  }
  diag_done(&unknown);
  return least < INFINITY;
}

double other_gpu_error(const Hardware *asked, const Hardware *measured) {
  static const double SIMILAR = 0.07, OTHER = 0.30, FACTOR = 1.5; // of peaks
  const double flops = ratio_distance(asked->dense_bf16_flops, measured->dense_bf16_flops);
  const double memory =
      ratio_distance((double)asked->hbm_bandwidth, (double)measured->hbm_bandwidth);
  const bool similar = fmax(flops, memory) <= log(FACTOR);
  return similar && architecture(asked) == architecture(measured) ? SIMILAR : OTHER;
}

/* ---- What a kernel does ---- */

typedef struct Work {
  double flops, bytes;
  Dtype format; // of the products
} Work;

typedef Work (*WorkOf)(const Layers *layers, const KernelFound *found, const int64_t *key);

static double seconds(const Work *work, const Hardware *hardware) {
  return fmax(work->flops / hardware_product_rate(hardware, work->format),
              work->bytes / hardware_memory_rate(hardware));
}

static Work of_product(Dtype format, double m, double n, double k) {
  const double activation = dtype_bytes(dtype_compute(format)), sum = dtype_bytes(DTYPE_BF16);
  return (Work){2 * m * n * k, n * k * dtype_bytes(format) + m * k * activation + m * n * sum,
                format};
}

static Dtype narrow(const char *text) {
  return text && strcmp(text, "fp8") == 0 ? DTYPE_FP8 : DTYPE_BF16;
}

/* `batch` times `queries` new tokens, `pairs` of queries and keys and `keys` in all. */
static Work of_heads(const Layers *layers, const KernelFound *found, double batch, double queries,
                     double pairs, double keys) {
  const Dtype cache = narrow(found->texts[0]), format = narrow(found->texts[1]);
  const double d = (double)layers->llm.head_dim, heads = (double)layers_heads(layers);
  const double kv = 2 * (double)layers_kv_heads(layers) * keys * dtype_bytes(cache);
  const double moved = 2 * heads * queries * dtype_bytes(DTYPE_BF16);
  return (Work){4 * batch * heads * d * pairs, batch * d * (kv + moved), format};
}

/* Attention with latent keys: products of factors where they were timed with it. */
static Work of_latent(const Layers *layers, double tokens, double flops_a_head, double bytes) {
  const Llm *llm = &layers->llm;
  const Dtype format = layers->modules ? llm->attention_dtype : DTYPE_BF16;
  const double heads = (double)layers_heads(layers), h = (double)llm->hidden_size;
  const double nope = (double)llm->qk_nope_head_dim, rope = (double)llm->qk_rope_head_dim;
  const double rank = (double)llm->kv_lora_rank, v = (double)llm->v_head_dim;
  const double from = llm->q_lora_rank > 0 ? (double)llm->q_lora_rank : h;
  double weights = h * (rank + rope) + heads * (from * (nope + rope) + rank * (nope + v) + v * h);
  if (llm->q_lora_rank > 0) weights += h * from;
  if (!layers->modules) weights = 0;
  return (Work){2 * tokens * weights + heads * flops_a_head, weights * dtype_bytes(format) + bytes,
                format};
}

static Work of_prompts(const Layers *layers, const KernelFound *found, const int64_t *key) {
  const Llm *llm = &layers->llm;
  const double batch = (double)key[0], two = dtype_bytes(DTYPE_BF16);
  if (llm_latent(llm)) {
    const double isl = (double)key[1], tokens = batch * isl;
    const double d = (double)(llm->qk_nope_head_dim + llm->qk_rope_head_dim + llm->v_head_dim);
    return of_latent(layers, tokens, tokens * isl * d,
                     tokens * d * (double)layers_heads(layers) * two);
  }
  const double past = (double)key[1], isl = (double)key[2];
  double pairs = isl * (past + isl / 2), keys = past + isl;
  if (found == &layers->window_prefill) {
    const double window = (double)llm_sliding_attention(llm).window;
    pairs = fmin(pairs, isl * window);
    keys = fmin(keys, isl + window);
  }
  return of_heads(layers, found, batch, isl, pairs, keys);
}

static Work of_decodes(const Layers *layers, const KernelFound *found, const int64_t *key) {
  const Llm *llm = &layers->llm;
  const double batch = (double)key[0];
  double context = (double)layers_context_of(layers, key[1]);
  if (llm_latent(llm)) {
    const double rank = (double)llm->kv_lora_rank, cached = rank + (double)llm->qk_rope_head_dim;
    return of_latent(layers, batch, 2 * batch * context * (cached + rank),
                     batch * context * cached * dtype_bytes(narrow(found->texts[0])));
  }
  if (found == &layers->window_decode)
    context = fmin(context, (double)llm_sliding_attention(llm).window);
  return of_heads(layers, found, batch, 1, context, context);
}

/* The products with the keys' factor, one for each head. */
static Work of_factor(const Layers *layers, const KernelFound *found, const int64_t *key) {
  const double heads = (double)layers_heads(layers), rank = (double)layers->llm.kv_lora_rank;
  const double width = found == &layers->expand ? (double)layers->llm.v_head_dim
                                                : (double)layers->llm.qk_nope_head_dim;
  Work work = of_product(DTYPE_BF16, (double)key[0], rank, width);
  work.flops *= heads;
  work.bytes *= heads;
  return work;
}

/* Of `key` tokens each goes to topk of the experts at random: how many are read. */
static Work of_experts(const Layers *layers, const KernelFound *found, const int64_t *key) {
  const Llm *llm = &layers->llm;
  const double tokens = (double)key[0], experts = (double)llm->num_experts;
  const double topk = (double)llm->num_experts_per_tok, h = (double)llm->hidden_size;
  const double ep = (double)layers->setup.expert_parallel_size;
  const double shares = found == &layers->whole ? 1 : (double)layers_expert_shares(layers);
  const double read = fmax(1, experts / ep * (1 - pow(1 - topk / experts, tokens)));
  const double weights = 3 * h * (double)llm->moe_intermediate_size / shares;
  const bool wide = found->texts[0] && strncmp(found->texts[0], "w4a16", 5) == 0;
  return (Work){2 * tokens * topk / ep * weights,
                read * weights * dtype_bytes(llm->expert_dtype) +
                    2 * tokens * h * dtype_bytes(DTYPE_BF16),
                wide ? DTYPE_BF16 : llm->expert_dtype};
}

enum { ALL_OF_IT = 1 << 30 }; // work that no time is shorter than: all of a time is scaled

/* Linear attention, and decodes of sparse attention. */
static Work of_memory(const Layers *layers, const KernelFound *found, const int64_t *key) {
  (void)layers, (void)found, (void)key;
  return (Work){0, 1e9 * ALL_OF_IT, DTYPE_BF16};
}

/* Prompts of sparse attention, whose modules have its products. */
static Work of_compute(const Layers *layers, const KernelFound *found, const int64_t *key) {
  (void)found, (void)key;
  return (Work){1e12 * ALL_OF_IT, 0, layers->llm.attention_dtype};
}

/* ---- Scaling ---- */

/* From one GPU to another. */
typedef struct Scaling {
  Layers *layers;
  const Hardware *from, *to;
} Scaling;

static void scale_point(const Scaling *self, KernelPoint *point, const Work *work) {
  const double before = 1e6 * seconds(work, self->from), after = 1e6 * seconds(work, self->to);
  const double bound = fmin(point->us, before);
  point->us += bound * (after / before - 1);
}

static void scale_work(const Scaling *self, KernelFound *found, WorkOf work_of) {
  for (size_t i = 0; i < found->table.n_points; i++) {
    KernelPoint *point = &found->table.points[i];
    const Work work = work_of(self->layers, found, point->key);
    scale_point(self, point, &work);
  }
}

static void scale_products(const Scaling *self, LayerProducts *products, Dtype format) {
  for (int s = 0; s < products->n; s++)
    for (size_t i = 0; i < products->found[s].table.n_points; i++) {
      KernelPoint *point = &products->found[s].table.points[i];
      const int64_t *key = point->key;
      const Work work = of_product(format, (double)key[2], (double)key[0], (double)key[1]);
      scale_point(self, point, &work);
    }
}

static void scale_collective(const Scaling *self, KernelFound *found) {
  const double ratio = hardware_link_rate(self->from) / hardware_link_rate(self->to);
  KernelTable *table = &found->table;
  double least = INFINITY;
  for (size_t i = 0; i < table->n_points; i++)
    least = fmin(least, table->points[i].us);
  for (size_t i = 0; i < table->n_points; i++)
    table->points[i].us = least + (table->points[i].us - least) * ratio;
}

void other_gpu_scale(Layers *layers, const Hardware *measured) {
  nearest_note(layers, NULL, "times by the ratio of peaks", measured->gpu,
               other_gpu_error(&layers->hardware, measured));
  const Scaling self = {layers, measured, &layers->hardware};
  const bool sparse = layers->llm.index_topk > 0;
  const WorkOf prompts = sparse ? of_compute : of_prompts,
               decodes = sparse ? of_memory : of_decodes;
  const struct {
    KernelFound *found;
    WorkOf of;
  } kernels[] = {{&layers->prefill, prompts},
                 {&layers->decode, decodes},
                 {&layers->shared_prefill, prompts},
                 {&layers->shared_decode, decodes},
                 {&layers->streams[0], of_memory},
                 {&layers->streams[1], of_memory},
                 {&layers->linear_prefill.convolution, of_memory},
                 {&layers->linear_prefill.scan, of_memory},
                 {&layers->linear_decode.convolution, of_memory},
                 {&layers->linear_decode.scan, of_memory},
                 {&layers->window_prefill, of_prompts},
                 {&layers->window_decode, of_decodes},
                 {&layers->absorb, of_factor},
                 {&layers->expand, of_factor},
                 {&layers->experts, of_experts},
                 {&layers->split, of_experts},
                 {&layers->whole, of_experts}};
  KernelFound *collectives[] = {&layers->all_reduce, &layers->nccl,    &layers->gather,
                                &layers->scatter,    &layers->prepare, &layers->dispatch,
                                &layers->combine};
  for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
    scale_products(&self, &layers->products[dtype], (Dtype)dtype);
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
    scale_work(&self, kernels[i].found, kernels[i].of);
  for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
    scale_collective(&self, collectives[i]);
}
