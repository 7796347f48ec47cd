/* Random small clusters under the audit: nothing may be lost, and how a run is computed may not
 * change what happens in it.
 *
 *     swarm [--seed N] [--clusters N] [--pinned] [--batcher NAME] [--verbose]
 *     swarm --rules
 *
 * Each cluster, drawn from a seed of its own, is run coalesced, the same again unwatched, with
 * --step (equal digests, requests, histograms, totals, and all that its observer saw), layer by
 * layer where KV is swapped so, with another order of equal times (books only) and, where that is
 * exact, with all times doubled; some with clients that wait for answers, held against the open
 * trace of what they sent. By default there are so many clusters that each pair of batcher and
 * router meets at least 25. They run in processes of their own, many to each, so that an
 * assertion or an endless run is one failure with one line that reproduces it; a single cluster
 * (--clusters 1) runs in this process, for a debugger. --pinned leaves out policies that are newer
 * than the pinned outcomes of the swarm. */
#include "base/hash.h"
#include "sim/policies.h"
#include "tests/swarm/books.h"
#include "tests/swarm/clients.h"
#include "tests/swarm/cluster.h"
#include "tests/swarm/compare.h"
#include "tests/swarm/outcome.h"
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const Tick TIMELINE_INTERVAL = TICKS_PER_SECOND / 10, WATCH_INTERVAL = TICKS_PER_SECOND / 4;

/* Under AddressSanitizer, which is several times as slow, each set of policies is met once. */
#ifdef __SANITIZE_ADDRESS__
enum { PER_PAIR = 1 };
#else
enum { PER_PAIR = 25 };
#endif
/* Some clusters have millions of events: prompts token by token, or copies of each layer. What does
 * not end does not in half an hour either. */
enum { PER_PROCESS = 128, SECONDS_ALONE = 1800, SECONDS_TOGETHER = 300, AUDITED_IN_FULL = 16384 };

/* What the clusters met, to show that the draws reach these paths. */
typedef enum Count {
  COUNT_REQUESTS,
  COUNT_REJECTED,
  COUNT_CANCELLED_TTFT,
  COUNT_CANCELLED_E2E,
  COUNT_UNFINISHED,
  COUNT_TRANSFERS,
  COUNT_PREEMPTIONS,
  COUNT_RECOMPUTES,
  COUNT_SWAPS,
  COUNT_RESTORED,
  COUNT_HEDGES,
  COUNT_HEDGES_WON,
  COUNT_ROLE_CHANGES,
  COUNT_FLIPS,
  COUNT_DISPATCHES,
  COUNT_PIPELINED,
  COUNT_TURNS,
  COUNT_COPIED_OUT,
  COUNT_COPIED_IN,
  COUNT_EXTRAPOLATED,
  COUNT_EXPANSIONS,
  COUNT_CONTRACTIONS,
  COUNT_STALLED,
  COUNT_LAYERED,
  COUNT_SCALED,
  COUNT_UNDRAWN,
  COUNT_CLIENTS,
  COUNT_SESSIONS,
  COUNT_FAILURES,
  COUNT_MAINTENANCES,
  COUNT_SCALE_UPS,
  COUNT_SCALE_DOWNS,
  COUNT_LOSSES,
  COUNT_REDIRECTS,
  COUNT_MODELS,
  COUNT_TURNS_OF_MODELS,
  COUNT_ADAPTERS,
  COUNT_FETCHES,
  COUNT_ENCODED,
  COUNT_REARRANGED,
  COUNT_HELD,
  COUNT_DEGRADED,
  COUNT_KV_LOADS,
  COUNT_EVENTS,
  COUNT_STEP_EVENTS,
  COUNTS,
} Count;

