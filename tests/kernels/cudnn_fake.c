/* A cuDNN that needs no GPU, as a library of its own that is opened as the real one is: as much of
 * its backend interface as kernels/sdpa.c uses, written from the descriptions in cudnn_graph.h and
 * not from kernels/cudnn.h's user.
 *
 * Descriptors take only the attributes that their type has, of its type of values and so many, and
 * are finalized only when they are complete and their tensors fit one another. Running a plan
 * computes attention in double from what the descriptors say of where numbers lie: a wrong stride,
 * table, length, scale or mask gives other numbers, or is refused. FAKE_CUDNN is "old", "none" (no
 * engine) or "late" (the first engine's plan cannot be finalized). */
#include "kernels/cudnn.h"
#include "kernels/half.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  BAD_PARAM = 2000,
  BAD_POINTER = 2002,
  MISALIGNED = 2003,
  NOT_FINALIZED = 2004,
  BAD_SHAPE = 2008,
  BAD_TYPE = 2010,
  NOT_SUPPORTED = 3000
};
enum { MOST_ATTRIBUTES = 16, MOST_VALUES = 32, WORKSPACE = 4096, ENGINES = 3 };

struct cudnnContext {
  cudaStream_t stream;
};

typedef struct Attribute {
  int name;
  int64_t n;
  union {
    int64_t longs[MOST_VALUES];
    int ints[MOST_VALUES];
    bool bools[MOST_VALUES];
    void *pointers[MOST_VALUES];
  } values;
} Attribute;

typedef struct Descriptor {
  int type, n;
  bool is_final;
  int64_t engine; // of a configuration, an engine or a plan
  const struct Descriptor *graph;
  Attribute attributes[MOST_ATTRIBUTES];
} Descriptor;

static char last_error[200];

static int fail(int code, const char *what, int number) {
  snprintf(last_error, sizeof last_error, "%s (%d)", what, number);
  return code;
}

/* ---- Attributes ---- */

typedef struct Rule {
  int descriptor, name, type;
  int64_t least, most; // of values
  bool is_needed;
  int links_to; // a type of descriptor, 0: none, -1: an operation
} Rule;

