/* Hugging Face's config.json: keys under the names that families give them, layers that differ. */
#include "perfmodel/llm_hugging_face.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_ALIASES = 8 };

/* Fields under the key of our own form and the names that families give it, in order. */
static const struct {
  const char *key, *aliases[N_ALIASES];
} KEYS[] = {
    {"num_hidden_layers", {"num_hidden_layers", "n_layer", "n_layers", "num_layers"}},
    {"hidden_size", {"hidden_size", "n_embed", "n_embd", "d_model"}},
    {"num_attention_heads", {"num_attention_heads", "n_head", "n_heads"}},
    {"num_key_value_heads",
     {"num_global_key_value_heads", "num_key_value_heads", "num_kv_heads", "n_head_kv",
      "num_attention_groups"}},
    {"head_dim", {"global_head_dim", "head_dim", "attention_head_dim"}},
    {"intermediate_size",
     {"intermediate_size_mlp", "dense_intermediate_size", "intermediate_size", "ffn_dim",
      "ffn_hidden_size", "n_inner"}},
    {"vocab_size", {"vocab_size"}},
    {"max_position_embeddings",
     {"max_position_embeddings", "seq_length", "n_positions", "max_position_embedding",
      "model_max_length", "max_seq_len"}},
    {"tie_word_embeddings", {"tie_word_embeddings"}},
    {"attention_bias", {"attention_bias", "qkv_bias", "use_qkv_bias"}},
    {"num_experts",
     {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts",
      "num_routed_experts"}},
    {"num_experts_per_tok",
     {"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "top_k_experts",
      "moe_topk", "moe_top_k", "moe_k"}},
    {"moe_intermediate_size",
     {"moe_intermediate_size", "moe_ffn_hidden_size", "expert_ffn_hidden_size"}},
    {"shared_expert_intermediate_size",
     {"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
      "shared_intermediate_size", "share_expert_dim", "share_expert_dims"}},
    {"q_lora_rank", {"q_lora_rank", "share_q_dim"}},
    {"kv_lora_rank", {"kv_lora_rank"}},
    {"qk_nope_head_dim", {"qk_nope_head_dim"}},
    {"qk_rope_head_dim", {"qk_rope_head_dim"}},
    {"v_head_dim", {"v_head_dim"}},
    {"sliding_window", {"sliding_window", "attention_chunk_size"}},
    {"sliding_num_attention_heads", {"swa_num_attention_heads"}},
    {"sliding_num_key_value_heads", {"swa_num_key_value_heads"}},
    {"sliding_head_dim", {"swa_head_dim"}},
    {"o_lora_rank", {"o_lora_rank"}},
    {"o_groups", {"o_groups"}},
    {"index_topk", {"index_topk"}},
    {"index_n_heads", {"index_n_heads"}},
    {"index_head_dim", {"index_head_dim"}},
};
enum { N_KEYS = sizeof KEYS / sizeof *KEYS };

#define STATE                                                                                      \
  " not modelled: they would need the size of a sequence's state and the times of their kernels"

/* How keys begin that only models have which the formulas do not know. */
static const struct {
  const char *begin, *why;
} REFUSED[] = {
    {"linear_attn_config", "layers with linear attention are" STATE},
    {"linear_num_", "layers with linear attention are" STATE},
    {"layer_group_size", "layers with linear attention are" STATE},
    {"hybrid_override_pattern", "state-space layers are" STATE},
    {"mamba", "state-space layers are" STATE},
    {"ssm_", "state-space layers are" STATE},
    {"attn_layer_period", "state-space layers are" STATE},
    {"conv_L_cache", "layers of convolutions are" STATE},
    {"lru_width", "recurrent layers are" STATE},
    {"rwkv", "recurrent layers are" STATE},
    {"zero_expert_num", "experts that do nothing are not modelled"},
    {"altup_num_inputs", "a residual stream of several is not modelled"},
    {"is_encoder_decoder", "encoders are not modelled"},
};

/* What Hugging Face calls the activations: close approximations are one kernel here. */
static const char *const ACT_NAMES[] = {"silu", "swish",    "swiglu",    "swigluoai",
                                        "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh",
                                        "relu", "relu2",    "xielu",     NULL};
static const LlmActivation ACTS[] = {LLM_SILU, LLM_SILU, LLM_SILU, LLM_SILU, LLM_GELU, LLM_GELU,
                                     LLM_GELU, LLM_GELU, LLM_RELU, LLM_RELU, LLM_GELU};