static const char *const count_names[COUNTS] = {
    [COUNT_REQUESTS] = "requests",
    [COUNT_REJECTED] = "rejected",
    [COUNT_CANCELLED_TTFT] = "cancelled before their first token",
    [COUNT_CANCELLED_E2E] = "cancelled before their last token",
    [COUNT_UNFINISHED] = "left unfinished by a tier that never evicts",
    [COUNT_TRANSFERS] = "transfers",
    [COUNT_PREEMPTIONS] = "preemptions",
    [COUNT_RECOMPUTES] = "recomputes",
    [COUNT_SWAPS] = "swaps to CPU memory",
    [COUNT_RESTORED] = "prompt tokens out of the checkpoint store",
    [COUNT_HEDGES] = "copies of requests that waited",
    [COUNT_HEDGES_WON] = "of those, that were first",
    [COUNT_ROLE_CHANGES] = "role changes",
    [COUNT_FLIPS] = "flips",
    [COUNT_DISPATCHES] = "dispatches",
    [COUNT_PIPELINED] = "iterations in pipelines",
    [COUNT_TURNS] = "turns of groups to another shape",
    [COUNT_COPIED_OUT] = "bytes copied out to their stores",
    [COUNT_COPIED_IN] = "bytes copied in",
    [COUNT_EXTRAPOLATED] = "iterations outside the measured range",
    [COUNT_EXPANSIONS] = "expansions",
    [COUNT_CONTRACTIONS] = "contractions",
    [COUNT_STALLED] = "clusters where compute waited for copies",
    [COUNT_LAYERED] = "clusters compared with themselves layer by layer",
    [COUNT_SCALED] = "clusters compared with themselves at twice the times",
    [COUNT_UNDRAWN] = "clusters that another seed does not change",
    [COUNT_CLIENTS] = "clusters whose clients wait, compared with the open trace of that",
    [COUNT_SESSIONS] = "sessions",
    [COUNT_FAILURES] = "failures of machines",
    [COUNT_MAINTENANCES] = "times that machines were away for maintenance",
    [COUNT_SCALE_UPS] = "machines started by scalers",
    [COUNT_SCALE_DOWNS] = "machines told to go",
    [COUNT_LOSSES] = "losses of requests with machines",
    [COUNT_REDIRECTS] = "requests that another machine decoded than was to",
    [COUNT_MODELS] = "clusters that serve two models",
    [COUNT_TURNS_OF_MODELS] = "clusters whose models take turns on their GPUs",
    [COUNT_ADAPTERS] = "adapters that came to GPUs",
    [COUNT_FETCHES] = "of those, that CPU memory did not have",
    [COUNT_ENCODED] = "tokens of images encoded",
    [COUNT_REARRANGED] = "rearrangements of experts",
    [COUNT_HELD] = "requests that waited to be admitted",
    [COUNT_DEGRADED] = "requests whose output was cut",
    [COUNT_KV_LOADS] = "prompts whose KV came from a tier under the prefix cache",
    [COUNT_EVENTS] = "events",
    [COUNT_STEP_EVENTS] = "events with --step",
};

typedef struct Tally {
  uint64_t counts[COUNTS];
  uint64_t causes[CAUSES]; // requests that spent time for each
  uint64_t outcomes;       // of all clusters, whatever their order
} Tally;

static int keep_record(void *context, const RequestRecord *record, const Metrics *so_far,
                       Diag *diag) {
  (void)so_far;
  (void)diag;
  Trial *trial = context;
  trial->records[record->id] = *record;
  trial->records[record->id].parts = NULL;
  if (record->parts) trial->parts[record->id] = *record->parts;
  trial->n_reported++;
  return 0;
}

/* `watched`: by an observer, and with a timeline where there are groups. */
static Trial *run_over(const Cluster *cluster, TraceSource *source, bool step, bool watched,
                       uint64_t tie_seed, Arena *arena) {
  Trial *trial = ARENA_NEW(arena, Trial);
  trial->records = ARENA_ARRAY(arena, RequestRecord, cluster->workload.n_rows);
  trial->parts = ARENA_ARRAY(arena, TimeParts, cluster->workload.n_rows);
  SimConfig config = cluster->config;
  config.step = step;
  config.tie_seed = tie_seed;
  config.audit = true;
  config.audited_in_full = AUDITED_IN_FULL;
  config.timeline_interval = watched && config.n_groups > 0 ? TIMELINE_INTERVAL : 0;
  trial->watched = watched;
  watch_init(&trial->watch, &config, WATCH_INTERVAL, arena);
  if (watched) config.observer = &trial->watch.observer;
  trial->parted = config.keeps_parts = tie_seed == 0;
  config.model.slo_reference = &cluster->models[0];
  config.on_request = keep_record;
  config.on_request_context = trial;
  config.trace = source;
  Diag diag;
  diag_init(&diag);
  const int rc = sim_run(&config, &trial->result, arena, &diag);
  diag_print(&diag, stdout);
  diag_done(&diag);
  return rc < 0 ? NULL : trial;
}

