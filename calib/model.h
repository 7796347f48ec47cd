/* A model of perfmodel/ as backends take it: the shard of one device, checked to divide.
 *
 * With `layers` it is a model of so many of its layers, under a name of its own ("llama2-70b-4l"):
 * its terms are those of that smaller model, not of the whole one. */
#ifndef CALIB_MODEL_H
#define CALIB_MODEL_H
#include "calib/backend.h"
#include "perfmodel/llm.h"

enum { CALIB_BLOCK_SIZE = 16 }; // tokens in a page of KV, unless said otherwise

typedef struct CalibModelOptions {
  CalibDtype dtype;
  CalibWeights weights;
  CalibAttention attention;
  int32_t tensor_parallel_size;
  int32_t layers;     // 0: all
  int32_t block_size; // 0: CALIB_BLOCK_SIZE
} CalibModelOptions;

/* Fills `ret_model`, whose name lives in `arena` or is that of `llm`. An entry at `at` when
 * tensor_parallel_size does not divide the heads or the feed-forward columns, a size is beyond
 * what a backend takes, or some layers have experts and others have none or shared ones beside. */
int calib_model_init(CalibModel *ret_model, const Llm *llm, const CalibModelOptions *options,
                     Place at, Arena *arena, Diag *diag);

/* "plain", "fp8", "fp8_block", NULL; the latter two are number formats of perfmodel/dtype.h. An
 * entry at `at`, with near names, when there is none such. */
extern const char *const calib_weights_names[];
int calib_weights_find(CalibWeights *ret_weights, const char *name, Place at, Diag *diag);
/* "tandem", "cudnn", "wgmma", NULL: the kernels of the backend, cuDNN's, or those of the backend
 * with prefills by Hopper's own instructions. An entry at `at`, with near names, when there is none
 * such. */
extern const char *const calib_attention_names[];
int calib_attention_find(CalibAttention *ret_attention, const char *name, Place at, Diag *diag);
/* "bf16", "fp16", "fp32", NULL. */
extern const char *const calib_dtype_names[];
/* An entry at `at`, with near names, when there is no such type. */
int calib_dtype_find(CalibDtype *ret_dtype, const char *name, Place at, Diag *diag);
int64_t calib_dtype_bytes(CalibDtype dtype);
#endif
