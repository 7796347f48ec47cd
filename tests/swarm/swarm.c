/* Random small clusters under the audit: nothing may be lost, and how a run is computed may not
 * change what happens in it.
 *
 *     swarm [--seed N] [--clusters N] [--verbose]
 *
 * Each cluster, drawn from a seed of its own, is run coalesced, the same again unwatched, with
 * --step (equal digests, requests, histograms, totals, and all that its observer saw), layer by
 * layer where KV is swapped so, with another order of equal times (books only) and, where that is
 * exact, with all times doubled; some with clients that wait for answers, held against the open
 * trace of what they sent. By default there are so many clusters that each pair of batcher and
 * router meets at least 25. They run in processes of their own, many to each, so that an
 * assertion or an endless run is one failure with one line that reproduces it; a single cluster
 * (--clusters 1) runs in this process, for a debugger. */
#include "sim/base/hash.h"
#include "sim/kvtier/kvtier.h"
#include "tests/swarm/clients.h"
#include "tests/swarm/cluster.h"
#include "tests/swarm/compare.h"
#include "tests/swarm/outcome.h"
#include "tests/swarm/watch.h"
#include "tests/time_parts.h"
#include <inttypes.h>
#include <math.h>
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
enum { PER_PROCESS = 128, SECONDS_ALONE = 20, SECONDS_TOGETHER = 300 };

/* What the clusters met, to show that the draws reach these paths. */
typedef enum Count {
  COUNT_REQUESTS,
  COUNT_REJECTED,
  COUNT_CANCELLED_TTFT,
  COUNT_CANCELLED_E2E,
  COUNT_UNFINISHED,
  COUNT_TRANSFERS,
  COUNT_PREEMPTIONS,
  COUNT_EVICTIONS,
  COUNT_SWAPS,
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
  COUNT_CLIENTS,
  COUNT_SESSIONS,
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
    [COUNT_EVICTIONS] = "evictions",
    [COUNT_SWAPS] = "swaps to CPU memory",
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
    [COUNT_CLIENTS] = "clusters whose clients wait, compared with the open trace of that",
    [COUNT_SESSIONS] = "sessions",
    [COUNT_EVENTS] = "events",
    [COUNT_STEP_EVENTS] = "events with --step",
};

typedef struct Tally {
  uint64_t counts[COUNTS];
  uint64_t causes[CAUSES]; // requests that spent time for each
  uint64_t outcomes;       // of all clusters, whatever their order
} Tally;

/* One run of a cluster. */
typedef struct Trial {
  SimResult result;
  RequestRecord *records; // [n_rows] by id, without
  TimeParts *parts;       // [n_rows] where their time went
  int n_reported;
  Watch watch;
  bool watched, parted; // those were kept
} Trial;

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
  config.timeline_interval = watched && config.n_groups > 0 ? TIMELINE_INTERVAL : 0;
  trial->watched = watched;
  watch_init(&trial->watch, &config, WATCH_INTERVAL, arena);
  if (watched) config.observer = &trial->watch.observer;
  trial->parted = config.keeps_parts = tie_seed == 0;
  config.slo_reference = &cluster->models[0];
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

/* --- the books of one run; each check returns what is wrong, NULL if nothing */

static bool is_served(const RequestRecord *record) {
  return !record->rejected && !record->cancelled;
}

static bool within(Tick ticks, Tick patience) {
  return patience == 0 || ticks <= patience;
}

static const char *check_cancelled(const RequestRecord *record, const TraceRow *row) {
  const Tick waited = record->cancelled_at - record->arrived_at;
  if (record->last_token_at >= 0 || record->generated_tokens >= record->output_tokens)
    return "a request was cancelled that is served";
  const bool first = record->cancelled == CANCELLED_TTFT;
  const Tick patience = first ? row->first_token_patience : row->patience;
  if (patience == 0 || waited < patience) return "a client gave up too early";
  if (first && record->first_token_at >= 0) return "a first token came that was not waited for";
  return NULL;
}

static const char *check_request(const RequestRecord *record, const TraceRow *row) {
  if (record->prompt_tokens != row->prompt_tokens || record->output_tokens != row->output_tokens ||
      record->arrived_at != row->at)
    return "a request is not the one that arrived";
  if (record->rejected) return NULL;
  if (record->cancelled) return check_cancelled(record, row);
  if (record->prefill_began_at < record->arrived_at) return "a prefill began before it arrived";
  if (record->first_token_at <= record->prefill_began_at) return "a prefill took no time";
  if (record->last_token_at < record->first_token_at) return "TTFT is above E2E";
  if ((record->last_token_at > record->first_token_at) != (record->output_tokens > 1))
    return "the last token is not after the first of several";
  if (!within(record->first_token_at - record->arrived_at, row->first_token_patience) ||
      !within(record->last_token_at - record->arrived_at, row->patience))
    return "a client did not give up";
  return NULL;
}

