/* LLMServingSim's bundles: profiler/perf/HARDWARE/ORG/MODEL/VARIANT/, a folder with meta.yaml and
 * a folder tpN for each degree of tensor parallelism, with
 *
 *   dense.csv         layer,tokens,time_us
 *   per_sequence.csv  layer,sequences,time_us
 *   attention.csv     [layer,]prefill_chunk,kv_prefill or prefill_key,n_decode,kv_decode,
 *                     [decode_q_len,]time_us
 *   moe.csv           tokens,activated_experts,time_us    of models with experts
 *
 * Times are microseconds of one call, so layers are added up by how often an iteration calls them.
 * kv_prefill is the past of the one chunk; prefill_key, of newer files, is the mean over the new
 * tokens of past + chunk/2, so 2A = 2·chunk·key. A row of prefill and decode is one call of both,
 * decode_attention with prefill in its batch. Rows of several query tokens per decode are passed
 * over: the composed model has no term for them.
 * Of experts so many are read as tokens that pick at random reach; the product that picks them was
 * not timed. Degrees whose experts were not timed are passed over.
 * meta.yaml's num_hidden_layers is that of the shrunk model that was timed, so the model file's
 * counts. */
#include "base/sort.h"
#include "base/yaml.h"
#include "perfmodel/import/import.h"
#include "perfmodel/llm.h"
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TOKENS = 1 << 20, MAX_SEQUENCES = 1 << 16, MAX_EXPERTS = 1 << 16, MAX_DEGREE = 1 << 10 };

/* What runs for the tokens of an iteration, and what for the sequences that need logits. */
static const struct {
  const char *name;
  int per_layer, per_iteration; // calls
} LAYERS[] = {
    {"embedding", 0, 1},  {"layernorm", 2, 0},       {"qkv_proj", 1, 0},     {"qk_norm", 1, 0},
    {"rotary_emb", 1, 0}, {"o_proj", 1, 0},          {"gate_up_proj", 1, 0}, {"act_fn", 1, 0},
    {"down_proj", 1, 0},  {"final_layernorm", 0, 1}, {"lm_head", 0, 1},      {"sampler", 0, 1},
};
enum { N_LAYERS = sizeof LAYERS / sizeof *LAYERS };

/* Times of one layer's experts by how many tokens there are and how many of the experts they reach.
 * Each token goes to as many experts as the model says, spread evenly over those that are reached.
 */
typedef struct ExpertTime {
  int64_t tokens, activated_experts;
  double time_us;
} ExpertTime;

typedef struct ExpertTimes {
  ExpertTime row, *rows; // the newest; all [n], by tokens, then by experts
  size_t n, capacity;
} ExpertTimes;

typedef struct Reading {
  const char *model, *gpu;
  Profile *profile;
  Llm llm;
  ExpertTimes experts;                        // of the degree that is read; none of a dense model
  int64_t wide_rows, degrees_without_experts; // passed over
} Reading;

/* ---- moe.csv ---- */

#define EXPERTS(field, kind) CSV_FIELD(ExpertTime, field, kind, CSV_POSITIVE)
static const CsvColumn EXPERT_COLUMNS[] = {
    EXPERTS(tokens, CSV_INT), EXPERTS(activated_experts, CSV_INT), EXPERTS(time_us, CSV_REAL), {0}};

static int take_experts(void *context, const Csv *csv, Diag *diag) {
  ExpertTimes *self = context;
  if (self->row.tokens > MAX_TOKENS || self->row.activated_experts > MAX_EXPERTS)
    return diag_error(diag, csv_place(csv, NULL), "a row has at most %d tokens and %d experts",
                      MAX_TOKENS, MAX_EXPERTS);
  ARENA_RESERVE(csv->lines.arena, self->rows, self->capacity, self->n + 1);
  self->rows[self->n++] = self->row;
  return 0;
}

static int compare_experts(const void *a, const void *b) {
  const ExpertTime *left = a, *right = b;
  const int64_t pairs[][2] = {{left->tokens, right->tokens},
                              {left->activated_experts, right->activated_experts}};
  const int order = compare_pairs(pairs, 2);
  return order != 0 ? order : (left->time_us > right->time_us) - (left->time_us < right->time_us);
}

