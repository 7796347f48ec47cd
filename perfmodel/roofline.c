/* Rooflines: facts to terms. */
#include "perfmodel/roofline.h"
#include "base/rng.h"
#include <assert.h>
#include <math.h>

/* One GPU's share of a mean layer, and the rates it runs at. `products` are as many parameters as
 * would take as long in bf16: those in formats of twice its rate count half. */
typedef struct Shard {
  double gpus, groups, layers;   // of tensor parallelism, of attention; of a stage
  double hidden, q, kv, o, mlp;  // elements per token: hidden state, queries, keys and values, what
                                 // attention gives, MLP
  double mlp_in;                 // matrices that lead into the MLP: gate and up, or up alone
  double dense_mlp;              // of `mlp`, that of dense layers
  double dense, moe;             // share of the layers
  double weight_bytes, products; // read; parameters, by their rates
  double states;                 // numbers of a sequence's states of linear attention
  double bytes;                  // of an element
  double flops, memory, network,
      exchange;          // per second; of links: within tensor groups, between them
  double latency;        // of an all-reduce
  double attends, feeds; // 1: it has attention, MLPs and experts; 0: others have
} Shard;

/* `parameters` of a part in a GPU's share of a mean layer, added up. */
static void add_product(Shard *s, const Llm *llm, const Hardware *hardware, LlmPart part,
                        double parameters) {
  const double rate = hardware_product_rate(hardware, llm_part_dtype(llm, part));
  s->weight_bytes += llm_part_bytes(llm, part) * parameters;
  s->products += parameters * (s->flops / rate);
}

/* A token updates the state of linear attention, corrects it and reads it. */
static const double STATE_PRODUCTS = 3;

/* Attention of the layers that are like `a`, a share of all of them. */
static void add_attention(Shard *s, const Llm *llm, const Hardware *hardware, const LlmAttention *a,
                          int64_t tp) {
  const double share = (double)a->layers / (double)llm->num_hidden_layers;
  if (a->layers == 0) return;
  s->q += share * ((double)(a->query_heads * a->qk_dim) / (double)tp);
  s->kv += share * llm_kv_elements(llm, a, tp);
  s->o += share * ((double)(a->query_heads * a->v_dim) / (double)tp);
  add_product(s, llm, hardware, LLM_QKV, share * llm_qkv_parameters(llm, a, tp));
  add_product(s, llm, hardware, LLM_OUT, share * llm_out_parameters(llm, a, tp));
}

static double index_share(const Llm *llm) {
  return llm->index_topk > 0 ? (double)llm->num_index_layers / (double)llm->num_hidden_layers : 0;
}

/* Linear attention, as queries, keys and values of attention and what it gives. */
static void add_linear(Shard *s, const Llm *llm, const Hardware *hardware, int64_t tp) {
  const double share = (double)llm->num_linear_layers / (double)llm->num_hidden_layers;
  s->q += share * llm_linear_channels(llm, tp);
  s->o += share * llm_linear_values(llm, tp);
  add_product(s, llm, hardware, LLM_QKV, share * llm_linear_in_parameters(llm, tp));
  add_product(s, llm, hardware, LLM_OUT, share * llm_linear_out_parameters(llm, tp));
  s->states = share * llm_linear_state(llm) / (double)tp;
  s->products += STATE_PRODUCTS * s->states;
}

static void add_all_attention(Shard *s, const Llm *llm, const Hardware *hardware, int64_t tp) {
  const LlmAttention full = llm_full_attention(llm), sliding = llm_sliding_attention(llm);
  add_attention(s, llm, hardware, &full, tp);
  if (llm->kv_share == 0) add_attention(s, llm, hardware, &sliding, tp);
  if (llm->num_linear_layers > 0) add_linear(s, llm, hardware, tp);
  if (llm->index_topk > 0) // each GPU has it whole
    add_product(s, llm, hardware, LLM_QKV, index_share(llm) * llm_index_parameters(llm));
}

/* MLPs of dense layers and shared experts. */
static void add_mlp(Shard *s, const Llm *llm, const Hardware *hardware) {
  const double dense = (double)llm->intermediate_size / s->gpus;
  const double shared = (double)llm->shared_expert_intermediate_size / s->gpus;
  const double matrices = s->mlp_in + 1;
  s->dense_mlp = s->dense * dense;
  s->mlp = s->dense * dense + s->moe * shared;
  add_product(s, llm, hardware, LLM_MLP, s->dense * (matrices * dense * s->hidden));
  if (s->moe == 0) return;
  add_product(s, llm, hardware, LLM_SHARED_EXPERTS, s->moe * (matrices * shared * s->hidden));
}

