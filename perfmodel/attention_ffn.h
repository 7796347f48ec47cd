/* Iteration times of an instance whose attention and FFNs are on GPUs of their own
 * (MegaScale-Infer, arXiv 2504.02263, "ping-pong pipeline"; Step-3, arXiv 2507.19427).
 *
 * A batch is divided evenly into m micro-batches. In each of L layers a micro-batch is computed by
 * the attention GPUs (T_a), sent (T_c), computed by the FFN GPUs (T_e) and sent back (T_c). Each of
 * the four is done for one micro-batch at a time, first come, first served. With T_f = max(T_a,
 * T_e, T_c) and a round S = T_a + T_e + 2 T_c, all layers take
 *
 *   T = S + (L − 1)·max(m·T_f, S) + (m − 1)·T_f
 *
 * If m·T_f >= S, which with T_a = T_e = T_f is the paper's condition m >= 2·(1 + T_c / T_f), this
 * is the paper's T = (T_a + T_e + 2 T_c) + (m·L − 1)·T_f: whoever takes longest never waits. With m
 * = 1 it is L·S.
 *
 * T_a and T_e are rooflines of both sides (roofline.h, RooflineSide), whose weights are read for
 * each micro-batch. T_c is the latency of an all-reduce of the machine and the time of a token's
 * hidden state over the links of the side that has fewer GPUs, once for each GPU that has one of
 * the token's experts, N·(1 − (1 − 1/N)^k) of N in the mean, and once in layers without experts;
 * NVLink where the machine has room for all GPUs of the instance, else NICs. */
#ifndef PERFMODEL_ATTENTION_FFN_H
#define PERFMODEL_ATTENTION_FFN_H
#include "perfmodel/roofline.h"

/* Seconds of a micro-batch in a layer. */
typedef struct PingPong {
  double attention, ffn, send; // T_a, T_e, T_c
} PingPong;

double pingpong_seconds(const PingPong *self, double layers, double micro_batches);

typedef struct AttentionFfn {
  const char *name;
  Roofline attention, ffn;
  double layers, micro_batches;
  double send_fixed, send_slope; // seconds; per token
} AttentionFfn;

/* degrees.ffn > 0; hardware_check_split has no error. */
void attention_ffn_init(AttentionFfn *self, const Llm *llm, const Hardware *hardware,
                        Parallelism degrees, const EnginePreset *preset, Arena *arena);
/* Of a micro-batch of so many tokens, of which `seqs` decodes have so much context together. */
PingPong attention_ffn_layer(const AttentionFfn *self, double tokens, double seqs, double context);
/* All layers of a batch, in as many micro-batches as it has tokens for. */
double attention_ffn_seconds(const AttentionFfn *self, double tokens, double seqs, double context);
/* A composed model. Iterations of decodes are as above: `linear` is that without context, and
 * `decode_attention` what the context adds. Attention of prompts is added to both. */
void attention_ffn_compile(const AttentionFfn *self, PerfModel *model, int64_t max_decode_seqs,
                           Arena *arena);
#endif
