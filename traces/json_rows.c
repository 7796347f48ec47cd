/* See json_rows.h. */
#include "traces/json_rows.h"
#include "sim/base/hash.h"
#include "sim/base/json.h"

enum { TIME, PROMPT, OUTPUT, NEEDED, HASH_IDS = NEEDED, KEYS };

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

int json_row_parse(const TraceFormat *format, const JsonRow *row, RawRow *ret_row, Diag *diag) {
  const char *const keys[KEYS] = {format->time.name, format->prompt.name, format->output.name,
                                  "hash_ids"};
  JsonScanner scanner = json_scanner(row->line, row->text, diag);
  Field values[KEYS] = {{0}};
  int status = 0;
  if (json_object(&scanner, keys, KEYS, values)) return -1;
  for (int i = 0; i < NEEDED; i++)
    if (!values[i].text)
      status = diag_error(diag, line_place(row->line, row->text), "key '%s' is missing", keys[i]);
  if (status) return status;
  ret_row->time_field = values[TIME];
  if (!format->read_time(values[TIME], &ret_row->time))
    status = field_error(row->line, values[TIME], keys[TIME], format->time_is, diag);
  status |= field_tokens(row->line, values[PROMPT], keys[PROMPT], &ret_row->prompt_tokens, diag);
  if (format->output_may_be_0 && field_is(values[OUTPUT], "0"))
    ret_row->output_tokens = 1;
  else
    status |= field_tokens(row->line, values[OUTPUT], keys[OUTPUT], &ret_row->output_tokens, diag);
  if (status || !values[HASH_IDS].text) return status;
  return read_hashes(format, row, values[HASH_IDS], ret_row, diag);
}
