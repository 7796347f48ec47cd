/* See sdpa.h. The graph is one operation, scaled dot-product attention, whose subgraph masks the
 * scores along the diagonal; cuDNN's headers describe both descriptors. */
#include "kernels/sdpa.h"
#include "kernels/cudnn.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PLANS = 64, MOST_DESCRIPTORS = 64, MOST_CONFIGS = 16, ELEMENT_BYTES = 2 };

/* Tensors of the graph. */
typedef enum Id {
  ID_Q = 1,
  ID_K,
  ID_V,
  ID_OUT,
  ID_SCALE,
  ID_PAGES_OF_K,
  ID_PAGES_OF_V,
  ID_Q_LENGTHS,
  ID_KV_LENGTHS, // the last of a plan of one query each
  ID_Q_OFFSETS,
  ID_OUT_OFFSETS,
  ID_FILL,
  ID_END,
  ID_SCORES = 100, // virtual, as the next
  ID_MASKED,
} Id;

struct SdpaPlan {
  SdpaShape shape;
  CudnnDescriptor made[MOST_DESCRIPTORS]; // all of it
  int n_made;
  CudnnDescriptor plan;
  int64_t workspace_bytes, engine, used;
};

struct Sdpa {
  void *library;
  CudnnFunctions call;
  char version[32];
  CudnnHandle handle;
  SdpaPlan *plans[MOST_PLANS];
  int64_t uses;
};

/* ---- The library ---- */

/* As CudnnFunctions has them. */
static const char *const NAMES[] = {"cudnnGetVersion",
                                    "cudnnCreate",
                                    "cudnnDestroy",
                                    "cudnnSetStream",
                                    "cudnnGetErrorString",
                                    "cudnnGetLastErrorString",
                                    "cudnnBackendCreateDescriptor",
                                    "cudnnBackendDestroyDescriptor",
                                    "cudnnBackendFinalize",
                                    "cudnnBackendSetAttribute",
                                    "cudnnBackendGetAttribute",
                                    "cudnnBackendExecute",
                                    NULL};
_Static_assert(sizeof NAMES == sizeof(CudnnFunctions) + sizeof *NAMES, "a name for each function");

static CalibStatus failed(const Sdpa *self, int code, const char *step, char *error) {
  char last[256] = "";
  self->call.last_error(last, sizeof last);
  last[sizeof last - 1] = '\0';
  for (char *at = last; *at; at++)
    if ((unsigned char)*at < ' ') *at = ' ';
  return calib_failed(CALIB_ENVIRONMENT, error, "cuDNN %s, %s: %s%s%s", self->version, step,
                      self->call.error_string(code), *last ? ": " : "", last);
}

static const char INSTALL[] = "\"pip install --target FOLDER 'nvidia-cudnn-cu13>=9.21'\" installs "
                              "it; set TANDEM_CUDNN to FOLDER/nvidia/cudnn/lib/libcudnn.so.9";

static CalibStatus open_library(Sdpa *self, char *error) {
  const char *path = getenv("TANDEM_CUDNN");
  if (!path || !*path) path = "libcudnn.so.9";
  self->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!self->library || calib_find_functions(self->library, NAMES, &self->call))
    return calib_failed(CALIB_ENVIRONMENT, error, "attention by cuDNN: %.200s %s; %s", path,
                        self->library ? "is not cuDNN 9" : "was not found", INSTALL);
  const size_t version = self->call.version();
  snprintf(self->version, sizeof self->version, "%zu.%zu.%zu", version / 10000, version / 100 % 100,
           version % 100);
  if (version < CUDNN_LEAST_VERSION)
    return calib_failed(CALIB_ENVIRONMENT, error,
                        "attention by cuDNN needs version 9.21 or later, and %.200s is %s; %s",
                        path, self->version, INSTALL);
  const int code = self->call.create(&self->handle);
  if (code == CUDNN_OK) return CALIB_OK;
  self->handle = NULL;
  return failed(self, code, "cudnnCreate", error);
}