static const char *const DTYPES[] = {"float32", "float16", "bfloat16", NULL};
static const int64_t DTYPE_BYTES[] = {4, 2, 2};

/* A file that is being read: keys of `text`, the language model's own map, come before those of
 * `root`, which may be the same. */
typedef struct Reader {
  const Node *root, *text;
  const LlmFamily *family;
  Llm *llm;
  Arena *arena;
  Diag *diag;
} Reader;

static bool is_word(const Node *node, const char *word) {
  return node->kind == NODE_SCALAR && strcmp(node->text, word) == 0;
}

const Node *llm_find_set(const Node *map, const char *key) {
  const Node *node = node_find(map, key);
  return node && is_word(node, "null") && !node->quoted ? NULL : node;
}

static const Node *find_set(const Reader *self, const char *key) {
  const Node *node = llm_find_set(self->text, key);
  return node ? node : llm_find_set(self->root, key);
}

static const Node *find_list(const Reader *self, const char *key) {
  const Node *node = find_set(self, key);
  return node && node->kind == NODE_LIST && node->n_children > 0 ? node : NULL;
}

/* An integer where there is one in range, else the fallback. */
static int64_t number(const Reader *self, const char *key, int64_t fallback) {
  const Node *node = find_set(self, key);
  char *end;
  if (!node || node->kind != NODE_SCALAR) return fallback;
  const long long value = strtoll(node->text, &end, 10);
  return *end == '\0' && end > node->text && value >= 0 && value <= 1000000 ? value : fallback;
}

/* Of a list with a value for each layer the one that all have. */
static const Node *uniform(const Reader *self, const Node *node) {
  if (node->kind != NODE_LIST || !node->first) return node;
  for (const Node *each = node->first; each; each = each->next)
    if (node->first->kind != NODE_SCALAR || !is_word(each, node->first->text)) {
      diag_error(self->diag, each->at, "layers that differ in '%s' are not modelled", node->key);
      return NULL;
    }
  return node->first;
}

/* ---- What it is ---- */

static const Node *key_begins(const Node *map, const char *begin) {
  for (const Node *node = map->first; node; node = node->next)
    if (strncmp(node->key, begin, strlen(begin)) == 0 && !is_word(node, "null") &&
        !is_word(node, "false") && !is_word(node, "0"))
      return node;
  return NULL;
}

static int refuse(const Reader *self) {
  for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
    const Node *node = key_begins(self->text, REFUSED[i].begin);
    if (node) return diag_error(self->diag, node->key_at, "'%s': %s", node->key, REFUSED[i].why);
  }
  return 0;
}

static const char *const KINDS[] = {
    "full_attention",  "sliding_attention", "chunked_attention",         "global_attention",
    "local_attention", "attention",         "deepseek_sparse_attention", NULL};

static bool is_any(const Node *node, const char *const *words) {
  for (; *words; words++)
    if (is_word(node, *words)) return true;
  return false;
}

/* The first layer that is no attention that is known. */
static int refuse_layers(const Reader *self) {
  static const char *const lists[] = {"layer_types", "layers_block_type", "block_types", NULL};
  for (const char *const *list = lists; *list; list++) {
    const Node *types = find_list(self, *list);
    for (const Node *each = types ? types->first : NULL; each; each = each->next)
      if (!is_any(each, KINDS))
        return diag_error(self->diag, each->at, "layers of type '%s' are not modelled",
                          node_shown(each, self->arena));
  }
  const Node *types = find_list(self, "attn_type_list");
  for (const Node *each = types ? types->first : NULL; each; each = each->next)
    if (is_word(each, "0"))
      return diag_error(self->diag, each->at, "'attn_type_list': linear attention is not modelled");
  return 0;
}

/* Without what says that there are pictures, or that it is the text's part: qwen3_vl_moe_text. */
static const char *plain_type(const char *type, Arena *arena) {
  char *plain = arena_printf(arena, "%.64s", type);
  static const char *const parts[] = {"_text", "_vl", NULL};
  for (const char *const *part = parts; *part; part++) {
    char *found = strstr(plain, *part);
    const size_t n = strlen(*part);
    if (found && (found[n] == '\0' || found[n] == '_'))
      memmove(found, found + n, strlen(found + n) + 1);
  }
  return plain;
}

