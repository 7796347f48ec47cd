/* Model shapes: our own files through an option table, and what files leave open. */
#include "base/hash.h"
#include "base/text.h"
#include "perfmodel/datafile.h"
#include "perfmodel/llm_gguf.h"
#include "perfmodel/llm_hugging_face.h"
#include <math.h>
#include <string.h>

#define FIELD(field, kind) .key = #field, .type = kind, .offset = offsetof(Llm, field)
#define COUNT(field, limit, ...)                                                                   \
  { FIELD(field, OPTION_INT), .min = 1, .max = limit, __VA_ARGS__ }
#define FROM_NONE(field, limit, ...)                                                               \
  { FIELD(field, OPTION_INT), .fallback = "0", .max = limit, __VA_ARGS__ }
#define FLAG(field, ...)                                                                           \
  { FIELD(field, OPTION_BOOL), .fallback = "false", __VA_ARGS__ }
#define CHOICE(field, names, ...)                                                                  \
  { FIELD(field, OPTION_CHOICE), .choices = names, __VA_ARGS__ }

static const char *const ACTIVATIONS[] = {"silu", "gelu", "relu", NULL};
static const char *const NORMS[] = {"rms", "layer", NULL};
static const char *const POSITIONS[] = {"rope", "alibi", "learned", NULL};

/* The limits keep the products below within 64 bits, and sizes_check their sums. */
const OptionSpec llm_options[] = {
    {FIELD(name, OPTION_STRING), .help = "key of measured profiles", .absent = "the file's name"},
    {FIELD(checkpoint, OPTION_STRING), .help = "of Hugging Face, to start it with: Qwen/Qwen3-32B",
     .absent = "not known"},
    COUNT(num_hidden_layers, 1e3, .required = true, .help = "layers"),
    COUNT(hidden_size, 1e6, .required = true, .help = "width of the residual stream"),
    COUNT(num_attention_heads, 1e4, .required = true, .help = "query heads"),
    COUNT(num_key_value_heads, 1e4, .help = "KV heads", .absent = "num_attention_heads"),
    COUNT(head_dim, 1e4, .help = "width of a head", .absent = "hidden_size / num_attention_heads"),
    COUNT(intermediate_size, 1e7, .required = true, .help = "width of the MLP"),
    COUNT(vocab_size, 1e8, .required = true, .help = "rows of the embedding"),
    COUNT(max_position_embeddings, 1e9, .required = true, .help = "longest context"),
    FLAG(gated_mlp, .help = "three MLP matrices, not two"),
    FLAG(bias, .help = "projections and norms have biases"),
    FLAG(attention_bias, .help = "of bias, those of q, k and v alone"),
    FLAG(tie_word_embeddings, .help = "the head is the embedding"),
    FLAG(learned_positions, .help = "positions are an embedding"),
    FLAG(qk_norm, .help = "queries and keys are normalized"),
    FLAG(wide_qk_norm, .help = "over all heads at once, not each"),
    FLAG(fp32_router, .help = "experts are chosen in 32 bits"),
    FLAG(sigmoid_router, .help = "an expert's share is of sigmoids, not of a softmax"),
    FLAG(attention_sinks, .help = "attention has a learned sink per head"),
    CHOICE(hidden_act, ACTIVATIONS, .help = "activation of the MLP",
           .absent = "silu with gated_mlp, relu with learned positions, else gelu"),
    CHOICE(norm, NORMS, .help = "of the layers", .absent = "rms with gated_mlp, else layer"),
    CHOICE(position_embedding_type, POSITIONS, .help = "where tokens are",
           .absent = "rope with gated_mlp, else alibi; or learned_positions"),
    {FIELD(dtype_bytes, OPTION_INT), .fallback = "2", .min = 1, .max = 8,
     .help = "bytes of an activation, and of weights and KV without a format"},
    CHOICE(weight_dtype, dtype_names, .help = "format of the layers' matrices",
           .absent = "bf16, or fp32 with dtype_bytes 4"),
    CHOICE(attention_dtype, dtype_names, .help = "of attention's", .absent = "weight_dtype"),
    CHOICE(expert_dtype, dtype_names, .help = "of routed experts", .absent = "weight_dtype"),
    CHOICE(kv_cache_dtype, dtype_names, .help = "of the KV cache", .absent = "that of activations"),
    FROM_NONE(num_experts, 1e4, .help = "routed experts of a layer"),
    COUNT(num_experts_per_tok, 1e4, .help = "experts that a token reaches",
          .absent = "none; needed with num_experts"),
    COUNT(moe_intermediate_size, 1e6, .help = "width of an expert",
          .absent = "none; needed with num_experts"),
    FROM_NONE(shared_expert_intermediate_size, 1e6, .help = "width of all shared experts"),
    FROM_NONE(num_dense_layers, 1e3, .help = "layers without experts, of a model that has some"),
    COUNT(num_attention_layers, 1e3, .help = "layers that have attention", .absent = "all"),
    FROM_NONE(q_lora_rank, 1e5, .help = "rank of queries; 0: full"),
    FROM_NONE(kv_lora_rank, 1e5, .help = "latent attention: rank of keys and values"),
    COUNT(qk_nope_head_dim, 1e4, .help = "latent attention: of a key, without position",
          .absent = "none; needed with kv_lora_rank"),
    FROM_NONE(qk_rope_head_dim, 1e4, .help = "latent attention: of a key, with position"),
    COUNT(v_head_dim, 1e4, .help = "of a value", .absent = "head_dim"),
    FROM_NONE(sliding_window, 1e9, .help = "tokens that layers with a window see"),
    FROM_NONE(num_sliding_layers, 1e3, .help = "layers with a window"),
    COUNT(sliding_num_attention_heads, 1e4, .help = "in those", .absent = "as in the others"),
    COUNT(sliding_num_key_value_heads, 1e4, .help = "KV heads in those",
          .absent = "num_key_value_heads"),
    COUNT(sliding_head_dim, 1e4, .help = "width of a head in those", .absent = "head_dim"),
    FROM_NONE(index_topk, 1e9, .help = "sparse attention: tokens that it picks"),
    COUNT(index_n_heads, 1e4, .help = "heads of its index",
          .absent = "none; needed with index_topk"),
    COUNT(index_head_dim, 1e4, .help = "width of its keys",
          .absent = "none; needed with index_topk"),
    FROM_NONE(num_index_layers, 1e3, .help = "layers that have one; 0: all"),
    {FIELD(kv_share, OPTION_REAL), .max = 1,
     .help = "attention over compressed tokens: how many a mean layer keeps of each seen",
     .absent = "all"},
    FLAG(values_are_keys, .help = "one vector is key and value"),
    FROM_NONE(o_lora_rank, 1e5, .help = "rank of attention's output; 0: full"),
    COUNT(o_groups, 1e4, .help = "groups of heads that have that rank each",
          .absent = "none; needed with o_lora_rank"),
    {FIELD(weight_bytes, OPTION_BYTES), .min = 1, .max = 1e16, .help = "of all matrices",
     .absent = "by the shape"},
    {FIELD(kv_bytes_per_token, OPTION_BYTES), .min = 1, .max = 1e12, .help = "of all layers",
     .absent = "by the shape"},
    {0}};

