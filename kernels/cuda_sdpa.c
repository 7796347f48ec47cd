/* Attention of the lanes by cuDNN, where the model asks for it: what cuDNN wants to know of a
 * batch, beside what all kernels have of it. */
#include "kernels/cuda_state.h"
#include "kernels/sdpa.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool attention_is_cudnn(const CudaState *self) {
  return self->model.attention == CALIB_ATTENTION_CUDNN;
}

CalibStatus sdpa_prepare_model(CudaState *self, char *error) {
  self->residency = (KernelResidency){.decode = self->device.n_units};
  return self->sdpa ? CALIB_OK : sdpa_open(&self->sdpa, error);
}

/* The arrays: elements before the sequences of prefills, in q and in out, and lengths of all. */
typedef struct Arrays {
  int64_t *q_offsets, *out_offsets; // [n_prefills + 1]
  int32_t *q_lengths, *kv_lengths;  // [n_prefills + n_decodes]
  size_t bytes;
} Arrays;

static Arrays arrays_in(void *memory, const BatchLayout *layout) {
  const size_t offsets = (size_t)layout->n_prefills + 1;
  const size_t lengths = (size_t)layout->n_prefills + (size_t)layout->n_decodes;
  Arrays arrays = {.q_offsets = memory};
  arrays.out_offsets = arrays.q_offsets + offsets;
  arrays.q_lengths = (int32_t *)(arrays.out_offsets + offsets);
  arrays.kv_lengths = arrays.q_lengths + lengths;
  arrays.bytes = 2 * offsets * sizeof *arrays.q_offsets + 2 * lengths * sizeof *arrays.q_lengths;
  return arrays;
}

static void fill_arrays(const CudaState *self, const BatchLayout *layout, const Arrays *arrays) {
  const BatchArrays *at = &layout->at;
  const int32_t n = layout->n_prefills;
  for (int32_t i = 0; i <= n; i++) {
    const int64_t row = at->row_starts[i];
    arrays->q_offsets[i] = row * self->shape.qkv;
    arrays->out_offsets[i] = row * self->shape.attention;
  }
  for (int32_t i = 0; i < n; i++) {
    arrays->q_lengths[i] = at->row_starts[i + 1] - at->row_starts[i];
    arrays->kv_lengths[i] = at->past[i] + arrays->q_lengths[i];
  }
  for (int32_t i = 0; i < layout->n_decodes; i++) {
    arrays->q_lengths[n + i] = 1;
    arrays->kv_lengths[n + i] = at->contexts[i];
  }
}

CalibStatus sdpa_prepare_batch(CudaState *self, CudaLane *lane, char *error) {
  lane->sdpa_engines[0] = lane->sdpa_engines[1] = -1;
  if (!attention_is_cudnn(self)) return CALIB_OK;
  const size_t bytes = arrays_in(NULL, &lane->layout).bytes;
  void *host = must(malloc(bytes));
  const Arrays arrays = arrays_in(host, &lane->layout);
  fill_arrays(self, &lane->layout, &arrays);
  return lane_give(lane, &lane->sdpa_arrays, host, bytes, error);
}

/* A prefill of one token each has nothing to mask, and so is a plan as of decodes. */
static SdpaShape shape_of(const CudaState *self, const CudaLane *lane, bool is_decode) {
  const BatchLayout *layout = &lane->layout;
  return (SdpaShape){.dtype = self->model.dtype,
                     .query_heads = self->shape.query_heads,
                     .kv_heads = self->shape.kv_heads,
                     .qk_dim = self->shape.head_dim,
                     .v_dim = self->shape.head_dim,
                     .block_size = self->model.block_size,
                     .n_pages = layout->part_pages,
                     .sequences = is_decode ? layout->n_decodes : layout->n_prefills,
                     .max_new = is_decode ? 1 : layout->max_new,
                     .max_pages = layout->max_pages,
                     .q_stride = self->shape.qkv,
                     .out_stride = self->shape.attention};
}

CalibStatus sdpa_attend(CudaState *self, CudaLane *lane, int64_t layer, bool is_decode,
                        char *error) {
  const BatchLayout *layout = &lane->layout;
  const SdpaShape shape = shape_of(self, lane, is_decode);
  const KernelAttention attention = model_attention(self, lane, layer);
  const Arrays arrays = arrays_in(lane->sdpa_arrays.data, layout);
  const int64_t row = is_decode ? layout->prefill_tokens : 0;
  const int64_t first = is_decode ? layout->n_prefills : 0;
  const SdpaPlan *plan = NULL;
  TRY(sdpa_plan(self->sdpa, &shape, &plan, error));
  TRY(buffer_reserve(&lane->sdpa_workspace, sdpa_plan_workspace(plan), error));
  lane->sdpa_engines[is_decode] = sdpa_plan_engine(plan);
  const SdpaOperands operands = {
      .out = (char *)lane->tensors[TENSOR_ATTENTION].data + 2 * row * shape.out_stride,
      .q = (const char *)lane->tensors[TENSOR_QKV].data + 2 * row * shape.q_stride,
      .kv_pages = attention.kv_pages,
      .page_table = attention.page_table + first * layout->max_pages,
      .q_lengths = arrays.q_lengths + first,
      .kv_lengths = arrays.kv_lengths + first,
      .q_offsets = arrays.q_offsets,
      .out_offsets = arrays.out_offsets,
      .scale = attention.scale};
  return sdpa_run(self->sdpa, plan, lane->stream, &operands, lane->sdpa_workspace.data, error);
}

void attention_name(const CudaState *self, char *ret_name, size_t size) {
  const int64_t *engines = self->main.sdpa_engines;
  if (!(self->work.parts & (CALIB_PART_PREFILL | CALIB_PART_DECODE))) return;
  if (self->wgmma_blocks > 0)
    snprintf(ret_name, size, "wgmma%s", self->main.layout.wgmma_rows > 0 ? "" : " (mma.sync)");
  else if (!attention_is_cudnn(self))
    snprintf(ret_name, size, "tandem");
  else if (engines[0] < 0 && engines[1] < 0) // it has not run
    snprintf(ret_name, size, "cudnn %s", sdpa_version(self->sdpa));
  else if (engines[0] < 0 || engines[1] < 0 || engines[0] == engines[1])
    snprintf(ret_name, size, "cudnn %s engine %lld", sdpa_version(self->sdpa),
             (long long)(engines[0] < 0 ? engines[1] : engines[0]));
  else
    snprintf(ret_name, size, "cudnn %s engines %lld and %lld", sdpa_version(self->sdpa),
             (long long)engines[0], (long long)engines[1]);
}