CalibStatus sdpa_open(Sdpa **ret_sdpa, char *error) {
  Sdpa *self = calloc(1, sizeof *self);
  if (!self) abort();
  const CalibStatus status = open_library(self, error);
  if (status == CALIB_OK)
    *ret_sdpa = self;
  else
    sdpa_close(self);
  return status;
}

static void drop_plan(Sdpa *self, SdpaPlan *plan) {
  while (plan && plan->n_made > 0)
    self->call.unmake(plan->made[--plan->n_made]);
  free(plan);
}

void sdpa_close(Sdpa *self) {
  if (!self) return;
  for (int i = 0; i < MOST_PLANS; i++)
    drop_plan(self, self->plans[i]);
  if (self->handle) self->call.destroy(self->handle);
  if (self->library) dlclose(self->library);
  free(self);
}

const char *sdpa_version(const Sdpa *self) {
  return self->version;
}

/* ---- Descriptors ---- */

/* A plan in the making: after the first call that fails the others do nothing. */
typedef struct Building {
  Sdpa *sdpa;
  SdpaPlan *plan;
  int code;
  const char *step; // that failed
} Building;

static void note(Building *self, int code, const char *step) {
  if (self->code == CUDNN_OK && code != CUDNN_OK) {
    self->code = code;
    self->step = step;
  }
}

static CudnnDescriptor make(Building *self, int type, const char *step) {
  SdpaPlan *plan = self->plan;
  CudnnDescriptor made = NULL;
  if (self->code != CUDNN_OK) return NULL;
  if (plan->n_made == MOST_DESCRIPTORS) abort();
  note(self, self->sdpa->call.make(type, &made), step);
  if (self->code == CUDNN_OK) plan->made[plan->n_made++] = made;
  return made;
}

static void set(Building *self, CudnnDescriptor descriptor, int name, int type, int64_t n,
                const void *values, const char *step) {
  if (self->code == CUDNN_OK)
    note(self, self->sdpa->call.set(descriptor, name, type, n, values), step);
}

static void link_to(Building *self, CudnnDescriptor descriptor, int name, CudnnDescriptor other,
                    const char *step) {
  set(self, descriptor, name, CUDNN_OF_DESCRIPTOR, 1, &other, step);
}

static void finalize(Building *self, CudnnDescriptor descriptor, const char *step) {
  if (self->code == CUDNN_OK) note(self, self->sdpa->call.finalize(descriptor), step);
}

/* ---- Tensors ---- */

typedef enum Place { ON_DEVICE, BY_VALUE, VIRTUAL } Place;

typedef struct TensorSpec {
  int64_t id, dims[4], strides[4];
  int type;
  Place place;
  CudnnDescriptor offsets; // of sequences that lie one after the other; NULL: strides say it all
} TensorSpec;

static int64_t alignment_of(int type) {
  return type == CUDNN_HALF || type == CUDNN_BF16 ? 16 : type == CUDNN_INT64 ? 8 : 4;
}

static CudnnDescriptor tensor(Building *self, const TensorSpec *spec) {
  static const char step[] = "a tensor";
  const int64_t alignment = alignment_of(spec->type);
  const bool yes = true;
  CudnnDescriptor made = make(self, CUDNN_TENSOR, step);
  set(self, made, CUDNN_TENSOR_ID, CUDNN_OF_INT64, 1, &spec->id, step);
  set(self, made, CUDNN_TENSOR_DATA_TYPE, CUDNN_OF_DATA_TYPE, 1, &spec->type, step);
  set(self, made, CUDNN_TENSOR_ALIGNMENT, CUDNN_OF_INT64, 1, &alignment, step);
  set(self, made, CUDNN_TENSOR_DIMENSIONS, CUDNN_OF_INT64, 4, spec->dims, step);
  set(self, made, CUDNN_TENSOR_STRIDES, CUDNN_OF_INT64, 4, spec->strides, step);
  if (spec->place == BY_VALUE)
    set(self, made, CUDNN_TENSOR_IS_BY_VALUE, CUDNN_OF_BOOLEAN, 1, &yes, step);
  if (spec->place == VIRTUAL)
    set(self, made, CUDNN_TENSOR_IS_VIRTUAL, CUDNN_OF_BOOLEAN, 1, &yes, step);
  if (spec->offsets) link_to(self, made, CUDNN_TENSOR_RAGGED_OFFSETS, spec->offsets, step);
  finalize(self, made, step);
  return made;
}

