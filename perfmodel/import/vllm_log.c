/* What vLLM itself measured of each of its steps, in one of two forms that a file is of throughout:
 *
 * Lines of JSON, an object per step, which a stat logger in the engine writes:
 *
 *   {"prefill": [[new, past], …], "decode": [context, …], "sampled": s, "us": duration}
 *
 * `new` tokens of a prompt behind `past` computed ones; the context of each decode, its new token
 * counted; sequences that were sampled from. A line without "us" says what the steps are of:
 * {"model": …, "gpu": …, "tensor_parallel_size": N, "engine_version": …}, each of them optional.
 *
 * The engine's own log, served with --enable-logging-iteration-details:
 *
 *   … GPU KV cache size: 1,234,567 tokens
 *   … Iteration(7): 1 context requests, 812 context tokens, 20 generation requests,
 *     20 generation tokens, iteration elapsed time: 10.99 ms, GPU KV cache usage: 12.5%
 *
 * It does not say contexts: those of the decodes are what the cache holds beside the new prompts.
 * Older versions do not print the usage, and their decodes are left out. Prompts of one step are
 * taken to be equal and without a past, and each to end with the step. Steps of more tokens than
 * sequences in generation (speculative decoding) are left out. */
#include "perfmodel/import/import.h"
#include "sim/base/json.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT_MAX = 1 << 20, CONTEXT_MAX = 1 << 30 };

typedef struct Reading {
  const char *model, *gpu;
  int64_t tensor_parallel_size;
  Profile *profile;
  int64_t cache_tokens; // of the KV cache, 0: not said yet
  int64_t no_context, speculative;
} Reading;

static bool field_count(Field field, int64_t most, int64_t *ret_count) {
  double value = 0;
  if (!field_number(field, (double)most, &value) || value != floor(value)) return false;
  *ret_count = (int64_t)value;
  return true;
}

static int add_step(Reading *self, const BatchShape *batch, double us, Place at, Diag *diag) {
  if (!self->model || !self->gpu)
    return diag_error(diag, at, "nothing before this step says the %s: give it by '--%s'",
                      self->model ? "GPU" : "model", self->model ? "gpu" : "model");
  ProfileRow row =
      import_row(self->model, self->gpu, self->tensor_parallel_size, PROFILE_ITERATION, *batch, us);
  row.at = at;
  profile_add(self->profile, &row);
  return 0;
}

/* ---- Lines of JSON ---- */

enum { MODEL, GPU, DEGREE, VERSION, PREFILL, DECODE, SAMPLED, US, KEYS };

static const char *const keys[KEYS] = {
    "model", "gpu", "tensor_parallel_size", "engine_version", "prefill", "decode", "sampled", "us"};

static int expected(const Line *line, Field field, int key, const char *what, Diag *diag) {
  return field_error(line, field, keys[key], what, diag);
}

/* [new, past] */
static int read_chunk(const Line *line, Field chunk, BatchShape *batch, Diag *diag) {
  static const char what[] = "a list of [new tokens, past tokens]";
  JsonScanner scanner = json_scanner(line, chunk, diag);
  int64_t sizes[2] = {0, 0};
  Field value;
  int n = 0, status;
  while ((status = json_element(&scanner, &value)) > 0)
    if (n == 2 || !field_count(value, COUNT_MAX, &sizes[n++]))
      return expected(line, chunk, PREFILL, what, diag);
  if (status < 0) return -1;
  if (n != 2 || sizes[0] == 0) return expected(line, chunk, PREFILL, what, diag);
  batch->prefill_tokens += sizes[0];
  batch->prefill_area2 += sizes[0] * (2 * sizes[1] + sizes[0]);
  return 0;
}

static int read_prefill(const Line *line, Field list, BatchShape *batch, Diag *diag) {
  JsonScanner scanner = json_scanner(line, list, diag);
  Field chunk;
  int status;
  while ((status = json_element(&scanner, &chunk)) > 0)
    if (read_chunk(line, chunk, batch, diag)) return -1;
  return status;
}

