/* Layers that differ, as config.json counts or lists them: those with experts, with a window, with
 * an index, and what a search has pruned. */
#include "perfmodel/llm_reader.h"
#include <stdlib.h>
#include <string.h>

static bool lists(const Node *list, int64_t value) {
  for (const Node *each = list ? list->first : NULL; each; each = each->next)
    if (each->kind == NODE_SCALAR && strtoll(each->text, NULL, 10) == value) return true;
  return false;
}

/* Items of a list that are `word`, among the first layers. */
static int64_t count_words(const Node *list, const char *word, int64_t layers) {
  int64_t count = 0;
  for (const Node *each = list->first; each && layers-- > 0; each = each->next)
    count += node_is_word(each, word);
  return count;
}

/* Whether layer i has experts, by keys that count them. */
static bool has_experts(const Reader *self, int64_t i) {
  const int64_t first =
      reader_number(self, "first_k_dense_replace",
                    reader_number(self, "num_dense_layers",
                                  reader_number(self, "moe_layer_num_skipped",
                                                reader_number(self, "moe_layer_start_index", 0))));
  const int64_t last = reader_number(self, "moe_layer_end_index", INT64_MAX);
  const int64_t every = reader_number(self, "moe_layer_freq", 1);
  const int64_t step = reader_number(self, "decoder_sparse_step",
                                     reader_number(self, "interleave_moe_layer_step",
                                                   reader_number(self, "moe_layer_interval", 1)));
  return i >= first && i <= last && (every < 2 || i % every == 0) &&
         (step < 2 || (i + 1) % step == 0) && !lists(reader_list(self, "mlp_only_layers"), i);
}

static int64_t commas(const char *text) {
  int64_t count = 0;
  for (; *text; text++)
    count += *text == ',';
  return count;
}