static const Rule RULES[] = {
    {CUDNN_TENSOR, CUDNN_TENSOR_ID, CUDNN_OF_INT64, 1, 1, true, 0},
    {CUDNN_TENSOR, CUDNN_TENSOR_DATA_TYPE, CUDNN_OF_DATA_TYPE, 1, 1, true, 0},
    {CUDNN_TENSOR, CUDNN_TENSOR_ALIGNMENT, CUDNN_OF_INT64, 1, 1, true, 0},
    {CUDNN_TENSOR, CUDNN_TENSOR_DIMENSIONS, CUDNN_OF_INT64, 1, 8, true, 0},
    {CUDNN_TENSOR, CUDNN_TENSOR_STRIDES, CUDNN_OF_INT64, 1, 8, true, 0},
    {CUDNN_TENSOR, CUDNN_TENSOR_IS_VIRTUAL, CUDNN_OF_BOOLEAN, 1, 1, false, 0},
    {CUDNN_TENSOR, CUDNN_TENSOR_IS_BY_VALUE, CUDNN_OF_BOOLEAN, 1, 1, false, 0},
    {CUDNN_TENSOR, CUDNN_TENSOR_RAGGED_OFFSETS, CUDNN_OF_DESCRIPTOR, 1, 1, false, CUDNN_TENSOR},
    {CUDNN_SDPA, CUDNN_SDPA_Q, CUDNN_OF_DESCRIPTOR, 1, 1, true, CUDNN_TENSOR},
    {CUDNN_SDPA, CUDNN_SDPA_K, CUDNN_OF_DESCRIPTOR, 1, 1, true, CUDNN_TENSOR},
    {CUDNN_SDPA, CUDNN_SDPA_V, CUDNN_OF_DESCRIPTOR, 1, 1, true, CUDNN_TENSOR},
    {CUDNN_SDPA, CUDNN_SDPA_O, CUDNN_OF_DESCRIPTOR, 1, 1, true, CUDNN_TENSOR},
    {CUDNN_SDPA, CUDNN_SDPA_SCALE, CUDNN_OF_DESCRIPTOR, 1, 1, false, CUDNN_TENSOR},
    {CUDNN_SDPA, CUDNN_SDPA_PAGE_TABLE_K, CUDNN_OF_DESCRIPTOR, 1, 1, false, CUDNN_TENSOR},
    {CUDNN_SDPA, CUDNN_SDPA_PAGE_TABLE_V, CUDNN_OF_DESCRIPTOR, 1, 1, false, CUDNN_TENSOR},
    {CUDNN_SDPA, CUDNN_SDPA_Q_LENGTHS, CUDNN_OF_DESCRIPTOR, 1, 1, false, CUDNN_TENSOR},
    {CUDNN_SDPA, CUDNN_SDPA_KV_LENGTHS, CUDNN_OF_DESCRIPTOR, 1, 1, false, CUDNN_TENSOR},
    {CUDNN_SDPA, CUDNN_SDPA_SUBGRAPH, CUDNN_OF_DESCRIPTOR, 1, 1, false, CUDNN_GRAPH},
    {CUDNN_SDPA, CUDNN_SDPA_SUBGRAPH_IN, CUDNN_OF_INT64, 1, 1, false, 0},
    {CUDNN_SDPA, CUDNN_SDPA_SUBGRAPH_OUT, CUDNN_OF_INT64, 1, 1, false, 0},
    {CUDNN_BAND_MASK, CUDNN_MASK_X, CUDNN_OF_DESCRIPTOR, 1, 1, true, CUDNN_TENSOR},
    {CUDNN_BAND_MASK, CUDNN_MASK_Y, CUDNN_OF_DESCRIPTOR, 1, 1, true, CUDNN_TENSOR},
    {CUDNN_BAND_MASK, CUDNN_MASK_FILL, CUDNN_OF_DESCRIPTOR, 1, 1, true, CUDNN_TENSOR},
    {CUDNN_BAND_MASK, CUDNN_MASK_Q_LENGTHS, CUDNN_OF_DESCRIPTOR, 1, 1, false, CUDNN_TENSOR},
    {CUDNN_BAND_MASK, CUDNN_MASK_KV_LENGTHS, CUDNN_OF_DESCRIPTOR, 1, 1, false, CUDNN_TENSOR},
    {CUDNN_BAND_MASK, CUDNN_MASK_COMPARISON, CUDNN_OF_POINTWISE, 1, 1, true, 0},
    {CUDNN_GRAPH, CUDNN_GRAPH_HANDLE, CUDNN_OF_HANDLE, 1, 1, true, 0},
    {CUDNN_GRAPH, CUDNN_GRAPH_OPERATIONS, CUDNN_OF_DESCRIPTOR, 1, MOST_VALUES, true, -1},
    {CUDNN_HEURISTICS, CUDNN_HEURISTICS_GRAPH, CUDNN_OF_DESCRIPTOR, 1, 1, true, CUDNN_GRAPH},
    {CUDNN_HEURISTICS, CUDNN_HEURISTICS_MODE, CUDNN_OF_HEURISTIC, 1, 1, true, 0},
    {CUDNN_PLAN, CUDNN_PLAN_HANDLE, CUDNN_OF_HANDLE, 1, 1, true, 0},
    {CUDNN_PLAN, CUDNN_PLAN_CONFIG, CUDNN_OF_DESCRIPTOR, 1, 1, true, CUDNN_ENGINE_CONFIG},
    {CUDNN_VARIANT_PACK, CUDNN_PACK_IDS, CUDNN_OF_INT64, 1, MOST_VALUES, true, 0},
    {CUDNN_VARIANT_PACK, CUDNN_PACK_POINTERS, CUDNN_OF_POINTER, 1, MOST_VALUES, true, 0},
    {CUDNN_VARIANT_PACK, CUDNN_PACK_WORKSPACE, CUDNN_OF_POINTER, 1, 1, true, 0},
};
enum { N_RULES = sizeof RULES / sizeof RULES[0] };

static const Rule *rule_of(int descriptor, int name) {
  for (int i = 0; i < N_RULES; i++)
    if (RULES[i].descriptor == descriptor && RULES[i].name == name) return &RULES[i];
  return NULL;
}