/* The rows that choose among the others. */
static void add_router(Shard *s, const Llm *llm) {
  if (s->moe == 0) return;
  const double rows = s->moe * (double)llm->num_experts * s->hidden;
  s->weight_bytes += s->bytes * rows;
  s->products += rows;
}

static Shard shard_of(const Llm *llm, const Hardware *hardware, Parallelism degrees,
                      RooflineSide side) {
  const int64_t tp = degrees.tensor, pp = degrees.pipeline;
  const double all = (double)llm->num_hidden_layers, groups = (double)degree_of(degrees.attention);
  Shard s = {
      .gpus = (double)tp,
      .groups = groups,
      .layers = (double)((llm->num_hidden_layers + pp - 1) / pp),
      .hidden = (double)llm->hidden_size,
      .mlp_in = llm->gated_mlp ? 2 : 1,
      .dense = (double)llm_dense_layers(llm) / all,
      .moe = (double)llm_moe_layers(llm) / all,
      .bytes = (double)llm->dtype_bytes,
      .flops = hardware_compute_rate(hardware),
      .memory = hardware_memory_rate(hardware),
      .network = hardware_ring_rate(hardware, parallelism_nodes_of(degrees, tp)),
      .exchange = hardware_exchange_rate(
          hardware, parallelism_nodes_of(degrees, tp * degree_of(degrees.attention))),
      .latency = tp * groups > 1 ? tick_seconds(hardware->all_reduce_latency) : 0,
      .attends = side != ROOFLINE_FFN,
      .feeds = side != ROOFLINE_ATTENTION,
  };
  if (side != ROOFLINE_FFN) add_all_attention(&s, llm, hardware, tp);
  if (side != ROOFLINE_ATTENTION) add_mlp(&s, llm, hardware);
  if (side != ROOFLINE_FFN) add_router(&s, llm);
  return s;
}

/* Elements that cross a GPU's link, each way, to gather one element on all of `gpus` by a ring; an
 * all-reduce crosses it twice. */
static double ring_share(double gpus) {
  return (gpus - 1) / gpus;
}

/* Elements per token of all groups that go to other groups' experts and back. */
static double exchanged(const Shard *s, const Llm *llm) {
  const double reached = (double)llm->num_experts_per_tok / s->groups; // copies of a group's tokens
  return 2 * s->hidden * ring_share(s->groups) * fmin(1, reached);
}

/* Two all-reduces a layer, of a token's hidden state; between groups an exchange stands for that
 * of experts. */
static RooflineLink linear_link(const Shard *s) {
  const double reduces = s->feeds == 0     ? 1
                         : s->attends == 0 ? s->dense + (s->mlp > s->dense_mlp ? s->moe : 0)
                         : s->groups > 1   ? 1 + s->dense
                                           : 2;
  const double exchanges = s->groups > 1 && s->feeds > 0 ? 2 * s->moe : 0;
  const double reduced = 2 * reduces * ring_share(s->gpus) * s->hidden / s->groups;
  return (RooflineLink){s->layers * (reduces + exchanges) * s->latency,
                        s->layers * s->bytes * reduced / s->network};
}

/* The engine's own time for each layer is inside it: norms, attention and products have it. */
static RooflineTerm linear_term(const Shard *s, const RooflineLink *link, Tick engine_per_layer) {
  const double product_io = s->attends * s->hidden + (s->q + s->kv)     // qkv
                            + s->o + s->attends * s->hidden             // o
                            + s->feeds * s->hidden + s->mlp_in * s->mlp // up, and gate
                            + s->mlp + s->feeds * s->hidden;            // down
  const double other_io = s->attends * (2 * 4 * s->hidden) // residual add and norm, twice
                          + 2 * (s->q + s->kv)             // rotation, append to the KV
                          + (s->mlp_in + 1) * s->mlp       // activation function
                          + (s->q + s->kv + s->o);         // attention: q, k, v, o
  return (RooflineTerm){
      .fixed = link->fixed + s->layers * tick_seconds(engine_per_layer),
      .slope = s->layers * s->bytes * (other_io / s->groups) / s->memory + link->slope,
      .memory_fixed = s->layers * s->weight_bytes / s->memory,
      .memory_slope = s->layers * s->bytes * (product_io / s->groups) / s->memory,
      .compute_slope = s->layers * 2 * (s->products / s->groups) / s->flops,
  };
}