/* Where nothing was computed twice, machines computed for those who gave up what is booked, but for
 * the first output token of each, which comes with its prompt; the client may not have had that. */
static const char *check_wasted(const Cluster *cluster, const Trial *trial, int64_t served) {
  const Metrics *metrics = &trial->result.metrics;
  const MachineTotals *totals = &trial->result.totals;
  if (metrics->evictions > 0) return NULL;
  const int64_t wasted = totals->prefill_tokens + totals->cached_tokens - metrics->dropped_tokens +
                         totals->decode_tokens - served;
  int64_t n_begun = 0, cached = 0;
  for (int i = 0; i < cluster->workload.n_rows; i++) {
    const RequestRecord *record = &trial->records[i];
    n_begun += record->cancelled && record->first_token_at >= 0;
    if (record->cancelled) cached += record->cached_tokens; // that may have been dropped since
  }
  if (wasted > metrics->cancelled_tokens - n_begun + cached ||
      wasted < metrics->cancelled_tokens - (int64_t)metrics->cancelled)
    return "tokens for those who gave up are miscounted";
  return NULL;
}

/* Every token of a finished request came out of a prefill or of a decode iteration. */
static const char *check_tokens(const Cluster *cluster, const Trial *trial) {
  const Metrics *metrics = &trial->result.metrics;
  int64_t prompts = 0, decoded = 0;
  uint64_t evictions = 0, swaps = 0;
  double decode_ticks = 0;
  for (int i = 0; i < cluster->workload.n_rows; i++) {
    const RequestRecord *record = &trial->records[i];
    if (!is_served(record)) continue;
    prompts += record->prompt_tokens;
    decoded += record->output_tokens - 1 - record->evictions;
    evictions += (uint64_t)record->evictions;
    swaps += (uint64_t)record->swaps;
    decode_ticks += (double)(record->last_token_at - record->first_token_at);
  }
  const MachineTotals *totals = &trial->result.totals;
  if (metrics->losses > 0) return NULL; // what was lost with machines was made twice
  if (metrics->cancelled > 0) return check_wasted(cluster, trial, prompts + decoded);
  if (metrics->evictions != evictions) return "evictions are miscounted";
  if ((uint64_t)totals->swaps_out != swaps || (uint64_t)totals->swaps_in != swaps)
    return "not all that were swapped out came back";
  if (totals->decode_tokens != decoded) return "decode tokens are miscounted";
  const int64_t prefilled =
      totals->prefill_tokens + totals->cached_tokens - metrics->dropped_tokens;
  if (evictions == 0 && prefilled != prompts) return "prefill tokens are miscounted";
  if (metrics->tbt.total != (uint64_t)decoded + evictions) return "a gap between tokens is missing";
  // the gaps are exact, the tokens at the nearest tick
  const double rounding = (double)metrics->tbt.total;
  if (fabs(metrics->tbt.sum - decode_ticks) > 1e-9 * decode_ticks + rounding)
    return "gaps do not add up";
  if (metrics->rejected == 0 && metrics->tbt.total != metrics->asked.gaps)
    return "gaps are not those that were asked for";
  return NULL;
}

/* Every latency has been observed of all that it is of; check_tokens has an eye on gaps. */
static const char *check_latencies(const Cluster *cluster, const Trial *trial) {
  const Metrics *metrics = &trial->result.metrics;
  uint64_t served[] = {[ASKED_requests] = metrics->completed, [ASKED_paced] = 0};
  for (int i = 0; i < cluster->workload.n_rows; i++)
    served[ASKED_paced] += is_served(&trial->records[i]) && trial->records[i].output_tokens > 1;
  for (int i = 0; i < METRICS_HISTOGRAMS; i++) {
    const Asked asked = metrics_histograms[i].asked;
    if (asked != ASKED_requests && asked != ASKED_paced) continue;
    const uint64_t total = metrics->histograms[i].total; // of those who gave up later, too
    if (total < served[asked] ||
        (metrics->cancelled + metrics->losses == 0 && total > served[asked]))
      return "a latency is missing";
  }
  return NULL;
}

