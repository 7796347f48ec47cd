/* Tandem over a recorded run, held against it; see sglang.h. */
#include "sim/policies.h"
#include "tests/array_trace.h"
#include "tests/differential/runs.h"
#include "tests/differential/sglang.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RATIO_WITHIN = 1000000 }; // of 10^-12, as much as replay.py beside the data allows

typedef struct Replay {
  const RecordedRounds *run;
  size_t n_rounds;       // so far
  RoundTimes *times;     // [run->n_requests]
  RecordedRound got;     // the present step
  Numbers sets;          // in the order in which they were taken
  const Numbers *orders; // of a run before, to be taken again; NULL: none
  char *difference;      // the first; NULL: none so far
  size_t capacity, length;
  volatile sig_atomic_t astray;
  Arena *arena;
} Replay;

__attribute__((format(printf, 2, 3))) static void add(Replay *self, const char *format, ...) {
  va_list list;
  va_start(list, format);
  const char *text = arena_vprintf(self->arena, format, list);
  va_end(list);
  const size_t n = strlen(text);
  ARENA_RESERVE(self->arena, self->difference, self->capacity, self->length + n + 1);
  memcpy(self->difference + self->length, text, n + 1);
  self->length += n;
}

/* --- steps */

static void fill(Replay *self, RoundPart part, const uint64_t *requests, size_t n) {
  for (size_t i = 0; i < n; i++)
    numbers_add(&self->got.parts[part], (int64_t)requests[i], self->arena);
}

/* Prompts first, as SGLang's batches have them. */
static void fill_items(Replay *self, const StepRecord *step, bool prefills) {
  for (size_t i = 0; i < step->n_items; i++) {
    const StepItem *item = &step->items[i];
    if (item->prefills != prefills) continue;
    numbers_add(&self->got.parts[ROUND_TOKENS], (int64_t)item->request, self->arena);
    numbers_add(&self->got.parts[ROUND_TOKENS], item->tokens, self->arena);
    if (!prefills) continue;
    numbers_add(&self->got.parts[ROUND_PAST], (int64_t)item->request, self->arena);
    numbers_add(&self->got.parts[ROUND_PAST], item->past_tokens, self->arena);
  }
}

static void fill_round(Replay *self, const StepRecord *step) {
  const int64_t page = self->run->page;
  size_t n_prefills = 0;
  for (size_t i = 0; i < step->n_items; i++)
    n_prefills += step->items[i].prefills;
  for (RoundPart part = 0; part < ROUND_PARTS; part++)
    self->got.parts[part].n = 0;
  const int64_t single[ROUND_PARTS] = {
      [ROUND_AT] = step->decided_at,
      [ROUND_MODE] = n_prefills == 0              ? 'D'
                     : n_prefills < step->n_items ? 'M'
                                                  : 'E',
      [ROUND_CHUNKED] = step->chunked,
      [ROUND_FULL] = step->full,
      [ROUND_FREE] = (step->free_blocks - step->evictable_blocks) * page,
      [ROUND_EVICTABLE] = step->evictable_blocks * page,
      [ROUND_RATIO] = (int64_t)round(step->new_token_ratio * 1e12),
  };
  for (RoundPart part = 0; part < ROUND_PARTS; part++)
    if (part < ROUND_TOKENS || part > ROUND_RETRACTED)
      numbers_add(&self->got.parts[part], single[part], self->arena);
  fill_items(self, step, true);
  fill_items(self, step, false);
  fill(self, ROUND_RUNNING, step->running, step->n_running);
  fill(self, ROUND_WAITING, step->waiting, (size_t)step->n_waiting);
  fill(self, ROUND_RETRACTED, step->preempted, step->n_preempted);
}

static bool same_part(const Numbers *want, const Numbers *got, RoundPart part) {
  if (part == ROUND_RATIO) return llabs(want->at[0] - got->at[0]) <= RATIO_WITHIN;
  return want->n == got->n &&
         (want->n == 0 || memcmp(want->at, got->at, want->n * sizeof *want->at) == 0);
}

