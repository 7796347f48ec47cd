/* Replays recorded runs of SplitwiseSim with the `splitwise-sim` policies and holds every request
 * against the record: the machines of both phases, TTFT and E2E within 1e-5 s.
 *
 *     differential DATA_DIR MODEL_DIR [RUN…]
 *
 * DATA_DIR holds splitwise-sim-runs/; without it the test is skipped (77). A run counts as
 * reproduced when every request agrees; one that does not must agree in the nine percentiles (P50,
 * P90, P99 of TTFT, TBT and E2E) within 1%. At least 66 of 71 must be reproduced, pro rata for
 * another number of runs. */
#include "differential.h"
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SKIP = 77 };

typedef struct Tally {
  int runs, reproduced, close;
} Tally;

static void print_misses(const Run *run, const Comparison *comparison) {
  printf("%s: %d of %d requests differ (%d placements, worst %.6f s); ", run->name,
         comparison->n_different, run->n_requests, comparison->n_placements,
         comparison->worst_seconds);
  printf("worst percentile %s off by %.3f%%\n", comparison->worst_percentile,
         100 * comparison->worst_percentile_error);
}

static int check_run(const char *data_dir, const char *model_dir, const char *name, Tally *tally) {
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  Run run = {.name = name};
  Comparison comparison = {0};
  int rc = run_load(&run, data_dir, name, &arena, &diag);
  if (rc == 0) rc = run_replay(&run, model_dir, &arena, &diag);
  if (rc == 0) {
    run_compare(&run, &comparison);
    tally->runs++;
    if (comparison.n_different == 0)
      tally->reproduced++;
    else if (comparison.worst_percentile_error <= 0.01)
      tally->close++;
    if (comparison.n_different > 0) print_misses(&run, &comparison);
  }
  diag_print(&diag, stderr);
  diag_done(&diag);
  arena_done(&arena);
  return rc;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names of the recorded runs, sorted; NULL when there are none. */
static char **list_runs(const char *data_dir, Arena *arena, int *ret_n) {
  char *path = arena_printf(arena, "%s/splitwise-sim-runs", data_dir);
  DIR *dir = opendir(path);
  if (!dir) return NULL;
  char **names = NULL;
  size_t capacity = 0;
  int n = 0;
  for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
    char *overrides = arena_printf(arena, "%s/%s/overrides.yaml", path, entry->d_name);
    FILE *file = fopen(overrides, "r");
    if (!file) continue;
    fclose(file);
    ARENA_RESERVE(arena, names, capacity, n + 1);
    names[n++] = arena_copy(arena, entry->d_name, strlen(entry->d_name));
  }
  closedir(dir);
  qsort(names, (size_t)n, sizeof *names, by_name);
  *ret_n = n;
  return names;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: differential DATA_DIR MODEL_DIR [RUN...]\n");
    return 2;
  }
  Arena arena;
  arena_init(&arena);
  int n = argc - 3;
  char **names = n > 0 ? argv + 3 : list_runs(argv[1], &arena, &n);
  if (!names) {
    printf("no recorded runs at %s\n", argv[1]);
    arena_done(&arena);
    return SKIP;
  }
  Tally tally = {0};
  int failed = 0;
  for (int i = 0; i < n; i++)
    failed += check_run(argv[1], argv[2], names[i], &tally) < 0;
  printf("%d runs: %d reproduced to the request, %d more within 1%% in all percentiles, %d not\n",
         tally.runs, tally.reproduced, tally.close, tally.runs - tally.reproduced - tally.close);
  arena_done(&arena);
  const bool enough = tally.reproduced * 71 >= 66 * tally.runs;
  return failed || !enough || tally.reproduced + tally.close < tally.runs;
}
