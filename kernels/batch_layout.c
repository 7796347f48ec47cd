/* See batch_layout.h. */
#include "kernels/batch_layout.h"
#include <assert.h>
#include <string.h>

/* splitmix64 */
static uint64_t random_next(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Fisher and Yates, the first n steps. */
void draw_pages(int32_t *ret_pages, int64_t n, int64_t limit, uint64_t seed) {
  assert(n <= limit && limit < INT32_MAX);
  if (n == 0) return;
  int32_t *order = must(malloc((size_t)limit * sizeof *order));
  for (int64_t i = 0; i < limit; i++)
    order[i] = (int32_t)i;
  for (int64_t i = 0; i < n; i++) {
    const int64_t pick = i + (int64_t)(random_next(&seed) % (uint64_t)(limit - i));
    ret_pages[i] = order[pick];
    order[pick] = order[i];
  }
  free(order);
}

static int32_t context_of(const CalibSequence *sequence) {
  return sequence->past_tokens + sequence->new_tokens;
}

static int32_t pages_of(const BatchPlace *place, const CalibSequence *sequence) {
  return (context_of(sequence) + place->block_size - 1) / place->block_size;
}

int64_t batch_pages(const CalibBatch *batch, int32_t block_size) {
  int64_t pages = 0;
  for (int32_t i = 0; i < batch->n_prefills + batch->n_decodes; i++) {
    const CalibSequence *sequence = &batch->sequences[i];
    pages += ((int64_t)sequence->past_tokens + sequence->new_tokens + block_size - 1) / block_size;
  }
  return pages;
}

static CalibStatus check(const BatchPlace *place, const CalibBatch *batch, char *error) {
  const int32_t sequences = batch->n_prefills + batch->n_decodes;
  const char *problem = NULL;
  if (batch->n_prefills < 0 || batch->n_decodes < 0 || sequences == 0)
    problem = "a batch has no sequence";
  else if (batch->n_logits < 0 || batch->n_logits > sequences)
    problem = "a batch has more logits than sequences";
  int64_t tokens = 0;
  for (int32_t i = 0; !problem && i < sequences; i++) {
    const CalibSequence *sequence = &batch->sequences[i];
    const int64_t context = (int64_t)sequence->past_tokens + sequence->new_tokens;
    tokens += sequence->new_tokens;
    if (sequence->new_tokens < 1 || sequence->past_tokens < 0)
      problem = "a sequence has no new token";
    else if (i >= batch->n_prefills && sequence->new_tokens != 1)
      problem = "a decode has more than one new token";
    else if (context > INT32_MAX / 4 || tokens > INT32_MAX / 4)
      problem = "a batch has too many tokens";
    else if (place->max_positions > 0 && context > place->max_positions)
      problem = "a sequence is longer than max_position_embeddings";
  }
  if (!problem) return CALIB_OK;
  return calib_failed(CALIB_REJECTED, error, "%s", problem);
}

static void count(BatchLayout *self, const BatchPlace *place, const CalibBatch *batch) {
  *self = (BatchLayout){.n_prefills = batch->n_prefills,
                        .n_decodes = batch->n_decodes,
                        .n_logits = batch->n_logits,
                        .decode_splits.most = 1};
  for (int32_t i = 0; i < batch->n_prefills + batch->n_decodes; i++) {
    const CalibSequence *sequence = &batch->sequences[i];
    const int32_t pages = pages_of(place, sequence);
    self->tokens += sequence->new_tokens;
    self->pages += pages;
    if (pages > self->max_pages) self->max_pages = pages;
    if (i >= batch->n_prefills) continue;
    self->prefill_tokens += sequence->new_tokens;
    if (sequence->new_tokens > self->max_new) self->max_new = sequence->new_tokens;
  }
}

/* As many layers as have pages of their own. */
static CalibStatus divide_pool(BatchLayout *self, const BatchPlace *place, char *error) {
  const int64_t layers = place->n_pages / self->pages;
  if (layers == 0)
    return calib_failed(CALIB_OUT_OF_MEMORY, error,
                        "the batch needs %lld pages of KV in a layer, but %lld fit",
                        (long long)self->pages, (long long)place->n_pages);
  self->kv_layers = layers < place->layers ? (int32_t)layers : place->layers;
  self->part_pages = place->n_pages / self->kv_layers;
  /* Slots are 32 bits, and rows of K and V in a part as well. */
  const int64_t most = INT32_MAX / (2 * (int64_t)place->kv_heads * place->block_size) - 1;
  if (self->part_pages > most) self->part_pages = most;
  if (self->part_pages >= self->pages) return CALIB_OK;
  return calib_failed(CALIB_OUT_OF_MEMORY, error,
                      "the batch needs more pages of KV than 32 bits can count");
}

/* Splits of decode attention; returns the contexts. */
static int32_t *plan_decodes(BatchLayout *self, const BatchPlace *place, const CalibBatch *batch) {
  const int32_t n = batch->n_decodes;
  int32_t *contexts = must(malloc(((size_t)n + 1) * sizeof *contexts));
  for (int32_t i = 0; i < n; i++)
    contexts[i] = context_of(&batch->sequences[batch->n_prefills + i]);
  if (n > 0)
    self->decode_splits = split_kv_plan(contexts, n, place->kv_heads, place->decode_blocks);
  return contexts;
}

/* Tiles and splits of prefill attention; the other arrays of prefills are filled. */
static void plan_prefills(BatchLayout *self, const BatchPlace *place) {
  const int32_t n = self->n_prefills, slots = place->prefill_blocks[0];
  int32_t *sees = must(malloc(((size_t)slots + 1) * sizeof *sees));
  self->tile_rows =
      split_kv_tile_rows(place->group, place->kv_heads, n, self->max_new, place->prefill_blocks[1]);
  self->wgmma_rows = split_kv_wgmma_rows(self->at.row_starts, self->at.past, n, place->group,
                                         place->kv_heads, place->wgmma_blocks);
  const int32_t tokens =
      split_kv_prefill_tokens(self->at.row_starts, self->at.past, n, place->group, place->kv_heads,
                              self->tile_rows, slots, sees);
  self->prefill_splits = split_kv_prefill_plan(self->at.row_starts, self->at.past, n, place->group,
                                               self->tile_rows, tokens, self->at.prefill_starts);
  free(sees);
}

enum { N_ARRAYS = 10 };

/* Where each array starts, at multiples of 16 bytes; returns the words of all. */
static size_t find_offsets(const BatchLayout *self, size_t ret_offsets[N_ARRAYS]) {
  const size_t sequences = (size_t)self->n_prefills + (size_t)self->n_decodes;
  const size_t lengths[N_ARRAYS] = {
      (size_t)self->tokens,         (size_t)self->tokens,
      (size_t)self->n_prefills + 1, (size_t)self->n_prefills,
      (size_t)self->n_prefills + 1, (size_t)self->n_decodes,
      (size_t)self->n_decodes + 1,  (size_t)self->decode_splits.rows,
      (size_t)self->n_logits,       sequences * (size_t)self->max_pages};
  size_t words = 0;
  for (int i = 0; i < N_ARRAYS; i++) {
    ret_offsets[i] = words;
    words += (lengths[i] + 3) / 4 * 4;
  }
  return words;
}

BatchArrays batch_layout_arrays(const BatchLayout *self, int32_t *words) {
  size_t at[N_ARRAYS];
  find_offsets(self, at);
  return (BatchArrays){.positions = words + at[0],
                       .slots = words + at[1],
                       .row_starts = words + at[2],
                       .past = words + at[3],
                       .prefill_starts = words + at[4],
                       .contexts = words + at[5],
                       .split_starts = words + at[6],
                       .split_sequences = words + at[7],
                       .logit_rows = words + at[8],
                       .page_table = words + at[9]};
}

static void fill_pages(BatchLayout *self, const BatchPlace *place, const CalibBatch *batch) {
  int32_t *pages = must(malloc((size_t)self->pages * sizeof *pages));
  const int32_t *next = pages;
  draw_pages(pages, self->pages, self->part_pages, place->seed);
  for (int32_t i = 0; i < self->n_prefills + self->n_decodes; i++) {
    const int32_t n = pages_of(place, &batch->sequences[i]);
    int32_t *row = self->at.page_table + (int64_t)i * self->max_pages;
    for (int32_t page = 0; page < self->max_pages; page++)
      row[page] = page < n ? next[page] : 0;
    next += n;
  }
  free(pages);
}

static void fill_tokens(BatchLayout *self, const BatchPlace *place, const CalibBatch *batch) {
  int32_t token = 0;
  for (int32_t i = 0; i < self->n_prefills + self->n_decodes; i++) {
    const CalibSequence *sequence = &batch->sequences[i];
    const int32_t *pages = self->at.page_table + (int64_t)i * self->max_pages;
    if (i < self->n_prefills) {
      self->at.row_starts[i] = token;
      self->at.past[i] = sequence->past_tokens;
    }
    for (int32_t position = sequence->past_tokens; position < context_of(sequence); position++) {
      self->at.positions[token] = position;
      self->at.slots[token++] = kv_slot(pages, position, place->block_size);
    }
  }
  self->at.row_starts[self->n_prefills] = self->prefill_tokens;
}

/* The last rows of the first prompts, then decodes. */
static void fill_logit_rows(BatchLayout *self) {
  const int32_t of_prefills =
      self->n_logits > self->n_decodes ? self->n_logits - self->n_decodes : 0;
  for (int32_t i = 0; i < self->n_logits; i++)
    self->at.logit_rows[i] =
        i < of_prefills ? self->at.row_starts[i + 1] - 1 : self->prefill_tokens + i - of_prefills;
}

CalibStatus batch_layout_init(BatchLayout *self, const BatchPlace *place, const CalibBatch *batch,
                              char *error) {
  CalibStatus status = check(place, batch, error);
  if (status != CALIB_OK) return status;
  BatchLayout layout;
  count(&layout, place, batch);
  status = divide_pool(&layout, place, error);
  if (status != CALIB_OK) return status;

  int32_t *contexts = plan_decodes(&layout, place, batch);
  size_t offsets[N_ARRAYS];
  layout.n_words = find_offsets(&layout, offsets);
  layout.words = must(calloc(layout.n_words, sizeof *layout.words));
  layout.at = batch_layout_arrays(&layout, layout.words);
  fill_pages(&layout, place, batch);
  fill_tokens(&layout, place, batch);
  plan_prefills(&layout, place);
  if (layout.n_decodes > 0) {
    memcpy(layout.at.contexts, contexts, (size_t)layout.n_decodes * sizeof *contexts);
    split_kv_starts(contexts, layout.n_decodes, layout.decode_splits.tokens,
                    layout.at.split_starts);
    split_kv_owners(layout.at.split_starts, layout.n_decodes, layout.at.split_sequences);
  }
  free(contexts);
  fill_logit_rows(&layout);
  *self = layout;
  return CALIB_OK;
}

void batch_layout_done(BatchLayout *self) {
  free(self->words);
  *self = (BatchLayout){0};
}
