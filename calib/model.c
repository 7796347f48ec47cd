/* From Hugging Face's shape to a shard's. */
#include "calib/model.h"
#include "perfmodel/hardware.h"
#include <string.h>

/* The place of `name` among `names`; -1 with an entry. */
static int find_name(const char *const *names, const char *what, const char *name, Place at,
                     Diag *diag) {
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], name) == 0) return i;
  diag_error(diag, at, "unknown %s '%s'", what, name);
  diag_hint_near(diag, name, names);
  return -1;
}

int calib_dtype_find(CalibDtype *ret_dtype, const char *name, Place at, Diag *diag) {
  const int found = find_name(calib_dtype_names, "number type", name, at, diag);
  if (found >= 0) *ret_dtype = (CalibDtype)found;
  return found < 0 ? -1 : 0;
}

int calib_weights_find(CalibWeights *ret_weights, const char *name, Place at, Diag *diag) {
  const int found = find_name(calib_weights_names, "format of weights", name, at, diag);
  if (found >= 0) *ret_weights = (CalibWeights)found;
  return found < 0 ? -1 : 0;
}

int calib_attention_find(CalibAttention *ret_attention, const char *name, Place at, Diag *diag) {
  const int found = find_name(calib_attention_names, "attention", name, at, diag);
  if (found >= 0) *ret_attention = (CalibAttention)found;
  return found < 0 ? -1 : 0;
}

int64_t calib_dtype_bytes(CalibDtype dtype) {
  return dtype == CALIB_FP32 ? 4 : 2;
}

static CalibActivation activation_of(const Llm *llm) {
  if (llm->gated_mlp) return CALIB_SWIGLU;
  return llm->hidden_act == LLM_RELU ? CALIB_RELU : CALIB_GELU;
}

static CalibPositions positions_of(const Llm *llm) {
  switch ((LlmPositions)llm->position_embedding_type) {
  case LLM_ALIBI:
    return CALIB_ALIBI;
  case LLM_LEARNED:
    return CALIB_LEARNED;
  default:
    return CALIB_ROPE;
  }
}

static int check_size(const Llm *llm, const char *what, int64_t size, Place at, Diag *diag) {
  if (size >= 1 && size <= INT32_MAX) return 0;
  return diag_error(diag, at, "%s %lld of model '%s' must be from 1 to %d", what, (long long)size,
                    llm->name, INT32_MAX);
}

static int check_sizes(const Llm *llm, Place at, Diag *diag) {
  const struct {
    const char *name;
    int64_t size;
  } sizes[] = {{"num_hidden_layers", llm->num_hidden_layers},
               {"hidden_size", llm->hidden_size},
               {"num_attention_heads", llm->num_attention_heads},
               {"num_key_value_heads", llm->num_key_value_heads},
               {"head_dim", llm->head_dim},
               {"intermediate_size", llm->intermediate_size},
               {"vocab_size", llm->vocab_size},
               {"max_position_embeddings", llm->max_position_embeddings},
               {"num_experts", llm->num_experts > 0 ? llm->num_experts : 1},
               {"num_experts_per_tok", llm->num_experts > 0 ? llm->num_experts_per_tok : 1},
               {"moe_intermediate_size", llm->num_experts > 0 ? llm->moe_intermediate_size : 1}};
  int error = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    error |= check_size(llm, sizes[i].name, sizes[i].size, at, diag);
  return error;
}

/* Layers are all alike in a CalibModel. */
static int check_experts(const Llm *llm, int32_t tp, Place at, Diag *diag) {
  if (llm->num_experts == 0) {
    if (llm->intermediate_size % tp == 0) return 0;
    return diag_error(diag, at,
                      "tensor_parallel_size %d does not divide intermediate_size %lld of model "
                      "'%s'",
                      (int)tp, (long long)llm->intermediate_size, llm->name);
  }
  if (llm->shared_expert_intermediate_size > 0)
    return diag_error(diag, at, "model '%s' has shared experts, which no backend can measure",
                      llm->name);
  if (llm->num_dense_layers > 0)
    return diag_error(diag, at,
                      "model '%s' has %lld layers without experts beside those with, which no "
                      "backend can measure",
                      llm->name, (long long)llm->num_dense_layers);
  return 0; // hardware_check_split has divided their columns
}

static int check_norms(const Llm *llm, Place at, Diag *diag) {
  if (!llm->wide_qk_norm) return 0;
  return diag_error(diag, at,
                    "model '%s' has norms over all heads of q and of k, which no backend can "
                    "measure",
                    llm->name);
}

static int check_options(const Llm *llm, const CalibModelOptions *options, Place at, Diag *diag) {
  const int32_t tp = options->tensor_parallel_size;
  const Hardware any = {.name = "any", .num_gpus = INT64_MAX};
  if (tp < 1) return diag_error(diag, at, "tensor_parallel_size must be at least 1");
  if (hardware_check_split(llm, &any, (Parallelism){.tensor = tp, .pipeline = 1, .data = 1}, at,
                           diag))
    return -1;
  if (check_experts(llm, tp, at, diag) || check_norms(llm, at, diag)) return -1;
  if (options->layers > llm->num_hidden_layers)
    return diag_error(diag, at, "model '%s' has %lld layers, not %d", llm->name,
                      (long long)llm->num_hidden_layers, (int)options->layers);
  return 0;
}

int calib_model_init(CalibModel *ret_model, const Llm *llm, const CalibModelOptions *options,
                     Place at, Arena *arena, Diag *diag) {
  if (check_sizes(llm, at, diag) || check_options(llm, options, at, diag)) return -1;
  const bool whole = options->layers == 0 || options->layers == llm->num_hidden_layers;
  *ret_model = (CalibModel){
      .name = whole ? llm->name : arena_printf(arena, "%s-%dl", llm->name, (int)options->layers),
      .file = whole ? llm->file : NULL,
      .num_hidden_layers = whole ? (int32_t)llm->num_hidden_layers : options->layers,
      .hidden_size = (int32_t)llm->hidden_size,
      .num_attention_heads = (int32_t)llm->num_attention_heads,
      .num_key_value_heads = (int32_t)llm->num_key_value_heads,
      .head_dim = (int32_t)llm->head_dim,
      .intermediate_size = (int32_t)llm->intermediate_size,
      .vocab_size = (int32_t)llm->vocab_size,
      .max_position_embeddings = (int32_t)llm->max_position_embeddings,
      .norm = llm->norm == LLM_RMS_NORM ? CALIB_RMS_NORM : CALIB_LAYER_NORM,
      .activation = activation_of(llm),
      .positions = positions_of(llm),
      .bias = llm->bias,
      .qk_norm = llm->qk_norm,
      .dtype = options->dtype,
      .weights = options->weights,
      .attention = options->attention,
      .tensor_parallel_size = options->tensor_parallel_size,
      .block_size = options->block_size > 0 ? options->block_size : CALIB_BLOCK_SIZE,
      .num_experts = (int32_t)llm->num_experts,
      .num_experts_per_tok = (int32_t)llm->num_experts_per_tok,
      .moe_intermediate_size = (int32_t)llm->moe_intermediate_size,
      .router = llm->sigmoid_router ? CALIB_SIGMOID : CALIB_SOFTMAX,
  };
  return 0;
}
