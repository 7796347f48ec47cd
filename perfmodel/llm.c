/* Model shapes: our own files through an option table, Hugging Face's config.json through a table
 * of the names that its families give the same facts. */
#include "perfmodel/llm.h"
#include "perfmodel/datafile.h"
#include <string.h>

#define FIELD(field, kind) .key = #field, .type = kind, .offset = offsetof(Llm, field)
#define COUNT(field, limit, ...)                                                                   \
  { FIELD(field, OPTION_INT), .min = 1, .max = limit, __VA_ARGS__ }
#define FLAG(field, ...)                                                                           \
  { FIELD(field, OPTION_BOOL), .fallback = "false", __VA_ARGS__ }

#define CHOICE(field, names, ...)                                                                  \
  { FIELD(field, OPTION_CHOICE), .choices = names, __VA_ARGS__ }

static const char *const ACTIVATIONS[] = {"silu", "gelu", "relu", NULL};
static const char *const NORMS[] = {"rms", "layer", NULL};
static const char *const POSITIONS[] = {"rope", "alibi", "learned", NULL};
enum { UNSAID = -1 }; // a choice that the file leaves to llm_complete

/* The limits keep the products below within 64 bits. */
static const OptionSpec SPECS[] = {
    {FIELD(name, OPTION_STRING), .help = "key of measured profiles; the file's name by default"},
    COUNT(num_hidden_layers, 1e3, .required = true, .help = "layers"),
    COUNT(hidden_size, 1e6, .required = true, .help = "width of the residual stream"),
    COUNT(num_attention_heads, 1e4, .required = true, .help = "query heads"),
    COUNT(num_key_value_heads, 1e4, .help = "KV heads; num_attention_heads by default"),
    COUNT(head_dim, 1e4, .help = "hidden_size / num_attention_heads by default"),
    COUNT(intermediate_size, 1e7, .required = true, .help = "width of the MLP"),
    COUNT(vocab_size, 1e8, .required = true, .help = "rows of the embedding"),
    COUNT(max_position_embeddings, 1e9, .required = true, .help = "longest context"),
    FLAG(gated_mlp, .help = "three MLP matrices, not two"),
    FLAG(bias, .help = "projections and norms have biases"),
    FLAG(tie_word_embeddings, .help = "the head is the embedding"),
    FLAG(learned_positions, .help = "positions are an embedding"),
    CHOICE(hidden_act, ACTIVATIONS, .help = "activation of the MLP: silu, gelu or relu"),
    CHOICE(norm, NORMS, .help = "rms or layer"),
    CHOICE(position_embedding_type, POSITIONS, .help = "rope, alibi or learned"),
    {FIELD(dtype_bytes, OPTION_INT), .fallback = "2", .min = 1, .max = 8,
     .help = "bytes of a weight and of a KV element"},
    {FIELD(weight_bytes, OPTION_BYTES), .min = 1, .max = 1e16, .help = "instead of the shape's"},
    {FIELD(kv_bytes_per_token, OPTION_BYTES), .min = 1, .max = 1e12,
     .help = "instead of the shape's"},
    {0}};

/* What the architecture says that no key of its config.json does. `mlp_factor`: intermediate_size
 * is this times hidden_size, 0: a key says it. `positions`: max_position_embeddings where the
 * architecture has no limit, 0: a key says it. */
typedef struct Family {
  const char *model_type;
  bool gated_mlp, bias, tied, learned_positions;
  int64_t mlp_factor, positions;
} Family;

static const Family FAMILIES[] = {
    {"llama", .gated_mlp = true},
    {"mistral", .gated_mlp = true},
    {"bloom", .bias = true, .tied = true, .mlp_factor = 4, .positions = 2048},
    {"opt", .bias = true, .tied = true, .learned_positions = true},
};
enum { N_FAMILIES = sizeof FAMILIES / sizeof *FAMILIES };

/* The keys of SPECS that a config.json has, each with the name that some families give it. */
static const struct {
  const char *key, *alias;
} HUGGING_FACE_KEYS[] = {
    {"num_hidden_layers", "n_layer"},
    {"hidden_size", "n_embed"},
    {"num_attention_heads", "n_head"},
    {"num_key_value_heads", NULL},
    {"head_dim", NULL},
    {"intermediate_size", "ffn_dim"},
    {"vocab_size", NULL},
    {"max_position_embeddings", "seq_length"},
    {"tie_word_embeddings", NULL},
};
enum { N_HUGGING_FACE_KEYS = sizeof HUGGING_FACE_KEYS / sizeof *HUGGING_FACE_KEYS };

/* Keys of architectures whose weights or KV the formulas below would get wrong. */
static const struct {
  const char *key, *why;
} REFUSED[] = {
    {"num_local_experts", "mixture-of-experts models are not modelled"},
    {"num_experts", "mixture-of-experts models are not modelled"},
    {"n_routed_experts", "mixture-of-experts models are not modelled"},
    {"kv_lora_rank", "multi-head latent attention is not modelled"},
    {"quantization_config", "quantized weights are not modelled"},
};

