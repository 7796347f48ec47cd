/* The rules by which engines run layers (aic_engines.def, aic_kernels.def): what AIConfigurator's
 * tables do not say. */
#ifndef PERFMODEL_IMPORT_AIC_ENGINE_H
#define PERFMODEL_IMPORT_AIC_ENGINE_H
#include "perfmodel/dtype.h"
#include <stdbool.h>
#include <stdint.h>

enum {
  AIC_CUSTOM_SIZES = 3, // 2, 4, 8 GPUs
  AIC_KERNELS = 5,
};

/* A row of aic_engines.def. */
typedef struct AicEngine {
  const char *name;
  int64_t since_sm;
  bool dense;
  const char *kernels, *until, *all_reduce, *all_reduce_of;
  double custom_bytes[AIC_CUSTOM_SIZES];
  unsigned fastest; // bits of Dtype
  const char *experts_of, *experts_kernels[AIC_KERNELS], *attention_kernels[AIC_KERNELS];
  unsigned experts_formats; // bits of Dtype
  bool shared_fused, gathers_8bit;
} AicEngine;

typedef enum AicPart { AIC_ATTENTION, AIC_FFN, AIC_MLP, AIC_EXPERTS } AicPart;
enum { AIC_16BIT = 1, AIC_8BIT = 2, AIC_4BIT = 4 };
enum { AIC_ONE = 1, AIC_SEVERAL = 2 };
enum { AIC_PLAIN = 1, AIC_LATENT = 2 };

/* A row of aic_kernels.def. */
typedef struct AicKernel {
  const char *engine;
  AicPart part;
  const char *name;
  int64_t below_sm;
  unsigned formats, gpus, attention; // bits; 0: any
  bool qk_norm, fused;
  double hidden, query, kv, inter, experts; // bytes a token for each of their numbers
} AicKernel;

/* What decides which kernels run. */
typedef struct AicRun {
  const char *engine;
  AicPart part;
  int64_t sm, gpus;
  int dtype; // of the part's weights
  bool qk_norm;
  bool latent; // attention whose tables have what moves queries and keys
} AicRun;

/* The row of an engine of a version (NULL: the newest) on a GPU, for a model with experts or not;
 * NULL if there is none. */
const AicEngine *aic_engine_find(const char *name, const char *version, int64_t sm,
                                 bool has_experts);
/* Whose kernels it launches. */
const char *aic_engine_kernels(const AicEngine *self);
/* NULL-terminated, with repeats. */
extern const char *const aic_engine_names[];

/* "0.9.2" is before "0.11"; what follows the numbers does not count. */
int aic_version_compare(const char *a, const char *b);

/* The i-th kernel of all; NULL past the last. */
const AicKernel *aic_kernel_at(int i);
bool aic_kernel_runs(const AicKernel *self, const AicRun *run);
#endif
