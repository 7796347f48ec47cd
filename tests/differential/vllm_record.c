/* Reading recorded runs; see vllm.h. */
#include "tests/differential/vllm_record.h"
#include "base/hash.h"
#include "sim/policies.h"
#include "tests/differential/json.h"
#include "traces/fields.h"
#include <stdlib.h>
#include <string.h>

enum {
  HASHED_TOKENS = 16, // that each of hash_ids names
};

/* Of RecordedRun.capacities, and what holds unless the file says otherwise. */
enum {
  CAPACITY_ROWS,
  CAPACITY_NAMES,
  CAPACITY_SCHEDULED,
  CAPACITY_TIMES,
  CAPACITY_STEPS,
  CAPACITY_PAUSES,
  CAPACITY_DRAFTS
};
enum { BLOCK_SIZE = 16, MAX_NUM_SEQS = 1024, MAX_NUM_BATCHED_TOKENS = 8192 };

const char *const step_part_names[STEP_PARTS] = {
    [PART_AT] = "at_us",
    [PART_BEGIN] = "begin_us",
    [PART_END] = "end_us",
    [PART_TOKENS] = "tokens",
    [PART_HITS] = "hits",
    [PART_PREEMPTED] = "preempted",
    [PART_RUNNING] = "running",
    [PART_WAITING] = "waiting",
    [PART_FREE_BLOCKS] = "free_blocks",
    [PART_DRAFTS] = "drafts",
    [PART_HELD] = "held",
    [PART_CALL] = "call",
    [PART_QUEUE] = "queue",
    [PART_STAGES] = "stages",
    [PART_OUT] = "out_us",
    [PART_LAUNCH] = "launch_us",
    [PART_WAVE] = "wave",
    [PART_COUNTER] = "counter",
    [PART_LOADING] = "loading",
    [PART_LOADS] = "loads",
    [PART_STORES] = "stores",
    [PART_ENCODE] = "encode",
    [PART_ENCODER_FREE] = "encoder_free",
};

int64_t *step_count(StepRecord *step, StepPart part) {
  int64_t *const counts[STEP_PARTS] = {
      [PART_WAITING] = &step->n_waiting, [PART_FREE_BLOCKS] = &step->free_blocks,
      [PART_QUEUE] = &step->n_in_flight, [PART_WAVE] = &step->wave,
      [PART_COUNTER] = &step->counter,   [PART_LOADS] = &step->n_loads,
      [PART_STORES] = &step->n_stores,   [PART_ENCODER_FREE] = &step->encoder_free,
  };
  return counts[part];
}

static int micros_or_null(Json *json, Tick *ret_ticks) {
  Json again = *json;
  Field text;
  if (json_value(&again, &text) < 0) return -1;
  if (!field_is(text, "null")) return record_micros(json, ret_ticks);
  *json = again;
  return 0;
}

static int tokens(Json *json, const char *key, int32_t *ret_tokens) {
  Field text;
  if (json_value(json, &text) < 0) return -1;
  return field_tokens(json->line, text, key, ret_tokens, json->diag);
}

/* --- requests */

static int read_hashes(RecordedRun *self, Json *json, int64_t behind, TraceRow *row) {
  TraceSegment *segments = NULL;
  size_t capacity = 0;
  int rc;
  row->n_segments = 0;
  while ((rc = json_item(json)) > 0) {
    Field id;
    if (json_value(json, &id) < 0) return -1;
    ARENA_RESERVE(self->arena, segments, capacity, row->n_segments + 1);
    segments[row->n_segments] =
        (TraceSegment){.id = hash_bytes(id.text, (size_t)id.length),
                       .end = HASHED_TOKENS * (row->n_segments + 1) + (int32_t)behind};
    row->n_segments++;
  }
  row->segments = segments;
  return rc;
}

/* [[name, place, tokens], …] */
static int read_inputs(RecordedRun *self, Json *json, TraceRow *row) {
  TraceInput *inputs = NULL;
  size_t capacity = 0;
  int rc;
  while ((rc = json_item(json)) > 0) {
    Field name;
    ARENA_RESERVE(self->arena, inputs, capacity, (size_t)row->n_inputs + 1);
    TraceInput *input = &inputs[row->n_inputs++];
    int64_t figures[2];
    if (json_item(json) <= 0 || json_value(json, &name) < 0) return -1;
    for (int i = 0; i < 2; i++)
      if (json_item(json) <= 0 || json_int(json, &figures[i]) < 0) return -1;
    if (json_item(json) != 0) return -1;
    *input = (TraceInput){.id = hash_bytes(name.text, (size_t)name.length),
                          .place = (int32_t)figures[0],
                          .tokens = (int32_t)figures[1]};
  }
  row->inputs = inputs;
  return rc;
}

