/* See sessions.h. Sessions are in recycled slots, which requests carry as their tickets: one holds
 * what is known of the turn that is due, or in flight. */
#include "traces/sessions.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/rng.h"
#include <math.h>

#define SLOT_NONE UINT32_MAX

/* What one turn adds. */
typedef struct Turn {
  int32_t prompt_tokens, output_tokens;
} Turn;

typedef struct Session {
  TraceRow row;           // the turn that is due or in flight
  Turn next;              // what the turn after it adds
  int32_t n_turns;        // drawn
  uint32_t start_ticket;  // of the source of starts
  uint32_t next_free;     // slot
  TraceSegment *segments; // memory is reused
  size_t segments_capacity;
  TraceInput *inputs; // the same
  size_t inputs_capacity;
} Session;

typedef struct Due {
  Tick at;
  uint64_t session; // its number
  uint32_t slot;
} Due;

typedef struct Sessions {
  TraceSource source; // first member
  const SessionsConfig *config;
  SessionsSetting setting;
  Arena *arena;
  LengthSampler turns;
  LengthPair lengths;
  int64_t context; // setting.context, or the most there may be
  Session *slots;
  size_t n_slots, slots_capacity;
  uint32_t first_free;
  Due *due; // heap [n_due]
  size_t n_due, due_capacity;
  TraceRow start;   // the newest of the starts
  bool has_start;   // which has not begun
  uint64_t n_begun; // sessions
  int64_t n_rows;   // handed out
  Due newest;       // of those
} Sessions;

/* ---- The `sessions:` key ---- */

typedef struct SessionNodes {
  int64_t count;
  const Node *turns, *think_time, *lengths;
} SessionNodes;

const OptionSpec sessions_options[] = {
    {"turns", OPTION_NODE, offsetof(SessionNodes, turns), .required = true,
     .help = "Number of turns of a session, a distribution as in lengths: {constant: 5}, {uniform: "
             "[1, 9]}, …."},
    {"think_time", OPTION_NODE, offsetof(SessionNodes, think_time),
     .help = "Time from an answer to the next turn, such as {constant: 5 s}.", .absent = "none"},
    {"lengths", OPTION_NODE, offsetof(SessionNodes, lengths),
     .help = "Distribution of the new tokens of turns after the first.",
     .absent = "that of the first turn"},
    {"count", OPTION_INT, offsetof(SessionNodes, count), .min = 1, .max = INFINITY,
     .help = "Number of sessions that begin.", .absent = "none; the workload ends them"},
    {0}};

int sessions_bind(SessionsConfig *self, const Node *node, const char *data_dir,
                  const char *config_dir, Arena *arena, Diag *diag) {
  SessionNodes nodes = {0};
  if (option_bind(sessions_options, node, NULL, node->at, &nodes, diag)) return -1;
  self->given = true;
  self->count = nodes.count;
  int status = length_bind(nodes.turns, data_dir, config_dir, &self->turns, arena, diag);
  if (nodes.think_time) status |= think_time_bind(&self->think_time, nodes.think_time, diag);
  if (nodes.lengths)
    status |= lengths_bind(nodes.lengths, data_dir, config_dir, &self->prompt, &self->output, arena,
                           diag);
  return status;
}

/* ---- Turns that are due ---- */

static inline Wide heap_key(const Due *due) {
  return wide_of(due->at, due->session);
}

static inline void heap_moved(Sessions *self, size_t index, const Due *due) {
  (void)self, (void)index, (void)due;
}

HEAP_STEPS(Sessions, Due)

static void push_due(Sessions *self, const Due *due) {
  ARENA_RESERVE(self->arena, self->due, self->due_capacity, self->n_due + 1);
  heap_rise(self, self->due, self->n_due++, due);
}

static Due pop_due(Sessions *self) {
  const Due first = self->due[0], last = self->due[--self->n_due];
  if (self->n_due > 0) heap_sink(self, self->due, self->n_due, 0, &last);
  return first;
}

