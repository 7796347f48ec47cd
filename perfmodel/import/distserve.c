/* DistServe's simdistserve/estimators/profile_data/NAME.json: coefficients in milliseconds, by
 * model and degree of tensor parallelism,
 *
 *   prefill            a + b·Σ tokens + c·Σ tokens²
 *   decoding_smallbs   a + b·Σ context + c·batch, below decoding_large_small_bs_threshold
 *   decoding_largebs   the same, from there on
 *
 * of one whole iteration. They become points on a grid, which the facts state: nothing was
 * measured there. Some coefficients are negative; where they make a time that is not positive, the
 * point is left out and counted. */
#include "perfmodel/import/import.h"
#include "sim/base/units.h"
#include "sim/base/yaml.h"
#include <stddef.h>
#include <string.h>

#define PREFILL_GRID "prompts of 64 to 8192 tokens, doubling, 1 to 8 at once, at most 16384 tokens"
#define DECODE_GRID  "1 to 256 sequences, doubling, of 64 to 4096 tokens, quadrupling"

enum { N_COEFFICIENTS = 3, MAX_DEGREE = 1 << 10, US_PER_MS = 1000 };

typedef struct Coefficients {
  double prefill[N_COEFFICIENTS], small[N_COEFFICIENTS], large[N_COEFFICIENTS];
  int64_t threshold; // of the batch
} Coefficients;

static int read_number(const Node *node, double *ret_value, Diag *diag) {
  if (node->kind == NODE_SCALAR && units_parse(node->text, DIM_NONE, ret_value)) return 0;
  return diag_error(diag, node->at, "must be a number");
}

static const Node *need(const Node *map, const char *key, Diag *diag) {
  const Node *node = node_find(map, key);
  if (!node) diag_error(diag, map->at, "'%s' is missing", key);
  return node;
}

static int read_list(const Node *map, const char *key, double ret_values[N_COEFFICIENTS],
                     Diag *diag) {
  const Node *list = need(map, key, diag);
  if (!list) return -1;
  if (list->kind != NODE_LIST || list->n_children != N_COEFFICIENTS)
    return diag_error(diag, list->at, "'%s' must be a list of %d numbers", key, N_COEFFICIENTS);
  int error = 0;
  for (const Node *item = list->first; item; item = item->next)
    error |= read_number(item, ret_values++, diag);
  return error;
}

static int read_coefficients(const Node *map, Coefficients *ret, Diag *diag) {
  static const char threshold_key[] = "decoding_large_small_bs_threshold";
  if (map->kind != NODE_MAP) return diag_error(diag, map->at, "must be a map of coefficients");
  const Node *threshold = need(map, threshold_key, diag);
  double value = 0;
  int error = threshold ? read_number(threshold, &value, diag) : -1;
  error |= read_list(map, "prefill", ret->prefill, diag);
  error |= read_list(map, "decoding_smallbs", ret->small, diag);
  error |= read_list(map, "decoding_largebs", ret->large, diag);
  if (!error && !(value >= 1 && value <= 1e9))
    error = diag_error(diag, threshold->at, "'%s' must be from 1 to 1e9", threshold_key);
  ret->threshold = error ? 0 : (int64_t)value;
  return error;
}

static double evaluate(const double c[N_COEFFICIENTS], double x, double y) {
  return c[0] + c[1] * x + c[2] * y;
}

typedef struct Reading {
  Profile *profile;
  const char *model, *gpu;
  int64_t degree, not_positive;
  Place at;
} Reading;

static void add(Reading *self, BatchShape batch, double ms) {
  if (!(ms > 0)) {
    self->not_positive++;
    return;
  }
  ProfileRow row =
      import_row(self->model, self->gpu, self->degree, PROFILE_ITERATION, batch, ms * US_PER_MS);
  row.at = self->at;
  row.stop = "formula";
  profile_add(self->profile, &row);
}

static void add_grid(Reading *self, const Coefficients *c) {
  for (int64_t n = 1; n <= 8; n *= 2) {
    for (int64_t tokens = 64; tokens <= 8192 && n * tokens <= 16384; tokens *= 2) {
      BatchShape batch = {
          .prefill_tokens = n * tokens, .prefill_area2 = n * tokens * tokens, .logit_seqs = n};
      add(self, batch,
          evaluate(c->prefill, (double)batch.prefill_tokens, (double)batch.prefill_area2));
    }
  }
  for (int64_t n = 1; n <= 256; n *= 2) {
    for (int64_t context = 64; context <= 4096; context *= 4) {
      BatchShape batch = {.decode_seqs = n, .context_tokens = n * context, .logit_seqs = n};
      add(self, batch,
          evaluate(n < c->threshold ? c->small : c->large, (double)batch.context_tokens,
                   (double)n));
    }
  }
}

/* "opt-13b" of "facebook/opt-13b". */
static const char *short_name(const char *name) {
  const char *slash = strrchr(name, '/');
  return slash ? slash + 1 : name;
}

static int read_degree(Reading *self, const Node *map, Diag *diag) {
  Coefficients coefficients;
  double degree = 0;
  if (!units_parse(map->key, DIM_NONE, &degree) || degree < 1 || degree > MAX_DEGREE ||
      degree != (double)(int64_t)degree)
    return diag_error(diag, map->key_at, "'%s' must be a tensor_parallel_size from 1 to %d",
                      map->key, MAX_DEGREE);
  if (read_coefficients(map, &coefficients, diag)) return -1;
  self->degree = (int64_t)degree;
  self->at = map->at;
  add_grid(self, &coefficients);
  return 0;
}

static int read_file(const ImportInput *input, Profile *profile, Diag *diag) {
  const Node *root = yaml_load(input->paths[0], profile->arena, diag);
  if (!root) return -1;
  if (root->kind != NODE_MAP) return diag_error(diag, root->at, "must be a map of models");
  Reading self = {.profile = profile, .gpu = input->gpu};
  int error = 0;
  for (const Node *model = root->first; model; model = model->next) {
    self.model = short_name(model->key);
    if (input->model && strcmp(self.model, input->model) != 0) continue;
    if (model->kind != NODE_MAP || !*self.model) {
      error = diag_error(diag, model->key_at, "must be a model's map of degrees");
      continue;
    }
    for (const Node *degree = model->first; degree; degree = degree->next)
      error |= read_degree(&self, degree, diag);
  }
  profile_set_fact(profile, "engine_preset", "eager-2023");
  profile_set_fact(profile, "assumption_prefill_grid", PREFILL_GRID);
  profile_set_fact(profile, "assumption_decode_grid", DECODE_GRID);
  profile_set_fact(profile, "assumption_measured",
                   "nothing: points of DistServe's fitted formulas");
  import_count_fact(profile, "points_not_positive_left_out", self.not_positive);
  return error;
}

const Importer import_distserve = {
    .name = "distserve",
    .help = "DistServe's JSON of coefficients",
    .units = "milliseconds",
    .max_paths = 1,
    .needs_gpu = true,
    .read = read_file,
};
