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
static const char *const LINEAR[] = {"gdn", "kda", "mamba2", NULL};
static const char *const POSITIONS[] = {"rope", "alibi", "learned", NULL};

/* The limits keep the products below within 64 bits, and sizes_check their sums. */
const OptionSpec llm_options[] = {
    {FIELD(name, OPTION_STRING), .help = "Name of the model in measured profiles.",
     .absent = "the file's name"},
    {FIELD(checkpoint, OPTION_STRING),
     .help = "Checkpoint on Hugging Face that an engine starts with, such as Qwen/Qwen3-32B.",
     .absent = "not known"},
    COUNT(num_hidden_layers, 1e3, .required = true, .help = "Number of layers."),
    COUNT(hidden_size, 1e6, .required = true, .help = "Width of the residual stream."),
    COUNT(num_attention_heads, 1e4, .required = true, .help = "Number of query heads."),
    COUNT(num_key_value_heads, 1e4, .help = "Number of KV heads.", .absent = "num_attention_heads"),
    COUNT(head_dim, 1e4, .help = "Width of a head.", .absent = "hidden_size / num_attention_heads"),
    COUNT(intermediate_size, 1e7, .required = true, .help = "Width of the MLP."),
    COUNT(vocab_size, 1e8, .required = true, .help = "Number of rows of the embedding."),
    COUNT(max_position_embeddings, 1e9, .required = true, .help = "Longest context in tokens."),
    FLAG(gated_mlp, .help = "The MLP has three matrices, not two."),
    FLAG(bias, .help = "Projections and norms have biases."),
    FLAG(attention_bias, .help = "Only the q, k and v projections have biases."),
    FLAG(tie_word_embeddings, .help = "The output head is the embedding."),
    FLAG(learned_positions, .help = "Positions are an embedding."),
    FLAG(qk_norm, .help = "Queries and keys are normalized."),
    FLAG(wide_qk_norm, .help = "That norm is over all heads at once, not over each head."),
    FLAG(fp32_router, .help = "Experts are chosen in 32 bits."),
    FLAG(sigmoid_router, .help = "The weights of experts are sigmoids, not a softmax."),
    FLAG(attention_gate, .help = "The attention output is multiplied by a gate of its own size."),
    FLAG(attention_sinks, .help = "Attention has a learned sink per head."),
    CHOICE(hidden_act, ACTIVATIONS, .help = "Activation of the MLP.",
           .absent = "silu with gated_mlp, relu with learned positions, else gelu"),
    CHOICE(norm, NORMS, .help = "Norm of the layers.", .absent = "rms with gated_mlp, else layer"),
    CHOICE(position_embedding_type, POSITIONS, .help = "Encoding of positions.",
           .absent = "rope with gated_mlp, else alibi; or learned_positions"),
    {FIELD(dtype_bytes, OPTION_INT), .fallback = "2", .min = 1, .max = 8,
     .help = "Number of bytes of an activation, and of weights and KV without a number format."},
    CHOICE(weight_dtype, dtype_names, .help = "Number format of the layers' weight matrices.",
           .absent = "bf16, or fp32 with dtype_bytes 4"),
    CHOICE(attention_dtype, dtype_names, .help = "Number format of the attention matrices.",
           .absent = "weight_dtype"),
    CHOICE(expert_dtype, dtype_names, .help = "Number format of the matrices of routed experts.",
           .absent = "weight_dtype"),
    CHOICE(kv_cache_dtype, dtype_names, .help = "Number format of the KV cache.",
           .absent = "that of activations"),
    FROM_NONE(num_experts, 1e4, .help = "Number of routed experts in a layer."),
    COUNT(num_experts_per_tok, 1e4, .help = "Number of routed experts per token.",
          .absent = "none; required with num_experts"),
    COUNT(moe_intermediate_size, 1e6, .help = "Width of an expert.",
          .absent = "none; required with num_experts"),
    FROM_NONE(shared_expert_intermediate_size, 1e6,
              .help = "Width of all shared experts together."),
    FROM_NONE(num_dense_layers, 1e3, .help = "Number of layers with an MLP instead of experts."),
    FROM_NONE(num_nextn_predict_layers, 100,
              .help = "Number of layers that predict further tokens (MTP). Weights and KV memory "
                      "include them where drafts come from them ('method: mtp')."),
    COUNT(num_attention_layers, 1e3, .help = "Number of layers with attention.", .absent = "all"),
    COUNT(num_mlp_layers, 1e3, .help = "Number of layers with an MLP or experts.", .absent = "all"),
    FROM_NONE(num_linear_layers, 1e3,
              .help = "Number of layers with linear attention or a state space."),
    {FIELD(linear_attention, OPTION_CHOICE), .choices = LINEAR, .fallback = "gdn",
     .help = "Kind of linear attention: Gated DeltaNet, Kimi Delta Attention or Mamba-2."},
    COUNT(linear_num_key_heads, 1e4,
          .help = "Number of key heads of linear attention; groups of Mamba-2.",
          .absent = "none; required with num_linear_layers"),
    COUNT(linear_num_value_heads, 1e4,
          .help = "Number of value heads of linear attention; heads of Mamba-2.",
          .absent = "none; required with num_linear_layers"),
    COUNT(linear_key_head_dim, 1e4,
          .help = "Width of a key of linear attention; state size of Mamba-2.",
          .absent = "none; required with num_linear_layers"),
    COUNT(linear_value_head_dim, 1e4, .help = "Width of a value of linear attention.",
          .absent = "none; required with num_linear_layers"),
    COUNT(linear_conv_kernel_dim, 1e3,
          .help = "Number of tokens that the convolution of linear attention reads.",
          .absent = "none; required with num_linear_layers"),
    FROM_NONE(q_lora_rank, 1e5, .help = "Rank of the queries. 0 means full rank."),
    FROM_NONE(kv_lora_rank, 1e5,
              .help =
                  "Rank of keys and values in latent attention (MLA). 0 means another attention."),
    COUNT(qk_nope_head_dim, 1e4,
          .help = "Width of a key's part without position in latent attention.",
          .absent = "none; required with kv_lora_rank"),
    FROM_NONE(qk_rope_head_dim, 1e4,
              .help = "Width of a key's part with position in latent attention."),
    COUNT(v_head_dim, 1e4, .help = "Width of a value.", .absent = "head_dim"),
    FROM_NONE(sliding_window, 1e9,
              .help = "Window of layers with sliding attention in tokens. 0 means none."),
    FROM_NONE(num_sliding_layers, 1e3, .help = "Number of layers with sliding attention."),
    COUNT(sliding_num_attention_heads, 1e4,
          .help = "Number of query heads in layers with sliding attention.",
          .absent = "num_attention_heads"),
    COUNT(sliding_num_key_value_heads, 1e4,
          .help = "Number of KV heads in layers with sliding attention.",
          .absent = "num_key_value_heads"),
    COUNT(sliding_head_dim, 1e4, .help = "Width of a head in layers with sliding attention.",
          .absent = "head_dim"),
    FROM_NONE(index_topk, 1e9,
              .help = "Number of tokens that sparse attention selects. 0 means full attention."),
    COUNT(index_n_heads, 1e4, .help = "Number of heads of the index of sparse attention.",
          .absent = "none; required with index_topk"),
    COUNT(index_head_dim, 1e4, .help = "Width of a key in the index of sparse attention.",
          .absent = "none; required with index_topk"),
    FROM_NONE(num_index_layers, 1e3, .help = "Number of layers with an index. 0 means all."),
    {FIELD(kv_share, OPTION_REAL), .max = 1,
     .help =
         "Share of the tokens that a layer keeps on average, in attention over compressed tokens.",
     .absent = "all"},
    FROM_NONE(num_compressed_layers, 1e3,
              .help = "Number of layers that compress tokens. 0 means all, with kv_share."),
    FROM_NONE(hc_mult, 100,
              .help = "Number of residual streams that are mixed around attention and MLP (mHC). "
                      "0 means one stream that is not mixed."),
    FLAG(values_are_keys, .help = "One vector is both key and value."),
    FROM_NONE(o_lora_rank, 1e5, .help = "Rank of the attention output. 0 means full rank."),
    COUNT(o_groups, 1e4, .help = "Number of groups of heads, each with that rank.",
          .absent = "none; required with o_lora_rank"),
    {FIELD(weight_bytes, OPTION_BYTES), .min = 1, .max = 1e16, .help = "Size of all weights.",
     .absent = "computed from the shape"},
    {FIELD(kv_bytes_per_token, OPTION_BYTES), .min = 1, .max = 1e12,
     .help = "KV memory of one token in all layers with full attention.",
     .absent = "computed from the shape"},
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
                    "'learned_positions' contradicts position_embedding_type '%s'",
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
    return diag_error(
        diag, root->at,
        "num_attention_heads %lld does not divide hidden_size %lld, and 'head_dim' is missing",
        (long long)self->num_attention_heads, (long long)self->hidden_size);
  self->head_dim = self->hidden_size / self->num_attention_heads;
  return 0;
}