static int read_decodes(const Line *line, Field list, BatchShape *batch, Diag *diag) {
  JsonScanner scanner = json_scanner(line, list, diag);
  Field value;
  int64_t context = 0;
  int status;
  while ((status = json_element(&scanner, &value)) > 0) {
    if (!field_count(value, COUNT_MAX, &context) || context == 0)
      return expected(line, value, DECODE, "a list of contexts, each at least 1", diag);
    batch->decode_seqs++;
    batch->context_tokens += context;
  }
  return status;
}

static int read_step(Reading *self, const Line *line, const Field *values, Diag *diag) {
  BatchShape batch = {0};
  double us = 0;
  if (!field_number(values[US], 1e9, &us) || us == 0)
    return expected(line, values[US], US, "a time above 0, in microseconds", diag);
  if (values[PREFILL].text && read_prefill(line, values[PREFILL], &batch, diag)) return -1;
  if (values[DECODE].text && read_decodes(line, values[DECODE], &batch, diag)) return -1;
  if (batch.prefill_tokens + batch.decode_seqs == 0)
    return diag_error(diag, line_place(line, (Field){0}), "a step of no tokens");
  batch.logit_seqs = batch.decode_seqs;
  if (values[SAMPLED].text && !field_count(values[SAMPLED], COUNT_MAX, &batch.logit_seqs))
    return expected(line, values[SAMPLED], SAMPLED, "a count of sequences", diag);
  return add_step(self, &batch, us, line_place(line, (Field){0}), diag);
}

/* A string without its quotes; NULL where there is none, or it is not plain. */
static const char *text_of(Field field, Arena *arena) {
  if (field.length < 3 || field.text[0] != '"' || field.length > 200) return NULL;
  return arena_printf(arena, "%.*s", field.length - 2, field.text + 1);
}

static int read_head(Reading *self, const Line *line, const Field *values, Diag *diag) {
  Arena *arena = self->profile->arena;
  const char *version = text_of(values[VERSION], arena);
  if (!self->model) self->model = text_of(values[MODEL], arena);
  if (!self->gpu) self->gpu = text_of(values[GPU], arena);
  if (version) profile_set_fact(self->profile, "engine_version", version);
  if (values[DEGREE].text && (!field_count(values[DEGREE], 1 << 10, &self->tensor_parallel_size) ||
                              self->tensor_parallel_size == 0))
    return expected(line, values[DEGREE], DEGREE, "a count of GPUs", diag);
  return 0;
}

static int read_json(Reading *self, const Line *line, Diag *diag) {
  JsonScanner scanner = json_scanner(line, (Field){0}, diag);
  Field values[KEYS] = {{0}};
  if (json_object(&scanner, keys, KEYS, values)) return -1;
  return values[US].text ? read_step(self, line, values, diag)
                         : read_head(self, line, values, diag);
}

/* ---- The engine's log ---- */

/* Where `word` ends in the line; NULL: it is not there. */
static const char *after(const Line *line, const char *from, const char *word) {
  const size_t length = strlen(word);
  for (const char *end = line->text + line->length; (size_t)(end - from) >= length; from++)
    if (memcmp(from, word, length) == 0) return from + length;
  return NULL;
}

/* The number at `*at`, commas between its digits left out; moves behind it. */
static bool take_number(const Line *line, const char **at, double *ret_value) {
  const char *end = line->text + line->length, *next = *at;
  char text[32];
  int n = 0;
  while (next < end && *next == ' ')
    next++;
  for (; next < end && n < (int)sizeof text; next++) {
    if (*next == ',' && next + 1 < end && next[1] >= '0' && next[1] <= '9') continue;
    if (*next != '.' && (*next < '0' || *next > '9')) break;
    text[n++] = *next;
  }
  *at = next;
  return field_number((Field){text, n}, 1e12, ret_value);
}

enum { CONTEXTS, PROMPT_TOKENS, GENERATIONS, GENERATED, ELAPSED, USAGE, NUMBERS };

