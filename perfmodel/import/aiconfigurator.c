/* NVIDIA AIConfigurator's tables of one system and one version of an engine, a folder
 * ENGINE-VERSION with gemm.csv.gz, context_attention.csv.gz, …: operators of many shapes, of which
 * the layers of one model in one setup are composed (layers.h).
 *
 * Linear rows are at every number of tokens that products were measured at, attention rows at every
 * batch of the tables for the heads of one GPU. With attention data parallelism D a row is of D
 * groups that do the same; fewer sequences than groups take the time of one each. */
#include "perfmodel/compose/layers.h"
#include "perfmodel/import/import.h"
#include <string.h>

typedef struct Composing {
  const ImportInput *input;
  Profile *profile;
  Layers layers;
} Composing;

/* ---- The setup ---- */

/* "vllm-0.24.0", what the user said or the name of the folder; an engine alone has the version of
 * its folder. */
static void name_engine(Composing *self) {
  Arena *arena = self->profile->arena;
  PerfSetup *setup = &self->layers.setup;
  const char *folder = kernel_folder_name(self->input->path, arena);
  const char *name = self->input->engine ? self->input->engine : folder;
  const char *dash = strchr(name, '-');
  setup->engine = dash ? arena_copy(arena, name, (size_t)(dash - name)) : name;
  const size_t length = strlen(setup->engine);
  if (dash)
    setup->engine_version = dash + 1;
  else if (strncmp(folder, setup->engine, length) == 0 && folder[length] == '-')
    setup->engine_version = folder + length + 1;
}

/* A format that was asked for; −1: none was. */
static int find_format(const char *name, const char *option, int *ret_dtype, Diag *diag) {
  *ret_dtype = -1;
  if (!name) return 0;
  for (int i = 0; dtype_names[i]; i++)
    if (strcmp(dtype_names[i], name) == 0) *ret_dtype = i;
  if (*ret_dtype >= 0) return 0;
  diag_error(diag, place_of_file(option), "unknown format '%s'", name);
  diag_hint_near(diag, name, dtype_names);
  return -1;
}

static int find_model(Composing *self, Diag *diag) {
  const ImportInput *input = self->input;
  LlmFormats formats = {.attention_dtype = -1, .expert_dtype = -1};
  if (find_format(input->quantization, "--quantization", &formats.weight_dtype, diag) |
      find_format(input->kv_cache_dtype, "--kv-cache-dtype", &formats.kv_cache_dtype, diag))
    return -1;
  Llm *llm = &self->layers.llm;
  if (llm_load_as(llm, input->model, &formats, input->data_dir, place_of_file("--model"),
                  self->profile->arena, diag))
    return -1;
  self->layers.setup.model = llm->name;
  self->layers.setup.weight_dtype = llm_quantization(llm);
  self->layers.setup.kv_cache_dtype = llm->kv_cache_dtype;
  return 0;
}

static int find_setup(Composing *self, Diag *diag) {
  const ImportInput *input = self->input;
  Layers *layers = &self->layers;
  name_engine(self);
  int error = hardware_load(&layers->hardware, input->machine, input->data_dir,
                            place_of_file("--machine"), self->profile->arena, diag);
  error |= find_model(self, diag);
  if (error) return -1;
  layers->setup.gpu = input->gpu ? input->gpu : layers->hardware.gpu;
  layers->setup.tensor_parallel_size = input->tensor_parallel_size;
  layers->setup.attention_data_parallel_size = input->attention_data_parallel_size;
  layers->setup.expert_parallel_size = input->expert_parallel_size;
  return layers_check_degrees(layers, place_of_file("--tensor-parallel"), diag);
}

/* "h100_sxm/vllm-0.24.0": the names of a system and of an engine there. */
static void set_source(const Composing *self) {
  const char *path = self->input->path, *begin = path + strlen(path);
  for (int slashes = 0; begin > path; begin--) {
    slashes += begin[-1] == '/' && begin[0] != '\0';
    if (slashes == 2) break;
  }
  profile_set_fact(self->profile, "source", begin);
}

static int read_tables(const ImportInput *input, Profile *profile, Diag *diag) {
  Composing *self = ARENA_NEW(profile->arena, Composing);
  self->input = input;
  self->profile = profile;
  self->layers.folder = input->path;
  self->layers.at = place_of_file(input->path);
  self->layers.arena = profile->arena;
  if (find_setup(self, diag) || layers_load(&self->layers, diag)) return -1;
  set_source(self);
  layers_profile(&self->layers, profile);
  return 0;
}

const Importer import_aiconfigurator = {
    .name = "aiconfigurator",
    .help = "tables of AIConfigurator: a folder ENGINE-VERSION",
    .units = "microseconds; milliseconds where the column is 'latency'",
    .needs_model = true,
    .needs_setup = true,
    .read = read_tables,
};
