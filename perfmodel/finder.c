/* See finder.h. */
#include "perfmodel/finder.h"
#include "base/folder.h"
#include "base/sort.h"
#include "perfmodel/datafile.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The models of vLLM as it was in 2023, from the measurements of Splitwise. */
static const char SET_2023[] = "splitwise-2023";

/* ---- What there is ---- */

typedef struct FileList {
  PerfFile *items;
  size_t count, capacity;
  Arena *arena;
} FileList;

static void add_folder(FileList *list, const char *root, const char *folder) {
  Arena *arena = list->arena;
  const char *path = arena_printf(arena, "%s/%s", root, folder);
  PerfFile file = {.folder = folder};
  setup_parse_folder(&file.setup, folder, arena);
  for (const char *const *name = folder_names(path, ".yaml", arena); *name; name++) {
    if (!setup_parse_name(&file.setup, *name, arena)) continue;
    file.path = arena_printf(arena, "%s/%s.yaml", path, *name);
    file.name = *name;
    ARENA_RESERVE(arena, list->items, list->capacity, list->count + 1);
    list->items[list->count++] = file;
  }
}

static int compare_files(const void *a, const void *b) {
  const PerfFile *left = a, *right = b;
  const int distance = compare_ints(&left->distance, &right->distance);
  const int folder = strcmp(left->folder, right->folder);
  return distance ? distance : folder ? folder : strcmp(left->name, right->name);
}

PerfFile *finder_files(const PerfSetup *asked, const char *data_dir, size_t *ret_n, Arena *arena) {
  FileList list = {.arena = arena};
  const char *root = arena_printf(arena, "%s/fitted", data_dir);
  for (const char *const *folder = folder_names(root, "*", arena); *folder; folder++)
    add_folder(&list, root, *folder);
  for (size_t i = 0; i < list.count && asked; i++)
    list.items[i].distance = setup_distance(&list.items[i].setup, asked);
  if (list.count > 0) qsort(list.items, list.count, sizeof *list.items, compare_files);
  *ret_n = list.count;
  return list.items;
}

static bool is_among(const char *const *names, const char *name) {
  while (*names && strcmp(*names, name) != 0)
    names++;
  return *names;
}

const char *const *finder_engines(const char *data_dir, Arena *arena) {
  const char *const *folders = folder_names(arena_printf(arena, "%s/fitted", data_dir), "*", arena);
  const char *const *composed = compose_engines(NULL, data_dir, arena);
  size_t n = 0, n_composed = 0;
  while (folders[n])
    n++;
  while (composed[n_composed])
    n_composed++;
  const char **engines = ARENA_ARRAY(arena, const char *, n + n_composed + 1);
  memcpy(engines, composed, n_composed * sizeof *engines);
  for (n = n_composed; *folders; folders++) {
    PerfSetup setup;
    if (setup_parse_folder(&setup, *folders, arena) && !is_among(engines, setup.engine))
      engines[n++] = setup.engine;
  }
  return engines;
}

enum { NEAREST_SHOWN = 3 };

static void hint_nearest(const PerfFile *files, size_t n, Diag *diag) {
  const char *names = n > 0 ? "" : "none at all";
  for (size_t i = 0; i < n && i < NEAREST_SHOWN; i++)
    names = arena_printf(&diag->arena, "%s%s%s/%s", names, i > 0 ? ", " : "", files[i].folder,
                         files[i].name);
  diag_hint(diag,
            "'perfmodel: roofline' needs no measurements; the nearest performance models are %s%s",
            names, n > NEAREST_SHOWN ? ", and others: 'tandem list perfmodels'" : "");
}

/* ---- Sets ---- */

