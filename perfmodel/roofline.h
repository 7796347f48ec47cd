/* Iteration times from the facts of a machine and a model alone, for machines that nobody here can
 * measure: every operator runs at the rate of its bottleneck (Seesaw, appendix A).
 *
 * One term of the composed model (perfmodel.h) is a line plus the greater of a memory line and a
 * compute line:
 *
 *   seconds(x) = fixed + slope·x + max(memory_fixed + memory_slope·x, compute_slope·x)
 *
 * so each is piecewise linear with at most one bend, and roofline_compile gives a PerfModel in the
 * composed form that equals it but for the rounding to ticks. Peaks are those of the weights'
 * format, times the machine's efficiencies. Per layer and GPU, with P = tensor_parallel_size and e
 * = dtype_bytes:
 *
 *   linear      weights and activations of the products, or their FLOPs; plus the memory
 *               traffic of norms, rotation, activation function and of attention's q, k, v and o;
 *               plus two ring all-reduces of e·h bytes per token, each 2(P−1)/P times over a link;
 *               plus the preset's time per layer, whatever the tokens
 *   attention   prefill h_q·(d_qk + d_v) FLOPs per unit of 2A (s² of a whole prompt), decode the
 *               greater of 2·h_q·(d_qk + d_v) FLOPs and the KV's bytes per context token. Seesaw's
 *               table 3 prints s²·d² and, for decode, s²: one d and one s too many. Latent KV is
 *               read once for all heads, which have 2·rank + d_rope elements each in decode, where
 *               its matrices are absorbed (DeepSeek-V2, 2405.04434, §2.1.2), and plain heads in
 *               prefill
 *   head        once: V/P rows of the embedding, and gathering the logits; for each sequence its
 *               states of linear attention, read and written
 *
 * A mean layer stands for layers that differ. What is not linear has curves of its own, which are
 * sampled at knots (RooflineExperts, RooflineWindow). With A attention groups, ranks of
 * attention data parallelism, terms are of all tokens where they are spread evenly: a group has 1/A
 * of them and reads the weights whole. A sequence is in one group, and an iteration takes as long
 * as the busiest (perfmodel.h), but for experts; around these tokens are exchanged between the
 * groups, by all-gather and reduce-scatter or token by token, whichever is less.
 *
 * With PP stages a Roofline is the slowest one: ceil(L/PP) layers. */
#ifndef PERFMODEL_ROOFLINE_H
#define PERFMODEL_ROOFLINE_H
#include "perfmodel/hardware.h"
#include "perfmodel/perfmodel.h"
#include "perfmodel/presets.h"

/* Seconds of one term, as above. */
typedef struct RooflineTerm {
  double fixed, slope;
  double memory_fixed, memory_slope, compute_slope;
} RooflineTerm;

/* What of a term's `fixed` and `slope` is due to collectives: all-reduces, gathered logits. */
typedef struct RooflineLink {
  double fixed, slope;
} RooflineLink;

/* Routed experts of all layers. x tokens reach E·(1 − (1 − k/E)^x) of E experts when each picks k
 * at random; of a GPU's `held` the same share. Their weights are read, or their FLOPs
 * done, by the GPU that has the most: with e GPUs to spread them over, `compute_slope` is 1 +
 * 0.18·log2(e) times the mean. That is aiconfigurator's moe tables (h100, vllm 0.24.0, more than
 * 1024 tokens): medians of power_law_1.2 over balanced are 1.26, 1.39, 1.53, 1.61 for 2, 4, 8, 16
 * GPUs; with fewer tokens there is no difference. */
typedef struct RooflineExperts {
  double held;                                     // experts of a layer on a GPU; 0: none
  double missed;                                   // 1 − k/E
  double memory_each, memory_slope, compute_slope; // seconds per reached expert, per token
  double exchange_slope;                           // seconds per token, between groups
  double busiest;                                  // GPU's FLOPs over the mean
} RooflineExperts;