static const LlmFamily *family_named(const char *type) {
  for (const LlmFamily *family = llm_families; family->model_type; family++)
    if (strcmp(family->model_type, type) == 0) return family;
  return NULL;
}

/* Of a type that is not known, when it says the activation and the norm of Llama's kind. */
static const LlmFamily *family_like(const Reader *self) {
  const Node *act = find_set(self, "hidden_act");
  const bool known = act && is_word(act, "silu") && find_set(self, "rms_norm_eps") &&
                     find_set(self, "num_key_value_heads") && find_set(self, "intermediate_size");
  return known ? family_named("llama") : NULL;
}

static const LlmFamily *family_find(const Reader *self) {
  const Node *node = find_set(self, "model_type");
  if (!node) {
    diag_error(self->diag, self->root->at, "missing key 'model_type'");
    if (find_set(self, "quantization"))
      diag_hint(self->diag, "it has formats without a shape: give the config.json beside it");
    return NULL;
  }
  const LlmFamily *family = NULL;
  if (node->kind == NODE_SCALAR) family = family_named(node->text);
  if (node->kind == NODE_SCALAR && !family)
    family = family_named(plain_type(node->text, self->arena));
  if (!family) family = family_like(self);
  if (family) return family;
  const char *names[128] = {NULL};
  for (int i = 0; llm_families[i].model_type && i < 127; i++)
    names[i] = llm_families[i].model_type;
  const OptionSpec spec = {.key = "model_type", .type = OPTION_CHOICE, .choices = names};
  int choice;
  option_bind_one(&spec, node, &choice, self->diag);
  return NULL;
}

/* ---- Keys ---- */

static const OptionSpec *spec_find(const char *key) {
  const OptionSpec *spec = llm_options;
  while (strcmp(spec->key, key) != 0)
    spec++;
  return spec;
}

/* Where a key may hold another thing, false or a list that something else reads. */
static bool is_none(const Node *node) {
  return node->kind == NODE_SCALAR && (is_word(node, "false") || is_word(node, "0"));
}

static int key_bind(const Reader *self, int i) {
  const OptionSpec *spec = spec_find(KEYS[i].key);
  for (int a = 0; a < N_ALIASES && KEYS[i].aliases[a]; a++) {
    const Node *node = find_set(self, KEYS[i].aliases[a]);
    if (!node || (spec->type == OPTION_INT && is_none(node))) continue;
    const Node *value = uniform(self, node);
    return value ? option_bind_one(spec, value, self->llm, self->diag) : -1;
  }
  return 0;
}

static int keys_bind(const Reader *self) {
  int status = 0;
  for (int i = 0; i < N_KEYS; i++)
    status |= key_bind(self, i);
  return status;
}

/* Required counts may also have come from the family. */
static int keys_require(const Reader *self) {
  int status = 0;
  for (int i = 0; i < N_KEYS; i++) {
    const OptionSpec *spec = spec_find(KEYS[i].key);
    if (spec->required && *(const int64_t *)((const char *)self->llm + spec->offset) == 0)
      status = diag_error(self->diag, self->text->at, "missing key '%s'", spec->key);
  }
  return status;
}

static int dtype_bind(const Reader *self) {
  static const OptionSpec spec = {.key = "torch_dtype", .type = OPTION_CHOICE, .choices = DTYPES};
  const Node *node = find_set(self, "torch_dtype");
  if (!node) node = find_set(self, "dtype"); // its name in newer files
  int choice = 1;                            // files without one are served in 16 bits
  if (node && option_bind_one(&spec, node, &choice, self->diag)) return -1;
  self->llm->dtype_bytes = DTYPE_BYTES[choice];
  return 0;
}

static int activation_bind(const Reader *self) {
  static const OptionSpec spec = {.key = "hidden_act", .type = OPTION_CHOICE, .choices = ACT_NAMES};
  static const char *const keys[] = {"hidden_act", "hidden_activation", "activation_function",
                                     NULL}; // Gemma's name, OPT's
  const Node *node = NULL;
  for (const char *const *key = keys; *key && !node; key++)
    node = find_set(self, *key);
  int choice;
  if (!node) return 0;
  if (option_bind_one(&spec, node, &choice, self->diag)) return -1;
  self->llm->hidden_act = ACTS[choice];
  return 0;
}

/* ---- Layers that differ ---- */

