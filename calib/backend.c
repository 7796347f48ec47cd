/* What backend.h lists, by name. */
#include "calib/backend.h"
#include "calib/model.h"
#include "calib/operators.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

CalibStatus calib_failed(CalibStatus status, char *error, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(error, CALIB_ERROR_SIZE, format, list);
  va_end(list);
  return status;
}

double calib_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

const CalibTelemetry calib_telemetry_unknown = {.sm_clock_mhz = (double)NAN,
                                                .mem_clock_mhz = (double)NAN,
                                                .temperature_c = (double)NAN,
                                                .power_w = (double)NAN,
                                                .power_limit_w = (double)NAN,
                                                .power_window_s = (double)NAN,
                                                .energy_j = (double)NAN};

const char *const calib_op_names[] = {
#define X(id, name, size) name,
#include "perfmodel/operators.def"
#undef X
    NULL};

static const CalibSize SIZES[] = {
#define X(id, name, size) CALIB_SIZE_##size,
#include "perfmodel/operators.def"
#undef X
};

const char *const calib_tensor_names[] = {
#define X(id, name) name,
    CALIB_TENSORS(X)
#undef X
        NULL};

const char *const calib_dtype_names[] = {
    [CALIB_BF16] = "bf16", [CALIB_FP16] = "fp16", [CALIB_FP32] = "fp32", NULL};

const char *const calib_weights_names[] = {
    [CALIB_WEIGHTS_PLAIN] = "plain", [CALIB_FP8] = "fp8", [CALIB_FP8_BLOCK] = "fp8_block", NULL};

const char *const calib_attention_names[] = {[CALIB_ATTENTION_OWN] = "tandem",
                                             [CALIB_ATTENTION_CUDNN] = "cudnn",
                                             [CALIB_ATTENTION_WGMMA] = "wgmma",
                                             NULL};

const char *calib_op_name(CalibOp op) {
  assert(op >= 0 && op < CALIB_N_OPS);
  return calib_op_names[op];
}

CalibSize calib_op_size(CalibOp op) {
  assert(op >= 0 && op < CALIB_N_OPS);
  return SIZES[op];
}

const char *calib_tensor_name(CalibTensor tensor) {
  assert(tensor >= 0 && tensor < CALIB_N_TENSORS);
  return calib_tensor_names[tensor];
}

int64_t calib_tensor_columns(const CalibModel *model, CalibTensor tensor) {
  const int64_t hidden = model->hidden_size, dim = model->head_dim, ffn = calib_ffn(model);
  const int64_t attention = calib_query_heads(model) * dim, kv = calib_kv_heads(model) * dim;
  const int64_t qkv = attention + 2 * kv, up = model->activation == CALIB_SWIGLU ? 2 * ffn : ffn;
  const int64_t norm_bias = model->norm == CALIB_LAYER_NORM ? hidden : 0;
  const int64_t has_bias = model->bias, experts = model->num_experts;
  const int64_t is_mixed = experts > 0, picked = is_mixed ? model->num_experts_per_tok : 0;
  const int64_t columns[CALIB_N_TENSORS] = {
      [TENSOR_RESIDUAL] = hidden,
      [TENSOR_NORMED] = hidden,
      [TENSOR_ADDED] = hidden,
      [TENSOR_QKV] = qkv,
      [TENSOR_ATTENTION] = attention,
      [TENSOR_UP] = up,
      [TENSOR_ACTIVE] = ffn,
      [TENSOR_ROUTER_LOGITS] = experts,
      [TENSOR_EXPERT_OUT] = is_mixed * hidden,
      [TENSOR_HEAD_NORMED] = hidden,
      [TENSOR_LOGITS] = calib_vocab(model),
      [TENSOR_BEST] = 1,
      [TENSOR_IDS] = 1,
      [TENSOR_POSITIONS] = 1,
      [TENSOR_LOGIT_ROWS] = 1,
      [TENSOR_EMBEDDING] = hidden,
      [TENSOR_POSITION_TABLE] = model->positions == CALIB_LEARNED ? hidden : 0,
      [TENSOR_FINAL_NORM] = hidden,
      [TENSOR_FINAL_NORM_BIAS] = norm_bias,
      [TENSOR_HEAD_WEIGHTS] = hidden,
      [TENSOR_NORM] = hidden,
      [TENSOR_NORM_BIAS] = norm_bias,
      [TENSOR_QKV_WEIGHTS] = hidden,
      [TENSOR_QKV_BIAS] = has_bias * qkv,
      [TENSOR_O_WEIGHTS] = attention,
      [TENSOR_O_BIAS] = has_bias * hidden,
      [TENSOR_FFN_NORM] = hidden,
      [TENSOR_FFN_NORM_BIAS] = norm_bias,
      [TENSOR_UP_WEIGHTS] = hidden,
      [TENSOR_UP_BIAS] = has_bias * up,
      [TENSOR_DOWN_WEIGHTS] = ffn,
      [TENSOR_DOWN_BIAS] = has_bias * hidden,
      [TENSOR_KEYS] = kv,
      [TENSOR_VALUES] = kv,
      [TENSOR_ROUTER_WEIGHTS] = is_mixed * hidden,
      [TENSOR_EXPERTS] = picked,
      [TENSOR_EXPERT_SHARES] = picked,
      [TENSOR_EXPERT_PAIRS] = is_mixed,
      [TENSOR_EXPERT_ROWS] = picked,
      [TENSOR_Q_NORM] = model->qk_norm ? dim : 0,
      [TENSOR_K_NORM] = model->qk_norm ? dim : 0,
  };
  return columns[tensor];
}
