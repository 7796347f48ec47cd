/* Clients that give up: how long each waits for its first token and for its last, drawn for the
 * rows of any source. The k-th row handed out has the k-th draws of its streams, so that two runs
 * of a seed meet the same clients, whatever else differs. */
#ifndef TRACES_PATIENCE_H
#define TRACES_PATIENCE_H
#include "traces/think_time.h"
#include "traces/trace.h"

typedef struct PatienceConfig {
  double share; // of the clients that ever give up; 0: no row is touched
  bool of_first, of_last;
  ThinkTime ttft, e2e; // from arrival to the first token and to the last, where they are given
} PatienceConfig;

extern const OptionSpec patience_options[];

/* Binds {ttft: …, e2e: …, share: …}, of which one time at least: 10 s, or a distribution as of a
 * ThinkTime. */
int patience_bind(PatienceConfig *self, const Node *node, Diag *diag);
/* Over `rows`, which it closes; it listens if they do. Stream "patience" of the seed. */
TraceSource *patience_open(const PatienceConfig *config, TraceSource *rows, uint64_t seed,
                           Arena *arena);
#endif