static const char *check_books(const Cluster *cluster, Trial *trial) {
  const char *wrong = NULL;
  if (!trial) return "the run failed";
  const SimResult *result = &trial->result;
  const Metrics *metrics = &result->metrics;
  const uint64_t ended = metrics_ended(metrics);
  if (metrics->asked.requests != (uint64_t)cluster->workload.n_rows)
    return "a request did not arrive";
  if (metrics->asked.requests != ended + result->unfinished || ended != (uint64_t)trial->n_reported)
    return "a request was lost";
  const KvTier *kvtier = (const KvTier *)cluster->config.policies[POLICY_KVTIER].policy;
  if (result->unfinished > 0) return kvtier->pick ? "a request was left unfinished" : NULL;
  if (trial->watched && (wrong = watch_check(&trial->watch, result))) return wrong;
  if ((wrong = check_latencies(cluster, trial))) return wrong;
  for (int i = 0; i < cluster->workload.n_rows; i++) {
    wrong = check_request(&trial->records[i], &cluster->workload.rows[i]);
    if (!wrong && trial->parted) wrong = time_parts_check(&trial->records[i], &trial->parts[i]);
    if (wrong) return wrong;
  }
  return check_tokens(cluster, trial);
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
    const MachineTotals *totals = &result->pools[i].totals;
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
      [COUNT_EVICTIONS] = metrics->evictions,
      [COUNT_SWAPS] = (uint64_t)result->totals.swaps_out,
      [COUNT_ROLE_CHANGES] = metrics->role_changes,
      [COUNT_FLIPS] = metrics->flips,
      [COUNT_DISPATCHES] = metrics->dispatches,
      [COUNT_PIPELINED] = pipelined_iterations(result),
      [COUNT_EXTRAPOLATED] =
          (uint64_t)(extrapolated[EXTRAPOLATION_NEAR] + extrapolated[EXTRAPOLATION_FAR]),
      [COUNT_EXPANSIONS] = (uint64_t)result->totals.expansions,
      [COUNT_CONTRACTIONS] = (uint64_t)result->totals.contractions,
      [COUNT_STALLED] = result->totals.stall_ticks > 0,
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
  if (of->completed == of->asked.requests && metrics->tbt.total != metrics->asked.gaps)
    return "with a warm-up, gaps are not those that were asked for";
  const char *wrong = check_same(cluster, warm, stepped);
  return wrong ? arena_printf(arena, "with a warm-up, stepped, %s", wrong) : NULL;
}

static const char *check_cluster(Cluster *cluster, uint64_t seed, Tally *tally, Arena *arena) {
  Trial *first = run(cluster, false, true, 0, arena);
  const char *wrong = check_books(cluster, first);
  if (wrong) return wrong;
  if ((wrong = check_same(cluster, first, run(cluster, false, false, 0, arena))))
    return arena_printf(arena, "run again, %s", wrong);
  Trial *stepped = run(cluster, true, true, 0, arena);
  if ((wrong = check_same(cluster, first, stepped)) || (wrong = check_books(cluster, stepped)))
    return arena_printf(arena, "stepped, %s", wrong);
  if (first->watch.seen != stepped->watch.seen) return "stepped, an observer sees something else";
  if ((wrong = check_books(cluster, run(cluster, false, false, seed + 1, arena))))
    return arena_printf(arena, "with other ties, %s", wrong);
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
  const char *wrong = check_cluster(cluster, seed, tally, &arena);
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

/* --- the command */

static uint64_t count(PolicyKind kind) {
  uint64_t n = 0;
  while (policy_list(kind)[n])
    n++;
  return n;
}

/* So many that each pair of batcher and router meets PER_PAIR: of the policy sets, at least as many
 * hold a given pair as there are ways to choose pool and transfer. */
static uint64_t enough(void) {
  const uint64_t ways = count(POLICY_POOL) * count(POLICY_TRANSFER);
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
    } else {
      fprintf(stderr, "usage: swarm [--seed N] [--clusters N] [--verbose]\n");
      return 2;
    }
  }
  Tally tally = {0};
  if (clusters == 1) return !passes(seed, output == ALL ? ALL : FAILURES, &tally);
  const bool full = clusters == 0;
  if (full) clusters = enough();
  const uint64_t failures = try_all(seed, clusters, output, &tally);
  const bool all_met = report(&tally, clusters, failures);
  return failures > 0 || (full && !all_met);
}
