/* See compose.h. */
#include "perfmodel/compose/compose.h"
#include "base/folder.h"
#include "base/text.h"
#include "perfmodel/compose/other_gpu.h"
#include "perfmodel/compose/watts.h"
#include "perfmodel/compose/wide.h"
#include "perfmodel/fit_file.h"
#include "perfmodel/gpu_facts.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A folder of an engine has at least one of these. */
static const char PRODUCTS[] = "gemm", LAYERS[] = "linear";

static bool has_tables(const char *path, Arena *arena) {
  return kernel_folder_has(path, PRODUCTS, arena) || kernel_folder_has(path, LAYERS, arena);
}

static bool is_of_engine(const char *path, const char *name, PerfSetup *ret_there, Arena *arena) {
  return setup_parse_folder(ret_there, name, arena) && has_tables(path, arena);
}

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
                         .alone = input->alone,
                         .cache = input->cache ? cache_lasting(input->cache) : NULL,
                         .arena = arena};
  PerfSetup *setup = &ret_layers->setup;
  if (!setup->engine_version)
    setup->engine_version = strchr(kernel_folder_name(folder, arena), '-') + 1;
  if (layers_check_degrees(ret_layers, input->at, diag) || layers_load(ret_layers, diag)) return -1;
  Hardware measured;
  if (is_of_other_gpu(&measured, input, folder, arena)) other_gpu_scale(ret_layers, &measured);
  wide_cross_nodes(ret_layers);
  return 0;
}