static size_t width_of(int type) {
  switch (type) {
  case CUDNN_OF_BOOLEAN:
    return sizeof(bool);
  case CUDNN_OF_DATA_TYPE:
  case CUDNN_OF_HEURISTIC:
  case CUDNN_OF_POINTWISE:
    return sizeof(int);
  default:
    return 8;
  }
}

static const Attribute *attribute(const Descriptor *self, int name) {
  for (int i = 0; i < self->n; i++)
    if (self->attributes[i].name == name) return &self->attributes[i];
  return NULL;
}

static const Descriptor *linked(const Descriptor *self, int name) {
  const Attribute *found = attribute(self, name);
  return found ? found->values.pointers[0] : NULL;
}

static bool is_operation(const Descriptor *self) {
  return self->type == CUDNN_SDPA || self->type == CUDNN_BAND_MASK;
}

static int check_links(const Rule *rule, int64_t n, const void *values) {
  for (int64_t i = 0; rule->links_to != 0 && i < n; i++) {
    const Descriptor *other = ((Descriptor *const *)values)[i];
    if (!other) return fail(BAD_POINTER, "a link to nothing", rule->name);
    if (!other->is_final) return fail(NOT_FINALIZED, "a link to what is not final", rule->name);
    if (rule->links_to == -1 ? !is_operation(other) : other->type != rule->links_to)
      return fail(BAD_TYPE, "a link to another type", rule->name);
  }
  return CUDNN_OK;
}

int cudnnBackendSetAttribute(CudnnDescriptor descriptor, int name, int type, int64_t n,
                             const void *values) {
  Descriptor *self = descriptor;
  const Rule *rule = rule_of(self->type, name);
  if (self->is_final) return fail(BAD_PARAM, "it is final", name);
  if (!rule) return fail(BAD_PARAM, "no attribute of this descriptor", name);
  if (rule->type != type) return fail(BAD_TYPE, "values of another type", name);
  if (n < rule->least || n > rule->most) return fail(BAD_PARAM, "so many values", name);
  if (!values || attribute(self, name)) return fail(BAD_PARAM, "no values, or twice", name);
  const int code = check_links(rule, n, values);
  if (code != CUDNN_OK) return code;
  Attribute *added = &self->attributes[self->n++];
  *added = (Attribute){.name = name, .n = n};
  memcpy(&added->values, values, (size_t)n * width_of(type));
  return CUDNN_OK;
}

/* ---- Tensors ---- */

typedef struct Tensor {
  int64_t id, dims[4], strides[4], alignment;
  int type;
  bool is_virtual, is_by_value;
  const Descriptor *offsets;
} Tensor;

static Tensor tensor_of(const Descriptor *self) {
  Tensor tensor = {.id = attribute(self, CUDNN_TENSOR_ID)->values.longs[0],
                   .alignment = attribute(self, CUDNN_TENSOR_ALIGNMENT)->values.longs[0],
                   .type = attribute(self, CUDNN_TENSOR_DATA_TYPE)->values.ints[0],
                   .offsets = linked(self, CUDNN_TENSOR_RAGGED_OFFSETS)};
  const Attribute *is_virtual = attribute(self, CUDNN_TENSOR_IS_VIRTUAL);
  const Attribute *is_by_value = attribute(self, CUDNN_TENSOR_IS_BY_VALUE);
  memcpy(tensor.dims, attribute(self, CUDNN_TENSOR_DIMENSIONS)->values.longs, sizeof tensor.dims);
  memcpy(tensor.strides, attribute(self, CUDNN_TENSOR_STRIDES)->values.longs,
         sizeof tensor.strides);
  tensor.is_virtual = is_virtual && is_virtual->values.bools[0];
  tensor.is_by_value = is_by_value && is_by_value->values.bools[0];
  return tensor;
}

static int64_t element_bytes(int type) {
  return type == CUDNN_HALF || type == CUDNN_BF16     ? 2
         : type == CUDNN_FLOAT || type == CUDNN_INT32 ? 4
         : type == CUDNN_INT64                        ? 8
                                                      : 0;
}

