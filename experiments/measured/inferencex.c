/* InferenceX (once InferenceMAX) and NVIDIA's runs of the same form: a row per deployment and
 * concurrency, as AIConfigurator collects them.
 *
 * The client: as many closed loops as `concurrency`, ten requests for each, all at once in the
 * beginning, lengths drawn from 0.8 to 1.0 of isl and osl, whole and even. Rows without a precision
 * are NVIDIA's, in 16 bits, by a client that is not known. There prompts are of one length; what is
 * seen of outputs is that clients of SGLang stay in step, so that they are of one length too, and
 * those of the others do not: 0.9 to 1.1 of osl. With TensorRT-LLM one of those clients always
 * waits: TTFT is that of the prompt and a request's time over the clients. */
#include "experiments/measured/inferencex.h"
#include "base/csv.h"
#include <math.h>
#include <string.h>

#define TEXT(field, may_miss_)                                                                     \
  {                                                                                                \
    .name = #field, .type = CSV_TEXT, .offset = offsetof(InferenceXRow, field),                    \
    .may_be_empty = true, .may_miss = may_miss_                                                    \
  }
#define DEGREE(pool, prefix, field)                                                                \
  {                                                                                                \
    .name = prefix #field, .type = CSV_TEXT, .offset = offsetof(InferenceXRow, pool.field),        \
    .may_be_empty = true                                                                           \
  }
#define DEGREES(pool, prefix)                                                                      \
  DEGREE(pool, prefix, tp_size), DEGREE(pool, prefix, pp_size),                                    \
      DEGREE(pool, prefix, attention_dp_size), DEGREE(pool, prefix, moe_tp_size),                  \
      DEGREE(pool, prefix, moe_ep_size)

static const CsvColumn columns[] = {TEXT(id, false),
                                    TEXT(silicon_data_source, true),
                                    TEXT(concurrency, false),
                                    TEXT(backend, false),
                                    TEXT(backend_version, true),
                                    TEXT(model_path, false),
                                    TEXT(system, false),
                                    TEXT(precision, true),
                                    TEXT(gemm_quant_mode, true),
                                    TEXT(mode, false),
                                    TEXT(isl, false),
                                    TEXT(osl, false),
                                    TEXT(silicon_ttft_ms, false),
                                    TEXT(silicon_tpot_ms, false),
                                    TEXT(measured_at, true),
                                    TEXT(image, true),
                                    TEXT(batch_size, true),
                                    DEGREES(serve, ""),
                                    DEGREES(prefill, "prefill_"),
                                    DEGREES(decode, "decode_"),
                                    DEGREE(prefill, "prefill_", num_workers),
                                    DEGREE(decode, "decode_", num_workers),
                                    {0}};

static void read_times(Measured *self, MeasuredPoint *point, const InferenceXRow *row) {
  const double most = 1e9; // ms
  double ttft, tpot;
  if (measured_number(self, point, "silicon_ttft_ms", row->silicon_ttft_ms, 1e-9, most, NAN, &ttft))
    point->measured[MEASURED_TTFT] = ttft / 1e3;
  if (measured_number(self, point, "silicon_tpot_ms", row->silicon_tpot_ms, 1e-9, most, NAN, &tpot))
    point->measured[MEASURED_TPOT] = tpot / 1e3;
}

/* Where the engine takes fewer requests at a time than there are clients, the others wait for most
 * of the time that a request takes. */
static void check_waiting(MeasuredPoint *point, const InferenceXRow *row) {
  const double ttft = point->measured[MEASURED_TTFT], tpot = point->measured[MEASURED_TPOT];
  if (!point->split && !inferencex_is_gap_analysis(row) &&
      ttft > 3 * tpot * 0.9 * (double)point->output_tokens.written && point->clients > 1)
    measured_note_odd(point,
                      "its requests waited three times as long as they were decoded: the engine "
                      "served fewer at a time than there are clients");
}

static void take_row(Measured *self, MeasuredPoint *point, const void *row_) {
  const InferenceXRow *row = row_;
  point->id = row->id;
  point->engine = row->backend;
  point->model = row->model_path;
  point->gpu = row->system;
  point->precision = *row->precision ? row->precision : "bf16";
  point->split = strcmp(row->mode, "disagg") == 0;
  if (!point->split && strcmp(row->mode, "agg") != 0)
    measured_refuse(
        point, arena_printf(self->arena, "the mode '%s' is neither agg nor disagg", row->mode));
  inferencex_read_load(self, point, row);
  inferencex_read_pools(self, point, row);
  inferencex_read_script(point, row);
  read_times(self, point, row);
  check_waiting(point, row);
  if (inferencex_is_deployment(row))
    measured_note_odd(
        point,
        "its client and its deployment are not known: TPOT does not depend on the concurrency");
}

static int load(Measured *self, const MeasuredSet *set, const char *path, Diag *diag) {
  InferenceXRow row = {0};
  const size_t first = self->n_points;
  const int status = measured_add_rows(self, set, path, columns, &row, take_row, diag);
  inferencex_find_workers(self, first);
  inferencex_find_speculation(self, first);
  for (size_t i = first; i < self->n_points; i++) {
    MeasuredPoint *point = &self->points[i];
    if (!point->why)
      point->measured[MEASURED_THROUGHPUT] = measured_loop_throughput(point, point->measured);
  }
  return status;
}

const MeasuredSet measured_inferencex = {
    .name = "inferencex", .file = "e2e/inferencex.csv.gz", .load = load};
