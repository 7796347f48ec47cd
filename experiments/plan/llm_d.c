/* llm-d: patches of the Deployments in its recipes for Kustomize, guides/recipes/modelserver, which
 * took the place of the ModelService chart in 0.7. A pool that does both phases is `decode` there,
 * too. */
#include "experiments/plan/export.h"
#include "experiments/plan/quote.h"
#include <inttypes.h>

static void print_pool(const Export *self, const ExportPool *pool) {
  Words words = {.arena = self->arena};
  words_add(&words, self->model, NULL);
  export_arguments(self, pool, FAMILY_VLLM, &words);
  if (self->split && pool->role == ROLE_DECODE)
    words_add(&words, "--port=8200", NULL); // its sidecar's
  fprintf(self->out,
          "---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: %s\nspec:\n"
          "  replicas: %" PRId64 "\n  template:\n    spec:\n      containers:\n"
          "        - name: modelserver\n          command: [\"vllm\", \"serve\"]\n"
          "          args:\n",
          pool->role == ROLE_PREFILL ? "prefill" : "decode", pool->instances);
  export_list(self, 12, &words);
  if (self->split)
    fputs("          env:\n            - name: VLLM_NIXL_SIDE_CHANNEL_HOST\n"
          "              valueFrom:\n                fieldRef:\n"
          "                  fieldPath: status.podIP\n",
          self->out);
  fprintf(self->out,
          "          resources:\n            limits:\n              nvidia.com/gpu: \"%" PRId64
          "\"\n            requests:\n              nvidia.com/gpu: \"%" PRId64 "\"\n",
          pool->gpus, pool->gpus);
}

static void print(const Export *self) {
  fprintf(self->out, "# Patches for a kustomization on %s.\n",
          self->split ? "guides/recipes/modelserver/base/single-host/pd/vllm"
                      : "guides/recipes/modelserver/base/single-host/default");
  for (uint32_t i = 0; i < self->n_pools; i++)
    print_pool(self, &self->pools[i]);
}

const Exporter exporter_llm_d = {.name = "llm-d", .of = "llm-d 0.7 with vLLM 0.33", .print = print};
