/* NVIDIA Dynamo: a DynamoGraphDeployment (nvidia.com/v1beta1), as in examples/backends/.../v1beta1
 * there, on the engine that the times are of. */
#include "experiments/plan/export.h"
#include "experiments/plan/quote.h"
#include <inttypes.h>
#include <string.h>

static const struct {
  const char *module, *image, *model_flag;
} backends[FAMILIES] = {
    [FAMILY_VLLM] = {"dynamo.vllm", "vllm-runtime", "--model"},
    [FAMILY_SGLANG] = {"dynamo.sglang", "sglang-runtime", "--model-path"},
    [FAMILY_TRTLLM] = {"dynamo.trtllm", "tensorrtllm-runtime", "--model-path"},
};
static const char VERSION[] = "1.3.1";

/* Its worker for TensorRT-LLM has flags of its own: components/src/dynamo/trtllm/backend_args.py */
static void trtllm_worker(const ExportPool *pool, Words *words) {
  words_count(words, "--tensor-parallel-size", pool->tensor * pool->attention);
  words_count(words, "--pipeline-parallel-size", pool->pipeline);
  if (pool->expert > 1) words_count(words, "--expert-parallel-size", pool->expert);
  words_count(words, "--max-num-tokens", pool->batched_tokens);
  words_count(words, "--max-batch-size", pool->seqs);
  if (pool->attention > 1) words_add(words, "--enable-attention-dp", NULL);
  words_add(words, "--free-gpu-memory-fraction", "%g", pool->gpu_memory_utilization);
  const char *drafts = pool->mtp
                           ? arena_printf(words->arena,
                                          "\"speculative_config\": {\"decoding_type\": \"MTP\", "
                                          "\"num_nextn_predict_layers\": %" PRId64 "}",
                                          pool->drafts)
                           : "";
  if (pool->fp8_kv_cache || pool->mtp)
    words_add(words, "--override-engine-args", "{%s%s%s}",
              pool->fp8_kv_cache ? "\"kv_cache_config\": {\"dtype\": \"fp8\"}" : "",
              pool->fp8_kv_cache && pool->mtp ? ", " : "", drafts);
}

static void worker_arguments(const Export *self, const ExportPool *pool, Words *words) {
  words_add(words, backends[self->family].model_flag, "%s", self->model);
  if (self->family == FAMILY_TRTLLM)
    trtllm_worker(pool, words);
  else
    export_arguments(self, pool, self->family, words);
  if (self->split && self->family != FAMILY_SGLANG) // whose own flag it is
    words_add(words, "--disaggregation-mode", "%s",
              pool->role == ROLE_PREFILL ? "prefill" : "decode");
}

static void print_image(const Export *self) {
  fprintf(self->out, "              image: nvcr.io/nvidia/ai-dynamo/%s:%s\n",
          backends[self->family].image, VERSION);
}

static void print_pool(const Export *self, const ExportPool *pool) {
  const char *type = pool->role == ROLE_PREFILL  ? "prefill"
                     : pool->role == ROLE_DECODE ? "decode"
                                                 : "worker";
  Words words = {.arena = self->arena};
  worker_arguments(self, pool, &words);
  fprintf(self->out,
          "    - name: %s\n      type: %s\n      replicas: %" PRId64
          "\n      podTemplate:\n        spec:\n          containers:\n            - name: main\n",
          type, type, pool->instances);
  print_image(self);
  fprintf(self->out, "              command: [\"python3\", \"-m\", \"%s\"]\n              args:\n",
          backends[self->family].module);
  export_list(self, 16, &words);
  fprintf(self->out,
          "              resources:\n                limits:\n"
          "                  nvidia.com/gpu: \"%" PRId64 "\"\n",
          pool->gpus);
}

static void print(const Export *self) {
  fprintf(self->out,
          "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata:\n  name: %s\n"
          "spec:\n  components:\n    - name: Frontend\n      type: frontend\n      replicas: 1\n"
          "      podTemplate:\n        spec:\n          containers:\n            - name: main\n",
          export_label(self));
  print_image(self);
  for (uint32_t i = 0; i < self->n_pools; i++)
    print_pool(self, &self->pools[i]);
}

const Exporter exporter_dynamo = {.name = "dynamo", .of = "Dynamo 1.3", .print = print};