/* A number for each of `n`, or one that the host gives. */
static CudnnDescriptor numbers(Building *self, int64_t id, int type, int64_t n, Place place) {
  const TensorSpec spec = {
      .id = id, .type = type, .dims = {n, 1, 1, 1}, .strides = {1, 1, 1, 1}, .place = place};
  return tensor(self, &spec);
}

static int element_type(const SdpaShape *s) {
  return s->dtype == CALIB_BF16 ? CUDNN_BF16 : CUDNN_HALF;
}

static int64_t k_elements(const SdpaShape *s) {
  return s->kv_heads * s->block_size * s->qk_dim;
}

/* Rows of queries or of results: of one each the sequences are rows themselves. */
static CudnnDescriptor rows(Building *self, int64_t id, int64_t offsets_id, int64_t dim,
                            int64_t stride) {
  const SdpaShape *s = &self->plan->shape;
  TensorSpec spec = {.id = id,
                     .type = element_type(s),
                     .dims = {s->sequences, s->query_heads, s->max_new, dim},
                     .strides = {s->max_new * stride, dim, stride, 1}};
  if (s->max_new > 1)
    spec.offsets = numbers(self, offsets_id, CUDNN_INT64, s->sequences + 1, ON_DEVICE);
  return tensor(self, &spec);
}

static CudnnDescriptor pages(Building *self, int64_t id, int64_t dim) {
  const SdpaShape *s = &self->plan->shape;
  const int64_t page = s->kv_heads * s->block_size * (s->qk_dim + s->v_dim);
  const TensorSpec spec = {.id = id,
                           .type = element_type(s),
                           .dims = {s->n_pages, s->kv_heads, s->block_size, dim},
                           .strides = {page, s->block_size * dim, dim, 1}};
  return tensor(self, &spec);
}

static CudnnDescriptor page_table(Building *self, int64_t id) {
  const SdpaShape *s = &self->plan->shape;
  const TensorSpec spec = {.id = id,
                           .type = CUDNN_INT32,
                           .dims = {s->sequences, 1, s->max_pages, 1},
                           .strides = {s->max_pages, s->max_pages, 1, 1}};
  return tensor(self, &spec);
}

static CudnnDescriptor scores(Building *self, int64_t id) {
  const SdpaShape *s = &self->plan->shape;
  const int64_t keys = s->max_pages * s->block_size;
  const TensorSpec spec = {
      .id = id,
      .type = CUDNN_FLOAT,
      .dims = {s->sequences, s->query_heads, s->max_new, keys},
      .strides = {s->query_heads * s->max_new * keys, s->max_new * keys, keys, 1},
      .place = VIRTUAL};
  return tensor(self, &spec);
}

/* ---- The graph ---- */

static CudnnDescriptor graph_of(Building *self, CudnnDescriptor operation, const char *step) {
  CudnnDescriptor graph = make(self, CUDNN_GRAPH, step);
  set(self, graph, CUDNN_GRAPH_HANDLE, CUDNN_OF_HANDLE, 1, &self->sdpa->handle, step);
  link_to(self, graph, CUDNN_GRAPH_OPERATIONS, operation, step);
  finalize(self, graph, step);
  return graph;
}

