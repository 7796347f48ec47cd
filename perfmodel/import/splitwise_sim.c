/* SplitwiseSim's data/perf_model.csv: whole requests of a batch, timed end to end.
 *
 * A line is a batch of equal requests: `prompt_time` is one prefill iteration of the whole batch,
 * `token_time` the mean decode iteration, `e2e_time` both. Times are ms, powers a share of the
 * GPUs' TDP where 0 means not measured. Each line becomes a prefill and a decode row:
 *
 *   prefill   P = batch·prompt, 2A = batch·prompt², s = batch; the peak power
 *   decode    n = s = batch, C = batch·(prompt + token/2); the average power, mostly of decode
 *
 * e2e_time should be prompt_time + token_time·(token_size − 1). Where it is less than 0.9 of that,
 * generation stopped before token_size tokens; both times still look sound, so the rows stay and
 * say so in `stop`. (Calibration study, 4.5.) */
#include "perfmodel/gpu_facts.h"
#include "perfmodel/import/import.h"
#include "sim/base/csv.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

#define WHOLE_E2E 0.9 // of what prefill and decode make together

typedef struct SourceRow {
  const char *model, *hardware;
  int64_t prompt_size, batch_size, token_size, tensor_parallel;
  double peak_power, average_power, prompt_time, token_time, e2e_time;
} SourceRow;

#define FIELD(field, kind, limits) CSV_FIELD(SourceRow, field, kind, limits)

static const CsvColumn COLUMNS[] = {FIELD(model, CSV_TEXT, CSV_ANY),
                                    FIELD(hardware, CSV_TEXT, CSV_ANY),
                                    FIELD(prompt_size, CSV_INT, CSV_POSITIVE),
                                    FIELD(batch_size, CSV_INT, CSV_POSITIVE),
                                    FIELD(token_size, CSV_INT, CSV_POSITIVE),
                                    FIELD(peak_power, CSV_REAL, CSV_NOT_NEGATIVE),
                                    FIELD(average_power, CSV_REAL, CSV_NOT_NEGATIVE),
                                    FIELD(prompt_time, CSV_REAL, CSV_POSITIVE),
                                    FIELD(token_time, CSV_REAL, CSV_POSITIVE),
                                    FIELD(e2e_time, CSV_REAL, CSV_POSITIVE),
                                    FIELD(tensor_parallel, CSV_INT, CSV_POSITIVE),
                                    {0}};

enum { MAX_SIZE = 1 << 20 }; // of a prompt, a batch or an output: keeps products exact

static int check_sizes(const Csv *csv, const SourceRow *row, Diag *diag) {
  const struct {
    const char *column;
    int64_t value;
  } sizes[] = {{"prompt_size", row->prompt_size},
               {"batch_size", row->batch_size},
               {"token_size", row->token_size},
               {"tensor_parallel", row->tensor_parallel}};
  int error = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i].value > MAX_SIZE) error = csv_error(csv, sizes[i].column, "at most 1048576", diag);
  return error;
}

/* Watts of one GPU; a share of 0 was not measured. */
static double power_watts(double share, double tdp_watts) {
  return share > 0 ? share * tdp_watts : NAN;
}

static void add_rows(Profile *profile, const SourceRow *row, Place at, double tdp_watts) {
  const int64_t batch = row->batch_size, prompt = row->prompt_size;
  const double whole = row->prompt_time + row->token_time * (double)(row->token_size - 1);
  const BatchShape prefill = {.prefill_tokens = batch * prompt,
                              .prefill_area2 = batch * prompt * prompt,
                              .logit_seqs = batch};
  const BatchShape decode = {.decode_seqs = batch,
                             .context_tokens = batch * (2 * prompt + row->token_size) / 2,
                             .logit_seqs = batch};
  ProfileRow added = import_row(row->model, row->hardware, row->tensor_parallel, PROFILE_ITERATION,
                                prefill, row->prompt_time * 1000);
  added.stop = row->e2e_time < WHOLE_E2E * whole ? "early_stop" : "";
  added.at = at;
  added.power_w = power_watts(row->peak_power, tdp_watts);
  profile_add(profile, &added);
  added.batch = decode;
  added.median_us = row->token_time * 1000;
  added.power_w = power_watts(row->average_power, tdp_watts);
  profile_add(profile, &added);
}

static int read_rows(Csv *csv, const ImportInput *input, Profile *profile, Diag *diag) {
  SourceRow row = {0};
  const char *gpu = NULL; // whose TDP is at hand
  double tdp_watts = 0;
  int status = 1, error = 0;
  while ((status = csv_next(csv, &row, diag)) != 0) {
    if (status < 0 || check_sizes(csv, &row, diag)) {
      error = -1;
      continue;
    }
    if (gpu != row.hardware) {
      Hardware hardware;
      bool known = gpu_facts_find(&hardware, row.hardware, input->data_dir, profile->arena);
      tdp_watts = known ? hardware.gpu_tdp : NAN;
      gpu = row.hardware;
    }
    add_rows(profile, &row, csv_place(csv, NULL), tdp_watts);
  }
  return error;
}

static int read_file(const ImportInput *input, Profile *profile, Diag *diag) {
  Csv csv;
  if (csv_open(&csv, input->paths[0], profile->arena, diag) ||
      csv_header(&csv, COLUMNS, true, diag) || read_rows(&csv, input, profile, diag))
    return -1;
  profile_set_fact(profile, "engine_preset", "eager-2023");
  profile_set_fact(profile, "assumption_context",
                   "decode rows have the context at the middle of the output");
  profile_set_fact(profile, "assumption_power",
                   "share of the TDP of one GPU; prefill has the peak, decode the average; 0 is "
                   "missing");
  profile_set_fact(profile, "assumption_stop",
                   "early_stop: e2e_time below 0.9 of prompt_time + token_time*(token_size - 1)");
  return 0;
}

const Importer import_splitwise_sim = {
    .name = "splitwise-sim",
    .help = "SplitwiseSim's perf_model.csv",
    .units = "milliseconds",
    .max_paths = 1,
    .read = read_file,
};