/* What Hugging Face calls the activations: close approximations are one kernel here. */
static const char *const ACT_NAMES[] = {
    "silu", "swish", "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu", NULL};
static const LlmActivation ACTS[] = {LLM_SILU, LLM_SILU, LLM_GELU, LLM_GELU,
                                     LLM_GELU, LLM_GELU, LLM_RELU};

static const char *const DTYPES[] = {"float32", "float16", "bfloat16", NULL};
static const int64_t DTYPE_BYTES[] = {4, 2, 2};

int64_t llm_context(const Llm *self) {
  return self->position_embedding_type == LLM_ALIBI ? 0 : self->max_position_embeddings;
}

int64_t llm_layer_matrices(const Llm *self) {
  int64_t h = self->hidden_size;
  int64_t q = self->num_attention_heads * self->head_dim;
  int64_t kv = self->num_key_value_heads * self->head_dim;
  return h * (q + 2 * kv) + q * h + (self->gated_mlp ? 3 : 2) * h * self->intermediate_size;
}

/* LayerNorm has two vectors, RMSNorm one. BLOOM's extra norm of the embedding (2·h) is left out. */
int64_t llm_parameters(const Llm *self) {
  int64_t h = self->hidden_size, ffn = self->intermediate_size;
  int64_t q = self->num_attention_heads * self->head_dim;
  int64_t kv = self->num_key_value_heads * self->head_dim;
  int64_t norm = self->norm == LLM_LAYER_NORM ? 2 * h : h;
  int64_t layer = llm_layer_matrices(self) + 2 * norm;
  if (self->bias) layer += q + 2 * kv + h + ffn + h;
  int64_t embeddings = self->vocab_size * h * (self->tie_word_embeddings ? 1 : 2);
  if (self->learned_positions) embeddings += self->max_position_embeddings * h;
  return self->num_hidden_layers * layer + embeddings + norm;
}

static void choice_complete(int *choice, int fallback) {
  if (*choice == UNSAID) *choice = fallback;
}

/* Fills the choices that the file leaves open, like those of the family it looks like. */
static int choices_complete(Llm *self, const Node *root, Diag *diag) {
  if (self->position_embedding_type == LLM_LEARNED) self->learned_positions = true;
  if (self->gated_mlp) {
    choice_complete(&self->hidden_act, LLM_SILU);
    choice_complete(&self->norm, LLM_RMS_NORM);
  }
  choice_complete(&self->hidden_act, self->learned_positions ? LLM_RELU : LLM_GELU);
  choice_complete(&self->norm, LLM_LAYER_NORM);
  choice_complete(&self->position_embedding_type, self->learned_positions ? LLM_LEARNED
                                                  : self->gated_mlp       ? LLM_ROPE
                                                                          : LLM_ALIBI);
  if (self->learned_positions == (self->position_embedding_type == LLM_LEARNED)) return 0;
  return diag_error(diag, node_find(root, "learned_positions")->at,
                    "learned_positions contradicts position_embedding_type '%s'",
                    POSITIONS[self->position_embedding_type]);
}

/* Fills what follows from the rest. */
static int llm_complete(Llm *self, const Node *root, Diag *diag) {
  if (choices_complete(self, root, diag)) return -1;
  if (self->num_key_value_heads == 0) self->num_key_value_heads = self->num_attention_heads;
  if (self->num_attention_heads % self->num_key_value_heads != 0)
    return diag_error(diag, root->at,
                      "num_key_value_heads %lld does not divide num_attention_heads %lld",
                      (long long)self->num_key_value_heads, (long long)self->num_attention_heads);
  if (self->head_dim == 0) {
    if (self->hidden_size % self->num_attention_heads != 0)
      return diag_error(diag, root->at,
                        "num_attention_heads %lld does not divide hidden_size %lld, and there is "
                        "no head_dim",
                        (long long)self->num_attention_heads, (long long)self->hidden_size);
    self->head_dim = self->hidden_size / self->num_attention_heads;
  }
  if (self->weight_bytes == 0) self->weight_bytes = llm_parameters(self) * self->dtype_bytes;
  if (self->kv_bytes_per_token == 0)
    self->kv_bytes_per_token = 2 * self->num_hidden_layers * self->num_key_value_heads *
                               self->head_dim * self->dtype_bytes;
  return 0;
}

/* The value of a key, NULL when it is absent or null. */
static const Node *find_set(const Node *root, const char *key) {
  const Node *node = node_find(root, key);
  bool null = node && node->kind == NODE_SCALAR && !node->quoted && strcmp(node->text, "null") == 0;
  return null ? NULL : node;
}

