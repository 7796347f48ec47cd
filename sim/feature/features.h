/* The features of a run (core/feature.h): which it has, their state, and who is called when. */
#ifndef SIM_FEATURE_FEATURES_H
#define SIM_FEATURE_FEATURES_H
#include "sim/core/state.h"

enum {
#define FEATURE(name) FEATURE_##name,
#include "sim/feature/features.def"
#undef FEATURE
  FEATURES
};

#define FEATURE(name) extern const Feature feature_##name;
#include "sim/feature/features.def"
#undef FEATURE

/* Finds those that the run has, gives them their state and has them listen, then prepares them. */
void features_prepare(Simulation *self);
void features_start(Simulation *self);
#endif
