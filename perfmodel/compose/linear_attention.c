/* Linear attention and state spaces: a convolution over the last tokens and a scan that updates the
 * state of each sequence. Prompts take time by their tokens, decodes by their number. */
#include "perfmodel/compose/nearest.h"
#include <math.h>
#include <string.h>

/* ---- Products ---- */

/* What leads into it and its output. Decays and strengths of a head are a product of their own in
 * 16 bits; KDA's gates have two factors, the inner ones whole on each GPU. */
double layers_linear_products_us(const Layers *self, double tokens) {
  const Llm *llm = &self->llm;
  const int64_t gpus = self->setup.tensor_parallel_size;
  const int dtype = llm->attention_dtype;
  const double h = (double)llm->hidden_size;
  const double channels = llm_linear_channels(llm, gpus), values = llm_linear_values(llm, gpus);
  const double heads = (double)llm->linear_num_value_heads / (double)gpus;
  const double out = layers_product_us(self, dtype, tokens, h, values);
  if (llm->linear_attention == LLM_MAMBA2)
    return out + layers_product_us(self, dtype, tokens, channels + values + heads, h);
  if (llm->linear_attention == LLM_GDN)
    return out + layers_product_us(self, dtype, tokens, channels + values, h) +
           layers_product_us(self, DTYPE_BF16, tokens, 2 * heads, h);
  const double key = (double)llm->linear_key_head_dim, value = (double)llm->linear_value_head_dim;
  return out + layers_product_us(self, dtype, tokens, channels, h) +
         layers_product_us(self, DTYPE_BF16, tokens, key + value + heads, h) +
         layers_product_us(self, DTYPE_BF16, tokens, heads * key, key) +
         layers_product_us(self, DTYPE_BF16, tokens, values, value);
}

/* ---- Kernels ---- */

static double kernels_us(const LinearKernels *kernels, double batch, double tokens) {
  const double keys[] = {batch, tokens};
  const KernelSlice convolution = kernel_table_all(&kernels->convolution.table);
  return (convolution.n > 0 ? kernel_slice_eval(convolution, keys) : 0) +
         kernel_slice_eval(kernel_table_all(&kernels->scan.table), keys);
}

double layers_linear_prefill_us(const Layers *self, int64_t batch, int64_t isl) {
  const int64_t layers = self->llm.num_linear_layers;
  return layers > 0 ? (double)layers * kernels_us(&self->linear_prefill, (double)batch, (double)isl)
                    : 0;
}

double layers_linear_decode_us(const Layers *self, int64_t batch) {
  const int64_t layers = self->llm.num_linear_layers;
  return layers > 0 ? (double)layers * kernels_us(&self->linear_decode, (double)batch, 1) : 0;
}

/* ---- Rooflines, where no table has a kernel ---- */

typedef enum LinearPart { CONVOLUTION, SCAN } LinearPart;

/* A convolution reads and writes its numbers, of a decode those before, too. A decode reads and
 * writes its state. A scan goes by chunks of 64 tokens (2412.06464, 3.3): it reads and writes what
 * it is given and, twice, the state between chunks; it takes three launches. It is assumed
 * to reach 0.4 of the bandwidth and 0.15 of the tensor cores (layers.h has its errors). */
static double roofline_us(const Layers *self, LinearPart part, bool decodes, double batch,
                          double tokens) {
  static const double CHUNK = 64, REACHED = 0.5, REACHED_FLOPS = 0.15;
  const Llm *llm = &self->llm;
  const int64_t gpus = self->setup.tensor_parallel_size;
  const double channels = llm_linear_channels(llm, gpus), values = llm_linear_values(llm, gpus);
  const double state = llm_linear_state(llm) / (double)gpus, all = batch * tokens;
  const double bytes = (double)llm->dtype_bytes, kept = (double)llm->linear_conv_kernel_dim;
  if (part == CONVOLUTION)
    return layers_kernel_us(self, 2 * bytes * all * channels * (decodes ? kept : 1));
  if (decodes) return layers_kernel_us(self, 2 * LLM_STATE_BYTES * batch * state);
  const double moved = bytes * all * (channels + 2 * values) +
                       4 * bytes * state * batch * fmax(1, tokens / CHUNK) +
                       2 * LLM_STATE_BYTES * batch * state;
  const double widths = (double)(llm->linear_key_head_dim + llm->linear_value_head_dim);
  const double heads = (double)llm->linear_num_value_heads / (double)gpus;
  const double flops = 2 * all * (2 * CHUNK * widths * heads + 3 * state);
  const double computed = 1e6 * flops / (REACHED_FLOPS * (double)self->hardware.dense_bf16_flops);
  return 2 * layers_kernel_us(self, 0) +
         fmax(layers_kernel_us(self, moved / REACHED), layers_kernel_us(self, 0) + computed);
}