static const Family *family_find(const Node *root, Diag *diag) {
  const char *names[N_FAMILIES + 1] = {NULL};
  for (int i = 0; i < N_FAMILIES; i++)
    names[i] = FAMILIES[i].model_type;
  const OptionSpec spec = {.key = "model_type", .type = OPTION_CHOICE, .choices = names};
  const Node *node = find_set(root, "model_type");
  int choice;
  if (!node) {
    diag_error(diag, root->at, "missing key 'model_type'");
    return NULL;
  }
  return option_bind_one(&spec, node, &choice, diag) ? NULL : &FAMILIES[choice];
}

static const OptionSpec *spec_find(const char *key) {
  const OptionSpec *spec = SPECS;
  while (strcmp(spec->key, key) != 0)
    spec++;
  return spec;
}

static int keys_bind(Llm *self, const Node *root, Diag *diag) {
  int status = 0;
  for (int i = 0; i < N_HUGGING_FACE_KEYS; i++) {
    const char *key = HUGGING_FACE_KEYS[i].key, *alias = HUGGING_FACE_KEYS[i].alias;
    const Node *node = find_set(root, key);
    if (!node && alias) node = find_set(root, alias);
    if (node && option_bind_one(spec_find(key), node, self, diag)) status = -1;
  }
  return status;
}

/* Required counts may also have come from the family. */
static int keys_require(const Llm *self, const Node *root, Diag *diag) {
  int status = 0;
  for (int i = 0; i < N_HUGGING_FACE_KEYS; i++) {
    const OptionSpec *spec = spec_find(HUGGING_FACE_KEYS[i].key);
    if (spec->required && *(const int64_t *)((const char *)self + spec->offset) == 0)
      status = diag_error(diag, root->at, "missing key '%s'", spec->key);
  }
  return status;
}

static int dtype_bind(Llm *self, const Node *root, Diag *diag) {
  static const OptionSpec spec = {.key = "torch_dtype", .type = OPTION_CHOICE, .choices = DTYPES};
  const Node *node = find_set(root, "torch_dtype");
  if (!node) node = find_set(root, "dtype"); // its name in newer files
  int choice = 1;                            // files without one are served in 16 bits
  if (node && option_bind_one(&spec, node, &choice, diag)) return -1;
  self->dtype_bytes = DTYPE_BYTES[choice];
  return 0;
}

static int activation_bind(Llm *self, const Node *root, Diag *diag) {
  static const OptionSpec spec = {.key = "hidden_act", .type = OPTION_CHOICE, .choices = ACT_NAMES};
  const Node *node = find_set(root, "hidden_act");
  if (!node) node = find_set(root, "activation_function"); // its name in OPT's files
  int choice;
  if (!node) return 0;
  if (option_bind_one(&spec, node, &choice, diag)) return -1;
  self->hidden_act = ACTS[choice];
  return 0;
}

static int refuse(const Node *root, Diag *diag) {
  int status = 0;
  for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
    const Node *node = find_set(root, REFUSED[i].key);
    if (node) status = diag_error(diag, node->key_at, "'%s': %s", REFUSED[i].key, REFUSED[i].why);
  }
  return status;
}

static int hugging_face_bind(Llm *self, const Node *root, Diag *diag) {
  if (root->kind != NODE_MAP) return diag_error(diag, root->at, "expected a JSON object");
  if (refuse(root, diag)) return -1;
  const Family *family = family_find(root, diag);
  if (!family) return -1;
  self->gated_mlp = family->gated_mlp;
  self->bias = family->bias;
  self->tie_word_embeddings = family->tied;
  self->learned_positions = family->learned_positions;
  self->max_position_embeddings = family->positions;
  int status = dtype_bind(self, root, diag) | activation_bind(self, root, diag);
  if (keys_bind(self, root, diag) || status) return -1;
  if (family->mlp_factor > 0) self->intermediate_size = family->mlp_factor * self->hidden_size;
  return keys_require(self, root, diag);
}

int llm_load(Llm *self, const char *name, const char *data_dir, Place at, Arena *arena,
             Diag *diag) {
  const char *path = datafile_resolve(data_dir, "models", "model", name, at, arena, diag);
  if (!path) return -1;
  const Node *root = yaml_load(path, arena, diag);
  if (!root) return -1;
  Llm llm = {.name = datafile_stem(path, arena),
             .hidden_act = UNSAID,
             .norm = UNSAID,
             .position_embedding_type = UNSAID};
  size_t length = strlen(path);
  bool json = length > 5 && strcmp(path + length - 5, ".json") == 0;
  if (json ? hugging_face_bind(&llm, root, diag)
           : option_bind(SPECS, root, NULL, root->at, &llm, diag))
    return -1;
  if (llm_complete(&llm, root, diag)) return -1;
  *self = llm;
  return 0;
}
