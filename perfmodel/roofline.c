/* Rooflines: facts to terms, terms to seconds, terms to the curves of a PerfModel. */
#include "perfmodel/roofline.h"
#include <assert.h>
#include <math.h>

/* One GPU's share of one layer, and the rates it runs at. */
typedef struct Shard {
  double gpus, layers;
  double hidden, q, kv, mlp;     // elements per token: hidden state, queries, keys (or values), MLP
  double mlp_in;                 // matrices that lead into the MLP: gate and up, or up alone
  double bytes;                  // of an element
  double flops, memory, network; // per second
  double latency;                // of an all-reduce
} Shard;

static Shard shard_of(const Llm *llm, const Hardware *hardware, int64_t tp, int64_t pp) {
  const int64_t kv_heads = llm->num_key_value_heads > tp ? llm->num_key_value_heads / tp : 1;
  return (Shard){
      .gpus = (double)tp,
      .layers = (double)((llm->num_hidden_layers + pp - 1) / pp),
      .hidden = (double)llm->hidden_size,
      .q = (double)(llm->num_attention_heads * llm->head_dim) / (double)tp,
      .kv = (double)(kv_heads * llm->head_dim),
      .mlp = (double)llm->intermediate_size / (double)tp,
      .mlp_in = llm->gated_mlp ? 2 : 1,
      .bytes = (double)llm->dtype_bytes,
      .flops = hardware_compute_rate(hardware),
      .memory = hardware_memory_rate(hardware),
      .network = hardware_link_rate(hardware),
      .latency = tp > 1 ? tick_seconds(hardware->all_reduce_latency) : 0,
  };
}

/* Elements that cross a GPU's link, each way, to gather one element on all GPUs by a ring; an
 * all-reduce crosses it twice. */
static double ring_share(const Shard *shard) {
  return (shard->gpus - 1) / shard->gpus;
}

/* Two all-reduces a layer, of a token's hidden state. */
static RooflineLink linear_link(const Shard *s) {
  const double reduced = 2 * 2 * ring_share(s) * s->hidden;
  return (RooflineLink){s->layers * 2 * s->latency, s->layers * s->bytes * reduced / s->network};
}

/* The engine's own time for each layer is inside it: norms, attention and products have it. */
static RooflineTerm linear_term(const Shard *s, const RooflineLink *link, Tick engine_per_layer) {
  const double weights =
      s->hidden * (s->q + 2 * s->kv) + s->q * s->hidden + (s->mlp_in + 1) * s->mlp * s->hidden;
  const double product_io = s->hidden + (s->q + 2 * s->kv)   // qkv
                            + s->q + s->hidden               // o
                            + s->hidden + s->mlp_in * s->mlp // up, and gate
                            + s->mlp + s->hidden;            // down
  const double other_io = 2 * 4 * s->hidden                  // residual add and norm, twice
                          + 2 * (s->q + 2 * s->kv)           // rotation, append to the KV
                          + (s->mlp_in + 1) * s->mlp         // activation function
                          + 2 * (s->q + s->kv);              // attention: q, k, v, o
  return (RooflineTerm){
      .fixed = link->fixed + s->layers * tick_seconds(engine_per_layer),
      .slope = s->layers * s->bytes * other_io / s->memory + link->slope,
      .memory_fixed = s->layers * s->bytes * weights / s->memory,
      .memory_slope = s->layers * s->bytes * product_io / s->memory,
      .compute_slope = s->layers * 2 * weights / s->flops,
  };
}

static RooflineLink head_link(const Shard *s, const Llm *llm) {
  const double vocabulary = (double)llm->vocab_size;
  return (RooflineLink){s->latency, s->bytes * ring_share(s) * vocabulary / s->network};
}

static RooflineTerm head_term(const Shard *s, const Llm *llm, const RooflineLink *link) {
  const double rows = (double)llm->vocab_size / s->gpus;
  return (RooflineTerm){
      .fixed = link->fixed,
      .slope = link->slope,
      .memory_fixed = s->bytes * s->hidden * rows / s->memory,
      .memory_slope = s->bytes * (s->hidden + rows) / s->memory,
      .compute_slope = 2 * s->hidden * rows / s->flops,
  };
}

