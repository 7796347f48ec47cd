/* Conversations: requests whose prompts begin with everything before them, the prompts and answers
 * of all earlier turns, and which wait for the answer and then for whoever reads it.
 *
 * A source of starts gives the first turn of each session; with clients (closed_loop.h) it is told
 * of the ends of sessions. What else happens in a session is a function of the seed and of its
 * number alone, so that it says the same however it is served. It ends after its last turn, before
 * a prompt that would leave no room in the context, and with a turn that is not served. */
#ifndef TRACES_SESSIONS_H
#define TRACES_SESSIONS_H
#include "traces/lengths.h"
#include "traces/think_time.h"
#include "traces/trace.h"

typedef struct SessionsConfig {
  bool given;
  int64_t count;             // sessions that begin; 0: no limit of their own
  LengthDistribution turns;  // of a session
  LengthDistribution prompt; // new tokens of the turns after the first
  LengthDistribution output;
  ThinkTime think_time; // from an answer to the next turn; at least a tick
} SessionsConfig;

extern const OptionSpec sessions_options[];

/* What a source of sessions is made of besides its configuration. */
typedef struct SessionsSetting {
  TraceSource *starts; // closed with it
  double correlation;  // of new tokens and answers
  int64_t context;     // tokens of a prompt and its answer at most; 0: no limit
  int64_t max_tokens;  // of an answer at most; 0: no limit
  int64_t requests;    // at most; 0: no limit
  uint64_t seed;
} SessionsSetting;

/* Binds the block; `prompt` and `output` stay as they are unless it has lengths of its own. */
int sessions_bind(SessionsConfig *self, const Node *node, const char *data_dir,
                  const char *config_dir, Arena *arena, Diag *diag);
TraceSource *sessions_open(const SessionsConfig *config, const SessionsSetting *setting,
                           Arena *arena);
#endif
