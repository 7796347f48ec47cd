/* Tandem over a recorded run, held against it; see vllm.h. */
#include "sim/policies.h"
#include "tests/array_trace.h"
#include "tests/differential/runs.h"
#include "tests/differential/vllm.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define US (TICKS_PER_SECOND / 1000000)

/* A line of text that grows. */
typedef struct Text {
  char *at;
  size_t length, capacity;
  Arena *arena;
} Text;

typedef struct Replay {
  const RecordedRun *run;
  size_t n_steps;                // so far
  size_t *next_drafts;           // [run->n_requests] of run->drafts
  RequestTimes *times;           // [run->n_requests]
  StepItem *items;               // of the present step, to be sorted
  uint64_t *preempted, *loading; // the same
  size_t items_capacity, preempted_capacity, loading_capacity;
  Text difference; // the first; of length 0: none so far
  volatile sig_atomic_t astray;
} Replay;

/* --- what differs, in the words of the record */

__attribute__((format(printf, 2, 3))) static void add(Text *self, const char *format, ...) {
  va_list list, again;
  va_start(list, format);
  va_copy(again, list);
  const size_t more = (size_t)vsnprintf(NULL, 0, format, list);
  va_end(list);
  ARENA_RESERVE(self->arena, self->at, self->capacity, self->length + more + 1);
  vsnprintf(self->at + self->length, more + 1, format, again);
  va_end(again);
  self->length += more;
}

/* Microseconds, with what is beyond whole ones. */
static void add_time(Text *self, const char *key, Tick at) {
  if (at < 0)
    add(self, "\"%s\":null", key);
  else if (at % US == 0)
    add(self, "\"%s\":%lld", key, (long long)(at / US));
  else
    add(self, "\"%s\":%lld.%06lld", key, (long long)(at / US), (long long)(at % US));
}

static void add_items(Text *self, const RecordedRun *run, const StepRecord *step, bool hits) {
  const char *comma = "";
  add(self, "{");
  for (size_t i = 0; i < step->n_items; i++) {
    const StepItem *item = &step->items[i];
    if (hits && item->hit_tokens < 0) continue;
    add(self, "%s\"%lld\":%d", comma, (long long)run->names[item->request],
        hits ? item->hit_tokens : item->tokens);
    comma = ",";
  }
  add(self, "}");
}

static void add_drafts(Text *self, const RecordedRun *run, const StepRecord *step) {
  const char *comma = "";
  add(self, "{");
  for (size_t i = 0; i < step->n_items; i++) {
    const StepItem *item = &step->items[i];
    if (item->drafts == 0) continue;
    add(self, "%s\"%lld\":%d", comma, (long long)run->names[item->request], item->drafts);
    comma = ",";
  }
  add(self, "}");
}

static void add_encode(Text *self, const RecordedRun *run, const StepRecord *step) {
  const char *comma = "";
  add(self, "{");
  for (size_t i = 0; i < step->n_items; i++) {
    const StepItem *item = &step->items[i];
    if (item->encodes == 0) continue;
    add(self, "%s\"%lld\":[", comma, (long long)run->names[item->request]);
    const char *between = "";
    for (int input = 0; input < 64; input++) {
      if (!(item->encodes >> input & 1)) continue;
      add(self, "%s%d", between, input);
      between = ",";
    }
    add(self, "]");
    comma = ",";
  }
  add(self, "}");
}

static void add_names(Text *self, const RecordedRun *run, const uint64_t *requests, size_t n) {
  add(self, "[");
  for (size_t i = 0; i < n; i++)
    add(self, "%s%lld", i > 0 ? "," : "", (long long)run->names[requests[i]]);
  add(self, "]");
}

static void add_stages(Text *self, const StepRecord *step) {
  add(self, "[");
  for (int64_t i = 0; step->stages && i < 2 * step->n_stages; i++)
    add(self, "%s%lld", i > 0 ? "," : "", (long long)(step->stages[i] / US));
  add(self, "]");
}

static void add_held(Text *self, const StepRecord *step) {
  add(self, "[");
  for (size_t g = 0; g < step->n_held; g++)
    add(self, "%s%lld", g > 0 ? "," : "", (long long)step->held[g]);
  add(self, "]");
}

