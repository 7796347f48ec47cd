/* See priorities.h. */
#include "traces/priorities.h"
#include "base/rng.h"

typedef struct Priorities {
  TraceSource source; // first member
  const PrioritiesConfig *config;
  Rng rng;
  double sum; // of the shares
} Priorities;

enum { VALUES_MAX = 64, PRIORITY_MAX = 1000000 };

const OptionSpec priorities_options[] = {
    {"values", OPTION_NODE, 0, .required = true,
     .help =
         "Priorities and their shares: [{priority: 0, share: 90%}, {priority: 1, share: 10%}]."},
    {0}};

const OptionSpec priority_share_options[] = {
    {"priority", OPTION_INT, offsetof(PriorityShare, priority), .required = true,
     .min = -PRIORITY_MAX, .max = PRIORITY_MAX, .help = "Priority. Lower values go first."},
    {"share", OPTION_REAL, offsetof(PriorityShare, share), .required = true, .min = 1e-6,
     .max = 1e6, .help = "Share of the requests, or sessions, in proportion to the other shares."},
    {0}};

int priorities_bind(PrioritiesConfig *self, const Node *node, Arena *arena, Diag *diag) {
  const Node *values = NULL;
  if (option_bind(priorities_options, node, NULL, node->at, &values, diag)) return -1;
  if (values->kind != NODE_LIST || values->n_children == 0 || values->n_children > VALUES_MAX) {
    diag_error(diag, values->at, "'values' must be a list of 1 to %d priorities", VALUES_MAX);
    diag_hint(diag, "for example [{priority: 0, share: 0.9}, {priority: 1, share: 0.1}]");
    return -1;
  }
  PriorityShare *shares = ARENA_ARRAY(arena, PriorityShare, values->n_children);
  int status = 0;
  for (const Node *value = values->first; value; value = value->next)
    status |= option_bind(priority_share_options, value, NULL, value->at, &shares[self->n_values++],
                          diag);
  self->values = shares;
  return status;
}

static int32_t draw_priority(Priorities *self) {
  const PriorityShare *value = self->config->values;
  double left = rng_uniform(&self->rng) * self->sum - value->share;
  for (int i = 1; i < self->config->n_values && left >= 0; i++)
    left -= (++value)->share;
  return (int32_t)value->priority;
}

static int priorities_next(TraceSource *source, TraceRow *ret_row, Diag *diag) {
  const int status = trace_next(source->rows, ret_row, diag);
  if (status > 0) ret_row->priority = draw_priority((Priorities *)source);
  return status;
}

TraceSource *priorities_open(const PrioritiesConfig *config, TraceSource *rows, uint64_t seed,
                             Arena *arena) {
  Priorities *self = ARENA_NEW(arena, Priorities);
  self->source =
      (TraceSource){.next = priorities_next, .rows = rows, .status = 1, .left_out = rows->left_out};
  self->config = config;
  rng_init(&self->rng, seed, "priorities");
  for (int i = 0; i < config->n_values; i++)
    self->sum += config->values[i].share;
  return &self->source;
}
