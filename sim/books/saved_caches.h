/* What prefix caches held when a run ended, for another to begin with. A text, plain or gzip:
 *
 *     tandem caches 2
 *     machine 0 16 2 chat    the first machine of pool 'chat': blocks of 16 tokens, 2 runs follow
 *     00000000075bcd15 0 96  of 96 blocks, from the first block on of what an id in hex names
 *     000000003ade68b1 96 5  (prefix_cache.h); what was used least recently comes first
 *
 * Ids are those of segments (content.h), so they mean the same in every run whose requests have
 * the same segments; where layers are in groups, each group has ids of its own. Those of tokens
 * that are a request's own hang on its number: a run that begins warm salts its numbers with a
 * hash of all lines, so that its request 5 is not that of a run before. */
#ifndef SIM_BOOKS_SAVED_CACHES_H
#define SIM_BOOKS_SAVED_CACHES_H
#include "base/lines.h"
#include "sim/sim.h"

/* Reads what the machines of `config`, whose pools and policies are bound, had: those of pools with
 * the same name, one by one, of each the most recent blocks that it has room for. What only one
 * side has is passed over. -1 with entries in `diag`, at the file's lines, or at `at` when nothing
 * in it is of use. Memory follows the file. */
int saved_caches_load(SavedCaches *ret_saved, LineReader *reader, Place at, const SimConfig *config,
                      Arena *arena, Diag *diag);
/* Writes what a run has left. -1 with an entry, at `at`, when the name of a pool is no line. */
int saved_caches_save(const SimResult *result, FILE *file, Place at, Arena *arena, Diag *diag);
#endif
