/* Points are collected with the text of their curve's columns, sorted, and written as rows. */
#include "perfmodel/compose/kernel_write.h"
#include "base/output.h"
#include "perfmodel/compose/kernel_table.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEADS "attn_dtype,kv_cache_dtype,head_dim,num_heads,num_key_value_heads,window_size"

typedef enum TableKind {
  TABLE_LINEAR,
  TABLE_HEAD,
  TABLE_PREFILL,
  TABLE_DECODE,
  TABLE_GEMM,
  TABLE_ALL_REDUCE,
  TABLE_KINDS
} TableKind;

static const struct {
  const char *name, *columns, *x;
} TABLES[TABLE_KINDS] = {
    [TABLE_LINEAR] = {"linear",
                      "gemm_dtype,hidden_size,num_heads,num_key_value_heads,head_dim,inter_size,"
                      "gated",
                      "num_tokens"},
    [TABLE_HEAD] = {"head", "gemm_dtype,hidden_size,vocab_size", "num_tokens"},
    [TABLE_PREFILL] = {"context_attention", "kernel_source," HEADS ",batch_size,step", "isl"},
    [TABLE_DECODE] = {"generation_attention", "kernel_source," HEADS ",batch_size", "step"},
    [TABLE_GEMM] = {"gemm", "gemm_dtype,n,k", "m"},
    [TABLE_ALL_REDUCE] = {"custom_allreduce", "backend,allreduce_dtype,num_gpus", "message_size"},
};

typedef struct Point {
  TableKind table;
  const char *curve; // its columns
  int64_t x;
  double us;
} Point;

typedef struct Writing {
  const Profile *profile; // that is read
  Llm llm;
  int64_t gpus;
  const char *weights; // of products, as tables call them
  Point *points;
  size_t n, capacity;
  Arena *arena;
} Writing;

const char *kernel_dtype_name(int dtype) {
  static const char *const names[DTYPE_COUNT] = {
      [DTYPE_BF16] = "bfloat16", [DTYPE_FP8] = "fp8",      [DTYPE_FP8_BLOCK] = "fp8_block",
      [DTYPE_NVFP4] = "nvfp4",   [DTYPE_INT8] = "int8_wo", [DTYPE_INT4] = "int4_wo",
  };
  return names[dtype];
}

bool kernel_row_counts(const ProfileRow *row) {
  return !row->busy && strcmp(row->cache, "hot") != 0 && strcmp(row->mode, "eager") != 0 &&
         !profile_is_sustained(row);
}

/* ---- Points ---- */

static void add(Writing *self, TableKind table, const char *curve, int64_t x, double us) {
  if (x < 0 || x > KERNEL_KEY_MAX) return;
  ARENA_RESERVE(self->arena, self->points, self->capacity, self->n + 1);
  self->points[self->n++] = (Point){table, curve, x, us};
}

static int64_t share(const Writing *self, int64_t count) {
  return count > self->gpus ? count / self->gpus : 1;
}

#define LLD(x) ((long long)(x))

/* "tandem,bfloat16,…" of one GPU's heads. Their numbers have 16 bits, and no layer has a window. */
static const char *heads_text(const Writing *self, const ProfileRow *row) {
  const Llm *llm = &self->llm;
  const size_t length = strcspn(row->attn_kernel, " ");
  const char *source = length > 0 ? arena_copy(self->arena, row->attn_kernel, length) : "tandem";
  const char *format = kernel_dtype_name(DTYPE_BF16);
  return arena_printf(self->arena, "%s,%s,%s,%lld,%lld,%lld,0", source, format, format,
                      LLD(llm->head_dim), LLD(share(self, llm->num_attention_heads)),
                      LLD(share(self, llm->num_key_value_heads)));
}

/* Prompts are equally long: one with a past, or several without. */
static void add_prefill(Writing *self, const ProfileRow *row) {
  const int64_t tokens = row->batch.prefill_tokens, span = row->batch.prefill_area2 / tokens;
  const int64_t batch = span >= tokens ? 1 : tokens / (span > 0 ? span : 1);
  const int64_t length = tokens / batch;
  if (row->batch.decode_seqs > 0) return; // of both in one call
  add(self, TABLE_PREFILL,
      arena_printf(self->arena, "%s,%lld,%lld", heads_text(self, row), LLD(batch),
                   LLD((span - length) / 2)),
      length, row->median_us / (double)self->llm.num_hidden_layers);
}