static int fact_require(const Node *root, bool wanted, const char *key, int64_t value,
                        const char *owner, Diag *diag) {
  if (!wanted || value > 0) return 0;
  return diag_error(diag, root->at, "missing key '%s', which a model with '%s' needs", key, owner);
}

static int layers_check(const Node *root, const char *key, int64_t layers, int64_t of, Diag *diag) {
  if (layers <= of) return 0;
  return diag_error(diag, root->at, "%s %lld exceeds the %lld layers of the model", key,
                    (long long)layers, (long long)of);
}

/* Facts that others ask for, and the windows that are never left. */
static int facts_complete(Llm *self, const Node *root, Diag *diag) {
  const bool experts = self->num_experts > 0, latent = llm_latent(self);
  const bool linear = self->num_linear_layers > 0;
  if (self->num_attention_layers == 0 && self->num_linear_layers < self->num_hidden_layers)
    self->num_attention_layers = self->num_hidden_layers - self->num_linear_layers;
  if (self->num_mlp_layers == 0) self->num_mlp_layers = self->num_hidden_layers;
  if (self->sliding_window == 0 || self->sliding_window >= self->max_position_embeddings)
    self->num_sliding_layers = 0;
  if (self->num_sliding_layers == 0) self->sliding_window = 0;
  if (self->num_index_layers == 0) self->num_index_layers = self->num_hidden_layers;
  if (self->num_compressed_layers == 0) self->num_compressed_layers = self->num_hidden_layers;
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
      fact_require(root, linear, "linear_num_key_heads", self->linear_num_key_heads,
                   "num_linear_layers", diag) |
      fact_require(root, linear, "linear_num_value_heads", self->linear_num_value_heads,
                   "num_linear_layers", diag) |
      fact_require(root, linear, "linear_key_head_dim", self->linear_key_head_dim,
                   "num_linear_layers", diag) |
      fact_require(root, linear, "linear_value_head_dim", self->linear_value_head_dim,
                   "num_linear_layers", diag) |
      fact_require(root, linear, "linear_conv_kernel_dim", self->linear_conv_kernel_dim,
                   "num_linear_layers", diag) |
      layers_check(root, "num_attention_layers", self->num_attention_layers,
                   self->num_hidden_layers, diag) |
      layers_check(root, "num_linear_layers", self->num_linear_layers,
                   self->num_hidden_layers -
                       (self->num_attention_layers > 0 ? self->num_attention_layers : 1),
                   diag) |
      layers_check(root, "num_mlp_layers", self->num_mlp_layers, self->num_hidden_layers, diag) |
      layers_check(root, "num_sliding_layers", self->num_sliding_layers, self->num_attention_layers,
                   diag) |
      layers_check(root, "num_index_layers", self->num_index_layers, self->num_hidden_layers,
                   diag) |
      layers_check(root, "num_compressed_layers", self->num_compressed_layers,
                   self->num_hidden_layers, diag) |
      layers_check(root, "num_dense_layers", self->num_dense_layers, self->num_mlp_layers, diag);
  if (experts && self->num_experts_per_tok > self->num_experts)
    status = diag_error(diag, root->at, "num_experts_per_tok %lld exceeds num_experts %lld",
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
  const double linear = fmax(llm_linear_channels(self, 1), llm_linear_state(self));
  const double layer = (double)self->hidden_size * (3 * widest + 8 * (heads + linear));
  if ((double)self->num_hidden_layers * layer < 1e16) return 0;
  return diag_error(diag, root->at, "model '%s' has more than 1e16 parameters", self->name);
}

/* Where all layers have a window none of them is taken to be left behind. With
 * a state are kept the last inputs of its convolution. */
static void kv_complete(Llm *self) {
  const double full = (double)llm_full_attention(self).layers * llm_layer_kv_bytes(self, false);
  const double sliding = (double)self->num_sliding_layers * llm_layer_kv_bytes(self, true);
  if (self->kv_bytes_per_token == 0)
    self->kv_bytes_per_token = llround(ceil(full > 0 ? full : sliding));
  const double windows = full > 0 ? ceil(sliding * (double)self->sliding_window) : 0;
  self->kv_bytes_per_sequence = llround(fmin(windows, 1e16));
  const double states = LLM_STATE_BYTES * llm_linear_state(self) +
                        llm_linear_channels(self, 1) *
                            (double)((self->linear_conv_kernel_dim - 1) * self->dtype_bytes);
  self->state_bytes_per_sequence = llround((double)self->num_linear_layers * states);
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