static void choice_complete(int *choice, int fallback) {
  if (*choice == LLM_UNSAID) *choice = fallback;
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

/* BF16 is what has dtype_bytes. */
static void formats_complete(Llm *self) {
  choice_complete(&self->weight_dtype, self->dtype_bytes == 4 ? DTYPE_FP32 : DTYPE_BF16);
  choice_complete(&self->attention_dtype, self->weight_dtype);
  choice_complete(&self->expert_dtype, self->weight_dtype);
  choice_complete(&self->kv_cache_dtype, self->dtype_bytes == 4 ? DTYPE_FP32 : DTYPE_BF16);
}

static int heads_complete(Llm *self, const Node *root, Diag *diag) {
  if (self->num_key_value_heads == 0 || llm_latent(self))
    self->num_key_value_heads = self->num_attention_heads;
  if (self->num_attention_heads % self->num_key_value_heads != 0)
    return diag_error(diag, root->at,
                      "num_key_value_heads %lld does not divide num_attention_heads %lld",
                      (long long)self->num_key_value_heads, (long long)self->num_attention_heads);
  if (llm_latent(self)) self->head_dim = self->qk_nope_head_dim + self->qk_rope_head_dim;
  if (self->head_dim > 0) return 0;
  if (self->hidden_size % self->num_attention_heads != 0)
    return diag_error(diag, root->at,
                      "num_attention_heads %lld does not divide hidden_size %lld, and there is "
                      "no head_dim",
                      (long long)self->num_attention_heads, (long long)self->hidden_size);
  self->head_dim = self->hidden_size / self->num_attention_heads;
  return 0;
}

static int fact_require(const Node *root, bool wanted, const char *key, int64_t value,
                        const char *owner, Diag *diag) {
  if (!wanted || value > 0) return 0;
  return diag_error(diag, root->at, "missing key '%s' of a model with '%s'", key, owner);
}

static int layers_check(const Node *root, const char *key, int64_t layers, int64_t of, Diag *diag) {
  if (layers <= of) return 0;
  return diag_error(diag, root->at, "%s %lld is more than the %lld layers there are", key,
                    (long long)layers, (long long)of);
}

/* Facts that others ask for, and the windows that are never left. */
static int facts_complete(Llm *self, const Node *root, Diag *diag) {
  const bool experts = self->num_experts > 0, latent = llm_latent(self);
  if (self->num_attention_layers == 0) self->num_attention_layers = self->num_hidden_layers;
  if (self->sliding_window == 0 || self->sliding_window >= self->max_position_embeddings)
    self->num_sliding_layers = 0;
  if (self->num_sliding_layers == 0) self->sliding_window = 0;
  if (self->num_index_layers == 0) self->num_index_layers = self->num_hidden_layers;
  int status =
      fact_require(root, experts, "num_experts_per_tok", self->num_experts_per_tok, "num_experts",
                   diag) |
      fact_require(root, experts, "moe_intermediate_size", self->moe_intermediate_size,
                   "num_experts", diag) |
      fact_require(root, latent, "qk_nope_head_dim", self->qk_nope_head_dim, "kv_lora_rank", diag) |
      fact_require(root, latent, "v_head_dim", self->v_head_dim, "kv_lora_rank", diag) |
      fact_require(root, self->o_lora_rank > 0, "o_groups", self->o_groups, "o_lora_rank", diag) |
      fact_require(root, self->index_topk > 0, "index_n_heads", self->index_n_heads, "index_topk",
                   diag) |
      fact_require(root, self->index_topk > 0, "index_head_dim", self->index_head_dim, "index_topk",
                   diag) |
      layers_check(root, "num_attention_layers", self->num_attention_layers,
                   self->num_hidden_layers, diag) |
      layers_check(root, "num_sliding_layers", self->num_sliding_layers, self->num_attention_layers,
                   diag) |
      layers_check(root, "num_index_layers", self->num_index_layers, self->num_hidden_layers,
                   diag) |
      layers_check(root, "num_dense_layers", self->num_dense_layers, self->num_hidden_layers, diag);
  if (experts && self->num_experts_per_tok > self->num_experts)
    status = diag_error(diag, root->at, "num_experts_per_tok %lld is more than num_experts %lld",
                        (long long)self->num_experts_per_tok, (long long)self->num_experts);
  return status;
}

/* Before they are counted in 64 bits. */
static int sizes_check(const Llm *self, const Node *root, Diag *diag) {
  const double widest =
      fmax((double)self->intermediate_size,
           (double)(self->num_experts + 1) * fmax((double)self->moe_intermediate_size,
                                                  (double)self->shared_expert_intermediate_size));
  const double heads =
      fmax((double)self->num_attention_heads, (double)self->sliding_num_attention_heads) *
      fmax(fmax((double)self->head_dim, (double)self->sliding_head_dim), (double)self->v_head_dim);
  const double layer = (double)self->hidden_size * (3 * widest + 8 * heads);
  if ((double)self->num_hidden_layers * layer < 1e16) return 0;
  return diag_error(diag, root->at, "model '%s' would have more than 1e16 parameters", self->name);
}

/* Where all layers have a window none of them is taken to be left behind. */
static void kv_complete(Llm *self) {
  const double full = (double)llm_full_attention(self).layers * llm_layer_kv_bytes(self, false);
  const double sliding = (double)self->num_sliding_layers * llm_layer_kv_bytes(self, true);
  if (self->kv_bytes_per_token == 0)
    self->kv_bytes_per_token = llround(ceil(full > 0 ? full : sliding));
  const double windows = full > 0 ? ceil(sliding * (double)self->sliding_window) : 0;
  self->kv_bytes_per_sequence = llround(fmin(windows, 1e16));
}

/* Fills what of the shape follows from the rest. */
static int shape_complete(Llm *self, const Node *root, Diag *diag) {
  if (choices_complete(self, root, diag) || heads_complete(self, root, diag) ||
      facts_complete(self, root, diag) || sizes_check(self, root, diag))
    return -1;
  return 0;
}

/* Sizes by the shape and its formats, where the file states none. */
static void sizes_complete(Llm *self) {
  formats_complete(self);
  if (self->weight_bytes == 0) self->weight_bytes = llm_weight_bytes(self);
  kv_complete(self);
}

/* Sizes that a file states are of the formats that it has. */
static void formats_apply(Llm *self, const LlmFormats *formats) {
  if (formats->weight_dtype != LLM_UNSAID)
    self->weight_dtype = self->attention_dtype = self->expert_dtype = formats->weight_dtype;
  if (formats->attention_dtype != LLM_UNSAID) self->attention_dtype = formats->attention_dtype;
  if (formats->expert_dtype != LLM_UNSAID) self->expert_dtype = formats->expert_dtype;
  if (formats->weight_dtype != LLM_UNSAID || formats->attention_dtype != LLM_UNSAID ||
      formats->expert_dtype != LLM_UNSAID) {
    self->weight_bytes = 0;
    memset(self->part_bytes, 0, sizeof self->part_bytes);
  }
  if (formats->kv_cache_dtype == LLM_UNSAID) return;
  self->kv_cache_dtype = formats->kv_cache_dtype;
  self->kv_bytes_per_token = 0;
}

/* What a checkpoint is called by its Hugging Face file: qwen3-32b of Qwen--Qwen3-32B_config.json,
 * and of the config.json in a folder Qwen3-32B. */
static const char *checkpoint_name(const char *path, Arena *arena) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  const char *end = strstr(name, "_config.json"), *org;
  if (slash && strcmp(name, "config.json") == 0) {
    end = name = slash;
    while (name > path && name[-1] != '/')
      name--;
  }
  if (!end || end == name) return datafile_stem(path, arena);
  while ((org = strstr(name, "--")) && org + 2 < end)
    name = org + 2;
  char *copy = arena_copy(arena, name, (size_t)(end - name));
  for (char *c = copy; *c; c++)
    if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
  return text_shown(copy, arena);
}

