/* See compose.h. */
#include "perfmodel/compose/compose.h"
#include "base/folder.h"
#include "base/text.h"
#include "perfmodel/compose/layers.h"
#include "perfmodel/fit_file.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char PRODUCTS[] = "gemm"; // a folder of an engine has at least these

static const char *gpu_folder(const char *gpu, const char *data_dir, Arena *arena) {
  return arena_printf(arena, "%s/tables/%s", data_dir, gpu);
}

const char *compose_find(const ComposeInput *input, PerfSetup *ret_there, Arena *arena) {
  const char *root = gpu_folder(input->setup.gpu, input->data_dir, arena), *best = NULL;
  int64_t least = INT64_MAX;
  for (const char *const *name = folder_names(root, "*", arena); *name; name++) {
    const char *path = arena_printf(arena, "%s/%s", root, *name);
    PerfSetup there = input->setup;
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
  widen(&self->errors, &all, &sum);
  self->errors.of[PERF_SUM] = residual_spread(&self->residual);
  if (isnan(self->held_out_error)) return taken;
  self->held_out_error = 0;
  for (int b = 0; b < LAYER_BATCHES; b++)
    self->held_out_error = fmax(self->held_out_error, term_errors_of(&self->errors, all.us[b]));
  return taken;
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
  if (residual_load(&self->residual, &layers->setup, input->data_dir, arena, diag)) return -1;
  const char *taken = fill_errors(self, layers, arena);
  self->setup = layers->setup;
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