/* `step` is the context without the new token. */
static void add_decode(Writing *self, const ProfileRow *row) {
  const int64_t batch = row->batch.decode_seqs;
  if (batch == 0 || row->batch.context_tokens == 0 || row->batch.prefill_tokens > 0) return;
  add(self, TABLE_DECODE, arena_printf(self->arena, "%s,%lld", heads_text(self, row), LLD(batch)),
      row->batch.context_tokens / batch - 1, row->median_us / (double)self->llm.num_hidden_layers);
}

/* Of all layers alike: what an iteration has but attention and the head. */
static void add_linear(Writing *self, const ProfileRow *row) {
  const Llm *llm = &self->llm;
  if (llm_moe_layers(llm) > 0) return;
  add(self, TABLE_LINEAR,
      arena_printf(self->arena, "%s,%lld,%lld,%lld,%lld,%lld,%d", self->weights,
                   LLD(llm->hidden_size), LLD(share(self, llm->num_attention_heads)),
                   LLD(share(self, llm->num_key_value_heads)), LLD(llm->head_dim),
                   LLD(llm->intermediate_size / self->gpus), llm->gated_mlp),
      row->batch.prefill_tokens, row->median_us / (double)llm->num_hidden_layers);
}

static void add_head(Writing *self, const ProfileRow *row) {
  add(self, TABLE_HEAD,
      arena_printf(self->arena, "%s,%lld,%lld", kernel_dtype_name(DTYPE_BF16),
                   LLD(self->llm.hidden_size), LLD(self->llm.vocab_size / self->gpus)),
      row->batch.logit_seqs, row->median_us);
}

static void add_product(Writing *self, const ProfileRow *row) {
  const Llm *llm = &self->llm;
  const int64_t h = llm->hidden_size, inter = llm->intermediate_size / self->gpus;
  const int64_t q = share(self, llm->num_attention_heads) * llm->head_dim;
  const int64_t kv = share(self, llm->num_key_value_heads) * llm->head_dim;
  const int64_t sides[][2] = {{q + 2 * kv, h},
                              {h, q},
                              {(llm->gated_mlp ? 2 : 1) * inter, h},
                              {h, inter},
                              {llm->vocab_size / self->gpus, h}};
  const int which = (int)(row->op - PROFILE_GEMM_QKV);
  const char *format = row->op == PROFILE_GEMM_HEAD ? kernel_dtype_name(DTYPE_BF16) : self->weights;
  add(self, TABLE_GEMM,
      arena_printf(self->arena, "%s,%lld,%lld", format, LLD(sides[which][0]), LLD(sides[which][1])),
      row->size, row->median_us);
}

/* Numbers of 16 bits. The faster of both kinds is run: sorting keeps it. */
static void add_all_reduce(Writing *self, const ProfileRow *row) {
  add(self, TABLE_ALL_REDUCE,
      arena_printf(self->arena, "tandem,%s,%lld", kernel_dtype_name(DTYPE_BF16), LLD(self->gpus)),
      row->size / 2, row->median_us);
}

static void add_row(Writing *self, const ProfileRow *row) {
  switch (row->op) {
  case PROFILE_LINEAR:
    add_linear(self, row);
    break;
  case PROFILE_HEAD:
    add_head(self, row);
    break;
  case PROFILE_PREFILL_ATTENTION:
    add_prefill(self, row);
    break;
  case PROFILE_DECODE_ATTENTION:
    add_decode(self, row);
    break;
  case PROFILE_GEMM_QKV:
  case PROFILE_GEMM_O:
  case PROFILE_GEMM_UP:
  case PROFILE_GEMM_DOWN:
  case PROFILE_GEMM_HEAD:
    add_product(self, row);
    break;
  case PROFILE_ALL_REDUCE:
  case PROFILE_ALL_REDUCE_PEER:
    add_all_reduce(self, row);
    break;
  default:
    break;
  }
}

/* ---- Profiles ---- */

static bool has_operators(const Profile *profile) {
  size_t i = 0;
  while (i < profile->n_rows &&
         (profile->rows[i].op == PROFILE_ITERATION || !kernel_row_counts(&profile->rows[i])))
    i++;
  return i < profile->n_rows;
}