static void add_part(Text *self, const RecordedRun *run, const StepRecord *step, StepPart part) {
  const char *key = step_part_names[part];
  if (part > PART_END && part != PART_OUT && part != PART_LAUNCH) add(self, "\"%s\":", key);
  switch (part) {
  case PART_AT:
    add_time(self, key, step->decided_at);
    break;
  case PART_BEGIN:
    add_time(self, key, step->begin);
    break;
  case PART_END:
    add_time(self, key, step->end);
    break;
  case PART_TOKENS:
  case PART_HITS:
    add_items(self, run, step, part == PART_HITS);
    break;
  case PART_PREEMPTED:
    add_names(self, run, step->preempted, step->n_preempted);
    break;
  case PART_RUNNING:
    add_names(self, run, step->running, step->n_running);
    break;
  case PART_DRAFTS:
    add_drafts(self, run, step);
    break;
  case PART_HELD:
    add_held(self, step);
    break;
  case PART_CALL:
    add(self, "%u", step->number);
    break;
  case PART_STAGES:
    add_stages(self, step);
    break;
  case PART_OUT:
    add_time(self, key, step->out_at);
    break;
  case PART_LAUNCH:
    add_time(self, key, step->launched_at);
    break;
  case PART_LOADING:
    add_names(self, run, step->loading, step->n_loading);
    break;
  case PART_ENCODE:
    add_encode(self, run, step);
    break;
  default:
    add(self, "%lld", (long long)*step_count((StepRecord *)step, part));
  }
}

static void add_side(Text *self, const RecordedRun *run, const char *side, const StepRecord *step,
                     unsigned given) {
  const char *comma = "";
  add(self, "\n  %s {", side);
  for (StepPart part = 0; part < STEP_PARTS; part++) {
    if (!(given & 1u << part)) continue;
    add(self, "%s", comma);
    add_part(self, run, step, part);
    comma = ",";
  }
  add(self, "}");
}

/* --- steps */

static bool same_tokens(const StepRecord *want, const StepRecord *got) {
  if (want->n_items != got->n_items) return false;
  for (size_t i = 0; i < want->n_items; i++)
    if (want->items[i].request != got->items[i].request ||
        want->items[i].tokens != got->items[i].tokens)
      return false;
  return true;
}

static bool same_drafts(const StepRecord *want, const StepRecord *got) {
  if (want->n_items != got->n_items) return false;
  for (size_t i = 0; i < want->n_items; i++)
    if (want->items[i].drafts != got->items[i].drafts) return false;
  return true;
}

static bool same_encode(const StepRecord *want, const StepRecord *got) {
  if (want->n_items != got->n_items) return false;
  for (size_t i = 0; i < want->n_items; i++)
    if (want->items[i].encodes != got->items[i].encodes) return false;
  return true;
}

/* The next item from `i` that is of a request scheduled for the first time; NULL: none. */
static const StepItem *next_hit(const StepRecord *step, size_t *i) {
  while (*i < step->n_items && step->items[*i].hit_tokens < 0)
    ++*i;
  return *i < step->n_items ? &step->items[(*i)++] : NULL;
}

static bool same_hits(const StepRecord *want, const StepRecord *got) {
  const StepItem *a, *b;
  size_t i = 0, j = 0;
  do {
    a = next_hit(want, &i);
    b = next_hit(got, &j);
    if (!a != !b) return false;
    if (a && (a->request != b->request || a->hit_tokens != b->hit_tokens)) return false;
  } while (a);
  return true;
}

static bool same_requests(const uint64_t *want, size_t n_want, const uint64_t *got, size_t n_got) {
  return n_want == n_got && (n_got == 0 || memcmp(want, got, n_got * sizeof *got) == 0);
}

static bool same_stages(const StepRecord *want, const StepRecord *got) {
  const size_t bytes = (size_t)(2 * want->n_stages) * sizeof *want->stages;
  return want->n_stages == got->n_stages && got->stages &&
         memcmp(want->stages, got->stages, bytes) == 0;
}

static bool same_part(const StepRecord *want, const StepRecord *got, StepPart part) {
  switch (part) {
  case PART_AT:
    return want->decided_at == got->decided_at;
  case PART_BEGIN:
    return want->begin == got->begin;
  case PART_END:
    return want->end == got->end;
  case PART_TOKENS:
    return same_tokens(want, got);
  case PART_HITS:
    return same_hits(want, got);
  case PART_PREEMPTED:
    return same_requests(want->preempted, want->n_preempted, got->preempted, got->n_preempted);
  case PART_RUNNING:
    return same_requests(want->running, want->n_running, got->running, got->n_running);
  case PART_DRAFTS:
    return same_drafts(want, got);
  case PART_HELD:
    return want->n_held == got->n_held &&
           memcmp(want->held, got->held, want->n_held * sizeof *want->held) == 0;
  case PART_CALL:
    return want->number == got->number;
  case PART_STAGES:
    return same_stages(want, got);
  case PART_OUT:
    return want->out_at == got->out_at;
  case PART_LAUNCH:
    return want->launched_at == got->launched_at;
  case PART_LOADING:
    return same_requests(want->loading, want->n_loading, got->loading, got->n_loading);
  case PART_ENCODE:
    return same_encode(want, got);
  default:
    return *step_count((StepRecord *)want, part) == *step_count((StepRecord *)got, part);
  }
}

