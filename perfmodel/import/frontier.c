/* Frontier's data/profiling: Vidur's tables with more columns. Its linear_op.csv has the residual
 * add inside the norms; its attention.csv has rows of unequal prompts, which are passed over. */
#include "perfmodel/import/vidur_tables.h"

const Importer import_frontier = {
    .name = "frontier",
    .help = "the same of Frontier, with linear_op.csv",
    .units = "milliseconds",
    .max_paths = 3,
    .needs_model = true,
    .needs_gpu = true,
    .read = vidur_tables_read,
};
