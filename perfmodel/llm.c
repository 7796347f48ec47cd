/* Model shapes: our own files through an option table, and what follows from a shape. */
#include "perfmodel/llm.h"
#include "perfmodel/datafile.h"
#include "perfmodel/llm_hugging_face.h"
#include "sim/base/text.h"
#include <math.h>
#include <string.h>

#define FIELD(field, kind) .key = #field, .type = kind, .offset = offsetof(Llm, field)
#define COUNT(field, limit, ...)                                                                   \
  { FIELD(field, OPTION_INT), .min = 1, .max = limit, __VA_ARGS__ }
#define FROM_NONE(field, limit, ...)                                                               \
  { FIELD(field, OPTION_INT), .max = limit, __VA_ARGS__ }
#define FLAG(field, ...)                                                                           \
  { FIELD(field, OPTION_BOOL), .fallback = "false", __VA_ARGS__ }
#define CHOICE(field, names, ...)                                                                  \
  { FIELD(field, OPTION_CHOICE), .choices = names, __VA_ARGS__ }

static const char *const ACTIVATIONS[] = {"silu", "gelu", "relu", NULL};
static const char *const NORMS[] = {"rms", "layer", NULL};
static const char *const POSITIONS[] = {"rope", "alibi", "learned", NULL};

/* The limits keep the products below within 64 bits, and sizes_check their sums. */
const OptionSpec llm_options[] = {
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
    FLAG(attention_bias, .help = "of bias, those of q, k and v alone"),
    FLAG(tie_word_embeddings, .help = "the head is the embedding"),
    FLAG(learned_positions, .help = "positions are an embedding"),
    FLAG(qk_norm, .help = "queries and keys are normalized"),
    FLAG(attention_sinks, .help = "attention has a learned sink per head"),
    CHOICE(hidden_act, ACTIVATIONS, .help = "activation of the MLP: silu, gelu or relu"),
    CHOICE(norm, NORMS, .help = "rms or layer"),
    CHOICE(position_embedding_type, POSITIONS, .help = "rope, alibi or learned"),
    {FIELD(dtype_bytes, OPTION_INT), .fallback = "2", .min = 1, .max = 8,
     .help = "bytes of an activation, and of weights and KV without a format"},
    CHOICE(weight_dtype, dtype_names, .help = "format of the layers' matrices"),
    CHOICE(attention_dtype, dtype_names, .help = "of attention's; weight_dtype by default"),
    CHOICE(expert_dtype, dtype_names, .help = "of routed experts; weight_dtype by default"),
    CHOICE(kv_cache_dtype, dtype_names, .help = "of the KV cache; that of activations by default"),
    FROM_NONE(num_experts, 1e4, .help = "routed experts of a layer"),
    COUNT(num_experts_per_tok, 1e4, .help = "experts that a token reaches"),
    COUNT(moe_intermediate_size, 1e6, .help = "width of an expert"),
    FROM_NONE(shared_expert_intermediate_size, 1e6, .help = "width of all shared experts"),
    FROM_NONE(num_dense_layers, 1e3, .help = "layers without experts, of a model that has some"),
    COUNT(num_attention_layers, 1e3, .help = "layers that have attention; all by default"),
    FROM_NONE(q_lora_rank, 1e5, .help = "rank of queries; 0: full"),
    FROM_NONE(kv_lora_rank, 1e5, .help = "latent attention: rank of keys and values"),
    COUNT(qk_nope_head_dim, 1e4, .help = "latent attention: of a key, without position"),
    FROM_NONE(qk_rope_head_dim, 1e4, .help = "latent attention: of a key, with position"),
    COUNT(v_head_dim, 1e4, .help = "of a value; head_dim by default"),
    FROM_NONE(sliding_window, 1e9, .help = "tokens that layers with a window see"),
    FROM_NONE(num_sliding_layers, 1e3, .help = "layers with a window"),
    COUNT(sliding_num_attention_heads, 1e4, .help = "in those; as in the others by default"),
    COUNT(sliding_num_key_value_heads, 1e4, .help = "likewise"),
    COUNT(sliding_head_dim, 1e4, .help = "likewise"),
    FROM_NONE(index_topk, 1e9, .help = "sparse attention: tokens that it picks"),
    COUNT(index_n_heads, 1e4, .help = "heads of its index"),
    COUNT(index_head_dim, 1e4, .help = "width of its keys"),
    FROM_NONE(num_index_layers, 1e3, .help = "layers that have one"),
    {FIELD(kv_share, OPTION_REAL), .max = 1,
     .help = "attention over compressed tokens: how many a mean layer keeps of each seen"},
    FLAG(values_are_keys, .help = "one vector is key and value"),
    FROM_NONE(o_lora_rank, 1e5, .help = "rank of attention's output; 0: full"),
    COUNT(o_groups, 1e4, .help = "groups of heads that have that rank each"),
    {FIELD(weight_bytes, OPTION_BYTES), .min = 1, .max = 1e16, .help = "instead of the shape's"},
    {FIELD(kv_bytes_per_token, OPTION_BYTES), .min = 1, .max = 1e12,
     .help = "instead of the shape's"},
    {0}};