static int read_experts(ExpertTimes *self, const char *path, Arena *arena, Diag *diag) {
  *self = (ExpertTimes){0};
  if (import_table(path, EXPERT_COLUMNS, &self->row, take_experts, self, diag, arena)) return -1;
  if (self->n == 0) return diag_error(diag, place_of_file(path), "the table has no rows");
  qsort(self->rows, self->n, sizeof *self->rows, compare_experts);
  return 0;
}

/* On the line through two points; that of the first where they are at one place. */
static double between(double x0, double y0, double x1, double y1, double x) {
  return x1 > x0 ? y0 + (y1 - y0) * (x - x0) / (x1 - x0) : y0;
}

/* With the tokens of rows[first..end). */
static double at_experts(const ExpertTimes *self, size_t first, size_t end, double experts) {
  const ExpertTime *row = &self->rows[first], *last = &self->rows[end - 1];
  if (experts <= (double)row->activated_experts) return row->time_us;
  if (experts >= (double)last->activated_experts) return last->time_us;
  while (experts > (double)row[1].activated_experts)
    row++;
  return between((double)row->activated_experts, row->time_us, (double)row[1].activated_experts,
                 row[1].time_us, experts);
}

/* Microseconds of a layer, between rows by lines; with fewer or more experts than were measured,
 * those of the nearest. */
static double expert_times_us(const ExpertTimes *self, double tokens, double experts) {
  double x[2] = {0}, y[2] = {0};
  int seen = 0;
  for (size_t first = 0, end = 0; first < self->n; first = end) {
    while (end < self->n && self->rows[end].tokens == self->rows[first].tokens)
      end++;
    x[0] = x[1], y[0] = y[1];
    x[1] = (double)self->rows[first].tokens;
    y[1] = at_experts(self, first, end, experts);
    seen++;
    if (x[1] >= tokens) break;
  }
  return seen == 1 ? y[1] : between(x[0], y[0], x[1], y[1], tokens);
}

/* How many of `experts` some of `tokens` choose when each picks `topk` at random. */
static double experts_reached(double experts, double topk, double tokens) {
  return experts * (1 - pow(1 - topk / experts, tokens));
}

/* Of one iteration. */
static double experts_us(const Reading *self, int64_t tokens) {
  const Llm *llm = &self->llm;
  if (self->experts.n == 0) return 0;
  const double reached =
      experts_reached((double)llm->num_experts, (double)llm->num_experts_per_tok, (double)tokens);
  return (double)llm_moe_layers(llm) * expert_times_us(&self->experts, (double)tokens, reached);
}

/* ---- dense.csv and per_sequence.csv ---- */

typedef struct LayerRow {
  const char *layer;
  int64_t size; // tokens or sequences
  double time_us;
  int index; // in LAYERS
  Place at;
} LayerRow;

#define LAYER_COLUMNS(count)                                                                       \
  {                                                                                                \
    CSV_FIELD(LayerRow, layer, CSV_TEXT, CSV_ANY),                                                 \
        {.name = count,                                                                            \
         .type = CSV_INT,                                                                          \
         .offset = offsetof(LayerRow, size),                                                       \
         .range = CSV_POSITIVE},                                                                   \
        CSV_FIELD(LayerRow, time_us, CSV_REAL, CSV_POSITIVE), {                                    \
      0                                                                                            \
    }                                                                                              \
  }

static const CsvColumn DENSE_COLUMNS[] = LAYER_COLUMNS("tokens");
static const CsvColumn SEQUENCE_COLUMNS[] = LAYER_COLUMNS("sequences");

static int find_layer(const Csv *csv, LayerRow *row, Diag *diag) {
  const char *names[N_LAYERS + 1] = {NULL};
  for (row->index = 0; row->index < N_LAYERS; row->index++)
    if (strcmp(LAYERS[row->index].name, row->layer) == 0) return 0;
  for (int i = 0; i < N_LAYERS; i++)
    names[i] = LAYERS[i].name;
  diag_error(diag, csv_place(csv, "layer"), "unknown layer '%s'", row->layer);
  diag_hint_near(diag, row->layer, names);
  return -1;
}

static int compare_layers(const void *a, const void *b) {
  const LayerRow *left = a, *right = b;
  if (left->size != right->size) return left->size < right->size ? -1 : 1;
  if (left->index != right->index) return left->index < right->index ? -1 : 1;
  return (left->at.line > right->at.line) - (left->at.line < right->at.line);
}

