/* Performance models of tables of kernels, composed when they are asked for: data_dir/tables has a
 * folder for each GPU, with one for each version of an engine (tables/README.md). */
#ifndef PERFMODEL_COMPOSE_COMPOSE_H
#define PERFMODEL_COMPOSE_COMPOSE_H
#include "base/cache.h"
#include "perfmodel/hardware.h"
#include "perfmodel/perfmodel.h"

/* What a model is composed for. */
typedef struct ComposeInput {
  PerfSetup setup; // an engine version of NULL is the newest
  const Llm *llm;
  const Hardware *hardware;
  const char *data_dir;
  bool alone;   // one GPU of several: without all-reduces
  Place at;     // of what asks for it
  Cache *cache; // keeps what was composed; NULL: it is composed anew
} ComposeInput;

/* The folder of the engine's tables on this GPU whose version is nearest to the one that is asked
 * for, or where it has none of another engine, and in `ret_there` what it is of. Where the GPU has
 * no tables, it is that of the most similar GPU (other_gpu.h). NULL: there is none. */
const char *compose_find(const ComposeInput *input, PerfSetup *ret_there, Arena *arena);
/* Composes the model of the tables in a folder that compose_find has found. What that lacks is
 * borrowed from another folder, and what is of another GPU is scaled: `taken` then names it with
 * its share of the time after a comma, and the errors of terms have what this adds. 0, or −1 with
 * entries for all that is lacking. */
int compose_load(PerfModel *self, const ComposeInput *input, const char *folder,
                 int64_t max_decode_seqs, Arena *arena, Diag *diag);
/* Whether a model can be composed of what there is. With a cache it is composed, and kept there. */
bool compose_can(const ComposeInput *input);
/* The GPUs that have tables; NULL-terminated. */
const char *const *compose_gpus(const char *data_dir, Arena *arena);
/* The engines that have tables of a GPU (all: NULL), each once; NULL-terminated. */
const char *const *compose_engines(const char *gpu, const char *data_dir, Arena *arena);
#endif
