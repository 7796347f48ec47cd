/* See vllm_steps.h. */
#include "perfmodel/import/vllm_steps.h"
#include "base/json.h"
#include "base/text.h"
#include <math.h>

enum { COUNT_MAX = 1 << 20, TEXT_MAX = 200, DEGREE_MAX = 1 << 10 };
static const double CONTEXT_MAX = 1e9; // of all decodes of a step
static const double STEP_US_MAX = 1e9;
static const double CLOCK_US_MAX = 9e15; // 285 years

/* The keys of a line: of a head, of a step, of a request. */
#define STEP_KEYS(X)                                                                               \
  X(prefill) X(decode) X(decode_seqs) X(context_tokens) X(sampled) X(drafted) X(us)
#define REQUEST_KEYS(X)                                                                            \
  X(prompt_tokens)                                                                                 \
  X(output_tokens) X(cached_tokens) X(arrived_us) X(first_token_us) X(last_token_us)
#define LINE_KEYS(X) STEP_HEAD_TEXTS(X) STEP_HEAD_DEGREES(X) STEP_KEYS(X) REQUEST_KEYS(X)

#define X(name) KEY_##name,
enum { LINE_KEYS(X) KEYS };
#undef X

#define X(name) #name,
static const char *const keys[KEYS] = {LINE_KEYS(X)};
#undef X

/* The values of a line, in the order of the keys. */
typedef struct Values {
  const Line *line;
  Field of[KEYS];
  Diag *diag;
} Values;

static int expected(const Values *self, Field field, int key, const char *what) {
  return field_error(self->line, field, keys[key], what, self->diag);
}

static bool is_count(Field field, double most, int64_t *ret_count) {
  double value = 0;
  if (!field_number(field, most, &value) || value != floor(value)) return false;
  *ret_count = (int64_t)value;
  return true;
}

/* Left as it is where the line does not have it. */
static int read_count(const Values *self, int key, double most, int64_t *ret_count) {
  if (!self->of[key].text || is_count(self->of[key], most, ret_count)) return 0;
  return expected(self, self->of[key], key, "a count");
}

/* ---- Steps ---- */

/* [new, past] */
static int read_chunk(const Values *self, Field chunk, BatchShape *batch) {
  static const char what[] = "a list of [new tokens, past tokens]";
  JsonScanner scanner = json_scanner(self->line, chunk, self->diag);
  int64_t sizes[2] = {0, 0};
  Field value;
  int n = 0, status;
  while ((status = json_element(&scanner, &value)) > 0)
    if (n == 2 || !is_count(value, COUNT_MAX, &sizes[n++]))
      return expected(self, chunk, KEY_prefill, what);
  if (status < 0) return -1;
  if (n != 2 || sizes[0] == 0) return expected(self, chunk, KEY_prefill, what);
  batch->prefill_tokens += sizes[0];
  batch->prefill_area2 += sizes[0] * (2 * sizes[1] + sizes[0]);
  return 0;
}

static int read_prefill(const Values *self, BatchShape *batch) {
  JsonScanner scanner = json_scanner(self->line, self->of[KEY_prefill], self->diag);
  Field chunk;
  int n = 0, status;
  while ((status = json_element(&scanner, &chunk)) > 0) {
    if (n++ == COUNT_MAX) return expected(self, chunk, KEY_prefill, "at most a million chunks");
    if (read_chunk(self, chunk, batch)) return -1;
  }
  return status;
}

static int read_contexts(const Values *self, BatchShape *batch) {
  JsonScanner scanner = json_scanner(self->line, self->of[KEY_decode], self->diag);
  Field value;
  int64_t context = 0;
  int status;
  while ((status = json_element(&scanner, &value)) > 0) {
    if (!is_count(value, COUNT_MAX, &context) || context == 0)
      return expected(self, value, KEY_decode, "a list of contexts, each at least 1");
    batch->decode_seqs++;
    batch->context_tokens += context;
  }
  return status;
}