/* Its KV comes from another engine, or goes there with its first token. */
static int read_remote(Json *json, TraceRow *row) {
  Field value;
  if (json_value(json, &value) < 0) return -1;
  row->local_kv = !field_is(value, "true");
  return 0;
}

static int read_request_key(RecordedRun *self, Json *json, Field key, TraceRow *row) {
  int64_t priority;
  if (field_is(key, "arrival_us")) return record_micros(json, &row->at);
  if (field_is(key, "prompt_tokens")) return tokens(json, "prompt_tokens", &row->prompt_tokens);
  if (field_is(key, "output_tokens")) return tokens(json, "output_tokens", &row->output_tokens);
  if (field_is(key, "hash_ids") && self->hash_lookahead == 0)
    return read_hashes(self, json, 0, row);
  if (field_is(key, "hash_ids")) return record_skip(json); // lookahead_ids take their place
  if (field_is(key, "lookahead_ids")) return read_hashes(self, json, self->hash_lookahead, row);
  if (field_is(key, "mm")) return read_inputs(self, json, row);
  if (field_is(key, "max_tokens")) return tokens(json, "max_tokens", &row->max_tokens);
  if (field_is(key, "cancel_us")) return record_micros(json, &row->patience);
  if (field_is(key, "remote_prefill") || field_is(key, "remote_decode"))
    return read_remote(json, row);
  if (field_is(key, "session") || field_is(key, "turn"))
    return record_skip(json);                          // hash_ids say it
  if (field_is(key, "rank")) return record_skip(json); // its steps say it
  if (!field_is(key, "priority")) return record_refuse(json, "request", key);
  if (json_int(json, &priority) < 0) return -1;
  row->priority = (int32_t)priority;
  return 0;
}

static int read_request(RecordedRun *self, Json *json) {
  TraceRow row = {.at = -1, .local_kv = true};
  int64_t name = 0;
  Field key;
  int rc;
  while ((rc = json_key(json, &key)) > 0)
    if ((field_is(key, "request") ? json_int(json, &name)
                                  : read_request_key(self, json, key, &row)) < 0)
      return -1;
  if (rc < 0) return rc;
  /* A client that gives up as a step ends does so before its output. */
  if (row.patience > 0) row.patience -= row.at + 1;
  const size_t n = self->n_requests++;
  if (row.at < (n > 0 ? self->rows[n - 1].at : 0) || !row.prompt_tokens || !row.output_tokens)
    return diag_error(json->diag, line_place(json->line, (Field){0}),
                      "a request needs its tokens, and an arrival not before the last one's");
  if (row.patience < 0)
    return diag_error(json->diag, line_place(json->line, (Field){0}),
                      "a request is cancelled before it arrives");
  ARENA_RESERVE(self->arena, self->rows, self->capacities[CAPACITY_ROWS], n + 1);
  ARENA_RESERVE(self->arena, self->names, self->capacities[CAPACITY_NAMES], n + 1);
  ARENA_RESERVE(self->arena, self->scheduled, self->capacities[CAPACITY_SCHEDULED], n + 1);
  ARENA_RESERVE(self->arena, self->times, self->capacities[CAPACITY_TIMES], n + 1);
  self->rows[n] = row;
  self->names[n] = name;
  self->times[n] = (RequestTimes){-1, -1, -1};
  return 0;
}

static int by_name(const void *a, const void *b) {
  const int64_t x = ((const RequestName *)a)->name, y = ((const RequestName *)b)->name;
  return (x > y) - (x < y);
}

/* The request that a number stands for. */
static int find_request(RecordedRun *self, const Json *json, int64_t name, uint64_t *ret_request) {
  if (self->n_indexed != self->n_requests) {
    self->index = ARENA_ARRAY(self->arena, RequestName, self->n_requests);
    for (uint32_t i = 0; i < self->n_requests; i++)
      self->index[i] = (RequestName){self->names[i], i};
    self->n_indexed = self->n_requests;
    qsort(self->index, self->n_indexed, sizeof *self->index, by_name);
  }
  const RequestName key = {.name = name};
  const RequestName *found =
      self->n_indexed > 0 ? bsearch(&key, self->index, self->n_indexed, sizeof key, by_name) : NULL;
  if (!found)
    return diag_error(json->diag, line_place(json->line, (Field){0}),
                      "request %lld is in no line before", (long long)name);
  *ret_request = found->request;
  return 0;
}