static int report_set(const char *set, const PerfSetup *asked, const char *data_dir, Place at,
                      Diag *diag) {
  Arena *arena = &diag->arena;
  PerfSetup engine;
  if (setup_parse_folder(&engine, set, arena)) {
    diag_error(diag, at, "'%s' names an engine, not a set of performance models", set);
    diag_hint(diag, "write perfmodel: {engine: %s, version: %s}", engine.engine,
              engine.engine_version);
    return -1;
  }
  size_t n = 0, n_set = 0;
  PerfFile *files = finder_files(asked, data_dir, &n, arena);
  for (size_t i = 0; i < n; i++)
    if (strcmp(files[i].folder, set) == 0) files[n_set++] = files[i];
  if (n_set == 0) {
    diag_error(diag, at, "unknown set of performance models '%s'", set);
    diag_hint(diag,
              "choose '%s', 'splitwise-sim', 'roofline', the path of a .yaml file, or an engine "
              "such as {engine: vllm}",
              SET_2023);
    return -1;
  }
  diag_error(diag, at,
             "the set '%s' has no iteration times of '%s' on '%s' with tensor_parallel_size %lld",
             set, asked->model, asked->gpu, (long long)asked->tensor_parallel_size);
  hint_nearest(files, n_set, diag);
  return -1;
}

/* What a configuration names that nobody has made yet is said where it is named. */
static int load_path(PerfModel *self, const char *path, int64_t max_decode_seqs, Place at,
                     Arena *arena, Diag *diag) {
  if (access(path, F_OK) == 0) return perfmodel_load(self, path, max_decode_seqs, arena, diag);
  diag_environment(diag, at, "cannot open the performance model '%s': %s", path, strerror(errno));
  diag_hint(diag,
            "'tandem calibrate' measures a profile, and 'tandem fit PROFILE -o %s' makes a "
            "performance model of it",
            path);
  return -1;
}

int perfmodel_load_for(PerfModel *self, const char *set, const char *model, const char *gpu,
                       int64_t tensor_parallel_size, int64_t max_decode_seqs, const char *data_dir,
                       Place at, Arena *arena, Diag *diag) {
  if (datafile_is_path(set)) return load_path(self, set, max_decode_seqs, at, arena, diag);
  const PerfSetup asked = {.model = model,
                           .gpu = gpu,
                           .tensor_parallel_size = tensor_parallel_size,
                           .weight_dtype = DTYPE_BF16,
                           .kv_cache_dtype = DTYPE_BF16};
  const char *name = setup_name(&asked, arena);
  const char *path = datafile_find(data_dir, arena_printf(arena, "fitted/%s", set), name, arena);
  if (!path) return report_set(set, &asked, data_dir, at, diag);
  if (perfmodel_load(self, path, max_decode_seqs, arena, diag)) return -1;
  self->name = arena_printf(arena, "%s/%s", set, name);
  return 0;
}

/* ---- Engines ---- */

/* Whether `version` is what was asked for, 0.24.0 for 0.24. */
static bool is_version(const char *version, const char *asked) {
  const size_t length = strlen(asked);
  return strncmp(version, asked, length) == 0 &&
         (version[length] == '\0' || version[length] == '.');
}

/* ", version 0.24.0 for 0.33": what differs from what was asked for. */
static const char *difference(const PerfSetup *there, const PerfSetup *asked, Arena *arena) {
  const char *text = "";
  const bool is_own = !asked->engine || strcmp(there->engine, asked->engine) == 0;
  if (is_own && asked->engine_version && !is_version(there->engine_version, asked->engine_version))
    text = arena_printf(arena, ", version %s for %s", there->engine_version, asked->engine_version);
  if (asked->kv_cache_dtype == there->kv_cache_dtype) return text;
  return arena_printf(arena, "%s, KV cache in %s for %s", text, dtype_names[there->kv_cache_dtype],
                      dtype_names[asked->kv_cache_dtype]);
}

static int load_file(PerfModel *self, const PerfFile *file, const PerfSetup *asked,
                     int64_t max_decode_seqs, Arena *arena, Diag *diag) {
  PerfModel model;
  if (perfmodel_load(&model, file->path, max_decode_seqs, arena, diag)) return -1;
  const char *name = setup_name(&model.setup, arena),
             *folder = setup_engine_name(&model.setup, arena);
  if (!folder || strcmp(folder, file->folder) != 0 || strcmp(name, file->name) != 0)
    return diag_error(diag, place_of_file(file->path),
                      "the path does not match the content, which belongs in '%s/%s.yaml'",
                      folder ? folder : "unknown", name);
  *self = model;
  self->name = arena_printf(arena, "%s/%s", folder, name);
  self->taken = arena_printf(arena, "%s%s", self->name, difference(&model.setup, asked, arena));
  return 0;
}