static int by_request(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* As the record has it: what is without order, by request. */
static StepRecord sorted_step(Replay *self, const StepRecord *step) {
  Arena *arena = self->difference.arena;
  ARENA_RESERVE(arena, self->items, self->items_capacity, step->n_items);
  ARENA_RESERVE(arena, self->preempted, self->preempted_capacity, step->n_preempted);
  StepRecord sorted = *step;
  sorted.items = self->items;
  sorted.preempted = self->preempted;
  ARENA_RESERVE(arena, self->loading, self->loading_capacity, step->n_loading);
  for (size_t i = 0; i < step->n_loading; i++)
    self->loading[i] = step->loading[i];
  if (step->n_loading > 0) qsort(self->loading, step->n_loading, sizeof *self->loading, by_request);
  sorted.loading = self->loading;
  for (size_t i = 0; i < step->n_items; i++)
    self->items[i] = step->items[i];
  for (size_t i = 0; i < step->n_preempted; i++)
    self->preempted[i] = step->preempted[i];
  if (step->n_items > 0) qsort(self->items, step->n_items, sizeof *self->items, by_request);
  if (step->n_preempted > 0)
    qsort(self->preempted, step->n_preempted, sizeof *self->preempted, by_request);
  return sorted;
}

static void check_step(void *context, const StepRecord *step) {
  Replay *self = context;
  const RecordedRun *run = self->run;
  const size_t n_ranks = (size_t)run->ranks, n = self->n_steps++;
  const size_t k = n_ranks > 1 ? step->forward * n_ranks + step->instance : n;
  if (self->difference.length > 0) return;
  const StepRecord got = sorted_step(self, step);
  if (k >= run->n_steps) {
    self->astray = 1;
    add(&self->difference, "step %zu: is not recorded", k);
    add_side(&self->difference, run, "replayed", &got, ~0u);
    return;
  }
  const RecordedStep *want = &run->steps[k];
  unsigned different = 0;
  for (StepPart part = 0; part < STEP_PARTS; part++)
    if (want->given & 1u << part && !same_part(&want->step, &got, part)) different |= 1u << part;
  if (!different) return;
  self->astray = 1;
  add(&self->difference, "step %zu:", k);
  for (StepPart part = 0; part < STEP_PARTS; part++)
    if (different & 1u << part) add(&self->difference, " %s", step_part_names[part]);
  add_side(&self->difference, run, "recorded", &want->step, want->given);
  add_side(&self->difference, run, "replayed", &got, want->given);
}

/* --- drafts */

/* The next of the record. */
static int32_t drafts_of(void *context, uint64_t request, int32_t n, int32_t *ret_proposed) {
  Replay *self = context;
  const RecordedRun *run = self->run;
  size_t i = self->next_drafts[request];
  const bool known = i < run->n_drafts && run->drafts[i].request == request;
  if (!known || (n == 0 && run->drafts[i].n > 0)) return 0;
  self->next_drafts[request]++;
  if (run->drafts[i].proposed >= 0) *ret_proposed = run->drafts[i].proposed;
  return run->drafts[i].accepted;
}

/* --- times */

static int keep_times(void *context, const RequestRecord *record, const Metrics *so_far,
                      Diag *diag) {
  (void)so_far;
  (void)diag;
  Replay *self = context;
  self->times[record->id] =
      (RequestTimes){record->first_token_at, record->last_token_at, record->cancelled_at};
  return 0;
}

static Tick end_of(const RequestTimes *times) {
  return times->last_token_at < 0 ? times->cancelled_at : times->last_token_at;
}

static bool same_times(const RequestTimes *want, const RequestTimes *got) {
  return end_of(want) < 0 ||
         (want->first_token_at == got->first_token_at && end_of(want) == end_of(got) &&
          (want->cancelled_at < 0) == (got->cancelled_at < 0));
}

/* Those that `want` has; the request that is shown is the one that ended first. */
static void check_times(Text *difference, const RecordedRun *run, const char *const sides[2],
                        const RequestTimes *want, const RequestTimes *got) {
  if (difference->length > 0) return;
  size_t first = run->n_requests;
  for (size_t i = 0; i < run->n_requests; i++)
    if (!same_times(&want[i], &got[i]) &&
        (first == run->n_requests || end_of(&want[i]) < end_of(&want[first])))
      first = i;
  if (first == run->n_requests) return;
  add(difference, "request %lld:", (long long)run->names[first]);
  for (int side = 0; side < 2; side++) {
    const RequestTimes *times = side ? &got[first] : &want[first];
    add(difference, "\n  %s {", sides[side]);
    add_time(difference, "first_token_us", times->first_token_at);
    add(difference, ",");
    add_time(difference, times->cancelled_at < 0 ? "at_us" : "cancelled_us", end_of(times));
    add(difference, "}");
  }
}

/* --- runs */

/* base + per_token·t, whatever the tokens are of. */
static void model_init(PerfModel *model, const RecordedRun *run, Arena *arena) {
  *model = (PerfModel){.name = "recorded", .form = PERF_COMPOSED, .overhead = run->base};
  const int64_t most = run->max_num_batched_tokens + run->max_num_seqs;
  const PwlKnot knots[] = {{1, tick_seconds(run->per_token)},
                           {most, tick_seconds(run->per_token * most)}};
  pwl_init(&model->linear, knots, 2, false, arena);
  perfmodel_compile(model, &(CurveTable){0}, run->max_num_seqs, arena);
}

/* The time of a rank's batch. */
static Tick rank_ticks(void *context, const ExecutorBatch *batch, Diag *diag) {
  const RecordedRun *run = context;
  (void)diag;
  const int64_t tokens = batch->shape.prefill_tokens + batch->shape.decode_seqs;
  return run->base + run->per_token * tokens +
         run->per_seq * ((int64_t)batch->n_prefills + batch->n_decodes);
}

/* The times of a pipeline, as its stages have them. */
static Tick stage_ticks(void *context, const ExecutorBatch *batch, Tick *ret_last, Diag *diag) {
  const RecordedRun *run = context;
  const Tick ticks = rank_ticks(context, batch, diag);
  *ret_last = ticks + run->last;
  return ticks;
}

/* That of the record's engine, with what the record says. */
static int choose_batcher(const RecordedRun *run, SimConfig *config, Arena *arena, Diag *diag) {
  const char *written = arena_printf(arena, "{name: vllm%s}", run->options);
  const Node *map = yaml_parse(run->path, written, strlen(written), arena, diag);
  const ServingUse use = {
      .engine = run->engine, .max_model_len = run->max_model_len, .at = place_of_file(run->path)};
  if (!map) return -1;
  return serving_bind_batcher(&use, map, &config->policies[POLICY_BATCHER], NULL, arena, diag);
}

/* Bytes per second that the tokens of a block take their time at, a byte each. */
static int64_t block_rate(const RecordedRun *run) {
  return run->block_size * TICKS_PER_SECOND / run->transfer_per_block;
}

/* One instance with the memory of the record, less the block that vLLM never uses. */
static int simulate(Replay *self, bool stepped, uint64_t *ret_digest, Diag *diag) {
  const RecordedRun *run = self->run;
  Arena *arena = self->difference.arena;
  PerfModel model;
  model_init(&model, run, arena);
  /* A block is as many bytes as it takes ticks, at a byte a tick. */
  const HostLinkOptions link = {.to_gpu = TICKS_PER_SECOND,
                                .to_cpu = TICKS_PER_SECOND,
                                .half_size = run->transfer_base,
                                .efficiency = 1};
  const PoolSpec pool = {.name = "all",
                         .machine = "recorded",
                         .role = ROLE_MIXED,
                         .count = (uint32_t)run->ranks,
                         .ranks = run->ranks,
                         .pipeline_stages = run->stages,
                         .pipeline_lanes = 1,
                         .perfmodel = &model,
                         .kv_blocks = run->num_gpu_blocks - 1,
                         .block_size = run->block_size,
                         .layout = run->layout.n_groups > 0 ? &run->layout : NULL,
                         .kv_bytes_per_token = 1,
                         .num_hidden_layers = 1,
                         .kv_block_bytes = run->transfer_per_block,
                         .nic_bandwidth = run->connector != CONNECTOR_NIXL ? 1 : block_rate(run),
                         .host_link = {.options = link}};
  const Executor executor = {
      .context = (void *)run, .iteration = rank_ticks, .stage = stage_ticks, .dummy = run->base};
  ArrayTrace trace;
  array_trace_init(&trace, run->rows, (int)run->n_requests);
  SimConfig config = {.pools = &pool,
                      .n_pools = 1,
                      .trace = &trace.source,
                      .pauses = run->pauses,
                      .n_pauses = (uint32_t)run->n_pauses,
                      .model.max_model_len = run->max_model_len,
                      .executor = run->stages > 1 || run->ranks > 1 ? &executor : NULL,
                      .connectors_sleep = true,
                      .on_request = keep_times,
                      .on_request_context = self,
                      .on_step = stepped ? check_step : NULL,
                      .on_step_context = self,
                      .on_drafts = run->n_drafts > 0 ? drafts_of : NULL,
                      .on_drafts_context = self,
                      .interrupted = &self->astray};
  SimResult result;
  self->times = ARENA_ARRAY(arena, RequestTimes, run->n_requests);
  self->next_drafts = ARENA_ARRAY(arena, size_t, run->n_requests);
  for (size_t i = run->n_drafts; i > 0; i--)
    self->next_drafts[run->drafts[i - 1].request] = i - 1;
  for (size_t i = 0; i < run->n_requests; i++)
    self->times[i] = (RequestTimes){-1, -1, -1};
  if (choose_batcher(run, &config, arena, diag) < 0 || sim_run(&config, &result, arena, diag) < 0)
    return -1;
  *ret_digest = result.digest;
  return 0;
}

int recorded_run_replay(const RecordedRun *self, const char **ret_difference, Arena *arena,
                        Diag *diag) {
  Replay stepped = {.run = self, .difference.arena = arena}, coalesced = stepped;
  uint64_t digests[2] = {0};
  Text *difference = &stepped.difference;
  if (simulate(&stepped, true, &digests[0], diag) < 0 && difference->length == 0) return -1;
  if (difference->length == 0 && stepped.n_steps < self->n_steps)
    add(difference, "step %zu: the replay ends before it", stepped.n_steps);
  check_times(difference, self, (const char *[]){"recorded", "replayed"}, self->times,
              stepped.times);
  if (difference->length == 0) {
    if (simulate(&coalesced, false, &digests[1], diag) < 0) return -1;
    check_times(difference, self, (const char *[]){"stepped", "coalesced"}, stepped.times,
                coalesced.times);
    if (difference->length == 0 && digests[0] != digests[1])
      add(difference, "digest: stepped %016llx, coalesced %016llx", (unsigned long long)digests[0],
          (unsigned long long)digests[1]);
  }
  *ret_difference = difference->at;
  return difference->length == 0;
}

const char *const runs_folder = "vllm-scheduler-runs";
/* With EOS tokens, other settings, pauses, drafts, groups of layers, pipelines, ranks, KV
 * connectors, encoder inputs. */
const char *const runs_more[] = {"vllm-feature-runs/eos",
                                 "vllm-feature-runs/settings",
                                 "vllm-feature-runs/pause",
                                 "vllm-feature-runs/speculative",
                                 "vllm-feature-runs/speculative-pressure",
                                 "vllm-feature-runs/hybrid",
                                 "vllm-feature-runs/hybrid-pressure",
                                 "vllm-feature-runs/pipeline",
                                 "vllm-feature-runs/ranks",
                                 "vllm-feature-runs/pd-decode",
                                 "vllm-feature-runs/pd-prefill",
                                 "vllm-feature-runs/offload",
                                 "vllm-feature-runs/encoder",
                                 NULL};

/* Runs that are known to differ, and why. */
static const struct {
  const char *path, *cause;
} exceptions[] = {
    /* Steps 280 and 292: what is written last is evicted last. It follows from 32 being written
     * before 31, though both are of one step and 31 is decided first; in the other runs no eviction
     * hangs on that order. */
    {"offload/003.jsonl.gz", "of two requests whose stores end together, the order in which vLLM "
                             "hears of them is not known"},
};

static const char *cause_of(const char *path) {
  for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++) {
    const size_t length = strlen(path), ending = strlen(exceptions[i].path);
    if (length >= ending && strcmp(path + length - ending, exceptions[i].path) == 0)
      return exceptions[i].cause;
  }
  return NULL;
}

int run_check(RunCheck *ret_check, const char *path, Arena *arena, Diag *diag) {
  RecordedRun run;
  if (recorded_run_load(&run, path, arena, diag) < 0) return -1;
  *ret_check = (RunCheck){.name = run.name, .n_steps = run.n_steps, .n_requests = run.n_requests};
  const int same = recorded_run_replay(&run, &ret_check->difference, arena, diag);
  if (same == 0) ret_check->cause = cause_of(path);
  return same;
}