static int read_decodes(const Values *self, BatchShape *batch) {
  if (self->of[KEY_decode].text) return read_contexts(self, batch);
  if (read_count(self, KEY_decode_seqs, COUNT_MAX, &batch->decode_seqs) ||
      read_count(self, KEY_context_tokens, CONTEXT_MAX, &batch->context_tokens))
    return -1;
  if (batch->context_tokens >= batch->decode_seqs) return 0;
  return expected(self, self->of[KEY_decode_seqs], KEY_decode_seqs, "at most 'context_tokens'");
}

static int read_step(const Values *self, StepLine *step) {
  BatchShape *batch = &step->batch;
  int64_t drafted = 0;
  if (!field_number(self->of[KEY_us], STEP_US_MAX, &step->us) || step->us == 0)
    return expected(self, self->of[KEY_us], KEY_us, "a time above 0, in microseconds");
  if ((self->of[KEY_prefill].text && read_prefill(self, batch)) || read_decodes(self, batch))
    return -1;
  if (batch->prefill_tokens + batch->decode_seqs == 0)
    return diag_error(self->diag, line_place(self->line, (Field){0}), "the step has no tokens");
  batch->logit_seqs = batch->decode_seqs;
  const int status = read_count(self, KEY_drafted, COUNT_MAX, &drafted);
  step->speculative = drafted > 0;
  return status | read_count(self, KEY_sampled, COUNT_MAX, &batch->logit_seqs);
}

/* ---- Heads and requests ---- */

/* A plain string without its quotes; NULL where there is none. */
static const char *text_of(const Values *self, int key, Arena *arena) {
  const Field field = self->of[key];
  if (field.length < 3 || field.text[0] != '"' || field.length > TEXT_MAX) return NULL;
  const char *text = arena_copy(arena, field.text + 1, (size_t)field.length - 2);
  return text_is_plain(text) ? text : NULL;
}

static int read_head(const Values *self, StepHead *head, Arena *arena) {
  int status = 0;
#define X(name) head->name = text_of(self, KEY_##name, arena);
  STEP_HEAD_TEXTS(X)
#undef X
#define X(name) status |= read_count(self, KEY_##name, DEGREE_MAX, &head->name);
  STEP_HEAD_DEGREES(X)
#undef X
  return status;
}

static int read_request(const Values *self, ServedRequest *request) {
  if (read_count(self, KEY_prompt_tokens, COUNT_MAX, &request->prompt_tokens) ||
      read_count(self, KEY_output_tokens, COUNT_MAX, &request->output_tokens) ||
      read_count(self, KEY_cached_tokens, COUNT_MAX, &request->cached_tokens) ||
      read_count(self, KEY_arrived_us, CLOCK_US_MAX, &request->arrived_us) ||
      read_count(self, KEY_first_token_us, CLOCK_US_MAX, &request->first_token_us) ||
      read_count(self, KEY_last_token_us, CLOCK_US_MAX, &request->last_token_us))
    return -1;
  if (request->prompt_tokens > 0 && request->output_tokens > 0 &&
      request->arrived_us <= request->first_token_us &&
      request->first_token_us <= request->last_token_us)
    return 0;
  return diag_error(
      self->diag, line_place(self->line, (Field){0}),
      "a request must have tokens and its times must ascend: arrival, first token, last token");
}

/* ---- Lines ---- */

bool step_line_is(const Line *line) {
  return json_line_has(line, keys[KEY_us]) || json_line_has(line, keys[KEY_arrived_us]) ||
         json_line_has(line, keys[KEY_engine]) || json_line_has(line, keys[KEY_model]);
}

bool step_line_torn(const Line *line, const LineReader *reader) {
  return reader->at_end && reader->begin == reader->end && line->text[line->length - 1] != '}';
}

int step_line_read(StepLine *self, const Line *line, Arena *arena, Diag *diag) {
  Values values = {.line = line, .diag = diag};
  JsonScanner scanner = json_scanner(line, (Field){0}, diag);
  *self = (StepLine){.kind = STEP_LINE_HEAD};
  if (json_object(&scanner, keys, KEYS, values.of)) return -1;
  if (values.of[KEY_us].text) {
    self->kind = STEP_LINE_STEP;
    return read_step(&values, self);
  }
  if (values.of[KEY_arrived_us].text) {
    self->kind = STEP_LINE_REQUEST;
    return read_request(&values, &self->request);
  }
  return read_head(&values, &self->head, arena);
}
