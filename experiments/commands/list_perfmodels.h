/* What `tandem list models` and `tandem list perfmodels` print: tables of kernels, what can be
 * composed of them, and what was fitted to whole iterations. */
#ifndef EXPERIMENTS_COMMANDS_LIST_PERFMODELS_H
#define EXPERIMENTS_COMMANDS_LIST_PERFMODELS_H
#include "base/diag.h"
#include <stdbool.h>
#include <stdint.h>

/* Filters; NULL, 0 and for `weights` −1: any. */
typedef struct ListOptions {
  const char *engine, *model, *gpu;
  bool gpu_is_name; // h20, not part of one, so that no h200 is meant; found out
  int weights;      // -1: any
  int64_t tensor_parallel_size;
  int format;
} ListOptions;

/* Whether anything is asked for but all. */
bool list_is_filtered(const ListOptions *wanted);
/* The folder of models, machine types and times. */
const char *list_data_dir(Arena *arena);
/* GPUs of machine types and of tables; NULL-terminated. */
const char *const *list_gpu_names(Arena *arena);
/* What cannot be loaded is left out, its entries in `diag`. */
void list_models(const ListOptions *wanted, Arena *arena, Diag *diag);
void list_perfmodels(const ListOptions *wanted, Arena *arena, Diag *diag);
#endif