static int64_t dense_layers(const Reader *self) {
  const int64_t layers = self->llm->num_hidden_layers;
  const Node *types = reader_list(self, "mlp_layer_types"),
             *each = reader_list(self, "moe_layer_freq");
  const Node *listed = reader_list(self, "moe_layers");
  const Node *written = reader_find(self, "moe_layers_enum"); // "4,5,6"
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
    llm->moe_intermediate_size = reader_number(self, "intermediate_size", llm->intermediate_size);
  if (llm->moe_intermediate_size == 0) llm->moe_intermediate_size = llm->intermediate_size;
  if (llm->intermediate_size == 0) llm->intermediate_size = llm->moe_intermediate_size;
  static const char *const keys[] = {"n_shared_experts", "num_shared_experts", "num_shared_expert",
                                     "moe_num_shared_experts", NULL};
  int64_t shared = family->n_shared_experts;
  for (const char *const *key = keys; *key; key++) {
    const Node *list = reader_list(self, *key);
    shared = list && list->first->kind == NODE_SCALAR ? strtoll(list->first->text, NULL, 10)
                                                      : reader_number(self, *key, shared);
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
  const Node *types = reader_list(self, "layer_types"),
             *hybrid = reader_list(self, "hybrid_layer_pattern");
  const Node *rotated = reader_list(self, "no_rope_layers"); // 1: a chunk is seen
  const Node *used = reader_find(self, "use_sliding_window");
  if (used && node_is_word(used, "false")) return 0;
  if (types)
    return count_words(types, "sliding_attention", layers) +
           count_words(types, "chunked_attention", layers) +
           count_words(types, "local_attention", layers);
  if (hybrid) return count_words(hybrid, "1", layers);
  if (rotated && reader_find(self, "attention_chunk_size"))
    return count_words(rotated, "1", layers);
  if (used && reader_find(self, "max_window_layers"))
    return layers > reader_number(self, "max_window_layers", layers)
               ? layers - reader_number(self, "max_window_layers", layers)
               : 0;
  const int64_t every =
      reader_number(self, "sliding_window_pattern",
                    reader_number(self, "_sliding_window_pattern",
                                  reader_number(self, "global_attn_every_n_layers",
                                                reader_number(self, "no_rope_layer_interval",
                                                              self->family->full_every))));
  return every > 0 ? layers - layers / every : layers;
}

static void windows_bind(const Reader *self) {
  Llm *llm = self->llm;
  const Node *other =
      llm_find_set(reader_find(self, "attention_other_setting"), "num_attention_heads");
  if (llm->sliding_window == 0) return;
  llm->num_sliding_layers = sliding_layers(self);
  if (reader_find(self, "global_head_dim")) { // the plain keys are then of the others
    llm->sliding_head_dim = reader_number(self, "head_dim", 0);
    llm->sliding_num_key_value_heads = reader_number(self, "num_key_value_heads", 0);
  }
  if (other && other->kind == NODE_SCALAR) {
    const long long heads = strtoll(other->text, NULL, 10);
    if (heads > 0 && heads <= 10000) llm->sliding_num_attention_heads = heads;
  }
  if (reader_find(self, "add_swa_attention_sink_bias")) llm->attention_sinks = true;
}

/* MiniMax-M3's index is of blocks. */
static void index_bind(const Reader *self) {
  Llm *llm = self->llm;
  const Node *types = reader_list(self, "indexer_types"); // others share that of a layer before
  if (types) llm->num_index_layers = count_words(types, "full", llm->num_hidden_layers);
  const Node *blocks = reader_find(self, "sparse_attention_config");
  if (!blocks || blocks->kind != NODE_MAP) return;
  const Reader inner = {.root = blocks, .text = blocks};
  llm->index_topk = reader_number(&inner, "sparse_topk_blocks", 0) *
                    reader_number(&inner, "sparse_block_size", 1);
  llm->index_n_heads = reader_number(&inner, "sparse_num_index_heads", 0);
  llm->index_head_dim = reader_number(&inner, "sparse_index_dim", 0);
  const Node *each = llm_find_set(blocks, "sparse_attention_freq");
  if (each && each->kind == NODE_LIST)
    llm->num_index_layers = count_words(each, "1", llm->num_hidden_layers);
}

/* ---- Linear attention ---- */

/* Qwen3-Next: as listed, or all but each so many-th. */
static void delta_net_bind(const Reader *self) {
  Llm *llm = self->llm;
  const int64_t layers = llm->num_hidden_layers;
  const Node *types = reader_list(self, "layer_types");
  const int64_t every = reader_number(self, "full_attention_interval", 4);
  llm->num_linear_layers = types       ? count_words(types, "linear_attention", layers)
                           : every > 0 ? layers - layers / every
                                       : layers;
}

static void kimi_bind(const Reader *self) {
  Llm *llm = self->llm;
  const Node *config = reader_find(self, "linear_attn_config");
  const Node *listed = llm_find_set(config, "kda_layers");
  const Reader inner = {.root = config, .text = config};
  if (!config || config->kind != NODE_MAP || !listed) return;
  llm->num_linear_layers = listed->n_children;
  llm->linear_num_key_heads = llm->linear_num_value_heads = reader_number(&inner, "num_heads", 0);
  llm->linear_key_head_dim = llm->linear_value_head_dim = reader_number(&inner, "head_dim", 0);
  llm->linear_conv_kernel_dim = reader_number(&inner, "short_conv_kernel_size", 0);
}

static int64_t count_letter(const char *text, char letter) {
  int64_t count = 0;
  for (; *text; text++)
    count += *text == letter;
  return count;
}

/* Nemotron-H: a layer is either Mamba-2 (M), attention (*), an MLP (-) or experts (E). */
static void mamba_bind(const Reader *self) {
  Llm *llm = self->llm;
  const Node *pattern = reader_find(self, "hybrid_override_pattern");
  if (!pattern || pattern->kind != NODE_SCALAR) return;
  llm->num_linear_layers = count_letter(pattern->text, 'M');
  llm->num_attention_layers = count_letter(pattern->text, '*');
  llm->num_dense_layers = count_letter(pattern->text, '-');
  llm->num_mlp_layers = llm->num_dense_layers + count_letter(pattern->text, 'E');
  llm->linear_num_key_heads = reader_number(self, "n_groups", 0);
  llm->linear_num_value_heads = reader_number(self, "mamba_num_heads", 0);
  llm->linear_key_head_dim = reader_number(self, "ssm_state_size", 0);
  llm->linear_value_head_dim = reader_number(self, "mamba_head_dim", 0);
  llm->linear_conv_kernel_dim = reader_number(self, "conv_kernel", 0);
}

static int linear_bind(const Reader *self) {
  Llm *llm = self->llm;
  if (!self->family->linear) return 0;
  if (llm->linear_attention == LLM_GDN) delta_net_bind(self);
  if (llm->linear_attention == LLM_KDA) kimi_bind(self);
  if (llm->linear_attention == LLM_MAMBA2) mamba_bind(self);
  if (llm->num_linear_layers > 0) return 0;
  return diag_error(self->diag, self->text->at,
                    "missing: which layers of '%s' have linear attention",
                    self->family->model_type);
}

/* How many tokens each layer makes one of; 0: it has its window alone. Those that make the fewest
 * one have an index. */
static void compression_bind(const Reader *self) {
  const Node *each = reader_list(self, "compress_ratios");
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
    llm->num_compressed_layers++;
    kept += 1 / (double)ratio;
  }
  llm->kv_share = kept / (double)llm->num_hidden_layers;
}