void roofline_init(Roofline *self, const Llm *llm, const Hardware *hardware,
                   int64_t tensor_parallel_size, int64_t pipeline_parallel_size,
                   const EnginePreset *preset, Arena *arena) {
  const int64_t tp = tensor_parallel_size, pp = pipeline_parallel_size;
  assert(tp >= 1 && pp >= 1 && pp <= llm->num_hidden_layers);
  const Shard shard = shard_of(llm, hardware, tp, pp), *s = &shard;
  const RooflineLink linear = linear_link(s), head = head_link(s, llm);
  *self = (Roofline){
      .name = arena_printf(arena, "%s_%s_tp%lld_roofline-%s", llm->name, hardware->gpu,
                           (long long)tp, preset->name),
      .linear = linear_term(s, &linear, preset->per_layer),
      .prefill_attention = {.compute_slope = s->layers * 2 * s->q / s->flops},
      .decode_attention = {.memory_slope = s->layers * s->bytes * 2 * s->kv / s->memory,
                           .compute_slope = s->layers * 4 * s->q / s->flops},
      .head = head_term(s, llm, &head),
      .linear_link = linear,
      .head_link = head,
      .overhead = tick_seconds(preset->per_iteration),
      .send_slope = s->bytes * s->hidden / s->network,
      .stages = pp,
  };
  self->head.slope += tick_seconds(preset->per_sequence);
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
  scale_link(&self->linear, &self->linear_link, scale);
  scale_link(&self->head, &self->head_link, scale);
}

double roofline_term_seconds(const RooflineTerm *self, double x) {
  return self->fixed + self->slope * x +
         fmax(self->memory_fixed + self->memory_slope * x, self->compute_slope * x);
}

double roofline_stage_seconds(const Roofline *self, const BatchShape *batch, bool last) {
  const bool padded = batch->prefill_tokens == 0 && batch->decode_seqs > 0;
  const int64_t seqs =
      padded ? captured_size(&self->captured, batch->decode_seqs) : batch->decode_seqs;
  const double tokens = (double)(batch->prefill_tokens + seqs);
  double seconds = self->overhead + roofline_term_seconds(&self->linear, tokens) +
                   roofline_term_seconds(&self->prefill_attention, (double)batch->prefill_area2) +
                   roofline_term_seconds(&self->decode_attention, (double)batch->context_tokens);
  if (last && batch->logit_seqs > 0)
    seconds += roofline_term_seconds(&self->head, (double)batch->logit_seqs);
  return seconds;
}

double roofline_send_seconds(const Roofline *self, int64_t tokens) {
  return self->send_slope * (double)tokens;
}

/* ---- To curves ---- */

enum { LAST_KNOT = 1 << 20 }; // from there the last line goes on
/* Ranges that no batch leaves. That of contexts is smaller because their pieces go on to twice the
 * range, where times must stay within a Tick. */
#define ANY_COUNT   (INT64_C(1) << 60)
#define ANY_CONTEXT (INT64_C(1) << 31)

static PwlKnot knot_at(const RooflineTerm *term, int64_t x) {
  const double limit = tick_seconds(PWL_TICKS_MAX);
  return (PwlKnot){x, fmin(roofline_term_seconds(term, (double)x), limit)};
}

/* Nothing takes no time; from there both sides of a jump, both sides of the bend where compute
 * overtakes memory, and the end. */
static Pwl term_curve(const RooflineTerm *term, Arena *arena) {
  PwlKnot knots[5] = {{0, 0}};
  int n = 1;
  const bool jumps = term->fixed + term->memory_fixed > 0;
  const int64_t first = jumps ? 1 : 0;
  if (jumps) knots[n++] = knot_at(term, first);
  const double gain = term->compute_slope - term->memory_slope;
  const double bend = gain > 0 ? term->memory_fixed / gain : 0;
  if (bend > (double)first && bend < LAST_KNOT - 1) {
    const int64_t before = (int64_t)bend;
    if (before > first) knots[n++] = knot_at(term, before);
    knots[n++] = knot_at(term, before + 1);
  }
  knots[n++] = knot_at(term, LAST_KNOT);
  Pwl curve;
  pwl_init(&curve, knots, n, false, arena);
  curve.high = ANY_COUNT;
  return curve;
}

void roofline_compile(const Roofline *self, PerfModel *model, int64_t max_decode_seqs,
                      Arena *arena) {
  CurveRow row = {1, term_curve(&self->decode_attention, arena)};
  row.curve.high = ANY_CONTEXT;
  const CurveTable table = {&row, 1, 1, ANY_COUNT};
  *model = (PerfModel){
      .name = self->name,
      .form = PERF_COMPOSED,
      .overhead = tick_from_seconds(self->overhead),
      .stages = self->stages,
      .send = fine_from_seconds(self->send_slope),
      .captured = self->captured,
      .linear = term_curve(&self->linear, arena),
      .prefill_attention = term_curve(&self->prefill_attention, arena),
      .head = term_curve(&self->head, arena),
  };
  perfmodel_compile(model, &table, max_decode_seqs, arena);
}