/* A score is kept where query + kv_length − q_length ≥ key. */
static void mask(Building *self, CudnnDescriptor attention, CudnnDescriptor q_lengths,
                 CudnnDescriptor kv_lengths) {
  static const char step[] = "the causal mask";
  const int comparison = CUDNN_CMP_GE;
  const int64_t in = ID_SCORES, out = ID_MASKED;
  const CudnnDescriptor before = scores(self, in), after = scores(self, out);
  const CudnnDescriptor fill = numbers(self, ID_FILL, CUDNN_FLOAT, 1, BY_VALUE);
  const CudnnDescriptor band = make(self, CUDNN_BAND_MASK, step);
  link_to(self, band, CUDNN_MASK_X, before, step);
  link_to(self, band, CUDNN_MASK_KV_LENGTHS, kv_lengths, step);
  link_to(self, band, CUDNN_MASK_Q_LENGTHS, q_lengths, step);
  link_to(self, band, CUDNN_MASK_FILL, fill, step);
  link_to(self, band, CUDNN_MASK_Y, after, step);
  set(self, band, CUDNN_MASK_COMPARISON, CUDNN_OF_POINTWISE, 1, &comparison, step);
  finalize(self, band, step);
  const CudnnDescriptor subgraph = graph_of(self, band, step);
  link_to(self, attention, CUDNN_SDPA_SUBGRAPH, subgraph, step);
  set(self, attention, CUDNN_SDPA_SUBGRAPH_IN, CUDNN_OF_INT64, 1, &in, step);
  set(self, attention, CUDNN_SDPA_SUBGRAPH_OUT, CUDNN_OF_INT64, 1, &out, step);
}

static CudnnDescriptor build_graph(Building *self) {
  static const char step[] = "the attention";
  const SdpaShape *s = &self->plan->shape;
  const CudnnDescriptor q_lengths =
      numbers(self, ID_Q_LENGTHS, CUDNN_INT32, s->sequences, ON_DEVICE);
  const CudnnDescriptor kv_lengths =
      numbers(self, ID_KV_LENGTHS, CUDNN_INT32, s->sequences, ON_DEVICE);
  const struct {
    int name;
    CudnnDescriptor tensor;
  } links[] = {
      {CUDNN_SDPA_Q, rows(self, ID_Q, ID_Q_OFFSETS, s->qk_dim, s->q_stride)},
      {CUDNN_SDPA_K, pages(self, ID_K, s->qk_dim)},
      {CUDNN_SDPA_V, pages(self, ID_V, s->v_dim)},
      {CUDNN_SDPA_O, rows(self, ID_OUT, ID_OUT_OFFSETS, s->v_dim, s->out_stride)},
      {CUDNN_SDPA_SCALE, numbers(self, ID_SCALE, CUDNN_FLOAT, 1, BY_VALUE)},
      {CUDNN_SDPA_PAGE_TABLE_K, page_table(self, ID_PAGES_OF_K)},
      {CUDNN_SDPA_PAGE_TABLE_V, page_table(self, ID_PAGES_OF_V)},
      {CUDNN_SDPA_Q_LENGTHS, q_lengths},
      {CUDNN_SDPA_KV_LENGTHS, kv_lengths},
  };
  CudnnDescriptor attention = make(self, CUDNN_SDPA, step);
  for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
    link_to(self, attention, links[i].name, links[i].tensor, step);
  if (s->max_new > 1) mask(self, attention, q_lengths, kv_lengths);
  finalize(self, attention, step);
  return graph_of(self, attention, "the graph");
}

/* ---- The plan ---- */

/* The engines for a graph, the best first; 0 where there is none. */
static int64_t find_configs(Building *self, CudnnDescriptor graph,
                            CudnnDescriptor ret_configs[MOST_CONFIGS]) {
  static const char step[] = "its heuristics";
  const int mode = CUDNN_HEURISTIC_A;
  int64_t n = 0;
  CudnnDescriptor heuristics = make(self, CUDNN_HEURISTICS, step);
  link_to(self, heuristics, CUDNN_HEURISTICS_GRAPH, graph, step);
  set(self, heuristics, CUDNN_HEURISTICS_MODE, CUDNN_OF_HEURISTIC, 1, &mode, step);
  finalize(self, heuristics, step);
  for (int i = 0; i < MOST_CONFIGS; i++)
    ret_configs[i] = make(self, CUDNN_ENGINE_CONFIG, step);
  if (self->code == CUDNN_OK)
    note(self,
         self->sdpa->call.get(heuristics, CUDNN_HEURISTICS_RESULTS, CUDNN_OF_DESCRIPTOR,
                              MOST_CONFIGS, &n, ret_configs),
         step);
  return self->code != CUDNN_OK || n < 0 ? 0 : n < MOST_CONFIGS ? n : MOST_CONFIGS;
}

