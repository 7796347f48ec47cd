/* Private to the set inferencex: a row of it, and what its parts make of one. */
#ifndef EXPERIMENTS_MEASURED_INFERENCEX_H
#define EXPERIMENTS_MEASURED_INFERENCEX_H
#include "experiments/measured/set.h"
#include <string.h>

/* Columns of degrees, of a pool or without a prefix. */
typedef struct DegreeCells {
  const char *num_workers, *tp_size, *pp_size, *attention_dp_size, *moe_tp_size, *moe_ep_size;
} DegreeCells;

typedef struct InferenceXRow {
  const char *id, *silicon_data_source, *concurrency, *backend, *backend_version, *model_path,
      *system, *precision, *gemm_quant_mode, *mode, *isl, *osl, *silicon_ttft_ms, *silicon_tpot_ms,
      *measured_at, *image, *batch_size;
  DegreeCells serve, prefill, decode;
} InferenceXRow;

static inline bool row_is(const InferenceXRow *row, const char *engine, const char *model) {
  return strcmp(row->backend, engine) == 0 && strstr(row->model_path, model) != NULL;
}

/* ---- inferencex_degrees.c ---- */

/* The pools that ran, whatever the columns say; `clients` and lengths are known. */
void inferencex_read_pools(Measured *self, MeasuredPoint *point, const InferenceXRow *row);

/* ---- inferencex_recipes.c ---- */

/* What a row without numbers of instances has of their GPUs. */
typedef struct InferenceXWritten {
  int64_t prefill_gpus, prefill_expert, decode_gpus; // of an instance; 0: not known
  int64_t gpus;                                      // of all of them; 0: not known
} InferenceXWritten;

/* The pools that the source lists for the point, whose load has been read; else why not. */
const char *inferencex_solve(MeasuredPoint *point, const InferenceXRow *row,
                             const InferenceXWritten *written);

/* ---- inferencex_scripts.c ---- */

/* Clients, lengths, and how the engine was started, which its pools decide, too. */
void inferencex_read_load(Measured *self, MeasuredPoint *point, const InferenceXRow *row);
void inferencex_read_script(MeasuredPoint *point, const InferenceXRow *row);
/* Whether it is of NVIDIA's deployments of Dynamo, on as many GPUs as they needed. */
static inline bool inferencex_is_deployment(const InferenceXRow *row) {
  return strstr(row->silicon_data_source, "gtl_job_id") != NULL;
}
/* Whether it is of NVIDIA's runs in 16 bits, by another client. */
bool inferencex_is_gap_analysis(const InferenceXRow *row);

/* ---- inferencex_twins.c: what points of a file, all from `first` on, say of one another ---- */

void inferencex_find_workers(Measured *self, size_t first);
/* Those that may have run with speculative decoding, but do not say so, are odd. */
void inferencex_find_speculation(Measured *self, size_t first);
/* Whether it ran with MTP, by its image or its day. */
bool inferencex_has_prediction(const MeasuredPoint *point, const InferenceXRow *row);
#endif
