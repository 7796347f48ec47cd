/* `python -m sglang.launch_server`, a command line for the instances of each pool. */
#include "experiments/plan/export.h"
#include "experiments/plan/quote.h"

static void print(const Export *self) {
  for (uint32_t i = 0; i < self->n_pools; i++) {
    Words words = {.arena = self->arena};
    export_arguments(self, &self->pools[i], FAMILY_SGLANG, &words);
    export_head(self, &self->pools[i]);
    export_shell(self,
                 arena_printf(self->arena, "python -m sglang.launch_server --model-path %s",
                              quote_shell(self->model, self->arena)),
                 &words);
  }
  if (self->split)
    fputs("# In front: python -m sglang_router.launch_router --pd-disaggregation, with --prefill "
          "URL\n# and --decode URL for each instance.\n",
          self->out);
}

const Exporter exporter_sglang = {.name = "sglang", .of = "SGLang 0.5", .print = print};