/* ---- A session ---- */

static uint32_t take_slot(Sessions *self) {
  uint32_t slot = self->first_free;
  if (slot != SLOT_NONE) {
    self->first_free = self->slots[slot].next_free;
    return slot;
  }
  ARENA_RESERVE(self->arena, self->slots, self->slots_capacity, self->n_slots + 1);
  return (uint32_t)self->n_slots++;
}

static void release_slot(Sessions *self, uint32_t slot) {
  self->slots[slot].next_free = self->first_free;
  self->first_free = slot;
}

/* A number that the session's turn alone decides. */
static Rng turn_rng(const Sessions *self, uint64_t session, int32_t turn, const char *stream) {
  Rng rng;
  const uint64_t seed = hash_fold(hash_fold(hash_mix(self->setting.seed), session), (uint64_t)turn);
  rng_init(&rng, seed, stream);
  return rng;
}

static Turn draw_turn(const Sessions *self, uint64_t session, int32_t turn) {
  Rng rng = turn_rng(self, session, turn, "turn_lengths");
  const double u_prompt = rng_uniform(&rng), u_output = rng_uniform(&rng);
  Turn drawn;
  length_pair_at(&self->lengths, u_prompt, u_output, &drawn.prompt_tokens, &drawn.output_tokens);
  return drawn;
}

/* The row's prompt is known: its answer ends where the context does, and it is the last where the
 * next prompt would leave no room. */
static void finish_turn(const Sessions *self, Session *session) {
  TraceRow *row = &session->row;
  const int64_t room = self->context - row->prompt_tokens;
  const int64_t max_tokens = self->setting.max_tokens;
  if (0 < room && room < row->output_tokens) row->output_tokens = (int32_t)room;
  if (0 < max_tokens && max_tokens < row->output_tokens) row->output_tokens = (int32_t)max_tokens;
  session->next = draw_turn(self, row->session, row->turn + 1);
  const int64_t so_far = (int64_t)row->prompt_tokens + row->output_tokens;
  row->ends_session =
      row->turn + 1 == session->n_turns || so_far + session->next.prompt_tokens >= self->context;
}

/* All turns have the images of the first. */
static void keep_images(Sessions *self, Session *session) {
  const TraceRow *start = &self->start;
  ARENA_RESERVE(self->arena, session->inputs, session->inputs_capacity, (size_t)start->n_inputs);
  for (int32_t i = 0; i < start->n_inputs; i++)
    session->inputs[i] = start->inputs[i];
}

/* The tokens of all turns are one stream, after what the start has named of its prompt. */
static void name_tokens(Sessions *self, Session *session) {
  const TraceRow *start = &self->start;
  int32_t n = 0, end = 0;
  ARENA_RESERVE(self->arena, session->segments, session->segments_capacity, start->n_segments + 1);
  for (; n < start->n_segments && end < start->prompt_tokens; n++) {
    const TraceSegment *segment = &start->segments[n];
    end = segment->end < start->prompt_tokens ? segment->end : start->prompt_tokens;
    session->segments[n] = (TraceSegment){.id = segment->id, .end = end};
  }
  const uint64_t before = n > 0 ? session->segments[n - 1].id : self->setting.seed;
  session->segments[n] =
      (TraceSegment){.id = hash_fold(hash_mix(before), self->n_begun), .end = INT32_MAX};
  session->row.n_segments = n + 1;
}

/* The first turn of the next session. */
static Due begin_session(Sessions *self) {
  const uint32_t slot = take_slot(self);
  Session *session = &self->slots[slot];
  const TraceRow *start = &self->start;
  self->n_begun++;
  session->row = *start;
  name_tokens(self, session);
  keep_images(self, session);
  session->row.ticket = slot;
  session->row.session = self->n_begun;
  session->row.session_good = true;
  session->row.session_began_at = start->at;
  session->start_ticket = start->ticket;
  Rng rng = turn_rng(self, self->n_begun, 0, "turns");
  session->n_turns = length_at(&self->turns, rng_uniform(&rng));
  finish_turn(self, session);
  return (Due){.at = start->at, .session = self->n_begun, .slot = slot};
}

