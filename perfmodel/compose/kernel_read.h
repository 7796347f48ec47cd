/* Reads what is asked for out of one of AIConfigurator's tables: FOLDER/NAME.csv, plain or gzipped,
 * or NAME_perf.csv, as the names in its wheel are. Times are `latency_us`, or the wheel's own
 * `latency`, milliseconds.
 *
 * A table of this project has curves as rows: in the place of the last key and the time it has a
 * column NAME=VALUE for each value of that key, whose cells are microseconds or empty.
 *
 * Rows of other values than those asked for are passed over; when none is left, the column that
 * lacks the value is named, with the nearest that it has. Columns that a table must have are those
 * of its keys and filters; what else stands in such tables is known by name, and anything further
 * is refused. */
#ifndef PERFMODEL_COMPOSE_KERNEL_READ_H
#define PERFMODEL_COMPOSE_KERNEL_READ_H
#include "base/cache.h"
#include "perfmodel/compose/kernel_table.h"
#include <stdbool.h>

enum { KERNEL_FILTERS = 10, KERNEL_CHOICES = 5 };

/* What a column must say: one of the texts, the first of them that has rows, or the number. */
typedef struct KernelFilter {
  const char *column;
  const char *texts[KERNEL_CHOICES]; // texts[0] NULL: the number
  int64_t number;
  bool may_miss; // the column may be absent: all of the table is so
} KernelFilter;

typedef struct KernelQuery {
  const char *name;                     // gemm
  KernelFilter filters[KERNEL_FILTERS]; // ended by one without a column
  const char *keys[KERNEL_KEYS + 1];    // columns, NULL-terminated
} KernelQuery;

typedef struct KernelFound {
  KernelTable table;
  const char *path;
  const char *texts[KERNEL_FILTERS]; // which of the filters' texts it is
  size_t n_rows;                     // of the file
} KernelFound;

/* Whether the folder has the table. */
bool kernel_folder_has(const char *folder, const char *name, Arena *arena);
/* The folders beside this one that are of `engine` (all: NULL) and have the table, in order of
 * their names, NULL-terminated. */
const char *const *kernel_folders_beside(const char *folder, const char *engine, const char *name,
                                         Arena *arena);
/* ENGINE-VERSION, the last part of a folder's path. */
const char *kernel_folder_name(const char *folder, Arena *arena);
/* 0, or −1 with entries. `cache` keeps the rows of the file for other queries of the same columns,
 * and entries may point into it; NULL: they are read anew, into `arena`. */
int kernel_read(KernelFound *ret_found, const KernelQuery *query, const char *folder, Cache *cache,
                Arena *arena, Diag *diag);
#endif