static Trial *run(Cluster *cluster, bool step, bool watched, uint64_t tie_seed, Arena *arena) {
  cluster_rewind(cluster);
  return run_over(cluster, cluster->config.trace, step, watched, tie_seed, arena);
}

/* --- two runs against each other */

static const char *check_same(const Cluster *cluster, const Trial *a, const Trial *b) {
  if (!b) return "the run failed";
  const char *wrong = compare_results(&a->result, &b->result);
  if (!wrong && a->n_reported != b->n_reported) wrong = "the number of records differs";
  for (int i = 0; !wrong && i < cluster->workload.n_rows; i++)
    if (!same_record(&a->records[i], &b->records[i]))
      wrong = "the record of a request differs";
    else if (memcmp(&a->parts[i], &b->parts[i], sizeof a->parts[i]) != 0)
      wrong = "where the time of a request went differs";
  return wrong;
}

static Tick doubled(Tick at) {
  return at < 0 ? at : 2 * at;
}

static const char *check_scaled(const Cluster *cluster, const Trial *once, const Trial *twice) {
  if (!twice) return "the run at twice the times failed";
  for (int i = 0; i < cluster->workload.n_rows; i++) {
    const RequestRecord *a = &once->records[i], *b = &twice->records[i];
    if (b->first_token_at != doubled(a->first_token_at) ||
        b->last_token_at != doubled(a->last_token_at) ||
        b->cancelled_at != doubled(a->cancelled_at))
      return "twice the times do not give twice the latencies";
  }
  return NULL;
}

/* --- one cluster */

static void tally_groups(Tally *tally, const SimResult *result) {
  for (uint32_t i = 0; i < result->n_groups; i++) {
    const Group *group = &result->groups[i];
    tally->counts[COUNT_TURNS] += (uint64_t)group->totals.turns;
    tally->counts[COUNT_COPIED_OUT] += (uint64_t)group->totals.copied_bytes[COPY_OUT];
    tally->counts[COUNT_COPIED_IN] += (uint64_t)group->totals.copied_bytes[COPY_IN];
  }
}

static uint64_t pipelined_iterations(const SimResult *result) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < result->n_pools; i++) {
    const InstanceTotals *totals = &result->pools[i].totals;
    if (result->pools[i].pool->pipeline_stages > 1)
      n += (uint64_t)(totals->prefill_iterations + totals->decode_iterations);
  }
  return n;
}

