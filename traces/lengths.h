/* Lengths of prompts and outputs: distributions, read from a configuration or a quantile table, and
 * drawn by inversion, so that any two can be coupled through their uniforms. */
#ifndef TRACES_LENGTHS_H
#define TRACES_LENGTHS_H
#include "base/option.h"
#include <stdint.h>

typedef enum LengthKind {
  LENGTH_TABLE, // quantiles, linear between them
  LENGTH_CONSTANT,
  LENGTH_UNIFORM, // whole numbers low … high, both included
  LENGTH_LOGNORMAL,
  LENGTH_EXPONENTIAL, // rounded up: geometric, mean as given; for queueing checks
} LengthKind;

typedef struct LengthDistribution {
  LengthKind kind;
  double mean, sigma;      // lognormal: mean of the length, sigma of its logarithm; constant: mean
  double low, high;        // uniform; for the others clamps (0: none)
  const double *quantiles; // [n_quantiles] at q = i/(n_quantiles - 1)
  int n_quantiles;         // at least 2
} LengthDistribution;

extern const OptionSpec length_options[]; // the kinds, of which a map has one
extern const OptionSpec length_lognormal_options[], length_exponential_options[];

/* Reads a quantile table: lines that start with '#', the header "q,prompt,output", and rows whose q
 * goes from 0 to 100 in equal steps. */
int lengths_load(const char *path, LengthDistribution *ret_prompt, LengthDistribution *ret_output,
                 Arena *arena, Diag *diag);
/* Binds `lengths:`: the name of a table in `data_dir`/traces/lengths/, the path of such a CSV
 * (relative to the working directory, or else to `config_dir`), or a map of two distributions. */
int lengths_bind(const Node *node, const char *data_dir, const char *config_dir,
                 LengthDistribution *ret_prompt, LengthDistribution *ret_output, Arena *arena,
                 Diag *diag);
/* Binds one distribution, such as {constant: 512}; of a table, its prompts. */
int length_bind(const Node *node, const char *data_dir, const char *config_dir,
                LengthDistribution *ret, Arena *arena, Diag *diag);
/* `path`, or `dir`/`path` when only that exists. */
const char *path_resolve(const char *path, const char *dir, Arena *arena);
/* The path of the table that a scalar names: one of `data_dir`/traces/FOLDER/, or a .csv beside
 * `config_dir`. NULL with "unknown WHAT" and the names there are. */
const char *table_resolve(const Node *node, const char *what, const char *folder,
                          const char *data_dir, const char *config_dir, Arena *arena, Diag *diag);
/* Which of `kinds` is the one key of a map; −1 with an entry and an example. */
int distribution_kind(const Node *node, const OptionSpec *kinds, const char *example, Diag *diag);

/* `u` in [0, 1] moved off the ends, where a quantile may be infinite. */
static inline double unit_open(double u) {
  return u < 0x1p-54 ? 0x1p-54 : u > 1 - 0x1p-53 ? 1 - 0x1p-53 : u;
}

/* A distribution ready to be drawn from. */
typedef struct LengthSampler {
  LengthDistribution of;
  double location, scale; // of the logarithm (lognormal); scale of the exponential
  double low, high;       // clamps that always hold, from 1 to TRACE_TOKENS_MAX
} LengthSampler;

void length_sampler_init(LengthSampler *self, const LengthDistribution *of);
/* The length at quantile u in [0, 1], a whole number of at least 1. */
int32_t length_at(const LengthSampler *self, double u);

/* A prompt and its output: independent, as SplitwiseSim draws them, or coupled by a Gaussian
 * copula, which bends the uniform of the output only, so that prompts are the same for every
 * correlation. */
typedef struct LengthPair {
  LengthSampler prompt, output;
  double pearson; // of the normals behind the copula
} LengthPair;

/* `spearman`: their rank correlation in (-1, 1). */
void length_pair_init(LengthPair *self, const LengthDistribution *prompt,
                      const LengthDistribution *output, double spearman);
void length_pair_at(const LengthPair *self, double u_prompt, double u_output, int32_t *ret_prompt,
                    int32_t *ret_output);
#endif
