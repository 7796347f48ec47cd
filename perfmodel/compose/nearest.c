/* See nearest.h. */
#include "perfmodel/compose/nearest.h"
#include "perfmodel/compose/kernel_write.h"
#include <string.h>

bool nearest_read_beside(const Layers *self, KernelFound *found, const KernelQuery *query,
                         const char *folder) {
  Diag unknown;
  diag_init(&unknown);
  const bool good = kernel_read(found, query, folder, self->cache, self->arena, &unknown) == 0;
  if (!good) *found = (KernelFound){.path = NULL};
  diag_done(&unknown);
  return good;
}

const char *nearest_version(const char *folder, Arena *arena) {
  const char *dash = strchr(kernel_folder_name(folder, arena), '-');
  return dash ? dash + 1 : "";
}

bool nearest_read_version(Layers *self, KernelFound *ret_found, const KernelQuery *query,
                          const char *engine, const char *wanted) {
  const char *const *beside = kernel_folders_beside(self->folder, engine, query->name, self->arena);
  const char *best = "";
  bool any = false;
  for (; *beside; beside++) {
    KernelFound found;
    const char *version = nearest_version(*beside, self->arena);
    const bool is_after = wanted && version_compare(version, wanted) >= 0;
    const bool was_after = wanted && version_compare(best, wanted) >= 0;
    const bool is_better =
        is_after == was_after ? (version_compare(version, best) < 0) == is_after : is_after;
    if ((any && !is_better) || !nearest_read_beside(self, &found, query, *beside)) continue;
    *ret_found = found;
    best = version;
    any = true;
  }
  return any;
}

const char *nearest_folder_name(const Layers *self, const KernelFound *found) {
  const char *slash = strrchr(found->path, '/');
  return kernel_folder_name(arena_copy(self->arena, found->path, (size_t)(slash - found->path)),
                            self->arena);
}

void nearest_note(Layers *self, KernelFound *found, const char *what, const char *from,
                  double error) {
  if (!from)
    from = !found        ? kernel_folder_name(self->folder, self->arena)
           : found->path ? nearest_folder_name(self, found)
                         : "a roofline";
  ARENA_RESERVE(self->arena, self->borrowed, self->borrowed_capacity, self->n_borrowed + 1);
  self->borrowed[self->n_borrowed++] = (Borrowed){found, what, from, error};
}

/* The error of a table of another engine. For products of 16 bits all call cuBLAS, for those of
 * fewer each has kernels of its own. */
static double other_engine(const KernelQuery *query) {
  if (strcmp(query->name, "gemm") != 0) return OTHER_ENGINE;
  const bool is_16bit = strcmp(query->filters[0].texts[0], kernel_dtype_name(DTYPE_BF16)) == 0;
  return is_16bit ? OTHER_VERSION : OTHER_PRODUCTS;
}

bool nearest_borrow(Layers *self, KernelFound *found, const KernelQuery *query, const char *what) {
  const char *own = self->setup.engine;
  double error = OTHER_VERSION;
  bool any = nearest_read_version(self, found, query, own, self->setup.engine_version);
  for (int i = 0; !any && engine_rules_names[i]; i++) {
    error = other_engine(query);
    any = strcmp(engine_rules_names[i], own) != 0 &&
          strcmp(engine_rules_names[i], KERNELS_TANDEM) != 0 && // is no engine
          nearest_read_version(self, found, query, engine_rules_names[i], NULL);
  }
  if (any) nearest_note(self, found, what, NULL, error);
  return any;
}

bool nearest_read_preferred(Layers *self, KernelFound *found, const KernelQuery *query,
                            const char *folder, const char *const *kernels) {
  KernelQuery preferred = *query;
  KernelFilter *filter = preferred.filters;
  while (filter->column)
    filter++;
  *filter = (KernelFilter){"kernel_source", .may_miss = true};
  memcpy(filter->texts, kernels, sizeof filter->texts);
  return kernels[0] && nearest_read_beside(self, found, &preferred, folder);
}

int nearest_read(Layers *self, KernelFound *found, const KernelQuery *query, const char *what,
                 Diag *diag) {
  Diag lacking;
  diag_init(&lacking);
  int error = kernel_read(found, query, self->folder, self->cache, self->arena, &lacking);
  if (error && nearest_borrow(self, found, query, what)) error = 0;
  if (error) diag_append(diag, &lacking);
  diag_done(&lacking);
  return error;
}
