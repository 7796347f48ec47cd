/* How much faster is a sweep on two CPUs than on one? Prints figures and judges nothing.
 *
 *     bench_sweep [POINTS]
 *
 * Splitwise-HH under two minutes of the Azure code mix at 70 requests/s, prefill machines 20 and up
 * by 3 to 6 decode machines, each point a row of the database: all that `tandem sweep` does. One
 * job is bound to one CPU, two jobs to two; the best of three rounds each, taken in turns. The
 * thread that stores shares the CPUs with those that simulate. CPU time that grows with the second
 * CPU is what threads cost each other. */
#define _GNU_SOURCE
#include "experiments/base/workers.h"
#include "experiments/sweep/sweep.h"
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const char EXPERIMENT[] =
    "model: bloom-176b\n"
    "workload: {lengths: azure-code-2023, arrivals: {process: poisson, rate: 70 /s},\n"
    "           duration: 120 s}\n"
    "pools:\n"
    "  prefill: {role: prefill, machine: dgx-h100}\n"
    "  decode: {role: decode, machine: dgx-h100}\n"
    "policies: {router: splitwise, pool: splitwise_mixed, batcher: splitwise}\n"
    "slo: splitwise\n"
    "sweep: {pools.prefill.count: 20..%d, pools.decode.count: 3..6}\n";

static void fail(Diag *diag) {
  diag_print(diag, stderr);
  exit(4);
}

/* Binds the process to `n` of the CPUs that it was given. */
static void use_cpus(const cpu_set_t *given, int n) {
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  for (int cpu = 0; cpu < CPU_SETSIZE && n > 0; cpu++) {
    if (!CPU_ISSET(cpu, given)) continue;
    CPU_SET(cpu, &chosen);
    n--;
  }
  if (sched_setaffinity(0, sizeof chosen, &chosen)) perror("sched_setaffinity");
}

static void remove_database(const char *path, Arena *arena) {
  unlink(path);
  unlink(arena_printf(arena, "%s-wal", path));
  unlink(arena_printf(arena, "%s-shm", path));
}

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct Cost {
  double wall_s, cpu_s; // cpu_s: of all threads
} Cost;

/* All points into a new database. */
static Cost sweep_once(const char *experiment, const char *database, int jobs) {
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  SweepRun run = {.row = {.shard = 1, .n_shards = 1}};
  Results results;
  remove_database(database, &arena);
  if (sweep_run_init(&run, experiment, NULL, &arena, &diag) ||
      results_open(&results, database, config_data_root(), &arena, &diag) ||
      results_add_sweep(&results, &run.row, &arena, &diag))
    fail(&diag);
  const double wall = clock_monotonic(), cpu = cpu_seconds();
  if (sweep_run(&run, &results, jobs, &arena, &diag)) fail(&diag);
  const Cost cost = {clock_monotonic() - wall, cpu_seconds() - cpu};
  if (run.tally.done != run.sweep.n_points) fprintf(stderr, "%s\n", run.first_reason);
  results_close(&results);
  sweep_run_done(&run);
  remove_database(database, &arena);
  diag_done(&diag);
  arena_done(&arena);
  return cost;
}

int main(int argc, char **argv) {
  enum { ROUNDS = 3 };
  const int points = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 80;
  char experiment[] = "bench_sweep_XXXXXX", database[] = "bench_sweep_db_XXXXXX";
  const int files[] = {mkstemp(experiment), mkstemp(database)};
  FILE *file = files[0] < 0 || files[1] < 0 ? NULL : fdopen(files[0], "w");
  if (!file) {
    perror("bench_sweep");
    return 4;
  }
  fprintf(file, EXPERIMENT, 19 + (points + 3) / 4);
  fclose(file);
  close(files[1]);
  cpu_set_t given;
  sched_getaffinity(0, sizeof given, &given);
  Cost best[2] = {{1e9, 1e9}, {1e9, 1e9}};
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < 2; i++) {
      use_cpus(&given, i + 1);
      const Cost cost = sweep_once(experiment, database, i + 1);
      if (cost.wall_s < best[i].wall_s) best[i] = cost;
    }
  const int n = (points + 3) / 4 * 4;
  printf("%-6s %8s %10s %10s %14s\n", "CPUs", "points", "seconds", "points/s", "CPU ms/point");
  for (int i = 0; i < 2; i++)
    printf("%-6d %8d %10.2f %10.1f %14.2f\n", i + 1, n, best[i].wall_s, n / best[i].wall_s,
           1e3 * best[i].cpu_s / n);
  printf("two CPUs are %.2f times as fast as one (of %d)\n", best[0].wall_s / best[1].wall_s,
         CPU_COUNT(&given));
  unlink(experiment);
  return 0;
}