static bool lists(const Node *list, int64_t value) {
  for (const Node *each = list ? list->first : NULL; each; each = each->next)
    if (each->kind == NODE_SCALAR && strtoll(each->text, NULL, 10) == value) return true;
  return false;
}

/* Items of a list that are `word`, among the first layers. */
static int64_t count_words(const Node *list, const char *word, int64_t layers) {
  int64_t count = 0;
  for (const Node *each = list->first; each && layers-- > 0; each = each->next)
    count += is_word(each, word);
  return count;
}

/* Whether layer i has experts, by keys that count them. */
static bool has_experts(const Reader *self, int64_t i) {
  const int64_t first = number(
      self, "first_k_dense_replace",
      number(self, "num_dense_layers",
             number(self, "moe_layer_num_skipped", number(self, "moe_layer_start_index", 0))));
  const int64_t last = number(self, "moe_layer_end_index", INT64_MAX);
  const int64_t every = number(self, "moe_layer_freq", 1);
  const int64_t step =
      number(self, "decoder_sparse_step",
             number(self, "interleave_moe_layer_step", number(self, "moe_layer_interval", 1)));
  return i >= first && i <= last && (every < 2 || i % every == 0) &&
         (step < 2 || (i + 1) % step == 0) && !lists(find_list(self, "mlp_only_layers"), i);
}

static int64_t commas(const char *text) {
  int64_t count = 0;
  for (; *text; text++)
    count += *text == ',';
  return count;
}

static int64_t dense_layers(const Reader *self) {
  const int64_t layers = self->llm->num_hidden_layers;
  const Node *types = find_list(self, "mlp_layer_types"), *each = find_list(self, "moe_layer_freq");
  const Node *listed = find_list(self, "moe_layers");
  const Node *written = find_set(self, "moe_layers_enum"); // "4,5,6"
  if (types) return count_words(types, "dense", layers);
  if (each) return count_words(each, "0", layers);
  if (listed) return layers > listed->n_children ? layers - listed->n_children : 0;
  if (written && written->kind == NODE_SCALAR && *written->text) {
    const int64_t sparse = commas(written->text) + 1;
    return layers > sparse ? layers - sparse : 0;
  }
  int64_t dense = 0;
  for (int64_t i = 0; i < layers; i++)
    dense += !has_experts(self, i);
  return dense;
}

static void experts_bind(const Reader *self) {
  Llm *llm = self->llm;
  const LlmFamily *family = self->family;
  if (llm->num_experts == 0) return;
  if (family->wide_experts && llm->moe_intermediate_size == 0)
    llm->moe_intermediate_size = number(self, "intermediate_size", llm->intermediate_size);
  if (llm->moe_intermediate_size == 0) llm->moe_intermediate_size = llm->intermediate_size;
  if (llm->intermediate_size == 0) llm->intermediate_size = llm->moe_intermediate_size;
  static const char *const keys[] = {"n_shared_experts", "num_shared_experts", "num_shared_expert",
                                     "moe_num_shared_experts", NULL};
  int64_t shared = family->n_shared_experts;
  for (const char *const *key = keys; *key; key++) {
    const Node *list = find_list(self, *key);
    shared = list && list->first->kind == NODE_SCALAR ? strtoll(list->first->text, NULL, 10)
                                                      : number(self, *key, shared);
  }
  if (shared < 0 || shared > 1000) shared = 0;
  if (llm->shared_expert_intermediate_size == 0)
    llm->shared_expert_intermediate_size = shared * llm->moe_intermediate_size;
  if (family->parallel_mlp) llm->shared_expert_intermediate_size = llm->intermediate_size;
  llm->num_dense_layers = dense_layers(self);
}

/* Layers with a window: as listed one by one, all but each so many-th, or all. */
static int64_t sliding_layers(const Reader *self) {
  const int64_t layers = self->llm->num_hidden_layers;
  const Node *types = find_list(self, "layer_types"),
             *hybrid = find_list(self, "hybrid_layer_pattern");
  const Node *rotated = find_list(self, "no_rope_layers"); // 1: a chunk is seen
  const Node *used = find_set(self, "use_sliding_window");
  if (used && is_word(used, "false")) return 0;
  if (types)
    return count_words(types, "sliding_attention", layers) +
           count_words(types, "chunked_attention", layers) +
           count_words(types, "local_attention", layers);
  if (hybrid) return count_words(hybrid, "1", layers);
  if (rotated && find_set(self, "attention_chunk_size")) return count_words(rotated, "1", layers);
  if (used && find_set(self, "max_window_layers"))
    return layers > number(self, "max_window_layers", layers)
               ? layers - number(self, "max_window_layers", layers)
               : 0;
  const int64_t every =
      number(self, "sliding_window_pattern",
             number(self, "_sliding_window_pattern",
                    number(self, "no_rope_layer_interval", self->family->full_every)));
  return every > 0 ? layers - layers / every : layers;
}

