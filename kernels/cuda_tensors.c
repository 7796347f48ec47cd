/* Where the tensors of the prepared work lie, for verification: in its first set of operands. */
#include "kernels/cuda_state.h"
#include "kernels/half.h"
#include "kernels/split_kv.h"
#include <stdlib.h>
#include <string.h>

/* Rows of `columns` on the device or in host memory; at NULL: none. */
typedef struct Place {
  const void *at;
  int64_t columns;
} Place;

static bool is_pages(const CudaState *self) {
  return calib_op_size(self->work.op) == CALIB_SIZE_pages;
}

/* The near and the far end of a copy, or of its way back; of pages, the side that is not the pool;
 * of an all-reduce what is summed and the sums. */
static Place copy_place(const CudaState *self, bool is_to, bool is_back) {
  const CudaWork *work = &self->work;
  const void *pinned = self->pinned.data, *device = self->copy.data;
  const int64_t page = self->memory.page_bytes / 2;
  switch (work->op) {
  case CALIB_COPY_BOTH: {
    const int64_t half = is_back ? operator_half_bytes(work) : 0;
    return (Place){(const char *)(is_to == is_back ? pinned : device) + half, 1};
  }
  case CALIB_COPY_H2D:
    return (Place){is_to ? device : pinned, 1};
  case CALIB_COPY_D2H:
    return (Place){is_to ? pinned : device, 1};
  case CALIB_COPY_PAGEABLE:
    return (Place){is_to ? device : self->pageable.data, 1};
  case CALIB_COPY_PEER:
    return (Place){is_to ? self->peer.data : device, 1};
  case CALIB_COPY_D2D:
    return (Place){(char *)self->rotation.data + (is_to ? work->operand_bytes / 2 : 0), 1};
  case CALIB_WEIGHT_RELOAD: // more than a layer comes from the same memory again
    if (work->size > work->operand_bytes || work->size > self->memory.matrix_bytes) break;
    return (Place){is_to ? self->matrices.data : pinned, 1};
  case CALIB_KV_GATHER:
    return (Place){is_to ? device : self->kv.data, page};
  case CALIB_KV_SCATTER:
    return (Place){is_to ? self->kv.data : device, page};
  case CALIB_KV_OUT:
    return (Place){is_to ? pinned : self->kv.data, page};
  case CALIB_ALL_REDUCE:
  case CALIB_ALL_REDUCE_PEER:
    return (Place){group_tensor(self, is_to), 8};
  default:
    break;
  }
  return (Place){NULL, 0};
}

static Place place_of(const CudaState *self, CalibTensor tensor, int64_t layer) {
  const CudaLayer w = model_layer(self, layer), last = model_layer(self, 0);
  const CudaLane lane = operator_lane(self, 0);
  const BatchArrays *batch = &self->main.batch;
  const void *places[CALIB_N_TENSORS] = {
      [TENSOR_IDS] = self->ids.data,
      [TENSOR_POSITIONS] = batch->positions,
      [TENSOR_LOGIT_ROWS] = batch->logit_rows,
      [TENSOR_EMBEDDING] = self->embedding.data,
      [TENSOR_POSITION_TABLE] = self->positions.data,
      [TENSOR_FINAL_NORM] = last.norms[0],
      [TENSOR_FINAL_NORM_BIAS] = last.norm_biases[0],
      [TENSOR_HEAD_WEIGHTS] = model_head(self, 0),
      [TENSOR_NORM] = w.norms[0],
      [TENSOR_NORM_BIAS] = w.norm_biases[0],
      [TENSOR_QKV_WEIGHTS] = w.products[0],
      [TENSOR_QKV_BIAS] = w.product_biases[0],
      [TENSOR_Q_NORM] = w.q_norm,
      [TENSOR_K_NORM] = w.k_norm,
      [TENSOR_O_WEIGHTS] = w.products[1],
      [TENSOR_O_BIAS] = w.product_biases[1],
      [TENSOR_FFN_NORM] = w.norms[1],
      [TENSOR_FFN_NORM_BIAS] = w.norm_biases[1],
      [TENSOR_UP_WEIGHTS] = w.products[2],
      [TENSOR_UP_BIAS] = w.product_biases[2],
      [TENSOR_DOWN_WEIGHTS] = w.products[3],
      [TENSOR_DOWN_BIAS] = w.product_biases[3],
      [TENSOR_KEYS] = self->kv.data,
      [TENSOR_VALUES] = self->kv.data,
      [TENSOR_ROUTER_WEIGHTS] = w.router,
      [TENSOR_EXPERTS] = lane.tensors[CUDA_EXPERTS].data,
      [TENSOR_EXPERT_SHARES] = lane.tensors[CUDA_SHARES].data,
      [TENSOR_EXPERT_PAIRS] = lane.tensors[CUDA_PAIRS].data,
      [TENSOR_EXPERT_ROWS] = lane.tensors[CUDA_ROWS].data,
  };
  if (tensor == TENSOR_FROM || tensor == TENSOR_TO)
    return copy_place(self, tensor == TENSOR_TO, layer > 0);
  const int64_t columns = layer_columns(&self->model, tensor);
  if (tensor > TENSOR_BEST) return (Place){places[tensor], columns};
  /* A product that takes the activation with it leaves nothing before it. */
  const bool is_fused = self->work.op != CALIB_ACTIVATION && layer_fuses_activation(self);
  if (is_fused && tensor == TENSOR_UP) return (Place){NULL, 0};
  return (Place){lane.tensors[is_fused && tensor == TENSOR_ACTIVE ? TENSOR_UP : tensor].data,
                 columns};
}