static RooflineLink head_link(const Shard *s, const Llm *llm) {
  const double vocabulary = (double)llm->vocab_size;
  return (RooflineLink){s->latency,
                        s->bytes * ring_share(s->gpus) * (vocabulary / s->groups) / s->network};
}

static RooflineTerm head_term(const Shard *s, const Llm *llm, const RooflineLink *link) {
  const double rows = (double)llm->vocab_size / s->gpus;
  return (RooflineTerm){
      .fixed = link->fixed,
      .slope = link->slope + s->layers * 2 * LLM_STATE_BYTES * (s->states / s->groups) / s->memory,
      .memory_fixed = s->bytes * s->hidden * rows / s->memory,
      .memory_slope = s->bytes * ((s->hidden + rows) / s->groups) / s->memory,
      .compute_slope = 2 * s->hidden * (rows / s->groups) / s->flops,
  };
}

/* ---- Attention ---- */

/* Seconds per unit of 2A, and per context token of decodes: to read it, to compute. */
typedef struct AttentionSlopes {
  double prefill, memory, compute;
} AttentionSlopes;

static AttentionSlopes attention_slopes(const Shard *s, const Llm *llm, const LlmAttention *a,
                                        int64_t tp) {
  const double kept = llm->kv_share > 0 && a->window == 0 ? llm->kv_share : 1;
  const double layers = s->layers * (kept * (double)a->layers / (double)llm->num_hidden_layers);
  const double heads = (double)a->query_heads / (double)tp;
  const double width = (double)(a->qk_dim + a->v_dim);
  const double absorbed = (double)(2 * llm->kv_lora_rank + llm->qk_rope_head_dim);
  const double read = llm_kv_elements(llm, a, tp) * llm_kv_element_bytes(llm);
  return (AttentionSlopes){.prefill = layers * (heads * width) / s->groups / s->flops,
                           .memory = layers * read / s->groups / s->memory,
                           .compute = layers * 2 * (heads * (llm_latent(llm) ? absorbed : width)) /
                                      s->groups / s->flops};
}

/* The index of sparse attention, in the format of its keys. */
static AttentionSlopes index_slopes(const Shard *s, const Llm *llm, const Hardware *hardware) {
  const double layers = s->layers * index_share(llm);
  const double keys = llm_index_share(llm) * (double)(llm->index_n_heads * llm->index_head_dim);
  const double rate = hardware_product_rate(hardware, DTYPE_FP8);
  return (AttentionSlopes){.prefill = layers * keys / s->groups / rate,
                           .memory = layers * llm_index_kv_bytes(llm) / s->groups / s->memory,
                           .compute = layers * 2 * keys / s->groups / rate};
}

static RooflineWindow window_of(const AttentionSlopes *slopes, int64_t window) {
  return (RooflineWindow){window, fmax(slopes->memory, slopes->compute), slopes->prefill};
}

static void attention_init(Roofline *self, const Shard *s, const Llm *llm, const Hardware *hardware,
                           int64_t tp) {
  const LlmAttention full = llm_full_attention(llm), sliding = llm_sliding_attention(llm);
  AttentionSlopes every = attention_slopes(s, llm, &full, tp);
  if (sliding.layers > 0) {
    const AttentionSlopes slopes = attention_slopes(s, llm, &sliding, tp);
    self->windows[0] = window_of(&slopes, sliding.window);
  }
  if (llm->index_topk > 0) {
    self->windows[1] = window_of(&every, llround((double)llm->index_topk / llm_index_share(llm)));
    every = index_slopes(s, llm, hardware);
  }
  self->prefill_attention = (RooflineTerm){.compute_slope = every.prefill};
  self->decode_attention =
      (RooflineTerm){.memory_slope = every.memory, .compute_slope = every.compute};
}

/* ---- Experts ---- */

#define IMBALANCE_PER_DOUBLING 0.18 // roofline.h

static double imbalance(double ranks) {
  return 1 + IMBALANCE_PER_DOUBLING * portable_log(ranks) / portable_log(2);
}

