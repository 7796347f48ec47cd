/* Recorded runs of SGLang's scheduler, round by round, and Tandem over the same requests.
 *
 * DATA_DIR/sglang-scheduler-runs/runs/NAME.jsonl.gz holds a run of one instance, a JSON object a
 * line: its config, its requests by arrival, each step that had tokens as the scheduler decided it,
 * and when each request had its first and its last token. Times are whole microseconds of a virtual
 * clock; a step of t tokens of n requests takes base + per_token·t + per_sequence·n. */
#ifndef TESTS_DIFFERENTIAL_SGLANG_H
#define TESTS_DIFFERENTIAL_SGLANG_H
#include "sim/sim.h"

/* What a step is held by: numbers each. */
typedef enum RoundPart {
  ROUND_AT,
  ROUND_MODE,   // 'E', 'D' or 'M'
  ROUND_TOKENS, // request and tokens, request and tokens …
  ROUND_PAST,   // the same
  ROUND_RUNNING,
  ROUND_WAITING,
  ROUND_RETRACTED,
  ROUND_CHUNKED, // -1: nobody
  ROUND_FULL,
  ROUND_FREE, // tokens
  ROUND_EVICTABLE,
  ROUND_RATIO, // in millionths of millionths
  ROUND_PARTS,
} RoundPart;

extern const char *const round_part_names[ROUND_PARTS];

typedef struct Numbers {
  int64_t *at;
  size_t n, capacity;
} Numbers;

typedef struct RecordedRound {
  Numbers parts[ROUND_PARTS];
} RecordedRound;

/* -1: not known. */
typedef struct RoundTimes {
  Tick first_token_at, last_token_at;
} RoundTimes;

typedef struct RecordedRounds {
  const char *name, *path;
  int64_t pool_tokens, page, max_num_seqs;
  Tick base, per_token, per_sequence;
  const char *options; // of batcher `sglang`, as YAML
  TraceRow *rows;      // [n_requests]
  RoundTimes *times;   // [n_requests]
  RecordedRound *rounds;
  size_t n_requests, n_rounds;
  size_t capacities[3];
  bool low_first; // is in the options
  Arena *arena;
} RecordedRounds;

void numbers_add(Numbers *self, int64_t number, Arena *arena);
int recorded_rounds_load(RecordedRounds *self, const char *path, Arena *arena, Diag *diag);
#endif