int64_t tensor_columns(void *state, CalibTensor tensor) {
  const Place place = place_of(state, tensor, 0);
  return place.at || tensor <= TENSOR_LOGIT_ROWS ? place.columns : 0; // those come with a batch
}

/* What a number is on the device. */
typedef enum Element { ELEMENT_BYTE, ELEMENT_HALF, ELEMENT_INDEX, ELEMENT_FLOAT } Element;

static Element element_of(const CudaState *self, CalibTensor tensor) {
  if (tensor == TENSOR_EXPERT_SHARES) return ELEMENT_FLOAT;
  if (tensor == TENSOR_FROM || tensor == TENSOR_TO)
    return is_pages(self) || group_has(self) ? ELEMENT_HALF : ELEMENT_BYTE;
  const bool is_index = (tensor >= TENSOR_BEST && tensor <= TENSOR_LOGIT_ROWS) ||
                        tensor == TENSOR_EXPERTS || tensor == TENSOR_EXPERT_PAIRS ||
                        tensor == TENSOR_EXPERT_ROWS;
  return is_index ? ELEMENT_INDEX : ELEMENT_HALF;
}

static size_t element_bytes(Element element) {
  return element == ELEMENT_BYTE ? 1 : element == ELEMENT_HALF ? 2 : 4;
}

/* Bytes to or from the device, or the GPU of this rank. Waits. */
static CalibStatus move_bytes(CudaState *self, int32_t rank, char *at, void *data, size_t bytes,
                              bool writes, char *error) {
  cudaStream_t stream = self->main.stream;
  if (rank > 0) return group_move(self, rank, at, data, (int64_t)bytes, writes, error);
  CUDA_TRY(cudaMemcpyAsync(writes ? (void *)at : data, writes ? data : (void *)at, bytes,
                           cudaMemcpyDefault, stream));
  return CUDA_STATUS(cudaStreamSynchronize(stream));
}

/* `n` numbers in one piece to or from the device. Waits. */
static CalibStatus move_piece(CudaState *self, int32_t rank, char *at, Element element,
                              double *values, int64_t n, bool writes, char *error) {
  const size_t bytes = (size_t)n * element_bytes(element);
  const CalibDtype dtype = self->model.dtype;
  uint32_t *words = must(malloc(bytes + sizeof *words));
  uint16_t *halves = (uint16_t *)words;
  float *floats = (float *)words;
  unsigned char *raw = (unsigned char *)words;
  for (int64_t i = 0; writes && i < n; i++) {
    if (element == ELEMENT_INDEX) words[i] = (uint32_t)(int32_t)values[i];
    if (element == ELEMENT_FLOAT) floats[i] = (float)values[i];
    if (element == ELEMENT_HALF) half_store(dtype, halves, i, values[i]);
    if (element == ELEMENT_BYTE) raw[i] = (unsigned char)values[i];
  }
  const CalibStatus status = move_bytes(self, rank, at, words, bytes, writes, error);
  for (int64_t i = 0; !writes && i < n; i++) {
    if (element == ELEMENT_INDEX) values[i] = (int32_t)words[i];
    if (element == ELEMENT_FLOAT) values[i] = floats[i];
    if (element == ELEMENT_HALF) values[i] = half_load(dtype, halves, i);
    if (element == ELEMENT_BYTE) values[i] = raw[i];
  }
  free(words);
  return status;
}