int llm_load_as(Llm *self, const char *name, const LlmFormats *formats, const char *data_dir,
                Place at, Arena *arena, Diag *diag) {
  const char *path = datafile_resolve(data_dir, "models", "model", name, at, arena, diag);
  if (!path) return -1;
  const bool json = text_ends_with(path, ".json"), gguf = text_ends_with(path, ".gguf");
  const Node head = {.kind = NODE_MAP, .at = place_of_file(path)}; // of a file without lines
  const Node *root = gguf ? &head : yaml_load(path, arena, diag);
  if (!root) return -1;
  Llm llm = {.name = json ? checkpoint_name(path, arena) : datafile_stem(path, arena),
             .hidden_act = LLM_UNSAID,
             .norm = LLM_UNSAID,
             .position_embedding_type = LLM_UNSAID,
             .weight_dtype = LLM_UNSAID,
             .attention_dtype = LLM_UNSAID,
             .expert_dtype = LLM_UNSAID,
             .kv_cache_dtype = LLM_UNSAID};
  if ((gguf   ? llm_gguf_read(&llm, path, arena, diag)
       : json ? llm_hugging_face_bind(&llm, root, arena, diag)
              : option_bind(llm_options, root, NULL, root->at, &llm, diag)) ||
      shape_complete(&llm, root, diag) ||
      (json && llm_hugging_face_formats(&llm, root, arena, diag)))
    return -1;
  formats_apply(&llm, formats);
  sizes_complete(&llm);
  llm.digest = hash_text(
      hash_fold(gguf ? llm.digest : node_digest(root), hash_bytes(formats, sizeof *formats)),
      llm.name);
  *self = llm;
  return 0;
}

int llm_load(Llm *self, const char *name, const char *data_dir, Place at, Arena *arena,
             Diag *diag) {
  const LlmFormats as_written = {LLM_UNSAID, LLM_UNSAID, LLM_UNSAID, LLM_UNSAID};
  return llm_load_as(self, name, &as_written, data_dir, at, arena, diag);
}
