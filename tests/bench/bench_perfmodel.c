/* What a performance model costs, and how far rooflines are from measurements. Prints figures and
 * judges nothing.
 *
 *     bench_perfmodel [EVALUATIONS]
 *
 *   1  nanoseconds and bytes of memory per evaluation of an iteration, for decode batches and for
 *      mixed ones, of a fitted model and of a roofline; and compiling a model
 *   2  the table "Summed kernels against measured engines" of perfmodel/README.md: the roofline
 *      under each preset beside published times */
#include "experiments/config/serving.h"
#include "perfmodel/finder.h"
#include "perfmodel/roofline.h"
#include "tests/roofline_seconds.h"
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

enum { N_BATCHES = 4096, MAX_SEQS = 256, ROUNDS = 5 };

static void fail(const Diag *diag) {
  diag_print(diag, stderr);
  exit(4);
}

static double now_ns(void) {
  struct timespec at;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
  return 1e9 * (double)at.tv_sec + (double)at.tv_nsec;
}

/* Draws that look like serving: up to 64 decodes, contexts up to 4096 each, chunks up to 2048. */
static void fill_batches(BatchShape *batches, bool mixed) {
  uint64_t state = 88172645463325252u;
  for (int i = 0; i < N_BATCHES; i++) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const int64_t n = 1 + (int64_t)(state % 64), each = 1 + (int64_t)((state >> 8) % 4096);
    const int64_t chunk = mixed ? 1 + (int64_t)((state >> 24) % 2048) : 0;
    const int64_t past = mixed ? (int64_t)((state >> 40) % 4096) : 0;
    batches[i] = (BatchShape){chunk, chunk * (2 * past + chunk), n, n * each, n + mixed};
  }
}

/* The least of several rounds, so that what else runs counts less. */
static double evaluation_ns(const PerfModel *model, const BatchShape *batches, int64_t evaluations,
                            Tick *sum) {
  double best = 1e300;
  for (int round = 0; round < ROUNDS; round++) {
    const double begin = now_ns();
    for (int64_t i = 0; i < evaluations; i++)
      *sum += perfmodel_iteration(model, &batches[i % N_BATCHES], NULL) & 1;
    const double ns = (now_ns() - begin) / (double)evaluations;
    if (ns < best) best = ns;
  }
  return best;
}

static void bench_model(const char *what, const PerfModel *model, int64_t evaluations,
                        const Arena *arena) {
  static BatchShape batches[N_BATCHES];
  const size_t held = arena->bytes;
  double ns[2];
  Tick sum = 0;
  for (int mixed = 0; mixed < 2; mixed++) {
    fill_batches(batches, mixed);
    ns[mixed] = evaluation_ns(model, batches, evaluations, &sum);
  }
  printf("%-9s %8.1f ns %8.1f ns %8.1fx %12zu B   (%" PRId64 ")\n", what, ns[0], ns[1],
         ns[1] / ns[0], arena->bytes - held, (int64_t)(sum & 7));
}

/* Published times, ms: see the table's text in perfmodel/README.md. */
static const struct {
  const char *machine, *gpu;
  int64_t prompt, decodes;
  double operators, engine;
} published[] = {
    {"dgx-h100", "H100", 512, 0, 32.1, 53.4},  {"dgx-h100", "H100", 1024, 0, 55.2, 77.9},
    {"dgx-h100", "H100", 2048, 0, 103, 136.8}, {"dgx-h100", "H100", 4096, 0, 192, 390},
    {"dgx-h100", "H100", 0, 1, 10.2, 29.8},    {"dgx-h100", "H100", 0, 8, 10.9, 32.5},
    {"dgx-h100", "H100", 0, 32, 13.3, 38.6},   {"dgx-h100", "H100", 0, 64, 13.2, 50.2},
    {"dgx-a100", "A100", 512, 0, 75, 94},      {"dgx-a100", "A100", 1024, 0, 132, 155},
    {"dgx-a100", "A100", 2048, 0, 254, 274},   {"dgx-a100", "A100", 4096, 0, 473, 661},
    {"dgx-a100", "A100", 0, 1, 16.8, 44.9},    {"dgx-a100", "A100", 0, 8, 17.8, 46.5},
    {"dgx-a100", "A100", 0, 32, 19.6, 53},     {"dgx-a100", "A100", 0, 64, 21.1, 71.6},
};

static double predict_ms(const Llm *llm, const char *machine, const char *preset_name,
                         const BatchShape *batch, const char *data, Arena *arena, Diag *diag) {
  const Place at = place_of_file("bench_perfmodel");
  Hardware hardware;
  Roofline roofline;
  if (hardware_load(&hardware, machine, data, at, arena, diag)) fail(diag);
  roofline_init(&roofline, llm, &hardware, (Parallelism){8, 1, 1, 1, 1},
                preset_find(preset_name, NULL), arena);
  return 1e3 * roofline_stage_seconds(&roofline, batch, true);
}

static void print_published(const Llm *llm, const char *data, Arena *arena, Diag *diag) {
  static const char *const presets[] = {"ideal", "graph-engine", "eager-2023"};
  printf("\n| GPU | batch | operators | engine | ratio | ideal | graph-engine | eager-2023 |\n"
         "|---|---|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
    const int64_t prompt = published[i].prompt, n = published[i].decodes;
    const BatchShape batch = {prompt, prompt * prompt, n, 512 * n, prompt > 0 ? 1 : n};
    printf("| %s | %s %" PRId64 " | %.1f | %.1f | %.2f", published[i].gpu,
           prompt > 0 ? "prefill" : "decode", prompt + n, published[i].operators,
           published[i].engine, published[i].engine / published[i].operators);
    for (int p = 0; p < 3; p++)
      printf(" | %.1f",
             predict_ms(llm, published[i].machine, presets[p], &batch, data, arena, diag));
    puts(" |");
  }
}

int main(int argc, char **argv) {
  const char *root = getenv("TANDEM_SOURCE_DIR");
  if (!root) root = ".";
  const int64_t evaluations = argc > 1 ? strtoll(argv[1], NULL, 10) : 10000000;
  const Place at = place_of_file("bench_perfmodel");
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  const char *data = arena_printf(&arena, "%s/perfmodel", root);
  Llm llm;
  Hardware hardware;
  PerfModel fitted, made;
  if (llm_load(&llm, "llama2-70b", data, at, &arena, &diag) ||
      hardware_load(&hardware, "dgx-h100", data, at, &arena, &diag) ||
      perfmodel_load_for(&fitted, "splitwise-2023", "llama2-70b", hardware.gpu, 8, MAX_SEQS, data,
                         at, &arena, &diag))
    fail(&diag);
  Roofline roofline;
  roofline_init(&roofline, &llm, &hardware, (Parallelism){8, 1, 1, 1, 1}, &preset_graph_engine,
                &arena);
  const double begin = now_ns();
  roofline_compile(&roofline, &made, MAX_SEQS, &arena);
  const double compile_us = (now_ns() - begin) / 1e3;
  printf("%-9s %11s %11s %9s %14s\n", "model", "decode", "mixed", "mixed/dec", "allocated");
  bench_model("fitted", &fitted, evaluations, &arena);
  bench_model("roofline", &made, evaluations, &arena);
  printf("compiling a roofline of %d rows: %.0f us, %d pieces\n", (int)MAX_SEQS, compile_us,
         (int)made.row_first[MAX_SEQS + 1]);
  print_published(&llm, data, &arena, &diag);
  diag_done(&diag);
  arena_done(&arena);
  return 0;
}
