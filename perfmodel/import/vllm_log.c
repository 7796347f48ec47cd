/* What an engine measured of each of its steps, in one of two forms that a file is of throughout:
 * lines of JSON, which calib/backends/vllm_steps.py writes, and sglang_steps.py there of SGLang
 * (vllm_steps.h), or vLLM's own log, served with --enable-logging-iteration-details:
 *
 *   … Initializing a V1 LLM engine (v0.33.0) with config: model='…', …, tensor_parallel_size=2, …
 *   … Chunked prefill is enabled with max_num_batched_tokens=8192.
 *   … GPU KV cache size: 1,234,567 tokens
 *   … Iteration(7): 1 context requests, 812 context tokens, 20 generation requests,
 *     20 generation tokens, iteration elapsed time: 10.99 ms, GPU KV cache usage: 12.5%
 *
 * That log does not say pasts or contexts. Contexts of decodes are what the cache holds beside the
 * prompts of the step; older versions do not print its usage, and their decodes are left out. A
 * step that fills the budget of tokens cuts a prompt, whose rest comes in the next: what is behind
 * it is not known, and the next is left out. Prompts of other steps have no past (unless a prefix
 * cache found some) and are taken to be equal. Its time is how long the engine's core waited for
 * the step, so that its own work between two steps is missing; the lines of JSON have it.
 *
 * Steps of more tokens than sequences in generation (speculative decoding), and of pipelines, whose
 * steps overlap, are not those of a model here. */
#include "base/json.h"
#include "base/key_map.h"
#include "base/text.h"
#include "perfmodel/gpu_facts.h"
#include "perfmodel/import/import.h"
#include "perfmodel/import/vllm_steps.h"
#include "perfmodel/llm.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT_MAX = 1 << 20, CONTEXT_MAX = 1 << 30, DEGREE_MAX = 1 << 10 };

enum {
  STEPS_MAX = 1 << 23, // of an import: a day at a hundred a second
  STEP_ROWS_MAX = 500, // so many are fitted in seconds
};

typedef struct Step {
  BatchShape batch; // not empty
  double us;
  uint64_t cell;
} Step;

typedef struct Reading {
  const ImportInput *input;
  Profile *profile;
  StepHead head; // of all files
  Step *steps;
  size_t n, capacity;
  bool json, torn;
  // of the log alone
  int64_t cache_tokens, budget; // of the KV cache and of a step, 0: not said yet
  int64_t most_tokens, before;  // of the steps so far, and of the last
  int64_t no_context, no_past, speculative;
} Reading;

static int add_step(Reading *self, const BatchShape *batch, double us, Place at, Diag *diag) {
  const StepHead *head = &self->head;
  if (!self->input->model && !head->model)
    return diag_error(diag, at, "no line before this step names the model: give it with '--model'");
  if (!self->input->gpu && !head->gpu)
    return diag_error(diag, at, "no line before this step names the GPU: give it with '--gpu'");
  if (self->n == STEPS_MAX)
    return diag_error(diag, at, "the log has more than %d steps: import a part of it", STEPS_MAX);
  ARENA_RESERVE(self->profile->arena, self->steps, self->capacity, self->n + 1);
  self->steps[self->n++] = (Step){.batch = *batch, .us = us};
  return 0;
}

/* ---- What the steps are of ---- */

/* The files of one engine say the same, and what one leaves out another may say. */
static int same_text(const char **mine, const char *other, const char *what, Place at, Diag *diag) {
  if (!*mine) *mine = other;
  if (!other || strcmp(*mine, other) == 0) return 0;
  return diag_error(diag, at, "these steps are of another %s, '%s', than those before, '%s'", what,
                    other, *mine);
}

static int same_degree(int64_t *mine, int64_t other, const char *what, Place at, Diag *diag) {
  if (*mine == 0) *mine = other;
  if (other == 0 || *mine == other) return 0;
  return diag_error(diag, at, "these steps have another %s, %lld, than those before, %lld", what,
                    (long long)other, (long long)*mine);
}