/* Times of 16-bit kernels alone. */
static int check_profile(const Profile *profile, Diag *diag) {
  const char *dtype = profile_fact(profile, "dtype");
  const Place at = place_of_file(profile->path);
  if (!has_operators(profile))
    return diag_error(diag, at,
                      "the profile has no operators in graphs, only whole iterations or none");
  if (profile_fact(profile, "engine"))
    return diag_error(diag, at, "the profile is of the engine '%s', not of single kernels",
                      profile_fact(profile, "engine"));
  if (dtype && strcmp(dtype, "bf16") != 0 && strcmp(dtype, "fp16") != 0)
    return diag_error(diag, at, "tables are of 16-bit activations; the profile has '%s'", dtype);
  return 0;
}

static int weights_of(const Profile *profile) {
  const char *name = profile_fact(profile, "weight_dtype");
  for (int dtype = 0; name && dtype < DTYPE_COUNT; dtype++)
    if (strcmp(name, dtype_names[dtype]) == 0 && kernel_dtype_name(dtype)) return dtype;
  return DTYPE_BF16;
}

int kernel_load_model(Llm *ret_llm, const Profile *profile, const char *name, const char *data_dir,
                      Arena *arena, Diag *diag) {
  const char *dash = strrchr(name, '-');
  char *end = NULL;
  const long layers = dash ? strtol(dash + 1, &end, 10) : 0;
  const bool is_part = layers > 0 && strcmp(end, "l") == 0;
  LlmFormats formats = {weights_of(profile), LLM_UNSAID, LLM_UNSAID, LLM_UNSAID};
  if (llm_load_as(ret_llm, is_part ? arena_copy(arena, name, (size_t)(dash - name)) : name,
                  &formats, data_dir, place_of_file(profile->path), arena, diag))
    return -1;
  if (is_part) ret_llm->num_hidden_layers = layers;
  return 0;
}

static int add_group(Writing *self, const ProfileGroup *group, const char *data_dir, Diag *diag) {
  const Profile *profile = self->profile;
  if (kernel_load_model(&self->llm, profile, group->model, data_dir, self->arena, diag)) return -1;
  self->gpus = group->tensor_parallel_size;
  self->weights = kernel_dtype_name(weights_of(profile));
  for (size_t i = 0; i < profile->n_rows; i++)
    if (profile_in_group(&profile->rows[i], group) && kernel_row_counts(&profile->rows[i]))
      add_row(self, &profile->rows[i]);
  return 0;
}

static int add_profile(Writing *self, const Profile *profile, const char *gpu, const char *data_dir,
                       Diag *diag) {
  ProfileGroup *groups = NULL;
  const size_t n = profile_groups(profile, &groups, self->arena);
  int error = check_profile(profile, diag);
  self->profile = profile;
  for (size_t i = 0; i < n && !error; i++) {
    if (strcmp(groups[i].gpu, gpu) != 0)
      error = diag_error(diag, place_of_file(profile->path),
                         "GPU '%s' beside '%s': tables of one folder are of one GPU", groups[i].gpu,
                         gpu);
    else
      error = add_group(self, &groups[i], data_dir, diag);
  }
  return error;
}

/* ---- Files ---- */

static int compare_points(const void *a, const void *b) {
  const Point *p = a, *q = b;
  if (p->table != q->table) return p->table < q->table ? -1 : 1;
  const int curve = strcmp(p->curve, q->curve);
  if (curve) return curve;
  if (p->x != q->x) return p->x < q->x ? -1 : 1;
  return (p->us > q->us) - (p->us < q->us);
}

/* Replicates become their median; of kinds of all-reduces the fastest stays. */
static void merge(Writing *self) {
  size_t n = 0;
  if (self->n > 0) qsort(self->points, self->n, sizeof *self->points, compare_points);
  for (size_t i = 0, end = 0; i < self->n; i = end) {
    Point point = self->points[i];
    while (end < self->n && self->points[end].table == point.table &&
           self->points[end].x == point.x && strcmp(self->points[end].curve, point.curve) == 0)
      end++;
    if (point.table != TABLE_ALL_REDUCE) point.us = self->points[i + (end - i - 1) / 2].us;
    self->points[n++] = point;
  }
  self->n = n;
}

