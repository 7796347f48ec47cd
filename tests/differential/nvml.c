/* Power by batch against what NVML read on an H100 while whole iterations ran (`tandem calibrate`).
 *
 *     differential_nvml DATA_DIR MODEL_DIR
 *
 * DATA_DIR holds profiles/h100/; without it the test is skipped (77). No constant of the model is
 * from these readings but the share of an idle GPU. A reading is of some 100 ms, of which the point
 * before has a part: single ones of equal batches lie 323 to 666 W apart, so means of kinds of
 * batches are judged, within 30%, and the distance of single readings is printed. */
#include "perfmodel/hardware.h"
#include "perfmodel/llm.h"
#include "perfmodel/power.h"
#include "perfmodel/presets.h"
#include "perfmodel/profile.h"
#include "perfmodel/roofline.h"
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

enum { SKIP = 77, MOST_SEQS = 4096 };

typedef enum Kind { PROMPTS, SHORT_PROMPTS, DECODES, BOTH, KINDS } Kind;

static const char *const kinds[KINDS] = {"prompts of 512 tokens or more", "shorter prompts",
                                         "decodes", "prompts and decodes"};

typedef struct Sum {
  double read, said, apart;
  int n;
} Sum;

static Kind kind_of(const BatchShape *batch) {
  if (batch->prefill_tokens == 0) return DECODES;
  if (batch->decode_seqs > 0) return BOTH;
  return batch->prefill_tokens >= 512 ? PROMPTS : SHORT_PROMPTS;
}

static void compare(const Profile *profile, const PerfModel *model, double limit, Sum *sums) {
  for (size_t i = 0; i < profile->n_rows; i++) {
    const ProfileRow *row = &profile->rows[i];
    if (row->op != PROFILE_ITERATION || isnan(row->power_w) || row->busy) continue;
    Sum *sum = &sums[kind_of(&row->batch)];
    const double said = 1e-3 * (double)power_of_iteration(model, &row->batch, NULL);
    const double read = fmin(row->power_w, limit); // more than that is a peak, not a mean
    sum->read += read;
    sum->said += said;
    sum->apart += fabs(said / read - 1);
    sum->n++;
  }
}

static int add_file(const char *path, const char *name, int64_t tp, int64_t memory_share,
                    const char *root, Sum *sums, Arena *arena, Diag *diag) {
  const Place at = place_of_file("test");
  Llm llm;
  Hardware hardware;
  Profile profile;
  Roofline roofline;
  PerfModel *model = ARENA_NEW(arena, PerfModel);
  PowerModel *power = ARENA_NEW(arena, PowerModel);
  if (llm_load(&llm, name, root, at, arena, diag) ||
      hardware_load(&hardware, "dgx-h100", root, at, arena, diag) ||
      profile_load(&profile, path, arena, diag))
    return -1;
  roofline_init(&roofline, &llm, &hardware, (Parallelism){tp, 1, 1, 1, 1}, &preset_ideal, arena);
  roofline_compile(&roofline, model, MOST_SEQS, arena);
  const double memory =
      memory_share > 0 ? POWER_MEMORY_SHARE * hardware.gpu_tdp : power_memory_watts(&hardware);
  power_by_batch(power, model, hardware.gpu_tdp, memory);
  model->power = power;
  compare(&profile, model, hardware.gpu_tdp, sums);
  return 0;
}

/* Whether all means are near. */
static bool print(const Sum *sums, const char *what, double tolerance) {
  Sum all = {0};
  bool good = true;
  printf("%s\n", what);
  for (int k = 0; k < KINDS; k++) {
    const Sum *sum = &sums[k];
    const double error = sum->said / sum->read - 1;
    printf("  %-30s %4d readings, mean %3.0f W, by batch %3.0f W (%+.0f%%), single ones %.0f%%\n",
           kinds[k], sum->n, sum->read / sum->n, sum->said / sum->n, 100 * error,
           100 * sum->apart / sum->n);
    good &= fabs(error) <= tolerance && sum->n > 0;
    all.apart += sum->apart;
    all.n += sum->n;
  }
  printf("  single readings are %.1f%% off in the mean\n", 100 * all.apart / all.n);
  return good;
}

int main(int argc, char **argv) {
  static const struct {
    const char *file, *model;
    int64_t tp;
  } files[] = {{"llama3-8b-tp1", "llama3-8b", 1},
               {"llama2-70b-tp8", "llama2-70b", 8},
               {"llama2-70b-tp4", "llama2-70b", 4},
               {"bloom-176b-tp8", "bloom-176b", 8},
               {"qwen3-32b-tp2", "qwen3-32b", 2}};
  struct stat info;
  Arena arena;
  Diag diag;
  Sum sums[2][KINDS] = {{{0}}};
  if (argc < 3) return 2;
  arena_init(&arena);
  diag_init(&diag);
  if (stat(arena_printf(&arena, "%s/profiles/h100", argv[1]), &info)) return SKIP;
  int status = 0;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    for (int share = 0; share < 2 && !status; share++)
      status = add_file(arena_printf(&arena, "%s/profiles/h100/%s.csv", argv[1], files[i].file),
                        files[i].model, files[i].tp, share, argv[2], sums[share], &arena, &diag);
  if (status) diag_print(&diag, stderr);
  bool good = status == 0;
  if (good) print(sums[0], "memory at 380 W, as dgx-h100's constants have it", 1);
  if (good) good = print(sums[1], "memory at 0.65 of the limit, as B200's kernels have it", 0.3);
  diag_done(&diag);
  arena_done(&arena);
  return good ? 0 : 1;
}
