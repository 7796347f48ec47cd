/* The pool of threads, without Criterion so that a sanitizer's findings at exit count.
 *
 * Every job ends once and its result is that of its own input, whatever the number of threads and
 * slots; a pool that is closed with jobs in it ends; and trials in many threads, sharing a cache,
 * give what one thread gives. */
#include "experiments/base/workers.h"
#include "experiments/campaign/campaign.h"
#include <inttypes.h>
#include <stdlib.h>

static int n_failures;

static void expect(bool holds, const char *what, int64_t a, int64_t b) {
  if (holds) return;
  fprintf(stderr, "FAILED: %s: %" PRId64 ", %" PRId64 "\n", what, a, b);
  n_failures++;
}

/* ---- Sums ---- */

typedef struct Sum {
  int64_t n, result;
  bool busy;
} Sum;

static void add_up(void *context) {
  Sum *sum = context;
  for (int64_t i = 1; i <= sum->n; i++)
    sum->result += i;
}

static void check_sum(Sum *sum, int *seen) {
  expect(sum->result == sum->n * (sum->n + 1) / 2, "sum", sum->n, sum->result);
  seen[sum->n]++;
  *sum = (Sum){0};
}

static void test_sums(int n_threads, int capacity, Arena *arena, Diag *diag) {
  enum { JOBS = 3000 };
  Workers workers;
  if (workers_init(&workers, n_threads, capacity, arena, diag)) exit(1);
  Sum *sums = ARENA_ARRAY(arena, Sum, capacity);
  int *seen = ARENA_ARRAY(arena, int, JOBS + 1);
  int n = 0;
  Sum *sum = NULL;
  do {
    while (n < JOBS && !workers_full(&workers)) {
      int slot = 0;
      while (sums[slot].busy)
        slot++;
      sums[slot] = (Sum){.n = ++n, .busy = true};
      workers_push(&workers, add_up, &sums[slot]);
    }
    sum = workers_pop(&workers);
    if (sum) check_sum(sum, seen);
  } while (sum);
  for (int i = 1; i <= JOBS; i++)
    expect(seen[i] == 1, "times that a job ended", i, seen[i]);
  workers_done(&workers);
}

static void test_closing(Arena *arena, Diag *diag) {
  Workers workers;
  if (workers_init(&workers, 3, 50, arena, diag)) exit(1);
  Sum *sums = ARENA_ARRAY(arena, Sum, 50);
  for (int i = 0; !workers_full(&workers); i++) {
    sums[i].n = 20000;
    workers_push(&workers, add_up, &sums[i]);
  }
  workers_done(&workers);
  if (workers_init(&workers, 4, 4, arena, diag)) exit(1);
  expect(workers_pop(&workers) == NULL, "a result of nothing", 0, 0);
  workers_done(&workers);
}

typedef struct Gate {
  pthread_mutex_t lock; // held by the caller until the job may end
} Gate;

static void pass(void *context) {
  Gate *gate = context;
  pthread_mutex_lock(&gate->lock);
  pthread_mutex_unlock(&gate->lock);
}

/* A wait with an end does end, with nothing, and one that is long enough with the result. */
static void test_waiting(Arena *arena, Diag *diag) {
  Workers workers;
  Gate gate = {PTHREAD_MUTEX_INITIALIZER};
  if (workers_init(&workers, 1, 1, arena, diag)) exit(1);
  pthread_mutex_lock(&gate.lock);
  workers_push(&workers, pass, &gate);
  expect(!workers_wait(&workers, 0), "a result of a job that goes on", 0, 0);
  expect(!workers_wait(&workers, 0.01), "a result of a job that goes on", 1, 0);
  pthread_mutex_unlock(&gate.lock);
  expect(workers_wait(&workers, 1e9), "no result of a job that ended", 0, 0);
  expect(workers_pop(&workers) == &gate, "another job's result", 0, 0);
  workers_done(&workers);
}

/* ---- Trials ---- */

typedef struct Point {
  TrialBase *base;
  Trial trial;
  int64_t count; // of machines; 0 cannot be
  int status;
} Point;

static void simulate(void *context) {
  Point *point = context;
  Trial *trial = &point->trial;
  trial_init(trial);
  const char *assignments[] = {
      arena_printf(&trial->arena, "pools.decode.count=%" PRId64, point->count), NULL};
  const ConfigChanges changes = {.assignments = assignments, .seed = -1, .tie_seed = -1};
  point->status = trial_load(trial, point->base, &changes);
  if (point->status == 0) point->status = trial_run(trial);
}

static void run_trials(const char *path, int n_threads, uint64_t *digests, int n, Arena *arena,
                       Diag *diag) {
  TrialBase base;
  Workers workers;
  if (trial_base_init(&base, path, NULL, arena, diag) ||
      workers_init(&workers, n_threads, n, arena, diag)) {
    diag_print(diag, stderr);
    exit(1);
  }
  Point *points = ARENA_ARRAY(arena, Point, n);
  for (int i = 0; i < n; i++) {
    points[i] = (Point){.base = &base, .count = i};
    workers_push(&workers, simulate, &points[i]);
  }
  for (Point *point = NULL; (point = workers_pop(&workers));) {
    const int i = (int)(point - points);
    expect((point->status != 0) == (i == 0), "status of a trial", i, point->status);
    expect((*trial_reason(&point->trial) != '\0') == (i == 0), "reason of a trial", i, 0);
    digests[i] = point->status == 0 ? point->trial.result.digest : 0;
    trial_done(&point->trial);
  }
  workers_done(&workers);
  trial_base_done(&base);
}

static void test_trials(const char *path, Arena *arena, Diag *diag) {
  enum { TRIALS = 12 };
  uint64_t alone[TRIALS], together[TRIALS];
  run_trials(path, 1, alone, TRIALS, arena, diag);
  run_trials(path, 4, together, TRIALS, arena, diag);
  for (int i = 0; i < TRIALS; i++)
    expect(alone[i] == together[i], "digest of a trial", i, 0);
  expect(alone[1] != alone[TRIALS - 1], "trials do not differ", 1, TRIALS - 1);
}

int main(int argc, char **argv) {
  static const int shapes[][2] = {{1, 1}, {1, 9}, {2, 2}, {4, 5}, {7, 64}};
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    test_sums(shapes[i][0], shapes[i][1], &arena, &diag);
  test_closing(&arena, &diag);
  test_waiting(&arena, &diag);
  if (argc > 1) test_trials(argv[1], &arena, &diag);
  expect(workers_cpus() >= 1, "CPUs", workers_cpus(), 1);
  diag_done(&diag);
  arena_done(&arena);
  return n_failures > 0;
}
