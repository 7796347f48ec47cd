/* What a performance model is loaded from, as one value. private: perfmodel.c */
#ifndef EXPERIMENTS_CONFIG_PERFMODEL_H
#define EXPERIMENTS_CONFIG_PERFMODEL_H
#include "experiments/config/config.h"

typedef struct PerfModelInputs {
#define INPUT(kind, type, name) type name;
#include "experiments/config/perfmodel_inputs.def"
#undef INPUT
} PerfModelInputs;

/* Equal when all inputs say the same, wherever they lie. */
uint64_t perfmodel_inputs_digest(const PerfModelInputs *self);
#endif
