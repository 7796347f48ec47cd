/* FlexGen's search of its policy (Sheng et al., ICML 2023, §4.3 and appendix A): how much of the
 * weights, of the KV and of the activations lies on the GPU, in CPU memory and on disk, and how
 * many sequences a block has.
 *
 * Of l layers, each with W bytes of weights, k bytes of KV and a bytes of activations a token, and
 * a block of b sequences with s prompt and n output tokens, a layer takes
 *
 *   prefill T_p = max(compute, to GPU, to CPU, from disk, to disk)     decode T_g likewise
 *   to GPU    (w_c + w_d)·W + (h_c + h_d)·a·s·b                        + (c_c + c_d)·k·(s + n/2)·b,
 *                                                                      and a·b instead of a·s·b
 *   to CPU    (c_c + c_d)·k·(s + 1)·b + (h_c + h_d)·a·s·b              k·b and a·b
 *   from disk w_d·W + h_d·a·s·b                                        + c_d·k·(s + n/2)·b, a·b
 *   to disk   c_d·k·(s + 1)·b + h_d·a·s·b                              k·b and a·b
 *
 * in bytes over the rate of that link. A block takes l·T_p + l·(n − 1)·T_g. Each memory holds its
 * shares of l·W, of l·k·(s + n)·b and of a·s·b; the GPU also two buffers of each part of a layer
 * that comes from elsewhere, of a GPU batch. For a size of the block that is a linear program of
 * the shares, which is solved; sizes are tried one after another. Attention is computed on the
 * GPU. */
#ifndef SIM_KVTIER_FLEXGEN_POLICY_H
#define SIM_KVTIER_FLEXGEN_POLICY_H
#include <stdbool.h>
#include <stdint.h>

enum { FLEXGEN_GPU, FLEXGEN_CPU, FLEXGEN_DISK, FLEXGEN_PLACES };

typedef struct FlexGenInputs {
  double layers;
  double weight_bytes, kv_bytes, activation_bytes; // of a layer; the last two of a token
  double prompt, output;                           // tokens
  double memory[FLEXGEN_PLACES];                   // bytes; of disk 0: there is none
  double to_gpu, to_cpu, from_disk, to_disk;       // bytes/s; > 0 where there is a disk
  /* Seconds that a layer computes for a GPU batch: a prefill; a decode with half of its output. */
  double (*prefill_s)(void *context, int64_t sequences);
  double (*decode_s)(void *context, int64_t sequences);
  void *context;
} FlexGenInputs;

typedef struct FlexGenPolicy {
  int64_t gpu_batch, n_gpu_batches;
  double weights[FLEXGEN_PLACES], kv[FLEXGEN_PLACES], activations[FLEXGEN_PLACES]; // shares
  double seconds;                                                                  // of a block
} FlexGenPolicy;

/* Seconds of a block by the shares of a policy; INFINITY: a memory does not hold its part. */
double flexgen_seconds(const FlexGenInputs *inputs, const FlexGenPolicy *policy);
/* The best shares for the sizes of `self`; false: no shares fit. */
bool flexgen_solve(const FlexGenInputs *inputs, FlexGenPolicy *self);
/* The policy with the most tokens a second of all GPU batches of 1 to `most_sequences` and up to 20
 * of them in a block; false: none fits. */
bool flexgen_search(const FlexGenInputs *inputs, int64_t most_sequences, FlexGenPolicy *ret_policy);
#endif
