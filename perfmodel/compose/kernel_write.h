/* Writes tables of kernels (tables/README.md) of profiles of `tandem calibrate`: their operators,
 * by the shape that one GPU had of the model, a row for each curve. Several profiles of one GPU
 * make one folder, so that more models are one more profile; the same profiles make the same bytes.
 */
#ifndef PERFMODEL_COMPOSE_KERNEL_WRITE_H
#define PERFMODEL_COMPOSE_KERNEL_WRITE_H
#include "perfmodel/llm.h"
#include "perfmodel/profile.h"

/* Formats as tables call them; NULL: they have none. */
const char *kernel_dtype_name(int dtype);

/* Writes root/GPU/tandem-DATE, a table for each kind of operators that was measured, and gives the
 * folder; DATE is the last day of the profiles. Models are looked up in data_dir. 0, or −1 with
 * entries. */
int kernel_write(const Profile *profiles, size_t n, const char *root, const char *data_dir,
                 const char **ret_folder, Arena *arena, Diag *diag);
/* The model of a group, "llama3-8b-2l" with two of its layers, in the weights that the profile
 * names. */
int kernel_load_model(Llm *ret_llm, const Profile *profile, const char *name, const char *data_dir,
                      Arena *arena, Diag *diag);
/* Whether a row is of a burst, cold and alone, in a graph: no other is in a table. */
bool kernel_row_counts(const ProfileRow *row);
#endif