static int check_tensor(const Descriptor *self) {
  if (attribute(self, CUDNN_TENSOR_DIMENSIONS)->n != 4 ||
      attribute(self, CUDNN_TENSOR_STRIDES)->n != 4)
    return fail(NOT_SUPPORTED, "attention has tensors of four dimensions", 4);
  const Tensor tensor = tensor_of(self);
  const int64_t bytes = element_bytes(tensor.type);
  if (bytes == 0) return fail(NOT_SUPPORTED, "this type of data", tensor.type);
  if (tensor.alignment < 1 || tensor.alignment % bytes != 0)
    return fail(BAD_PARAM, "this alignment", (int)tensor.alignment);
  for (int i = 0; i < 4; i++)
    if (tensor.dims[i] < 1 || tensor.strides[i] < 1)
      return fail(BAD_PARAM, "a dimension or stride that is not positive", i);
  if (tensor.is_virtual && tensor.is_by_value) return fail(BAD_PARAM, "virtual and by value", 0);
  return CUDNN_OK;
}

static bool has_dims(const Tensor *tensor, int64_t a, int64_t b, int64_t c, int64_t d) {
  return tensor->dims[0] == a && tensor->dims[1] == b && tensor->dims[2] == c &&
         tensor->dims[3] == d;
}

/* ---- Operations ---- */

/* An attention as its descriptor has it. */
typedef struct Attention {
  Tensor q, k, v, out, scale, k_table, v_table, q_lengths, kv_lengths;
  const Descriptor *mask; // NULL: none
} Attention;

static int check_lengths(const Tensor *lengths, int64_t sequences) {
  if (lengths->type != CUDNN_INT32 || !has_dims(lengths, sequences, 1, 1, 1))
    return fail(BAD_SHAPE, "lengths", (int)lengths->dims[0]);
  return CUDNN_OK;
}

static int check_rows(const Tensor *rows, int64_t sequences) {
  if (rows->strides[3] != 1) return fail(NOT_SUPPORTED, "a head that is not in one piece", 0);
  if (!rows->offsets) return CUDNN_OK;
  const Tensor offsets = tensor_of(rows->offsets);
  if (offsets.type != CUDNN_INT64 || !has_dims(&offsets, sequences + 1, 1, 1, 1))
    return fail(BAD_SHAPE, "ragged offsets", (int)offsets.dims[0]);
  return CUDNN_OK;
}

/* The subgraph is one mask, from the scores to the scores that are masked. */
static int read_mask(const Descriptor *self, Attention *attention) {
  const Descriptor *graph = linked(self, CUDNN_SDPA_SUBGRAPH);
  const Attribute *in = attribute(self, CUDNN_SDPA_SUBGRAPH_IN);
  const Attribute *out = attribute(self, CUDNN_SDPA_SUBGRAPH_OUT);
  if (!graph && !in && !out) return CUDNN_OK;
  if (!graph || !in || !out) return fail(BAD_PARAM, "half a subgraph", 0);
  if (attribute(graph, CUDNN_GRAPH_OPERATIONS)->n != 1)
    return fail(NOT_SUPPORTED, "more than one mask", 0);
  const Descriptor *mask = linked(graph, CUDNN_GRAPH_OPERATIONS);
  if (mask->type != CUDNN_BAND_MASK) return fail(NOT_SUPPORTED, "this subgraph", mask->type);
  const Tensor x = tensor_of(linked(mask, CUDNN_MASK_X)), y = tensor_of(linked(mask, CUDNN_MASK_Y));
  const int64_t keys = attention->k_table.dims[2] * attention->k.dims[2];
  if (x.id != in->values.longs[0] || y.id != out->values.longs[0])
    return fail(BAD_PARAM, "ends of the subgraph", (int)in->values.longs[0]);
  const Tensor *q = &attention->q;
  if (!x.is_virtual || !y.is_virtual || x.type != CUDNN_FLOAT ||
      !has_dims(&x, q->dims[0], q->dims[1], q->dims[2], keys) ||
      !has_dims(&y, q->dims[0], q->dims[1], q->dims[2], keys))
    return fail(BAD_SHAPE, "scores", (int)keys);
  attention->mask = mask;
  return CUDNN_OK;
}

