/* See compose.h. */
#include "perfmodel/compose/compose.h"
#include "base/folder.h"
#include "base/text.h"
#include "perfmodel/compose/layers.h"
#include "perfmodel/fit_file.h"
#include <stdlib.h>
#include <string.h>

/* A folder of an engine has at least one of these. */
static const char PRODUCTS[] = "gemm", LAYERS[] = "linear";

static bool is_of_engine(const char *path, const char *name, PerfSetup *ret_there, Arena *arena) {
  return setup_parse_folder(ret_there, name, arena) &&
         (kernel_folder_has(path, PRODUCTS, arena) || kernel_folder_has(path, LAYERS, arena));
}

static const char *gpu_folder(const char *gpu, const char *data_dir, Arena *arena) {
  return arena_printf(arena, "%s/tables/%s", data_dir, gpu);
}

const char *compose_find(const ComposeInput *input, PerfSetup *ret_there, Arena *arena) {
  const char *root = gpu_folder(input->setup.gpu, input->data_dir, arena), *best = NULL;
  int64_t least = INT64_MAX;
  for (const char *const *name = folder_names(root, "*", arena); *name; name++) {
    const char *path = arena_printf(arena, "%s/%s", root, *name);
    PerfSetup there = input->setup;
    if (!is_of_engine(path, *name, &there, arena)) continue;
    // our own stand for no engine
    if (strcmp(there.engine, KERNELS_TANDEM) == 0 &&
        strcmp(input->setup.engine, KERNELS_TANDEM) != 0)
      continue;
    const int64_t distance = setup_distance(&there, &input->setup);
    if (distance >= least) continue;
    least = distance;
    best = path;
    *ret_there = there;
  }
  return best;
}

/* The layers with their tables, or −1 with entries. */
static int find_layers(Layers *ret_layers, const ComposeInput *input, const char *folder,
                       Arena *arena, Diag *diag) {
  *ret_layers = (Layers){.folder = folder,
                         .llm = *input->llm,
                         .hardware = *input->hardware,
                         .setup = input->setup,
                         .at = input->at,
                         .alone = input->alone,
                         .arena = arena};
  PerfSetup *setup = &ret_layers->setup;
  if (!setup->engine_version)
    setup->engine_version = strchr(kernel_folder_name(folder, arena), '-') + 1;
  return layers_check_degrees(ret_layers, input->at, diag) ? -1 : layers_load(ret_layers, diag);
}

bool compose_can(const ComposeInput *input) {
  PerfSetup there;
  Diag unknown;
  Arena arena;
  arena_init(&arena);
  diag_init(&unknown);
  Layers *layers = ARENA_NEW(&arena, Layers);
  const char *folder = compose_find(input, &there, &arena);
  const bool good = folder && find_layers(layers, input, folder, &arena, &unknown) == 0;
  diag_done(&unknown);
  arena_done(&arena);
  return good;
}

static void add_engines(const char *folder, const char ***engines, size_t *n, size_t *capacity,
                        Arena *arena) {
  for (const char *const *name = folder_names(folder, "*", arena); *name; name++) {
    PerfSetup there;
    const char *path = arena_printf(arena, "%s/%s", folder, *name);
    if (!is_of_engine(path, *name, &there, arena)) continue;
    size_t i = 0;
    while (i < *n && strcmp((*engines)[i], there.engine) != 0)
      i++;
    if (i < *n) continue;
    ARENA_RESERVE(arena, *engines, *capacity, *n + 2);
    (*engines)[(*n)++] = there.engine;
  }
}

const char *const *compose_gpus(const char *data_dir, Arena *arena) {
  const char *root = arena_printf(arena, "%s/tables", data_dir);
  const char *const *names = folder_names(root, "*", arena);
  size_t n = 0, kept = 0;
  while (names[n])
    n++;
  const char **gpus = ARENA_ARRAY(arena, const char *, n + 1);
  for (size_t i = 0; i < n; i++)
    if (*folder_names(gpu_folder(names[i], data_dir, arena), "*", arena)) gpus[kept++] = names[i];
  return gpus;
}

const char *const *compose_engines(const char *gpu, const char *data_dir, Arena *arena) {
  size_t n = 0, capacity = 0;
  const char **engines = NULL;
  ARENA_RESERVE(arena, engines, capacity, 1);
  const char *const *gpus = compose_gpus(data_dir, arena);
  for (; *gpus; gpus++)
    if (!gpu || strcmp(gpu, *gpus) == 0)
      add_engines(gpu_folder(*gpus, data_dir, arena), &engines, &n, &capacity, arena);
  engines[n] = NULL;
  return engines;
}

/* The terms of a profile, as the file of a fit has them. */
static int fit_terms(PerfModel *self, const Profile *profile, int64_t max_decode_seqs, Arena *arena,
                     Diag *diag) {
  Arena *scratch = profile->arena;
  ProfileGroup *groups = NULL;
  profile_groups(profile, &groups, scratch);
  const FitOptions options = {.preset = profile_fact(profile, "engine_preset")};
  FitResult *result = ARENA_NEW(scratch, FitResult);
  if (fit_group(result, profile, &groups[0], &options, scratch, diag)) return -1;
  size_t length = 0;
  const char *text = fit_text(result, profile, &length);
  return perfmodel_parse(self, profile->path, text, length, max_decode_seqs, arena, diag);
}

/* ", experts of trtllm-1.3.0rc20 (41% of the time)", …; each adds to the error of iterations what
 * its own error is by its share of them. */
static const char *note_borrowed(Layers *layers, double *error) {
  const char *text = "";
  for (size_t i = 0; i < layers->n_borrowed; i++) {
    const Borrowed *borrowed = &layers->borrowed[i];
    const double share = layers_borrowed_share(layers, borrowed);
    text = arena_printf(layers->arena, "%s, %s of %s (%.0f%% of the time)", text, borrowed->what,
                        borrowed->from, 100 * share);
    *error += share * borrowed->error;
  }
  return text;
}

/* All that is not the model itself is in `scratch`. */
static int load(PerfModel *self, const ComposeInput *input, const char *folder,
                int64_t max_decode_seqs, Arena *scratch, Arena *arena, Diag *diag) {
  Layers *layers = ARENA_NEW(scratch, Layers);
  Profile profile;
  if (find_layers(layers, input, folder, scratch, diag)) return -1;
  profile_init(&profile, folder, scratch);
  layers_profile(layers, &profile);
  profile_number(&profile);
  if (fit_terms(self, &profile, max_decode_seqs, arena, diag)) return -1;
  const char *version = layers->setup.engine_version;
  const char *taken = note_borrowed(layers, &self->held_out_error);
  self->setup = layers->setup;
  if (!layers->linear.path) self->kernels = KERNELS_PUBLIC; // most of it is borrowed
  self->setup.engine_version = arena_copy(arena, version, strlen(version));
  self->taken = arena_copy(arena, taken, strlen(taken));
  return 0;
}

int compose_load(PerfModel *self, const ComposeInput *input, const char *folder,
                 int64_t max_decode_seqs, Arena *arena, Diag *diag) {
  Arena scratch;
  Diag unknown;
  arena_init(&scratch);
  diag_init(&unknown);
  int status = load(self, input, folder, max_decode_seqs, &scratch, arena, &unknown);
  if (status) // once more, since what entries point to must stay
    status = load(self, input, folder, max_decode_seqs, arena, arena, diag);
  diag_done(&unknown);
  arena_done(&scratch);
  return status;
}