static void windows_bind(const Reader *self) {
  Llm *llm = self->llm;
  const Node *other =
      llm_find_set(find_set(self, "attention_other_setting"), "num_attention_heads");
  if (llm->sliding_window == 0) return;
  llm->num_sliding_layers = sliding_layers(self);
  if (find_set(self, "global_head_dim")) { // the plain keys are then of the others
    llm->sliding_head_dim = number(self, "head_dim", 0);
    llm->sliding_num_key_value_heads = number(self, "num_key_value_heads", 0);
  }
  if (other && other->kind == NODE_SCALAR) {
    const long long heads = strtoll(other->text, NULL, 10);
    if (heads > 0 && heads <= 10000) llm->sliding_num_attention_heads = heads;
  }
  if (find_set(self, "add_swa_attention_sink_bias")) llm->attention_sinks = true;
}

/* MiniMax-M3's index is of blocks. */
static void index_bind(const Reader *self) {
  Llm *llm = self->llm;
  const Node *types = find_list(self, "indexer_types"); // others share that of a layer before
  if (types) llm->num_index_layers = count_words(types, "full", llm->num_hidden_layers);
  const Node *blocks = find_set(self, "sparse_attention_config");
  if (!blocks || blocks->kind != NODE_MAP) return;
  const Reader inner = {.root = blocks, .text = blocks};
  llm->index_topk =
      number(&inner, "sparse_topk_blocks", 0) * number(&inner, "sparse_block_size", 1);
  llm->index_n_heads = number(&inner, "sparse_num_index_heads", 0);
  llm->index_head_dim = number(&inner, "sparse_index_dim", 0);
  const Node *each = llm_find_set(blocks, "sparse_attention_freq");
  if (each && each->kind == NODE_LIST)
    llm->num_index_layers = count_words(each, "1", llm->num_hidden_layers);
}

/* How many tokens each layer makes one of; 0: it has its window alone. Those that make the fewest
 * one have an index. */
static void compression_bind(const Reader *self) {
  const Node *each = find_list(self, "compress_ratios");
  Llm *llm = self->llm;
  int64_t least = 0;
  double kept = 0;
  if (!each || llm->num_hidden_layers < 1) return;
  each = each->first;
  for (int64_t i = 0; each && i < llm->num_hidden_layers; i++, each = each->next) {
    const long long ratio = each->kind == NODE_SCALAR ? strtoll(each->text, NULL, 10) : 0;
    if (ratio <= 0) continue;
    if (least == 0 || ratio < least) {
      least = ratio;
      llm->num_index_layers = 0;
    }
    llm->num_index_layers += ratio == least;
    kept += 1 / (double)ratio;
  }
  llm->kv_share = kept / (double)llm->num_hidden_layers;
}

/* ---- Layers that a search has pruned (nemotron-nas) ---- */

/* Width of an MLP of `mult` · hidden_size · 2/3, up to the next 256. */
static double pruned_width(const Llm *llm, const Node *ffn) {
  const Node *mult = llm_find_set(ffn, "ffn_mult"), *none = llm_find_set(ffn, "no_op");
  if (!mult || mult->kind != NODE_SCALAR || (none && is_word(none, "true"))) return 0;
  const double width = 2 * strtod(mult->text, NULL) * (double)llm->hidden_size / 3;
  if (!(width >= 0 && width <= 1e7)) return 0;
  return (double)((int64_t)width + ((int64_t)width % 256 ? 256 - (int64_t)width % 256 : 0));
}