/* Sums the calls of rows[0..n), which are of one size; every layer in `expected` must be there. */
static int sum_layers(const Reading *self, const LayerRow *rows, size_t n, unsigned expected,
                      double *ret_us, Diag *diag) {
  unsigned seen = 0;
  *ret_us = 0;
  for (size_t i = 0; i < n; i++) {
    if (seen & 1u << rows[i].index)
      return diag_error(diag, rows[i].at, "layer '%s' occurs twice for %lld", rows[i].layer,
                        (long long)rows[i].size);
    seen |= 1u << rows[i].index;
    *ret_us += rows[i].time_us *
               ((double)LAYERS[rows[i].index].per_layer * (double)self->llm.num_hidden_layers +
                LAYERS[rows[i].index].per_iteration);
  }
  for (int i = 0; i < N_LAYERS; i++)
    if (expected & ~seen & 1u << i)
      return diag_error(diag, rows[0].at, "layer '%s' has no time for %lld", LAYERS[i].name,
                        (long long)rows[0].size);
  return 0;
}

static int add_layers(Reading *self, int64_t degree, ProfileOp op, const LayerRow *rows, size_t n,
                      Diag *diag) {
  unsigned expected = 0;
  int error = 0;
  for (size_t i = 0; i < n; i++)
    expected |= 1u << rows[i].index;
  for (size_t first = 0, end = 0; first < n; first = end) {
    while (end < n && rows[end].size == rows[first].size)
      end++;
    double us = 0;
    if (sum_layers(self, &rows[first], end - first, expected, &us, diag)) {
      error = -1;
      continue;
    }
    if (op == PROFILE_LINEAR) us += experts_us(self, rows[first].size);
    BatchShape batch = {0};
    *(op == PROFILE_HEAD ? &batch.logit_seqs : &batch.prefill_tokens) = rows[first].size;
    ProfileRow added = import_row(self->model, self->gpu, degree, op, batch, us);
    added.at = rows[first].at;
    profile_add(self->profile, &added);
  }
  return error;
}

typedef struct LayerRows {
  LayerRow row, *rows; // the newest; all
  size_t n, capacity;
} LayerRows;

static int take_layer(void *context, const Csv *csv, Diag *diag) {
  LayerRows *self = context;
  if (self->row.size > MAX_TOKENS)
    return diag_error(diag, csv_place(csv, NULL), "a row has at most %d tokens or sequences",
                      MAX_TOKENS);
  if (find_layer(csv, &self->row, diag)) return -1;
  self->row.at = csv_place(csv, NULL);
  ARENA_RESERVE(csv->lines.arena, self->rows, self->capacity, self->n + 1);
  self->rows[self->n++] = self->row;
  return 0;
}

static int read_layers(Reading *self, const char *path, int64_t degree, ProfileOp op, Diag *diag) {
  LayerRows all = {.n = 0};
  const CsvColumn *columns = op == PROFILE_HEAD ? SEQUENCE_COLUMNS : DENSE_COLUMNS;
  const int error =
      import_table(path, columns, &all.row, take_layer, &all, diag, self->profile->arena);
  if (all.n > 0) qsort(all.rows, all.n, sizeof *all.rows, compare_layers);
  return error | add_layers(self, degree, op, all.rows, all.n, diag);
}

/* ---- attention.csv ---- */

typedef struct AttentionRow {
  const char *layer;
  int64_t prefill_chunk, n_decode, kv_decode, decode_q_len;
  double kv_prefill, prefill_key; // one of them is NAN
  double time_us;
} AttentionRow;

#define ATTENTION(field, kind, limits) CSV_FIELD(AttentionRow, field, kind, limits)
#define MAY_MISS(field, kind)                                                                      \
  {                                                                                                \
    .name = #field, .type = kind, .offset = offsetof(AttentionRow, field),                         \
    .range = CSV_NOT_NEGATIVE, .may_miss = true                                                    \
  }

static const CsvColumn ATTENTION_COLUMNS[] = {MAY_MISS(layer, CSV_TEXT),
                                              ATTENTION(prefill_chunk, CSV_INT, CSV_NOT_NEGATIVE),
                                              MAY_MISS(kv_prefill, CSV_REAL),
                                              MAY_MISS(prefill_key, CSV_REAL),
                                              ATTENTION(n_decode, CSV_INT, CSV_NOT_NEGATIVE),
                                              ATTENTION(kv_decode, CSV_INT, CSV_NOT_NEGATIVE),
                                              MAY_MISS(decode_q_len, CSV_INT),
                                              ATTENTION(time_us, CSV_REAL, CSV_POSITIVE),
                                              {0}};