/* Where a token of a sequence or of the batch lies in the pool. */
static int64_t slot_of(const CudaState *self, const CalibSlice *slice, int64_t row) {
  const BatchLayout *layout = &self->main.layout;
  if (slice->sequence == CALIB_OF_ROWS) return layout->at.slots[row];
  return kv_slot(layout->at.page_table + (int64_t)slice->sequence * layout->max_pages, (int32_t)row,
                 (int32_t)self->model.block_size);
}

/* Tokens of a sequence or of the batch. A page's keys, or its values, lie together,
 * [head][token][head_dim], and cross in one copy each way. */
static CalibStatus move_kv(CudaState *self, const CalibSlice *slice, double *values, bool writes,
                           char *error) {
  const int64_t block = self->model.block_size, kind = slice->tensor == TENSOR_VALUES;
  const int64_t heads = self->shape.kv_heads, dim = self->shape.head_dim;
  const int64_t n = heads * block * dim;
  double *page = must(malloc((size_t)n * sizeof *page));
  CalibStatus status = CALIB_OK;
  for (int64_t i = 0; i < slice->n_rows && !status;) {
    const int64_t ix = slot_of(self, slice, slice->row + i) / block;
    char *at = (char *)model_kv(self, &self->main.layout, slice->layer) + 2 * (ix * 2 + kind) * n;
    status = move_piece(self, 0, at, ELEMENT_HALF, page, n, false, error);
    for (; i < slice->n_rows && !status; i++, values += heads * dim) {
      const int64_t slot = slot_of(self, slice, slice->row + i);
      if (slot / block != ix) break;
      for (int64_t head = 0; head < heads; head++) {
        double *in_page = page + (head * block + slot % block) * dim;
        double *own = values + head * dim;
        memcpy(writes ? in_page : own, writes ? own : in_page, (size_t)dim * sizeof *own);
      }
    }
    if (!status && writes) status = move_piece(self, 0, at, ELEMENT_HALF, page, n, true, error);
  }
  free(page);
  return status;
}

/* The pool's side of a copy of pages. */
static CalibStatus move_page(CudaState *self, int64_t row, double *values, bool writes,
                             char *error) {
  int32_t page = 0;
  CUDA_TRY(cudaMemcpy(&page, (const int32_t *)self->pages.data + row, sizeof page,
                      cudaMemcpyDeviceToHost));
  char *at = (char *)model_kv(self, &self->main.layout, 0) + page * self->memory.page_bytes;
  return move_piece(self, 0, at, ELEMENT_HALF, values, self->memory.page_bytes / 2, writes, error);
}

/* The product whose weights of 8 bits these are; -1: none. */
static int product_of(const CudaState *self, CalibTensor tensor) {
  static const CalibTensor WEIGHTS[] = {TENSOR_QKV_WEIGHTS, TENSOR_O_WEIGHTS, TENSOR_UP_WEIGHTS,
                                        TENSOR_DOWN_WEIGHTS};
  for (int i = 0; i < 4 && self->model.weights != CALIB_WEIGHTS_PLAIN; i++)
    if (WEIGHTS[i] == tensor) return i;
  return -1;
}

CalibStatus tensor_move(void *state, const CalibSlice *slice, double *values, bool writes,
                        char *error) {
  CudaState *self = state;
  const Place place = place_of(self, slice->tensor, slice->layer);
  const bool is_kv = slice->tensor == TENSOR_KEYS || slice->tensor == TENSOR_VALUES;
  const bool is_pool = is_pages(self) && place.at == self->kv.data;
  const Element element = element_of(self, slice->tensor);
  if (is_kv) return move_kv(self, slice, values, writes, error);
  for (int64_t i = 0; is_pool && i < slice->n_rows; i++, values += place.columns)
    TRY(move_page(self, slice->row + i, values, writes, error));
  if (is_pool) return CALIB_OK;
  const int product = product_of(self, slice->tensor);
  if (product >= 0 && !writes)
    return fp8_read_weights(self, product, slice->layer, slice->row, slice->n_rows, values, error);
  char *at = (char *)place.at + slice->row * place.columns * (int64_t)element_bytes(element);
  return move_piece(self, group_has(self) ? slice->layer : 0, at, element, values,
                    slice->n_rows * place.columns, writes, error);
}
