/* MLPerf Inference v4.1, closed division: summaries of runs of language models by their submitters.
 * A summary has no degrees of parallelism, and the lengths of OpenOrca's prompts are not in it: no
 * point can be simulated without a guess, and none is made. They are told of so that nobody takes
 * them for forgotten. */
#include "experiments/measured/set.h"

typedef struct Row {
  const char *submitter, *system, *benchmark, *scenario;
} Row;

#define TEXT(field)                                                                                \
  { .name = #field, .type = CSV_TEXT, .offset = offsetof(Row, field), .may_be_empty = true }

static const CsvColumn columns[] = {
    TEXT(submitter), TEXT(system), TEXT(benchmark), TEXT(scenario), {0}};

static void take_row(Measured *self, MeasuredPoint *point, const void *row_) {
  const Row *row = row_;
  point->id = arena_printf(self->arena, "%s/%s/%s/%s", row->submitter, row->system, row->benchmark,
                           row->scenario);
  point->model = row->benchmark;
  point->gpu = row->system;
  measured_refuse(point, "neither the degrees of parallelism nor the lengths of prompts are given");
}

static int load(Measured *self, const MeasuredSet *set, const char *path, Diag *diag) {
  Row row = {0};
  return measured_add_rows(self, set, path, columns, &row, take_row, diag);
}

const MeasuredSet measured_mlperf = {
    .name = "mlperf", .file = "e2e/mlperf_inference_v4.1_llm.csv", .load = load};