static int read_name(RecordedRun *self, Json *json, uint64_t *ret_request) {
  int64_t name;
  return json_int(json, &name) < 0 ? -1 : find_request(self, json, name, ret_request);
}

/* A member of an object by requests. */
static int read_pair(RecordedRun *self, Json *json, Field key, StepItem *ret_item) {
  const Line name = {.text = key.text, .length = key.length, .path = json->line->path};
  Json inside = json_open(&name, json->diag);
  int64_t count;
  if (read_name(self, &inside, &ret_item->request) < 0 || json_int(json, &count) < 0) return -1;
  ret_item->tokens = (int32_t)count;
  return 0;
}

/* --- steps */

static int by_request(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}
_Static_assert(offsetof(StepItem, request) == 0, "items are sorted as requests");

static int read_pairs(RecordedRun *self, Json *json, StepItem **ret_items, size_t *ret_n) {
  size_t capacity = 0;
  Field key;
  int rc;
  *ret_items = NULL;
  *ret_n = 0;
  while ((rc = json_key(json, &key)) > 0) {
    ARENA_RESERVE(self->arena, *ret_items, capacity, *ret_n + 1);
    (*ret_items)[*ret_n] = (StepItem){.hit_tokens = -1};
    if (read_pair(self, json, key, &(*ret_items)[(*ret_n)++]) < 0) return -1;
  }
  if (*ret_n > 0) qsort(*ret_items, *ret_n, sizeof **ret_items, by_request);
  return rc;
}

static int read_names(RecordedRun *self, Json *json, uint64_t **ret_requests, size_t *ret_n) {
  size_t capacity = 0;
  int rc;
  *ret_requests = NULL;
  *ret_n = 0;
  while ((rc = json_item(json)) > 0) {
    ARENA_RESERVE(self->arena, *ret_requests, capacity, *ret_n + 1);
    if (read_name(self, json, &(*ret_requests)[(*ret_n)++]) < 0) return -1;
  }
  return rc;
}

/* When each stage began and ended. */
static int read_stages(RecordedRun *self, Json *json, StepRecord *step) {
  Tick *times = ARENA_ARRAY(self->arena, Tick, 2 * self->stages);
  int rc, rc_inner;
  step->stages = times;
  for (step->n_stages = 0; (rc = json_item(json)) > 0; step->n_stages++) {
    size_t n = 0;
    while ((rc_inner = json_item(json)) > 0)
      if (n == 2 || step->n_stages == self->stages ||
          record_micros(json, &times[2 * step->n_stages + (int64_t)n++]) < 0)
        return -1;
    if (rc_inner < 0) return -1;
  }
  return rc;
}

static int read_call(Json *json, uint32_t *ret_call) {
  int64_t call;
  if (json_int(json, &call) < 0) return -1;
  *ret_call = (uint32_t)call;
  return 0;
}

/* The lists of a step while it is read. */
typedef struct StepLists {
  StepItem *items, *hits;
  StepItem *drafts, *accepted, *proposed, *encode;
  uint64_t *preempted, *running, *loading;
  size_t n_hits, n_drafts, n_accepted, n_proposed, n_encode;
} StepLists;

/* Lists of inputs by request, as bits. */
static int read_encode(RecordedRun *self, Json *json, StepLists *lists) {
  size_t capacity = 0;
  Field key;
  int rc, rc_inner;
  while ((rc = json_key(json, &key)) > 0) {
    ARENA_RESERVE(self->arena, lists->encode, capacity, lists->n_encode + 1);
    StepItem *item = &lists->encode[lists->n_encode++];
    *item = (StepItem){.hit_tokens = -1};
    const Line name = {.text = key.text, .length = key.length, .path = json->line->path};
    Json inside = json_open(&name, json->diag);
    int64_t input;
    if (read_name(self, &inside, &item->request) < 0) return -1;
    while ((rc_inner = json_item(json)) > 0) {
      if (json_int(json, &input) < 0) return -1;
      item->encodes |= UINT64_C(1) << input;
    }
    if (rc_inner < 0) return -1;
  }
  if (lists->n_encode > 0) qsort(lists->encode, lists->n_encode, sizeof *lists->encode, by_request);
  return rc;
}