int64_t llm_context(const Llm *self) {
  return self->position_embedding_type == LLM_ALIBI ? 0 : self->max_position_embeddings;
}

static int64_t either(int64_t own, int64_t other) {
  return own > 0 ? own : other;
}

LlmAttention llm_full_attention(const Llm *self) {
  const int64_t others = self->kv_share > 0 ? 0 : self->num_sliding_layers;
  return (LlmAttention){.layers = self->num_attention_layers - others,
                        .query_heads = self->num_attention_heads,
                        .kv_heads = self->num_key_value_heads,
                        .qk_dim = self->head_dim,
                        .v_dim = either(self->v_head_dim, self->head_dim)};
}

LlmAttention llm_sliding_attention(const Llm *self) {
  const int64_t dim = either(self->sliding_head_dim, self->head_dim);
  return (LlmAttention){
      .layers = self->num_sliding_layers,
      .query_heads = either(self->sliding_num_attention_heads, self->num_attention_heads),
      .kv_heads = either(self->sliding_num_key_value_heads, self->num_key_value_heads),
      .qk_dim = dim,
      .v_dim = self->sliding_head_dim > 0 ? dim : either(self->v_head_dim, dim),
      .window = self->sliding_window};
}

static double element_bytes(const Llm *self, int dtype) {
  return dtype == DTYPE_BF16 ? (double)self->dtype_bytes : dtype_bytes((Dtype)dtype);
}

/* Kept in FP8 with one scale (vLLM's deepseek_v32). */
double llm_index_kv_bytes(const Llm *self) {
  return self->index_topk > 0 ? llm_index_share(self) * (double)(self->index_head_dim + 4) : 0;
}

/* Layers without an index keep few of the compressed tokens. */
double llm_index_share(const Llm *self) {
  return self->kv_share > 0
             ? self->kv_share * (double)self->num_hidden_layers / (double)self->num_index_layers
             : 1;
}

static int64_t kv_dims(const Llm *self, const LlmAttention *a) {
  return a->qk_dim + (self->values_are_keys ? 0 : a->v_dim);
}

double llm_kv_element_bytes(const Llm *self) {
  return element_bytes(self, self->kv_cache_dtype);
}

double llm_layer_kv_bytes(const Llm *self, bool sliding) {
  const LlmAttention a = sliding ? llm_sliding_attention(self) : llm_full_attention(self);
  const double layers = (double)self->num_hidden_layers;
  const int64_t elements = llm_latent(self) ? self->kv_lora_rank + self->qk_rope_head_dim
                                            : a.kv_heads * kv_dims(self, &a);
  const double index =
      sliding ? 0 : llm_index_kv_bytes(self) * (double)self->num_index_layers / layers;
  const double share = self->kv_share > 0 && !sliding ? self->kv_share : 1;
  return share * (double)elements * llm_kv_element_bytes(self) + index;
}

