/* `vllm serve`, a command line for the instances of each pool. */
#include "experiments/plan/export.h"
#include "experiments/plan/quote.h"

static void print(const Export *self) {
  for (uint32_t i = 0; i < self->n_pools; i++) {
    Words words = {.arena = self->arena};
    export_arguments(self, &self->pools[i], FAMILY_VLLM, &words);
    export_head(self, &self->pools[i]);
    export_shell(self,
                 arena_printf(self->arena, "vllm serve %s", quote_shell(self->model, self->arena)),
                 &words);
  }
  if (self->split)
    fputs("# Each on its own VLLM_NIXL_SIDE_CHANNEL_HOST and _PORT, behind a proxy that sends a\n"
          "# request to one of each.\n",
          self->out);
}

const Exporter exporter_vllm = {.name = "vllm", .of = "vLLM 0.33", .print = print};
