/* Layers of a model as an engine runs them, of tables of kernels: which products, of which
 * shape on one GPU, with which kernels and all-reduces beside them.
 *
 * With attention data parallelism D, attention and its products are of T/D of the T tokens, experts
 * of all of them. Times are microseconds of all layers of one GPU. */
#ifndef PERFMODEL_COMPOSE_LAYERS_H
#define PERFMODEL_COMPOSE_LAYERS_H
#include "perfmodel/compose/engine_rules.h"
#include "perfmodel/compose/kernel_read.h"
#include "perfmodel/hardware.h"
#include "perfmodel/profile.h"
#include "perfmodel/term_errors.h"

enum { LAYER_SOURCES = 8 }; // engines whose tables have the same product

typedef struct LayerProducts {
  KernelFound found[LAYER_SOURCES]; // over n, k, m; the first is the engine's own
  int n;
} LayerProducts;

/* A table that is not the engine's own, or not of what was asked for. */
typedef struct Borrowed {
  KernelFound *found; // NULL: all of them
  const char *what;   // experts
  const char *from;   // vllm-0.24.0
  double error;       // that this adds to its times, a fraction
} Borrowed;

/* The error of a roofline that stands in for a kernel of linear attention. Its mean error on Gated
 * DeltaNet of SGLang and TensorRT-LLM on H100 and H200, kernels in Triton: scans of prompts 38%, of
 * decodes 21%; convolutions 40% and 60%. */
static const double LAYERS_ROOFLINE_ERROR = 0.40;

/* Linear attention of prompts or of decodes: over batch_size, seq_len. */
typedef struct LinearKernels {
  KernelFound convolution, scan;
} LinearKernels;

/* Whole experts over several machines, by DeepEP: its kernels for decodes, beside experts in a
 * graph that wait for the most tokens there can be, or those for prompts. */
typedef enum WideMode { WIDE_DECODES, WIDE_PROMPTS, WIDE_MODES } WideMode;

typedef struct WideExperts {
  KernelFound dispatch, combine; // over tokens of one GPU
  KernelFound experts;           // over tokens of all
  double scale;                  // bytes of a token over those of the tables'
} WideExperts;

typedef struct Layers {
  // filled by the caller
  const char *folder; // of the engine's tables; those of others are beside it
  Llm llm;
  Hardware hardware;
  PerfSetup setup;
  Place at;     // of what asks for it
  bool alone;   // without all-reduces, as one GPU of several was measured
  Cache *cache; // of rows of tables; NULL: they are read anew
  Arena *arena;
  // by layers_load; tables of another GPU are scaled in other_gpu.c, each by what its kernel does
  const EngineRules *engine;
  LayerProducts products[DTYPE_COUNT]; // by format of the weights
  KernelFound linear, head; // of all of a layer and of the head, where those were measured: over
                            // num_tokens
  KernelFound prefill;      // over batch_size, step, isl; of latent attention without step
  KernelFound decode;       // over batch_size, step
  KernelFound window_prefill, window_decode; // the same of layers with a sliding window, if any
  KernelFound all_reduce, nccl;              // over message_size; not read where none is called
  KernelFound gather, scatter;               // of tokens to experts and back: over message_size
  KernelFound prepare, dispatch, combine;    // the same in place of these: over num_tokens, or,
                                             // without `prepare`, over message_size
  KernelFound experts;                       // over num_tokens
  WideExperts wide[WIDE_MODES];              // in place of both, where they lie on machines,
  int64_t wide_decodes;                      // up to so many tokens of one GPU by those of decodes
  KernelFound split, whole; // where it has whole experts only: another's, shared or not
  LinearKernels linear_prefill, linear_decode; // where layers have linear attention
  KernelFound shared_prefill, shared_decode;   // of layers that share the index of another, or
                                               // have none where others have
  KernelFound streams[2]; // mixed before and after attention and MLP of a layer: over num_tokens
  bool modules;           // attention was timed with its products
  KernelFound absorb, expand; // where not, the products with its keys' factor: num_tokens
  Borrowed *borrowed;
  size_t n_borrowed, borrowed_capacity;
} Layers;

/* Degrees that are not said are 1. An error at `at` where the model cannot be split so. */
int layers_check_degrees(Layers *self, Place at, Diag *diag);
/* Finds the engine's rules and reads the tables that the setup needs. What the engine's own folder
 * lacks is borrowed from another beside it. 0, or −1 with entries for all that is lacking. */
