/* Traces of agents (github.com/callanjfox/kv-cache-tester, and AgentX, which is made of them): a
 * session of an agent is a JSON object on a line of its own.
 *
 *     {"id": "trace_0007", "block_size": 64, "hash_id_scope": "local", "requests": [
 *       {"t": 0.0, "type": "n", "in": 130, "out": 38, "hash_ids": [1, 2]},
 *       {"t": 9.5, "type": "subagent", "agent_id": "a", "requests": [{"t": 9.5, …}]}]}
 *
 * Times are seconds from the session's start and are kept, so the sessions of a file go on side by
 * side from 0. Those of a subagent are the session's too, or count from its start where they would
 * be before it. `hash_ids` names blocks of `block_size` tokens (64 if absent); a last block that is
 * not full may go without. Equal hashes are equal tokens within a session: that is the scope
 * "local", the only one possible, because "global" would need the other files. A request without
 * output counts one token, that of its prefill. Requests of subagents lie between others and
 * sessions beside each other, so the file is held, at most LINES_HELD_MAX of it. */
#include "base/json.h"
#include "traces/format.h"

enum { DEPTH_MAX = 8 }; // of subagents that have subagents

typedef struct Session {
  const Line *line;
  TraceIndex *index;
  Diag *diag;
} Session;

/* Seconds that a key of a request or subagent holds. */
static int read_start(const Session *self, Field row, Field value, Tick from, Tick *ret_at) {
  TraceTime time;
  if (!value.text) return diag_error(self->diag, line_place(self->line, row), "missing key 't'");
  if (!field_seconds(value, &time))
    return field_error(self->line, value, "t", FIELD_SECONDS_IS, self->diag);
  const Tick at = time.seconds * TICKS_PER_SECOND + time.fraction;
  if (at >= from) {
    *ret_at = at;
    return 0;
  }
  if (!__builtin_add_overflow(at, from, ret_at)) return 0;
  return diag_error(self->diag, line_place(self->line, value),
                    "the time is beyond 106 days, the limit of the simulator");
}

/* Adds the requests of a list; a time before `from` counts from it. */
static int add_requests(const Session *self, Field list, Tick from, int depth) {
  enum { T, TYPE, REQUESTS, KEYS };
  static const char *const keys[KEYS] = {"t", "type", "requests"};
  JsonScanner scanner = json_scanner(self->line, list, self->diag);
  Field row;
  int status = 1;
  while ((status = json_element(&scanner, &row)) > 0) {
    JsonScanner inner = json_scanner(self->line, row, self->diag);
    Field values[KEYS] = {{0}};
    Tick at = 0;
    if (json_object(&inner, keys, KEYS, values) || read_start(self, row, values[T], from, &at))
      return -1;
    if (!field_is(values[TYPE], "\"subagent\"")) {
      trace_index_add(self->index, (TraceTime){at / TICKS_PER_SECOND, at % TICKS_PER_SECOND}, row);
      continue;
    }
    if (!values[REQUESTS].text)
      return diag_error(self->diag, line_place(self->line, row), "missing key 'requests'");
    if (depth == DEPTH_MAX)
      return diag_error(self->diag, line_place(self->line, row),
                        "subagents are nested deeper than %d", DEPTH_MAX);
    if (add_requests(self, values[REQUESTS], at, depth + 1)) return -1;
  }
  return status;
}

static int check_scope(const Line *line, Field scope, Diag *diag) {
  if (!scope.text || field_is(scope, "\"local\"")) return 0;
  field_error(line, scope, "hash_id_scope", "\"local\"", diag);
  diag_hint(diag, "\"local\" is supported: equal hashes within a session are equal tokens, and "
                  "sessions share nothing");
  return -1;
}

static int weka_index(const Line *line, TraceIndex *index, Diag *diag) {
  enum { BLOCK_SIZE, SCOPE, REQUESTS, KEYS };
  static const char *const keys[KEYS] = {"block_size", "hash_id_scope", "requests"};
  JsonScanner scanner = json_scanner(line, (Field){0}, diag);
  Field values[KEYS] = {{0}};
  int32_t block_tokens = 64;
  if (json_object(&scanner, keys, KEYS, values)) return -1;
  int status = check_scope(line, values[SCOPE], diag);
  if (values[BLOCK_SIZE].text)
    status |= field_tokens(line, values[BLOCK_SIZE], keys[BLOCK_SIZE], &block_tokens, diag);
  if (!values[REQUESTS].text)
    status = diag_error(diag, line_place(line, (Field){0}), "missing key 'requests'");
  if (status) return -1;
  trace_index_add_line(index, line, block_tokens);
  const Session session = {line, index, diag};
  return add_requests(&session, values[REQUESTS], 0, 0);
}

const TraceFormat format_weka = {
    .name = "weka",
    .help = "agent sessions, JSON lines with blocks of 64 tokens; keeps its times in seconds",
    .forms = TRACE_JSON,
    .columns = {"t", "in", "out"},
    .clock = CLOCK_S,
    .read_time = field_seconds,
    .time_is = FIELD_SECONDS_IS,
    .marks = {"requests"},
    .last_may_be_unnamed = true,
    .output_may_be_0 = true,
    .index = weka_index,
};
