/* A profile: what was measured, where, and how well. The input of checking and fitting.
 *
 * One CSV. It begins with provenance, `# key: value` lines (machine, gpu, driver, library
 * versions, engine preset, date, commit, seed, digest of the plan, source), then one header row,
 * then one row per measured point. A row is an operator or a whole iteration at one batch,
 * described by the numbers of BatchShape, or one of the finer operators, described by its `size`;
 * rows with equal `configuration` are replicates of one another. A profile may hold several groups,
 * one per (model, gpu, tensor_parallel_size). Empty cells are missing values, never 0. Columns, in
 * this order, those in brackets optional:
 *
 *   model,gpu,tensor_parallel_size,op,mode,[cache],[busy],configuration,
 *   prefill_tokens,prefill_area2,decode_seqs,context_tokens,logit_seqs,[size],
 *   median_us,mad_us,p10_us,p90_us,samples,
 *   power_w,sm_clock_mhz,mem_clock_mhz,[least_sm_clock_mhz],[energy_j],[throttle],[rates],
 *   [algorithm],[attn_kernel],[flops],[bytes],roofline_fraction,stop */
#ifndef PERFMODEL_PROFILE_H
#define PERFMODEL_PROFILE_H
#include "perfmodel/perfmodel.h"
#include <stdio.h>

enum { PROFILE_MAX_ROWS = 1000 * 1000 };

/* What was timed. Operators finer than a term are carried and checked; of them only all-reduces are
 * fitted. */
typedef enum ProfileOp {
#define X(id, name, size) PROFILE_##id,
#include "perfmodel/operators.def"
#undef X
  PROFILE_OPS,
  PROFILE_TERMS = PROFILE_GEMM_QKV, // those before are terms
} ProfileOp;

/* "iteration", "linear", …: as in the file. */
const char *profile_op_name(ProfileOp op);

typedef struct ProfileRow {
  const char *model, *gpu;
  int32_t tensor_parallel_size;
  ProfileOp op;
  const char *mode;      // graph, queued, eager; "" unknown
  const char *cache;     // cold, hot: operands were in the cache; "" unknown
  int64_t busy;          // 1: decodes ran beside it on the same GPU
  int64_t configuration; // equal for replicates within a group
  BatchShape batch;
  int64_t size;     // of an operator finer than a term; 0: missing
  double median_us; // > 0
  double mad_us, p10_us, p90_us, power_w, sm_clock_mhz, mem_clock_mhz, flops, bytes,
      roofline_fraction;               // NAN: missing; power is that of one GPU
  double least_sm_clock_mhz, energy_j; // likewise; the least reading meanwhile, J of one run
  const char *throttle;                // reasons that the GPU gave, "none" of none; "" unknown
  const char *rates;                   // sustained: after seconds of nothing else; "" burst
  const char *algorithm;               // that a library chose; "" unknown
  const char *attn_kernel; // whose attention: tandem, cudnn 9.28.1 engine 3; "" unknown or none
  int64_t samples;         // 0: missing
  const char *stop;        // why sampling stopped; "" unknown
  Place at;
} ProfileRow;

typedef struct ProfileFact {
  const char *key, *value;
} ProfileFact;

typedef struct Profile {
  Arena *arena;
  const char *path;
  bool torn; // the file's last line was cut short, and is left out
  ProfileFact *facts;
  size_t n_facts, facts_capacity;
  ProfileRow *rows;
  size_t n_rows, rows_capacity;
} Profile;

/* What to say of a torn file. */
extern const char profile_torn_note[];

void profile_init(Profile *self, const char *path, Arena *arena);
/* Reads and validates a file: all problems located at once (missing or duplicate columns, not a
 * number, NaN, times that are not positive, more than a million rows, fewer than two points). */
int profile_load(Profile *self, const char *path, Arena *arena, Diag *diag);
/* The same from text; `name` stands for the path in messages. */
int profile_parse(Profile *self, const char *name, const char *text, size_t length, Arena *arena,
                  Diag *diag);
/* A row of nothing: texts empty, times missing. */
ProfileRow profile_row(const char *model, const char *gpu, int32_t tensor_parallel_size);
bool profile_is_sustained(const ProfileRow *row);
/* Adds a row; its strings are copied. */
void profile_add(Profile *self, const ProfileRow *row);
/* Numbers configurations: rows of the same operator and batch are replicates and get one number,
 * from 1 in the order in which the points first appear. */
void profile_number(Profile *self);
/* Sets a fact, replacing one of the same key; with '?' for what is not plain (base/text.h). */
void profile_set_fact(Profile *self, const char *key, const char *value);
/* A count as the value of a fact. */
void profile_count_fact(Profile *self, const char *key, int64_t count);
const char *profile_fact(const Profile *self, const char *key); // NULL if absent
/* Facts and header, and a row, as lines of a file that is written as it is measured. Texts must be
 * printable and without quotes; doubles are written so that reading gives them back. */
void profile_write_header(const Profile *self, FILE *out);
void profile_write_row(const ProfileRow *row, FILE *out);
/* Writes the file. An error before anything is written when a text could not be read back. */
int profile_save(const Profile *self, const char *path, Diag *diag);
/* 64-bit digest of the rows in order, whatever the facts. Empty cells of optional columns do not
 * enter it. */
uint64_t profile_digest(const Profile *self);

/* One (model, gpu, tensor_parallel_size) of a profile. */
typedef struct ProfileGroup {
  const char *model, *gpu;
  int32_t tensor_parallel_size;
  size_t n_rows;
} ProfileGroup;

/* The groups in order of first appearance. */
size_t profile_groups(const Profile *self, ProfileGroup **ret_groups, Arena *arena);
bool profile_in_group(const ProfileRow *row, const ProfileGroup *group);
#endif
