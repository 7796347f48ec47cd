/* MLPerf Inference v4.1, closed division: summaries of runs of language models by their submitters.
 * A summary has no degrees of parallelism, and the lengths of OpenOrca's prompts are not in it: no
 * point can be simulated without a guess, and none is made. They are told of so that nobody takes
 * them for forgotten. */
#include "experiments/measured/set.h"
#include "sim/base/csv.h"
#include <math.h>

typedef struct Row {
  const char *submitter, *system, *benchmark, *scenario;
} Row;

#define TEXT(field)                                                                                \
  { .name = #field, .type = CSV_TEXT, .offset = offsetof(Row, field), .may_be_empty = true }

static const CsvColumn columns[] = {
    TEXT(submitter), TEXT(system), TEXT(benchmark), TEXT(scenario), {0}};

static int load(Measured *self, const MeasuredSet *set, const char *path, Diag *diag) {
  Csv csv;
  Row row = {0};
  if (csv_open(&csv, path, self->arena, diag) || csv_header(&csv, columns, false, diag)) return -1;
  int status, failed = 0;
  while ((status = csv_next(&csv, &row, diag)) != 0) {
    if (status < 0) {
      failed = -1;
      continue;
    }
    MeasuredPoint *point = measured_add(self, set);
    point->id = arena_printf(self->arena, "%s/%s/%s/%s", row.submitter, row.system, row.benchmark,
                             row.scenario);
    point->model = row.benchmark;
    point->gpu = row.system;
    measured_refuse(point, "neither the degrees of parallelism nor the lengths of prompts are "
                           "given");
  }
  return failed;
}

const MeasuredSet measured_mlperf = {
    .name = "mlperf", .file = "e2e/mlperf_inference_v4.1_llm.csv", .load = load};
