/* See compose.h. */
#include "perfmodel/compose/compose.h"
#include "base/folder.h"
#include "base/text.h"
#include "perfmodel/compose/other_gpu.h"
#include "perfmodel/fit_file.h"
#include "perfmodel/gpu_facts.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char PRODUCTS[] = "gemm"; // a folder of an engine has at least these

static const char *gpu_folder(const char *gpu, const char *data_dir, Arena *arena) {
  return arena_printf(arena, "%s/tables/%s", data_dir, gpu);
}

/* That of a GPU which is nearest; NULL: it has none. */
static const char *find_folder(const ComposeInput *input, const char *gpu, PerfSetup *ret_there,
                               Arena *arena) {
  const char *root = gpu_folder(gpu, input->data_dir, arena), *best = NULL;
  int64_t least = INT64_MAX;
  for (const char *const *name = folder_names(root, "*", arena); *name; name++) {
    const char *path = arena_printf(arena, "%s/%s", root, *name);
    PerfSetup there = input->setup;
    there.gpu = gpu;
    if (!setup_parse_folder(&there, *name, arena) || !kernel_folder_has(path, PRODUCTS, arena))
      continue;
    const int64_t distance = setup_distance(&there, &input->setup);
    if (distance >= least) continue;
    least = distance;
    best = path;
    *ret_there = there;
  }
  return best;
}

const char *compose_find(const ComposeInput *input, PerfSetup *ret_there, Arena *arena) {
  const char *own = find_folder(input, input->setup.gpu, ret_there, arena);
  Hardware other;
  if (own || !other_gpu_find(&other, input->hardware, compose_gpus(input->data_dir, arena),
                             input->data_dir, arena))
    return own;
  return find_folder(input, other.gpu, ret_there, arena);
}

/* The GPU that a folder of tables is of, where that is another one. */
static bool is_of_other_gpu(Hardware *ret_measured, const ComposeInput *input, const char *folder,
                            Arena *arena) {
  const char *slash = strrchr(folder, '/');
  if (!slash) return false;
  const char *gpu = kernel_folder_name(arena_copy(arena, folder, (size_t)(slash - folder)), arena);
  return strcmp(gpu, input->setup.gpu) != 0 &&
         gpu_facts_find(ret_measured, gpu, input->data_dir, arena);
}

/* The layers with their tables, or −1 with entries. */
static int find_layers(Layers *ret_layers, const ComposeInput *input, const char *folder,
                       Arena *arena, Diag *diag) {
  *ret_layers = (Layers){.folder = folder,
                         .llm = *input->llm,
                         .hardware = *input->hardware,
                         .setup = input->setup,
                         .at = input->at,
                         .arena = arena};
  PerfSetup *setup = &ret_layers->setup;
  if (!setup->engine_version)
    setup->engine_version = strchr(kernel_folder_name(folder, arena), '-') + 1;
  if (layers_check_degrees(ret_layers, input->at, diag) || layers_load(ret_layers, diag)) return -1;
  Hardware measured;
  if (is_of_other_gpu(&measured, input, folder, arena)) other_gpu_scale(ret_layers, &measured);
  return 0;
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
    if (!setup_parse_folder(&there, *name, arena) || !kernel_folder_has(path, PRODUCTS, arena))
      continue;
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

/* A composed model in a form that any number of decodes is compiled from. */
typedef struct Composed {
  PerfSetup setup;
  const char *text; // of its terms, as the file of a fit has them
  size_t length;
  const char *taken;  // what was borrowed
  double added_error; // by that
} Composed;

static int fit_terms(Composed *self, const Profile *profile, Diag *diag) {
  Arena *scratch = profile->arena;
  ProfileGroup *groups = NULL;
  profile_groups(profile, &groups, scratch);
  const FitOptions options = {.preset = profile_fact(profile, "engine_preset")};
  FitResult *result = ARENA_NEW(scratch, FitResult);
  if (fit_group(result, profile, &groups[0], &options, scratch, diag)) return -1;
  self->text = fit_text(result, profile, &self->length);
  return 0;
}

/* ", experts of trtllm-1.3.0rc20 (41% of the time)", …; each adds to the error of iterations what
 * its own error is by its share of them. */
static void note_borrowed(Composed *self, Layers *layers) {
  self->taken = "";
  for (size_t i = 0; i < layers->n_borrowed; i++) {
    const Borrowed *borrowed = &layers->borrowed[i];
    const double share = layers_borrowed_share(layers, borrowed);
    self->taken = arena_printf(layers->arena, "%s, %s of %s (%.0f%% of the time)", self->taken,
                               borrowed->what, borrowed->from, 100 * share);
    self->added_error += share * borrowed->error;
  }
}

/* Where a model is composed, and of what. */
typedef struct Composing {
  const ComposeInput *input;
  const char *folder;
} Composing;

/* What entries point to is in the arena of `diag`, the tables with them. */
static int compose(Composed *self, const Composing *of, Arena *scratch, Diag *diag) {
  Layers *layers = ARENA_NEW(scratch, Layers);
  Profile profile;
  if (find_layers(layers, of->input, of->folder, scratch, diag)) return -1;
  profile_init(&profile, of->folder, scratch);
  layers_profile(layers, &profile);
  profile_number(&profile);
  if (fit_terms(self, &profile, diag)) return -1;
  self->setup = layers->setup;
  note_borrowed(self, layers);
  return 0;
}

static const char *copy_text(const char *text, Arena *arena) {
  return text ? arena_copy(arena, text, strlen(text)) : NULL;
}

/* A CacheLoad: keeps nothing of the tables. */
static const void *load_composed(const void *context, Arena *arena, Diag *diag) {
  Composed *kept = NULL, composed = {0};
  Arena scratch;
  Diag unknown;
  arena_init(&scratch);
  diag_init(&unknown);
  if (compose(&composed, context, &scratch, &unknown) == 0) {
    kept = ARENA_NEW(arena, Composed);
    *kept = composed;
    kept->text = arena_copy(arena, composed.text, composed.length);
    kept->taken = copy_text(composed.taken, arena);
    kept->setup.model = copy_text(composed.setup.model, arena);
    kept->setup.gpu = copy_text(composed.setup.gpu, arena);
    kept->setup.engine = copy_text(composed.setup.engine, arena);
    kept->setup.engine_version = copy_text(composed.setup.engine_version, arena);
  } else { // once more, since what entries point to must stay
    compose(&composed, context, &diag->arena, diag);
  }
  diag_done(&unknown);
  arena_done(&scratch);
  return kept;
}

/* All that a composition is made of. */
static const char *cache_key(const Composing *of, Arena *arena) {
  const ComposeInput *input = of->input;
  const char *version = input->setup.engine_version;
  return arena_printf(arena, "composed %s of %s for %s %016" PRIx64 " %016" PRIx64,
                      setup_name(&input->setup, arena), of->folder, version ? version : "any",
                      input->llm->digest, input->hardware->digest);
}

int compose_load(PerfModel *self, const ComposeInput *input, const char *folder,
                 int64_t max_decode_seqs, Arena *arena, Diag *diag) {
  const Composing of = {input, folder};
  const Composed *composed =
      input->cache ? cache_get(input->cache, cache_key(&of, arena), load_composed, &of, diag)
                   : load_composed(&of, arena, diag);
  if (!composed ||
      perfmodel_parse(self, folder, composed->text, composed->length, max_decode_seqs, arena, diag))
    return -1;
  self->setup = composed->setup;
  self->taken = composed->taken;
  self->held_out_error += composed->added_error;
  return 0;
}