/* The day of a profile, "2026.11.26"; "0.0" of one without. */
static const char *day_of(const Profile *profile, Arena *arena) {
  const char *date = profile_fact(profile, "date");
  if (!date || strlen(date) < 10) return "0.0";
  char *day = arena_copy(arena, date, 10);
  if (strspn(day, "0123456789-") != 10) return "0.0";
  for (char *at = day; *at; at++)
    if (*at == '-') *at = '.';
  return day;
}

static void write_sources(FILE *out, const Profile *profiles, size_t n) {
  static const char *const keys[] = {"date", "commit", "machine", "driver", "library"};
  fputs("# Tandem's own kernels, measured by `tandem calibrate` (GPL-3.0-or-later); microseconds\n",
        out);
  for (size_t i = 0; i < n; i++) {
    const char *slash = strrchr(profiles[i].path, '/');
    fprintf(out, "# %s, rows %016llx", slash ? slash + 1 : profiles[i].path,
            (unsigned long long)profile_digest(&profiles[i]));
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
      if (profile_fact(&profiles[i], keys[k]))
        fprintf(out, ", %s %s", keys[k], profile_fact(&profiles[i], keys[k]));
    fputc('\n', out);
  }
}

/* The x of all curves from `first` on that are of its table, ascending, each once. */
static size_t list_x(const Point *first, size_t n, int64_t *ret_x) {
  size_t n_x = 0;
  for (size_t i = 0; i < n; i++) {
    size_t at = 0;
    while (at < n_x && ret_x[at] < first[i].x)
      at++;
    if (at < n_x && ret_x[at] == first[i].x) continue;
    memmove(&ret_x[at + 1], &ret_x[at], (n_x - at) * sizeof *ret_x);
    ret_x[at] = first[i].x;
    n_x++;
  }
  return n_x;
}

static void write_curves(FILE *out, const Point *points, size_t n, Arena *arena) {
  int64_t *x = ARENA_ARRAY(arena, int64_t, n);
  const size_t n_x = list_x(points, n, x);
  fputs(TABLES[points->table].columns, out);
  for (size_t k = 0; k < n_x; k++)
    fprintf(out, ",%s=%lld", TABLES[points->table].x, LLD(x[k]));
  for (size_t i = 0; i < n;) {
    const char *curve = points[i].curve;
    fprintf(out, "\n%s", curve);
    for (size_t k = 0; k < n_x; k++) {
      const bool here = i < n && points[i].x == x[k] && strcmp(points[i].curve, curve) == 0;
      if (here)
        fprintf(out, ",%.4g", points[i++].us);
      else
        fputc(',', out);
    }
  }
  fputc('\n', out);
}

static int make_folders(const char *path, Arena *arena, Diag *diag) {
  for (const char *at = strchr(path + 1, '/');; at = strchr(at + 1, '/')) {
    const char *part = at ? arena_copy(arena, path, (size_t)(at - path)) : path;
    if (mkdir(part, 0777) && errno != EEXIST)
      return diag_environment(diag, place_of_file(part), "cannot make the folder: %s",
                              strerror(errno));
    if (!at) return 0;
  }
}

int kernel_write(const Profile *profiles, size_t n, const char *root, const char *data_dir,
                 const char **ret_folder, Arena *arena, Diag *diag) {
  Writing self = {.arena = arena};
  const char *gpu = n > 0 && profiles[0].n_rows > 0 ? profiles[0].rows[0].gpu : "", *day = "0.0";
  for (size_t i = 0; i < n; i++) {
    if (add_profile(&self, &profiles[i], gpu, data_dir, diag)) return -1;
    const char *other = day_of(&profiles[i], arena);
    if (strcmp(other, day) > 0) day = other;
  }
  *ret_folder = arena_printf(arena, "%s/%s/%s-%s", root, gpu, KERNELS_TANDEM, day);
  if (make_folders(*ret_folder, arena, diag)) return -1;
  merge(&self);
  for (size_t i = 0, end = 0; i < self.n; i = end) {
    Output out;
    while (end < self.n && self.points[end].table == self.points[i].table)
      end++;
    const char *name = TABLES[self.points[i].table].name;
    if (output_open(&out, arena_printf(arena, "%s/%s.csv", *ret_folder, name), arena, diag))
      return -1;
    write_sources(out.file, profiles, n);
    write_curves(out.file, &self.points[i], end - i, arena);
    if (output_commit(&out, diag)) return -1;
  }
  return 0;
}
