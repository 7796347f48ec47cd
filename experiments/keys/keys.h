/* Every key of the files that people write, by the place where it stands: configurations, studies,
 * policies, machines, models. All of it is the rows that bind the keys, so that lists and the page
 * (experiments/guide/keys.md) are what the program reads. */
#ifndef EXPERIMENTS_KEYS_KEYS_H
#define EXPERIMENTS_KEYS_KEYS_H
#include "base/option.h"

/* The keys of one place. */
typedef struct KeyBlock {
  const char *chapter; // of the page, which begins with this block; NULL: as of the one before
  const char *place; // "pools.NAME", with capitals for what users name; "": the top level of a file
  const char *which; // NULL, or which of the maps that may stand there: "trace"
  const char *help;  // sentences
  const OptionSpec *specs; // NULL: none, `help` says all
} KeyBlock;

/* All of them, in the order in which they are read; lives in `arena`. */
const KeyBlock *keys_blocks(size_t *ret_n, Arena *arena);
/* Full names of those that a newcomer needs, NULL-terminated: the page begins with them. */
extern const char *const keys_first[];
/* "pools.NAME.count" */
const char *keys_name(const KeyBlock *block, const OptionSpec *spec, Arena *arena);
/* The keys whose full name has `part` in it (NULL: all), in their blocks; false when none has. */
bool keys_print(const char *part, FILE *out);
/* All of them as a page. */
void keys_print_markdown(FILE *out);
/* What text with a unit may be, by dimension. */
void keys_print_units(FILE *out);
#endif
