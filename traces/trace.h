/* Where requests come from: rows of (arrival, prompt tokens, output tokens), pulled one at a time.
 *
 * A source is opened from its configuration (traces/workload.h) and asked for the next row until it
 * ends; nothing is loaded whole, so memory does not grow with the trace. Rows come in order of
 * time, starting at or after 0: a replayed file is shifted so that its first row arrives at 0
 * unless the format has times from a start of its own (SplitwiseSim, Mooncake), which are kept.
 * A bad row is a located message with file and line and ends the
 * source. */
#ifndef TRACES_TRACE_H
#define TRACES_TRACE_H
#include "base/diag.h"
#include "base/units.h"
#include <stdbool.h>
#include <stdint.h>

/* Of a prompt, and of an output: as long as the longest context there is, and so few that Σ new·(2·
 * past + new) holds of the largest batch, 65,536 prompts. */
enum { TRACE_TOKENS_MAX = 10000000 };

/* What tokens of a request are, as far as others may have the same: its first `end` tokens are the
 * first ones of what `id` names, which says all that comes before them too. So equal ids and ends
 * are equal beginnings. Tokens are those of the prompt and then of the output. */
typedef struct TraceSegment {
  uint64_t id;
  int32_t end; // INT32_MAX: however long it gets
} TraceSegment;

/* What a model with an encoder encodes of a prompt, such as an image: its tokens of the prompt, all
 * of which its encoder's output is for, from `place` on. Equal ids are equal inputs. */
typedef struct TraceInput {
  uint64_t id; // not 0
  int32_t place, tokens;
} TraceInput;

typedef struct TraceRow {
  Tick at;               // arrival since the start of the run
  int32_t prompt_tokens; // 1 … TRACE_TOKENS_MAX
  int32_t output_tokens; // the same, the first token of prefill included
  int32_t max_tokens;    // that its client allows: where it makes fewer it stops by its EOS token;
                         // INT32_MAX: as many as the context has room for; 0: its output_tokens
  bool ignores_eos;      // its client says that it makes all of max_tokens
  Place place;           // where the row stands, for messages about it; path NULL when synthetic
  const TraceSegment *segments; // by end, ascending; valid until the next call
  int32_t n_segments;           // tokens past the last are the request's own
  const TraceInput *inputs;     // by place, behind each other; as long valid as segments
  int32_t n_inputs;
  int32_t priority;          // less goes first, where a batcher minds
  Tick patience;             // from arrival to the last token, or its client gives up; 0: never
  Tick first_token_patience; // the same to the first token
  uint64_t session;          // from 1, that it is a turn of; 0: none
  int32_t turn;              // of it, from 0
  bool ends_session;         // it is the last
  bool session_good;         // all turns before it were good (sim/books/metrics.h)
  uint16_t component;        // of a mix (traces/workload.h), from 0
  Tick session_began_at;     // when its first turn arrived
  uint32_t ticket;           // the source's own mark, given back when the request ends
  bool local_kv; // its KV is computed and stays here where a connector moves that of others
} TraceRow;

/* How a request ended, for sources that listen. */
typedef struct TraceEnd {
  uint64_t request; // its place among the rows handed out, from 0
  Tick at;
  bool served; // else it was rejected or given up
  bool good;   // served within all limits
  uint32_t ticket;
} TraceEnd;

/* A kind of source embeds this as its first member and fills it in when it is opened.
 *
 * A source that listens (`ended` is there) is told of each request that ends, and may answer with
 * arrivals later than that. The engine has pulled a row by then: it hands that back with `put_back`
 * and pulls again, so `next` gives the earliest arrival that is known, and 0 also when there will
 * be none until something ends (`status` stays 1). A row put back was not handed out. */
typedef struct TraceSource {
  int (*next)(struct TraceSource *self, TraceRow *ret_row, Diag *diag); // as trace_next
  void (*close)(struct TraceSource *self);                              // NULL: nothing to close
  void (*ended)(struct TraceSource *self, const TraceEnd *end);
  void (*put_back)(struct TraceSource *self, const TraceRow *row);
  struct TraceSource *rows; // what its rows are made of, closed with it; NULL: no other source
  int status;               // 1 while rows may come; then the final answer of trace_next
  bool names_tokens;        // a row that came did
  bool ignores_eos;         // each row allows its output_tokens
  int32_t max_tokens;       // of rows that come with 0
  const int64_t *left_out;  // rows of a file that were, so far: requests that failed; NULL: none
} TraceSource;

/* What the client of a row allows, where the source says it. */
static inline void trace_limit(const TraceSource *self, TraceRow *row) {
  if (self->ignores_eos) {
    row->max_tokens = row->output_tokens;
    row->ignores_eos = true;
  }
  if (row->max_tokens == 0) row->max_tokens = self->max_tokens;
  if (0 < row->max_tokens && row->max_tokens < row->output_tokens)
    row->output_tokens = row->max_tokens;
}

/* Pulls the next row: 1 and `*ret_row`, 0 at the end, -1 with entries in `diag`. After 0 or -1 it
 * goes on returning the same. `ret_row->place` is valid until the next call. */
static inline int trace_next(TraceSource *self, TraceRow *ret_row, Diag *diag) {
  if (self->status <= 0) return self->status;
  const int status = self->next(self, ret_row, diag);
  if (status > 0 && ret_row->n_segments > 0) self->names_tokens = true;
  if (status > 0) trace_limit(self, ret_row);
  if (status < 0 || !self->ended) self->status = status;
  return status;
}
static inline void trace_close(TraceSource *self) {
  for (; self; self = self->rows)
    if (self->close) self->close(self);
}
#endif