static int check_attention(const Csv *csv, const AttentionRow *row, Diag *diag) {
  if (*row->layer && strcmp(row->layer, "attention") != 0)
    return csv_error(csv, "layer", "attention: sparse attention is not modelled", diag);
  if (row->prefill_chunk > MAX_TOKENS || row->kv_decode > MAX_TOKENS ||
      row->n_decode > MAX_SEQUENCES || row->kv_prefill > MAX_TOKENS ||
      row->prefill_key > MAX_TOKENS)
    return diag_error(diag, csv_place(csv, NULL), "a row has at most %d tokens and %d sequences",
                      MAX_TOKENS, MAX_SEQUENCES);
  if (row->prefill_chunk == 0 && (row->n_decode == 0 || row->kv_decode == 0))
    return diag_error(diag, csv_place(csv, NULL), "the row has neither a prefill nor a decode");
  if (row->prefill_chunk > 0 && isnan(row->kv_prefill) && !(row->prefill_key > 0))
    return csv_error(csv, "prefill_key", "a number above 0", diag);
  return 0;
}

static void add_attention(Reading *self, int64_t degree, const AttentionRow *row, Place at) {
  if (row->decode_q_len > 1) {
    self->wide_rows++;
    return;
  }
  const double chunk = (double)row->prefill_chunk;
  const double key = isnan(row->kv_prefill) ? row->prefill_key : row->kv_prefill + chunk / 2;
  BatchShape batch = {.decode_seqs = row->n_decode,
                      .context_tokens = row->n_decode * row->kv_decode};
  if (row->prefill_chunk > 0) {
    batch.prefill_tokens = row->prefill_chunk;
    batch.prefill_area2 = llround(2 * chunk * key);
  }
  const ProfileOp op = row->n_decode > 0 ? PROFILE_DECODE_ATTENTION : PROFILE_PREFILL_ATTENTION;
  ProfileRow added = import_row(self->model, self->gpu, degree, op, batch,
                                row->time_us * (double)self->llm.num_hidden_layers);
  added.at = at;
  profile_add(self->profile, &added);
}

typedef struct AttentionReading {
  Reading *reading;
  int64_t degree;
  AttentionRow row;
} AttentionReading;

static int take_attention(void *context, const Csv *csv, Diag *diag) {
  AttentionReading *self = context;
  if (csv_has(csv, "kv_prefill") == csv_has(csv, "prefill_key"))
    return diag_error(diag, csv_place(csv, NULL),
                      "one of the columns 'kv_prefill' and 'prefill_key' is required");
  if (check_attention(csv, &self->row, diag)) return -1;
  add_attention(self->reading, self->degree, &self->row, csv_place(csv, NULL));
  return 0;
}

/* ---- The bundle ---- */

static const struct {
  const char *fact, *key;
} META_FACTS[] = {{"source_model", "model"},        {"gpu_name", "gpu"},
                  {"vllm_version", "vllm_version"}, {"cuda_version", "cuda_version"},
                  {"date", "profiled_at"},          {"precision", "variant"}};

static int read_meta(Reading *self, const ImportInput *input, Diag *diag) {
  Profile *profile = self->profile;
  const char *path = arena_printf(profile->arena, "%s/meta.yaml", input->path);
  const Node *meta = yaml_load(path, profile->arena, diag);
  if (!meta) return -1;
  self->gpu = input->gpu ? input->gpu : node_find_text(meta, "hardware");
  if (!self->gpu || !*self->gpu)
    return diag_error(diag, place_of_file(path),
                      "'hardware' is missing: name the GPU with '--gpu'");
  for (size_t i = 0; i < sizeof META_FACTS / sizeof *META_FACTS; i++) {
    const char *value = node_find_text(meta, META_FACTS[i].key);
    if (value) profile_set_fact(profile, META_FACTS[i].fact, value);
  }
  return 0;
}

static int refuse_file(const char *folder, const char *name, const char *what, Arena *arena,
                       Diag *diag) {
  const char *path = arena_printf(arena, "%s/%s", folder, name);
  if (access(path, F_OK) != 0) return 0;
  return diag_error(diag, place_of_file(path), "%s is not modelled", what);
}