static void add_side(Replay *self, const char *side, const RecordedRound *round) {
  add(self, "\n  %s", side);
  for (RoundPart part = 0; part < ROUND_PARTS; part++) {
    add(self, " %s", round_part_names[part]);
    for (size_t i = 0; i < round->parts[part].n; i++)
      add(self, "%s%" PRId64, i ? "," : " ", round->parts[part].at[i]);
  }
}

static void check_step(void *context, const StepRecord *step) {
  Replay *self = context;
  const RecordedRounds *run = self->run;
  if (self->difference || step->n_items == 0) return;
  const size_t k = self->n_rounds++;
  fill_round(self, step);
  bool same = k < run->n_rounds;
  for (RoundPart part = 0; part < ROUND_PARTS && same; part++)
    same = same_part(&run->rounds[k].parts[part], &self->got.parts[part], part);
  if (same) return;
  self->astray = 1;
  add(self, "step %zu:", k);
  for (RoundPart part = 0; part < ROUND_PARTS && k < run->n_rounds; part++)
    if (!same_part(&run->rounds[k].parts[part], &self->got.parts[part], part))
      add(self, " %s", round_part_names[part]);
  if (k < run->n_rounds) add_side(self, "recorded", &run->rounds[k]);
  add_side(self, "replayed", &self->got);
}

/* As far as the record names them. */
static void order_as_recorded(const Replay *self, uint64_t *requests, size_t n) {
  const Numbers *order = &self->run->rounds[self->n_rounds].parts[ROUND_RETRACTED];
  size_t n_placed = 0;
  for (size_t i = 0; i < order->n; i++)
    for (size_t j = n_placed; j < n; j++)
      if ((int64_t)requests[j] == order->at[i]) {
        const uint64_t moved = requests[j];
        for (; j > n_placed; j--)
          requests[j] = requests[j - 1];
        requests[n_placed++] = moved;
        break;
      }
}

/* Those that were preempted together, of whom SGLang keeps a set, in the order of the record; in
 * that of the run before once more. */
static void order_set(void *context, uint64_t *requests, size_t n) {
  Replay *self = context;
  for (size_t i = 0; i < n && self->orders; i++)
    requests[i] = (uint64_t)self->orders->at[self->sets.n + i];
  if (self->orders) {
    self->sets.n += n;
    return;
  }
  if (self->n_rounds < self->run->n_rounds) order_as_recorded(self, requests, n);
  for (size_t i = 0; i < n; i++)
    numbers_add(&self->sets, (int64_t)requests[i], self->arena);
}

/* --- times */

static int keep_times(void *context, const RequestRecord *record, const Metrics *so_far,
                      Diag *diag) {
  (void)so_far, (void)diag;
  Replay *self = context;
  self->times[record->id] = (RoundTimes){record->first_token_at, record->last_token_at};
  return 0;
}

static void check_times(Replay *self, const char *want_side, const RoundTimes *want,
                        const char *got_side, const RoundTimes *got) {
  for (size_t i = 0; i < self->run->n_requests && !self->difference; i++) {
    if (want[i].last_token_at < 0 || (want[i].first_token_at == got[i].first_token_at &&
                                      want[i].last_token_at == got[i].last_token_at))
      continue;
    add(self, "request %zu: %s %" PRId64 " %" PRId64 ", %s %" PRId64 " %" PRId64, i, want_side,
        want[i].first_token_at, want[i].last_token_at, got_side, got[i].first_token_at,
        got[i].last_token_at);
  }
}

/* --- runs */

static void line_init(Pwl *pwl, Tick each, int64_t most, Arena *arena) {
  const PwlKnot knots[] = {{1, tick_seconds(each)}, {(double)most, tick_seconds(each * most)}};
  pwl_init(pwl, knots, 2, false, arena);
}

