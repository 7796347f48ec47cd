/* Quantile tables, the `lengths:` key, and drawing by inversion. */
#include "traces/lengths.h"
#include "base/folder.h"
#include "base/rng.h"
#include "base/text.h"
#include "traces/fields.h"
#include "traces/trace.h"
#include <assert.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Quantile tables ---- */

#define TABLE_HEADER "q,prompt,output"
enum { TABLE_PLACES = 6, Q, PROMPT = 1, OUTPUT, COLUMNS };
static const double PER_UNIT = 1e-6; // of a number read with TABLE_PLACES decimals

typedef struct Table {
  double *columns[COLUMNS]; // [0] is not filled
  size_t capacity[COLUMNS];
  int n;
  int64_t q, step; // of the newest row, and between rows, in TABLE_PLACES decimals
} Table;

static int table_append(Table *self, const Line *line, Arena *arena, Diag *diag) {
  static const char *const names[] = {"q", "prompt", "output"};
  Field fields[COLUMNS];
  int64_t numbers[COLUMNS];
  const int found = line_split(line, fields, COLUMNS);
  if (found != COLUMNS)
    return diag_error(diag, line_place(line, (Field){0}),
                      "expected %d fields as in the header, found %d", COLUMNS, found);
  for (int i = 0; i < COLUMNS; i++)
    if (!field_decimal(fields[i], TABLE_PLACES, &numbers[i]))
      return field_error(line, fields[i], names[i], "a number with at most 6 decimals", diag);
  if (self->n == 1) self->step = numbers[0];
  if (numbers[0] != self->n * self->step || (self->n > 0 && self->step == 0))
    return field_error(line, fields[0], "q", "in equal steps from 0", diag);
  self->q = numbers[0];
  for (int i = PROMPT; i <= OUTPUT; i++) {
    double value = (double)numbers[i] * PER_UNIT;
    if (value > TRACE_TOKENS_MAX)
      return field_error(line, fields[i], names[i], "at most 10000000 tokens", diag);
    if (self->n > 0 && value < self->columns[i][self->n - 1])
      return field_error(line, fields[i], names[i], "at least the value of the row before", diag);
    ARENA_RESERVE(arena, self->columns[i], self->capacity[i], self->n + 1);
    self->columns[i][self->n] = value;
  }
  self->n++;
  return 0;
}

static int table_read(Table *self, LineReader *reader, Arena *arena, Diag *diag) {
  Line line;
  bool has_header = false;
  int status = 1;
  while ((status = line_reader_next(reader, &line, diag)) > 0) {
    if (line.text[0] == '#') continue;
    if (has_header) {
      if (table_append(self, &line, arena, diag)) return -1;
    } else if (!line_is(&line, TABLE_HEADER)) {
      return diag_error(diag, line_place(&line, (Field){0}),
                        "the header of a table of lengths must be '%s'", TABLE_HEADER);
    }
    has_header = true;
  }
  if (status < 0) return -1;
  if (self->n >= 2 && self->q == INT64_C(100000000)) return 0;
  return diag_error(diag, place_of_file(reader->path), "the rows must run from q 0 to q 100");
}

int lengths_load(const char *path, LengthDistribution *ret_prompt, LengthDistribution *ret_output,
                 Arena *arena, Diag *diag) {
  LineReader reader;
  Table table = {0};
  if (line_reader_open(&reader, path, arena, diag)) return -1;
  int status = table_read(&table, &reader, arena, diag);
  line_reader_close(&reader);
  if (status) return -1;
  LengthDistribution of = {.kind = LENGTH_TABLE, .n_quantiles = table.n};
  *ret_prompt = of;
  *ret_output = of;
  ret_prompt->quantiles = table.columns[PROMPT];
  ret_output->quantiles = table.columns[OUTPUT];
  return 0;
}

/* ---- The `lengths:` key ---- */

typedef struct Binder {
  const char *data_dir, *config_dir;
  Arena *arena;
  Diag *diag;
} Binder;

