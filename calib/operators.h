/* What an operator is called, and what it has to do at least: the numbers of a batch, FLOPs, bytes.
 *
 * FLOPs are those of products, causal attention counted exactly, and of the vectors of single
 * operators. Bytes are what must cross the operator's path (memory,
 * link to the host or to other GPUs): the operands once, cold; of terms of all layers only weights,
 * KV and attention's rows, because activations between operators may stay in a cache. */
#ifndef CALIB_OPERATORS_H
#define CALIB_OPERATORS_H
#include "calib/backend.h"
#include "perfmodel/profile.h"

typedef struct CalibWork {
  double flops, bytes;
} CalibWork;

const char *calib_op_name(CalibOp op);
/* Of all operators, NULL-terminated, in the order of CalibOp. */
extern const char *const calib_op_names[];
const char *calib_tensor_name(CalibTensor tensor);
/* Of all tensors, NULL-terminated, in the order of CalibTensor. */
extern const char *const calib_tensor_names[];
/* The same in a profile. */
static inline ProfileOp calib_profile_op(CalibOp op) {
  return (ProfileOp)op;
}

/* P, 2A, n, C and s of a batch. The context of a decode counts its new token, as the simulator's
 * does: a sequence of prompt p that has made g tokens and makes the next reads p + g of them. */
BatchShape calib_batch_shape(const CalibBatch *batch);
/* The same of any point: a term described by `size` is that of so many prefill tokens, or, the
 * head, of so many sequences. All 0 for single operators. */
BatchShape calib_point_shape(const CalibPoint *point);
/* Of the shard that one device holds, and of point->layers of its layers. */
CalibWork calib_work(const CalibModel *model, const CalibPoint *point);
#endif
