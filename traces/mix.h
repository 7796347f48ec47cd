/* What `workload.mix` is bound to, and from. */
#ifndef TRACES_MIX_H
#define TRACES_MIX_H
#include "traces/workload.h"

typedef struct MixKeys {
  const Node *components;
  double rate_scale;
  Tick duration; // -1: auto
  int64_t requests, seed;
} MixKeys;

/* As workload_bind, of a block with `mix`. */
int mix_bind(WorkloadConfig *whole, const Node *node, const char *data_dir, const char *config_dir,
             Arena *arena, Diag *diag);
#endif
