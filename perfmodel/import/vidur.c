/* Vidur's data/profiling: compute/GPU/MODEL/mlp.csv and attention.csv, and
 * network/.../all_reduce.csv. */
#include "perfmodel/import/vidur_tables.h"

const Importer import_vidur = {
    .name = "vidur",
    .help = "Vidur's mlp.csv, attention.csv and all_reduce.csv, or some",
    .units = "milliseconds",
    .max_paths = 3,
    .needs_model = true,
    .needs_gpu = true,
    .read = vidur_tables_read,
};
