/* Rows that others measured, nearest to what is asked, with how far predictions of them were off.
 *
 * data_dir/measured_rows.csv has a line for each configuration (experiments/measured/regenerate.sh
 * writes it). Rows of another GPU are never near. Among those of the same GPU the distance of a
 * row is a sum, in which a doubling is |log2| of the ratio of two numbers:
 *
 *   engine    another engine, whatever its release                                     64
 *   model     another model: 8, and a doubling each of its parameters and of those that a token
 *             uses
 *   weights   two for each doubling of the bits of a weight
 *   pools     prefill and decode apart in the one and not in the other                  4
 *   degrees   a doubling of the GPUs of an instance (of a split, of decode), and 1 each where only
 *             one of them has attention data parallelism, or expert parallelism
 *   drafts    4 where only one has draft tokens
 *   load      half a doubling each of the prompt, of the output and of the requests in flight on a
 *             GPU
 *
 * What is not known of the question, or of a row, adds nothing. Of rows equally far the first in
 * the file is the nearer one. Releases of an engine do not count: a row says which one it is of. */
#ifndef PERFMODEL_NEAR_ROWS_H
#define PERFMODEL_NEAR_ROWS_H
#include "perfmodel/hardware.h"
#include "perfmodel/llm.h"

/* What is asked. Numbers that are 0 are not known. */
typedef struct NearQuestion {
  const char *gpu;    // h100-80gb
  const char *engine; // vllm; NULL: not known
  const Llm *model;
  bool split; // prefill and decode apart
  Parallelism degrees;
  int64_t drafts;
  double prompt_tokens, output_tokens, in_flight; // in_flight: of a GPU
} NearQuestion;

typedef struct NearRow {
  const char *id, *engine, *version, *gpu; // engine and GPU by Tandem's names
  const char *model, *weights;             // as the set has them
  const char *mode;                        // agg, or disagg: prefill and decode apart
  const char *degrees;                     // "tp4 ep4", of a split one "tp1 dp4 | tp8"
  int64_t gpus, drafts;
  double isl, osl, concurrency; // clients; NAN: not a closed loop
  int64_t rows;                 // measurements of this configuration, whose mean this is
  double ttft_ms, tpot_ms, ttft_error, tpot_error; // measured; (predicted - measured) / measured
  const char *odd; // "odd": the measurement is implausible, see the guide; ""
  double distance;
} NearRow;

typedef struct NearRows {
  NearRow *rows; // [n], nearest first
  int n;
  int64_t n_on_gpu; // configurations that were measured on the GPU, of any engine and model
  bool there;       // the file is; else nothing is known
} NearRows;

/* The `wanted` nearest rows. 0, or -1 with entries. */
int near_rows_find(NearRows *self, const NearQuestion *asked, const char *data_dir, int wanted,
                   Arena *arena, Diag *diag);
/* "TTFT -3%, TPOT +1%: vllm 0.12.0, Llama-3.1-70B fp8, tp4, 1024 + 128 tokens, 64 clients". */
const char *near_row_text(const NearRow *self, Arena *arena);
/* The rows with their ids, and the command that repeats one, in lines for people; one line where
 * there is no row. NULL-terminated. */
const char *const *near_rows_lines(const NearRows *self, const char *gpu, Arena *arena);
#endif
