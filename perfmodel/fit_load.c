/* Reads what a model file records of its fit. */
#include "base/option.h"
#include "perfmodel/datafile.h"
#include "perfmodel/fit_file.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct RecordFile {
  const char *profile, *digest, *engine_preset, *engine_inside, *iterations, *mode, *all_reduce;
  int64_t seed, unused;
  const Node *facts, *scores, *points;
} RecordFile;

typedef struct PointFile {
  int op;
  int64_t numbers[5];
  double seconds;
} PointFile;

#define MAYBE(field, kind, text)                                                                   \
  { .key = #field, .type = kind, .offset = offsetof(RecordFile, field), .help = text }
#define PART(field, kind, text) OPTION_OF(RecordFile, field, kind, .required = true, .help = text)

static const OptionSpec RECORD_SPECS[] = {
    PART(profile, OPTION_STRING, "file name of the profile"),
    PART(digest, OPTION_STRING, "of its rows"),
    PART(facts, OPTION_NODE, "of its head"),
    PART(engine_preset, OPTION_STRING, "that measured it"),
    PART(engine_inside, OPTION_STRING, "the term with the engine's own time"),
    PART(seed, OPTION_INT, "of folds and splits"),
    PART(unused, OPTION_INT, "rows left out"),
    MAYBE(iterations, OPTION_STRING, "how they joined operators"),
    MAYBE(mode, OPTION_STRING, "of the rows, where there were both"),
    MAYBE(all_reduce, OPTION_STRING, "where all-reduces came from"),
    PART(scores, OPTION_NODE, "relative errors"),
    PART(points, OPTION_NODE, "medians"),
    {0}};

static const char *const OPS[] = {"iteration",        "linear", "prefill_attention",
                                  "decode_attention", "head",   NULL};
static const OptionSpec OP_SPEC = {.key = "op", .type = OPTION_CHOICE, .choices = OPS};
static const OptionSpec NUMBER_SPECS[] = {{.key = "prefill_tokens", .type = OPTION_INT, .max = 1e9},
                                          {.key = "prefill_area2", .type = OPTION_INT, .max = 1e15},
                                          {.key = "decode_seqs", .type = OPTION_INT, .max = 65536},
                                          {.key = "context_tokens", .type = OPTION_INT, .max = 1e9},
                                          {.key = "logit_seqs", .type = OPTION_INT, .max = 1e6}};
static const OptionSpec SECONDS_SPEC = {
    .key = "seconds", .type = OPTION_REAL, .min = 1e-12, .max = 1e5};

static int point_load(FitPoint *self, const Node *node, Diag *diag) {
  PointFile file = {0};
  if (node->kind != NODE_LIST || node->n_children != 7)
    return diag_error(diag, node->at, "expected a point '[op, five counts, seconds]'");
  const Node *part = node->first;
  if (option_bind_one(&OP_SPEC, part, &file.op, diag)) return -1;
  for (int i = 0; i < 5; i++) {
    part = part->next;
    if (option_bind_one(&NUMBER_SPECS[i], part, &file.numbers[i], diag)) return -1;
  }
  if (option_bind_one(&SECONDS_SPEC, part->next, &file.seconds, diag)) return -1;
  const int64_t *n = file.numbers;
  *self = (FitPoint){.op = (ProfileOp)file.op,
                     .batch = {n[0], n[1], n[2], n[3], n[4]},
                     .seconds = file.seconds,
                     .rows = 1};
  bool empty = file.op == PROFILE_DECODE_ATTENTION
                   ? n[2] == 0
                   : file.op == PROFILE_ITERATION && n[0] + n[2] == 0;
  return empty ? diag_error(diag, node->at, "the batch of a point is empty") : 0;
}

static int points_load(FitRecord *self, const Node *list, Arena *arena, Diag *diag) {
  int status = 0;
  if (list->kind != NODE_LIST) return diag_error(diag, list->at, "expected a list of points");
  self->points = ARENA_ARRAY(arena, FitPoint, list->n_children);
  for (const Node *node = list->first; node; node = node->next)
    status |= point_load(&self->points[self->n_points++], node, diag);
  return status;
}

static int digest_load(FitRecord *self, const Node *node, Diag *diag) {
  char *end = NULL;
  self->digest_at = node->at;
  self->digest = strtoull(node->text, &end, 16);
  if (strlen(node->text) == 16 && *end == '\0') return 0;
  return diag_error(diag, node->at, "expected a digest of 16 hexadecimal digits");
}

int fit_record_load(FitRecord *self, const char *path, Arena *arena, Diag *diag) {
  *self = (FitRecord){0};
  const Node *root = yaml_load(path, arena, diag);
  if (!root) return -1;
  const Node *fit = node_find(root, "fit");
  if (!fit) {
    diag_error(diag, place_of_file(path), "the file has no record of a fit");
    diag_hint(diag, "'tandem fit' writes the record as the block 'fit'");
    return -1;
  }
  RecordFile file = {0};
  if (option_bind(RECORD_SPECS, fit, NULL, fit->at, &file, diag)) return -1;
  int status = digest_load(self, node_find(fit, "digest"), diag);
  status |= points_load(self, file.points, arena, diag);
  self->profile = file.profile;
  return status;
}

int fit_record_check(const FitRecord *self, const Profile *profile, Diag *diag) {
  uint64_t digest = profile_digest(profile);
  if (digest == self->digest) return 0;
  diag_error(diag, self->digest_at,
             "the model was fitted to rows with digest %016llx, those of '%s' have %016llx",
             (unsigned long long)self->digest, profile->path, (unsigned long long)digest);
  diag_hint(diag, "it was fitted to the profile '%s'", self->profile);
  return -1;
}

/* Attention of a batch that has prefill: what its iteration has beside other terms. */
static double attention_of(const PerfModel *model, const BatchShape *batch) {
  const BatchShape bare = {batch->prefill_tokens, batch->prefill_area2, batch->decode_seqs,
                           batch->context_tokens, 0};
  const int64_t tokens = batch->prefill_tokens + batch->decode_seqs;
  return tick_seconds(perfmodel_iteration(model, &bare, NULL) - model->overhead -
                      pwl_eval(&model->linear, tokens) - pwl_eval(&model->head, 0));
}

double fit_record_eval(const PerfModel *model, const FitPoint *point) {
  const BatchShape *batch = &point->batch;
  const bool both = point->op == PROFILE_DECODE_ATTENTION ||
                    (point->op == PROFILE_PREFILL_ATTENTION && model->prefill_rows.n_rows > 0);
  if (both && batch->prefill_tokens > 0 && model->form == PERF_COMPOSED)
    return attention_of(model, batch);
  int64_t x = fit_x(point->op, batch);
  switch (point->op) {
  case PROFILE_LINEAR:
    return tick_seconds(pwl_eval(&model->linear, x));
  case PROFILE_PREFILL_ATTENTION:
    return tick_seconds(pwl_eval(&model->prefill_attention, x));
  case PROFILE_HEAD:
    return tick_seconds(pwl_eval(&model->head, x));
  case PROFILE_DECODE_ATTENTION:
    return tick_seconds(perfmodel_decode_step(model, batch->decode_seqs, x) -
                        tick_nearest(model->row_constant[batch->decode_seqs]));
  default:
    return tick_seconds(perfmodel_iteration(model, batch, NULL));
  }
}
