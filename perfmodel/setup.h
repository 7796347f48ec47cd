/* What iteration times are of: a model in some number formats, served by an engine on some GPUs.
 * A profile says it in the facts of its head, a model file in its first keys, both under the names
 * of the fields; the file of a setup has a name made of it:
 *
 *   fitted/ENGINE-VERSION/MODEL_GPU_tpN[_dpD][_epE]_WEIGHTS[_kvKV].yaml
 *
 * with dpD and epE where they are not 1, and kvKV where it is not bf16. Profiles of an unknown
 * engine, and the sets of 2023, are fitted/[SET/]MODEL_GPU_tpN.yaml. */
#ifndef PERFMODEL_SETUP_H
#define PERFMODEL_SETUP_H
#include "perfmodel/dtype.h"
#include <stdint.h>

typedef struct PerfSetup {
  const char *model, *gpu;
  const char *engine, *engine_version; // vllm, 0.24.0; NULL: unknown
  int weight_dtype, kv_cache_dtype;    // Dtype
  int64_t tensor_parallel_size;
  int64_t attention_data_parallel_size, expert_parallel_size; // 1: none
} PerfSetup;
#endif
