/* Model files: YAML to curves, then perfmodel_compile. perfmodel/README.md describes the two forms.
 * All problems of a file are reported at once, each where it stands. */
#include "perfmodel/decode_rows.h"
#include "perfmodel/perfmodel.h"
#include <string.h>

typedef struct ModelFile {
  int form;
  PerfSetup setup;
  double mixed_factor;
  Tick overhead;
  const Node *prefill, *decode; // splitwise-sim
  const Node *linear, *prefill_attention, *decode_attention, *head;
  const Node *captured_batch_sizes;
  const Node *fit; // what `tandem fit` records; fit_load.c reads it
} ModelFile;

static const char *const FORMS[] = {
    [PERF_COMPOSED] = "composed", [PERF_SPLITWISE_SIM] = "splitwise-sim", NULL};

#define TERM(field, kind)                                                                          \
  .key = #field, .type = kind, .offset = offsetof(ModelFile, field), .required = true
#define OF(field, kind, ...)                                                                       \
  { .key = #field, .type = kind, .offset = offsetof(ModelFile, setup.field), __VA_ARGS__ }
#define DEGREE .min = 1, .max = 1024
#define FORM_ROW                                                                                   \
  { TERM(form, OPTION_CHOICE), .choices = FORMS, .help = "which rules the terms follow" }
#define HEADER_ROWS                                                                                \
  OF(model, OPTION_STRING, .required = true, .help = "model that was measured"),                   \
      OF(gpu, OPTION_STRING, .required = true, .help = "GPU that was measured"),                   \
      OF(tensor_parallel_size, OPTION_INT, DEGREE, .required = true, .help = "GPUs it ran on"),    \
      FORM_ROW

static const OptionSpec FORM_SPEC = FORM_ROW;

static const OptionSpec COMPOSED_SPECS[] = {
    HEADER_ROWS,
    OF(engine, OPTION_STRING, .help = "whose kernels they are: vllm, trtllm, sglang"),
    OF(engine_version, OPTION_STRING, .help = "of it"),
    OF(weight_dtype, OPTION_CHOICE, .choices = dtype_names, .help = "of the layers' matrices"),
    OF(kv_cache_dtype, OPTION_CHOICE, .choices = dtype_names, .help = "of the KV cache"),
    OF(attention_data_parallel_size, OPTION_INT, DEGREE, .fallback = "1",
       .help = "groups of GPUs with requests of their own in attention"),
    OF(expert_parallel_size, OPTION_INT, DEGREE, .fallback = "1",
       .help = "groups of GPUs with experts of their own"),
    {TERM(overhead, OPTION_TICKS), .max = 10, .help = "engine time of every iteration"},
    {TERM(linear, OPTION_NODE), .help = "curve over new tokens, prefill and decode"},
    {TERM(prefill_attention, OPTION_NODE), .help = "curve over 2A, or none"},
    {TERM(decode_attention, OPTION_NODE), .help = "rows over sequences, or none"},
    {TERM(head, OPTION_NODE), .help = "curve over sequences that need logits, or none"},
    {.key = "captured_batch_sizes",
     .type = OPTION_NODE,
     .offset = offsetof(ModelFile, captured_batch_sizes),
     .help = "that decodes alone are padded to, or a word; absent: none"},
    {.key = "fit",
     .type = OPTION_NODE,
     .offset = offsetof(ModelFile, fit),
     .help = "provenance and errors"},
    {0}};

static const OptionSpec SPLITWISE_SIM_SPECS[] = {
    HEADER_ROWS,
    {TERM(mixed_factor, OPTION_REAL), .min = 1, .max = 10, .help = "mixed over prefill"},
    {TERM(prefill, OPTION_NODE), .help = "curve over tokens"},
    {TERM(decode, OPTION_NODE), .help = "curve looked up at the batch size"},
    {0}};

/* A curve as it stands in a file: a term, a row of decode_attention, or that table itself. */
typedef struct CurveFile {
  int64_t sequences;
  const Node *measured, *knots, *rows;
} CurveFile;

#define PART(field, kind) .key = #field, .type = kind, .offset = offsetof(CurveFile, field)
#define MEASURED_ROW                                                                               \
  { PART(measured, OPTION_NODE), .help = "[low, high] of the measurements" }
#define KNOTS_ROW                                                                                  \
  { PART(knots, OPTION_NODE), .required = true, .help = "list of [x, seconds], x ascending" }

static const OptionSpec CURVE_SPECS[] = {MEASURED_ROW, KNOTS_ROW, {0}};
static const OptionSpec ROW_SPECS[] = {
    {PART(sequences, OPTION_INT), .required = true, .min = 1, .max = 1e6, .help = "of this row"},
    MEASURED_ROW,
    KNOTS_ROW,
    {0}};
static const OptionSpec TABLE_SPECS[] = {
    MEASURED_ROW,
    {PART(rows, OPTION_NODE), .required = true, .help = "curves over context tokens"},
    {0}};

static const OptionSpec X_SPEC = {.key = "x", .type = OPTION_INT, .max = 1e15};
static const OptionSpec SECONDS_SPEC = {.key = "seconds", .type = OPTION_REAL, .max = 1e5};

/* What a load carries along. */
typedef struct Loader {
  bool physical; // composed: curves hold at the left and may not fall; released tables may
  Arena *arena;
  Diag *diag;
} Loader;

static bool is_none(const Node *node) {
  return node->kind == NODE_SCALAR && !node->quoted && strcmp(node->text, "none") == 0;
}

static int pair_expect(const Loader *self, const Node *node, const char *what) {
  if (node->kind == NODE_LIST && node->n_children == 2) return 0;
  return diag_error(self->diag, node->at, "expected %s", what);
}

static int knot_load(const Loader *self, const Node *node, const PwlKnot *before, PwlKnot *knot) {
  if (pair_expect(self, node, "a knot '[x, seconds]'")) return -1;
  if (option_bind_one(&X_SPEC, node->first, &knot->x, self->diag) ||
      option_bind_one(&SECONDS_SPEC, node->first->next, &knot->seconds, self->diag))
    return -1;
  if (before && knot->x <= before->x)
    return diag_error(self->diag, node->first->at, "knots must ascend: %lld follows %lld",
                      (long long)knot->x, (long long)before->x);
  if (knot->x - (before ? before->x : 0) > PWL_RUN_MAX)
    return diag_error(self->diag, node->first->at, "knots must be at most %lld apart",
                      (long long)PWL_RUN_MAX);
  if (before && self->physical && knot->seconds < before->seconds)
    return diag_error(self->diag, node->first->next->at, "seconds must not fall: %g follows %g",
                      knot->seconds, before->seconds);
  return 0;
}

static int knots_load(const Loader *self, const Node *list, RowKnots *ret_knots) {
  if (list->kind != NODE_LIST || list->n_children == 0)
    return diag_error(self->diag, list->at, "expected a list of knots '[x, seconds]'");
  PwlKnot *knots = ARENA_ARRAY(self->arena, PwlKnot, list->n_children);
  int n = 0, status = 0;
  for (const Node *node = list->first; node; node = node->next, n++)
    if (knot_load(self, node, n > 0 ? &knots[n - 1] : NULL, &knots[n])) status = -1;
  *ret_knots = (RowKnots){knots, n};
  return status;
}

static int measured_load(const Loader *self, const Node *node, int64_t *low, int64_t *high) {
  if (!node) return 0;
  if (pair_expect(self, node, "a range '[low, high]'")) return -1;
  if (option_bind_one(&X_SPEC, node->first, low, self->diag) ||
      option_bind_one(&X_SPEC, node->first->next, high, self->diag))
    return -1;
  if (*low > *high)
    return diag_error(self->diag, node->at, "the range is upside down: %lld > %lld",
                      (long long)*low, (long long)*high);
  return 0;
}

/* The knots of a curve; the range of `ret_curve` is theirs, or what is said to be measured. */
static int curve_load(const Loader *self, const OptionSpec *specs, const Node *node,
                      CurveFile *file, RowKnots *ret_knots, Pwl *ret_curve) {
  if (option_bind(specs, node, NULL, node->at, file, self->diag) ||
      knots_load(self, file->knots, ret_knots))
    return -1;
  *ret_curve = (Pwl){.low = ret_knots->knots[0].x, .high = ret_knots->knots[ret_knots->n - 1].x};
  return measured_load(self, file->measured, &ret_curve->low, &ret_curve->high);
}

/* Lines through the knots, in the range that the curve has. */
static void curve_init(const Loader *self, const PwlKnot *knots, int n, Pwl *curve) {
  const int64_t low = curve->low, high = curve->high;
  pwl_init(curve, knots, n, !self->physical, self->arena);
  curve->low = low;
  curve->high = high;
}

static int term_load(const Loader *self, const Node *node, Pwl *curve) {
  CurveFile file = {0};
  RowKnots knots;
  if (is_none(node)) return 0;
  if (curve_load(self, CURVE_SPECS, node, &file, &knots, curve)) return -1;
  curve_init(self, knots.knots, knots.n, curve);
  return 0;
}

static int row_check(const Loader *self, const DecodeRows *all, const DecodeRow *rows, int r,
                     const Node *node) {
  int64_t context = 0;
  const DecodeFault fault = decode_rows_fault(all, r, &context);
  if (fault == DECODE_FALLS_BELOW)
    return diag_error(self->diag, node->at,
                      "more sequences cannot be faster: row %lld falls below row %lld from %lld "
                      "context tokens on",
                      (long long)rows[r].seqs, (long long)rows[r - 1].seqs, (long long)context);
  if (fault == DECODE_APPROACHES)
    return diag_error(self->diag, node->parent->at,
                      "beyond %lld sequences more context would be faster: from %lld context "
                      "tokens on the last row comes closer to the one before",
                      (long long)rows[r].seqs, (long long)context);
  return 0;
}

/* Puts the rows on common knots. */
static int rows_compile(const Loader *self, const Node *list, const RowKnots *said, DecodeRow *rows,
                        int n_rows) {
  DecodeRows all;
  int status = 0, r = 0;
  if (!decode_rows_init(&all, said, n_rows, self->arena))
    return diag_error(self->diag, list->at, "the rows have too many knots in all");
  for (const Node *node = list->first; node; node = node->next, r++)
    status |= row_check(self, &all, rows, r, node);
  if (status) return -1;
  decode_rows_settle(&all);
  PwlKnot *knots = ARENA_ARRAY(self->arena, PwlKnot, all.n);
  for (r = 0; r < n_rows; r++) {
    for (int k = 0; k < all.n; k++)
      knots[k] = (PwlKnot){all.x[k], all.seconds[r * all.n + k]};
    curve_init(self, knots, all.n, &rows[r].curve);
  }
  return 0;
}

static int table_load(const Loader *self, const Node *node, DecodeTable *table) {
  CurveFile file = {0};
  if (is_none(node)) return 0;
  if (option_bind(TABLE_SPECS, node, NULL, node->at, &file, self->diag)) return -1;
  const Node *list = file.rows;
  if (list->kind != NODE_LIST || list->n_children == 0)
    return diag_error(self->diag, list->at, "expected a list of rows");
  DecodeRow *rows = ARENA_ARRAY(self->arena, DecodeRow, list->n_children);
  RowKnots *knots = ARENA_ARRAY(self->arena, RowKnots, list->n_children);
  int n = 0, status = 0;
  for (const Node *row = list->first; row; row = row->next, n++) {
    CurveFile row_file = {0};
    if (curve_load(self, ROW_SPECS, row, &row_file, &knots[n], &rows[n].curve)) status = -1;
    rows[n].seqs = row_file.sequences;
    if (n > 0 && !status && rows[n].seqs <= rows[n - 1].seqs)
      status = diag_error(self->diag, row->at, "rows must ascend: %lld sequences follow %lld",
                          (long long)rows[n].seqs, (long long)rows[n - 1].seqs);
  }
  if (status) return -1;
  if (rows_compile(self, list, knots, rows, n)) return -1;
  *table = (DecodeTable){rows, n, rows[0].seqs, rows[n - 1].seqs};
  return measured_load(self, file.measured, &table->low, &table->high);
}

static int terms_load(const Loader *self, const ModelFile *file, PerfModel *model,
                      DecodeTable *table) {
  if (!self->physical) {
    int prefill = term_load(self, file->prefill, &model->linear);
    return term_load(self, file->decode, &model->head) | prefill;
  }
  int status = term_load(self, file->linear, &model->linear);
  status |= term_load(self, file->prefill_attention, &model->prefill_attention);
  status |= table_load(self, file->decode_attention, table);
  return status | term_load(self, file->head, &model->head);
}

static int model_bind(PerfModel *self, const Node *root, int64_t max_decode_seqs, Arena *arena,
                      Diag *diag) {
  ModelFile file = {.setup = {.weight_dtype = DTYPE_BF16, .kv_cache_dtype = DTYPE_BF16}};
  const Node *form = node_find(root, "form");
  if (form && option_bind_one(&FORM_SPEC, form, &file, diag)) return -1;
  bool physical = file.form == PERF_COMPOSED;
  if (option_bind(physical ? COMPOSED_SPECS : SPLITWISE_SIM_SPECS, root, NULL, root->at, &file,
                  diag))
    return -1;
  PerfModel model = {.name = setup_name(&file.setup, arena),
                     .setup = file.setup,
                     .form = (PerfForm)file.form,
                     .overhead = file.overhead,
                     .mixed_factor = file.mixed_factor};
  DecodeTable table = {0};
  Loader loader = {physical, arena, diag};
  int status = terms_load(&loader, &file, &model, &table);
  if (file.captured_batch_sizes)
    status |= captured_bind(&model.captured, file.captured_batch_sizes, arena, diag);
  if (status) return -1;
  perfmodel_compile(&model, &table, max_decode_seqs, arena);
  *self = model;
  return 0;
}

int perfmodel_load(PerfModel *self, const char *path, int64_t max_decode_seqs, Arena *arena,
                   Diag *diag) {
  const Node *root = yaml_load(path, arena, diag);
  return root ? model_bind(self, root, max_decode_seqs, arena, diag) : -1;
}

int perfmodel_check(const char *name, const char *text, size_t length, Arena *arena, Diag *diag) {
  PerfModel model;
  const Node *root = yaml_parse(name, text, length, arena, diag);
  return root ? model_bind(&model, root, 1, arena, diag) : -1;
}
