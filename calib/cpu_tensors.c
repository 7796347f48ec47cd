/* Where the tensors of a point lie, for verification. */
#include "calib/cpu_point.h"

/* Rows of `columns` numbers; at NULL: none. */
typedef struct Place {
  const void *at;
  int64_t columns;
} Place;

/* A layer of the point's first round. */
static int32_t layer_of(const CpuPoint *self, int32_t layer) {
  const CpuModel *model = self->model;
  const bool has_head = self->point.op == CALIB_ITERATION;
  return layer % (has_head ? model->n_layers : model->n_layers + model->n_spares);
}

static bool is_pages(const CpuPoint *self) {
  return calib_op_size(self->point.op) == CALIB_SIZE_pages;
}

/* Weights of a product on its own are what it ran on. */
static Place place_of(const CpuPoint *self, CalibTensor tensor, int32_t layer) {
  const CpuModel *model = self->model;
  const CpuActivations *room = &model->activations;
  const CpuLayer *w = &model->layers[layer_of(self, layer)];
  const CpuBatch *batch = &self->batch;
  const int64_t hidden = model->shape.hidden_size, qkv = model->qkv_columns, up = model->up_columns;
  const int64_t heads = (int64_t)model->query_heads * model->kv.head_dim;
  const int64_t kv = (int64_t)model->kv.kv_heads * model->kv.head_dim;
  const bool is_slice = self->weights;
  const Place places[CALIB_N_TENSORS] = {
      [TENSOR_RESIDUAL] = {room->residual, hidden},
      [TENSOR_NORMED] = {room->normed, hidden},
      [TENSOR_ADDED] = {room->delta, hidden},
      [TENSOR_QKV] = {room->qkv, qkv},
      [TENSOR_ATTENTION] = {room->attention, heads},
      [TENSOR_UP] = {room->up, up},
      [TENSOR_ACTIVE] = {room->ffn, model->ffn},
      [TENSOR_HEAD_NORMED] = {room->head_normed, hidden},
      [TENSOR_LOGITS] = {room->logits, model->vocab},
      [TENSOR_BEST] = {room->argmax, 1},
      [TENSOR_IDS] = {batch->ids, 1},
      [TENSOR_POSITIONS] = {batch->positions, 1},
      [TENSOR_LOGIT_ROWS] = {batch->logit_rows, 1},
      [TENSOR_EMBEDDING] = {model->embedding, hidden},
      [TENSOR_POSITION_TABLE] = {model->positions, hidden},
      [TENSOR_FINAL_NORM] = {model->final_norm, hidden},
      [TENSOR_FINAL_NORM_BIAS] = {model->final_norm_bias, hidden},
      [TENSOR_HEAD_WEIGHTS] = {is_slice ? self->weights : model->head, hidden},
      [TENSOR_NORM] = {w->norm, hidden},
      [TENSOR_NORM_BIAS] = {w->norm_bias, hidden},
      [TENSOR_QKV_WEIGHTS] = {is_slice ? self->weights : w->qkv, hidden},
      [TENSOR_QKV_BIAS] = {w->qkv_bias, qkv},
      [TENSOR_Q_NORM] = {w->q_norm, model->kv.head_dim},
      [TENSOR_K_NORM] = {w->k_norm, model->kv.head_dim},
      [TENSOR_O_WEIGHTS] = {is_slice ? self->weights : w->o, heads},
      [TENSOR_O_BIAS] = {w->o_bias, hidden},
      [TENSOR_FFN_NORM] = {w->ffn_norm, hidden},
      [TENSOR_FFN_NORM_BIAS] = {w->ffn_norm_bias, hidden},
      [TENSOR_UP_WEIGHTS] = {is_slice ? self->weights : w->up, hidden},
      [TENSOR_UP_BIAS] = {w->up_bias, up},
      [TENSOR_DOWN_WEIGHTS] = {is_slice ? self->weights : w->down, model->ffn},
      [TENSOR_DOWN_BIAS] = {w->down_bias, hidden},
      [TENSOR_KEYS] = {model->pool, kv},
      [TENSOR_VALUES] = {model->pool, kv},
      [TENSOR_FROM] = {self, is_pages(self) ? cpu_kv_page_floats(&model->kv) : 1},
      [TENSOR_TO] = {self, is_pages(self) ? cpu_kv_page_floats(&model->kv) : 1},
  };
  return places[tensor];
}

int64_t cpu_point_columns(const CpuPoint *self, CalibTensor tensor) {
  const Place place = place_of(self, tensor, 0);
  /* Activations come with the first batch. */
  return place.at || tensor <= TENSOR_LOGIT_ROWS ? place.columns : 0;
}

/* Keys lie by column, values by token. A row is a token of the sequence or of the batch. */
static float *kv_number(const CpuPoint *self, const CalibSlice *slice, int64_t row, int64_t i) {
  const CpuModel *model = self->model;
  const CpuKvShape *kv = &model->kv;
  const int64_t size = kv->block_size, dim = kv->head_dim;
  const int32_t *pages = cpu_batch_pages(&self->batch, model, 0);
  const int64_t slot =
      slice->sequence == CALIB_OF_ROWS
          ? self->batch.slots[row]
          : pages[self->batch.page_starts[slice->sequence] + row / size] * size + row % size;
  float *head = cpu_model_pool(model, layer_of(self, slice->layer) % model->n_layers) +
                slot / size * cpu_kv_page_floats(kv) + i / dim * cpu_kv_head_floats(kv);
  return slice->tensor == TENSOR_KEYS ? head + i % dim * size + slot % size
                                      : head + (size + slot % size) * dim + i % dim;
}

/* Of the first round. */
static void *copy_place(const CpuPoint *self, bool is_to, int64_t row) {
  const CpuModel *model = self->model;
  const bool is_pool_side = is_to == (self->point.op == CALIB_KV_SCATTER);
  if (!is_pages(self)) return (char *)model->pool + (is_to ? self->point.size : 0) + row;
  return (is_pool_side ? model->pool : self->buffer) +
         (is_pool_side ? model->shuffled[row] : row) * cpu_kv_page_floats(&model->kv);
}

/* One number to or from its place. */
static void move_number(void *at, bool is_byte, bool is_int, double *value, bool writes) {
  unsigned char *byte = at;
  int32_t *word = at;
  float *number = at;
  if (writes && is_byte)
    *byte = (unsigned char)*value;
  else if (writes && is_int)
    *word = (int32_t)*value;
  else if (writes)
    *number = (float)*value;
  else
    *value = is_byte ? *byte : is_int ? *word : (double)*number;
}

void cpu_point_move(const CpuPoint *self, const CalibSlice *slice, double *values, bool writes) {
  const CalibTensor tensor = slice->tensor;
  const Place place = place_of(self, tensor, slice->layer);
  const bool is_copy = tensor == TENSOR_FROM || tensor == TENSOR_TO;
  const bool is_kv = tensor == TENSOR_KEYS || tensor == TENSOR_VALUES;
  const bool is_int = tensor >= TENSOR_BEST && tensor <= TENSOR_LOGIT_ROWS;
  for (int64_t row = slice->row; row < slice->row + slice->n_rows; row++) {
    float *at = is_copy ? copy_place(self, tensor == TENSOR_TO, row)
                        : (float *)place.at + row * place.columns;
    for (int64_t i = 0; i < place.columns; i++, values++)
      move_number(is_kv ? kv_number(self, slice, row, i) : at + i, is_copy && !is_pages(self),
                  is_int, values, writes);
  }
}
