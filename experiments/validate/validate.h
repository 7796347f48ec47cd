/* How far predictions are from measurements: one workload under one set of policies, once with the
 * iteration times of the performance model and then with the times that a backend takes to run each
 * batch.
 *
 * Once times differ, so do the batches that policies form: percentiles compare whole systems. The
 * errors of iterations are of the batches that were really run, each predicted by the model. All
 * machines of the configuration are run on the one device, one after another: simulated time
 * passes, not the device's. A backend holds one shard of the model and has no all-reduces. */
#ifndef EXPERIMENTS_VALIDATE_VALIDATE_H
#define EXPERIMENTS_VALIDATE_VALIDATE_H
#include "calib/backend.h"
#include "experiments/benchmark/benchmark.h"
#include "experiments/report/report.h"

typedef struct ValidateOptions {
  const char *backend;
  const char *attention; // NULL: the backend's own kernels
  const char *dtype;     // NULL: fp32 on processors and of such models, else bf16
  CalibOptions device;
  int64_t repeats; // of the measured run, >= 1
  double within;   // how far a prediction may be off, as a fraction
  bool any_device; // also one that is not that of the machine and of the model
} ValidateOptions;

typedef struct ValidateIteration {
  BatchShape shape;
  double measured, predicted; // seconds; measured is the median of the replays
  bool extrapolated;          // by the prediction
  double spread;              // of the replays: what they differ by at most, over their median
} ValidateIteration;

/* One run, predicted (no iterations are kept) or measured. */
typedef struct ValidateRun {
  SimResult result;
  Report report;
  ValidateIteration *iterations;
  size_t n_iterations, capacity;
} ValidateRun;

typedef enum ValidatePart {
  VALIDATE_ALL,
  VALIDATE_PREFILL, // no decodes
  VALIDATE_DECODE,  // no prefills
  VALIDATE_MIXED,
  VALIDATE_PARTS,
} ValidatePart;

extern const char *const validate_part_names[VALIDATE_PARTS];

/* Of (predicted − measured) / measured, as fractions; NAN where there is no such iteration. */
typedef struct ValidateErrors {
  size_t n;
  double seconds;                  // measured
  double mape, median, p95, worst; // of their sizes
  size_t worst_at;                 // which one that is, from 0
  double bias;                     // mean with its sign
  double total;                    // of the sum of times
  double extrapolated;
  BatchShape worst_batch;
} ValidateErrors;

enum { VALIDATE_LATENCIES = 3, VALIDATE_STATISTICS = 3 };

/* A statistic of TTFT, TBT or E2E in both runs. */
typedef struct ValidateLatency {
  const char *name, *statistic;
  double predicted, measured; // seconds
  double error;               // of the prediction, relative
  double repeat;              // median distance of the repeats from the first; NAN: none
} ValidateLatency;

typedef enum ValidateVerdict {
  VALIDATE_MET,       // every latency is as near as asked for, or as near as the repeats are
  VALIDATE_NOT_MET,   // one is not
  VALIDATE_WORTHLESS, // the device's own times moved by more than that meanwhile
} ValidateVerdict;

extern const char *const validate_verdict_names[];

typedef struct Validation {
  CalibDevice device;
  const char *backend;
  ValidateRun predicted, *measured; // [n_measured], the first is compared with
  int64_t n_measured;
  ValidateErrors errors[VALIDATE_PARTS];
  ValidateLatency latencies[VALIDATE_LATENCIES * VALIDATE_STATISTICS];
  double replay; // median spread of a batch's replays
  double repeat; // median distance of equal batches in the repeats; NAN: none
  double drift;  // how much longer the same batches took after all runs than before, relative
  double within; // as asked for
  const ValidateLatency *worst; // the latency that is off most
  ValidateVerdict verdict;
} Validation;

enum { VALIDATE_REPLAYS = 3 }; // of each batch

/* Runs all of it; `config` is loaded, its trace is opened and closed here, for each run anew. Input
 * that does not fit the device is DIAG_INPUT, a missing or failing one DIAG_ENVIRONMENT. */
int validate(Validation *self, Config *config, const ValidateOptions *options, Arena *arena,
             Diag *diag);
/* The figures; `scope` of CSV is predicted, measured, error, repeat, or the part's iterations. */
void validate_print(const Validation *self, const Config *config, OutputFormat format, FILE *out);

/* ---- Against a log ----
 *
 * What an engine, or a client of one, noted of each request, beside a simulation of a configuration
 * that has the same requests at the same times. The requests share no tokens, as a log does not say
 * which do. Arrivals are those of the log also where its clients waited for answers. */

typedef enum AgainstFigure {
  AGAINST_TTFT,
  AGAINST_TPOT,
  AGAINST_E2E,
  AGAINST_FIGURES
} AgainstFigure;

enum { AGAINST_STATISTICS = 4 };

typedef struct Against {
  const char *log, *kind;        // path, and what it is
  size_t n_requests, n_unserved; // that were simulated, and those of them that were turned away
  size_t n_failed;               // in the log; they are not simulated
  double cached;                 // share of prompt tokens that the engine's prefix cache had
  ValidateLatency latencies[AGAINST_FIGURES * AGAINST_STATISTICS]; // predicted: simulated
  ValidateErrors requests[AGAINST_FIGURES];  // of each request, in order of arrival, without times
  size_t n_steps;                            // that the log has; 0: it has none
  size_t n_larger;                           // those with more decodes than a batch may have
  ValidateErrors iterations[VALIDATE_PARTS]; // of the steps, by the model of the first pool
  double extrapolated;                       // share of simulated time beyond the model's range
  double within;                             // as asked for
  const ValidateLatency *worst;
  ValidateVerdict verdict; // met or not met
} Against;

/* Simulates `config`, which has the workload of validate_against_workload. */
int validate_against(Against *self, Config *config, const EngineLog *log, double within,
                     Arena *arena, Diag *diag);
/* "workload={…}": as many requests, which those of the log stand in for. */
const char *validate_against_workload(const EngineLog *log, Arena *arena);
void validate_against_print(const Against *self, const Config *config, OutputFormat format,
                            FILE *out);
#endif
