/* The rules by which engines run layers (engine_rules.def, small_kernels.def): what tables of
 * kernels do not say. */
#ifndef PERFMODEL_COMPOSE_ENGINE_RULES_H
#define PERFMODEL_COMPOSE_ENGINE_RULES_H
#include "perfmodel/dtype.h"
#include <stdbool.h>
#include <stdint.h>

enum {
  CUSTOM_SIZES = 3, // 2, 4, 8 GPUs
  ENGINE_KERNELS = 5,
};

/* A row of engine_rules.def. */
typedef struct EngineRules {
  const char *name;
  int64_t since_sm;
  bool dense;
  const char *kernels, *until, *all_reduce, *all_reduce_of;
  double custom_bytes[CUSTOM_SIZES];
  unsigned fastest; // bits of Dtype
  const char *experts_of, *experts_kernels[ENGINE_KERNELS], *attention_kernels[ENGINE_KERNELS];
  unsigned experts_formats; // bits of Dtype
  bool shared_fused, gathers_8bit, exchanges, whole_layers;
} EngineRules;

typedef enum LayerPart { PART_ATTENTION, PART_FFN, PART_MLP, PART_EXPERTS, PART_LINEAR } LayerPart;
enum { BITS_16 = 1, BITS_8 = 2, BITS_4 = 4 };
enum { GPUS_ONE = 1, GPUS_SEVERAL = 2 };
enum { HEADS_PLAIN = 1, HEADS_LATENT = 2 };

/* A row of small_kernels.def. */
typedef struct SmallKernel {
  const char *engine;
  LayerPart part;
  const char *name;
  int64_t below_sm;
  unsigned formats, gpus, attention; // bits; 0: any
  bool qk_norm, gate, fused;
  double hidden, query, kv, inter, experts, value; // bytes a token for each of their numbers
} SmallKernel;

/* What decides which kernels run. */
typedef struct SmallKernelRun {
  const char *engine;
  LayerPart part;
  int64_t sm, gpus;
  int dtype; // of the part's weights
  bool qk_norm, gate;
  bool latent; // attention whose tables have what moves queries and keys
} SmallKernelRun;

/* The row of an engine of a version (NULL: the newest) on a GPU, for a model with experts or not;
 * NULL if there is none. */
const EngineRules *engine_rules_find(const char *name, const char *version, int64_t sm,
                                     bool has_experts);
/* Whose kernels it launches. */
const char *engine_rules_kernels(const EngineRules *self);
/* NULL-terminated, with repeats. */
extern const char *const engine_rules_names[];

/* "0.9.2" is before "0.11"; what follows the numbers does not count. */
int version_compare(const char *a, const char *b);

/* The i-th kernel of all; NULL past the last. */
const SmallKernel *small_kernel_at(int i);
bool small_kernel_runs(const SmallKernel *self, const SmallKernelRun *run);
#endif
