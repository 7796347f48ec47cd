/* Profiles of other projects, read into ours: one const table in one file, and one line in
 * perfmodel/import/imports.def.
 *
 * An importer knows the columns, units and traps of one format. It adds rows without
 * configurations and sets the facts that say what it assumed; numbering configurations, checking
 * that the times are of a plausible unit, and the facts that all formats share are the same for
 * all and live in import.c. */
#ifndef PERFMODEL_IMPORT_IMPORT_H
#define PERFMODEL_IMPORT_IMPORT_H
#include "base/csv.h"
#include "perfmodel/profile.h"

/* What the user said. */
typedef struct ImportInput {
  const char *path;        // of a file or folder
  const char *const *more; // further files of the same, ended by NULL; NULL: none
  const char *model, *gpu; // keys of the profile; NULL: not said
  const char *data_dir;    // where models and machines are
  // the setup that times are to be of, where the files have operators of many; NULL, 0: not said
  const char *machine, *engine, *quantization, *kv_cache_dtype; // engine: NAME or NAME-VERSION
  int64_t tensor_parallel_size, attention_data_parallel_size, expert_parallel_size;
} ImportInput;

typedef struct Importer {
  const char *name;
  const char *help;  // one line: what the file or folder is
  const char *units; // of the source, for the facts
  bool needs_model;  // the files do not say a name of ours or the number of layers
  bool needs_setup;  // they have operators of many: the machine and its degrees are asked for
  bool takes_more;   // several files are one measurement
  int (*read)(const ImportInput *input, Profile *profile, Diag *diag); // 0, or −1 with entries
} Importer;

/* The i-th importer of the list, NULL past its end. */
const Importer *importer_at(int i);
/* By name, NULL if there is none. */
const Importer *importer_find(const char *name);

/* Fills `profile` (initialised by the caller) from the files. 0, or −1 with entries. */
int import_profile(const Importer *importer, const ImportInput *input, Profile *profile,
                   Diag *diag);

/* For importers. */

typedef int ImportTake(void *context, const Csv *csv, Diag *diag);

/* Reads a table: `row`, zeroed, is filled from each of its rows in turn and handed to `take`, which
 * says 0, or −1 with entries. All rows are looked at. The table has no other columns than these. */
int import_table(const char *path, const CsvColumn *columns, void *row, ImportTake *take,
                 void *context, Diag *diag, Arena *arena);
/* A row with everything that is not said missing. */
ProfileRow import_row(const char *model, const char *gpu, int64_t tensor_parallel_size,
                      ProfileOp op, BatchShape batch, double median_us);
#endif
