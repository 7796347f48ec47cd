/* Images that are drawn for prompts, and those that a trace names. What a model with an encoder
 * encodes besides, such as audio, is the same here.
 *
 * Drawn ones stand behind the text that prompts share, in front of the prompt that `lengths` draws,
 * and add to it. Each is its own, or one of a few that many ask about, the k-th most popular one
 * with a weight of 1 / k^s. */
#ifndef TRACES_IMAGES_H
#define TRACES_IMAGES_H
#include "traces/format.h"
#include "traces/sharing.h"

/* `images:`. */
typedef struct ImagesConfig {
  bool given;
  double share;                     // of the prompts that have some
  LengthDistribution count, tokens; // of a prompt; of an image
  SharedTexts distinct;             // count 0: each is its own
} ImagesConfig;

/* Rows of the option table, for help and reference pages. */
extern const OptionSpec images_options[];

/* Binds the block `node`; `data_dir` and `config_dir` as in lengths_bind. */
int images_bind(ImagesConfig *self, const Node *node, const char *data_dir, const char *config_dir,
                Arena *arena, Diag *diag);

typedef struct Images {
  const ImagesConfig *config;
  Rng rng, lengths;
  LengthSampler count, tokens;
  TextSampler distinct;
  uint64_t seed, n_own; // images so far that are their own
  InputList inputs;     // of the newest request
  SegmentList segments; // of its tokens up to them
} Images;

/* Streams "images", "image_tokens", "image_popularity" of the seed. */
void images_init(Images *self, const ImagesConfig *config, uint64_t seed, Arena *arena);
/* Draws those of the next request and adds their tokens to the row's prompt, which ends at
 * TRACE_TOKENS_MAX. */
void images_begin(Images *self, TraceRow *row);
/* Puts them behind the row's named tokens, however much of its prompt was cut; valid until the
 * next. */
void images_name(Images *self, TraceRow *row);

/* Reads the images of a row, such as "256 576@1200 576@1800=cat": tokens, where they begin in the
 * prompt (else behind the one before) and a name (else it is like no other). 0, or -1 with an
 * entry. */
int images_read(const Line *line, Field field, const char *name, RawRow *ret_row, Diag *diag);
#endif
