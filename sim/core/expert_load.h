/* How much of the tokens of a pool each expert gets, and what moves that over time.
 *
 * Each layer has a load for each of its experts, in parts of EXPERT_LOAD_ALL of the layer's tokens:
 * r^-exponent for the expert of rank r, ranks given out at random in each layer; or as a file has
 * them. Every drift_interval n_drifting experts of each layer, drawn at random, pass their loads on
 * in a ring, so that hot experts become cold ones and the other way round while the distribution
 * stays. Draws are from a stream of the pool alone. */
#ifndef SIM_CORE_EXPERT_LOAD_H
#define SIM_CORE_EXPERT_LOAD_H
#include "base/arena.h"
#include "base/rng.h"
#include "base/units.h"

enum { EXPERT_LOAD_ALL = 1 << 24 };

typedef struct ExpertLoadSpec {
  int32_t n_layers, n_experts;
  double exponent;        // of the power law; 0: equal loads
  const double *measured; // [n_measured · n_experts], layer after layer, in its place; NULL: none
  int32_t n_measured;     // layers of it, which are repeated
  Tick drift_interval;    // 0: they stay
  int32_t n_drifting;
} ExpertLoadSpec;

typedef struct ExpertLoad {
  const ExpertLoadSpec *spec;
  Rng rng;
  Tick next_drift; // TICK_MAX: never
  int64_t *loads;  // [n_layers · n_experts]
  int32_t *order;  // [n_experts]
} ExpertLoad;

void expert_load_init(ExpertLoad *self, const ExpertLoadSpec *spec, uint64_t seed,
                      const char *stream, Arena *arena);
/* Lets one interval pass. */
void expert_load_drift(ExpertLoad *self);
#endif