static int check_attention(const Descriptor *self, Attention *ret) {
  static const int needed[] = {CUDNN_SDPA_PAGE_TABLE_K, CUDNN_SDPA_PAGE_TABLE_V,
                               CUDNN_SDPA_Q_LENGTHS, CUDNN_SDPA_KV_LENGTHS, CUDNN_SDPA_SCALE};
  for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
    if (!linked(self, needed[i])) return fail(NOT_SUPPORTED, "only paged attention", needed[i]);
  *ret = (Attention){.q = tensor_of(linked(self, CUDNN_SDPA_Q)),
                     .k = tensor_of(linked(self, CUDNN_SDPA_K)),
                     .v = tensor_of(linked(self, CUDNN_SDPA_V)),
                     .out = tensor_of(linked(self, CUDNN_SDPA_O)),
                     .scale = tensor_of(linked(self, CUDNN_SDPA_SCALE)),
                     .k_table = tensor_of(linked(self, CUDNN_SDPA_PAGE_TABLE_K)),
                     .v_table = tensor_of(linked(self, CUDNN_SDPA_PAGE_TABLE_V)),
                     .q_lengths = tensor_of(linked(self, CUDNN_SDPA_Q_LENGTHS)),
                     .kv_lengths = tensor_of(linked(self, CUDNN_SDPA_KV_LENGTHS))};
  const Tensor *q = &ret->q, *k = &ret->k, *v = &ret->v, *out = &ret->out;
  const int64_t sequences = q->dims[0];
  if (q->type != k->type || q->type != v->type || q->type != out->type ||
      element_bytes(q->type) != 2)
    return fail(NOT_SUPPORTED, "types of data", q->type);
  if (k->dims[1] != v->dims[1] || q->dims[1] % k->dims[1] != 0)
    return fail(BAD_SHAPE, "heads", (int)k->dims[1]);
  if (q->dims[3] != k->dims[3] || q->dims[3] % 8 != 0 || v->dims[3] % 8 != 0 || q->dims[3] > 256 ||
      v->dims[3] > 256)
    return fail(BAD_SHAPE, "sizes of heads", (int)q->dims[3]);
  if (!has_dims(out, sequences, q->dims[1], q->dims[2], v->dims[3]))
    return fail(BAD_SHAPE, "the result", (int)out->dims[3]);
  const int64_t pages = ret->k_table.dims[2];
  if (ret->k_table.type != CUDNN_INT32 || ret->v_table.type != CUDNN_INT32 ||
      !has_dims(&ret->k_table, sequences, 1, pages, 1) ||
      !has_dims(&ret->v_table, sequences, 1, pages, 1))
    return fail(BAD_SHAPE, "page tables", (int)pages);
  if (ret->scale.type != CUDNN_FLOAT || !has_dims(&ret->scale, 1, 1, 1, 1))
    return fail(BAD_SHAPE, "the scale", 0);
  int code = check_lengths(&ret->q_lengths, sequences);
  if (code == CUDNN_OK) code = check_lengths(&ret->kv_lengths, sequences);
  if (code == CUDNN_OK) code = check_rows(q, sequences);
  if (code == CUDNN_OK) code = check_rows(out, sequences);
  return code == CUDNN_OK ? read_mask(self, ret) : code;
}

static int check_plan(Descriptor *self) {
  const Descriptor *config = linked(self, CUDNN_PLAN_CONFIG);
  const char *told = getenv("FAKE_CUDNN");
  self->engine = config->engine;
  self->graph = config->graph;
  if (told && strcmp(told, "late") == 0 && self->engine == 1)
    return fail(NOT_SUPPORTED, "it is told to", 1);
  return CUDNN_OK;
}

