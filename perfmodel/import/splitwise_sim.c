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

typedef struct Reading {
  const ImportInput *input;
  Profile *profile;
  SourceRow row;
  const char *gpu; // whose TDP is at hand
  double tdp_watts;
} Reading;

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

static int take_row(void *context, const Csv *csv, Diag *diag) {
  Reading *self = context;
  if (check_sizes(csv, &self->row, diag)) return -1;
  if (self->gpu != self->row.hardware) {
    Hardware hardware;
    self->gpu = self->row.hardware;
    const bool known =
        gpu_facts_find(&hardware, self->gpu, self->input->data_dir, self->profile->arena);
    self->tdp_watts = known && hardware.gpu_tdp > 0 ? hardware.gpu_tdp : NAN;
  }
  add_rows(self->profile, &self->row, csv_place(csv, NULL), self->tdp_watts);
  return 0;
}

static int read_file(const ImportInput *input, Profile *profile, Diag *diag) {
  Reading self = {.input = input, .profile = profile};
  if (import_table(input->path, COLUMNS, &self.row, take_row, &self, diag, profile->arena))
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
    .help = "perf_model.csv of SplitwiseSim",
    .units = "milliseconds",
    .read = read_file,
};