static void roofline_table(const Layers *self, KernelFound *found, LinearPart part, bool decodes) {
  enum { MOST = 1024, LONGEST = 1 << 17, MOST_TOKENS = 1 << 18 };
  *found = (KernelFound){.table = {.n_keys = 2}};
  for (int64_t batch = 1; batch <= MOST; batch *= 2)
    for (int64_t tokens = 1; tokens <= (decodes ? 1 : LONGEST); tokens *= 2) {
      if (batch * tokens > MOST_TOKENS) break;
      const KernelPoint point = {{batch, tokens},
                                 roofline_us(self, part, decodes, (double)batch, (double)tokens)};
      kernel_table_add(&found->table, &point, self->arena);
    }
  kernel_table_sort(&found->table);
}

/* ---- Tables ---- */

/* Of the engines' kernels in the table of a kind, by phase. */
static const struct {
  const char *table, *scans[2][KERNEL_CHOICES];
} KINDS[] = {
    [LLM_GDN] = {"gdn",
                 {{"chunk_gated_delta_rule", "chunk_gated_delta_rule_flashinfer",
                   "chunk_gated_delta_rule_triton"},
                  {"fused_recurrent_gated_delta_rule_packed_decode",
                   "fused_recurrent_gated_delta_rule", "flashinfer_gated_delta_rule_decode"}}},
    [LLM_KDA] = {"kda",
                 {{"flashkda_fwd", "chunk_kda", "chunk_kda_with_fused_gate"},
                  {"fused_recurrent_kda_packed_decode", "fused_recurrent_kda",
                   "fused_sigmoid_gating_delta_rule_update"}}},
    [LLM_MAMBA2] = {"mamba2", {{"mamba_chunk_scan_combined"}, {"selective_state_update"}}},
};
static const char *const CONVOLUTIONS[2][KERNEL_CHOICES] = {
    {"causal_conv1d_fn", "causal_conv1d_fn_qkv3"}, {"causal_conv1d_update"}};

static KernelQuery query_of(const Layers *self, const char *const *kernels, bool decodes) {
  const Llm *llm = &self->llm;
  const int64_t gpus = self->setup.tensor_parallel_size;
  const bool mamba = llm->linear_attention == LLM_MAMBA2;
  KernelQuery query = {
      .name = KINDS[llm->linear_attention].table,
      .filters = {{"phase", {decodes ? "generation" : "context"}},
                  {"kernel_source"},
                  {mamba ? "n_groups" : "num_k_heads", .number = llm->linear_num_key_heads / gpus},
                  {mamba ? "d_state" : "head_k_dim", .number = llm->linear_key_head_dim},
                  {mamba ? "nheads" : "num_v_heads", .number = llm->linear_num_value_heads / gpus},
                  {mamba ? "head_dim" : "head_v_dim", .number = llm->linear_value_head_dim}},
      .keys = {"batch_size", "seq_len"}};
  memcpy(query.filters[1].texts, kernels, sizeof query.filters[1].texts);
  return query;
}

static const char *const NAMES[2][2] = {
    {"convolution of prompts", "convolution of decodes"},
    {"linear attention of prompts", "linear attention of decodes"},
};

static void read_kernel(Layers *self, KernelFound *found, LinearPart part, bool decodes) {
  const char *const *kernels = part == CONVOLUTION
                                   ? CONVOLUTIONS[decodes]
                                   : KINDS[self->llm.linear_attention].scans[decodes];
  const KernelQuery query = query_of(self, kernels, decodes);
  Diag lacking;
  diag_init(&lacking);
  if (nearest_read(self, found, &query, NAMES[part][decodes], &lacking)) {
    roofline_table(self, found, part, decodes);
    nearest_note(self, found, NAMES[part][decodes], NULL, LAYERS_ROOFLINE_ERROR);
  }
  diag_done(&lacking);
  if (decodes) kernel_table_level(&found->table);
}

void layers_read_linear_attention(Layers *self) {
  if (self->llm.num_linear_layers == 0) return;
  for (int part = CONVOLUTION; part <= SCAN; part++)
    for (int decodes = 0; decodes < 2; decodes++) {
      LinearKernels *kernels = decodes ? &self->linear_decode : &self->linear_prefill;
      read_kernel(self, part == SCAN ? &kernels->scan : &kernels->convolution, (LinearPart)part,
                  decodes);
    }
}
