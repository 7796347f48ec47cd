/* Layers of a model as an engine runs them, of AIConfigurator's tables: which products, of which
 * shape on one GPU, with which kernels and all-reduces beside them.
 *
 * With attention data parallelism D, attention and its products are of T/D of the T tokens, experts
 * of all of them. Times are microseconds of all layers of one GPU. */
#ifndef PERFMODEL_IMPORT_AIC_LAYERS_H
#define PERFMODEL_IMPORT_AIC_LAYERS_H
#include "perfmodel/hardware.h"
#include "perfmodel/import/aic_engine.h"
#include "perfmodel/import/aic_read.h"
#include "perfmodel/setup.h"

enum { AIC_SOURCES = 8 }; // engines whose tables have the same product

typedef struct AicProducts {
  AicFound found[AIC_SOURCES]; // over n, k, m; the first is the engine's own
  int n;
} AicProducts;

typedef struct AicLayers {
  // filled by the caller
  const char *folder;
  Llm llm;
  Hardware hardware;
  PerfSetup setup;
  const AicEngine *engine;
  Arena *arena;
  // by aic_layers_load
  AicProducts products[DTYPE_COUNT]; // by format of the weights
  AicFound prefill;                  // over batch_size, isl, step; of latent attention without step
  AicFound decode;                   // over batch_size, step
  AicFound all_reduce, nccl;         // over message_size; not read where none is called
  AicFound gather, scatter;          // of tokens to experts and back: over message_size
  AicFound experts;                  // over num_tokens
  AicFound split, whole;             // where it has whole experts only: another's, shared or not
  bool modules;                      // latent attention was timed with its products
  AicFound absorb, expand;           // where not, the products with its keys' factor: num_tokens
} AicLayers;

/* Reads the tables that the setup needs. 0, or −1 with entries for all that is lacking. */
int aic_layers_load(AicLayers *self, Diag *diag);
/* All products, kernels and all-reduces for `tokens` new tokens, but attention and the head. */
double aic_linear_us(const AicLayers *self, int64_t tokens);
/* Logits of `seqs` sequences of one group, and drawing from them. */
double aic_head_us(const AicLayers *self, int64_t seqs);
/* Attention of `batch` prompts of `isl` tokens, or of one token each with `context`, on one GPU. */
double aic_prefill_us(const AicLayers *self, int64_t batch, int64_t isl, int64_t past);
int64_t aic_context_of(const AicLayers *self, int64_t step); // of a row of the decode table
double aic_decode_us(const AicLayers *self, int64_t batch, int64_t context);

/* What one GPU holds of attention: query heads, and key-value heads, of which there is at least
 * one. */
int64_t aic_heads(const AicLayers *self);
int64_t aic_kv_heads(const AicLayers *self);
/* GPUs that hold the experts together, and how many share one. */
int64_t aic_expert_gpus(const AicLayers *self);
int64_t aic_expert_shares(const AicLayers *self);
/* [m, k] x [k, n] with weights of a format. */
double aic_product_us(const AicLayers *self, int dtype, double m, double n, double k);
/* One that is bound by memory. */
double aic_kernel_us(const AicLayers *self, double bytes);
/* Products of latent attention, of one layer. */
double aic_latent_products_us(const AicLayers *self, double tokens);
/* A table over one key; 0 of one that was not read. */
double aic_curve_us(const AicFound *found, double key);
#endif
