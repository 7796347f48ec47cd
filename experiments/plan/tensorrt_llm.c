/* `trtllm-serve` and the YAML that each pool's --config (once --extra_llm_api_options) names. */
#include "experiments/plan/export.h"
#include "experiments/plan/quote.h"
#include <inttypes.h>
#include <string.h>

/* What has no flag. */
static const char *extra_of(const Export *self, const ExportPool *pool) {
  Arena *arena = self->arena;
  const char *extra = "";
  if (pool->attention > 1) extra = arena_printf(arena, "%senable_attention_dp: true\n", extra);
  if (pool->fp8_kv_cache) extra = arena_printf(arena, "%skv_cache_config:\n  dtype: fp8\n", extra);
  if (pool->mtp)
    extra = arena_printf(arena,
                         "%sspeculative_config:\n  decoding_type: MTP\n  num_nextn_predict_layers: "
                         "%" PRId64 "\n",
                         extra, pool->drafts);
  if (pool->role == ROLE_PREFILL)
    extra = arena_printf(arena, "%sdisable_overlap_scheduler: true\n", extra);
  if (self->split)
    extra = arena_printf(arena, "%scache_transceiver_config:\n  backend: NIXL\n", extra);
  return extra;
}

static void print(const Export *self) {
  if (self->quantized && strcmp(self->quantized, "fp8") == 0)
    fputs("# Load a checkpoint in fp8.\n", self->out);
  for (uint32_t i = 0; i < self->n_pools; i++) {
    const ExportPool *pool = &self->pools[i];
    const char *extra = extra_of(self, pool);
    const char *file = pool->role == ROLE_PREFILL  ? "prefill.yaml"
                       : pool->role == ROLE_DECODE ? "decode.yaml"
                                                   : "serve.yaml";
    Words words = {.arena = self->arena};
    export_arguments(self, pool, FAMILY_TRTLLM, &words);
    export_head(self, pool);
    if (*extra) {
      fprintf(self->out, "cat >%s <<'END'\n%sEND\n", file, extra);
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