/* An engine may turn out not to run the graph when its plan is finalized. */
static void plan_by(Building *self, CudnnDescriptor config) {
  static const char step[] = "the plan";
  Sdpa *sdpa = self->sdpa;
  CudnnDescriptor plan = make(self, CUDNN_PLAN, step);
  set(self, plan, CUDNN_PLAN_HANDLE, CUDNN_OF_HANDLE, 1, &sdpa->handle, step);
  link_to(self, plan, CUDNN_PLAN_CONFIG, config, step);
  finalize(self, plan, step);
  if (self->code == CUDNN_OK) self->plan->plan = plan;
}

static void read_plan(Building *self, CudnnDescriptor config) {
  static const char step[] = "what the plan needs";
  SdpaPlan *plan = self->plan;
  int64_t n = 0;
  CudnnDescriptor engine = make(self, CUDNN_ENGINE, step);
  const struct {
    CudnnDescriptor *from;
    int name, type;
    void *value;
  } reads[] = {
      {&plan->plan, CUDNN_PLAN_WORKSPACE, CUDNN_OF_INT64, &plan->workspace_bytes},
      {&config, CUDNN_CONFIG_ENGINE, CUDNN_OF_DESCRIPTOR, &engine},
      {&engine, CUDNN_ENGINE_INDEX, CUDNN_OF_INT64, &plan->engine},
  };
  for (size_t i = 0; i < sizeof reads / sizeof reads[0] && self->code == CUDNN_OK; i++)
    note(self,
         self->sdpa->call.get(*reads[i].from, reads[i].name, reads[i].type, 1, &n, reads[i].value),
         step);
}

static CalibStatus no_engine(const Building *self, char *error) {
  const SdpaShape *s = &self->plan->shape;
  const Sdpa *sdpa = self->sdpa;
  return calib_failed(
      CALIB_REJECTED, error,
      "cuDNN %s has no engine for attention of %d query and %d key heads of %d and %d, %d "
      "sequences of %d new tokens over %d pages of %d%s%s",
      sdpa->version, (int)s->query_heads, (int)s->kv_heads, (int)s->qk_dim, (int)s->v_dim,
      (int)s->sequences, (int)s->max_new, (int)s->max_pages, (int)s->block_size,
      self->code == CUDNN_OK ? "" : ": ",
      self->code == CUDNN_OK ? "" : sdpa->call.error_string(self->code));
}

static CalibStatus build(Sdpa *sdpa, SdpaPlan *plan, char *error) {
  Building self = {.sdpa = sdpa, .plan = plan};
  CudnnDescriptor configs[MOST_CONFIGS];
  const CudnnDescriptor graph = build_graph(&self);
  if (self.code != CUDNN_OK) return failed(sdpa, self.code, self.step, error);
  const int64_t n = find_configs(&self, graph, configs);
  int64_t i = 0;
  for (; i < n && !plan->plan; i++) {
    self.code = CUDNN_OK;
    plan_by(&self, configs[i]);
  }
  if (!plan->plan) return no_engine(&self, error);
  read_plan(&self, configs[i - 1]);
  return self.code == CUDNN_OK ? CALIB_OK : failed(sdpa, self.code, self.step, error);
}

static const char *unsupported(const SdpaShape *s) {
  if (s->dtype != CALIB_BF16 && s->dtype != CALIB_FP16) return "a type that is not bf16 or fp16";
  if (s->qk_dim % 8 != 0 || s->v_dim % 8 != 0 || s->qk_dim > SDPA_HEAD_DIM ||
      s->v_dim > SDPA_HEAD_DIM || s->qk_dim < 8 || s->v_dim < 8)
    return "heads that are no multiple of 8 up to 256";
  if (s->kv_heads < 1 || s->query_heads % s->kv_heads != 0)
    return "query heads that are no multiple of key heads";
  return NULL;
}