static int64_t query_parameters(const Llm *self, const LlmAttention *a) {
  const int64_t h = self->hidden_size, q = a->query_heads * a->qk_dim, rank = self->q_lora_rank;
  return rank > 0 ? h * rank + rank * q : h * q;
}

static int64_t qkv_parameters(const Llm *self, const LlmAttention *a) {
  const int64_t h = self->hidden_size, rank = self->kv_lora_rank;
  if (!llm_latent(self)) return query_parameters(self, a) + h * a->kv_heads * kv_dims(self, a);
  return query_parameters(self, a) + h * (rank + self->qk_rope_head_dim) +
         rank * a->query_heads * (self->qk_nope_head_dim + a->v_dim);
}

static int64_t out_parameters(const Llm *self, const LlmAttention *a) {
  const int64_t h = self->hidden_size, o = a->query_heads * a->v_dim, rank = self->o_lora_rank;
  return rank > 0 ? o * rank + self->o_groups * rank * h : o * h;
}

/* Queries of the index from those of attention, one key, a weight for each of its heads
 * (DeepSeek-V3.2, 2512.02556, §2.1). */
static int64_t index_parameters(const Llm *self) {
  const int64_t h = self->hidden_size;
  return either(self->q_lora_rank, h) * self->index_n_heads * self->index_head_dim +
         h * self->index_head_dim + h * self->index_n_heads;
}

static int64_t mlp_parameters(const Llm *self, int64_t width) {
  return (self->gated_mlp ? 3 : 2) * self->hidden_size * width;
}

int64_t llm_part_parameters(const Llm *self, LlmPart part) {
  const LlmAttention kinds[] = {llm_full_attention(self), llm_sliding_attention(self)};
  const int64_t index = self->index_topk > 0 ? self->num_index_layers * index_parameters(self) : 0;
  int64_t sum = part == LLM_QKV ? index : 0;
  switch (part) {
  case LLM_QKV:
  case LLM_OUT:
    for (int i = 0; i < (self->kv_share > 0 ? 1 : 2); i++)
      sum += kinds[i].layers *
             (part == LLM_QKV ? qkv_parameters(self, &kinds[i]) : out_parameters(self, &kinds[i]));
    return sum;
  case LLM_MLP:
    return llm_dense_layers(self) * mlp_parameters(self, self->intermediate_size);
  case LLM_SHARED_EXPERTS:
    return llm_moe_layers(self) * mlp_parameters(self, self->shared_expert_intermediate_size);
  default:
    return llm_moe_layers(self) * self->num_experts *
           mlp_parameters(self, self->moe_intermediate_size);
  }
}

Dtype llm_part_dtype(const Llm *self, LlmPart part) {
  return (Dtype)(part == LLM_QKV || part == LLM_OUT ? self->attention_dtype
                 : part == LLM_EXPERTS              ? self->expert_dtype
                                                    : self->weight_dtype);
}

double llm_part_bytes(const Llm *self, LlmPart part) {
  return self->part_bytes[part] > 0 ? self->part_bytes[part]
                                    : element_bytes(self, llm_part_dtype(self, part));
}

Dtype llm_quantization(const Llm *self) {
  int64_t sums[DTYPE_COUNT] = {0};
  for (int part = 0; part < LLM_PARTS; part++)
    sums[llm_part_dtype(self, (LlmPart)part)] += llm_part_parameters(self, (LlmPart)part);
  int most = 0;
  for (int dtype = 1; dtype < DTYPE_COUNT; dtype++)
    if (sums[dtype] > sums[most]) most = dtype;
  return (Dtype)most;
}

/* Experts of all layers that a token does not reach. */
static int64_t idle_parameters(const Llm *self) {
  return llm_moe_layers(self) * (self->num_experts - self->num_experts_per_tok) *
         mlp_parameters(self, self->moe_intermediate_size);
}

static int64_t matrices(const Llm *self) {
  int64_t sum = 0;
  for (int part = 0; part < LLM_PARTS; part++)
    sum += llm_part_parameters(self, (LlmPart)part);
  return sum;
}