const char *path_resolve(const char *path, const char *dir, Arena *arena) {
  struct stat status;
  if (path[0] == '/' || !dir || stat(path, &status) == 0) return path;
  const size_t length = strlen(dir);
  const char *slash = length > 0 && dir[length - 1] == '/' ? "" : "/";
  const char *beside = arena_printf(arena, "%s%s%s", dir, slash, path);
  return stat(beside, &status) == 0 ? beside : path;
}

const char *table_resolve(const Node *node, const char *what, const char *folder,
                          const char *data_dir, const char *config_dir, Arena *arena, Diag *diag) {
  struct stat status;
  if (text_ends_with(node->text, ".csv")) return path_resolve(node->text, config_dir, arena);
  const char *dir = arena_printf(arena, "%s/traces/%s", data_dir, folder);
  const char *path = arena_printf(arena, "%s/%s.csv", dir, node->text);
  if (!strchr(node->text, '/') && stat(path, &status) == 0) return path;
  diag_error(diag, node->at, "unknown %s '%s'", what, node_shown(node, arena));
  diag_hint_choices(diag, node->text, folder_names(dir, ".csv", arena),
                    arena_printf(arena, "tandem list %s", folder));
  return NULL;
}

int distribution_kind(const Node *node, const OptionSpec *kinds, const char *example, Diag *diag) {
  enum { KINDS_MAX = 8 };
  const char *names[KINDS_MAX] = {NULL};
  if (node->kind != NODE_MAP || node->n_children != 1) {
    diag_error(diag, node->at, "'%s' must be a map with one distribution", node->key);
    diag_hint(diag, "for example %s", example);
    return -1;
  }
  for (int kind = 0; kinds[kind].key; kind++) {
    names[kind] = kinds[kind].key;
    if (strcmp(node->first->key, names[kind]) == 0) return kind;
  }
  diag_error(diag, node->first->key_at, "unknown distribution '%s'", node->first->key);
  diag_hint_near(diag, node->first->key, names);
  return -1;
}

/* A table by name or path; both its columns. */
static int bind_table(const Binder *self, const Node *node, LengthDistribution ret_both[2]) {
  if (node->kind != NODE_SCALAR)
    return diag_error(self->diag, node->at,
                      "a table of lengths must be a name or the path of a .csv file");
  if (!text_is_plain(node->text))
    return diag_error(self->diag, node->at, "a table of lengths holds a control character");
  const char *path = table_resolve(node, "table of lengths", "lengths", self->data_dir,
                                   self->config_dir, self->arena, self->diag);
  return path ? lengths_load(path, &ret_both[0], &ret_both[1], self->arena, self->diag) : -1;
}

#define MEAN_ROW                                                                                   \
  {                                                                                                \
    .key = "mean", .type = OPTION_REAL, .offset = offsetof(LengthDistribution, mean),              \
    .required = true, .min = 1, .max = TRACE_TOKENS_MAX,                                           \
    .help = "Mean length in tokens, before min and max."                                           \
  }
#define CLAMP_ROW(name, field, text)                                                               \
  {                                                                                                \
    .key = (name), .type = OPTION_REAL, .offset = offsetof(LengthDistribution, field), .min = 1,   \
    .max = TRACE_TOKENS_MAX, .help = (text), .absent = "none"                                      \
  }
#define CLAMP_ROWS                                                                                 \
  CLAMP_ROW("min", low, "Minimum; shorter draws are raised to it."),                               \
      CLAMP_ROW("max", high, "Maximum; longer draws are cut to it."), {                            \
    0                                                                                              \
  }
const OptionSpec length_lognormal_options[] = {
    MEAN_ROW,
    {"sigma", OPTION_REAL, offsetof(LengthDistribution, sigma), .required = true, .max = 10,
     .help = "Standard deviation of the logarithm."},
    CLAMP_ROWS};
const OptionSpec length_exponential_options[] = {MEAN_ROW, CLAMP_ROWS};