/* Where the plan of a shape is, or the one that was used longest ago. */
static int slot_of(const Sdpa *self, const SdpaShape *shape) {
  int oldest = 0;
  for (int i = 0; i < MOST_PLANS; i++) {
    const SdpaPlan *plan = self->plans[i];
    if (!plan) return i;
    if (memcmp(&plan->shape, shape, sizeof *shape) == 0) return i;
    if (plan->used < self->plans[oldest]->used) oldest = i;
  }
  return oldest;
}

CalibStatus sdpa_plan(Sdpa *self, const SdpaShape *shape, const SdpaPlan **ret_plan, char *error) {
  const int slot = slot_of(self, shape);
  SdpaPlan *plan = self->plans[slot];
  if (!plan || memcmp(&plan->shape, shape, sizeof *shape) != 0) {
    const char *what = unsupported(shape);
    if (what)
      return calib_failed(CALIB_REJECTED, error, "attention by cuDNN does not support %s", what);
    drop_plan(self, plan);
    self->plans[slot] = NULL;
    plan = calloc(1, sizeof *plan);
    if (!plan) abort();
    plan->shape = *shape;
    const CalibStatus status = build(self, plan, error);
    if (status != CALIB_OK) {
      drop_plan(self, plan);
      return status;
    }
    self->plans[slot] = plan;
  }
  plan->used = ++self->uses;
  *ret_plan = plan;
  return CALIB_OK;
}

int64_t sdpa_plan_workspace(const SdpaPlan *plan) {
  return plan->workspace_bytes;
}

int64_t sdpa_plan_engine(const SdpaPlan *plan) {
  return plan->engine;
}

/* ---- Running ---- */

CalibStatus sdpa_run(Sdpa *self, const SdpaPlan *plan, KernelStream stream,
                     const SdpaOperands *operands, void *workspace, char *error) {
  static const char step[] = "running the plan";
  const char *kv = operands->kv_pages;
  float scale = operands->scale, fill = -INFINITY;
  const void *pointers[ID_END] = {
      [ID_Q] = operands->q,
      [ID_K] = kv,
      [ID_V] = kv + ELEMENT_BYTES * k_elements(&plan->shape),
      [ID_OUT] = operands->out,
      [ID_SCALE] = &scale,
      [ID_PAGES_OF_K] = operands->page_table,
      [ID_PAGES_OF_V] = operands->page_table,
      [ID_Q_LENGTHS] = operands->q_lengths,
      [ID_KV_LENGTHS] = operands->kv_lengths,
      [ID_Q_OFFSETS] = operands->q_offsets,
      [ID_OUT_OFFSETS] = operands->out_offsets,
      [ID_FILL] = &fill,
  };
  const int64_t n = (plan->shape.max_new > 1 ? ID_END : ID_Q_OFFSETS) - ID_Q;
  int64_t ids[ID_END];
  for (int64_t i = 0; i < n; i++)
    ids[i] = ID_Q + i;
  SdpaPlan pack = {.n_made = 0};
  Building building = {.sdpa = self, .plan = &pack};
  const CudnnDescriptor made = make(&building, CUDNN_VARIANT_PACK, step);
  set(&building, made, CUDNN_PACK_IDS, CUDNN_OF_INT64, n, ids, step);
  set(&building, made, CUDNN_PACK_POINTERS, CUDNN_OF_POINTER, n, &pointers[ID_Q], step);
  set(&building, made, CUDNN_PACK_WORKSPACE, CUDNN_OF_POINTER, 1, &workspace, step);
  finalize(&building, made, step);
  if (building.code == CUDNN_OK) note(&building, self->call.set_stream(self->handle, stream), step);
  if (building.code == CUDNN_OK)
    note(&building, self->call.execute(self->handle, plan->plan, made), step);
  if (made) self->call.unmake(made);
  return building.code == CUDNN_OK ? CALIB_OK : failed(self, building.code, step, error);
}
