/* See sharing.h. */
#include "traces/sharing.h"
#include "base/hash.h"
#include <assert.h>

enum { TEXTS_MAX = 1000000 };

typedef struct Bound {
  SharedTexts texts;
  const Node *tokens;
} Bound;

const OptionSpec sharing_options[] = {
    {"count", OPTION_INT, offsetof(Bound, texts.count), .required = true, .min = 1,
     .max = TEXTS_MAX, .help = "Number of different texts."},
    {"tokens", OPTION_NODE, offsetof(Bound, tokens), .required = true,
     .help = "Length of each text in tokens, a distribution as in lengths."},
    {"zipf", OPTION_REAL, offsetof(Bound, texts.zipf), "1", .min = 0, .max = 10,
     .help = "Zipf exponent of their popularity: the k-th is used in proportion to k^-zipf. With 0 "
             "all are equally popular."},
    {0}};

int sharing_bind(const Node *node, const char *data_dir, const char *config_dir, SharedTexts *ret,
                 Arena *arena, Diag *diag) {
  Bound bound = {0};
  if (node->kind != NODE_MAP)
    return diag_error(diag, node->at, "'%s' must be a map with 'count' and 'tokens'", node->key);
  if (option_bind(sharing_options, node, NULL, node->at, &bound, diag) ||
      length_bind(bound.tokens, data_dir, config_dir, &bound.texts.tokens, arena, diag))
    return -1;
  *ret = bound.texts;
  return 0;
}

void text_sampler_init(TextSampler *self, const SharedTexts *texts, uint64_t seed,
                       const char *popularity, const char *lengths, Arena *arena) {
  Rng rng;
  LengthSampler sampler;
  double sum = 0;
  *self = (TextSampler){.n = texts->count};
  if (texts->count == 0) return;
  self->weights = ARENA_ARRAY(arena, double, self->n);
  self->tokens = ARENA_ARRAY(arena, int32_t, self->n);
  length_sampler_init(&sampler, &texts->tokens);
  rng_init(&rng, seed, lengths);
  rng_init(&self->popularity, seed, popularity);
  for (int64_t i = 0; i < self->n; i++) {
    sum += portable_exp(-texts->zipf * portable_log((double)(i + 1)));
    self->weights[i] = sum;
    self->tokens[i] = length_at(&sampler, rng_uniform(&rng));
  }
}

/* The first whose summed weight is above a uniform share of all. */
int64_t text_sampler_draw(TextSampler *self) {
  const double wanted = rng_uniform(&self->popularity) * self->weights[self->n - 1];
  int64_t low = 0, high = self->n - 1;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (self->weights[middle] > wanted)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

void sharing_init(Sharing *self, const SharedTexts *system_prompts, const SharedTexts *documents,
                  uint64_t seed, Arena *arena) {
  *self = (Sharing){.seed = seed};
  text_sampler_init(&self->system_prompts, system_prompts, seed, "system_prompts",
                    "system_prompt_lengths", arena);
  text_sampler_init(&self->documents, documents, seed, "documents", "document_lengths", arena);
}

/* A segment of the text that is drawn, behind those there are. */
static void add_segment(Sharing *self, TextSampler *texts, uint64_t kind) {
  if (texts->n == 0) return;
  const int64_t text = text_sampler_draw(texts);
  const bool is_first = self->n_segments == 0;
  const TraceSegment *before = is_first ? NULL : &self->segments[self->n_segments - 1];
  const uint64_t id = hash_fold(is_first ? hash_mix(self->seed) : before->id, kind);
  self->segments[self->n_segments++] =
      (TraceSegment){.id = hash_fold(id, (uint64_t)text),
                     .end = (is_first ? 0 : before->end) + texts->tokens[text]};
}

void sharing_begin(Sharing *self, TraceRow *row) {
  enum { SYSTEM_PROMPT = 1, DOCUMENT };
  self->n_segments = 0;
  add_segment(self, &self->system_prompts, SYSTEM_PROMPT);
  add_segment(self, &self->documents, DOCUMENT);
  if (self->n_segments == 0) return;
  const int32_t shared = self->segments[self->n_segments - 1].end;
  const int32_t room = TRACE_TOKENS_MAX - row->prompt_tokens;
  row->prompt_tokens += shared < room ? shared : room;
}

void sharing_name(Sharing *self, TraceRow *row) {
  int32_t begin = 0, n = 0;
  for (; n < self->n_segments && begin < row->prompt_tokens; n++) {
    TraceSegment *segment = &self->segments[n];
    if (segment->end > row->prompt_tokens) segment->end = row->prompt_tokens;
    begin = segment->end;
  }
  row->segments = self->segments;
  row->n_segments = n;
}
