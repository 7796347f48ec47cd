/* The sizes of decode batches that an engine has captured as CUDA graphs. A batch of decodes alone
 * is padded to the next of them; a larger one, and one with prefill, runs as it is. */
#ifndef PERFMODEL_CAPTURED_H
#define PERFMODEL_CAPTURED_H
#include "base/yaml.h"
#include <stdint.h>

typedef struct CapturedSizes {
  const int64_t *sizes; // ascending
  int32_t n;            // 0: nothing is padded
} CapturedSizes;

/* Those that an engine captures, under the word that a file may say for them. */
typedef struct CapturedWord {
  const char *word;
  int64_t last_by_8, last_by_16; // 1, 2, 4, then 8 … by 8, then on by 16; 0: no such part
} CapturedWord;

/* Ended by a row without a word. vLLM cuts its list at 2·max_num_seqs, which takes away no size
 * that a batch of max_num_seqs or fewer is padded to: the next size is never more than twice it. */
extern const CapturedWord captured_words[];

/* What a batch of `seqs` > 0 decodes runs as. */
int64_t captured_size(const CapturedSizes *self, int64_t seqs);
/* A list of ascending sizes, or a word. -1 with an entry where it stands. */
int captured_bind(CapturedSizes *self, const Node *node, Arena *arena, Diag *diag);
#endif
