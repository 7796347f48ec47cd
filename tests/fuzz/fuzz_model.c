/* Model files of any bytes, and the record of a fit in them. One that is refused has an entry and
 * one that is not has none; what is accepted compiles to pieces with positive slopes, whose points
 * can be predicted. */
#include "perfmodel/fit_file.h"
#include "tests/fuzz/files.h"
#include <assert.h>

enum { SEQS = 6 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_pieces(const PerfModel *model) {
  for (int64_t n = 1; n <= SEQS; n++)
    for (int32_t i = model->row_first[n]; i < model->row_first[n + 1]; i++)
      assert(model->pieces[i].base >= 0 && model->pieces[i].slope >= 0);
}

static void check_record(const PerfModel *model, const FitRecord *record) {
  for (int i = 0; i < record->n_points; i++) {
    const BatchShape *batch = &record->points[i].batch;
    if (batch->decode_seqs > SEQS) continue;
    double seconds = fit_record_eval(model, &record->points[i]);
    assert(seconds >= 0);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Arena arena;
  Diag diag;
  PerfModel model;
  FitRecord record;
  arena_init(&arena);
  diag_init(&diag);
  const char *path = fuzz_file("model.yaml", data, size);
  int status = perfmodel_load(&model, path, SEQS, &arena, &diag);
  assert((status == 0) == (diag.n_entries == 0));
  if (status == 0) {
    check_pieces(&model);
    status = fit_record_load(&record, path, &arena, &diag);
    assert((status == 0) == (diag.n_entries == 0));
    if (status == 0) check_record(&model, &record);
  }
  diag_done(&diag);
  arena_done(&arena);
  return 0;
}
