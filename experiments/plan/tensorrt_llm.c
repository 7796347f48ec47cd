/* `trtllm-serve` and the YAML that each pool's --config (once --extra_llm_api_options) names. */
#include "experiments/plan/export.h"
#include "experiments/plan/quote.h"
#include <inttypes.h>
#include <string.h>

static void set(const Export *self, Node *map, const char *key, const char *text) {
  const Place at = place_of_file("--export");
  const Node value = {.kind = NODE_SCALAR, .text = text, .at = at};
  Diag diag;
  diag_init(&diag);
  node_set(map, key, at, &value, self->arena, &diag);
  diag_done(&diag);
}

/* What has no flag. */
static Node *extra_of(const Export *self, const ExportPool *pool) {
  Node *map = ARENA_NEW(self->arena, Node);
  *map = (Node){.kind = NODE_MAP};
  if (pool->attention > 1) set(self, map, "enable_attention_dp", "true");
  if (pool->fp8_kv_cache) set(self, map, "kv_cache_config.dtype", "fp8");
  export_given_keys(self, pool, map);
  if (pool->mtp) {
    set(self, map, "speculative_config.decoding_type", "MTP");
    set(self, map, "speculative_config.num_nextn_predict_layers",
        arena_printf(self->arena, "%" PRId64, pool->drafts));
  }
  if (pool->role == ROLE_PREFILL) set(self, map, "disable_overlap_scheduler", "true");
  if (self->split) set(self, map, "cache_transceiver_config.backend", "NIXL");
  return map;
}

static void print(const Export *self) {
  if (self->quantized && strcmp(self->quantized, "fp8") == 0)
    fputs("# Load a checkpoint in fp8.\n", self->out);
  for (uint32_t i = 0; i < self->n_pools; i++) {
    const ExportPool *pool = &self->pools[i];
    const Node *extra = extra_of(self, pool);
    const char *file = pool->role == ROLE_PREFILL  ? "prefill.yaml"
                       : pool->role == ROLE_DECODE ? "decode.yaml"
                                                   : "serve.yaml";
    Words words = {.arena = self->arena};
    export_arguments(self, pool, FAMILY_TRTLLM, &words);
    export_head(self, pool);
    if (extra->n_children > 0) {
      fprintf(self->out, "cat >%s <<'END'\n", file);
      plan_print_block(extra, 0, self->out, self->arena);
      fputs("END\n", self->out);
      words_add(&words, "--config", "%s", file);
    }
    export_shell(
        self, arena_printf(self->arena, "trtllm-serve %s", quote_shell(self->model, self->arena)),
        &words);
  }
  if (self->split)
    fputs("# In front: trtllm-serve disaggregated -c FILE, with the URLs of context_servers and\n"
          "# generation_servers.\n",
          self->out);
}

const Exporter exporter_tensorrt_llm = {
    .name = "tensorrt-llm", .of = "TensorRT-LLM 1.3", .print = print};