int cudnnBackendFinalize(CudnnDescriptor descriptor) {
  Descriptor *self = descriptor;
  Attention attention;
  int code = CUDNN_OK;
  if (self->is_final) return fail(BAD_PARAM, "it is final already", self->type);
  for (int i = 0; i < N_RULES; i++)
    if (RULES[i].descriptor == self->type && RULES[i].is_needed && !attribute(self, RULES[i].name))
      return fail(BAD_PARAM, "an attribute is missing", RULES[i].name);
  if (self->type == CUDNN_TENSOR) code = check_tensor(self);
  if (self->type == CUDNN_SDPA) code = check_attention(self, &attention);
  if (self->type == CUDNN_PLAN) code = check_plan(self);
  if (self->type == CUDNN_VARIANT_PACK &&
      attribute(self, CUDNN_PACK_IDS)->n != attribute(self, CUDNN_PACK_POINTERS)->n)
    code = fail(BAD_PARAM, "identifiers and pointers", 0);
  if (self->type == CUDNN_HEURISTICS &&
      attribute(self, CUDNN_HEURISTICS_MODE)->values.ints[0] != CUDNN_HEURISTIC_A)
    code = fail(NOT_SUPPORTED, "this mode of heuristics", 0);
  self->is_final = code == CUDNN_OK;
  return code;
}

/* ---- What is asked ---- */

static int read_results(const Descriptor *self, int64_t room, int64_t *ret_n, void *values) {
  const char *told = getenv("FAKE_CUDNN");
  const int64_t n = told && strcmp(told, "none") == 0 ? 0 : ENGINES;
  *ret_n = n;
  for (int64_t i = 0; i < n && i < room; i++) {
    Descriptor *config = ((Descriptor **)values)[i];
    if (!config || config->type != CUDNN_ENGINE_CONFIG)
      return fail(BAD_TYPE, "room for configurations", (int)i);
    config->engine = i + 1;
    config->graph = linked(self, CUDNN_HEURISTICS_GRAPH);
    config->is_final = true;
  }
  return CUDNN_OK;
}

int cudnnBackendGetAttribute(CudnnDescriptor descriptor, int name, int type, int64_t room,
                             int64_t *ret_n, void *values) {
  const Descriptor *self = descriptor;
  if (!self->is_final) return fail(NOT_FINALIZED, "it is not final", name);
  if (self->type == CUDNN_HEURISTICS && name == CUDNN_HEURISTICS_RESULTS &&
      type == CUDNN_OF_DESCRIPTOR)
    return read_results(self, room, ret_n, values);
  *ret_n = 1;
  if (self->type == CUDNN_PLAN && name == CUDNN_PLAN_WORKSPACE && type == CUDNN_OF_INT64)
    return *(int64_t *)values = WORKSPACE, CUDNN_OK;
  if (self->type == CUDNN_ENGINE && name == CUDNN_ENGINE_INDEX && type == CUDNN_OF_INT64)
    return *(int64_t *)values = self->engine, CUDNN_OK;
  if (self->type != CUDNN_ENGINE_CONFIG || name != CUDNN_CONFIG_ENGINE ||
      type != CUDNN_OF_DESCRIPTOR)
    return fail(BAD_PARAM, "no such attribute to read", name);
  Descriptor *engine = *(Descriptor **)values;
  if (!engine || engine->type != CUDNN_ENGINE) return fail(BAD_TYPE, "room for an engine", 0);
  engine->engine = self->engine;
  engine->is_final = true;
  return CUDNN_OK;
}

/* ---- Running ---- */

static void *pointer_of(const Descriptor *pack, const Tensor *tensor) {
  const Attribute *ids = attribute(pack, CUDNN_PACK_IDS);
  const Attribute *pointers = attribute(pack, CUDNN_PACK_POINTERS);
  for (int64_t i = 0; i < ids->n; i++)
    if (ids->values.longs[i] == tensor->id) return pointers->values.pointers[i];
  return NULL;
}

/* NULL where it is missing or not aligned as the tensor says. */
static void *data_of(const Descriptor *pack, const Tensor *tensor) {
  void *data = pointer_of(pack, tensor);
  return data && (uintptr_t)data % (uintptr_t)tensor->alignment == 0 ? data : NULL;
}

static CalibDtype dtype_of(const Tensor *tensor) {
  return tensor->type == CUDNN_BF16 ? CALIB_BF16 : CALIB_FP16;
}

/* A sequence's first element. */
static int64_t begin_of(const Descriptor *pack, const Tensor *rows, int64_t sequence) {
  if (!rows->offsets) return sequence * rows->strides[0];
  const Tensor offsets = tensor_of(rows->offsets);
  return ((const int64_t *)data_of(pack, &offsets))[sequence * offsets.strides[0]];
}

