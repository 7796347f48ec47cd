/* Between a configuration and what starts it: its pools in the words that engines share.
 *
 * What a configuration says of a pool is said, and what an engine decides by itself is left to it.
 * Names come from files of strangers: they go through quote.h, each as one word. */
#ifndef EXPERIMENTS_PLAN_EXPORT_H
#define EXPERIMENTS_PLAN_EXPORT_H
#include "experiments/plan/plan.h"
#include "sim/core/scheduler.h"

typedef enum ExportFamily { FAMILY_VLLM, FAMILY_SGLANG, FAMILY_TRTLLM, FAMILIES } ExportFamily;

typedef struct ExportPool {
  const char *name, *gpu;
  Role role;
  int64_t instances, gpus;                                  // of each instance
  int64_t tensor, pipeline, data, attention, expert, nodes; // degrees
  int64_t batched_tokens, seqs;                             // 0: not known
  double gpu_memory_utilization;
  bool fp8_kv_cache; // as its times, or the model, have it
  int64_t drafts;    // of a request in a step
  bool mtp;          // by layers of the model
  ConnectorOptions connector;
  const PoolConfig *of;
} ExportPool;

typedef struct Export {
  const Config *config;
  const char *model;     // to be loaded: of Hugging Face, or as the configuration calls it
  ExportFamily family;   // of the engine that the configuration names
  const char *quantized; // a format that the configuration asks for instead of the model's; NULL
  ExportPool *pools;     // [n_pools]
  uint32_t n_pools;
  bool split; // prefill and decode apart
  FILE *out;
  Arena *arena;
} Export;

typedef struct Exporter {
  const char *name, *of; // as --export has it; what its words were taken from
  void (*print)(const Export *self);
} Exporter;

/* Arguments as they come, each one word. */
typedef struct Words {
  const char **items; // [n]
  size_t n, capacity;
  Arena *arena;
} Words;

/* Adds a word, and its value unless `format` is NULL. */
void words_add(Words *self, const char *word, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A flag and its count; nothing unless that is > 0. */
void words_count(Words *self, const char *flag, int64_t count);
/* The family of an engine by its name, "vllm-0.33"; vLLM's where it is none of these. */
ExportFamily export_family(const char *engine);
/* A flag for each key beside the limits that the configuration gives the pool. */
void export_given_flags(const Export *self, const ExportPool *pool, ExportFamily family,
                        Words *words);
/* The same as keys of TensorRT-LLM's YAML, set in `map`. */
void export_given_keys(const Export *self, const ExportPool *pool, Node *map);
/* The arguments of a server of this family for a pool, without its model. */
void export_arguments(const Export *self, const ExportPool *pool, ExportFamily family,
                      Words *words);
/* "# prefill: 4 instances of 2 GPUs (h100-80gb) each" */
void export_head(const Export *self, const ExportPool *pool);
/* A command line for a shell, a flag and its value on a line. */
void export_shell(const Export *self, const char *command, const Words *words);
/* Items of a list of YAML, one a line. */
void export_list(const Export *self, int indent, const Words *words);
/* Letters, digits and dashes of it, for names in Kubernetes. */
const char *export_label(const Export *self);
#endif
