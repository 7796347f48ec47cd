/* The model of a run: its shape by name, and number formats in place of those of its file. */
#include "experiments/config/config.h"
#include "sim/base/text.h"

typedef struct ModelKeys {
  const char *name;
  LlmFormats formats;
} ModelKeys;

#define FORMAT(name, field, ...)                                                                   \
  {                                                                                                \
    .key = name, .type = OPTION_CHOICE, .offset = offsetof(ModelKeys, formats.field),              \
    .choices = dtype_names, __VA_ARGS__                                                            \
  }

const OptionSpec config_model_options[] = {
    {.key = "name",
     .type = OPTION_STRING,
     .offset = offsetof(ModelKeys, name),
     .required = true,
     .help = "of a model, or the path of its .yaml or Hugging Face config.json",
     .listed = "models"},
    FORMAT("quantization", weight_dtype, .help = "format of all matrices of its layers",
           .absent = "as the model's file has it"),
    FORMAT("attention_dtype", attention_dtype, .help = "of those of attention",
           .absent = "quantization"),
    FORMAT("expert_dtype", expert_dtype, .help = "of those of routed experts",
           .absent = "quantization"),
    FORMAT("kv_cache_dtype", kv_cache_dtype, .help = "of KV",
           .absent = "as the model's file has it"),
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

int config_bind_model(Config *self, const Node *node, Arena *arena, Diag *diag) {
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
  const Llm *model = config_cache_get(self->cache, key, load_model, &fact, diag);
  if (!model) return -1;
  self->model = *model;
  return 0;
}

void config_note_models(ConfigCache *cache, FILE *out) {
  Arena arena;
  arena_init(&arena);
  const void *const *models = config_cache_all(cache, MODEL_KEY, &arena);
  for (; *models; models++) {
    const Llm *llm = *models;
    if (llm->taken_as)
      fprintf(out, "note: model '%s': %s\n", text_shown(llm->name, &arena), llm->taken_as);
  }
  arena_done(&arena);
}