/* A number of a token's head in pages. */
typedef struct Pages {
  const Tensor *pages, *table;
  const void *data;
  const int32_t *numbers;
} Pages;

static bool find_token(const Pages *self, int64_t sequence, int64_t head, int64_t token,
                       int64_t *ret_at) {
  const int64_t block = self->pages->dims[2];
  const int64_t *strides = self->pages->strides;
  if (token / block >= self->table->dims[2]) return false;
  const int32_t page =
      self->numbers[sequence * self->table->strides[0] + token / block * self->table->strides[2]];
  *ret_at = page * strides[0] + head * strides[1] + token % block * strides[2];
  return page >= 0 && page < self->pages->dims[0];
}

/* Where it is all, and how wide. */
typedef struct Run {
  const Attention *attention;
  const Descriptor *pack;
  Pages k, v;
  const void *q;
  void *out;
  double scale, fill;
  bool aligns_q, aligns_kv; // the mask, by lengths
  int64_t q_length, kv_length;
  double *scores; // [keys]
} Run;

static double masked(const Run *run, int64_t query, int64_t key, double score) {
  if (!run->attention->mask) return score;
  const int64_t row =
      query + (run->aligns_kv ? run->kv_length : 0) - (run->aligns_q ? run->q_length : 0);
  return row >= key ? score : run->fill;
}

static int run_row(const Run *run, int64_t sequence, int64_t head, int64_t query) {
  const Attention *a = run->attention;
  const int64_t kv_head = head / (a->q.dims[1] / a->k.dims[1]);
  const CalibDtype dtype = dtype_of(&a->q);
  const int64_t q_at =
      begin_of(run->pack, &a->q, sequence) + head * a->q.strides[1] + query * a->q.strides[2];
  const int64_t out_at =
      begin_of(run->pack, &a->out, sequence) + head * a->out.strides[1] + query * a->out.strides[2];
  double greatest = -INFINITY, sum = 0, out[256] = {0};
  int64_t at = 0;
  for (int64_t key = 0; key < run->kv_length; key++) {
    double dot = 0;
    if (!find_token(&run->k, sequence, kv_head, key, &at)) return fail(5000, "a page of K", 0);
    for (int64_t i = 0; i < a->q.dims[3]; i++)
      dot += half_load(dtype, run->q, q_at + i) * half_load(dtype, run->k.data, at + i);
    run->scores[key] = masked(run, query, key, run->scale * dot);
    greatest = fmax(greatest, run->scores[key]);
  }
  for (int64_t key = 0; key < run->kv_length; key++) {
    const double share = exp(run->scores[key] - greatest);
    if (!find_token(&run->v, sequence, kv_head, key, &at)) return fail(5000, "a page of V", 0);
    sum += share;
    for (int64_t i = 0; i < a->v.dims[3]; i++)
      out[i] += share * half_load(dtype, run->v.data, at + i);
  }
  for (int64_t i = 0; i < a->v.dims[3]; i++)
    half_store(dtype, run->out, out_at + i, out[i] / sum);
  return CUDNN_OK;
}

static int run_sequence(Run *run, int64_t sequence, const int32_t *q_lengths,
                        const int32_t *kv_lengths) {
  const Attention *a = run->attention;
  run->q_length = q_lengths[sequence];
  run->kv_length = kv_lengths[sequence];
  if (run->q_length < 1 || run->q_length > a->q.dims[2] || run->kv_length < 1 ||
      run->kv_length > a->k_table.dims[2] * a->k.dims[2])
    return fail(5000, "a length", (int)sequence);
  int code = CUDNN_OK;
  run->scores = malloc((size_t)run->kv_length * sizeof *run->scores);
  for (int64_t head = 0; head < a->q.dims[1] && code == CUDNN_OK; head++)
    for (int64_t query = 0; query < run->q_length && code == CUDNN_OK; query++)
      code = run_row(run, sequence, head, query);
  free(run->scores);
  return code;
}

