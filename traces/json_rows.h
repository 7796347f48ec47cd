/* Requests written as JSON objects: their keys, and the hashes of the prompt's blocks.
 *
 * `hash_ids` names blocks of the prompt in order, equal numbers equal tokens, each with all before
 * it: a segment's id is folded from the hashes up to it, so it says so whether or not the numbers
 * of a format do. The prompt's last block may be partial; it is named as far as the prompt goes.
 * Without `hash_ids` a request's tokens are its own. Outputs are always: a row cannot know what
 * a later one calls them. */
#ifndef TRACES_JSON_ROWS_H
#define TRACES_JSON_ROWS_H
#include "traces/layout.h"

/* A row from the object that `text` is. `block_tokens` is the length of a block; 0: blocks are
 * none of ours. Equal hashes of one `scope` are equal tokens. */
typedef struct JsonRow {
  const Line *line;
  Field text;
  int32_t block_tokens;
  uint64_t scope;
} JsonRow;

/* As layout_parse. */
int json_row_parse(TraceLayout *layout, const JsonRow *row, RawRow *ret_row, Diag *diag);
#endif