static void tally_add(Tally *tally, const SimResult *result, const SimResult *stepped) {
  const Metrics *metrics = &result->metrics;
  const int64_t *extrapolated = result->totals.extrapolated_iterations;
  const uint64_t counts[COUNTS] = {
      [COUNT_REQUESTS] = metrics->asked.requests,
      [COUNT_REJECTED] = metrics->rejected,
      [COUNT_CANCELLED_TTFT] = metrics->cancelled_for[CANCELLED_TTFT],
      [COUNT_CANCELLED_E2E] = metrics->cancelled_for[CANCELLED_E2E],
      [COUNT_UNFINISHED] = result->unfinished,
      [COUNT_TRANSFERS] = metrics->transfers,
      [COUNT_PREEMPTIONS] = metrics->preemptions,
      [COUNT_RECOMPUTES] = metrics->recomputes,
      [COUNT_SWAPS] = (uint64_t)result->totals.swaps_out,
      [COUNT_RESTORED] = (uint64_t)metrics->restored_tokens,
      [COUNT_HEDGES] = metrics->hedges,
      [COUNT_HEDGES_WON] = metrics->hedges_won,
      [COUNT_ROLE_CHANGES] = metrics->role_changes,
      [COUNT_FLIPS] = metrics->flips,
      [COUNT_DISPATCHES] = metrics->dispatches,
      [COUNT_PIPELINED] = pipelined_iterations(result),
      [COUNT_EXTRAPOLATED] =
          (uint64_t)(extrapolated[EXTRAPOLATION_NEAR] + extrapolated[EXTRAPOLATION_FAR]),
      [COUNT_EXPANSIONS] = (uint64_t)result->totals.expansions,
      [COUNT_CONTRACTIONS] = (uint64_t)result->totals.contractions,
      [COUNT_STALLED] = result->totals.stall_ticks > 0,
      [COUNT_FAILURES] = (uint64_t)result->totals.failures,
      [COUNT_MAINTENANCES] = (uint64_t)result->totals.maintenances,
      [COUNT_SCALE_UPS] = (uint64_t)result->totals.scale_ups,
      [COUNT_SCALE_DOWNS] = (uint64_t)result->totals.scale_downs,
      [COUNT_LOSSES] = metrics->losses,
      [COUNT_REDIRECTS] = metrics->redirects,
      [COUNT_MODELS] = result->n_models > 1,
      [COUNT_ADAPTERS] = (uint64_t)result->totals.adapter_loads,
      [COUNT_FETCHES] = (uint64_t)result->totals.adapter_fetches,
      [COUNT_ENCODED] = (uint64_t)metrics->encoder_tokens,
      [COUNT_REARRANGED] = metrics->experts.rearrangements,
      [COUNT_HELD] = metrics->held,
      [COUNT_DEGRADED] = metrics->degraded,
      [COUNT_KV_LOADS] = (uint64_t)result->totals.kv_loads,
      [COUNT_EVENTS] = result->events,
      [COUNT_STEP_EVENTS] = stepped->events,
  };
  for (int i = 0; i < COUNTS; i++)
    tally->counts[i] += counts[i];
  tally_groups(tally, result);
}

static void tally_causes(Tally *tally, const Trial *trial, int n_rows) {
  for (int i = 0; i < n_rows; i++)
    for (Cause cause = 0; cause < CAUSES; cause++)
      tally->causes[cause] += trial->parts[i].of[cause] > 0;
}

static const char *check_layers(Cluster *cluster, const Trial *first, Tally *tally, Arena *arena) {
  if (!cluster_flip_layers(cluster, arena)) return NULL;
  tally->counts[COUNT_LAYERED]++;
  const char *wrong = check_same(cluster, first, run(cluster, false, true, 0, arena));
  return wrong ? arena_printf(arena, "layer by layer, %s", wrong) : NULL;
}

/* Its requests from clients that wait; what they send is kept in `sent`. */
static Trial *run_clients(Cluster *cluster, const Clients *clients, bool step, Recorder *sent,
                          Arena *arena) {
  cluster_rewind(cluster);
  recorder_init(sent, clients_open(clients, cluster->config.trace, arena), arena);
  return run_over(cluster, &sent->source, step, false, 0, arena);
}

/* The open trace of what clients sent gives the same run, and so does every step on its own. */
static const char *check_clients(Cluster *cluster, uint64_t seed, Tally *tally, Arena *arena) {
  Clients clients;
  if (!clients_draw(&clients, seed, cluster->workload.rows, cluster->workload.n_rows)) return NULL;
  tally->counts[COUNT_CLIENTS]++;
  Recorder sent, again;
  const Trial *first = run_clients(cluster, &clients, false, &sent, arena);
  if (!first) return "with clients, the run failed";
  const Metrics *metrics = &first->result.metrics;
  tally->counts[COUNT_SESSIONS] += metrics->asked.sessions;
  const char *wrong =
      check_same(cluster, first, run_clients(cluster, &clients, true, &again, arena));
  if (wrong) return arena_printf(arena, "with clients, stepped, %s", wrong);
  if (metrics->asked.requests != (uint64_t)sent.n_rows) return "with clients, one got lost";
  ArrayTrace open;
  array_trace_init(&open, sent.rows, sent.n_rows);
  wrong = check_same(cluster, first, run_over(cluster, &open.source, false, false, 0, arena));
  return wrong ? arena_printf(arena, "with clients, as an open trace, %s", wrong) : NULL;
}