static int read_held(RecordedRun *self, Json *json, StepRecord *step) {
  int64_t *held = NULL;
  size_t capacity = 0;
  int rc;
  while ((rc = json_item(json)) > 0) {
    ARENA_RESERVE(self->arena, held, capacity, step->n_held + 1);
    if (json_int(json, &held[step->n_held++]) < 0) return -1;
  }
  step->held = held;
  return rc;
}

static int read_part(RecordedRun *self, Json *json, StepPart part, StepRecord *step,
                     StepLists *lists) {
  switch (part) {
  case PART_AT:
    return record_micros(json, &step->decided_at);
  case PART_BEGIN:
    return record_micros(json, &step->begin);
  case PART_END:
    return record_micros(json, &step->end);
  case PART_TOKENS:
    return read_pairs(self, json, &lists->items, &step->n_items);
  case PART_HITS:
    return read_pairs(self, json, &lists->hits, &lists->n_hits);
  case PART_PREEMPTED:
    return read_names(self, json, &lists->preempted, &step->n_preempted);
  case PART_RUNNING:
    return read_names(self, json, &lists->running, &step->n_running);
  case PART_DRAFTS:
    return read_pairs(self, json, &lists->drafts, &lists->n_drafts);
  case PART_HELD:
    return read_held(self, json, step);
  case PART_CALL:
    return read_call(json, &step->number);
  case PART_STAGES:
    return read_stages(self, json, step);
  case PART_OUT:
    return record_micros(json, &step->out_at);
  case PART_LAUNCH:
    return record_micros(json, &step->launched_at);
  case PART_LOADING:
    return read_names(self, json, &lists->loading, &step->n_loading);
  case PART_ENCODE:
    return read_encode(self, json, lists);
  case STEP_PARTS:
    return record_skip(json);
  default:
    return json_int(json, step_count(step, part));
  }
}

static const StepItem *item_of(const StepItem *items, size_t n, const StepItem *of) {
  return n > 0 ? bsearch(of, items, n, sizeof *items, by_request) : NULL;
}

static void keep_drafts(RecordedRun *self, const StepItem *item, const StepLists *lists) {
  const StepItem *accepted = item_of(lists->accepted, lists->n_accepted, item);
  const StepItem *proposed = item_of(lists->proposed, lists->n_proposed, item);
  if (item->drafts == 0 && !proposed) return;
  ARENA_RESERVE(self->arena, self->drafts, self->capacities[CAPACITY_DRAFTS], self->n_drafts + 1);
  self->drafts[self->n_drafts++] = (RecordedDrafts){.request = (uint32_t)item->request,
                                                    .step = self->n_steps,
                                                    .n = item->drafts,
                                                    .accepted = accepted ? accepted->tokens : 0,
                                                    .proposed = proposed ? proposed->tokens : -1};
}

/* Recorded hits are also those of requests that come back; kept are those of first steps. */
static void settle_items(RecordedRun *self, StepRecord *step, const StepLists *lists) {
  for (size_t i = 0; i < step->n_items; i++) {
    StepItem *item = &lists->items[i];
    const StepItem *hit = lists->n_hits > 0
                              ? bsearch(item, lists->hits, lists->n_hits, sizeof *item, by_request)
                              : NULL;
    if (hit && !self->scheduled[item->request]) item->hit_tokens = hit->tokens;
    const StepItem *drafts = item_of(lists->drafts, lists->n_drafts, item);
    item->drafts = drafts ? drafts->tokens : 0;
    const StepItem *encode = item_of(lists->encode, lists->n_encode, item);
    item->encodes = encode ? encode->encodes : 0;
    keep_drafts(self, item, lists);
    self->scheduled[item->request] = true;
  }
  if (step->n_preempted > 0)
    qsort(lists->preempted, step->n_preempted, sizeof *lists->preempted, by_request);
  step->items = lists->items;
  step->preempted = lists->preempted;
  if (step->n_loading > 0)
    qsort(lists->loading, step->n_loading, sizeof *lists->loading, by_request);
  step->running = lists->running;
  step->loading = lists->loading;
}

/* Keys of a step that are not compared; `padded` follows from drafts. */
static bool is_step_input(Field key) {
  return field_is(key, "step") || field_is(key, "accepted") || field_is(key, "proposed") ||
         field_is(key, "padded");
}