static int pruned_attention(const Reader *self, const Node *attention) {
  Llm *llm = self->llm;
  const Node *none = llm_find_set(attention, "no_op");
  const Node *linear = llm_find_set(attention, "replace_with_linear");
  const Node *group = llm_find_set(attention, "n_heads_in_group");
  if (linear && is_word(linear, "true"))
    return diag_error(self->diag, linear->at,
                      "attention that is replaced by a matrix is not "
                      "modelled");
  if ((none && is_word(none, "true")) || !group || group->kind != NODE_SCALAR) return 0;
  const long long heads = strtoll(group->text, NULL, 10);
  const int64_t kv = heads > 0 ? llm->num_attention_heads / heads : 0;
  if (kv < 1 || (llm->num_attention_layers > 0 && llm->num_key_value_heads != kv))
    return diag_error(self->diag, group->at, "layers that differ in KV heads are not modelled");
  llm->num_key_value_heads = kv;
  llm->num_attention_layers++;
  return 0;
}

/* Layers without attention are counted; MLPs have their mean width, which has their weights. */
static int pruned_bind(const Reader *self) {
  const Node *blocks = find_list(self, "block_configs");
  Llm *llm = self->llm;
  double width = 0;
  if (!blocks || llm->num_hidden_layers < 1) return 0;
  for (const Node *each = blocks->first; each; each = each->next) {
    if (pruned_attention(self, llm_find_set(each, "attention"))) return -1;
    width += pruned_width(llm, llm_find_set(each, "ffn"));
  }
  const double mean = width / (double)llm->num_hidden_layers;
  llm->intermediate_size = mean >= 1 && mean <= 1e7 ? (int64_t)(mean + 0.5) : 0;
  if (llm->num_attention_layers > 0 && llm->num_attention_layers <= llm->num_hidden_layers)
    return 0;
  return diag_error(self->diag, blocks->at,
                    "'block_configs' has %lld layers with attention of %lld",
                    (long long)llm->num_attention_layers, (long long)llm->num_hidden_layers);
}

/* ---- All of it ---- */

/* The map of the language model in a file that has more. */
static const Node *text_of(const Node *root) {
  static const char *const keys[] = {"text_config", "llm_config", "language_config",
                                     "thinker_config", NULL};
  for (const char *const *key = keys; *key; key++) {
    const Node *node = llm_find_set(root, *key);
    if (node && node->kind == NODE_MAP) return text_of(node);
  }
  return root;
}

static void family_apply(const Reader *self) {
  Llm *llm = self->llm;
  const Llm left = *llm;
  *llm = self->family->facts;
  llm->name = left.name;
  llm->weight_dtype = left.weight_dtype;
  llm->attention_dtype = left.attention_dtype;
  llm->expert_dtype = left.expert_dtype;
  llm->kv_cache_dtype = left.kv_cache_dtype;
}

static int reader_init(Reader *self, Llm *llm, const Node *root, Arena *arena, Diag *diag) {
  *self = (Reader){.root = root, .text = text_of(root), .llm = llm, .arena = arena, .diag = diag};
  if (refuse(self) || refuse_layers(self)) return -1;
  self->family = family_find(self);
  return self->family ? 0 : -1;
}

int llm_hugging_face_bind(Llm *self, const Node *root, Arena *arena, Diag *diag) {
  if (root->kind != NODE_MAP) return diag_error(diag, root->at, "expected a JSON object");
  Reader reader;
  if (reader_init(&reader, self, root, arena, diag)) return -1;
  family_apply(&reader);
  const int status = dtype_bind(&reader) | activation_bind(&reader);
  if (keys_bind(&reader) || status) return -1;
  if (reader.family->mlp_factor > 0 && self->intermediate_size == 0)
    self->intermediate_size = reader.family->mlp_factor * self->hidden_size;
  if (pruned_bind(&reader)) return -1;
  experts_bind(&reader);
  windows_bind(&reader);
  index_bind(&reader);
  compression_bind(&reader);
  return keys_require(&reader);
}

int llm_hugging_face_formats(Llm *self, const Node *root, Arena *arena, Diag *diag) {
  Reader reader;
  if (reader_init(&reader, self, root, arena, diag)) return -1;
  const Node *node = find_set(&reader, "quantization_config");
  if (!node && llm_quantization_beside(root->at.path, &node, arena, diag)) return -1;
  if (node && llm_quantization_bind(self, node, reader.family->parallel_mlp, arena, diag))
    return -1;
  const Node *expert = find_set(&reader, "expert_dtype"); // beside a format of the rest
  if (node && expert && is_word(expert, "fp4") &&
      (self->expert_dtype == DTYPE_FP8 || self->expert_dtype == DTYPE_FP8_BLOCK)) {
    self->expert_dtype = DTYPE_MXFP4;
    self->part_bytes[LLM_EXPERTS] = 0;
  }
  return 0;
}