static void add_engines(const char *folder, const char ***engines, size_t *n, size_t *capacity,
                        Arena *arena) {
  for (const char *const *name = folder_names(folder, "*", arena); *name; name++) {
    PerfSetup there;
    if (!setup_parse_folder(&there, *name, arena)) continue;
    size_t i = 0;
    while (i < *n && strcmp((*engines)[i], there.engine) != 0)
      i++;
    if (i < *n || !has_tables(arena_printf(arena, "%s/%s", folder, *name), arena)) continue;
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

/* ---- Errors ---- */

/* Adds to a term the error of a part of it, by the share that this has of the term; in the batch
 * where it is more. */
static void widen(TermErrors *errors, const LayerTimes *all, const LayerTimes *added) {
  for (int t = 0; t < PERF_TERMS; t++) {
    double most = 0;
    for (int b = 0; b < LAYER_BATCHES; b++)
      if (all->us[b][t] > 0) most = fmax(most, added->us[b][t] / all->us[b][t]);
    errors->of[t] += most;
  }
}

static void add_error(LayerTimes *sum, const LayerTimes *part, double error) {
  for (int b = 0; b < LAYER_BATCHES; b++)
    for (int t = 0; t < PERF_TERMS; t++)
      sum->us[b][t] += error * part->us[b][t];
}

/* ", experts of trtllm-1.3.0rc20 (41% of the time)", …, and in `sum` what each adds to the error of
 * terms. */
static const char *note_borrowed(Layers *layers, const LayerTimes *all, LayerTimes *sum) {
  const char *text = "";
  for (size_t i = 0; i < layers->n_borrowed; i++) {
    const Borrowed *borrowed = &layers->borrowed[i];
    const LayerTimes part = layers_times_of(layers, borrowed->found);
    text = arena_printf(layers->arena, "%s, %s of %s (%.0f%% of the time)", text, borrowed->what,
                        borrowed->from, 100 * layers_share(&part, all));
    add_error(sum, &part, borrowed->error);
  }
  return text;
}

/* Fits SpreadShare, of layers. */
static double exchange_share(const void *context, double tokens) {
  Layers *layers = (Layers *)context; // whose tables are afterwards as they were
  const int64_t n = tokens < 1 ? 1 : (int64_t)tokens;
  return layers_exchange_us(layers, n) / layers_linear_us(layers, n);
}

static double routed_share(const void *context, double tokens) {
  const Layers *layers = context;
  const int64_t n = tokens < 1 ? 1 : (int64_t)tokens;
  return layers_routed_us(layers, n) / layers_linear_us(layers, n);
}

/* Experts of which times with equal loads were measured, so that those with others follow. */
static void tell_experts_apart(PerfModel *self, const Layers *layers, Arena *arena) {
  if (!layers->setup.balanced || !wide_has_experts(layers)) return;
  perfmodel_share(&self->experts, &self->linear, routed_share, layers, arena);
  self->busiest = 1;
}

/* Communication is a part of `linear`: its curve, and its error by its tables, each point held out
 * once that is of a token or more. */
static void tell_exchange_apart(PerfModel *self, Layers *layers, LayerTimes *sum, Arena *arena) {
  KernelFound *exchanges[EXCHANGES + 1];
  layers_exchanges(layers, exchanges);
  for (int i = 0; exchanges[i]; i++) {
    LayerTimes part = layers_times_of(layers, exchanges[i]);
    for (int b = 0; b < LAYER_BATCHES; b++)
      part.us[b][PERF_HEAD] = 0; // held out with its other rows
    add_error(sum, &part, kernel_table_held_out(&exchanges[i]->table, layers->llm.hidden_size));
  }
  if (exchanges[0])
    perfmodel_share(&self->communication, &self->linear, exchange_share, layers, arena);
}

/* From the errors of terms held out, which the fit has left there, to all that is known. Returns
 * what is borrowed. */
static const char *fill_errors(PerfModel *self, Layers *layers, Arena *arena) {
  const LayerTimes all = layers_times(layers);
  LayerTimes sum = {0};
  const char *taken = note_borrowed(layers, &all, &sum);
  tell_exchange_apart(self, layers, &sum, arena);
  tell_experts_apart(self, layers, arena);
  widen(&self->errors, &all, &sum);
  self->errors.of[PERF_SUM] = residual_spread(&self->residual);
  if (isnan(self->held_out_error)) return taken;
  self->held_out_error = 0;
  for (int b = 0; b < LAYER_BATCHES; b++)
    self->held_out_error = fmax(self->held_out_error, term_errors_of(&self->errors, all.us[b]));
  return taken;
}

/* ---- Composing ---- */

/* What any number of decodes is compiled from. */
typedef struct Composed {
  const char *text; // of the terms, as the file of a fit has them
  size_t length;
  PerfModel model; // of one decode
} Composed;

/* Where a model is composed, and of what. */
typedef struct Composing {
  const ComposeInput *input;
  const char *folder;
} Composing;

static int fit_terms(Composed *self, const Profile *profile, Arena *arena, Diag *diag) {
  Arena *scratch = profile->arena;
  ProfileGroup *groups = NULL;
  profile_groups(profile, &groups, scratch);
  const FitOptions options = {.preset = profile_fact(profile, "engine_preset"),
                              .held_out_alone = true};
  FitResult *result = ARENA_NEW(scratch, FitResult);
  if (fit_group(result, profile, &groups[0], &options, scratch, diag)) return -1;
  const char *text = fit_text(result, profile, &self->length);
  self->text = arena_copy(arena, text, self->length);
  return perfmodel_parse(&self->model, profile->path, self->text, self->length, 1, arena, diag);
}

/* What iterations draw, where kernels of this GPU have their watts; the tables are spent then. */
static const PowerModel *measured_watts(const PerfModel *model, Layers *layers, const char *folder,
                                        Arena *arena) {
  Hardware other;
  if (is_of_other_gpu(&other, &(ComposeInput){.setup = layers->setup}, folder, arena)) return NULL;
  return watts_compose(layers, model, arena);
}

static const char *copy_text(const char *text, Arena *arena) {
  return text ? arena_copy(arena, text, strlen(text)) : NULL;
}

/* What is not kept is in `scratch`. */
static int compose(Composed *self, const Composing *of, Arena *scratch, Arena *arena, Diag *diag) {
  Layers *layers = ARENA_NEW(scratch, Layers);
  Profile profile;
  if (find_layers(layers, of->input, of->folder, scratch, diag)) return -1;
  profile_init(&profile, of->folder, scratch);
  layers_profile(layers, &profile);
  profile_number(&profile);
  if (fit_terms(self, &profile, arena, diag)) return -1;
  PerfModel *model = &self->model;
  if (residual_load(&model->residual, &layers->setup, of->input->data_dir, arena, diag)) return -1;
  model->taken = copy_text(fill_errors(model, layers, arena), arena);
  model->power = measured_watts(model, layers, of->folder, arena);
  model->setup = layers->setup;
  model->setup.model = copy_text(layers->setup.model, arena);
  model->setup.gpu = copy_text(layers->setup.gpu, arena);
  model->setup.engine = copy_text(layers->setup.engine, arena);
  model->setup.engine_version = copy_text(layers->setup.engine_version, arena);
  if (!layers->linear.path) model->kernels = KERNELS_PUBLIC; // most of it is borrowed
  return 0;
}

/* A CacheLoad: keeps nothing of the tables; without entries. */
static const void *try_composed(const void *context, Arena *arena, Diag *diag) {
  (void)diag;
  Composed *self = ARENA_NEW(arena, Composed);
  Arena scratch;
  Diag unknown;
  arena_init(&scratch);
  diag_init(&unknown);
  const bool good = compose(self, context, &scratch, arena, &unknown) == 0;
  diag_done(&unknown);
  arena_done(&scratch);
  return good ? self : NULL;
}

/* Likewise; what entries point to stays. */
static const void *load_composed(const void *context, Arena *arena, Diag *diag) {
  const void *composed = try_composed(context, arena, diag);
  const Composing *of = context;
  ComposeInput anew = *of->input;
  Composed unfinished;
  anew.cache = NULL;
  if (!composed)
    compose(&unfinished, &(Composing){&anew, of->folder}, &diag->arena, &diag->arena, diag);
  return composed;
}

/* All that a composition is made of. */
static const char *cache_key(const Composing *of, Arena *arena) {
  const ComposeInput *input = of->input;
  const char *version = input->setup.engine_version;
  return arena_printf(arena, "composed %s of %s for %s %016" PRIx64 " %016" PRIx64,
                      setup_name(&input->setup, arena), of->folder, version ? version : "any",
                      input->llm->digest, input->hardware->digest);
}

bool compose_can(const ComposeInput *input) {
  PerfSetup there;
  Diag unknown;
  Arena arena;
  arena_init(&arena);
  diag_init(&unknown);
  const char *folder = compose_find(input, &there, &arena);
  const Composing of = {input, folder};
  bool good = false;
  if (folder && input->cache)
    good = cache_get(cache_lasting(input->cache), cache_key(&of, &arena), try_composed, &of,
                     &unknown) != NULL;
  else if (folder)
    good = find_layers(ARENA_NEW(&arena, Layers), input, folder, &arena, &unknown) == 0;
  diag_done(&unknown);
  arena_done(&arena);
  return good;
}

int compose_load(PerfModel *self, const ComposeInput *input, const char *folder,
                 int64_t max_decode_seqs, Arena *arena, Diag *diag) {
  const Composing of = {input, folder};
  const Composed *composed =
      input->cache
          ? cache_get(cache_lasting(input->cache), cache_key(&of, arena), load_composed, &of, diag)
          : load_composed(&of, arena, diag);
  if (!composed ||
      perfmodel_parse(self, folder, composed->text, composed->length, max_decode_seqs, arena, diag))
    return -1;
  const PerfModel *model = &composed->model;
  self->setup = model->setup;
  self->taken = model->taken;
  self->residual = model->residual;
  self->errors = model->errors;
  self->held_out_error = model->held_out_error;
  self->communication = model->communication;
  self->experts = model->experts;
  self->busiest = model->busiest;
  self->kernels = model->kernels;
  self->power = model->power;
  return 0;
}
