/* Reading recorded runs; see sglang.h. */
#include "base/hash.h"
#include "sim/policies.h"
#include "tests/differential/json.h"
#include "tests/differential/sglang.h"
#include "traces/fields.h"
#include <stdlib.h>
#include <string.h>

enum { MICRO_PLACES = 6, RATIO_PLACES = 12, SEGMENTS_MOST = 4096 };
enum { CAPACITY_ROWS, CAPACITY_TIMES, CAPACITY_ROUNDS };

const char *const round_part_names[ROUND_PARTS] = {
    [ROUND_AT] = "at_us",
    [ROUND_MODE] = "mode",
    [ROUND_TOKENS] = "tokens",
    [ROUND_PAST] = "past",
    [ROUND_RUNNING] = "running",
    [ROUND_WAITING] = "waiting",
    [ROUND_RETRACTED] = "retracted",
    [ROUND_CHUNKED] = "chunked",
    [ROUND_FULL] = "full",
    [ROUND_FREE] = "free_tokens",
    [ROUND_EVICTABLE] = "evictable",
    [ROUND_RATIO] = "new_token_ratio",
};

void numbers_add(Numbers *self, int64_t number, Arena *arena) {
  ARENA_RESERVE(arena, self->at, self->capacity, self->n + 1);
  self->at[self->n++] = number;
}

static int skip(Json *json) {
  Field ignored;
  return json_value(json, &ignored);
}

static int decimal(Json *json, int places, int64_t *ret_number) {
  Field text;
  if (json_value(json, &text) < 0) return -1;
  if (field_decimal(text, places, ret_number)) return 0;
  return diag_error(json->diag, line_place(json->line, text), "expected a number");
}

/* --- config */