static int load_composed(PerfModel *self, const ComposeInput *asked, const PerfSetup *there,
                         const char *folder, int64_t max_decode_seqs, Arena *arena, Diag *diag) {
  PerfModel model;
  if (compose_load(&model, asked, folder, max_decode_seqs, arena, diag)) return -1;
  const char *name = setup_name(&asked->setup, arena), *engine = setup_engine_name(there, arena);
  *self = model;
  self->name = arena_printf(arena, "%s/%s", engine, name);
  if (strcmp(there->gpu, asked->setup.gpu) != 0)
    self->name = arena_printf(arena, "%s from %s", self->name, there->gpu);
  self->taken = arena_printf(arena, "%s%s%s", self->name, difference(there, &asked->setup, arena),
                             model.taken);
  return 0;
}

/* Of the set of 2023, where it serves; 1: it does not. */
static int load_2023(PerfModel *self, const ComposeInput *input, const PerfFile *files, size_t n,
                     int64_t max_decode_seqs, Arena *arena, Diag *diag) {
  const PerfSetup *asked = &input->setup;
  PerfSetup of_2023 = *asked;
  of_2023.engine = of_2023.engine_version = NULL;
  if (dtype_bytes((Dtype)asked->weight_dtype) >= 2) of_2023.weight_dtype = DTYPE_BF16;
  size_t i = 0;
  while (i < n &&
         !(strcmp(files[i].folder, SET_2023) == 0 && setup_serves(&files[i].setup, &of_2023)))
    i++;
  if (i == n) return 1;
  if (perfmodel_load_for(self, SET_2023, asked->model, asked->gpu, asked->tensor_parallel_size,
                         max_decode_seqs, input->data_dir, input->at, arena, diag))
    return -1;
  if (asked->engine_version)
    self->taken =
        arena_printf(arena, "%s, for %s %s", self->name, asked->engine, asked->engine_version);
  return 0;
}

/* Nothing serves: what composing lacked, where it could do so, or which files are nearest. */
static int report_none(const ComposeInput *input, const char *folder, const Diag *lacking,
                       const PerfFile *files, size_t n, Diag *diag) {
  const PerfSetup *asked = &input->setup;
  diag_error(diag, input->at, "there are no iteration times of %s for any version of %s",
             setup_name(asked, &diag->arena), asked->engine);
  if (folder) return diag_append(diag, lacking), -1;
  const char *gpus = "";
  const char *const *gpu = compose_gpus(input->data_dir, &diag->arena);
  for (const char *separator = ""; *gpu; gpu++, separator = ", ")
    gpus = arena_printf(&diag->arena, "%s%s%s", gpus, separator, *gpu);
  if (!*gpus) return hint_nearest(files, n, diag), -1;
  return diag_hint(diag, "'perfmodel: roofline' needs no measurements; kernels were measured on %s",
                   gpus);
}

int perfmodel_load_nearest(PerfModel *self, const ComposeInput *input, bool or_2023,
                           int64_t max_decode_seqs, Arena *arena, Diag *diag) {
  const PerfSetup *asked = &input->setup;
  size_t n = 0, i = 0;
  const PerfFile *files = finder_files(asked, input->data_dir, &n, arena);
  while (i < n && !setup_serves(&files[i].setup, asked))
    i++;
  const PerfFile *file = i < n ? &files[i] : NULL;
  int status = 1;
  if (or_2023 && !asked->engine_version)
    status = load_2023(self, input, files, n, max_decode_seqs, arena, diag);
  if (status <= 0) return status;
  PerfSetup there;
  Diag lacking;
  diag_init(&lacking);
  const char *folder = compose_find(input, &there, arena);
  if (folder && (!file || setup_distance(&there, asked) < file->distance))
    status = load_composed(self, input, &there, folder, max_decode_seqs, arena, &lacking);
  if (status != 0 && file)
    status = load_file(self, file, asked, max_decode_seqs, arena, diag);
  else if (status != 0 && or_2023)
    status = load_2023(self, input, files, n, max_decode_seqs, arena, diag);
  if (status > 0 || (status < 0 && !file))
    status = report_none(input, folder, &lacking, files, n, diag);
  diag_done(&lacking);
  return status;
}
