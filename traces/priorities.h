/* Priorities drawn for requests, or, where these are the starts of sessions, for whole sessions. */
#ifndef TRACES_PRIORITIES_H
#define TRACES_PRIORITIES_H
#include "base/option.h"
#include "traces/trace.h"

typedef struct PriorityShare {
  int64_t priority; // less goes first
  double share;     // of all, in proportion to the others
} PriorityShare;

typedef struct PrioritiesConfig {
  const PriorityShare *values; // [n_values]
  int n_values;                // 0: all rows keep theirs
} PrioritiesConfig;

extern const OptionSpec priorities_options[];
extern const OptionSpec priority_share_options[];

int priorities_bind(PrioritiesConfig *self, const Node *node, Arena *arena, Diag *diag);
/* Over `rows`, which do not listen and are closed with it. Stream "priorities" of the seed. */
TraceSource *priorities_open(const PrioritiesConfig *config, TraceSource *rows, uint64_t seed,
                             Arena *arena);
#endif
