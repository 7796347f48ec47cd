/* What iteration times are of: a model in some number formats, served by an engine on some GPUs.
 * A profile says it in the facts of its head, a model file in its first keys, both under the names
 * of the fields; the file of a setup has a name made of it:
 *
 *   fitted/ENGINE-VERSION/MODEL_GPU_tpN[_dpD][_epE][_nnodesM][_eplb]_WEIGHTS[_kvKV].yaml
 *
 * with dpD, epE and nnodesM where they are not 1, and kvKV where it is not bf16. Profiles of an
 * unknown engine, and the sets of 2023, are fitted/[SET/]MODEL_GPU_tpN.yaml: WEIGHTS is left out
 * where nothing but 16-bit numbers are known. */
#ifndef PERFMODEL_SETUP_H
#define PERFMODEL_SETUP_H
#include "base/arena.h"
#include "perfmodel/dtype.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct PerfSetup {
  const char *model, *gpu;
  const char *engine, *engine_version; // vllm, 0.24.0; NULL: unknown
  int weight_dtype, kv_cache_dtype;    // Dtype
  int64_t tensor_parallel_size;
  int64_t attention_data_parallel_size, expert_parallel_size; // 0 and 1: none
  int64_t nnodes; // machines that the GPUs of all groups lie on; 0 is 1
  bool balanced;  // experts over them have equal loads (EPLB)
} PerfSetup;

/* A degree of parallelism as a count of GPUs or groups: 0, not said, is 1. */
static inline int64_t degree_of(int64_t said) {
  return said > 0 ? said : 1;
}

/* "llama3.1-70b_h100-80gb_tp4_fp8": the name of its file. */
const char *setup_name(const PerfSetup *self, Arena *arena);
/* "vllm-0.24.0", the folder of its file; NULL when the engine or its version is unknown. */
const char *setup_engine_name(const PerfSetup *self, Arena *arena);
/* Whether it begins with a number, as versions of engines do: 0.24, 1.3.0rc20. */
bool setup_is_version(const char *text);
/* The engine and version that a folder names; false when it is none of an engine. */
bool setup_parse_folder(PerfSetup *self, const char *folder, Arena *arena);
/* All but the engine, of the name of a file; false when it is none of a setup. */
bool setup_parse_name(PerfSetup *self, const char *name, Arena *arena);
/* Whether times of `there` may stand for those of `asked`: all is the same but the engine's version
 * and the format of the KV cache. An engine of NULL asks for any. */
bool setup_serves(const PerfSetup *there, const PerfSetup *asked);
/* How far `there` is from what is asked for: another model is further than another GPU, that than
 * other weights, another engine, other degrees, another KV cache, another version. Without a
 * version newer ones are nearer. */
int64_t setup_distance(const PerfSetup *there, const PerfSetup *asked);
#endif