static void model_init(PerfModel *model, const RecordedRounds *run, Arena *arena) {
  *model = (PerfModel){.name = "recorded", .form = PERF_COMPOSED, .overhead = run->base};
  line_init(&model->linear, run->per_token, run->pool_tokens + run->max_num_seqs, arena);
  if (run->per_sequence > 0)
    line_init(&model->head, run->per_sequence, run->max_num_seqs + 1, arena);
  perfmodel_compile(model, &(CurveTable){0}, run->max_num_seqs, arena);
}

static int simulate(Replay *self, bool stepped, uint64_t *ret_digest, Diag *diag) {
  const RecordedRounds *run = self->run;
  const Place place = place_of_file(run->path);
  PerfModel model;
  model_init(&model, run, self->arena);
  const PoolSpec pool = {.name = "all",
                         .machine = "recorded",
                         .role = ROLE_MIXED,
                         .count = 1,
                         .perfmodel = &model,
                         .kv_blocks = run->pool_tokens / run->page,
                         .block_size = run->page,
                         .kv_bytes_per_token = 1,
                         .num_hidden_layers = 1,
                         .nic_bandwidth = 1};
  ArrayTrace trace;
  array_trace_init(&trace, run->rows, (int)run->n_requests);
  SimConfig config = {.pools = &pool,
                      .n_pools = 1,
                      .trace = &trace.source,
                      .on_request = keep_times,
                      .on_request_context = self,
                      .on_step = stepped ? check_step : NULL,
                      .on_step_context = self,
                      .on_set = order_set,
                      .idle_rounds_sleep = true,
                      .interrupted = &self->astray};
  const Policy *batcher = policy_find(POLICY_BATCHER, "sglang");
  const char *options = arena_printf(self->arena, "{%s}", run->options);
  const Node *map = yaml_parse(run->path, options, strlen(options), self->arena, diag);
  const void *state = map ? policy_bind(batcher, map, place, self->arena, diag) : NULL;
  config.policies[POLICY_BATCHER] = (PolicyChoice){batcher, state};
  SimResult result;
  self->times = ARENA_ARRAY(self->arena, RoundTimes, run->n_requests);
  for (size_t i = 0; i < run->n_requests; i++)
    self->times[i] = (RoundTimes){-1, -1};
  if (!state || sim_run(&config, &result, self->arena, diag) < 0) return -1;
  *ret_digest = result.digest;
  return 0;
}

static int replay(const RecordedRounds *run, const char **ret_difference, Diag *diag) {
  Replay stepped = {.run = run, .arena = run->arena}, coalesced = stepped;
  uint64_t digests[2] = {0};
  if (simulate(&stepped, true, &digests[0], diag) < 0 && !stepped.difference) return -1;
  if (!stepped.difference && stepped.n_rounds < run->n_rounds)
    add(&stepped, "step %zu: the replay ends before it", stepped.n_rounds);
  check_times(&stepped, "recorded", run->times, "replayed", stepped.times);
  coalesced.orders = &stepped.sets;
  if (!stepped.difference) {
    if (simulate(&coalesced, false, &digests[1], diag) < 0) return -1;
    check_times(&stepped, "stepped", stepped.times, "coalesced", coalesced.times);
    if (!stepped.difference && digests[0] != digests[1])
      add(&stepped, "digest: stepped %016" PRIx64 ", coalesced %016" PRIx64, digests[0],
          digests[1]);
  }
  *ret_difference = stepped.difference;
  return !stepped.difference;
}

const char *const runs_folder = "sglang-scheduler-runs/runs";
const char *const runs_more[] = {NULL};

int run_check(RunCheck *ret_check, const char *path, Arena *arena, Diag *diag) {
  RecordedRounds run;
  if (recorded_rounds_load(&run, path, arena, diag) < 0) return -1;
  *ret_check = (RunCheck){.name = run.name, .n_steps = run.n_rounds, .n_requests = run.n_requests};
  return replay(&run, &ret_check->difference, diag);
}
