/* Finds the files of performance models by what they are of (setup.h): in a set by model, GPU and
 * degree, or among those of an engine the nearest there is. */
#ifndef PERFMODEL_FINDER_H
#define PERFMODEL_FINDER_H
#include "perfmodel/compose/compose.h"

typedef struct PerfFile {
  const char *path, *folder, *name; // FOLDER/NAME.yaml
  PerfSetup setup;                  // as its name says it; engine NULL: of a set
  int64_t distance;                 // from what was asked for
} PerfFile;

/* The files of engines and sets in data_dir/fitted, nearest to `asked` (NULL: nothing) first, in
 * order of their names where they are as near. */
PerfFile *finder_files(const PerfSetup *asked, const char *data_dir, size_t *ret_n, Arena *arena);

/* The engines that any of them or of the tables is of; NULL-terminated. */
const char *const *finder_engines(const char *data_dir, Arena *arena);

/* Of a set: data_dir/fitted/SET/MODEL_GPU_tpN.yaml; a set that ends in .yaml is the path itself.
 * Missing: a message at `at` that names the combinations there are, nearest first. */
int perfmodel_load_for(PerfModel *self, const char *set, const char *model, const char *gpu,
                       int64_t tensor_parallel_size, int64_t max_decode_seqs, const char *data_dir,
                       Place at, Arena *arena, Diag *diag);
/* The nearest that serves what is asked for: a file, or what is composed of the engine's tables
 * where their version is nearer. An engine version of NULL is the newest. With `or_2023` it may be
 * of the set of 2023: in any case where no version is asked for, else where nothing serves. None: a
 * message that says what is lacking, or names the files that are nearest. */
int perfmodel_load_nearest(PerfModel *self, const ComposeInput *asked, bool or_2023,
                           int64_t max_decode_seqs, Arena *arena, Diag *diag);
#endif
