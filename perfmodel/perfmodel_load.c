/* Model files: YAML to curves, then perfmodel_compile. perfmodel/README.md describes the two forms.
 * All problems of a file are reported at once, each where it stands. */
#include "perfmodel/perfmodel.h"
#include "perfmodel/table_rows.h"
#include <math.h>
#include <string.h>

typedef struct ModelFile {
  int form;
  PerfSetup setup;
  double mixed_factor;
  Tick overhead;
  const Node *prefill, *decode; // splitwise-sim
  const Node *linear, *prefill_attention, *decode_attention, *mixed_attention, *head;
  const Node *captured_batch_sizes;
  const Node *fit; // what `tandem fit` records; fit_load.c reads the rest of it
} ModelFile;

static const char *const FORMS[] = {
    [PERF_COMPOSED] = "composed", [PERF_SPLITWISE_SIM] = "splitwise-sim", NULL};

#define TERM(field, kind)                                                                          \
  .key = #field, .type = kind, .offset = offsetof(ModelFile, field), .required = true
#define OF(field, kind, ...)                                                                       \
  { .key = #field, .type = kind, .offset = offsetof(ModelFile, setup.field), __VA_ARGS__ }
#define DEGREE .min = 1, .max = 1024
#define FORM_ROW                                                                                   \
  { TERM(form, OPTION_CHOICE), .choices = FORMS, .help = "Rules that the terms follow." }
#define HEADER_ROWS                                                                                \
  OF(model, OPTION_STRING, .required = true, .help = "Model that was measured."),                  \
      OF(gpu, OPTION_STRING, .required = true, .help = "GPU that was measured."),                  \
      OF(tensor_parallel_size, OPTION_INT, DEGREE, .required = true,                               \
         .help = "Tensor-parallel degree."),                                                       \
      FORM_ROW

static const OptionSpec FORM_SPEC = FORM_ROW;

static const OptionSpec COMPOSED_SPECS[] = {
    HEADER_ROWS,
    OF(engine, OPTION_STRING, .help = "Engine of the kernels: vllm, trtllm, sglang."),
    OF(engine_version, OPTION_STRING, .help = "Version of the engine."),
    OF(weight_dtype, OPTION_CHOICE, .choices = dtype_names,
       .help = "Format of the layers' weights."),
    OF(kv_cache_dtype, OPTION_CHOICE, .choices = dtype_names, .help = "Format of the KV cache."),
    OF(attention_data_parallel_size, OPTION_INT, DEGREE, .fallback = "1",
       .help = "Degree of data parallelism in attention."),
    OF(expert_parallel_size, OPTION_INT, DEGREE, .fallback = "1",
       .help = "Degree of expert parallelism."),
    {TERM(overhead, OPTION_TICKS), .max = 10, .help = "Host time of every iteration."},
    {TERM(linear, OPTION_NODE), .help = "Curve over the new tokens of prefill and decode."},
    {TERM(prefill_attention, OPTION_NODE), .help = "Curve over 2A, rows over new tokens, or none."},
    {TERM(decode_attention, OPTION_NODE), .help = "Rows over sequences, or none."},
    OPTION_OF(ModelFile, mixed_attention, OPTION_NODE,
              .help = "Decodes beside prefill: rows or a factor.", .absent = "decode_attention"),
    {TERM(head, OPTION_NODE), .help = "Curve over sequences that need logits, or none."},
    OPTION_OF(ModelFile, captured_batch_sizes, OPTION_NODE,
              .help = "Sizes that decode batches are padded to.", .absent = "none"),
    OPTION_OF(ModelFile, fit, OPTION_NODE, .help = "Provenance and errors of the fit."),
    {0}};

static const OptionSpec SPLITWISE_SIM_SPECS[] = {
    HEADER_ROWS,
    {TERM(mixed_factor, OPTION_REAL), .min = 1, .max = 10, .help = "Factor in mixed iterations."},
    {TERM(prefill, OPTION_NODE), .help = "Curve over tokens."},
    {TERM(decode, OPTION_NODE), .help = "Curve over the batch size."},
    {0}};

/* A curve as it stands in a file: a term, a row of a table, or that table itself. */
typedef struct CurveFile {
  int64_t key;
  double factor;
  const Node *measured, *knots, *rows;
} CurveFile;

#define PART(field, kind) .key = #field, .type = kind, .offset = offsetof(CurveFile, field)
#define MEASURED_ROW                                                                               \
  { PART(measured, OPTION_NODE), .help = "Measured range [low, high]." }
#define KNOTS_ROW                                                                                  \
  { PART(knots, OPTION_NODE), .required = true, .help = "List of [x, seconds], x ascending." }
#define KEY_ROW(name, most)                                                                        \
  {                                                                                                \
    .key = name, .type = OPTION_INT, .offset = offsetof(CurveFile, key), .required = true,         \
    .min = 1, .max = most, .help = "Number of " name "."                                           \
  }

static const OptionSpec CURVE_SPECS[] = {MEASURED_ROW, KNOTS_ROW, {0}};
static const OptionSpec FACTOR_SPECS[] = {{PART(factor, OPTION_REAL), .required = true, .min = 0.1,
                                           .max = 100, .help = "Factor on decode_attention."},
                                          {0}};
static const OptionSpec TABLE_SPECS[] = {
    MEASURED_ROW,
    {PART(rows, OPTION_NODE), .required = true, .help = "Curves by tokens or sequences."},
    {0}};

/* What the rows of a table are of. Their curves are over sums in the file, and over means once
 * loaded (curve_table.h); those of prefill may fall (table_rows.h). */
typedef struct TableKind {
  const char *keys, *key, *before_sum, *after_sum;
  bool may_fall;
  OptionSpec row_specs[4];
} TableKind;

static const TableKind DECODE_TABLE = {
    "sequences",       "sequence", "",
    " context tokens", false,      {KEY_ROW("sequences", 1e6), MEASURED_ROW, KNOTS_ROW, {0}}};
static const TableKind PREFILL_TABLE = {
    "tokens", "token", "2A = ", "", true, {KEY_ROW("tokens", 1e9), MEASURED_ROW, KNOTS_ROW, {0}}};

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

static int knot_load(const Loader *self, const Node *node, int64_t run_max, bool may_fall,
                     const PwlKnot *before, PwlKnot *knot) {
  if (pair_expect(self, node, "a knot '[x, seconds]'")) return -1;
  if (option_bind_one(&X_SPEC, node->first, &knot->x, self->diag) ||
      option_bind_one(&SECONDS_SPEC, node->first->next, &knot->seconds, self->diag))
    return -1;
  if (before && knot->x <= before->x)
    return diag_error(self->diag, node->first->at, "knots must ascend: %lld follows %lld",
                      (long long)knot->x, (long long)before->x);
  if (knot->x - (before ? before->x : 0) > run_max)
    return diag_error(self->diag, node->first->at, "knots must be at most %lld apart",
                      (long long)run_max);
  if (before && !may_fall && knot->seconds < before->seconds)
    return diag_error(self->diag, node->first->next->at, "seconds must not fall: %g follows %g",
                      knot->seconds, before->seconds);
  return 0;
}

/* The last knot of rows that may fall must not. */
static int knots_load(const Loader *self, const Node *list, int64_t run_max, bool may_fall,
                      RowKnots *ret_knots) {
  if (list->kind != NODE_LIST || list->n_children == 0)
    return diag_error(self->diag, list->at, "expected a list of knots '[x, seconds]'");
  PwlKnot *knots = ARENA_ARRAY(self->arena, PwlKnot, list->n_children);
  int n = 0, status = 0;
  for (const Node *node = list->first; node; node = node->next, n++)
    if (knot_load(self, node, run_max, !self->physical || (may_fall && node->next),
                  n > 0 ? &knots[n - 1] : NULL, &knots[n]))
      status = -1;
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
    return diag_error(self->diag, node->at,
                      "the lower end of the range is above the upper end: %lld > %lld",
                      (long long)*low, (long long)*high);
  return 0;
}

/* The knots of a curve, or of a row of a table over means (`spans`); the range of `ret_curve` is
 * theirs, or what is said to be measured. */
static int curve_load(const Loader *self, const OptionSpec *specs, bool spans, bool may_fall,
                      const Node *node, CurveFile *file, RowKnots *ret_knots, Pwl *ret_curve) {
  if (option_bind(specs, node, NULL, node->at, file, self->diag)) return -1;
  const int64_t run_max = spans ? PWL_RUN_MAX / SPAN_STEPS * file->key : PWL_RUN_MAX;
  if (knots_load(self, file->knots, run_max, may_fall, ret_knots)) return -1;
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
  if (curve_load(self, CURVE_SPECS, false, false, node, &file, &knots, curve)) return -1;
  curve_init(self, knots.knots, knots.n, curve);
  return 0;
}

static int row_check(const Loader *self, const TableKind *kind, const TableRows *all,
                     const CurveRow *rows, int r, const Node *node) {
  int64_t x = 0;
  const TableFault fault = table_rows_fault(all, r, &x);
  const long long key = rows[r].key, at = span_total(x, rows[r].key);
  if (fault == TABLE_FALLS_BELOW)
    return diag_error(self->diag, node->at,
                      "more %s cannot be faster: row %lld falls below row %lld, at as much per "
                      "%s, from %s%lld%s on",
                      kind->keys, key, (long long)rows[r - 1].key, kind->key, kind->before_sum, at,
                      kind->after_sum);
  if (fault == TABLE_APPROACHES)
    return diag_error(self->diag, node->parent->at,
                      "beyond %lld %s more context would be faster: from %lld%s on the last row "
                      "approaches the one before it",
                      key, kind->keys, at, kind->after_sum);
  return 0;
}

/* Puts the rows on common knots. */
static int rows_compile(const Loader *self, const TableKind *kind, const Node *list,
                        const RowKnots *said, CurveRow *rows, int n_rows) {
  TableRows all;
  int status = 0, r = 0;
  if (!table_rows_init(&all, said, n_rows, kind->may_fall, self->arena))
    return diag_error(self->diag, list->at, "the rows have too many knots in total");
  for (const Node *node = list->first; node; node = node->next, r++)
    status |= row_check(self, kind, &all, rows, r, node);
  if (status) return -1;
  table_rows_settle(&all);
  PwlKnot *knots = ARENA_ARRAY(self->arena, PwlKnot, all.n);
  for (r = 0; r < n_rows; r++) {
    for (int k = 0; k < all.n; k++)
      knots[k] = (PwlKnot){all.x[k], all.seconds[r * all.n + k]};
    curve_init(self, knots, all.n, &rows[r].curve);
  }
  return 0;
}

/* The knots of a row, over means. */
static int spans_of_row(const Loader *self, const TableKind *kind, const Node *list,
                        RowKnots *knots, CurveRow *row) {
  PwlKnot *spans = ARENA_ARRAY(self->arena, PwlKnot, knots->n);
  const Node *node = list->first;
  for (int k = 0; k < knots->n; k++, node = node->next) {
    spans[k] = (PwlKnot){mean_span(knots->knots[k].x, row->key), knots->knots[k].seconds};
    if (k > 0 && spans[k].x == spans[k - 1].x)
      return diag_error(self->diag, node->first->at,
                        "the knots of a row of %lld %s must be at least %lld apart",
                        (long long)row->key, kind->keys, (long long)span_total(1, row->key));
  }
  knots->knots = spans;
  row->curve.low = mean_span(row->curve.low, row->key);
  row->curve.high = mean_span(row->curve.high, row->key);
  return 0;
}

static int row_load(const Loader *self, const TableKind *kind, bool spans, const Node *node,
                    RowKnots *knots, CurveRow *row) {
  CurveFile file = {0};
  if (curve_load(self, kind->row_specs, spans, kind->may_fall, node, &file, knots, &row->curve))
    return -1;
  row->key = file.key;
  return spans ? spans_of_row(self, kind, file.knots, knots, row) : 0;
}

static int table_load(const Loader *self, const TableKind *kind, const Node *node,
                      CurveTable *table) {
  CurveFile file = {0};
  if (is_none(node)) return 0;
  if (option_bind(TABLE_SPECS, node, NULL, node->at, &file, self->diag)) return -1;
  const Node *list = file.rows;
  if (list->kind != NODE_LIST || list->n_children == 0)
    return diag_error(self->diag, list->at, "expected a list of rows");
  CurveRow *rows = ARENA_ARRAY(self->arena, CurveRow, list->n_children);
  RowKnots *knots = ARENA_ARRAY(self->arena, RowKnots, list->n_children);
  const bool spans = kind->may_fall || list->n_children > 1;
  int n = 0, status = 0;
  for (const Node *row = list->first; row; row = row->next, n++) {
    if (row_load(self, kind, spans, row, &knots[n], &rows[n])) status = -1;
    if (n > 0 && !status && rows[n].key <= rows[n - 1].key)
      status = diag_error(self->diag, row->at, "rows must ascend: %lld %s follow %lld",
                          (long long)rows[n].key, kind->keys, (long long)rows[n - 1].key);
  }
  if (status || rows_compile(self, kind, list, knots, rows, n)) return -1;
  *table = (CurveTable){rows, n, rows[0].key, rows[n - 1].key, spans};
  return measured_load(self, file.measured, &table->low, &table->high);
}

static int prefill_load(const Loader *self, const Node *node, PerfModel *model) {
  if (node->kind == NODE_MAP && node_find(node, "rows"))
    return table_load(self, &PREFILL_TABLE, node, &model->prefill_rows);
  return term_load(self, node, &model->prefill_attention);
}

static int mixed_load(const Loader *self, const Node *node, PerfModel *model) {
  CurveFile file = {0};
  if (!node) return 0;
  if (node->kind == NODE_MAP && node_find(node, "rows"))
    return table_load(self, &DECODE_TABLE, node, &model->mixed_attention);
  if (option_bind(FACTOR_SPECS, node, NULL, node->at, &file, self->diag)) return -1;
  model->mixed_factor = file.factor;
  return 0;
}

static int terms_load(const Loader *self, const ModelFile *file, PerfModel *model,
                      CurveTable *table) {
  if (!self->physical) {
    int prefill = term_load(self, file->prefill, &model->linear);
    return term_load(self, file->decode, &model->head) | prefill;
  }
  int status = term_load(self, file->linear, &model->linear);
  status |= prefill_load(self, file->prefill_attention, model);
  status |= table_load(self, &DECODE_TABLE, file->decode_attention, table);
  status |= mixed_load(self, file->mixed_attention, model);
  return status | term_load(self, file->head, &model->head);
}

/* The mean of what the fit recorded of a part of iterations on what it had not seen, in percent;
 * NAN: nothing. Other parts of the record are read by fit_load.c. */
static int held_out_load(const Node *scores, const char *part, double *ret_error, Diag *diag) {
  static const OptionSpec percent = {.key = "held_out", .type = OPTION_REAL, .max = 1e6};
  const Node *node = node_find(node_find(scores, part), "held_out");
  *ret_error = NAN;
  if (!node) return 0;
  if (node->kind != NODE_LIST || node->n_children != 3)
    return diag_error(diag, node->at, "expected errors in percent, '[mean, p95, worst]'");
  if (option_bind_one(&percent, node->first, ret_error, diag)) return -1;
  *ret_error /= 100;
  return 0;
}

/* Whether iterations were composed of operators, each of which then has an error of its own. */
static bool was_composed(const Node *scores) {
  const char *rows = node_find_text(node_find(scores, "iterations"), "rows");
  return rows && strcmp(rows, "0") == 0;
}

/* Of a term without an error of its own the iterations'. */
static int errors_load(const ModelFile *file, PerfModel *model, Diag *diag) {
  static const char *const parts[] = {[PERF_LINEAR] = "linear",
                                      [PERF_PREFILL_ATTENTION] = "prefill_attention",
                                      [PERF_DECODE_ATTENTION] = "decode_attention",
                                      [PERF_HEAD] = "head"};
  const Node *scores = node_find(file->fit, "scores");
  if (held_out_load(scores, "iterations", &model->held_out_error, diag)) return -1;
  const double whole = isnan(model->held_out_error) ? 0 : model->held_out_error;
  const bool composed = was_composed(scores);
  model->errors = (TermErrors){.of = {[PERF_SUM] = composed ? 0 : whole}};
  for (int t = 0; composed && t <= PERF_HEAD; t++) {
    if (held_out_load(scores, parts[t], &model->errors.of[t], diag)) return -1;
    if (isnan(model->errors.of[t])) model->errors.of[t] = whole;
  }
  return 0;
}

/* Profiles of Tandem's own kernels name no engine. */
static const char *kernels_of(const ModelFile *file) {
  const char *inside = node_find_text(file->fit, "engine_inside");
  const char *backend = node_find_text(node_find(file->fit, "facts"), "backend");
  const char *engine = file->setup.engine;
  if (inside && strcmp(inside, "linear") == 0) return NULL;
  if (!engine) return backend && strcmp(backend, "cuda") == 0 ? KERNELS_TANDEM : NULL;
  return strcmp(engine, KERNELS_TANDEM) == 0 ? KERNELS_TANDEM : KERNELS_PUBLIC;
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
                     .says_weights = node_find(root, "weight_dtype") != NULL,
                     .says_kv_cache = node_find(root, "kv_cache_dtype") != NULL,
                     .measured_on = node_find_text(node_find(file.fit, "facts"), "machine"),
                     .measured = true,
                     .kernels = kernels_of(&file),
                     .form = (PerfForm)file.form,
                     .ranks = file.setup.attention_data_parallel_size,
                     .overhead = file.overhead,
                     .mixed_factor = file.mixed_factor};
  CurveTable table = {0};
  Loader loader = {physical, arena, diag};
  int status = terms_load(&loader, &file, &model, &table);
  if (file.captured_batch_sizes)
    status |= captured_bind(&model.captured, file.captured_batch_sizes, arena, diag);
  status |= errors_load(&file, &model, diag);
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

int perfmodel_parse(PerfModel *self, const char *name, const char *text, size_t length,
                    int64_t max_decode_seqs, Arena *arena, Diag *diag) {
  const Node *root = yaml_parse(name, text, length, arena, diag);
  return root ? model_bind(self, root, max_decode_seqs, arena, diag) : -1;
}