/* ---- Layers that a search has pruned (nemotron-nas) ---- */

/* Width of an MLP of `mult` · hidden_size · 2/3, up to the next 256. */
static double pruned_width(const Llm *llm, const Node *ffn) {
  const Node *mult = llm_find_set(ffn, "ffn_mult"), *none = llm_find_set(ffn, "no_op");
  if (!mult || mult->kind != NODE_SCALAR || (none && node_is_word(none, "true"))) return 0;
  const double width = 2 * strtod(mult->text, NULL) * (double)llm->hidden_size / 3;
  if (!(width >= 0 && width <= 1e7)) return 0;
  return (double)((int64_t)width + ((int64_t)width % 256 ? 256 - (int64_t)width % 256 : 0));
}

static int pruned_attention(const Reader *self, const Node *attention) {
  Llm *llm = self->llm;
  const Node *none = llm_find_set(attention, "no_op");
  const Node *linear = llm_find_set(attention, "replace_with_linear");
  const Node *group = llm_find_set(attention, "n_heads_in_group");
  if (linear && node_is_word(linear, "true"))
    return diag_error(self->diag, linear->at,
                      "layers whose attention is replaced by a matrix are not modelled");
  if ((none && node_is_word(none, "true")) || !group || group->kind != NODE_SCALAR) return 0;
  const long long heads = strtoll(group->text, NULL, 10);
  const int64_t kv = heads > 0 ? llm->num_attention_heads / heads : 0;
  if (kv < 1 || (llm->num_attention_layers > 0 && llm->num_key_value_heads != kv))
    return diag_error(self->diag, group->at,
                      "layers that differ in the number of KV heads are not modelled");
  llm->num_key_value_heads = kv;
  llm->num_attention_layers++;
  return 0;
}

/* Layers without attention are counted; MLPs have their mean width, which has their weights. */
static int pruned_bind(const Reader *self) {
  const Node *blocks = reader_list(self, "block_configs");
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
                    "'block_configs' has %lld layers with attention, but the model has %lld",
                    (long long)llm->num_attention_layers, (long long)llm->num_hidden_layers);
}

int llm_layers_bind(const Reader *self) {
  if (pruned_bind(self)) return -1;
  experts_bind(self);
  windows_bind(self);
  index_bind(self);
  compression_bind(self);
  return linear_bind(self);
}
