/* A profile: what was measured, where, and how well. The input of checking and fitting.
 *
 * One CSV. It begins with provenance, `# key: value` lines (machine, gpu, driver, library
 * versions, engine preset, date, commit, seed, digest of the plan, source), then one header row,
 * then one row per measured point. A row is an operator or a whole iteration at one batch,
 * described by the numbers of DESIGN §4; rows with equal `configuration` are replicates of one
 * another. A profile may hold several groups, one per (model, gpu, tensor_parallel_size). Empty
 * cells are missing values, never 0. Columns, in this order:
 *
 *   model,gpu,tensor_parallel_size,op,mode,configuration,
 *   prefill_tokens,prefill_area2,decode_seqs,context_tokens,logit_seqs,
 *   median_us,mad_us,p10_us,p90_us,samples,
 *   power_w,sm_clock_mhz,mem_clock_mhz,roofline_fraction,stop */
#ifndef PERFMODEL_PROFILE_H
#define PERFMODEL_PROFILE_H
#include "perfmodel/perfmodel.h"
#include <stdio.h>

enum { PROFILE_MAX_ROWS = 1000 * 1000 };

/* What was timed. An operator's time is that of all layers of one tensor-parallel shard. */
typedef enum ProfileOp {
  PROFILE_ITERATION, // all of an iteration, as an engine runs it
  PROFILE_LINEAR,    // GEMMs, norms, activations and all-reduces
  PROFILE_PREFILL_ATTENTION,
  PROFILE_DECODE_ATTENTION,
  PROFILE_HEAD,
  PROFILE_OPS,
} ProfileOp;

/* "iteration", "linear", …: as in the file. */
const char *profile_op_name(ProfileOp op);

typedef struct ProfileRow {
  const char *model, *gpu;
  int32_t tensor_parallel_size;
  ProfileOp op;
  const char *mode;      // graph, eager; "" unknown
  int64_t configuration; // equal for replicates within a group
  BatchShape batch;
  double median_us; // > 0
  double mad_us, p10_us, p90_us, power_w, sm_clock_mhz, mem_clock_mhz,
      roofline_fraction; // NAN: missing; power is that of one GPU
  int64_t samples;       // 0: missing
  const char *stop;      // why sampling stopped; "" unknown
  Place at;
} ProfileRow;

typedef struct ProfileFact {
  const char *key, *value;
} ProfileFact;

typedef struct Profile {
  Arena *arena;
  const char *path;
  ProfileFact *facts;
  size_t n_facts, facts_capacity;
  ProfileRow *rows;
  size_t n_rows, rows_capacity;
} Profile;

void profile_init(Profile *self, const char *path, Arena *arena);
/* Reads and validates a file: all problems located at once (missing or duplicate columns, not a
 * number, NaN, times that are not positive, more than a million rows, fewer than two points). */
int profile_load(Profile *self, const char *path, Arena *arena, Diag *diag);
/* The same from text; `name` stands for the path in messages. */
int profile_parse(Profile *self, const char *name, const char *text, size_t length, Arena *arena,
                  Diag *diag);
/* Adds a row; its strings are copied. */
void profile_add(Profile *self, const ProfileRow *row);
/* Sets a fact, replacing one of the same key. */
void profile_set_fact(Profile *self, const char *key, const char *value);
const char *profile_fact(const Profile *self, const char *key); // NULL if absent
/* Writes the file; doubles so that reading gives them back. */
int profile_save(const Profile *self, const char *path, Diag *diag);
/* 64-bit digest of the rows in order, whatever the facts. */
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
