/* The private part of llm_hugging_face.h: a config.json that is being read, by the three files that
 * read it. llm_hugging_face.c has its keys, llm_architecture.c finds the family and refuses what is
 * not modelled, llm_layers.c has the layers that differ. */
#ifndef PERFMODEL_LLM_READER_H
#define PERFMODEL_LLM_READER_H
#include "perfmodel/llm_hugging_face.h"

/* A file that is being read: keys of `text`, the language model's own map, come before those of
 * `root`, which may be the same. */
typedef struct Reader {
  const Node *root, *text;
  const LlmFamily *family;
  Llm *llm;
  Arena *arena;
  Diag *diag;
} Reader;

bool node_is_word(const Node *node, const char *word);
/* The value of a key, NULL when it is absent or null. */
const Node *reader_find(const Reader *self, const char *key);
/* The same of a list that has something. */
const Node *reader_list(const Reader *self, const char *key);
/* An integer where there is one in range, else the fallback. */
int64_t reader_number(const Reader *self, const char *key, int64_t fallback);
/* Whether a field is read from this key. */
bool reader_knows(const char *key);

/* The family, or -1: a type that is not known, or what the formulas do not have. */
int llm_architecture_find(Reader *self);
/* Counts of layers, once the fields of the shape are bound. */
int llm_layers_bind(const Reader *self);
#endif