int layers_load(Layers *self, Diag *diag);
/* All products, kernels and all-reduces for `tokens` new tokens, but attention and the head. */
double layers_linear_us(const Layers *self, int64_t tokens);
/* Routed experts of one layer with what is sent over machines, for `tokens` of each GPU. */
double layers_wide_us(const Layers *self, WideMode mode, double tokens);
/* Routed experts over machines of all layers, without what is sent, for the tokens of all GPUs. */
double layers_routed_us(const Layers *self, int64_t tokens);
/* Logits of `seqs` sequences of one group, and drawing from them. */
double layers_head_us(const Layers *self, int64_t seqs);
/* Whether only single prompts were measured. Several take at most as long as one after the other,
 * and as one with as many tokens as they have together: the lesser of both. */
bool layers_single_prompts(const Layers *self);
/* Attention of `batch` prompts of `isl` tokens, or of one token each with `context`, on one GPU. */
double layers_prefill_us(const Layers *self, int64_t batch, int64_t isl, int64_t past);
int64_t layers_context_of(const Layers *self, int64_t step); // of a row of the decode table
double layers_decode_us(const Layers *self, int64_t batch, int64_t context);
/* Of these, layers with linear attention. */
double layers_linear_prefill_us(const Layers *self, int64_t batch, int64_t isl);
double layers_linear_decode_us(const Layers *self, int64_t batch);

/* Adds to an empty profile what the layers take, and as facts what they are of and what is assumed.
 * Linear rows are at every number of tokens that products were measured at, attention rows at every
 * batch of the tables for the heads of one GPU. With attention data parallelism D a row is of D
 * groups that do the same; fewer sequences than groups take the time of one each. */
void layers_profile(const Layers *self, Profile *profile);

/* Two iterations that shares are of: a prompt of 2,048 tokens; 64 decodes with 1,024 tokens of
 * context each. */
enum { LAYERS_PROMPT, LAYERS_DECODES, LAYER_BATCHES };

/* Microseconds of their terms. */
typedef struct LayerTimes {
  double us[LAYER_BATCHES][PERF_TERMS];
} LayerTimes;

LayerTimes layers_times(Layers *self);
/* The part of it that is of one table; of all tables: NULL. */
LayerTimes layers_times_of(Layers *self, KernelFound *found);
/* The larger share that a part has of one of the two. */
double layers_share(const LayerTimes *part, const LayerTimes *all);
/* What of layers_linear_us GPUs exchange, by these tables; NULL-terminated. */
enum { EXCHANGES = 8 };
void layers_exchanges(Layers *self, KernelFound *ret_found[EXCHANGES + 1]);
double layers_exchange_us(Layers *self, int64_t tokens);

/* What one GPU holds of attention: query heads, and key-value heads, of which there is at least
 * one. */
int64_t layers_heads(const Layers *self);
int64_t layers_kv_heads(const Layers *self);
/* GPUs that hold the experts together, and how many share one. */
int64_t layers_expert_gpus(const Layers *self);
int64_t layers_expert_shares(const Layers *self);
/* Machines that a tensor group lies on, and all GPUs of the experts. */
int64_t layers_tensor_nodes(const Layers *self);
int64_t layers_expert_nodes(const Layers *self);
/* Whether tokens go to the GPUs of their experts alone, and are not gathered from all. */
bool layers_exchange(const Layers *self);
/* [m, k] x [k, n] with weights of a format. */
double layers_product_us(const Layers *self, int dtype, double m, double n, double k);
/* One that is bound by memory. */
double layers_kernel_us(const Layers *self, double bytes);
/* Attention of plain heads that reads a part of the context: DeepSeek-V4, MiniMax-M3. */
bool layers_sparse_modules(const Llm *llm);
/* Whether the tables of attention have what moves queries and keys. */
static inline bool layers_moves_inside(const Layers *self) {
  return llm_latent(&self->llm) || layers_sparse_modules(&self->llm);
}
/* Products of latent attention, of its index of sparse attention and of linear attention, of one
 * layer. */
double layers_latent_products_us(const Layers *self, double tokens);
double layers_index_products_us(const Layers *self, double tokens);
double layers_linear_products_us(const Layers *self, double tokens);
/* Attention of plain heads that reads a part of the context. */
/* Its products in a layer with an index or without; attention of all layers. */
double layers_sparse_products_us(const Layers *self, double tokens, bool index);
double layers_sparse_prefill_us(const Layers *self, double batch, double past, double isl);
double layers_sparse_decode_us(const Layers *self, double batch, double step);
/* By formats of the KV cache and of products. 0, or −1 with entries. */
int layers_read_sparse_modules(Layers *self, const char *kv, const char *products, Diag *diag);
/* Linear attention: a roofline stands in for what no table has. */
void layers_read_linear_attention(Layers *self);
/* A table over one key becomes that share of it, and the rest of another. */
void layers_mix(KernelFound *self, const KernelFound *other, double share);
/* A table over one key; 0 of one that was not read. */
double layers_curve_us(const KernelFound *found, double key);
#endif
