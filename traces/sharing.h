/* Drawn prompts that begin alike: with one of a few system prompts, and then one of a few documents
 * that many ask about. How often each is drawn follows Zipf: the k-th most popular one with a
 * weight of 1 / k^s. Their tokens stand in front of the prompt that `lengths` draws.
 *
 * A text is its place in the list and the seed, so runs with one seed share it; a document behind
 * another system prompt is another beginning, and is not found again. */
#ifndef TRACES_SHARING_H
#define TRACES_SHARING_H
#include "base/option.h"
#include "base/rng.h"
#include "traces/lengths.h"
#include "traces/trace.h"

/* `system_prompts:` or `documents:`. */
typedef struct SharedTexts {
  int64_t count; // 0: none
  double zipf;   // 0: all alike
  LengthDistribution tokens;
} SharedTexts;

/* Rows of the option table, for help and reference pages. */
extern const OptionSpec sharing_options[];

/* Binds the block `node`; `data_dir` and `config_dir` as in lengths_bind. */
int sharing_bind(const Node *node, const char *data_dir, const char *config_dir, SharedTexts *ret,
                 Arena *arena, Diag *diag);

/* Texts ready to be drawn from. */
typedef struct TextSampler {
  Rng popularity;
  double *weights; // [n] summed up
  int32_t *tokens; // [n]
  int64_t n;
} TextSampler;

/* With the streams `popularity` and `lengths` of the seed. */
void text_sampler_init(TextSampler *self, const SharedTexts *texts, uint64_t seed,
                       const char *popularity, const char *lengths, Arena *arena);
/* The number of the next, from 0. */
int64_t text_sampler_draw(TextSampler *self);

typedef struct Sharing {
  TextSampler system_prompts, documents;
  uint64_t seed;
  TraceSegment segments[2]; // of the newest request, in front of its own tokens
  int32_t n_segments;
} Sharing;

/* Streams "system_prompts", "documents" and their "…_lengths" of the seed. */
void sharing_init(Sharing *self, const SharedTexts *system_prompts, const SharedTexts *documents,
                  uint64_t seed, Arena *arena);
/* Draws what the next request begins with, and puts it in front of the row's prompt; a prompt ends
 * at TRACE_TOKENS_MAX. */
void sharing_begin(Sharing *self, TraceRow *row);
/* Names the tokens of the row's prompt, however much of it was cut; valid until the next. */
void sharing_name(Sharing *self, TraceRow *row);
#endif