/* A start that is not counted changes no outcome, and is the same with and without --step. */
static const char *check_warm_up(Cluster *cluster, uint64_t seed, const Trial *first,
                                 Arena *arena) {
  const int n_rows = cluster->workload.n_rows;
  cluster->config.warm_up = (WarmUp){.requests = 1 + (int64_t)(hash_mix(seed) % (uint64_t)n_rows)};
  const Trial *warm = run(cluster, false, true, 0, arena);
  const Trial *stepped = run(cluster, true, true, 0, arena);
  const int64_t n_counted = n_rows - cluster->config.warm_up.requests;
  cluster->config.warm_up = (WarmUp){0};
  if (!warm || !stepped) return "with a warm-up, the run failed";
  if (warm->result.digest != first->result.digest) return "a warm-up changes outcomes";
  if (warm->result.metrics.asked.requests != (uint64_t)n_counted)
    return "a warm-up of another length";
  const Metrics *of = &first->result.metrics, *metrics = &warm->result.metrics;
  if (of->completed == of->asked.requests && !books_have_gaps(metrics))
    return "with a warm-up, gaps are not those that were asked for";
  const char *wrong = check_same(cluster, warm, stepped);
  return wrong ? arena_printf(arena, "with a warm-up, stepped, %s", wrong) : NULL;
}

/* Where nothing is drawn the seed changes nothing. */
static const char *check_seed(Cluster *cluster, const Trial *first, Tally *tally, Arena *arena) {
  if (sim_draws(&cluster->config)) return NULL;
  tally->counts[COUNT_UNDRAWN]++;
  cluster->config.seed++;
  const char *wrong = check_same(cluster, first, run(cluster, false, false, 0, arena));
  cluster->config.seed--;
  return wrong ? arena_printf(arena, "with another seed, %s", wrong) : NULL;
}

static const char *check_cluster(Cluster *cluster, uint64_t seed, Tally *tally, Arena *arena) {
  Trial *first = run(cluster, false, true, 0, arena);
  const char *wrong = check_books(cluster, first);
  if (wrong) return wrong;
  tally->counts[COUNT_TURNS_OF_MODELS] += cluster->config.sleep.awake > 0;
  if ((wrong = check_same(cluster, first, run(cluster, false, false, 0, arena))))
    return arena_printf(arena, "run again, %s", wrong);
  Trial *stepped = run(cluster, true, true, 0, arena);
  if ((wrong = check_same(cluster, first, stepped)) || (wrong = check_books(cluster, stepped)))
    return arena_printf(arena, "stepped, %s", wrong);
  if (first->watch.seen != stepped->watch.seen) return "stepped, an observer sees something else";
  if ((wrong = check_books(cluster, run(cluster, false, false, seed + 1, arena))))
    return arena_printf(arena, "with other ties, %s", wrong);
  if ((wrong = check_seed(cluster, first, tally, arena))) return wrong;
  if ((wrong = check_warm_up(cluster, seed, first, arena))) return wrong;
  if ((wrong = check_layers(cluster, first, tally, arena))) return wrong;
  if ((wrong = check_clients(cluster, seed, tally, arena))) return wrong;
  tally_add(tally, &first->result, &stepped->result);
  tally_causes(tally, first, cluster->workload.n_rows);
  tally->outcomes +=
      hash_fold(seed, outcome_of(&first->result, first->records, cluster->workload.n_rows));
  if (!cluster->exact || first->result.metrics.transfers > 0 ||
      first->result.totals.swaps_out > 0 || first->result.unfinished > 0)
    return NULL;
  tally->counts[COUNT_SCALED]++;
  cluster_draw(cluster, seed, 2, arena);
  return check_scaled(cluster, first, run(cluster, false, false, 0, arena));
}

typedef enum Output { QUIET, FAILURES, ALL } Output;

static bool passes(uint64_t seed, Output output, Tally *tally) {
  Arena arena;
  arena_init(&arena);
  Cluster *cluster = ARENA_NEW(&arena, Cluster);
  cluster_draw(cluster, seed, 1, &arena);
  const char *what = cluster_describe(cluster, &arena);
  if (output == ALL) {
    printf("seed %" PRIu64 ": %s\n", seed, what);
    fflush(stdout);
  }
  const uint64_t before = tally->outcomes;
  const char *wrong = check_cluster(cluster, seed, tally, &arena);
  if (output == ALL)
    printf("seed %" PRIu64 ": outcomes %016" PRIx64 "\n", seed, tally->outcomes - before);
  if (wrong && output != QUIET)
    printf("swarm --seed %" PRIu64 " --clusters 1: %s (%s)\n", seed, wrong, what);
  arena_done(&arena);
  return wrong == NULL;
}

