/* See json_rows.h. */
#include "traces/json_rows.h"
#include "base/hash.h"
#include "base/json.h"
#include <string.h>

enum { HASH_IDS = TRACE_FIELDS, KEYS };

/* A whole number of 64 bits. */
static bool read_hash(Field field, uint64_t *ret_hash) {
  uint64_t hash = 0;
  for (int i = 0; i < field.length; i++) {
    const char c = field.text[i];
    if (c < '0' || c > '9' || __builtin_mul_overflow(hash, 10u, &hash) ||
        __builtin_add_overflow(hash, (unsigned)(c - '0'), &hash))
      return false;
  }
  *ret_hash = hash;
  return field.length > 0;
}

/* Says how many hashes there are and how many there should be. */
static int wrong_count(const TraceFormat *format, const JsonRow *row, Field list, int64_t found,
                       int32_t prompt_tokens, Diag *diag) {
  const int32_t full = prompt_tokens / row->block_tokens;
  const int32_t blocks = full + (prompt_tokens % row->block_tokens > 0);
  const bool either = format->last_may_be_unnamed && full < blocks;
  diag_error(diag, line_place(row->line, list),
             "'hash_ids' must name %d block%s of %d tokens%s for a prompt of %d, not %lld", blocks,
             blocks == 1 ? "" : "s", row->block_tokens,
             either ? ", the last of which may be missing," : "", prompt_tokens, (long long)found);
  return -1;
}

static int read_hashes(const TraceFormat *format, const JsonRow *row, Field list, RawRow *raw,
                       Diag *diag) {
  JsonScanner scanner = json_scanner(row->line, list, diag);
  SegmentList *segments = raw->segments;
  const int64_t prompt = raw->prompt_tokens, block = row->block_tokens;
  uint64_t id = hash_fold(hash_mix(UINT64_C(0x626c6f636b)), row->scope), hash = 0;
  int64_t found = 0;
  Field value;
  int status = 1;
  for (; (status = json_element(&scanner, &value)) > 0; found++) {
    if (!read_hash(value, &hash))
      return field_error(row->line, value, "hash_ids", "a list of whole numbers below 2^64", diag);
    if (found * block >= prompt) continue;
    const int64_t end = (found + 1) * block;
    id = hash_fold(id, hash);
    ARENA_RESERVE(segments->arena, segments->items, segments->capacity, (size_t)found + 1);
    segments->items[found] = (TraceSegment){id, (int32_t)(end < prompt ? end : prompt)};
  }
  if (status < 0) return -1;
  const bool all = found * block >= prompt && (found - 1) * block < prompt;
  if (!all && !(format->last_may_be_unnamed && found == prompt / block))
    return wrong_count(format, row, list, found, raw->prompt_tokens, diag);
  segments->n = (int32_t)found;
  return 0;
}

static int missing_key(const TraceLayout *layout, const JsonRow *row, TraceField which,
                       Diag *diag) {
  const char *name = layout->names[which];
  diag_error(diag, line_place(row->line, row->text), "missing key '%s'", name);
  if (*name && name[strspn(name, "0123456789")] == '\0')
    diag_hint(diag, "objects have keys, and no numbered columns");
  else if (which == TRACE_ARRIVAL && !layout->format->index)
    layout_hint_arrivals(diag);
  return -1;
}

/* The values that the row has; an entry for each that it needs and lacks. */
static int find_values(const TraceLayout *layout, const JsonRow *row, Field ret_values[KEYS],
                       Diag *diag) {
  const char *keys[KEYS];
  Field values[KEYS] = {{0}};
  int places[KEYS], n = 0, status = 0;
  for (int i = 0; i < KEYS; i++) {
    keys[n] = i == HASH_IDS ? "hash_ids" : layout->names[i];
    places[n] = i;
    n += keys[n] != NULL;
  }
  JsonScanner scanner = json_scanner(row->line, row->text, diag);
  if (json_object(&scanner, keys, n, values)) return -1;
  for (int i = 0; i < n; i++)
    ret_values[places[i]] = values[i];
  for (int i = 0; i < TRACE_NEEDED; i++)
    if (!ret_values[i].text && layout->names[i])
      status = missing_key(layout, row, (TraceField)i, diag);
  return status;
}

int json_row_parse(TraceLayout *layout, const JsonRow *row, RawRow *ret_row, Diag *diag) {
  const TraceFormat *format = layout->format;
  const Line *line = row->line;
  Field values[KEYS] = {{0}};
  if (find_values(layout, row, values, diag)) return -1;
  for (int i = 0; i < TRACE_FIELDS; i++)
    values[i] = field_is(values[i], "null") ? (Field){values[i].text, 0} : json_unquoted(values[i]);
  if (format->output_may_be_0 && field_is(values[TRACE_OUTPUT], "0"))
    values[TRACE_OUTPUT] = (Field){"1", 1};
  const int timed = layout_time(layout, line, values[TRACE_ARRIVAL], ret_row, diag);
  const int prompt = layout_tokens(layout, line, values[TRACE_PROMPT], TRACE_PROMPT,
                                   &ret_row->prompt_tokens, diag);
  const int output = layout_tokens(layout, line, values[TRACE_OUTPUT], TRACE_OUTPUT,
                                   &ret_row->output_tokens, diag);
  if (timed < 0 || prompt < 0 || output < 0) return -1;
  if (prompt == 0 || output == 0) return 0;
  if (layout_rest(layout, line, values, ret_row, diag)) return -1;
  if (row->block_tokens > 0 && values[HASH_IDS].text &&
      read_hashes(format, row, values[HASH_IDS], ret_row, diag))
    return -1;
  layout_session(values[TRACE_SESSION], ret_row);
  return 1;
}