static RooflineExperts experts_of(const Shard *s, const Llm *llm, const Hardware *hardware,
                                  double ranks) {
  if (llm->num_experts == 0) return (RooflineExperts){0};
  const double layers = s->layers * s->moe, sliced = s->gpus * s->groups / ranks;
  const double width = (double)llm->moe_intermediate_size / sliced, matrices = s->mlp_in + 1;
  const double all = (double)llm->num_experts, picked = (double)llm->num_experts_per_tok;
  const double each = matrices * width * s->hidden; // parameters of an expert's slice
  const double io = s->hidden + matrices * width + s->hidden;
  const double rate = hardware_product_rate(hardware, llm_part_dtype(llm, LLM_EXPERTS));
  const double crossed = s->groups > 1 ? exchanged(s, llm) : 0;
  return (RooflineExperts){
      .held = all / ranks,
      .exchange_slope = layers * s->bytes * crossed / s->exchange,
      .missed = 1 - picked / all,
      .memory_each = layers * llm_part_bytes(llm, LLM_EXPERTS) * each / s->memory,
      .memory_slope = layers * s->bytes * io * (picked / ranks) / s->memory,
      .compute_slope = layers * 2 * each * (picked / ranks) * imbalance(ranks) / rate,
      .busiest = imbalance(ranks),
  };
}

/* ---- All of it ---- */

static const char *degrees_name(Parallelism degrees, Arena *arena) {
  const char *groups =
      degrees.attention > 1 ? arena_printf(arena, "_dp%lld", (long long)degrees.attention) : "";
  const char *experts =
      degrees.expert > 1 ? arena_printf(arena, "_ep%lld", (long long)degrees.expert) : "";
  return arena_printf(arena, "tp%lld%s%s", (long long)degrees.tensor, groups, experts);
}

double roofline_send(const Llm *llm, const Hardware *hardware, Parallelism degrees) {
  return (double)llm->dtype_bytes * (double)llm->hidden_size /
         hardware_stage_rate(hardware, degrees);
}

void roofline_init_side(Roofline *self, const Llm *llm, const Hardware *hardware,
                        Parallelism degrees, const EnginePreset *preset, RooflineSide side,
                        Arena *arena) {
  if (side == ROOFLINE_FFN)
    degrees = (Parallelism){.tensor = degrees.ffn,
                            .pipeline = 1,
                            .data = 1,
                            .expert = llm->num_experts > 0 ? degrees.ffn : 1,
                            .nodes = (degrees.ffn + hardware->num_gpus - 1) / hardware->num_gpus};
  assert(degrees.tensor >= 1 && degrees.pipeline >= 1 &&
         degrees.pipeline <= llm->num_hidden_layers);
  const Shard shard = shard_of(llm, hardware, degrees, side), *s = &shard;
  const RooflineLink linear = linear_link(s), head = head_link(s, llm);
  const Tick per_layer = preset->per_layer + preset->kernels_per_layer;
  *self = (Roofline){
      .name = arena_printf(arena, "%s_%s_%s_roofline-%s", llm->name, hardware->gpu,
                           degrees_name(degrees, arena), preset->name),
      .linear = linear_term(s, &linear, side == ROOFLINE_WHOLE ? per_layer : per_layer / 2),
      .head = head_term(s, llm, &head),
      .experts = side == ROOFLINE_ATTENTION
                     ? (RooflineExperts){0}
                     : experts_of(s, llm, hardware, (double)degree_of(degrees.expert)),
      .linear_link = linear,
      .head_link = head,
      .overhead = tick_seconds(preset->per_iteration),
      .send_slope = roofline_send(llm, hardware, degrees),
      .stages = degrees.pipeline,
      .ranks = degrees.attention,
  };
  if (side != ROOFLINE_FFN) attention_init(self, s, llm, hardware, degrees.tensor);
  self->head.slope += tick_seconds(preset->per_sequence);
}

void roofline_init(Roofline *self, const Llm *llm, const Hardware *hardware, Parallelism degrees,
                   const EnginePreset *preset, Arena *arena) {
  roofline_init_side(self, llm, hardware, degrees, preset, ROOFLINE_WHOLE, arena);
}

static void scale_link(RooflineTerm *term, RooflineLink *link, double scale) {
  const double saved = 1 - 1 / scale;
  term->fixed -= saved * link->fixed;
  term->slope -= saved * link->slope;
  link->fixed /= scale;
  link->slope /= scale;
}

void roofline_scale_all_reduces(Roofline *self, double scale) {
  assert(scale > 0);
  self->experts.exchange_slope /= scale;
  scale_link(&self->linear, &self->linear_link, scale);
  scale_link(&self->head, &self->head_link, scale);
}