static const char *option_of(Field key) {
  static const char *const names[][2] = {
      {"max_running_requests", "max_num_seqs"},
      {"chunked_prefill_size", "max_num_batched_tokens"},
      {"radix_cache", "enable_prefix_caching"},
      {"overlap", "enable_overlap_schedule"},
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (field_is(key, names[i][0])) return names[i][1];
  const Policy *batcher = policy_find(POLICY_BATCHER, "sglang");
  for (const OptionSpec *spec = batcher ? batcher->options : NULL; spec && spec->key; spec++)
    if (field_is(key, spec->key)) return spec->key;
  return NULL;
}

static void add_option(RecordedRounds *self, const char *key, Field value) {
  const bool none = field_is(value, "null") || (value.length > 0 && value.text[0] == '-');
  const bool chunks = strcmp(key, "max_num_batched_tokens") == 0;
  self->low_first |= strcmp(key, "schedule_low_priority_values_first") == 0;
  if (none && chunks)
    self->options = arena_printf(self->arena, "%s, enable_chunked_prefill: false", self->options);
  if (!none)
    self->options =
        arena_printf(self->arena, "%s, %s: %.*s", self->options, key, value.length, value.text);
}

static int read_iteration(RecordedRounds *self, Json *json) {
  Field key;
  int rc;
  while ((rc = json_key(json, &key)) > 0) {
    Tick *part = field_is(key, "base")        ? &self->base
                 : field_is(key, "per_token") ? &self->per_token
                                              : &self->per_sequence;
    if (decimal(json, MICRO_PLACES, part) < 0) return -1;
  }
  return rc;
}

static int read_config(RecordedRounds *self, Json *json) {
  Field key;
  int rc;
  while ((rc = json_key(json, &key)) > 0) {
    if (field_is(key, "iteration_us")) {
      if (read_iteration(self, json) < 0) return -1;
      continue;
    }
    Json again = *json;
    Field value;
    int64_t *figure = field_is(key, "max_total_num_tokens")   ? &self->pool_tokens
                      : field_is(key, "page_size")            ? &self->page
                      : field_is(key, "max_running_requests") ? &self->max_num_seqs
                                                              : NULL;
    if (json_value(json, &value) < 0 || (figure && json_int(&again, figure) < 0)) return -1;
    if (option_of(key)) add_option(self, option_of(key), value);
  }
  return rc;
}

/* --- requests */

/* A beginning is named by all segments before, with their lengths. */
static void add_segment(RecordedRounds *self, TraceRow *row, int64_t name, int64_t tokens) {
  const TraceSegment *last = row->n_segments > 0 ? &row->segments[row->n_segments - 1] : NULL;
  const uint64_t before = last ? hash_fold(last->id, (uint64_t)last->end) : 1;
  TraceSegment *segments = ARENA_ARRAY(self->arena, TraceSegment, row->n_segments + 1);
  if (tokens <= 0) return;
  for (int32_t i = 0; i < row->n_segments; i++)
    segments[i] = row->segments[i];
  segments[row->n_segments++] =
      (TraceSegment){hash_fold(before, (uint64_t)name), (last ? last->end : 0) + (int32_t)tokens};
  row->segments = segments;
}

static int read_prompt(RecordedRounds *self, Json *json, TraceRow *row) {
  int rc;
  while ((rc = json_item(json)) > 0) {
    int64_t pair[2] = {0, 0};
    for (int i = 0; (rc = json_item(json)) > 0; i++)
      if (json_int(json, &pair[i < 1 ? 0 : 1]) < 0) return -1;
    if (rc < 0) return rc;
    add_segment(self, row, pair[0], pair[1]);
  }
  row->prompt_tokens = row->n_segments > 0 ? row->segments[row->n_segments - 1].end : 0;
  return rc;
}

static int read_request(RecordedRounds *self, Json *json) {
  TraceRow row = {.at = -1};
  int64_t id = -1, output = 0, most = 0, admitted = 0, segment = 0, priority = 0;
  Field key, value;
  int rc;
  while ((rc = json_key(json, &key)) > 0) {
    int status = 0;
    if (field_is(key, "arrival_us")) {
      status = decimal(json, MICRO_PLACES, &row.at);
    } else if (field_is(key, "prompt")) {
      status = read_prompt(self, json, &row);
    } else if (field_is(key, "ignore_eos")) {
      status = json_value(json, &value);
      row.ignores_eos = status == 0 && field_is(value, "true");
    } else {
      int64_t *number = field_is(key, "request")               ? &id
                        : field_is(key, "output_tokens")       ? &output
                        : field_is(key, "max_tokens")          ? &most
                        : field_is(key, "admitted_max_tokens") ? &admitted
                        : field_is(key, "output_segment")      ? &segment
                        : field_is(key, "priority")            ? &priority
                                                               : NULL;
      status = number ? json_int(json, number) : skip(json);
    }
    if (status < 0) return -1;
  }
  if (rc < 0) return rc;
  if (id != (int64_t)self->n_requests || row.prompt_tokens <= 0 || output <= 0)
    return diag_error(json->diag, line_place(json->line, (Field){0}),
                      "a request must have its place as its number, and tokens");
  if (admitted == 0) admitted = most;
  row.output_tokens = (int32_t)(output < admitted ? output : admitted);
  row.max_tokens = (int32_t)admitted;
  row.priority = (int32_t)priority;
  add_segment(self, &row, segment, row.output_tokens - (output != most && output <= admitted));
  ARENA_RESERVE(self->arena, self->rows, self->capacities[CAPACITY_ROWS], self->n_requests + 1);
  ARENA_RESERVE(self->arena, self->times, self->capacities[CAPACITY_TIMES], self->n_requests + 1);
  self->times[self->n_requests] = (RoundTimes){-1, -1};
  self->rows[self->n_requests++] = row;
  return 0;
}

/* --- steps */

static int read_numbers(RecordedRounds *self, Json *json, Numbers *numbers) {
  int64_t number;
  int rc;
  while ((rc = json_item(json)) > 0) {
    if (json_int(json, &number) < 0) return -1;
    numbers_add(numbers, number, self->arena);
  }
  return rc;
}

static int read_pairs(RecordedRounds *self, Json *json, Numbers *numbers) {
  Field key;
  int rc;
  while ((rc = json_key(json, &key)) > 0) {
    const Line name = {.text = key.text, .length = key.length, .path = json->line->path};
    Json inside = json_open(&name, json->diag);
    int64_t id, count;
    if (json_int(&inside, &id) < 0 || json_int(json, &count) < 0) return -1;
    numbers_add(numbers, id, self->arena);
    numbers_add(numbers, count, self->arena);
  }
  return rc;
}

static int read_part(RecordedRounds *self, Json *json, RoundPart part, Numbers *numbers) {
  int64_t number = 0;
  Field value;
  int rc;
  if (part == ROUND_TOKENS || part == ROUND_PAST) return read_pairs(self, json, numbers);
  if (part >= ROUND_RUNNING && part <= ROUND_RETRACTED) return read_numbers(self, json, numbers);
  if (part == ROUND_MODE || part == ROUND_FULL) {
    rc = json_value(json, &value);
    number = rc < 0 ? 0 : part == ROUND_MODE ? value.text[0] : field_is(value, "true");
  } else if (part == ROUND_AT || part == ROUND_RATIO) {
    rc = decimal(json, part == ROUND_AT ? MICRO_PLACES : RATIO_PLACES, &number);
  } else {
    rc = json_int(json, &number);
  }
  if (rc == 0) numbers_add(numbers, number, self->arena);
  return rc;
}

/* What a line leaves out. */
static void complete(RecordedRounds *self, RecordedRound *round) {
  const Numbers *running = &round->parts[ROUND_RUNNING];
  Numbers *tokens = &round->parts[ROUND_TOKENS];
  if (round->parts[ROUND_CHUNKED].n == 0)
    numbers_add(&round->parts[ROUND_CHUNKED], -1, self->arena);
  if (round->parts[ROUND_FULL].n == 0) numbers_add(&round->parts[ROUND_FULL], 0, self->arena);
  for (size_t i = 0; tokens->n < 2 * running->n && round->parts[ROUND_MODE].at[0] == 'D'; i++) {
    numbers_add(tokens, running->at[i], self->arena);
    numbers_add(tokens, 1, self->arena);
  }
}

static int read_step(RecordedRounds *self, Json *json) {
  RecordedRound round = {0};
  Field key;
  int rc;
  while ((rc = json_key(json, &key)) > 0) {
    RoundPart part = 0;
    while (part < ROUND_PARTS && !field_is(key, round_part_names[part]))
      part++;
    if ((part < ROUND_PARTS ? read_part(self, json, part, &round.parts[part]) : skip(json)) < 0)
      return -1;
  }
  if (rc < 0) return rc;
  if (round.parts[ROUND_MODE].n == 0)
    return diag_error(json->diag, line_place(json->line, (Field){0}), "a step must have a mode");
  complete(self, &round);
  ARENA_RESERVE(self->arena, self->rounds, self->capacities[CAPACITY_ROUNDS], self->n_rounds + 1);
  self->rounds[self->n_rounds++] = round;
  return 0;
}

static int read_finished(RecordedRounds *self, Json *json) {
  RoundTimes times = {-1, -1};
  int64_t id = -1;
  Field key;
  int rc;
  while ((rc = json_key(json, &key)) > 0)
    if ((field_is(key, "finished")         ? json_int(json, &id)
         : field_is(key, "first_token_us") ? decimal(json, MICRO_PLACES, &times.first_token_at)
         : field_is(key, "at_us")          ? decimal(json, MICRO_PLACES, &times.last_token_at)
                                           : skip(json)) < 0)
      return -1;
  if (rc == 0 && id >= 0 && id < (int64_t)self->n_requests) self->times[id] = times;
  return rc;
}

static int read_line(RecordedRounds *self, const Line *line, Diag *diag) {
  Json json = json_open(line, diag), start = json;
  Field key;
  int rc;
  while ((rc = json_key(&json, &key)) > 0) {
    if (field_is(key, "config")) return read_config(self, &json);
    if (field_is(key, "request")) return read_request(self, &start);
    if (field_is(key, "step")) return read_step(self, &start);
    if (field_is(key, "finished")) return read_finished(self, &start);
    if (skip(&json) < 0) return -1;
  }
  return rc;
}

static const char *name_of(const char *path, Arena *arena) {
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  const char *end = strstr(name, ".jsonl");
  return arena_copy(arena, name, end ? (size_t)(end - name) : strlen(name));
}

int recorded_rounds_load(RecordedRounds *self, const char *path, Arena *arena, Diag *diag) {
  *self = (RecordedRounds){
      .name = name_of(path, arena), .path = path, .options = "name: sglang", .arena = arena};
  LineReader reader;
  if (line_reader_open(&reader, path, arena, diag) < 0) return -1;
  Line line;
  int rc;
  while ((rc = line_reader_next(&reader, &line, diag)) > 0)
    if ((rc = read_line(self, &line, diag)) < 0) break;
  line_reader_close(&reader);
  if (!self->low_first)
    self->options =
        arena_printf(arena, "%s, schedule_low_priority_values_first: false", self->options);
  if (rc >= 0 && (self->page < 1 || self->pool_tokens < self->page || self->max_num_seqs < 1))
    return diag_error(diag, place_of_file(path), "its config says no run that is possible");
  return rc < 0 ? -1 : 0;
}
