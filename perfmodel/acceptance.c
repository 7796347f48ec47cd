/* See acceptance.h. */
#include "perfmodel/acceptance.h"
#include <assert.h>
#include <math.h>
#include <string.h>

typedef struct Row {
  const char *model;
  double tokens[ACCEPTANCE_DRAFTS_MAX]; // by drafts
} Row;

static const Row rows[] = {
#define MEASURED(model, ...) {model, {__VA_ARGS__}},
#include "perfmodel/acceptance.def"
#undef MEASURED
};

static PublishedAcceptance range(const char *model, int64_t drafts) {
  PublishedAcceptance ret = {.low = INFINITY, .own = model != NULL};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (model && strcmp(rows[i].model, model) != 0) continue;
    ret.low = fmin(ret.low, rows[i].tokens[drafts - 1]);
    ret.high = fmax(ret.high, rows[i].tokens[drafts - 1]);
  }
  return ret;
}

PublishedAcceptance acceptance_published(const char *model, int64_t drafts) {
  assert(1 <= drafts && drafts <= ACCEPTANCE_DRAFTS_MAX);
  const PublishedAcceptance own = range(model, drafts);
  return own.high > 0 ? own : range(NULL, drafts);
}

double acceptance_middle(const PublishedAcceptance *self) {
  return round(50 * (self->low + self->high)) / 100;
}

double acceptance_error(const PublishedAcceptance *self) {
  const double middle = acceptance_middle(self);
  return fmax(self->high - middle, middle - self->low) / middle;
}