int64_t llm_layer_matrices(const Llm *self) {
  return (matrices(self) - idle_parameters(self)) / self->num_hidden_layers;
}

static int64_t norm_parameters(const Llm *self) {
  return self->norm == LLM_LAYER_NORM ? 2 * self->hidden_size : self->hidden_size;
}

/* Biases of one layer, and vectors of attention. */
static int64_t layer_vectors(const Llm *self) {
  const int64_t h = self->hidden_size, q = self->num_attention_heads * self->head_dim;
  const int64_t kv = self->num_key_value_heads * self->head_dim;
  int64_t sum = 2 * norm_parameters(self);
  if (self->bias)
    sum += q + 2 * kv + h + self->intermediate_size + h;
  else if (self->attention_bias)
    sum += q + 2 * kv;
  if (self->qk_norm) sum += 2 * self->head_dim;
  if (self->attention_sinks) sum += self->num_attention_heads;
  if (llm_latent(self)) sum += self->q_lora_rank + self->kv_lora_rank;
  return sum;
}

/* LayerNorm has two vectors, RMSNorm one. BLOOM's extra norm of the embedding (2·h) is left out,
 * and what else some families have that is less than a thousandth of a layer. */
static int64_t vector_parameters(const Llm *self) {
  return self->num_hidden_layers * layer_vectors(self) + norm_parameters(self);
}

static int64_t table_parameters(const Llm *self) {
  return self->vocab_size * self->hidden_size;
}

/* What is kept in 16 bits: routers choose among experts by one row each. */
static int64_t plain_parameters(const Llm *self) {
  int64_t sum = table_parameters(self) * (self->tie_word_embeddings ? 1 : 2);
  if (self->learned_positions) sum += self->max_position_embeddings * self->hidden_size;
  sum += llm_moe_layers(self) * self->num_experts * self->hidden_size;
  return sum + vector_parameters(self);
}

int64_t llm_parameters(const Llm *self) {
  return matrices(self) + plain_parameters(self);
}

int64_t llm_activated_parameters(const Llm *self) {
  const int64_t looked_up = self->tie_word_embeddings ? 0 : table_parameters(self);
  return llm_parameters(self) - idle_parameters(self) - looked_up;
}

static int64_t weight_bytes(const Llm *self) {
  double sum = (double)plain_parameters(self) * (double)self->dtype_bytes;
  for (int part = 0; part < LLM_PARTS; part++)
    sum += (double)llm_part_parameters(self, (LlmPart)part) * llm_part_bytes(self, (LlmPart)part);
  return llround(sum);
}

/* ---- What a file leaves open ---- */

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
  if (self->weight_bytes == 0) self->weight_bytes = weight_bytes(self);
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
  const Node *root = yaml_load(path, arena, diag);
  if (!root) return -1;
  const bool json = text_ends_with(path, ".json");
  Llm llm = {.name = json ? checkpoint_name(path, arena) : datafile_stem(path, arena),
             .hidden_act = LLM_UNSAID,
             .norm = LLM_UNSAID,
             .position_embedding_type = LLM_UNSAID,
             .weight_dtype = LLM_UNSAID,
             .attention_dtype = LLM_UNSAID,
             .expert_dtype = LLM_UNSAID,
             .kv_cache_dtype = LLM_UNSAID};
  if ((json ? llm_hugging_face_bind(&llm, root, arena, diag)
            : option_bind(llm_options, root, NULL, root->at, &llm, diag)) ||
      shape_complete(&llm, root, diag) ||
      (json && llm_hugging_face_formats(&llm, root, arena, diag)))
    return -1;
  formats_apply(&llm, formats);
  sizes_complete(&llm);
  *self = llm;
  return 0;
}

int llm_load(Llm *self, const char *name, const char *data_dir, Place at, Arena *arena,
             Diag *diag) {
  const LlmFormats as_written = {LLM_UNSAID, LLM_UNSAID, LLM_UNSAID, LLM_UNSAID};
  return llm_load_as(self, name, &as_written, data_dir, at, arena, diag);
}