/* --- many, in processes of their own */

_Noreturn static void work(uint64_t seed, uint64_t n, Output output, int out) {
  alarm(n > 1 ? SECONDS_TOGETHER : SECONDS_ALONE);
  Tally tally = {0};
  bool good = true;
  for (uint64_t i = 0; i < n; i++)
    good &= passes(seed + i, output, &tally);
  good &= write(out, &tally, sizeof tally) == sizeof tally;
  exit(good ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* The exit status of a child that tries `n` clusters, as waitpid has it; adds what they met. */
static int try_in_child(uint64_t seed, uint64_t n, Output output, Tally *tally) {
  int ends[2];
  fflush(stdout);
  if (pipe(ends) < 0) abort();
  const pid_t child = fork();
  if (child < 0) abort();
  if (child == 0) work(seed, n, output, ends[1]);
  close(ends[1]);
  Tally met = {0};
  const bool told = read(ends[0], &met, sizeof met) == sizeof met;
  close(ends[0]);
  int status;
  if (waitpid(child, &status, 0) < 0) abort();
  for (int i = 0; told && i < COUNTS; i++)
    tally->counts[i] += met.counts[i];
  for (int i = 0; told && i < CAUSES; i++)
    tally->causes[i] += met.causes[i];
  if (told) tally->outcomes += met.outcomes;
  return status;
}

static bool passes_in_child(uint64_t seed, Tally *tally) {
  const int status = try_in_child(seed, 1, FAILURES, tally);
  if (WIFSIGNALED(status))
    printf("swarm --seed %" PRIu64 " --clusters 1: %s\n", seed,
           WTERMSIG(status) == SIGALRM ? "it does not end" : strsignal(WTERMSIG(status)));
  return status == 0;
}

/* The number of clusters that failed. */
static uint64_t try_all(uint64_t seed, uint64_t n, Output output, Tally *tally) {
  uint64_t failures = 0;
  for (uint64_t i = 0; i < n; i += PER_PROCESS) {
    const uint64_t part = n - i < PER_PROCESS ? n - i : PER_PROCESS;
    Tally met = *tally;
    if (try_in_child(seed + i, part, output, &met) == 0)
      *tally = met;
    else // who was it?
      for (uint64_t j = i; j < i + part; j++)
        failures += !passes_in_child(seed + j, tally);
  }
  return failures;
}

/* --- rules */

/* Few clusters have the pools that a scaler wants. */
enum { CLUSTERS_OF_RULE = 64, CLUSTERS_OF_SCALER = 256 };

static uint64_t outcomes_of_rule(const Rule *rule) {
  const uint64_t n = rule->kind == POLICY_SCALER ? CLUSTERS_OF_SCALER : CLUSTERS_OF_RULE;
  uint64_t outcomes = 0;
  for (uint64_t seed = 1; seed <= n; seed++) {
    Arena arena;
    arena_init(&arena);
    Cluster *cluster = ARENA_NEW(&arena, Cluster);
    cluster_draw_rule(cluster, rule, seed, &arena);
    const Trial *trial = run(cluster, false, false, 0, &arena);
    if (trial)
      outcomes +=
          hash_fold(seed, outcome_of(&trial->result, trial->records, cluster->workload.n_rows));
    arena_done(&arena);
  }
  return outcomes;
}

/* As lines of experiments/outcomes.def. */
static void print_rules(void) {
  Arena arena;
  arena_init(&arena);
  size_t n = 0;
  const Rule *rules = rules_list(&n, &arena);
  for (size_t i = 0; i < n; i++)
    printf("RULE(0x%016" PRIx64 ", %s)\n", outcomes_of_rule(&rules[i]), rules[i].name);
  arena_done(&arena);
}

/* --- the command */

/* So many that each pair of batcher and router meets PER_PAIR: of the policy sets, at least as many
 * hold a given pair as there are ways to choose pool and transfer. */
static uint64_t enough(void) {
  const uint64_t ways =
      cluster_count_policies(POLICY_POOL) * cluster_count_policies(POLICY_TRANSFER);
  return (PER_PAIR + ways - 1) / ways * cluster_policy_sets();
}

/* Every path that a count stands for was met; only asked of a full swarm. */
static bool report(const Tally *tally, uint64_t clusters, uint64_t failures) {
  printf("%" PRIu64 " clusters of %" PRIu64 " policy sets: %" PRIu64 " failed\n", clusters,
         cluster_policy_sets(), failures);
  bool all_met = true;
  for (int i = 0; i < COUNTS; i++) {
    printf("  %12" PRIu64 " %s\n", tally->counts[i], count_names[i]);
    all_met &= tally->counts[i] > 0;
  }
  for (Cause cause = 0; cause < CAUSES; cause++) {
    printf("  %12" PRIu64 " requests with time for %s\n", tally->causes[cause],
           metrics_causes[cause].name);
    all_met &= tally->causes[cause] > 0;
  }
  printf("  outcomes %016" PRIx64 "\n", tally->outcomes);
  return all_met;
}

/* Clusters that once failed, with the batcher that was chosen. */
static const struct {
  const char *batcher; // NULL: as drawn
  uint64_t seed;
} ONCE[] = {
    // A deadlock was broken only where no arrival was known of, so that clients that wait met
    // another end of it than the open trace of what they sent.
    {NULL, 3071388},
    {NULL, 3082468},
    {NULL, 4044191},
    // Layers of a slow GPU took less than nothing, by a fraction of a tick, and so 2^31 ticks
    // more in each stage.
    {NULL, 120092},
    // KV that had come in and a prompt between two chunks waited for each other.
    {"sglang", 2019769},
    // Two prompts were cut in one round: one at the end of a page, one that knows its end.
    {"sglang", 7010092},
    // A chunk that was over before the engine took the one before it counted as a tick more.
    {"vllm", 653},
    // A rank was reset while its step ran, whose token was counted.
    {"vllm", 3234},
    // A chunk of a prompt that a pause had preempted was lost with its machine, and dropped too.
    {"vllm", 500377},
    // A rank failed with the only tokens of a forward, whose end nobody waited for.
    {"vllm", 188},
    // A router of one model looked at caches of another's.
    {"vllm", 540682},
};

static uint64_t try_once(Tally *tally) {
  uint64_t failures = 0;
  for (size_t i = 0; i < sizeof ONCE / sizeof *ONCE; i++) {
    cluster_pin_batcher(ONCE[i].batcher);
    failures += !passes_in_child(ONCE[i].seed, tally);
  }
  cluster_pin_batcher(NULL);
  return failures;
}

int main(int argc, char **argv) {
  uint64_t seed = 1, clusters = 0;
  Output output = QUIET;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--verbose") == 0) {
      output = ALL;
    } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      seed = strtoull(argv[++i], NULL, 10);
    } else if (strcmp(argv[i], "--clusters") == 0 && i + 1 < argc) {
      clusters = strtoull(argv[++i], NULL, 10);
    } else if (strcmp(argv[i], "--pinned") == 0) {
      cluster_pin_policies();
    } else if (strcmp(argv[i], "--batcher") == 0 && i + 1 < argc &&
               cluster_pin_batcher(argv[i + 1])) {
      i++;
    } else if (strcmp(argv[i], "--rules") == 0) {
      print_rules();
      return 0;
    } else {
      fprintf(stderr, "usage: swarm [--seed N] [--clusters N] [--pinned] [--batcher NAME] "
                      "[--verbose] | --rules\n");
      return 2;
    }
  }
  Tally tally = {0};
  if (clusters == 1) return !passes(seed, output == ALL ? ALL : FAILURES, &tally);
  const bool full = clusters == 0;
  if (full) clusters = enough();
  uint64_t failures = try_all(seed, clusters, output, &tally);
  if (full) failures += try_once(&tally);
  const bool all_met = report(&tally, clusters, failures);
  return failures > 0 || (full && !all_met);
}