static int read_degree(Reading *self, const char *folder, int64_t degree, Diag *diag) {
  Arena *arena = self->profile->arena;
  if (refuse_file(folder, "linear_attention.csv", "linear attention", arena, diag)) return -1;
  const char *experts = arena_printf(arena, "%s/moe.csv", folder);
  const bool timed = access(experts, F_OK) == 0, has_experts = llm_moe_layers(&self->llm) > 0;
  if (timed && !has_experts)
    return diag_error(diag, place_of_file(experts), "model '%s' has no experts", self->model);
  if (has_experts && !timed) {
    self->degrees_without_experts++;
    return 0;
  }
  self->experts = (ExpertTimes){0};
  if (timed && read_experts(&self->experts, experts, arena, diag)) return -1;
  int error =
      read_layers(self, arena_printf(arena, "%s/dense.csv", folder), degree, PROFILE_LINEAR, diag);
  error |= read_layers(self, arena_printf(arena, "%s/per_sequence.csv", folder), degree,
                       PROFILE_HEAD, diag);
  AttentionReading attention = {.reading = self, .degree = degree};
  error |= import_table(arena_printf(arena, "%s/attention.csv", folder), ATTENTION_COLUMNS,
                        &attention.row, take_attention, &attention, diag, arena);
  return error;
}

/* N of a name "tpN", 0 if it is another name. */
static int64_t degree_named(const char *name) {
  if (strncmp(name, "tp", 2) != 0 || name[2] < '1' || name[2] > '9') return 0;
  char *stop = NULL;
  long degree = strtol(name + 2, &stop, 10);
  return *stop == '\0' && degree <= MAX_DEGREE ? degree : 0;
}

static int list_degrees(const char *path, bool ret_degrees[MAX_DEGREE + 1], Diag *diag) {
  DIR *folder = opendir(path);
  if (!folder)
    return diag_environment(diag, place_of_file(path), "cannot open the folder: %s",
                            strerror(errno));
  for (struct dirent *entry; (entry = readdir(folder));)
    ret_degrees[degree_named(entry->d_name)] = true;
  closedir(folder);
  return 0;
}

static void set_facts(const Reading *self) {
  Profile *profile = self->profile;
  profile_set_fact(profile, "engine_preset", "ideal");
  profile_set_fact(profile, "grid", "each point once");
  profile_set_fact(profile, "engine", "vllm");
  const char *version = profile_fact(profile, "vllm_version");
  if (version) profile_set_fact(profile, "engine_version", version);
  profile_set_fact(profile, "weight_dtype", "bf16");
  profile_set_fact(profile, "kv_cache_dtype", "bf16");
  profile_set_fact(profile, "assumption_layers",
                   arena_printf(profile->arena,
                                "%lld layers of the model file; two norms a layer, all else once",
                                (long long)self->llm.num_hidden_layers));
  profile_set_fact(profile, "all_reduce", "none"); // of the GPUs that share a layer one was timed
  profile_set_fact(profile, "assumption_head", "lm_head and sampler");
  if (llm_moe_layers(&self->llm) > 0) {
    profile_set_fact(profile, "assumption_experts",
                     "tokens reach experts at random, evenly; the router's product is left out");
    profile_count_fact(profile, "degrees_without_experts_left_out", self->degrees_without_experts);
  }
  profile_count_fact(profile, "rows_of_several_query_tokens_left_out", self->wide_rows);
}

static int read_bundle(const ImportInput *input, Profile *profile, Diag *diag) {
  Reading self = {.model = input->model, .profile = profile};
  bool degrees[MAX_DEGREE + 1] = {false};
  if (llm_load(&self.llm, input->model, input->data_dir, place_of_file(NULL), profile->arena,
               diag) ||
      list_degrees(input->path, degrees, diag) || read_meta(&self, input, diag))
    return -1;
  int error = 0;
  for (int degree = 1; degree <= MAX_DEGREE; degree++)
    if (degrees[degree])
      error |= read_degree(&self, arena_printf(profile->arena, "%s/tp%d", input->path, degree),
                           degree, diag);
  set_facts(&self);
  return error;
}

const Importer import_llmservingsim = {
    .name = "llmservingsim",
    .help = "bundle of LLMServingSim: the folder with meta.yaml and tpN/",
    .units = "microseconds",
    .needs_model = true,
    .read = read_bundle,
};
