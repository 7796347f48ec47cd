/* Engines that others measured end to end, and what Tandem gives for the same.
 *
 * A set is a file that somebody published, as it is; one file NAME.c and one line in sets.def read
 * it. Each of its rows is a point: what ran (engine, GPUs, model, number formats, degrees of
 * parallelism), under which load, and what was measured. A point is put down as the YAML of a
 * configuration that anybody can run, that is loaded and simulated as any other, and the
 * prediction stands beside the measurement. A point that cannot be simulated says why; none is
 * left out silently, and none for what was measured of it: what looks implausible is odd, and
 * counts. Nothing here is fitted to a point: where the program's own data were, `fitted` says so,
 * and the point is in no figure of error.
 *
 * Errors are (predicted − measured) / measured. Points keep the order of their files. Of a log a
 * point is a request, and those of one log are one run: of a group of them the median error is told
 * of in place of the mean, and the error of the mean in place of the bias. */
#ifndef EXPERIMENTS_MEASURED_MEASURED_H
#define EXPERIMENTS_MEASURED_MEASURED_H
#include "base/diag.h"
#include "experiments/base/cells.h"

typedef enum MeasuredFigure {
  MEASURED_TTFT,       // s, mean over requests
  MEASURED_TPOT,       // s, mean over requests
  MEASURED_THROUGHPUT, // output tokens per second and GPU
  MEASURED_E2E,        // s, mean over requests
  MEASURED_FIGURES,
} MeasuredFigure;

/* Equal instances of the model. `tensor` × `attention` × `pipeline` GPUs are one (hardware.h). */
typedef struct MeasuredPool {
  int64_t workers, tensor, attention, expert, pipeline;
  int64_t blocks; // of KV memory of a worker; 0: as the engine finds room
} MeasuredPool;

/* Tokens: as a set says it, and from where to where they were drawn, both ends included. */
typedef struct MeasuredRange {
  int64_t written, least, most;
} MeasuredRange;

enum { MEASURED_SERVE = 0, MEASURED_PREFILL = 0, MEASURED_DECODE = 1, MEASURED_POOLS = 2 };

/* How the engine was started. */
typedef struct MeasuredScript {
  const char *engine;         // as configurations have it: a row of engines.def
  double request_s;           // before its scheduler has a request
  bool launches_free;         // iterations with prefill have no least time of a layer
  const char *weights;        // their format; NULL: what the precision says
  const char *kv_cache_dtype; // NULL: as the model has it
  double memory;              // gpu_memory_utilization of its pools; 0: the engine's
  int64_t max_num_batched_tokens, max_num_seqs;
  int64_t prefill_tokens; // max_num_batched_tokens of its prefill pool, which then schedules a step
                          // after the one before it; 0: as the others
  bool prefix_caching;
  int64_t drafts;      // of the model's MTP layer in a step; 0: none
  const char *batcher; // what else its batcher is told, ", key: value"; NULL: nothing
} MeasuredScript;

typedef struct MeasuredPoint {
  const char *set, *id;
  const char *engine, *version, *model, *gpu, *precision; // as the set has them, "" if not
  bool split; // pools[] prefill and decode apart; else pools[0] does both
  MeasuredPool pools[MEASURED_POOLS];
  MeasuredRange prompt_tokens, output_tokens;
  const char *solved;   // where its numbers of instances are from; NULL: the set has them
  const char *unsolved; // why they could not be found by its columns; or NULL
  int64_t clients;      // of a closed loop; 0: all requests at once
  int64_t requests;
  const char *log; // the trace that it is a request of; NULL: none
  int64_t request; // of the log
  MeasuredScript script;
  double measured[MEASURED_FIGURES]; // NAN: it was not
  const char *fitted;                // what was fitted to it; NULL: nothing, it is held out
  bool fitted_ttft;                  // to its TTFT alone: the others are held out
  const char *config;                // YAML; NULL: it has none
  const char *served;                // of it all but the workload
  const char *why;                   // no prediction; NULL: there is one
  const char *assumed;               // what it is simulated with that nobody says; or NULL
  const char *odd; // what is implausible about the measurement, which counts all the same; or NULL
  double predicted[MEASURED_FIGURES];
  double extrapolated; // share of the time of iterations beyond the range of the model
} MeasuredPoint;

