/* See images.h. */
#include "traces/images.h"
#include "base/hash.h"
#include <string.h>

enum { IMAGES_MAX = 1000, DISTINCT_MAX = 1000000 };

/* --- drawn */

typedef struct Bound {
  ImagesConfig config;
  const Node *count, *tokens;
} Bound;

const OptionSpec images_options[] = {
    {"tokens", OPTION_NODE, offsetof(Bound, tokens), .required = true,
     .help = "Tokens of an image in the prompt, which its encoder encodes, a distribution as in "
             "lengths."},
    {"count", OPTION_NODE, offsetof(Bound, count),
     .help = "Number of images of a prompt that has some, a distribution as in lengths.",
     .absent = "1"},
    {"share", OPTION_REAL, offsetof(Bound, config.share), "1", .max = 1,
     .help = "Share of the prompts, or of the first turns of sessions, that have images."},
    {"distinct", OPTION_INT, offsetof(Bound, config.distinct.count), .min = 1, .max = DISTINCT_MAX,
     .help = "Number of different images.", .absent = "no image comes twice"},
    {"zipf", OPTION_REAL, offsetof(Bound, config.distinct.zipf), "1", .min = 0, .max = 10,
     .help = "Zipf exponent of the popularity of distinct images: the k-th is used in proportion "
             "to k^-zipf."},
    {0}};

int images_bind(ImagesConfig *self, const Node *node, const char *data_dir, const char *config_dir,
                Arena *arena, Diag *diag) {
  Bound bound = {.config = {.given = true, .count = {.kind = LENGTH_CONSTANT, .mean = 1}}};
  if (node->kind != NODE_MAP) {
    diag_error(diag, node->at, "'images' must be a map with 'tokens'");
    return diag_hint(diag, "for example {count: {uniform: [1, 3]}, tokens: {constant: 576}}");
  }
  if (option_bind(images_options, node, NULL, node->at, &bound, diag) ||
      length_bind(bound.tokens, data_dir, config_dir, &bound.config.tokens, arena, diag) ||
      (bound.count &&
       length_bind(bound.count, data_dir, config_dir, &bound.config.count, arena, diag)))
    return -1;
  bound.config.distinct.tokens = bound.config.tokens;
  *self = bound.config;
  return 0;
}

void images_init(Images *self, const ImagesConfig *config, uint64_t seed, Arena *arena) {
  *self = (Images){.config = config, .seed = seed, .inputs.arena = arena, .segments.arena = arena};
  rng_init(&self->rng, seed, "images");
  rng_init(&self->lengths, seed, "image_tokens");
  if (!config->given) return;
  length_sampler_init(&self->count, &config->count);
  length_sampler_init(&self->tokens, &config->tokens);
  text_sampler_init(&self->distinct, &config->distinct, seed, "image_popularity", "image_tokens",
                    arena);
}

static TraceInput draw_image(Images *self) {
  const uint64_t kind = self->config->distinct.count > 0;
  const uint64_t image = kind ? (uint64_t)text_sampler_draw(&self->distinct) : self->n_own++;
  const int32_t tokens =
      kind ? self->distinct.tokens[image] : length_at(&self->tokens, rng_uniform(&self->lengths));
  const uint64_t id = hash_fold(hash_fold(hash_mix(self->seed), kind), image);
  return (TraceInput){.id = id + (id == 0), .tokens = tokens};
}

void images_begin(Images *self, TraceRow *row) {
  self->inputs.n = 0;
  if (!self->config->given) return;
  const double u_any = rng_uniform(&self->rng);
  const double u_count = rng_uniform(&self->rng);
  if (u_any >= self->config->share) return;
  const int32_t drawn = length_at(&self->count, u_count);
  const int32_t n = drawn < IMAGES_MAX ? drawn : IMAGES_MAX;
  ARENA_RESERVE(self->inputs.arena, self->inputs.items, self->inputs.capacity, (size_t)n);
  for (int32_t i = 0; i < n; i++) {
    const TraceInput image = draw_image(self);
    if (image.tokens > TRACE_TOKENS_MAX - row->prompt_tokens) continue;
    row->prompt_tokens += image.tokens;
    self->inputs.items[self->inputs.n++] = image;
  }
}

/* Whoever has the same images behind the same text has the same beginning. */
void images_name(Images *self, TraceRow *row) {
  SegmentList *segments = &self->segments;
  const int32_t n_before = row->n_segments;
  int32_t end = n_before > 0 ? row->segments[n_before - 1].end : 0;
  uint64_t id = n_before > 0 ? row->segments[n_before - 1].id : hash_mix(self->seed);
  if (self->inputs.n == 0) return;
  ARENA_RESERVE(segments->arena, segments->items, segments->capacity,
                (size_t)n_before + (size_t)self->inputs.n);
  for (int32_t i = 0; i < n_before; i++)
    segments->items[i] = row->segments[i];
  int32_t n = 0;
  for (; n < self->inputs.n && self->inputs.items[n].tokens <= row->prompt_tokens - end; n++) {
    TraceInput *input = &self->inputs.items[n];
    input->place = end;
    end += input->tokens;
    id = hash_fold(id, input->id);
    segments->items[n_before + n] = (TraceSegment){.id = id, .end = end};
  }
  row->segments = segments->items;
  row->n_segments = n_before + n;
  row->inputs = self->inputs.items;
  row->n_inputs = n;
}

/* --- those of a trace */

/* The part of `rest` before the first of a character, or all of it; `rest` goes on behind it. */
static Field take_until(Field *rest, char end) {
  const char *found = memchr(rest->text, end, (size_t)rest->length);
  const Field part = {rest->text, found ? (int)(found - rest->text) : rest->length};
  const int skipped = part.length + (found != NULL);
  *rest = (Field){rest->text + skipped, rest->length - skipped};
  return part;
}

/* One image, at `*place` unless it says where. */
static int read_image(const Line *line, Field text, const char *name, TraceInput *ret, Diag *diag) {
  Field rest = text, where = take_until(&rest, '=');
  const Field tokens = take_until(&where, '@');
  int64_t place = ret->place;
  if (field_tokens(line, tokens, name, &ret->tokens, diag)) return -1;
  if (where.length > 0 && (!field_decimal(where, 0, &place) || place > TRACE_TOKENS_MAX))
    return field_error(line, where, name, "the place of an image in the prompt", diag);
  if (place < ret->place)
    return diag_error(diag, line_place(line, where),
                      "an image of '%s' begins before the one in front of it ends", name);
  ret->place = (int32_t)place;
  ret->id = rest.length > 0 ? hash_bytes(rest.text, (size_t)rest.length) : 0;
  return 0;
}

int images_read(const Line *line, Field field, const char *name, RawRow *ret_row, Diag *diag) {
  InputList *inputs = ret_row->inputs;
  int64_t end = 0;
  while (field.length > 0) {
    const Field text = take_until(&field, ' ');
    if (text.length == 0) continue;
    TraceInput input = {.place = (int32_t)end};
    if (read_image(line, text, name, &input, diag)) return -1;
    end = (int64_t)input.place + input.tokens;
    if (end > ret_row->prompt_tokens)
      return diag_error(diag, line_place(line, text),
                        "an image of '%s' ends at token %lld of a prompt of %d", name,
                        (long long)end, ret_row->prompt_tokens);
    ARENA_RESERVE(inputs->arena, inputs->items, inputs->capacity, (size_t)inputs->n + 1);
    inputs->items[inputs->n++] = input;
  }
  return 0;
}
