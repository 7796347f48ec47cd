/* Which runs are called saturated, over 200 seeds of three stations of queueing theory, from short
 * runs to long ones: of stable ones, nine tenths busy, at most one in fifty; of those that get a
 * tenth more than they serve, 19 in 20 once there are requests enough for a random walk to show its
 * drift: 0.1 n against the root of 2 n in M/M/1, of n in M/D/1. With an argument the seeds are
 * others, from that one on. */
#include "tests/station.h"
#include <stdio.h>
#include <stdlib.h>

enum { SEEDS = 200 };

typedef struct Case {
  Station station;
  double load;
  int64_t requests;
  double least, most; // share of runs
} Case;

#define MM1                                                                                        \
  { "M/M/1", 1, false, LENGTH_EXPONENTIAL }
#define MD1                                                                                        \
  { "M/D/1", 1, false, LENGTH_CONSTANT }
#define MM16                                                                                       \
  { "M/M/16", 16, true, LENGTH_EXPONENTIAL }

static const Case cases[] = {
    {MM1, 0.9, 100, 0, 0.02},  {MM1, 0.9, 300, 0, 0.02},   {MM1, 0.9, 1000, 0, 0.02},
    {MM1, 0.9, 5000, 0, 0.02}, {MD1, 0.9, 100, 0, 0.02},   {MD1, 0.9, 300, 0, 0.02},
    {MD1, 0.9, 1000, 0, 0.02}, {MD1, 0.9, 5000, 0, 0.02},  {MM16, 0.9, 100, 0, 0.02},
    {MM16, 0.9, 300, 0, 0.02}, {MM16, 0.9, 1000, 0, 0.02}, {MM16, 0.9, 5000, 0, 0.02},
    {MM1, 1.1, 6000, 0.95, 1}, {MD1, 1.1, 3000, 0.95, 1},  {MM16, 1.1, 6000, 0.95, 1},
    {MM1, 2, 300, 0.95, 1},    {MD1, 2, 100, 0.95, 1},     {MM16, 2, 1000, 0.95, 1},
};

static bool is_saturated(const Case *of, uint64_t seed) {
  Arena arena;
  Diag diag;
  SimResult result;
  arena_init(&arena);
  diag_init(&diag);
  const double rate = of->load * of->station.servers / STATION_SERVICE;
  const SimConfig config = {.keeps_batches = true};
  const int status =
      station_run(&of->station, rate, of->requests, seed, config, &result, &arena, &diag);
  assert(status == 0);
  const bool saturated = batches_saturated(result.batches);
  diag_done(&diag);
  arena_done(&arena);
  return saturated;
}

int main(int argc, char **argv) {
  const uint64_t first_seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  int n_bad = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int n = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
      n += is_saturated(&cases[i], first_seed + seed);
    const double share = (double)n / SEEDS;
    const bool right = cases[i].least <= share && share <= cases[i].most;
    printf("%-6s load %.1f, %5lld requests: %5.1f%% called saturated%s\n", cases[i].station.name,
           cases[i].load, (long long)cases[i].requests, 100 * share, right ? "" : ": WRONG");
    n_bad += !right;
  }
  return n_bad > 0;
}
