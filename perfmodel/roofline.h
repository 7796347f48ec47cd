/* Iteration times from the facts of a machine and a model alone, for machines that nobody here can
 * measure: every operator runs at the rate of its bottleneck (Seesaw, appendix A).
 *
 * One term of DESIGN §4 is a line plus the greater of a memory line and a compute line:
 *
 *   seconds(x) = fixed + slope·x + max(memory_fixed + memory_slope·x, compute_slope·x)
 *
 * so each is piecewise linear with at most one bend, and roofline_compile gives a PerfModel in the
 * composed form that equals it but for the rounding to ticks. Peaks are taken times the machine's
 * efficiencies. Per layer and GPU, with P = tensor_parallel_size and e = dtype_bytes:
 *
 *   linear      weights and activations of the four products, or their FLOPs; plus the memory
 *               traffic of norms, rotation, activation function and of attention's q, k, v and o;
 *               plus two ring all-reduces of e·h bytes per token, each 2(P−1)/P times over a link;
 *               plus the preset's time per layer, whatever the tokens
 *   attention   prefill 2·h_q·d FLOPs per unit of 2A (s² of a whole prompt), decode the greater of
 *               4·h_q·d FLOPs and 2e·h_kv·d bytes per context token. Seesaw's table 3 prints s²·d²
 *               and, for decode, s²: one d and one s too many
 *   head        once: V/P rows of the embedding, and gathering the logits
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

typedef struct Roofline {
  const char *name;               // MODEL_GPU_tpN_roofline-PRESET
  RooflineTerm linear;            // of P + n
  RooflineTerm prefill_attention; // of 2A
  RooflineTerm decode_attention;  // of C
  RooflineTerm head;              // of s, with the preset's time per sequence
  RooflineLink linear_link, head_link;
  double overhead;   // seconds of every iteration outside its layers: the preset's
  double send_slope; // seconds per token to the next stage
  int64_t stages;
  CapturedSizes captured; // what decodes alone are padded to; none as roofline_init leaves it
} Roofline;

/* Seconds at x >= 0, in closed form. */
double roofline_term_seconds(const RooflineTerm *self, double x);

/* One pipeline stage of `llm` on tensor_parallel_size GPUs of `hardware`, as
 * hardware_check_split demands. */
void roofline_init(Roofline *self, const Llm *llm, const Hardware *hardware,
                   int64_t tensor_parallel_size, int64_t pipeline_parallel_size,
                   const EnginePreset *preset, Arena *arena);
/* Collectives at `scale` > 0 times their rate, as Seesaw §6.5 (Fig. 14) projects other links. Sends
 * to the next stage stay as they are. */
void roofline_scale_all_reduces(Roofline *self, double scale);
/* Seconds of one iteration in a stage; only the last one has the head. */
double roofline_stage_seconds(const Roofline *self, const BatchShape *batch, bool last);
/* Seconds to send the activations of `tokens` to the next stage. */
double roofline_send_seconds(const Roofline *self, int64_t tokens);
/* A model of the last stage, which is the whole when there is one. No batch is outside its range:
 * nothing was measured. */
void roofline_compile(const Roofline *self, PerfModel *model, int64_t max_decode_seqs,
                      Arena *arena);
#endif