/* Attention that sees `window` tokens of a sequence at most: C is then min(C, n·window), of n
 * sequences of like length; 2A of one whole prompt is 2·s·window − window² with s² = 2A. */
typedef struct RooflineWindow {
  int64_t window; // 0: none
  double decode_slope, prefill_slope;
} RooflineWindow;

enum { ROOFLINE_WINDOWS = 2 }; // layers with a sliding window, and sparse attention

typedef struct Roofline {
  const char *name;                         // MODEL_GPU_tpN[_dpA][_epE]_roofline-PRESET
  RooflineTerm linear;                      // of P + n
  RooflineTerm prefill_attention;           // of 2A
  RooflineTerm decode_attention;            // of C
  RooflineTerm head;                        // of s, with the preset's time per sequence
  RooflineExperts experts;                  // of P + n, beside linear
  RooflineWindow windows[ROOFLINE_WINDOWS]; // beside attention
  RooflineLink linear_link, head_link;
  double overhead;   // seconds of every iteration outside its layers: the preset's
  double send_slope; // seconds per token to the next stage
  int64_t stages;
  int64_t ranks;          // attention groups
  CapturedSizes captured; // what decodes alone are padded to; none as roofline_init leaves it
} Roofline;

/* Seconds at x >= 0, in closed form. */
double roofline_term_seconds(const RooflineTerm *self, double x);

/* Seconds per token that a stage takes to hand it to the next one: its hidden state, from each GPU
 * to its like there. */
double roofline_send(const Llm *llm, const Hardware *hardware, Parallelism degrees);
/* What of a layer its GPUs have: all, or the side of attention or that of MLPs and experts alone
 * (attention_ffn.h). */
typedef enum RooflineSide { ROOFLINE_WHOLE, ROOFLINE_ATTENTION, ROOFLINE_FFN } RooflineSide;

/* One side of a layer's GPUs: of attention with `degrees` without `ffn`; of FFNs on degrees.ffn
 * GPUs, which have whole experts each and slices of MLPs, of which an all-reduce adds up the
 * products. The preset's times per layer count half on each side. */
void roofline_init_side(Roofline *self, const Llm *llm, const Hardware *hardware,
                        Parallelism degrees, const EnginePreset *preset, RooflineSide side,
                        Arena *arena);
/* One pipeline stage of `llm` on GPUs of `hardware`, as hardware_check_split demands. */
void roofline_init(Roofline *self, const Llm *llm, const Hardware *hardware, Parallelism degrees,
                   const EnginePreset *preset, Arena *arena);
/* Seconds of `linear` and experts of x tokens; of attention of decodes, and of prompts. */
double roofline_linear_seconds(const Roofline *self, double tokens);
double roofline_decode_seconds(const Roofline *self, double seqs, double context);
/* Numbers of sequences or tokens that curves are sampled at: four to each power of two, all below
 * 8, up to the first that is `last` or more. */
enum { ROOFLINE_SIZES_MAX = 96, ROOFLINE_LAST_KNOT = 1 << 20 }; // the last line goes on
int roofline_sizes(int64_t sizes[ROOFLINE_SIZES_MAX], int64_t last);
/* Seconds of the experts of x tokens, and of their exchange; of attention in windows. */
double roofline_experts_seconds(const RooflineExperts *self, double tokens);
double roofline_window_decode(const RooflineWindow *self, double seqs, double context);
double roofline_window_prefill(const RooflineWindow *self, double area2);
/* Collectives at `scale` > 0 times their rate, as Seesaw §6.5 (Fig. 14) projects other links. Sends
 * to the next stage stay as they are. */
void roofline_scale_all_reduces(Roofline *self, double scale);
/* The share of `linear` and experts together that is spread over all GPUs, with groups. */
double roofline_spread_share(const Roofline *self, double tokens);
/* A model of the last stage, which is the whole when there is one. No batch is outside its range:
 * nothing was measured. */
void roofline_compile(const Roofline *self, PerfModel *model, int64_t max_decode_seqs,
                      Arena *arena);
#endif