static int add_logged(Reading *self, const Line *line, const double *numbers, bool has_usage,
                      Diag *diag) {
  const int64_t prompts = (int64_t)numbers[CONTEXTS], tokens = (int64_t)numbers[PROMPT_TOKENS];
  const int64_t decodes = (int64_t)numbers[GENERATIONS];
  if (numbers[GENERATED] != numbers[GENERATIONS]) return (int)(self->speculative++, 0);
  const double held = numbers[USAGE] / 100 * (double)self->cache_tokens - (double)tokens;
  if (decodes > 0 && (!has_usage || held < (double)decodes)) return (int)(self->no_context++, 0);
  if (prompts + decodes == 0 || numbers[ELAPSED] == 0) return 0;
  const BatchShape batch = {.prefill_tokens = tokens,
                            .prefill_area2 = prompts > 0 ? tokens * tokens / prompts : 0,
                            .decode_seqs = decodes,
                            .context_tokens = decodes > 0 ? (int64_t)held : 0,
                            .logit_seqs = prompts + decodes};
  return add_step(self, &batch, numbers[ELAPSED] * 1000, line_place(line, (Field){0}), diag);
}

static int read_logged(Reading *self, const Line *line, Diag *diag) {
  static const char *const ahead[NUMBERS] = {
      "Iteration(",           "context requests,",       "context tokens,",
      "generation requests,", "iteration elapsed time:", "GPU KV cache usage:"};
  const char *at = after(line, line->text, "GPU KV cache size:");
  double numbers[NUMBERS] = {0}, size = 0;
  if (at && take_number(line, &at, &size) && size <= CONTEXT_MAX)
    self->cache_tokens = (int64_t)size;
  at = after(line, line->text, ahead[0]);
  if (!at) return 0;
  at = after(line, at, "):");
  for (int i = 0; i < USAGE; i++) {
    if (i > 0) at = after(line, at, ahead[i]);
    if (!at || !take_number(line, &at, &numbers[i]) || (i < ELAPSED && numbers[i] > COUNT_MAX))
      return diag_error(diag, line_place(line, (Field){0}), "not a whole line of an iteration");
  }
  at = after(line, at, ahead[USAGE]);
  return add_logged(self, line, numbers,
                    at && take_number(line, &at, &numbers[USAGE]) && numbers[USAGE] <= 100, diag);
}

/* ---- Files ---- */

static void set_facts(const Reading *self, bool json) {
  Profile *profile = self->profile;
  profile_set_fact(profile, "engine", "vllm");
  if (json) return;
  profile_set_fact(profile, "assumption_prompts",
                   "prompts of a step are equal, have no past and end with it");
  profile_set_fact(profile, "assumption_context",
                   "contexts of decodes are what the KV cache holds beside the step's prompts");
  import_count_fact(profile, "steps_left_out_no_context", self->no_context);
  import_count_fact(profile, "steps_left_out_speculative", self->speculative);
}

static int read_log(const ImportInput *input, Profile *profile, Diag *diag) {
  Reading self = {
      .model = input->model, .gpu = input->gpu, .tensor_parallel_size = 1, .profile = profile};
  LineReader reader;
  Line line;
  if (line_reader_open(&reader, input->path, profile->arena, diag)) return -1;
  bool json = false, first = true;
  int status, error = 0;
  for (; (status = line_reader_next(&reader, &line, diag)) > 0; first = false) {
    if (first) json = json_line_has(&line, NULL);
    if (json ? read_json(&self, &line, diag) : read_logged(&self, &line, diag)) error = -1;
    const bool nameless = !self.model || !self.gpu; // an error of the first step, and of all
    if (profile->n_rows > PROFILE_MAX_ROWS || (error && nameless)) break;
  }
  line_reader_close(&reader);
  set_facts(&self, json);
  return status < 0 ? -1 : error;
}

const Importer import_vllm_log = {
    .name = "vllm-log",
    .help = "vLLM's steps: its log with --enable-logging-iteration-details, or JSON",
    .units = "microseconds, or milliseconds as the log says",
    .read = read_log,
};
