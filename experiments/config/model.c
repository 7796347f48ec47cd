/* The models of a run: their shapes by name, and number formats in place of those of its file. */
#include "base/text.h"
#include "experiments/config/config.h"
#include <string.h>

typedef struct ModelKeys {
  const char *name;
  LlmFormats formats;
} ModelKeys;

#define FORMAT(name, field, ...)                                                                   \
  OPTION_AT(ModelKeys, name, formats.field, OPTION_CHOICE, .choices = dtype_names, __VA_ARGS__)

const OptionSpec config_model_options[] = {
    OPTION_OF(
        ModelKeys, name, OPTION_STRING, .required = true,
        .help =
            "Name of a model, or the path of its .yaml, .gguf or Hugging Face config.json file.",
        .listed = "models"),
    FORMAT("quantization", weight_dtype,
           .help = "Number format of all weight matrices of the layers.",
           .absent = "that of the model's file"),
    FORMAT("attention_dtype", attention_dtype, .help = "Number format of the attention matrices.",
           .absent = "quantization"),
    FORMAT("expert_dtype", expert_dtype, .help = "Number format of the matrices of routed experts.",
           .absent = "quantization"),
    FORMAT("kv_cache_dtype", kv_cache_dtype, .help = "Number format of the KV cache.",
           .absent = "that of the model's file"),
    {0}};

/* A model to load, and as what: the context of a CacheLoad. */
typedef struct ModelFact {
  const Config *config;
  const char *name;
  LlmFormats formats;
  Place at;
} ModelFact;

static const char MODEL_KEY[] = "model ";

static const void *load_model(const void *context, Arena *arena, Diag *diag) {
  const ModelFact *fact = context;
  Llm *model = ARENA_NEW(arena, Llm);
  return llm_load_as(model, fact->name, &fact->formats, fact->config->perfmodel_root, fact->at,
                     arena, diag)
             ? NULL
             : model;
}

static int bind_model(const Config *self, const Node *node, Llm *ret, Arena *arena, Diag *diag) {
  static const OptionSpec bare = {.key = "model", .type = OPTION_STRING};
  ModelKeys keys = {.formats = {LLM_UNSAID, LLM_UNSAID, LLM_UNSAID, LLM_UNSAID}};
  const bool map = node->kind == NODE_MAP;
  if (map ? option_bind(config_model_options, node, NULL, node->at, &keys, diag)
          : option_bind_one(&bare, node, &keys.name, diag))
    return -1;
  const ModelFact fact = {self, config_data_name(self, keys.name, arena), keys.formats,
                          map ? config_place(node, "name") : node->at};
  const LlmFormats *as = &fact.formats;
  const char *key =
      arena_printf(arena, "%s%s as %d %d %d %d", MODEL_KEY, fact.name, as->weight_dtype,
                   as->attention_dtype, as->expert_dtype, as->kv_cache_dtype);
  const Llm *model = cache_get(cache_lasting(self->cache), key, load_model, &fact, diag);
  if (!model) return -1;
  *ret = *model;
  return 0;
}

/* Each by the name that pools and components call it. */
static int bind_several(Config *self, const Node *node, Arena *arena, Diag *diag) {
  enum { MODELS_MAX = 64 };
  if (node->kind != NODE_MAP || node->n_children == 0 || node->n_children > MODELS_MAX) {
    diag_error(diag, node->at, "'models' must be a map of 1 to %d names to models", MODELS_MAX);
    return diag_hint(
        diag, "for example {chat: llama3.1-70b, code: {name: codellama-34b, quantization: fp8}}");
  }
  int status = 0;
  uint32_t i = 0;
  for (const Node *child = node->first; child; child = child->next, i++) {
    self->specs[i].name = child->key;
    status |= bind_model(self, child, &self->models[i], arena, diag);
  }
  self->n_models = i;
  return status;
}

int config_bind_models(Config *self, const Node *one, const Node *several, Arena *arena,
                       Diag *diag) {
  const size_t n = several && several->n_children > 0 ? (size_t)several->n_children : 1;
  self->models = ARENA_ARRAY(arena, Llm, n);
  self->specs = ARENA_ARRAY(arena, ModelSpec, n);
  self->n_models = 1;
  if (one && several)
    return diag_error(diag, several->key_at, "'model' and 'models' exclude each other");
  if (!one && !several) {
    diag_error(diag, self->root->at, "missing key 'model'");
    return diag_hint(diag, "set 'model', or 'models' as a map of names to several");
  }
  const int status = one ? bind_model(self, one, &self->models[0], arena, diag)
                         : bind_several(self, several, arena, diag);
  self->model = self->models[0];
  return status;
}

const char *config_model_name(const Config *self, Arena *arena) {
  const char *names = self->models[0].name;
  for (uint32_t i = 1; i < self->n_models; i++)
    names = arena_printf(arena, "%s+%s", names, self->models[i].name);
  return names;
}

int config_need_one_model(const Config *self, const char *what, Diag *diag) {
  if (self->n_models == 1) return 0;
  return diag_error(diag, config_place(self->root, "models"), "%s supports one model, not %u", what,
                    self->n_models);
}

int config_find_model(const Config *self, Place at, const char *what, const char *name,
                      uint32_t *ret, Diag *diag) {
  const bool several = node_find(self->root, "models");
  *ret = 0;
  if (!name && self->n_models == 1) return 0;
  const char **names = ARENA_ARRAY(&diag->arena, const char *, (size_t)self->n_models + 1);
  for (uint32_t i = 0; several && i < self->n_models; i++) {
    names[i] = self->specs[i].name;
    if (name && strcmp(name, names[i]) == 0) return *ret = i, 0;
  }
  if (!name)
    return diag_error(diag, at, "%s needs a 'model', because the configuration has %u", what,
                      self->n_models);
  if (!several)
    return diag_error(diag, at,
                      "'model' must name one of 'models', which this configuration does not have");
  diag_error(diag, at, "there is no model '%s' in 'models'", name);
  return diag_hint_near(diag, name, names);
}

void config_note_models(Cache *cache, FILE *out) {
  Arena arena;
  arena_init(&arena);
  const void *const *models = cache_all(cache_lasting(cache), MODEL_KEY, &arena);
  for (; *models; models++) {
    const Llm *llm = *models;
    if (llm->taken_as)
      fprintf(out, "note: model '%s': %s\n", text_shown(llm->name, &arena), llm->taken_as);
  }
  arena_done(&arena);
}
