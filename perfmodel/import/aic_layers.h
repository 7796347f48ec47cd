/* Layers of a model as an engine runs them, of AIConfigurator's tables: which products, of which
 * shape on one GPU, with which kernels and all-reduces beside them.
 *
 * Tables are read once each, when the first layer needs them. Times are microseconds of all layers
 * of one GPU. */
#ifndef PERFMODEL_IMPORT_AIC_LAYERS_H
#define PERFMODEL_IMPORT_AIC_LAYERS_H
#include "perfmodel/hardware.h"
#include "perfmodel/import/aic_read.h"
#include "perfmodel/setup.h"

/* A row of aic_engines.def. */
typedef struct AicEngine {
  const char *name, *all_reduce;
  double launch_us;
  bool quantizes;
} AicEngine;

/* By name, NULL if there is none; the names, NULL-terminated. */
const AicEngine *aic_engine_find(const char *name);
extern const char *const aic_engine_names[];

typedef struct AicLayers {
  const char *folder;
  Llm llm;
  Hardware hardware;
  PerfSetup setup;
  const AicEngine *engine;
  AicFound products[DTYPE_COUNT]; // by format of the weights: over n, k, m
  AicFound prefill;               // over batch_size, isl, step
  AicFound decode;                // over batch_size, step
  AicFound all_reduce;            // over message_size; empty on one GPU
  Arena *arena;
} AicLayers;

/* Reads the tables that the setup needs; the rest of `self` is filled by the caller. 0, or −1 with
 * entries for all that is lacking. */
int aic_layers_load(AicLayers *self, Diag *diag);
/* All products, kernels and all-reduces for `tokens` new tokens, but attention and the head. */
double aic_linear_us(const AicLayers *self, int64_t tokens);
/* Logits of `seqs` sequences, and drawing from them. */
double aic_head_us(const AicLayers *self, int64_t seqs);
/* Attention of `batch` prompts of `isl` tokens, or of one token each behind `step` others, on one
 * GPU. */
double aic_prefill_us(const AicLayers *self, int64_t batch, int64_t isl, int64_t step);
double aic_decode_us(const AicLayers *self, int64_t batch, int64_t step);
/* As the tables call a format; NULL: they have none. */
const char *aic_dtype_name(int dtype);
#endif
