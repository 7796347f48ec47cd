/* How far times that are taken from another GPU (perfmodel/compose/other_gpu.h) are from those that
 * were measured: the table "Another GPU" of perfmodel/README.md. Prints figures and judges nothing.
 *
 *     bench_other_gpu
 *
 * For pairs of GPUs that both have tables of an engine: all shipped models in their own format on
 * 1, 2, 4 and 8 GPUs; the median and the mean error in percent of each term at several sizes, and
 * of whole iterations: a prompt of 2,048 tokens, and 64 decodes with 1,024 tokens of context. */
#include "experiments/config/config.h"
#include "perfmodel/compose/other_gpu.h"
#include "perfmodel/datafile.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_ERRORS = 1 << 14 };
typedef enum Term { LINEAR, PROMPTS, DECODES, HEAD, ITERATIONS, TERMS } Term;

typedef struct Errors {
  double values[TERMS][MAX_ERRORS];
  int n[TERMS], setups;
} Errors;

typedef struct Pair {
  const char *from, *to; // machine types
  const char *from_engine, *to_engine;
} Pair;

static const Pair pairs[] = {
    {"dgx-h200", "dgx-h100", "vllm-0.24.0", "vllm-0.24.0"},
    {"dgx-h100", "dgx-h200", "vllm-0.24.0", "vllm-0.24.0"},
    {"dgx-h100", "dgx-h200", "sglang-0.5.14", "sglang-0.5.14"},
    {"dgx-b200", "dgx-b300", "vllm-0.24.0", "vllm-0.24.0"},
    {"gb200-nvl72", "gb300-nvl72", "vllm-0.24.0", "vllm-0.24.0"},
    {"dgx-h200", "dgx-b200", "vllm-0.24.0", "vllm-0.24.0"},
    {"dgx-b200", "dgx-h200", "vllm-0.24.0", "vllm-0.24.0"},
    {"dgx-a100", "dgx-h100", "vllm-0.14.0", "vllm-0.24.0"},
    {"dgx-h100", "dgx-a100", "vllm-0.24.0", "vllm-0.14.0"},
    {"l40s-x8", "rtx-pro-6000-x8", "vllm-0.24.0", "vllm-0.24.0"},
};
enum { N_PAIRS = sizeof pairs / sizeof *pairs };

/* The layers of a model on a machine, of the tables of `of`; whether there are all. */
static bool load(Layers *ret_layers, const char *model, const Hardware *machine, const Hardware *of,
                 const char *engine, int64_t tp, Arena *arena) {
  const char *root = arena_printf(arena, "%s/perfmodel", config_data_root());
  const LlmFormats formats = {LLM_UNSAID, LLM_UNSAID, LLM_UNSAID, LLM_UNSAID};
  Layers layers = {.hardware = *machine, .arena = arena, .at = place_of_file(model)};
  Diag unknown;
  diag_init(&unknown);
  setup_parse_folder(&layers.setup, engine, arena);
  layers.folder = arena_printf(arena, "%s/tables/%s/%s", root, of->gpu, engine);
  layers.setup.tensor_parallel_size = tp;
  bool good = llm_load_as(&layers.llm, model, &formats, root, layers.at, arena, &unknown) == 0;
  layers.setup.weight_dtype = good ? (int)llm_quantization(&layers.llm) : 0;
  layers.setup.kv_cache_dtype = layers.llm.kv_cache_dtype;
  good = good && layers_check_degrees(&layers, layers.at, &unknown) == 0 &&
         layers_load(&layers, &unknown) == 0;
  diag_done(&unknown);
  *ret_layers = layers;
  if (good && of != machine) other_gpu_scale(ret_layers, of);
  return good;
}

static void note(Errors *self, Term term, double us, double true_us) {
  if (self->n[term] < MAX_ERRORS) self->values[term][self->n[term]++] = fabs(us / true_us - 1);
}