#define KIND_ROW(name, type_, ...)                                                                 \
  { .key = (name), .type = OPTION_##type_, .absent = "none; one of these is required", __VA_ARGS__ }
/* By LengthKind: the one key of a distribution's map. */
const OptionSpec length_options[] = {
    KIND_ROW("table", STRING,
             .help = "Name or path of a table, whose prompts or outputs are drawn.",
             .listed = "lengths"),
    KIND_ROW("constant", INT, .min = 1, .max = TRACE_TOKENS_MAX,
             .help = "Number of tokens of every draw."),
    KIND_ROW("uniform", NODE,
             .help = "Uniform distribution between two numbers: [low, high], both included."),
    KIND_ROW("lognormal", NODE, .help = "Lognormal distribution: {mean: 120, sigma: 0.9}."),
    KIND_ROW("exponential", NODE, .help = "Exponential distribution: {mean: 120}."),
    {0}};

static int bind_mean(const Binder *self, const Node *node, const OptionSpec *specs,
                     LengthDistribution *ret) {
  if (option_bind(specs, node, NULL, node->at, ret, self->diag)) return -1;
  if (ret->high == 0 || ret->low <= ret->high) return 0;
  return diag_error(self->diag, node->at, "'min' is above 'max'");
}

/* A whole length; `key` is what messages call it. */
static int bind_tokens(const Binder *self, const Node *node, const char *key, double *ret_tokens) {
  OptionSpec spec = length_options[LENGTH_CONSTANT];
  spec.key = key;
  int64_t tokens = 0;
  if (option_bind_one(&spec, node, &tokens, self->diag)) return -1;
  *ret_tokens = (double)tokens;
  return 0;
}

static int bind_uniform(const Binder *self, const Node *node, LengthDistribution *ret) {
  if (node->kind != NODE_LIST || node->n_children != 2)
    return diag_error(self->diag, node->at, "'uniform' must be a list of two lengths, [low, high]");
  if (bind_tokens(self, node->first, "low", &ret->low) ||
      bind_tokens(self, node->first->next, "high", &ret->high))
    return -1;
  if (ret->low <= ret->high) return 0;
  return diag_error(self->diag, node->at, "the low end of 'uniform' is above the high end");
}

static int bind_kind(const Binder *self, const Node *value, LengthKind kind, bool is_output,
                     LengthDistribution *ret) {
  *ret = (LengthDistribution){.kind = kind};
  LengthDistribution both[2];
  switch (kind) {
  case LENGTH_TABLE:
    if (bind_table(self, value, both)) return -1;
    *ret = both[is_output];
    return 0;
  case LENGTH_CONSTANT:
    return bind_tokens(self, value, "constant", &ret->mean);
  case LENGTH_UNIFORM:
    return bind_uniform(self, value, ret);
  case LENGTH_LOGNORMAL:
    return bind_mean(self, value, length_lognormal_options, ret);
  case LENGTH_EXPONENTIAL:
    return bind_mean(self, value, length_exponential_options, ret);
  }
  assert(false);
  return -1;
}

/* One side of the map: {kind: parameters}. */
static int bind_distribution(const Binder *self, const Node *node, bool is_output,
                             LengthDistribution *ret) {
  const int kind = distribution_kind(
      node, length_options, "{constant: 512} or {lognormal: {mean: 120, sigma: 0.9}}", self->diag);
  return kind < 0 ? -1 : bind_kind(self, node->first, (LengthKind)kind, is_output, ret);
}

int lengths_bind(const Node *node, const char *data_dir, const char *config_dir,
                 LengthDistribution *ret_prompt, LengthDistribution *ret_output, Arena *arena,
                 Diag *diag) {
  static const OptionSpec sides[] = {
      {"prompt", OPTION_NODE, 0, .required = true, .help = "Distribution of prompt tokens."},
      {"output", OPTION_NODE, sizeof(const Node *), .required = true,
       .help = "Distribution of output tokens."},
      {0}};
  const Binder binder = {data_dir, config_dir, arena, diag};
  if (node->kind != NODE_MAP) {
    LengthDistribution both[2];
    if (bind_table(&binder, node, both)) return -1;
    *ret_prompt = both[0];
    *ret_output = both[1];
    return 0;
  }
  const Node *nodes[2] = {NULL, NULL};
  if (option_bind(sides, node, NULL, node->at, nodes, diag)) return -1;
  int status = bind_distribution(&binder, nodes[0], false, ret_prompt);
  return bind_distribution(&binder, nodes[1], true, ret_output) || status ? -1 : 0;
}

int length_bind(const Node *node, const char *data_dir, const char *config_dir,
                LengthDistribution *ret, Arena *arena, Diag *diag) {
  const Binder binder = {data_dir, config_dir, arena, diag};
  return bind_distribution(&binder, node, false, ret);
}

/* ---- Drawing ---- */

void length_sampler_init(LengthSampler *self, const LengthDistribution *of) {
  *self = (LengthSampler){.of = *of, .low = 1, .high = TRACE_TOKENS_MAX};
  if (of->low > 1) self->low = of->low;
  if (of->high > 0) self->high = of->high;
  if (of->kind == LENGTH_LOGNORMAL)
    self->location = portable_log(of->mean) - of->sigma * of->sigma / 2;
  /* Rounded up, an exponential of this scale is geometric with success probability 1/mean. */
  if (of->kind == LENGTH_EXPONENTIAL && of->mean > 1)
    self->scale = -1 / portable_log(1 - 1 / of->mean);
}

static double table_at(const LengthDistribution *of, double u) {
  double position = u * (of->n_quantiles - 1);
  int i = (int)position;
  if (i > of->n_quantiles - 2) i = of->n_quantiles - 2;
  double below = of->quantiles[i], above = of->quantiles[i + 1];
  return below + (position - i) * (above - below);
}

int32_t length_at(const LengthSampler *self, double u) {
  const LengthDistribution *of = &self->of;
  double length = of->mean;
  switch (of->kind) {
  case LENGTH_TABLE:
    length = table_at(of, u) + 0.5;
    break;
  case LENGTH_CONSTANT:
    break;
  case LENGTH_UNIFORM:
    length = of->low + u * (of->high - of->low + 1);
    break;
  case LENGTH_LOGNORMAL: {
    double z = portable_normal_quantile(unit_open(u));
    length = portable_exp(self->location + of->sigma * z) + 0.5;
    break;
  }
  case LENGTH_EXPONENTIAL:
    length = 1 - portable_log(1 - unit_open(u)) * self->scale;
    break;
  }
  if (length < self->low) length = self->low;
  if (length > self->high) length = self->high;
  return (int32_t)length;
}

/* Correlation of two normals whose ranks correlate by `spearman`: 2 sin(π/6 · ρ) (Kruskal 1958).
 * The sine is a Taylor sum, exact to the last bit or so for |x| < 0.53 and equal everywhere. */
static double pearson_of_spearman(double spearman) {
  const double x = spearman * 0.52359877559829887;
  double term = x, sum = x;
  for (int i = 2; i < 20; i += 2) {
    term *= -x * x / (i * (i + 1));
    sum += term;
  }
  return 2 * sum;
}

void length_pair_init(LengthPair *self, const LengthDistribution *prompt,
                      const LengthDistribution *output, double spearman) {
  length_sampler_init(&self->prompt, prompt);
  length_sampler_init(&self->output, output);
  self->pearson = pearson_of_spearman(spearman);
}

/* The uniform of the output, coupled to that of the prompt. */
static double couple(double pearson, double u_prompt, double u_output) {
  const double z_prompt = portable_normal_quantile(unit_open(u_prompt));
  const double z_own = portable_normal_quantile(unit_open(u_output));
  return portable_normal_cdf(pearson * z_prompt + sqrt(1 - pearson * pearson) * z_own);
}

void length_pair_at(const LengthPair *self, double u_prompt, double u_output, int32_t *ret_prompt,
                    int32_t *ret_output) {
  if (self->pearson != 0) u_output = couple(self->pearson, u_prompt, u_output);
  *ret_prompt = length_at(&self->prompt, u_prompt);
  *ret_output = length_at(&self->output, u_output);
}