static int read_ranks(RecordedRun *self, Json *json);

/* What a line says, or what it says of one rank. */
static int read_parts(RecordedRun *self, Json *json, RecordedStep *recorded) {
  StepLists lists = {0};
  Field key;
  int rc;
  while ((rc = json_key(json, &key)) > 0) {
    StepPart part = 0;
    while (part < STEP_PARTS && !field_is(key, step_part_names[part]))
      part++;
    const bool ranks = self->ranks > 1 && field_is(key, "ranks");
    if (part == STEP_PARTS && !ranks && !is_step_input(key))
      return record_refuse(json, "step", key);
    if ((ranks                       ? read_ranks(self, json)
         : field_is(key, "accepted") ? read_pairs(self, json, &lists.accepted, &lists.n_accepted)
         : field_is(key, "proposed") ? read_pairs(self, json, &lists.proposed, &lists.n_proposed)
                                     : read_part(self, json, part, &recorded->step, &lists)) < 0)
      return -1;
    if (part < STEP_PARTS) recorded->given |= 1u << part;
  }
  if (rc == 0) settle_items(self, &recorded->step, &lists);
  return rc;
}

static int keep_step(RecordedRun *self, Json *json) {
  RecordedStep recorded = {0};
  if (read_parts(self, json, &recorded) < 0) return -1;
  ARENA_RESERVE(self->arena, self->steps, self->capacities[CAPACITY_STEPS], self->n_steps + 1);
  self->steps[self->n_steps++] = recorded;
  return 0;
}

static int read_ranks(RecordedRun *self, Json *json) {
  int rc;
  while ((rc = json_item(json)) > 0)
    if (keep_step(self, json) < 0) return -1;
  return rc;
}

/* A line of all ranks, each of which has been kept. */
static int read_forward(RecordedRun *self, Json *json) {
  const size_t first = self->n_steps;
  RecordedStep all = {0};
  if (read_parts(self, json, &all) < 0) return -1;
  if (self->n_steps != first + (size_t)self->ranks)
    return diag_error(json->diag, line_place(json->line, (Field){0}), "a step is of %lld ranks",
                      (long long)self->ranks);
  for (size_t i = first; i < self->n_steps; i++) {
    StepRecord *step = &self->steps[i].step;
    step->begin = all.step.begin;
    step->end = all.step.end;
    step->launched_at = all.step.launched_at;
    step->wave = all.step.wave;
    step->counter = all.step.counter;
    self->steps[i].given |= all.given;
  }
  return 0;
}

static int read_step(RecordedRun *self, Json *json) {
  return self->ranks > 1 ? read_forward(self, json) : keep_step(self, json);
}

/* --- lines */

/* How a request ended: finished, or cancelled. */
static int read_end(RecordedRun *self, Json *json) {
  RequestTimes times = {-1, -1, -1};
  Tick ended_at = -1;
  uint64_t request = 0;
  bool cancelled = false;
  Field key;
  int rc;
  while ((rc = json_key(json, &key)) > 0) {
    cancelled |= field_is(key, "cancelled");
    const bool named = field_is(key, "finished") || field_is(key, "cancelled");
    if ((named                             ? read_name(self, json, &request)
         : field_is(key, "first_token_us") ? micros_or_null(json, &times.first_token_at)
         : field_is(key, "at_us")          ? record_micros(json, &ended_at)
                                           : record_refuse(json, "end of a request", key)) < 0)
      return -1;
  }
  *(cancelled ? &times.cancelled_at : &times.last_token_at) = ended_at;
  if (rc == 0) self->times[request] = times;
  return rc;
}

/* What the front end of ranks was told, which the ranks of requests show, and waves, which their
 * steps do. */
static int read_message(Json *json) {
  static const char *const known[] = {"publish", "counts",        "start_wave",
                                      "rank",    "wave_complete", "at_us"};
  Field key;
  int rc;
  while ((rc = json_key(json, &key)) > 0) {
    bool is_known = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
      is_known |= field_is(key, known[i]);
    if (!is_known) return record_refuse(json, "message", key);
    if (record_skip(json) < 0) return -1;
  }
  return rc;
}