static int take_head(Reading *self, const StepHead *said, Place at, Diag *diag) {
  StepHead *head = &self->head;
  if (said->pipeline_parallel_size > 1)
    return diag_error(
        diag, at, "the steps of a pipeline overlap: their times are not those of one batch alone");
  int status = 0;
#define X(name) status |= same_text(&head->name, said->name, #name, at, diag);
  STEP_HEAD_TEXTS(X)
#undef X
#define X(name) status |= same_degree(&head->name, said->name, #name, at, diag);
  STEP_HEAD_DEGREES(X)
#undef X
  return status;
}

static int read_json(Reading *self, const Line *line, Diag *diag) {
  StepLine said;
  const Place at = line_place(line, (Field){0});
  if (step_line_read(&said, line, self->profile->arena, diag)) return -1;
  if (said.kind == STEP_LINE_HEAD) return take_head(self, &said.head, at, diag);
  if (said.kind == STEP_LINE_REQUEST) return 0;
  if (said.speculative) return (int)(self->speculative++, 0);
  return add_step(self, &said.batch, said.us, at, diag);
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

/* Whether a step of so many tokens may have cut a prompt; 0: there was none. */
static bool fills_budget(Reading *self, int64_t tokens) {
  if (tokens > self->most_tokens) self->most_tokens = tokens;
  return tokens > 0 && tokens >= (self->budget > 0 ? self->budget : self->most_tokens);
}

static int add_logged(Reading *self, const Line *line, const double *numbers, bool has_usage,
                      Diag *diag) {
  const int64_t prompts = (int64_t)numbers[CONTEXTS], tokens = (int64_t)numbers[PROMPT_TOKENS];
  const int64_t decodes = (int64_t)numbers[GENERATIONS];
  const bool after_full = fills_budget(self, self->before);
  self->before = tokens + (int64_t)numbers[GENERATED];
  if (numbers[GENERATED] != numbers[GENERATIONS]) return (int)(self->speculative++, 0);
  const double held = numbers[USAGE] / 100 * (double)self->cache_tokens - (double)tokens;
  if (decodes > 0 && (!has_usage || held < (double)decodes)) return (int)(self->no_context++, 0);
  if (prompts > 0 && after_full) return (int)(self->no_past++, 0);
  if (prompts + decodes == 0 || numbers[ELAPSED] == 0) return 0;
  const BatchShape batch = {.prefill_tokens = tokens,
                            .prefill_area2 = prompts > 0 ? tokens * tokens / prompts : 0,
                            .decode_seqs = decodes,
                            .context_tokens = decodes > 0 ? (int64_t)held : 0,
                            .logit_seqs = prompts + decodes};
  return add_step(self, &batch, numbers[ELAPSED] * 1000, line_place(line, (Field){0}), diag);
}

static bool is_count(double number) {
  return number == floor(number) && number <= COUNT_MAX;
}

static int read_iteration(Reading *self, const Line *line, const char *at, Diag *diag) {
  static const char *const ahead[NUMBERS] = {"):",
                                             "context requests,",
                                             "context tokens,",
                                             "generation requests,",
                                             "iteration elapsed time:",
                                             "GPU KV cache usage:"};
  double numbers[NUMBERS] = {0};
  for (int i = 0; i < USAGE; i++) {
    at = after(line, at, ahead[i]);
    if (!at || !take_number(line, &at, &numbers[i]) || (i < ELAPSED && !is_count(numbers[i])))
      return diag_error(diag, line_place(line, (Field){0}),
                        "the line of an iteration is not complete");
  }
  if (numbers[PROMPT_TOKENS] < numbers[CONTEXTS] ||
      (numbers[CONTEXTS] == 0 && numbers[PROMPT_TOKENS] > 0))
    return diag_error(diag, line_place(line, (Field){0}),
                      "a step with %g prompts cannot have %g prompt tokens", numbers[CONTEXTS],
                      numbers[PROMPT_TOKENS]);
  at = after(line, at, ahead[USAGE]);
  return add_logged(self, line, numbers,
                    at && take_number(line, &at, &numbers[USAGE]) && numbers[USAGE] <= 100, diag);
}

/* The text behind `key` up to the next of `ends`; NULL where there is none. */
static const char *value_after(const Line *line, const char *key, const char *ends, Arena *arena) {
  const char *from = after(line, line->text, key), *end = line->text + line->length;
  if (!from) return NULL;
  if (from < end && (*from == '\'' || *from == '"')) from++;
  const char *to = from;
  while (to < end && !strchr(ends, *to))
    to++;
  const char *text = arena_copy(arena, from, (size_t)(to - from));
  return to > from && to - from < 200 && text_is_plain(text) && strcmp(text, "None") != 0 ? text
                                                                                          : NULL;
}

static int64_t count_after(const Line *line, const char *key, double most) {
  const char *at = after(line, line->text, key);
  double value = 0;
  return at && take_number(line, &at, &value) && value <= most ? (int64_t)value : 0;
}

/* How the engine was started, as it prints it. */
static int read_engine(Reading *self, const Line *line, Diag *diag) {
  static const char ends[] = ",'\" )";
  Arena *arena = self->profile->arena;
  const char *dtype = value_after(line, ", dtype=torch.", ends, arena);
  const StepHead said = {
      .engine_version = value_after(line, "LLM engine (v", ends, arena),
      .model = value_after(line, "model=", ends, arena),
      .dtype = dtype,
      .quantization = value_after(line, ", quantization=", ends, arena),
      .cache_dtype = value_after(line, ", kv_cache_dtype=", ends, arena),
      .tensor_parallel_size = count_after(line, "tensor_parallel_size=", DEGREE_MAX),
      .pipeline_parallel_size = count_after(line, "pipeline_parallel_size=", DEGREE_MAX),
      .data_parallel_size = count_after(line, "data_parallel_size=", DEGREE_MAX)};
  return take_head(self, &said, line_place(line, (Field){0}), diag);
}

static int read_logged(Reading *self, const Line *line, Diag *diag) {
  const int64_t size = count_after(line, "GPU KV cache size:", CONTEXT_MAX);
  const int64_t budget = count_after(line, "max_num_batched_tokens=", COUNT_MAX);
  if (size > 0) self->cache_tokens = size;
  if (budget > 0) self->budget = budget;
  const char *iteration = after(line, line->text, "Iteration(");
  if (iteration) return read_iteration(self, line, iteration, diag);
  return after(line, line->text, "LLM engine (v") ? read_engine(self, line, diag) : 0;
}

/* ---- Cells ---- */

/* Millions of steps become rows of a profile. Steps whose numbers are all within a fraction of an
 * octave of one another are a cell, and a cell is a row: the mean batch and the mean time of the
 * half of its steps that is neither its fastest quarter nor its slowest. So a pause of the host
 * moves no row, and where times are linear in a cell, which is what a model is made of, the means
 * are a point of the line. Cells are as small as gives at most STEP_ROWS_MAX rows. A cell of one
 * step is that step. */
enum { FINEST_BITS = 4, PART_BITS = 10 }; // 16 parts of an octave

/* The part of its octave that a number is in, of 2^bits; small ones are apart from one another. */
static uint64_t part_of(int64_t number, int bits) {
  const int exponent = 63 - bits - __builtin_clzll((uint64_t)number | UINT64_C(1) << bits);
  return ((uint64_t)exponent << bits) + ((uint64_t)number >> exponent);
}

/* Never 0: no batch is empty. What needs logits hardly differs in a cell. */
static uint64_t cell_of(const BatchShape *batch, int bits) {
  const int64_t numbers[] = {batch->decode_seqs, batch->context_tokens, batch->prefill_tokens,
                             batch->prefill_area2};
  uint64_t cell = 0;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    cell = cell << PART_BITS | part_of(numbers[i], bits);
  return cell;
}

static bool fits(Step *steps, size_t n, int bits, Arena *arena) {
  KeyMap cells = {0};
  for (size_t i = 0; i < n; i++) {
    steps[i].cell = cell_of(&steps[i].batch, bits);
    key_map_put(&cells, steps[i].cell, arena);
    if (cells.n_keys > STEP_ROWS_MAX && bits > 0) return false;
  }
  return true;
}

static int compare_steps(const void *a, const void *b) {
  const Step *left = a, *right = b;
  if (left->cell != right->cell) return left->cell < right->cell ? -1 : 1;
  if (left->us != right->us) return left->us < right->us ? -1 : 1;
  return batch_compare(&left->batch, &right->batch);
}

static void add_cell(Profile *profile, const ProfileRow *row, const Step *steps, size_t n) {
  const size_t from = n / 4, to = n - n / 4;
  double us = 0, sums[5] = {0};
  for (size_t i = from; i < to; i++) {
    const BatchShape *batch = &steps[i].batch;
    const int64_t numbers[] = {batch->prefill_tokens, batch->prefill_area2, batch->decode_seqs,
                               batch->context_tokens, batch->logit_seqs};
    us += steps[i].us;
    for (int k = 0; k < 5; k++)
      sums[k] += (double)numbers[k];
  }
  const double count = (double)(to - from);
  ProfileRow made = *row;
  made.batch =
      (BatchShape){llround(sums[0] / count), llround(sums[1] / count), llround(sums[2] / count),
                   llround(sums[3] / count), llround(sums[4] / count)};
  made.median_us = us / count;
  made.samples = (int64_t)n;
  profile_add(profile, &made);
}

/* Adds the rows of n >= 1 steps, which it sorts, each a copy of `row` with its batch, time and
 * number of samples. */
static void add_cells(Profile *profile, const ProfileRow *row, Step *steps, size_t n) {
  int bits = FINEST_BITS;
  while (!fits(steps, n, bits, profile->arena))
    bits--;
  qsort(steps, n, sizeof *steps, compare_steps);
  for (size_t first = 0, i = 1; i <= n; i++) {
    if (i < n && steps[i].cell == steps[first].cell) continue;
    add_cell(profile, row, steps + first, i - first);
    first = i;
  }
}

/* ---- Facts ---- */

/* A format of weights or keys by the words of vLLM, SGLang or torch; NULL: they do not say one. */
static const char *format_of(const char *words) {
  static const char *const formats[][2] = {
      {"fp8", "fp8"},          {"fp8_e4m3", "fp8"},       {"fp8_e5m2", "fp8"},
      {"modelopt", "fp8"},     {"modelopt_fp4", "nvfp4"}, {"mxfp4", "mxfp4"},
      {"awq", "int4"},         {"awq_marlin", "int4"},    {"gptq", "int4"},
      {"gptq_marlin", "int4"}, {"auto", "bf16"},          {"bfloat16", "bf16"},
      {"float16", "bf16"},     {"float32", "fp32"},       {"float8_e4m3fn", "fp8"},
      {"float8_e5m2", "fp8"},  {"modelopt_fp8", "fp8"},   {"w8a8_fp8", "fp8"},
      {"w8a8_int8", "int8"}};
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (strcmp(words, formats[i][0]) == 0) return formats[i][1];
  return NULL;
}

static int set_format(const Reading *self, const char *key, const char *given, const char *words,
                      const char *option, Diag *diag) {
  const char *format = given ? given : words ? format_of(words) : "bf16";
  if (!format) {
    diag_error(diag, place_of_file(self->input->path),
               "'%s' does not give the number format of the %s", words, key);
    diag_hint(diag, "give it with '%s', for example fp8", option);
    return -1;
  }
  profile_set_fact(self->profile, arena_printf(self->profile->arena, "%s_dtype", key), format);
  return 0;
}

static void set_degree(Profile *profile, const char *key, int64_t degree) {
  if (degree > 1) profile_count_fact(profile, key, degree);
}

static void set_assumptions(const Reading *self) {
  Profile *profile = self->profile;
  profile_count_fact(profile, "steps", (int64_t)self->n);
  profile_count_fact(profile, "steps_left_out_speculative", self->speculative);
  if (self->torn) profile_set_fact(profile, "torn", "the last line was cut short, and is left out");
  if (self->json) return;
  profile_set_fact(profile, "assumption_prompts",
                   "prompts of a step are equal and have no past, unless the step before cut one");
  profile_set_fact(profile, "assumption_context",
                   "contexts of decodes are what the KV cache holds beside the step's prompts");
  profile_set_fact(profile, "assumption_time",
                   "what the engine waited for a step is its time: its own work between is not in");
  profile_count_fact(profile, "steps_left_out_no_context", self->no_context);
  profile_count_fact(profile, "steps_left_out_unknown_past", self->no_past);
}

static int set_facts(const Reading *self, Diag *diag) {
  const StepHead *head = &self->head;
  const ImportInput *input = self->input;
  Profile *profile = self->profile;
  profile_set_fact(profile, "engine", head->engine ? head->engine : "vllm");
  if (head->engine_version) profile_set_fact(profile, "engine_version", head->engine_version);
  profile_set_fact(profile, "engine_preset", "inside");
  if (head->quantization) profile_set_fact(profile, "quantization", head->quantization);
  set_degree(profile, "data_parallel_size", head->data_parallel_size);
  set_degree(profile, "attention_data_parallel_size", input->attention_data_parallel_size);
  set_degree(profile, "expert_parallel_size", input->expert_parallel_size);
  set_assumptions(self);
  const char *weights = head->quantization ? head->quantization : head->dtype;
  return set_format(self, "weight", input->quantization, weights, "--quantization", diag) |
         set_format(self, "kv_cache", input->kv_cache_dtype, head->cache_dtype, "--kv-cache-dtype",
                    diag);
}

/* ---- Files ---- */

static int read_file(Reading *self, const char *path, Diag *diag) {
  LineReader reader;
  Line line;
  if (line_reader_open(&reader, path, self->profile->arena, diag)) return -1;
  bool first = true;
  int status, error = 0;
  self->before = 0;
  for (; (status = line_reader_next(&reader, &line, diag)) > 0; first = false) {
    if (first) self->json = json_line_has(&line, NULL);
    if (self->json && step_line_torn(&line, &reader))
      self->torn = true;
    else if (self->json ? read_json(self, &line, diag) : read_logged(self, &line, diag))
      error = -1;
    if (error && self->n == 0) break; // one of the first, and likely of all
  }
  line_reader_close(&reader);
  return status < 0 ? -1 : error;
}

static void add_rows(Reading *self) {
  const StepHead *head = &self->head;
  const ImportInput *input = self->input;
  Arena *arena = self->profile->arena;
  const char *model = input->model, *gpu = input->gpu;
  if (!model) model = llm_name_of(head->model, input->data_dir, arena);
  if (!model) model = strrchr(head->model, '/') ? strrchr(head->model, '/') + 1 : head->model;
  if (!gpu) gpu = gpu_facts_name(head->gpu, arena);
  int64_t gpus = head->tensor_parallel_size;
  if (gpus == 0) gpus = input->tensor_parallel_size > 0 ? input->tensor_parallel_size : 1;
  const ProfileRow row = import_row(model, gpu, gpus, PROFILE_ITERATION, (BatchShape){0}, 0);
  add_cells(self->profile, &row, self->steps, self->n);
}

static int read_logs(const ImportInput *input, Profile *profile, Diag *diag) {
  Reading self = {.input = input, .profile = profile};
  int status = read_file(&self, input->path, diag);
  for (const char *const *path = input->more; path && *path && status == 0; path++)
    status = read_file(&self, *path, diag);
  if (status) return -1;
  if (self.n > 0) add_rows(&self);
  return set_facts(&self, diag);
}

const Importer import_vllm_log = {
    .name = "vllm-log",
    .help = "steps of vLLM or SGLang as JSON, or log of vLLM's --enable-logging-iteration-details",
    .units = "microseconds, or milliseconds as the log says",
    .takes_more = true,
    .read = read_logs,
};
