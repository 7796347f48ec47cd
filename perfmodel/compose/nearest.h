/* Tables of the folder of an engine, and of those beside it: what is borrowed is noted, with the
 * error that it adds. */
#ifndef PERFMODEL_COMPOSE_NEAREST_H
#define PERFMODEL_COMPOSE_NEAREST_H
#include "perfmodel/compose/layers.h"

/* How far times of one table are from those of another, on average of products of 16 and of fewer
 * bits on H100, H200 and B200 (README.md, "What is borrowed"). */
static const double OTHER_VERSION = 0.05, OTHER_ENGINE = 0.15, OTHER_PRODUCTS = 0.25,
                    OTHER_FORMAT = 0.10, OTHER_GPUS = 0.15, OTHER_SHARES = 0.10,
                    OTHER_LAYERS = 0.15, OTHER_WEIGHTS = 0.50;

/* Reads a table, where the folder has the rows: no diagnostics. Else there is none. */
bool nearest_read_beside(const Layers *self, KernelFound *found, const KernelQuery *query,
                         const char *folder);
/* Likewise those of `kernels` that come first in it. */
bool nearest_read_preferred(Layers *self, KernelFound *found, const KernelQuery *query,
                            const char *folder, const char *const *kernels);
/* Of the folders of an engine beside this one that of the wanted version or the next later, else
 * the last before it. Whether there is any. */
bool nearest_read_version(Layers *self, KernelFound *ret_found, const KernelQuery *query,
                          const char *engine, const char *wanted);
/* Of another version of the engine, else of another engine, the first in the list of rules. */
bool nearest_borrow(Layers *self, KernelFound *found, const KernelQuery *query, const char *what);
/* Of the engine's own folder, else borrowed as `what`. 0, or −1 with entries. */
int nearest_read(Layers *self, KernelFound *found, const KernelQuery *query, const char *what,
                 Diag *diag);
/* "vllm-0.24.0" of a table that was found at "…/vllm-0.24.0/gemm.csv.gz". */
const char *nearest_folder_name(const Layers *self, const KernelFound *found);
/* "0.24.0" of a folder "…/vllm-0.24.0"; "" where its name has none. */
const char *nearest_version(const char *folder, Arena *arena);
/* Adds to what was borrowed, from what is said, or (NULL) from where it was found: a roofline
 * without a path. `found` NULL: all tables. */
void nearest_note(Layers *self, KernelFound *found, const char *what, const char *from,
                  double error);
#endif
