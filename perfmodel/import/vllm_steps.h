/* The lines of JSON that calib/backends/vllm_steps.py and sglang_steps.py write: what an engine
 * did, step by step, and what became of each request. Each is an object; keys beside these are
 * passed over.
 *
 *   {"engine": "vllm", "engine_version": …, "model": …, "gpu": …, "dtype": …, "quantization": …,
 *    "cache_dtype": …, "tensor_parallel_size": N, "pipeline_parallel_size": N,
 *    "data_parallel_size": N}                                  what the steps are of, each optional
 *   {"prefill": [[new, past], …], "decode_seqs": n, "context_tokens": C, "sampled": s,
 *    "drafted": d, "us": duration}                             a step
 *   {"prompt_tokens": p, "output_tokens": o, "cached_tokens": h, "arrived_us": t,
 *    "first_token_us": t, "last_token_us": t}                  a request that was served
 *
 * `new` tokens of a prompt behind `past` computed ones; n decodes, their contexts C in all, each
 * with its new token; s sequences that were sampled from; d tokens of speculation among the new
 * ones. "decode": [context, …] may stand for n and C. What a step leaves out is none, and s then
 * the decodes. */
#ifndef PERFMODEL_IMPORT_VLLM_STEPS_H
#define PERFMODEL_IMPORT_VLLM_STEPS_H
#include "base/lines.h"
#include "perfmodel/perfmodel.h"

typedef enum StepLineKind { STEP_LINE_HEAD, STEP_LINE_STEP, STEP_LINE_REQUEST } StepLineKind;

/* The fields of a head. */
#define STEP_HEAD_TEXTS(X)                                                                         \
  X(engine) X(engine_version) X(model) X(gpu) X(dtype) X(quantization) X(cache_dtype)
#define STEP_HEAD_DEGREES(X) X(tensor_parallel_size) X(pipeline_parallel_size) X(data_parallel_size)

/* NULL, 0: not said. */
typedef struct StepHead {
  const char *engine, *engine_version, *model, *gpu, *dtype, *quantization, *cache_dtype;
  int64_t tensor_parallel_size, pipeline_parallel_size, data_parallel_size;
} StepHead;

typedef struct ServedRequest {
  int64_t prompt_tokens, output_tokens, cached_tokens;
  int64_t arrived_us, first_token_us, last_token_us; // of one clock, ascending
} ServedRequest;

typedef struct StepLine {
  StepLineKind kind;
  StepHead head;         // of HEAD
  BatchShape batch;      // of STEP
  bool speculative;      // likewise: with tokens of speculation, which the batch has not
  double us;             // likewise
  ServedRequest request; // of REQUEST
} StepLine;

/* Whether the line is of such a file: a head, a step or a request. */
bool step_line_is(const Line *line);
/* Whether the line, the last of its file, was cut short: whatever wrote it was ended then. */
bool step_line_torn(const Line *line, const LineReader *reader);
/* 0, or −1 with an entry. Texts of a head are plain (base/text.h) and live in the arena. */
int step_line_read(StepLine *self, const Line *line, Arena *arena, Diag *diag);
#endif