static void end_session(Sessions *self, const TraceEnd *end) {
  const Session *session = &self->slots[end->ticket];
  TraceSource *starts = self->setting.starts;
  TraceEnd last = *end;
  last.request = session->row.session - 1;
  last.ticket = session->start_ticket;
  if (starts->ended) starts->ended(starts, &last);
  release_slot(self, end->ticket);
}

/* ---- The source ---- */

/* Whether a session is to begin: 1, 0 or -1. */
static int find_start(Sessions *self, Diag *diag) {
  if (self->has_start) return 1;
  const int status = trace_next(self->setting.starts, &self->start, diag);
  self->has_start = status > 0;
  return status;
}

/* It is not yet its turn. A source that listens may have an earlier one when it is asked again. */
static void keep_start(Sessions *self) {
  TraceSource *starts = self->setting.starts;
  self->has_start = !starts->put_back;
  if (starts->put_back) starts->put_back(starts, &self->start);
}

static int sessions_next(TraceSource *source, TraceRow *ret_row, Diag *diag) {
  Sessions *self = (Sessions *)source;
  if (self->setting.requests > 0 && self->n_rows == self->setting.requests) return 0;
  const int status = find_start(self, diag);
  if (status < 0) return -1;
  if (self->n_due > 0 && (status == 0 || self->due[0].at <= self->start.at)) {
    if (status > 0) keep_start(self);
    self->newest = pop_due(self);
  } else if (status > 0) {
    self->has_start = false;
    self->newest = begin_session(self);
  } else {
    return 0;
  }
  const Session *session = &self->slots[self->newest.slot];
  self->n_rows++;
  *ret_row = session->row;
  ret_row->segments = session->segments;
  ret_row->inputs = session->inputs;
  return 1;
}

static void sessions_put_back(TraceSource *source, const TraceRow *row) {
  Sessions *self = (Sessions *)source;
  self->n_rows--;
  if (row->turn > 0) {
    push_due(self, &self->newest);
    return;
  }
  release_slot(self, self->newest.slot);
  self->n_begun--;
  keep_start(self);
}

static void sessions_ended(TraceSource *source, const TraceEnd *end) {
  Sessions *self = (Sessions *)source;
  Session *session = &self->slots[end->ticket];
  TraceRow *row = &session->row;
  Rng rng = turn_rng(self, row->session, row->turn, "think_times");
  const Tick think = think_time_at(&self->config->think_time, rng_uniform(&rng));
  Tick at = 0;
  if (!end->served || row->ends_session ||
      __builtin_add_overflow(end->at, think > 0 ? think : 1, &at)) {
    end_session(self, end);
    return;
  }
  row->at = at;
  row->turn++;
  row->prompt_tokens += row->output_tokens + session->next.prompt_tokens;
  row->output_tokens = session->next.output_tokens;
  row->session_good &= end->good;
  row->place = (Place){0}; // its text may be gone
  finish_turn(self, session);
  push_due(self, &(Due){.at = at, .session = row->session, .slot = end->ticket});
}

TraceSource *sessions_open(const SessionsConfig *config, const SessionsSetting *setting,
                           Arena *arena) {
  Sessions *self = ARENA_NEW(arena, Sessions);
  self->source = (TraceSource){.next = sessions_next,
                               .rows = setting->starts,
                               .ended = sessions_ended,
                               .put_back = sessions_put_back,
                               .status = 1};
  self->config = config;
  self->setting = *setting;
  self->arena = arena;
  self->context = TRACE_TOKENS_MAX;
  if (0 < setting->context && setting->context < self->context) self->context = setting->context;
  self->first_free = SLOT_NONE;
  length_sampler_init(&self->turns, &config->turns);
  length_pair_init(&self->lengths, &config->prompt, &config->output, setting->correlation);
  return &self->source;
}