static int read_fill(Run *run) {
  const Descriptor *mask = run->attention->mask;
  if (!mask) return CUDNN_OK;
  const Tensor fill = tensor_of(linked(mask, CUDNN_MASK_FILL));
  const float *value = data_of(run->pack, &fill);
  if (!value || !fill.is_by_value) return fail(BAD_POINTER, "what fills the mask", 0);
  if (attribute(mask, CUDNN_MASK_COMPARISON)->values.ints[0] != CUDNN_CMP_GE)
    return fail(NOT_SUPPORTED, "this comparison", 0);
  run->fill = *value;
  run->aligns_q = linked(mask, CUDNN_MASK_Q_LENGTHS) != NULL;
  run->aligns_kv = linked(mask, CUDNN_MASK_KV_LENGTHS) != NULL;
  return CUDNN_OK;
}

static bool has_offsets(const Descriptor *pack, const Tensor *rows) {
  if (!rows->offsets) return true;
  const Tensor offsets = tensor_of(rows->offsets);
  return data_of(pack, &offsets) != NULL;
}

int cudnnBackendExecute(CudnnHandle handle, CudnnDescriptor plan, CudnnDescriptor variant_pack) {
  const Descriptor *pack = variant_pack;
  if (!handle || !handle->stream) return fail(BAD_PARAM, "no stream", 0);
  if (!((Descriptor *)plan)->is_final || !pack->is_final)
    return fail(NOT_FINALIZED, "the plan or the pack", 0);
  Attention a;
  int code = check_attention(linked(((Descriptor *)plan)->graph, CUDNN_GRAPH_OPERATIONS), &a);
  if (code != CUDNN_OK) return code;
  const float *scale = data_of(pack, &a.scale);
  const int32_t *q_lengths = data_of(pack, &a.q_lengths),
                *kv_lengths = data_of(pack, &a.kv_lengths);
  Run run = {.attention = &a,
             .pack = pack,
             .k = {&a.k, &a.k_table, data_of(pack, &a.k), data_of(pack, &a.k_table)},
             .v = {&a.v, &a.v_table, data_of(pack, &a.v), data_of(pack, &a.v_table)},
             .q = data_of(pack, &a.q),
             .out = data_of(pack, &a.out)};
  void *workspace = attribute(pack, CUDNN_PACK_WORKSPACE)->values.pointers[0];
  if (!scale || !q_lengths || !kv_lengths || !run.k.data || !run.k.numbers || !run.v.data ||
      !run.v.numbers || !run.q || !run.out || !workspace || !has_offsets(pack, &a.q) ||
      !has_offsets(pack, &a.out))
    return fail(MISALIGNED, "a tensor without data, or at an odd place", 0);
  run.scale = *scale;
  memset(workspace, 0xff, WORKSPACE); // all of it is the plan's
  code = read_fill(&run);
  for (int64_t i = 0; i < a.q.dims[0] && code == CUDNN_OK; i++)
    code = run_sequence(&run, i, q_lengths, kv_lengths);
  return code;
}

/* ---- The rest ---- */

size_t cudnnGetVersion(void) {
  const char *told = getenv("FAKE_CUDNN");
  return told && strcmp(told, "old") == 0 ? 91900 : 92801;
}
int cudnnCreate(CudnnHandle *handle) {
  *handle = calloc(1, sizeof **handle);
  return *handle ? CUDNN_OK : 1001;
}
int cudnnDestroy(CudnnHandle handle) {
  free(handle);
  return CUDNN_OK;
}
int cudnnSetStream(CudnnHandle handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_OK;
}
const char *cudnnGetErrorString(int code) {
  return code == CUDNN_OK ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_OF_THE_FAKE";
}
void cudnnGetLastErrorString(char *text, size_t size) {
  snprintf(text, size, "%s", last_error);
}
int cudnnBackendCreateDescriptor(int type, CudnnDescriptor *descriptor) {
  Descriptor *self = calloc(1, sizeof *self);
  if (!self) return 4003;
  self->type = type;
  *descriptor = self;
  return CUDNN_OK;
}
int cudnnBackendDestroyDescriptor(CudnnDescriptor descriptor) {
  free(descriptor);
  return CUDNN_OK;
}