typedef struct Measured {
  MeasuredPoint *points; // [n_points]
  size_t n_points, capacity;
  Arena *arena;
} Measured;

/* What is asked for. Texts are NULL where anything will do. */
typedef struct MeasuredOptions {
  const char *folder, *rows;                     // of all sets; a file of inferencex's columns
  const char *set, *model, *engine, *gpu, *mode; // part of the name, as the point has it
  const char *id;        // of a point; of a log its name, or that of one of its requests
  const char *perfmodel; // in place of the engine's, as YAML
} MeasuredOptions;

/* Names of the sets, NULL-terminated. */
extern const char *const measured_set_names[];

/* Reads the sets, and leaves the points that are asked for. `arena` must outlive `self`. A file
 * that cannot be read as a whole is an error. */
int measured_load(Measured *self, const MeasuredOptions *options, Arena *arena, Diag *diag);
/* Simulates all points that have a configuration, on `jobs` threads, each of which may take
 * `memory`; the same for any number of them. -1 when it is interrupted. */
int measured_simulate(Measured *self, int jobs, size_t memory, Diag *diag);

/* NAN where there is nothing to compare. */
double measured_error(const MeasuredPoint *point, MeasuredFigure figure);
/* Whether nothing was fitted to this figure of it. */
bool measured_is_held_out(const MeasuredPoint *point, MeasuredFigure figure);
/* "agg" or "disagg". */
const char *measured_mode(const MeasuredPoint *point);
/* "tp4 ep4", of a split one "tp1 dp4 | tp8". */
const char *measured_degrees(const MeasuredPoint *point, Arena *arena);
/* GPUs of all its pools. */
int64_t measured_gpus(const MeasuredPoint *point);

typedef struct MeasuredErrors {
  int n;
  double mape, bias;          // NAN: no point. Of requests: the median; of the means
  const MeasuredPoint *worst; // NULL: no point
  double *sizes;              // [n] of errors, as they came
  size_t capacity;
  double measured, predicted; // sums
} MeasuredErrors;

/* Points that have the set, engine, GPU, model, precision and mode in common. */
typedef struct MeasuredGroup {
  const MeasuredPoint *first;              // what they have in common is its
  int points, fitted, missing;             // missing: without a prediction
  MeasuredErrors errors[MEASURED_FIGURES]; // of held-out points
} MeasuredGroup;

/* Groups in order, ended by one without `first`. With `detail` the version of the engine and the
 * degrees are common, too. */
MeasuredGroup *measured_groups(const Measured *self, bool detail, Arena *arena);

/* Predictions of another tool for rows of the same ids, as CSV, gzipped or not: a column `id`, and
 * `ttft_ms` and `tpot_ms`, whose names may begin with `columns`; an empty cell is none. */
typedef struct MeasuredAgainst {
  const char *path, *columns; // columns: NULL: nothing
} MeasuredAgainst;

/* The points that both predict and nothing was fitted to, in one order: `theirs` has the other
 * tool's predictions in place of ours. Figures that one of them lacks are in neither. */
typedef struct MeasuredPair {
  Measured ours, theirs;
  size_t ours_alone, theirs_alone; // points that only one of them predicts
} MeasuredPair;

/* 0, or −1 with entries. */
int measured_pair(MeasuredPair *ret, const Measured *self, const MeasuredAgainst *against,
                  Arena *arena, Diag *diag);
/* The errors of both by group, of one machine, of split clusters and of all. */
void measured_print_pair(const MeasuredPair *self, OutputFormat format, Arena *arena, FILE *out);

/* The groups that have predictions as a table, and why points are missing. */
void measured_print_table(const Measured *self, bool detail, Arena *arena, FILE *out);
/* The same table for a README. */
void measured_print_markdown(const Measured *self, Arena *arena, FILE *out);
/* A row of each point. */
void measured_print_points(const Measured *self, OutputFormat format, FILE *out);
/* One page that needs nothing beside it. */
void measured_print_html(const Measured *self, Arena *arena, FILE *out);
#endif
