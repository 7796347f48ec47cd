/* Replays recorded runs of vLLM's scheduler with batcher `vllm` and holds every step against the
 * record: tokens of each request, hits of those scheduled for the first time, who was preempted,
 * the order of those running, how many wait, free blocks, and all times, to the picosecond; then
 * first and last token of each request; and all of it once more coalesced.
 *
 *     differential_vllm DATA_DIR MODEL_DIR [RUN…]
 *
 * DATA_DIR holds vllm-scheduler-runs/; without it the test is skipped (77). Of
 * vllm-feature-runs/, kinds that Tandem has are replayed too, if they are there. MODEL_DIR is not
 * needed: iteration times are in the record. A RUN is its name, or the path of its file. A run that
 * differs is shown with its first step that does, both sides. */
#include "tests/differential/vllm.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { SKIP = 77 };

typedef struct Tally {
  int runs, reproduced;
  size_t steps, requests; // of those reproduced
} Tally;

static void check_run(const char *path, Tally *tally) {
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  RecordedRun run;
  const char *difference = NULL;
  tally->runs++;
  if (recorded_run_load(&run, path, &arena, &diag) == 0 &&
      recorded_run_replay(&run, &difference, &arena, &diag) > 0) {
    tally->reproduced++;
    tally->steps += run.n_steps;
    tally->requests += run.n_requests;
  }
  if (difference) printf("%s: %s\n", run.name, difference);
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

/* With EOS tokens, other settings, pauses, speculation. */
static const char *const features[] = {"eos", "settings", "pause", "speculative",
                                       "speculative-pressure"};

static int check_named(const char *runs, char **names, int n, Arena *arena) {
  Tally tally = {0};
  for (int i = 0; i < n; i++)
    check_run(path_of(runs, names[i], arena), &tally);
  printf("%d runs: %d reproduced to the step, stepped and coalesced alike (%zu steps of %zu "
         "requests)\n",
         tally.runs, tally.reproduced, tally.steps, tally.requests);
  return tally.reproduced < tally.runs;
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
  for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
    const char *folder = arena_printf(arena, "%s/vllm-feature-runs/%s", data_dir, features[i]);
    names = list_runs(folder, arena, &n);
    if (!names) continue;
    printf("%s: ", features[i]);
    rc |= check_named(folder, names, n, arena);
  }
  return rc;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: differential_vllm DATA_DIR MODEL_DIR [RUN...]\n");
    return 2;
  }
  Arena arena;
  arena_init(&arena);
  const char *runs = arena_printf(&arena, "%s/vllm-scheduler-runs", argv[1]);
  const int rc =
      argc > 3 ? check_named(runs, argv + 3, argc - 3, &arena) : check_all(argv[1], runs, &arena);
  arena_done(&arena);
  return rc;
}