static double iteration_us(const Layers *self, int64_t prompt, int64_t seqs) {
  enum { CONTEXT = 1024 };
  return layers_linear_us(self, prompt + seqs) + layers_head_us(self, seqs > 0 ? seqs : 1) +
         (seqs > 0 ? layers_decode_us(self, seqs, CONTEXT) : layers_prefill_us(self, 1, prompt, 0));
}

static void compare(Errors *self, const Layers *scaled, const Layers *own) {
  static const int64_t sizes[] = {1, 16, 64, 256, 1024, 4096};
  static const int64_t shapes[][2] = {{1, 256}, {1, 2048}, {4, 1024}, {1, 8192}, {16, 1024}};
  for (int i = 0; i < 6; i++)
    note(self, LINEAR, layers_linear_us(scaled, sizes[i]), layers_linear_us(own, sizes[i]));
  for (int i = 0; i < 4; i++)
    note(self, HEAD, layers_head_us(scaled, sizes[i]), layers_head_us(own, sizes[i]));
  for (int i = 0; i < 5; i++) {
    const int64_t batch = shapes[i][0], length = shapes[i][1];
    note(self, PROMPTS, layers_prefill_us(scaled, batch, length, 0),
         layers_prefill_us(own, batch, length, 0));
    note(self, DECODES, layers_decode_us(scaled, 8 * batch, length),
         layers_decode_us(own, 8 * batch, length));
  }
  note(self, ITERATIONS, iteration_us(scaled, 2048, 0), iteration_us(own, 2048, 0));
  note(self, ITERATIONS, iteration_us(scaled, 0, 64), iteration_us(own, 0, 64));
  self->setups++;
}

static int compare_reals(const void *a, const void *b) {
  const double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static void print_row(const char *name, const char *engine, Errors *self) {
  printf("| %s | %s | %d |", name, engine, self->setups);
  for (int t = 0; t < TERMS; t++) {
    double sum = 0;
    qsort(self->values[t], (size_t)self->n[t], sizeof **self->values, compare_reals);
    for (int i = 0; i < self->n[t]; i++)
      sum += self->values[t][i];
    printf(" %.1f / %.1f |", 100 * self->values[t][self->n[t] / 2], 100 * sum / self->n[t]);
  }
  putchar('\n');
}

static void bench(const Pair *pair, Arena *arena) {
  const char *root = arena_printf(arena, "%s/perfmodel", config_data_root());
  Errors *errors = ARENA_NEW(arena, Errors);
  Hardware from, to;
  Diag diag;
  diag_init(&diag);
  if (hardware_load(&from, pair->from, root, place_of_file(NULL), arena, &diag) ||
      hardware_load(&to, pair->to, root, place_of_file(NULL), arena, &diag))
    exit(4);
  diag_done(&diag);
  for (const char *const *model = datafile_names(root, "models", arena); *model; model++)
    for (int64_t tp = 1; tp <= 8; tp *= 2) {
      Arena scratch;
      arena_init(&scratch);
      Layers *scaled = ARENA_NEW(&scratch, Layers), *own = ARENA_NEW(&scratch, Layers);
      if (load(own, *model, &to, &to, pair->to_engine, tp, &scratch) &&
          load(scaled, *model, &to, &from, pair->from_engine, tp, &scratch))
        compare(errors, scaled, own);
      arena_done(&scratch);
    }
  if (errors->setups > 0)
    print_row(arena_printf(arena, "%s from %s", to.gpu, from.gpu), pair->to_engine, errors);
}

int main(void) {
  puts("| GPU | engine | setups | linear | prompts | decodes | head | iterations |\n"
       "|---|---|---|---|---|---|---|---|");
  for (int i = 0; i < N_PAIRS; i++) {
    Arena arena;
    arena_init(&arena);
    bench(&pairs[i], &arena);
    arena_done(&arena);
  }
  return 0;
}