/* One before the decisions of its time. */
static int read_pause(RecordedRun *self, Json *json) {
  PauseSpec pause = {0};
  bool resumes = false;
  Field key, value;
  int rc;
  while ((rc = json_key(json, &key)) > 0) {
    if (json_value(json, &value) < 0) return -1;
    if (field_is(key, "event")) resumes = field_is(value, "resume");
    if (field_is(key, "event") && !resumes && !field_is(value, "pause"))
      return record_refuse(json, "run", value);
    if (field_is(key, "at_us") && !field_decimal(value, MICRO_PLACES, &pause.at))
      return record_refuse(json, "event", value);
    if (field_is(key, "mode")) pause.mode = field_is(value, "all") ? PAUSE_ALL : PAUSE_NEW;
    if (field_is(key, "reset")) pause.reset = field_is(value, "true"); // null: not tried
  }
  if (resumes) pause.mode = PAUSE_NONE;
  /* Heard before the arrivals of its time, as they are before it goes on; what it goes on with then
   * it never does where it pauses again at once. */
  if (!resumes && pause.at > 0) pause.at--;
  if (self->n_pauses > 0 && self->pauses[self->n_pauses - 1].at > pause.at) self->n_pauses--;
  ARENA_RESERVE(self->arena, self->pauses, self->capacities[CAPACITY_PAUSES], self->n_pauses + 1);
  self->pauses[self->n_pauses++] = pause;
  return rc;
}

static int read_line(RecordedRun *self, const Line *line, Diag *diag) {
  Json json = json_open(line, diag), start = json;
  Field key;
  const int rc = json_key(&json, &key);
  if (rc <= 0) return rc;
  if (field_is(key, "config")) return record_config(self, &json);
  if (field_is(key, "request")) return read_request(self, &start);
  if (field_is(key, "step")) return read_step(self, &start);
  if (field_is(key, "finished") || field_is(key, "cancelled")) return read_end(self, &start);
  if (field_is(key, "event")) return read_pause(self, &start);
  if (self->ranks > 1 &&
      (field_is(key, "publish") || field_is(key, "start_wave") || field_is(key, "wave_complete")))
    return read_message(&start);
  return record_refuse(&json, "run", key);
}

/* "runs/007.jsonl.gz" is run 007. */
static const char *name_of(const char *path, Arena *arena) {
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  const char *end = strstr(name, ".jsonl");
  return arena_copy(arena, name, end ? (size_t)(end - name) : strlen(name));
}

static int by_drafts(const void *a_, const void *b_) {
  const RecordedDrafts *a = a_, *b = b_;
  if (a->request != b->request) return a->request < b->request ? -1 : 1;
  return (a->step > b->step) - (a->step < b->step);
}

static int check_figures(const RecordedRun *self, Diag *diag) {
  const bool fits =
      self->block_size >= 1 && self->num_gpu_blocks >= 2 && self->num_gpu_blocks <= INT32_MAX &&
      self->block_size <= TRACE_TOKENS_MAX && self->max_model_len >= 0 && self->max_num_seqs >= 1 &&
      self->max_num_seqs <= UINT16_MAX && self->max_num_batched_tokens >= 1 &&
      self->max_num_batched_tokens <= TRACE_TOKENS_MAX && self->base + self->per_token > 0 &&
      self->stages >= 1 && self->stages <= UINT16_MAX && self->ranks >= 1 &&
      self->ranks <= UINT16_MAX && (self->stages == 1 || self->ranks == 1);
  if (fits) return 0;
  return diag_error(diag, place_of_file(self->path), "its config says no run that is possible");
}

int recorded_run_load(RecordedRun *self, const char *path, Arena *arena, Diag *diag) {
  *self = (RecordedRun){.name = name_of(path, arena),
                        .path = path,
                        .block_size = BLOCK_SIZE,
                        .max_num_seqs = MAX_NUM_SEQS,
                        .max_num_batched_tokens = MAX_NUM_BATCHED_TOKENS,
                        .stages = 1,
                        .ranks = 1,
                        .options = "",
                        .arena = arena};
  LineReader reader;
  if (line_reader_open(&reader, path, arena, diag) < 0) return -1;
  Line line;
  int rc;
  while ((rc = line_reader_next(&reader, &line, diag)) > 0)
    if ((rc = read_line(self, &line, diag)) < 0) break;
  line_reader_close(&reader);
  if (self->n_drafts > 0) qsort(self->drafts, self->n_drafts, sizeof *self->drafts, by_drafts);
  return rc < 0 ? -1 : check_figures(self, diag);
}
