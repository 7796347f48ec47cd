/* Replays recorded runs of an engine's scheduler with the batcher of its name and holds every step
 * against the record: tokens of each request, who was preempted, the order of those running,
 * memory, and all times, to the picosecond; then first and last token of each request; and all of
 * it once more coalesced.
 *
 *     differential_vllm DATA_DIR MODEL_DIR [RUN…]
 *     differential_sglang DATA_DIR MODEL_DIR [RUN…]
 *
 * DATA_DIR holds vllm-scheduler-runs/ or sglang-scheduler-runs/runs/; without it the test is
 * skipped (77). Of vllm-feature-runs/, kinds that Tandem has are replayed too, if they are there.
 * MODEL_DIR is not needed: iteration times are in the record. A RUN is its name, or the path of its
 * file. A run that differs is shown with its first step that does, both sides; the test fails
 * unless the cause is known. */
#include "tests/differential/runs.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { SKIP = 77 };

typedef struct Tally {
  int runs, reproduced, excepted;
  size_t steps, requests; // of those reproduced
} Tally;

static void check_run(const char *path, Tally *tally) {
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  RunCheck check = {0};
  tally->runs++;
  if (run_check(&check, path, &arena, &diag) > 0) {
    tally->reproduced++;
    tally->steps += check.n_steps;
    tally->requests += check.n_requests;
  }
  if (check.difference) printf("%s: %s\n", check.name, check.difference);
  if (check.cause) printf("  known: %s\n", check.cause);
  tally->excepted += check.cause != NULL;
  diag_print(&diag, stderr);
  diag_done(&diag);
  arena_done(&arena);
}

static int by_path(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Files of the recorded runs, sorted; NULL when there are none. */
static char **list_runs(const char *runs, Arena *arena, int *ret_n) {
  DIR *dir = opendir(runs);
  if (!dir) return NULL;
  char **paths = NULL;
  size_t capacity = 0;
  int n = 0;
  for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
    const char *end = strstr(entry->d_name, ".jsonl");
    if (!end || (strcmp(end, ".jsonl") != 0 && strcmp(end, ".jsonl.gz") != 0)) continue;
    ARENA_RESERVE(arena, paths, capacity, n + 1);
    paths[n++] = arena_printf(arena, "%s/%s", runs, entry->d_name);
  }
  closedir(dir);
  if (n > 0) qsort(paths, (size_t)n, sizeof *paths, by_path);
  *ret_n = n;
  return paths;
}

static const char *path_of(const char *runs, const char *run, Arena *arena) {
  if (strchr(run, '/')) return run;
  return arena_printf(arena, "%s/%s%s", runs, run, strstr(run, ".jsonl") ? "" : ".jsonl.gz");
}

static int check_named(const char *runs, char **names, int n, Arena *arena) {
  Tally tally = {0};
  for (int i = 0; i < n; i++)
    check_run(path_of(runs, names[i], arena), &tally);
  printf("%d runs: %d reproduced to the step, stepped and coalesced alike (%zu steps of %zu "
         "requests)\n",
         tally.runs, tally.reproduced, tally.steps, tally.requests);
  return tally.reproduced + tally.excepted < tally.runs;
}

/* Each kind by itself. */
static int check_all(const char *data_dir, const char *runs, Arena *arena) {
  int n = 0;
  char **names = list_runs(runs, arena, &n);
  if (!names) {
    printf("no recorded runs at %s\n", data_dir);
    return SKIP;
  }
  int rc = check_named(runs, names, n, arena);
  for (const char *const *more = runs_more; *more; more++) {
    const char *folder = arena_printf(arena, "%s/%s", data_dir, *more);
    names = list_runs(folder, arena, &n);
    if (!names) continue;
    printf("%s: ", *more);
    rc |= check_named(folder, names, n, arena);
  }
  return rc;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s DATA_DIR MODEL_DIR [RUN...]\n", argv[0]);
    return 2;
  }
  Arena arena;
  arena_init(&arena);
  const char *runs = arena_printf(&arena, "%s/%s", argv[1], runs_folder);
  const int rc =
      argc > 3 ? check_named(runs, argv + 3, argc - 3, &arena) : check_all(argv[1], runs, &arena);
  arena_done(&arena);
  return rc;
}
