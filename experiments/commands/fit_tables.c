/* See fit_tables.h. */
#include "experiments/commands/fit_tables.h"
#include "experiments/commands/cli.h"
#include "experiments/config/config.h"
#include "perfmodel/compose/compose.h"
#include "perfmodel/compose/kernel_write.h"
#include "perfmodel/gpu_facts.h"
#include <math.h>
#include <string.h>

enum { MAX_SEQS = 1024 }; // of a decode batch that is compared

typedef struct Compared {
  const char *part;
  int n;
  double sum, worst;
  BatchShape at;
} Compared;

/* One GPU's, so that there are no all-reduces on either side. 1: no machine type has the GPU. */
static int compose_group(PerfModel *self, const Profile *profile, const ProfileGroup *group,
                         const char *folder, Arena *arena, Diag *diag) {
  const char *data_dir = arena_printf(arena, "%s/perfmodel", config_data_root());
  Llm llm;
  Hardware hardware;
  if (kernel_load_model(&llm, profile, group->model, data_dir, arena, diag)) return -1;
  if (!gpu_facts_find(&hardware, group->gpu, data_dir, arena)) return 1;
  if (hardware.num_gpus < group->tensor_parallel_size)
    hardware.num_gpus = group->tensor_parallel_size;
  const ComposeInput input = {.setup = {.model = group->model,
                                        .gpu = group->gpu,
                                        .engine = KERNELS_TANDEM,
                                        .weight_dtype = (int)llm_quantization(&llm),
                                        .kv_cache_dtype = llm.kv_cache_dtype,
                                        .tensor_parallel_size = group->tensor_parallel_size},
                              .llm = &llm,
                              .hardware = &hardware,
                              .data_dir = data_dir,
                              .alone = true,
                              .at = place_of_file(profile->path)};
  return compose_load(self, &input, folder, MAX_SEQS, arena, diag);
}

/* Profiles need not have all of a model: what was measured is written in any case. */
static bool can_compose(PerfModel *self, const Profile *profile, const ProfileGroup *group,
                        const char *folder, Arena *arena) {
  Diag lacking;
  diag_init(&lacking);
  const int status = compose_group(self, profile, group, folder, arena, &lacking);
  if (status > 0)
    fprintf(stderr, "note: no machine type has the GPU '%s': nothing is composed for it yet\n",
            group->gpu);
  if (status < 0)
    fprintf(stderr, "note: '%s' cannot be composed of these tables: %s\n", group->model,
            lacking.n_entries > 0 ? lacking.entries[0].message : "");
  diag_done(&lacking);
  return status == 0;
}

static void add(Compared *self, const BatchShape *batch, double error) {
  self->n++;
  self->sum += fabs(error);
  if (fabs(error) <= fabs(self->worst) && self->n > 1) return;
  self->worst = error;
  self->at = *batch;
}

static void put(Rows *rows, const ProfileGroup *group, const Compared *compared) {
  char at[96];
  if (compared->n == 0) return;
  format_batch(&compared->at, at, sizeof at);
  rows_put(rows, (Cell[]){{CELL_OF_TEXT("model", group->model), COLUMN("model", -14)},
                          {CELL_OF_TEXT("gpu", group->gpu), COLUMN("GPU", -14)},
                          {CELL_OF_WHOLE("tensor_parallel_size", group->tensor_parallel_size),
                           COLUMN("tp", 4)},
                          {CELL_OF_TEXT("part", compared->part), COLUMN("iterations", -12)},
                          {CELL_OF_WHOLE("rows", compared->n), COLUMN("rows", 6)},
                          {CELL_OF_NUMBER("mape_percent", 100 * compared->sum / compared->n),
                           .format = "%.4f", .show = "%.2f", COLUMN("MAPE", 7)},
                          {CELL_OF_NUMBER("worst_percent", 100 * compared->worst), .format = "%.4f",
                           .show = "%.2f", COLUMN("worst", 7)},
                          {CELL_OF_TEXT("worst_batch", at), COLUMN("at", 0)},
                          {0}});
}

static void check_group(Rows *rows, const Profile *profile, const ProfileGroup *group,
                        const char *folder, Arena *arena) {
  PerfModel model;
  Compared all = {.part = "all"},
           parts[] = {{.part = "prefill"}, {.part = "decode"}, {.part = "mixed"}};
  if (!can_compose(&model, profile, group, folder, arena)) return;
  for (size_t i = 0; i < profile->n_rows; i++) {
    const ProfileRow *row = &profile->rows[i];
    const BatchShape *batch = &row->batch;
    if (row->op != PROFILE_ITERATION || !profile_in_group(row, group) || !kernel_row_counts(row) ||
        batch->decode_seqs > MAX_SEQS)
      continue;
    const double seconds = tick_seconds(perfmodel_iteration(&model, batch, NULL));
    const double error = 1e6 * seconds / row->median_us - 1;
    add(&parts[batch->decode_seqs == 0 ? 0 : batch->prefill_tokens == 0 ? 1 : 2], batch, error);
    add(&all, batch, error);
  }
  put(rows, group, &all);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    put(rows, group, &parts[i]);
  if (*model.taken)
    fprintf(stderr, "note: the tables of '%s' lack a part of it%s\n", group->model, model.taken);
}

int fit_tables(const char *const *paths, int n, const char *root, OutputFormat format, Arena *arena,
               Diag *diag) {
  const char *data_dir = arena_printf(arena, "%s/perfmodel", config_data_root()), *folder;
  Profile *profiles = ARENA_ARRAY(arena, Profile, n);
  Rows rows = {format, stdout, "  ", .gap = "\n  ", .end = "\n]\n"};
  for (int i = 0; i < n; i++)
    if (profile_load(&profiles[i], paths[i], arena, diag)) return EXIT_INPUT;
  if (kernel_write(profiles, (size_t)n, root, data_dir, &folder, arena, diag)) return EXIT_INPUT;
  fprintf(stderr,
          "tandem: tables of kernels in '%s'; 'perfmodel: {engine: %s}' uses those of '%s'\n",
          folder, KERNELS_TANDEM, arena_printf(arena, "%s/tables", data_dir));
  for (int i = 0; i < n; i++) {
    ProfileGroup *groups = NULL;
    const size_t n_groups = profile_groups(&profiles[i], &groups, arena);
    for (size_t g = 0; g < n_groups; g++)
      check_group(&rows, &profiles[i], &groups[g], folder, arena);
  }
  rows_end(&rows);
  return EXIT_DONE;
}
