/* Rows of the two lists. */
#include "perfmodel/compose/engine_rules.h"
#include <stdlib.h>
#include <string.h>

static const EngineRules ENGINES[] = {
#define ENGINE_RULES(name_, ...) {.name = (name_), __VA_ARGS__},
#include "perfmodel/compose/engine_rules.def"
#undef ENGINE_RULES
};

const char *const engine_rules_names[] = {
#define ENGINE_RULES(name_, ...) name_,
#include "perfmodel/compose/engine_rules.def"
#undef ENGINE_RULES
    NULL};

static const SmallKernel KERNELS[] = {
#define SMALL_KERNEL(engine_, part_, name_, ...)                                                   \
  {.engine = (engine_), .part = (part_), .name = (name_), __VA_ARGS__},
#include "perfmodel/compose/small_kernels.def"
#undef SMALL_KERNEL
};
enum { N_KERNELS = sizeof KERNELS / sizeof *KERNELS };

int version_compare(const char *a, const char *b) {
  while (*a || *b) {
    char *after_a = NULL, *after_b = NULL;
    const unsigned long x = strtoul(a, &after_a, 10), y = strtoul(b, &after_b, 10);
    if (x != y) return x < y ? -1 : 1;
    if (*after_a != '.' && *after_b != '.') return 0;
    a = *after_a == '.' ? after_a + 1 : "";
    b = *after_b == '.' ? after_b + 1 : "";
  }
  return 0;
}

const EngineRules *engine_rules_find(const char *name, const char *version, int64_t sm,
                                     bool has_experts) {
  for (int i = 0; engine_rules_names[i]; i++) {
    const EngineRules *engine = &ENGINES[i];
    const bool is_old = version && engine->until && version_compare(version, engine->until) <= 0;
    if (strcmp(engine->name, name) == 0 && sm >= engine->since_sm && (!engine->until || is_old) &&
        !(engine->dense && has_experts))
      return engine;
  }
  return NULL;
}

const char *engine_rules_kernels(const EngineRules *self) {
  return self->kernels ? self->kernels : self->name;
}

static unsigned format_bit(int dtype) {
  switch (dtype_compute((Dtype)dtype)) {
  case DTYPE_FP8:
  case DTYPE_INT8:
    return BITS_8;
  case DTYPE_NVFP4:
  case DTYPE_MXFP4:
    return BITS_4;
  default:
    return BITS_16;
  }
}

const SmallKernel *small_kernel_at(int i) {
  return i < N_KERNELS ? &KERNELS[i] : NULL;
}

bool small_kernel_runs(const SmallKernel *self, const SmallKernelRun *run) {
  const unsigned gpus = run->gpus > 1 ? GPUS_SEVERAL : GPUS_ONE;
  const unsigned attention = run->latent ? HEADS_LATENT : HEADS_PLAIN;
  return strcmp(self->engine, run->engine) == 0 && self->part == run->part &&
         (self->below_sm == 0 || run->sm < self->below_sm) &&
         (self->formats == 0 || self->formats & format_bit(run->dtype)) &&
         (self->gpus == 0 || self->gpus & gpus) && (!self->qk_norm || run->qk_norm) &&
         (!self->gate || run->gate) && (self->attention == 0 || self->attention & attention) &&
         !(run->latent && self->query + self->kv > 0);
}
